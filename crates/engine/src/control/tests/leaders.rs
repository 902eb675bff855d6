//! One leader after another.

use std::{collections::BTreeMap, sync::Arc};

use sterna_model::{
    Contract, RunId, Span, WallTime, Wants, Zones,
    record::{CrashPolicy, InstancePhase as P, TaskEnd, TaskPhase},
    spec::{ServiceSpec, TaskSpec},
};
use sterna_protocol::{
    health::Health,
    message::{Held, RunRefusal},
    roster::Doors,
    scheduler::{self, GoneBy, Settlement},
};

use super::play::{
    FAILURE, Mood, Play, SUCCESS, enrolled, incarnation, lock, name, service_spec, task, task_spec,
    wants, web,
};
use crate::control::{Alarm, Answer, Call, Next, ServiceKey};

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

/// Its claim was stored, and its leader ended before it was sent.
#[test]
fn a_task_that_never_came_to_its_worker_is_given_out_again_and_counts_no_return() {
    let mut play = Play::with(1);
    play.ask(create("build", task_spec()));
    let run = play.runs_on(1)[0];
    let mut play = play.change_leader();
    play.settle(run, Settlement::Gone(GoneBy::NeverCame));
    play.pass(10);
    let record = play.record(&task("build"));
    assert_eq!((record.phase(), record.returns()), (TaskPhase::Running, 0));
    assert_eq!(play.starts.len(), 2);
    assert_ne!(play.runs_on(1)[0], run);
}

