//! The control core: what runs where, and why; pure.
//!
//! ```text
//!   clients ── Call ──▶ ┌─────────┐ ── writes, one parcel at a time ──▶ store
//!   fleet ──── news ──▶ │ Control │ ◀───────────── Committed ──────────
//!   time ───── Tick ──▶ └─────────┘ ── runs, kills, answers: once they may be said
//! ```
//!
//! | room | what it decides |
//! | --- | --- |
//! | `calls` | what clients ask for |
//! | `tasks` | the life of a task, from its record to its callback |
//! | `made` | how much there is of what clients make |
//! | `task_book` | all tasks: records, taken names, callbacks, lost runs |
//! | `past` | the order in which what is over goes |
//! | `forgetting` | which records and names go, and when |
//! | `services` | which indices are to run; crashes; copies |
//! | `twins` | second copies, and which of two goes |
//! | `standing` | how far the instances of a service are |
//! | `updates` | how a new version of a service comes about, or is taken back |
//! | `workers` | who is there, and what is on each |
//! | `roster` | who may come back, and which zones there are by that |
//! | `definitions` | what is stored to be started later |
//! | `domains` | whether what no spec wants may be ended unasked |
//! | `drains` | what moves from a machine that is drained, and how that ends |
//! | `runs` | what became of a run; both tables of [`tables`](crate::tables) are applied here |
//! | `plan` | what another spec would change |
//! | `forecast` | what a drain would do |
//! | `why` | why something is not where it should be |
//! | `queue` | what wants a worker, and why it waits |
//! | `placing` | the auctions |
//! | `seats` | which run is on which machine, and what it takes there |
//! | `ids` | the names of runs |
//! | `timers` | what is looked at again, and when |
//! | `sweep` | whether anything was forgotten |
//! | `instances` | where the records of instances stand in memory |
//! | `weight` | how much room a record takes in a commit |
//! | `outbox` | what must stand in the store before anything follows from it |
//! | `payload` | what workers say, read from their words |
//!
//! Invariant: a run is sent after its claim stands in the store; nobody is told before what they are
//! told stands there.
//!
//! Invariant: whatever may be running holds its seat on its worker until it is certainly gone.
//!
//! Invariant: an event touches only what it concerns; [`Control::sweep`] looks at everything, and
//! finds nothing to do.
//!
//! It does not know links, nor the store's engine, nor what a command is made of.

mod calls;
mod definitions;
mod domains;
mod drains;
mod fields;
mod forecast;
mod forgetting;
mod gathering;
mod ids;
mod instances;
mod interface;
mod made;
mod outbox;
mod past;
mod payload;
mod placing;
mod plan;
mod queue;
mod roster;
mod rows;
mod runs;
mod seats;
mod services;
mod standing;
mod sweep;
mod task_book;
mod tasks;
#[cfg(test)]
mod tests;
mod timers;
mod twins;
mod updates;
mod weight;
mod why;
mod workers;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use sterna_model::{
    BootTime, Bytes, Constraints, Contract, Countables, Demand, Epoch, InstanceKey, Lock,
    Millicores, Name, RunId, ServiceKey, Span, TaskKey, WallTime, Wants, WorkKey,
    planted::{Mistake, is_planted},
    record::{Placed, Task},
};
use sterna_protocol::{limits::Limits, roster::Enrolled, scheduler};

pub use self::{
    definitions::Defines,
    forecast::{Fate, Forecast},
    interface::{
        Alarm, Answer, Begin, Call, CallId, Callback, Called, Drain, Effect, Input, Now, Retention,
        ServiceRecord, Stage, TakenBack, Tombstone, WorkerSeen,
    },
    made::Made,
    outbox::ParcelId,
    past::NAMES_AT_LEAST,
    payload::{Ended, ended, offer, progress},
    plan::{Change, Planned, Tense},
    rows::{Row, RowKey, TaskRow},
    why::{
        Awaited, Crashed, KnownEnd, Late, Machine, Next, Rule, Settling, Then, Unplaced, Unready,
        Why,
    },
};
use self::{
    definitions::Definitions,
    gathering::Gathering,
    ids::RunIds,
    instances::Instances,
    outbox::Outbox,
    queue::Queue,
    seats::Seats,
    standing::Service,
    task_book::Tasks,
    timers::{Timer, Timers},
    workers::Worker,
};
use crate::{auction, by_service::ByService};

