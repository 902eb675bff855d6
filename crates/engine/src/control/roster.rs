//! Who is on the roster, and which zones there are by it.

use sterna_model::{
    Incarnation, Lock,
    planted::{Mistake, is_planted},
    record::Illegal,
};
use sterna_protocol::{
    roster::{Enrolled, Zone},
    scheduler,
};

use super::{
    Answer, Control, Row, Stage as StoreStage, Timer, payload, placing::Helped, workers::is_here,
};

/// How many of those that were declared dead and forgotten are kept.
const FORGOTTEN_MAX: usize = if cfg!(test) { 3 } else { 5_000 };

impl Control {
    /// An entry stands from now on in the place of another, or none does.
    fn set_entry(&mut self, lock: Lock, entry: Option<Enrolled>) {
        self.outbox.write(Row::Roster(lock, entry.clone()));
        self.note_entry(lock, entry);
    }

    /// The same, of one that stands in the store already. A zone is one as long as a machine of it is on
    /// the roster: if it fails, what is pinned to the others stays there, whoever leads.
    pub(super) fn note_entry(&mut self, lock: Lock, entry: Option<Enrolled>) {
        let zone = entry.as_ref().map_or(Zone::Unsaid, kept_zone);
        match &zone {
            Zone::Unsaid => {}
            Zone::Nameless => self.registry.keep_zone(None),
            Zone::Named(name) => self.registry.keep_zone(Some(name)),
        }
        if let Some(entry) = &entry {
            *self.named.entry(entry.name.clone()).or_default() += 1;
        }
        let before = match entry {
            Some(entry) => self.roster.insert(lock, entry),
            None => self.roster.remove(&lock),
        };
        if let Some(before) = &before
            && let Some(count) = self.named.get_mut(&before.name)
        {
            *count -= 1;
            if *count == 0 {
                self.named.remove(&before.name);
            }
        }
        self.mind_coming(lock);
        let before = before.as_ref().map_or(Zone::Unsaid, kept_zone);
        match &before {
            Zone::Unsaid => {}
            Zone::Nameless => self.registry.release_zone(None),
            Zone::Named(name) => self.registry.release_zone(Some(name)),
        }
        if before != zone && !matches!(self.queue.last_help(), Some(Helped::Recalled)) {
            // What is pinned may have another zone now.
            self.queue.help(Helped::Recalled);
        }
    }

    /// A worker says where it is: its entry does, too, so that the next leader knows it without it.
    pub(super) fn note_zone(&mut self, lock: Lock) {
        let (Some(worker), Some(entry)) = (self.workers.get(&lock), self.roster.get(&lock)) else {
            return;
        };
        let zone = payload::zone(&worker.facts);
        if entry.zone != zone {
            let entry = Enrolled { zone, ..entry.clone() };
            self.set_entry(lock, Some(entry));
        }
    }

    /// An entry of the roster is to stand; marks that stand there stay.
    pub(super) fn enroll(&mut self, mut entry: Enrolled) {
        let (lock, life) = (entry.incarnation.lock, entry.incarnation);
        if let Some(stands) = self.roster.get(&lock) {
            entry.is_declared_dead =
                stands.is_declared_dead && !is_planted(Mistake::UnmarksTheDead);
            entry.is_draining = stands.is_draining;
            entry.zone = stands.zone.clone();
        }
        if let Some(worker) = self.workers.get(&lock) {
            entry.zone = payload::zone(&worker.facts);
        }
        self.outbox.keep_together(2);
        if self.stage == StoreStage::Virgin && !is_planted(Mistake::StaysVirgin) {
            self.set_stage(StoreStage::Used);
        }
        self.set_entry(lock, Some(entry));
        self.tell_fleet(scheduler::Input::Enrolled(life));
    }

    /// An entry of the roster goes; that of another life stays, and that of a machine which was declared
    /// dead since the fleet said so.
    pub(super) fn strike(&mut self, life: Incarnation) {
        let lock = life.lock;
        if self.declaring.contains(&lock) {
            return;
        }
        if self.roster.get(&lock).is_some_and(|entry| entry.incarnation == life) {
            self.set_entry(lock, None);
            if is_planted(Mistake::ForgetsStruckDrains) && self.drains.remove(&lock).is_some() {
                self.outbox.write(Row::Drain(lock, None));
            }
            if let Some(drain) = self.drains.get(&lock) {
                // Also if it has passed: from now on it is to be forgotten some time.
                self.timers.set(drain.deadline, Timer::Drain(lock));
            }
        }
        self.tell_fleet(scheduler::Input::Struck(life));
        if self.workers.get(&lock).is_some_and(|worker| worker.life == life)
            && let Some(worker) = self.workers.remove(&lock)
        {
            self.registry.remove(worker.bidder);
            self.bidders.remove(&worker.bidder);
            self.withheld.remove(&lock);
            self.mind_coming(lock);
            // Something may have been starting there.
            self.queue.help(Helped::Started);
        }
    }

