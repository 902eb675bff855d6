//! Rows of the store: the key of each, and what stands under it.
//!
//! | key | row | room that owns it |
//! | --- | --- | --- |
//! | a service | its spec and versions | `services` |
//! | an instance | where it runs, and how often it crashed | `services` |
//! | a task | its state and its spec | `tasks` |
//! | the name of a deleted task | its tombstone | `past` |
//! | a machine | its entry on the roster, its drain | `roster`, `drains` |
//! | a definition | what is stored to be started later | `definitions` |
//! | a domain | until when it is fresh | `domains` |
//! | the limits, the stage | themselves | `fleet` |
//!
//! Invariant: a row carries its key and its record together, so no code can meet a record under a
//! key of another kind.

use std::sync::Arc;

use sterna_model::{
    DefinitionKey, InstanceKey, Lock, Name, ServiceKey, TaskKey, WallTime, WorkKey,
    record::{Instance, Task},
    spec::{Definition, TaskSpec},
};
use sterna_protocol::{limits::Limits, roster::Enrolled};

use super::interface::{Drain, ServiceRecord, Stage, Tombstone};

/// A task and its spec.
pub type TaskRow = (Task, Arc<TaskSpec>);

/// One row: what stands under a key, or is to stand there. `None`: nothing.
#[derive(Clone, Debug, PartialEq)]
pub enum Row {
    /// A service.
    Service(ServiceKey, Option<Arc<ServiceRecord>>),
    /// One instance of a service.
    Instance(InstanceKey, Option<Instance>),
    /// A task.
    Task(TaskKey, Option<TaskRow>),
    /// The name of a task that was deleted.
    Tombstone(TaskKey, Option<Tombstone>),
    /// A machine on the roster.
    Roster(Lock, Option<Enrolled>),
    /// A machine that is being drained.
    Drain(Lock, Option<Drain>),
    /// A domain, and until when it is fresh; the inner `None` is for always.
    Domain(Name, Option<Option<WallTime>>),
    /// One version of a definition.
    Definition(DefinitionKey, u64, Option<Arc<Definition>>),
    /// All limits that some worker may go by, the newest last.
    Limits(Vec<Limits>),
    /// What the store is.
    Stage(Stage),
}

/// The key of a row. Its order is the order of writes in a commit.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RowKey {
    /// Of [`Row::Service`].
    Service(ServiceKey),
    /// Of [`Row::Instance`].
    Instance(InstanceKey),
    /// Of [`Row::Task`].
    Task(TaskKey),
    /// Of [`Row::Tombstone`].
    Tombstone(TaskKey),
    /// Of [`Row::Roster`].
    Roster(Lock),
    /// Of [`Row::Drain`].
    Drain(Lock),
    /// Of [`Row::Domain`].
    Domain(Name),
    /// Of [`Row::Definition`].
    Definition(DefinitionKey, u64),
    /// Of [`Row::Limits`].
    Limits,
    /// Of [`Row::Stage`].
    Stage,
}

impl Row {
    /// The key under which it stands.
    pub fn key(&self) -> RowKey {
        match self {
            Self::Service(key, _) => RowKey::Service(key.clone()),
            Self::Instance(key, _) => RowKey::Instance(key.clone()),
            Self::Task(key, _) => RowKey::Task(key.clone()),
            Self::Tombstone(key, _) => RowKey::Tombstone(key.clone()),
            Self::Roster(lock, _) => RowKey::Roster(*lock),
            Self::Drain(lock, _) => RowKey::Drain(*lock),
            Self::Domain(name, _) => RowKey::Domain(name.clone()),
            Self::Definition(key, version, _) => RowKey::Definition(key.clone(), *version),
            Self::Limits(_) => RowKey::Limits,
            Self::Stage(_) => RowKey::Stage,
        }
    }

    /// Whether nothing stands under its key.
    pub const fn is_gone(&self) -> bool {
        match self {
            Self::Service(_, record) => record.is_none(),
            Self::Instance(_, record) => record.is_none(),
            Self::Task(_, record) => record.is_none(),
            Self::Tombstone(_, record) => record.is_none(),
            Self::Roster(_, record) => record.is_none(),
            Self::Drain(_, record) => record.is_none(),
            Self::Domain(_, record) => record.is_none(),
            Self::Definition(_, _, record) => record.is_none(),
            Self::Limits(_) | Self::Stage(_) => false,
        }
    }
}

impl RowKey {
    /// The work whose state this row holds.
    pub fn work(&self) -> Option<WorkKey> {
        match self {
            Self::Instance(key) => Some(WorkKey::Instance(key.clone())),
            Self::Task(key) => Some(WorkKey::Task(key.clone())),
            Self::Service(_)
            | Self::Tombstone(_)
            | Self::Roster(_)
            | Self::Drain(_)
            | Self::Domain(_)
            | Self::Definition(..)
            | Self::Limits
            | Self::Stage => None,
        }
    }
}
