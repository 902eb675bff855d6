//! A leader's control core, a store that takes what it is given, and workers that obey.

use std::{collections::BTreeMap, sync::Arc};

use sterna_model::{
    Bytes, Constraints, Contract, Countables, Demand, DirectoryId, Epoch, Fence, Incarnation, Lock,
    MachineId, Millicores, Name, Namespace, RunId, Span, TaskIncarnation, TaskKey, Term, WallTime,
    Wants, WorkKey,
    record::{CrashPolicy, Instance, InstancePhase, Task},
    spec::{DEFAULT_DOMAIN, ServiceSpec, TaskSpec, UpdatePolicy, WhenFull},
};
use sterna_protocol::{
    health::Health,
    message::{Held, Kill, News, StatusAnswer},
    roster::{Doors, Enrolled, Zone},
    scheduler::{self, Dispatch, Reach, Report, Settlement},
};

use crate::auction::Rules;
use crate::control::{
    Alarm, Answer, Begin, Call, CallId, Control, Effect, Forecast, Input, Now, Row, RowKey,
    ServiceKey, Stage, Why,
};

pub(super) const RUNNING: &[u8] = br#"{"state":"running","is_ready":true}"#;
pub(super) const UNREADY: &[u8] = br#"{"state":"running","is_ready":false}"#;
pub(super) const STOPPED: &[u8] = br#"{"cause":"request"}"#;
pub(super) const SUCCESS: &[u8] = br#"{"cause":"exited","exit":{"code":0}}"#;
pub(super) const FAILURE: &[u8] = br#"{"cause":"exited","exit":{"code":1}}"#;

/// What a worker does with what it is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mood {
    /// It starts runs and says so, and ends what it is to end.
    Obeys,
    /// It starts runs, and they never get ready.
    Dawdles,
    /// It starts runs and says so, and they do not heed that they are to end, unless they are killed.
    Ignores,
    /// Nothing reaches it, and it says nothing.
    Silent,
}

pub(super) struct Play {
    pub(super) control: Control,
    pub(super) now: Now,
    pub(super) store: BTreeMap<RowKey, Row>,
    pub(super) moods: BTreeMap<u8, Mood>,
    /// In which zone they are; in none that has a name, where nothing stands here.
    pub(super) zones: BTreeMap<u8, &'static str>,
    /// Who is not near.
    pub(super) reaches: BTreeMap<Lock, Reach>,
    /// What runs, and where.
    pub(super) running: BTreeMap<RunId, (u8, WorkKey)>,
    pub(super) answers: Vec<(u64, Answer)>,
    pub(super) alarms: Vec<Alarm>,
    pub(super) callbacks: Vec<(TaskKey, String)>,
    pub(super) acknowledged: Vec<(RunId, StatusAnswer)>,
    pub(super) starts: Vec<WorkKey>,
    /// The newest fence that each key was given, and its attempt.
    pub(super) fences: BTreeMap<WorkKey, (Fence, u32)>,
    calls: u64,
    rules: Rules,
    reign: u8,
    statuses: u64,
    /// Whether commits are made as they come.
    pub(super) is_storing: bool,
}

pub(super) fn lock(worker: u8) -> Lock {
    let directory = DirectoryId::from_parts(WallTime::EPOCH, [worker; 10]);
    let machine = MachineId::from_bytes(*directory.as_bytes()).unwrap();
    Lock { directory, machine }
}

pub(super) fn life(worker: u8) -> Incarnation {
    Incarnation { lock: lock(worker), life: 1 }
}

pub(super) fn enrolled(worker: u8) -> Enrolled {
    Enrolled {
        incarnation: life(worker),
        name: name(&format!("w{worker}")),
        boot: 1,
        birth: 1,
        is_declared_dead: false,
        is_draining: false,
        is_forgotten: false,
        zone: Zone::Unsaid,
    }
}

pub(super) fn name(text: &str) -> Name {
    Name::new(text).unwrap()
}

pub(super) fn task(text: &str) -> TaskKey {
    TaskKey { namespace: Namespace::default(), name: name(text) }
}

pub(super) fn web() -> ServiceKey {
    ServiceKey { namespace: Namespace::default(), name: name("web") }
}

pub(super) fn wants(memory: u64) -> Arc<Wants> {
    let demand =
        Demand::new(Millicores::new(0), Bytes::new(memory), Bytes::new(0), Countables::default());
    Arc::new(Wants { demand, constraints: Constraints::default() })
}

pub(super) fn task_spec() -> TaskSpec {
    TaskSpec {
        wants: wants(10),
        contract: Contract::Stop { after: Span::from_secs(600) },
        work: Arc::from(*b"{}"),
        when_full: WhenFull::Wait,
        latest_start: None,
        callback: None,
        keeps_name: false,
    }
}

