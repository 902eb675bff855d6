//! The two cores, the queue between them, and what became of each run.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use sterna_model::{
    ClusterId, Contract, DirectoryId, Epoch, Incarnation, Lock, MachineId, Name, Namespace,
    NodeName, Nonce, Revision, RunId, Span, Term, WallTime, Work, WorkKey,
};
use sterna_protocol::{
    health::Health,
    limits::{Book, Limits},
    message::{FromLeader, FromWorker, Held, Kill, Mandate, Ordinal, StatusAnswer, StreamId},
    roster::Origin,
    scheduler::{self, Begin, Bump, Dispatch, Fleet, Settlement},
    worker::{self, Start, Stop, Worker},
};

use super::rng::{Clock, Rng};

/// A moment of the world, in steps of this many milliseconds.
const STEP: u64 = 50;
/// How long everything goes wrong, and how long it may take until all is well.
const HARSH: u64 = 90_000;
const CALM: u64 = 150_000;
const KEYS: u8 = 4;

/// How often what was to be tried has happened.
#[derive(Debug, Default)]
pub(crate) struct Done {
    started: u64,
    refused: u64,
    not_running: u64,
    gone: u64,
    ended: u64,
    lives: u64,
}

impl Done {
    pub(crate) fn add(&mut self, other: &Self) {
        self.started += other.started;
        self.refused += other.refused;
        self.not_running += other.not_running;
        self.gone += other.gone;
        self.ended += other.ended;
        self.lives += other.lives;
    }

    pub(crate) fn is_varied(&self) -> bool {
        let Self { started, refused, not_running, gone, ended, lives } = self;
        [started, refused, not_running, gone, ended, lives].into_iter().all(|count| *count > 100)
    }
}

/// Something that happens later.
#[derive(Clone)]
enum Later {
    Up(StreamId, FromWorker),
    Down(StreamId, FromLeader),
    ToLeader(scheduler::Input),
    ToWorker(worker::Input),
    Ends(RunId),
}

/// What outlives the worker's process.
struct Disk {
    life: u64,
    seen: Option<(Mandate, Revision)>,
    confirmed: Option<sterna_model::BootTime>,
    held: BTreeMap<RunId, Held>,
}

pub(crate) struct Pair {
    now: u64,
    rng: Rng,
    fleet: Fleet,
    worker: Option<Worker>,
    /// When its process starts again.
    up_at: u64,
    disk: Disk,
    clocks: (Clock, Clock),
    queue: Vec<(u64, Later)>,
    stream: Option<StreamId>,
    streams: u64,
    runs: u64,
    alive: BTreeMap<RunId, WorkKey>,
    started: BTreeSet<RunId>,
    /// Sent off, and neither settled nor reported as ended.
    open: BTreeSet<RunId>,
    settled: BTreeSet<RunId>,
    done: Done,
    broken: Option<String>,
}

fn limits() -> Limits {
    Limits {
        heartbeat_grace: Span::from_secs(2),
        check_every: Span::from_secs(3),
        check_grace: Span::from_secs(3),
        judge_every: Span::from_millis(500),
        lose_after: Span::from_secs(6),
        kill_wait: Span::from_secs(1),
        batch_stop_after_max: Span::from_secs(20),
        stop_after_max: Span::from_secs(20),
        has_kept_batches: true,
        ..Limits::default()
    }
}

fn lock() -> Lock {
    let directory = DirectoryId::from_parts(WallTime::EPOCH, [1; 10]);
    Lock { directory, machine: MachineId::from_bytes([7; 16]).unwrap() }
}

fn name(text: &str) -> Name {
    Name::new(text).unwrap()
}

fn key(number: u8) -> WorkKey {
    let work = Work::Node { batch: name("b"), node: NodeName::new(&format!("n{number}")).unwrap() };
    work.within(&Namespace::default())
}

