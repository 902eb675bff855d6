//! Heartbeats: who this is, what it is told, and how it is judged.

use sterna_model::{BootTime, Incarnation, Lock, Revision, RunSequence};

use super::{Alarm, Arrival, Effect, Fleet, index::digest, peer::Enrolment, peers::Slot};
use crate::{
    health::Health,
    message::{
        Confirmation, Heartbeat, HeartbeatAnswer, Mandate, Order, Refusal, Standing, StreamId,
        VERSION,
    },
    planted::{Mistake, is_planted},
};

impl Fleet {
    pub(super) fn hear(
        &mut self,
        now: BootTime,
        stream: StreamId,
        (version, incarnation): (u16, Incarnation),
        heartbeat: Heartbeat,
        effects: &mut Vec<Effect>,
    ) {
        let refuse = |refusal| Order::Heartbeat(HeartbeatAnswer::Refused(refusal));
        if version != VERSION {
            // Before anything is remembered of it.
            let order = refuse(Refusal::WrongVersion(VERSION));
            return self.send(stream, incarnation, order, effects);
        }
        if let Some((seen, _)) = heartbeat.seen
            && seen.cluster != self.mandate.cluster
        {
            // Whatever it has seen, it has not seen of our store.
            self.warn(now, incarnation, Alarm::Foreign(seen.cluster), effects);
            return self.send(stream, incarnation, refuse(Refusal::WrongCluster), effects);
        }
        let slot = self.locate(stream, &incarnation.lock);
        let peer = slot.and_then(|slot| self.peers.at(slot));
        if peer.is_some_and(|peer| peer.has_left(stream)) {
            // Unread frames of a stream that was followed by another do not count.
            return;
        }
        if let Some((seen, revision)) = heartbeat.seen
            && self.lags(seen, revision)
        {
            self.is_over = true;
            return effects.push(Effect::StoreLags(seen, revision));
        }
        if peer.is_some_and(|peer| peer.is_doubled_by(incarnation, heartbeat.birth)) {
            return self.refuse_stale(now, stream, incarnation, effects);
        }
        let is_at_home = peer.is_some_and(|peer| peer.is_at_home(incarnation, &heartbeat.name));
        let slot = if is_at_home {
            slot
        } else {
            match self.arrive(now, incarnation, &heartbeat, effects) {
                Arrival::Stale => return self.refuse_stale(now, stream, incarnation, effects),
                Arrival::NameTaken => {
                    let alarm = Alarm::NameTaken(heartbeat.name);
                    self.warn(now, incarnation, alarm, effects);
                    return self.send(stream, incarnation, refuse(Refusal::NameTaken), effects);
                }
                Arrival::Full => {
                    let alarm = Alarm::RosterFull(self.roster_max);
                    self.warn(now, incarnation, alarm, effects);
                    return self.send(stream, incarnation, refuse(Refusal::RosterFull), effects);
                }
                Arrival::GivenUp => {
                    if let Some(slot) = slot {
                        self.take_stream(now, slot, stream, effects);
                    }
                    return self.send(stream, incarnation, refuse(Refusal::Die), effects);
                }
                Arrival::Known | Arrival::Reborn | Arrival::TakesName | Arrival::BumpsOld => {
                    self.peers.find(&incarnation.lock)
                }
            }
        };
        let Some(slot) = slot else { return };
        self.take_stream(now, slot, stream, effects);
        self.note_vitals(now, slot, &heartbeat, effects);
        self.answer(now, slot, heartbeat.stamp, effects);
        self.put_off(slot);
    }

    /// Where a machine is kept. Its stream is found sooner than its lock.
    fn locate(&self, stream: StreamId, lock: &Lock) -> Option<Slot> {
        let slot = self.peers.on(stream);
        let peer = slot.and_then(|slot| self.peers.at(slot));
        let is_it = peer.is_some_and(|peer| peer.incarnation.lock == *lock);
        if is_it { slot } else { self.peers.find(lock) }
    }

    /// An earlier life than the newest, or another process with the same. On the newest one's own stream
    /// it was overtaken, and is over; else its counter was set back, for each life raises it before it
    /// speaks.
    fn refuse_stale(
        &mut self,
        now: BootTime,
        stream: StreamId,
        who: Incarnation,
        effects: &mut Vec<Effect>,
    ) {
        let Some(peer) = self.peers.get(&who.lock) else { return };
        if !peer.was_heard_on(stream) {
            let newest = peer.incarnation.life;
            self.warn(now, who, Alarm::WentBack(newest), effects);
            let refused = HeartbeatAnswer::Refused(Refusal::WentBack(newest));
            self.send(stream, who, Order::Heartbeat(refused), effects);
        }
    }

    /// Whether the store has lost something that a worker has seen (safety rule 25). While the
    /// lease holds nobody else leads, so it cannot be the work of a later leader.
    fn lags(&self, seen: Mandate, revision: Revision) -> bool {
        match seen.standing(&self.mandate) {
            Standing::Newer | Standing::Rival => true,
            Standing::Foreign => false,
            Standing::Same => revision > self.revision,
            Standing::Older => {
                seen.epoch == self.mandate.epoch
                    && (revision > self.revision || !self.has_lived_through(seen, revision))
            }
        }
    }

