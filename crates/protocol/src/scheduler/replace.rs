//! Arrivals: whether a worker is whom we know, who may take whose place, and by what commit.

use sterna_model::{BootTime, Incarnation, Lock, Name, Succession};

use super::{
    Effect, Fleet, GoneBy, Settlement,
    peer::{Enrolment, Peer},
};
use crate::{
    health::Health,
    message::{Heartbeat, Order},
    planted::{Mistake, is_planted},
};

/// Whether a worker of another machine may take the name of one that is merely not healthy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Bump {
    /// Only of one that was given up.
    Forbidden,
    /// Also of one that is new or unhealthy (`caution_allow_bump_unhealthy`).
    Allowed,
}

/// What a heartbeat's sender is to the worker that holds its name, or its lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// The same life: go on.
    Known,
    /// The same life, which was given up: it is told so again.
    GivenUp,
    /// A later life under the same lock, which proves the earlier one over.
    Reborn,
    /// An earlier life under the same lock: a heartbeat that was overtaken, and no word.
    Stale,
    /// A worker of another machine, to whom the name goes. Nothing of the old one is forgotten
    /// until it is certainly gone (safety rule 9).
    TakesName,
    /// The same, and the old one is told to give up.
    BumpsOld,
    /// A worker of another machine that must ask again later.
    NameTaken,
    /// A worker of a machine that is not on the roster, where there is no room: it must ask again later.
    Full,
}

/// Decides by how the newcomer's life stands to the holder's, and how the holder is.
#[rustfmt::skip]
pub const fn arrival(newcomer: Succession, holder: Health, bump: Bump) -> Arrival {
    use Bump as B;
    use Health as H;
    use Succession as S;
    match (newcomer, holder, bump) {
        (S::Same,      H::New | H::Unhealthy | H::Healthy,              B::Forbidden | B::Allowed) => Arrival::Known,
        (S::Same,      H::MustDie,                                      B::Forbidden | B::Allowed) => Arrival::GivenUp,
        // The lock proves that the earlier life is over: nobody needs to be told.
        (S::Later,     H::New | H::Unhealthy | H::Healthy | H::MustDie, B::Forbidden | B::Allowed) => Arrival::Reborn,
        (S::Earlier,   H::New | H::Unhealthy | H::Healthy | H::MustDie, B::Forbidden | B::Allowed) => Arrival::Stale,
        (S::Unrelated, H::MustDie,                                      B::Forbidden | B::Allowed) => Arrival::TakesName,
        (S::Unrelated, H::Healthy,                                      B::Forbidden | B::Allowed) => Arrival::NameTaken,
        (S::Unrelated, H::New | H::Unhealthy,                           B::Forbidden)              => Arrival::NameTaken,
        (S::Unrelated, H::New | H::Unhealthy,                           B::Allowed)                => Arrival::BumpsOld,
    }
}

impl Fleet {
    /// Finds out who this is, and makes room for it.
    pub(super) fn arrive(
        &mut self,
        now: BootTime,
        incarnation: Incarnation,
        heartbeat: &Heartbeat,
        effects: &mut Vec<Effect>,
    ) -> Arrival {
        let lock = incarnation.lock;
        if self.given_up.contains(incarnation) || self.was_forgotten(lock, heartbeat) {
            return Arrival::GivenUp;
        }
        let own = self.peers.get(&lock).map(|peer| {
            arrival(incarnation.succession(&peer.incarnation), peer.vitals.health(), self.bump)
        });
        match own {
            Some(stale @ (Arrival::Stale | Arrival::GivenUp)) => return stale,
            Some(
                Arrival::Known
                | Arrival::Reborn
                | Arrival::TakesName
                | Arrival::BumpsOld
                | Arrival::NameTaken
                | Arrival::Full,
            ) => {}
            None if self.peers.len() - self.dead.len() >= self.roster_max => return Arrival::Full,
            None => {}
        }
        let holder = self.other_holder(lock, &heartbeat.name);
        let other = holder
            .and_then(|holder| self.peers.get(&holder))
            .map(|peer| arrival(Succession::Unrelated, peer.vitals.health(), self.bump));
        match other {
            Some(Arrival::NameTaken) => return Arrival::NameTaken,
            Some(Arrival::BumpsOld) => {
                if let Some(holder) = holder {
                    self.lose(holder, effects);
                }
            }
            Some(
                Arrival::Known
                | Arrival::GivenUp
                | Arrival::Reborn
                | Arrival::Stale
                | Arrival::TakesName
                | Arrival::Full,
            )
            | None => {}
        }
        if own.is_none() {
            self.admit(now, incarnation, heartbeat.name.clone());
        }
        self.take_name(lock, &heartbeat.name);
        match own {
            Some(Arrival::Known) => {
                let peer = self.peers.get(&lock);
                // Known by a claim alone.
                if peer.is_some_and(|peer| peer.enrolment == Enrolment::Struck) {
                    self.enroll(incarnation, heartbeat, effects);
                }
                Arrival::Known
            }
            Some(
                Arrival::Reborn
                | Arrival::TakesName
                | Arrival::BumpsOld
                | Arrival::NameTaken
                | Arrival::Full
                | Arrival::GivenUp
                | Arrival::Stale,
            ) => {
                self.replace(now, incarnation, heartbeat, effects);
                Arrival::Reborn
            }
            None => {
                self.enroll(incarnation, heartbeat, effects);
                Arrival::TakesName
            }
        }
    }

