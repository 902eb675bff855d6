//! What a leader commits, and what that does to records.

use sterna_model::{Contract, Incarnation, Lock, RunId, TaskIncarnation, WorkKey};
use sterna_protocol::{
    limits::Limits,
    message::News,
    roster::Enrolled,
    scheduler::{Claim, Dispatch, Report},
};
use sterna_store::{
    Key,
    cluster::{Cluster, Stage},
};

use crate::{
    planted::{Mistake, is_planted},
    record::{LIMITS, Record, Records, Task, TaskEnd, TaskState, roster_key, work_key},
    words,
};

/// Returns of a task at most (safety rule 6).
const RETURNS_MAX: u32 = 3;

/// One thing to be committed.
#[derive(Clone, Debug)]
pub(crate) enum Op {
    Enroll(Enrolled),
    /// It has ended what it had when it was declared dead.
    Revive(Incarnation),
    Strike(Incarnation),
    DeclareDead(Lock),
    Drain(Lock, bool),
    Limits(Limits),
    /// Nobody goes by limits from before this version.
    Retire(u64),
    /// What was lost when the store was set back cannot be running any more.
    Healed,
    /// A client wants this.
    Create(WorkKey, TaskIncarnation, Contract),
    /// Before it is sent.
    Claim(Dispatch),
    /// A run was certainly not started.
    Return(WorkKey, RunId),
    /// A run is gone, and nobody says how.
    Lose(WorkKey, RunId),
    /// A run that a worker has, and that no record named.
    Adopt(WorkKey, Claim),
    /// A status; the key is known if the run is.
    Report(Option<WorkKey>, Report),
    /// A task ends without having run, or nobody knows.
    End(WorkKey, TaskEnd),
}

/// Records as they will be.
pub(crate) struct View<'a> {
    old: &'a Records,
    new: Records,
    removed: Vec<Key>,
    cluster: Cluster,
    /// The limits of a store that has none.
    usual: Limits,
    stage: Option<Stage>,
}

impl<'a> View<'a> {
    pub(crate) const fn new(old: &'a Records, cluster: Cluster, usual: Limits) -> Self {
        Self { old, new: Records::new(), removed: Vec::new(), cluster, usual, stage: None }
    }

    pub(crate) fn finish(mut self) -> (Records, Vec<Key>, Option<Stage>) {
        let new = &self.new;
        self.removed.retain(|key| !new.contains_key(key));
        (self.new, self.removed, self.stage)
    }

    fn get(&self, key: &Key) -> Option<Record> {
        let is_removed = self.removed.contains(key) && !self.new.contains_key(key);
        self.new.get(key).or_else(|| self.old.get(key)).filter(|_| !is_removed).cloned()
    }

    fn put(&mut self, key: Key, record: Record) {
        self.new.insert(key, record);
    }

    fn remove(&mut self, key: Key) {
        self.new.remove(&key);
        self.removed.push(key);
    }

    fn change_task(&mut self, key: &WorkKey, change: impl FnOnce(&mut Task)) {
        if let Some(Record::Task(mut task)) = self.get(&work_key(key)) {
            change(&mut task);
            self.put(work_key(key), Record::Task(task));
        }
    }

    fn change_slots(&mut self, key: &WorkKey, change: impl FnOnce(&mut Vec<Claim>)) {
        let mut slots = match self.get(&work_key(key)) {
            Some(Record::Instance(slots)) => slots,
            Some(Record::Task(_) | Record::Enrolled(_) | Record::Limits(_)) | None => Vec::new(),
        };
        change(&mut slots);
        self.put(work_key(key), Record::Instance(slots));
    }

    fn change_entry(&mut self, lock: Lock, change: impl FnOnce(&mut Enrolled)) {
        if let Some(Record::Enrolled(mut entry)) = self.get(&roster_key(lock)) {
            change(&mut entry);
            self.put(roster_key(lock), Record::Enrolled(entry));
        }
    }
}

