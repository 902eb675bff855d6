//! A leader with real workers' cores, over a link that loses nothing: tasks and services from the
//! call to the end, workers that go and come back, and a change of leader.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on says where")]

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};

use sterna_engine::{
    Effect, Input, Leader, Line,
    auction::Rules,
    control::{self, Answer, Call, CallId, Next, Now, Row, RowKey, Stage},
};
use sterna_model::{
    BootTime, Bytes, ClusterId, Constraints, Contract, Countables, Demand, DirectoryId, Epoch,
    Incarnation, Lock, MachineId, Millicores, Name, Namespace, Nonce, Revision, RunId, ServiceKey,
    Span, TaskIncarnation, TaskKey, Term, WallTime, Wants, WorkKey,
    record::{CrashPolicy, Instance, InstancePhase, TaskEnd},
    spec::{DEFAULT_DOMAIN, ServiceSpec, TaskSpec, UpdatePolicy, WhenFull},
};
use sterna_protocol::{
    limits::{Book, Limits},
    message::{FromWorker, Mandate, StreamId},
    roster::Origin,
    scheduler::{Begin, Bump},
    worker::{self, Start, Worker},
};

const STEP: Span = Span::from_millis(100);

struct Machine {
    worker: Worker,
    stream: StreamId,
    running: BTreeMap<RunId, WorkKey>,
    is_up: bool,
    /// Whether its checks succeed.
    is_well: bool,
    life: u64,
}

struct World {
    now: Now,
    leader: Leader,
    store: BTreeMap<RowKey, Row>,
    machines: Vec<Machine>,
    up: VecDeque<(StreamId, FromWorker)>,
    answers: Vec<(u64, Answer)>,
    starts: Vec<WorkKey>,
    /// What stands in its log.
    lines: Vec<Line>,
    calls: u64,
    term: u64,
}

fn name(text: &str) -> Name {
    Name::new(text).unwrap()
}

fn task(text: &str) -> TaskKey {
    TaskKey { namespace: Namespace::default(), name: name(text) }
}

fn web() -> ServiceKey {
    ServiceKey { namespace: Namespace::default(), name: name("web") }
}

fn wants() -> Arc<Wants> {
    let demand =
        Demand::new(Millicores::new(0), Bytes::new(10), Bytes::new(0), Countables::default());
    Arc::new(Wants { demand, constraints: Constraints::default() })
}

fn create(text: &str) -> Call {
    let spec = TaskSpec {
        wants: wants(),
        contract: Contract::Stop { after: Span::from_secs(120) },
        work: Arc::from(*b"{}"),
        when_full: WhenFull::Wait,
        latest_start: None,
        callback: None,
        keeps_name: false,
    };
    let incarnation = TaskIncarnation::from_parts(WallTime::EPOCH, [1; 10]);
    Call::CreateTask(task(text), incarnation, Arc::new(spec))
}

/// A task under `keep` that is not to start after this.
fn create_kept_by(text: &str, latest: WallTime) -> Call {
    let Call::CreateTask(key, incarnation, spec) = create(text) else { panic!("it is a task") };
    let spec = TaskSpec { contract: Contract::Keep, latest_start: Some(latest), ..(*spec).clone() };
    Call::CreateTask(key, incarnation, Arc::new(spec))
}

fn service(instances: u32) -> Call {
    service_under(Contract::Replace { after: Span::from_secs(15) }, instances)
}

fn service_under(contract: Contract, instances: u32) -> Call {
    let spec = ServiceSpec {
        instances,
        wants: wants(),
        contract,
        work: Arc::from(*b"{}"),
        crash: CrashPolicy::default(),
        update: UpdatePolicy::default(),
        domain: name(DEFAULT_DOMAIN),
        notes: "".into(),
    };
    Call::PutService(web(), spec)
}

fn lock(number: usize) -> Lock {
    let number = u8::try_from(number).unwrap();
    let directory = DirectoryId::from_parts(WallTime::EPOCH, [number; 10]);
    Lock { directory, machine: MachineId::from_bytes(*directory.as_bytes()).unwrap() }
}

