//! What waits is tried again when something changed that could help it, and not otherwise.

use sterna_engine::auction::{
    Ask, BidderId, Change, Occupant, Offer, Rules, Stage, Standing, Waiting,
};
use sterna_model::{Constraints, Namespace, Zones};

use crate::fleet::{
    Fleet, constrained, instance, name, offer, service, task, total, unique, wants,
};

/// Parks everything that a fleet has left.
fn park(fleet: &mut Fleet, waiting: &mut Waiting) {
    for (ask, reason) in fleet.left.drain(..) {
        waiting.park(&fleet.registry, ask, &reason);
    }
}

/// Does what a caller of [`Waiting::wake`] does; says how many were woken each time.
fn settle(fleet: &mut Fleet, waiting: &mut Waiting, change: Change) -> Vec<usize> {
    let mut counts = Vec::new();
    loop {
        let mut woken = Vec::new();
        let count = waiting.wake(&fleet.registry, change, &mut woken);
        assert_eq!(count, woken.len());
        if count == 0 {
            return counts;
        }
        counts.push(count);
        fleet.auction(&woken);
        park(fleet, waiting);
    }
}

fn vacate(fleet: &mut Fleet, number: u32, ask: &Ask, stage: Stage) {
    let occupant = Occupant { key: &ask.key, wants: &ask.wants, stage };
    fleet.registry.vacate(BidderId::new(number), occupant).unwrap();
}

/// Two workers of 100 that are full with ten of 10 each.
fn full() -> (Fleet, [Vec<Ask>; 2]) {
    let mut fleet = Fleet::new(2);
    let asks = [0, 1].map(|number| unique(&format!("old-{number}"), 10, &wants(10)));
    for (number, asks) in (0..).zip(&asks) {
        fleet.hold(number, asks);
    }
    (fleet, asks)
}

#[test]
fn a_small_hole_wakes_few_of_a_hundred_thousand() {
    let (mut fleet, held) = full();
    let mut waiting = Waiting::new();
    for number in 0..1000 {
        fleet.auction(&service(&format!("s{number}"), 100, &wants(10 + number % 7)));
    }
    assert_eq!(fleet.left.len(), 100_000);
    park(&mut fleet, &mut waiting);
    assert_eq!(waiting.len(), 100_000);
    // Nothing has changed.
    assert_eq!(settle(&mut fleet, &mut waiting, Change::Worker(BidderId::new(0))), [0_usize; 0]);
    vacate(&mut fleet, 0, &held[0][3], Stage::Started);
    // One fits, and it is the first in the order of work.
    assert_eq!(settle(&mut fleet, &mut waiting, Change::Worker(BidderId::new(0))), [1]);
    assert_eq!(fleet.on(0), ["s0/0"]);
    assert_eq!(waiting.len(), 99_999);
    // Nobody asks for less than the hole.
    vacate(&mut fleet, 1, &held[1][3], Stage::Started);
    fleet.hold(1, &[task("thin", &wants(1))]);
    assert_eq!(settle(&mut fleet, &mut waiting, Change::Worker(BidderId::new(1))), [0_usize; 0]);
}

#[test]
fn a_worker_that_joins_gets_what_it_can_hold_a_bounded_number_at_a_time() {
    let (mut fleet, _) = full();
    let mut waiting = Waiting::new();
    fleet.auction(&unique("new", 150, &wants(1)));
    park(&mut fleet, &mut waiting);
    let id = fleet.add(offer(2, "z0"));
    let rounds = settle(&mut fleet, &mut waiting, Change::Worker(id));
    assert_eq!(rounds, [Waiting::WOKEN_MAX, 100 - Waiting::WOKEN_MAX]);
    assert_eq!((fleet.on(2).len(), waiting.len()), (100, 50));
}

