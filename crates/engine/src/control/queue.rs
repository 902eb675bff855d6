//! Work that wants a worker: what asks for one in this step, what waits, and why.
//!
//! ```text
//!   ask ──▶ asks ──▶ an auction ──▶ placed
//!    │ may run on a missing worker        │ no worker has room
//!    ▼                                    ▼
//!   kept back, until the doors open      waiting, with its reason ──▶ asks again when something helped
//! ```
//!
//! Invariant: work is in at most one of: asks, kept back, waiting. What waits has a reason.
//!
//! It does not hold auctions and knows no records: `placing` asks it what to place, and says what came of
//! it.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use sterna_model::{TaskKey, WallTime, Wants, WorkKey};
use sterna_protocol::roster::Doors;

use super::placing::Helped;
use crate::auction::{Ask, Reason, Waiting};

/// Everything that wants a worker and has none.
#[derive(Clone, Debug, Default)]
pub(super) struct Queue {
    /// Asks for a worker in this step.
    asks: BTreeMap<WorkKey, Arc<Wants>>,
    /// Asks for one, and may be kept by a worker that is missing (safety rule 25).
    kept_back: BTreeMap<WorkKey, Arc<Wants>>,
    /// Waits for room.
    waiting: Waiting,
    /// Why what waits was not placed.
    reasons: BTreeMap<WorkKey, Arc<Reason>>,
    /// Waits a little because a worker refused it; until when.
    resting: BTreeMap<WorkKey, WallTime>,
    /// Tasks that fail without room, while the leader cannot tell yet whether there is any.
    undecided: BTreeSet<TaskKey>,
    /// What happened in this step that may help what waits.
    helped: Vec<Helped>,
    /// What may start (safety rule 20).
    doors: Doors,
}

impl Queue {
    /// Asks for a worker in this step. Work under `keep` is kept back while a missing worker may run it.
    pub(super) fn ask(&mut self, key: &WorkKey, wants: Arc<Wants>, is_kept: bool) {
        let is_open = !is_kept || self.doors.unclaimed_kept;
        let asks = if is_open { &mut self.asks } else { &mut self.kept_back };
        asks.insert(key.clone(), wants);
    }

    /// No longer wants a worker. Its reason stays until [`Queue::forget_reason`].
    pub(super) fn withdraw(&mut self, key: &WorkKey) {
        self.waiting.forget(key);
        self.asks.remove(key);
        self.kept_back.remove(key);
    }

    /// More may start than before.
    pub(super) fn open(&mut self, doors: Doors) {
        self.doors.open(doors);
        if self.doors.unclaimed_kept {
            self.asks.append(&mut self.kept_back);
        }
    }

    /// Whether anything may start.
    pub(super) const fn is_open(&self) -> bool {
        self.doors.unclaimed
    }

    pub(super) fn is_kept_back(&self, key: &WorkKey) -> bool {
        self.kept_back.contains_key(key)
    }

    /// Whether it asks, now or when the doors open.
    pub(super) fn is_asking(&self, key: &WorkKey) -> bool {
        self.asks.contains_key(key) || self.is_kept_back(key)
    }

    /// How much asks in this step.
    pub(super) fn asks(&self) -> usize {
        self.asks.len()
    }

    /// What asks in this step, for an auction.
    pub(super) fn take_asks(&mut self) -> Vec<Ask> {
        let asks = std::mem::take(&mut self.asks).into_iter();
        asks.map(|(key, wants)| Ask { key, wants }).collect()
    }

    /// What an auction could not give asks once more.
    pub(super) fn ask_again(&mut self, asks: impl IntoIterator<Item = Ask>) {
        self.asks.extend(asks.into_iter().map(|ask| (ask.key, ask.wants)));
    }

    /// The keys of what waits for room or asks in this step.
    pub(super) fn keys(&self) -> impl Iterator<Item = &WorkKey> {
        self.waiting.iter().map(|ask| &ask.key).chain(self.asks.keys())
    }

    /// What waits for room.
    pub(super) const fn waiting(&self) -> &Waiting {
        &self.waiting
    }

    pub(super) const fn waiting_mut(&mut self) -> &mut Waiting {
        &mut self.waiting
    }

    pub(super) fn is_waiting(&self, key: &WorkKey) -> bool {
        self.waiting.get(key).is_some()
    }

    /// Notes why no worker has it.
    pub(super) fn note_reason(&mut self, key: &WorkKey, reason: Arc<Reason>) {
        self.reasons.insert(key.clone(), reason);
    }

    /// Forgets why no worker had it; gives whether there was a reason.
    pub(super) fn forget_reason(&mut self, key: &WorkKey) -> bool {
        self.reasons.remove(key).is_some()
    }

    pub(super) fn reason(&self, key: &WorkKey) -> Option<&Arc<Reason>> {
        self.reasons.get(key)
    }

    pub(super) fn reason_mut(&mut self, key: &WorkKey) -> Option<&mut Arc<Reason>> {
        self.reasons.get_mut(key)
    }

    #[cfg(test)]
    pub(super) fn reasons(&self) -> impl Iterator<Item = (&WorkKey, &Arc<Reason>)> {
        self.reasons.iter()
    }

    /// A worker refused it: it waits until then.
    pub(super) fn rest(&mut self, key: WorkKey, until: WallTime) {
        self.resting.insert(key, until);
    }

    pub(super) fn resting_until(&self, key: &WorkKey) -> Option<WallTime> {
        self.resting.get(key).copied()
    }

    pub(super) fn has_rested(&mut self, key: &WorkKey) {
        self.resting.remove(key);
    }

    /// Changes until when each rests, and gives what it is then.
    pub(super) fn rest_otherwise(
        &mut self,
        otherwise: impl Fn(WallTime) -> WallTime,
    ) -> Vec<(WorkKey, WallTime)> {
        let change = |(key, until): (&WorkKey, &mut WallTime)| {
            *until = otherwise(*until);
            (key.clone(), *until)
        };
        self.resting.iter_mut().map(change).collect()
    }

    /// A task that fails without room waits until the leader can tell whether there is any.
    pub(super) fn leave_undecided(&mut self, key: &TaskKey) {
        self.undecided.insert(key.clone());
    }

    pub(super) fn is_undecided(&self, key: &TaskKey) -> bool {
        self.undecided.contains(key)
    }

    pub(super) fn has_undecided(&self) -> bool {
        !self.undecided.is_empty()
    }

    /// The undecided tasks that still wait for room.
    pub(super) fn take_undecided(&mut self) -> Vec<TaskKey> {
        let all = std::mem::take(&mut self.undecided).into_iter();
        all.filter(|key| self.reasons.contains_key(&key.to_work())).collect()
    }

    /// Something happened that may help what waits.
    pub(super) fn help(&mut self, helped: Helped) {
        self.helped.push(helped);
    }

    /// What helped last, and was not made use of yet.
    pub(super) fn last_help(&self) -> Option<Helped> {
        self.helped.last().copied()
    }

    /// Nothing more is woken by what helped last.
    pub(super) fn use_up_help(&mut self) {
        self.helped.pop();
    }
}
