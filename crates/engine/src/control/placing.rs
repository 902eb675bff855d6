//! Who gets what: the auction, and what waits for it.

use std::sync::Arc;

use sterna_model::{
    BootTime, Contract, Incarnation, Lock, RunId, ServiceKey, TaskKey, Wants, WorkKey,
    planted::{Mistake, is_planted},
    record::{Placed, TaskEnd, TaskPhase},
    spec::WhenFull,
};
use sterna_protocol::{
    message::{Ordinal, Payload},
    scheduler,
};

use super::{Control, Effect, Now, interface::Sending, standing::Service};
use crate::auction::{Ask, BidderId, Change, Reason};

/// Something after which work that waits may be placed.
#[derive(Clone, Copy, Debug)]
pub(super) enum Helped {
    /// A worker offers something else, or has more free.
    Worker(BidderId),
    /// Something has started.
    Started,
    /// A service no longer has to be apart from others.
    Recalled,
}

impl Control {
    /// Asks for a worker for this, in this step.
    pub(super) fn ask(&mut self, key: &WorkKey) {
        let wants = self.wants_of(key);
        self.withdraw(key);
        self.touch(key);
        if self.gathers(key, &wants) {
            return;
        }
        let is_kept = self.contract_of(key) == Some(Contract::Keep);
        self.queue.ask(key, wants, is_kept);
    }

    /// No longer.
    pub(super) fn withdraw(&mut self, key: &WorkKey) {
        self.queue.withdraw(key);
        self.forget_left(key);
        self.leave_gathering(key);
    }

    /// A service has another spec: it avoids others than before, and those that it no longer keeps away
    /// are tried again.
    pub(super) fn mind_distance(&mut self, service: &ServiceKey, before: &Wants) {
        let Some(known) = self.services.get(service) else { return };
        let constraints = &known.record.spec.wants.constraints;
        let (before, after) = (&before.constraints.apart_from, &constraints.apart_from);
        if before == after {
            return;
        }
        self.registry.set_word(service, constraints);
        for other in before.difference(after) {
            self.queue.waiting_mut().recall(&service.namespace, other);
        }
        self.queue.help(Helped::Recalled);
    }

    /// Gives out what is asked for, and looks again at what waits where something has helped.
    pub(super) fn place(&mut self, now: Now) {
        if !self.queue.is_open() {
            return;
        }
        self.give_out(now);
        // Each of them once, when all is known: one may have thousands that nobody has room for. And when
        // everybody else had their turn: what they were given is no room any more.
        for service in std::mem::take(&mut self.unroomed) {
            self.roll(now, &service);
        }
    }

    fn give_out(&mut self, now: Now) {
        loop {
            let asks = self.queue.take_asks();
            if !asks.is_empty() {
                self.hold_auction(now, asks);
                continue;
            }
            let Some(helped) = self.queue.last_help() else { return };
            let mut woken = Vec::new();
            let change = match helped {
                Helped::Worker(bidder) => Change::Worker(bidder),
                Helped::Started => Change::Started,
                Helped::Recalled => Change::Recalled,
            };
            if self.queue.waiting_mut().wake(&self.registry, change, &mut woken) == 0 {
                self.queue.use_up_help();
            }
            self.queue.ask_again(woken);
        }
    }

    fn hold_auction(&mut self, now: Now, asks: Vec<Ask>) {
        let outcome = self.registry.auction(&asks);
        for placement in outcome.placed {
            if let Some(ask) = asks.get(placement.ask) {
                self.give(now, ask, placement.bidder);
            }
        }
        for left in outcome.left {
            if let Some(ask) = asks.get(left.ask) {
                self.leave(now, ask.clone(), left.reason);
                if let Some(key) = ask.key.instance()
                    && self.service_having(key).is_some_and(Service::is_updating)
                {
                    self.unroomed.insert(key.service.clone());
                }
            }
        }
    }

    /// A worker gets it: the claim is written, and the run is sent when it stands (safety rule 6).
    fn give(&mut self, now: Now, ask: &Ask, bidder: BidderId) {
        let worker = self.bidders.get(&bidder).and_then(|lock| self.workers.get(lock));
        let Some(to) = worker.map(|worker| worker.life) else {
            // It cannot be: who bids is a worker. If it is, that one bids no more, and nothing is lost.
            self.registry.remove(bidder);
            self.bidders.remove(&bidder);
            self.queue.ask_again([ask.clone()]);
            return;
        };
        let run = self.ids.draw(now.wall);
        let number = self.ids.made();
        let key = &ask.key;
        self.forget_left(key);
        let sending = match key {
            WorkKey::Instance(key) => self.claim_instance(now, key, run, to),
            WorkKey::Task(key) => self.claim_task(now, key, run, to),
            // Batches are driven beside this core.
            WorkKey::Node(_) => None,
        };
        let Some(sending) = sending else {
            // It was cancelled, or found elsewhere: the seat is given back.
            self.seat_placed(run, key.clone(), to.lock, Arc::clone(&ask.wants));
            self.leave_seat(run);
            return;
        };
        self.seat_placed(run, key.clone(), to.lock, Arc::clone(&ask.wants));
        self.write_work(key);
        let Sending { run, key, to, contract, task, attempt, work } = sending;
        let ordinal = Ordinal { number, attempt };
        let dispatch = scheduler::Dispatch { to, run, key, task, contract, ordinal, work };
        let dispatch = scheduler::Input::Dispatch(vec![dispatch]);
        if is_planted(Mistake::ClaimsAfterSend) {
            return self.outbox.say_at_once(Effect::Fleet(Box::new(dispatch)));
        }
        self.tell_fleet(dispatch);
    }

