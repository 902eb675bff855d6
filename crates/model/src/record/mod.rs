//! What the store keeps of work, and how it may change.
//!
//! ```text
//!   task       PENDING ⇄ RUNNING ──▶ COMPLETED ⇄ RESOLVING ──▶ gone
//!                 └───────────────────▲  └───────────────────────▲
//!   instance   UNCLAIMED ⇄ CLAIMED ──▶ RUNNING      and a twin beside it: a second copy that is
//!                 ▲ └──────┬──────────▲  │          evacuating, silent or on its way out
//!                 └──── CRASHED ◀────────┘
//! ```
//!
//! | word | what it is |
//! | --- | --- |
//! | [`Placed`] | a run, and which life of which worker has it, under which contract |
//! | [`Task`], [`TaskPhase`], [`TaskEvent`] | the record of a task, and its table |
//! | [`Instance`], [`InstancePhase`], [`InstanceEvent`] | the record of one index of a service, and its table |
//! | [`CrashPolicy`], [`Crashes`] | when an instance that crashed begins again |
//! | [`Past`], [`PastCrash`] | what is kept of its runs that are over |
//!
//! Invariant: a phase changes along its table and in no other way: the fields are private, and each
//! event has one door.
//!
//! Invariant: whoever may be running stands in the record, and leaves it only when its run is
//! certainly gone (safety rules 6 and 22).
//!
//! This room does not know when an event is due, nor how records are kept.

mod crash;
mod instance;
mod past;
mod task;

use crate::{Contract, Incarnation, RunId};

pub use crash::{Crash, CrashPolicy, Crashes};
pub use instance::{
    Instance, InstanceAfter, InstanceCopy, InstanceEvent, InstancePhase, InstanceState, StopReason,
    Twin, TwinReason, instance_after,
};
pub use past::{Past, PastCrash};
pub use task::{
    Task, TaskAfter, TaskEnd, TaskEvent, TaskOutcome, TaskParts, TaskPhase, TaskState, task_after,
};

/// A run, and who has it: what a claim commits before the run is sent (safety rule 6).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placed {
    /// The run.
    pub run: RunId,
    /// The life of the worker that it is sent to.
    pub on: Incarnation,
    /// What holds when that worker is silent; frozen.
    pub contract: Contract,
}

/// Why an event did not happen: it is not for a record in this phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{event} is not for {phase}")]
pub struct Illegal {
    /// What should have happened.
    pub event: &'static str,
    /// What the record is.
    pub phase: &'static str,
}