#[test]
fn a_new_leader_starts_what_nobody_has() {
    let mut play = Play::empty();
    play.ask(create("build", task_spec()));
    play.ask(Call::PutService(web(), service_spec(1)));
    let mut play = play.change_leader();
    play.join(1);
    play.gather();
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
    let spec = TaskSpec { wants: wants(80), ..task_spec() };
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
    let records = play.store.values().cloned().collect();
    let epoch = sterna_model::Epoch::new(2);
    let begin = crate::control::Begin {
        epoch,
        stage: crate::control::Stage::Recovered,
        records,
        seed: [1; 16],
        rules: crate::auction::Rules::default(),
    };
    play.control = crate::control::Control::new(now, begin);
    play.join(1);
    play.health(1, Health::Healthy);
    play.heard(1);
    assert!(play.starts.is_empty(), "its doors are shut");
    let next = play.why(web().instance(0)).map(|why| why.next);
    assert_eq!(next, Some(Next::WhenCertain), "no worker has it that could say more");
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
    // An hour is longer than any wait, and ten minutes longer than this one.
    for seconds in [3_600, 600] {
        let mut play = Play::with(1);
        let crash = CrashPolicy { wait_from: 1, ..CrashPolicy::default() };
        play.ask(Call::PutService(web(), ServiceSpec { crash, ..service_spec(2) }));
        play.settle(play.run_of(0), Settlement::Refused(RunRefusal::NotHealthy));
        play.end(play.run_of(1), FAILURE);
        assert_eq!(play.phases(), [(0, P::Unclaimed), (1, P::Crashed)]);
        play.now.wall = WallTime::from_millis(play.now.wall.as_millis() - seconds * 1_000).unwrap();
        play.pass(2);
        assert_eq!(play.phases(), [(0, P::Running), (1, P::Running)]);
    }
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

#[test]
fn a_name_that_was_deleted_under_an_earlier_leader_is_free_after_its_time() {
    let mut play = Play::with(1);
    play.ask(create("build", task_spec()));
    play.end(play.runs_on(1)[0], SUCCESS);
    play.ask(Call::DeleteTask(task("build")));
    let mut play = play.change_leader();
    play.pass(6 * 86_400);
    assert_eq!(play.ask(create("build", task_spec())), Answer::Already);
    play.pass(86_400);
    assert_eq!(play.ask(create("build", task_spec())), Answer::Done);
}

#[test]
fn what_kept_the_record_of_a_task_beyond_its_time_lets_it_go() {
    let mut play = Play::with(1);
    play.ask(create("build", task_spec()));
    let run = play.runs_on(1)[0];
    play.moods.insert(1, Mood::Ignores);
    play.ask(Call::CancelTask(task("build")));
    play.pass(8 * 86_400);
    assert!(play.record(&task("build")).placed().is_some(), "it may still run");
    play.settle(run, Settlement::Gone(GoneBy::Deadline));
    play.pass(1);
    assert!(play.control.task(&task("build")).is_none());
}

fn held(name: &str) -> Held {
    let run = RunId::from_parts(WallTime::EPOCH, [9; 10]);
    let contract = Contract::Stop { after: Span::from_secs(600) };
    Held { run, key: task(name).to_work(), task: Some(incarnation(1)), contract, status: None }
}

#[test]
fn rule_25_a_task_without_a_record_runs_on_in_a_recovered_epoch() {
    let mut play = Play::begin(BTreeMap::new(), WallTime::EPOCH, 2, true);
    play.join(1);
    let held = held("build");
    let run = held.run;
    play.found(1, held.clone());
    assert!(play.running.contains_key(&run));
    assert_eq!(play.alarms, [Alarm::FoundAfterRestore(task("build"), run)]);
    // It has a record again, and the next leader leaves it alone.
    assert_eq!(play.record(&task("build")).phase(), TaskPhase::Running);
    let mut play = play.change_leader();
    assert!(play.running.contains_key(&run));
    play.end(run, SUCCESS);
    assert!(play.record(&task("build")).end().is_some_and(TaskEnd::is_success));
}

#[test]
fn what_was_found_without_a_record_is_never_started_again() {
    let mut play = Play::begin(BTreeMap::new(), WallTime::EPOCH, 2, true);
    play.join(1);
    let held = held("build");
    play.found(1, held.clone());
    play.report(held.run, sterna_protocol::message::News::WasNotRunning);
    play.pass(60);
    assert_eq!(play.record(&task("build")).end(), Some(&TaskEnd::Lost));
    assert!(play.starts.is_empty());
}

#[test]
fn rule_25_a_task_that_was_called_unknown_runs_on_and_says_how_it_ended() {
    let mut play = Play::empty();
    play.ask(create("build", task_spec()));
    let mut play = Play::begin(play.store, WallTime::EPOCH, 2, true);
    assert_eq!(play.record(&task("build")).end(), Some(&TaskEnd::UnknownAfterRestore));
    play.join(1);
    let held = held("build");
    let run = held.run;
    play.found(1, held.clone());
    play.heard(1);
    assert!(play.running.contains_key(&run));
    assert_eq!(play.alarms, [Alarm::FoundAfterRestore(task("build"), run)]);
    play.end(run, SUCCESS);
    assert!(play.record(&task("build")).end().is_some_and(TaskEnd::is_success));
    assert!(play.starts.is_empty());
}

#[test]
fn what_runs_on_after_a_restore_can_be_killed_by_its_name() {
    let mut play = Play::empty();
    play.ask(create("build", task_spec()));
    let mut play = Play::begin(play.store, WallTime::EPOCH, 2, true);
    play.join(1);
    let held = held("build");
    play.found(1, held.clone());
    assert_eq!(play.ask(Call::Kill(task("build").to_work())), Answer::Done);
    assert!(!play.running.contains_key(&held.run));
}

/// Three workers on the roster, each in a zone of its own, and a service of nine that is pinned.
fn pinned() -> Play {
    let mut play = Play::empty();
    for (worker, zone) in [(1, "a"), (2, "b"), (3, "c")] {
        play.zones.insert(worker, zone);
        // One is enrolled before it says where it is, the others after that.
        if worker == 1 {
            play.news(scheduler::Effect::Enroll(enrolled(worker)));
        }
        play.join(worker);
        play.news(scheduler::Effect::Enroll(enrolled(worker)));
    }
    let spec = service_spec(9);
    let mut wants = Wants::clone(&spec.wants);
    wants.constraints.zones = Zones::Pinned;
    play.ask(Call::PutService(web(), ServiceSpec { wants: Arc::new(wants), ..spec }));
    play
}

#[test]
fn what_is_pinned_stays_in_its_zone_when_another_fails_and_the_leader_changes() {
    let mut play = pinned();
    let gone = play.runs_on(3);
    assert_eq!(gone.len(), 3);
    play.moods.insert(3, Mood::Silent);
    let mut play = play.change_leader();
    play.gather();
    for run in gone {
        play.settle(run, Settlement::Gone(GoneBy::Deadline));
    }
    let waits = |play: &Play| play.phases().iter().filter(|it| it.1 == P::Unclaimed).count();
    assert!(waits(&play) >= 2, "indices from 2 on go nowhere else: {:?}", play.phases());
    // Nobody waits for that zone any more.
    assert_eq!(play.ask(Call::Forget(lock(3))), Answer::Done);
    assert_eq!(waits(&play), 0, "{:?}", play.phases());
}

/// Another zone has room, which nobody would understand.
#[test]
fn what_is_pinned_and_has_no_room_says_to_which_zone() {
    let mut play = Play::empty();
    for (worker, zone) in [(1, "a"), (2, "b")] {
        play.zones.insert(worker, zone);
        play.news(scheduler::Effect::Enroll(enrolled(worker)));
        play.join(worker);
    }
    let pinned = |memory, instances| {
        let mut wants = Wants::clone(&wants(memory));
        wants.constraints.zones = Zones::Pinned;
        ServiceSpec { wants: Arc::new(wants), ..service_spec(instances) }
    };
    play.ask(Call::PutService(web(), pinned(60, 3)));
    let zone = play.zones[&play.worker_of(play.run_of(0))];
    let told = play.why(web().instance(2)).expect("there is no room").rule.to_string();
    let end = format!("; it is pinned to the zone {zone}, and may be in no other");
    assert!(told.ends_with(&end), "{told}");
    // The first two go on along the ranking: every zone was asked.
    let large = ServiceKey { name: name("large"), ..web() };
    play.ask(Call::PutService(large.clone(), pinned(1_000, 2)));
    let told = play.why(large.instance(1)).expect("it is too large").rule.to_string();
    assert!(!told.contains("pinned"), "{told}");
}

#[test]
fn a_zone_goes_with_the_last_machine_that_was_declared_dead_and_forgotten() {
    let mut play = pinned();
    let gone = play.runs_on(3);
    play.moods.insert(3, Mood::Silent);
    let mut play = play.change_leader();
    play.gather();
    assert_eq!(play.ask(Call::DeclareDead(lock(3))), Answer::Done);
    for run in gone {
        play.settle(run, Settlement::Gone(GoneBy::Declaration));
    }
    assert!(play.phases().iter().any(|it| it.1 == P::Unclaimed), "it may come back");
    assert_eq!(play.ask(Call::Forget(lock(3))), Answer::Done);
    assert!(play.phases().iter().all(|it| it.1 == P::Running), "{:?}", play.phases());
}
