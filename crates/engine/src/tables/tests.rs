//! Every row of both tables, by its name.

use super::{
    Container as C,
    instance::{self, Action as I, Record as R},
    task::{self, Action as T, Record as K},
};

macro_rules! rows {
    ($reconcile:path, $all:ident, $records:expr; $($name:ident: $container:ident, $record:path => $action:path;)*) => {
        $(
            #[test]
            fn $name() {
                assert_eq!($reconcile(C::$container, $record), $action);
            }
        )*

        #[test]
        fn $all() {
            let written = [$((C::$container, $record)),*];
            for container in C::ALL {
                for record in $records {
                    let count = written.iter().filter(|row| **row == (container, record)).count();
                    assert_eq!(count, 1, "{container:?} {record:?}");
                }
            }
        }
    };
}

mod of_instances {
    use super::*;

    rows! { instance::reconcile, every_pair_has_its_row, R::ALL;
        a_reserved_container_with_no_record_is_left_alone: Reserved, R::Missing => I::Leave;
        a_reserved_container_with_unclaimed_is_left_alone: Reserved, R::Unclaimed => I::Leave;
        a_reserved_container_with_claimed_here_is_left_alone: Reserved, R::ClaimedHere => I::Leave;
        a_reserved_container_with_claimed_elsewhere_is_left_alone: Reserved, R::ClaimedElsewhere => I::Leave;
        a_reserved_container_with_running_here_is_left_alone: Reserved, R::RunningHere => I::Leave;
        a_reserved_container_with_running_elsewhere_is_left_alone: Reserved, R::RunningElsewhere => I::Leave;
        a_reserved_container_with_crashed_is_left_alone: Reserved, R::Crashed => I::Leave;
        a_starting_container_with_no_record_goes: Starting, R::Missing => I::End;
        a_starting_container_with_unclaimed_is_recorded_as_claimed: Starting, R::Unclaimed => I::Claim;
        a_starting_container_with_claimed_here_is_left_alone: Starting, R::ClaimedHere => I::Leave;
        a_starting_container_with_claimed_elsewhere_goes: Starting, R::ClaimedElsewhere => I::End;
        a_starting_container_with_running_here_is_recorded_as_claimed: Starting, R::RunningHere => I::Claim;
        a_starting_container_with_running_elsewhere_goes: Starting, R::RunningElsewhere => I::End;
        a_starting_container_with_crashed_goes: Starting, R::Crashed => I::End;
        a_running_container_with_no_record_is_recorded_as_running: Running, R::Missing => I::Run;
        a_running_container_with_unclaimed_is_recorded_as_running: Running, R::Unclaimed => I::Run;
        a_running_container_with_claimed_here_is_recorded_as_running: Running, R::ClaimedHere => I::Run;
        a_running_container_with_claimed_elsewhere_is_recorded_as_running: Running, R::ClaimedElsewhere => I::Run;
        a_running_container_with_running_here_is_left_alone: Running, R::RunningHere => I::Leave;
        a_running_container_with_running_elsewhere_goes: Running, R::RunningElsewhere => I::End;
        a_running_container_with_crashed_is_recorded_as_running: Running, R::Crashed => I::Run;
        a_crashed_container_with_no_record_is_judged_as_a_crash: Crashed, R::Missing => I::Crash;
        a_crashed_container_with_unclaimed_goes: Crashed, R::Unclaimed => I::End;
        a_crashed_container_with_claimed_here_is_judged_as_a_crash: Crashed, R::ClaimedHere => I::Crash;
        a_crashed_container_with_claimed_elsewhere_goes: Crashed, R::ClaimedElsewhere => I::End;
        a_crashed_container_with_running_here_is_judged_as_a_crash: Crashed, R::RunningHere => I::Crash;
        a_crashed_container_with_running_elsewhere_goes: Crashed, R::RunningElsewhere => I::End;
        a_crashed_container_with_crashed_goes: Crashed, R::Crashed => I::End;
        a_stopped_container_with_no_record_goes: Shutdown, R::Missing => I::End;
        a_stopped_container_with_unclaimed_goes: Shutdown, R::Unclaimed => I::End;
        a_stopped_container_with_claimed_here_frees_its_record: Shutdown, R::ClaimedHere => I::Vacate;
        a_stopped_container_with_claimed_elsewhere_goes: Shutdown, R::ClaimedElsewhere => I::End;
        a_stopped_container_with_running_here_frees_its_record: Shutdown, R::RunningHere => I::Vacate;
        a_stopped_container_with_running_elsewhere_goes: Shutdown, R::RunningElsewhere => I::End;
        a_stopped_container_with_crashed_goes: Shutdown, R::Crashed => I::End;
        an_absent_container_with_no_record_is_left_alone: Absent, R::Missing => I::Leave;
        an_absent_container_with_unclaimed_is_left_alone: Absent, R::Unclaimed => I::Leave;
        an_absent_container_with_claimed_here_frees_its_record: Absent, R::ClaimedHere => I::Vacate;
        an_absent_container_with_claimed_elsewhere_is_left_alone: Absent, R::ClaimedElsewhere => I::Leave;
        an_absent_container_with_running_here_frees_its_record: Absent, R::RunningHere => I::Vacate;
        an_absent_container_with_running_elsewhere_is_left_alone: Absent, R::RunningElsewhere => I::Leave;
        an_absent_container_with_crashed_is_left_alone: Absent, R::Crashed => I::Leave;
    }
}

