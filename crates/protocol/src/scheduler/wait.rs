//! For whom this leader waits, and who leaves the roster.

use sterna_model::{BootTime, Incarnation, Lock, Span};

use super::{
    Effect, Fleet,
    peer::{Enrolment, Peer},
};
use crate::{
    consensus,
    planted::{Mistake, is_planted},
    roster::{self, Agreement, Awaited, Doors, Origin, Patience, Presence},
};

impl Fleet {
    /// For whom batches wait, and how long; empty when they do not. After a restore they also wait for
    /// [`Input::RosterIsComplete`], whoever is here, and what is not kept waits until
    /// [`Fleet::safe_at`].
    ///
    /// [`Input::RosterIsComplete`]: super::Input::RosterIsComplete
    pub fn awaited(&self, now: BootTime) -> Vec<Awaited> {
        if self.doors.are_all_open() {
            return Vec::new();
        }
        let is_missing = |peer: &Peer| !self.is_present(peer) && !self.is_gone_for_keep(now, peer);
        let missing = self.peers.iter().filter(|peer| is_missing(peer)).map(|peer| Awaited {
            lock: peer.incarnation.lock,
            name: peer.name.clone(),
            until: (!self.may_be_kept()).then(|| self.gone_at(peer)),
        });
        missing.collect()
    }

    /// When everything under `stop` that may run anywhere has ended by itself: the safe wait, from
    /// the election (safety rule 20).
    pub fn safe_at(&self) -> BootTime {
        let wait = match self.origin {
            Origin::Virgin => Span::ZERO,
            Origin::Continued => self.marks().batch_stop_after_max,
            // What was claimed since may be lost with the store.
            Origin::Recovered | Origin::Rebuilt => self.marks().stop_after_max,
        };
        self.elected.plus(wait)
    }

    /// Nobody is missing from the roster. That says neither who is back nor what was claimed.
    pub(super) fn trust_roster(&mut self) {
        match self.origin {
            Origin::Recovered => {
                self.origin = Origin::Rebuilt;
                // Those who came meanwhile are part of it.
                self.peers.all_mut().for_each(|peer| peer.was_enrolled = true);
                self.peers.wake_all();
            }
            Origin::Virgin | Origin::Continued | Origin::Rebuilt => {}
        }
    }

    /// Opens what may be opened now.
    pub(super) fn open_doors(&mut self, now: BootTime, effects: &mut Vec<Effect>) {
        if self.doors.are_all_open() {
            return;
        }
        let presence = |is_gone: fn(&Self, BootTime, &Peer) -> bool| {
            let is_here = |peer: &Peer| self.is_present(peer) || is_gone(self, now, peer);
            let is_complete = self.peers.iter().all(is_here);
            let is_complete = is_complete || is_planted(Mistake::IgnoresRoster);
            if is_complete { Presence::Complete } else { Presence::Missing }
        };
        let patience = if now >= self.safe_at() || is_planted(Mistake::OpensAllDoors) {
            Patience::Over
        } else {
            Patience::Waiting
        };
        let agreement = match self.consensus.agreement() {
            consensus::Agreement::Reached => Agreement::Reached,
            consensus::Agreement::NoWorkers
            | consensus::Agreement::Blank(_)
            | consensus::Agreement::Split(_)
            | consensus::Agreement::Others { .. } => Agreement::Lacking,
        };
        let kept = presence(Self::is_gone_for_keep);
        let keep_batches = roster::keep_batches(self.origin, kept);
        let stop_batches = roster::stop_batches(
            self.origin,
            presence(Self::is_gone_for_stop),
            agreement,
            patience,
        );
        let unclaimed_kept = roster::unclaimed_kept(self.origin, kept, patience);
        let may = Doors {
            // What is to be stopped or replaced now may have been kept when it was claimed, and that
            // claim may be lost.
            unclaimed: roster::unclaimed(self.origin, patience)
                && (unclaimed_kept || !self.marks().has_kept_claims),
            unclaimed_kept,
            // Nothing says under which contract a batch was started: one that is to stop now may be
            // kept where it runs.
            stop_batches: stop_batches && (keep_batches || !self.may_be_kept()),
            keep_batches,
        };
        if self.doors.open(may) {
            effects.push(Effect::Opened(self.doors));
        }
        if self.origin == Origin::Rebuilt && self.doors.are_all_open() {
            effects.push(Effect::Healed);
        }
    }

