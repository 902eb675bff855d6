//! How far the instances of each service are, by what stands in the store. Pure.
//!
//! Lists of services say it of each, and a service may have a hundred thousand: so it is counted write by
//! write.

use sterna_engine::control::{ServiceKey, ServiceRecord};
use sterna_model::{
    Work, WorkKey,
    record::{Instance, InstanceCopy, InstanceState, TwinReason},
};

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
