//! The doors against the table, row by row, and what a record holds.

use super::{
    TaskAfter::{Gone, In, Refused},
    *,
};
use crate::{Contract, DirectoryId, Incarnation, Lock, MachineId, Span};

const NOW: WallTime = WallTime::EPOCH;

fn run(number: u8) -> RunId {
    RunId::from_parts(NOW, [number; 10])
}

fn placed(number: u8) -> Placed {
    let directory = DirectoryId::from_parts(NOW, [1; 10]);
    let machine = MachineId::from_bytes(*directory.as_bytes()).unwrap();
    let on = Incarnation { lock: Lock { directory, machine }, life: 1 };
    Placed { run: run(number), on, contract: Contract::Stop { after: Span::from_secs(600) } }
}

fn task() -> Task {
    Task::new(TaskIncarnation::from_parts(NOW, [3; 10]), Epoch::new(1), NOW)
}

fn ran(is_success: bool) -> TaskEnd {
    TaskEnd::Ran { is_success, report: "exited with 0".into() }
}

/// A task in each phase.
fn in_phase(phase: TaskPhase) -> Task {
    let mut task = task();
    match phase {
        TaskPhase::Pending => {}
        TaskPhase::Running => task.claim(placed(1), NOW).unwrap(),
        TaskPhase::Completed => task.finish(TaskEnd::TooLate, NOW).unwrap(),
        TaskPhase::Resolving => {
            task.finish(TaskEnd::TooLate, NOW).unwrap();
            task.resolve(NOW).unwrap();
        }
    }
    assert_eq!(task.phase(), phase);
    task
}

fn apply(task: &mut Task, event: TaskEvent) -> Result<(), Illegal> {
    match event {
        TaskEvent::Claim => task.claim(placed(2), NOW),
        TaskEvent::Return => task.give_back(true, "", NOW),
        TaskEvent::End => task.finish(ran(true), NOW),
        TaskEvent::Amend => task.amend(run(1), None),
        TaskEvent::Cancel => task.cancel(TaskEnd::Cancelled, NOW),
        TaskEvent::Resolve => task.resolve(NOW),
        TaskEvent::HandOver => task.hand_over(),
        TaskEvent::Delete => task.check_delete(),
    }
}

/// Goes through the door of `event` in `phase`, and holds it against the table.
#[track_caller]
fn check(name: &str, phase: TaskPhase, event: TaskEvent, after: TaskAfter) {
    let word = match after {
        In(next) => next.as_str(),
        Gone => "gone",
        Refused => "refused",
    };
    assert_eq!(name, format!("{phase}_on_{}_gives_{word}", event.as_str().replace(' ', "_")));
    assert_eq!(task_after(phase, event), after);
    let mut task = in_phase(phase);
    let before = task.clone();
    let done = apply(&mut task, event);
    match after {
        In(next) => assert_eq!((done, task.phase()), (Ok(()), next)),
        Gone => assert_eq!(done, Ok(())),
        Refused => {
            let (event, phase) = (event.as_str(), phase.as_str());
            assert_eq!(done, Err(Illegal { event, phase }));
            assert_eq!(task, before, "a refusal changes nothing");
        }
    }
}

macro_rules! rows {
    ($($name:ident: $phase:ident, $event:ident => $after:expr;)*) => {
        $(
            #[test]
            fn $name() {
                check(stringify!($name), TaskPhase::$phase, TaskEvent::$event, $after);
            }
        )*

        #[test]
        fn every_pair_has_its_row() {
            let written = [$((TaskPhase::$phase, TaskEvent::$event)),*];
            for phase in TaskPhase::ALL {
                for event in TaskEvent::ALL {
                    let count = written.iter().filter(|row| **row == (phase, event)).count();
                    assert_eq!(count, 1, "{phase:?} {event:?}");
                }
            }
        }
    };
}

rows! {
    pending_on_claim_gives_running: Pending, Claim => In(TaskPhase::Running);
    pending_on_return_gives_refused: Pending, Return => Refused;
    pending_on_end_gives_completed: Pending, End => In(TaskPhase::Completed);
    pending_on_amend_gives_refused: Pending, Amend => Refused;
    pending_on_cancel_gives_completed: Pending, Cancel => In(TaskPhase::Completed);
    pending_on_resolve_gives_refused: Pending, Resolve => Refused;
    pending_on_hand_over_gives_refused: Pending, HandOver => Refused;
    pending_on_delete_gives_refused: Pending, Delete => Refused;
    running_on_claim_gives_refused: Running, Claim => Refused;
    running_on_return_gives_pending: Running, Return => In(TaskPhase::Pending);
    running_on_end_gives_completed: Running, End => In(TaskPhase::Completed);
    running_on_amend_gives_refused: Running, Amend => Refused;
    running_on_cancel_gives_completed: Running, Cancel => In(TaskPhase::Completed);
    running_on_resolve_gives_refused: Running, Resolve => Refused;
    running_on_hand_over_gives_refused: Running, HandOver => Refused;
    running_on_delete_gives_refused: Running, Delete => Refused;
    completed_on_claim_gives_refused: Completed, Claim => Refused;
    completed_on_return_gives_refused: Completed, Return => Refused;
    completed_on_end_gives_refused: Completed, End => Refused;
    completed_on_amend_gives_completed: Completed, Amend => In(TaskPhase::Completed);
    completed_on_cancel_gives_refused: Completed, Cancel => Refused;
    completed_on_resolve_gives_resolving: Completed, Resolve => In(TaskPhase::Resolving);
    completed_on_hand_over_gives_refused: Completed, HandOver => Refused;
    completed_on_delete_gives_gone: Completed, Delete => Gone;
    resolving_on_claim_gives_refused: Resolving, Claim => Refused;
    resolving_on_return_gives_refused: Resolving, Return => Refused;
    resolving_on_end_gives_refused: Resolving, End => Refused;
    resolving_on_amend_gives_resolving: Resolving, Amend => In(TaskPhase::Resolving);
    resolving_on_cancel_gives_refused: Resolving, Cancel => Refused;
    resolving_on_resolve_gives_refused: Resolving, Resolve => Refused;
    resolving_on_hand_over_gives_completed: Resolving, HandOver => In(TaskPhase::Completed);
    resolving_on_delete_gives_refused: Resolving, Delete => Refused;
}

