//! Who is there, and what is on each.

use std::{collections::BTreeSet, slice, sync::Arc};

use sterna_model::{
    Contract, Incarnation, InstanceKey, Lock, Name, RunId, Span, WallTime, Wants, WorkKey,
    payload::WorkOutline,
    planted::{Mistake, is_planted},
    record::{Instance, InstanceState, TaskPhase, TwinReason},
};
use sterna_protocol::{
    health::Health,
    limits::Limits,
    message::{Kill, Payload},
    scheduler,
};

use super::{
    Control, Machine, Now, Row, Stage as StoreStage, WorkerSeen, payload, placing::Helped,
    seats::Seat,
};
use crate::auction::{Ask, BidderId, Occupant, Offer, Outcome, Stage, Standing};

/// A worker, as this leader sees it.
#[derive(Clone, Debug)]
pub(super) struct Worker {
    pub(super) life: Incarnation,
    pub(super) name: Name,
    pub(super) facts: Payload,
    pub(super) health: Health,
    /// Whether the fleet would send it a run.
    pub(super) takes: bool,
    /// Whether it has said in this reign what it runs, under this or an earlier life.
    is_back: bool,
    pub(super) bidder: BidderId,
}

/// A run that is to end.
#[derive(Clone, Debug)]
pub(super) enum Ending {
    /// It was asked to.
    Asked {
        /// When.
        asked: WallTime,
        /// Whether it had started by then.
        is_running: bool,
        /// What it is made of, if that is known.
        work: Option<Payload>,
    },
    /// It was asked to again, and since when nobody here knows.
    Again,
    /// It was killed.
    Killed,
}

impl Control {
    /// What a worker has is known, or is something else now.
    pub(super) fn set_facts(&mut self, life: Incarnation, name: Name, facts: Payload) {
        let lock = life.lock;
        let is_new = !self.workers.contains_key(&lock);
        let bidder = self.workers.get(&lock).map_or_else(|| self.free_bidder(), |it| it.bidder);
        self.bidders.insert(bidder, lock);
        let worker = self.workers.entry(lock).or_insert_with(|| Worker {
            life,
            name: name.clone(),
            facts: Arc::clone(&facts),
            health: Health::New,
            takes: false,
            is_back: false,
            bidder,
        });
        (worker.life, worker.name, worker.facts) = (life, name, facts);
        self.note_zone(lock);
        self.offer(lock);
        if is_new {
            self.count_seats(lock, bidder);
        }
    }

    /// The smallest number that nobody has.
    fn free_bidder(&self) -> BidderId {
        let (count, last) = (self.bidders.len(), self.bidders.last_key_value());
        if let (Ok(next), Some((last, _))) = (u32::try_from(count), last)
            && last.get() + 1 == next
        {
            // Mostly there are no gaps.
            return BidderId::new(next);
        }
        let mut free = 0;
        for bidder in self.bidders.keys() {
            if bidder.get() != free {
                break;
            }
            free += 1;
        }
        BidderId::new(free)
    }

    /// What a machine is called that is here or on the roster.
    pub(super) fn name_of(&self, lock: Lock) -> Option<Name> {
        let here = self.workers.get(&lock).map(|worker| &worker.name);
        here.or_else(|| self.roster.get(&lock).map(|entry| &entry.name)).cloned()
    }

    /// The same, told apart from others of that name.
    pub(super) fn machine(&self, lock: Lock) -> Option<Machine> {
        let name = self.name_of(lock)?;
        let is_shared = self.named.get(&name).is_some_and(|count| *count > 1);
        Some(Machine { name, lock: is_shared.then_some(lock) })
    }

    pub(super) fn set_health(&mut self, life: Incarnation, health: Health) {
        self.touch_all_on(life.lock);
        let Some(worker) = self.workers.get_mut(&life.lock) else { return };
        worker.health = health;
        if worker.life != life {
            worker.life = life;
            worker.takes = false;
        }
        self.offer(life.lock);
    }

