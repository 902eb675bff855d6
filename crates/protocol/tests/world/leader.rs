//! One server that took the lead: what surrounds a `Fleet`, with a plain dispatcher.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use sterna_model::{Epoch, Incarnation, Lock, Nonce, RunId, Span, Term, WorkKey};
use sterna_protocol::{
    health::Health,
    limits::{Book, Limits},
    message::{Held, Kill, Mandate, News, Order, StatusAnswer},
    roster::Origin,
    scheduler::{Begin, Dispatch, Effect, Fleet, Input, Report, Settlement},
};

use super::{
    World,
    rng::Clock,
    store::{Fate, Fence, LEASE, LEASE_MARGIN, Op, Task, Unknown},
    words::{self, Kind},
};

pub(crate) struct Leader {
    pub(crate) clock: Clock,
    pub(crate) fence: Fence,
    pub(crate) fleet: Fleet,
    /// Whether its process runs and has not heard that another leads.
    pub(crate) is_alive: bool,
    pub(crate) paused_until: u64,
    /// Until when it does not reach the store.
    pub(crate) alone_until: u64,
    commits: VecDeque<Pending>,
    /// A commit that got no answer, and when it will be settled. Until then this leader does nothing.
    settling: Option<(u64, u64, Op)>,
    renew_at: u64,
    dispatch_at: u64,
    workers: BTreeMap<Lock, Incarnation>,
    /// The run of each batch key, as far as this leader knows.
    batches: BTreeMap<WorkKey, RunId>,
    /// Keys whose claim is being committed.
    busy: BTreeSet<WorkKey>,
    silent: BTreeSet<RunId>,
    declared: BTreeSet<Lock>,
    /// Who gets no new work, as far as it was told.
    draining: BTreeSet<Lock>,
    has_called_complete: bool,
}

struct Pending {
    at: u64,
    op: Op,
    applied: Option<bool>,
}

impl World {
    /// Elects the next leader.
    pub(crate) fn elect(&mut self) {
        self.elected_at = self.now;
        self.store.term += 1;
        self.store.counter = 0;
        self.store.revision += 1;
        self.store.lease_until = self.now + LEASE;
        let clock = Clock::new(&mut self.rng);
        // The answer to the election's commit comes a little later; its term began before.
        let now = clock.at(self.now);
        let (epoch, term) = (self.store.epoch, self.store.term);
        let origin = match (self.store.is_recovered, self.store.had_roster) {
            (true, true | false) => Origin::Recovered,
            (false, true) => Origin::Continued,
            (false, false) => Origin::Virgin,
        };
        let begin = Begin {
            mandate: Mandate {
                epoch: Epoch::new(epoch + 1),
                term: Term::new(term),
                nonce: Nonce::new(self.rng.below(1 << 30)),
            },
            elected: now,
            lease_until: now.plus(Span::from_millis(LEASE - LEASE_MARGIN)),
            revision: self.store.revision(),
            book: self.book(),
            roster: self.store.roster.values().cloned().collect(),
            claims: self.store.claims(),
            origin,
            bump: self.bump,
        };
        self.say(|| format!("elected term {term} of epoch {epoch} as {origin:?}"));
        self.leaders.push(Leader {
            clock,
            fence: self.store.fence(),
            fleet: Fleet::new(now, begin),
            is_alive: true,
            paused_until: 0,
            alone_until: 0,
            commits: VecDeque::new(),
            settling: None,
            renew_at: self.now + 1_000,
            dispatch_at: self.now,
            workers: BTreeMap::new(),
            batches: BTreeMap::new(),
            busy: BTreeSet::new(),
            silent: BTreeSet::new(),
            declared: BTreeSet::new(),
            draining: BTreeSet::new(),
            has_called_complete: false,
        });
        let index = self.leaders.len() - 1;
        for lock in self.store.drains.clone() {
            // On the roster or not: who is drained is told when a reign begins.
            self.told_drain(index, lock, true);
        }
    }

    fn told_drain(&mut self, index: usize, lock: Lock, is_draining: bool) {
        let draining = &mut self.leaders[index].draining;
        if is_draining {
            draining.insert(lock)
        } else {
            draining.remove(&lock)
        };
        self.step_leader(index, Input::Draining(lock, is_draining));
    }

