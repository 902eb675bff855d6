//! What went wrong with Diego's auction, and does not here.

use sterna_engine::auction::{BidderId, Change, Occupant, Reason, Rules, Stage, Waiting};
use sterna_model::{Constraints, Zones};

use crate::fleet::{
    Fleet, constrained, instance, name, offer, service, task, total, unique, wants,
};

/// There, tasks went first when a batch had no other instances than those of index 0.
#[test]
fn first_indices_go_before_tasks_even_when_no_other_is_asked_for() {
    let mut fleet = Fleet::new(1);
    fleet.auction(&[task("t", &wants(60)), instance("web", 0, &wants(60))]);
    assert_eq!(fleet.on(0), ["web/0"]);
}

/// There, a part of the memory was scored and not reserved, so that a worker had to reject work.
#[test]
fn hole_3_what_is_scored_is_what_is_reserved() {
    let mut fleet = Fleet::new(3);
    let outcome = fleet.auction(&unique("app", 31, &wants(10)));
    assert_eq!((outcome.placed.len(), outcome.left.len()), (30, 1));
    for number in 0..3 {
        let pool = fleet.registry.pool(BidderId::new(number)).unwrap();
        assert_eq!(pool.free().memory.get(), 0);
        let asks = &fleet.placed[&BidderId::new(number)];
        let taken: u64 = asks.iter().map(|ask| ask.wants.demand.amounts().memory.get()).sum();
        assert_eq!(taken, pool.total().memory.get());
    }
}

/// There, what was stopping was counted as free, and its place was given away too early.
#[test]
fn hole_4_what_is_stopping_keeps_its_place_until_it_is_gone() {
    let mut fleet = Fleet::new(1);
    let old = service("web", 2, &wants(50));
    fleet.auction(&old);
    for ask in &old {
        fleet.registry.started(BidderId::new(0), &ask.key).unwrap();
    }
    // Both are told to stop; nobody says anything to the registry until one is gone.
    let new = [instance("next", 0, &wants(50))];
    assert_eq!(fleet.auction(&new).placed, []);
    let occupant = Occupant { key: &old[0].key, wants: &old[0].wants, stage: Stage::Started };
    fleet.registry.vacate(BidderId::new(0), occupant).unwrap();
    assert_eq!(fleet.auction(&new).placed.len(), 1);
    // It is gone once.
    let error = fleet.registry.vacate(BidderId::new(0), occupant);
    assert!(error.is_ok(), "the other one of the service is still there");
    let error = fleet.registry.vacate(BidderId::new(0), occupant).unwrap_err();
    assert_eq!(error.to_string(), "default/service/web/0 was not on b0");
}

/// There, what could not be placed was dropped, and looked at again by the clock: every 30 seconds,
/// whether or not anything had changed; and whatever was pending was put up for auction each time.
#[test]
fn hole_9_what_waits_is_placed_as_soon_as_there_is_room_and_not_tried_before() {
    let mut fleet = Fleet::new(1);
    let mut waiting = Waiting::new();
    let old = instance("old", 0, &wants(100));
    fleet.hold(0, std::slice::from_ref(&old));
    let new = instance("new", 0, &wants(10));
    let outcome = fleet.auction(std::slice::from_ref(&new));
    waiting.park(&fleet.registry, new.clone(), &outcome.left[0].reason);
    let mut woken = Vec::new();
    let change = Change::Worker(BidderId::new(0));
    assert_eq!(waiting.wake(&fleet.registry, change, &mut woken), 0);
    let occupant = Occupant { key: &old.key, wants: &old.wants, stage: Stage::Started };
    fleet.registry.vacate(BidderId::new(0), occupant).unwrap();
    assert_eq!(waiting.wake(&fleet.registry, change, &mut woken), 1);
    assert_eq!(fleet.auction(&woken).placed.len(), 1);
}

/// There, restarting a large application in place left half of it unplaced for minutes.
#[test]
fn hole_4_an_application_that_is_restarted_in_place_is_whole_when_its_old_copies_are_gone() {
    let mut fleet = Fleet::new(4);
    let mut waiting = Waiting::new();
    let (old, new) = (service("web", 40, &wants(10)), service("web", 40, &wants(10)));
    let outcome = fleet.auction(&old);
    for left in fleet.auction(&new).left {
        waiting.park(&fleet.registry, new[left.ask].clone(), &left.reason);
    }
    assert_eq!(waiting.len(), 40);
    for placement in outcome.placed {
        let ask = &old[placement.ask];
        let occupant = Occupant { key: &ask.key, wants: &ask.wants, stage: Stage::Starting };
        fleet.registry.vacate(placement.bidder, occupant).unwrap();
        let mut woken = Vec::new();
        waiting.wake(&fleet.registry, Change::Worker(placement.bidder), &mut woken);
        assert_eq!(fleet.auction(&woken).placed.len(), 1);
    }
    assert!(waiting.is_empty());
}

/// There, zones were a preference only: nothing protected the survivors when a zone died.
#[test]
fn the_survivors_of_a_zone_are_not_flooded_with_pinned_work() {
    let zones = [name("z0"), name("z1")].into();
    let mut fleet = Fleet::with_rules(4, Rules { zones, ..Rules::default() });
    let pinned = Constraints { zones: Zones::Pinned, ..Constraints::default() };
    let asks = service("web", 40, &constrained(1, pinned));
    fleet.auction(&asks);
    assert_eq!(fleet.counts(), [10, 10, 10, 10]);
    let dead = [BidderId::new(0), BidderId::new(2)];
    let lost: Vec<_> = dead.iter().flat_map(|id| fleet.placed[id].clone()).collect();
    for id in dead {
        fleet.registry.remove(id);
    }
    let outcome = fleet.auction(&lost);
    assert_eq!(outcome.placed.len(), 1, "one of the first two indices was there");
    assert_eq!(outcome.left.len(), 19);
}

/// There, "insufficient resources" named a resource only if every cell was short of it.
#[test]
fn a_reason_names_what_lacks_on_the_nearest_worker() {
    let mut fleet = Fleet::new(1);
    fleet.add(sterna_engine::auction::Offer { total: total(40), ..offer(1, "z1") });
    fleet.hold(0, &[instance("old", 0, &wants(95))]);
    let mut disky = wants(30).demand.amounts().clone();
    disky.disk = sterna_model::Bytes::new(50);
    let demand = sterna_model::Demand::new(disky.cpu, disky.memory, disky.disk, disky.countables);
    let wants = sterna_model::Wants { demand, constraints: Constraints::default() };
    fleet.auction(&[task("t", &std::sync::Arc::new(wants))]);
    let Reason::Short { nearest, lacks } = fleet.reason() else { panic!("{:?}", fleet.left) };
    assert_eq!((nearest.as_str(), lacks.len()), ("w0", 1));
}

/// There, work that no cell could ever hold was retried for ever with the words for a full cluster.
#[test]
fn what_no_worker_could_ever_hold_is_not_told_to_wait() {
    let mut fleet = Fleet::new(2);
    fleet.auction(&[instance("huge", 0, &wants(101))]);
    assert!(matches!(fleet.reason(), Reason::TooLarge { .. }));
}
