//! Drains: what moves, what waits, and that they end.

use std::{collections::BTreeMap, sync::Arc};

use sterna_model::{
    Contract, RunId, Span, WallTime, WorkKey,
    record::{InstancePhase as P, StopReason, TaskEnd, TwinReason},
    spec::{ServiceSpec, TaskSpec},
};
use sterna_protocol::{
    message::{Held, News, Status},
    scheduler,
};

use super::play::{
    FAILURE, Mood, Play, RUNNING, SUCCESS, enrolled, incarnation, life, lock, name, service_spec,
    task, task_spec, web,
};
use crate::control::{Answer, Call, Fate, Row, RowKey};

fn drain(play: &mut Play, worker: u8) {
    let deadline = play.now.wall.plus(Span::from_secs(600));
    assert_eq!(play.ask(Call::Drain(lock(worker), deadline)), Answer::Done);
}

#[test]
fn step_e2_a_copy_that_runs_goes_on_until_another_does() {
    let mut play = Play::with(1);
    play.ask(Call::PutService(web(), service_spec(1)));
    let first = play.run_of(0);
    drain(&mut play, 1);
    let twin = play.instance(0).twin().unwrap();
    assert_eq!((twin.reason, twin.copy.placed.run), (TwinReason::Evacuating, first));
    assert_eq!(twin.copy.stopping, None, "nobody else has room");
    assert_eq!(play.phases(), [(0, P::Unclaimed)]);
    play.join(2);
    assert_eq!(play.phases(), [(0, P::Running)]);
    assert_ne!(play.run_of(0), first);
    assert!(!play.running.contains_key(&first), "its replacement runs");
    assert!(play.instance(0).twin().is_none(), "no twin is left behind");
}

#[test]
fn step_e9_a_copy_that_has_not_moved_stays_when_its_machine_is_drained_no_longer() {
    let mut play = Play::with(1);
    play.ask(Call::PutService(web(), service_spec(1)));
    let first = play.run_of(0);
    drain(&mut play, 1);
    assert_eq!(play.ask(Call::Undrain(lock(1))), Answer::Done);
    assert_eq!((play.phases(), play.run_of(0)), (vec![(0, P::Running)], first));
    assert_eq!(play.instance(0).twin(), None);
    play.join(2);
    assert_eq!(play.starts.len(), 1, "nothing is started beside it");
}

#[test]
fn step_e5_a_copy_that_evacuates_ends_when_its_replacement_has_crashed() {
    let mut play = Play::with(2);
    play.moods.insert(2, Mood::Dawdles);
    play.moods.insert(1, Mood::Dawdles);
    let mut spec = service_spec(1);
    spec.crash.wait_from = 1;
    play.ask(Call::PutService(web(), spec));
    let first = play.run_of(0);
    let worker = play.worker_of(first);
    play.report(first, News::Progress(Arc::from(RUNNING)));
    drain(&mut play, worker);
    let second = play.run_of(0);
    play.end(second, FAILURE);
    assert!(!play.running.contains_key(&first));
    assert_eq!(play.phases(), [(0, P::Crashed)]);
}

#[test]
fn step_e3_a_copy_that_is_starting_ends_and_starts_elsewhere() {
    let mut play = Play::with(1);
    play.moods.insert(1, Mood::Dawdles);
    play.ask(Call::PutService(web(), service_spec(1)));
    play.join(2);
    drain(&mut play, 1);
    assert_eq!(play.phases(), [(0, P::Running)]);
    assert_eq!(play.worker_of(play.run_of(0)), 2);
    assert!(play.runs_on(1).is_empty());
    assert_eq!(play.instance(0).crashes().count, 0);
}

#[test]
fn step_e4_copies_that_must_not_overlap_end_first() {
    for contract in [Contract::Keep, Contract::Stop { after: Span::from_secs(120) }] {
        let mut play = Play::with(1);
        play.ask(Call::PutService(web(), ServiceSpec { contract, ..service_spec(1) }));
        let first = play.run_of(0);
        play.join(2);
        play.moods.insert(1, Mood::Silent);
        drain(&mut play, 1);
        assert_eq!(play.starts.len(), 1, "the first may still be running");
        play.moods.insert(1, Mood::Obeys);
        play.end(first, super::play::STOPPED);
        assert_eq!(play.worker_of(play.run_of(0)), 2);
    }
}