/// How long a drain may take that a worker asks for itself.
const DRAIN: Span = Span::from_secs(10 * 60);

/// Everything that a leader decides by.
#[derive(Clone, Debug)]
pub struct Control {
    epoch: Epoch,
    stage: Stage,
    /// Whether the store was restored, and nobody has said since that the roster is complete.
    is_recovered: bool,
    ids: RunIds,
    outbox: Outbox<Row, Effect>,
    workers: BTreeMap<Lock, Worker>,
    bidders: BTreeMap<auction::BidderId, Lock>,
    /// Who is here and is given no work.
    withheld: BTreeSet<Lock>,
    roster: BTreeMap<Lock, Enrolled>,
    /// Who is on it, may take work in a moment, and does not yet.
    coming: BTreeSet<Lock>,
    /// How many machines on it are called the same.
    named: BTreeMap<Name, usize>,
    drains: BTreeMap<Lock, Drain>,
    /// Who is being declared dead.
    declaring: BTreeSet<Lock>,
    /// Machines on which a batch may be running.
    with_batches: BTreeSet<Lock>,
    limits: Vec<Limits>,
    /// Those that hold in a store that has none.
    usual: Limits,
    domains: BTreeMap<Name, Option<WallTime>>,
    definitions: Definitions,
    registry: auction::Registry,
    queue: Queue,
    /// What waits for the workers of a leader that has just begun; `None` when it no longer does.
    gathering: Option<Gathering>,
    seats: Seats,
    tasks: Tasks,
    services: ByService<Service>,
    instances: Instances,
    /// Runs whose worker is silent.
    silent: BTreeSet<RunId>,
    /// Services whose spec has changed in this step.
    changed: BTreeSet<ServiceKey>,
    /// Services whose update has found no room for an instance in this step.
    unroomed: BTreeSet<ServiceKey>,
    /// Services whose update waits for room that ending an instance would make.
    held_up: BTreeSet<ServiceKey>,
    timers: Timers,
    /// How far the sweep is.
    swept: sweep::Cursor,
    /// After which instance to look anew, while a clock that was set has them looked at.
    anew: Option<Option<InstanceKey>>,
    /// What the clocks showed last.
    seen: Now,
    /// When this reign began.
    began: BootTime,
    /// Runs that are being ended.
    ending: BTreeMap<RunId, workers::Ending>,
    /// Keys of which something else may be told than before, if anybody wants to know.
    touched: Option<BTreeSet<WorkKey>>,
}

impl Control {
    /// A leader that has just been elected, with everything that the store says.
    pub fn new(now: Now, begin: Begin) -> Self {
        let Begin { epoch, stage, records, seed, rules } = begin;
        let mut control = Self {
            epoch,
            stage,
            is_recovered: stage == Stage::Recovered,
            declaring: BTreeSet::new(),
            with_batches: BTreeSet::new(),
            ids: RunIds::new(seed),
            outbox: Outbox::default(),
            workers: BTreeMap::new(),
            bidders: BTreeMap::new(),
            withheld: BTreeSet::new(),
            roster: BTreeMap::new(),
            coming: BTreeSet::new(),
            named: BTreeMap::new(),
            drains: BTreeMap::new(),
            limits: Vec::new(),
            usual: Limits::default(),
            domains: BTreeMap::new(),
            definitions: Definitions::default(),
            registry: auction::Registry::new(rules),
            queue: Queue::default(),
            gathering: None,
            silent: BTreeSet::new(),
            changed: BTreeSet::new(),
            unroomed: BTreeSet::new(),
            held_up: BTreeSet::new(),
            seats: Seats::default(),
            tasks: Tasks::default(),
            services: ByService::default(),
            instances: Instances::default(),
            timers: Timers::default(),
            swept: sweep::Cursor::START,
            anew: None,
            seen: now,
            began: now.boot,
            ending: BTreeMap::new(),
            touched: None,
        };
        for row in records {
            control.load(row);
        }
        control.take_over(now);
        control
    }

