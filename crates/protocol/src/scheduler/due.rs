//! What time alone does: judgements, deadlines, silence, and who leaves the roster for them.

use sterna_model::{BootTime, Lock, RunId, Span};

use super::{
    Effect, Fleet, GoneBy, Settlement,
    peer::{Enrolment, Peer},
    peers::Slot,
    runs::{Entry, Phase},
};
use crate::{
    health::Health,
    limits::{Limits, Terms},
    message::Order,
    planted::{Mistake, is_planted},
};

impl Peer {
    /// The first moment at which time alone may change something about it. Too early is a look for
    /// nothing; it is never too late.
    pub(super) fn due_at(&self, elected: BootTime, terms: &Terms) -> BootTime {
        let is_watched = self.is_lost()
            || self.is_declared_dead
            || !self.unsure.is_empty()
            // The consensus may let it begin with any pass.
            || self.seat.is_some() && !self.vitals.has_been_healthy();
        if is_watched {
            return BootTime::from_millis(0);
        }
        let heard = self.vitals.heard().unwrap_or(elected);
        let silent_at = self.silent_after.map(|after| heard.plus(after));
        let others = silent_at.into_iter().chain(self.unsure_at);
        others.fold(self.vitals.changes_at(terms), BootTime::min)
    }
}

/// So many times as often as health is judged the consensus may be asked for newcomers.
const EARLY: u64 = 10;

impl Fleet {
    /// Judges everybody to whom something is due, and does it.
    pub(super) fn tick(&mut self, now: BootTime, effects: &mut Vec<Effect>) {
        if now < self.tick_at {
            return;
        }
        self.tick_at = now.plus(self.book.newest().judge_every);
        self.judged = now;
        self.agreed = now;
        self.consensus.judge();
        debug_assert!(self.peers.iter().all(|peer| !self.is_overlooked(now, peer)));
        for slot in self.peers.due(now) {
            self.visit(now, slot, effects);
        }
        self.retire_limits(effects);
        // The next leader may be a server that has not seen them.
        effects.extend(self.book.raised_to(self.seen).map(Effect::Raise));
        self.open_doors(now, effects);
    }

    /// Asks the consensus before the next pass does, for somebody who is here and not healthy yet; not
    /// too often, since it walks over everybody.
    pub(super) fn agree_early(&mut self, now: BootTime) {
        let every = self.book.newest().judge_every.as_millis() / EARLY;
        let every = Span::from_millis(every.max(1));
        if now >= self.agreed.plus(every) {
            self.agreed = now;
            self.consensus.judge();
        }
    }

    /// Whether something is due to a machine that this pass would not visit.
    fn is_overlooked(&self, now: BootTime, peer: &Peer) -> bool {
        let is_visited = self.peers.is_due(&peer.incarnation.lock, now);
        let health = peer.judged(now, &self.terms, &self.consensus);
        let heard = peer.vitals.heard().unwrap_or(self.elected);
        let is_silent = |entry: &Entry| {
            let after = entry.silence().filter(|_| !entry.is_silent);
            after.is_some_and(|after| now >= heard.plus(after))
        };
        let is_unanswered = |entry: &Entry| match entry.phase {
            Phase::Sent(unsure_at) => now >= unsure_at,
            Phase::Unsure { .. } => true,
            Phase::Presumed | Phase::Running => false,
        };
        let is_run_due = |entry: &Entry| is_silent(entry) || is_unanswered(entry);
        let is_due = peer.is_lost()
            || peer.is_declared_dead
            || health != peer.vitals.health()
            || peer.runs().iter().any(|(_, entry)| is_run_due(entry));
        is_due && !is_visited
    }

    fn visit(&mut self, now: BootTime, slot: Slot, effects: &mut Vec<Effect>) {
        let Some(peer) = self.peers.at_mut(slot) else { return };
        let has_changed = peer.judge(now, &self.terms, &self.consensus);
        let lock = peer.incarnation.lock;
        if has_changed {
            self.tell_health(lock, effects);
        }
        self.pass_time(now, lock, effects);
        self.put_off(slot);
    }

    /// Says when a machine that was just judged is to be looked at again.
    pub(super) fn put_off(&mut self, slot: Slot) {
        if let Some(peer) = self.peers.at(slot) {
            let due = peer.due_at(self.elected, &self.terms);
            self.peers.put_off(slot, due);
        }
    }

    pub(super) fn change_limits(&mut self, limits: Limits) {
        self.book.committed(limits);
        self.follow_limits();
    }

    /// The limits that everybody is judged by are others now.
    fn follow_limits(&mut self) {
        self.terms = self.book.terms();
        self.peers.wake_all();
    }

    fn retire_limits(&mut self, effects: &mut Vec<Effect>) {
        if !self.book.has_older() {
            return;
        }
        let counts = |peer: &&Peer| {
            let may_run = peer.enrolment != Enrolment::Struck || !peer.runs().is_empty();
            // Who was declared dead, and has not come back, goes by nothing any more.
            may_run && (!peer.is_declared_dead || peer.has_answered)
        };
        let echoes = self.peers.iter().filter(counts);
        if let Some(oldest) = self.book.retire(echoes.map(|peer| peer.echoed)) {
            effects.push(Effect::Retired(oldest));
            self.follow_limits();
        }
    }