    /// Who is on the roster, and has neither come back in this reign nor been declared dead.
    pub(super) fn missing(&self) -> Vec<Name> {
        let is_back = |lock: &Lock| self.workers.get(lock).is_some_and(|worker| worker.is_back);
        let missing =
            self.roster.iter().filter(|(lock, entry)| !entry.is_declared_dead && !is_back(lock));
        missing.map(|(_, entry)| entry.name.clone()).collect()
    }

    /// Whether this life of a worker is known to take runs.
    pub fn takes(&self, life: Incarnation) -> bool {
        self.workers.get(&life.lock).is_some_and(|worker| worker.life == life && worker.takes)
    }

    pub(super) fn set_takes(&mut self, life: Incarnation, takes: bool) {
        if let Some(worker) = self.workers.get_mut(&life.lock)
            && worker.life == life
        {
            worker.takes = takes;
            self.offer(life.lock);
        }
    }

    /// Tells the auction what a worker offers now.
    pub(super) fn offer(&mut self, lock: Lock) {
        self.mind_coming(lock);
        let Some(worker) = self.workers.get(&lock) else { return };
        let is_taking = self.is_taking(lock, worker);
        let standing = if is_taking { Standing::Taking } else { Standing::Withheld };
        let offer = payload::offer(&worker.name, &worker.facts, standing);
        let bidder = worker.bidder;
        let starting = self.registry.starting();
        self.registry.set(bidder, offer);
        if self.registry.starting() < starting {
            self.queue.help(Helped::Started);
        }
        if is_taking {
            self.withheld.remove(&lock);
            self.help(bidder);
        } else {
            self.withheld.insert(lock);
        }
    }

    /// What an auction would give if this machine took no work; everything is as before then. What an
    /// auction does is a function of offers and occupants alone, so that taking them back is enough.
    pub(super) fn auction_without(&mut self, lock: Lock, asks: &[Ask]) -> Outcome {
        let worker = self.workers.get(&lock).map(|worker| {
            let is_taking = self.is_taking(lock, worker);
            let standing = if is_taking { Standing::Taking } else { Standing::Withheld };
            (worker.bidder, payload::offer(&worker.name, &worker.facts, standing))
        });
        if let Some((bidder, offer)) = &worker {
            self.registry.set(*bidder, Offer { standing: Standing::Withheld, ..offer.clone() });
        }
        let outcome = self.registry.rehearse(asks);
        if let Some((bidder, offer)) = worker {
            self.registry.set(bidder, offer);
        }
        outcome
    }

    /// A worker that is given no work, and could have this: rather one that is drained, for that is
    /// soon mended.
    pub(super) fn withheld_from(&self, ask: &Ask) -> Option<Lock> {
        let could = |lock: &&Lock| {
            let worker = self.workers.get(lock);
            worker.is_some_and(|worker| self.registry.could_hold(worker.bidder, ask))
        };
        let mut could = self.withheld.iter().filter(could).copied().peekable();
        let first = could.peek().copied();
        could.find(|lock| self.drains.contains_key(lock)).or(first)
    }

    /// A worker of this name that is given no work.
    pub(super) fn withheld_named(&self, name: &Name) -> Option<Lock> {
        let is_meant = |lock: &&Lock| self.workers.get(lock).is_some_and(|it| it.name == *name);
        self.withheld.iter().find(is_meant).copied()
    }

    /// Whether the worker of a run could have this if it had not that run.
    pub(super) fn would_hold(&self, run: RunId, ask: &Ask) -> bool {
        let Some(seat) = self.seats.get(run).filter(|seat| seat.is_counted) else { return false };
        let Some(worker) = self.workers.get(&seat.lock) else { return false };
        let occupant = Occupant { key: &seat.key, wants: &seat.wants, stage: seat.stage };
        self.registry.would_hold(worker.bidder, occupant, ask)
    }

    fn count_seats(&mut self, lock: Lock, bidder: BidderId) {
        for run in self.runs_on(lock) {
            let Some(seat) = self.seats.get(run).cloned() else { continue };
            let occupant = Occupant { key: &seat.key, wants: &seat.wants, stage: seat.stage };
            let is_counted = self.occupy(bidder, occupant);
            if let Some(seat) = self.seats.get_mut(run) {
                seat.is_counted = is_counted;
            }
        }
    }

