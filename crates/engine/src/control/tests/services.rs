//! Services: every index by itself, crashes, silent workers, twins.

use std::sync::Arc;

use sterna_model::{
    Contract, RunId, ServiceKey, Span, WallTime,
    record::{InstancePhase as P, InstanceState, TwinReason},
    spec::{ServiceSpec, UpdatePolicy},
};
use sterna_protocol::{
    message::{Held, News, RunRefusal, StatusAnswer},
    scheduler::{GoneBy, Settlement},
};

use super::play::{FAILURE, Mood, Play, RUNNING, life, name, other_work, service_spec, wants, web};
use crate::control::{Alarm, Answer, Call, Input, RowKey};

fn put(spec: ServiceSpec) -> Call {
    Call::PutService(web(), spec)
}

fn running(count: u32) -> Vec<(u32, P)> {
    (0..count).map(|index| (index, P::Running)).collect()
}

#[test]
fn a_service_runs_exactly_its_indices_however_it_is_scaled() {
    let mut play = Play::with(3);
    for instances in [2, 3, 1, 0, 4] {
        assert_eq!(play.ask(put(service_spec(instances))), Answer::Done);
        assert_eq!(play.phases(), running(instances));
        assert_eq!(play.running.len(), instances as usize);
    }
    assert_eq!(play.ask(put(service_spec(4))), Answer::Already);
    assert_eq!(play.ask(Call::DeleteService(web())), Answer::Done);
    assert!(play.phases().is_empty() && play.running.is_empty());
    assert_eq!(play.ask(Call::DeleteService(web())), Answer::NotFound);
}

#[test]
fn hole_1_missing_and_extra_are_judged_by_index_and_not_by_count() {
    // Two are wanted, and two are there: 1 and 2.
    let mut play = Play::with(3);
    play.ask(put(service_spec(3)));
    let mut store = play.store.clone();
    store.remove(&RowKey::Instance(web().instance(0)));
    let spec = Arc::new(crate::control::ServiceRecord {
        spec: service_spec(2),
        version: 0,
        highest: 0,
        before: None,
        crashes: 0,
        taken_back: None,
    });
    let key = RowKey::Service(web());
    store.insert(key, crate::control::Row::Service(web(), Some(spec)));
    play.store = store;
    play.running.retain(|_, (_, key)| *key != web().instance(0));
    let mut play = play.change_leader();
    play.gather();
    assert_eq!(play.phases(), running(2));
    assert_eq!(play.running.len(), 2);
}

#[test]
fn a_crash_begins_again_at_once_twice_and_then_waits() {
    let mut play = Play::with(1);
    play.ask(put(service_spec(1)));
    for _ in 0..2 {
        let run = play.run_of(0);
        play.end(run, FAILURE);
        assert_eq!(play.phases(), running(1));
        assert_ne!(play.run_of(0), run, "another run");
    }
    assert_eq!(play.fences[&web().instance(0).to_work()].1, 3, "the third attempt");
    play.end(play.run_of(0), FAILURE);
    assert_eq!(play.phases(), [(0, P::Crashed)]);
    assert_eq!(play.instance(0).crashes().count, 3);
    play.pass(29);
    assert_eq!(play.phases(), [(0, P::Crashed)]);
    play.pass(1);
    assert_eq!(play.phases(), running(1));
    play.end(play.run_of(0), FAILURE);
    assert_eq!(play.instance(0).crashes().count, 4);
    play.pass(59);
    assert_eq!(play.phases(), [(0, P::Crashed)]);
    play.pass(1);
    assert_eq!(play.phases(), running(1));
}

/// Nothing but its worker's own log said how it ended, and where.
#[test]
fn a_crash_is_kept_with_how_it_ended_and_where_its_output_is() {
    let mut play = Play::with(1);
    play.ask(put(service_spec(1)));
    for _ in 0..3 {
        let run = play.run_of(0);
        play.end(run, FAILURE);
        let past = play.instance(0).past().unwrap();
        let crash = past.crash.as_deref().unwrap();
        assert_eq!((past.run, past.on), (run, life(1)));
        assert_eq!((crash.run, crash.on, crash.at), (run, life(1), play.now.wall));
        assert_eq!(crash.end.to_string().as_bytes(), FAILURE);
    }
    assert_eq!(play.phases(), [(0, P::Crashed)]);
    let kept = play.instance(0).past().cloned();
    let play = play.change_leader();
    assert_eq!(play.instance(0).past().cloned(), kept, "the next leader knows, too");
}

