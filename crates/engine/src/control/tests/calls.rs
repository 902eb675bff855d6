//! The same world, asked for many things at once.

use std::sync::Arc;

use sterna_model::{
    Contract, Span,
    spec::{ServiceSpec, TaskSpec},
};
use sterna_protocol::{health::Health, limits::Limits, scheduler};

use super::play::{Mood, Play, enrolled, incarnation, lock, service_spec, task, task_spec, web};
use crate::control::{Answer, Call, Input, Row, RowKey};

fn limits(play: &Play) -> Vec<Limits> {
    match play.store.get(&RowKey::Limits) {
        Some(Row::Limits(limits)) => limits.clone(),
        Some(_) | None => Vec::new(),
    }
}

#[test]
fn a_worker_is_not_forgotten_while_a_batch_may_be_running_there() {
    let mut play = Play::with(2);
    play.news(scheduler::Effect::Enroll(enrolled(1)));
    play.health(1, Health::MustDie);
    play.step(Input::MayHaveBatches(lock(1), true));
    assert!(matches!(play.ask(Call::Forget(lock(1))), Answer::Conflict(_)));
    play.step(Input::MayHaveBatches(lock(1), false));
    assert_eq!(play.ask(Call::Forget(lock(1))), Answer::Done);
    assert_eq!(play.ask(Call::Forget(lock(1))), Answer::NotFound);
}

#[test]
fn rule_24_a_worker_that_was_declared_dead_and_forgotten_keeps_its_mark() {
    let mut play = Play::with(2);
    play.news(scheduler::Effect::Enroll(enrolled(1)));
    play.moods.insert(1, Mood::Silent);
    play.health(1, Health::MustDie);
    assert_eq!(play.ask(Call::DeclareDead(lock(1))), Answer::Done);
    assert_eq!(play.ask(Call::Forget(lock(1))), Answer::Done);
    assert_eq!(play.ask(Call::Forget(lock(1))), Answer::NotFound);
    let is_shown = |play: &Play| play.control.workers().iter().any(|it| it.life.lock == lock(1));
    assert!(!is_shown(&play));
    // It comes back after all, and to a later leader: it is shown, and must end first what it had.
    let mut play = play.change_leader();
    assert!(!is_shown(&play));
    play.facts(1);
    play.health(1, Health::New);
    assert!(is_shown(&play), "also under the life that is on the roster");
    play.news(scheduler::Effect::Enroll(enrolled(1)));
    let entry = play.control.roster.get(&lock(1));
    assert!(entry.is_some_and(|entry| entry.is_declared_dead && !entry.is_forgotten));
    assert!(is_shown(&play));
}

/// Nothing grows without bound: the oldest of them goes, with its entry, and is a stranger if it comes back.
#[test]
fn only_so_many_that_were_declared_dead_and_forgotten_are_kept() {
    let mut play = Play::with(6);
    for worker in [4, 1, 5, 2, 3] {
        play.news(scheduler::Effect::Enroll(enrolled(worker)));
        play.moods.insert(worker, Mood::Silent);
        play.health(worker, Health::MustDie);
        assert_eq!(play.ask(Call::DeclareDead(lock(worker))), Answer::Done);
        play.step(Input::HeardDead(lock(worker)));
        assert_eq!(play.ask(Call::Forget(lock(worker))), Answer::Done);
    }
    let stands = |worker: &u8| play.store.contains_key(&RowKey::Roster(lock(*worker)));
    assert_eq!((1..=5).filter(stands).collect::<Vec<_>>(), [3, 4, 5]);
    let knows = |worker: &u8| play.control.roster.contains_key(&lock(*worker));
    assert_eq!((1..=5).filter(knows).collect::<Vec<_>>(), [3, 4, 5]);
}

#[test]
fn limits_are_raised_before_anything_is_claimed_that_they_do_not_allow_for() {
    let mut play = Play::with(1);
    let contract = Contract::Stop { after: Span::from_secs(7_200) };
    let spec = Arc::new(TaskSpec { contract, ..task_spec() });
    play.is_storing = false;
    play.call(Call::CreateTask(task("long"), incarnation(1), Arc::clone(&spec)));
    play.call(Call::CreateTask(task("longer"), incarnation(2), spec));
    play.store_all();
    assert_eq!(limits(&play).len(), 1, "once");
    assert_eq!(limits(&play)[0].stop_after_max, Span::from_secs(7_200));
    assert_eq!(play.starts.len(), 2);
}

