//! The duties of convergence, each by its name: `S` of services, `T` of tasks. What they mean here is
//! said in `docs/engine.md`. Each is looked at where a store says what nobody has brought about by
//! now: in what a new leader makes of it, beside what it makes of news.

use std::sync::Arc;

use sterna_model::{
    record::{CrashPolicy, InstancePhase as P, TaskEnd, TaskPhase},
    spec::{ServiceSpec, TaskSpec},
};
use sterna_protocol::{
    message::RunRefusal,
    scheduler::{GoneBy, NotSent, Settlement},
};

use super::play::{
    FAILURE, Mood, Play, SUCCESS, incarnation, name, service_spec, task, task_spec, web,
};
use crate::control::{Call, Called, Input, Row, RowKey, ServiceRecord};

fn put(spec: ServiceSpec) -> Call {
    Call::PutService(web(), spec)
}

fn create(spec: TaskSpec) -> Call {
    Call::CreateTask(task("build"), incarnation(1), Arc::new(spec))
}

fn running(count: u32) -> Vec<(u32, P)> {
    (0..count).map(|index| (index, P::Running)).collect()
}

/// One whose end is being told.
fn resolving() -> Play {
    let mut play = Play::with(1);
    play.ask(create(TaskSpec { callback: Some("http://x".into()), ..task_spec() }));
    play.end(play.runs_on(1)[0], SUCCESS);
    assert_eq!(play.record(&task("build")).phase(), TaskPhase::Resolving);
    play
}

#[test]
fn duty_s1_what_a_lost_worker_ran_or_started_starts_elsewhere() {
    for mood in [Mood::Obeys, Mood::Dawdles] {
        let mut play = Play::with(1);
        play.moods.insert(1, mood);
        play.ask(put(service_spec(2)));
        play.join(2);
        play.fall_silent(1);
        assert_eq!(play.phases(), running(2));
        assert!((0..2).all(|index| play.worker_of(play.run_of(index)) == 2));
    }
}

#[test]
fn duty_s2_an_index_without_a_record_is_started() {
    let mut play = Play::with(1);
    play.ask(put(service_spec(3)));
    play.store.remove(&RowKey::Instance(web().instance(1)));
    play.running.retain(|_, (_, key)| *key != web().instance(1));
    let mut play = play.change_leader();
    play.gather();
    assert_eq!(play.phases(), running(3));
    assert_eq!(play.starts.len(), 4, "the one that was missing, and no other");
    assert_eq!(play.starts.last(), Some(&web().instance(1).into()));
}

#[test]
fn duty_s3_an_index_that_no_spec_wants_ends_when_its_domain_is_fresh() {
    let mut play = Play::with(1);
    let spec = ServiceSpec { domain: name("apps"), ..service_spec(3) };
    play.ask(put(spec.clone()));
    let spec = ServiceSpec { instances: 1, ..spec };
    let record =
        ServiceRecord { spec, version: 0, highest: 0, before: None, crashes: 0, taken_back: None };
    play.store.insert(RowKey::Service(web()), Row::Service(web(), Some(Arc::new(record))));
    let mut play = play.change_leader();
    assert_eq!(play.phases(), running(3), "what is not known to be wanted may be wanted");
    play.ask(Call::SetDomain(name("apps"), None));
    assert_eq!(play.phases(), running(1));
    assert_eq!(play.running.len(), 1);
}

#[test]
fn duty_s4_a_crashed_instance_begins_again_when_its_wait_is_over() {
    let mut play = Play::with(1);
    let crash = CrashPolicy { wait_from: 1, give_up_at: 2, ..CrashPolicy::default() };
    play.ask(put(ServiceSpec { crash, ..service_spec(1) }));
    play.end(play.run_of(0), FAILURE);
    let mut play = play.change_leader();
    play.pass(29);
    assert_eq!(play.phases(), [(0, P::Crashed)]);
    play.pass(1);
    assert_eq!(play.phases(), running(1));
    play.end(play.run_of(0), FAILURE);
    play.pass(100_000);
    assert_eq!(play.phases(), [(0, P::Crashed)], "it is given up");
}

