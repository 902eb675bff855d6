//! Heartbeats: who this is, what it is told, and how it is judged.

use sterna_model::{BootTime, Incarnation, Lock};

use super::{
    Arrival, Effect, Fleet,
    peer::{Enrolment, Peer},
};
use crate::{
    health::Health,
    message::{
        Confirmation, Heartbeat, HeartbeatAnswer, Mandate, Order, Refusal, Standing, StreamId,
        VERSION,
    },
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
        if let Some((seen, revision)) = heartbeat.seen
            && self.lags(seen, revision)
        {
            self.is_over = true;
            return effects.push(Effect::StoreLags(seen, revision));
        }
        let newest = self.peers.get(&incarnation.lock).and_then(|peer| peer.newest_stream);
        if newest > Some(stream) {
            // Unread frames of a stream that was followed by another do not count.
            return;
        }
        match self.arrive(now, incarnation, &heartbeat, effects) {
            Arrival::Stale => return,
            Arrival::NameTaken => {
                return self.send(stream, incarnation, refuse(Refusal::NameTaken), effects);
            }
            Arrival::GivenUp => {
                self.take_stream(now, incarnation.lock, stream, effects);
                return self.send(stream, incarnation, refuse(Refusal::Die), effects);
            }
            Arrival::Known | Arrival::Reborn | Arrival::TakesName | Arrival::BumpsOld => {}
        }
        self.take_stream(now, incarnation.lock, stream, effects);
        self.note_vitals(now, incarnation.lock, &heartbeat, effects);
        self.judge_one(now, incarnation.lock, effects);
        self.answer(now, incarnation.lock, heartbeat.stamp, effects);
    }

    /// Whether the store has lost something that a worker has seen (safety rule 25). While the
    /// lease holds nobody else leads, so it cannot be the work of a later leader.
    fn lags(&self, seen: Mandate, revision: sterna_model::Revision) -> bool {
        match seen.standing(&self.mandate) {
            Standing::Newer | Standing::Rival => true,
            Standing::Same | Standing::Older => {
                seen.epoch == self.mandate.epoch && revision > self.revision
            }
        }
    }

    /// A new stream closes the old one; what was on its way on that may be lost.
    fn take_stream(
        &mut self,
        now: BootTime,
        lock: Lock,
        stream: StreamId,
        effects: &mut Vec<Effect>,
    ) {
        let Some(peer) = self.peers.get_mut(&lock) else { return };
        peer.newest_stream = Some(stream);
        let old = peer.stream.replace(stream);
        if old == Some(stream) {
            return;
        }
        if let Some(old) = old {
            self.streams.remove(&old);
            effects.push(Effect::Close(old));
            peer.doubt_all(now);
        }
        self.streams.insert(stream, lock);
        self.repeat_kills(lock, effects);
    }

    pub(super) fn close(&mut self, now: BootTime, stream: StreamId) {
        let Some(lock) = self.streams.remove(&stream) else { return };
        let Some(peer) = self.peers.get_mut(&lock) else { return };
        if peer.stream == Some(stream) {
            peer.stream = None;
            peer.doubt_all(now);
        }
    }

    fn note_vitals(
        &mut self,
        now: BootTime,
        lock: Lock,
        heartbeat: &Heartbeat,
        effects: &mut Vec<Effect>,
    ) {
        let Some(peer) = self.peers.get_mut(&lock) else { return };
        if peer.echoed.replace(heartbeat.limits) != Some(heartbeat.limits) {
            self.book.echo(lock, heartbeat.limits);
        }
        peer.vitals.hear(now);
        peer.forgive_silence();
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
        if peer.facts.as_ref() != Some(&heartbeat.facts) {
            peer.facts = Some(heartbeat.facts.clone());
            let facts = heartbeat.facts.clone();
            effects.push(Effect::Facts(peer.incarnation, peer.name.clone(), facts));
        }
        if let Some(wish) = heartbeat.wants_drain
            && (wish != peer.is_draining || peer.asked_drain.is_some())
        {
            peer.asked_drain = Some(wish);
            effects.push(Effect::WantsDrain(lock, wish));
        }
    }

    /// Welcome, confirmed or refused; and the question that comes before a confirmation.
    fn answer(&mut self, now: BootTime, lock: Lock, stamp: BootTime, effects: &mut Vec<Effect>) {
        let (limits, revision) = (*self.book.newest(), self.revision);
        let Some(peer) = self.peers.get_mut(&lock) else { return };
        let verdict = peer.vitals.health();
        let answer = if peer.is_lost() {
            HeartbeatAnswer::Refused(Refusal::Die)
        } else if peer.is_confirmable() {
            peer.confirmed = Some(now);
            let set = peer.seat.and_then(|seat| self.consensus.answer(seat));
            let is_draining = peer.shows_draining();
            let confirmation = Confirmation { stamp, limits, verdict, set, revision, is_draining };
            HeartbeatAnswer::Confirmed(Box::new(confirmation))
        } else {
            HeartbeatAnswer::Welcome
        };
        let asks = peer.enrolment == Enrolment::Done && !peer.has_answered && !peer.is_lost();
        self.send_to(lock, Order::Heartbeat(answer), effects);
        if asks {
            self.send_to(lock, Order::GetRunning, effects);
        }
    }

    /// Judges everybody, and does what is due.
    pub(super) fn tick(&mut self, now: BootTime, effects: &mut Vec<Effect>) {
        if now < self.tick_at {
            return;
        }
        self.tick_at = now.plus(self.book.newest().judge_every);
        self.judged = now;
        self.consensus.judge();
        let terms = self.book.terms();
        // One walk over everybody; most have nothing to be looked at.
        let mut due = Vec::new();
        for (lock, peer) in &mut self.peers {
            let has_changed = peer.judge(now, &terms, &self.consensus);
            if has_changed || peer.is_due(now, self.book.newest().heartbeat_every) {
                due.push((*lock, has_changed));
            }
        }
        for (lock, has_changed) in due {
            if has_changed {
                self.tell_health(lock, effects);
            }
            self.pass_time(now, lock, effects);
        }
        self.retire_limits(effects);
        self.open_doors(now, effects);
    }

    fn retire_limits(&mut self, effects: &mut Vec<Effect>) {
        let counts = |peer: &Peer| {
            let may_run = peer.enrolment != Enrolment::Struck || !peer.runs.is_empty();
            // Who was declared dead, and has not come back, goes by nothing any more.
            may_run && (!peer.is_declared_dead || peer.has_answered)
        };
        let enrolled = self.peers.iter().filter(|(_, peer)| counts(peer));
        if let Some(oldest) = self.book.retire(enrolled.map(|(lock, _)| lock)) {
            effects.push(Effect::Retired(oldest));
        }
    }

    /// Who slept lets nobody suffer for it (safety rule 10), whatever is read first on waking up.
    pub(super) fn excuse(&mut self, now: BootTime) {
        let every = self.book.newest().judge_every;
        let asleep = now.since(self.judged.plus(every));
        if asleep <= every.times(4) {
            return;
        }
        self.judged = self.judged.plus(asleep);
        self.elected = self.elected.plus(asleep);
        for peer in self.peers.values_mut() {
            peer.vitals.excuse(asleep);
            peer.confirmed = peer.confirmed.map(|confirmed| confirmed.plus(asleep));
        }
    }

    fn judge_one(&mut self, now: BootTime, lock: Lock, effects: &mut Vec<Effect>) {
        let terms = self.book.terms();
        let Some(peer) = self.peers.get_mut(&lock) else { return };
        if peer.judge(now, &terms, &self.consensus) {
            self.tell_health(lock, effects);
        }
    }

    /// A worker was just judged to be something else.
    fn tell_health(&mut self, lock: Lock, effects: &mut Vec<Effect>) {
        let Some(peer) = self.peers.get(&lock) else { return };
        let (incarnation, health) = (peer.incarnation, peer.vitals.health());
        match health {
            Health::MustDie => self.lose(lock, effects),
            Health::New | Health::Unhealthy | Health::Healthy => {
                effects.push(Effect::Health(incarnation, health));
            }
        }
    }

    /// Gives up an incarnation. What it may run stays in the table (safety rule 9).
    pub(super) fn lose(&mut self, lock: Lock, effects: &mut Vec<Effect>) {
        let Some(peer) = self.peers.get_mut(&lock) else { return };
        peer.vitals.give_up();
        peer.unsure.give_up();
        peer.unanswered.clear();
        if let Some(seat) = peer.seat.take() {
            self.consensus.leave(seat);
        }
        effects.push(Effect::Health(peer.incarnation, Health::MustDie));
        self.send_to(lock, Order::Die, effects);
    }
}
