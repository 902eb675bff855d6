use super::*;
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

#[test]
fn every_door_goes_where_the_table_says_and_refuses_what_it_refuses() {
    for phase in TaskPhase::ALL {
        for event in TaskEvent::ALL {
            let mut task = in_phase(phase);
            let before = task.clone();
            let done = apply(&mut task, event);
            match task_after(phase, event) {
                TaskAfter::In(next) => {
                    assert_eq!((done, task.phase()), (Ok(()), next), "{phase} {event:?}");
                }
                TaskAfter::Gone => assert_eq!(done, Ok(()), "{phase} {event:?}"),
                TaskAfter::Refused => {
                    assert!(done.is_err(), "{phase} {event:?}");
                    assert_eq!(task, before, "a refusal changes nothing: {phase} {event:?}");
                }
            }
        }
    }
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
    assert_eq!(told, "no worker took it, however often it was tried: it drains");
    let silent = TaskEnd::NeverTaken { why: "".into() };
    assert_eq!(silent.to_string(), "no worker took it, however often it was tried");
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