    /// Tells the auction what is on a worker; gives whether it knows that now. Whom a service avoids is
    /// said by its spec, not by what was started before that.
    fn occupy(&mut self, bidder: BidderId, occupant: Occupant<'_>) -> bool {
        if is_planted(Mistake::OversellsWorkers) {
            return false;
        }
        let Occupant { key, wants, .. } = occupant;
        let is_counted = self.registry.occupy(bidder, occupant).is_ok();
        if let Some(InstanceKey { service, .. }) = key.instance()
            && let Some(known) = self.services.get(service)
            && known.record.spec.wants.constraints.apart_from != wants.constraints.apart_from
        {
            self.registry.set_word(service, &known.record.spec.wants.constraints);
        }
        is_counted
    }

    /// A run that may be there takes its seat; the auction has given it, or it was there before.
    pub(super) fn seat(&mut self, run: RunId, key: WorkKey, on: Incarnation) {
        let wants = self.wants_of_run(&key, run);
        let bidder = self.workers.get(&on.lock).map(|worker| worker.bidder);
        let stage = self.stage_of(&key, run);
        let occupant = Occupant { key: &key, wants: &wants, stage };
        let is_counted = bidder.is_some_and(|bidder| self.occupy(bidder, occupant));
        self.keep_seat(run, Seat { key, lock: on.lock, wants, stage, is_counted });
    }

    /// How far a run is that somebody else has begun. An instance says when it runs, and its record says
    /// whether it has; of anything else that is only claimed nobody says more, so it counts as started.
    fn stage_of(&self, key: &WorkKey, run: RunId) -> Stage {
        let state = key.instance().and_then(|key| self.instances.get(key)).map(Instance::state);
        match state {
            Some(InstanceState::Claimed { copy, .. }) if copy.placed.run == run => Stage::Starting,
            Some(
                InstanceState::Claimed { .. }
                | InstanceState::Unclaimed { .. }
                | InstanceState::Running { .. }
                | InstanceState::Crashed { .. },
            )
            | None => Stage::Started,
        }
    }

    /// The auction has given a run its seat.
    pub(super) fn seat_placed(&mut self, run: RunId, key: WorkKey, lock: Lock, wants: Arc<Wants>) {
        let stage = Stage::Starting;
        self.keep_seat(run, Seat { key, lock, wants, stage, is_counted: true });
    }

    fn keep_seat(&mut self, run: RunId, seat: Seat) {
        self.seats.insert(run, seat);
    }

    /// A run has started: it no longer burdens its worker as one that starts.
    pub(super) fn seat_started(&mut self, run: RunId) {
        let Some(seat) = self.seats.get_mut(run) else { return };
        if seat.stage == Stage::Started {
            return;
        }
        seat.stage = Stage::Started;
        if seat.is_counted
            && let Some(worker) = self.workers.get(&seat.lock)
            && self.registry.started(worker.bidder, &seat.key).is_ok()
        {
            self.queue.help(Helped::Started);
        }
    }

    /// A run is certainly gone: what it took is free (safety rule 23).
    pub(super) fn leave_seat(&mut self, run: RunId) {
        self.ending.remove(&run);
        let Some(seat) = self.seats.remove(run) else { return };
        let Some(worker) = self.workers.get(&seat.lock) else { return };
        let bidder = worker.bidder;
        let occupant = Occupant { key: &seat.key, wants: &seat.wants, stage: seat.stage };
        if seat.is_counted && self.registry.vacate(bidder, occupant).is_ok() {
            self.help(bidder);
            if seat.stage == Stage::Starting {
                self.queue.help(Helped::Started);
            }
        }
    }

    /// A worker may have room for what waits.
    fn help(&mut self, bidder: BidderId) {
        if !is_planted(Mistake::ForgetsWaiting) {
            self.queue.help(Helped::Worker(bidder));
        }
    }

    /// Everybody who is here or on the roster, for people.
    pub fn workers(&self) -> Vec<WorkerSeen> {
        self.workers_where(|_, _| true)
    }

