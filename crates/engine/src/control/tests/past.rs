//! How much of what is over is kept.

use std::sync::Arc;

use sterna_model::{Span, record::TaskPhase, spec::TaskSpec};

use super::play::{Mood, Play, SUCCESS, incarnation, service_spec, task, task_spec, web};
use crate::control::{Answer, Call, Called, Input, Made, Retention, RowKey};

fn name(number: u8) -> String {
    format!("t{number:03}")
}

fn create_as(number: u8, spec: TaskSpec) -> Call {
    Call::CreateTask(task(&name(number)), incarnation(number), Arc::new(spec))
}

/// Makes these tasks, one after the other; each is over a second after the one before.
fn run(play: &mut Play, numbers: impl IntoIterator<Item = u8>) {
    for number in numbers {
        assert_eq!(play.ask(create_as(number, task_spec())), Answer::Done);
        play.end(play.runs_on(1)[0], SUCCESS);
        play.pass(1);
    }
}

fn has_record(play: &Play, number: u8) -> bool {
    play.store.contains_key(&RowKey::Task(task(&name(number))))
}

fn has_name(play: &Play, number: u8) -> bool {
    play.store.contains_key(&RowKey::Tombstone(task(&name(number))))
}

fn kept(play: &Play) -> Vec<u8> {
    (0..=u8::MAX).filter(|number| has_record(play, *number)).collect()
}

#[test]
fn beyond_their_number_the_records_of_the_oldest_go_and_their_names_stay_taken() {
    let mut play = Play::with(1);
    play.control.retain(Retention { tasks_max: 3, ..Retention::default() });
    run(&mut play, 1..=5);
    assert_eq!(kept(&play), [3, 4, 5]);
    assert!(has_name(&play, 1) && has_name(&play, 2) && !has_name(&play, 3));
    assert_eq!(play.ask(create_as(1, task_spec())), Answer::Already, "it is not started again");
    assert_eq!(play.starts.len(), 5);
    assert_eq!(play.control.names(), 2);
}

#[test]
fn what_runs_or_is_being_told_is_not_forgotten_however_many_are_over() {
    let mut play = Play::with(1);
    play.control.retain(Retention { tasks_max: 0, ..Retention::default() });
    let told = TaskSpec { callback: Some("http://x".into()), ..task_spec() };
    play.ask(create_as(1, told));
    play.end(play.runs_on(1)[0], SUCCESS);
    assert_eq!(play.record(&task(&name(1))).phase(), TaskPhase::Resolving);
    play.ask(create_as(2, task_spec()));
    play.moods.insert(1, Mood::Silent);
    play.ask(Call::CancelTask(task(&name(2))));
    assert_eq!(kept(&play), [1, 2], "one is being told, the other may still run");
    play.moods.insert(1, Mood::Obeys);
    play.step(Input::Called(task(&name(1)), incarnation(1), Called::Taken));
    assert_eq!(kept(&play), [2]);
    play.end(play.runs_on(1)[0], SUCCESS);
    assert!(kept(&play).is_empty());
}

#[test]
fn beyond_their_bytes_the_oldest_go_too() {
    let mut play = Play::with(1);
    let long = TaskSpec { work: Arc::from([b' '; 10_000]), ..task_spec() };
    play.control.retain(Retention { tasks_bytes_max: 25_000, ..Retention::default() });
    for number in 1..=3 {
        play.ask(create_as(number, long.clone()));
        play.end(play.runs_on(1)[0], SUCCESS);
        play.pass(1);
    }
    assert_eq!(kept(&play), [2, 3]);
}

#[test]
fn a_leader_that_may_keep_less_than_the_one_before_forgets_it_some_at_a_time() {
    let mut play = Play::with(1);
    run(&mut play, 0..=100);
    let mut play = play.change_leader();
    play.control.retain(Retention { tasks_max: 10, ..Retention::default() });
    play.is_storing = false;
    play.step(Input::Tick);
    let waiting = play.control.outbox.len();
    assert!((2..=80).contains(&waiting), "others' writes would wait behind {waiting}");
    play.is_storing = true;
    play.step(Input::Tick);
    assert_eq!(kept(&play).len(), 10);
    assert_eq!(play.control.names(), 91);
}

#[test]
fn beyond_their_number_names_go_when_nobody_is_likely_to_repeat_them() {
    let mut play = Play::with(1);
    play.control.retain(Retention { tasks_max: 0, names_max: 3, ..Retention::default() });
    run(&mut play, 1..=3);
    assert!(!play.control.has_room_for_names(play.now), "each of them may be asked for again");
    assert!(has_name(&play, 1));
    play.pass(10 * 60 - 3);
    assert!(!has_name(&play, 1) && has_name(&play, 2), "the oldest alone is old enough");
    assert!(play.control.has_room_for_names(play.now));
}

#[test]
fn a_name_that_is_kept_does_not_go_for_others() {
    let mut play = Play::with(1);
    play.control.retain(Retention { tasks_max: 0, names_max: 1, ..Retention::default() });
    play.ask(create_as(1, TaskSpec { keeps_name: true, ..task_spec() }));
    play.end(play.runs_on(1)[0], SUCCESS);
    play.pass(30 * 24 * 3_600);
    assert!(has_name(&play, 1) && !play.control.has_room_for_kept_names());
    assert!(play.control.has_room_for_names(play.now), "others are refused for their own names");
    assert_eq!(play.ask(Call::FreeName(task(&name(1)))), Answer::Done);
    assert!(play.control.has_room_for_kept_names(), "it is one of the others");
    play.pass(10 * 60);
    assert!(!has_name(&play, 1));
}

#[test]
fn times_that_are_set_anew_hold_for_what_is_over_already() {
    let mut play = Play::with(1);
    run(&mut play, [1]);
    play.control.retain(Retention { tasks: Span::from_secs(60), ..Retention::default() });
    play.pass(58);
    assert!(has_record(&play, 1));
    play.pass(1);
    assert!(!has_record(&play, 1));
}

#[test]
fn what_clients_make_is_counted_and_what_a_call_adds() {
    let mut play = Play::with(1);
    let put = |instances| Call::PutService(web(), service_spec(instances));
    let adds = |services, instances| Made { services, instances, ..Made::default() };
    assert_eq!(play.control.adds(&put(3)), adds(1, 3));
    play.ask(put(3));
    assert_eq!(play.control.made(), adds(1, 3));
    assert_eq!(play.control.adds(&put(5)), adds(0, 2));
    assert_eq!(play.control.adds(&put(2)), adds(0, 0), "fewer");
    let domain = Call::SetDomain(super::play::name("shop"), None);
    assert_eq!(play.control.adds(&domain).domains, 1);
    play.ask(domain.clone());
    assert_eq!((play.control.adds(&domain).domains, play.control.made().domains), (0, 1));
    play.ask(Call::DeleteService(web()));
    assert_eq!(play.control.made().services, 0);
}

#[test]
fn the_latest_start_of_a_task_that_went_is_waited_for_no_longer() {
    let mut play = Play::with(1);
    let latest_start = Some(play.now.wall.plus(Span::from_secs(365 * 24 * 3_600)));
    play.ask(create_as(1, TaskSpec { latest_start, ..task_spec() }));
    play.end(play.runs_on(1)[0], SUCCESS);
    assert!(play.control.timers.len() > 0);
    play.ask(Call::DeleteTask(task(&name(1))));
    assert_eq!(play.control.timers.len(), 0);
}
