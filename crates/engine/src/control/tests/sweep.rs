//! The sweep: what was forgotten is found, and mended; what is well is left alone.

use std::sync::Arc;

use sterna_model::{
    Epoch, Span, WallTime,
    record::{CrashPolicy, InstancePhase as P, Task},
    spec::{ServiceSpec, TaskSpec},
};

use super::play::{
    FAILURE, Mood, Play, SUCCESS, incarnation, lock, name, service_spec, task, task_spec, web,
};
use crate::control::{Alarm, Call, Called, Input, Now, Timer};

fn create(play: &mut Play, spec: TaskSpec) {
    play.ask(Call::CreateTask(task("build"), incarnation(1), Arc::new(spec)));
}

/// What a sweep finds; a second one finds nothing, for all of it is mended.
fn swept(play: &mut Play) -> Vec<String> {
    let found = play.control.sweep(play.now);
    play.is_storing = true;
    play.step(Input::Tick);
    assert_eq!(play.control.sweep(play.now), [""; 0]);
    let told = found.iter().cloned().map(Alarm::Swept).collect::<Vec<_>>();
    assert!(play.alarms.ends_with(&told), "{:?}", play.alarms);
    names(found)
}

/// Without what was lacking.
fn names(found: Vec<String>) -> Vec<String> {
    found.iter().filter_map(|one| Some(one.split_once(": ")?.0.to_owned())).collect()
}

#[test]
fn a_wanted_index_without_a_record_is_found() {
    let mut play = Play::with(1);
    play.ask(Call::PutService(web(), service_spec(2)));
    play.control.instances.remove(&web().instance(1));
    assert_eq!(swept(&mut play), ["default/service/web/1"]);
}

#[test]
fn a_task_that_nobody_asks_for_is_found() {
    let mut play = Play::with(1);
    let made = Task::new(incarnation(1), Epoch::new(1), play.now.wall);
    play.control.tasks.insert(task("build"), (made, Arc::new(task_spec())));
    assert_eq!(swept(&mut play), ["default/task/build"]);
    assert_eq!(play.starts, [task("build")]);
}

#[test]
fn a_restart_that_was_forgotten_is_found() {
    let mut play = Play::with(1);
    let crash = CrashPolicy { wait_from: 1, ..CrashPolicy::default() };
    play.ask(Call::PutService(web(), ServiceSpec { crash, ..service_spec(1) }));
    play.end(play.run_of(0), FAILURE);
    play.control.timers.retain(|_| false);
    assert_eq!(swept(&mut play), ["default/service/web/0"]);
    play.pass(30);
    assert_eq!(play.instance(0).phase(), P::Running);
}

#[test]
fn timers_of_tasks_that_were_forgotten_are_found() {
    let mut play = Play::empty();
    let latest_start = Some(WallTime::EPOCH.plus(Span::from_secs(60)));
    create(&mut play, TaskSpec { latest_start, ..task_spec() });
    play.control.timers.retain(|_| false);
    assert_eq!(swept(&mut play), ["default/task/build"], "its latest start");
    play.pass(60);
    play.control.tasks.forget_order();
    assert_eq!(swept(&mut play), ["default/task/build"], "the end of what is kept of it");
    play.ask(Call::DeleteTask(task("build")));
    play.control.tasks.forget_order();
    assert_eq!(swept(&mut play), ["the name default/task/build"]);
}

#[test]
fn callbacks_that_were_forgotten_are_found() {
    let mut play = Play::with(1);
    create(&mut play, TaskSpec { callback: Some("http://receiver/".into()), ..task_spec() });
    play.end(play.runs_on(1)[0], SUCCESS);
    play.step(Input::Called(task("build"), incarnation(1), Called::NotTaken));
    play.control.timers.retain(|timer| !matches!(timer, Timer::Callback(_)));
    assert_eq!(swept(&mut play), ["default/task/build"], "the next try");
    play.control.tasks.forget_callbacks();
    assert_eq!(swept(&mut play), ["default/task/build"], "nobody tells it");
}

#[test]
fn a_task_without_its_seat_is_found() {
    let mut play = Play::with(1);
    create(&mut play, task_spec());
    let run = play.runs_on(1)[0];
    play.control.leave_seat(run);
    assert_eq!(swept(&mut play), ["default/task/build"]);
}

#[test]
fn a_drain_that_was_forgotten_is_found() {
    let mut play = Play::with(2);
    play.moods.insert(1, Mood::Ignores);
    play.moods.insert(2, Mood::Ignores);
    play.ask(Call::PutService(web(), service_spec(2)));
    let deadline = WallTime::EPOCH.plus(Span::from_secs(60));
    play.ask(Call::Drain(lock(1), deadline));
    play.control.timers.retain(|_| false);
    assert_eq!(swept(&mut play), [format!("the drain of {}", lock(1))]);
}

