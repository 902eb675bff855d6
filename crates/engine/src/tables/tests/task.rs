//! The rows of tasks.

use super::name;
use crate::tables::{
    Container,
    task::{Action, Record, reconcile},
};

rows! {
    reserved_with_missing_gives_end: Reserved, Missing => End;
    reserved_with_pending_gives_leave: Reserved, Pending => Leave;
    reserved_with_running_here_gives_fail: Reserved, RunningHere => Fail;
    reserved_with_running_elsewhere_gives_end: Reserved, RunningElsewhere => End;
    reserved_with_completed_gives_end: Reserved, Completed => End;
    reserved_with_resolving_gives_end: Reserved, Resolving => End;
    starting_with_missing_gives_end: Starting, Missing => End;
    starting_with_pending_gives_claim: Starting, Pending => Claim;
    starting_with_running_here_gives_leave: Starting, RunningHere => Leave;
    starting_with_running_elsewhere_gives_end_loudly: Starting, RunningElsewhere => EndLoudly;
    starting_with_completed_gives_end: Starting, Completed => End;
    starting_with_resolving_gives_end: Starting, Resolving => End;
    running_with_missing_gives_end: Running, Missing => End;
    running_with_pending_gives_claim: Running, Pending => Claim;
    running_with_running_here_gives_leave: Running, RunningHere => Leave;
    running_with_running_elsewhere_gives_end_loudly: Running, RunningElsewhere => EndLoudly;
    running_with_completed_gives_end: Running, Completed => End;
    running_with_resolving_gives_end: Running, Resolving => End;
    crashed_with_missing_gives_end: Crashed, Missing => End;
    crashed_with_pending_gives_complete: Crashed, Pending => Complete;
    crashed_with_running_here_gives_complete: Crashed, RunningHere => Complete;
    crashed_with_running_elsewhere_gives_end_loudly: Crashed, RunningElsewhere => EndLoudly;
    crashed_with_completed_gives_end: Crashed, Completed => End;
    crashed_with_resolving_gives_end: Crashed, Resolving => End;
    shutdown_with_missing_gives_end: Shutdown, Missing => End;
    shutdown_with_pending_gives_complete: Shutdown, Pending => Complete;
    shutdown_with_running_here_gives_complete: Shutdown, RunningHere => Complete;
    shutdown_with_running_elsewhere_gives_end_loudly: Shutdown, RunningElsewhere => EndLoudly;
    shutdown_with_completed_gives_end: Shutdown, Completed => End;
    shutdown_with_resolving_gives_end: Shutdown, Resolving => End;
    absent_with_missing_gives_leave: Absent, Missing => Leave;
    absent_with_pending_gives_leave: Absent, Pending => Leave;
    absent_with_running_here_gives_fail: Absent, RunningHere => Fail;
    absent_with_running_elsewhere_gives_leave: Absent, RunningElsewhere => Leave;
    absent_with_completed_gives_leave: Absent, Completed => Leave;
    absent_with_resolving_gives_leave: Absent, Resolving => Leave;
}
