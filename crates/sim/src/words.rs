//! What runs in the world, and what it is called.

use std::sync::Arc;

use sterna_executor::{
    container::{Cause, End, Exit},
    guardian::OnWorkerExit,
};
use sterna_model::{
    Bytes, Constraints, Contract, Countables, Demand, DirectoryId, Lock, MachineId, Millicores,
    Name, Namespace, NodeName, ServiceKey, Span, TaskKey, WallTime, Wants, Work, WorkKey,
    payload::ReportWords,
};
use sterna_protocol::{limits::Limits, message::Payload};
use sterna_store::leader::Timing;

use crate::rng::Rng;

/// A node that is wanted as long as the world lasts. (Tasks and services come from clients.)
#[derive(Clone, Debug)]
pub(crate) struct Wanted {
    pub(crate) key: WorkKey,
    pub(crate) contract: Contract,
}

/// How long things take in one seed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    pub(crate) limits: Limits,
    /// Of batches.
    pub(crate) stop_after: Span,
    /// Of tasks.
    pub(crate) stop_after_task: Span,
    pub(crate) replace_after: Span,
    pub(crate) timing: Timing,
    /// So many records of tasks that are over are kept.
    pub(crate) tasks_max: usize,
}

impl Pace {
    /// Mostly short limits, so that much happens in little time; sometimes the usual ones.
    pub(crate) fn draw(rng: &mut Rng) -> Self {
        let timing = Timing::default();
        let mut pace = if rng.chance(800) {
            let limits = Limits {
                heartbeat_every: Span::from_secs(1),
                heartbeat_grace: Span::from_secs(2),
                check_every: Span::from_secs(3),
                check_grace: Span::from_secs(3),
                lose_after: Span::from_secs(6),
                kill_wait: Span::from_secs(rng.between(1, 2)),
                ..Limits::default()
            };
            let (stop_after, stop_after_task) = (Span::from_secs(22), Span::from_secs(30));
            let replace_after = Span::from_secs(4);
            let tasks_max = usize::MAX;
            Self { limits, stop_after, stop_after_task, replace_after, timing, tasks_max }
        } else {
            let (stop_after, stop_after_task) = (Span::from_secs(120), Span::from_secs(180));
            let replace_after = Span::from_secs(15);
            let (limits, tasks_max) = (Limits::default(), usize::MAX);
            Self { limits, stop_after, stop_after_task, replace_after, timing, tasks_max }
        };
        pace.limits.batch_stop_after_max = pace.stop_after;
        pace.limits.stop_after_max = pace.stop_after_task;
        pace.limits.has_kept_batches = rng.chance(600);
        pace
    }

    /// Other limits, as somebody may set them: no deadline becomes too short for what is wanted.
    pub(crate) fn other_limits(&self, rng: &mut Rng, version: u64) -> Limits {
        let of = |span: Span, rng: &mut Rng| {
            Span::from_millis(span.as_millis() * rng.between(80, 110) / 100)
        };
        let mut limits = Limits {
            version,
            lose_after: of(self.limits.lose_after, rng),
            kill_wait: of(self.limits.kill_wait, rng),
            heartbeat_grace: of(self.limits.heartbeat_grace, rng),
            ..self.limits
        };
        // Somebody who forgets that these only grow.
        limits.batch_stop_after_max = limits.stop_after_min();
        (limits.has_kept_batches, limits.has_kept_claims) = (false, false);
        if limits.stop_after_min() > self.stop_after {
            limits = Limits { version, ..self.limits };
        }
        limits
    }

    /// How long after the last fault everything is well again (P9): the old leader's lease runs out
    /// and another is elected; who is silent is lost; what ran there has ended by itself; what was
    /// refused asks again after its longest back-off; and some time to do all that, or as long as the
    /// longest update takes that is under way.
    pub(crate) fn converges_within(&self, (longest_stop, longest_update): (Span, Span)) -> Span {
        let lease = self.timing.lease.times(2);
        let lost = self.limits.time_to_loss().times(2);
        let over = self.stop_after_task.max(longest_stop).plus(self.limits.kill_wait);
        let asks_again = Span::from_secs(32);
        let done = Span::from_secs(30).max(longest_update);
        lease.plus(lost).plus(over).plus(asks_again).plus(done)
    }
}

/// The nodes of a batch: no more than there is room for when one worker is gone.
pub(crate) fn wanted(pace: &Pace, workers: usize) -> Vec<Wanted> {
    let room = workers.saturating_sub(1).max(1) * NODES;
    let stop = Contract::Stop { after: pace.stop_after };
    let last = if pace.limits.has_kept_batches { Contract::Keep } else { stop };
    let nodes = [stop, stop, stop, stop, last, last];
    let nodes = nodes.into_iter().take(room).zip(1..).map(|(contract, number)| {
        let work = Work::Node { batch: name("b"), node: node(number) };
        Wanted { key: key(work), contract }
    });
    nodes.collect()
}

pub(crate) fn task(number: u64) -> TaskKey {
    TaskKey { namespace: namespace(), name: name(&format!("t{number}")) }
}

fn key(work: Work) -> WorkKey {
    work.within(&namespace())
}

fn namespace() -> Namespace {
    Namespace::new("default").expect("it is one")
}

pub(crate) fn name(text: &str) -> Name {
    Name::new(text).expect("names in the world are names")
}

fn node(number: u32) -> NodeName {
    NodeName::new(&format!("n{number}")).expect("nodes in the world are nodes")
}