    fn book(&self) -> Book {
        match self.store.limits.split_last() {
            Some((newest, older)) => Book::new(*newest, older.to_vec()),
            None => Book::new(self.limits, Vec::new()),
        }
    }

    /// Somebody changes the limits, up or down.
    pub(crate) fn change_limits(&mut self, index: usize) {
        let limits = Limits {
            version: self.leaders[index].fleet.limits().version + 1,
            lose_after: Span::from_secs(self.rng.between(4, 8)),
            kill_wait: Span::from_secs(self.rng.between(1, 2)),
            heartbeat_grace: Span::from_secs(self.rng.between(2, 3)),
            ..self.limits
        };
        self.commit(index, Op::Limits(limits));
    }

    /// Everything that one leader does in a moment in which it runs.
    pub(crate) fn run_leader(&mut self, index: usize) {
        self.apply_commits(index);
        let leader = &self.leaders[index];
        if !leader.is_alive || self.now < leader.paused_until || !self.settle(index) {
            return;
        }
        self.answer_commits(index);
        for (stream, frame) in self.net.due_up(self.now, index) {
            if self.net.is_open_above(stream) {
                self.say(|| {
                    format!(
                        "  L{index} hears {stream:?} {:?} {:?}",
                        frame.incarnation, frame.saying
                    )
                });
                self.step_leader(index, Input::Frame(stream, frame));
            }
        }
        let now = self.now;
        let told = |stream: &&mut super::net::Stream| {
            stream.leader == index
                && stream.is_open_above
                && stream.told_above.is_some_and(|at| now >= at)
        };
        let closed: Vec<_> = self
            .net
            .streams
            .iter_mut()
            .filter(told)
            .map(|stream| {
                stream.is_open_above = false;
                stream.id
            })
            .collect();
        for stream in closed {
            self.step_leader(index, Input::Closed(stream));
        }
        let leader = &mut self.leaders[index];
        let local = leader.clock.at(now);
        if now >= leader.renew_at {
            leader.renew_at = now + 1_000;
            self.commit(index, Op::Renew(local));
        }
        if local >= self.leaders[index].fleet.deadline() {
            self.step_leader(index, Input::Tick);
        }
        if now >= self.leaders[index].dispatch_at {
            self.leaders[index].dispatch_at = now + 200;
            self.dispatch(index);
        }
    }

    fn commit(&mut self, index: usize, op: Op) {
        let late = if self.rng.chance(50) {
            self.rng.between(200, 2_500)
        } else {
            self.rng.between(1, 60)
        };
        let leader = &mut self.leaders[index];
        let after = leader.commits.back().map_or(0, |pending| pending.at);
        leader.commits.push_back(Pending { at: after.max(self.now + late), op, applied: None });
    }

    /// Commits apply whether or not who sent them is awake. Some get no answer, and may apply later.
    fn apply_commits(&mut self, index: usize) {
        let leader = &mut self.leaders[index];
        if self.now < leader.alone_until || leader.settling.is_some() {
            return;
        }
        for at in 0..leader.commits.len() {
            let pending = &mut leader.commits[at];
            if pending.applied.is_some() || self.now < pending.at {
                continue;
            }
            if at == 0 && !self.is_calm && self.rng.chance(10) {
                self.writes += 1;
                let (write, late) = (self.writes, self.rng.below(3_000));
                let Some(Pending { op, .. }) = leader.commits.pop_front() else { return };
                let flying =
                    Unknown { at: self.now + late, fence: leader.fence, write, op: op.clone() };
                self.store.unknown.push(flying);
                leader.settling = Some((self.now + self.rng.between(100, 2_500), write, op));
                return;
            }
            pending.applied = Some(self.store.apply(self.now, leader.fence, &pending.op));
        }
    }

