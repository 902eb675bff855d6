//! One leader after another.

use std::{collections::BTreeMap, sync::Arc};

use sterna_model::{
    Contract, Span, WallTime,
    record::{CrashPolicy, InstancePhase as P, TaskEnd, TaskPhase},
    spec::{ServiceSpec, TaskSpec},
};
use sterna_protocol::{
    health::Health,
    message::RunRefusal,
    roster::Doors,
    scheduler::{self, GoneBy, Settlement},
};

use super::play::{FAILURE, Mood, Play, SUCCESS, incarnation, service_spec, task, task_spec, web};
use crate::control::Call;

fn create(name: &str, spec: TaskSpec) -> Call {
    Call::CreateTask(task(name), incarnation(1), Arc::new(spec))
}

#[test]
fn a_new_leader_starts_nothing_that_is_claimed() {
    let mut play = Play::with(2);
    play.ask(create("build", task_spec()));
    play.ask(Call::PutService(web(), service_spec(3)));
    let before = play.starts.len();
    let mut play = play.change_leader();
    play.pass(1_000);
    assert_eq!(play.starts.len(), before);
    assert_eq!(play.control.claims().count(), 4);
}

#[test]
fn a_new_leader_starts_what_nobody_has() {
    let mut play = Play::empty();
    play.ask(create("build", task_spec()));
    play.ask(Call::PutService(web(), service_spec(1)));
    let mut play = play.change_leader();
    play.join(1);
    assert_eq!(play.starts.len(), 2);
}

#[test]
fn claimed_work_waits_for_the_worker_that_has_it() {
    let mut play = Play::with(1);
    play.ask(create("build", task_spec()));
    let run = play.runs_on(1)[0];
    play.moods.insert(1, Mood::Silent);
    let mut play = play.change_leader();
    play.join(2);
    play.pass(1_000);
    assert_eq!(play.starts.len(), 1);
    play.settle(run, Settlement::Gone(GoneBy::Deadline));
    assert_eq!(play.record(&task("build")).end(), Some(&TaskEnd::Lost));
}

#[test]
fn what_a_claimed_run_takes_is_taken_as_soon_as_its_worker_is_known() {
    let mut play = Play::with(1);
    let spec = TaskSpec { wants: super::play::wants(80), ..task_spec() };
    play.ask(create("large", spec.clone()));
    let mut play = play.change_leader();
    play.ask(Call::CreateTask(task("next"), incarnation(2), Arc::new(spec)));
    assert_eq!(play.starts.len(), 1, "there is no room");
    let run = play.runs_on(1)[0];
    play.end(run, SUCCESS);
    assert_eq!(play.starts.len(), 2);
}

#[test]
fn a_crash_is_waited_out_under_the_next_leader() {
    let mut play = Play::with(1);
    let mut spec = service_spec(1);
    spec.crash.wait_from = 1;
    play.ask(Call::PutService(web(), spec));
    play.end(play.run_of(0), FAILURE);
    play.pass(10);
    let mut play = play.change_leader();
    play.pass(19);
    assert_eq!(play.phases(), [(0, P::Crashed)]);
    play.pass(1);
    assert_eq!(play.phases(), [(0, P::Running)]);
    assert_eq!(play.instance(0).crashes().count, 1);
}

#[test]
fn a_callback_is_called_again_by_the_next_leader() {
    let mut play = Play::with(1);
    play.ask(create("build", TaskSpec { callback: Some("http://x".into()), ..task_spec() }));
    let run = play.runs_on(1)[0];
    play.end(run, SUCCESS);
    assert_eq!(play.record(&task("build")).phase(), TaskPhase::Resolving);
    let play = play.change_leader();
    assert_eq!(play.callbacks.len(), 1, "the first resolver is gone");
    assert_eq!(play.record(&task("build")).phase(), TaskPhase::Resolving);
}

#[test]
fn a_cancelled_task_that_still_runs_is_ended_by_the_next_leader() {
    let mut play = Play::with(1);
    play.ask(create("build", task_spec()));
    play.moods.insert(1, Mood::Silent);
    play.ask(Call::CancelTask(task("build")));
    assert_eq!(play.running.len(), 1);
    play.moods.insert(1, Mood::Obeys);
    let play = play.change_leader();
    assert!(play.running.is_empty());
    assert!(play.record(&task("build")).placed().is_none());
}

#[test]
fn what_waited_when_the_store_was_restored_ends_and_does_not_run() {
    let mut play = Play::empty();
    play.ask(create("build", task_spec()));
    let mut play = Play::begin(play.store, play.now.wall, 2, true);
    play.join(1);
    play.store_all();
    assert!(play.starts.is_empty());
    assert_eq!(play.record(&task("build")).end(), Some(&TaskEnd::UnknownAfterRestore));
}

#[test]
fn a_leader_that_is_not_yet_to_start_anything_starts_nothing() {
    let mut play = Play::empty();
    play.ask(Call::PutService(web(), service_spec(1)));
    let now = play.now;
    let records = play.store.clone().into_iter().collect();
    let epoch = sterna_model::Epoch::new(2);
    let begin = crate::control::Begin {
        epoch,
        stage: crate::control::Stage::Recovered,
        records,
        seed: [1; 16],
    };
    play.control = crate::control::Control::new(now, begin);
    play.join(1);
    play.health(1, Health::Healthy);
    play.heard(1);
    assert!(play.starts.is_empty(), "its doors are shut");
}

#[test]
fn after_a_restore_what_is_kept_waits_for_everybody_who_may_have_it() {
    let mut play = Play::begin(BTreeMap::new(), WallTime::EPOCH, 2, true);
    play.join(1);
    let spec = ServiceSpec { contract: Contract::Keep, ..service_spec(1) };
    play.ask(Call::PutService(web(), spec));
    play.pass(100_000);
    assert_eq!(play.starts.len(), 0, "somebody is missing who may have it");
    play.news(scheduler::Effect::Opened(Doors::OPEN));
    assert_eq!(play.starts.len(), 1);
}

#[test]
fn a_wall_clock_that_is_set_back_makes_nobody_wait_longer() {
    let mut play = Play::with(1);
    let crash = CrashPolicy { wait_from: 1, ..CrashPolicy::default() };
    play.ask(Call::PutService(web(), ServiceSpec { crash, ..service_spec(2) }));
    play.settle(play.run_of(0), Settlement::Refused(RunRefusal::NotHealthy));
    play.end(play.run_of(1), FAILURE);
    assert_eq!(play.phases(), [(0, P::Unclaimed), (1, P::Crashed)]);
    let hour = Span::from_secs(3_600).as_millis();
    let hour = i64::try_from(hour).unwrap();
    play.now.wall = WallTime::from_millis(play.now.wall.as_millis() - hour).unwrap();
    play.pass(2);
    assert_eq!(play.phases(), [(0, P::Running), (1, P::Running)]);
}

#[test]
fn what_a_deleted_service_still_runs_takes_its_place_under_the_next_leader() {
    let mut play = Play::with(1);
    play.moods.insert(1, Mood::Ignores);
    play.ask(Call::PutService(web(), service_spec(9)));
    play.ask(Call::DeleteService(web()));
    assert_eq!(play.running.len(), 9, "they do not heed it");
    let mut play = play.change_leader();
    for number in 0..3 {
        let key = task(&format!("t{number}"));
        play.ask(Call::CreateTask(key, incarnation(number), Arc::new(task_spec())));
    }
    assert_eq!(play.running.len(), 10, "100 bytes, and 10 for each");
}