    /// Takes over a row of the store.
    fn load(&mut self, row: Row) {
        match row {
            Row::Service(key, Some(record)) => {
                self.services.insert(key, Service::new(record, None));
            }
            Row::Instance(key, Some(instance)) => self.instances.insert(&key, instance),
            Row::Task(key, Some(task)) => self.tasks.insert(key, task),
            Row::Tombstone(key, Some(stone)) => self.tasks.bury(key, stone),
            Row::Roster(lock, entry @ Some(_)) => self.note_entry(lock, entry),
            Row::Drain(lock, Some(drain)) => {
                self.drains.insert(lock, drain);
                self.mind_coming(lock);
            }
            Row::Domain(name, Some(until)) => drop(self.domains.insert(name, until)),
            Row::Definition(key, version, Some(definition)) => {
                self.definitions.load(key, version, definition);
            }
            Row::Limits(limits) => self.limits = limits,
            Row::Stage(stage) => self.stage = stage,
            // Nothing is read where nothing stands.
            Row::Service(_, None)
            | Row::Instance(_, None)
            | Row::Task(_, None)
            | Row::Tombstone(_, None)
            | Row::Roster(_, None)
            | Row::Drain(_, None)
            | Row::Domain(_, None)
            | Row::Definition(_, _, None) => {}
        }
    }

    /// Goes on where the leader before has ended.
    fn take_over(&mut self, now: Now) {
        self.gather();
        let runs: Vec<_> =
            self.claims().map(|claim| (claim.run, claim.key, claim.holder)).collect();
        for (run, key, on) in runs {
            self.seat(run, key, on);
        }
        for (lock, drain) in self.drains.clone() {
            self.timers.set(drain.deadline, Timer::Drain(lock));
        }
        for (name, until) in self.domains.clone() {
            self.mind_domain(&name, until);
        }
        let services: Vec<_> = self.services.keys().cloned().collect();
        for service in &services {
            // What an earlier build has stored may ask for a mark that it did not know.
            let contract = self.services.get(service).map(|known| known.record.spec.contract);
            contract.into_iter().for_each(|it| self.allow_for(&service.instance(0).to_work(), it));
            self.converge(now, service);
        }
        let orphans = self.instances.keys();
        for key in orphans {
            self.converge_index(now, &key);
        }
        let tasks: Vec<_> = self.tasks.keys().cloned().collect();
        for key in tasks {
            self.take_over_task(now, &key);
        }
        for lock in self.draining() {
            self.empty(now, lock);
        }
        self.tasks.take_over_names();
    }

    /// Whether the store was restored, and nobody has said since that the roster is complete.
    pub const fn is_recovered(&self) -> bool {
        self.is_recovered
    }

    /// Everything that the store says may be running, for the fleet to begin with.
    pub fn claims(&self) -> impl Iterator<Item = scheduler::Claim> {
        let instances = self.instances.iter().flat_map(move |(key, instance)| {
            instance
                .copies()
                .map(move |copy| claim(key.to_work(), None, &self.frozen(&key, &copy.placed)))
        });
        let tasks = self.tasks.iter().filter_map(|(key, (task, _))| {
            Some(claim(key.to_work(), Some(task.incarnation()), task.placed()?))
        });
        instances.chain(tasks)
    }

