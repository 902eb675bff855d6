//! How far instances and tasks are, by what stands in the store, and how workers are. Pure.
//!
//! Lists of services say it of each, and a service may have a hundred thousand: so it is counted write by
//! write. So are tasks. Workers are few, and are counted by whoever leads them, now and then.

use std::collections::BTreeMap;

use sterna_engine::control::{ServiceRecord, TaskRow};
use sterna_model::{
    Namespace,
    record::{
        Instance, InstanceCopy, InstanceState, Task, TaskEnd, TaskOutcome, TaskPhase, TwinReason,
    },
    spec::{Definition, TaskSpec},
};
use sterna_protocol::health::Health;

use crate::weight;

/// How many of the instances that a service wants are how far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Count {
    /// They run, and nobody ends them.
    pub(crate) running: u32,
    /// They have a copy of another version, which may be on its way out.
    pub(crate) outdated: u32,
}

impl Count {
    /// What one instance adds to the count of its service.
    pub(crate) fn of(record: &ServiceRecord, index: u32, instance: &Instance) -> Self {
        if index >= record.spec.instances {
            return Self::default();
        }
        let is_other = |copy: &InstanceCopy| copy.version != record.version;
        let moved = moved(instance);
        let is_outdated = instance.copy().is_some_and(is_other) || moved.is_some_and(is_other);
        Self { running: is_running(instance).into(), outdated: is_outdated.into() }
    }

    pub(crate) const fn add(&mut self, other: Self) {
        self.running += other.running;
        self.outdated += other.outdated;
    }

    pub(crate) const fn subtract(&mut self, other: Self) {
        self.running -= other.running;
        self.outdated -= other.outdated;
    }
}

/// How many tasks are in which phase, and of those that are over how many have which outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Phases {
    by_phase: [usize; TaskPhase::ALL.len()],
    by_outcome: [usize; TaskOutcome::ALL.len()],
}

impl Phases {
    /// Of no task.
    pub(crate) const fn new() -> Self {
        Self { by_phase: [0; TaskPhase::ALL.len()], by_outcome: [0; TaskOutcome::ALL.len()] }
    }

    /// The counts that one task is part of.
    fn of(&mut self, task: &Task) -> impl Iterator<Item = &mut usize> {
        let outcome = task.end().map(TaskEnd::outcome);
        let by_outcome = outcome.and_then(|outcome| self.by_outcome.get_mut(outcome as usize));
        self.by_phase.get_mut(task.phase() as usize).into_iter().chain(by_outcome)
    }

    pub(crate) fn add(&mut self, task: &Task) {
        self.of(task).for_each(|count| *count += 1);
    }

    pub(crate) fn subtract(&mut self, task: &Task) {
        self.of(task).for_each(|count| *count -= 1);
    }

    #[cfg(test)]
    pub(crate) fn join(&mut self, other: &Self) {
        self.by_phase.iter_mut().zip(other.by_phase).for_each(|(count, more)| *count += more);
        self.by_outcome.iter_mut().zip(other.by_outcome).for_each(|(count, more)| *count += more);
    }

    /// Each phase, in the order of a life.
    pub(crate) fn all(&self) -> impl Iterator<Item = (TaskPhase, usize)> {
        TaskPhase::ALL.into_iter().zip(self.by_phase)
    }

    /// The phases in which there are some, by their words.
    pub(crate) fn words(&self) -> impl Iterator<Item = (&'static str, usize)> {
        self.all().filter(|(_, count)| *count > 0).map(|(phase, count)| (phase.as_str(), count))
    }

    /// The outcomes that some have, by their words.
    pub(crate) fn outcomes(&self) -> impl Iterator<Item = (&'static str, usize)> {
        let all = TaskOutcome::ALL.into_iter().zip(self.by_outcome);
        all.filter(|(_, count)| *count > 0).map(|(outcome, count)| (outcome.as_str(), count))
    }
}

/// What is counted of tasks and specs: a fold over the rows, kept row by row.
#[derive(Clone, Debug, Default)]
pub(crate) struct Totals {
    /// How many tasks are in which phase, by namespace; no namespace without one.
    pub(crate) by_namespace: BTreeMap<Namespace, Phases>,
    /// The same of all namespaces.
    all: Phases,
    /// How many tasks are not over, or still end.
    pub(crate) under_way: usize,
    /// How many are over while their callback is still tried.
    pub(crate) telling: usize,
    /// About how many bytes the specs of those tasks, of services and of definitions take.
    pub(crate) specs_bytes: u64,
}

impl Totals {
    /// Of no rows.
    pub(crate) const fn new() -> Self {
        Self {
            by_namespace: BTreeMap::new(),
            all: Phases::new(),
            under_way: 0,
            telling: 0,
            specs_bytes: 0,
        }
    }

    pub(crate) fn add_service(&mut self, record: &ServiceRecord) {
        self.specs_bytes += weight::of_record(record);
    }

    pub(crate) fn subtract_service(&mut self, record: &ServiceRecord) {
        self.specs_bytes -= weight::of_record(record);
    }

    pub(crate) fn add_definition(&mut self, definition: &Definition) {
        self.specs_bytes += weight::of_task(&definition.spec);
    }