impl Pair {
    pub(crate) fn new(seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let clocks = (Clock::new(&mut rng), Clock::new(&mut rng));
        let now = clocks.0.at(0);
        let begin = Begin {
            mandate: Mandate {
                cluster: ClusterId::from_parts(WallTime::EPOCH, [1; 10]),
                epoch: Epoch::new(1),
                term: Term::new(1),
                nonce: Nonce::new(1),
            },
            elected: now,
            lease_until: now.plus(Span::from_secs(10)),
            revision: Revision::new(1),
            reigns: BTreeMap::new(),
            marks: sterna_model::Marks::NONE,
            book: Book::new(limits(), Vec::new()).unwrap(),
            roster: Vec::new(),
            claims: Vec::new(),
            origin: Origin::Virgin,
            bump: Bump::Forbidden,
            roster_max: usize::MAX,
        };
        Self {
            now: 0,
            rng,
            fleet: Fleet::new(now, begin),
            worker: None,
            up_at: 0,
            disk: Disk { life: 0, seen: None, confirmed: None, held: BTreeMap::new() },
            clocks,
            queue: Vec::new(),
            stream: None,
            streams: 0,
            runs: 0,
            alive: BTreeMap::new(),
            started: BTreeSet::new(),
            open: BTreeSet::new(),
            settled: BTreeSet::new(),
            done: Done::default(),
            broken: None,
        }
    }

    /// Plays it to the end, which comes when all is well.
    pub(crate) fn play(mut self) -> Result<Done, String> {
        while self.now < HARSH + CALM {
            self.pass_moment();
            if let Some(broken) = self.broken {
                return Err(format!("at {} ms {broken}", self.now));
            }
            if !self.is_harsh() && self.is_well() {
                self.done.lives = self.disk.life;
                return Ok(self.done);
            }
        }
        let left = (&self.open, &self.alive, self.worker.as_ref().map(Worker::health));
        Err(format!("not well after {CALM} ms of calm: {left:?}"))
    }

    const fn is_harsh(&self) -> bool {
        self.now < HARSH
    }

    fn is_well(&self) -> bool {
        let is_healthy =
            |worker: &Worker| worker.health() == Health::Healthy && worker.runs().next().is_none();
        self.worker.as_ref().is_some_and(is_healthy)
            && self.open.is_empty()
            && self.fleet.held(lock()).next().is_none()
    }

    fn pass_moment(&mut self) {
        self.now += STEP;
        let lease = self.clocks.0.at(self.now).plus(Span::from_secs(10));
        self.step_leader(scheduler::Input::Lease(lease));
        if self.worker.is_none() && self.now >= self.up_at {
            self.begin_life();
        }
        if self.is_harsh() && self.rng.chance(2) {
            self.worker = None;
            self.up_at = self.now + self.rng.below(500);
            self.break_stream();
        }
        if self.is_harsh() && self.rng.chance(5) {
            self.break_stream();
        }
        if self.stream.is_none() && self.worker.is_some() && self.rng.chance(100) {
            self.streams += 1;
            let stream = StreamId::new(self.streams);
            self.stream = Some(stream);
            self.step_worker(worker::Input::Opened(stream));
        }
        let (due, later) =
            std::mem::take(&mut self.queue).into_iter().partition(|(at, _)| self.now >= *at);
        self.queue = later;
        for (_, what) in due {
            self.happen(what);
        }
        self.send_something();
        if self.clocks.0.at(self.now) >= self.fleet.deadline() {
            self.step_leader(scheduler::Input::Tick);
        }
        self.step_worker(worker::Input::Tick);
    }

    fn begin_life(&mut self) {
        self.disk.life += 1;
        let start = Start {
            incarnation: Incarnation { lock: lock(), life: self.disk.life },
            name: name("w"),
            boot: 1,
            facts: Arc::from([]),
            seen: self.disk.seen,
            confirmed: self.disk.confirmed,
            birth: 1,
            held: self.disk.held.values().cloned().collect(),
            limits: limits(),
        };
        self.worker = Some(Worker::new(self.clocks.1.at(self.now), start));
        // What has ended while nobody was there to be told.
        let ended = self.disk.held.keys().filter(|run| !self.alive.contains_key(run));
        for run in ended.copied().collect::<Vec<_>>() {
            self.step_worker(worker::Input::Ended(run, Arc::from([])));
        }
    }

