//! The process table of all machines: what really runs.

use std::collections::BTreeMap;

use sterna_executor::guardian::{OnWorkerExit, Part};
use sterna_model::{Contract, Epoch, RunId, Span, TaskIncarnation, Term, WorkKey};

use crate::{clock::Moment, manners::Manner, rng::Rng};

/// What happens in a container by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Happening {
    /// The first process of its present part ends, with this code.
    Exits(Part, u16),
    /// Its last process is gone.
    Empties,
}

/// What is sent to every process of a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Signal {
    Terminate,
    Kill,
}

/// What prepares for the work takes at most so long.
pub(crate) const SETUP_TAKES: Span = Span::from_millis(2_000);

/// How a container behaves.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Nature {
    /// After how long its first process ends by itself.
    pub(crate) exits_after: Option<u64>,
    pub(crate) result: u16,
    /// How long it takes to end after TERM; `None` if it ignores that.
    pub(crate) heeds_term: Option<u64>,
    /// How long processes that it left behind, by a double fork say, outlive the first one.
    pub(crate) lingers: Option<u64>,
    pub(crate) readiness: Readiness,
}

/// What a container says when it is asked whether it is ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Readiness {
    /// Nearly always that it is.
    Mostly,
    /// Now this, now that.
    Wavers,
    /// That it is, from then on.
    From(Moment),
    Never,
}

impl Readiness {
    /// What it says now. When nothing goes wrong any more, whoever ever is ready is.
    pub(crate) fn is_good(self, rng: &mut Rng, now: Moment, is_calm: bool) -> bool {
        match self {
            Self::Never => false,
            Self::Mostly | Self::Wavers | Self::From(_) if is_calm => true,
            Self::Mostly => !rng.chance(50),
            Self::Wavers => !rng.chance(500),
            Self::From(at) => now >= at,
        }
    }
}

fn code(rng: &mut Rng, from: u16, to: u16) -> u16 {
    u16::try_from(rng.between(from.into(), to.into())).unwrap_or(to)
}

impl Nature {
    /// What prepares for the work; it seldom fails.
    pub(crate) fn of_setup(rng: &mut Rng, is_calm: bool) -> Self {
        let fails = !is_calm && rng.chance(30);
        Self {
            exits_after: Some(rng.between(10, SETUP_TAKES.as_millis())),
            result: if fails { 1 } else { 0 },
            heeds_term: rng.chance(600).then(|| rng.between(1, 1_500)),
            lingers: None,
            readiness: Readiness::Mostly,
        }
    }

    /// Of work that behaves so, and begins now.
    pub(crate) fn draw(
        rng: &mut Rng,
        key: &WorkKey,
        manner: Manner,
        (now, is_calm): (Moment, bool),
    ) -> Self {
        let exits_after = match &key {
            WorkKey::Task(_) if is_calm => Some(rng.between(100, 3_000)),
            WorkKey::Task(_) => Some(rng.between(100, 50_000)),
            _ if is_calm => None,
            WorkKey::Node(_) => rng.chance(500).then(|| rng.between(200, 90_000)),
            WorkKey::Instance(_) => match manner {
                Manner::Crashes => Some(rng.between(50, 1_500)),
                Manner::CrashesLater => Some(rng.between(1_000, 12_000)),
                Manner::Good | Manner::ReadyLate | Manner::Wavers | Manner::NeverReady => {
                    rng.chance(250).then(|| rng.between(500, 60_000))
                }
            },
        };
        let readiness = match manner {
            Manner::Good | Manner::Crashes | Manner::CrashesLater => Readiness::Mostly,
            Manner::ReadyLate => Readiness::From(now + rng.between(1_000, 12_000)),
            Manner::Wavers => Readiness::Wavers,
            Manner::NeverReady => Readiness::Never,
        };
        Self {
            exits_after,
            result: code(rng, 0, u16::MAX),
            heeds_term: rng.chance(600).then(|| rng.between(1, 1_500)),
            lingers: rng.chance(300).then(|| rng.between(100, 600_000)),
            readiness,
        }
    }
}

/// One container that is there.
#[derive(Clone, Debug)]
pub(crate) struct Container {
    pub(crate) key: WorkKey,
    pub(crate) task: Option<TaskIncarnation>,
    pub(crate) contract: Contract,
    pub(crate) on_worker_exit: OnWorkerExit,
    pub(crate) machine: usize,
    /// In which it was sent.
    pub(crate) reign: (Epoch, Term),
    /// What it runs now.
    pub(crate) part: Part,
    pub(crate) nature: Nature,
    pub(crate) has_exited: bool,
}

/// All containers there are.
#[derive(Debug, Default)]
pub(crate) struct Table {
    containers: BTreeMap<RunId, Container>,
}

impl Table {
    pub(crate) fn insert(&mut self, run: RunId, container: Container) {
        self.containers.insert(run, container);
    }

    pub(crate) fn get(&self, run: RunId) -> Option<&Container> {
        self.containers.get(&run)
    }

    pub(crate) fn get_mut(&mut self, run: RunId) -> Option<&mut Container> {
        self.containers.get_mut(&run)
    }

    pub(crate) fn remove(&mut self, run: RunId) -> Option<Container> {
        self.containers.remove(&run)
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = (&RunId, &Container)> {
        self.containers.iter()
    }

    pub(crate) fn on(&self, machine: usize) -> Vec<RunId> {
        let is_there = |(_, one): &(&RunId, &Container)| one.machine == machine;
        self.all().filter(is_there).map(|(run, _)| *run).collect()
    }
}