    /// How each of them is and whether it is given work, for those who count; no forgotten ones. A worker
    /// that was not heard in this reign has no health.
    pub fn healths(&self) -> impl Iterator<Item = (Lock, Option<Health>, bool)> {
        let is_known = |lock: &Lock, worker: &Worker| {
            let is_forgotten = self.roster.get(lock).is_some_and(|entry| entry.is_forgotten);
            !is_forgotten || is_here(worker)
        };
        let here = self.workers.iter().filter(move |(lock, worker)| is_known(lock, worker));
        let here = here.map(|(lock, it)| (*lock, Some(it.health), self.is_taking(*lock, it)));
        let away = self
            .roster
            .iter()
            .filter(|(lock, entry)| !entry.is_forgotten && !self.workers.contains_key(lock));
        here.chain(away.map(|(lock, _)| (*lock, None, false)))
    }

    /// Those of them that somebody means, by machine and name.
    pub fn workers_where(&self, is_meant: impl Fn(Lock, &Name) -> bool) -> Vec<WorkerSeen> {
        let here = self.workers.iter().map(|(lock, worker)| (*lock, &worker.name));
        let listed = self.roster.iter().filter(|(lock, _)| !self.workers.contains_key(lock));
        let listed = listed.map(|(lock, entry)| (*lock, &entry.name));
        let meant = here.chain(listed).filter(|(lock, name)| is_meant(*lock, name));
        let locks: BTreeSet<Lock> = meant.map(|(lock, _)| lock).collect();
        locks.into_iter().filter_map(|lock| self.seen(lock)).collect()
    }

    /// A worker, as people see it; `None` if there is none, or it is forgotten.
    pub(super) fn seen(&self, lock: Lock) -> Option<WorkerSeen> {
        let (worker, entry) = (self.workers.get(&lock), self.roster.get(&lock));
        if entry.is_some_and(|entry| entry.is_forgotten) && !worker.is_some_and(is_here) {
            return None;
        }
        let life = worker.map(|it| it.life).or(entry.map(|it| it.incarnation))?;
        let name = worker.map(|it| &it.name).or(entry.map(|it| &it.name))?.clone();
        let facts = worker.map_or_else(|| Payload::from([]), |it| Arc::clone(&it.facts));
        let is_declared_dead = entry.is_some_and(|entry| entry.is_declared_dead);
        let drain = self.drains.get(&lock).cloned();
        Some(WorkerSeen {
            life,
            name,
            health: worker.map(|worker| worker.health),
            takes_work: worker.is_some_and(|worker| self.is_taking(lock, worker)),
            drain,
            is_declared_dead,
            runs: self.seats.count_on(lock),
            facts,
        })
    }

    /// Whether a worker is given work.
    fn is_taking(&self, lock: Lock, worker: &Worker) -> bool {
        let is_declared_dead = self.roster.get(&lock).is_some_and(|entry| entry.is_declared_dead);
        worker.health == Health::Healthy
            && worker.takes
            && !self.drains.contains_key(&lock)
            && !is_declared_dead
    }

    pub(super) fn runs_on(&self, lock: Lock) -> Vec<RunId> {
        self.seats.on(lock)
    }

    /// Who could be out of reach is heard, well or not: what is to end there is told so again, and what
    /// was silent is held against its record.
    pub(super) fn worker_is_back(&mut self, now: Now, lock: Lock) {
        if let Some(worker) = self.workers.get_mut(&lock) {
            worker.is_back = true;
        }
        self.touch_all_on(lock);
        for run in self.runs_on(lock) {
            let Some(key) = self.seats.key_of(run).cloned() else { continue };
            if !is_planted(Mistake::RemembersSilence) {
                self.silent.remove(&run);
            }
            let is_to_end = match &key {
                WorkKey::Instance(key) => self.copy_is_back(now, key, run),
                WorkKey::Task(key) => {
                    let is_over = self.tasks.get(key).is_some_and(|(task, _)| task.end().is_some());
                    is_over && !self.is_unknown_after_restore(key)
                }
                // Batches are driven beside this core.
                WorkKey::Node(_) => false,
            };
            if is_to_end {
                self.kill_again(run);
            }
        }
        match self.drains.get(&lock).map(|drain| drain.deadline <= now.wall) {
            Some(true) => self.end_drain(now, lock),
            Some(false) => self.empty(now, lock),
            None => {}
        }
    }

