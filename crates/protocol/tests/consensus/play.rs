//! Plays random histories to a leader's side, over a network that delays, overtakes and loses.

use std::collections::{BTreeSet, VecDeque};

use proptest::prelude::*;
use sterna_protocol::consensus::{Consensus, Held, Permission, Seat, SetHash, SetId, Version};

use super::worker;

/// What the checks ask of a leader's side; workers go by their number, in the order of joining.
pub(crate) trait Side {
    fn join(&mut self);
    fn hear(&mut self, who: usize, echo: Option<SetId>);
    fn answer(&self, who: usize) -> Option<SetId>;
    fn leave(&mut self, who: usize);
    fn judge(&mut self);
    fn permits(&self, who: usize) -> bool;
    fn indirect(&self, who: usize) -> Option<Version>;
}

/// The real one.
pub(crate) struct Real(pub(crate) Consensus, Vec<Seat>);

impl Real {
    pub(crate) fn new(consensus: Consensus) -> Self {
        Self(consensus, Vec::new())
    }
}

impl Side for Real {
    fn join(&mut self) {
        let seat = self.0.join(&worker(self.1.len() as u64), None);
        self.1.push(seat);
    }

    fn hear(&mut self, who: usize, echo: Option<SetId>) {
        self.0.hear(self.1[who], echo.as_ref());
    }

    fn answer(&self, who: usize) -> Option<SetId> {
        self.0.answer(self.1[who])
    }

    fn leave(&mut self, who: usize) {
        self.0.leave(self.1[who]);
    }

    fn judge(&mut self) {
        self.0.judge();
    }

    fn permits(&self, who: usize) -> bool {
        let permission = self.0.permits_becoming_healthy(self.1[who]);
        assert!(permission != Permission::Gone || self.0.answer(self.1[who]).is_none());
        permission.is_granted()
    }

    fn indirect(&self, who: usize) -> Option<Version> {
        self.0.indirect(self.1[who])
    }
}

/// One step of a history. Who is meant is taken modulo those who have joined.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Act {
    Join,
    /// The leader gives a worker up; the worker may well live.
    Leave(usize),
    /// A heartbeat there and an answer back, at once.
    Beat(usize),
    /// The worker sends what it holds.
    Send(usize),
    /// The oldest, or the newest, heartbeat on its way arrives and is answered.
    Arrive(usize, bool),
    /// The oldest, or the newest, answer on its way arrives.
    Deliver(usize, bool),
    /// Everything that is on its way from and to this worker is lost.
    Lose(usize),
    Judge,
}

pub(crate) fn acts() -> impl Strategy<Value = Vec<Act>> {
    let who = 0..64_usize;
    let act = prop_oneof![
        4 => Just(Act::Join),
        2 => who.clone().prop_map(Act::Leave),
        8 => who.clone().prop_map(Act::Beat),
        2 => who.clone().prop_map(Act::Send),
        2 => (who.clone(), any::<bool>()).prop_map(|(who, oldest)| Act::Arrive(who, oldest)),
        2 => (who.clone(), any::<bool>()).prop_map(|(who, oldest)| Act::Deliver(who, oldest)),
        1 => who.prop_map(Act::Lose),
        4 => Just(Act::Judge),
    ];
    prop::collection::vec(act, 1..80)
}

/// One worker and its wires.
#[derive(Default)]
pub(crate) struct Worker {
    pub(crate) held: Held,
    up: VecDeque<Option<SetId>>,
    down: VecDeque<SetId>,
    pub(crate) has_left: bool,
    /// It was let go once, so it may be running something.
    pub(crate) works: bool,
}

#[derive(Default)]
pub(crate) struct Player {
    pub(crate) workers: Vec<Worker>,
}

impl Player {
    pub(crate) fn act(&mut self, side: &mut impl Side, act: Act) {
        let count = self.workers.len();
        match act {
            Act::Join => {
                side.join();
                self.workers.push(Worker::default());
            }
            Act::Judge => side.judge(),
            _ if count == 0 => {}
            Act::Leave(who) => {
                side.leave(who % count);
                self.workers[who % count].has_left = true;
            }
            Act::Beat(who) => {
                self.send(who % count);
                self.arrive(side, who % count, false);
                self.deliver(who % count, false);
            }
            Act::Send(who) => self.send(who % count),
            Act::Arrive(who, oldest) => self.arrive(side, who % count, oldest),
            Act::Deliver(who, oldest) => self.deliver(who % count, oldest),
            Act::Lose(who) => {
                self.workers[who % count].up.clear();
                self.workers[who % count].down.clear();
            }
        }
        for (who, worker) in self.workers.iter_mut().enumerate() {
            worker.works |= !worker.has_left && side.permits(who);
        }
    }

    fn send(&mut self, who: usize) {
        let echo = self.workers[who].held.echo();
        self.workers[who].up.push_back(echo);
    }

    fn arrive(&mut self, side: &mut impl Side, who: usize, oldest: bool) {
        let up = &mut self.workers[who].up;
        let Some(echo) = (if oldest { up.pop_front() } else { up.pop_back() }) else { return };
        side.hear(who, echo);
        if let Some(answer) = side.answer(who) {
            self.workers[who].down.push_back(answer);
        }
    }

    fn deliver(&mut self, who: usize, oldest: bool) {
        let down = &mut self.workers[who].down;
        let answer = if oldest { down.pop_front() } else { down.pop_back() };
        if let Some(answer) = answer {
            self.workers[who].held.take(answer);
        }
    }

    /// If the leader fell now, would anybody agree with one another without a worker that works?
    ///
    /// Who was given up may live and take part, but not among themselves alone: that is a hole,
    /// and not closed here.
    pub(crate) fn agreement_without_a_worker_that_works(&self) -> Option<SetId> {
        let inside = |who: &usize| !self.workers[*who].has_left;
        let ids: BTreeSet<u64> =
            self.workers.iter().filter_map(|w| Some(w.held.echo()?.version.get())).collect();
        for version in ids {
            let holders: Vec<usize> = (0..self.workers.len())
                .filter(|who| {
                    self.workers[*who].held.echo().is_some_and(|id| id.version.get() == version)
                })
                .collect();
            let mut hash = SetHash::EMPTY;
            for who in &holders {
                hash.add(&worker(*who as u64));
            }
            let id = self.workers[holders[0]].held.echo()?;
            let agrees = id.hash == hash && holders.iter().any(inside);
            let misses = (0..self.workers.len())
                .filter(inside)
                .any(|who| self.workers[who].works && !holders.contains(&who));
            if agrees && misses {
                return Some(id);
            }
        }
        None
    }
}
