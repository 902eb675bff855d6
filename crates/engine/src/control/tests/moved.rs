//! What is moved from a drained worker while its service becomes another.

use std::sync::Arc;

use sterna_model::{
    Contract, Span,
    record::{InstancePhase as P, StopReason, TwinReason},
    spec::{ServiceSpec, TaskSpec, UpdatePolicy},
};
use sterna_protocol::message::News;

use super::play::{
    FAILURE, Mood, Play, RUNNING, incarnation, lock, other_work, service_spec, task, task_spec,
    wants, web,
};
use crate::control::{Alarm, Answer, Call, Fate, RowKey};

fn usual(instances: u32) -> ServiceSpec {
    ServiceSpec { update: UpdatePolicy::default(), ..service_spec(instances) }
}

fn put(play: &mut Play, spec: ServiceSpec) {
    play.ask(Call::PutService(web(), spec));
}

fn drain(play: &mut Play, worker: u8) {
    let deadline = play.now.wall.plus(Span::from_secs(600));
    assert_eq!(play.ask(Call::Drain(lock(worker), deadline)), Answer::Done);
}

const STOP: Contract = Contract::Stop { after: Span::from_secs(120) };

#[test]
fn a_copy_of_a_service_that_is_under_stop_by_now_ends_before_the_next_begins() {
    let mut play = Play::with(3);
    put(&mut play, usual(3));
    play.pass(10);
    put(&mut play, ServiceSpec { contract: STOP, ..usual(3) });
    let worker = play.worker_of(play.run_of(2));
    let forecast = play.forecast(lock(worker));
    assert!(matches!(forecast[0].fate, Fate::Moves { ends_first: true, .. }), "{forecast:?}");
    drain(&mut play, worker);
    (0..6).for_each(|_| play.pass(10));
    assert!(play.runs_on(worker).is_empty());
    let version = |index| play.instance(index).copy().map(|copy| copy.version);
    assert_eq!([0, 1, 2].map(version), [Some(1); 3], "and the update goes on");
}

#[test]
fn a_copy_that_is_moved_ends_when_its_service_is_put_under_stop() {
    let mut play = Play::with(1);
    put(&mut play, usual(1));
    drain(&mut play, 1);
    assert_eq!(play.instance(0).twin().map(|twin| twin.reason), Some(TwinReason::Evacuating));
    put(&mut play, ServiceSpec { contract: STOP, ..usual(1) });
    assert!(play.runs_on(1).is_empty(), "nothing may begin beside it");
    play.join(2);
    assert_eq!(play.phases(), [(0, P::Running)]);
}

#[test]
fn a_copy_of_the_version_before_ends_when_the_next_has_run_for_long_enough() {
    let mut play = Play::with(1);
    put(&mut play, usual(4));
    play.pass(10);
    play.join(2);
    put(&mut play, other_work(&usual(4), "v2"));
    drain(&mut play, 1);
    // One was ended for the update before.
    assert_eq!((play.runs_on(1).len(), play.runs_on(2).len()), (3, 4));
    play.pass(9);
    assert_eq!(play.runs_on(1).len(), 3);
    play.pass(1);
    assert_eq!((play.runs_on(1).len(), play.runs_on(2).len()), (0, 4));
}

/// All of them ended at once, and the new ones had not run for long enough.
#[test]
fn an_undrain_in_the_middle_of_an_update_ends_no_copy_that_the_drain_would_not_end() {
    let mut play = Play::with(1);
    put(&mut play, usual(4));
    play.pass(10);
    play.join(2);
    put(&mut play, other_work(&usual(4), "v2"));
    drain(&mut play, 1);
    play.pass(5);
    assert_eq!(play.ask(Call::Undrain(lock(1))), Answer::Done);
    assert_eq!((play.runs_on(1).len(), play.runs_on(2).len()), (3, 4));
    play.pass(4);
    assert_eq!(play.runs_on(1).len(), 3);
    play.pass(1);
    assert_eq!((play.runs_on(1).len(), play.runs_on(2).len()), (0, 4));
}

#[test]
fn a_silence_in_the_middle_of_a_drain_ends_no_copy_that_the_drain_would_not_end() {
    let mut play = Play::with(1);
    put(&mut play, usual(4));
    play.pass(10);
    play.join(2);
    put(&mut play, other_work(&usual(4), "v2"));
    drain(&mut play, 1);
    play.pass(5);
    play.fall_silent(1);
    let reason = |play: &Play| play.instance(1).twin().map(|twin| twin.reason);
    assert_eq!(reason(&play), Some(TwinReason::Silent));
    play.come_back(1);
    assert_eq!(reason(&play), Some(TwinReason::Evacuating), "its requests go there");
    assert_eq!((play.runs_on(1).len(), play.runs_on(2).len()), (3, 4));
    play.pass(5);
    assert_eq!((play.runs_on(1).len(), play.runs_on(2).len()), (0, 4));
}