mod of_tasks {
    use super::*;

    rows! { task::reconcile, every_pair_has_its_row, K::ALL;
        a_reserved_container_with_no_task_goes: Reserved, K::Missing => T::End;
        a_reserved_container_with_a_pending_task_is_left_alone: Reserved, K::Pending => T::Leave;
        a_reserved_container_with_a_task_running_here_fails_it: Reserved, K::RunningHere => T::Fail;
        a_reserved_container_with_a_task_running_elsewhere_goes: Reserved, K::RunningElsewhere => T::End;
        a_reserved_container_with_a_completed_task_goes: Reserved, K::Completed => T::End;
        a_reserved_container_with_a_resolving_task_goes: Reserved, K::Resolving => T::End;
        a_starting_container_with_no_task_goes: Starting, K::Missing => T::End;
        a_starting_container_with_a_pending_task_is_recorded_as_running: Starting, K::Pending => T::Claim;
        a_starting_container_with_a_task_running_here_is_left_alone: Starting, K::RunningHere => T::Leave;
        a_starting_container_with_a_task_running_elsewhere_goes_loudly: Starting, K::RunningElsewhere => T::EndLoudly;
        a_starting_container_with_a_completed_task_goes: Starting, K::Completed => T::End;
        a_starting_container_with_a_resolving_task_goes: Starting, K::Resolving => T::End;
        a_running_container_with_no_task_goes: Running, K::Missing => T::End;
        a_running_container_with_a_pending_task_is_recorded_as_running: Running, K::Pending => T::Claim;
        a_running_container_with_a_task_running_here_is_left_alone: Running, K::RunningHere => T::Leave;
        a_running_container_with_a_task_running_elsewhere_goes_loudly: Running, K::RunningElsewhere => T::EndLoudly;
        a_running_container_with_a_completed_task_goes: Running, K::Completed => T::End;
        a_running_container_with_a_resolving_task_goes: Running, K::Resolving => T::End;
        a_crashed_container_with_no_task_goes: Crashed, K::Missing => T::End;
        a_crashed_container_with_a_pending_task_completes_it: Crashed, K::Pending => T::Complete;
        a_crashed_container_with_a_task_running_here_completes_it: Crashed, K::RunningHere => T::Complete;
        a_crashed_container_with_a_task_running_elsewhere_goes_loudly: Crashed, K::RunningElsewhere => T::EndLoudly;
        a_crashed_container_with_a_completed_task_goes: Crashed, K::Completed => T::End;
        a_crashed_container_with_a_resolving_task_goes: Crashed, K::Resolving => T::End;
        a_stopped_container_with_no_task_goes: Shutdown, K::Missing => T::End;
        a_stopped_container_with_a_pending_task_completes_it: Shutdown, K::Pending => T::Complete;
        a_stopped_container_with_a_task_running_here_completes_it: Shutdown, K::RunningHere => T::Complete;
        a_stopped_container_with_a_task_running_elsewhere_goes_loudly: Shutdown, K::RunningElsewhere => T::EndLoudly;
        a_stopped_container_with_a_completed_task_goes: Shutdown, K::Completed => T::End;
        a_stopped_container_with_a_resolving_task_goes: Shutdown, K::Resolving => T::End;
        an_absent_container_with_no_task_is_left_alone: Absent, K::Missing => T::Leave;
        an_absent_container_with_a_pending_task_is_left_alone: Absent, K::Pending => T::Leave;
        an_absent_container_with_a_task_running_here_fails_it: Absent, K::RunningHere => T::Fail;
        an_absent_container_with_a_task_running_elsewhere_is_left_alone: Absent, K::RunningElsewhere => T::Leave;
        an_absent_container_with_a_completed_task_is_left_alone: Absent, K::Completed => T::Leave;
        an_absent_container_with_a_resolving_task_is_left_alone: Absent, K::Resolving => T::Leave;
    }
}
