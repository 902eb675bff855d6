//! Workers, and the cluster as a whole.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

/// A worker.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct WorkerView {
    /// Its name.
    pub name: String,
    /// Names its machine and its data directory.
    pub lock: String,
    /// Which of its lives.
    pub life: u64,
    /// `new`, `healthy`, `unhealthy`, `lost` or `absent`.
    pub health: String,
    /// Whether it is given work.
    pub takes_work: bool,
    /// When its drain ends at the latest, if it is drained.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub draining_until: Option<String>,
    /// Whether it was declared dead: nothing runs there any more.
    pub is_declared_dead: bool,
    /// What is wrong with it, in words: which of its health checks failed and how, by its own words, or for
    /// how long it was not heard.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trouble: Option<String>,
    /// Runs that it has, or may have.
    pub runs: usize,
    /// What it says of itself: what it has, its zone, its `tags`, and the `required_tags` that work must
    /// name to run there.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    #[schema(value_type = Object)]
    pub facts: Value,
}

/// How long a drain may take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct DrainAsk {
    /// In seconds, 2,592,000 (30 days) at most; the default is ten minutes.
    pub within_s: Option<u64>,
}

/// What a drain would do to what a worker runs, if it began now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ForecastView {
    /// The worker.
    pub worker: String,
    /// Its runs, in the order of what they run.
    pub runs: Vec<ForecastRun>,
}

/// What would become of one run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ForecastRun {
    /// What runs.
    pub key: String,
    /// By which run.
    pub run: String,
    /// `moves`, `nowhere`, `blocked`, `runs-on`, `ends` or `ending`.
    pub fate: String,
    /// The worker that it would move to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// Whether it must end here before it begins elsewhere.
    pub ends_first: bool,
    /// The same in words, with the reason.
    pub text: String,
}

/// A domain.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DomainView {
    /// Its name.
    pub name: String,
    /// Whether it is fresh.
    pub is_fresh: bool,
    /// Until when; absent for always.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<String>,
}

/// How long a domain is fresh.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct SetDomain {
    /// In seconds from now; without it, forever.
    pub for_s: Option<u64>,
}

/// A namespace: it is there as long as something has a name in it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NamespaceView {
    /// Its name.
    pub name: String,
    /// Its services, and their instances.
    pub services: Counts,
    /// Its tasks by phase, without phases that have none.
    pub tasks: BTreeMap<String, usize>,
    /// Its finished tasks by outcome, without outcomes that have none.
    #[serde(default)]
    pub outcomes: BTreeMap<String, usize>,
}

/// The cluster as a whole.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Status {
    /// Its id.
    pub cluster: String,
    /// Which life of its store.
    pub epoch: u64,
    /// Which reign.
    pub term: u64,
    /// The server that leads.
    pub leader: String,
    /// Its version.
    pub version: String,
    /// How far the store has come.
    pub revision: u64,
    /// What the store stands on.
    pub store: String,
    /// Workers by health.
    pub workers: BTreeMap<String, usize>,
    /// Whether work can be given: a worker takes it, and this leader starts it.
    pub takes_work: bool,
    /// Why this leader starts nothing although workers take work, and until when.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub starts_nothing: Option<String>,
    /// Tasks by phase.
    pub tasks: BTreeMap<String, usize>,
    /// Tasks that are over, by outcome: `succeeded`, `failed`, `cancelled` or `lost`.
    #[serde(default)]
    pub outcomes: BTreeMap<String, usize>,
    /// Services, and their instances.
    pub services: Counts,
    /// Services whose newest version was rolled back because it failed, and that are unchanged since.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub taken_back: Vec<String>,
    /// The workers for which this leader waits before it starts everything.
    pub waits_for: Vec<Awaiting>,
    /// Whether the store was restored, and nobody has said to this leader that every worker that there
    /// was is on the list.
    pub is_recovered: bool,
    /// Promises that do not hold as the store is set up, and what workers cannot hold runs to, each with
    /// its remedy.
    pub warnings: Vec<String>,
}

/// How many.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Counts {
    /// Services.
    pub services: usize,
    /// Instances that are wanted.
    pub wanted: usize,
    /// Instances that run.
    pub running: usize,
}

/// A worker that is waited for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Awaiting {
    /// Its name.
    pub worker: String,
    /// How much longer, in seconds; absent if only the worker or a person can end it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seconds: Option<u64>,
}