#[test]
fn marks_never_fall_and_versions_only_grow() {
    let mut play = Play::with(1);
    let raised = Limits { stop_after_max: Span::from_secs(9_000), ..Limits::default() };
    play.ask(Call::SetLimits(raised));
    let low = Limits { kill_wait: Span::from_secs(9), version: 0, ..Limits::default() };
    assert_eq!(play.ask(Call::SetLimits(low)), Answer::Done);
    let all = limits(&play);
    assert_eq!(all.len(), 2);
    assert!(all[1].version > all[0].version);
    assert_eq!(all[1].stop_after_max, Span::from_secs(9_000));
    assert_eq!(all[1].kill_wait, Span::from_secs(9));
    let fewer = Limits { batch_stop_after_max: Span::from_secs(1), ..Limits::default() };
    assert_eq!(play.ask(Call::SetLimits(fewer)), Answer::Done, "marks are as they were");
    let zero = Limits { judge_every: Span::ZERO, ..Limits::default() };
    assert!(matches!(play.ask(Call::SetLimits(zero)), Answer::BadLimits(_)));
}

/// Its runs would be turned down one after the other.
#[test]
fn limits_under_which_work_could_not_run_are_refused_with_its_name() {
    let mut play = Play::empty();
    let contract = Contract::Stop { after: Span::from_secs(100) };
    let spec = Arc::new(TaskSpec { contract, ..task_spec() });
    play.ask(Call::CreateTask(task("build"), incarnation(1), spec));
    let slow = |millis| Limits { lose_after: Span::from_millis(millis), ..Limits::default() };
    let refused = "under these limits a run lasts 1m40s703ms at least without a word, and \
                   default/task/build is to be stopped after 1m40s, before its worker would be \
                   given up; give it a longer stop_after, or set a shorter lose_after";
    assert_eq!(play.ask(Call::SetLimits(slow(72_000))), Answer::BadLimits(refused.to_owned()));
    assert_eq!(play.ask(Call::SetLimits(slow(71_000))), Answer::Done);
}

/// No run of it would ever be sent.
#[test]
fn work_that_would_be_stopped_before_its_worker_is_given_up_is_refused() {
    let mut play = Play::empty();
    let stop = |seconds| Contract::Stop { after: Span::from_secs(seconds) };
    let build = |seconds| {
        let spec = Arc::new(TaskSpec { contract: stop(seconds), ..task_spec() });
        Call::CreateTask(task("build"), incarnation(1), spec)
    };
    let serve = |seconds| {
        let spec = ServiceSpec { contract: stop(seconds), ..service_spec(1) };
        Call::PutService(web(), spec)
    };
    let refused = "under these limits a run lasts 1m28s679ms at least without a word, and \
                   default/task/build is to be stopped after 1m, before its worker would be given \
                   up; give it a longer stop_after, or set a shorter lose_after";
    assert_eq!(play.ask(build(60)), Answer::BadSpec(refused.to_owned()));
    let refused = refused.replace("task/build", "service/web");
    assert_eq!(play.ask(serve(60)), Answer::BadSpec(refused));
    let quick = Limits { lose_after: Span::from_secs(10), ..Limits::default() };
    assert_eq!(play.ask(Call::SetLimits(quick)), Answer::Done);
    assert_eq!(play.ask(build(60)), Answer::Done);
    assert_eq!(play.ask(serve(60)), Answer::Done);
}

#[test]
fn many_workers_that_have_the_same_long_run_raise_the_limits_once() {
    let mut play = Play::with(1);
    let raised = Limits { version: 2, stop_after_max: Span::from_secs(9_000), ..Limits::default() };
    for _ in 0..100 {
        play.news(scheduler::Effect::Raise(raised));
    }
    assert_eq!(limits(&play).len(), 1);
}

#[test]
fn answers_come_in_the_order_of_the_calls() {
    let mut play = Play::with(1);
    play.is_storing = false;
    for number in 1..=20 {
        let key = task(&format!("t{number}"));
        play.call(Call::CreateTask(key, incarnation(number), Arc::new(task_spec())));
    }
    play.call(Call::CancelTask(task("nothing")));
    play.store_all();
    let ids: Vec<_> = play.answers.iter().map(|(id, _)| *id).collect();
    assert_eq!(ids, (1..=21).collect::<Vec<_>>());
    assert_eq!(play.answers.last().unwrap().1, Answer::NotFound);
}

#[test]
fn no_worker_is_given_more_than_it_has() {
    let mut play = Play::with(3);
    play.ask(Call::PutService(web(), service_spec(50)));
    for worker in 1..=3 {
        assert_eq!(play.runs_on(worker).len(), 10, "100 bytes, 10 each");
    }
    play.join(4);
    assert_eq!(play.running.len(), 40);
}
