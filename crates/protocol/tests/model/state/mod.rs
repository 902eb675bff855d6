//! One state of the small world: what there is, and what is known of it.

mod step;

use std::collections::BTreeMap;

use sterna_model::{
    BootTime, ClusterId, Contract, DirectoryId, Epoch, Incarnation, Lock, MachineId, Name,
    Namespace, NodeName, Nonce, Revision, RunId, Span, Term, WallTime, Work, WorkKey,
};
use sterna_protocol::{
    limits::{Book, Limits},
    message::{FromLeader, FromWorker, Mandate, Order, Saying, StreamId},
    roster::{Enrolled, Origin},
    scheduler::{Begin, Bump, Claim, Fleet},
    worker::{Start, Worker},
};

use crate::shared::Shared;

/// The two keys: a task, which is claimed, and a node of a batch, which is not. Under `keep` the first is
/// an instance, which may be started again.
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
            Self::Down(frame) => matches!(frame.order, Order::Statuses(..)),
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
    /// What was stored in the beginning, to which the store may be set back, or to before: its roster may
    /// lack somebody then.
    backup: Stored,
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
    epoch: u64,
    /// Whether it was set back, and not healed since.
    is_recovered: bool,
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
    /// Changes of leader with a store that was set back.
    pub(crate) restores: u8,
    /// Machines that are destroyed.
    pub(crate) deaths: u8,
    /// Whether everything is under `keep`, and not under `stop`.
    pub(crate) is_kept: bool,
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
    /// Whether it was destroyed, with all that it ran.
    pub(crate) is_destroyed: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Container {
    key: Key,
    machine: usize,
    end_at: Option<u64>,
}

/// Short and round, so that little happens while time passes: a worker that is silent is given up 7 s
/// after its last heartbeat, has ended what it runs after 14, and the leader counts on that after 16.
fn limits(is_kept: bool) -> Limits {
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
        has_kept_batches: is_kept,
        has_kept_claims: is_kept,
        ..Limits::default()
    }
}

fn lock(machine: usize) -> Lock {
    let number = u8::try_from(machine).unwrap() + 1;
    let directory = DirectoryId::from_parts(WallTime::EPOCH, [number; 10]);
    Lock { directory, machine: MachineId::from_bytes([number; 16]).unwrap() }
}

fn work(key: Key, is_kept: bool) -> WorkKey {
    let name = |text| Name::new(text).unwrap();
    let work = match key {
        Key::Task if is_kept => Work::Instance { service: name("s"), index: 0 },
        Key::Task => Work::Task(name("t")),
        Key::Node => Work::Node { batch: name("b"), node: NodeName::new("n").unwrap() },
    };
    work.within(&Namespace::default())
}

fn key(work: &WorkKey) -> Key {
    match work {
        WorkKey::Task(_) | WorkKey::Instance(_) => Key::Task,
        WorkKey::Node(_) => Key::Node,
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
                birth: 1,
                held: Vec::new(),
                limits: limits(left.is_kept),
            };
            let worker = Worker::new(BootTime::from_millis(1_000), start);
            let worker = Shared::new(worker);
            let (up, down) = (Vec::new(), Vec::new());
            let (opened, life, is_destroyed) = (0, 1, false);
            Machine { worker, stream: None, up, down, opened, life, is_destroyed }
        };
        let stored = Stored {
            epoch: 1,
            is_recovered: false,
            roster: Shared::new(BTreeMap::new()),
            task: Shared::new(Task::Pending),
        };
        let mut state = Self {
            now: 1_000,
            leader: reign(1_000, 1, &stored, left.is_kept),
            old: None,
            workers: [machine(0), machine(1)],
            late: Vec::new(),
            runs: 0,
            backup: stored.clone(),
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
        state.seal();
        state.backup = state.stored.clone();
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
        self.leader.fleet.worker_objection(incarnation).is_none()
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
        let work = work(key, self.left.is_kept);
        is_free && self.leader.fleet.contract_objection(&work, self.contract()).is_none()
    }

    const fn contract(&self) -> Contract {
        if self.left.is_kept { Contract::Keep } else { Contract::Stop { after: STOP_AFTER } }
    }

    /// Whether somebody may still say that a machine runs nothing any more.
    pub(crate) fn may_be_declared(&self, index: usize) -> bool {
        let entry = self.stored.roster.get(&lock(index));
        let is_news = entry.is_some_and(|entry| !entry.is_declared_dead);
        self.workers[index].is_destroyed && is_news && self.reaches_store()
    }

    /// Whether somebody may say that nobody is missing from the roster, and be right.
    pub(crate) fn is_roster_complete(&self) -> bool {
        self.stored.is_recovered && self.stored.roster.len() == 2 && self.reaches_store()
    }

    const fn reaches_store(&self) -> bool {
        !self.leader.is_cut_off && !self.is_mute()
    }

    /// Something that was sent after the store was set back runs.
    pub(crate) fn has_run_after_a_restore(&self) -> bool {
        let second = RunId::from_parts(WallTime::EPOCH, [2; 10]);
        self.stored.epoch > 1 && self.alive.contains_key(&second)
    }

    /// Whether the one before lives on beside the leader.
    pub(crate) const fn has_two_leaders(&self) -> bool {
        self.old.is_some()
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

fn reign(now: u64, term: u64, stored: &Stored, is_kept: bool) -> Leader {
    let now = BootTime::from_millis(now);
    let claim = match &*stored.task {
        Task::Claimed(claim) => Some(claim.clone()),
        Task::Pending | Task::Ended => None,
    };
    let begin = Begin {
        mandate: Mandate {
            cluster: ClusterId::from_parts(WallTime::EPOCH, [1; 10]),
            epoch: Epoch::new(stored.epoch),
            term: Term::new(term),
            nonce: Nonce::new(term),
        },
        elected: now,
        lease_until: now.plus(LEASE),
        revision: Revision::new(term),
        reigns: BTreeMap::new(),
        marks: sterna_model::Marks::NONE,
        book: Book::new(limits(is_kept), Vec::new()).unwrap(),
        roster: stored.roster.values().cloned().collect(),
        claims: claim.into_iter().collect(),
        origin: match (stored.is_recovered, stored.roster.is_empty()) {
            (true, true | false) => Origin::Recovered,
            (false, true) => Origin::Virgin,
            (false, false) => Origin::Continued,
        },
        bump: Bump::Forbidden,
        roster_max: usize::MAX,
    };
    let lease_until = begin.lease_until.as_millis();
    let fleet = Shared::new(Fleet::new(now, begin));
    Leader { term, fleet, node: None, is_cut_off: false, lease_until }
}
