//! Why a run is not sent now: its contract, its key, its door, or the worker that it is for.

use sterna_model::{Contract, Incarnation, RunId, WorkKey};

use super::{Fleet, runs::Entry};
use crate::{
    health::Health,
    limits::Limits,
    message::StreamId,
    planted::{Mistake, is_planted},
};

/// Why a run was not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum NotSent {
    /// That life of a worker is not here.
    NotHere,
    /// It is not healthy, or does not know that it is, or what it runs is not known yet.
    NotHealthy,
    /// It is draining, or does not know that it is not.
    Draining,
    /// Work of its kind does not start yet: somebody may be missing who runs it (safety rule 20).
    NotOpen,
    /// Another run of its key may be running, on this machine or any other: it waits for that (safety
    /// rule 20).
    KeyIsHeld,
    /// Only instances of services are replaced (safety rule 22).
    NotReplaceable,
    /// It may outlast what the limits count on, `stop_after_max` or `has_kept_claims`, for batches
    /// `batch_stop_after_max` or `has_kept_batches`: limits that allow for it must be committed first (safety rule 11).
    AboveMark,
    /// Its `stop_after` is below the shortest: it would be stopped before its worker is given up
    /// (safety rule 11).
    BelowLoss,
    /// The numbers of this association are used up.
    NoMoreNumbers,
    /// This server does not lead any more, or not now.
    NotLeading,
}

impl Fleet {
    /// Why no run of this key may be sent under this contract now, to anybody; to be asked before a
    /// claim is committed.
    pub fn contract_objection(&self, key: &WorkKey, contract: Contract) -> Option<NotSent> {
        let limits = self.book.newest();
        let is_batch = key.is_in_batch();
        let is_wrong = match contract {
            Contract::Replace { .. } => !key.may_have_twin(),
            Contract::Stop { .. } | Contract::Keep => false,
        };
        let is_open = match (is_batch, contract) {
            (true, Contract::Stop { .. }) => self.doors.stop_batches,
            (true, Contract::Keep | Contract::Replace { .. }) => self.doors.keep_batches,
            (false, Contract::Stop { .. } | Contract::Replace { .. }) => self.doors.unclaimed,
            (false, Contract::Keep) => self.doors.unclaimed_kept,
        };
        let is_above = limits.raised_for(key, contract).is_some();
        let shortest = self.book.largest(Limits::stop_after_min);
        let is_below = contract.stop_after().is_some_and(|after| after < shortest);
        let reasons = [
            (is_wrong, NotSent::NotReplaceable),
            (self.is_taken(key, contract), NotSent::KeyIsHeld),
            (!is_open, NotSent::NotOpen),
            (is_above, NotSent::AboveMark),
            (is_below, NotSent::BelowLoss),
        ];
        reasons.into_iter().find(|(holds, _)| *holds).map(|(_, why)| why)
    }

    /// Who speaks on this stream.
    pub fn life_on(&self, stream: StreamId) -> Option<Incarnation> {
        let peer = self.peers.on(stream).and_then(|slot| self.peers.at(slot));
        peer.map(|peer| peer.incarnation)
    }

    /// Why no run may be sent to this worker now; to be asked before a claim is committed.
    ///
    /// It may be judged healthy by time alone, and takes work when it is told so: with its next heartbeat.
    pub fn worker_objection(&self, to: Incarnation) -> Option<NotSent> {
        let peer = self.peers.get(&to.lock).filter(|peer| peer.incarnation == to);
        let Some(peer) = peer.filter(|peer| peer.stream().is_some()) else {
            return Some(NotSent::NotHere);
        };
        let is_healthy =
            peer.vitals.health() == Health::Healthy && peer.is_confirmable() && peer.is_permitted;
        let is_draining = peer.is_draining || peer.thinks_it_drains || peer.is_leaving;
        let reasons = [(!is_healthy, NotSent::NotHealthy), (is_draining, NotSent::Draining)];
        reasons.into_iter().find(|(holds, _)| *holds).map(|(_, why)| why)
    }

    /// Everything of a key that may be running.
    fn runs_of<'a>(&'a self, key: &'a WorkKey) -> impl Iterator<Item = &'a Entry> {
        let held = |run: RunId| self.holders(run).map(move |slot| (run, slot));
        let entry = |(run, slot)| self.peers.at(slot)?.runs().get(run);
        let all = self.keys.candidates(key).flat_map(held).filter_map(entry);
        all.filter(move |entry| entry.key == *key)
    }

    /// Whether another run of a key would be one too many: the second, or of an instance under
    /// `replace` the third (safety rules 20 and 22).
    fn is_taken(&self, key: &WorkKey, contract: Contract) -> bool {
        if is_planted(Mistake::StartsAThird) {
            return false;
        }
        let may_be_replaced = |contract: Contract| match contract {
            Contract::Replace { .. } => key.may_have_twin(),
            Contract::Stop { .. } | Contract::Keep => false,
        };
        let is_twin = |entry: &Entry| may_be_replaced(entry.contract);
        let room = if may_be_replaced(contract) && self.runs_of(key).all(is_twin) { 2 } else { 1 };
        self.runs_of(key).count() >= room
    }
}
