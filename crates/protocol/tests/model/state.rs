//! One state of the small world, and everything in it that follows without a choice.

use std::collections::{BTreeMap, BTreeSet};

use sterna_model::{
    BootTime, Contract, DirectoryId, Epoch, Incarnation, Lock, MachineId, Name, Namespace,
    NodeName, Nonce, Revision, RunId, Span, TaskIncarnation, Term, WallTime, Work, WorkKey,
};
use sterna_protocol::{
    health::Health,
    limits::{Book, Limits},
    message::{FromLeader, FromWorker, Mandate, News, Order, Saying, StatusAnswer, StreamId},
    roster::{Enrolled, Origin},
    scheduler::{self, Begin, Bump, Claim, Dispatch, Fleet, Settlement},
    worker::{self, Start, Worker},
};

/// The two keys: a task, which is claimed, and a node of a batch, which is not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Key {
    Task,
    Node,
}

pub(crate) const KEYS: [Key; 2] = [Key::Task, Key::Node];
pub(crate) const STOP_AFTER: Span = Span::from_secs(20);
/// Between two moments nothing is chosen; this is how finely time passes then.
const GRAIN: u64 = 500;

/// Who a frame is for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Frame {
    Up(FromWorker),
    Down(FromLeader),
}

/// What is said again and again.
#[derive(PartialEq, Eq)]
enum Repeated {
    Heartbeat,
    Answer,
    Statuses,
}

impl Frame {
    fn repeated(&self) -> Option<Repeated> {
        match self {
            Self::Up(frame) => match frame.saying {
                Saying::Heartbeat(_) => Some(Repeated::Heartbeat),
                Saying::Statuses(_) => Some(Repeated::Statuses),
                Saying::Running(_) | Saying::Answers(_) | Saying::Noted(_) => None,
            },
            Self::Down(frame) => match frame.order {
                Order::Heartbeat(_) => Some(Repeated::Answer),
                Order::Statuses(_)
                | Order::GetRunning
                | Order::Run(_)
                | Order::NotifyIfNotRunning(..)
                | Order::Kill(..)
                | Order::Die => None,
            },
        }
    }
}

/// A task, as it is stored.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Task {
    Pending,
    Claimed(Claim),
    Ended,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct State {
    pub(crate) now: u64,
    /// How many moments have come.
    pub(crate) moment: usize,
    term: u64,
    fleet: Fleet,
    pub(crate) workers: [Machine; 2],
    /// Frames on their way, in no order.
    pub(crate) net: Vec<(StreamId, Frame)>,
    opened: u64,
    runs: u8,
    roster: BTreeMap<Lock, Enrolled>,
    task: Task,
    /// The run of the node, as far as this leader knows.
    node: Option<RunId>,
    alive: BTreeMap<RunId, Container>,
    started: BTreeSet<(Key, RunId)>,
    /// The first promise that was broken.
    pub(crate) broken: Option<&'static str>,
    pub(crate) left: Left,
}