#[test]
fn what_its_worker_never_began_is_not_where_the_output_is() {
    let mut play = Play::with(2);
    play.ask(put(service_spec(1)));
    let (first, worker) = (play.run_of(0), play.worker_of(play.run_of(0)));
    play.settle(first, Settlement::Gone(GoneBy::Absence));
    let kept = |play: &Play| play.instance(0).past().map(|past| past.run);
    assert_eq!(kept(&play), Some(first), "to be lost is no crash, and has left output");
    assert_eq!(play.instance(0).last_crash(), None);
    let second = play.run_of(0);
    play.settle(second, Settlement::Refused(RunRefusal::NotHealthy));
    assert_eq!((kept(&play), second == first), (Some(first), false), "w{worker}");
}

#[test]
fn a_change_of_notes_does_not_touch_the_count_of_crashes_nor_its_clock() {
    let mut play = Play::with(1);
    play.ask(put(service_spec(1)));
    play.end(play.run_of(0), FAILURE);
    play.pass(200);
    let notes = "other routes".into();
    play.ask(put(ServiceSpec { notes, ..service_spec(1) }));
    assert_eq!(play.starts.len(), 2, "nothing was restarted");
    play.pass(100);
    play.end(play.run_of(0), FAILURE);
    assert_eq!(play.instance(0).crashes().count, 1, "it has run for five minutes");
}

/// The copy that is silent may be the one that stays when it is heard again.
#[test]
fn an_instance_that_is_asked_to_stop_ends_every_copy() {
    let mut play = Play::with(2);
    play.ask(Call::PutService(web(), service_spec(1)));
    let (first, worker) = (play.run_of(0), play.worker_of(play.run_of(0)));
    play.fall_silent(worker);
    assert_ne!(play.run_of(0), first, "another has begun");
    assert_eq!(play.ask(Call::StopInstance(web().instance(0))), Answer::Done);
    play.come_back(worker);
    assert!(!play.running.contains_key(&first), "it was asked to stop, too");
    assert_eq!((play.running.len(), play.phases()), (1, vec![(0, P::Running)]));
}

#[test]
fn an_instance_that_is_asked_to_stop_comes_back_and_has_not_crashed() {
    let mut play = Play::with(2);
    play.ask(put(service_spec(2)));
    let run = play.run_of(1);
    assert_eq!(play.ask(Call::StopInstance(web().instance(1))), Answer::Done);
    assert_eq!(play.phases(), running(2));
    assert_ne!(play.run_of(1), run);
    assert_eq!(play.instance(1).crashes().count, 0);
    assert_eq!(play.ask(Call::StopInstance(web().instance(7))), Answer::NotFound);
}

#[test]
fn a_stop_that_was_acknowledged_outlives_its_leader() {
    let mut play = Play::with(2);
    play.ask(put(service_spec(1)));
    let (run, worker) = (play.run_of(0), play.worker_of(play.run_of(0)));
    play.moods.insert(worker, Mood::Silent);
    assert_eq!(play.ask(Call::StopInstance(web().instance(0))), Answer::Done);
    play.moods.insert(worker, Mood::Obeys);
    let mut play = play.change_leader();
    play.gather();
    assert_eq!(play.phases(), running(1));
    assert_ne!(play.run_of(0), run, "the new leader has ended it");
}

#[test]
fn the_instance_of_a_silent_worker_gets_a_second_copy_and_never_a_third() {
    let mut play = Play::with(3);
    play.ask(put(service_spec(1)));
    let first = play.run_of(0);
    play.fall_silent(play.worker_of(first));
    let second = play.run_of(0);
    assert_ne!(second, first);
    assert_eq!(play.instance(0).twin().unwrap().reason, TwinReason::Silent);
    play.fall_silent(play.worker_of(second));
    assert_eq!(play.running.len(), 2, "both slots are taken");
    play.pass(1_000);
    assert_eq!(play.running.len(), 2);
    // When one is certainly gone, its slot is free.
    play.settle(first, Settlement::Gone(GoneBy::Declaration));
    assert_eq!(play.running.len(), 2);
    assert_eq!(play.instance(0).twin().unwrap().copy.placed.run, second);
    assert_eq!(play.phases(), running(1));
}

