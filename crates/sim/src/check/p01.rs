//! P1: a task's command is started at most once, ever; and of a name in one life of the store only one
//! task, for names stay taken far longer than any world lasts (safety rule 27).

use std::collections::BTreeMap;

use sterna_model::{Epoch, RunId, TaskIncarnation, WorkKey};

use super::{Checker, Fact, Promise, Sight};

#[derive(Debug, Default)]
pub(crate) struct StartedOnce {
    runs: BTreeMap<RunId, usize>,
    tasks: BTreeMap<TaskIncarnation, RunId>,
    names: BTreeMap<(WorkKey, Epoch), TaskIncarnation>,
}

impl Checker for StartedOnce {
    const PROMISE: Promise = Promise::P1;

    fn see(&mut self, _sight: &Sight<'_>, fact: &Fact<'_>) -> Option<String> {
        let Fact::Began { run, container } = fact else { return None };
        let (key, machine) = (&container.key, container.machine);
        if let Some(before) = self.runs.insert(*run, machine) {
            return Some(format!("{run:?} of {key} begins on m{machine}, and has on m{before}"));
        }
        let task = container.task?;
        if let Some(before) = self.tasks.insert(task, *run) {
            return Some(format!("{key} begins on m{machine} as {run:?}, and has as {before:?}"));
        }
        let before = self.names.insert((key.clone(), container.reign.0), task)?;
        Some(format!("another {key} begins on m{machine} than {before:?}, which has begun"))
    }
}