    /// Takes a machine off the roster that is away and has nothing. Who may have something stays there
    /// until that is certainly gone (safety rule 19). Who was declared dead stays, and is not shown any
    /// more: if it comes back after all, it must end first what it had (safety rule 24).
    pub(super) fn forget(&mut self, lock: Lock) -> Answer {
        let Some(entry) = self.roster.get(&lock) else { return Answer::NotFound };
        if entry.is_forgotten {
            return Answer::NotFound;
        }
        let life = entry.incarnation;
        let refuse = |phase| Answer::Conflict(Illegal { event: "forget", phase });
        if self.workers.get(&lock).is_some_and(is_here) {
            return refuse("a worker that is here");
        }
        if entry.is_declared_dead {
            let entry = Enrolled { is_forgotten: true, ..entry.clone() };
            if is_planted(Mistake::ForgetsNobody) {
                self.note_entry(lock, Some(entry));
            } else {
                self.set_entry(lock, Some(entry));
            }
            self.bound_forgotten();
            return Answer::Done;
        }
        if !self.runs_on(lock).is_empty() {
            return refuse("a worker that may still run something");
        }
        if self.with_batches.contains(&lock) {
            return refuse("a worker that may still run a batch");
        }
        if self.is_recovered {
            return refuse("a worker of a store that was restored, and may have lost its claims");
        }
        self.outbox.keep_together(2);
        if self.drains.remove(&lock).is_some() {
            self.mind_coming(lock);
            self.timers.cancel(&Timer::Drain(lock));
            self.timers.cancel(&Timer::Asked(lock));
            self.outbox.write(Row::Drain(lock, None));
            self.tell_fleet(scheduler::Input::Draining(lock, false));
        }
        self.strike(life);
        Answer::Done
    }

    /// Of those that were declared dead and forgotten so many are kept, and then those with the oldest
    /// directories go. One that comes back after all is a machine that nobody knows: what it has is held
    /// against the tables like everything that nobody claimed.
    fn bound_forgotten(&mut self) {
        let is_over = |entry: &&Enrolled| {
            let lock = entry.incarnation.lock;
            entry.is_forgotten
                && entry.is_declared_dead
                && !self.workers.get(&lock).is_some_and(is_here)
                && self.runs_on(lock).is_empty()
        };
        let lives: Vec<_> =
            self.roster.values().filter(is_over).map(|entry| entry.incarnation).collect();
        let beyond = lives.len().saturating_sub(FORGOTTEN_MAX);
        for life in lives.into_iter().take(beyond) {
            self.strike(life);
        }
    }

    pub(super) fn revive(&mut self, life: Incarnation) {
        if let Some(entry) = self.roster.get(&life.lock)
            && entry.incarnation == life
            && !self.declaring.contains(&life.lock)
        {
            // It is here again: people see it, and its zone is one.
            let (is_declared_dead, is_forgotten) = (false, false);
            let entry = Enrolled { is_declared_dead, is_forgotten, ..entry.clone() };
            self.set_entry(life.lock, Some(entry));
        }
        self.tell_fleet(scheduler::Input::Enrolled(life));
        self.offer(life.lock);
    }

    /// Somebody who must know says that nothing on this machine runs any more.
    pub(super) fn declare_dead(&mut self, lock: Lock) -> bool {
        let Some(entry) = self.roster.get_mut(&lock) else { return false };
        entry.is_declared_dead = true;
        let entry = entry.clone();
        self.declaring.insert(lock);
        self.outbox.write(Row::Roster(lock, Some(entry)));
        self.tell_fleet(scheduler::Input::DeclaredDead(lock));
        self.offer(lock);
        true
    }
}

/// The zone that there is because of this entry.
fn kept_zone(entry: &Enrolled) -> Zone {
    if entry.is_forgotten { Zone::Unsaid } else { entry.zone.clone() }
}
