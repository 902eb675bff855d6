//! What is over: for how long it is kept, and how much of it.
//!
//! ```text
//!   a task is over, and nothing of it runs ──▶ its record ──▶ its name, which stays taken ──▶ nothing
//!                                              a time, and so many        a time, and so many
//! ```
//!
//! Beyond their number the oldest go first. A name goes for that only when a creation of it that somebody
//! repeats is not to be expected any more ([`NAMES_AT_LEAST`]); while none may go, the next task is to be
//! refused ([`Control::has_room_for_names`]). Names that are kept until somebody deletes them have a bound
//! of their own, of the same size.
//!
//! Invariant: what is over and could go is in exactly one of the two orders, by the moment from which
//! its time counts; so is every name that is ever free again.

use std::collections::{BTreeMap, BTreeSet};

use sterna_model::{
    Span, TaskKey, WallTime,
    planted::{Mistake, is_planted},
    record::{Illegal, Task, TaskPhase, TaskState},
    spec::TaskSpec,
};

use super::{Answer, Control, Now, Retention, Row, Timer, Tombstone, weight};

/// So long a name stays taken after its record went, however many there are: a creation that got no
/// answer is repeated within that, if at all.
pub const NAMES_AT_LEAST: Span = Span::from_secs(10 * 60);
/// What a record takes beside what its work and its report say.
const RECORD_BYTES: usize = 512;
/// So many go in one step while others wait to be committed: more than one step can add, mostly.
const GO_AT_ONCE: usize = 2;
/// And so many while little waits. Nobody else's writes wait long behind these.
const GO_WHEN_IDLE: usize = 32;

/// What is over, in the order in which it goes.
#[derive(Clone, Debug, Default)]
pub(super) struct Past {
    /// Records that may go, by when their task was over, and about how many bytes each takes.
    records: BTreeMap<(WallTime, TaskKey), u64>,
    bytes: u64,
    /// Names that are free again some time, by when their record went.
    names: BTreeSet<(WallTime, TaskKey)>,
}

impl Past {
    fn keep(&mut self, at: WallTime, key: &TaskKey, bytes: u64) {
        self.drop(at, key);
        self.bytes += bytes;
        self.records.insert((at, key.clone()), bytes);
    }

    fn drop(&mut self, at: WallTime, key: &TaskKey) {
        if let Some(bytes) = self.records.remove(&(at, key.clone())) {
            self.bytes -= bytes;
        }
    }

    /// Whether there are more records than may be.
    fn is_too_much(&self, retention: &Retention) -> bool {
        let most = match is_planted(Mistake::ForgetsTooMany) {
            true => retention.tasks_max / 2,
            false => retention.tasks_max,
        };
        self.records.len() > most || self.bytes > retention.tasks_bytes_max
    }

    /// When the next of these goes by its time.
    pub(super) fn deadline(&self, retention: &Retention) -> Option<WallTime> {
        let record = self.records.first_key_value().map(|((at, _), _)| at.plus(retention.tasks));
        let name = self.names.first().map(|(at, _)| at.plus(retention.names));
        record.into_iter().chain(name).min()
    }
}

/// Since when a task is over.
const fn over_at(task: &Task) -> Option<WallTime> {
    match task.state() {
        TaskState::Completed { at, .. } | TaskState::Resolving { at, .. } => Some(*at),
        TaskState::Pending | TaskState::Running { .. } => None,
    }
}

/// Whether a record may go: its task is over, nothing of it runs, and whoever asked for it was told.
fn may_go(task: &Task, spec: &TaskSpec) -> bool {
    let is_to_be_told = spec.callback.is_some() && !task.is_told();
    task.phase() == TaskPhase::Completed && task.placed().is_none() && !is_to_be_told
}

impl Control {
    /// How long what is over is kept, and how much of it, from now on.
    pub fn retain(&mut self, retention: Retention) {
        self.retention = retention;
    }

    /// How many names of tasks stay taken whose record went.
    pub fn names(&self) -> usize {
        self.tombstones.len()
    }

    /// Whether the name of one more task can be kept for a while, when it is over.
    pub fn has_room_for_names(&self, now: Now) -> bool {
        self.past.names.len() < self.retention.names_max || self.surplus_name(now).is_some()
    }

    /// Whether the name of one more task can be kept until somebody deletes it. These are counted by
    /// themselves: no time frees them, and nobody else's task is to wait for that.
    pub fn has_room_for_kept_names(&self) -> bool {
        let kept = self.tombstones.len() - self.past.names.len();
        kept < self.retention.names_max
    }

    /// Takes over the names of tasks that an earlier leader has forgotten.
    pub(super) fn take_over_names(&mut self) {
        let names: Vec<_> = self.tombstones.keys().cloned().collect();
        names.iter().for_each(|key| self.mind_name(key));
    }

