//! What is committed: the roster, claims, the lease. A commit of a deposed leader does not apply.

use std::collections::BTreeMap;

use sterna_model::{BootTime, Incarnation, Lock, Revision, RunId, Term, WorkKey};
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
    Strike(Incarnation),
    DeclareDead(Lock),
    Claim(Dispatch),
    Release(RunId, Fate),
    /// A status is recorded; the last part says what that does to a claim.
    Record(Report, Option<Fate>),
}

#[derive(Default)]
pub(crate) struct Store {
    pub(crate) term: u64,
    pub(crate) lease_until: u64,
    /// Those that somebody may go by; the newest last.
    pub(crate) limits: Vec<Limits>,
    pub(crate) revision: u64,
    pub(crate) roster: BTreeMap<Lock, Enrolled>,
    pub(crate) had_roster: bool,
    pub(crate) tasks: BTreeMap<WorkKey, Task>,
    pub(crate) slots: BTreeMap<WorkKey, Vec<Claim>>,
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

    /// Gives whether it applied.
    pub(crate) fn apply(&mut self, now: u64, term: Term, op: &Op) -> bool {
        if term != Term::new(self.term) {
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
                if let Some(before) = self.roster.get(&lock) {
                    entry.is_declared_dead = before.is_declared_dead;
                    entry.is_draining = before.is_draining;
                }
                self.roster.insert(lock, entry);
            }
            Op::Revive(life) => {
                let entry = self.roster.get_mut(&life.lock);
                if let Some(entry) = entry.filter(|entry| entry.incarnation == *life) {
                    entry.is_declared_dead = false;
                }
            }
            Op::Strike(life) => {
                if self.roster.get(&life.lock).is_some_and(|entry| entry.incarnation == *life) {
                    self.roster.remove(&life.lock);
                }
            }
            Op::DeclareDead(lock) => {
                if let Some(entry) = self.roster.get_mut(lock) {
                    entry.is_declared_dead = true;
                }
            }
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