/// A number that is always the same for a key.
pub(crate) fn number(key: &WorkKey) -> u64 {
    let text = match key {
        WorkKey::Task(key) => key.name.to_string(),
        WorkKey::Instance(key) => return u64::from(key.index),
        WorkKey::Node(key) => key.node.to_string(),
    };
    text.trim_start_matches(char::is_alphabetic).parse().unwrap_or(0)
}

/// So much of a worker: what counts is how much of each there is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Size {
    pub(crate) memory: u64,
    pub(crate) cpu: u64,
    pub(crate) gpus: u64,
}

impl Size {
    pub(crate) const fn plus(self, other: Self) -> Self {
        Self {
            memory: self.memory + other.memory,
            cpu: self.cpu + other.cpu,
            gpus: self.gpus + other.gpus,
        }
    }

    /// Whether this is no more than that, of each.
    pub(crate) const fn fits(self, room: Self) -> bool {
        self.memory <= room.memory && self.cpu <= room.cpu && self.gpus <= room.gpus
    }
}

/// How much of a worker it takes; an instance, at first.
pub(crate) fn size(key: &WorkKey) -> Size {
    match &key {
        WorkKey::Task(_) => {
            let number = number(key);
            Size {
                memory: number % 3 + 1,
                cpu: number % 4 * 250,
                gpus: u64::from(number.is_multiple_of(7)),
            }
        }
        WorkKey::Instance(_) => SIZE_OF_INSTANCES,
        // They have places of their own.
        WorkKey::Node(_) => Size::default(),
    }
}

/// How much of a worker this is.
pub(crate) fn size_of(wants: &Wants) -> Size {
    let amounts = wants.demand.amounts();
    Size {
        memory: amounts.memory.get(),
        cpu: amounts.cpu.get(),
        gpus: amounts.countables.get(&name(GPU)),
    }
}

/// How much an instance takes at first.
pub(crate) const SIZE_OF_INSTANCES: Size = Size { memory: 2, cpu: 0, gpus: 0 };

/// What is counted by its name.
const GPU: &str = "gpu";

/// What becomes of it when its worker is gone.
pub(crate) fn on_worker_exit(key: &WorkKey) -> OnWorkerExit {
    if number(key).is_multiple_of(2) { OnWorkerExit::Stop } else { OnWorkerExit::Keep }
}

/// How much a worker has.
pub(crate) const CAPACITY: Size = Size { memory: 11, cpu: 2_000, gpus: 1 };
/// How many nodes at a time it is given.
pub(crate) const NODES: usize = 3;

/// What a worker says of itself.
pub(crate) fn facts() -> Payload {
    let Size { memory, cpu, gpus } = CAPACITY;
    let facts = format!(
        r#"{{"memory_bytes":{memory},"cpu_millicores":{cpu},"containers":100,"countables":{{"{GPU}":{gpus}}}}}"#
    );
    Arc::from(facts.into_bytes())
}

/// What a worker says of a run that runs.
pub(crate) fn running(is_ready: bool) -> Payload {
    Arc::from(format!(r#"{{"state":"running","is_ready":{is_ready}}}"#).into_bytes())
}

/// What a worker says of a run that is over. It says less than a real worker, and the readers must accept
/// that. The words stay, so that traces of two versions can be compared.
pub(crate) fn ended(end: &End) -> Payload {
    let cause = match &end.cause {
        Cause::Exited => "exited",
        Cause::SetupFailed(_) => "setup_failed",
        Cause::FailedToStart(_) => "failed_to_start",
        Cause::Timeout => "timeout",
        Cause::Monitor(_) => "monitor",
        Cause::DiskLimit => "disk_limit",
        Cause::Request => "request",
        Cause::Deadline => "deadline",
        Cause::WorkerExit => "worker_exit",
    };
    let said = match end.exit {
        Some(Exit::Code(code)) => format!(r#"{{"cause":"{cause}","exit":{{"code":{code}}}}}"#),
        Some(Exit::Signal(_) | Exit::OutOfMemory | Exit::Unknown) | None => {
            format!(r#"{{"cause":"{cause}"}}"#)
        }
    };
    Arc::from(said.into_bytes())
}

/// The code with which a run ended, by what was said of it.
pub(crate) fn code_of(said: &[u8]) -> Option<u64> {
    match ReportWords::read(said)?.exit()? {
        Exit::Code(code) => u64::try_from(code).ok(),
        Exit::Signal(_) | Exit::OutOfMemory | Exit::Unknown => None,
    }
}

/// What work of this size wants of a worker.
pub(crate) fn wants(size: Size) -> Arc<Wants> {
    let (cpu, disk) = (Millicores::new(size.cpu), Bytes::new(0));
    let mut countables = Countables::default();
    countables.set(name(GPU), size.gpus);
    let demand = Demand::new(cpu, Bytes::new(size.memory), disk, countables);
    Arc::new(Wants { demand, constraints: Constraints::default() })
}

pub(crate) fn service(text: &str) -> ServiceKey {
    ServiceKey { namespace: namespace(), name: name(text) }
}

pub(crate) fn lock(number: u64) -> Lock {
    let mut bytes = [7; 16];
    bytes[8..].copy_from_slice(&number.to_be_bytes());
    let machine = MachineId::from_bytes(bytes).expect("it is not zero");
    let mut random = [0; 10];
    random[2..].copy_from_slice(&number.to_be_bytes());
    Lock { directory: DirectoryId::from_parts(WallTime::EPOCH, random), machine }
}

pub(crate) fn nothing() -> Payload {
    Arc::from([])
}