/// The silent machine never came back: its copy stood in the index's place for ever, told to end, and the copy
/// that was to be moved went on as the old version.
#[test]
fn an_update_goes_on_when_a_copy_that_is_to_end_is_on_a_machine_that_vanished() {
    for is_silent_first in [false, true] {
        let mut play = Play::with(1);
        put(&mut play, usual(1));
        play.pass(10);
        play.join(2);
        play.moods.insert(2, Mood::Dawdles);
        drain(&mut play, 1);
        let (old, lost) = (play.instance(0).twin().unwrap().copy.placed.run, play.run_of(0));
        play.moods.insert(2, Mood::Silent);
        put(&mut play, other_work(&usual(1), "v2"));
        play.report(lost, News::Progress(Arc::from(RUNNING)));
        let copy = play.instance(0).copy().unwrap();
        assert_eq!((copy.placed.run, copy.stopping), (lost, Some(StopReason::Update)));
        if is_silent_first {
            play.fall_silent(2);
            assert_eq!(play.run_of(0), lost, "what is drained goes soon");
        }
        assert_eq!(play.ask(Call::Undrain(lock(1))), Answer::Done);
        if !is_silent_first {
            assert_eq!(play.run_of(0), lost, "it may yet end by itself");
            play.fall_silent(2);
        }
        let twin = play.instance(0).twin().expect("it may run");
        assert_eq!((twin.copy.placed.run, twin.reason), (lost, TwinReason::Silent));
        assert!(!play.running.contains_key(&old), "the update replaces it");
        let copy = play.instance(0).copy().unwrap();
        assert_eq!((copy.version, play.worker_of(copy.placed.run)), (1, 1));
        // Whoever comes back is told to end what nobody needs any more.
        play.come_back(2);
        assert!(play.runs_on(2).is_empty() && play.instance(0).twin().is_none());
    }
}

#[test]
fn no_crash_of_a_new_version_ends_the_copies_of_the_one_before() {
    let mut play = Play::with(1);
    put(&mut play, usual(4));
    play.pass(10);
    play.join(2);
    put(&mut play, other_work(&usual(4), "broken"));
    drain(&mut play, 1);
    play.pass(2);
    (1..4).for_each(|index| play.end(play.run_of(index), FAILURE));
    assert_eq!(play.alarms, [Alarm::Reverted(web())]);
    let has_good = |play: &Play, index: u32| {
        play.instance(index).copies().any(|it| it.version == 0 && it.stopping.is_none())
    };
    for _ in 0..30 {
        assert!((1..4).all(|index| has_good(&play, index)));
        play.pass(1);
    }
    assert!(play.runs_on(1).is_empty() && has_good(&play, 0), "all of them are moved");
}

#[test]
fn a_copy_of_the_version_that_comes_back_is_not_ended_for_the_crash_that_brings_it_back() {
    let mut play = Play::with(1);
    put(&mut play, ServiceSpec { wants: wants(50), ..usual(1) });
    let first = play.run_of(0);
    let spec = TaskSpec { wants: wants(95), ..task_spec() };
    play.ask(Call::CreateTask(task("large"), incarnation(1), Arc::new(spec)));
    play.join(2);
    play.moods.insert(2, Mood::Dawdles);
    drain(&mut play, 1);
    put(&mut play, ServiceSpec { wants: wants(5), ..other_work(&usual(1), "broken") });
    for _ in 0..3 {
        assert!(play.running.contains_key(&first));
        play.end(play.run_of(0), FAILURE);
    }
    assert_eq!(play.alarms, [Alarm::Reverted(web())]);
    assert!(play.running.contains_key(&first), "nobody has room for another");
}

#[test]
fn what_is_being_moved_can_be_stopped() {
    let mut play = Play::with(1);
    put(&mut play, service_spec(1));
    drain(&mut play, 1);
    assert_eq!(play.ask(Call::StopInstance(web().instance(0))), Answer::Done);
    assert!(play.running.is_empty());
}

/// What is missing was not counted yet, so that one too many was ended.
#[test]
fn what_stays_when_a_drain_was_lost_lets_no_update_go_on_before_all_is_looked_at() {
    let mut play = Play::with(2);
    let spec = ServiceSpec { wants: wants(60), ..usual(2) };
    put(&mut play, spec.clone());
    play.pass(10);
    let (one, other) = (play.worker_of(play.run_of(0)), play.worker_of(play.run_of(1)));
    play.moods.insert(other, Mood::Ignores);
    assert_eq!(play.ask(Call::StopInstance(web().instance(1))), Answer::Done);
    drain(&mut play, one);
    put(&mut play, other_work(&spec, "v2"));
    assert_eq!(play.instance(0).phase(), P::Unclaimed);
    // A store that was set back to before it.
    play.store.remove(&RowKey::Drain(lock(one)));
    let play = play.change_leader();
    let stopping = |index| play.instance(index).copy().map(|copy| copy.stopping.is_some());
    assert_eq!([0, 1].map(stopping), [Some(false), Some(true)], "one may be missing");
}
