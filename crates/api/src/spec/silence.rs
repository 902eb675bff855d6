//! What holds when a worker falls silent.

use sterna_model::{Contract, Span};
use sterna_protocol::limits::Limits;

use super::{
    fields::{Fields, Said},
    problem::Found,
    schema::{Kind, ON_SILENCE},
    tree::Value,
};

const REPLACE: Contract = Contract::Replace { after: Span::from_secs(15) };

const fn stop(kind: Kind) -> Contract {
    let after = match kind {
        Kind::Service => Span::from_secs(2 * 60),
        Kind::Task => Span::from_secs(10 * 60),
    };
    Contract::Stop { after }
}

pub(super) const fn usual(kind: Kind) -> Contract {
    match kind {
        Kind::Service => REPLACE,
        Kind::Task => stop(kind),
    }
}

/// The contract that is said, or the usual one.
pub(super) fn read(fields: &Fields<'_>, kind: Kind, found: &mut Found<'_>) -> Contract {
    let Some(said) = fields.get("on_silence") else { return usual(kind) };
    let read = match &said.node.value {
        Value::Text(_) => {
            let words = [("replace", REPLACE), ("stop", stop(kind)), ("keep", Contract::Keep)];
            said.choice(&words, found)
        }
        Value::Table(_) => table(&said, found),
        Value::Null | Value::Flag(_) | Value::Number(_) | Value::Moment | Value::List(_) => {
            said.expect("a text or a table", found);
            None
        }
    };
    if let (Kind::Task, Some(Contract::Replace { .. })) = (kind, read) {
        // Two of a task may not run, and replacing is just that.
        let reason = "a task is never replaced: it would run twice";
        said.refuse(reason, "write \"stop\" or \"keep\"", found);
    }
    read.unwrap_or_else(|| usual(kind))
}

fn table(said: &Said<'_>, found: &mut Found<'_>) -> Option<Contract> {
    let fields = said.form(&ON_SILENCE, found)?;
    let limits = Limits::default();
    // tidy: not a table
    match (fields.get("replace_after"), fields.get("stop_after")) {
        (Some(said), None) => {
            // Before that nobody counts as silent.
            let least = limits.leader_terms().heartbeat_gap;
            said.span(least, found).map(|after| Contract::Replace { after })
        }
        (None, Some(said)) => {
            // To the second: nobody writes milliseconds here.
            let least = Span::from_secs(limits.stop_after_min().as_millis().div_ceil(1_000));
            said.span(least, found).map(|after| Contract::Stop { after })
        }
        (Some(_), Some(_)) | (None, None) => {
            let reason = "this must have exactly one of replace_after and stop_after";
            said.refuse(reason, "say only one of them, and after how long", found);
            None
        }
    }
}