    /// Raises the fence counter, and reads what became of a commit without an answer: what is not there
    /// then never will be (safety rule 18). Gives whether nothing is left to be settled.
    fn settle(&mut self, index: usize) -> bool {
        let leader = &mut self.leaders[index];
        let is_due = |(at, ..): &mut (u64, u64, Op)| self.now >= *at;
        if self.now < leader.alone_until {
            return leader.settling.is_none();
        }
        let Some((_, write, op)) = leader.settling.take_if(is_due) else {
            return leader.settling.is_none();
        };
        if leader.fence != self.store.fence() {
            leader.is_alive = false;
            self.say(|| format!("L{index} hears that it is deposed"));
            return false;
        }
        self.store.counter += 1;
        leader.fence = self.store.fence();
        let has_applied = self.store.applied.contains(&write);
        self.say(|| format!("L{index} settles {op:?}: {has_applied}"));
        match op {
            op if has_applied => self.committed(index, op),
            Op::Claim(dispatch) => drop(self.leaders[index].busy.remove(&dispatch.key)),
            op => {
                let at = self.now;
                let commits = &mut self.leaders[index].commits;
                commits.push_front(Pending { at, op, applied: None });
            }
        }
        true
    }

    fn answer_commits(&mut self, index: usize) {
        while let Some(pending) =
            self.leaders[index].commits.pop_front_if(|first| first.applied.is_some())
        {
            if pending.applied == Some(false) {
                self.say(|| format!("L{index} hears that it is deposed"));
                self.leaders[index].is_alive = false;
                return;
            }
            let revision = self.store.revision();
            self.step_leader(index, Input::Revision(revision));
            self.committed(index, pending.op);
        }
    }

    fn committed(&mut self, index: usize, op: Op) {
        let input = match op {
            Op::Renew(sent) => Input::Lease(sent.plus(Span::from_millis(LEASE - LEASE_MARGIN))),
            Op::Limits(limits) => Input::Limits(limits),
            Op::Enroll(entry) => Input::Enrolled(entry.incarnation),
            Op::Revive(incarnation) => Input::Enrolled(incarnation),
            Op::Strike(lock) => Input::Struck(lock),
            Op::DeclareDead(lock) => Input::DeclaredDead(lock),
            Op::Drain(lock, is_draining) => return self.told_drain(index, lock, is_draining),
            Op::Complete => Input::RosterIsComplete,
            Op::Claim(dispatch) => {
                self.leaders[index].busy.remove(&dispatch.key);
                self.say(|| {
                    format!(
                        "L{index} sends {:?} of {:?} to {:?}",
                        dispatch.run, dispatch.key, dispatch.to
                    )
                });
                Input::Dispatch(vec![dispatch])
            }
            Op::Release(..) | Op::Retire(_) => return,
            Op::Record(Report { from, run, number, news, .. }, _) => {
                if news.is_end() {
                    self.leaders[index].batches.retain(|_, held| *held != run);
                }
                Input::Recorded(from, run, number, StatusAnswer::Recorded)
            }
        };
        self.step_leader(index, input);
    }

    pub(crate) fn step_leader(&mut self, index: usize, input: Input) {
        let leader = &mut self.leaders[index];
        let now = leader.clock.at(self.now);
        let mut effects = Vec::new();
        leader.fleet.step(now, input, &mut effects);
        for effect in effects {
            self.perform_above(index, effect);
        }
    }

    fn perform_above(&mut self, index: usize, effect: Effect) {
        if !matches!(effect, Effect::Send(..)) {
            self.say(|| format!("L{index} {effect:?}"));
        }
        match effect {
            Effect::Send(stream, frame) => {
                if let Order::Run(runs) = &frame.order {
                    runs.iter().for_each(|run| self.table.send(run));
                    if self.leaders[index].draining.contains(&frame.incarnation.lock) {
                        self.table.fail("a run is sent to a drained machine".to_owned());
                    }
                }
                self.say(|| {
                    format!("  L{index} says {stream:?} {:?} {:?}", frame.incarnation, frame.order)
                });
                self.net.send_down(self.now, stream, frame, &mut self.rng);
            }
            Effect::Close(stream) => self.net.close_above(self.now, stream, &mut self.rng),
            Effect::Enroll(entry) => self.commit(index, Op::Enroll(entry)),
            Effect::Revive(incarnation) => self.commit(index, Op::Revive(incarnation)),
            Effect::Strike(lock) => self.commit(index, Op::Strike(lock)),
            Effect::Settled(run, settlement) => self.settled(index, run, settlement),
            Effect::Found(from, held) => self.found(index, from, held),
            Effect::Reported(report) => self.reported(index, report),
            Effect::Silent(run) => drop(self.leaders[index].silent.insert(run)),
            Effect::Health(who, health) => {
                let leader = &mut self.leaders[index];
                leader.workers.insert(who.lock, who);
                if health == Health::Healthy {
                    let fleet = &leader.fleet;
                    leader.silent.retain(|run| fleet.place(*run) != Some(who.lock));
                }
            }
            Effect::StoreLags(..) => {
                self.table.fail("a store that lags, though none does".to_owned());
            }
            Effect::Retired(oldest) => self.commit(index, Op::Retire(oldest)),
            Effect::WantsDrain(lock, wish) => self.commit(index, Op::Drain(lock, wish)),
            Effect::Facts(..) | Effect::Opened(_) => {}
        }
    }

