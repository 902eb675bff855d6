//! A leader ends between two commits of one decision: whoever follows goes on from there.

use std::sync::Arc;

use sterna_model::{
    Span,
    record::{CrashPolicy, InstancePhase as P},
    spec::ServiceSpec,
};

use super::play::{
    FAILURE, Mood, Play, incarnation, lock, name, service_spec, task, task_spec, web,
};
use crate::control::{Answer, Call, RowKey};

/// More than fit into one commit.
const MANY: u32 = 100;

fn light(instances: u32) -> ServiceSpec {
    let wants = super::play::wants(0);
    ServiceSpec { wants, domain: name("stale"), ..service_spec(instances) }
}

/// The leader ends when so many commits stand, and another begins.
fn torn(mut play: Play, commits: usize) -> Play {
    let stood = (0..commits).filter(|_| play.store_one()).count();
    assert_eq!(stood, commits, "there were as many");
    assert!(play.control.commit().is_some(), "and one more");
    let mut play = play.change_leader();
    play.gather();
    play
}

#[test]
fn rule_27_a_task_that_is_deleted_leaves_its_name_with_its_record() {
    for odd in [false, true] {
        let mut play = Play::with(1);
        let names: Vec<_> = (0..MANY).map(|number| task(&format!("t{number}"))).collect();
        for key in &names {
            play.ask(Call::CreateTask(key.clone(), incarnation(1), Arc::new(task_spec())));
            play.ask(Call::CancelTask(key.clone()));
        }
        play.is_storing = false;
        if odd {
            play.call(Call::SetDomain(name("odd"), None));
        }
        for key in &names {
            play.call(Call::DeleteTask(key.clone()));
        }
        loop {
            for key in &names {
                let is_known = play.store.contains_key(&RowKey::Task(key.clone()));
                let was_there = play.store.contains_key(&RowKey::Tombstone(key.clone()));
                assert!(is_known || was_there, "{key}");
            }
            if !play.store_one() {
                break;
            }
        }
    }
}

#[test]
fn what_is_scaled_down_by_half_ends_when_it_is_asked_for_again() {
    let mut play = Play::with(10);
    play.ask(Call::PutService(web(), light(MANY)));
    assert_eq!(play.running.len(), 100);
    play.is_storing = false;
    play.call(Call::PutService(web(), light(1)));
    let mut play = torn(play, 1);
    assert!(play.running.len() > 1);
    assert_eq!(play.ask(Call::PutService(web(), light(1))), Answer::Done);
    assert_eq!(play.running.len(), 1);
    // Also what was left so by whomever.
    let mut play = Play::with(10);
    play.ask(Call::PutService(web(), light(3)));
    let mut few = play.store.clone();
    if let Some(crate::control::Row::Service(_, Some(record))) =
        few.get_mut(&RowKey::Service(web()))
    {
        Arc::make_mut(record).spec.instances = 1;
    }
    play.store = few;
    let mut play = play.change_leader();
    assert_eq!(play.running.len(), 3, "its domain is stale");
    assert_eq!(play.ask(Call::PutService(web(), light(1))), Answer::Done);
    assert_eq!(play.running.len(), 1);
    assert_eq!(play.ask(Call::PutService(web(), light(1))), Answer::Already);
}

#[test]
fn what_a_new_version_lets_begin_again_does_so_under_the_next_leader() {
    let crash = CrashPolicy { give_up_at: 1, ..CrashPolicy::default() };
    let mut play = Play::with(10);
    let first = ServiceSpec { crash, ..light(MANY) };
    play.ask(Call::PutService(web(), first.clone()));
    for index in 0..MANY {
        play.end(play.run_of(index), FAILURE);
    }
    assert!(play.running.is_empty());
    play.is_storing = false;
    let second = ServiceSpec { work: b"v2".as_slice().into(), ..first };
    play.call(Call::PutService(web(), second.clone()));
    let mut play = torn(play, 1);
    // Nobody was told that it is so, and asks again.
    play.ask(Call::PutService(web(), second));
    play.pass(1);
    assert_eq!(play.running.len(), 100);
    assert!((0..MANY).all(|index| play.instance(index).phase() == P::Running));
}

#[test]
fn what_is_moved_by_half_is_moved_though_its_machine_is_not_heard() {
    let mut play = Play::with(1);
    play.ask(Call::PutService(web(), light(MANY)));
    play.join(2);
    let deadline = play.now.wall.plus(Span::from_secs(600));
    play.is_storing = false;
    play.moods.insert(1, Mood::Silent);
    play.call(Call::Drain(lock(1), deadline));
    let play = torn(play, 1);
    let elsewhere = |index: &u32| play.worker_of(play.run_of(*index)) == 2;
    assert_eq!((0..MANY).filter(elsewhere).count(), 100, "no event would have led to the rest");
}

/// The rest had a second copy started beside it, though its machine was neither silent nor drained.
#[test]
fn what_stays_by_half_when_its_machine_is_drained_no_longer_has_nothing_started_beside_it() {
    let mut play = Play::with(1);
    play.ask(Call::PutService(web(), light(MANY)));
    let deadline = play.now.wall.plus(Span::from_secs(600));
    play.ask(Call::Drain(lock(1), deadline));
    assert_eq!(play.instance(99).phase(), P::Unclaimed);
    play.is_storing = false;
    play.call(Call::Undrain(lock(1)));
    let mut play = torn(play, 1);
    play.join(2);
    play.pass(60);
    assert_eq!(play.starts.len(), 100);
    assert!((0..MANY).all(|index| play.instance(index).phase() == P::Running));
}
