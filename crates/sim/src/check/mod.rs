//! The checkers: one file for each promise.
//!
//! They see facts: what the process table of the world shows, what the store has committed, and what
//! clients were told. They never see the state of a core.

mod forsaken;
mod p01;
mod p02;
mod p03;
mod p05;
mod p06;
mod p07;
mod p08;
mod p09;
mod p10;

use std::fmt;

use sterna_model::{Contract, RunId, TaskIncarnation, Term, WorkKey};

use crate::{clock::Moment, record::Shelf, store::Applied, table::Container, words::Pace};

/// What the roster says of a machine.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Mark {
    /// This life was declared dead, as of a commit in this term.
    Dead(u64, Option<Term>),
    /// It may be alive.
    Alive,
    /// Nothing.
    Struck,
}

/// Something that happened in the world.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Fact<'a> {
    /// A run left a leader.
    Sent { run: RunId, key: &'a WorkKey, contract: Contract },
    /// A command began.
    Began { run: RunId, container: &'a Container },
    /// The last process of a container is gone.
    Gone { run: RunId },
    /// A worker's process is gone.
    WorkerGone { machine: usize },
    /// A guardian does nothing until then.
    GuardianStopped { machine: usize, until: Moment },
    /// A commit applied.
    Committed { applied: &'a Applied, shelf: &'a Shelf },
    /// The store is as it was before.
    Restored,
    /// A client was told that its task is created.
    Acknowledged { key: &'a WorkKey, incarnation: TaskIncarnation },
    /// A worker was told that the end of a task is recorded, and has forgotten it.
    Forgotten { run: RunId, key: &'a WorkKey, result: u64 },
    /// The roster's entry of a machine was written, or removed.
    Enrolled { machine: usize, mark: Mark },
    /// A leader confirms a life of a machine.
    Confirmed { machine: usize, life: u64, term: Term },
    /// Faults are over.
    Calm,
    /// Everything is well.
    Well,
    /// In time not everything is well.
    NotWell { what: &'a str, is_forgotten: bool },
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
}

impl fmt::Display for Promise {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
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
    fn see(&mut self, now: Moment, fact: &Fact<'_>) -> Option<String>;
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
    broken: Option<Violation>,
}

impl Checks {
    pub(crate) fn new(pace: &Pace) -> Self {
        Self {
            p01: p01::StartedOnce::default(),
            p02: p02::Copies::default(),
            p03: p03::StartedElsewhere,
            p05: p05::Kept::default(),
            p06: p06::Room::default(),
            p07: p07::Deposed::default(),
            p08: p08::Orphans::new(pace),
            p09: p09::Converged,
            p10: p10::Missing::default(),
            broken: None,
        }
    }

    /// The first promise that was broken.
    pub(crate) fn broken(&mut self) -> Option<Violation> {
        self.broken.take()
    }

    /// Shows a fact to everybody.
    pub(crate) fn see(&mut self, now: Moment, fact: &Fact<'_>) {
        let Self { p01, p02, p03, p05, p06, p07, p08, p09, p10, broken } = self;
        one(p01, now, fact, broken);
        one(p10, now, fact, broken);
        one(p02, now, fact, broken);
        one(p03, now, fact, broken);
        one(p05, now, fact, broken);
        one(p06, now, fact, broken);
        one(p07, now, fact, broken);
        one(p08, now, fact, broken);
        one(p09, now, fact, broken);
    }
}

fn one<C: Checker>(checker: &mut C, now: Moment, fact: &Fact<'_>, broken: &mut Option<Violation>) {
    if let Some(what) = checker.see(now, fact) {
        broken.get_or_insert(Violation { promise: C::PROMISE, at: now, what });
    }
}
