//! One state of the small world, and everything in it that follows without a choice.

use std::collections::BTreeMap;

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

use crate::shared::Shared;

/// The two keys: a task, which is claimed, and a node of a batch, which is not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Key {
    Task,
    Node,
}

pub(crate) const KEYS: [Key; 2] = [Key::Task, Key::Node];
const STOP_AFTER: Span = Span::from_secs(16);
/// How long a renewal of the lease counts.
const LEASE: Span = Span::from_secs(1);

/// A frame on its way, and on which stream.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Frame {
    pub(crate) stream: StreamId,
    pub(crate) what: What,
}

/// Who a frame is for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum What {
    Up(FromWorker),
    Down(FromLeader),
}

impl What {
    const fn is_status(&self) -> bool {
        match self {
            Self::Up(frame) => matches!(frame.saying, Saying::Statuses(_)),
            Self::Down(frame) => matches!(frame.order, Order::Statuses(_)),
        }
    }

    const fn is_heartbeat(&self) -> bool {
        match self {
            Self::Up(frame) => matches!(frame.saying, Saying::Heartbeat(_)),
            Self::Down(frame) => matches!(frame.order, Order::Heartbeat(_)),
        }
    }
}

/// Which directions of a worker's stream let nothing through while time passes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Stalled {
    pub(crate) up: bool,
    pub(crate) down: bool,
}

