//! Tasks: started at most once, ended with a reason, told.

use std::sync::Arc;

use sterna_model::{
    Contract, Span,
    record::{Task, TaskEnd, TaskPhase},
    spec::{TaskSpec, WhenFull},
};
use sterna_protocol::{
    message::{Held, News, RunRefusal, StatusAnswer},
    scheduler::{self, GoneBy, NotSent, Settlement},
};

use super::play::{
    FAILURE, Mood, Play, SUCCESS, enrolled, incarnation, life, service_spec, task, task_spec,
    wants, web,
};
use crate::control::{Alarm, Answer, Call, Called, Effect, Input, Next, Now, RowKey};

fn create(name: &str, number: u8) -> Call {
    Call::CreateTask(task(name), incarnation(number), Arc::new(task_spec()))
}

fn create_as(name: &str, spec: TaskSpec) -> Call {
    Call::CreateTask(task(name), incarnation(1), Arc::new(spec))
}

#[test]
fn a_task_is_acknowledged_and_sent_only_when_it_stands() {
    let mut play = Play::with(1);
    play.is_storing = false;
    let id = play.call(create("build", 1));
    assert!(play.answers.is_empty() && play.starts.is_empty(), "nothing stands yet");
    let (parcel, writes) = play.control.commit().unwrap();
    assert_eq!(writes.len(), 1, "its record and its claim are one write");
    assert!(play.control.commit().is_none(), "one commit at a time");
    for row in writes {
        assert!(!row.is_gone());
        play.store.insert(row.key(), row);
    }
    play.step(Input::Committed(parcel));
    assert_eq!(play.answers, [(id, Answer::Done)]);
    assert_eq!(play.starts, [task("build")]);
}

#[test]
fn a_task_ends_with_what_its_command_said_and_the_status_is_acknowledged_after() {
    for (said, is_success) in [(SUCCESS, true), (FAILURE, false)] {
        let mut play = Play::with(1);
        play.ask(create("build", 1));
        let run = play.runs_on(1)[0];
        play.is_storing = false;
        let before = play.acknowledged.len();
        play.end(run, said);
        assert_eq!(play.acknowledged.len(), before, "not before it stands");
        play.store_all();
        assert_eq!(play.acknowledged.last(), Some(&(run, StatusAnswer::Recorded)));
        let end = play.record(&task("build")).end().unwrap();
        assert_eq!(end.is_success(), is_success);
    }
}

#[test]
fn hole_8_a_task_that_is_turned_down_is_tried_again_and_ends_after_the_fourth_time() {
    let mut play = Play::with(1);
    play.moods.insert(1, Mood::Dawdles);
    play.ask(create("build", 1));
    for turn in 1..=4 {
        let run = play.runs_on(1)[0];
        assert_eq!(play.fences[&task("build").to_work()].1, turn);
        play.settle(run, Settlement::Refused(RunRefusal::TooLate));
        if turn < 4 {
            assert!(play.runs_on(1).is_empty(), "it rests first");
            play.pass(1);
        }
    }
    let why = "it came to its worker too late".into();
    assert_eq!(play.record(&task("build")).end(), Some(&TaskEnd::NeverTaken { why }));
    assert_eq!(play.starts.len(), 4);
    play.pass(100);
    assert_eq!(play.starts.len(), 4);
}

/// A busy machine turned tasks down four times before it was first healthy, and so used them up.
#[test]
fn a_worker_that_is_not_well_uses_no_task_up() {
    let mut play = Play::with(1);
    play.moods.insert(1, Mood::Dawdles);
    play.ask(create("build", 1));
    for _ in 0..10 {
        play.settle(play.runs_on(1)[0], Settlement::Refused(RunRefusal::NotHealthy));
        assert!(play.runs_on(1).is_empty(), "it rests first");
        play.pass(1);
    }
    assert_eq!(play.record(&task("build")).end(), None);
    assert_eq!(play.runs_on(1).len(), 1);
}

/// Its contract was refused when it was made, unless that was by a build that did not ask.
#[test]
fn a_task_that_can_never_be_sent_ends_with_the_reason() {
    let mut play = Play::with(1);
    play.moods.insert(1, Mood::Dawdles);
    play.ask(create("build", 1));
    for _ in 1..=4 {
        let run = play.runs_on(1)[0];
        play.settle(run, Settlement::NotSent(NotSent::BelowLoss));
        play.pass(1);
    }
    let end = play.record(&task("build")).end().unwrap().to_string();
    assert!(end.ends_with("give it a longer one, or set a shorter lose_after"), "{end}");
}