fn leader(now: Now, term: u64, origin: Origin, store: &BTreeMap<RowKey, Row>) -> Leader {
    let roster = store.values().filter_map(|record| {
        let Row::Roster(_, entry) = record else { return None };
        entry.clone()
    });
    let (newest, older) = match store.get(&RowKey::Limits) {
        Some(Row::Limits(all)) => (*all.last().unwrap(), all[..all.len() - 1].to_vec()),
        Some(_) | None => (Limits::default(), Vec::new()),
    };
    let fleet = Begin {
        mandate: Mandate {
            cluster: ClusterId::from_parts(WallTime::EPOCH, [1; 10]),
            epoch: Epoch::new(1),
            term: Term::new(term),
            nonce: Nonce::new(term),
        },
        elected: now.boot,
        lease_until: now.boot.plus(Span::from_secs(10)),
        revision: Revision::new(term),
        reigns: BTreeMap::new(),
        marks: sterna_model::Marks::NONE,
        book: Book::new(newest, older).unwrap(),
        roster: roster.collect(),
        claims: Vec::new(),
        origin,
        bump: Bump::Forbidden,
        roster_max: usize::MAX,
    };
    let stage = match origin {
        Origin::Virgin => Stage::Virgin,
        Origin::Continued => Stage::Used,
        Origin::Recovered | Origin::Rebuilt => Stage::Recovered,
    };
    let records = store.values().cloned().collect();
    let seed = [u8::try_from(term).unwrap(); 16];
    let (epoch, rules) = (Epoch::new(1), Rules::default());
    Leader::new(now, fleet, control::Begin { epoch, stage, records, seed, rules })
}

impl World {
    fn new(workers: usize) -> Self {
        let now = Now { boot: BootTime::from_millis(1_000_000), wall: WallTime::EPOCH };
        let store = BTreeMap::new();
        let machines = (0..workers).map(Machine::new).collect();
        let mut world = Self {
            now,
            leader: leader(now, 1, Origin::Virgin, &store),
            store,
            machines,
            up: VecDeque::new(),
            answers: Vec::new(),
            starts: Vec::new(),
            lines: Vec::new(),
            calls: 0,
            term: 1,
        };
        world.connect();
        world
    }

    fn connect(&mut self) {
        for number in 0..self.machines.len() {
            let stream = StreamId::new(self.term * 100 + number as u64);
            self.machines[number].stream = stream;
            if self.machines[number].is_up {
                self.tell(number, worker::Input::Opened(stream));
            }
        }
        self.run(5);
    }

    /// Another leader takes over, with what stands in the store.
    fn change_leader(&mut self) {
        self.begin_reign(Origin::Continued);
    }

    fn begin_reign(&mut self, origin: Origin) {
        self.term += 1;
        self.up.clear();
        self.leader = leader(self.now, self.term, origin, &self.store);
        self.connect();
    }

    fn why(&mut self, key: impl Into<WorkKey>) -> Option<(String, Next)> {
        let why = self.leader.why(self.now, &key.into())?;
        Some((why.rule.to_string(), why.next))
    }

    fn run(&mut self, seconds: u64) {
        for _ in 0..seconds * 10 {
            self.now = Now { boot: self.now.boot.plus(STEP), wall: self.now.wall.plus(STEP) };
            self.step(Input::Lease(self.now.boot.plus(Span::from_secs(9))));
            self.step(Input::Tick);
            for number in 0..self.machines.len() {
                if self.machines[number].is_up {
                    if self.machines[number].is_well {
                        self.tell(number, worker::Input::Checked(self.now.boot));
                    }
                    self.tell(number, worker::Input::Tick);
                }
            }
            while let Some((stream, frame)) = self.up.pop_front() {
                self.step(Input::Frame(stream, frame));
            }
        }
    }

    fn step(&mut self, input: Input) {
        let mut effects = Vec::new();
        self.leader.step(self.now, input, &mut effects);
        loop {
            for effect in std::mem::take(&mut effects) {
                self.perform(effect);
            }
            let Some((parcel, writes)) = self.leader.commit() else { return };
            for row in writes {
                match row.is_gone() {
                    false => drop(self.store.insert(row.key(), row)),
                    true => drop(self.store.remove(&row.key())),
                }
            }
            let committed = Input::Control(control::Input::Committed(parcel));
            self.leader.step(self.now, committed, &mut effects);
        }
    }

