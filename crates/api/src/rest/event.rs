//! What happened.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

/// What kind of thing happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
#[expect(missing_docs, reason = "each says what it is; docs/api.md has the table")]
pub enum EventKind {
    TaskCreated,
    TaskRunning,
    TaskReturned,
    TaskCompleted,
    TaskAmended,
    TaskDeleted,
    ServiceCreated,
    ServiceChanged,
    ServiceReverted,
    ServiceDeleted,
    DefinitionCreated,
    DefinitionChanged,
    DefinitionDeleted,
    InstanceClaimed,
    InstanceRunning,
    InstanceCrashed,
    InstanceEnded,
    InstanceUnclaimed,
    InstanceSilent,
    InstanceEvacuating,
    InstanceGone,
    WorkerJoined,
    WorkerReturned,
    WorkerLeft,
    WorkerDraining,
    WorkerUndrained,
    WorkerDeclaredDead,
    RosterDeclaredComplete,
    DomainSet,
    DomainRemoved,
    LimitsChanged,
    LeaderChanged,
    Alarm,
}

impl EventKind {
    /// All of them.
    pub const ALL: [Self; 33] = [
        Self::TaskCreated,
        Self::TaskRunning,
        Self::TaskReturned,
        Self::TaskCompleted,
        Self::TaskAmended,
        Self::TaskDeleted,
        Self::ServiceCreated,
        Self::ServiceChanged,
        Self::ServiceReverted,
        Self::ServiceDeleted,
        Self::DefinitionCreated,
        Self::DefinitionChanged,
        Self::DefinitionDeleted,
        Self::InstanceClaimed,
        Self::InstanceRunning,
        Self::InstanceCrashed,
        Self::InstanceEnded,
        Self::InstanceUnclaimed,
        Self::InstanceSilent,
        Self::InstanceEvacuating,
        Self::InstanceGone,
        Self::WorkerJoined,
        Self::WorkerReturned,
        Self::WorkerLeft,
        Self::WorkerDraining,
        Self::WorkerUndrained,
        Self::WorkerDeclaredDead,
        Self::RosterDeclaredComplete,
        Self::DomainSet,
        Self::DomainRemoved,
        Self::LimitsChanged,
        Self::LeaderChanged,
        Self::Alarm,
    ];

    /// The word for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::TaskCreated => "task-created",
            Self::TaskRunning => "task-running",
            Self::TaskReturned => "task-returned",
            Self::TaskCompleted => "task-completed",
            Self::TaskAmended => "task-amended",
            Self::TaskDeleted => "task-deleted",
            Self::ServiceCreated => "service-created",
            Self::ServiceChanged => "service-changed",
            Self::ServiceReverted => "service-reverted",
            Self::ServiceDeleted => "service-deleted",
            Self::DefinitionCreated => "definition-created",
            Self::DefinitionChanged => "definition-changed",
            Self::DefinitionDeleted => "definition-deleted",
            Self::InstanceClaimed => "instance-claimed",
            Self::InstanceRunning => "instance-running",
            Self::InstanceCrashed => "instance-crashed",
            Self::InstanceEnded => "instance-ended",
            Self::InstanceUnclaimed => "instance-unclaimed",
            Self::InstanceSilent => "instance-silent",
            Self::InstanceEvacuating => "instance-evacuating",
            Self::InstanceGone => "instance-gone",
            Self::WorkerJoined => "worker-joined",
            Self::WorkerReturned => "worker-returned",
            Self::WorkerLeft => "worker-left",
            Self::WorkerDraining => "worker-draining",
            Self::WorkerUndrained => "worker-undrained",
            Self::WorkerDeclaredDead => "worker-declared-dead",
            Self::RosterDeclaredComplete => "roster-declared-complete",
            Self::DomainSet => "domain-set",
            Self::DomainRemoved => "domain-removed",
            Self::LimitsChanged => "limits-changed",
            Self::LeaderChanged => "leader-changed",
            Self::Alarm => "alarm",
        }
    }
}

impl fmt::Display for EventKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// Something that happened. It stands in the store together with what it tells.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct EventView {
    /// `EPOCH.TERM.NUMBER`; later ones are greater, part by part.
    pub id: String,
    /// When.
    pub at: String,
    /// What.
    pub kind: EventKind,
    /// What it is about: the key of work, or `worker/NAME`, `roster`, `domain/NAME`, `limits`,
    /// `leader`.
    pub key: String,
    /// Of which run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
    /// Why, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// What belongs to this kind of event.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    #[schema(value_type = Object)]
    pub data: Map<String, Value>,
}