    /// Safety rule 6.
    fn settled(&mut self, index: usize, run: RunId, settlement: Settlement) {
        let fate = match settlement {
            Settlement::NotSent(_) | Settlement::Refused(_) => Fate::Returned,
            Settlement::Gone(_) => Fate::Over,
        };
        self.leaders[index].batches.retain(|_, held| *held != run);
        self.commit(index, Op::Release(run, fate));
    }

    /// Safety rule 24: what nobody knows of is adopted if its key is free, and ended otherwise.
    fn found(&mut self, index: usize, _from: Incarnation, held: Held) {
        let is_batch =
            self.wanted.iter().any(|wanted| wanted.key == held.key && wanted.kind == Kind::Batch);
        let leader = &mut self.leaders[index];
        if is_batch && !leader.batches.contains_key(&held.key) {
            leader.batches.insert(held.key, held.run);
        } else {
            self.step_leader(index, Input::Kill(held.run, Kill::Now));
        }
    }

    fn reported(&mut self, index: usize, report: Report) {
        let fate = match &report.news {
            News::Progress(_) => None,
            News::Ended(_) => Some(Fate::Over),
            News::WasNotRunning => Some(Fate::Returned),
        };
        self.commit(index, Op::Record(report, fate));
    }

    fn dispatch(&mut self, index: usize) {
        let now = self.leaders[index].clock.at(self.now);
        if self.leaders[index].fleet.is_mute(now) {
            return;
        }
        self.declare_the_destroyed(index);
        self.call_complete(index);
        if self.is_calm {
            self.end_drains(index);
        }
        for at in 0..self.wanted.len() {
            let wanted = &self.wanted[at];
            let (kind, key, contract) = (wanted.kind, wanted.key.clone(), wanted.contract);
            let doors = self.leaders[index].fleet.doors();
            let leader = &self.leaders[index];
            let slots = self.store.slots.get(&key).map_or(&[][..], Vec::as_slice);
            let may = match kind {
                Kind::Task => doors.unclaimed && self.store.tasks.get(&key) == Some(&Task::Pending),
                Kind::Batch => {
                    let door = match contract.stop_after() {
                        Some(_) => doors.stop_batches,
                        None => doors.keep_batches,
                    };
                    door && !leader.batches.contains_key(&key)
                }
                Kind::Service => {
                    doors.unclaimed
                        && slots.len() < 2
                        && slots.iter().all(|slot| leader.silent.contains(&slot.run))
                }
            };
            if kind == Kind::Service
                && slots.len() == 2
                && slots.iter().all(|slot| !leader.silent.contains(&slot.run))
            {
                // Both are heard again: one goes.
                let run = slots[0].run;
                self.step_leader(index, Input::Kill(run, Kill::Now));
                continue;
            }
            if !may || leader.busy.contains(&key) || self.rng.chance(300) {
                continue;
            }
            self.start(index, kind, key, contract);
        }
    }

