//! Records as they stand in the store, by field number. The rules for whoever changes them are those of
//! [`sterna_wire::words`]: a number is given once, a field is added and never changed.

use prost::{Enumeration, Message, Oneof};
use sterna_wire::words::{Contract, Incarnation, Limits, Nothing};

#[derive(Clone, PartialEq, Message)]
pub(super) struct Service {
    #[prost(message, optional, tag = "1")]
    pub(super) spec: Option<ServiceSpec>,
    #[prost(uint64, tag = "2")]
    pub(super) version: u64,
    #[prost(uint64, tag = "3")]
    pub(super) highest: u64,
    /// The spec that was wanted before, while another comes about.
    #[prost(message, optional, tag = "4")]
    pub(super) before: Option<ServiceSpec>,
    #[prost(uint64, tag = "5")]
    pub(super) before_version: u64,
    #[prost(uint32, tag = "6")]
    pub(super) crashes: u32,
    #[prost(message, optional, tag = "7")]
    pub(super) taken_back: Option<TakenBack>,
}

/// A version of a service that was taken back.
#[derive(Clone, PartialEq, Message)]
pub(super) struct TakenBack {
    #[prost(uint64, tag = "1")]
    pub(super) version: u64,
    #[prost(sint64, tag = "2")]
    pub(super) at_ms: i64,
    #[prost(uint32, tag = "3")]
    pub(super) index: u32,
    #[prost(string, tag = "4")]
    pub(super) why: String,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ServiceSpec {
    #[prost(uint32, tag = "1")]
    pub(super) instances: u32,
    #[prost(message, optional, tag = "2")]
    pub(super) wants: Option<Wants>,
    #[prost(message, optional, tag = "3")]
    pub(super) contract: Option<Contract>,
    #[prost(bytes = "vec", tag = "4")]
    pub(super) work: Vec<u8>,
    #[prost(message, optional, tag = "5")]
    pub(super) crash: Option<CrashPolicy>,
    #[prost(message, optional, tag = "6")]
    pub(super) update: Option<UpdatePolicy>,
    #[prost(string, tag = "7")]
    pub(super) domain: String,
    #[prost(string, tag = "8")]
    pub(super) notes: String,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Wants {
    #[prost(uint64, tag = "1")]
    pub(super) cpu_millicores: u64,
    #[prost(uint64, tag = "2")]
    pub(super) memory_bytes: u64,
    #[prost(uint64, tag = "3")]
    pub(super) disk_bytes: u64,
    #[prost(message, repeated, tag = "4")]
    pub(super) countables: Vec<Countable>,
    #[prost(string, optional, tag = "5")]
    pub(super) stack: Option<String>,
    #[prost(string, repeated, tag = "6")]
    pub(super) tags: Vec<String>,
    #[prost(string, repeated, tag = "7")]
    pub(super) apart_from: Vec<String>,
    /// The word of a spec; empty for the usual one.
    #[prost(string, tag = "8")]
    pub(super) zones: String,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Countable {
    #[prost(string, tag = "1")]
    pub(super) name: String,
    #[prost(uint64, tag = "2")]
    pub(super) count: u64,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub(super) struct CrashPolicy {
    #[prost(uint32, tag = "1")]
    pub(super) wait_from: u32,
    #[prost(uint64, tag = "2")]
    pub(super) first_wait_ms: u64,
    #[prost(uint64, tag = "3")]
    pub(super) longest_wait_ms: u64,
    #[prost(uint32, tag = "4")]
    pub(super) give_up_at: u32,
    #[prost(uint64, tag = "5")]
    pub(super) forgiven_after_ms: u64,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub(super) struct UpdatePolicy {
    #[prost(uint32, tag = "1")]
    pub(super) max_unavailable: u32,
    #[prost(uint64, tag = "2")]
    pub(super) healthy_for_ms: u64,
    #[prost(uint32, optional, tag = "3")]
    pub(super) revert_after: Option<u32>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct TaskSpec {
    #[prost(message, optional, tag = "1")]
    pub(super) wants: Option<Wants>,
    #[prost(message, optional, tag = "2")]
    pub(super) contract: Option<Contract>,
    #[prost(bytes = "vec", tag = "3")]
    pub(super) work: Vec<u8>,
    #[prost(bool, tag = "4")]
    pub(super) fails_when_full: bool,
    #[prost(sint64, optional, tag = "5")]
    pub(super) latest_start_ms: Option<i64>,
    #[prost(string, optional, tag = "6")]
    pub(super) callback: Option<String>,
    #[prost(bool, tag = "7")]
    pub(super) keeps_name: bool,
}

/// A task that is stored and not started.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Definition {
    #[prost(message, optional, tag = "1")]
    pub(super) spec: Option<TaskSpec>,
    #[prost(uint64, optional, tag = "2")]
    pub(super) latest_start_after_ms: Option<u64>,
}

/// A run, and who has it.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Placed {
    #[prost(bytes = "vec", tag = "1")]
    pub(super) run: Vec<u8>,
    #[prost(message, optional, tag = "2")]
    pub(super) on: Option<Incarnation>,
    #[prost(message, optional, tag = "3")]
    pub(super) contract: Option<Contract>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Task {
    #[prost(bytes = "vec", tag = "1")]
    pub(super) incarnation: Vec<u8>,
    #[prost(uint64, tag = "2")]
    pub(super) epoch: u64,
    #[prost(sint64, tag = "3")]
    pub(super) made_ms: i64,
    #[prost(uint32, tag = "4")]
    pub(super) returns: u32,
    #[prost(message, optional, tag = "5")]
    pub(super) left: Option<Placed>,
    #[prost(bytes = "vec", optional, tag = "6")]
    pub(super) lost: Option<Vec<u8>>,
    #[prost(bool, tag = "7")]
    pub(super) is_told: bool,
    #[prost(message, optional, tag = "8")]
    pub(super) spec: Option<TaskSpec>,
    #[prost(oneof = "TaskState", tags = "9, 10, 11, 12")]
    pub(super) state: Option<TaskState>,
    #[prost(message, optional, tag = "13")]
    pub(super) last: Option<LastRun>,
    #[prost(bool, tag = "14")]
    pub(super) is_given_up: bool,
    /// Since when the last run of one that is over was with a worker; other builds wrote none.
    #[prost(sint64, optional, tag = "15")]
    pub(super) started_ms: Option<i64>,
}

/// A run that is or was the last one, and who had it.
#[derive(Clone, PartialEq, Message)]
pub(super) struct LastRun {
    #[prost(bytes = "vec", tag = "1")]
    pub(super) run: Vec<u8>,
    #[prost(message, optional, tag = "2")]
    pub(super) on: Option<Incarnation>,
}

#[derive(Clone, PartialEq, Oneof)]
pub(super) enum TaskState {
    #[prost(message, tag = "9")]
    Pending(Nothing),
    #[prost(message, tag = "10")]
    Running(TaskRunning),
    #[prost(message, tag = "11")]
    Completed(TaskOver),
    #[prost(message, tag = "12")]
    Resolving(TaskOver),
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct TaskRunning {
    #[prost(message, optional, tag = "1")]
    pub(super) placed: Option<Placed>,
    #[prost(sint64, tag = "2")]
    pub(super) since_ms: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct TaskOver {
    #[prost(sint64, tag = "1")]
    pub(super) at_ms: i64,
    /// Since when it is being told.
    #[prost(sint64, tag = "2")]
    pub(super) since_ms: i64,
    #[prost(oneof = "TaskEnd", tags = "3, 4, 5, 6, 7, 8, 9, 10, 11")]
    pub(super) end: Option<TaskEnd>,
}

/// Why no worker took a task; nothing in what was written before it was asked.
#[derive(Clone, PartialEq, Message)]
pub(super) struct NeverTaken {
    #[prost(string, tag = "1")]
    pub(super) why: String,
}

/// How a task ended; a report is its worker's.
#[derive(Clone, PartialEq, Oneof)]
pub(super) enum TaskEnd {
    #[prost(string, tag = "3")]
    Succeeded(String),
    #[prost(string, tag = "4")]
    Failed(String),
    #[prost(message, tag = "5")]
    Cancelled(Nothing),
    #[prost(message, tag = "6")]
    Lost(Nothing),
    #[prost(message, tag = "7")]
    Drained(Nothing),
    #[prost(message, tag = "8")]
    NeverTaken(NeverTaken),
    #[prost(string, tag = "9")]
    NoRoom(String),
    #[prost(message, tag = "10")]
    TooLate(Nothing),
    #[prost(message, tag = "11")]
    UnknownAfterRestore(Nothing),
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Instance {
    #[prost(uint32, tag = "1")]
    pub(super) crashes: u32,
    #[prost(sint64, optional, tag = "2")]
    pub(super) last_crash_ms: Option<i64>,
    #[prost(message, optional, tag = "3")]
    pub(super) twin: Option<Twin>,
    #[prost(oneof = "InstanceState", tags = "4, 5, 6, 7, 8")]
    pub(super) state: Option<InstanceState>,
    #[prost(message, optional, tag = "9")]
    pub(super) past: Option<Past>,
}

/// What is kept of the runs of an instance that are over.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Past {
    /// The one that was over last.
    #[prost(message, optional, tag = "1")]
    pub(super) last: Option<LastRun>,
    #[prost(message, optional, tag = "2")]
    pub(super) crash: Option<PastCrash>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct PastCrash {
    #[prost(message, optional, tag = "1")]
    pub(super) run: Option<LastRun>,
    #[prost(message, optional, tag = "2")]
    pub(super) over: Option<TaskOver>,
}

#[derive(Clone, PartialEq, Oneof)]
pub(super) enum InstanceState {
    /// Since when.
    #[prost(sint64, tag = "4")]
    UnclaimedMs(i64),
    #[prost(message, tag = "5")]
    Claimed(Copy),
    #[prost(message, tag = "6")]
    Running(Copy),
    /// Until when it waits.
    #[prost(sint64, tag = "7")]
    CrashedUntilMs(i64),
    #[prost(message, tag = "8")]
    GivenUp(Nothing),
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Copy {
    #[prost(message, optional, tag = "1")]
    pub(super) placed: Option<Placed>,
    #[prost(uint64, tag = "2")]
    pub(super) version: u64,
    #[prost(enumeration = "Stopping", tag = "3")]
    pub(super) stopping: i32,
    /// Since when it is as it is; of a twin, since when it runs.
    #[prost(sint64, optional, tag = "4")]
    pub(super) since_ms: Option<i64>,
    /// What its worker said of it last.
    #[prost(bytes = "vec", optional, tag = "5")]
    pub(super) told: Option<Vec<u8>>,
    /// What it takes on its worker.
    #[prost(message, optional, tag = "6")]
    pub(super) wants: Option<Wants>,
}

#[derive(Clone, core::marker::Copy, Debug, PartialEq, Eq, Enumeration)]
#[repr(i32)]
pub(super) enum Stopping {
    No = 0,
    Unwanted = 1,
    Asked = 2,
    Update = 3,
    Elsewhere = 4,
    Drain = 5,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Twin {
    #[prost(message, optional, tag = "1")]
    pub(super) copy: Option<Copy>,
    #[prost(enumeration = "TwinReason", tag = "2")]
    pub(super) reason: i32,
}

#[derive(Clone, core::marker::Copy, Debug, PartialEq, Eq, Enumeration)]
#[repr(i32)]
pub(super) enum TwinReason {
    Unsaid = 0,
    Silent = 1,
    Evacuating = 2,
    Surplus = 3,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Tombstone {
    #[prost(bytes = "vec", tag = "1")]
    pub(super) incarnation: Vec<u8>,
    #[prost(sint64, tag = "2")]
    pub(super) at_ms: i64,
    #[prost(bool, tag = "3")]
    pub(super) is_kept: bool,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Enrolled {
    #[prost(message, optional, tag = "1")]
    pub(super) incarnation: Option<Incarnation>,
    #[prost(string, tag = "2")]
    pub(super) name: String,
    /// 16 bytes.
    #[prost(bytes = "vec", tag = "3")]
    pub(super) boot: Vec<u8>,
    #[prost(bool, tag = "4")]
    pub(super) is_declared_dead: bool,
    #[prost(bool, tag = "5")]
    pub(super) is_draining: bool,
    #[prost(bool, tag = "6")]
    pub(super) is_forgotten: bool,
    /// 0 if it is not known.
    #[prost(fixed64, tag = "7")]
    pub(super) birth: u64,
    /// Empty for none that has a name; not there if nobody has said it.
    #[prost(string, optional, tag = "8")]
    pub(super) zone: Option<String>,
}

#[derive(Clone, core::marker::Copy, PartialEq, Message)]
pub(super) struct Drain {
    #[prost(sint64, tag = "1")]
    pub(super) deadline_ms: i64,
    /// 0 if it is not known.
    #[prost(sint64, tag = "2")]
    pub(super) since_ms: i64,
}

#[derive(Clone, core::marker::Copy, PartialEq, Message)]
pub(super) struct Domain {
    /// None for always.
    #[prost(sint64, optional, tag = "1")]
    pub(super) fresh_until_ms: Option<i64>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct LimitsInForce {
    /// The newest last.
    #[prost(message, repeated, tag = "1")]
    pub(super) limits: Vec<Limits>,
}