/// How often each fault may still happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Left {
    pub(crate) losses: u8,
    pub(crate) copies: u8,
    pub(crate) cuts: u8,
    pub(crate) restarts: u8,
    pub(crate) runs: u8,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Machine {
    worker: Worker,
    pub(crate) stream: Option<StreamId>,
    life: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Container {
    key: Key,
    machine: usize,
    end_at: Option<u64>,
}

fn limits() -> Limits {
    Limits {
        heartbeat_grace: Span::from_secs(2),
        check_every: Span::from_secs(3),
        check_grace: Span::from_secs(3),
        lose_after: Span::from_secs(6),
        kill_wait: Span::from_secs(1),
        batch_stop_after_max: STOP_AFTER,
        stop_after_max: STOP_AFTER,
        ..Limits::default()
    }
}

fn lock(machine: usize) -> Lock {
    let number = u8::try_from(machine).unwrap() + 1;
    let directory = DirectoryId::from_parts(WallTime::EPOCH, [number; 10]);
    Lock { directory, machine: MachineId::from_bytes([number; 16]).unwrap() }
}

fn work(key: Key) -> WorkKey {
    let name = |text| Name::new(text).unwrap();
    let work = match key {
        Key::Task => Work::Task(name("t")),
        Key::Node => Work::Node { batch: name("b"), node: NodeName::new("n").unwrap() },
    };
    WorkKey { namespace: Namespace::new("default").unwrap(), work }
}

fn key(work: &WorkKey) -> Key {
    match work.work {
        Work::Task(_) => Key::Task,
        Work::Node { .. } | Work::Instance { .. } => Key::Node,
    }
}

impl State {
    /// Two workers that are healthy under the first leader, and nothing sent yet.
    pub(crate) fn new(left: Left) -> Self {
        let machine = |index: usize| {
            let start = Start {
                incarnation: Incarnation { lock: lock(index), life: 1 },
                name: Name::new(if index == 0 { "a" } else { "b" }).unwrap(),
                boot: 1,
                facts: [].into(),
                seen: None,
                confirmed: None,
                held: Vec::new(),
                limits: limits(),
            };
            let worker = Worker::new(BootTime::from_millis(1_000), start);
            Machine { worker, stream: None, life: 1 }
        };
        let mut state = Self {
            now: 1_000,
            moment: 0,
            term: 1,
            fleet: reign(1_000, 1, &BTreeMap::new(), &Task::Pending),
            workers: [machine(0), machine(1)],
            net: Vec::new(),
            opened: 0,
            runs: 0,
            roster: BTreeMap::new(),
            task: Task::Pending,
            node: None,
            alive: BTreeMap::new(),
            started: BTreeSet::new(),
            broken: None,
            left,
        };
        state.dial(0);
        state.dial(1);
        // What is said until then is told in the world's own tests.
        for _ in 0..10 {
            state.pass(500);
            while let Some((stream, frame)) = state.net.pop() {
                state.deliver(stream, frame);
            }
        }
        assert!((0..2).all(|index| state.is_fit(index)), "{:?}", state.fleet);
        state
    }

    fn at(&self) -> BootTime {
        BootTime::from_millis(self.now)
    }

    pub(crate) fn is_fit(&self, index: usize) -> bool {
        let incarnation = self.workers[index].worker.incarnation();
        self.fleet.health(incarnation) == Some(Health::Healthy)
    }

    /// Whether nothing was sent yet: then the two workers are alike.
    pub(crate) const fn is_untouched(&self) -> bool {
        self.runs == 0 && self.moment == 1
    }

    /// Whether a dispatcher that obeys the rules may send a run of this key.
    pub(crate) fn may_send(&self, key: Key) -> bool {
        match key {
            Key::Task => self.task == Task::Pending && self.fleet.doors().unclaimed,
            Key::Node => self.node.is_none() && self.fleet.doors().stop_batches,
        }
    }

    /// Sends a run of a key to a worker, claimed before if it must be.
    pub(crate) fn send(&mut self, key: Key, index: usize) {
        self.runs += 1;
        self.left.runs -= 1;
        let run = RunId::from_parts(WallTime::EPOCH, [self.runs; 10]);
        let to = self.workers[index].worker.incarnation();
        let task =
            (key == Key::Task).then(|| TaskIncarnation::from_parts(WallTime::EPOCH, [1; 10]));
        let contract = Contract::Stop { after: STOP_AFTER };
        let key = work(key);
        let claim = Claim { holder: to, run, key: key.clone(), task, contract };
        match task {
            Some(_) => self.task = Task::Claimed(claim),
            None => self.node = Some(run),
        }
        let is_alive = self.alive.values().any(|container| work(container.key) == key);
        if is_alive {
            self.broken.get_or_insert("P10");
        }
        let dispatch = Dispatch { to, run, key, task, contract, work: [].into() };
        self.step_leader(scheduler::Input::Dispatch(vec![dispatch]));
    }

    /// A frame arrives, if its stream is still there.
    pub(crate) fn deliver(&mut self, stream: StreamId, frame: Frame) {
        match frame {
            Frame::Up(frame) => self.step_leader(scheduler::Input::Frame(stream, frame)),
            Frame::Down(frame) => {
                let index = usize::from(frame.incarnation.lock == lock(1));
                self.step_worker(index, worker::Input::Frame(stream, frame));
            }
        }
    }

    /// The worker loses its stream, with all that is on it; its leader is not told.
    pub(crate) fn cut(&mut self, index: usize) {
        if let Some(stream) = self.workers[index].stream.take() {
            self.net.retain(|(on, _)| *on != stream);
            self.step_worker(index, worker::Input::Closed(stream));
        }
    }

    pub(crate) fn dial(&mut self, index: usize) {
        self.opened += 1;
        let stream = StreamId::new(self.opened);
        self.workers[index].stream = Some(stream);
        self.step_worker(index, worker::Input::Opened(stream));
    }

    /// The leader resigns, and the next one takes over with what is stored.
    pub(crate) fn restart(&mut self) {
        self.cut(0);
        self.cut(1);
        self.term += 1;
        self.node = None;
        self.fleet = reign(self.now, self.term, &self.roster, &self.task);
    }

    /// Lets time pass, and nobody choose anything.
    pub(crate) fn pass(&mut self, span: u64) {
        let until = self.now + span;
        while self.now < until {
            self.now += GRAIN;
            let now = self.now;
            let is_due = |container: &Container| container.end_at.is_some_and(|end| now >= end);
            let due = self.alive.iter().filter(|(_, container)| is_due(container));
            for (run, machine) in due.map(|(run, one)| (*run, one.machine)).collect::<Vec<_>>() {
                self.alive.remove(&run);
                self.step_worker(machine, worker::Input::Ended(run, [].into()));
            }
            for index in 0..2 {
                self.step_worker(index, worker::Input::Tick);
            }
            self.step_leader(scheduler::Input::Tick);
        }
    }

    fn push(&mut self, stream: StreamId, frame: Frame) {
        if !self.workers.iter().any(|machine| machine.stream == Some(stream)) {
            return;
        }
        // Heartbeats are answered at once, or not at all: a worker is heard or it is cut off.
        match frame.repeated() {
            Some(Repeated::Heartbeat | Repeated::Answer) => return self.deliver(stream, frame),
            // What is said again overtakes what was said before, which is lost.
            Some(Repeated::Statuses) => self.net.retain(|(on, other)| {
                *on != stream || other.repeated() != Some(Repeated::Statuses)
            }),
            None => self.net.retain(|(on, other)| *on != stream || *other != frame),
        }
        self.net.push((stream, frame));
    }

    fn step_leader(&mut self, input: scheduler::Input) {
        let mut effects = Vec::new();
        self.fleet.step(self.at(), input, &mut effects);
        for effect in effects {
            self.perform_above(effect);
        }
    }

    fn perform_above(&mut self, effect: scheduler::Effect) {
        use scheduler::{Effect, Input};
        match effect {
            Effect::Send(stream, frame) => self.push(stream, Frame::Down(frame)),
            Effect::Enroll(entry) => {
                let incarnation = entry.incarnation;
                self.roster.insert(incarnation.lock, entry);
                self.step_leader(Input::Enrolled(incarnation));
            }
            Effect::Revive(incarnation) => {
                if let Some(entry) = self.roster.get_mut(&incarnation.lock) {
                    entry.is_declared_dead = false;
                }
                self.step_leader(Input::Enrolled(incarnation));
            }
            Effect::Strike(lock) => {
                self.roster.remove(&lock);
                self.step_leader(Input::Struck(lock));
            }
            Effect::Settled(run, settlement) => {
                let is_over = match settlement {
                    Settlement::NotSent(_) | Settlement::Refused(_) => false,
                    Settlement::Gone(_) => true,
                };
                self.release(run, is_over);
            }
            Effect::Found(_, held) => match key(&held.key) {
                Key::Node if self.node.is_none() => self.node = Some(held.run),
                Key::Node | Key::Task => {}
            },
            Effect::Reported(report) => {
                match report.news {
                    News::Progress(_) => {}
                    News::Ended(_) => self.release(report.run, true),
                    News::WasNotRunning => self.release(report.run, false),
                }
                let (from, run, number) = (report.from, report.run, report.number);
                self.step_leader(Input::Recorded(from, run, number, StatusAnswer::Recorded));
            }
            Effect::StoreLags(..) => drop(self.broken.get_or_insert("a store that lags")),
            Effect::Close(_)
            | Effect::Silent(_)
            | Effect::Health(..)
            | Effect::Facts(..)
            | Effect::WantsDrain(..)
            | Effect::Opened(_)
            | Effect::Retired(_) => {}
        }
    }

    fn release(&mut self, run: RunId, is_over: bool) {
        if matches!(&self.task, Task::Claimed(claim) if claim.run == run) {
            self.task = if is_over { Task::Ended } else { Task::Pending };
        }
        if self.node == Some(run) {
            self.node = None;
        }
    }

    fn step_worker(&mut self, index: usize, input: worker::Input) {
        let mut effects = Vec::new();
        let now = self.at();
        self.workers[index].worker.step(now, input, &mut effects);
        for effect in effects {
            self.perform_below(index, effect);
        }
    }

    fn perform_below(&mut self, index: usize, effect: worker::Effect) {
        use worker::{Effect, Input};
        match effect {
            Effect::AskGuardian(number) => self.step_worker(index, Input::GuardianAnswered(number)),
            Effect::Check => self.step_worker(index, Input::Checked(self.at())),
            Effect::Send(stream, frame) => self.push(stream, Frame::Up(frame)),
            Effect::Start(run) => {
                let key = key(&run.key);
                if self.started.iter().any(|(other, _)| *other == key) && key == Key::Task {
                    self.broken.get_or_insert("P1");
                }
                if self.alive.values().any(|container| container.key == key) {
                    self.broken.get_or_insert("P2");
                }
                if key == Key::Task {
                    self.started.insert((key, run.run));
                }
                self.alive.insert(run.run, Container { key, machine: index, end_at: None });
            }
            Effect::Stop(run, _) => {
                let end = self.now + limits().kill_wait.as_millis();
                if let Some(container) = self.alive.get_mut(&run) {
                    container.end_at = Some(container.end_at.map_or(end, |at| at.min(end)));
                }
            }
            Effect::Rebirth => {
                let machine = &mut self.workers[index];
                machine.life += 1;
                let next = Incarnation { lock: lock(index), life: machine.life };
                self.step_worker(index, Input::Reborn(next));
            }
            Effect::Close(_)
            | Effect::Forget(_)
            | Effect::Confirmed(_)
            | Effect::Remember(..)
            | Effect::Limits(_)
            | Effect::Alarm(_) => {}
        }
    }

    pub(crate) fn are_both_running(&self) -> bool {
        KEYS.iter().all(|key| self.alive.values().any(|container| container.key == *key))
    }

    /// A second run was sent because the first was settled, and it runs.
    pub(crate) fn has_run_again(&self) -> bool {
        let first = RunId::from_parts(WallTime::EPOCH, [1; 10]);
        self.runs == 2 && !self.alive.contains_key(&first) && !self.alive.is_empty()
    }

    /// Two states that differ only in the order of frames on their way are one.
    pub(crate) fn sort(&mut self) {
        use std::hash::{DefaultHasher, Hash, Hasher};
        self.net.sort_by_cached_key(|frame| {
            let mut hasher = DefaultHasher::new();
            frame.hash(&mut hasher);
            hasher.finish()
        });
    }
}

fn reign(now: u64, term: u64, roster: &BTreeMap<Lock, Enrolled>, task: &Task) -> Fleet {
    let now = BootTime::from_millis(now);
    let claim = match task {
        Task::Claimed(claim) => Some(claim.clone()),
        Task::Pending | Task::Ended => None,
    };
    let begin = Begin {
        mandate: Mandate { epoch: Epoch::new(1), term: Term::new(term), nonce: Nonce::new(term) },
        elected: now,
        lease_until: now.plus(Span::from_secs(1_000)),
        revision: Revision::new(term),
        book: Book::new(limits(), Vec::new()),
        roster: roster.values().cloned().collect(),
        claims: claim.into_iter().collect(),
        origin: if roster.is_empty() { Origin::Virgin } else { Origin::Continued },
        bump: Bump::Forbidden,
    };
    Fleet::new(now, begin)
}
