//! What clients ask over HTTP and are told, as JSON.
//!
//! | file | words |
//! | --- | --- |
//! | `error` | everything that can be refused: one catalogue, with status, exit code and remedy |
//! | `event` | what happened, in order |
//! | `work` | services, instances and tasks |
//! | `fleet` | workers, and the cluster as a whole |
//! | `change` | what is applied, planned and explained |
//!
//! Invariant: times are RFC 3339 in UTC, amounts are numbers in the unit that their names end with.
//! Fields are added, never changed; who reads passes over what it does not know.

mod change;
mod error;
mod event;
mod fleet;
mod work;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

pub use self::{
    change::{
        Applied, AppliedTask, Apply, ChangeView, DefinitionChange, Explained, File, Plan, PlanAsk,
        PlannedService, PlannedTask, ServiceExplained,
    },
    error::{Code, Refused, SpecProblem},
    event::{EventKind, EventView},
    fleet::{
        Awaiting, Counts, DomainView, DrainAsk, ForecastRun, ForecastView, NamespaceView,
        SetDomain, Status, WorkerView,
    },
    work::{
        CrashView, CreateTask, DefinitionView, EndView, EndpointView, InstanceView, KeptLog,
        LogLine, LogPage, PutService, ResultView, ServiceView, TakenBackView, TaskView, TwinView,
        phase_word,
    },
};

/// So much a request has at most.
pub const BODY_BYTES_MAX: usize = 4 << 20;

/// One page of a list.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Page<T> {
    /// In order.
    pub items: Vec<T>,
    /// What to give as `after` for the next page; absent on the last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// It is done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Done {
    /// Whether anything was to be done.
    pub changed: bool,
    /// Whether what was done is that something begins again that had crashed and waited, or was given
    /// up.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub begins_again: bool,
}