/// Puts one operation into the records.
pub(crate) fn apply(op: &Op, view: &mut View<'_>) {
    match op {
        Op::Enroll(entry) => {
            if view.cluster.stage == Stage::Virgin {
                view.stage = Some(Stage::Used);
            }
            let key = roster_key(entry.incarnation.lock);
            let mut entry = entry.clone();
            // The marks of an entry that stands stay as they are.
            if let Some(Record::Enrolled(stands)) = view.get(&key) {
                entry.is_declared_dead = stands.is_declared_dead;
                entry.is_draining = stands.is_draining;
            }
            view.put(key, Record::Enrolled(entry));
        }
        Op::Revive(life) => view.change_entry(life.lock, |entry| {
            if entry.incarnation == *life {
                entry.is_declared_dead = false;
            }
        }),
        Op::Strike(life) => strike(*life, view),
        Op::DeclareDead(lock) => view.change_entry(*lock, |entry| entry.is_declared_dead = true),
        Op::Drain(lock, is_draining) => {
            view.change_entry(*lock, |entry| entry.is_draining = *is_draining);
        }
        Op::Limits(limits) => {
            let key = Key::from(LIMITS);
            let mut all = match view.get(&key) {
                Some(Record::Limits(all)) => all,
                Some(Record::Task(_) | Record::Enrolled(_) | Record::Instance(_)) | None => {
                    Vec::new()
                }
            };
            let limits = limits.after(all.last().unwrap_or(&view.usual));
            all.push(limits);
            view.put(key, Record::Limits(all));
        }
        Op::Retire(oldest) => {
            let key = Key::from(LIMITS);
            if let Some(Record::Limits(mut all)) = view.get(&key) {
                all.retain(|limits| limits.version >= *oldest);
                view.put(key, Record::Limits(all));
            }
        }
        Op::Healed => view.stage = Some(Stage::Used),
        Op::Create(key, incarnation, contract) => {
            let (incarnation, contract) = (*incarnation, *contract);
            let state = TaskState::Pending;
            let epoch = view.cluster.epoch;
            let key_of = key.clone();
            let task = Task { incarnation, key: key_of, contract, epoch, returns: 0, state };
            view.put(work_key(key), Record::Task(task));
        }
        Op::Claim(dispatch) => claim(dispatch, view),
        Op::Return(key, run) => give_back(key, *run, view),
        Op::Lose(key, run) => lose(key, *run, view),
        Op::Adopt(key, claim) => match claim.task {
            Some(_) => view.change_task(key, |task| {
                if task.state == TaskState::Pending {
                    task.state = TaskState::Claimed(claim.clone());
                }
            }),
            None => view.change_slots(key, |slots| slots.push(claim.clone())),
        },
        Op::Report(Some(key), report) => record(key, report, view),
        Op::Report(None, _) => {}
        Op::End(key, end) => {
            view.change_task(key, |task| task.state = TaskState::Ended(end.clone()));
        }
    }
}

fn strike(life: Incarnation, view: &mut View<'_>) {
    let key = roster_key(life.lock);
    if matches!(view.get(&key), Some(Record::Enrolled(entry)) if entry.incarnation == life) {
        view.remove(key);
    }
}

fn claim(dispatch: &Dispatch, view: &mut View<'_>) {
    let claim = claim_of(dispatch);
    match dispatch.task {
        Some(_) => {
            view.change_task(&dispatch.key, |task| task.state = TaskState::Claimed(claim));
        }
        None => view.change_slots(&dispatch.key, |slots| slots.push(claim)),
    }
}

pub(crate) fn claim_of(dispatch: &Dispatch) -> Claim {
    let Dispatch { to, run, key, task, contract, .. } = dispatch;
    Claim { holder: *to, run: *run, key: key.clone(), task: *task, contract: *contract }
}

fn is_claimed_by(task: &Task, run: RunId) -> bool {
    match &task.state {
        TaskState::Claimed(claim) => claim.run == run || is_planted(Mistake::BelievesStaleRuns),
        TaskState::Pending | TaskState::Ended(_) => false,
    }
}

fn give_back(key: &WorkKey, run: RunId, view: &mut View<'_>) {
    match &key.work {
        sterna_model::Work::Task(_) => view.change_task(key, |task| {
            if is_claimed_by(task, run) {
                task.returns += 1;
                task.state = if task.returns > RETURNS_MAX {
                    TaskState::Ended(TaskEnd::NeverTaken)
                } else {
                    TaskState::Pending
                };
            }
        }),
        sterna_model::Work::Instance { .. } => {
            view.change_slots(key, |slots| slots.retain(|slot| slot.run != run));
        }
        sterna_model::Work::Node { .. } => {}
    }
}

fn lose(key: &WorkKey, run: RunId, view: &mut View<'_>) {
    match &key.work {
        sterna_model::Work::Task(_) => view.change_task(key, |task| {
            if is_claimed_by(task, run) {
                let is_again = is_planted(Mistake::RestartsLostTasks);
                task.state = if is_again {
                    TaskState::Pending
                } else {
                    TaskState::Ended(TaskEnd::Lost(run))
                };
            }
        }),
        sterna_model::Work::Instance { .. } => {
            view.change_slots(key, |slots| slots.retain(|slot| slot.run != run));
        }
        sterna_model::Work::Node { .. } => {}
    }
}

/// Statuses are matched by run (safety rule 24).
fn record(key: &WorkKey, report: &Report, view: &mut View<'_>) {
    let run = report.run;
    match &report.news {
        News::Progress(_) => {}
        News::WasNotRunning => give_back(key, run, view),
        News::Ended(how) => match &key.work {
            sterna_model::Work::Task(_) => view.change_task(key, |task| {
                let is_awaited = is_claimed_by(task, run)
                    // It was called lost, and now it says how it ended.
                    || task.state == TaskState::Ended(TaskEnd::Lost(run));
                if is_awaited {
                    let end = words::number_of(how)
                        .map_or(TaskEnd::Lost(run), |result| TaskEnd::Result(run, result));
                    task.state = TaskState::Ended(end);
                }
            }),
            sterna_model::Work::Instance { .. } => {
                view.change_slots(key, |slots| slots.retain(|slot| slot.run != run));
            }
            sterna_model::Work::Node { .. } => {}
        },
    }
}

/// A claim for what a worker was found to have.
pub(crate) fn found_claim(from: Incarnation, held: &sterna_protocol::message::Held) -> Claim {
    Claim {
        holder: from,
        run: held.run,
        key: held.key.clone(),
        task: held.task,
        contract: held.contract,
    }
}
