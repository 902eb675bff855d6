//! The rows of instances.

use super::name;
use crate::tables::{
    Container,
    instance::{Action, Record, reconcile},
};

rows! {
    reserved_with_missing_gives_leave: Reserved, Missing => Leave;
    reserved_with_unclaimed_gives_leave: Reserved, Unclaimed => Leave;
    reserved_with_claimed_here_gives_leave: Reserved, ClaimedHere => Leave;
    reserved_with_claimed_elsewhere_gives_leave: Reserved, ClaimedElsewhere => Leave;
    reserved_with_running_here_gives_leave: Reserved, RunningHere => Leave;
    reserved_with_running_elsewhere_gives_leave: Reserved, RunningElsewhere => Leave;
    reserved_with_crashed_gives_leave: Reserved, Crashed => Leave;
    starting_with_missing_gives_end: Starting, Missing => End;
    starting_with_unclaimed_gives_claim: Starting, Unclaimed => Claim;
    starting_with_claimed_here_gives_leave: Starting, ClaimedHere => Leave;
    starting_with_claimed_elsewhere_gives_end: Starting, ClaimedElsewhere => End;
    starting_with_running_here_gives_claim: Starting, RunningHere => Claim;
    starting_with_running_elsewhere_gives_end: Starting, RunningElsewhere => End;
    starting_with_crashed_gives_end: Starting, Crashed => End;
    running_with_missing_gives_run: Running, Missing => Run;
    running_with_unclaimed_gives_run: Running, Unclaimed => Run;
    running_with_claimed_here_gives_run: Running, ClaimedHere => Run;
    running_with_claimed_elsewhere_gives_run: Running, ClaimedElsewhere => Run;
    running_with_running_here_gives_leave: Running, RunningHere => Leave;
    running_with_running_elsewhere_gives_end: Running, RunningElsewhere => End;
    running_with_crashed_gives_run: Running, Crashed => Run;
    crashed_with_missing_gives_crash: Crashed, Missing => Crash;
    crashed_with_unclaimed_gives_end: Crashed, Unclaimed => End;
    crashed_with_claimed_here_gives_crash: Crashed, ClaimedHere => Crash;
    crashed_with_claimed_elsewhere_gives_end: Crashed, ClaimedElsewhere => End;
    crashed_with_running_here_gives_crash: Crashed, RunningHere => Crash;
    crashed_with_running_elsewhere_gives_end: Crashed, RunningElsewhere => End;
    crashed_with_crashed_gives_end: Crashed, Crashed => End;
    shutdown_with_missing_gives_end: Shutdown, Missing => End;
    shutdown_with_unclaimed_gives_end: Shutdown, Unclaimed => End;
    shutdown_with_claimed_here_gives_vacate: Shutdown, ClaimedHere => Vacate;
    shutdown_with_claimed_elsewhere_gives_end: Shutdown, ClaimedElsewhere => End;
    shutdown_with_running_here_gives_vacate: Shutdown, RunningHere => Vacate;
    shutdown_with_running_elsewhere_gives_end: Shutdown, RunningElsewhere => End;
    shutdown_with_crashed_gives_end: Shutdown, Crashed => End;
    absent_with_missing_gives_leave: Absent, Missing => Leave;
    absent_with_unclaimed_gives_leave: Absent, Unclaimed => Leave;
    absent_with_claimed_here_gives_vacate: Absent, ClaimedHere => Vacate;
    absent_with_claimed_elsewhere_gives_leave: Absent, ClaimedElsewhere => Leave;
    absent_with_running_here_gives_vacate: Absent, RunningHere => Vacate;
    absent_with_running_elsewhere_gives_leave: Absent, RunningElsewhere => Leave;
    absent_with_crashed_gives_leave: Absent, Crashed => Leave;
}