#[test]
fn a_silent_worker_that_comes_back_before_the_second_copy_runs_keeps_its_own() {
    let mut play = Play::with(2);
    play.ask(put(service_spec(1)));
    let (first, worker) = (play.run_of(0), play.worker_of(play.run_of(0)));
    for other in 1..=2 {
        play.moods.insert(other, Mood::Dawdles);
    }
    play.fall_silent(worker);
    let second = play.run_of(0);
    assert_eq!(play.phases(), [(0, P::Claimed)]);
    play.come_back(worker);
    assert_eq!(play.run_of(0), first, "what runs wins over what is starting");
    assert!(!play.running.contains_key(&second));
    assert!(play.instance(0).twin().is_none());
}

#[test]
fn a_silent_worker_that_comes_back_after_the_second_copy_runs_loses_its_own() {
    let mut play = Play::with(2);
    play.ask(put(service_spec(1)));
    let (first, worker) = (play.run_of(0), play.worker_of(play.run_of(0)));
    play.fall_silent(worker);
    let second = play.run_of(0);
    play.come_back(worker);
    assert_eq!(play.run_of(0), second);
    assert!(!play.running.contains_key(&first));
    assert!(play.instance(0).twin().is_none());
}

#[test]
fn a_silent_worker_that_is_heard_again_loses_its_own_though_its_checks_fail() {
    let mut play = Play::with(2);
    play.ask(put(service_spec(1)));
    let (first, worker) = (play.run_of(0), play.worker_of(play.run_of(0)));
    play.fall_silent(worker);
    let second = play.run_of(0);
    play.moods.insert(worker, Mood::Obeys);
    play.heard(worker);
    assert_eq!(play.run_of(0), second);
    assert!(!play.running.contains_key(&first), "it was unhealthy all the time");
    assert!(play.instance(0).twin().is_none());
}

#[test]
fn a_copy_that_is_to_end_before_its_claim_stands_is_not_sent() {
    let mut play = Play::with(2);
    play.ask(put(service_spec(1)));
    let (first, worker) = (play.run_of(0), play.worker_of(play.run_of(0)));
    play.is_storing = false;
    play.fall_silent(worker);
    play.come_back(worker);
    play.is_storing = true;
    play.store_all();
    assert_eq!(play.run_of(0), first);
    assert_eq!(play.starts.len(), 1, "nobody is silent when the claim stands");
    assert!(play.instance(0).twin().is_none());
    assert_eq!(play.phases(), running(1));
}

#[test]
fn a_copy_whose_worker_was_silent_for_a_while_keeps_its_place_when_its_twin_goes() {
    let mut play = Play::with(3);
    play.ask(put(service_spec(1)));
    let first = play.worker_of(play.run_of(0));
    play.fall_silent(first);
    let second = play.run_of(0);
    play.fall_silent(play.worker_of(second));
    play.come_back(play.worker_of(second));
    play.come_back(first);
    assert_eq!(play.run_of(0), second);
    assert_eq!(play.instance(0).twin(), None, "nobody is silent");
    assert_eq!(play.running.len(), 1);
}

#[test]
fn a_copy_that_is_surplus_on_a_silent_worker_keeps_nobody_from_starting() {
    let mut play = Play::with(3);
    play.ask(put(service_spec(1)));
    let first = play.worker_of(play.run_of(0));
    for worker in 1..=3 {
        play.moods.insert(worker, Mood::Dawdles);
    }
    play.fall_silent(first);
    let second = play.worker_of(play.run_of(0));
    play.moods.insert(second, Mood::Silent);
    // What runs wins over what is only starting.
    play.come_back(first);
    assert_eq!(play.instance(0).twin().unwrap().reason, TwinReason::Surplus);
    play.fall_silent(second);
    play.end(play.run_of(0), FAILURE);
    assert_eq!(play.phases(), [(0, P::Running)], "the surplus one is silent by now");
}

