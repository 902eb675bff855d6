//! What every run takes on its worker, found by the run.
//!
//! A report asks for the seat of its run three times, among hundreds of thousands. In an ordered map each
//! of them goes from node to node, none of which is in the processor's caches any more: that was a third
//! of a step (ADR 19). So runs are found by a hash, which depends on nothing but the run. What is told of
//! many is told in the order of runs.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use hashbrown::HashMap;
use rustc_hash::FxBuildHasher;
use sterna_model::{Lock, RunId, Wants, WorkKey};

use crate::auction::Stage;

/// A run on a worker, and what it takes there.
#[derive(Clone, Debug)]
pub(super) struct Seat {
    pub(super) key: WorkKey,
    pub(super) lock: Lock,
    pub(super) wants: Arc<Wants>,
    pub(super) stage: Stage,
    /// Whether the auction knows of it.
    pub(super) is_counted: bool,
}

/// All seats, by run and by machine.
///
/// Invariant: a run has a seat exactly as long as it stands among the runs of its machine.
#[derive(Clone, Debug, Default)]
pub(super) struct Seats {
    /// Each seat is in a box of its own: the table is twice as large as what is in it, at worst.
    by_run: HashMap<RunId, Box<Seat>, FxBuildHasher>,
    by_machine: BTreeMap<Lock, BTreeSet<RunId>>,
}

impl Seats {
    pub(super) fn get(&self, run: RunId) -> Option<&Seat> {
        self.by_run.get(&run).map(Box::as_ref)
    }

    pub(super) fn get_mut(&mut self, run: RunId) -> Option<&mut Seat> {
        self.by_run.get_mut(&run).map(Box::as_mut)
    }

    pub(super) fn insert(&mut self, run: RunId, seat: Seat) {
        self.by_machine.entry(seat.lock).or_default().insert(run);
        self.by_run.insert(run, Box::new(seat));
    }

    pub(super) fn remove(&mut self, run: RunId) -> Option<Seat> {
        let seat = *self.by_run.remove(&run)?;
        if let Some(runs) = self.by_machine.get_mut(&seat.lock) {
            runs.remove(&run);
            if runs.is_empty() {
                self.by_machine.remove(&seat.lock);
            }
        }
        Some(seat)
    }

    /// The runs on a machine, in their order.
    pub(super) fn on(&self, lock: Lock) -> Vec<RunId> {
        self.by_machine.get(&lock).into_iter().flatten().copied().collect()
    }

    /// How many runs a machine has.
    pub(super) fn count_on(&self, lock: Lock) -> usize {
        self.by_machine.get(&lock).map_or(0, BTreeSet::len)
    }

    /// What is done here.
    pub(super) fn key_of(&self, run: RunId) -> Option<&WorkKey> {
        self.get(run).map(|seat| &seat.key)
    }

    /// The runs of this, in their order. It looks at all seats.
    pub(super) fn runs_of(&self, key: &WorkKey) -> Vec<RunId> {
        let seats = self.by_run.iter().filter(|(_, seat)| seat.key == *key);
        let mut runs: Vec<_> = seats.map(|(run, _)| *run).collect();
        runs.sort_unstable();
        runs
    }
}
