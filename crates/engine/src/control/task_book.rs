//! All tasks of a leader: their records, the names that stay taken, and the callbacks that are tried.
//!
//! Beyond their number the oldest records and names go first. A name goes for that only when a client no
//! longer repeats a creation of it ([`NAMES_AT_LEAST`]); while none may go, the next task is refused
//! ([`Tasks::has_room_for_names`]). Names that are kept until a client deletes them have a bound of their
//! own, of the same size.
//!
//! It decides nothing about workers and writes nothing: `tasks` and `forgetting` do.

use std::{
    collections::{BTreeMap, btree_map::Range},
    ops::RangeBounds,
};

use sterna_model::{
    RunId, TaskKey, WallTime,
    record::{Task, TaskPhase, TaskState},
    spec::TaskSpec,
};

use super::{
    NAMES_AT_LEAST, Now, Retention, TaskRow, Tombstone, past::Past, tasks::Telling, weight,
};

/// What a record takes beside what its work and its report say.
const RECORD_BYTES: usize = 512;

/// See the door of this file.
#[derive(Clone, Debug, Default)]
pub(super) struct Tasks {
    rows: BTreeMap<TaskKey, TaskRow>,
    tombstones: BTreeMap<TaskKey, Tombstone>,
    /// What is over, in the order in which it goes.
    past: Past,
    retention: Retention,
    /// Callbacks that are being tried.
    callbacks: BTreeMap<TaskKey, Telling>,
    /// Runs that were called lost, and may yet say how they ended.
    lost: BTreeMap<RunId, TaskKey>,
}

/// Records.
impl Tasks {
    pub(super) fn get(&self, key: &TaskKey) -> Option<&TaskRow> {
        self.rows.get(key)
    }

    pub(super) fn get_mut(&mut self, key: &TaskKey) -> Option<&mut TaskRow> {
        self.rows.get_mut(key)
    }

    pub(super) fn contains(&self, key: &TaskKey) -> bool {
        self.rows.contains_key(key)
    }

    pub(super) fn insert(&mut self, key: TaskKey, row: TaskRow) {
        self.rows.insert(key, row);
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&TaskKey, &TaskRow)> {
        self.rows.iter()
    }

    pub(super) fn keys(&self) -> impl Iterator<Item = &TaskKey> {
        self.rows.keys()
    }

    pub(super) fn range(&self, bounds: impl RangeBounds<TaskKey>) -> Range<'_, TaskKey, TaskRow> {
        self.rows.range(bounds)
    }

    /// Takes a record out, with everything that is noted of it beside its name.
    pub(super) fn remove(&mut self, key: &TaskKey) -> Option<TaskRow> {
        let (task, spec) = self.rows.remove(key)?;
        over_at(&task).into_iter().for_each(|at| self.past.drop(at, key));
        if let Some(run) = task.lost() {
            self.lost.remove(&run);
        }
        self.callbacks.remove(key);
        Some((task, spec))
    }
}

/// Lost runs and callbacks.
impl Tasks {
    /// A run was called lost, and may yet say how it ended.
    pub(super) fn note_lost(&mut self, run: RunId, key: &TaskKey) {
        self.lost.insert(run, key.clone());
    }

    pub(super) fn forget_lost(&mut self, run: RunId) {
        self.lost.remove(&run);
    }

    /// The task of a run that was called lost.
    pub(super) fn of_lost(&self, run: RunId) -> Option<&TaskKey> {
        self.lost.get(&run)
    }

    pub(super) fn callback(&self, key: &TaskKey) -> Option<&Telling> {
        self.callbacks.get(key)
    }

    /// The callback of a task, which is tried from now on.
    pub(super) fn callback_mut(&mut self, key: &TaskKey) -> &mut Telling {
        self.callbacks.entry(key.clone()).or_default()
    }

    pub(super) fn end_callback(&mut self, key: &TaskKey) {
        self.callbacks.remove(key);
    }

    /// All callbacks that are being tried.
    pub(super) fn callbacks_mut(&mut self) -> impl Iterator<Item = (&TaskKey, &mut Telling)> {
        self.callbacks.iter_mut()
    }
}

/// What a test takes away, so that a sweep finds it.
#[cfg(test)]
impl Tasks {
    pub(super) fn forget_order(&mut self) {
        self.past = Past::default();
    }