    /// A task that has a worker is claimed, unless its latest start has passed.
    fn claim_task(
        &mut self,
        now: Now,
        key: &TaskKey,
        run: RunId,
        to: Incarnation,
    ) -> Option<Sending> {
        // Time passes between two ticks too.
        if self.is_too_late(now, key) {
            self.finish_task(now, key, TaskEnd::TooLate);
        }
        let (task, spec) = self.tasks.get_mut(key)?;
        let contract = spec.contract;
        let work: Payload = Arc::clone(&spec.work);
        let attempt = task.returns().saturating_add(1);
        task.claim(Placed { run, on: to, contract }, now.wall).ok()?;
        let task = Some(task.incarnation());
        Some(Sending { run, key: key.to_work(), to, contract, task, attempt, work })
    }

    /// The task that fails without room, if this is one that waits.
    fn fails_when_full<'a>(&self, key: &'a WorkKey) -> Option<&'a TaskKey> {
        let task = key.task()?;
        let (record, spec) = self.tasks.get(task)?;
        let fails = record.phase() == TaskPhase::Pending && spec.when_full == WhenFull::Fail;
        fails.then_some(task)
    }

    fn leave(&mut self, now: Now, ask: Ask, reason: Arc<Reason>) {
        // That others are starting just now is no lack of room.
        if reason.is_room()
            && let Some(task) = self.fails_when_full(&ask.key)
        {
            if !self.may_have_room_soon(now) {
                let why = self.unplaced(&ask.key, &reason).to_string();
                return self.finish_task(now, task, TaskEnd::NoRoom { why: why.into() });
            }
            self.queue.leave_undecided(task);
        }
        let key = ask.key.clone();
        self.touch(&key);
        self.queue.waiting_mut().park(&self.registry, ask, &reason);
        self.note_left(&key, reason);
    }

    /// Whether nobody can tell yet that there is no room: who is on the roster is coming back to a leader
    /// that has just been elected. Not for longer than it takes to give a worker up.
    pub(super) fn may_have_room_soon(&self, now: Now) -> bool {
        let lose_after = self.limits.last().unwrap_or(&self.usual).lose_after;
        now.boot < self.began.plus(lose_after) && !self.coming.is_empty()
    }

    /// Notes whether a machine is on the roster, may take work in a moment, and does not yet: this is
    /// asked of all of them at once, again and again, while a leader begins.
    pub(super) fn mind_coming(&mut self, lock: Lock) {
        if self.is_coming(lock) {
            self.coming.insert(lock);
        } else {
            self.coming.remove(&lock);
        }
    }

    /// The same, by what is known of it.
    pub(super) fn is_coming(&self, lock: Lock) -> bool {
        let entry = self.roster.get(&lock);
        let is_expected = entry.is_some_and(|entry| !entry.is_declared_dead && !entry.is_forgotten);
        let takes = self.workers.get(&lock).is_some_and(|worker| worker.takes);
        is_expected && !takes && !self.drains.contains_key(&lock)
    }

    /// What is to fail without room is asked for again when it can be told whether there is any.
    pub(super) fn decide_anew(&mut self, now: Now) {
        if !self.queue.has_undecided() || self.may_have_room_soon(now) {
            return;
        }
        for key in self.queue.take_undecided() {
            self.ask(&key.to_work());
        }
    }

    /// Until when that is at the latest.
    pub(super) fn decides_at(&self) -> Option<BootTime> {
        let lose_after = self.limits.last().unwrap_or(&self.usual).lose_after;
        self.queue.has_undecided().then(|| self.began.plus(lose_after))
    }

    /// Writes down what is known of a task or an instance.
    pub(super) fn write_work(&mut self, key: &WorkKey) {
        match key {
            WorkKey::Instance(key) => self.write_instance(key),
            WorkKey::Task(key) => self.write_task(key),
            // The journal of its batch has a node's state.
            WorkKey::Node(_) => {}
        }
    }
}
