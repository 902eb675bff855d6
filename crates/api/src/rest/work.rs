//! Services, instances and tasks.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

/// A task that is to be made.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateTask {
    /// Its name. Asked for again with the same name, incarnation and spec, it is the same task; without an
    /// incarnation, or with another, its name is taken.
    pub name: String,
    /// What it is, as under `[task.NAME]` of a spec.
    #[schema(value_type = Object)]
    pub spec: Value,
    /// Drawn by the client: with it, the same call may be made again if its answer was lost. Any UUID.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(
        pattern = "^(ti-)?([0-9a-fA-F]{32}|[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12})$"
    )]
    pub incarnation: Option<String>,
}

/// A service that is to be.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PutService {
    /// What it is, as under `[service.NAME]` of a spec.
    #[schema(value_type = Object)]
    pub spec: Value,
}

/// A task.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct TaskView {
    /// `NAMESPACE/task/NAME`.
    pub key: String,
    /// Its name.
    pub name: String,
    /// Where the name holds.
    pub namespace: String,
    /// Tells it from an earlier or later one with its name.
    pub incarnation: String,
    /// `pending`, `running`, `completed` or `resolving`. See `outcome` for how a task that is over came out.
    pub phase: String,
    /// `succeeded`, `failed`, `cancelled` or `lost` once the task is over; null before. `failed` includes a
    /// task that never started. `lost` means: its worker or its record was lost, so how far it ran is
    /// unknown.
    #[serde(default)]
    pub outcome: Option<String>,
    /// When it was made.
    pub made: String,
    /// Its command.
    pub run: Vec<String>,
    /// The worker that has it, or had it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker: Option<String>,
    /// Its start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_id: Option<String>,
    /// Since when its worker had it: the one that has it, or where it ended. Not there of one that never
    /// began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started: Option<String>,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<String>,
    /// From its start to its end, if it had both.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub took_ms: Option<u64>,
    /// How.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<EndView>,
    /// How often a worker refused it.
    pub returns: u32,
    /// The spec, as under `[task.NAME]` of a file, without fields that have their default. Only in the answer
    /// for a single task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub spec: Option<Value>,
}

impl TaskView {
    /// What people call its state: its outcome once it is over, before that its phase.
    pub fn state_word(&self) -> &str {
        self.outcome.as_deref().unwrap_or_else(|| phase_word(&self.phase))
    }
}

/// What people call a phase of a task or an instance.
pub fn phase_word(phase: &str) -> &str {
    match phase {
        "pending" | "unclaimed" => "waiting",
        "claimed" => "starting",
        "completed" | "resolving" => "over",
        other => other,
    }
}

/// How a task ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct EndView {
    /// Whether it did what it was to do.
    pub is_success: bool,
    /// Why it is over: `ran`, `cancelled`, `lost`, `drained`, `never-taken`, `no-room`, `too-late` or
    /// `unknown-after-restore`.
    pub why: String,
    /// The same in words.
    pub text: String,
    /// Its exit code, if it exited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i64>,
    /// The signal that ended it, if one did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<i64>,
    /// What it wrote to the file that `STERNA_RESULT` names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<ResultView>,
    /// What its worker says of it.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    #[schema(value_type = Object)]
    pub report: Value,
}

/// What a task has left as its result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ResultView {
    /// What it wrote; what is no text is replaced.
    pub text: String,
    /// Whether there was more: 50 KiB are kept.
    pub is_cut: bool,
}

/// A service.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ServiceView {
    /// `NAMESPACE/service/NAME`.
    pub key: String,
    /// Its name.
    pub name: String,
    /// Where the name holds.
    pub namespace: String,
    /// How many instances are wanted.
    pub instances: u32,
    /// How many of those run that are wanted, and are not being ended.
    pub running: u32,
    /// Its command.
    pub run: Vec<String>,
    /// Names the spec, as far as it needs restarts.
    pub version: u64,
    /// Whether an update to another version is under way: until every instance runs that version.
    pub is_updating: bool,
    /// The domain that must be fresh.
    pub domain: String,
    /// The version that was rolled back because it failed, until the spec asks for another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub taken_back: Option<TakenBackView>,
    /// The spec, as under `[service.NAME]` of a file, without fields that have their default. You may change it
    /// and put it back. Only in the answer for a single service.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub spec: Option<Value>,
}