#[test]
fn what_was_never_sent_was_turned_down_by_nobody() {
    let mut play = Play::with(1);
    play.moods.insert(1, Mood::Dawdles);
    play.ask(create("build", 1));
    for _ in 0..9 {
        let run = play.runs_on(1)[0];
        play.settle(run, Settlement::NotSent(NotSent::NotHealthy));
        play.pass(1);
    }
    assert_eq!(play.record(&task("build")).returns(), 0);
}

#[test]
fn a_task_whose_run_is_gone_is_not_started_again_and_may_still_say_how_it_ended() {
    let mut play = Play::with(2);
    play.ask(create("build", 1));
    let run = *play.running.keys().next().unwrap();
    play.settle(run, Settlement::Gone(GoneBy::Deadline));
    assert_eq!(play.record(&task("build")).end(), Some(&TaskEnd::Lost));
    play.pass(1_000);
    assert_eq!(play.starts.len(), 1);
    play.report(run, News::Ended(Arc::from(SUCCESS)));
    assert!(play.record(&task("build")).end().unwrap().is_success());
    play.report(run, News::Ended(Arc::from(FAILURE)));
    assert!(play.record(&task("build")).end().unwrap().is_success(), "the first word stays");
    assert_eq!(play.acknowledged.last().unwrap().1, StatusAnswer::Ignored);
    assert!(matches!(play.alarms.last(), Some(Alarm::Stray(..))));
}

#[test]
fn a_pending_task_that_is_cancelled_never_starts() {
    let mut play = Play::empty();
    play.ask(create("build", 1));
    assert_eq!(play.ask(Call::CancelTask(task("build"))), Answer::Done);
    play.join(1);
    assert!(play.starts.is_empty());
    assert_eq!(play.record(&task("build")).end(), Some(&TaskEnd::Cancelled));
    assert!(matches!(play.ask(Call::CancelTask(task("build"))), Answer::Conflict(_)));
}

#[test]
fn a_running_task_that_is_cancelled_is_ended_and_its_seat_is_free_when_it_is_gone() {
    let mut play = Play::with(1);
    let spec = TaskSpec { wants: wants(80), ..task_spec() };
    play.ask(create_as("large", spec.clone()));
    let next = Call::CreateTask(task("next"), incarnation(2), Arc::new(spec));
    play.ask(next);
    play.moods.insert(1, Mood::Silent);
    play.ask(Call::CancelTask(task("large")));
    assert_eq!(play.starts, [task("large")], "it may still be running");
    assert!(matches!(play.ask(Call::DeleteTask(task("large"))), Answer::Conflict(_)));
    play.moods.insert(1, Mood::Obeys);
    let run = play.runs_on(1)[0];
    play.end(run, SUCCESS);
    assert_eq!(play.starts, [task("large"), task("next")]);
    assert_eq!(play.record(&task("large")).end(), Some(&TaskEnd::Cancelled));
}

#[test]
fn hole_7_the_same_id_is_taken_until_its_tombstone_has_gone() {
    let mut play = Play::with(1);
    play.ask(create("build", 1));
    assert_eq!(play.ask(create("build", 1)), Answer::Already, "the same call again");
    assert_eq!(play.ask(create("build", 2)), Answer::Taken(incarnation(1)));
    assert!(matches!(play.ask(Call::DeleteTask(task("build"))), Answer::Conflict(_)));
    let run = play.runs_on(1)[0];
    play.end(run, SUCCESS);
    assert_eq!(play.ask(Call::DeleteTask(task("build"))), Answer::Done);
    assert_eq!(play.ask(Call::DeleteTask(task("build"))), Answer::NotFound);
    assert_eq!(play.ask(create("build", 2)), Answer::Taken(incarnation(1)));
    assert_eq!(play.ask(create("build", 1)), Answer::Already, "it is not started again");
    play.pass(7 * 24 * 3_600);
    assert_eq!(play.ask(create("build", 2)), Answer::Done);
    assert_eq!(play.starts.len(), 2);
}

