//! P1: a task's command is started at most once, ever.

use std::collections::BTreeMap;

use sterna_model::{RunId, TaskIncarnation};

use super::{Checker, Fact, Promise};
use crate::clock::Moment;

#[derive(Debug, Default)]
pub(crate) struct StartedOnce {
    runs: BTreeMap<RunId, usize>,
    tasks: BTreeMap<TaskIncarnation, RunId>,
}

impl Checker for StartedOnce {
    const PROMISE: Promise = Promise::P1;

    fn see(&mut self, _now: Moment, fact: &Fact<'_>) -> Option<String> {
        let Fact::Began { run, container } = fact else { return None };
        let (key, machine) = (&container.key, container.machine);
        if let Some(before) = self.runs.insert(*run, machine) {
            return Some(format!("{run:?} of {key} begins on m{machine}, and has on m{before}"));
        }
        let before = container.task.and_then(|task| self.tasks.insert(task, *run))?;
        Some(format!("{key} begins on m{machine} as {run:?}, and has as {before:?}"))
    }
}
