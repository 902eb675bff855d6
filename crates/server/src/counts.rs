//! How far instances and tasks are, by what stands in the store, and how workers are. Pure.
//!
//! Lists of services say it of each, and a service may have a hundred thousand: so it is counted write by
//! write. So are tasks. Workers are few, and are counted by whoever leads them, now and then.

use sterna_engine::control::{ServiceKey, ServiceRecord};
use sterna_model::{
    Work, WorkKey,
    record::{Instance, InstanceCopy, InstanceState, TaskPhase, TwinReason},
};
use sterna_protocol::health::Health;

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

/// How many tasks are in which phase.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Phases([usize; TaskPhase::ALL.len()]);

impl Phases {
    /// Of no task.
    pub(crate) const fn new() -> Self {
        Self([0; TaskPhase::ALL.len()])
    }

    fn of(&mut self, phase: TaskPhase) -> Option<&mut usize> {
        self.0.get_mut(phase as usize)
    }

    pub(crate) fn add(&mut self, phase: TaskPhase) {
        self.of(phase).into_iter().for_each(|count| *count += 1);
    }

    pub(crate) fn subtract(&mut self, phase: TaskPhase) {
        self.of(phase).into_iter().for_each(|count| *count -= 1);
    }

    #[cfg(test)]
    pub(crate) fn join(&mut self, other: &Self) {
        self.0.iter_mut().zip(other.0).for_each(|(count, more)| *count += more);
    }

    /// Each phase, in the order of a life.
    pub(crate) fn all(&self) -> impl Iterator<Item = (TaskPhase, usize)> {
        TaskPhase::ALL.into_iter().zip(self.0)
    }

    /// The phases in which there are some, by their words.
    pub(crate) fn words(&self) -> impl Iterator<Item = (&'static str, usize)> {
        self.all().filter(|(_, count)| *count > 0).map(|(phase, count)| (phase.as_str(), count))
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

/// The service of an instance, and its index.
pub(crate) fn service_of(key: &WorkKey) -> Option<(ServiceKey, u32)> {
    match &key.work {
        Work::Instance { service, index } => {
            let (namespace, name) = (key.namespace.clone(), service.clone());
            Some((ServiceKey { namespace, name }, *index))
        }
        Work::Task(_) | Work::Node { .. } => None,
    }
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