    /// Whether this is a life that was confirmed in this reign, was given up and struck, and is not even
    /// among those that are remembered as such: it holds a set of this reign, which a new life never does.
    fn was_forgotten(&self, lock: Lock, heartbeat: &Heartbeat) -> bool {
        let reign = (self.mandate.term, self.mandate.nonce);
        self.peers.find(&lock).is_none()
            && heartbeat.set.is_some_and(|set| (set.term, set.nonce) == reign)
    }

    /// A machine that was not known, or not any more.
    fn admit(&mut self, now: BootTime, incarnation: Incarnation, name: Name) {
        let lock = incarnation.lock;
        self.given_up.forget(lock);
        let mut peer = Peer::new(now, incarnation, name);
        peer.is_draining = self.draining.remove(&lock);
        self.peers.insert(lock, peer);
    }

    /// Who else holds this name.
    ///
    /// The roster may name two machines with one name, of which one was given up by an earlier
    /// leader. Of these the first to come has it.
    fn other_holder(&self, lock: Lock, name: &Name) -> Option<Lock> {
        let holder = self.peers.at(*self.names.get(name)?)?;
        let is_enrolled_so = self.peers.get(&lock).is_some_and(|peer| peer.name == *name);
        let other = holder.incarnation.lock;
        (other != lock && (holder.is_heard() || !is_enrolled_so)).then_some(other)
    }

    fn take_name(&mut self, lock: Lock, name: &Name) {
        let Some(slot) = self.peers.find(&lock) else { return };
        if let Some(peer) = self.peers.at(slot)
            && peer.name != *name
            // It may have gone to another meanwhile.
            && self.names.get(&peer.name) == Some(&slot)
        {
            self.names.remove(&peer.name);
        }
        self.names.insert(name.clone(), slot);
    }

    /// The next life under a lock.
    fn replace(
        &mut self,
        now: BootTime,
        incarnation: Incarnation,
        heartbeat: &Heartbeat,
        effects: &mut Vec<Effect>,
    ) {
        let Some(peer) = self.peers.get_mut(&incarnation.lock) else { return };
        if let Some(seat) = peer.seat.take() {
            self.consensus.leave(seat);
        }
        peer.be_reborn(now, incarnation);
        if is_planted(Mistake::ForgetsAtRebirth) {
            for run in peer.runs().iter().map(|(run, _)| run).collect::<Vec<_>>() {
                self.settle(incarnation.lock, run, Settlement::Gone(GoneBy::Absence), effects);
            }
        }
        self.enroll(incarnation, heartbeat, effects);
    }

    /// Asks for the commit that must come before anything is settled by, or sent to, this life.
    fn enroll(
        &mut self,
        incarnation: Incarnation,
        heartbeat: &Heartbeat,
        effects: &mut Vec<Effect>,
    ) {
        let Some(peer) = self.peers.get_mut(&incarnation.lock) else { return };
        peer.name = heartbeat.name.clone();
        peer.note_boot(heartbeat.boot);
        peer.birth = heartbeat.birth;
        peer.enrolment = Enrolment::Asked;
        if is_planted(Mistake::EnrolsNobody) {
            peer.enrolment = Enrolment::Done;
            return;
        }
        effects.push(Effect::Enroll(peer.entry()));
    }

    pub(super) fn be_enrolled(&mut self, incarnation: Incarnation, effects: &mut Vec<Effect>) {
        if let Some(lock) = self.note_enrolled(incarnation) {
            self.send_to(lock, Order::GetRunning, effects);
        }
    }

    /// Gives whom to ask what it runs; else that is asked with its next heartbeat.
    pub(super) fn note_enrolled(&mut self, incarnation: Incarnation) -> Option<Lock> {
        let peer = self.peers.get_mut(&incarnation.lock)?;
        if peer.incarnation != incarnation {
            return None;
        }
        match peer.enrolment {
            Enrolment::Asked => {}
            Enrolment::Reviving => {
                peer.is_declared_dead = false;
                self.dead.remove(&incarnation.lock);
            }
            Enrolment::Done | Enrolment::Struck => return None,
        }
        peer.enrolment = Enrolment::Done;
        peer.take_seat(&mut self.consensus);
        (!peer.has_answered && !peer.is_lost()).then_some(incarnation.lock)
    }
}