    /// Whether a worker is back, under this or an earlier life, or was not to be waited for.
    fn is_present(&self, peer: &Peer) -> bool {
        let is_struck = peer.enrolment == Enrolment::Struck && peer.runs().is_empty();
        // Nobody runs anything before it is enrolled.
        peer.is_known || is_struck || !peer.was_enrolled
    }

    /// When nothing under `stop` can run there any more without a new confirmation.
    fn gone_at(&self, peer: &Peer) -> BootTime {
        let wait = match self.origin {
            Origin::Virgin | Origin::Continued => self.marks().batch_stop_after_max,
            Origin::Recovered | Origin::Rebuilt => self.marks().stop_after_max,
        };
        self.counted_from(peer).plus(wait)
    }

    fn is_gone_for_stop(&self, now: BootTime, peer: &Peer) -> bool {
        peer.is_declared_dead
            || peer.is_lost()
                && peer.runs().is_empty()
                && (peer.is_known || self.is_fresh(peer) || now >= self.gone_at(peer))
    }

    /// Whether a machine came in this reign and was never sent anything: then nothing of ours runs
    /// there, for who runs something was on the roster before.
    const fn is_fresh(&self, peer: &Peer) -> bool {
        match self.origin {
            Origin::Virgin | Origin::Continued | Origin::Rebuilt => {
                !peer.was_enrolled && !peer.is_known
            }
            // The roster may have lost it.
            Origin::Recovered => false,
        }
    }

    fn is_gone_for_keep(&self, now: BootTime, peer: &Peer) -> bool {
        let may_keep = !peer.is_known && !self.is_fresh(peer) && self.may_be_kept();
        peer.is_declared_dead || !may_keep && self.is_gone_for_stop(now, peer)
    }

    /// Whether somebody may have a batch under `keep`.
    fn may_be_kept(&self) -> bool {
        match self.origin {
            Origin::Virgin | Origin::Continued => self.marks().has_kept_batches,
            // Whatever says so may be lost with the store.
            Origin::Recovered | Origin::Rebuilt => true,
        }
    }

    /// Takes a worker off the roster when everything that it may run is certainly gone.
    pub(super) fn strike_gone(&mut self, now: BootTime, lock: Lock, effects: &mut Vec<Effect>) {
        let Some(peer) = self.peers.get(&lock) else { return };
        let is_enrolled = peer.enrolment == Enrolment::Done;
        // Who was declared dead stays, so that it is remembered when it comes back.
        if is_enrolled
            && peer.is_lost()
            && !peer.is_declared_dead
            && (self.is_gone_for_keep(now, peer) || is_planted(Mistake::DropsRosterAtLoss))
            && let Some(peer) = self.peers.get_mut(&lock)
        {
            peer.enrolment = Enrolment::Struck;
            effects.push(Effect::Strike(peer.incarnation));
        }
    }

    /// It is out of the roster, because it was to be or because somebody wanted that; if nobody has come
    /// back under its lock, it is forgotten.
    pub(super) fn be_struck(&mut self, struck: Incarnation) {
        let lock = struck.lock;
        let Some(slot) = self.peers.find(&lock) else { return };
        let Some(peer) = self.peers.at(slot) else { return };
        let is_it = peer.incarnation == struck
            && matches!(peer.enrolment, Enrolment::Struck | Enrolment::Done);
        let is_over = peer.is_lost() || peer.is_declared_dead;
        if is_it && is_over && peer.runs().is_empty() {
            if self.names.get(&peer.name) == Some(&slot) {
                self.names.remove(&peer.name);
            }
            self.given_up.insert(struck);
            if peer.is_draining {
                self.draining.insert(lock);
            }
            self.peers.remove(&lock);
            self.dead.remove(&lock);
        }
    }
}