impl Stalled {
    pub(crate) const NONE: Self = Self { up: false, down: false };
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
    pub(crate) leader: Leader,
    /// The one before, from when another was elected.
    old: Option<Leader>,
    pub(crate) workers: [Machine; 2],
    /// Frames that others have overtaken, or that come again, in no order.
    pub(crate) late: Vec<Shared<Frame>>,
    runs: u8,
    stored: Stored,
    alive: BTreeMap<RunId, Container>,
    has_started_task: bool,
    /// The first promise that was broken.
    pub(crate) broken: Option<&'static str>,
    pub(crate) left: Left,
    /// Since when time last passed.
    pub(crate) stalled: [Stalled; 2],
    /// Whether a frame waits to be delivered that was said since time began to pass.
    is_interrupted: bool,
    /// Whether anything was done to one worker and not to the other.
    pub(crate) is_lopsided: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Leader {
    term: u64,
    fleet: Shared<Fleet>,
    /// The run of the node, as far as it knows.
    node: Option<RunId>,
    /// Whether it does not reach the store any more.
    pub(crate) is_cut_off: bool,
    lease_until: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Stored {
    roster: Shared<BTreeMap<Lock, Enrolled>>,
    task: Shared<Task>,
}

/// How often each fault may still happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Left {
    /// Frames that are lost.
    pub(crate) losses: u8,
    /// Frames that come again.
    pub(crate) copies: u8,
    /// Frames that are overtaken.
    pub(crate) overtakings: u8,
    /// Streams that break.
    pub(crate) cuts: u8,
    /// Directions of streams that let nothing through for a while, heartbeats and answers to them
    /// included, of which only the last one arrives afterwards.
    pub(crate) stalls: u8,
    /// Changes of leader.
    pub(crate) restarts: u8,
    /// Runs that are sent.
    pub(crate) runs: u8,
}

impl Left {
    const fn has_frame_faults(&self) -> bool {
        self.losses > 0 || self.copies > 0 || self.overtakings > 0
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Machine {
    worker: Shared<Worker>,
    /// Its stream, and the term of the leader at its other end.
    pub(crate) stream: Option<(StreamId, u64)>,
    /// Frames on that, in order.
    pub(crate) up: Vec<Shared<Frame>>,
    pub(crate) down: Vec<Shared<Frame>>,
    opened: u64,
    life: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Container {
    key: Key,
    machine: usize,
    end_at: Option<u64>,
}

/// Short and round, so that little happens while time passes: a worker that is silent is given up 7 s
/// after its last heartbeat, has ended what it runs after 14, and the leader counts on that after 16.
fn limits() -> Limits {
    Limits {
        heartbeat_every: Span::from_secs(1),
        heartbeat_grace: Span::from_secs(1),
        check_every: Span::from_secs(1),
        check_grace: Span::ZERO,
        judge_every: Span::from_secs(1),
        lose_after: Span::from_secs(3),
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
            let worker = Shared::new(worker);
            Machine { worker, stream: None, up: Vec::new(), down: Vec::new(), opened: 0, life: 1 }
        };
        let stored =
            Stored { roster: Shared::new(BTreeMap::new()), task: Shared::new(Task::Pending) };
        let mut state = Self {
            now: 1_000,
            leader: reign(1_000, 1, &stored),
            old: None,
            workers: [machine(0), machine(1)],
            late: Vec::new(),
            runs: 0,
            stored,
            alive: BTreeMap::new(),
            has_started_task: false,
            broken: None,
            left,
            stalled: [Stalled::NONE; 2],
            is_interrupted: false,
            is_lopsided: false,
        };
        state.dial(0);
        state.dial(1);
        // What is said until then is told in the world's own tests.
        while state.now < 10_000 {
            state.drain();
            state.pass(10_000, [Stalled::NONE; 2]);
        }
        state.drain();
        assert!((0..2).all(|index| state.is_fit(index)), "{:?}", state.leader.fleet);
        state
    }

    fn drain(&mut self) {
        for index in [0, 1, 0, 1, 0, 1] {
            while let Some(frame) = self.workers[index].down.pop() {
                self.deliver(&frame);
            }
            while let Some(frame) = self.workers[index].up.pop() {
                self.deliver(&frame);
            }
        }
    }

    const fn at(&self) -> BootTime {
        BootTime::from_millis(self.now)
    }

    pub(crate) fn is_fit(&self, index: usize) -> bool {
        let incarnation = self.workers[index].worker.incarnation();
        self.leader.fleet.health(incarnation) == Some(Health::Healthy)
    }

    /// Whether the leader should be silent.
    pub(crate) const fn is_mute(&self) -> bool {
        self.now >= self.leader.lease_until
    }

    /// Whether a worker is connected to the leader.
    pub(crate) fn is_linked(&self, index: usize) -> bool {
        self.workers[index].stream.is_some_and(|(_, term)| term == self.leader.term)
    }

    /// Whether the leader at the other end of a worker's stream is mute, or gone: nothing comes of what
    /// is said to it, so that it makes no difference when that arrives.
    fn is_unheard(&self, index: usize) -> bool {
        !self.is_linked(index) || self.is_mute()
    }

    /// Whether a dispatcher that obeys the rules may send a run of this key.
    pub(crate) fn may_send(&self, key: Key) -> bool {
        let is_free = match key {
            Key::Task => *self.stored.task == Task::Pending,
            Key::Node => self.leader.node.is_none(),
        };
        let contract = Contract::Stop { after: STOP_AFTER };
        is_free && self.leader.fleet.contract_objection(&work(key), contract).is_none()
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
        if self.alive.values().any(|container| container.key == key) {
            self.broken.get_or_insert("P10");
        }
        let key = work(key);
        let claim = Claim { holder: to, run, key: key.clone(), task, contract };
        match task {
            Some(_) => *self.stored.task.change() = Task::Claimed(claim),
            None => self.leader.node = Some(run),
        }
        let dispatch = Dispatch { to, run, key, task, contract, work: [].into() };
        self.step_leader(scheduler::Input::Dispatch(vec![dispatch]));
    }

    /// A frame arrives, if its stream is still there.
    pub(crate) fn deliver(&mut self, frame: &Frame) {
        let stream = frame.stream;
        match &frame.what {
            What::Up(frame) => {
                let input = scheduler::Input::Frame(stream, frame.clone());
                let index = usize::from(frame.incarnation.lock == lock(1));
                match self.workers[index].stream {
                    Some((_, term)) if term != self.leader.term => self.step_old(input),
                    Some(_) | None => self.step_leader(input),
                }
            }
            What::Down(frame) => {
                let index = usize::from(frame.incarnation.lock == lock(1));
                self.step_worker(index, worker::Input::Frame(stream, frame.clone()));
            }
        }
    }

    /// The worker loses its stream, with all that is on it; its leader is not told.
    pub(crate) fn cut(&mut self, index: usize) {
        if let Some(stream) = self.hang_up(index) {
            self.step_worker(index, worker::Input::Closed(stream));
        }
    }

    fn hang_up(&mut self, index: usize) -> Option<StreamId> {
        let machine = &mut self.workers[index];
        let (stream, _) = machine.stream.take()?;
        self.stalled[index] = Stalled::NONE;
        machine.up.clear();
        machine.down.clear();
        self.late.retain(|frame| frame.stream != stream);
        Some(stream)
    }

    /// The worker opens a stream to the leader, in place of any that it has.
    pub(crate) fn dial(&mut self, index: usize) {
        self.hang_up(index);
        let machine = &mut self.workers[index];
        machine.opened += 1;
        // Of each machine by itself, so that it makes no difference who dials first.
        let stream = StreamId::new(u64::try_from(index).unwrap() * 100 + machine.opened);
        machine.stream = Some((stream, self.leader.term));
        self.step_worker(index, worker::Input::Opened(stream));
    }

    /// Another leader is elected, with what is stored. The one before is mute, and what it has said is
    /// still on its way to those who have not left it.
    pub(crate) fn elect(&mut self) {
        let next = reign(self.now, self.leader.term + 1, &self.stored);
        let old = std::mem::replace(&mut self.leader, next);
        // It resigned, and is gone; or it was found mute, and lives on.
        self.old = old.is_cut_off.then_some(old);
        self.tell_nobody();
    }

    /// What was said to a leader that does not listen any more has arrived.
    fn tell_nobody(&mut self) {
        for index in 0..2 {
            if self.is_unheard(index) {
                for frame in std::mem::take(&mut self.workers[index].up) {
                    self.deliver(&frame);
                }
            }
        }
    }

    /// Whether a run is on its way, or may be sent: otherwise nothing can be started any more, and no
    /// promise can be broken.
    pub(crate) fn may_start_something(&self) -> bool {
        let is_run = |frame: &Shared<Frame>| match &frame.what {
            What::Up(_) => false,
            What::Down(frame) => matches!(frame.order, Order::Run(_)),
        };
        let queues = self.workers.iter().flat_map(|machine| &machine.down);
        self.left.runs > 0 || queues.chain(&self.late).any(is_run)
    }

    /// Lets time pass until then, or until something is said that may be lost.
    pub(crate) fn pass(&mut self, until: u64, stalled: [Stalled; 2]) {
        self.stalled = stalled;
        self.is_interrupted = false;
        while self.now < until && !self.is_interrupted {
            self.now = self.next_event().clamp(self.now + 1, until);
            self.ring();
        }
        self.is_interrupted = false;
        self.tell_nobody();
    }

    fn next_event(&self) -> u64 {
        let workers = self.workers.iter().map(|machine| machine.worker.deadline());
        let ends = self.alive.values().filter_map(|container| container.end_at);
        let deadlines = workers.chain([self.leader.fleet.deadline()]);
        deadlines.map(BootTime::as_millis).chain(ends).min().unwrap_or(u64::MAX)
    }

    fn ring(&mut self) {
        let now = self.now;
        let is_due = |container: &Container| container.end_at.is_some_and(|end| now >= end);
        let due = self.alive.iter().filter(|(_, container)| is_due(container));
        for (run, machine) in due.map(|(run, one)| (*run, one.machine)).collect::<Vec<_>>() {
            self.alive.remove(&run);
            self.step_worker(machine, worker::Input::Ended(run, [].into()));
        }
        if self.leader.fleet.deadline() <= self.at() {
            if !self.leader.is_cut_off {
                let until = self.at().plus(LEASE);
                self.leader.lease_until = until.as_millis();
                self.step_leader(scheduler::Input::Lease(until));
            }
            self.step_leader(scheduler::Input::Tick);
        }
        for index in 0..2 {
            if self.workers[index].worker.deadline() <= self.at() {
                self.step_worker(index, worker::Input::Tick);
            }
        }
    }

    fn push(&mut self, stream: StreamId, what: What) {
        let is_on = |machine: &Machine| machine.stream.is_some_and(|(on, _)| on == stream);
        let Some(index) = self.workers.iter().position(is_on) else { return };
        let frame = Frame { stream, what };
        let is_stalled = match &frame.what {
            What::Up(_) => self.stalled[index].up,
            What::Down(_) => self.stalled[index].down,
        };
        let is_heartbeat = frame.what.is_heartbeat();
        // Said again until it is answered: that it is lost matters only while frames can be lost.
        let is_repeated = is_heartbeat || frame.what.is_status() && !self.left.has_frame_faults();
        let is_to_nobody = matches!(frame.what, What::Up(_)) && self.is_unheard(index);
        if is_to_nobody || is_repeated && !is_stalled {
            return self.deliver(&frame);
        }
        let frame = Shared::new(frame);
        let machine = &mut self.workers[index];
        let queue = match &frame.what {
            What::Up(_) => &mut machine.up,
            What::Down(_) => &mut machine.down,
        };
        // Of heartbeats that are held up only the last arrives.
        queue.retain(|other| !(is_heartbeat && other.what.is_heartbeat()));
        // What is said again while it is on its way is one.
        if !queue.contains(&frame) {
            queue.push(frame);
            self.is_interrupted |= !is_stalled;
        }
    }

    fn step_leader(&mut self, input: scheduler::Input) {
        let now = self.at();
        let mut effects = Vec::new();
        self.leader.fleet.change().step(now, input, &mut effects);
        for effect in effects {
            self.perform_above(effect);
        }
    }

    /// The leader before hears something, and must keep it to itself.
    fn step_old(&mut self, input: scheduler::Input) {
        let now = self.at();
        let Some(old) = &mut self.old else { return };
        let mut effects = Vec::new();
        old.fleet.change().step(now, input, &mut effects);
        for effect in effects {
            if let scheduler::Effect::Send(stream, frame) = effect {
                self.push(stream, What::Down(frame));
            } else {
                self.broken.get_or_insert("a mute leader concludes nothing");
            }
        }
    }

    fn perform_above(&mut self, effect: scheduler::Effect) {
        use scheduler::{Effect, Input};
        match effect {
            Effect::Send(stream, frame) => self.push(stream, What::Down(frame)),
            Effect::Enroll(entry) => {
                let incarnation = entry.incarnation;
                self.stored.roster.change().insert(incarnation.lock, entry);
                self.step_leader(Input::Enrolled(incarnation));
            }
            Effect::Strike(lock) => {
                self.stored.roster.change().remove(&lock);
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
                Key::Node if self.leader.node.is_none() => self.leader.node = Some(held.run),
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
            Effect::StoreLags(..) => drop(self.broken.get_or_insert("the store is as it was")),
            Effect::Close(_)
            | Effect::Revive(_)
            | Effect::Silent(_)
            | Effect::Health(..)
            | Effect::Facts(..)
            | Effect::WantsDrain(..)
            | Effect::Opened(_)
            | Effect::Retired(_) => {}
        }
    }

    fn release(&mut self, run: RunId, is_over: bool) {
        if matches!(&*self.stored.task, Task::Claimed(claim) if claim.run == run) {
            *self.stored.task.change() = if is_over { Task::Ended } else { Task::Pending };
        }
        if self.leader.node == Some(run) {
            self.leader.node = None;
        }
    }

    fn step_worker(&mut self, index: usize, input: worker::Input) {
        let now = self.at();
        let mut effects = Vec::new();
        self.workers[index].worker.change().step(now, input, &mut effects);
        for effect in effects {
            self.perform_below(index, effect);
        }
    }

    fn perform_below(&mut self, index: usize, effect: worker::Effect) {
        use worker::{Effect, Input};
        match effect {
            Effect::AskGuardian(number) => {
                self.step_worker(index, Input::GuardianAnswered(number));
            }
            Effect::Check => self.step_worker(index, Input::Checked(self.at())),
            Effect::Send(stream, frame) => self.push(stream, What::Up(frame)),
            Effect::Start(run) => self.start(index, key(&run.key), run.run),
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

    fn start(&mut self, machine: usize, key: Key, run: RunId) {
        let is_task = key == Key::Task;
        if is_task && std::mem::replace(&mut self.has_started_task, true) {
            self.broken.get_or_insert("P1");
        }
        if self.alive.values().any(|container| container.key == key) {
            self.broken.get_or_insert("P2");
        }
        self.alive.insert(run, Container { key, machine, end_at: None });
    }

    pub(crate) fn are_both_running(&self) -> bool {
        KEYS.iter().all(|key| self.alive.values().any(|container| container.key == *key))
    }

    /// A second run was sent because the first was settled, and it runs.
    pub(crate) fn has_run_again(&self) -> bool {
        let first = RunId::from_parts(WallTime::EPOCH, [1; 10]);
        self.runs == 2 && !self.alive.contains_key(&first) && !self.alive.is_empty()
    }

    /// Makes states comparable: two that differ only in the order of frames on their way are one.
    pub(crate) fn seal(&mut self) {
        self.is_interrupted = false;
        self.leader.fleet.seal();
        if let Some(old) = &mut self.old {
            old.fleet.seal();
        }
        self.workers.iter_mut().for_each(|machine| machine.worker.seal());
        self.stored.roster.seal();
        self.stored.task.seal();
        self.late.sort_by_key(Shared::hash);
    }
}

fn reign(now: u64, term: u64, stored: &Stored) -> Leader {
    let now = BootTime::from_millis(now);
    let claim = match &*stored.task {
        Task::Claimed(claim) => Some(claim.clone()),
        Task::Pending | Task::Ended => None,
    };
    let begin = Begin {
        mandate: Mandate { epoch: Epoch::new(1), term: Term::new(term), nonce: Nonce::new(term) },
        elected: now,
        lease_until: now.plus(LEASE),
        revision: Revision::new(term),
        book: Book::new(limits(), Vec::new()),
        roster: stored.roster.values().cloned().collect(),
        claims: claim.into_iter().collect(),
        origin: if stored.roster.is_empty() { Origin::Virgin } else { Origin::Continued },
        bump: Bump::Forbidden,
    };
    let lease_until = begin.lease_until.as_millis();
    let fleet = Shared::new(Fleet::new(now, begin));
    Leader { term, fleet, node: None, is_cut_off: false, lease_until }
}