#[test]
fn a_silent_worker_that_comes_back_before_anybody_had_room_keeps_its_own() {
    let mut play = Play::with(1);
    play.ask(put(service_spec(1)));
    let first = play.run_of(0);
    play.fall_silent(1);
    assert_eq!(play.phases(), [(0, P::Unclaimed)]);
    play.come_back(1);
    assert_eq!(play.run_of(0), first);
    assert_eq!(play.starts.len(), 1);
}

#[test]
fn an_instance_under_stop_is_not_started_beside_a_silent_one() {
    let mut play = Play::with(2);
    let contract = Contract::Stop { after: Span::from_secs(120) };
    play.ask(put(ServiceSpec { contract, ..service_spec(1) }));
    let run = play.run_of(0);
    let worker = play.worker_of(run);
    play.moods.insert(worker, Mood::Silent);
    play.health(worker, sterna_protocol::health::Health::MustDie);
    play.pass(1_000);
    assert_eq!(play.starts.len(), 1);
    play.settle(run, Settlement::Gone(GoneBy::Deadline));
    assert_eq!(play.phases(), running(1));
    assert_eq!(play.instance(0).crashes().count, 0, "to be lost is no crash");
}

#[test]
fn an_instance_that_is_turned_down_rests_and_is_tried_again() {
    let mut play = Play::with(1);
    play.moods.insert(1, Mood::Dawdles);
    play.ask(put(service_spec(1)));
    for _ in 0..10 {
        let run = play.run_of(0);
        play.settle(run, Settlement::Refused(RunRefusal::NotHealthy));
        assert_eq!(play.phases(), [(0, P::Unclaimed)]);
        play.pass(1);
        assert_eq!(play.phases(), [(0, P::Claimed)]);
    }
}

#[test]
fn a_deleted_service_keeps_its_slots_and_a_new_one_of_its_name_waits_for_them() {
    let mut play = Play::with(2);
    play.ask(put(service_spec(1)));
    let (first, worker) = (play.run_of(0), play.worker_of(play.run_of(0)));
    play.moods.insert(worker, Mood::Silent);
    play.ask(Call::DeleteService(web()));
    assert_eq!(play.phases(), running(1), "it may still be running");
    play.ask(put(service_spec(1)));
    assert_eq!(play.starts.len(), 1, "its slot is taken");
    play.moods.insert(worker, Mood::Obeys);
    play.end(first, super::play::STOPPED);
    assert_eq!(play.starts.len(), 2);
    assert_ne!(play.run_of(0), first);
}

fn held(index: u32) -> Held {
    let status = sterna_protocol::message::Status {
        number: 1,
        run: RunId::from_parts(WallTime::EPOCH, [99; 10]),
        news: News::Progress(Arc::from(RUNNING)),
    };
    Held {
        run: status.run,
        key: web().instance(index).to_work(),
        task: None,
        contract: Contract::Replace { after: Span::from_secs(15) },
        status: Some(status),
    }
}

/// The same, of one that has crashed.
fn crashed(index: u32) -> Held {
    let mut held = held(index);
    if let Some(status) = &mut held.status {
        status.news = News::Ended(Arc::from(FAILURE));
    }
    held
}

#[test]
fn a_crash_without_a_record_is_counted_where_the_index_is_wanted() {
    let mut play = Play::with(1);
    play.ask(put(service_spec(1)));
    // Nobody knows of it any more.
    play.control.leave_seat(play.run_of(0));
    play.control.instances.remove(&web().instance(0));
    play.running.clear();
    let found = crashed(0);
    let run = found.run;
    play.found(1, found);
    assert_eq!(play.run_of(0), run, "it is the index's, until its end is told");
    play.end(run, FAILURE);
    let instance = play.instance(0);
    assert_eq!((instance.phase(), instance.crashes().count), (P::Running, 1), "it begins again");
    assert!(play.acknowledged.contains(&(run, StatusAnswer::Recorded)));
    assert_eq!(play.starts, [web().instance(0), web().instance(0)]);
}