    /// A claim lasts as its run was started, whatever its service wants by now (safety rule 7).
    fn frozen(&self, key: &InstanceKey, placed: &Placed) -> Placed {
        let service = self.service_having(key);
        let wanted = service.filter(|_| is_planted(Mistake::RereadsStopAfter));
        let contract = wanted.map_or(placed.contract, |known| known.record.spec.contract);
        Placed { contract, ..placed.clone() }
    }

    /// The machines that are being drained.
    pub fn draining(&self) -> Vec<Lock> {
        self.drains.keys().copied().collect()
    }

    /// A service, as it is going to stand.
    pub fn service(&self, key: &ServiceKey) -> Option<&ServiceRecord> {
        self.services.get(key).map(|known| &*known.record)
    }

    /// A task, as it is going to stand.
    pub fn task(&self, key: &TaskKey) -> Option<&Task> {
        self.tasks.get(key).map(|(task, _)| task)
    }

    /// Whether the name of a task belongs to one, which may be deleted.
    pub fn is_taken(&self, key: &TaskKey) -> bool {
        self.tasks.contains(key) || self.tasks.tombstone(key).is_some()
    }

    /// When to call [`Control::step`] with [`Input::Tick`].
    pub fn deadline(&self, now: Now) -> Option<BootTime> {
        if self.anew.is_some() {
            return Some(now.boot);
        }
        let timer = self.timers.first();
        let past = self.tasks.deadline();
        let wall = timer.into_iter().chain(past).min();
        let boot = wall.map(|at| now.boot.plus(at.since(now.wall)));
        boot.into_iter().chain(self.decides_at()).chain(self.gathers_until()).min()
    }

    /// What is to be committed next, if nothing is on its way.
    pub fn commit(&mut self) -> Option<(ParcelId, Vec<Row>)> {
        self.outbox.send()
    }

    /// Takes one input at `now` and adds to `effects` what the driver must do, in order.
    pub fn step(&mut self, now: Now, input: Input, effects: &mut Vec<Effect>) {
        self.mind_clock(now);
        match input {
            Input::Tick => self.pass_time(now),
            Input::Fleet(news) => self.hear(now, news),
            Input::Takes(life, takes) => self.set_takes(life, takes),
            Input::HeardDead(lock) => {
                self.declaring.remove(&lock);
            }
            Input::MayHaveBatches(lock, true) => {
                self.with_batches.insert(lock);
            }
            Input::MayHaveBatches(lock, false) => {
                self.with_batches.remove(&lock);
            }
            Input::Call(id, call) => self.call(now, id, call),
            Input::Committed(parcel) => {
                for effect in self.outbox.committed(parcel) {
                    if !self.call_off(now, &effect) {
                        self.outbox.say_at_once(effect);
                    }
                }
            }
            Input::Called(key, incarnation, called) => {
                self.callback_answered(now, &key, incarnation, called);
            }
            Input::RosterIsComplete => {
                self.is_recovered = false;
                let keys = self.instances.keys();
                for key in keys {
                    self.converge_index(now, &key);
                }
            }
        }
        self.look_anew(now);
        while let Some(service) = self.changed.pop_first() {
            self.begin_anew(now, &service);
            // After what begins anew with it, as for a spec that somebody has put.
            self.write_service(&service);
            self.ask_anew(&service);
            self.converge(now, &service);
        }
        let has_helped = self.queue.last_help().is_some();
        self.decide_anew(now);
        self.end_gathering(now);
        self.place(now);
        if has_helped {
            for service in std::mem::take(&mut self.held_up) {
                self.roll(now, &service);
            }
        }
        self.forget_past(now);
        self.outbox.take_ready(effects);
    }