    /// Who slept lets nobody suffer for it (safety rule 10), whatever is read first on waking up.
    ///
    /// But a worker that is not answered for long gives itself up, and what is found of it on waking up may
    /// be all that is left: it gets nothing new before it has spoken since.
    pub(super) fn excuse(&mut self, now: BootTime, effects: &mut Vec<Effect>) {
        let every = self.book.newest().judge_every;
        let asleep = now.since(self.judged.plus(every));
        if asleep <= every.times(4) {
            return;
        }
        self.judged = self.judged.plus(asleep);
        self.elected = self.elected.plus(asleep);
        for peer in self.peers.all_mut() {
            peer.vitals.excuse(asleep);
            if let Some(lose) = self.terms.lose_after {
                peer.miss_if_unheard(now, lose);
            }
            peer.confirmed = peer.confirmed.map(|confirmed| confirmed.plus(asleep));
        }
        self.peers.wake_all();
        for lock in self.peers.locks() {
            let peer = self.peers.get_mut(&lock);
            let peer = peer.filter(|peer| peer.vitals.missed_since().is_some());
            if peer.is_some_and(|peer| peer.judge(now, &self.terms, &self.consensus)) {
                self.tell_health(lock, effects);
            }
        }
    }

    /// A worker was just judged to be something else.
    pub(super) fn tell_health(&mut self, lock: Lock, effects: &mut Vec<Effect>) {
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
        if let Some(seat) = peer.seat.take() {
            self.consensus.leave(seat);
        }
        effects.push(Effect::Health(peer.incarnation, Health::MustDie));
        self.send_to(lock, Order::Die, effects);
    }

    /// What time alone does to a machine's runs.
    fn pass_time(&mut self, now: BootTime, lock: Lock, effects: &mut Vec<Effect>) {
        let Some(peer) = self.peers.get_mut(&lock) else { return };
        if !peer.is_lost() {
            peer.doubt_due(now);
        }
        if peer.is_declared_dead && !peer.has_answered {
            // Also by an earlier leader, who may not have come to say so of each.
            self.free_declared(lock, effects);
        }
        let Some(peer) = self.peers.get(&lock) else { return };
        if peer.is_lost() {
            self.free_due(now, lock, effects);
        } else {
            self.ask_unsure(now, lock, effects);
        }
        self.tell_silent(now, lock, effects);
        self.strike_gone(now, lock, effects);
    }

    pub(super) fn free_declared(&mut self, lock: Lock, effects: &mut Vec<Effect>) {
        let Some(peer) = self.peers.get(&lock) else { return };
        let runs: Vec<RunId> = peer.runs().iter().map(|(run, _)| run).collect();
        for run in runs {
            self.settle(lock, run, Settlement::Gone(GoneBy::Declaration), effects);
        }
    }

    /// From when a machine's silence is counted (safety rule 7).
    pub(super) fn counted_from(&self, peer: &Peer) -> BootTime {
        let confirmed = peer.confirmed.filter(|_| !is_planted(Mistake::CountsFromElection));
        confirmed.map_or(self.elected, |confirmed| confirmed.max(self.elected))
    }

    /// Frees what a lost worker has certainly ended by itself.
    fn free_due(&mut self, now: BootTime, lock: Lock, effects: &mut Vec<Effect>) {
        let Some(peer) = self.peers.get(&lock) else { return };
        let from = self.counted_from(peer);
        let is_over = |entry: &Entry| {
            is_planted(Mistake::FreesAtLoss)
                || entry.contract.stop_after().is_some_and(|after| now >= from.plus(after))
        };
        let over = peer.runs().iter().filter(|(_, entry)| is_over(entry)).map(|(run, _)| run);
        for run in over.collect::<Vec<_>>() {
            self.settle(lock, run, Settlement::Gone(GoneBy::Deadline), effects);
        }
    }

    /// Says of which runs another copy may be started.
    fn tell_silent(&mut self, now: BootTime, lock: Lock, effects: &mut Vec<Effect>) {
        let elected = self.elected;
        let Some(peer) = self.peers.get_mut(&lock) else { return };
        let heard = peer.vitals.heard().unwrap_or(elected);
        if peer.silent_after.is_none_or(|after| now < heard.plus(after)) {
            return;
        }
        let (mut has_silent, mut least) = (peer.has_silent_runs, None);
        for (run, entry) in peer.runs_mut() {
            let Some(after) = entry.silence().filter(|_| !entry.is_silent) else { continue };
            if now >= heard.plus(after) {
                entry.is_silent = true;
                has_silent = true;
                effects.push(Effect::Silent(run));
            } else {
                least = Some(least.map_or(after, |least| after.min(least)));
            }
        }
        (peer.has_silent_runs, peer.silent_after) = (has_silent, least);
    }
}
