//! Who is there, what is on each, and who is drained.

use std::{collections::BTreeSet, slice, sync::Arc};

use sterna_model::{
    Contract, Incarnation, Lock, Name, RunId, Span, Wants, Work, WorkKey,
    planted::{Mistake, is_planted},
    record::{Illegal, InstancePhase, StopReason, TaskEnd, TaskPhase, TwinReason},
};
use sterna_protocol::{
    health::Health,
    limits::Limits,
    message::{Kill, Payload},
    roster::Enrolled,
    scheduler,
};

use super::{
    Answer, Control, Drain, Now, Record, RecordKey, Stage as StoreStage, WorkerSeen, payload,
    placing::Helped, services,
};
use crate::auction::{BidderId, Occupant, Registry, Stage, Standing};

/// A worker, as this leader sees it.
#[derive(Clone, Debug)]
pub(super) struct Worker {
    pub(super) life: Incarnation,
    pub(super) name: Name,
    facts: Payload,
    pub(super) health: Health,
    /// Whether the fleet would send it a run.
    takes: bool,
    /// Whether it has said in this reign what it runs, under this or an earlier life.
    is_back: bool,
    bidder: BidderId,
}

/// A run on a worker, and what it takes there.
#[derive(Clone, Debug)]
pub(super) struct Seat {
    pub(super) key: WorkKey,
    pub(super) lock: Lock,
    wants: Arc<Wants>,
    stage: Stage,
    /// Whether the auction knows of it.
    is_counted: bool,
}

impl Control {
    /// What a worker has is known, or is something else now.
    pub(super) fn set_facts(&mut self, life: Incarnation, name: Name, facts: Payload) {
        let lock = life.lock;
        let known = self.workers.get(&lock).map(|it| (it.bidder, it.health, it.takes, it.is_back));
        let (bidder, health, takes, is_back) =
            known.unwrap_or_else(|| (self.free_bidder(), Health::New, false, false));
        let is_new = known.is_none();
        self.bidders.insert(bidder, lock);
        self.workers.insert(lock, Worker { life, name, facts, health, takes, is_back, bidder });
        self.offer(lock);
        if is_new {
            self.count_seats(lock, bidder);
        }
    }

    /// The smallest number that nobody has.
    fn free_bidder(&self) -> BidderId {
        let mut free = 0;
        for bidder in self.bidders.keys() {
            if bidder.get() != free {
                break;
            }
            free += 1;
        }
        BidderId::new(free)
    }