    /// Whether the store has lived through a reign that a worker has followed up to a revision. One that
    /// was set back may have counted past it before anybody looks; but then the next reign began before
    /// what was said in that one, or that one is not known any more.
    fn has_lived_through(&self, seen: Mandate, revision: Revision) -> bool {
        if self.reigns.is_empty() {
            return true;
        }
        let is_known = self.reigns.get(&seen.term).is_some_and(|(nonce, _)| *nonce == seen.nonce);
        let next = seen.term.next().and_then(|next| self.reigns.get(&next));
        is_known && next.is_none_or(|(_, began)| revision < *began)
    }

    /// A new stream closes the old one; what was on its way on that may be lost.
    fn take_stream(
        &mut self,
        now: BootTime,
        slot: Slot,
        stream: StreamId,
        effects: &mut Vec<Effect>,
    ) {
        let old = self.peers.connect(slot, Some(stream));
        if old == Some(stream) {
            return;
        }
        let Some(peer) = self.peers.at_mut(slot) else { return };
        if is_planted(Mistake::ResetsNumbers) {
            peer.sequence = RunSequence::ZERO;
        }
        if let Some(old) = old {
            effects.push(Effect::Close(old));
            peer.doubt_all(now);
        }
        let lock = peer.incarnation.lock;
        self.repeat_kills(lock, effects);
    }

    /// A stream is over. Gives who has left with it: it had said so, and has nothing, so that nobody
    /// need wait any more for this life.
    pub(super) fn close(&mut self, now: BootTime, stream: StreamId) -> Option<Lock> {
        let slot = self.peers.on(stream)?;
        self.peers.connect(slot, None);
        let mut left = None;
        if let Some(peer) = self.peers.at_mut(slot) {
            peer.doubt_all(now);
            let has_left = peer.is_leaving && peer.runs().is_empty() && !peer.is_lost();
            left = has_left.then_some(peer.incarnation.lock);
        }
        // Not judged, and so not put off: what all are judged by may have changed since its last look.
        self.peers.wake(slot);
        left
    }

    fn note_vitals(
        &mut self,
        now: BootTime,
        slot: Slot,
        heartbeat: &Heartbeat,
        effects: &mut Vec<Effect>,
    ) {
        let Some(peer) = self.peers.at_mut(slot) else { return };
        peer.echoed = heartbeat.limits;
        peer.birth = heartbeat.birth;
        peer.is_leaving = heartbeat.is_leaving;
        peer.vitals.hear(now);
        peer.note_stamp(now, heartbeat.stamp, self.terms.heartbeat_gap);
        // Who has not said what it runs is heard when it has.
        if peer.forgive_silence() && peer.has_answered {
            effects.push(Effect::Heard(peer.incarnation));
        }
        if let Some(age) = heartbeat.checked {
            let began = now.as_millis().saturating_sub(age.as_millis());
            peer.vitals.check(BootTime::from_millis(began));
        }
        match peer.seat {
            Some(seat) => drop(self.consensus.hear(seat, heartbeat.set.as_ref())),
            None => {
                peer.came_with = heartbeat.set.map(Box::new);
                peer.take_seat(&mut self.consensus);
            }
        }
        let digest = Some(digest(&heartbeat.facts));
        if peer.facts != digest {
            peer.facts = digest;
            let facts = heartbeat.facts.clone();
            effects.push(Effect::Facts(peer.incarnation, peer.name.clone(), facts));
        }
        let lock = peer.incarnation.lock;
        // The consensus has no say about who has been healthy.
        let is_settling = peer.seat.is_some() && !peer.vitals.has_been_healthy();
        if let Some(wish) = heartbeat.wants_drain
            && (wish != peer.is_draining || peer.asked_drain.is_some())
        {
            peer.asked_drain = Some(wish);
            effects.push(Effect::WantsDrain(lock, wish));
        }
        if is_settling {
            self.agree_early(now);
        }
        let Some(peer) = self.peers.at_mut(slot) else { return };
        if peer.judge(now, &self.terms, &self.consensus) {
            self.tell_health(lock, effects);
        }
        self.kill_again(now, slot, effects);
    }

    /// Welcome, confirmed or refused; and the question that comes before a confirmation.
    fn answer(&mut self, now: BootTime, slot: Slot, stamp: BootTime, effects: &mut Vec<Effect>) {
        let (limits, revision) = (*self.book.newest(), self.revision);
        let Some(peer) = self.peers.at_mut(slot) else { return };
        let verdict = peer.vitals.health();
        let answer = if peer.is_lost() {
            HeartbeatAnswer::Refused(Refusal::Die)
        } else if peer.is_confirmable() {
            peer.confirmed = Some(now);
            peer.is_permitted |= verdict == Health::Healthy;
            let set = peer.seat.and_then(|seat| self.consensus.answer(seat));
            let is_draining = peer.shows_draining();
            peer.thinks_it_drains = is_draining;
            let confirmation = Confirmation { stamp, limits, verdict, set, revision, is_draining };
            HeartbeatAnswer::Confirmed(Box::new(confirmation))
        } else {
            HeartbeatAnswer::Welcome
        };
        let asks = peer.enrolment == Enrolment::Done && !peer.has_answered && !peer.is_lost();
        let (incarnation, Some(stream)) = (peer.incarnation, peer.stream()) else { return };
        self.send(stream, incarnation, Order::Heartbeat(answer), effects);
        if asks {
            self.send(stream, incarnation, Order::GetRunning, effects);
        }
    }
}
