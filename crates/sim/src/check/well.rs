//! Whether everything is well, by the process table, the store, and what was said to machines.

use std::collections::BTreeMap;

use sterna_engine::control::{Row, ServiceRecord};
use sterna_model::{
    Contract, InstanceKey, Lock, RunId, ServiceKey, TaskKey, WorkKey,
    record::{
        Instance, InstanceCopy, InstancePhase, InstanceState, Task, TaskEnd, TaskPhase, TwinReason,
    },
    spec::TaskSpec,
};

use super::Stored;
use crate::{
    table::{Container, Readiness, Table},
    words::{CAPACITY, Size, Wanted},
};

/// What is not as it should be.
#[derive(Debug)]
pub(crate) struct Unwell {
    pub(crate) text: String,
    /// Whether it is that work is not running which should be (P3), rather than something else.
    pub(crate) is_forgotten: bool,
}

impl Unwell {
    const fn late(text: String) -> Self {
        Self { text, is_forgotten: false }
    }

    const fn forgotten(text: String) -> Self {
        Self { text, is_forgotten: true }
    }
}

/// A machine, as the world shows it.
#[derive(Debug)]
pub(crate) struct SceneMachine {
    pub(crate) lock: Lock,
    pub(crate) is_on: bool,
    /// Nobody says what became of it.
    pub(crate) is_vanished: bool,
    /// Whether its worker was told within a few heartbeats that it is healthy.
    pub(crate) is_healthy: bool,
    /// Whether its disk has an end that nobody took.
    pub(crate) has_unacknowledged: bool,
    /// Whether it has told whoever leads now what it runs.
    pub(crate) is_listed: bool,
}

/// The world, as anybody could see it who can be everywhere.
pub(crate) struct Scene<'a> {
    pub(crate) table: &'a Table,
    pub(crate) stored: &'a Stored,
    pub(crate) machines: Vec<SceneMachine>,
    pub(crate) nodes: &'a [Wanted],
    /// Where each node was sent last.
    pub(crate) sent: &'a BTreeMap<WorkKey, usize>,
    /// Whether a batch may be kept somewhere of which nobody knows.
    pub(crate) may_be_kept: bool,
    /// Whether the store was set back: then claims may be lost.
    pub(crate) is_recovered: bool,
}

/// What is not well: every worker must be healthy, every wanted key must run once, and nothing may be
/// left over.
pub(crate) fn unwell(scene: &Scene<'_>) -> Option<Unwell> {
    scene
        .machines()
        .or_else(|| scene.nodes())
        .or_else(|| scene.services())
        .or_else(|| scene.tasks())
        .or_else(|| scene.left_over())
}

