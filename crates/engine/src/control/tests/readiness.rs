//! What runs and takes no requests: it is not there yet, neither for a drain nor for an update.

use std::sync::Arc;

use sterna_model::{
    RunId, Span,
    record::{InstancePhase as P, StopReason, TwinReason},
    spec::{ServiceSpec, UpdatePolicy},
};
use sterna_protocol::message::News;

use super::play::{
    FAILURE, Mood, Play, RUNNING, STOPPED, UNREADY, lock, other_work, service_spec, web,
};
use crate::control::{Alarm, Answer, Call, Next};

const PROBED: &str = r#"{"readiness":{"start_timeout":"60s"}}"#;

fn put(play: &mut Play, spec: ServiceSpec) {
    play.ask(Call::PutService(web(), spec));
}

/// With a readiness probe, and the usual policy of updates.
fn probed(instances: u32) -> ServiceSpec {
    let spec = ServiceSpec { update: UpdatePolicy::default(), ..service_spec(instances) };
    other_work(&spec, PROBED)
}

/// The same in another version.
fn next(instances: u32) -> ServiceSpec {
    other_work(&probed(instances), r#"{"readiness":{"start_timeout":"60s"},"run":["b"]}"#)
}

/// What is started from now on runs when a test says so.
fn dawdle(play: &mut Play) {
    for worker in play.moods.clone().into_keys() {
        play.moods.insert(worker, Mood::Dawdles);
    }
}

fn say(play: &mut Play, run: RunId, said: &[u8]) {
    play.report(run, News::Progress(Arc::from(said)));
}

fn drain(play: &mut Play, worker: u8) {
    let deadline = play.now.wall.plus(Span::from_secs(600));
    assert_eq!(play.ask(Call::Drain(lock(worker), deadline)), Answer::Done);
}

/// One instance that runs and is moved, and whose next copy runs and says this: both runs.
fn moved(said: &[u8]) -> (Play, RunId, RunId) {
    let mut play = Play::with(2);
    put(&mut play, probed(1));
    let first = play.run_of(0);
    let worker = play.worker_of(first);
    dawdle(&mut play);
    drain(&mut play, worker);
    let second = play.run_of(0);
    say(&mut play, second, said);
    (play, first, second)
}

#[test]
fn a_copy_that_is_moved_goes_on_until_the_next_one_is_ready() {
    let (mut play, first, second) = moved(UNREADY);
    assert_eq!(play.phases(), [(0, P::Running)]);
    assert!(play.running.contains_key(&first), "nobody else takes requests");
    assert_eq!(play.instance(0).twin().unwrap().copy.stopping, None);
    play.pass(599);
    say(&mut play, second, RUNNING);
    assert!(!play.running.contains_key(&first));
    assert!(play.instance(0).twin().is_none(), "no twin is left behind");
}

#[test]
fn a_copy_that_is_moved_ends_when_the_next_one_crashes_or_its_drain_is_over() {
    let (mut play, first, second) = moved(UNREADY);
    for _ in 0..3 {
        let run = play.instance(0).copy().map(|copy| copy.placed.run);
        run.into_iter().for_each(|run| play.end(run, FAILURE));
    }
    assert!(!play.running.contains_key(&first) && !play.running.contains_key(&second));
    let (mut play, first, second) = moved(UNREADY);
    play.pass(600);
    assert!(!play.running.contains_key(&first), "a drain always ends");
    assert!(play.running.contains_key(&second));
}

#[test]
fn a_copy_that_is_not_ready_itself_keeps_no_drain_waiting() {
    let (mut play, first, _) = moved(UNREADY);
    say(&mut play, first, UNREADY);
    assert!(!play.running.contains_key(&first), "neither takes requests");
}

#[test]
fn a_copy_that_takes_the_requests_of_another_does_so_when_its_machine_is_drained_no_longer() {
    let (mut play, first, second) = moved(UNREADY);
    let worker = play.worker_of(first);
    assert_eq!(play.ask(Call::Undrain(lock(worker))), Answer::Done);
    assert!(play.running.contains_key(&first));
    assert_eq!(play.instance(0).twin().map(|twin| twin.reason), Some(TwinReason::Evacuating));
    say(&mut play, second, RUNNING);
    assert!(!play.running.contains_key(&first));
    assert_eq!(play.run_of(0), second);
}

#[test]
fn a_copy_whose_machine_is_drained_no_longer_has_its_place_again_when_the_next_one_is_gone() {
    let (mut play, first, second) = moved(UNREADY);
    let worker = play.worker_of(first);
    assert_eq!(play.ask(Call::Undrain(lock(worker))), Answer::Done);
    play.end(second, STOPPED);
    assert_eq!(play.run_of(0), first, "nobody is silent or drained, so that there is no other");
    assert_eq!(play.phases(), [(0, P::Running)]);
    assert!(play.instance(0).twin().is_none());
    assert_eq!(play.running.len(), 1);
}

/// Both were ended, and nobody took requests.
#[test]
fn no_copy_ends_for_one_that_is_being_ended_itself() {
    let (mut play, first, second) = moved(UNREADY);
    let (worker, other) = (play.worker_of(first), play.worker_of(second));
    play.fall_silent(worker);
    say(&mut play, second, RUNNING);
    play.moods.insert(other, Mood::Ignores);
    let deadline = play.now.wall.plus(Span::from_secs(20));
    assert_eq!(play.ask(Call::Drain(lock(other), deadline)), Answer::Done);
    play.pass(10);
    let stopping = |play: &Play| play.instance(0).copy().and_then(|copy| copy.stopping);
    assert_eq!(stopping(&play), Some(StopReason::Drain));
    play.come_back(worker);
    assert_eq!(play.instance(0).twin().map(|twin| twin.copy.stopping), Some(None));
    play.end(second, STOPPED);
    assert!(play.running.contains_key(&first));
}

/// A second copy was started beside one that ran on a machine that was neither silent nor drained.
#[test]
fn a_version_that_crashes_after_an_undrain_finds_the_copy_of_the_one_before_in_its_place() {
    for (revert_after, is_late) in [(Some(3), false), (None, false), (None, true)] {
        let update = UpdatePolicy { revert_after, ..UpdatePolicy::default() };
        let mut play = Play::with(1);
        put(&mut play, ServiceSpec { update, ..probed(1) });
        let first = play.run_of(0);
        drain(&mut play, 1);
        put(&mut play, ServiceSpec { update, ..next(1) });
        play.join(2);
        dawdle(&mut play);
        for crashes in 0..3 {
            let run = play.run_of(0);
            assert_ne!(run, first);
            say(&mut play, run, UNREADY);
            if crashes == 2 && !is_late {
                assert_eq!(play.ask(Call::Undrain(lock(1))), Answer::Done);
            }
            assert_eq!(play.running.len(), 2);
            play.end(run, FAILURE);
        }
        if is_late {
            // What waits after its crash goes on waiting.
            assert_eq!(play.ask(Call::Undrain(lock(1))), Answer::Done);
            assert_eq!(play.phases(), [(0, P::Crashed)]);
        }
        if revert_after.is_some() {
            assert_eq!((play.phases(), play.run_of(0)), (vec![(0, P::Running)], first));
            assert_eq!(play.running.len(), 1);
        } else {
            assert_eq!(play.phases(), [(0, P::Crashed)]);
            play.pass(30);
            assert!(!play.running.contains_key(&first), "the update goes on, one after the other");
            assert_eq!(play.running.len(), 1);
        }
    }
}

/// Three instances of a version that runs, and one of the next that says this: its index.
fn updated(said: &[u8]) -> (Play, u32) {
    let mut play = Play::with(3);
    put(&mut play, probed(3));
    play.pass(10);
    dawdle(&mut play);
    put(&mut play, next(3));
    let index = (0..3).find(|index| play.instance(*index).phase() == P::Claimed).unwrap();
    let run = play.run_of(index);
    say(&mut play, run, said);
    (play, index)
}

fn of_the_next(play: &Play) -> usize {
    let is_next = |index: &u32| play.instance(*index).copy().is_some_and(|copy| copy.version == 1);
    (0..3).filter(is_next).count()
}

fn is_updating(play: &Play) -> bool {
    play.control.service(&web()).unwrap().before.is_some()
}

#[test]
fn an_update_waits_until_its_instance_is_ready() {
    let (mut play, index) = updated(UNREADY);
    play.pass(50);
    assert_eq!(of_the_next(&play), 1, "it runs for long enough, and takes no requests");
    let run = play.run_of(index);
    say(&mut play, run, RUNNING);
    assert_eq!(of_the_next(&play), 2, "it goes on at once");
}

#[test]
fn an_update_waits_for_one_that_is_ready_no_more() {
    let (mut play, index) = updated(RUNNING);
    let run = play.run_of(index);
    play.pass(9);
    say(&mut play, run, UNREADY);
    play.pass(1);
    assert_eq!(of_the_next(&play), 1);
    say(&mut play, run, RUNNING);
    assert_eq!(of_the_next(&play), 2);
}

#[test]
fn a_version_that_is_never_ready_is_taken_back_when_that_has_counted_often_enough() {
    let (mut play, index) = updated(UNREADY);
    let run = play.run_of(index);
    for _ in 0..2 {
        play.pass(60);
        assert!(is_updating(&play) && play.running.contains_key(&run), "it is not ended for that");
    }
    play.pass(59);
    assert!(play.alarms.is_empty());
    play.pass(1);
    assert_eq!(play.alarms, [Alarm::Reverted(web())]);
    assert!(!play.running.contains_key(&run));
    assert_eq!(of_the_next(&play), 0);
    let taken = play.control.service(&web()).unwrap().taken_back.clone().unwrap();
    assert_eq!((taken.index, &*taken.why), (index, "it was not ready for 1m"));
}

#[test]
fn to_be_ready_meanwhile_begins_the_time_anew_and_the_next_leader_does() {
    let (mut play, index) = updated(UNREADY);
    let run = play.run_of(index);
    let crashes = |play: &Play| play.control.service(&web()).unwrap().crashes;
    play.pass(59);
    say(&mut play, run, RUNNING);
    say(&mut play, run, UNREADY);
    play.pass(59);
    assert_eq!(crashes(&play), 0);
    let mut play = play.change_leader();
    play.pass(59);
    assert_eq!(crashes(&play), 0);
    play.pass(1);
    assert_eq!(crashes(&play), 1);
}

#[test]
fn what_has_no_readiness_probe_or_is_never_taken_back_counts_nothing() {
    for (work, revert_after) in [(r#"{"run":["b"]}"#, Some(1)), (PROBED, None)] {
        let mut play = Play::with(2);
        let update = UpdatePolicy { revert_after, ..UpdatePolicy::default() };
        let old = ServiceSpec { update, ..service_spec(1) };
        put(&mut play, old.clone());
        dawdle(&mut play);
        put(&mut play, other_work(&ServiceSpec { instances: 2, ..old }, work));
        for index in 0..2 {
            let run = play.run_of(index);
            say(&mut play, run, UNREADY);
        }
        play.pass(3_600);
        assert!(play.alarms.is_empty() && is_updating(&play));
    }
}

fn why(play: &mut Play, index: u32) -> (String, &'static str, Next) {
    let why = play.why(web().instance(index)).expect("it is kept");
    (why.rule.to_string(), why.rule.name(), why.next)
}

#[test]
fn what_is_not_ready_says_so() {
    let mut play = Play::with(2);
    put(&mut play, probed(1));
    assert_eq!(play.why(web().instance(0)), None);
    let run = play.run_of(0);
    say(&mut play, run, UNREADY);
    let says = "it runs, but its readiness probe does not succeed yet, so it takes no requests";
    assert_eq!(why(&mut play, 0), (says.to_owned(), "not-ready", Next::WhenReady));
    let (mut play, index) = updated(UNREADY);
    let at = play.now.wall.plus(Span::from_secs(60));
    let (text, _, then) = why(&mut play, index);
    let more = "; the update waits for it; each 1m of that counts as a crash, and 3 more roll the version back";
    assert_eq!((text, then), (format!("{says}{more}"), Next::CountsAt(at)));
    let (other, rule, then) = why(&mut play, (index + 1) % 3);
    assert_eq!((rule, then), ("outdated", Next::WhenServing), "{other}");
    let (mut play, first, _) = moved(UNREADY);
    let worker = play.worker_of(first);
    let says = format!("and its copy on w{worker} takes requests meanwhile");
    assert!(why(&mut play, 0).0.ends_with(&says), "{:?}", why(&mut play, 0));
}

/// It was said to wait for a probe that it has not.
#[test]
fn what_its_worker_ends_by_itself_waits_for_no_probe() {
    let mut play = Play::with(1);
    put(&mut play, service_spec(1));
    let run = play.run_of(0);
    say(&mut play, run, UNREADY);
    let (text, rule, next) = why(&mut play, 0);
    assert!(
        text.contains("its worker is ending it") && text.contains("without a readiness probe"),
        "{text}"
    );
    assert_eq!((rule, next), ("not-ready", Next::WhenTold));
}

#[test]
fn what_is_ended_is_told_as_that_though_it_is_not_ready() {
    let mut play = Play::with(1);
    put(&mut play, probed(1));
    play.moods.insert(1, Mood::Ignores);
    play.ask(Call::StopInstance(web().instance(0)));
    let run = play.run_of(0);
    say(&mut play, run, UNREADY);
    assert_eq!(play.instance(0).copy().unwrap().stopping, Some(StopReason::Asked));
    assert_eq!(why(&mut play, 0).1, "stopping");
}