    /// The worker of a copy is heard again: of two copies the table says which goes. Gives whether this
    /// one is to end.
    fn copy_is_back(&mut self, now: Now, key: &InstanceKey, run: RunId) -> bool {
        let is_silent = self.instances.get(key).is_some_and(|instance| {
            instance.is_twins(run)
                && instance.twin().is_some_and(|twin| twin.reason == TwinReason::Silent)
        });
        if is_silent && !self.goes_on_moving(key) {
            self.settle_twin(now, key);
        }
        self.instances.get(key).is_some_and(|instance| {
            let mut copies = instance.copies();
            copies.any(|copy| copy.placed.run == run && copy.stopping.is_some())
        })
    }

    /// Ends a run, once everything stands that was decided so far.
    pub(super) fn kill(&mut self, run: RunId, how: Kill) {
        if is_planted(Mistake::FreesAtTerm)
            && let Some(seat) = self.seats.get_mut(run)
            && std::mem::take(&mut seat.is_counted)
            && let Some(worker) = self.workers.get(&seat.lock)
        {
            let occupant = Occupant { key: &seat.key, wants: &seat.wants, stage: seat.stage };
            drop(self.registry.vacate(worker.bidder, occupant));
        }
        self.note_ending(run, how);
        self.tell_fleet(scheduler::Input::Kill(run, how));
    }

    /// Remembers since when a run is to end. Told again it has no more time than it had; nobody reads here
    /// what its work says of that, for there may be many.
    fn note_ending(&mut self, run: RunId, how: Kill) {
        let Some(seat) = self.seats.get(run) else { return };
        let asked = self.seen.wall;
        let ending = match (how, self.ending.contains_key(&run)) {
            (Kill::Gracefully, true) => return,
            (Kill::Gracefully, false) => {
                let is_running = seat.stage == Stage::Started;
                Ending::Asked { asked, is_running, work: self.work_of_run(&seat.key, run) }
            }
            (Kill::Now, true | false) => Ending::Killed,
        };
        self.ending.insert(run, ending);
    }

    /// When a run that is being ended is killed at the latest: `None` if it was killed, if its worker waits
    /// for as long as it takes, or if it is of a version of which nothing is known any more.
    pub(super) fn killed_at(&self, run: RunId) -> Option<WallTime> {
        match self.ending.get(&run)? {
            Ending::Again | Ending::Killed => None,
            Ending::Asked { asked, is_running, work } => {
                let within = WorkOutline::read(work.as_ref()?).ends_within(*is_running)?;
                Some(asked.plus(within))
            }
        }
    }

    /// Whether a run that is being ended was asked to by this leader, of a worker that heard that.
    pub(super) fn knows_ending(&self, run: RunId) -> bool {
        match self.ending.get(&run) {
            Some(Ending::Asked { .. } | Ending::Killed) => true,
            Some(Ending::Again) | None => false,
        }
    }

    /// Ends a run whose worker is back: it may have heard of that before, from whoever led then, or not.
    fn kill_again(&mut self, run: RunId) {
        self.kill(run, Kill::Gracefully);
        if let Some(Ending::Asked { .. }) = self.ending.get(&run) {
            self.ending.insert(run, Ending::Again);
        }
    }

    /// What a run is made of, as long as anybody knows.
    pub(super) fn work_of_run(&self, key: &WorkKey, run: RunId) -> Option<Payload> {
        match key {
            WorkKey::Instance(key) => self.work_of_copy(key, run),
            WorkKey::Task(key) => self.tasks.get(key).map(|(_, spec)| Arc::clone(&spec.work)),
            WorkKey::Node(_) => None,
        }
    }

    pub(super) fn work_of_copy(&self, key: &InstanceKey, run: RunId) -> Option<Payload> {
        let mut copies = self.instances.get(key)?.copies();
        let version = copies.find(|copy| copy.placed.run == run)?.version;
        let record = &self.service_having(key)?.record;
        let before = record.before.as_ref().filter(|(before, _)| *before == version);
        let spec = match before {
            Some((_, spec)) => spec,
            None => Some(&record.spec).filter(|_| record.version == version)?,
        };
        Some(Arc::clone(&spec.work))
    }

