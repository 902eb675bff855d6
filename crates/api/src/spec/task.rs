//! A task as a file defines it.

use std::sync::Arc;

use sterna_model::{
    Span,
    spec::{TaskSpec, WhenFull},
};

use super::{
    TaskDefinition, command::Command, fields::Fields, placement, policy, problem::Found,
    schema::Kind, silence,
};

pub(super) fn read(fields: &Fields<'_>, found: &mut Found<'_>) -> TaskDefinition {
    let least = Span::from_millis(1);
    let asked = placement::read(fields, Kind::Task, found);
    let mut command = Command::read(fields, &asked, found);
    command.work.timeout = fields.get("timeout").and_then(|said| said.span(least, found));
    let words = [("wait", WhenFull::Wait), ("fail", WhenFull::Fail)];
    let when_full = fields.get("when_full").and_then(|said| said.choice(&words, found));
    let start = fields.get("start").and_then(|said| said.flag(found)).unwrap_or(false);
    let spec = TaskSpec {
        contract: silence::read(fields, Kind::Task, found),
        work: command.into_work(fields, found),
        when_full: when_full.unwrap_or_default(),
        latest_start: None,
        callback: fields.get("callback").and_then(|said| policy::callback(&said, found)),
        keeps_name: start,
        wants: Arc::new(asked.wants),
    };
    let latest_start_after =
        fields.get("latest_start_after").and_then(|said| said.span(least, found));
    TaskDefinition { spec, latest_start_after, start }
}