pub(super) fn service_spec(instances: u32) -> ServiceSpec {
    ServiceSpec {
        instances,
        wants: wants(10),
        contract: Contract::Replace { after: Span::from_secs(15) },
        work: Arc::from(*b"{}"),
        crash: CrashPolicy::default(),
        // Those tests that are about time give their own.
        update: UpdatePolicy { healthy_for: Span::ZERO, ..UpdatePolicy::default() },
        domain: name(DEFAULT_DOMAIN),
        notes: "".into(),
    }
}

pub(super) fn other_work(spec: &ServiceSpec, text: &str) -> ServiceSpec {
    ServiceSpec { work: Arc::from(text.as_bytes()), ..spec.clone() }
}

pub(super) fn incarnation(number: u8) -> TaskIncarnation {
    TaskIncarnation::from_parts(WallTime::EPOCH, [number; 10])
}

impl Play {
    /// A cluster without workers.
    pub(super) fn empty() -> Self {
        Self::begin(BTreeMap::new(), WallTime::EPOCH, 1, false)
    }

    /// With workers of 100 bytes each.
    pub(super) fn with(workers: u8) -> Self {
        let mut play = Self::empty();
        for worker in 1..=workers {
            play.join(worker);
        }
        play
    }

    pub(super) fn begin(
        store: BTreeMap<RowKey, Row>,
        wall: WallTime,
        epoch: u64,
        is_recovered: bool,
    ) -> Self {
        Self::reign(store, wall, (epoch, is_recovered), 1, Rules::default())
    }

    /// With workers of 100 bytes each, of which so many containers may start at a time.
    pub(super) fn starting_at_most(starts: u32, workers: u8) -> Self {
        let rules = Rules { start_limit: Some(starts), ..Rules::default() };
        let (store, wall) = (BTreeMap::new(), WallTime::EPOCH);
        let mut play = Self::reign(store, wall, (1, false), 1, rules);
        (1..=workers).for_each(|worker| play.join(worker));
        play
    }

    fn reign(
        store: BTreeMap<RowKey, Row>,
        wall: WallTime,
        (epoch, is_recovered): (u64, bool),
        reign: u8,
        rules: Rules,
    ) -> Self {
        let now = Now { boot: sterna_model::BootTime::from_millis(1_000_000), wall };
        let records = store.values().cloned().collect();
        let stage = if is_recovered { Stage::Recovered } else { Stage::Used };
        let (epoch, seed) = (Epoch::new(epoch), [reign; 16]);
        let begin = Begin { epoch, stage, records, seed, rules: rules.clone() };
        let mut play = Self {
            control: Control::new(now, begin),
            now,
            store,
            moods: BTreeMap::new(),
            zones: BTreeMap::new(),
            reaches: BTreeMap::new(),
            running: BTreeMap::new(),
            answers: Vec::new(),
            alarms: Vec::new(),
            callbacks: Vec::new(),
            acknowledged: Vec::new(),
            starts: Vec::new(),
            fences: BTreeMap::new(),
            calls: 0,
            reign,
            rules,
            statuses: 0,
            is_storing: true,
        };
        // Where the store was restored, somebody is missing.
        let is_whole = !is_recovered;
        let doors = Doors { unclaimed_kept: is_whole, keep_batches: is_whole, ..Doors::OPEN };
        play.news(scheduler::Effect::Opened(doors));
        play
    }

    /// A leader that has begun no longer waits for workers that are not back.
    pub(super) fn gather(&mut self) {
        self.pass(1);
        self.pass(2);
    }

    /// The leader ends, and another begins with what stands in the store. Workers are as they were.
    pub(super) fn change_leader(self) -> Self {
        let reign = self.reign.wrapping_add(1);
        let mut next = Self::reign(self.store, self.now.wall, (1, false), reign, self.rules);
        next.running = self.running;
        next.starts = self.starts;
        next.fences = self.fences;
        next.moods.clone_from(&self.moods);
        next.zones = self.zones;
        for (worker, mood) in self.moods {
            if mood != Mood::Silent {
                next.facts(worker);
                next.health(worker, Health::Healthy);
                next.heard(worker);
            }
        }
        next
    }

    pub(super) fn join(&mut self, worker: u8) {
        self.moods.insert(worker, Mood::Obeys);
        self.facts(worker);
        self.health(worker, Health::Healthy);
        self.heard(worker);
    }

    /// A worker is not heard from now on.
    pub(super) fn silence(&mut self, worker: u8) {
        let heard = self.now.boot;
        let reach = Reach::Silent {
            heard: Some(heard),
            beside_from: heard,
            ended_from: heard,
            lost_at: heard,
        };
        self.reaches.insert(lock(worker), reach);
    }