    pub(super) fn set_stage(&mut self, stage: StoreStage) {
        self.stage = stage;
        self.outbox.write(Row::Stage(stage));
    }

    /// Limits are to hold from now on, as the newest, whatever version they name; older ones stay until
    /// nobody goes by them, and marks never fall (safety rule 11).
    pub(super) fn set_limits(&mut self, limits: Limits) {
        let newest = self.newest_limits();
        let next = limits.after(&newest);
        if next.version <= newest.version && (Limits { version: newest.version, ..next }) == newest
        {
            // It holds already, or is on its way into the store; told again it does no harm.
            return self.tell_fleet(scheduler::Input::Limits(newest));
        }
        let next = Limits { version: newest.version.saturating_add(1), ..next };
        self.limits.push(next);
        self.write_limits();
        self.tell_fleet(scheduler::Input::Limits(next));
    }

    /// Why these limits are not to hold: they make no sense, or a spec could not be kept under them.
    pub(super) fn limits_objection(&self, limits: &Limits) -> Option<String> {
        let limits = limits.after(&self.newest_limits());
        if let Err(wrong) = limits.check() {
            return Some(wrong.to_string());
        }
        // Also what may come back: a version that is taken back would never be sent.
        let services = self.services.iter().flat_map(|(key, service)| {
            let before = service.record.before.iter().map(|(_, spec)| spec.contract);
            let contracts = before.chain([service.record.spec.contract]);
            contracts.map(|contract| (key.to_string(), contract))
        });
        let tasks = self.tasks.iter().filter(|(_, (task, _))| task.phase() == TaskPhase::Pending);
        let tasks = tasks.map(|(key, (_, spec))| (key.to_string(), spec.contract));
        let least = limits.stop_after_min();
        services
            .chain(tasks)
            .find_map(|(name, contract)| too_short(least, contract, || name.clone()))
    }

    /// Why work under this contract could not run under the limits that somebody may go by: it would be
    /// stopped before its worker is given up, so that no run of it is ever sent (safety rule 11).
    pub(super) fn limits_forbid(&self, work: &str, contract: Contract) -> Option<String> {
        let usual = Limits::default();
        let all = if self.limits.is_empty() { slice::from_ref(&usual) } else { &self.limits };
        let least = all.iter().map(Limits::stop_after_min).max()?;
        too_short(least, contract, || work.to_owned())
    }

    /// Sees to it that the limits allow for such a run, before it is claimed.
    pub(super) fn allow_for(&mut self, key: &WorkKey, contract: Contract) {
        if let Some(raised) = self.newest_limits().raised_for(key, contract) {
            self.set_limits(raised);
        }
    }

    /// Goes by these limits as long as none are stored.
    pub(crate) const fn go_by(&mut self, usual: Limits) {
        self.usual = usual;
    }

    /// The newest limits; the usual ones in a store that has none.
    fn newest_limits(&self) -> Limits {
        self.limits.last().copied().unwrap_or(self.usual)
    }

    /// Whether a task or an instance was ever started under `keep`, by the marks.
    pub(super) fn has_kept_claims(&self) -> bool {
        self.limits.iter().any(|limits| limits.has_kept_claims)
    }

    pub(super) fn write_limits(&mut self) {
        let limits = self.limits.clone();
        self.outbox.write(Row::Limits(limits));
    }
}

/// Whether it may still be heard under this life.
pub(super) const fn is_here(worker: &Worker) -> bool {
    match worker.health {
        Health::New | Health::Healthy | Health::Unhealthy => true,
        Health::MustDie => false,
    }
}

fn too_short(least: Span, contract: Contract, work: impl Fn() -> String) -> Option<String> {
    let after = contract.stop_after().filter(|after| *after < least)?;
    let work = work();
    Some(format!(
        "under these limits a run lasts {least} at least without a word, and {work} is to be \
         stopped after {after}, before its worker would be given up; give it a longer stop_after, \
         or set a shorter lose_after"
    ))
}