    pub(super) fn forget_callbacks(&mut self) {
        self.callbacks.clear();
    }
}

/// Names, and what goes.
impl Tasks {
    pub(super) fn tombstone(&self, key: &TaskKey) -> Option<&Tombstone> {
        self.tombstones.get(key)
    }

    pub(super) fn tombstone_mut(&mut self, key: &TaskKey) -> Option<&mut Tombstone> {
        self.tombstones.get_mut(key)
    }

    pub(super) fn bury(&mut self, key: TaskKey, stone: Tombstone) {
        self.tombstones.insert(key, stone);
    }

    pub(super) fn tombstones_in(
        &self,
        bounds: impl RangeBounds<TaskKey>,
    ) -> Range<'_, TaskKey, Tombstone> {
        self.tombstones.range(bounds)
    }

    /// How long what is over is kept, and how much of it, from now on.
    pub(super) const fn retain(&mut self, retention: Retention) {
        self.retention = retention;
    }

    /// How many names of tasks stay taken whose record went.
    pub(super) fn names(&self) -> usize {
        self.tombstones.len()
    }

    /// When the next record or name goes by its time.
    pub(super) fn deadline(&self) -> Option<WallTime> {
        self.past.deadline(&self.retention)
    }

    /// Whether the name of one more task can be kept for a while, when it is over.
    pub(super) fn has_room_for_names(&self, now: Now) -> bool {
        self.past.names() < self.retention.names_max || self.surplus_name(now).is_some()
    }

    /// Whether the name of one more task can be kept until somebody deletes it. These are counted by
    /// themselves: no time frees them, and nobody else's task is to wait for that.
    pub(super) fn has_room_for_kept_names(&self) -> bool {
        let kept = self.tombstones.len() - self.past.names();
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
        if let Some(at) = stone.map(|stone| stone.at) {
            self.past.keep_name(at, key);
        }
    }

    /// A task changed: its record may go some time, or not yet.
    pub(super) fn mind(&mut self, key: &TaskKey) {
        let Some((task, spec)) = self.rows.get(key) else { return };
        let Some(at) = over_at(task) else { return };
        if may_go(task, spec) {
            let bytes = RECORD_BYTES + weight::of_task(task, spec);
            self.past.keep(at, key, bytes as u64);
        } else {
            self.past.drop(at, key);
        }
    }

    /// Whether the order has what it must have of a task.
    pub(super) fn is_minded(&self, key: &TaskKey) -> bool {
        let Some((task, spec)) = self.rows.get(key) else { return true };
        let at = over_at(task).filter(|_| may_go(task, spec));
        at.is_none_or(|at| self.past.has_record(at, key))
    }

    /// Whether a name that is free some time is in the order of these.
    pub(super) fn is_name_minded(&self, key: &TaskKey) -> bool {
        let stone = self.tombstones.get(key).filter(|stone| !stone.is_kept);
        stone.is_none_or(|stone| self.past.has_name(stone.at, key))
    }

    /// The next record that goes, if one is to.
    pub(super) fn record_to_forget(&self, now: Now) -> Option<TaskKey> {
        let (at, key) = self.past.first_record()?;
        let is_due = at.plus(self.retention.tasks) <= now.wall;
        (is_due || self.past.is_too_much(&self.retention)).then(|| key.clone())
    }

    /// The next name that has had its time.
    pub(super) fn name_to_free(&self, now: Now) -> Option<TaskKey> {
        let (at, key) = self.past.first_name()?;
        (at.plus(self.retention.names) <= now.wall).then(|| key.clone())
    }

    /// The next name that goes because there are too many, if one may.
    pub(super) fn surplus_name(&self, now: Now) -> Option<TaskKey> {
        let (at, key) = self.past.first_name()?;
        let is_old = at.plus(NAMES_AT_LEAST) <= now.wall;
        let is_surplus = self.past.names() >= self.retention.names_max;
        (is_old && is_surplus).then(|| key.clone())
    }

    /// A name is free again; gives whether it was taken.
    pub(super) fn free(&mut self, key: &TaskKey) -> bool {
        let Some(stone) = self.tombstones.remove(key) else { return false };
        self.past.drop_name(stone.at, key);
        true
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