#[test]
fn a_task_waits_for_room_or_fails_as_its_spec_says() {
    let mut play = Play::with(1);
    let large = TaskSpec { wants: wants(1_000), ..task_spec() };
    play.ask(create_as("waits", large.clone()));
    assert_eq!(play.record(&task("waits")).phase(), TaskPhase::Pending);
    play.ask(create_as("fails", TaskSpec { when_full: WhenFull::Fail, ..large }));
    let end = play.record(&task("fails")).end().unwrap().to_string();
    assert!(
        end.starts_with("no room: it is too large for every worker; w1 comes nearest"),
        "{end}"
    );
}

#[test]
fn a_task_does_not_fail_for_room_while_workers_come_back_to_a_new_leader() {
    for comes_back in [true, false] {
        let mut play = Play::with(1);
        play.news(scheduler::Effect::Enroll(enrolled(1)));
        play.moods.insert(1, Mood::Silent);
        let mut play = play.change_leader();
        let spec = TaskSpec { when_full: WhenFull::Fail, ..task_spec() };
        play.ask(create_as("build", spec));
        assert_eq!(play.record(&task("build")).phase(), TaskPhase::Pending);
        let why = play.why(task("build")).unwrap();
        assert_eq!(why.rule.name(), "returning");
        let at = play.now.wall.plus(Span::from_secs(60));
        assert_eq!(why.next, Next::EndsAt(at), "it does not wait for room");
        play.pass(59);
        assert_eq!(play.record(&task("build")).phase(), TaskPhase::Pending);
        if comes_back {
            play.join(1);
            assert_eq!(play.record(&task("build")).phase(), TaskPhase::Running);
        } else {
            play.pass(1);
            let end = play.record(&task("build")).end().unwrap().to_string();
            assert!(end.starts_with("no room: "), "{end}");
        }
    }
}

#[test]
fn a_task_fails_for_room_as_soon_as_everybody_is_back() {
    let mut play = Play::with(2);
    play.news(scheduler::Effect::Enroll(enrolled(1)));
    play.news(scheduler::Effect::Enroll(enrolled(2)));
    play.moods.insert(2, Mood::Silent);
    let mut play = play.change_leader();
    let large = TaskSpec { wants: wants(1_000), when_full: WhenFull::Fail, ..task_spec() };
    play.ask(create_as("large", large));
    assert_eq!(play.record(&task("large")).phase(), TaskPhase::Pending);
    play.join(2);
    let end = play.record(&task("large")).end().unwrap().to_string();
    assert!(end.starts_with("no room: it is too large for every worker"), "{end}");
}

#[test]
fn what_waits_for_a_worker_starts_when_one_comes() {
    let mut play = Play::empty();
    for number in 1..=3 {
        play.ask(create(&format!("t{number}"), number));
    }
    assert!(play.starts.is_empty());
    play.join(1);
    assert_eq!(play.starts.len(), 3);
}

#[test]
fn a_task_that_waits_beyond_its_latest_start_ends_and_one_that_runs_does_not() {
    for (workers, expected) in [(0, TaskPhase::Completed), (1, TaskPhase::Running)] {
        let mut play = Play::with(workers);
        let latest_start = Some(play.now.wall.plus(Span::from_secs(60)));
        play.ask(create_as("build", TaskSpec { latest_start, ..task_spec() }));
        play.pass(59);
        assert!(play.record(&task("build")).end().is_none());
        play.pass(1);
        assert_eq!(play.record(&task("build")).phase(), expected);
        play.join(9);
        assert_eq!(play.starts.len(), usize::from(workers));
    }
}

#[test]
fn a_callback_is_called_until_it_is_taken_and_given_up_after_eight_times() {
    for taken_at in [1, 3, 99] {
        let mut play = Play::with(1);
        play.ask(create_as("build", TaskSpec { callback: Some("http://x".into()), ..task_spec() }));
        let run = play.runs_on(1)[0];
        play.end(run, SUCCESS);
        let mut tries = 1;
        while play.record(&task("build")).phase() == TaskPhase::Resolving {
            assert_eq!(play.callbacks.len(), tries);
            let delete = play.ask(Call::DeleteTask(task("build")));
            assert!(matches!(delete, Answer::Conflict(_)), "nobody would be told: {delete:?}");
            let called = if tries == taken_at { Called::Taken } else { Called::NotTaken };
            play.step(Input::Called(task("build"), incarnation(1), called));
            if called == Called::NotTaken && tries < 8 {
                play.pass(1 << tries);
                tries += 1;
            }
        }
        assert_eq!(tries, taken_at.min(8));
        assert!(play.record(&task("build")).is_told());
        play.pass(10_000);
        assert_eq!(play.callbacks.len(), tries);
    }
}