#[test]
fn duty_s5_an_unclaimed_index_asks_again_for_a_worker() {
    // What it asked for was forgotten with its leader.
    let mut play = Play::empty();
    play.ask(put(service_spec(1)));
    let mut play = play.change_leader();
    play.join(1);
    play.gather();
    assert_eq!(play.phases(), running(1));
    // Its run did not reach its worker, or was turned down there.
    let mut play = Play::with(1);
    play.moods.insert(1, Mood::Dawdles);
    play.ask(put(service_spec(1)));
    let not_sent = Settlement::NotSent(NotSent::NotHealthy);
    for settlement in [not_sent, Settlement::Refused(RunRefusal::NotHealthy)] {
        play.settle(play.run_of(0), settlement);
        assert_eq!(play.phases(), [(0, P::Unclaimed)]);
        play.pass(1);
        assert_eq!(play.phases(), [(0, P::Claimed)]);
    }
}

#[test]
fn duty_t1_a_task_on_a_lost_worker_fails_and_is_not_started_again() {
    let mut play = Play::with(2);
    play.ask(create(task_spec()));
    let run = *play.running.keys().next().unwrap();
    play.settle(run, Settlement::Gone(GoneBy::Deadline));
    assert_eq!(play.record(&task("build")).end(), Some(&TaskEnd::Lost));
    let mut play = play.change_leader();
    play.pass(1_000);
    assert_eq!(play.starts.len(), 1);
}

#[test]
fn duty_t2_a_pending_task_asks_again_for_a_worker() {
    // What it asked for was forgotten with its leader.
    let mut play = Play::empty();
    play.ask(create(task_spec()));
    let mut play = play.change_leader();
    play.join(1);
    assert_eq!(play.starts.len(), 1);
    // Its run did not reach its worker.
    let mut play = Play::with(1);
    play.moods.insert(1, Mood::Dawdles);
    play.ask(create(task_spec()));
    play.settle(play.runs_on(1)[0], Settlement::NotSent(NotSent::NotHealthy));
    assert_eq!(play.record(&task("build")).phase(), TaskPhase::Pending);
    play.pass(1);
    assert_eq!(play.record(&task("build")).phase(), TaskPhase::Running);
}

#[test]
fn duty_t3_a_completed_task_goes_when_its_time_is_over() {
    let mut play = Play::with(1);
    play.ask(create(task_spec()));
    play.end(play.runs_on(1)[0], SUCCESS);
    play.pass(24 * 3_600);
    let mut play = play.change_leader();
    play.pass(6 * 24 * 3_600 - 1);
    assert!(play.store.contains_key(&RowKey::Task(task("build"))));
    play.pass(1);
    assert!(!play.store.contains_key(&RowKey::Task(task("build"))));
}

#[test]
fn the_name_of_a_task_that_went_is_free_in_its_time_whoever_leads() {
    let mut play = Play::with(1);
    play.ask(create(task_spec()));
    play.end(play.runs_on(1)[0], SUCCESS);
    play.pass(7 * 24 * 3_600);
    let stone = RowKey::Tombstone(task("build"));
    assert!(play.store.contains_key(&stone));
    let mut play = play.change_leader();
    play.pass(7 * 24 * 3_600 - 1);
    assert!(play.store.contains_key(&stone));
    play.pass(1);
    assert!(!play.store.contains_key(&stone), "a stone that nobody takes away stays for ever");
}

#[test]
fn duty_t4_a_completed_task_that_nobody_tells_of_is_told() {
    let mut play = resolving();
    let record = play.store.get_mut(&RowKey::Task(task("build")));
    let Some(Row::Task(_, Some((record, _)))) = record else { panic!("it stands in the store") };
    record.hand_over().unwrap();
    let play = play.change_leader();
    assert_eq!(play.callbacks.len(), 1);
    assert_eq!(play.record(&task("build")).phase(), TaskPhase::Resolving);
}

#[test]
fn duty_t5_a_resolving_task_whose_teller_is_gone_is_told_by_another() {
    let mut play = resolving().change_leader();
    assert_eq!(play.callbacks.len(), 1, "by this leader");
    play.step(Input::Called(task("build"), incarnation(1), Called::Taken));
    let record = play.record(&task("build"));
    assert_eq!((record.phase(), record.is_told()), (TaskPhase::Completed, true));
    let play = play.change_leader();
    assert_eq!(play.callbacks.len(), 0, "it is told");
}
