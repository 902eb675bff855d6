//! What comes to pass in records, by name.

use std::cmp::Ordering;

use sterna_engine::control::{Row, ServiceRecord};
use sterna_model::{
    RunId,
    record::{
        Instance, InstanceCopy, InstancePhase, StopReason, Task, TaskEnd, TaskPhase, TwinReason,
    },
};

use crate::check::Changed;

/// What a change of a record is called, as far as it has names.
pub(crate) fn of(changed: &Changed, after: Option<&Row>) -> Vec<&'static str> {
    let mut all = Vec::new();
    // tidy: not a table
    match (&changed.before, after) {
        (Some(Row::Task(_, Some((before, _)))), Some(Row::Task(_, Some((after, _))))) => {
            all.extend(task(Some(before), after));
            all.extend(ended(Some(before), after));
        }
        (_, Some(Row::Task(_, Some((after, _))))) => {
            all.extend(task(None, after));
            all.extend(ended(None, after));
        }
        (Some(Row::Instance(_, Some(before))), Some(Row::Instance(_, Some(after)))) => {
            all.extend(instance(before, after));
            all.extend(twins(before, after));
            all.extend(stops(before, after));
        }
        (None, Some(Row::Instance(..))) => all.push("instance-made"),
        (before, Some(Row::Service(_, Some(after)))) => {
            let before = match before {
                Some(Row::Service(_, Some(before))) => Some(before.as_ref()),
                Some(_) | None => None,
            };
            all.push(service(before, after));
        }
        (Some(Row::Service(..)), None) => all.push("service-gone"),
        (_, Some(Row::Tombstone(..))) => all.push("task-deleted"),
        (Some(Row::Drain(..)), None) => all.push("drain-over"),
        (Some(Row::Instance(..)), None) => all.push("instance-retired"),
        (Some(Row::Roster(..)), None) => all.push("machine-struck"),
        (Some(Row::Domain(..)), None) => all.push("domain-removed"),
        (_, _) => {}
    }
    all
}

fn service(before: Option<&ServiceRecord>, after: &ServiceRecord) -> &'static str {
    let Some(before) = before else { return "service-made" };
    let is_over = before.before.is_some() && after.before.is_none();
    match before.version.cmp(&after.version) {
        Ordering::Less => "service-updates",
        Ordering::Greater => "service-taken-back",
        Ordering::Equal if is_over => "service-updated",
        Ordering::Equal => "service-changed",
    }
}

/// How a task ends, once.
fn ended(before: Option<&Task>, after: &Task) -> Option<&'static str> {
    let now = after.end()?;
    match before.and_then(Task::end) {
        None => Some(end(now)),
        Some(TaskEnd::Lost) if now != &TaskEnd::Lost => Some("task-told-after-loss"),
        Some(_) => None,
    }
}

/// Copies that are told to end, by reason.
fn stops(before: &Instance, after: &Instance) -> Vec<&'static str> {
    let was = |run: RunId| {
        let mut copies = before.copies();
        copies.any(|copy| copy.placed.run == run && copy.stopping.is_some())
    };
    let reason = |copy: &InstanceCopy| copy.stopping.filter(|_| !was(copy.placed.run));
    let names = after.copies().filter_map(reason).map(|reason| match reason {
        StopReason::Unwanted => "stops-unwanted",
        StopReason::Asked => "stops-asked",
        StopReason::Update => "stops-for-update",
        StopReason::Elsewhere => "stops-elsewhere",
        StopReason::Drain => "stops-for-drain",
    });
    names.collect()
}

/// What becomes of a second copy.
fn twins(before: &Instance, after: &Instance) -> Option<&'static str> {
    let twin = before.twin()?;
    let run = twin.copy.placed.run;
    if after.copy().is_some_and(|copy| copy.placed.run == run) {
        return Some("twin-promoted");
    }
    after.twin().is_none().then_some("twin-gone")
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