    /// A wall clock that is set back makes nobody wait longer who waits for a while, rather than for a
    /// moment that people have named.
    fn mind_clock(&mut self, now: Now) {
        let expected = self.seen.wall.plus(now.boot.since(self.seen.boot));
        self.seen = now;
        let back = expected.since(now.wall);
        if back < Span::from_secs(1) {
            return;
        }
        let earlier = |at: WallTime| {
            let back = i64::try_from(back.as_millis()).unwrap_or(i64::MAX);
            WallTime::from_millis(at.as_millis().saturating_sub(back)).unwrap_or(at)
        };
        for (key, until) in self.queue.rest_otherwise(earlier) {
            match key {
                WorkKey::Instance(key) => self.timers.set(until, Timer::Restart(key)),
                WorkKey::Task(key) => self.timers.set(until, Timer::Rested(key)),
                // No node rests here.
                WorkKey::Node(_) => false,
            };
        }
        for (lock, drain) in &self.drains {
            // One that was over may not be, by what the clock shows now.
            self.timers.set(drain.deadline, Timer::Drain(*lock));
        }
        for (key, telling) in self.tasks.callbacks_mut() {
            if let Some(next) = &mut telling.next {
                *next = earlier(*next);
                self.timers.set(*next, Timer::Callback(key.clone()));
            }
        }
        // Records that name a moment beyond any wait are looked at anew, some at each step.
        self.anew = Some(None);
    }

    /// What is due.
    fn pass_time(&mut self, now: Now) {
        while let Some(timer) = self.timers.take_due(now.wall) {
            match timer {
                Timer::Rested(key) => self.task_has_rested(&key),
                Timer::Restart(key) | Timer::Settled(key) => self.converge_index(now, &key),
                Timer::Unready(key) => self.unready_is_due(now, &key),
                Timer::Task(key) => self.task_is_due(now, &key),
                Timer::Callback(key) => self.call_back_again(now, &key),
                Timer::Asked(lock) => self.ask_before_end(now, lock),
                Timer::Drain(lock) => self.end_drain(now, lock),
                Timer::Domain(name) => self.domain_is_due(now, &name),
            }
        }
    }

    /// Says something once everything stands that was decided so far.
    fn tell(&mut self, effect: Effect) {
        self.outbox.say(effect);
    }

    /// Says something to the fleet, once everything stands that was decided so far.
    fn tell_fleet(&mut self, input: scheduler::Input) {
        self.tell(Effect::Fleet(Box::new(input)));
    }

    /// What holds for the next run of a key when its link is silent.
    fn contract_of(&self, key: &WorkKey) -> Option<Contract> {
        match key {
            WorkKey::Instance(key) => {
                self.service_having(key).map(|service| service.record.spec.contract)
            }
            WorkKey::Task(key) => self.tasks.get(key).map(|(_, spec)| spec.contract),
            WorkKey::Node(_) => None,
        }
    }

    /// What a run takes on its worker.
    fn wants_of_run(&self, key: &WorkKey, run: RunId) -> Arc<Wants> {
        let instance = key.instance().and_then(|key| self.instances.get(key));
        let copy = instance.and_then(|one| one.copies().find(|copy| copy.placed.run == run));
        copy.map_or_else(|| self.wants_of(key), |copy| Arc::clone(&copy.wants))
    }

    /// What work that is known takes on its worker.
    fn wants_of(&self, key: &WorkKey) -> Arc<Wants> {
        let known = match key {
            WorkKey::Instance(key) => {
                self.service_having(key).map(|service| &service.record.spec.wants)
            }
            WorkKey::Task(key) => self.tasks.get(key).map(|(_, spec)| &spec.wants),
            WorkKey::Node(_) => None,
        };
        if let Some(wants) = known {
            return Arc::clone(wants);
        }
        // An orphan takes its place, and nobody knows what else.
        let (cpu, none) = (Millicores::new(0), Bytes::new(0));
        let demand = Demand::new(cpu, none, none, Countables::default());
        Arc::new(Wants { demand, constraints: Constraints::default() })
    }
}

fn claim(
    key: WorkKey,
    task: Option<sterna_model::TaskIncarnation>,
    placed: &Placed,
) -> scheduler::Claim {
    scheduler::Claim { holder: placed.on, run: placed.run, key, task, contract: placed.contract }
}
