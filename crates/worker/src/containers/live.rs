//! One container, as the driver has it.

use std::{
    collections::BTreeMap,
    os::fd::OwnedFd,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use rustix::process::{Pid, PidfdFlags, pidfd_open};
use sterna_executor::{
    container::{Spec, Step},
    guardian::Part,
    ward::Ward,
};
use sterna_model::{
    Span,
    payload::{RunReport, Signals, WhenWorkerExits, Work},
};

use super::{pipes::Pipes, prepare::Prepared};
use crate::{
    cgroup::{Hold, Usage},
    guardian::{ContractWord, Holding, has_ended},
    sink::Origin,
};

/// One container.
#[derive(Debug)]
pub(super) struct Live {
    pub(super) ward: Ward,
    pub(super) work: Work,
    pub(super) prepared: Option<Prepared>,
    pub(super) ports: Vec<(String, u16)>,
    pub(super) usage: Usage,
    pub(super) status: Option<String>,
    /// What stands above each of its commands where nothing but the process tree holds them.
    pub(super) roots: BTreeMap<i32, OwnedFd>,
    /// What is read of each of its commands, from before that begins; a guardian that has lost its
    /// own gets copies.
    pub(super) pipes: BTreeMap<Part, Pipes>,
    pub(super) report: Option<RunReport>,
    /// Whether whoever reads output has heard of it, or is about to.
    pub(super) is_shown: bool,
    /// Whether nothing of it is left but its pipes, and its log ends with them.
    pub(super) is_draining: bool,
    /// Whether its end is told and does not stand on the disk yet.
    pub(super) is_unkept: bool,
    /// Whether its work directory is being measured, which may take longer than until the next time.
    is_measured: Arc<AtomicBool>,
    /// How many of its processes had been killed for memory when it was last looked at, and before.
    oom_kills: [u64; 2],
}

impl Live {
    pub(super) fn new(ward: Ward, work: Work) -> Self {
        Self {
            ward,
            work,
            prepared: None,
            ports: Vec::new(),
            usage: Usage::default(),
            status: None,
            roots: BTreeMap::new(),
            pipes: BTreeMap::new(),
            report: None,
            is_shown: false,
            is_draining: false,
            is_unkept: false,
            is_measured: Arc::default(),
            oom_kills: [0; 2],
        }
    }

    /// The words of a step.
    pub(super) fn command(&self, step: Step) -> &[String] {
        match step {
            Step::Setup(number) => {
                let words = usize::try_from(number).ok().and_then(|at| self.work.setup.get(at));
                words.map_or(&[], Vec::as_slice)
            }
            Step::Run => &self.work.run,
        }
    }

    /// What must be known of it to keep its output.
    pub(super) fn origin(&self) -> Origin {
        Self::origin_of(&self.work)
    }

    pub(super) fn origin_of(work: &Work) -> Origin {
        Origin { key: work.about.key.clone(), logs: work.logs }
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

    /// Keeps hold of a command's process, if nothing else tells which processes are the run's.
    pub(super) fn hold_on_to(&mut self, pid: i32) {
        let is_tree = |prepared: &Prepared| matches!(prepared.group.hold(), Hold::Tree);
        if self.prepared.as_ref().is_some_and(is_tree)
            && let Some(number) = Pid::from_raw(pid)
            && let Ok(fd) = pidfd_open(number, PidfdFlags::empty())
        {
            self.roots.insert(pid, fd);
        }
    }

    /// That its work directory is to be measured, if it has a limit and nobody is at it.
    pub(super) fn begin_measuring(&self) -> Option<Arc<AtomicBool>> {
        let is_free =
            self.work.limits.disk.is_some() && !self.is_measured.swap(true, Ordering::Relaxed);
        is_free.then(|| Arc::clone(&self.is_measured))
    }

    /// Whether its end stands on the disk, so that no guardian need know of it.
    pub(super) const fn is_noted(&self) -> bool {
        self.report.is_some() && !self.is_unkept
    }

    /// Kills all of it, without the guardian, which may be stopped (safety rule 12). Where that is
    /// not one act of the kernel it must be done again until it is over.
    pub(super) fn kill(&self) {
        if let Some(holding) = self.holding() {
            holding.kill();
        }
    }

    /// Stops all of it where it is, or lets it go on, without the guardian.
    pub(super) fn freeze(&self, is_frozen: bool) {
        if let Some(holding) = self.holding() {
            holding.freeze(is_frozen);
        }
    }

    /// All of its processes.
    fn holding(&self) -> Option<Holding> {
        let hold = self.prepared.as_ref().map(|prepared| prepared.group.hold())?;
        let mut holding = Holding::open(hold).ok()?;
        if let Holding::Tree { roots, .. } = &mut holding {
            // A number whose process was taken may mean another one by now.
            let alive = self.roots.iter().filter(|(_, fd)| !has_ended(fd));
            roots.extend(alive.map(|(pid, _)| *pid));
        }
        Some(holding)
    }

    /// Takes a last look, when nothing of it is left.
    pub(super) fn sample_at_end(&mut self) {
        if let Some(prepared) = &self.prepared {
            self.usage = self.usage.later(prepared.group.usage_at_end());
        }
    }

    /// Takes a look at what it uses.
    pub(super) fn sample(&mut self) {
        if let Some(prepared) = &self.prepared {
            self.usage = self.usage.later(prepared.group.usage());
            if self.work.limits.memory.is_some() {
                self.oom_kills = [prepared.group.oom_kills(), self.oom_kills[0]];
            }
        }
    }

    /// Whether one of its processes was killed for memory just now. What was killed long before, and
    /// by which it went on, is not what it ended for.
    pub(super) fn is_out_of_memory(&self) -> bool {
        let kills = self.prepared.as_ref().map_or(0, |prepared| prepared.group.oom_kills());
        self.work.limits.memory.is_some() && kills > self.oom_kills[1]
    }
}

/// What the core must know of the work.
pub(super) fn spec(work: &Work) -> Spec {
    Spec {
        setup_steps: u32::try_from(work.setup.len()).unwrap_or(u32::MAX),
        timeout: work.timeout,
        // Without a grace, KILL comes only at a deadline.
        grace: work.signals.grace.unwrap_or(Span::from_millis(u64::MAX / 4)),
        linger: work.signals.linger.unwrap_or(Signals::usual_linger(!work.ports.is_empty())),
        monitor: work.monitor.as_ref().map(Into::into),
        readiness: work.readiness.as_ref().map(Into::into),
    }
}
