//! Forgetting: which records and names go, and when.

use sterna_model::{
    TaskKey,
    planted::{Mistake, is_planted},
    record::Illegal,
};

use super::{Answer, Control, Now, Retention, Row, Timer, Tombstone};

/// So many go in one step while others wait to be committed: more than one step can add, mostly.
const GO_AT_ONCE: usize = 2;
/// And so many while little waits. Other writes wait only briefly behind these.
const GO_WHEN_IDLE: usize = 32;

impl Control {
    /// How long what is over is kept, and how much of it, from now on.
    pub const fn retain(&mut self, retention: Retention) {
        self.tasks.retain(retention);
    }

    /// How many names of tasks stay taken whose record went.
    pub fn names(&self) -> usize {
        self.tasks.names()
    }

    /// Whether the name of one more task can be kept for a while, when it is over.
    pub fn has_room_for_names(&self, now: Now) -> bool {
        self.tasks.has_room_for_names(now)
    }

    /// Whether the name of one more task can be kept until a client deletes it.
    pub fn has_room_for_kept_names(&self) -> bool {
        self.tasks.has_room_for_kept_names()
    }

    /// What has had its time goes, and what is more than may be kept: some at each step.
    pub(super) fn forget_past(&mut self, now: Now) {
        let mut left = if self.outbox.is_short() { GO_WHEN_IDLE } else { GO_AT_ONCE };
        while left > 0
            && let Some(key) = self.tasks.record_to_forget(now)
        {
            self.forget_task(now, &key);
            left -= 1;
        }
        while left > 0
            && let Some(key) = self.tasks.name_to_free(now).or_else(|| self.tasks.surplus_name(now))
        {
            self.free(&key);
            left -= 1;
        }
    }

    /// A name is free again.
    fn free(&mut self, key: &TaskKey) {
        if !self.tasks.free(key) {
            return;
        }
        self.outbox.write(Row::Tombstone(key.clone(), None));
    }

    /// The record goes. Asked again this does nothing more: a name that is kept stays so.
    pub(super) fn delete_task(&mut self, now: Now, key: &TaskKey) -> Answer {
        let Some((task, _)) = self.tasks.get(key) else { return Answer::NotFound };
        match task.check_delete() {
            // What was cancelled and still runs keeps its name until it is gone.
            Ok(()) if task.placed().is_some() => {
                Answer::Conflict(Illegal { event: "delete", phase: "ending" })
            }
            Ok(()) => {
                self.forget_task(now, key);
                Answer::Done
            }
            Err(illegal) => Answer::Conflict(illegal),
        }
    }

    /// The record goes, and a name that was kept is free after a while, as that of any other.
    pub(super) fn free_name(&mut self, now: Now, key: &TaskKey) -> Answer {
        let answer = self.delete_task(now, key);
        let Some(stone) = self.tasks.tombstone_mut(key).filter(|stone| stone.is_kept) else {
            return answer;
        };
        (stone.is_kept, stone.at) = (false, now.wall);
        let stone = stone.clone();
        self.outbox.write(Row::Tombstone(key.clone(), Some(stone)));
        self.tasks.mind_name(key);
        Answer::Done
    }

    /// The record goes; its name stays taken for a while (safety rule 27), or until it is deleted.
    pub(super) fn forget_task(&mut self, now: Now, key: &TaskKey) {
        let Some((task, spec)) = self.tasks.remove(key) else { return };
        let (incarnation, is_kept) = (task.incarnation(), spec.keeps_name);
        let stone = Tombstone { incarnation, at: now.wall, is_kept };
        self.timers.cancel(&Timer::Task(key.clone()));
        // Whoever found neither would start it a second time.
        self.outbox.keep_together(2);
        self.outbox.write(Row::Task(key.clone(), None));
        if is_planted(Mistake::ForgetsTombstones) {
            return;
        }
        self.outbox.write(Row::Tombstone(key.clone(), Some(stone.clone())));
        self.tasks.bury(key.clone(), stone);
        if !is_planted(Mistake::KeepsNames) {
            self.tasks.mind_name(key);
        }
    }
}