    pub(crate) fn subtract_definition(&mut self, definition: &Definition) {
        self.specs_bytes -= weight::of_task(&definition.spec);
    }

    pub(crate) fn add_task(&mut self, space: &Namespace, (task, spec): &TaskRow) {
        let stands = Stands::of(task, spec);
        self.under_way += usize::from(stands == Stands::UnderWay);
        self.telling += usize::from(stands == Stands::Telling);
        self.specs_bytes += stands.bytes(spec);
        self.all.add(task);
        self.by_namespace.entry(space.clone()).or_default().add(task);
    }

    pub(crate) fn subtract_task(&mut self, space: &Namespace, (task, spec): &TaskRow) {
        let stood = Stands::of(task, spec);
        self.under_way -= usize::from(stood == Stands::UnderWay);
        self.telling -= usize::from(stood == Stands::Telling);
        self.specs_bytes -= stood.bytes(spec);
        self.all.subtract(task);
        let Some(phases) = self.by_namespace.get_mut(space) else { return };
        phases.subtract(task);
        if *phases == Phases::default() {
            self.by_namespace.remove(space);
        }
    }

    /// How many tasks are in which phase, of one namespace or of all.
    pub(crate) fn phases(&self, of: Option<&Namespace>) -> Phases {
        let one = |of| self.by_namespace.get(of).copied().unwrap_or_default();
        of.map_or(self.all, one)
    }
}

/// How far a task is, for the totals. Before it is over for good its record cannot go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stands {
    /// It is to run, or something of it still runs.
    UnderWay,
    /// It is over, and its callback is still tried.
    Telling,
    /// It is over for good.
    Over,
}

impl Stands {
    fn of(task: &Task, spec: &TaskSpec) -> Self {
        let is_to_be_told = spec.callback.is_some() && !task.is_told();
        if task.end().is_none() || task.placed().is_some() {
            Self::UnderWay
        } else if task.phase() == TaskPhase::Resolving || is_to_be_told {
            Self::Telling
        } else {
            Self::Over
        }
    }

    /// What its spec takes until then.
    fn bytes(self, spec: &TaskSpec) -> u64 {
        match self {
            Self::UnderWay | Self::Telling => weight::of_task(spec),
            Self::Over => 0,
        }
    }
}

/// Every word for the health of a worker.
pub(crate) const HEALTHS: [&str; 5] = ["new", "healthy", "unhealthy", "lost", "absent"];

/// The word for the health of a worker; one that was not heard in this reign has none.
pub(crate) const fn health(health: Option<Health>) -> &'static str {
    match health {
        Some(Health::New) => "new",
        Some(Health::Healthy) => "healthy",
        Some(Health::Unhealthy) => "unhealthy",
        Some(Health::MustDie) => "lost",
        None => "absent",
    }
}

/// How many workers are how.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Workers {
    /// In the order of [`HEALTHS`].
    by_health: [u64; HEALTHS.len()],
    /// They are not heard now, whatever they are still taken for.
    pub(crate) silent: u64,
    /// They are given work.
    pub(crate) taking: u64,
}

impl Workers {
    pub(crate) fn add(&mut self, of: Option<Health>, is_silent: bool, is_taking: bool) {
        let at = HEALTHS.iter().position(|word| *word == health(of));
        let count = at.and_then(|at| self.by_health.get_mut(at));
        count.into_iter().for_each(|count| *count += 1);
        self.silent += u64::from(is_silent);
        self.taking += u64::from(is_taking);
    }

    /// How many have which health, by its word.
    pub(crate) fn by_health(&self) -> impl Iterator<Item = (&'static str, u64)> {
        HEALTHS.into_iter().zip(self.by_health)
    }
}

/// The copy that runs on while its instance is moved, until another one does.
fn moved(instance: &Instance) -> Option<&InstanceCopy> {
    let twin = instance.twin()?;
    let is_moved = twin.reason == TwinReason::Evacuating && twin.running_since.is_some();
    is_moved.then_some(&twin.copy)
}

/// Whether a copy of it runs that nobody ends: its own, or one that is being moved until that does.
fn is_running(instance: &Instance) -> bool {
    let own = match instance.state() {
        InstanceState::Running { copy, .. } => Some(copy),
        InstanceState::Unclaimed { .. }
        | InstanceState::Claimed { .. }
        | InstanceState::Crashed { .. } => None,
    };
    own.into_iter().chain(moved(instance)).any(|copy| copy.stopping.is_none())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_worker_is_counted_by_one_health() {
        let mut workers = Workers::default();
        let all = [Some(Health::New), Some(Health::Unhealthy), Some(Health::Unhealthy), None];
        all.into_iter().for_each(|health| workers.add(health, health.is_none(), false));
        workers.add(Some(Health::Healthy), false, true);
        workers.add(Some(Health::MustDie), true, false);
        let by: Vec<_> = workers.by_health().collect();
        let wanted = [("new", 1), ("healthy", 1), ("unhealthy", 2), ("lost", 1), ("absent", 1)];
        assert_eq!(by, wanted);
        assert_eq!((workers.silent, workers.taking), (2, 1));
    }
}