#[test]
fn the_callback_of_another_life_of_a_task_says_nothing_of_this_one() {
    let mut play = Play::with(1);
    play.ask(create_as("build", TaskSpec { callback: Some("http://x".into()), ..task_spec() }));
    let run = play.runs_on(1)[0];
    play.end(run, SUCCESS);
    play.step(Input::Called(task("build"), incarnation(9), Called::Taken));
    assert_eq!(play.record(&task("build")).phase(), TaskPhase::Resolving);
}

#[test]
fn the_record_of_a_task_goes_after_seven_days() {
    let mut play = Play::with(1);
    play.ask(create("build", 1));
    let run = play.runs_on(1)[0];
    play.end(run, SUCCESS);
    play.pass(7 * 24 * 3_600 - 1);
    assert!(play.store.contains_key(&RowKey::Task(task("build"))));
    play.pass(1);
    assert!(!play.store.contains_key(&RowKey::Task(task("build"))));
}

fn held(number: u8) -> Held {
    Held {
        run: sterna_model::RunId::from_parts(sterna_model::WallTime::EPOCH, [200 + number; 10]),
        key: task("build").to_work(),
        task: Some(incarnation(1)),
        contract: Contract::Keep,
        status: None,
    }
}

#[test]
fn a_run_that_is_found_while_its_task_waits_is_adopted_with_an_alarm() {
    let mut play = Play::empty();
    play.ask(create("build", 1));
    play.found(1, held(1));
    assert!(matches!(play.alarms[..], [Alarm::AdoptedPending(..)]));
    play.join(2);
    assert!(play.starts.is_empty(), "it runs already");
    assert_eq!(play.record(&task("build")).placed().unwrap().on, life(1));
}

#[test]
fn a_run_of_a_task_that_runs_elsewhere_is_ended_with_an_alarm() {
    let mut play = Play::with(2);
    play.ask(create("build", 1));
    let own = *play.running.keys().next().unwrap();
    play.found(2, held(1));
    assert!(matches!(play.alarms[..], [Alarm::RunsElsewhere(..)]));
    assert_eq!(play.running.keys().copied().collect::<Vec<_>>(), [own]);
    assert_eq!(play.record(&task("build")).placed().unwrap().run, own);
}

#[test]
fn hole_7_a_run_of_an_earlier_life_of_a_task_is_ended() {
    let mut play = Play::with(1);
    play.moods.insert(2, Mood::Obeys);
    play.ask(create("build", 2));
    play.found(2, held(1));
    assert_eq!(play.running.len(), 1);
    assert_eq!(play.record(&task("build")).phase(), TaskPhase::Running);
}

#[test]
fn every_answer_that_was_given_is_in_the_store_whatever_comes_between() {
    let mut play = Play::with(2);
    play.is_storing = false;
    for number in 0..200 {
        play.call(create(&format!("t{number}"), number));
        play.call(Call::PutService(web(), service_spec(u32::from(number % 7))));
    }
    let told = play.answers.len();
    assert_eq!(told, 0);
    play.store_all();
    let tasks = play.store.keys().filter(|key| matches!(key, RowKey::Task(_))).count();
    assert_eq!((tasks, play.answers.len()), (200, 400));
}

#[test]
fn a_new_record_says_nothing_yet() {
    let task =
        Task::new(incarnation(1), sterna_model::Epoch::new(1), sterna_model::WallTime::EPOCH);
    assert!(task.end().is_none() && task.placed().is_none() && !task.is_told());
    // Effects are compared in tests.
    assert_ne!(
        Effect::Alarm(Alarm::Swept("a".to_owned())),
        Effect::Alarm(Alarm::Swept("b".to_owned()))
    );
}