    fn break_stream(&mut self) {
        if let Some(stream) = self.stream.take() {
            self.step_worker(worker::Input::Closed(stream));
            let at = self.now + self.rng.below(3_000);
            self.queue.push((at, Later::ToLeader(scheduler::Input::Closed(stream))));
        }
    }

    fn happen(&mut self, what: Later) {
        match what {
            Later::Up(stream, frame) => self.step_leader(scheduler::Input::Frame(stream, frame)),
            Later::Down(stream, frame) => {
                if self.stream == Some(stream) {
                    self.step_worker(worker::Input::Frame(stream, frame));
                }
            }
            Later::ToLeader(input) => self.step_leader(input),
            Later::ToWorker(input) => self.step_worker(input),
            Later::Ends(run) => {
                if self.alive.remove(&run).is_some() {
                    self.step_worker(worker::Input::Ended(run, Arc::from([])));
                }
            }
        }
    }

    /// Puts a frame on its way. Each fares by itself, so that they overtake each other.
    fn post(&mut self, frame: &Later) {
        if !self.is_harsh() {
            return self.queue.push((self.now + STEP, frame.clone()));
        }
        let copies = if self.rng.chance(60) { 0 } else { 1 + u64::from(self.rng.chance(60)) };
        for _ in 0..copies {
            let late = if self.rng.chance(100) { 15_000 } else { 300 };
            let at = self.now + self.rng.between(1, late);
            self.queue.push((at, frame.clone()));
        }
    }

    fn send_something(&mut self) {
        if !self.is_harsh() || !self.rng.chance(60) {
            return;
        }
        if self.rng.chance(100)
            && let Some(run) = self.rng.pick(&self.open.iter().copied().collect::<Vec<_>>())
        {
            return self.step_leader(scheduler::Input::Kill(run, Kill::Now));
        }
        let key = key(u8::try_from(self.rng.below(KEYS.into())).unwrap());
        let after = Span::from_secs(20);
        let contract = if self.rng.chance(500) { Contract::Keep } else { Contract::Stop { after } };
        let to = Incarnation { lock: lock(), life: self.disk.life };
        if self.fleet.contract_objection(&key, contract).is_some() {
            return;
        }
        self.runs += 1;
        let mut bytes = [0; 10];
        bytes[2..].copy_from_slice(&self.runs.to_be_bytes());
        let run = RunId::from_parts(WallTime::EPOCH, bytes);
        self.open.insert(run);
        let (ordinal, work) = (Ordinal::default(), Arc::from([]));
        let dispatch = Dispatch { to, run, key, task: None, contract, ordinal, work };
        self.step_leader(scheduler::Input::Dispatch(vec![dispatch]));
    }

    fn step_leader(&mut self, input: scheduler::Input) {
        use scheduler::{Effect, Input};
        let mut effects = Vec::new();
        self.fleet.step(self.clocks.0.at(self.now), input, &mut effects);
        for effect in effects {
            match effect {
                Effect::Send(stream, frame) => self.post(&Later::Down(stream, frame)),
                Effect::Enroll(entry) => self.answer(Input::Enrolled(entry.incarnation)),
                Effect::Revive(life) => self.answer(Input::Enrolled(life)),
                Effect::Strike(life) => self.answer(Input::Struck(life)),
                Effect::Raise(limits) => self.answer(Input::Limits(limits)),
                Effect::WantsDrain(lock, drains) => self.answer(Input::Draining(lock, drains)),
                Effect::Settled(run, how) => self.settle(run, how),
                Effect::Reported(report) => {
                    if report.news.is_end() {
                        self.count_end(report.run, &report.news);
                    }
                    let answer = StatusAnswer::Recorded;
                    self.answer(Input::Recorded(report.from, report.run, report.number, answer));
                }
                Effect::Found(_, held) => drop(self.open.insert(held.run)),
                Effect::StoreLags(..) | Effect::Alarm(..) => {
                    self.broken.get_or_insert(format!("{effect:?}"));
                }
                Effect::Close(_)
                | Effect::Silent(_)
                | Effect::Heard(_)
                | Effect::Health(..)
                | Effect::Facts(..)
                | Effect::Opened(_)
                | Effect::Healed
                | Effect::Retired(_) => {}
            }
        }
    }