    pub(super) fn facts(&mut self, worker: u8) {
        let zone = self.zones.get(&worker).map_or("null".to_owned(), |zone| format!("{zone:?}"));
        let facts = format!(r#"{{"memory_bytes":100,"containers":100,"zone":{zone}}}"#);
        let facts = Arc::from(facts.as_bytes());
        let label = name(&format!("w{worker}"));
        self.news(scheduler::Effect::Facts(life(worker), label, facts));
    }

    pub(super) fn health(&mut self, worker: u8, health: Health) {
        self.news(scheduler::Effect::Health(life(worker), health));
        self.step(Input::Takes(life(worker), health == Health::Healthy));
    }

    /// It has said what it runs, or is not silent any more.
    pub(super) fn heard(&mut self, worker: u8) {
        self.news(scheduler::Effect::Heard(life(worker)));
    }

    pub(super) fn why(&mut self, key: impl Into<WorkKey>) -> Option<Why> {
        let reach = |lock| self.reaches.get(&lock).copied().unwrap_or(Reach::Near);
        self.control.why(self.now, &key.into(), reach)
    }

    /// Of a drain that is to be over in ten minutes.
    pub(super) fn forecast(&mut self, lock: Lock) -> Vec<Forecast> {
        let deadline = self.now.wall.plus(Span::from_secs(600));
        self.control.forecast(self.now, lock, deadline)
    }

    pub(super) fn pass(&mut self, seconds: u64) {
        let span = Span::from_secs(seconds);
        self.now = Now { boot: self.now.boot.plus(span), wall: self.now.wall.plus(span) };
        self.step(Input::Tick);
    }

    pub(super) fn news(&mut self, news: scheduler::Effect) {
        self.step(Input::Fleet(news));
    }

    pub(super) fn call(&mut self, call: Call) -> u64 {
        self.calls += 1;
        let id = self.calls;
        self.step(Input::Call(CallId(id), call));
        id
    }

    /// The answer to a call that must have been answered.
    pub(super) fn ask(&mut self, call: Call) -> Answer {
        let id = self.call(call);
        let answer = self.answers.iter().find(|(told, _)| *told == id);
        answer.expect("the call was answered").1.clone()
    }

    pub(super) fn step(&mut self, input: Input) {
        let mut effects = Vec::new();
        self.control.step(self.now, input, &mut effects);
        self.perform(effects);
        if self.is_storing {
            self.store_all();
        }
    }

    /// Commits everything that is to be committed.
    pub(super) fn store_all(&mut self) {
        while self.store_one() {}
        let swept = self.control.sweep(self.now);
        assert!(swept.is_empty(), "a sweep found {swept:?}");
        let misnoted = self.control.misnoted();
        assert!(misnoted.is_empty(), "{misnoted:?}");
    }

    /// Commits the next parcel, if there is one.
    pub(super) fn store_one(&mut self) -> bool {
        let Some((parcel, writes)) = self.control.commit() else { return false };
        for row in writes {
            match row.is_gone() {
                false => drop(self.store.insert(row.key(), row)),
                true => drop(self.store.remove(&row.key())),
            }
        }
        let mut effects = Vec::new();
        self.control.step(self.now, Input::Committed(parcel), &mut effects);
        self.perform(effects);
        true
    }

    fn perform(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Fleet(input) => self.fleet(*input),
                Effect::Answer(id, answer) => self.answers.push((id.0, answer)),
                Effect::Alarm(alarm) => self.alarms.push(alarm),
                Effect::Callback(callback) => {
                    self.callbacks.push((callback.key, callback.url.into()));
                }
            }
        }
    }

    fn fleet(&mut self, input: scheduler::Input) {
        match input {
            scheduler::Input::Dispatch(all) => {
                for dispatch in all {
                    self.dispatched(dispatch);
                }
            }
            scheduler::Input::Kill(run, how) => {
                let Some((worker, _)) = self.running.get(&run) else { return };
                let ends = match self.moods[worker] {
                    Mood::Obeys | Mood::Dawdles => true,
                    Mood::Ignores => how == Kill::Now,
                    Mood::Silent => false,
                };
                if ends {
                    self.end(run, STOPPED);
                }
            }
            scheduler::Input::Recorded(_, run, _, answer) => self.acknowledged.push((run, answer)),
            scheduler::Input::Enrolled(_)
            | scheduler::Input::Struck(_)
            | scheduler::Input::Draining(..)
            | scheduler::Input::Tick
            | scheduler::Input::Frame(..)
            | scheduler::Input::Closed(_)
            | scheduler::Input::Lease(_)
            | scheduler::Input::DeclaredDead(_)
            | scheduler::Input::Limits(_)
            | scheduler::Input::Revision(_)
            | scheduler::Input::RosterIsComplete => {}
        }
    }

    fn dispatched(&mut self, dispatch: Dispatch) {
        let Dispatch { to, run, key, ordinal, .. } = dispatch;
        let term = Term::new(self.reign.into());
        let fence = Fence { epoch: Epoch::new(1), term, number: ordinal.number };
        let newest = self.fences.insert(key.clone(), (fence, ordinal.attempt));
        let newest = newest.map(|(fence, _)| fence);
        assert!(ordinal.number > 0 && newest < Some(fence), "{key}: {fence} after {newest:?}");
        let stands = self.store.values().any(|record| match record {
            Row::Task(_, Some((task, _))) => task.placed().is_some_and(|placed| placed.run == run),
            Row::Instance(_, Some(instance)) => {
                instance.copies().any(|copy| copy.placed.run == run)
            }
            Row::Task(_, None)
            | Row::Instance(_, None)
            | Row::Service(..)
            | Row::Tombstone(..)
            | Row::Roster(..)
            | Row::Drain(..)
            | Row::Domain(..)
            | Row::Definition(..)
            | Row::Limits(_)
            | Row::Stage(_) => false,
        });
        assert!(stands, "{key} was sent before its claim stood");
        let worker = *self.moods.keys().find(|worker| lock(**worker) == to.lock).unwrap();
        match self.moods[&worker] {
            Mood::Silent => {}
            Mood::Obeys | Mood::Dawdles | Mood::Ignores => {
                self.starts.push(key.clone());
                self.running.insert(run, (worker, key));
                if self.moods[&worker] != Mood::Dawdles {
                    self.report(run, News::Progress(Arc::from(RUNNING)));
                }
            }
        }
    }

    /// A run ends, and its worker says how.
    pub(super) fn end(&mut self, run: RunId, said: &[u8]) {
        self.report(run, News::Ended(Arc::from(said)));
        self.running.remove(&run);
    }

    pub(super) fn report(&mut self, run: RunId, news: News) {
        self.statuses += 1;
        let worker = self.running.get(&run).map_or(1, |(worker, _)| *worker);
        let (from, number) = (life(worker), self.statuses);
        let report = Report { from, run, number, news, is_awaited: true };
        self.news(scheduler::Effect::Reported(report));
    }

    pub(super) fn settle(&mut self, run: RunId, settlement: Settlement) {
        self.running.remove(&run);
        self.news(scheduler::Effect::Settled(run, settlement));
    }

    /// A worker is cut off, and after a while those who wait for it may go on.
    pub(super) fn fall_silent(&mut self, worker: u8) {
        self.moods.insert(worker, Mood::Silent);
        self.health(worker, Health::Unhealthy);
        for run in self.runs_on(worker) {
            self.news(scheduler::Effect::Silent(run));
        }
    }

    pub(super) fn come_back(&mut self, worker: u8) {
        self.moods.insert(worker, Mood::Obeys);
        self.heard(worker);
        self.facts(worker);
        self.health(worker, Health::Healthy);
    }

    pub(super) fn runs_on(&self, worker: u8) -> Vec<RunId> {
        let on = self.running.iter().filter(|(_, (on, _))| *on == worker);
        on.map(|(run, _)| *run).collect()
    }

    pub(super) fn found(&mut self, worker: u8, held: Held) {
        self.running.insert(held.run, (worker, held.key.clone()));
        self.news(scheduler::Effect::Found(life(worker), held));
    }

    pub(super) fn record(&self, key: &TaskKey) -> &Task {
        let Some(Row::Task(_, Some((task, _)))) = self.store.get(&RowKey::Task(key.clone())) else {
            panic!("there is no task {key}");
        };
        task
    }

    pub(super) fn instance(&self, index: u32) -> &Instance {
        let key = RowKey::Instance(web().instance(index));
        let Some(Row::Instance(_, Some(instance))) = self.store.get(&key) else {
            panic!("there is no instance {index}");
        };
        instance
    }

    /// The run in an index's place.
    pub(super) fn run_of(&self, index: u32) -> RunId {
        self.instance(index).copy().expect("it has a run").placed.run
    }

    pub(super) fn worker_of(&self, run: RunId) -> u8 {
        self.running[&run].0
    }

    /// The phase of every index that there is.
    pub(super) fn phases(&self) -> Vec<(u32, InstancePhase)> {
        let instances = self.store.values().filter_map(|row| {
            let Row::Instance(key, Some(instance)) = row else { return None };
            Some((key.index, instance.phase()))
        });
        instances.collect()
    }
}