#[test]
fn a_task_does_not_start_after_its_latest_start() {
    let mut play = Play::empty();
    let latest_start = Some(play.now.wall.plus(Span::from_secs(10)));
    let spec = TaskSpec { latest_start, ..task_spec() };
    play.ask(Call::CreateTask(task("late"), incarnation(1), Arc::new(spec.clone())));
    // Nobody looked at the clock in the meantime.
    let span = Span::from_secs(10);
    play.now = Now { boot: play.now.boot.plus(span), wall: play.now.wall.plus(span) };
    play.join(1);
    assert_eq!(play.record(&task("late")).end(), Some(&TaskEnd::TooLate));
    assert!(play.starts.is_empty());
    play.ask(Call::CreateTask(task("next"), incarnation(2), Arc::new(task_spec())));
    assert_eq!(play.starts, [task("next")], "and has no seat");
    let answer = play.ask(Call::CreateTask(task("past"), incarnation(3), Arc::new(spec)));
    assert!(matches!(answer, Answer::BadSpec(why) if why.contains("latest start")));
}

/// It must not happen; if it does, nothing is forgotten.
#[test]
fn what_goes_to_a_bidder_that_is_no_worker_waits_for_another() {
    let mut play = Play::with(1);
    play.control.workers.clear();
    play.ask(create("build", 1));
    assert_eq!(play.record(&task("build")).phase(), TaskPhase::Pending);
    play.join(2);
    assert_eq!(play.starts, [task("build")]);
}

/// It was free two weeks after it was over, and whoever applied the same file again started it again.
#[test]
fn the_name_of_a_version_that_is_started_once_is_taken_until_that_is_deleted() {
    const DAY: u64 = 24 * 3_600;
    let spec = || Arc::new(TaskSpec { keeps_name: true, ..task_spec() });
    let build = || Call::CreateTask(task("build.1"), incarnation(2), spec());
    let mut play = Play::with(1);
    play.ask(Call::CreateTask(task("build.1"), incarnation(1), spec()));
    play.end(play.runs_on(1)[0], SUCCESS);
    for _ in 0..60 {
        play.pass(DAY);
        assert_eq!(play.ask(build()), Answer::Taken(incarnation(1)));
        assert!(
            play.control.is_taken(&task("build.1")),
            "so that a plan says that it is not started"
        );
    }
    assert!(!play.store.contains_key(&RowKey::Task(task("build.1"))), "its record has gone");
    let mut play = play.change_leader();
    play.pass(60 * DAY);
    assert_eq!(play.ask(build()), Answer::Taken(incarnation(1)), "the next leader knows");
    // To delete what has gone does not free its name.
    assert_eq!(play.ask(Call::DeleteTask(task("build.1"))), Answer::NotFound);
    play.pass(60 * DAY);
    assert_eq!(play.ask(build()), Answer::Taken(incarnation(1)));
    // To delete the name does, as that of any other task.
    assert_eq!(play.ask(Call::FreeName(task("build.1"))), Answer::Done);
    assert_eq!(play.ask(Call::FreeName(task("build.1"))), Answer::NotFound);
    let mut play = play.change_leader();
    play.pass(6 * DAY);
    assert_eq!(play.ask(build()), Answer::Taken(incarnation(1)));
    play.pass(DAY);
    assert_eq!(play.ask(build()), Answer::Done);
    assert_eq!(play.starts.len(), 2);
    // To delete its record, however often, keeps the name.
    assert!(matches!(play.ask(Call::FreeName(task("build.1"))), Answer::Conflict(_)), "it runs");
    play.end(play.runs_on(1)[0], SUCCESS);
    assert_eq!(play.ask(Call::DeleteTask(task("build.1"))), Answer::Done);
    assert_eq!(play.ask(Call::DeleteTask(task("build.1"))), Answer::NotFound);
    play.pass(60 * DAY);
    let again = || Call::CreateTask(task("build.1"), incarnation(3), spec());
    assert_eq!(play.ask(again()), Answer::Taken(incarnation(2)));
    // The record and the name go by one call.
    play.ask(Call::FreeName(task("build.1")));
    play.pass(8 * DAY);
    assert_eq!(play.ask(again()), Answer::Done);
    play.end(play.runs_on(1)[0], SUCCESS);
    assert_eq!(play.ask(Call::FreeName(task("build.1"))), Answer::Done);
    play.pass(8 * DAY);
    let last = Call::CreateTask(task("build.1"), incarnation(4), spec());
    assert_eq!(play.ask(last), Answer::Done);
}