#[test]
fn that_a_drain_asks_before_its_end_is_found() {
    let mut play = Play::with(1);
    play.ask(Call::CreateTask(task("build"), incarnation(1), Arc::new(task_spec())));
    play.ask(Call::Drain(lock(1), WallTime::EPOCH.plus(Span::from_secs(60))));
    assert_eq!(swept(&mut play), Vec::<String>::new());
    let is_asked = |timer: &Timer| matches!(timer, Timer::Asked(_));
    play.control.timers.retain(|timer| !is_asked(timer));
    assert_eq!(swept(&mut play), [format!("the drain of {}", lock(1))]);
    play.control.timers.set(WallTime::EPOCH.plus(Span::from_secs(55)), Timer::Asked(lock(1)));
    assert_eq!(swept(&mut play), [format!("the drain of {}", lock(1))], "it is for another moment");
}

#[test]
fn what_a_drain_left_at_its_deadline_is_found() {
    let mut play = Play::with(1);
    play.ask(Call::CreateTask(task("build"), incarnation(1), Arc::new(task_spec())));
    let deadline = WallTime::EPOCH.plus(Span::from_secs(60));
    play.ask(Call::Drain(lock(1), deadline));
    play.control.timers.retain(|_| false);
    play.now.wall = deadline;
    assert_eq!(swept(&mut play), [format!("the drain of {}", lock(1))]);
}

#[test]
fn a_domain_whose_end_was_forgotten_is_found() {
    let mut play = Play::with(1);
    play.ask(Call::SetDomain(name("apps"), Some(WallTime::EPOCH.plus(Span::from_secs(60)))));
    play.control.timers.retain(|_| false);
    assert_eq!(swept(&mut play), ["the domain apps"]);
}

#[test]
fn an_update_that_was_forgotten_is_found_once_for_its_service() {
    let mut play = Play::with(2);
    play.ask(Call::PutService(web(), service_spec(4)));
    // It has another version, and nobody went on from there.
    let known = play.control.services.get_mut(&web()).unwrap();
    Arc::make_mut(&mut known.record).version = 1;
    let found = play.control.sweep(play.now);
    assert_eq!(names(found), ["default/service/web"]);
}

#[test]
fn a_sweep_in_slices_comes_by_every_kind_of_thing() {
    let mut play = Play::with(3);
    play.ask(Call::PutService(web(), service_spec(5)));
    play.ask(Call::CreateTask(task("one"), incarnation(1), Arc::new(task_spec())));
    play.ask(Call::CreateTask(task("two"), incarnation(2), Arc::new(task_spec())));
    for gone in ["three", "four"] {
        play.ask(Call::CreateTask(task(gone), incarnation(3), Arc::new(task_spec())));
        play.ask(Call::CancelTask(task(gone)));
        play.ask(Call::DeleteTask(task(gone)));
    }
    let later = WallTime::EPOCH.plus(Span::from_secs(60));
    for worker in [1, 2] {
        play.ask(Call::Drain(lock(worker), later));
        play.ask(Call::SetDomain(name(&format!("apps-{worker}")), Some(later)));
    }
    play.control.timers.retain(|_| false);
    play.control.tasks.forget_order();
    let mut found = Vec::new();
    while !play.control.sweep_slice(play.now, 1, &mut found) {}
    let found = names(found);
    for expected in ["the name default/task/four", "the name default/task/three"] {
        assert!(found.contains(&expected.to_owned()), "{found:?}");
    }
    for worker in [1, 2] {
        assert!(found.contains(&format!("the drain of {}", lock(worker))), "{found:?}");
        assert!(found.contains(&format!("the domain apps-{worker}")), "{found:?}");
    }
}

#[test]
fn a_sweep_in_slices_finds_what_one_in_whole_finds() {
    let mut play = Play::with(2);
    play.ask(Call::PutService(web(), service_spec(7)));
    create(&mut play, task_spec());
    play.control.instances.remove(&web().instance(5));
    let (mut found, mut slices) = (Vec::new(), 1);
    while !play.control.sweep_slice(play.now, 3, &mut found) {
        slices += 1;
    }
    assert_eq!(names(found), ["default/service/web/5"]);
    assert!(slices > 4, "{slices}");
}

#[test]
fn a_clock_that_was_set_back_has_a_few_instances_looked_at_in_each_step() {
    let mut play = Play::empty();
    play.ask(Call::PutService(web(), service_spec(2_500)));
    let (boot, wall) = (play.now.boot.plus(Span::from_secs(10)), play.now.wall);
    play.now = Now { boot, wall };
    let mut steps = 0;
    play.is_storing = false;
    play.step(Input::Tick);
    while play.control.deadline(play.now) == Some(play.now.boot) {
        play.step(Input::Tick);
        steps += 1;
        assert!(steps < 10);
    }
    assert_eq!(steps, 2);
}
