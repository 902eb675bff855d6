//! What comes to pass in records, by name.

use sterna_engine::control::Record;
use sterna_model::record::{Instance, InstancePhase, Task, TaskEnd, TaskPhase, TwinReason};

use crate::check::Changed;

/// What a change of a record is called, if it has a name.
pub(crate) fn of(changed: &Changed, after: Option<&Record>) -> Option<&'static str> {
    // tidy: not a table
    match (&changed.before, after) {
        (Some(Record::Task(before, _)), Some(Record::Task(after, _))) => task(Some(before), after),
        (_, Some(Record::Task(after, _))) => task(None, after),
        (Some(Record::Instance(before)), Some(Record::Instance(after))) => instance(before, after),
        (_, Some(Record::Tombstone(_))) => Some("task-deleted"),
        (Some(Record::Drain(_)), None) => Some("drain-over"),
        (Some(Record::Instance(_)), None) => Some("instance-retired"),
        (_, _) => None,
    }
}

fn task(before: Option<&Task>, after: &Task) -> Option<&'static str> {
    let phase = before.map(Task::phase);
    match (phase, after.phase()) {
        (None, TaskPhase::Pending) => Some("task-made"),
        // Often in the commit that makes it.
        (None | Some(TaskPhase::Pending), TaskPhase::Running) => Some("task-claimed"),
        (Some(TaskPhase::Running), TaskPhase::Pending) => Some("task-returned"),
        // Often in the commit that ends it.
        (
            Some(TaskPhase::Pending | TaskPhase::Running | TaskPhase::Completed),
            TaskPhase::Resolving,
        ) => Some("task-resolving"),
        (Some(TaskPhase::Resolving), TaskPhase::Completed) => Some("task-told"),
        (None | Some(TaskPhase::Pending | TaskPhase::Running), TaskPhase::Completed) => {
            after.end().map(end)
        }
        (
            None | Some(_),
            TaskPhase::Pending | TaskPhase::Running | TaskPhase::Completed | TaskPhase::Resolving,
        ) => None,
    }
}

const fn end(end: &TaskEnd) -> &'static str {
    match end {
        TaskEnd::Ran { .. } => "task-ran",
        TaskEnd::Cancelled => "task-cancelled",
        TaskEnd::Lost => "task-lost",
        TaskEnd::Drained => "task-drained",
        TaskEnd::NeverTaken { .. } => "task-never-taken",
        TaskEnd::NoRoom { .. } => "task-no-room",
        TaskEnd::TooLate => "task-too-late",
        TaskEnd::UnknownAfterRestore => "task-unknown-after-restore",
    }
}

fn instance(before: &Instance, after: &Instance) -> Option<&'static str> {
    if before.twin().is_none()
        && let Some(twin) = after.twin()
    {
        return Some(match twin.reason {
            TwinReason::Silent => "silent",
            TwinReason::Evacuating => "evacuating",
            TwinReason::Surplus => "surplus",
        });
    }
    match (before.phase(), after.phase()) {
        (InstancePhase::Unclaimed, InstancePhase::Claimed) => Some("instance-claimed"),
        (InstancePhase::Claimed, InstancePhase::Running) => Some("instance-runs"),
        (InstancePhase::Running, InstancePhase::Unclaimed) => Some("instance-vacated"),
        (InstancePhase::Claimed, InstancePhase::Unclaimed) => Some("instance-returned"),
        (InstancePhase::Running | InstancePhase::Claimed, InstancePhase::Crashed) => {
            Some("instance-crashed")
        }
        (InstancePhase::Crashed, InstancePhase::Unclaimed | InstancePhase::Claimed) => {
            Some("instance-restarted")
        }
        (
            InstancePhase::Unclaimed
            | InstancePhase::Claimed
            | InstancePhase::Running
            | InstancePhase::Crashed,
            InstancePhase::Unclaimed
            | InstancePhase::Claimed
            | InstancePhase::Running
            | InstancePhase::Crashed,
        ) => None,
    }
}