#[test]
fn who_is_withheld_helps_nobody_until_it_takes_work_again() {
    let mut fleet = Fleet::empty(Rules::default());
    let id = fleet.add(Offer { standing: Standing::Withheld, ..offer(0, "z0") });
    let mut waiting = Waiting::new();
    fleet.auction(&[task("t", &wants(1))]);
    park(&mut fleet, &mut waiting);
    assert_eq!(settle(&mut fleet, &mut waiting, Change::Worker(id)), [0_usize; 0]);
    fleet.registry.set(id, offer(0, "z0"));
    assert_eq!(settle(&mut fleet, &mut waiting, Change::Worker(id)), [1]);
    assert!(waiting.is_empty());
}

#[test]
fn what_could_never_be_placed_waits_for_a_worker_that_can_hold_it() {
    let mut fleet = Fleet::new(2);
    let mut waiting = Waiting::new();
    let stack = Constraints { stack: Some(name("arm")), ..Constraints::default() };
    fleet.auction(&[instance("huge", 0, &wants(500)), task("t", &constrained(1, stack))]);
    park(&mut fleet, &mut waiting);
    let id = fleet.add(offer(2, "z0"));
    assert_eq!(settle(&mut fleet, &mut waiting, Change::Worker(id)), [0_usize; 0]);
    fleet.registry.set(id, Offer { total: total(500), ..offer(2, "z0") });
    assert_eq!(settle(&mut fleet, &mut waiting, Change::Worker(id)), [1]);
    assert_eq!(fleet.on(2), ["huge/0"]);
    fleet.registry.set(id, Offer { stack: Some(name("arm")), total: total(501), ..offer(2, "z0") });
    assert_eq!(settle(&mut fleet, &mut waiting, Change::Worker(id)), [1]);
}

#[test]
fn who_waits_for_others_to_start_is_woken_one_for_one() {
    let rules = Rules { start_limit: Some(2), ..Rules::default() };
    let mut fleet = Fleet::with_rules(2, rules);
    let mut waiting = Waiting::new();
    let asks = service("web", 5, &wants(1));
    fleet.auction(&asks);
    park(&mut fleet, &mut waiting);
    // Room on workers is not what they wait for.
    assert_eq!(settle(&mut fleet, &mut waiting, Change::Worker(BidderId::new(0))), [0_usize; 0]);
    assert_eq!(settle(&mut fleet, &mut waiting, Change::Started), [0_usize; 0]);
    fleet.registry.started(BidderId::new(0), &asks[0].key).unwrap();
    assert_eq!(settle(&mut fleet, &mut waiting, Change::Started), [1]);
    assert_eq!(waiting.iter().count(), 2);
    assert!(waiting.get(&asks[2].key).is_none() && waiting.get(&asks[3].key).is_some());
}

#[test]
fn who_must_be_apart_is_woken_when_the_other_goes_or_changes_its_mind() {
    let apart = Constraints { apart_from: [name("web")].into(), ..Constraints::default() };
    let shy = constrained(1, apart);
    let mut fleet = Fleet::new(2);
    let mut waiting = Waiting::new();
    let old = service("web", 2, &wants(1));
    fleet.hold(0, &old[..1]);
    fleet.hold(1, &old[1..]);
    fleet.auction(&[instance("db", 0, &shy)]);
    park(&mut fleet, &mut waiting);
    assert_eq!(settle(&mut fleet, &mut waiting, Change::Worker(BidderId::new(0))), [0_usize; 0]);
    vacate(&mut fleet, 1, &old[1], Stage::Started);
    assert_eq!(settle(&mut fleet, &mut waiting, Change::Worker(BidderId::new(1))), [1]);
    assert_eq!(fleet.on(1), ["db/0"]);
    // Now it is web that has to wait, until db no longer minds.
    vacate(&mut fleet, 0, &old[0], Stage::Started);
    fleet.registry.remove(BidderId::new(0));
    fleet.auction(&old);
    assert_eq!(fleet.left.len(), 2);
    park(&mut fleet, &mut waiting);
    fleet.auction(&[instance("db", 1, &wants(1))]);
    assert_eq!(settle(&mut fleet, &mut waiting, Change::Recalled), [0_usize; 0]);
    waiting.recall(&Namespace::default(), &name("web"));
    assert_eq!(settle(&mut fleet, &mut waiting, Change::Recalled), [2]);
    assert!(waiting.is_empty());
    // Whom even that does not help is tried once, and waits on.
    fleet.auction(&[instance("web", 2, &wants(1_000))]);
    park(&mut fleet, &mut waiting);
    waiting.recall(&Namespace::default(), &name("web"));
    assert_eq!(settle(&mut fleet, &mut waiting, Change::Recalled), [1]);
    assert_eq!(waiting.len(), 1);
}