/// A task that is stored and not started.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DefinitionView {
    /// `NAMESPACE/definition/NAME`.
    pub key: String,
    /// Its name.
    pub name: String,
    /// Where the name holds.
    pub namespace: String,
    /// Counted from 1, and one more with each change.
    pub version: u64,
    /// Its command.
    pub run: Vec<String>,
    /// The spec, as under `[task.NAME]` of a file, without fields that have their default. Only in the answer
    /// for a single definition.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub spec: Option<Value>,
}

/// A version of a service that was rolled back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TakenBackView {
    /// Which.
    pub version: u64,
    /// When.
    pub at: String,
    /// The instance with which it was enough.
    pub index: u32,
    /// What for, in words.
    pub text: String,
}

/// One index of a service.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct InstanceView {
    /// `NAMESPACE/service/NAME/INDEX`.
    pub key: String,
    /// Its index.
    pub index: u32,
    /// `unclaimed`, `claimed`, `running` or `crashed`.
    pub phase: String,
    /// Since when, or until when it waits after a crash.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
    /// Until when it waits after a crash.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub again_at: Option<String>,
    /// The worker that has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker: Option<String>,
    /// Its start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_id: Option<String>,
    /// Of which version of its service.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<u64>,
    /// Whether it takes requests; said of what runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub is_ready: Option<bool>,
    /// Whether it is being ended, and why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stopping: Option<String>,
    /// Crashes in a row.
    pub crashes: u32,
    /// How the last crash was; it stays when the instance runs again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_crash: Option<CrashView>,
    /// Its last run that is over: what it wrote is asked for with `previous`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub previous_run_id: Option<String>,
    /// A second copy beside it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub twin: Option<TwinView>,
}

/// A run of an instance that ended although no client had asked for that.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct CrashView {
    /// When.
    pub at: String,
    /// Which start.
    pub run_id: String,
    /// Where; not said of a worker that is no longer known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker: Option<String>,
    /// How.
    pub end: EndView,
}

impl InstanceView {
    /// What people call its state.
    pub fn state_word(&self) -> &str {
        match (&self.stopping, self.is_ready) {
            (Some(_), Some(_) | None) => "ending",
            (None, Some(false)) => "running, not ready",
            (None, Some(true) | None) => phase_word(&self.phase),
        }
    }
}

/// A second copy of an instance.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TwinView {
    /// `silent`, `evacuating` or `surplus`.
    pub reason: String,
    /// Where.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker: Option<String>,
    /// Its start.
    pub run_id: String,
}

/// Where an instance takes requests.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct EndpointView {
    /// Of which instance.
    pub index: u32,
    /// On which worker.
    pub worker: String,
    /// The address of that worker.
    pub address: String,
    /// Ports by name.
    pub ports: BTreeMap<String, u16>,
    /// Of which start.
    pub run_id: String,
}

/// One line that a run wrote, or that is told of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LogLine {
    /// By which run.
    pub run: String,
    /// Its number in that run.
    pub line: u64,
    /// When.
    pub at: String,
    /// `stdout`, `stderr` or `events`.
    pub stream: String,
    /// What, as far as it is text.
    pub text: String,
    /// The bytes in hexadecimal digits, if they are no text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<String>,
    /// Whether the line goes on in the next one.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_cut: bool,
    /// How many lines before this one are no longer there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub missing: Option<u64>,
}

/// A log that a worker keeps.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct KeptLog {
    /// `NAMESPACE/task/NAME` or `NAMESPACE/service/NAME/INDEX`.
    pub key: String,
    /// Its newest run there.
    pub run: String,
    /// Who keeps it.
    pub worker: String,
    /// When the last line of that was written.
    pub at: String,
}

/// One page of a log.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LogPage {
    /// In order.
    pub lines: Vec<LogLine>,
    /// What to give as `after` to read on.
    pub next: String,
    /// `now`, `later` or `never`: whether there is more.
    pub more: String,
    /// Whose lines these are, if not those of the run that it has now; or why there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}