    /// The store answers, in its time.
    fn answer(&mut self, input: scheduler::Input) {
        let at = self.now + self.rng.between(1, 1_000);
        self.queue.push((at, Later::ToLeader(input)));
    }

    /// What is settled does not run, and never will.
    fn settle(&mut self, run: RunId, how: Settlement) {
        self.open.remove(&run);
        self.settled.insert(run);
        match how {
            Settlement::NotSent(_) => {}
            Settlement::Refused(_) => self.done.refused += 1,
            Settlement::Gone(_) => self.done.gone += 1,
        }
        if self.alive.contains_key(&run) {
            self.broken.get_or_insert(format!("{run:?} is {how:?}, and runs"));
        }
    }

    fn count_end(&mut self, run: RunId, news: &sterna_protocol::message::News) {
        use sterna_protocol::message::News;
        self.open.remove(&run);
        match news {
            News::Ended(_) => self.done.ended += 1,
            News::WasNotRunning => self.done.not_running += 1,
            News::Progress(_) => {}
        }
        if self.alive.contains_key(&run) {
            self.broken.get_or_insert(format!("{run:?} is said to have ended, and runs"));
        }
    }

    fn step_worker(&mut self, input: worker::Input) {
        use worker::{Effect, Input};
        let now = self.clocks.1.at(self.now);
        let Some(worker) = &mut self.worker else { return };
        let mut effects = Vec::new();
        worker.step(now, input, &mut effects);
        for effect in effects {
            match effect {
                Effect::Send(stream, frame) => self.post(&Later::Up(stream, frame)),
                Effect::AskGuardian(number) => {
                    self.after(50, Later::ToWorker(Input::GuardianAnswered(number)));
                }
                Effect::Check => self.after(200, Later::ToWorker(Input::Checked(now))),
                Effect::Start(run) => self.start(run),
                Effect::Stop(run, Stop::Asked(_)) => self.after(500, Later::Ends(run)),
                Effect::Stop(run, Stop::Deadline(wait)) => {
                    self.after(wait.as_millis().max(1), Later::Ends(run));
                }
                Effect::Forget(run) => drop(self.disk.held.remove(&run)),
                Effect::Confirmed(stamp) => self.disk.confirmed = Some(stamp),
                Effect::Remember(mandate, revision) => self.disk.seen = Some((mandate, revision)),
                Effect::Rebirth => {
                    self.disk.life += 1;
                    let next = Incarnation { lock: lock(), life: self.disk.life };
                    self.after(100, Later::ToWorker(Input::Reborn(next)));
                }
                Effect::Alarm(alarm) => {
                    self.broken.get_or_insert(format!("{alarm:?}"));
                }
                Effect::Close(_) | Effect::Limits(_) => {}
            }
        }
    }

    fn after(&mut self, most: u64, what: Later) {
        let at = self.now + self.rng.between(1, most);
        self.queue.push((at, what));
    }

    fn start(&mut self, run: sterna_protocol::message::Run) {
        let sterna_protocol::message::Run { run, key, task, contract, .. } = run;
        if !self.started.insert(run) {
            self.broken.get_or_insert(format!("{run:?} starts twice"));
        }
        if self.settled.contains(&run) {
            self.broken.get_or_insert(format!("{run:?} starts after it was settled"));
        }
        if let Some((other, _)) = self.alive.iter().find(|(_, other)| **other == key) {
            self.broken.get_or_insert(format!("{run:?} of {key} starts beside {other:?}"));
        }
        self.done.started += 1;
        self.disk.held.insert(run, Held { run, key: key.clone(), task, contract, status: None });
        self.alive.insert(run, key);
        self.after(20_000, Later::Ends(run));
    }
}
