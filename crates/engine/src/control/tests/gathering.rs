//! A leader that begins: what it spreads waits a moment for its workers, and nothing else does.

use std::sync::Arc;

use sterna_model::record::InstancePhase as P;
use sterna_protocol::{health::Health, scheduler};

use super::play::{Mood, Play, enrolled, incarnation, service_spec, task, task_spec, web};
use crate::control::{Call, Next, Rule};

/// How many instances each worker has.
fn spread(play: &Play) -> Vec<usize> {
    (1..=3).map(|worker| play.runs_on(worker).len()).collect()
}

fn enroll(play: &mut Play, worker: u8) {
    play.news(scheduler::Effect::Enroll(enrolled(worker)));
}

/// Six instances of which none runs, and a leader that has just begun.
fn begun(enrolled: &[u8]) -> Play {
    let mut play = Play::empty();
    enrolled.iter().for_each(|worker| enroll(&mut play, *worker));
    play.ask(Call::PutService(web(), service_spec(6)));
    play.change_leader()
}

#[test]
fn what_is_to_be_spread_waits_for_the_workers_of_the_roster() {
    let mut play = begun(&[1, 2, 3]);
    play.join(1);
    play.pass(1);
    play.join(2);
    assert_eq!(spread(&play), [0, 0, 0]);
    let why = play.why(web().instance(0)).unwrap();
    assert_eq!(why.rule, Rule::Returning { workers: 1, is_spread: true });
    assert!(matches!(why.next, Next::At(_)), "{:?}", why.next);
    play.join(3);
    assert_eq!(spread(&play), [2, 2, 2], "at once when the last is here");
}

/// For as long as nobody came it said that it waited a moment.
#[test]
fn while_no_worker_is_here_that_is_the_reason() {
    let mut play = begun(&[]);
    play.pass(100);
    assert_eq!(play.why(web().instance(0)).unwrap().rule.name(), "unplaced");
    play.join(1);
    assert_eq!(play.why(web().instance(0)).unwrap().rule.name(), "returning");
    play.gather();
    assert_eq!(spread(&play), [6, 0, 0]);
}

#[test]
fn who_does_not_come_back_is_not_waited_for_longer_than_a_moment() {
    let mut play = begun(&[1, 2, 3]);
    play.join(1);
    play.join(2);
    play.pass(2);
    assert_eq!(spread(&play), [0, 0, 0]);
    assert_eq!(
        play.control.deadline(play.now),
        Some(play.now.boot.plus(sterna_model::Span::from_secs(1)))
    );
    play.pass(1);
    assert_eq!(spread(&play), [3, 3, 0]);
}

/// They have left the roster when they were stopped, and come again.
#[test]
fn what_is_to_be_spread_waits_a_moment_for_those_of_whom_nobody_knows() {
    let mut play = begun(&[]);
    play.join(1);
    play.join(2);
    play.join(3);
    assert_eq!(spread(&play), [0, 0, 0]);
    play.pass(1);
    assert_eq!(spread(&play), [2, 2, 2]);
}

#[test]
fn a_task_does_not_wait_for_them() {
    let mut play = begun(&[1, 2, 3]);
    play.join(1);
    play.ask(Call::CreateTask(task("build"), incarnation(1), Arc::new(task_spec())));
    assert_eq!(play.starts, [task("build")]);
}

#[test]
fn where_there_is_nothing_to_be_spread_nobody_waits() {
    let mut play = Play::empty();
    enroll(&mut play, 2);
    let mut play = play.change_leader();
    play.join(1);
    play.ask(Call::PutService(web(), service_spec(1)));
    assert_eq!(play.phases(), [(0, P::Running)]);
}

#[test]
fn what_is_no_longer_wanted_does_not_start_when_all_are_back() {
    let mut play = begun(&[1, 2]);
    play.join(1);
    play.ask(Call::PutService(web(), service_spec(1)));
    play.moods.insert(2, Mood::Obeys);
    play.facts(2);
    play.health(2, Health::Healthy);
    play.gather();
    assert_eq!(play.starts, [web().instance(0)]);
}
