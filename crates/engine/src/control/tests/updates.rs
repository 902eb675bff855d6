//! New versions: a few at a time, healthy first, and back.

use std::sync::Arc;

use sterna_model::{
    Span,
    record::InstancePhase as P,
    spec::{ServiceSpec, UpdatePolicy},
};
use sterna_protocol::message::News;

use super::play::{FAILURE, Mood, Play, RUNNING, other_work, service_spec, web};
use crate::control::{Alarm, Call, Record, RecordKey};

fn put(play: &mut Play, spec: ServiceSpec) {
    play.ask(Call::PutService(web(), spec));
}

fn versions(play: &Play) -> Vec<u64> {
    let count = u32::try_from(play.phases().len()).unwrap();
    (0..count).filter_map(|index| Some(play.instance(index).copy()?.version)).collect()
}

fn is_updating(play: &Play) -> bool {
    let Some(Record::Service(record)) = play.store.get(&RecordKey::Service(web())) else {
        panic!("there is no service");
    };
    record.before.is_some()
}

/// Starting takes until a test says so.
fn dawdling(workers: u8) -> Play {
    let mut play = Play::with(workers);
    for worker in 1..=workers {
        play.moods.insert(worker, Mood::Dawdles);
    }
    play
}

fn start_all(play: &mut Play) -> usize {
    let claimed: Vec<_> = (0..u32::try_from(play.phases().len()).unwrap())
        .filter(|index| play.instance(*index).phase() == P::Claimed)
        .map(|index| play.run_of(index))
        .collect();
    for run in &claimed {
        play.report(*run, News::Progress(Arc::from(RUNNING)));
    }
    claimed.len()
}

#[test]
fn an_update_replaces_one_instance_at_a_time() {
    let mut play = dawdling(3);
    put(&mut play, service_spec(4));
    assert_eq!(start_all(&mut play), 4);
    put(&mut play, other_work(&service_spec(4), "v2"));
    for step in 1..=4 {
        let running = play.phases().iter().filter(|(_, phase)| *phase == P::Running).count();
        assert_eq!(running, 3, "one at a time, step {step}");
        assert_eq!(start_all(&mut play), 1);
    }
    assert_eq!(versions(&play), [1; 4]);
    assert!(!is_updating(&play));
}

#[test]
fn as_many_as_may_be_missing_are_replaced_at_a_time() {
    let update = UpdatePolicy { max_unavailable: 3, ..UpdatePolicy::default() };
    let mut play = dawdling(3);
    let spec = ServiceSpec { update, ..service_spec(5) };
    put(&mut play, spec.clone());
    start_all(&mut play);
    put(&mut play, other_work(&spec, "v2"));
    assert_eq!(start_all(&mut play), 3);
    assert_eq!(start_all(&mut play), 2);
    assert_eq!(versions(&play), [1; 5]);
}

#[test]
fn the_next_instance_waits_until_the_last_one_has_been_healthy_for_long_enough() {
    let update = UpdatePolicy { healthy_for: Span::from_secs(10), ..UpdatePolicy::default() };
    let spec = ServiceSpec { update, ..service_spec(2) };
    let mut play = Play::with(2);
    put(&mut play, spec.clone());
    play.pass(10);
    put(&mut play, other_work(&spec, "v2"));
    assert_eq!(versions(&play), [1, 0]);
    play.pass(9);
    assert_eq!(versions(&play), [1, 0]);
    play.pass(1);
    assert_eq!(versions(&play), [1, 1]);
    assert!(is_updating(&play));
    play.pass(10);
    assert!(!is_updating(&play));
}

#[test]
fn a_version_that_crashes_is_taken_back() {
    let mut play = dawdling(2);
    let old = service_spec(3);
    put(&mut play, old.clone());
    start_all(&mut play);
    put(&mut play, other_work(&old, "broken"));
    for _ in 0..3 {
        let new = (0..3).find(|index| play.instance(*index).copy().is_some_and(|c| c.version == 1));
        if let Some(index) = new {
            play.end(play.run_of(index), FAILURE);
        }
        play.pass(60);
    }
    assert_eq!(play.alarms, [Alarm::Reverted(web())]);
    start_all(&mut play);
    assert_eq!(versions(&play), [0; 3], "what still ran was not restarted");
    let Record::Service(record) = &play.store[&RecordKey::Service(web())] else { panic!() };
    assert_eq!(record.spec, old);
    put(&mut play, other_work(&old, "mended"));
    while start_all(&mut play) > 0 {}
    assert_eq!(versions(&play), [2; 3], "no version is named twice");
}

#[test]
fn a_change_in_place_restarts_nothing() {
    let mut play = Play::with(2);
    put(&mut play, service_spec(2));
    put(&mut play, ServiceSpec { notes: "x".into(), ..service_spec(2) });
    assert_eq!(play.starts.len(), 2);
    assert!(!is_updating(&play));
}

#[test]
fn an_update_goes_on_under_the_next_leader() {
    let mut play = dawdling(2);
    put(&mut play, service_spec(3));
    start_all(&mut play);
    put(&mut play, other_work(&service_spec(3), "v2"));
    let mut play = play.change_leader();
    let mut steps = 0;
    while start_all(&mut play) > 0 {
        steps += 1;
    }
    assert_eq!((versions(&play), steps), (vec![1; 3], 3));
    assert!(!is_updating(&play));
}

#[test]
fn an_update_that_changes_the_number_too_ends_with_all_of_the_new_version() {
    let mut play = Play::with(3);
    put(&mut play, service_spec(3));
    put(&mut play, ServiceSpec { instances: 5, ..other_work(&service_spec(3), "v2") });
    assert_eq!(versions(&play), [1; 5]);
    put(&mut play, ServiceSpec { instances: 2, ..other_work(&service_spec(3), "v3") });
    assert_eq!(versions(&play), [2; 2]);
}