#[test]
fn a_crash_without_a_record_that_nobody_wants_leaves_nothing_and_is_told() {
    let mut play = Play::with(1);
    let found = crashed(0);
    let run = found.run;
    play.found(1, found);
    play.end(run, FAILURE);
    assert!(play.phases().is_empty() && play.starts.is_empty());
    assert!(play.acknowledged.contains(&(run, StatusAnswer::Ignored)));
    assert_eq!(play.alarms, [Alarm::Stray(life(1), run)]);
    assert_eq!(play.control.workers()[0].runs, 0, "its seat is free");
}

#[test]
fn what_runs_without_a_record_is_recorded_and_ended_only_when_that_is_safe() {
    // After a restore nothing is ended for lack of a record.
    let mut play = Play::begin(Default::default(), WallTime::EPOCH, 2, true);
    play.join(1);
    play.found(1, held(0));
    assert_eq!(play.phases(), running(1));
    assert_eq!(play.running.len(), 1);
    play.step(Input::RosterIsComplete);
    assert!(play.running.is_empty(), "somebody who must know says that nothing is missing");
    assert!(play.phases().is_empty());
}

/// It was taken for one of the version that comes about: that was said to be there with what ran before, or
/// waited for ever if what was found was not ready.
#[test]
fn what_runs_without_a_record_while_a_version_comes_about_is_replaced_by_it() {
    let mut play = Play::with(1);
    let spec = ServiceSpec { update: UpdatePolicy::default(), ..service_spec(2) };
    play.ask(put(spec.clone()));
    // Nobody knows of the second any more.
    play.control.leave_seat(play.run_of(1));
    play.control.instances.remove(&web().instance(1));
    play.moods.insert(1, Mood::Dawdles);
    play.ask(put(other_work(&spec, r#"{"run":["b"]}"#)));
    let found = held(1);
    let run = found.run;
    play.found(1, found);
    assert_eq!(play.run_of(1), run);
    for _ in 0..3 {
        for index in 0..2 {
            play.report(play.run_of(index), News::Progress(Arc::from(RUNNING)));
        }
        play.pass(60);
    }
    assert_ne!(play.run_of(1), run, "it was not of the version that is wanted");
    assert_eq!(play.phases(), running(2));
    assert!(play.control.service(&web()).unwrap().before.is_none(), "the update is over");
}

/// The same, of one whose monitor has not succeeded yet.
fn starting(index: u32) -> Held {
    let mut held = held(index);
    if let Some(status) = &mut held.status {
        status.news = News::Progress(Arc::from(&br#"{"state":"created"}"#[..]));
    }
    held
}

#[test]
fn what_is_found_starting_is_claimed_and_runs_when_its_worker_says_so() {
    let mut play = Play::empty();
    play.ask(put(service_spec(1)));
    assert_eq!(play.phases(), [(0, P::Unclaimed)]);
    play.moods.insert(1, Mood::Obeys);
    let found = starting(0);
    let run = found.run;
    play.found(1, found);
    assert_eq!((play.phases(), play.run_of(0)), (vec![(0, P::Claimed)], run));
    play.pass(30);
    play.report(run, News::Progress(Arc::from(RUNNING)));
    let since = play.now.wall;
    let state = play.instance(0).state();
    assert!(matches!(state, InstanceState::Running { since: at, .. } if *at == since), "{state:?}");
    assert!(play.starts.is_empty(), "it is not started anew");
}

#[test]
fn rule_25_what_is_starting_without_a_record_is_not_ended_after_a_restore() {
    let starting = starting(0);
    let mut play = Play::begin(Default::default(), WallTime::EPOCH, 2, true);
    play.join(1);
    play.found(1, starting.clone());
    assert_eq!((play.running.len(), play.phases()), (1, vec![(0, P::Claimed)]));
    // Where nothing was lost, nobody wants it.
    let mut play = Play::with(1);
    play.found(1, starting);
    assert!(play.running.is_empty() && play.phases().is_empty());
}

#[test]
fn what_runs_without_a_record_belongs_to_the_service_that_is_made_anew() {
    let mut play = Play::begin(Default::default(), WallTime::EPOCH, 2, true);
    play.join(1);
    play.found(1, held(0));
    play.ask(put(service_spec(2)));
    assert_eq!(play.phases(), running(2));
    assert_eq!(play.starts, [web().instance(1)], "the one that runs is not restarted");
}

#[test]
fn what_a_stale_domain_does_not_want_runs_on_and_ends_when_it_is_fresh() {
    let mut play = Play::with(1);
    let spec = ServiceSpec { domain: name("apps"), ..service_spec(1) };
    play.ask(put(spec));
    play.found(1, held(5));
    assert_eq!(play.running.len(), 2, "the domain was never fresh");
    let until = Some(play.now.wall.plus(Span::from_secs(60)));
    play.ask(Call::SetDomain(name("apps"), until));
    assert_eq!(play.running.len(), 1);
    play.pass(60);
    play.found(1, held(5));
    assert_eq!(play.running.len(), 2, "it is stale again");
}

#[test]
fn a_domain_that_is_removed_is_stale_for_every_leader_and_is_not_there_twice() {
    let mut play = Play::with(1);
    let spec = ServiceSpec { domain: name("apps"), ..service_spec(1) };
    play.ask(put(spec));
    assert_eq!(play.ask(Call::RemoveDomain(name("apps"))), Answer::NotFound);
    play.ask(Call::SetDomain(name("apps"), None));
    assert_eq!(play.ask(Call::RemoveDomain(name("apps"))), Answer::Done);
    assert!(!play.store.contains_key(&RowKey::Domain(name("apps"))));
    play.found(1, held(5));
    assert_eq!(play.running.len(), 2, "what it does not want runs on");
    let mut play = play.change_leader();
    play.pass(1);
    assert_eq!(play.running.len(), 2);
    assert_eq!(play.ask(Call::RemoveDomain(name("apps"))), Answer::NotFound);
}

#[test]
fn a_domain_that_is_over_is_shown_for_a_day_and_then_forgotten() {
    let mut play = Play::with(1);
    let until = |play: &Play, seconds| Some(play.now.wall.plus(Span::from_secs(seconds)));
    let (day, key) = (24 * 3_600, RowKey::Domain(name("apps")));
    let first = until(&play, 60);
    play.ask(Call::SetDomain(name("apps"), first));
    let second = until(&play, 120);
    play.ask(Call::SetDomain(name("apps"), second));
    play.pass(60 + day);
    assert!(play.store.contains_key(&key), "it was fresh for longer than was said first");
    let mut play = play.change_leader();
    play.pass(59);
    assert!(play.store.contains_key(&key));
    play.pass(1);
    assert!(!play.store.contains_key(&key));
    play.ask(Call::SetDomain(name("apps"), None));
    play.pass(1_000 * day);
    assert!(play.store.contains_key(&key), "one that is fresh for always stays");
}

#[test]
fn a_stale_domain_does_not_keep_anything_from_starting_nor_from_being_asked_to_end() {
    let mut play = Play::with(1);
    play.ask(put(ServiceSpec { domain: name("apps"), ..service_spec(3) }));
    assert_eq!(play.running.len(), 3);
    play.ask(put(ServiceSpec { domain: name("apps"), ..service_spec(1) }));
    assert_eq!(play.running.len(), 1);
    play.ask(Call::DeleteService(web()));
    assert!(play.running.is_empty());
}

#[test]
fn what_waits_for_a_service_that_keeps_it_away_is_tried_when_that_minds_no_longer() {
    let mut play = Play::with(1);
    // Copies of the old version stay: nothing else than the spec changes.
    play.moods.insert(1, Mood::Ignores);
    let db = ServiceKey { name: name("db"), ..web() };
    let mut shy = (*wants(10)).clone();
    shy.constraints.apart_from = [name("web")].into();
    let shy = ServiceSpec { wants: Arc::new(shy), ..service_spec(1) };
    play.ask(Call::PutService(db.clone(), shy.clone()));
    play.ask(put(service_spec(1)));
    assert_eq!(play.instance(0).phase(), P::Unclaimed);
    play.ask(Call::PutService(db.clone(), service_spec(1)));
    assert_eq!(play.instance(0).phase(), P::Running);
    // And the other way round it holds from the spec on, not from the first new copy.
    play.ask(Call::PutService(db, shy));
    play.ask(put(service_spec(2)));
    assert_eq!(play.instance(1).phase(), P::Unclaimed);
}