    /// A name is taken by no record any more: it is free some time, or kept.
    pub(super) fn mind_name(&mut self, key: &TaskKey) {
        let stone = self.tombstones.get(key).filter(|stone| !stone.is_kept);
        self.past.names.extend(stone.map(|stone| (stone.at, key.clone())));
    }

    /// A task changed: its record may go some time, or not yet.
    pub(super) fn mind_past(&mut self, key: &TaskKey) {
        let Some((task, spec)) = self.tasks.get(key) else { return };
        let Some(at) = over_at(task) else { return };
        if may_go(task, spec) {
            let bytes = RECORD_BYTES + weight::of_task(task, spec);
            self.past.keep(at, key, bytes as u64);
        } else {
            self.past.drop(at, key);
        }
    }

    /// Whether the order has what it must have of a task.
    pub(super) fn is_past_minded(&self, key: &TaskKey) -> bool {
        let Some((task, spec)) = self.tasks.get(key) else { return true };
        let at = over_at(task).filter(|_| may_go(task, spec));
        at.is_none_or(|at| self.past.records.contains_key(&(at, key.clone())))
    }

    /// Whether a name that is free some time is in the order of these.
    pub(super) fn is_name_minded(&self, key: &TaskKey) -> bool {
        let stone = self.tombstones.get(key).filter(|stone| !stone.is_kept);
        stone.is_none_or(|stone| self.past.names.contains(&(stone.at, key.clone())))
    }

    /// What has had its time goes, and what is more than may be kept: some at each step.
    pub(super) fn forget_past(&mut self, now: Now) {
        let mut left = if self.outbox.is_short() { GO_WHEN_IDLE } else { GO_AT_ONCE };
        while left > 0
            && let Some(key) = self.past_record(now)
        {
            self.forget_task(now, &key);
            left -= 1;
        }
        while left > 0
            && let Some(key) = self.past_name(now).or_else(|| self.surplus_name(now))
        {
            self.free(&key);
            left -= 1;
        }
    }

    /// The next record that goes, if one is to.
    fn past_record(&self, now: Now) -> Option<TaskKey> {
        let ((at, key), _) = self.past.records.first_key_value()?;
        let is_due = at.plus(self.retention.tasks) <= now.wall;
        (is_due || self.past.is_too_much(&self.retention)).then(|| key.clone())
    }

    /// The next name that has had its time.
    fn past_name(&self, now: Now) -> Option<TaskKey> {
        let (at, key) = self.past.names.first()?;
        (at.plus(self.retention.names) <= now.wall).then(|| key.clone())
    }

    /// The next name that goes because there are too many, if one may.
    fn surplus_name(&self, now: Now) -> Option<TaskKey> {
        let (at, key) = self.past.names.first()?;
        let is_old = at.plus(NAMES_AT_LEAST) <= now.wall;
        let is_surplus = self.past.names.len() >= self.retention.names_max;
        (is_old && is_surplus).then(|| key.clone())
    }

    /// A name is free again.
    fn free(&mut self, key: &TaskKey) {
        let Some(stone) = self.tombstones.remove(key) else { return };
        self.past.names.remove(&(stone.at, key.clone()));
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
        let Some(stone) = self.tombstones.get_mut(key).filter(|stone| stone.is_kept) else {
            return answer;
        };
        (stone.is_kept, stone.at) = (false, now.wall);
        self.outbox.write(Row::Tombstone(key.clone(), Some(stone.clone())));
        self.mind_name(key);
        Answer::Done
    }

    /// The record goes; its name stays taken for a while (safety rule 27), or until it is deleted.
    pub(super) fn forget_task(&mut self, now: Now, key: &TaskKey) {
        let Some((task, spec)) = self.tasks.remove(key) else { return };
        over_at(&task).into_iter().for_each(|at| self.past.drop(at, key));
        if let Some(run) = task.lost() {
            self.lost.remove(&run);
        }
        let (incarnation, is_kept) = (task.incarnation(), spec.keeps_name);
        let stone = Tombstone { incarnation, at: now.wall, is_kept };
        self.callbacks.remove(key);
        self.timers.cancel(&Timer::Task(key.clone()));
        // Whoever found neither would start it a second time.
        self.outbox.keep_together(2);
        self.outbox.write(Row::Task(key.clone(), None));
        if is_planted(Mistake::ForgetsTombstones) {
            return;
        }
        self.outbox.write(Row::Tombstone(key.clone(), Some(stone.clone())));
        self.tombstones.insert(key.clone(), stone);
        if !is_planted(Mistake::KeepsNames) {
            self.mind_name(key);
        }
    }
}
