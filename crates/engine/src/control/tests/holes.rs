//! What an earlier system of this kind got wrong, and is right here; the rest of that list is beside
//! what it is about. `docs/engine.md` has all of it.

use std::sync::Arc;

use sterna_model::{
    Contract, Span,
    record::{CrashPolicy, InstancePhase as P},
    spec::ServiceSpec,
};
use sterna_protocol::{
    health::Health,
    scheduler::{GoneBy, Settlement},
};

use super::play::{
    FAILURE, Mood, Play, incarnation, lock, name, service_spec, task, task_spec, web,
};
use crate::control::{Call, ServiceKey};

fn drain(play: &mut Play, worker: u8) {
    let deadline = play.now.wall.plus(Span::from_secs(600));
    play.ask(Call::Drain(lock(worker), deadline));
}

/// There, the replacement of a copy on a silent worker was not asked for when it was lost itself.
#[test]
fn hole_2_a_replacement_that_is_lost_is_replaced_at_once() {
    let mut play = Play::with(3);
    play.ask(Call::PutService(web(), service_spec(1)));
    let first = play.run_of(0);
    play.fall_silent(play.worker_of(first));
    let second = play.run_of(0);
    let worker = play.worker_of(second);
    play.moods.insert(worker, Mood::Silent);
    play.health(worker, Health::MustDie);
    play.settle(second, Settlement::Gone(GoneBy::Declaration));
    let third = play.run_of(0);
    assert!(third != first && third != second);
    assert_eq!((play.phases(), play.starts.len()), (vec![(0, P::Running)], 3));
}

/// There, an instance that crashed while its worker was drained waited for the next tick.
#[test]
fn hole_6_an_instance_that_crashes_on_a_drained_worker_begins_again_at_once() {
    // It runs until another copy does, and nobody had room for one.
    let mut play = Play::with(1);
    play.ask(Call::PutService(web(), service_spec(1)));
    drain(&mut play, 1);
    play.end(play.runs_on(1)[0], FAILURE);
    assert_eq!(play.phases(), [(0, P::Unclaimed)]);
    play.join(2);
    assert_eq!(play.worker_of(play.run_of(0)), 2);
    // It must be gone before another may start.
    let mut play = Play::with(1);
    let contract = Contract::Stop { after: Span::from_secs(120) };
    play.ask(Call::PutService(web(), ServiceSpec { contract, ..service_spec(1) }));
    play.join(2);
    play.moods.insert(1, Mood::Ignores);
    drain(&mut play, 1);
    assert_eq!(play.starts.len(), 1);
    play.end(play.run_of(0), FAILURE);
    assert_eq!(play.worker_of(play.run_of(0)), 2);
}

/// There, whatever was pending was put up for auction at every tick, even while its run was on its way.
#[test]
fn hole_9_time_alone_sends_nothing_and_writes_nothing() {
    let mut play = Play::with(1);
    play.moods.insert(1, Mood::Silent);
    for (number, key) in [task("sent"), task("waits")].into_iter().enumerate() {
        let mut spec = task_spec();
        spec.wants = super::play::wants(80);
        let number = u8::try_from(number).unwrap();
        play.ask(Call::CreateTask(key, incarnation(number), Arc::new(spec)));
    }
    let before = play.store.clone();
    for _ in 0..100 {
        play.pass(30);
    }
    assert_eq!(play.store, before, "one run is on its way, and there is no room for another");
}

/// There, how crashes are answered was the same for everybody.
#[test]
fn hole_10_each_service_answers_its_crashes_in_its_own_way() {
    let mut play = Play::with(1);
    let patient = CrashPolicy { wait_from: 1, ..CrashPolicy::default() };
    play.ask(Call::PutService(web(), ServiceSpec { crash: patient, ..service_spec(1) }));
    let eager = CrashPolicy { wait_from: 9, ..CrashPolicy::default() };
    let other = ServiceKey { name: name("other"), ..web() };
    play.ask(Call::PutService(other.clone(), ServiceSpec { crash: eager, ..service_spec(1) }));
    let runs: Vec<_> = play.running.keys().copied().collect();
    for run in runs {
        play.end(run, FAILURE);
    }
    let left: Vec<_> = play.running.values().map(|(_, key)| key.clone()).collect();
    assert_eq!(left, [other.instance(0)]);
}
