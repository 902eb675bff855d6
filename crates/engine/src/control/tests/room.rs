//! Room that others want, too, and what only waits for others to start.

use std::sync::Arc;

use sterna_model::{
    record::InstancePhase as P,
    spec::{ServiceSpec, TaskSpec, UpdatePolicy, WhenFull},
};

use super::play::{
    FAILURE, Mood, Play, incarnation, lock, name, other_work, service_spec, task, task_spec, wants,
    web,
};
use crate::control::{Call, Fate, ServiceKey};

fn usual(instances: u32) -> ServiceSpec {
    ServiceSpec { update: UpdatePolicy::default(), ..service_spec(instances) }
}

fn put(play: &mut Play, service: &str, spec: ServiceSpec) {
    play.ask(Call::PutService(ServiceKey { name: name(service), ..web() }, spec));
}

fn create(play: &mut Play, number: u8, spec: TaskSpec) {
    let key = task(&format!("t{number}"));
    play.ask(Call::CreateTask(key, incarnation(number), Arc::new(spec)));
}

/// How many instances of web run.
fn serving(play: &Play) -> usize {
    let mut keys = play.running.values().map(|(_, key)| key.to_string());
    keys.by_ref().filter(|key| key.contains("/web/")).count()
}

fn let_all_dawdle(play: &mut Play) {
    play.moods.values_mut().for_each(|mood| *mood = Mood::Dawdles);
}

#[test]
fn an_update_does_not_give_the_room_of_its_service_away_to_others() {
    for memory in [10, 12, 15, 20, 30] {
        let mut play = Play::with(1);
        put(&mut play, "web", usual(9));
        for number in 0..13 {
            create(&mut play, number, task_spec());
        }
        assert_eq!((serving(&play), play.running.len()), (9, 10));
        play.pass(10);
        put(
            &mut play,
            "web",
            ServiceSpec { wants: wants(memory), ..other_work(&usual(9), "larger") },
        );
        play.pass(3_600);
        // One may be missing, and one more was to make room for it.
        assert!(serving(&play) >= 7, "{} of 9 are left with {memory} B", serving(&play));
    }
}

#[test]
fn an_update_ends_no_more_than_may_be_missing_while_others_are_starting() {
    let mut play = Play::starting_at_most(1, 3);
    put(&mut play, "web", usual(4));
    play.pass(10);
    // Another service starts slowly, and takes the one place there is to start.
    let_all_dawdle(&mut play);
    put(&mut play, "slow", service_spec(1));
    put(&mut play, "web", other_work(&usual(4), "v2"));
    play.pass(3_600);
    assert_eq!(serving(&play), 3);
}

#[test]
fn two_updates_that_start_slowly_end_no_more_than_may_be_missing() {
    let mut play = Play::starting_at_most(1, 3);
    put(&mut play, "web", usual(4));
    put(&mut play, "api", usual(4));
    play.pass(10);
    let_all_dawdle(&mut play);
    put(&mut play, "api", other_work(&usual(4), "v2"));
    put(&mut play, "web", other_work(&usual(4), "v2"));
    assert_eq!(serving(&play), 3);
}

#[test]
fn an_update_is_not_over_while_an_instance_waits_for_others_to_start() {
    let mut play = Play::starting_at_most(1, 3);
    put(&mut play, "web", usual(2));
    play.pass(10);
    put(&mut play, "web", other_work(&usual(2), "v2"));
    play.pass(10);
    let_all_dawdle(&mut play);
    put(&mut play, "slow", service_spec(1));
    play.end(play.run_of(1), FAILURE);
    let is_updating = play.control.service(&web()).unwrap().before.is_some();
    assert!(is_updating, "nothing could be taken back any more");
}

#[test]
fn what_was_starting_on_a_worker_that_is_lost_keeps_nobody_from_starting() {
    let mut play = Play::starting_at_most(1, 2);
    let_all_dawdle(&mut play);
    put(&mut play, "web", service_spec(1));
    let worker = play.worker_of(play.run_of(0));
    play.moods.insert(3 - worker, Mood::Obeys);
    play.fall_silent(worker);
    create(&mut play, 1, task_spec());
    assert_eq!(play.phases(), [(0, P::Running)]);
    assert!(play.record(&task("t1")).placed().is_some());
    // When it is heard again, what starts there counts again.
    play.come_back(worker);
    assert_eq!(play.control.registry.starting(), 0, "the table has ended it");
}

#[test]
fn a_task_that_is_to_fail_without_room_waits_while_others_are_starting() {
    let mut play = Play::starting_at_most(1, 2);
    let_all_dawdle(&mut play);
    for number in [1, 2, 3] {
        let memory = if number == 3 { 1_000 } else { 10 };
        let wants = wants(memory);
        create(&mut play, number, TaskSpec { when_full: WhenFull::Fail, wants, ..task_spec() });
    }
    assert_eq!(play.record(&task("t2")).end(), None, "both workers are nearly empty");
    assert!(play.record(&task("t3")).end().is_some(), "nobody could have it");
}

#[test]
fn a_forecast_does_not_count_how_many_may_be_starting_at_a_time() {
    let mut play = Play::starting_at_most(1, 1);
    put(&mut play, "web", service_spec(3));
    play.join(2);
    let forecast = play.forecast(lock(1));
    assert!(forecast.iter().all(|one| matches!(one.fate, Fate::Moves { .. })), "{forecast:?}");
    let deadline = play.now.wall.plus(sterna_model::Span::from_secs(600));
    play.ask(Call::Drain(lock(1), deadline));
    assert_eq!(play.runs_on(2).len(), 3);
}
