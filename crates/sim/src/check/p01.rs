//! P1: a task's command is started at most once, ever; and of a name in one life of the store only one
//! task, for names stay taken far longer than any world lasts (safety rule 27). Of a run each step becomes
//! its command once, whoever of its worker and its guardian is killed between two of them.
//!
//! A store that was set back may have lost a task that has run. A client that was told nothing, and
//! asks for it again, asks for another start: nobody can know. Nor can a server that was told nothing of
//! what is lost: a task that is pending in what is left is started by it.

use std::collections::{BTreeMap, BTreeSet};

use sterna_engine::control::Call;
use sterna_executor::container::Step;
use sterna_model::{Epoch, RunId, TaskIncarnation, WorkKey};

use super::{Checker, Fact, Promise, Sight};

#[derive(Debug, Default)]
pub(crate) struct StartedOnce {
    runs: BTreeMap<RunId, usize>,
    /// The setup steps of each run that have begun, and whether its main one has.
    steps: BTreeSet<(RunId, Option<u32>)>,
    tasks: BTreeMap<TaskIncarnation, RunId>,
    names: BTreeMap<(WorkKey, Epoch), TaskIncarnation>,
    /// How often the store was set back, and how often before each task was asked for.
    restores: u64,
    asked: BTreeMap<TaskIncarnation, u64>,
}

impl StartedOnce {
    fn forget_lost(&mut self, sight: &Sight<'_>) {
        let Self { names, tasks, .. } = self;
        names.retain(|(key, _), task| {
            let known = key.task().and_then(|key| sight.stored.task(key)).map(|(known, _)| known);
            let known = known.filter(|known| known.incarnation() == *task);
            let is_pending =
                known.is_some_and(|known| known.placed().is_none() && known.end().is_none());
            if is_pending {
                tasks.remove(task);
            }
            known.is_some() && !is_pending
        });
    }
}

impl Checker for StartedOnce {
    const PROMISE: Promise = Promise::P1;

    fn see(&mut self, sight: &Sight<'_>, fact: &Fact<'_>) -> Option<String> {
        if let Fact::Restored = fact {
            self.restores += 1;
        }
        if let Fact::Asked { call: Call::CreateTask(_, task, _), .. } = fact
            && self.asked.insert(*task, self.restores).is_some_and(|before| before < self.restores)
        {
            self.tasks.remove(task);
        }
        if let Fact::TookOffice { is_unaware: true } = fact {
            self.forget_lost(sight);
        }
        if let Fact::Execed { run, container, step } = fact {
            let number = match step {
                Step::Setup(number) => Some(*number),
                Step::Run => None,
            };
            let (key, machine) = (&container.key, container.machine);
            return (!self.steps.insert((*run, number)))
                .then(|| format!("{step:?} of {run:?} of {key} begins twice on m{machine}"));
        }
        let Fact::Began { run, container } = fact else { return None };
        let (key, machine) = (&container.key, container.machine);
        if let Some(before) = self.runs.insert(*run, machine) {
            // Everything of it may be killed between two steps, together with whoever watches it.
            return (before != machine)
                .then(|| format!("{run:?} of {key} begins on m{machine}, and has on m{before}"));
        }
        let task = container.task?;
        if let Some(before) = self.tasks.insert(task, *run) {
            return Some(format!("{key} begins on m{machine} as {run:?}, and has as {before:?}"));
        }
        let before = self.names.insert((key.clone(), container.reign.0), task)?;
        Some(format!("another {key} begins on m{machine} than {before:?}, which has begun"))
    }
}
