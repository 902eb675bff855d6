//! P5: what was acknowledged is never lost.
//!
//! A task that a client was told of is in the store, and stays there. A result of which a worker
//! was told that it is recorded stands in the task's record. Only a store that was set back loses
//! what came since.

use std::collections::BTreeMap;

use sterna_model::TaskIncarnation;
use sterna_store::Key;

use super::{Checker, Fact, Promise};
use crate::{
    clock::Moment,
    record::{Record, TaskEnd, TaskState, work_key},
};

#[derive(Debug, Default)]
pub(crate) struct Kept {
    /// What the store has said of each task last.
    tasks: BTreeMap<Key, (Moment, TaskIncarnation, TaskState)>,
    /// Set when the store was set back: what it says is not what it said.
    is_restored: bool,
}

impl Checker for Kept {
    const PROMISE: Promise = Promise::P5;

    fn see(&mut self, now: Moment, fact: &Fact<'_>) -> Option<String> {
        match fact {
            Fact::Committed { applied, shelf } => {
                for change in &applied.changes {
                    let record = change.value.as_ref().and_then(|value| shelf.get(value));
                    if let Some(Record::Task(task)) = record {
                        let said = (now, task.incarnation, task.state.clone());
                        self.tasks.insert(change.key.clone(), said);
                    } else if self.tasks.contains_key(&change.key) {
                        return Some(format!("{} is gone from the store", change.key));
                    }
                }
                None
            }
            Fact::Acknowledged { key, incarnation } => {
                let stored = self.tasks.get(&work_key(key)).map(|(_, stored, _)| *stored);
                (stored != Some(*incarnation) && !self.is_restored)
                    .then(|| format!("{key} was acknowledged and is not in the store"))
            }
            Fact::Forgotten { run, key, result } => {
                if self.is_restored {
                    return None;
                }
                match self.tasks.get(&work_key(key)) {
                    Some((_, _, TaskState::Ended(TaskEnd::Result(recorded, is)))) => {
                        let is_its = recorded == run && is == result;
                        (!is_its)
                            .then(|| format!("{key} has the result of {recorded:?}, not {run:?}"))
                    }
                    Some((_, _, TaskState::Ended(TaskEnd::NeverTaken))) => None,
                    other => Some(format!(
                        "the result of {key} was acknowledged, and the store says {other:?}"
                    )),
                }
            }
            Fact::Restored => {
                self.is_restored = true;
                None
            }
            Fact::Sent { .. }
            | Fact::Began { .. }
            | Fact::Gone { .. }
            | Fact::WorkerGone { .. }
            | Fact::GuardianStopped { .. }
            | Fact::Enrolled { .. }
            | Fact::Confirmed { .. }
            | Fact::Calm
            | Fact::Well
            | Fact::NotWell { .. } => None,
        }
    }
}