    pub(super) fn set_health(&mut self, life: Incarnation, health: Health) {
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
    fn offer(&mut self, lock: Lock) {
        let Some(worker) = self.workers.get(&lock) else { return };
        let is_taking = self.is_taking(lock, worker);
        let standing = if is_taking { Standing::Taking } else { Standing::Withheld };
        let offer = payload::offer(&worker.name, &worker.facts, standing);
        let bidder = worker.bidder;
        self.registry.set(bidder, offer);
        if is_taking && !is_planted(Mistake::ForgetsWaiting) {
            self.helped.push(Helped::Worker(bidder));
        }
    }

    /// What the auction would know if this machine took no work.
    pub(super) fn registry_without(&self, lock: Lock) -> Registry {
        let mut registry = self.registry.clone();
        if let Some(worker) = self.workers.get(&lock) {
            let offer = payload::offer(&worker.name, &worker.facts, Standing::Withheld);
            registry.set(worker.bidder, offer);
        }
        registry
    }

    fn count_seats(&mut self, lock: Lock, bidder: BidderId) {
        for run in self.seated.get(&lock).into_iter().flatten() {
            let Some(seat) = self.seats.get_mut(run) else { continue };
            let occupant = Occupant { key: &seat.key, wants: &seat.wants, stage: seat.stage };
            seat.is_counted = !is_planted(Mistake::OversellsWorkers)
                && self.registry.occupy(bidder, occupant).is_ok();
        }
    }

    /// A run that may be there takes its seat; the auction has given it, or it was there before.
    pub(super) fn seat(&mut self, run: RunId, key: WorkKey, on: Incarnation) {
        let wants = self.wants_of_run(&key, run);
        let bidder = self.workers.get(&on.lock).map(|worker| worker.bidder);
        let stage = Stage::Starting;
        let occupant = Occupant { key: &key, wants: &wants, stage };
        let bidder = bidder.filter(|_| !is_planted(Mistake::OversellsWorkers));
        let is_counted =
            bidder.is_some_and(|bidder| self.registry.occupy(bidder, occupant).is_ok());
        self.keep_seat(run, Seat { key, lock: on.lock, wants, stage, is_counted });
    }

    /// The auction has given a run its seat.
    pub(super) fn seat_placed(&mut self, run: RunId, key: WorkKey, lock: Lock, wants: Arc<Wants>) {
        let stage = Stage::Starting;
        self.keep_seat(run, Seat { key, lock, wants, stage, is_counted: true });
    }

    fn keep_seat(&mut self, run: RunId, seat: Seat) {
        self.seated.entry(seat.lock).or_default().insert(run);
        self.seats.insert(run, seat);
    }

    /// A run has started: it no longer burdens its worker as one that starts.
    pub(super) fn seat_started(&mut self, run: RunId) {
        let Some(seat) = self.seats.get_mut(&run) else { return };
        if seat.stage == Stage::Started {
            return;
        }
        seat.stage = Stage::Started;
        if seat.is_counted
            && let Some(worker) = self.workers.get(&seat.lock)
            && self.registry.started(worker.bidder, &seat.key).is_ok()
        {
            self.helped.push(Helped::Started);
        }
    }

    /// A run is certainly gone: what it took is free (safety rule 23).
    pub(super) fn leave_seat(&mut self, run: RunId) {
        let Some(seat) = self.seats.remove(&run) else { return };
        if let Some(runs) = self.seated.get_mut(&seat.lock) {
            runs.remove(&run);
        }
        let Some(worker) = self.workers.get(&seat.lock) else { return };
        let bidder = worker.bidder;
        let occupant = Occupant { key: &seat.key, wants: &seat.wants, stage: seat.stage };
        if seat.is_counted
            && self.registry.vacate(bidder, occupant).is_ok()
            && !is_planted(Mistake::ForgetsWaiting)
        {
            self.helped.push(Helped::Worker(bidder));
        }
    }

    /// Everybody who is here or on the roster, for people.
    pub fn workers(&self) -> Vec<WorkerSeen> {
        let locks = self.workers.keys().chain(self.roster.keys());
        let locks: BTreeSet<Lock> = locks.copied().collect();
        let seen = locks.into_iter().filter_map(|lock| {
            let (worker, entry) = (self.workers.get(&lock), self.roster.get(&lock));
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
                runs: self.seated.get(&lock).map_or(0, BTreeSet::len),
                facts,
            })
        });
        seen.collect()
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
        self.seated.get(&lock).into_iter().flatten().copied().collect()
    }

    /// Who could be out of reach is heard, well or not: what is to end there is told so again, and what
    /// was silent is held against its record.
    pub(super) fn worker_is_back(&mut self, now: Now, lock: Lock) {
        if let Some(worker) = self.workers.get_mut(&lock) {
            worker.is_back = true;
        }
        for run in self.runs_on(lock) {
            let Some(key) = self.seats.get(&run).map(|seat| seat.key.clone()) else { continue };
            if !is_planted(Mistake::RemembersSilence) {
                self.silent.remove(&run);
            }
            if let Some(instance) = self.instances.get(&key) {
                let is_silent = instance.is_twins(run)
                    && instance.twin().is_some_and(|twin| twin.reason == TwinReason::Silent);
                if is_silent {
                    self.settle_twin(now, &key);
                }
                let is_stopping = self.instances.get(&key).is_some_and(|instance| {
                    let mut copies = instance.copies();
                    copies.any(|copy| copy.placed.run == run && copy.stopping.is_some())
                });
                if is_stopping {
                    self.kill(run, Kill::Gracefully);
                }
            } else if let Some((task, _)) = self.tasks.get(&key)
                && task.end().is_some()
            {
                self.kill(run, Kill::Gracefully);
            }
        }
        if self.drains.contains_key(&lock) {
            self.evacuate(now, lock);
        }
    }

    /// Ends a run, once everything stands that was decided so far.
    pub(super) fn kill(&mut self, run: RunId, how: Kill) {
        if is_planted(Mistake::FreesAtTerm)
            && let Some(seat) = self.seats.get_mut(&run)
            && std::mem::take(&mut seat.is_counted)
            && let Some(worker) = self.workers.get(&seat.lock)
        {
            let occupant = Occupant { key: &seat.key, wants: &seat.wants, stage: seat.stage };
            drop(self.registry.vacate(worker.bidder, occupant));
        }
        self.tell_fleet(scheduler::Input::Kill(run, how));
    }

    /// An entry of the roster is to stand; marks that stand there stay.
    pub(super) fn enroll(&mut self, mut entry: Enrolled) {
        let (lock, life) = (entry.incarnation.lock, entry.incarnation);
        if let Some(stands) = self.roster.get(&lock) {
            entry.is_declared_dead = stands.is_declared_dead;
            entry.is_draining = stands.is_draining;
        }
        if self.stage == StoreStage::Virgin && !is_planted(Mistake::StaysVirgin) {
            self.set_stage(StoreStage::Used);
        }
        self.roster.insert(lock, entry.clone());
        self.outbox.write(RecordKey::Roster(lock), Some(Record::Roster(entry)));
        self.tell_fleet(scheduler::Input::Enrolled(life));
    }

    /// An entry of the roster goes; that of another life stays.
    pub(super) fn strike(&mut self, life: Incarnation) {
        let lock = life.lock;
        if self.roster.get(&lock).is_some_and(|entry| entry.incarnation == life) {
            self.roster.remove(&lock);
            self.outbox.write(RecordKey::Roster(lock), None);
        }
        self.tell_fleet(scheduler::Input::Struck(life));
        if self.workers.get(&lock).is_some_and(|worker| worker.life == life)
            && let Some(worker) = self.workers.remove(&lock)
        {
            self.registry.remove(worker.bidder);
            self.bidders.remove(&worker.bidder);
        }
    }

    /// Takes a machine off the roster that is away and has nothing. Who may have something stays there
    /// until that is certainly gone (safety rule 19).
    pub(super) fn forget(&mut self, lock: Lock) -> Answer {
        let Some(entry) = self.roster.get(&lock) else { return Answer::NotFound };
        let life = entry.incarnation;
        let refuse = |phase| Answer::Conflict(Illegal { event: "forget", phase });
        let is_here = self.workers.get(&lock).is_some_and(|worker| match worker.health {
            Health::New | Health::Healthy | Health::Unhealthy => true,
            Health::MustDie => false,
        });
        if is_here {
            return refuse("a worker that is here");
        }
        if !self.runs_on(lock).is_empty() {
            return refuse("a worker that may still run something");
        }
        if self.with_batches.contains(&lock) {
            return refuse("a worker that may still run a batch");
        }
        if entry.is_declared_dead {
            // With its mark it would be forgotten that it must end what it had, if it comes back
            // (safety rule 24). Nobody waits for it.
            return refuse("a worker that was declared dead, and may come back");
        }
        if self.is_recovered {
            return refuse("a worker of a store that was restored, and may have lost its claims");
        }
        if self.drains.contains_key(&lock) {
            self.drains.remove(&lock);
            self.outbox.write(RecordKey::Drain(lock), None);
        }
        self.strike(life);
        Answer::Done
    }

    pub(super) fn revive(&mut self, life: Incarnation) {
        if let Some(entry) = self.roster.get_mut(&life.lock)
            && entry.incarnation == life
            && !self.declaring.contains(&life.lock)
        {
            entry.is_declared_dead = false;
            let entry = entry.clone();
            self.outbox.write(RecordKey::Roster(life.lock), Some(Record::Roster(entry)));
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
        self.outbox.write(RecordKey::Roster(lock), Some(Record::Roster(entry)));
        self.tell_fleet(scheduler::Input::DeclaredDead(lock));
        self.offer(lock);
        true
    }

    pub(super) fn set_stage(&mut self, stage: StoreStage) {
        self.stage = stage;
        self.outbox.write(RecordKey::Stage, Some(Record::Stage(stage)));
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
        let services = self.services.iter().map(|(key, service)| {
            (&key.namespace, "service", &key.name, service.record.spec.contract)
        });
        let tasks = self.tasks.iter().filter(|(_, (task, _))| task.phase() == TaskPhase::Pending);
        let tasks = tasks.filter_map(|(key, (_, spec))| match &key.work {
            Work::Task(name) => Some((&key.namespace, "task", name, spec.contract)),
            Work::Instance { .. } | Work::Node { .. } => None,
        });
        let least = limits.stop_after_min();
        services.chain(tasks).find_map(|(namespace, kind, name, contract)| {
            too_short(least, contract, || format!("{namespace}/{kind}/{name}"))
        })
    }

    /// Why work under this contract could not run under the limits that somebody may go by: it would be
    /// stopped before its worker is given up, so that no run of it is ever sent (safety rule 11).
    pub(super) fn contract_objection(&self, work: &str, contract: Contract) -> Option<String> {
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
        self.outbox.write(RecordKey::Limits, Some(Record::Limits(limits)));
    }

    /// Begins to drain a machine, or ends that.
    pub(super) fn set_drain(&mut self, now: Now, lock: Lock, drain: Option<Drain>) {
        let is_draining = drain.is_some();
        if let Some(before) = self.drains.remove(&lock) {
            self.timers.remove(&(before.deadline, super::Timer::Drain(lock)));
        }
        if let Some(drain) = &drain {
            self.timers.insert((drain.deadline, super::Timer::Drain(lock)));
            self.drains.insert(lock, drain.clone());
        }
        self.outbox.write(RecordKey::Drain(lock), drain.map(Record::Drain));
        if let Some(entry) = self.roster.get_mut(&lock) {
            entry.is_draining = is_draining;
            let entry = entry.clone();
            self.outbox.write(RecordKey::Roster(lock), Some(Record::Roster(entry)));
        }
        self.tell_fleet(scheduler::Input::Draining(lock, is_draining));
        self.offer(lock);
        if is_draining {
            self.evacuate(now, lock);
        } else {
            self.stay(now, lock);
        }
    }

    /// What was to move from a machine, and has not, stays there.
    fn stay(&mut self, now: Now, lock: Lock) {
        for run in self.runs_on(lock) {
            let Some(key) = self.seats.get(&run).map(|seat| seat.key.clone()) else { continue };
            let is_evacuating =
                self.instances.get(&key).and_then(|one| one.twin()).is_some_and(|twin| {
                    twin.copy.placed.run == run && twin.reason == TwinReason::Evacuating
                });
            if is_evacuating {
                self.settle_twin(now, &key);
            }
        }
    }

    /// Moves what can be moved from a machine. Tasks do not move: they run on until the deadline.
    pub(super) fn evacuate(&mut self, now: Now, lock: Lock) {
        for run in self.runs_on(lock) {
            let Some(key) = self.seats.get(&run).map(|seat| seat.key.clone()) else { continue };
            self.evacuate_copy(now, &key, run);
        }
    }

    /// Moves one copy, if it is its instance's own: a copy that runs goes on until another does, one
    /// that is starting ends.
    pub(super) fn evacuate_copy(&mut self, now: Now, key: &WorkKey, run: RunId) {
        let Some(instance) = self.instances.get_mut(key) else { return };
        let Some(copy) = instance.copy().filter(|copy| copy.placed.run == run).cloned() else {
            return;
        };
        if copy.stopping.is_some() {
            return;
        }
        let is_running = instance.phase() == InstancePhase::Running;
        let may_overlap = services::may_overlap(copy.placed.contract);
        if may_overlap && instance.displace(TwinReason::Evacuating, now.wall).is_ok() {
            if !is_running {
                instance.stop(run, StopReason::Drain);
            }
        } else if !may_overlap {
            instance.stop(run, StopReason::Drain);
        } else {
            // Its twin's slot is taken: it moves when that is free.
            return;
        }
        let is_stopping =
            instance.copies().any(|copy| copy.placed.run == run && copy.stopping.is_some());
        self.write_instance(key);
        if is_stopping {
            self.kill(run, Kill::Gracefully);
        }
        self.converge_index(now, key);
    }

    /// A drain always ends: what is still there is ended (and the machine stays without work).
    pub(super) fn end_drain(&mut self, now: Now, lock: Lock) {
        if !self.drains.contains_key(&lock) {
            return;
        }
        for run in self.runs_on(lock) {
            let Some(key) = self.seats.get(&run).map(|seat| seat.key.clone()) else { continue };
            if let Some(instance) = self.instances.get_mut(&key) {
                if instance.stop(run, StopReason::Drain) {
                    self.write_instance(&key);
                    self.kill(run, Kill::Gracefully);
                }
            } else {
                self.end_task_early(now, &key, TaskEnd::Drained);
            }
        }
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