#[test]
fn step_e7_tasks_run_on_until_the_drain_is_nearly_over_and_end_with_its_reason() {
    let mut play = Play::with(1);
    play.ask(Call::CreateTask(task("build"), incarnation(1), Arc::new(task_spec())));
    drain(&mut play, 1);
    play.pass(589);
    assert_eq!(play.running.len(), 1);
    play.pass(1);
    assert!(play.running.is_empty());
    let end = play.record(&task("build")).end().unwrap();
    assert_eq!(end, &TaskEnd::Drained);
    assert_eq!(end.to_string(), "ended: its worker was drained and the deadline passed");
}

#[test]
fn step_e8_a_drain_ends_instances_at_its_deadline_though_nobody_else_has_room() {
    let mut play = Play::with(1);
    play.ask(Call::PutService(web(), service_spec(2)));
    drain(&mut play, 1);
    assert_eq!(play.running.len(), 2);
    play.pass(600);
    assert!(play.running.is_empty());
    assert_eq!(play.phases(), [(0, P::Unclaimed), (1, P::Unclaimed)]);
    assert_eq!(play.ask(Call::Undrain(lock(1))), Answer::Done);
    assert_eq!(play.running.len(), 2, "it takes work again");
    assert_eq!(play.ask(Call::Undrain(lock(1))), Answer::Already);
}

#[test]
fn step_e1_a_drained_worker_gets_no_work() {
    let mut play = Play::with(1);
    drain(&mut play, 1);
    play.ask(Call::CreateTask(task("build"), incarnation(1), Arc::new(task_spec())));
    assert!(play.starts.is_empty());
    play.ask(Call::Undrain(lock(1)));
    assert_eq!(play.starts.len(), 1);
}

#[test]
fn a_drain_and_its_deadline_outlive_their_leader() {
    let mut play = Play::with(1);
    play.ask(Call::PutService(web(), service_spec(1)));
    drain(&mut play, 1);
    play.pass(300);
    let mut play = play.change_leader();
    assert_eq!(play.running.len(), 1);
    play.ask(Call::CreateTask(task("build"), incarnation(1), Arc::new(task_spec())));
    assert_eq!(play.starts.len(), 1, "it gets no work");
    play.pass(300);
    assert!(play.running.is_empty());
}

#[test]
fn a_service_that_is_scaled_down_while_it_evacuates_leaves_nothing_behind() {
    let mut play = Play::with(1);
    play.ask(Call::PutService(web(), service_spec(2)));
    drain(&mut play, 1);
    play.ask(Call::PutService(web(), service_spec(1)));
    assert_eq!(play.running.len(), 1);
    play.ask(Call::DeleteService(web()));
    assert!(play.running.is_empty() && play.phases().is_empty());
}

#[test]
fn a_machine_that_nobody_knows_is_not_drained() {
    let mut play = Play::with(1);
    let deadline = play.now.wall;
    assert_eq!(play.ask(Call::Drain(lock(9), deadline)), Answer::NotFound);
}

#[test]
fn step_e6_a_worker_that_is_drained_twice_over_moves_its_instance_twice() {
    let mut play = Play::with(3);
    play.ask(Call::PutService(web(), service_spec(1)));
    for _ in 0..2 {
        let worker = play.worker_of(play.run_of(0));
        drain(&mut play, worker);
        assert_eq!(play.phases(), [(0, P::Running)]);
        assert!(play.runs_on(worker).is_empty());
    }
}

#[test]
fn what_does_not_heed_a_drain_is_killed_at_its_deadline() {
    for contract in [Contract::Replace { after: Span::from_secs(15) }, Contract::Keep] {
        let mut play = Play::with(1);
        play.moods.insert(1, Mood::Ignores);
        play.ask(Call::PutService(web(), ServiceSpec { contract, ..service_spec(2) }));
        play.ask(Call::CreateTask(task("build"), incarnation(1), Arc::new(task_spec())));
        drain(&mut play, 1);
        play.pass(599);
        assert_eq!(play.runs_on(1).len(), 3);
        play.pass(1);
        assert!(play.runs_on(1).is_empty(), "{contract:?}");
    }
}

