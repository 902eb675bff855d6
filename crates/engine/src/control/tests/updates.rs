//! New versions: a few at a time, healthy first, and back.

use std::sync::Arc;

use sterna_model::{
    Span, WallTime,
    record::{CrashPolicy, InstancePhase as P},
    spec::{ServiceSpec, UpdatePolicy},
};
use sterna_protocol::message::News;

use super::play::{FAILURE, Mood, Play, RUNNING, other_work, service_spec, wants, web};
use crate::control::{Alarm, Answer, Call, Change, Row, RowKey, updates::LOOKS};

fn put(play: &mut Play, spec: ServiceSpec) {
    play.ask(Call::PutService(web(), spec));
}

fn versions(play: &Play) -> Vec<u64> {
    let count = u32::try_from(play.phases().len()).unwrap();
    (0..count).filter_map(|index| Some(play.instance(index).copy()?.version)).collect()
}

fn is_updating(play: &Play) -> bool {
    let Some(Row::Service(_, Some(record))) = play.store.get(&RowKey::Service(web())) else {
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
    let update = UpdatePolicy { max_unavailable: 3, ..service_spec(0).update };
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

/// It was counted as there until it had ended, and another one was ended beside it.
#[test]
fn what_somebody_has_asked_to_stop_is_missing_in_an_update() {
    let mut play = Play::with(3);
    put(&mut play, usual(3));
    put(&mut play, other_work(&usual(3), "v2"));
    for worker in 1..=3 {
        play.moods.insert(worker, Mood::Ignores);
    }
    assert_eq!(versions(&play), [1, 0, 0]);
    // A sweep would look at everything, and hide it.
    play.is_storing = false;
    play.call(Call::StopInstance(web().instance(2)));
    play.pass(10);
    while play.store_one() {}
    assert_eq!(ending(&play), [2], "no other one is ended beside it");
    play.is_storing = true;
    play.end(play.run_of(2), br#"{"cause":"request"}"#);
    play.pass(10);
    assert_eq!(ending(&play), [1], "and then it goes on");
}

/// The indices that are being ended.
fn ending(play: &Play) -> Vec<u32> {
    let ends = |index: &u32| {
        let copy = play.instance(*index).copy();
        copy.is_some_and(|copy| copy.stopping.is_some())
    };
    let count = u32::try_from(play.phases().len()).unwrap();
    (0..count).filter(ends).collect()
}

/// One was ended at each event, and a sweep found the next.
#[test]
fn where_some_wait_for_room_as_many_are_ended_at_once_as_may_be_missing() {
    // How many there are, how many more come that have no room, how many may be missing, and which end.
    for (more, at_most, ended) in [(1, 1, 1), (1, 2, 2), (2, 2, 2), (2, 3, 3), (3, 2, 2)] {
        let update = UpdatePolicy { max_unavailable: at_most, ..service_spec(0).update };
        let spec = ServiceSpec { update, wants: wants(50), ..service_spec(4) };
        let mut play = Play::with(2);
        put(&mut play, spec.clone());
        for worker in 1..=2 {
            play.moods.insert(worker, Mood::Ignores);
        }
        // Every step is followed by a sweep, which must find nothing.
        put(&mut play, other_work(&ServiceSpec { instances: 4 + more, ..spec }, "v2"));
        assert_eq!(ending(&play).len(), ended, "{more} more, {at_most} at most");
    }
}

/// As a spec that says nothing of updates.
fn usual(instances: u32) -> ServiceSpec {
    ServiceSpec { update: UpdatePolicy::default(), ..service_spec(instances) }
}

#[test]
fn a_version_that_crashes_soon_after_it_runs_is_taken_back_and_replaces_no_more_than_one() {
    let mut play = Play::with(3);
    let old = usual(5);
    put(&mut play, old.clone());
    let runs: Vec<_> = (0..5).map(|index| play.run_of(index)).collect();
    put(&mut play, other_work(&old, "broken"));
    for _ in 0..3 {
        play.pass(2);
        let new = (0..5).find(|index| play.instance(*index).copy().is_some_and(|c| c.version == 1));
        new.into_iter().for_each(|index| play.end(play.run_of(index), FAILURE));
    }
    assert_eq!(play.alarms, [Alarm::Reverted(web())]);
    assert_eq!(versions(&play), [0; 5]);
    let spared = (0..5).filter(|index| runs.contains(&play.run_of(*index))).count();
    assert_eq!(spared, 4);
}

#[test]
fn a_version_whose_last_copy_crashes_soon_after_it_runs_is_taken_back() {
    let mut play = Play::with(3);
    put(&mut play, usual(2));
    put(&mut play, other_work(&usual(2), "broken"));
    play.pass(10);
    assert_eq!(versions(&play), [1; 2]);
    for _ in 0..3 {
        play.pass(2);
        assert!(is_updating(&play), "the last copy has not run for long enough");
        play.end(play.run_of(1), FAILURE);
    }
    assert_eq!(play.alarms, [Alarm::Reverted(web())]);
    play.pass(20);
    assert_eq!(versions(&play), [0; 2]);
}

#[test]
fn a_clock_that_is_set_back_after_an_update_leads_to_nothing() {
    let mut play = Play::with(3);
    play.pass(100);
    put(&mut play, usual(1));
    put(&mut play, other_work(&usual(1), "v2"));
    play.pass(10);
    assert!(!is_updating(&play));
    play.now.wall = WallTime::EPOCH.plus(Span::from_secs(50));
    // The sweep after each step must find nothing.
    play.pass(1);
    assert_eq!(play.control.timers.len(), 0);
}

#[test]
fn however_long_an_instance_must_be_healthy_it_leaves_nothing_behind_when_it_ends() {
    let mut play = Play::with(1);
    let years = Span::from_secs(10 * 365 * 86_400);
    let update = UpdatePolicy { healthy_for: years, ..UpdatePolicy::default() };
    let spec = ServiceSpec { update, ..service_spec(1) };
    put(&mut play, spec.clone());
    put(&mut play, other_work(&spec, "v2"));
    for _ in 0..20 {
        play.pass(1);
        assert!(is_updating(&play), "it has not run for so long");
        play.ask(Call::StopInstance(web().instance(0)));
        assert!(play.control.timers.len() <= 2, "when it has, and when it is tried again");
    }
    play.ask(Call::DeleteService(web()));
    play.pass(100);
    assert_eq!(play.control.timers.len(), 0);
}

#[test]
fn a_first_version_waits_for_nothing() {
    let mut play = Play::with(3);
    put(&mut play, usual(3));
    let known = play.control.services.get(&web()).unwrap();
    assert!(known.missing.is_empty(), "all serve as soon as they run");
    assert_eq!(play.control.timers.len(), 0, "and nobody looks at them again");
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
    let Row::Service(_, Some(record)) = &play.store[&RowKey::Service(web())] else { panic!() };
    assert_eq!(record.spec, old);
    put(&mut play, other_work(&old, "mended"));
    while start_all(&mut play) > 0 {}
    assert_eq!(versions(&play), [2; 3], "no version is named twice");
}

#[test]
fn the_crash_for_which_a_version_is_taken_back_is_told_first_and_with_its_count() {
    let mut play = Play::with(2);
    put(&mut play, usual(1));
    put(&mut play, other_work(&usual(1), "broken"));
    play.end(play.run_of(0), FAILURE);
    play.end(play.run_of(0), FAILURE);
    play.is_storing = false;
    play.end(play.run_of(0), FAILURE);
    let mut seen = Vec::new();
    while play.store_one() {
        let Row::Service(_, Some(record)) = &play.store[&RowKey::Service(web())] else { panic!() };
        seen.push((play.instance(0).crashes().count, record.version));
    }
    assert_eq!((seen.first(), seen.last()), (Some(&(3, 1)), Some(&(0, 0))), "{seen:?}");
}

#[test]
fn an_update_that_somebody_takes_back_spares_what_never_changed_as_the_plan_says() {
    let mut play = Play::with(3);
    let old = usual(3);
    put(&mut play, old.clone());
    play.pass(10);
    put(&mut play, other_work(&old, "v2"));
    assert_eq!(versions(&play), [1, 0, 0]);
    let runs: Vec<_> = (0..3).map(|index| play.run_of(index)).collect();
    let back = ServiceSpec { notes: "mine".into(), ..old.clone() };
    let planned = play.control.plan(&web(), Some(&back)).changes;
    let restarts = planned.iter().find_map(|change| match change {
        Change::Restart { indices, .. } => Some(indices.clone()),
        Change::Create { .. }
        | Change::Delete { .. }
        | Change::InPlace { .. }
        | Change::Start { .. }
        | Change::Stop { .. }
        | Change::BeginAgain { .. } => None,
    });
    assert_eq!(restarts, Some(vec![0]));
    put(&mut play, back.clone());
    assert_eq!(versions(&play), [0; 3]);
    let spared: Vec<_> = (0..3).filter(|index| runs.contains(&play.run_of(*index))).collect();
    assert_eq!((spared, is_updating(&play)), (vec![1, 2], false));
    let Row::Service(_, Some(record)) = &play.store[&RowKey::Service(web())] else { panic!() };
    assert_eq!(record.spec, back);
    put(&mut play, other_work(&old, "v3"));
    play.pass(60);
    assert!(versions(&play).contains(&2), "no version is named twice");
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
    play.gather();
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

/// Gives up at the first crash.
fn impatient(instances: u32) -> ServiceSpec {
    let crash = CrashPolicy { give_up_at: 1, ..CrashPolicy::default() };
    ServiceSpec { crash, ..service_spec(instances) }
}

#[test]
fn a_new_version_gives_what_was_given_up_a_new_life_at_once() {
    let mut play = Play::with(2);
    put(&mut play, impatient(3));
    play.end(play.run_of(0), FAILURE);
    assert_eq!(play.instance(0).phase(), P::Crashed);
    put(&mut play, other_work(&impatient(3), "mended"));
    assert_eq!(versions(&play), [1; 3], "and it does not hold up the others");
    assert_eq!(play.instance(0).crashes().count, 0, "it is another program");
    assert!(!is_updating(&play));
}

#[test]
fn a_new_version_does_not_wait_for_the_crashes_of_the_one_before() {
    let mut play = Play::with(2);
    put(&mut play, service_spec(3));
    for _ in 0..3 {
        play.end(play.run_of(0), FAILURE);
    }
    assert_eq!((play.instance(0).phase(), play.instance(0).crashes().count), (P::Crashed, 3));
    put(&mut play, other_work(&service_spec(3), "mended"));
    assert_eq!((versions(&play), play.instance(0).crashes().count), (vec![1; 3], 0));
}

#[test]
fn an_older_version_that_crashes_during_an_update_begins_again_as_the_new_one() {
    let mut play = dawdling(2);
    put(&mut play, impatient(3));
    start_all(&mut play);
    put(&mut play, other_work(&impatient(3), "v2"));
    assert_eq!(versions(&play), [1, 0, 0]);
    play.end(play.run_of(2), FAILURE);
    assert_eq!(versions(&play), [1, 0, 1]);
    assert_eq!(play.instance(2).crashes().count, 0);
}

#[test]
fn a_version_that_is_taken_back_gives_what_crashed_a_new_life() {
    let mut play = Play::with(2);
    let update = UpdatePolicy { revert_after: Some(1), ..UpdatePolicy::default() };
    let spec = ServiceSpec { update, ..impatient(1) };
    put(&mut play, spec.clone());
    play.moods.insert(1, Mood::Dawdles);
    play.moods.insert(2, Mood::Dawdles);
    put(&mut play, other_work(&spec, "broken"));
    play.end(play.run_of(0), FAILURE);
    assert_eq!(play.alarms, [Alarm::Reverted(web())]);
    assert_eq!((versions(&play), play.instance(0).crashes().count), (vec![0], 0));
}

#[test]
fn a_change_in_place_forgives_nothing() {
    let mut play = Play::with(2);
    put(&mut play, impatient(2));
    play.end(play.run_of(0), FAILURE);
    put(&mut play, ServiceSpec { notes: "x".into(), ..impatient(2) });
    assert_eq!((play.instance(0).phase(), play.instance(0).crashes().count), (P::Crashed, 1));
}

#[test]
fn a_policy_that_gives_up_later_lets_it_try_again_and_forgives_nothing() {
    let mut play = Play::with(2);
    put(&mut play, impatient(2));
    play.end(play.run_of(0), FAILURE);
    put(&mut play, service_spec(2));
    assert_eq!((play.instance(0).phase(), play.instance(0).crashes().count), (P::Running, 1));
}

#[test]
fn a_spec_that_lets_what_crashed_begin_again_says_so_before_and_after() {
    let planned = |play: &Play, spec: &ServiceSpec| {
        let changes = play.control.plan(&web(), Some(spec)).changes;
        changes.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    let again = "would restart 1 crashed instance".to_owned();
    let noted = ServiceSpec { notes: "x".into(), ..impatient(2) };
    let fewer = ServiceSpec { instances: 0, ..other_work(&impatient(2), "v2") };
    for (spec, begins) in [
        (noted, false),
        (fewer, false),
        (service_spec(2), true),
        (other_work(&impatient(2), "v2"), true),
    ] {
        let mut play = Play::with(2);
        put(&mut play, impatient(2));
        play.end(play.run_of(0), FAILURE);
        assert_eq!(planned(&play, &spec).contains(&again), begins, "{:?}", planned(&play, &spec));
        let answer = play.ask(Call::PutService(web(), spec));
        assert_eq!(answer, if begins { Answer::BeginsAgain } else { Answer::Done });
    }
}

#[test]
fn to_stop_what_was_given_up_starts_it_again_and_says_so() {
    let mut play = Play::with(2);
    put(&mut play, impatient(2));
    play.end(play.run_of(0), FAILURE);
    let answer = play.ask(Call::StopInstance(web().instance(0)));
    assert_eq!(answer, Answer::BeginsAgain);
    assert_eq!((play.instance(0).phase(), play.instance(0).crashes().count), (P::Running, 0));
}

#[test]
fn an_index_without_room_does_not_hold_up_an_update_that_makes_room() {
    let mut play = Play::with(2);
    let big = ServiceSpec { wants: wants(100), ..service_spec(3) };
    put(&mut play, big.clone());
    assert_eq!(play.instance(2).phase(), P::Unclaimed);
    put(&mut play, ServiceSpec { wants: wants(50), ..big });
    assert_eq!(versions(&play), [1; 3]);
    assert!(!is_updating(&play));
}

#[test]
fn an_index_that_never_has_room_does_not_hold_up_an_update() {
    let mut play = dawdling(2);
    let big = ServiceSpec { wants: wants(100), ..service_spec(3) };
    put(&mut play, big.clone());
    start_all(&mut play);
    put(&mut play, other_work(&big, "v2"));
    let mut steps = 0;
    while start_all(&mut play) > 0 {
        steps += 1;
        let running = play.phases().iter().filter(|(_, phase)| *phase == P::Running).count();
        assert!(running >= 1, "one at a time");
    }
    assert_eq!((versions(&play), steps), (vec![1; 2], 2));
    assert!(!is_updating(&play), "what cannot be there is not waited for");
}

#[test]
fn an_update_that_nobody_has_room_for_takes_down_no_more_than_may_be_missing() {
    let mut play = Play::with(3);
    put(&mut play, service_spec(3));
    put(&mut play, ServiceSpec { wants: wants(500), ..service_spec(3) });
    assert_eq!(versions(&play), [0; 2]);
    let mut play = play.change_leader();
    play.pass(60);
    assert_eq!(versions(&play), [0; 2], "under the next leader too");
}

#[test]
fn a_version_that_is_taken_back_leaves_what_was_changed_in_place_meanwhile() {
    let mut play = Play::with(2);
    let old = service_spec(2);
    put(&mut play, old.clone());
    for worker in 1..=2 {
        play.moods.insert(worker, Mood::Dawdles);
    }
    let new = other_work(&old, "broken");
    put(&mut play, new.clone());
    let crash = CrashPolicy { give_up_at: 7, ..CrashPolicy::default() };
    put(&mut play, ServiceSpec { crash, notes: "mine".into(), instances: 3, ..new });
    while play.alarms.is_empty() {
        let new = (0..3).find(|index| play.instance(*index).copy().is_some_and(|c| c.version == 1));
        new.into_iter().for_each(|index| play.end(play.run_of(index), FAILURE));
        play.pass(60);
    }
    let Row::Service(_, Some(record)) = &play.store[&RowKey::Service(web())] else { panic!() };
    assert_eq!(record.spec, ServiceSpec { crash, notes: "mine".into(), instances: 3, ..old });
}

/// How many looks at indices it takes to put a spec, and then to hear of a few crashes.
fn looks(play: &mut Play, spec: ServiceSpec) -> (usize, usize) {
    // A sweep looks at everything.
    play.is_storing = false;
    LOOKS.set(0);
    play.call(Call::PutService(web(), spec));
    while play.store_one() {}
    let put = LOOKS.replace(0);
    for index in 1..=4 {
        play.end(play.run_of(index), FAILURE);
        while play.store_one() {}
    }
    (put, LOOKS.get())
}

/// Each that found no worker had all of them looked at: a leader that was given some thousand stood
/// still until its lease was over, and so did the next.
#[test]
fn an_update_costs_as_much_as_it_ends_and_not_what_waits_by_what_waits() {
    let of = |size: u32| {
        let mut play = Play::with(2);
        let spec = ServiceSpec { wants: wants(2), ..usual(10) };
        put(&mut play, spec.clone());
        looks(&mut play, ServiceSpec { wants: wants(500), instances: size, ..spec })
    };
    let ((put, heard), (twice_put, twice_heard)) = (of(200), of(400));
    assert!(twice_put <= 2 * put.max(64), "{put} looks, then {twice_put}");
    assert!(twice_heard <= heard.max(4 * 64), "{heard} looks, then {twice_heard}");
}

#[test]
fn what_runs_of_an_older_version_is_not_looked_at_with_each_event() {
    let of = |size: u32| {
        let mut play = Play::empty();
        for worker in 1..=10 {
            play.join(worker);
        }
        let spec = ServiceSpec { wants: wants(1), ..usual(size) };
        put(&mut play, spec.clone());
        looks(&mut play, other_work(&spec, "v2"))
    };
    let (few, many) = (of(100), of(400));
    assert_eq!(few, many);
}

/// Only events said so, and whoever had not looked at them took the version that runs for the new one.
#[test]
fn a_version_that_was_taken_back_is_named_with_its_reason_until_another_one_is_wanted() {
    let mut play = Play::with(2);
    let taken = |play: &Play| {
        let taken = play.control.service(&web()).unwrap().taken_back.clone();
        taken.map(|it| (it.version, it.index, it.at, it.why.to_string()))
    };
    put(&mut play, usual(1));
    put(&mut play, other_work(&usual(1), "broken"));
    play.pass(5);
    for _ in 0..3 {
        assert_eq!(taken(&play), None);
        play.end(play.run_of(0), FAILURE);
    }
    let at = WallTime::EPOCH.plus(Span::from_secs(5));
    let why = r#"{"cause":"exited","exit":{"code":1}}"#.to_owned();
    assert_eq!(taken(&play), Some((1, 0, at, why.clone())));
    put(&mut play, ServiceSpec { instances: 2, ..usual(1) });
    let mut play = play.change_leader();
    assert_eq!(taken(&play), Some((1, 0, at, why)), "that is no other version");
    put(&mut play, other_work(&usual(1), "mended"));
    assert_eq!(taken(&play), None);
}