#[test]
fn a_refusal_says_what_is_not_for_what() {
    let error = in_phase(TaskPhase::Running).check_delete().unwrap_err();
    assert_eq!(error.to_string(), "delete is not for running");
}

#[test]
fn a_task_that_is_turned_down_four_times_ends() {
    let mut task = task();
    for number in 1..=4 {
        assert_eq!(task.phase(), TaskPhase::Pending);
        task.claim(placed(number), NOW).unwrap();
        task.give_back(true, "it drains", NOW).unwrap();
    }
    assert_eq!(task.end(), Some(&TaskEnd::NeverTaken { why: "it drains".into() }));
    let told = task.end().unwrap().to_string();
    assert_eq!(told, "no worker accepted it, after all retries: it drains");
    let silent = TaskEnd::NeverTaken { why: "".into() };
    assert_eq!(silent.to_string(), "no worker accepted it, after all retries");
}

#[test]
fn a_return_that_is_nobodys_refusal_does_not_count() {
    let mut task = task();
    for number in 1..=9 {
        task.claim(placed(number), NOW).unwrap();
        task.give_back(false, "", NOW).unwrap();
    }
    assert_eq!((task.phase(), task.returns()), (TaskPhase::Pending, 0));
}

#[test]
fn a_cancelled_run_stays_in_the_record_until_it_is_gone() {
    let mut task = in_phase(TaskPhase::Running);
    task.cancel(TaskEnd::Cancelled, NOW).unwrap();
    assert_eq!(task.placed(), Some(&placed(1)));
    task.amend(run(9), Some(ran(true))).unwrap();
    assert_eq!(task.placed(), Some(&placed(1)), "another run says nothing of it");
    task.amend(run(1), Some(ran(true))).unwrap();
    assert_eq!(task.placed(), None);
    assert_eq!(task.end(), Some(&TaskEnd::Cancelled), "cancelled stays cancelled");
}

#[test]
fn a_run_that_was_called_lost_may_say_how_it_ended() {
    let mut task = in_phase(TaskPhase::Running);
    task.finish(TaskEnd::Lost, NOW).unwrap();
    assert!(task.knows(run(1)) && !task.knows(run(2)));
    task.amend(run(2), Some(ran(true))).unwrap();
    assert_eq!(task.end(), Some(&TaskEnd::Lost), "another run says nothing of it");
    task.amend(run(1), Some(ran(true))).unwrap();
    assert_eq!(task.end(), Some(&ran(true)));
    assert!(!task.knows(run(1)));
}

#[test]
fn when_a_task_started_is_known_when_it_is_over() {
    let later = |seconds| NOW.plus(Span::from_secs(seconds));
    let running = |at| {
        let mut task = task();
        task.claim(placed(1), at).unwrap();
        task
    };
    assert_eq!(task().started(), None);
    let mut ended = running(later(1));
    assert_eq!(ended.started(), Some(later(1)));
    ended.finish(ran(true), later(5)).unwrap();
    ended.resolve(later(6)).unwrap();
    assert_eq!(ended.started(), Some(later(1)));
    let mut cancelled = running(later(2));
    cancelled.cancel(TaskEnd::Cancelled, later(5)).unwrap();
    assert_eq!(cancelled.started(), Some(later(2)));
    let mut returned = running(later(1));
    returned.give_back(true, "", later(2)).unwrap();
    assert_eq!(returned.started(), None, "it has certainly not begun");
    returned.claim(placed(2), later(3)).unwrap();
    returned.finish(ran(true), later(5)).unwrap();
    assert_eq!(returned.started(), Some(later(3)), "of its last run");
    let mut late = task();
    late.finish(TaskEnd::TooLate, later(5)).unwrap();
    assert_eq!(late.started(), None);
}

#[test]
fn an_end_has_an_outcome_and_only_a_success_has_succeeded() {
    let why: Box<str> = "full".into();
    let ends = [
        (ran(true), "succeeded"),
        (ran(false), "failed"),
        (TaskEnd::Drained, "failed"),
        (TaskEnd::NeverTaken { why: why.clone() }, "failed"),
        (TaskEnd::NoRoom { why }, "failed"),
        (TaskEnd::TooLate, "failed"),
        (TaskEnd::Cancelled, "cancelled"),
        (TaskEnd::Lost, "lost"),
        (TaskEnd::UnknownAfterRestore, "lost"),
    ];
    for (end, word) in ends {
        assert_eq!(end.outcome().as_str(), word, "{end:?}");
        assert_eq!(end.is_success(), end.outcome() == TaskOutcome::Succeeded, "{end:?}");
    }
}
