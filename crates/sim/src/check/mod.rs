//! The checkers: one file for each promise.
//!
//! They see facts: what the process table of the world shows, what the store has committed, and what
//! clients were told. They never see the state of a core.

mod asked;
mod forsaken;
mod moved;
mod p01;
mod p02;
mod p03;
mod p05;
mod p06;
mod p07;
mod p08;
mod p09;
mod p10;
mod ready;
mod rolling;
mod silence;
mod stored;
mod strikes;
mod swept;
mod unnoticed;
mod updates;
mod well;

use std::fmt;

use sterna_engine::control::{Answer, Call};
use sterna_executor::container::Step;
use sterna_model::{Epoch, RunId, TaskIncarnation, Term, WallTime, WorkKey};
use sterna_protocol::message::{Mandate, Run};
use sterna_store::leader::Reign;

pub(crate) use self::{
    rolling::Rolling,
    stored::{Changed, Stored},
    well::{Scene, SceneMachine, Unwell, unwell},
};
use crate::{clock::Moment, store::Applied, table::Container, words::Pace};

/// What every checker may look at when it sees a fact.
pub(crate) struct Sight<'a> {
    pub(crate) now: Moment,
    pub(crate) stored: &'a Stored,
    /// The least that the wall clock of any server shows.
    pub(crate) wall: WallTime,
    /// The latest that it shows.
    pub(crate) latest: WallTime,
}

/// Something that happened in the world.
pub(crate) enum Fact<'a> {
    /// A run left a leader.
    Sent { run: &'a Run, machine: usize, term: Term },
    /// A command began.
    Began { run: RunId, container: &'a Container },
    /// A step of a run becomes its command: the first of them is when it began.
    Execed { run: RunId, container: &'a Container, step: Step },
    /// A worker says that a container that runs is ready, or that it is not.
    Readiness { run: RunId, is_ready: bool },
    /// The last process of a container is gone.
    Gone { run: RunId },
    /// A worker's process is gone.
    WorkerGone { machine: usize },
    /// A guardian does nothing until then.
    GuardianStopped { machine: usize, until: Moment },
    /// A commit applied.
    Committed { applied: &'a Applied, changes: &'a [Changed] },
    /// The store is as it was before.
    Restored,
    /// A leader begins. It is unaware if the store was set back, and had told it nothing of what is lost.
    TookOffice { is_unaware: bool },
    /// A client asks for something.
    Asked { id: u64, call: &'a Call, reign: Reign },
    /// A client was told what became of it.
    Answered { id: u64, call: &'a Call, answer: &'a Answer },
    /// The operator of a machine wants it drained, or no longer.
    Wished { machine: usize },
    /// A receiver was told that a task is over, and took it or not.
    Called { incarnation: TaskIncarnation, is_taken: bool },
    /// A worker was told that the end of a task is recorded, and has forgotten it.
    Forgotten { key: &'a WorkKey, epoch: Option<Epoch>, result: u64 },
    /// A leader hears a heartbeat of a machine.
    Heard { machine: usize, life: u64, term: Term },
    /// A leader hears what a machine runs.
    Listed { machine: usize, life: u64, term: Term },
    /// A leader confirms a life of a machine.
    Confirmed { machine: usize, life: u64, term: Term },
    /// A leader gives a life of a machine up: what it runs is not heard of any more.
    GivenUp { machine: usize },
    /// A worker did something because a leader said so.
    Followed { machine: usize, mandate: Mandate },
    /// A leader's sweep found something that no event had led to.
    Swept { what: &'a str },
    /// Somebody looks at the clock.
    Looked,
    /// In time not everything is well.
    NotWell { unwell: &'a Unwell },
}

/// A promise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Promise {
    /// A task's command is started at most once.
    P1,
    /// No key has more live containers than its contract allows.
    P2,
    /// Work that was on a lost worker is started elsewhere.
    P3,
    /// What was acknowledged is never lost.
    P5,
    /// No worker is given more than it has.
    P6,
    /// A deposed leader changes nothing.
    P7,
    /// When a container's worker is gone, the container is gone.
    P8,
    /// Once faults stop, the cluster converges within the stated time.
    P9,
    /// Nothing is started while a worker that may be running it is missing.
    P10,
    /// None of the promises, but what they rest on: each event leads to what follows from it, and a
    /// sweep finds nothing.
    Swept,
}

impl fmt::Display for Promise {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Self::Swept { f.write_str("PS") } else { fmt::Debug::fmt(self, f) }
    }
}

/// A promise that was broken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Which.
    pub promise: Promise,
    /// When, in milliseconds since the beginning.
    pub at: Moment,
    /// How.
    pub what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { promise, at, what } = self;
        let what = crate::trace::shorten(what);
        write!(f, "{promise} is broken at {}.{:03} s: {what}", at / 1_000, at % 1_000)
    }
}

/// Looks at facts for one promise.
trait Checker {
    /// Which.
    const PROMISE: Promise;

    /// Sees a fact, and says what is broken by it.
    fn see(&mut self, sight: &Sight<'_>, fact: &Fact<'_>) -> Option<String>;
}

/// All checkers.
#[derive(Debug)]
pub(crate) struct Checks {
    p01: p01::StartedOnce,
    p02: p02::Copies,
    p03: p03::StartedElsewhere,
    p05: p05::Kept,
    p06: p06::Room,
    p07: p07::Deposed,
    p08: p08::Orphans,
    p09: p09::Converged,
    p10: p10::Missing,
    swept: swept::Nothing,
    broken: Option<Violation>,
}

impl Checks {
    pub(crate) fn new(pace: &Pace) -> Self {
        Self {
            p01: p01::StartedOnce::default(),
            p02: p02::Copies::new(pace),
            p03: p03::StartedElsewhere,
            p05: p05::Kept::new(pace),
            p06: p06::Room::default(),
            p07: p07::Deposed::default(),
            p08: p08::Orphans::new(pace),
            p09: p09::Converged::default(),
            p10: p10::Missing::new(pace),
            swept: swept::Nothing,
            broken: None,
        }
    }

    /// The first promise that was broken.
    pub(crate) fn broken(&mut self) -> Option<Violation> {
        self.broken.take()
    }

    /// Shows a fact to everybody.
    pub(crate) fn see(&mut self, sight: &Sight<'_>, fact: &Fact<'_>) {
        let Self { p01, p02, p03, p05, p06, p07, p08, p09, p10, swept, broken } = self;
        one(p01, sight, fact, broken);
        one(p10, sight, fact, broken);
        one(p02, sight, fact, broken);
        one(p03, sight, fact, broken);
        one(p05, sight, fact, broken);
        one(p06, sight, fact, broken);
        one(p07, sight, fact, broken);
        one(p08, sight, fact, broken);
        one(p09, sight, fact, broken);
        one(swept, sight, fact, broken);
    }
}

fn one<C: Checker>(
    checker: &mut C,
    sight: &Sight<'_>,
    fact: &Fact<'_>,
    broken: &mut Option<Violation>,
) {
    if let Some(what) = checker.see(sight, fact) {
        broken.get_or_insert(Violation { promise: C::PROMISE, at: sight.now, what });
    }
}
