//! What is committed: the roster, claims, the lease. A commit of a deposed leader does not apply, nor
//! one that was sent before its leader raised the fence counter.

use std::collections::{BTreeMap, BTreeSet};

use sterna_model::{BootTime, Incarnation, Lock, Revision, RunId, WorkKey};
use sterna_protocol::{
    limits::Limits,
    roster::Enrolled,
    scheduler::{Claim, Dispatch, Report},
};

/// How long a renewal keeps challengers off.
pub(crate) const LEASE: u64 = 4_000;
/// How much of it the leader does not use.
pub(crate) const LEASE_MARGIN: u64 = 500;

/// A task, as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Task {
    Pending,
    Claimed(Claim),
    Ended,
}

/// What becomes of a key when its run is settled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It was certainly not started: it may be sent again, as another run.
    Returned,
    /// It may have been started.
    Over,
}

#[derive(Clone, Debug)]
pub(crate) enum Op {
    Renew(BootTime),
    Limits(Limits),
    /// Nobody goes by limits from before this version.
    Retire(u64),
    Enroll(Enrolled),
    Revive(Incarnation),
    Strike(Lock),
    DeclareDead(Lock),
    /// A machine gets no new work, or does again.
    Drain(Lock, bool),
    /// Somebody says that the roster is complete, although the store was restored.
    Complete,
    Claim(Dispatch),
    Release(RunId, Fate),
    /// A status is recorded; the last part says what that does to a claim.
    Record(Report, Option<Fate>),
}

/// By whom a commit was sent: it applies only under the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fence {
    pub(crate) term: u64,
    pub(crate) counter: u64,
}

/// A commit whose answer was lost; it may still be on its way.
#[derive(Clone)]
pub(crate) struct Unknown {
    pub(crate) at: u64,
    pub(crate) fence: Fence,
    pub(crate) write: u64,
    pub(crate) op: Op,
}

#[derive(Clone, Default)]
pub(crate) struct Store {
    pub(crate) epoch: u64,
    pub(crate) term: u64,
    /// Raised by the leader to settle what got no answer.
    pub(crate) counter: u64,
    pub(crate) lease_until: u64,
    /// Those that somebody may go by; the newest last.
    pub(crate) limits: Vec<Limits>,
    pub(crate) revision: u64,
    pub(crate) roster: BTreeMap<Lock, Enrolled>,
    pub(crate) had_roster: bool,
    /// Whether it was restored, and nobody has said since that the roster is complete.
    pub(crate) is_recovered: bool,
    pub(crate) drains: BTreeSet<Lock>,
    pub(crate) tasks: BTreeMap<WorkKey, Task>,
    pub(crate) slots: BTreeMap<WorkKey, Vec<Claim>>,
    /// Commits without an answer, until they arrive.
    pub(crate) unknown: Vec<Unknown>,
    /// Those of them that applied, by their write ids.
    pub(crate) applied: BTreeSet<u64>,
}

impl Store {
    pub(crate) const fn revision(&self) -> Revision {
        Revision::new(self.revision)
    }

    pub(crate) fn claims(&self) -> Vec<Claim> {
        let tasks = self.tasks.values().filter_map(|task| match task {
            Task::Claimed(claim) => Some(claim),
            Task::Pending | Task::Ended => None,
        });
        tasks.chain(self.slots.values().flatten()).cloned().collect()
    }

    pub(crate) const fn fence(&self) -> Fence {
        Fence { term: self.term, counter: self.counter }
    }

    /// What got no answer arrives after all, and applies if its fence still stands.
    pub(crate) fn apply_unknown(&mut self, now: u64) {
        let (due, later) =
            std::mem::take(&mut self.unknown).into_iter().partition(|one| now >= one.at);
        self.unknown = later;
        for Unknown { fence, write, op, .. } in due {
            if self.apply(now, fence, &op) {
                self.applied.insert(write);
            }
        }
    }

    /// Gives whether it applied.
    pub(crate) fn apply(&mut self, now: u64, fence: Fence, op: &Op) -> bool {
        if fence != self.fence() {
            return false;
        }
        self.revision += 1;
        match op {
            Op::Renew(_) => self.lease_until = now + LEASE,
            Op::Limits(limits) => {
                let limits = self.limits.last().map_or(*limits, |before| limits.after(before));
                self.limits.push(limits);
            }
            Op::Retire(oldest) => self.limits.retain(|limits| limits.version >= *oldest),
            Op::Enroll(entry) => {
                self.had_roster = true;
                let lock = entry.incarnation.lock;
                let mut entry = entry.clone();
                // The marks are not the leader's to set: somebody may be setting them now.
                let before = self.roster.get(&lock);
                entry.is_declared_dead = before.is_some_and(|before| before.is_declared_dead);
                entry.is_draining = self.drains.contains(&lock);
                self.roster.insert(lock, entry);
            }
            Op::Revive(life) => {
                let entry = self.roster.get_mut(&life.lock);
                if let Some(entry) = entry.filter(|entry| entry.incarnation == *life) {
                    entry.is_declared_dead = false;
                }
            }
            Op::Strike(lock) => {
                self.roster.remove(lock);
            }
            Op::DeclareDead(lock) => {
                if let Some(entry) = self.roster.get_mut(lock) {
                    entry.is_declared_dead = true;
                }
            }
            Op::Drain(lock, true) => {
                self.drains.insert(*lock);
                self.mark_draining(*lock, true);
            }
            Op::Drain(lock, false) => {
                self.drains.remove(lock);
                self.mark_draining(*lock, false);
            }
            Op::Complete => self.is_recovered = false,
            Op::Claim(Dispatch { to, run, key, task, contract, .. }) => {
                let (run, task, contract) = (*run, *task, *contract);
                let claim = Claim { holder: *to, run, key: key.clone(), task, contract };
                match task {
                    Some(_) => drop(self.tasks.insert(key.clone(), Task::Claimed(claim))),
                    None => self.slots.entry(key.clone()).or_default().push(claim),
                }
            }
            Op::Release(run, fate) => self.release(*run, *fate),
            Op::Record(report, Some(fate)) => self.release(report.run, *fate),
            Op::Record(_, None) => {}
        }
        true
    }

    fn mark_draining(&mut self, lock: Lock, is_draining: bool) {
        if let Some(entry) = self.roster.get_mut(&lock) {
            entry.is_draining = is_draining;
        }
    }

    fn release(&mut self, run: RunId, fate: Fate) {
        for task in self.tasks.values_mut() {
            if matches!(task, Task::Claimed(claim) if claim.run == run) {
                *task = match fate {
                    Fate::Returned => Task::Pending,
                    Fate::Over => Task::Ended,
                };
            }
        }
        for slots in self.slots.values_mut() {
            slots.retain(|claim| claim.run != run);
        }
    }
}
