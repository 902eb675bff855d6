//! Of which keys something else may be told than before.

use std::collections::BTreeSet;

use sterna_model::{
    Lock, WorkKey,
    record::{TaskPhase, TaskState},
};
use sterna_protocol::scheduler::Reach;

use super::{Detail, Rule};
use crate::control::{Control, Now};

impl Control {
    /// Notes from now on of which keys something else may be told. Whatever may not be as it should be is
    /// noted at once: what runs is looked at, too, for its worker may not come back.
    pub(crate) fn follow(&mut self) {
        let is_there = |state: &TaskState| match state {
            TaskState::Pending | TaskState::Running { .. } | TaskState::Resolving { .. } => true,
            TaskState::Completed { .. } => false,
        };
        let tasks = self.tasks.iter().filter(|(_, (task, _))| is_there(task.state()));
        let tasks = tasks.map(|(key, _)| key.to_work());
        let instances = self.instances.iter().map(|(key, _)| WorkKey::Instance(key));
        self.touched = Some(tasks.chain(instances).collect());
    }

    /// What was noted since it was last asked.
    pub(crate) fn take_touched(&mut self) -> BTreeSet<WorkKey> {
        self.touched.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Something else may be told of a key.
    pub(in crate::control) fn touch(&mut self, key: &WorkKey) {
        if let Some(touched) = &mut self.touched {
            touched.insert(key.clone());
        }
    }

    /// Something else may be told of whatever a machine has.
    pub(in crate::control) fn touch_all_on(&mut self, lock: Lock) {
        if self.touched.is_none() {
            return;
        }
        for run in self.runs_on(lock) {
            let key = self.seats.key_of(run).cloned();
            key.into_iter().for_each(|key| self.touch(&key));
        }
    }

    /// Which rule keeps a key, as [`Control::why`] tells it, without the words that cost a look at all
    /// workers. That it is over keeps a task from nothing, and most that are looked at are over by then:
    /// how they ended is not put into words for nobody.
    pub(crate) fn rule(
        &self,
        now: Now,
        key: &WorkKey,
        reach: impl Fn(Lock) -> Reach,
    ) -> Option<Rule> {
        let task = key.task().and_then(|key| self.tasks.get(key));
        if task.is_some_and(|(task, _)| task.phase() == TaskPhase::Completed) {
            return None;
        }
        self.why_of(now, key, Detail::Rule, reach).map(|why| why.rule)
    }
}
