//! One server that took the lead: what surrounds a `Fleet`, with a plain dispatcher.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use sterna_model::{
    ClusterId, Epoch, Incarnation, Lock, Nonce, RunId, Span, Term, WallTime, WorkKey,
};
use sterna_protocol::{
    health::Health,
    limits::{Book, Limits},
    message::{Held, Kill, Mandate, News, Order, StatusAnswer},
    roster::Origin,
    scheduler::{Begin, Bump, Dispatch, Effect, Fleet, Input, Report, Settlement},
};

use super::{
    World,
    rng::Clock,
    store::{Fate, LEASE, LEASE_MARGIN, Op, Task},
    words::{self, Kind},
};

pub(crate) struct Leader {
    pub(crate) clock: Clock,
    pub(crate) term: Term,
    pub(crate) fleet: Fleet,
    /// Whether its process runs and has not heard that another leads.
    pub(crate) is_alive: bool,
    pub(crate) paused_until: u64,
    /// Until when it does not reach the store.
    pub(crate) alone_until: u64,
    commits: VecDeque<Pending>,
    renew_at: u64,
    dispatch_at: u64,
    workers: BTreeMap<Lock, Incarnation>,
    /// The run of each batch key, as far as this leader knows.
    batches: BTreeMap<WorkKey, RunId>,
    /// Keys whose claim is being committed.
    busy: BTreeSet<WorkKey>,
    silent: BTreeSet<RunId>,
    declared: BTreeSet<Lock>,
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
        self.store.revision += 1;
        self.store.lease_until = self.now + LEASE;
        let clock = Clock::new(&mut self.rng);
        // The answer to the election's commit comes a little later; its term began before.
        let now = clock.at(self.now);
        let term = Term::new(self.store.term);
        let origin = if self.store.had_roster { Origin::Continued } else { Origin::Virgin };
        let begin = Begin {
            mandate: Mandate {
                cluster: ClusterId::from_parts(WallTime::EPOCH, [1; 10]),
                epoch: Epoch::new(1),
                term,
                nonce: Nonce::new(self.rng.below(1 << 30)),
            },
            elected: now,
            lease_until: now.plus(Span::from_millis(LEASE - LEASE_MARGIN)),
            revision: self.store.revision(),
            book: self.book(),
            roster: self.store.roster.values().cloned().collect(),
            claims: self.store.claims(),
            origin,
            bump: Bump::Forbidden,
        };
        self.say(|| format!("elected term {} as {origin:?}", term.get()));
        self.leaders.push(Leader {
            clock,
            term,
            fleet: Fleet::new(now, begin),
            is_alive: true,
            paused_until: 0,
            alone_until: 0,
            commits: VecDeque::new(),
            renew_at: self.now + 1_000,
            dispatch_at: self.now,
            workers: BTreeMap::new(),
            batches: BTreeMap::new(),
            busy: BTreeSet::new(),
            silent: BTreeSet::new(),
            declared: BTreeSet::new(),
        });
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
        if !leader.is_alive || self.now < leader.paused_until {
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

    /// Commits apply whether or not who sent them is awake.
    fn apply_commits(&mut self, index: usize) {
        let leader = &mut self.leaders[index];
        if self.now < leader.alone_until {
            return;
        }
        for pending in &mut leader.commits {
            if pending.applied.is_none() && self.now >= pending.at {
                pending.applied = Some(self.store.apply(self.now, leader.term, &pending.op));
            }
        }
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
            Op::Strike(life) => Input::Struck(life),
            Op::DeclareDead(lock) => Input::DeclaredDead(lock),
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
                }
                self.say(|| {
                    format!("  L{index} says {stream:?} {:?} {:?}", frame.incarnation, frame.order)
                });
                self.net.send_down(self.now, stream, frame, &mut self.rng);
            }
            Effect::Close(stream) => self.net.close_above(self.now, stream, &mut self.rng),
            Effect::Enroll(entry) => self.commit(index, Op::Enroll(entry)),
            Effect::Revive(incarnation) => self.commit(index, Op::Revive(incarnation)),
            Effect::Strike(life) => self.commit(index, Op::Strike(life)),
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
                self.table.broken.get_or_insert("a store that lags, though none does".to_owned());
            }
            Effect::Raise(_) | Effect::Healed => {
                self.table.broken.get_or_insert("no store was set back".to_owned());
            }
            Effect::Retired(oldest) => self.commit(index, Op::Retire(oldest)),
            Effect::Facts(..) | Effect::WantsDrain(..) | Effect::Opened(_) | Effect::Alarm(..) => {}
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
            && self.store.apply(self.now, leader.term, &Op::DeclareDead(lock))
        {
            self.say(|| format!("m{machine} is declared dead"));
            self.step_leader(index, Input::DeclaredDead(lock));
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