impl Scene<'_> {
    fn machines(&self) -> Option<Unwell> {
        let on = self.machines.iter().enumerate().filter(|(_, one)| one.is_on);
        on.into_iter().find_map(|(machine, one)| {
            if !one.is_healthy {
                return Some(Unwell::late(format!("m{machine} is not healthy")));
            }
            one.has_unacknowledged
                .then(|| Unwell::late(format!("m{machine} has an end that nobody took")))
        })
    }

    fn is_vanished(&self, lock: Lock) -> bool {
        self.machines.iter().any(|one| one.lock == lock && one.is_vanished)
    }

    /// Whether whoever leads now cannot know what ran somewhere.
    fn is_unknown(&self) -> bool {
        self.machines.iter().any(|one| one.is_vanished && !one.is_listed)
    }

    /// Whether a claim may be lost with the store, and who had it is not back and may never be: then
    /// what is kept waits for somebody who must know, as does everything where anything of the kind was
    /// ever kept (safety rule 25).
    fn may_be_lost(&self, wanted: Contract) -> bool {
        let may_be_kept = wanted == Contract::Keep || self.stored.has_kept_claims();
        may_be_kept && self.is_recovered && self.machines.iter().any(|one| one.is_vanished)
    }

    fn alive(&self, key: &WorkKey) -> usize {
        self.table.all().filter(|(_, one)| one.key == *key).count()
    }

    fn nodes(&self) -> Option<Unwell> {
        self.nodes.iter().find_map(|wanted| {
            let is_unknown = self.is_unknown();
            let sent = self.sent.get(&wanted.key).and_then(|machine| self.machines.get(*machine));
            let is_excused = match wanted.contract {
                Contract::Keep => is_unknown || sent.is_some_and(|one| one.is_vanished),
                Contract::Stop { .. } => is_unknown && self.may_be_kept,
                Contract::Replace { .. } => false,
            };
            match self.alive(&wanted.key) {
                1 => None,
                0 if is_excused => None,
                0 => Some(Unwell::forgotten(format!("{} does not run", wanted.key))),
                more => Some(Unwell::late(format!("{more} containers of {}", wanted.key))),
            }
        })
    }

    fn services(&self) -> Option<Unwell> {
        self.stored.services().find_map(|(service, record)| {
            let wanted = record.spec.contract;
            (0..record.spec.instances)
                .find_map(|index| self.index(&service.instance(index), wanted))
                .or_else(|| self.outdated(service, record))
        })
    }

    /// Whether a copy that was being moved takes the requests of one that is never ready.
    fn is_stood_in_for(&self, instance: &Instance) -> bool {
        let of = |copy: &InstanceCopy| self.table.get(copy.placed.run).map(is_ever_ready);
        let copy = instance.copy().and_then(of);
        let twin = instance.twin().filter(|twin| twin.reason == TwinReason::Evacuating);
        copy == Some(false) && twin.and_then(|twin| of(&twin.copy)) == Some(true)
    }

    /// An update reaches every instance, unless one of its version is never ready and there is none to go
    /// back to: then nobody else is ended for it. One that is held up by a machine of which nobody says what
    /// became of it, or by lack of room, is excused: then somebody does not run.
    fn outdated(&self, service: &ServiceKey, record: &ServiceRecord) -> Option<Unwell> {
        let indices = || (0..record.spec.instances).map(|index| service.instance(index));
        let is_stuck = |key: InstanceKey| {
            let copy = self.stored.instance(&key).and_then(Instance::copy);
            let copy = copy.filter(|copy| copy.version == record.version);
            let container = copy.and_then(|copy| self.table.get(copy.placed.run));
            container.is_some_and(|container| !is_ever_ready(container))
        };
        if record.before.is_none() && indices().any(is_stuck) {
            return None;
        }
        let copies: Option<Vec<_>> = (0..record.spec.instances)
            .map(|index| {
                let instance = self.stored.instance(&service.instance(index))?;
                let copy = instance.copy().filter(|_| instance.twin().is_none())?;
                (!self.is_vanished(copy.placed.on.lock)).then_some((index, copy.version))
            })
            .collect();
        let (index, version) =
            copies?.into_iter().find(|(_, version)| *version != record.version)?;
        let (key, wanted) = (service.instance(index), record.version);
        Some(Unwell::late(format!("{key} is of version {version}, and not of {wanted}")))
    }

    fn index(&self, key: &InstanceKey, wanted: Contract) -> Option<Unwell> {
        let Some(instance) = self.stored.instance(key) else {
            return Some(Unwell::forgotten(format!("{key} has no record")));
        };
        let silent: Vec<_> =
            instance.copies().filter(|copy| self.is_vanished(copy.placed.on.lock)).collect();
        let is_excused = match wanted {
            // Both slots may be taken (safety rule 22), or one by what was kept before its contract changed.
            Contract::Replace { .. } => {
                silent.len() == 2
                    || self.may_be_lost(wanted)
                    || silent.iter().any(|copy| copy.placed.contract == Contract::Keep)
            }
            // What was started under another contract, or kept, may run there for ever.
            Contract::Stop { .. } | Contract::Keep => {
                self.may_be_lost(wanted)
                    || silent.iter().any(|copy| copy.placed.contract.stop_after().is_none())
            }
        };
        let is_given_up = matches!(instance.state(), InstanceState::Crashed { until: None });
        // tidy: not a table
        match (self.alive(&key.to_work()), instance.phase()) {
            (0, _) if is_excused || is_given_up || !self.has_room(&key.to_work()) => None,
            (1, InstancePhase::Running) => {
                let run = instance.copy().map(|copy| copy.placed.run);
                let Some(container) = run.and_then(|run| self.table.get(run)) else {
                    return Some(Unwell::late(format!("{key} is not what its record says")));
                };
                let (is_ready, told) =
                    (is_ever_ready(container), instance.copy().map(InstanceCopy::is_ready));
                (told != Some(is_ready)).then(|| {
                    let said = if is_ready { "not ready, and is" } else { "ready, and is not" };
                    Unwell::late(format!("{key} is taken for {said}"))
                })
            }
            // It takes the requests of one that never will, and nobody waits for that to change.
            (2, InstancePhase::Running) if self.is_stood_in_for(instance) => None,
            (0, InstancePhase::Running) => {
                Some(Unwell::late(format!("{key} is taken for running, and is not")))
            }
            (0 | 1, InstancePhase::Unclaimed | InstancePhase::Claimed | InstancePhase::Crashed) => {
                Some(Unwell::forgotten(format!("{key} is {instance:?}")))
            }
            (
                more,
                InstancePhase::Unclaimed
                | InstancePhase::Claimed
                | InstancePhase::Running
                | InstancePhase::Crashed,
            ) => Some(Unwell::late(format!("{more} containers of {key}"))),
        }
    }

    fn tasks(&self) -> Option<Unwell> {
        self.stored.all().find_map(|(_, row)| {
            let Row::Task(key, Some((task, spec))) = row else { return None };
            self.task(key, task, spec)
        })
    }

    fn task(&self, key: &TaskKey, task: &Task, spec: &TaskSpec) -> Option<Unwell> {
        let is_over = match task.phase() {
            TaskPhase::Completed => {
                if spec.callback.is_some() && !task.is_told() {
                    return Some(Unwell::late(format!("nobody was told that {key} is over")));
                }
                true
            }
            TaskPhase::Resolving => {
                return Some(Unwell::late(format!("it is being told that {key} is over")));
            }
            TaskPhase::Pending => !self.has_room(&key.to_work()) || self.may_be_lost(spec.contract),
            // Nobody says what became of its machine.
            TaskPhase::Running => task.placed().is_some_and(|placed| {
                placed.contract == Contract::Keep && self.is_vanished(placed.on.lock)
            }),
        };
        (!is_over).then(|| Unwell::forgotten(format!("{key} is {:?}", task.state())))
    }

    /// What runs and stands in no record, or is being ended.
    fn left_over(&self) -> Option<Unwell> {
        self.table.all().find_map(|(run, container)| {
            let is_known = match &container.key {
                WorkKey::Task(_) | WorkKey::Instance(_) => {
                    self.stored.claims(&container.key).iter().any(|claim| claim.run == *run)
                        || self.may_run_on(&container.key, *run)
                }
                WorkKey::Node(_) => self.nodes.iter().any(|node| node.key == container.key),
            };
            (!is_known).then(|| Unwell::late(format!("{} is left over", container.key)))
        })
    }

    /// Whether a run may go on though its task is over: nobody knew that it ran (safety rule 25).
    fn may_run_on(&self, key: &WorkKey, run: RunId) -> bool {
        let task = key.task().and_then(|key| self.stored.task(key));
        task.is_some_and(|(task, _)| {
            task.end() == Some(&TaskEnd::UnknownAfterRestore) && task.lost() == Some(run)
        })
    }

    /// Whether any machine could take it.
    fn has_room(&self, key: &WorkKey) -> bool {
        self.machines.iter().enumerate().filter(|(_, one)| one.is_on).any(|(index, _)| {
            let there = self.table.all().filter(|(_, one)| one.machine == index);
            let used = there.fold(Size::default(), |used, (run, one)| {
                used.plus(self.stored.taken_by(&one.key, *run))
            });
            used.plus(self.stored.wanted_by(key)).fits(CAPACITY)
        })
    }
}

/// Whether it is ready when nothing goes wrong.
fn is_ever_ready(container: &Container) -> bool {
    container.nature.readiness != Readiness::Never
}
