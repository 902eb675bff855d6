//! One container, as the driver has it.

use std::{
    collections::{BTreeMap, BTreeSet},
    os::fd::OwnedFd,
    sync::Arc,
};

use sterna_executor::{
    container::{Container, Spec, Step},
    monitor::ProbeId,
};
use sterna_model::{BootTime, Span};

use super::{Report, prepare::Prepared};
use crate::{
    cgroup::Usage,
    guardian::{ContractWord, RoleWord, StreamWord},
    sink::Origin,
    work::{WhenWorkerExits, Work},
};

/// One container.
#[derive(Debug)]
pub(super) struct Live {
    pub(super) core: Container,
    pub(super) work: Work,
    pub(super) prepared: Option<Prepared>,
    pub(super) ports: Vec<(String, u16)>,
    pub(super) usage: Usage,
    pub(super) status: Option<String>,
    /// Whether the guardian was asked for anything.
    pub(super) is_spawned: bool,
    /// Parts of which it is known that they have begun, and that they are over.
    pub(super) started: BTreeSet<u32>,
    pub(super) over: BTreeSet<u32>,
    pub(super) next_probe: u32,
    pub(super) probes: BTreeMap<u32, (Question, ProbeId)>,
    /// Copies of what is read elsewhere, for a guardian that has lost its own.
    pub(super) pipes: BTreeMap<u32, Vec<(StreamWord, Arc<OwnedFd>)>>,
    /// Whether nothing of it is left but pipes.
    pub(super) is_empty: bool,
    pub(super) report: Option<Report>,
}

/// Which of its two monitors asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Question {
    IsWell,
    IsReady,
}

impl Live {
    pub(super) fn new(core: Container, work: Work) -> Self {
        let next_probe = u32::try_from(work.setup.len()).unwrap_or(u32::MAX - 1) + 1;
        Self {
            core,
            work,
            prepared: None,
            ports: Vec::new(),
            usage: Usage::default(),
            status: None,
            is_spawned: false,
            started: BTreeSet::new(),
            over: BTreeSet::new(),
            next_probe,
            probes: BTreeMap::new(),
            pipes: BTreeMap::new(),
            is_empty: false,
            report: None,
        }
    }

    pub(super) fn step_of(&self, part: u32) -> Option<Step> {
        let main = self.main();
        match part.cmp(&main) {
            std::cmp::Ordering::Less => Some(Step::Setup(part)),
            std::cmp::Ordering::Equal => Some(Step::Run),
            std::cmp::Ordering::Greater => None,
        }
    }

    /// The number of the run step.
    fn main(&self) -> u32 {
        u32::try_from(self.work.setup.len()).unwrap_or(u32::MAX)
    }

    /// The number, the role and the words of a step.
    pub(super) fn command(&self, step: Step) -> (u32, RoleWord, &[String]) {
        match step {
            Step::Setup(number) => {
                let words = usize::try_from(number).ok().and_then(|at| self.work.setup.get(at));
                (number, RoleWord::Setup, words.map_or(&[], Vec::as_slice))
            }
            Step::Run => (self.main(), RoleWord::Main, &self.work.run),
        }
    }

    /// What must be known of it to keep its output.
    pub(super) fn origin(&self) -> Origin {
        Origin { key: self.work.about.key.clone(), logs: self.work.logs }
    }

    pub(super) fn contract(&self) -> ContractWord {
        ContractWord {
            stop_after_ms: self.work.stop_after.map(Span::as_millis),
            is_kept: match self.work.when_worker_exits {
                WhenWorkerExits::Keep => true,
                WhenWorkerExits::Stop => false,
            },
        }
    }

    /// Takes a look at what it uses.
    pub(super) fn sample(&mut self) {
        if let Some(prepared) = &self.prepared {
            self.usage = self.usage.later(prepared.group.usage());
        }
    }

    /// How long from `now` until it is killed, once it is being stopped.
    pub(super) fn grace(&self, now: BootTime) -> Span {
        self.core.deadline().map_or(Span::from_millis(u64::MAX / 4), |at| at.since(now))
    }
}

/// What the core must know of the work.
pub(super) fn spec(work: &Work) -> Spec {
    Spec {
        setup_steps: u32::try_from(work.setup.len()).unwrap_or(u32::MAX),
        timeout: work.timeout,
        // Without a grace, KILL comes only at a deadline.
        grace: work.signals.grace.unwrap_or(Span::from_millis(u64::MAX / 4)),
        monitor: work.monitor.as_ref().map(crate::work::Monitor::limits),
        readiness: work.readiness.as_ref().map(crate::work::Monitor::limits),
    }
}