    fn start(&mut self, index: usize, kind: Kind, key: WorkKey, contract: sterna_model::Contract) {
        let leader = &self.leaders[index];
        let is_any = self.rng.chance(30);
        let is_fit = |worker: &&Incarnation| {
            is_any || leader.fleet.health(**worker) == Some(Health::Healthy)
        };
        let fit: Vec<Incarnation> = leader.workers.values().filter(is_fit).copied().collect();
        let Some(to) = self.rng.pick(&fit) else { return };
        self.runs += 1;
        let run = words::run(self.runs);
        let task = (kind == Kind::Task).then(|| words::task_incarnation(1));
        let dispatch =
            Dispatch { to, run, key: key.clone(), task, contract, work: words::nothing() };
        match kind {
            Kind::Task | Kind::Service => {
                self.leaders[index].busy.insert(key);
                self.commit(index, Op::Claim(dispatch));
            }
            Kind::Batch => {
                self.say(|| format!("L{index} sends {run:?} of {key:?} to {to:?}"));
                self.leaders[index].batches.insert(key, run);
                self.step_leader(index, Input::Dispatch(vec![dispatch]));
            }
        }
    }

    /// Somebody has seen that the machine is off, and says so before it is on again.
    pub(crate) fn declare_dead(&mut self, machine: usize) {
        let lock = self.machines[machine].lock;
        let Some(index) = self.leaders.len().checked_sub(1) else { return };
        let leader = &self.leaders[index];
        let is_awake = self.now >= leader.paused_until && self.now >= leader.alone_until;
        if leader.is_alive
            && is_awake
            && leader.settling.is_none()
            && self.store.apply(self.now, leader.fence, &Op::DeclareDead(lock))
        {
            self.say(|| format!("m{machine} is declared dead"));
            self.step_leader(index, Input::DeclaredDead(lock));
        }
    }

    /// Somebody drains a machine, or ends that: by the leader, or on the machine itself.
    pub(crate) fn drain_something(&mut self) {
        let machine = usize::try_from(self.rng.below(self.machines.len() as u64)).unwrap();
        let is_draining = self.rng.chance(500);
        let lock = self.machines[machine].lock;
        let index = self.leaders.iter().rposition(|leader| leader.is_alive);
        match index {
            Some(index) if self.rng.chance(500) => self.commit(index, Op::Drain(lock, is_draining)),
            Some(_) | None => {
                self.step_worker(machine, sterna_protocol::worker::Input::WantsDrain(is_draining));
            }
        }
        self.say(|| format!("m{machine} is to be drained: {is_draining}"));
    }

    fn end_drains(&mut self, index: usize) {
        for lock in self.store.drains.clone() {
            let is_asked =
                |pending: &Pending| matches!(pending.op, Op::Drain(other, _) if other == lock);
            if !self.leaders[index].commits.iter().any(is_asked) {
                self.commit(index, Op::Drain(lock, false));
            }
        }
    }

    /// Somebody who has counted all machines says that everybody is back.
    fn call_complete(&mut self, index: usize) {
        let leader = &self.leaders[index];
        let is_back = |machine: &super::machine::Machine| {
            let worker = machine.worker.as_ref().map(sterna_protocol::worker::Worker::incarnation);
            let health = worker.and_then(|worker| leader.fleet.health(worker));
            matches!(health, Some(Health::Unhealthy | Health::Healthy))
        };
        let mut machines = self.machines.iter().filter(|machine| !machine.is_destroyed);
        if self.store.is_recovered && !leader.has_called_complete && machines.all(is_back) {
            self.leaders[index].has_called_complete = true;
            self.commit(index, Op::Complete);
        }
    }

    /// Somebody who must know says it, once in each reign.
    fn declare_the_destroyed(&mut self, index: usize) {
        let claims = self.store.claims();
        let counts = |lock| {
            self.store.roster.contains_key(&lock)
                || claims.iter().any(|one| one.holder.lock == lock)
        };
        let destroyed = self.machines.iter().filter(|machine| machine.is_destroyed);
        let destroyed: Vec<Lock> =
            destroyed.map(|machine| machine.lock).filter(|lock| counts(*lock)).collect();
        for lock in destroyed {
            let patience = if self.is_calm { 200 } else { 3 };
            if self.rng.chance(patience) && self.leaders[index].declared.insert(lock) {
                self.commit(index, Op::DeclareDead(lock));
            }
        }
    }
}