#[test]
fn pinned_work_is_tried_again_when_there_are_other_zones() {
    let pinned = Constraints { zones: Zones::Pinned, ..Constraints::default() };
    let wants = constrained(60, pinned);
    let mut fleet = Fleet::new(2);
    let mut waiting = Waiting::new();
    fleet.auction(&service("web", 6, &wants));
    assert_eq!(fleet.left.len(), 4);
    park(&mut fleet, &mut waiting);
    let id = fleet.add(offer(2, "z2"));
    // All that are pinned are looked at; those who have a home with room now are placed.
    let rounds = settle(&mut fleet, &mut waiting, Change::Worker(id));
    assert_eq!(rounds[0], 4);
    assert_eq!(fleet.on(2).len(), 1);
    assert_eq!(waiting.len(), 3);
}

#[test]
fn who_is_cancelled_or_asks_anew_waits_no_longer() {
    let (mut fleet, held) = full();
    let mut waiting = Waiting::new();
    let ask = instance("web", 0, &wants(50));
    fleet.auction(std::slice::from_ref(&ask));
    let (_, reason) = fleet.left.pop().unwrap();
    waiting.park(&fleet.registry, ask.clone(), &reason);
    waiting.park(&fleet.registry, instance("web", 0, &wants(10)), &reason);
    assert_eq!(waiting.len(), 1);
    vacate(&mut fleet, 0, &held[0][0], Stage::Started);
    assert_eq!(settle(&mut fleet, &mut waiting, Change::Worker(BidderId::new(0))), [1]);
    waiting.park(&fleet.registry, ask.clone(), &reason);
    assert!(waiting.forget(&ask.key).is_some());
    assert!(waiting.forget(&ask.key).is_none() && waiting.is_empty());
}

#[test]
fn a_look_for_room_does_not_bring_back_whom_a_service_avoided() {
    let apart = Constraints { apart_from: [name("web")].into(), ..Constraints::default() };
    let old = instance("db", 0, &constrained(1, apart));
    let mut fleet = Fleet::new(1);
    fleet.hold(0, std::slice::from_ref(&old));
    fleet.auction(&[instance("db", 1, &wants(1))]);
    let occupant = Occupant { key: &old.key, wants: &old.wants, stage: Stage::Started };
    let ask = instance("db", 2, &wants(1));
    assert!(fleet.registry.would_hold(BidderId::new(0), occupant, &ask));
    fleet.auction(&[instance("web", 0, &wants(1))]);
    assert!(fleet.left.is_empty(), "{:?}", fleet.left);
}

#[test]
fn room_in_a_zone_wakes_one_of_those_that_are_pinned_there_and_nobody_else() {
    let pinned = Constraints { zones: Zones::Pinned, ..Constraints::default() };
    let wants = constrained(10, pinned);
    // Each of the two is in a zone of its own, and holds ten.
    let mut fleet = Fleet::new(0);
    fleet.add(offer(0, "z0"));
    fleet.add(offer(1, "z1"));
    let mut waiting = Waiting::new();
    fleet.auction(&service("web", 100, &wants));
    assert_eq!(fleet.left.len(), 80);
    park(&mut fleet, &mut waiting);
    // All that are pinned were looked at when the zones came.
    settle(&mut fleet, &mut waiting, Change::Recalled);
    let is_there = |ask: &Ask| {
        fleet.on(0).iter().any(|key| ask.key.to_string() == format!("default/service/{key}"))
    };
    let held = service("web", 100, &wants).into_iter().find(is_there).unwrap();
    vacate(&mut fleet, 0, &held, Stage::Starting);
    assert_eq!(settle(&mut fleet, &mut waiting, Change::Worker(BidderId::new(0))), [1]);
    assert_eq!(waiting.len(), 79);
}
