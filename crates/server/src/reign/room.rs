//! Whether there is room for one more task. Pure.
//!
//! Invariant: what stands and what is about to stand is never more than the bound; a task that is known
//! needs no room, so that a creation that is repeated is answered as the first was.

use std::collections::BTreeSet;

use sterna_api::rest::{Code, Refused};
use sterna_engine::control::{Call, CallId};
use sterna_model::WorkKey;

/// Room for tasks that are not over.
#[derive(Debug)]
pub(super) struct Room {
    max: usize,
    /// Creations that the leader has taken and that do not stand yet.
    making: BTreeSet<CallId>,
}

impl Room {
    pub(super) const fn new(max: usize) -> Self {
        Self { max, making: BTreeSet::new() }
    }

    /// Takes a call, or says why not. `standing` tasks are not over by the store, and `is_known` tells of
    /// a key whether a task has it, or had it.
    pub(super) fn take(
        &mut self,
        id: CallId,
        call: &Call,
        standing: usize,
        is_known: impl FnOnce(&WorkKey) -> bool,
    ) -> Result<(), Refused> {
        let Call::CreateTask(key, ..) = call else { return Ok(()) };
        if is_known(key) {
            return Ok(());
        }
        if standing.saturating_add(self.making.len()) >= self.max {
            return Err(self.full());
        }
        self.making.insert(id);
        Ok(())
    }

    /// A call was answered: what it has made stands.
    pub(super) fn answered(&mut self, id: CallId) {
        self.making.remove(&id);
    }

    fn full(&self) -> Refused {
        let max = self.max;
        let tasks = if max == 1 { "task is" } else { "tasks are" };
        let message = format!("{max} {tasks} not over yet, and there may be no more at a time");
        let remedy = "wait until one is over, or end one with `sterna cancel`; `sterna server --tasks-max` \
                      says how many there may be";
        Refused { remedy: remedy.into(), ..Refused::new(Code::TooMuch, message) }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use sterna_api::spec::{Source, read};
    use sterna_model::{TaskIncarnation, WallTime};

    use super::*;

    fn create(name: &str) -> Call {
        let text = "version = 1\n[task.t]\nrun = [\"true\"]\n";
        let specs = read(&[Source { name: "t.toml", text }]).unwrap();
        let task = specs.tasks.into_values().next().unwrap();
        let spec = Arc::new(task.made_at(WallTime::EPOCH));
        let key = format!("default/task/{name}").parse().unwrap();
        Call::CreateTask(key, TaskIncarnation::from_parts(WallTime::EPOCH, [1; 10]), spec)
    }

    #[test]
    fn what_is_about_to_stand_takes_room_too() {
        let mut room = Room::new(3);
        let nobody = |_: &WorkKey| false;
        let take = |room: &mut Room, id, standing| {
            room.take(CallId(id), &create("t"), standing, nobody).is_ok()
        };
        assert!(take(&mut room, 1, 1) && take(&mut room, 2, 1), "there is room for two");
        assert!(!take(&mut room, 3, 1), "they are on their way");
        // One stands now; the other is still on its way.
        room.answered(CallId(1));
        assert!(!take(&mut room, 4, 2));
        // One is over.
        assert!(take(&mut room, 5, 1));
    }

    #[test]
    fn what_is_known_and_what_makes_nothing_needs_no_room() {
        let mut room = Room::new(0);
        assert!(room.take(CallId(1), &create("t"), 9, |_| true).is_ok());
        let cancel = Call::CancelTask("default/task/t".parse().unwrap());
        assert!(room.take(CallId(2), &cancel, 9, |_| false).is_ok());
        let refused = room.take(CallId(3), &create("t"), 9, |_| false).unwrap_err();
        assert_eq!(refused.code, Code::TooMuch);
        assert!(refused.remedy.contains("--tasks-max"), "{}", refused.remedy);
    }
}