    fn perform(&mut self, effect: Effect) {
        match effect {
            Effect::Send(stream, frame) => {
                let to = self.machines.iter().position(|machine| machine.stream == stream);
                if let Some(number) = to.filter(|number| self.machines[*number].is_up) {
                    self.tell(number, worker::Input::Frame(stream, frame));
                }
            }
            Effect::Answer(id, answer) => self.answers.push((id.0, answer)),
            Effect::Why(line) => {
                // The same value for everybody who asks.
                assert_eq!(self.leader.why(self.now, &line.key).as_ref(), Some(&line.why));
                self.lines.push(*line);
            }
            Effect::Close(_) | Effect::Callback(_) | Effect::Alarm(_) | Effect::Batch(_) => {}
            Effect::StoreLags(..) => panic!("the store never went back"),
        }
    }

    fn tell(&mut self, number: usize, input: worker::Input) {
        let now = self.now.boot;
        let mut inputs = VecDeque::from([input]);
        while let Some(input) = inputs.pop_front() {
            let mut effects = Vec::new();
            self.machines[number].worker.step(now, input, &mut effects);
            for effect in effects {
                match effect {
                    worker::Effect::AskGuardian(question) => {
                        inputs.push_back(worker::Input::GuardianAnswered(question));
                    }
                    worker::Effect::Send(stream, frame) => self.up.push_back((stream, frame)),
                    worker::Effect::Start(run) => {
                        self.starts.push(run.key.clone());
                        self.machines[number].running.insert(run.run, run.key);
                        let said = Arc::from(&br#"{"state":"running"}"#[..]);
                        inputs.push_back(worker::Input::Progress(run.run, said));
                    }
                    worker::Effect::Stop(run, _) => {
                        if self.machines[number].running.remove(&run).is_some() {
                            let said = Arc::from(&br#"{"cause":"request"}"#[..]);
                            inputs.push_back(worker::Input::Ended(run, said));
                        }
                    }
                    worker::Effect::Rebirth => {
                        self.machines[number].life += 1;
                        let life = self.machines[number].life;
                        let life = Incarnation { lock: lock(number), life };
                        inputs.push_back(worker::Input::Reborn(life));
                    }
                    worker::Effect::Check
                    | worker::Effect::Close(_)
                    | worker::Effect::Forget(_)
                    | worker::Effect::Confirmed(_)
                    | worker::Effect::Remember(..)
                    | worker::Effect::Limits(_)
                    | worker::Effect::Alarm(_) => {}
                }
            }
        }
    }

    fn end(&mut self, key: impl Into<WorkKey>, said: &'static [u8]) {
        let key = key.into();
        for number in 0..self.machines.len() {
            let running = &self.machines[number].running;
            let run = running.iter().find(|(_, of)| **of == key).map(|(run, _)| *run);
            if let Some(run) = run {
                self.machines[number].running.remove(&run);
                self.tell(number, worker::Input::Ended(run, Arc::from(said)));
                return;
            }
        }
        panic!("{key} runs nowhere");
    }

    fn ask(&mut self, call: Call) -> Answer {
        self.calls += 1;
        let id = self.calls;
        self.step(Input::Control(control::Input::Call(CallId(id), call)));
        self.run(3);
        self.answers.iter().find(|(told, _)| *told == id).unwrap().1.clone()
    }

    fn where_is(&self, key: impl Into<WorkKey>) -> Vec<usize> {
        let key = key.into();
        let has = |machine: &Machine| machine.running.values().any(|of| *of == key);
        (0..self.machines.len()).filter(|number| has(&self.machines[*number])).collect()
    }

    fn task_end(&self, text: &str) -> Option<TaskEnd> {
        let Row::Task(_, Some((task, _))) = self.store.get(&RowKey::Task(task(text)))? else {
            return None;
        };
        task.end().cloned()
    }

    fn phase(&self, index: u32) -> InstancePhase {
        match self.store.get(&RowKey::Instance(web().instance(index))) {
            Some(Row::Instance(_, Some(instance))) => instance.phase(),
            other => panic!("not an instance: {other:?}"),
        }
    }
}

impl Machine {
    fn new(number: usize) -> Self {
        let start = Start {
            incarnation: Incarnation { lock: lock(number), life: 1 },
            name: name(&format!("w{number}")),
            boot: 1,
            facts: Arc::from(&br#"{"memory_bytes":100,"containers":100}"#[..]),
            seen: None,
            confirmed: None,
            birth: 1,
            held: Vec::new(),
            limits: Limits::default(),
        };
        let worker = Worker::new(BootTime::from_millis(1_000_000), start);
        Self {
            worker,
            stream: StreamId::new(0),
            running: BTreeMap::new(),
            is_up: true,
            is_well: true,
            life: 1,
        }
    }
}

#[test]
fn a_task_runs_once_from_the_call_to_its_end() {
    let mut world = World::new(2);
    assert_eq!(world.ask(create("build")), Answer::Done);
    assert_eq!(world.starts, [task("build").to_work()]);
    world.end(task("build"), br#"{"cause":"exited","exit":{"code":0}}"#);
    world.run(3);
    assert!(world.task_end("build").unwrap().is_success());
}

#[test]
fn nothing_is_turned_down_because_a_worker_does_not_know_yet_that_it_is_healthy() {
    let mut world = World::new(3);
    for number in 0..9 {
        world.ask(create(&format!("t{number}")));
    }
    let returns = world.store.values().filter_map(|record| {
        let Row::Task(_, Some((task, _))) = record else { return None };
        Some(task.returns())
    });
    assert_eq!((world.starts.len(), returns.sum::<u32>()), (9, 0));
}

#[test]
fn nothing_is_given_to_a_worker_whose_stream_is_over() {
    let mut world = World::new(2);
    for number in 0..2 {
        world.machines[number].is_up = false;
        world.step(Input::Closed(world.machines[number].stream));
        world.ask(create(&format!("build-{number}")));
    }
    assert_eq!(world.starts, [task("build-0").to_work()]);
    let waits = world.store.get(&RowKey::Task(task("build-1")));
    let Some(Row::Task(_, Some((waits, _)))) = waits else {
        panic!("it is gone");
    };
    assert_eq!((waits.placed(), waits.last()), (None, None), "nobody was there to be given it");
}

#[test]
fn the_instances_of_a_worker_that_falls_silent_run_elsewhere_and_once_again_when_it_is_back() {
    let mut world = World::new(3);
    assert_eq!(world.ask(service(3)), Answer::Done);
    assert_eq!(world.starts.len(), 3);
    let silent = world.where_is(web().instance(0))[0];
    world.machines[silent].is_up = false;
    world.run(40);
    let copies = world.where_is(web().instance(0));
    assert_eq!(copies.len(), 2, "a second copy beside the silent one");
    world.machines[silent].is_up = true;
    world.run(30);
    for index in 0..3 {
        assert_eq!(world.where_is(web().instance(index)).len(), 1, "index {index}");
        assert_eq!(world.phase(index), InstancePhase::Running);
    }
}

#[test]
fn a_task_on_a_worker_that_is_lost_ends_when_it_has_certainly_ended() {
    let mut world = World::new(2);
    world.ask(create("build"));
    let lost = world.where_is(task("build"))[0];
    world.machines[lost].is_up = false;
    world.run(100);
    assert_eq!(world.task_end("build"), None, "it may still be running");
    world.run(60);
    assert_eq!(world.task_end("build"), Some(TaskEnd::Lost));
    assert_eq!(world.starts.len(), 1, "and is not started again");
}

#[test]
fn a_change_of_leader_starts_nothing_that_runs_and_goes_on_with_the_rest() {
    let mut world = World::new(2);
    world.ask(service(4));
    world.ask(create("build"));
    world.change_leader();
    world.run(10);
    assert_eq!(world.starts.len(), 5);
    world.end(task("build"), br#"{"cause":"exited","exit":{"code":1}}"#);
    world.end(web().instance(2), br#"{"cause":"exited","exit":{"code":1}}"#);
    world.run(5);
    assert!(!world.task_end("build").unwrap().is_success());
    assert_eq!((world.starts.len(), world.phase(2)), (6, InstancePhase::Running));
}

#[test]
fn a_drained_worker_is_emptied_and_stays_empty_under_the_next_leader() {
    let mut world = World::new(2);
    world.ask(service(4));
    let deadline = world.now.wall.plus(Span::from_secs(600));
    assert_eq!(world.ask(Call::Drain(lock(0), deadline)), Answer::Done);
    world.run(5);
    assert!(world.machines[0].running.is_empty());
    assert_eq!(world.machines[1].running.len(), 4);
    world.change_leader();
    world.ask(create("build"));
    assert_eq!(world.where_is(task("build")), [1]);
    assert_eq!(world.ask(Call::Undrain(lock(0))), Answer::Done);
    world.run(3);
    world.ask(create("next"));
    assert_eq!(world.where_is(task("next")), [0]);
}

/// The store was set back to before the claim of an instance, and the worker that keeps it is missing:
/// no wait is long enough (safety rule 25). What waits is not claimed and given back over and over.
#[test]
fn rule_25_kept_work_whose_claim_was_lost_waits_for_whoever_may_have_it() {
    let mut world = World::new(2);
    let key = web().instance(0);
    world.ask(service_under(Contract::Keep, 1));
    let keeper = world.where_is(&key)[0];
    world.machines[keeper].is_up = false;
    let before = Row::Instance(key.clone(), Some(Instance::new(world.now.wall)));
    world.store.insert(before.key(), before.clone());
    world.begin_reign(Origin::Recovered);
    let waits = "the store was restored, and a missing worker may still run it: it waits for";
    assert!(world.why(&key).unwrap().0.starts_with(waits));
    world.ask(create("later"));
    let latest = world.now.wall.plus(Span::from_secs(750));
    world.ask(create_kept_by("kept", latest));
    world.run(700);
    // It is to stop by itself; but something was kept here, and its contract may have been another.
    assert_eq!(world.starts, [key.to_work()]);
    assert!(world.why(task("later")).unwrap().0.starts_with(waits));
    assert_eq!(world.store.get(&before.key()), Some(&before));
    let (rule, next) = world.why(&key).unwrap();
    let ends = "or for `sterna declare-dead`; and until `sterna declare-complete` says that no other worker is missing";
    assert_eq!((rule, next), (format!("{waits} w{keeper} to return, {ends}"), Next::WhenBack));
    assert_eq!(world.why(task("kept")).unwrap().1, Next::EndsAt(latest));
    world.run(100);
    assert_eq!(world.task_end("kept"), Some(TaskEnd::TooLate), "it does not wait for ever");
    world.step(Input::Control(control::Input::RosterIsComplete));
    world.run(5);
    assert_eq!(world.starts.len(), 1);
    let rule = world.why(&key).unwrap().0;
    assert_eq!(rule, format!("{waits} w{keeper} to return, or for `sterna declare-dead`"));
    // It is back, and has it: the record says so again, and it is not started; the other is.
    world.machines[keeper].is_up = true;
    world.connect();
    world.run(5);
    assert_eq!(world.where_is(&key), [keeper]);
    assert_eq!(world.starts, [key.to_work(), task("later").to_work()]);
    assert_eq!((world.phase(0), world.why(&key)), (InstancePhase::Running, None));
}

#[test]
fn rule_25_kept_work_goes_on_when_the_missing_are_declared_dead() {
    let mut world = World::new(2);
    let key = web().instance(0);
    world.ask(service_under(Contract::Keep, 1));
    let keeper = world.where_is(&key)[0];
    world.machines[keeper].is_up = false;
    let before = Row::Instance(key.clone(), Some(Instance::new(world.now.wall)));
    world.store.insert(before.key(), before);
    world.begin_reign(Origin::Recovered);
    world.run(700);
    world.step(Input::Control(control::Input::RosterIsComplete));
    assert_eq!(world.ask(Call::DeclareDead(lock(keeper))), Answer::Done);
    world.run(5);
    assert_eq!(world.starts, [key.to_work(), key.to_work()]);
}

/// How often each key was started, and which tasks have ended.
fn done(world: &World, keys: &[WorkKey]) -> Vec<(usize, bool)> {
    let starts = |key| world.starts.iter().filter(|started| *started == key).count();
    let is_over = |key: &WorkKey| {
        let row = key.task().and_then(|key| world.store.get(&RowKey::Task(key.clone())));
        matches!(row, Some(Row::Task(_, Some((task, _)))) if task.end().is_some())
    };
    keys.iter().map(|key| (starts(key), is_over(key))).collect()
}

#[test]
fn what_why_says_of_a_silent_worker_happens_at_that_moment_and_not_before() {
    let replace = Contract::Replace { after: Span::from_secs(15) };
    let stop = Contract::Stop { after: Span::from_secs(120) };
    let web = web().instance(0).to_work();
    let cases = [
        (web.clone(), service_under(replace, 1)),
        (web, service_under(stop, 1)),
        (task("build").to_work(), create("build")),
    ];
    for (key, call) in cases {
        let mut world = World::new(2);
        world.ask(call);
        let keys = [key.clone()];
        let before = done(&world, &keys);
        let silent = world.where_is(&key)[0];
        world.machines[silent].is_up = false;
        while world.why(&key).is_none() {
            world.run(1);
        }
        let (rule, next) = world.why(&key).unwrap();
        assert!(rule.starts_with(&format!("w{silent} has it and does not answer; ")), "{rule}");
        let (Next::At(at) | Next::EndsAt(at) | Next::OverAt(at)) = next else {
            panic!("{rule}: {next:?}")
        };
        assert!(at > world.now.wall, "{rule}");
        while world.now.wall < at {
            assert_eq!(done(&world, &keys), before, "not before: {rule}");
            world.run(1);
        }
        world.run(4);
        assert_ne!(done(&world, &keys), before, "{rule}");
    }
}

#[test]
fn what_is_on_a_worker_whose_checks_fail_runs_on_as_why_says() {
    let replace = Contract::Replace { after: Span::from_secs(15) };
    let stop = Contract::Stop { after: Span::from_secs(120) };
    for contract in [replace, stop] {
        let mut world = World::new(2);
        world.ask(service_under(contract, 1));
        world.ask(create("build"));
        let keys = [web().instance(0).to_work(), task("build").to_work()];
        let before = done(&world, &keys);
        world.machines.iter_mut().for_each(|machine| machine.is_well = false);
        world.run(60);
        for _ in 0..300 {
            world.run(1);
            assert_eq!(done(&world, &keys), before);
            for key in &keys {
                let (rule, next) = world.why(key).unwrap();
                assert!(rule.contains("has it and answers, but its health checks fail"), "{rule}");
                assert_eq!(next, Next::WhenChanged);
            }
        }
        world.machines.iter_mut().for_each(|machine| machine.is_well = true);
        world.run(60);
        assert_eq!((world.why(&keys[0]), world.why(&keys[1])), (None, None));
    }
}

/// The rules in its log, of which key, and of how many others.
fn logged(world: &World) -> Vec<(&'static str, String, usize)> {
    let line = |line: &Line| (line.why.rule.name(), line.key.to_string(), line.others);
    world.lines.iter().map(line).collect()
}

#[test]
fn the_log_has_why_once_for_all_that_a_silent_worker_has_and_again_under_the_next_leader() {
    let mut world = World::new(1);
    world.ask(service_under(Contract::Keep, 8));
    world.run(120);
    assert_eq!(logged(&world), [], "all is well");
    world.machines[0].is_up = false;
    world.run(300);
    let expected = [("out-of-reach", "default/service/web/0".to_owned(), 7)];
    assert_eq!(logged(&world), expected);
    world.lines.clear();
    world.change_leader();
    world.run(300);
    assert_eq!(logged(&world), expected);
}

#[test]
fn the_log_has_why_when_the_rule_changes_and_nothing_when_all_is_well() {
    let mut world = World::new(1);
    // The worker has room for ten.
    world.ask(service(12));
    world.run(30);
    let expected = [("unplaced", "default/service/web/10".to_owned(), 1)];
    assert_eq!(logged(&world), expected);
    world.lines.clear();
    world.ask(service(10));
    world.run(300);
    assert_eq!(logged(&world), []);
    for _ in 0..3 {
        world.end(web().instance(4), br#"{"cause":"exited","exit":{"code":1}}"#);
        world.run(1);
    }
    world.run(20);
    assert_eq!(logged(&world), [("crashed", "default/service/web/4".to_owned(), 0)]);
}