/// A drain of ten minutes with a task and an instance that nobody else could have, both of this work: what
/// runs there, and what it was asked, at each of these seconds.
fn drained(work: &str, seconds: &[u64]) -> Vec<(usize, Vec<String>)> {
    let mut play = Play::with(1);
    let work: Arc<[u8]> = Arc::from(work.as_bytes());
    let spec = ServiceSpec { work: Arc::clone(&work), ..service_spec(1) };
    play.ask(Call::PutService(web(), spec));
    let spec = TaskSpec { work, ..task_spec() };
    play.ask(Call::CreateTask(task("build"), incarnation(1), Arc::new(spec)));
    drain(&mut play, 1);
    let mut passed = 0;
    let mut seen = Vec::new();
    for at in seconds {
        play.pass(at - passed);
        passed = *at;
        let left = play.running.values().map(|(_, key)| key.to_string()).collect();
        seen.push((play.runs_on(1).len(), left));
    }
    seen
}

#[test]
fn what_is_on_a_drained_machine_has_its_grace_before_the_deadline() {
    let left = |work: &str, seconds: &[u64]| {
        drained(work, seconds).into_iter().map(|(count, _)| count).collect::<Vec<_>>()
    };
    assert_eq!(left("{}", &[589, 590]), [2, 0], "what a worker takes for granted");
    assert_eq!(left(r#"{"signals":{"grace":null}}"#, &[589, 590]), [2, 0], "who may take for ever");
    let patient = drained(r#"{"signals":{"grace":"2m"}}"#, &[479, 480, 539, 540]);
    let instance = vec!["default/service/web/0".to_owned()];
    assert_eq!(patient[0].0, 2);
    assert_eq!(patient[1], (1, instance.clone()), "the task has its whole grace");
    assert_eq!(
        patient[2],
        (1, instance),
        "for the instance another may come until a minute before"
    );
    assert_eq!(patient[3].0, 0);
}

/// What could move ended when a drain began that was shorter than its grace.
#[test]
fn what_could_move_is_not_asked_in_the_first_half_of_a_drain() {
    let mut play = Play::with(2);
    let work = Arc::from(*br#"{"signals":{"grace":"30s"}}"#);
    play.ask(Call::PutService(web(), ServiceSpec { work, ..service_spec(1) }));
    let run = play.run_of(0);
    let worker = play.worker_of(run);
    for worker in [1, 2] {
        play.moods.insert(worker, Mood::Dawdles);
    }
    let deadline = play.now.wall.plus(Span::from_secs(20));
    play.ask(Call::Drain(lock(worker), deadline));
    play.pass(9);
    let twin = |play: &Play| play.instance(0).twin().map(|twin| twin.copy.stopping);
    assert_eq!(twin(&play), Some(None), "another is about to come for it");
    // What is asked anew goes by when the drain began.
    play.ask(Call::Drain(lock(worker), deadline.plus(Span::from_secs(1))));
    assert_eq!(twin(&play), Some(None));
    play.pass(2);
    assert_eq!(twin(&play), None, "it had half of the drain to end in, and did");
    assert!(!play.running.contains_key(&run));
}

/// One that a clock had set that was ahead had no half: they were killed without their grace.
#[test]
fn a_drain_that_is_repeated_when_a_clock_was_ahead_leaves_half_of_it_to_end_in() {
    let mut play = Play::with(1);
    let work = Arc::from(*br#"{"signals":{"grace":"30s"}}"#);
    play.ask(Call::PutService(web(), ServiceSpec { work, ..service_spec(1) }));
    let right = play.now.wall;
    play.now.wall = right.plus(Span::from_secs(1_200));
    play.ask(Call::Drain(lock(1), play.now.wall.plus(Span::from_secs(600))));
    play.now.wall = right;
    play.ask(Call::Drain(lock(1), right.plus(Span::from_secs(600))));
    play.pass(569);
    assert_eq!(play.runs_on(1).len(), 1);
    play.pass(1);
    assert!(play.runs_on(1).is_empty());
}

/// A leader that had not asked itself set a timer for it, when its clock was set back.
#[test]
fn what_was_asked_to_end_by_another_leader_is_asked_no_second_time() {
    let mut play = Play::with(1);
    play.moods.insert(1, Mood::Ignores);
    play.ask(Call::PutService(web(), service_spec(1)));
    drain(&mut play, 1);
    play.pass(590);
    assert!(play.instance(0).copies().all(|copy| copy.stopping.is_some()));
    play.moods.insert(1, Mood::Silent);
    let mut play = play.change_leader();
    play.now.wall = play.now.wall.minus(Span::from_secs(300));
    assert_eq!(play.control.sweep(play.now), Vec::<String>::new());
}

/// It was asked when its grace was left, and its worker lets it answer for longer before it says so to it.
#[test]
fn what_is_starting_when_a_drain_begins_has_its_linger_too() {
    let mut play = Play::with(1);
    play.moods.insert(1, Mood::Dawdles);
    let work = Arc::from(*br#"{"signals":{"grace":"6s","linger":"8s"}}"#);
    let spec = TaskSpec { work, ..task_spec() };
    play.ask(Call::CreateTask(task("build"), incarnation(1), Arc::new(spec)));
    let run = play.runs_on(1)[0];
    play.ask(Call::Drain(lock(1), play.now.wall.plus(Span::from_secs(60))));
    play.report(run, News::Progress(Arc::from(RUNNING)));
    play.pass(45);
    assert_eq!(play.runs_on(1).len(), 1);
    play.pass(1);
    assert!(play.runs_on(1).is_empty(), "it is asked fourteen seconds before");
}

#[test]
fn who_is_heard_late_in_a_drain_is_asked_to_end_at_once_and_under_a_new_leader_too() {
    for changes_leader in [false, true] {
        let mut play = Play::with(1);
        play.ask(Call::CreateTask(task("build"), incarnation(1), Arc::new(task_spec())));
        drain(&mut play, 1);
        play.moods.insert(1, Mood::Silent);
        play.pass(595);
        if changes_leader {
            play = play.change_leader();
        }
        play.moods.insert(1, Mood::Obeys);
        play.heard(1);
        assert!(play.runs_on(1).is_empty(), "{changes_leader}");
        assert_eq!(play.record(&task("build")).end(), Some(&TaskEnd::Drained));
    }
}

#[test]
fn who_is_drained_no_longer_is_asked_nothing() {
    let mut play = Play::with(1);
    play.ask(Call::CreateTask(task("build"), incarnation(1), Arc::new(task_spec())));
    drain(&mut play, 1);
    play.ask(Call::Undrain(lock(1)));
    play.pass(700);
    assert_eq!(play.runs_on(1).len(), 1);
}

#[test]
fn a_worker_that_is_back_after_the_deadline_of_its_drain_keeps_nothing() {
    let mut play = Play::with(1);
    play.ask(Call::PutService(web(), service_spec(1)));
    drain(&mut play, 1);
    play.moods.insert(1, Mood::Silent);
    play.pass(601);
    assert_eq!(play.runs_on(1).len(), 1);
    play.moods.insert(1, Mood::Ignores);
    play.heard(1);
    assert!(play.runs_on(1).is_empty());
}

#[test]
fn the_end_of_a_drain_does_not_end_a_task_that_runs_elsewhere_for_a_stray_run_of_its_name() {
    let mut play = Play::with(2);
    play.ask(Call::CreateTask(task("build"), incarnation(1), Arc::new(task_spec())));
    let run = *play.running.keys().next().unwrap();
    let other = 3 - play.worker_of(run);
    play.moods.insert(other, Mood::Ignores);
    let stray = Held {
        run: RunId::from_parts(WallTime::EPOCH, [99; 10]),
        key: task("build").to_work(),
        task: Some(incarnation(1)),
        contract: Contract::Keep,
        status: None,
    };
    let gone = stray.run;
    play.found(other, stray);
    let fates = play.forecast(lock(other));
    assert_eq!(fates.iter().map(|one| &one.fate).collect::<Vec<_>>(), [&Fate::Ending]);
    drain(&mut play, other);
    play.pass(600);
    assert!(!play.running.contains_key(&gone), "it is killed");
    assert!(play.running.contains_key(&run), "and this is another one");
    assert_eq!(play.record(&task("build")).end(), None);
}

/// The fleet had said that it may go before it heard that.
#[test]
fn who_is_declared_dead_while_it_is_struck_stays_on_the_roster() {
    let mut play = Play::with(1);
    play.news(scheduler::Effect::Enroll(enrolled(2)));
    assert_eq!(play.ask(Call::DeclareDead(lock(2))), Answer::Done);
    play.news(scheduler::Effect::Strike(life(2)));
    let Some(Row::Roster(_, Some(entry))) = play.store.get(&RowKey::Roster(lock(2))) else {
        panic!("somebody was told that it is done");
    };
    assert!(entry.is_declared_dead);
}

#[test]
fn the_drain_of_a_machine_that_is_gone_is_forgotten_a_day_after_its_deadline() {
    let (day, key) = (24 * 3_600, RowKey::Drain(lock(2)));
    let entry = enrolled(2);
    for (strikes_at, changes_leader) in [(10, false), (10, true), (700, false), (700, true)] {
        let mut play = Play::with(2);
        play.news(scheduler::Effect::Enroll(entry.clone()));
        drain(&mut play, 2);
        play.pass(strikes_at);
        play.moods.insert(2, Mood::Silent);
        play.news(scheduler::Effect::Strike(life(2)));
        if changes_leader {
            play = play.change_leader();
        }
        play.pass(600 + day - strikes_at - 1);
        assert!(play.store.contains_key(&key), "who comes back is drained");
        play.pass(1);
        assert!(!play.store.contains_key(&key), "{strikes_at}, {changes_leader}");
        // One that is there stays drained.
        drain(&mut play, 1);
        play.pass(600 + 2 * day);
        assert!(play.store.contains_key(&RowKey::Drain(lock(1))));
    }
}

fn held(key: WorkKey, contract: Contract) -> Held {
    let run = RunId::from_parts(WallTime::EPOCH, [99; 10]);
    let incarnation = key.task().is_some().then(|| incarnation(1));
    Held { run, key, task: incarnation, contract, status: None }
}

/// Drains the only worker, and lets the deadline pass.
fn drain_whole(play: &mut Play) {
    drain(play, 1);
    play.pass(601);
    play.moods.insert(1, Mood::Ignores);
}

#[test]
fn what_is_found_on_a_drained_machine_after_the_deadline_is_ended() {
    // A task that waits.
    let mut play = Play::with(1);
    drain_whole(&mut play);
    play.ask(Call::CreateTask(task("build"), incarnation(1), Arc::new(task_spec())));
    play.found(1, held(task("build").to_work(), task_spec().contract));
    assert!(play.running.is_empty(), "it was adopted, and nobody came back to it");
    assert_eq!(play.record(&task("build")).end(), Some(&TaskEnd::Drained));
    // One that a restored store does not know.
    let mut play = Play::begin(BTreeMap::new(), WallTime::EPOCH, 2, true);
    play.join(1);
    drain_whole(&mut play);
    play.found(1, held(task("build").to_work(), task_spec().contract));
    assert!(play.running.is_empty());
    // A copy that a stale domain does not want.
    let mut play = Play::with(1);
    let domain = name("apps");
    play.ask(Call::PutService(web(), ServiceSpec { domain, ..service_spec(1) }));
    drain_whole(&mut play);
    play.found(1, held(web().instance(5).to_work(), service_spec(1).contract));
    assert!(play.running.is_empty());
}

/// It has ended, and says so next: that is how it ended.
#[test]
fn what_is_found_over_on_a_drained_machine_is_not_called_drained() {
    let mut play = Play::with(1);
    drain_whole(&mut play);
    play.ask(Call::CreateTask(task("build"), incarnation(1), Arc::new(task_spec())));
    let mut held = held(task("build").to_work(), task_spec().contract);
    let run = held.run;
    held.status = Some(Status { number: 1, run, news: News::Ended(Arc::from(SUCCESS)) });
    // Both come in one message.
    play.is_storing = false;
    play.found(1, held);
    play.end(run, SUCCESS);
    play.is_storing = true;
    play.store_all();
    assert!(play.record(&task("build")).end().is_some_and(TaskEnd::is_success));
}

#[test]
fn a_twin_that_is_to_end_does_not_take_the_place_of_a_copy_that_starts() {
    let mut play = Play::with(1);
    play.ask(Call::PutService(web(), service_spec(1)));
    let first = play.run_of(0);
    play.moods.insert(1, Mood::Ignores);
    play.join(2);
    drain(&mut play, 1);
    let second = play.run_of(0);
    assert_eq!(play.instance(0).twin().unwrap().copy.stopping, Some(StopReason::Elsewhere));
    play.moods.insert(2, Mood::Dawdles);
    play.end(second, FAILURE);
    let third = play.run_of(0);
    assert_eq!(play.phases(), [(0, P::Claimed)]);
    play.ask(Call::Undrain(lock(1)));
    assert_eq!((play.run_of(0), play.phases()), (third, vec![(0, P::Claimed)]));
    assert!(play.running.contains_key(&third), "the first one was told to end");
    assert_eq!(play.instance(0).twin().map(|twin| twin.reason), Some(TwinReason::Surplus));
    play.end(first, super::play::STOPPED);
    assert_eq!(play.instance(0).twin(), None);
}

/// Nothing excuses two copies any more: the next one waits until this one is gone.
#[test]
fn a_twin_that_is_to_end_and_is_heard_again_has_nothing_started_beside_it() {
    let mut play = Play::with(1);
    play.ask(Call::PutService(web(), service_spec(1)));
    let first = play.run_of(0);
    play.moods.insert(1, Mood::Ignores);
    assert_eq!(play.ask(Call::StopInstance(web().instance(0))), Answer::Done);
    play.fall_silent(1);
    play.moods.insert(1, Mood::Ignores);
    play.heard(1);
    play.join(2);
    assert_eq!(play.starts.len(), 1, "the first may still be running");
    play.end(first, super::play::STOPPED);
    assert_eq!((play.starts.len(), play.phases()), (2, vec![(0, P::Running)]));
}

/// Nobody knew that at the deadline.
#[test]
fn a_task_that_had_ended_unheard_when_it_was_called_drained_says_how() {
    let mut play = Play::with(1);
    play.ask(Call::CreateTask(task("build"), incarnation(1), Arc::new(task_spec())));
    let run = play.runs_on(1)[0];
    play.moods.insert(1, Mood::Silent);
    drain(&mut play, 1);
    play.pass(600);
    assert_eq!(play.record(&task("build")).end(), Some(&TaskEnd::Drained), "a drain ends");
    let mut play = play.change_leader();
    play.end(run, SUCCESS);
    let record = play.record(&task("build"));
    assert!(record.end().is_some_and(TaskEnd::is_success), "{record:?}");
    assert!(record.placed().is_none());
}

#[test]
fn a_task_that_a_drain_has_stopped_stays_drained() {
    let mut play = Play::with(1);
    play.ask(Call::CreateTask(task("build"), incarnation(1), Arc::new(task_spec())));
    let run = play.runs_on(1)[0];
    play.moods.insert(1, Mood::Silent);
    drain(&mut play, 1);
    play.pass(600);
    play.end(run, super::play::STOPPED);
    let record = play.record(&task("build"));
    assert_eq!(record.end(), Some(&TaskEnd::Drained));
    assert!(record.placed().is_none());
}

/// Until it was gone it was counted as one that serves, and an update ended another beside it.
#[test]
fn what_the_end_of_a_drain_ends_is_missing_at_once() {
    let mut play = Play::with(2);
    play.ask(Call::PutService(web(), service_spec(2)));
    let first = play.run_of(0);
    let (from, to) = if play.worker_of(first) == 1 { (1, 2) } else { (2, 1) };
    play.fall_silent(from);
    assert_eq!(play.worker_of(play.run_of(0)), to, "another is beside the silent one");
    drain(&mut play, to);
    let own = play.run_of(0);
    assert_eq!(play.instance(0).copy().unwrap().stopping, None, "its twin's slot is taken");
    // Nobody hears that it is to end, and a sweep would hide what was not noted.
    play.moods.insert(to, Mood::Silent);
    play.is_storing = false;
    play.pass(600);
    let known = play.control.services.get(&web()).unwrap();
    assert!(known.missing.contains(&0), "{own} is being ended");
}
