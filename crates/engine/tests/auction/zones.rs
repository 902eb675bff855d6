//! Where the instances of a service lie.

use std::collections::BTreeMap;

use sterna_engine::auction::{BidderId, Offer, Reason, Rules, Standing};
use sterna_model::{Constraints, Zones};

use crate::fleet::{Fleet, constrained, instance, name, offer, service, wants};

const NAMES: [&str; 3] = ["a", "b", "c"];

/// Three zones, the workers of which alternate.
fn fleet(workers: u32, rules: Rules) -> Fleet {
    let mut fleet = Fleet::empty(rules);
    for number in 0..workers {
        fleet.add(offer(number, NAMES[number as usize % 3]));
    }
    fleet
}

fn pinned(memory: u64) -> std::sync::Arc<sterna_model::Wants> {
    constrained(memory, Constraints { zones: Zones::Pinned, ..Constraints::default() })
}

/// How many instances are in which zone.
fn by_zone(fleet: &Fleet) -> [usize; 3] {
    let counts = fleet.counts();
    [0, 1, 2].map(|zone| counts.iter().skip(zone).step_by(3).sum())
}

/// In which zone each index is.
fn homes(fleet: &Fleet) -> BTreeMap<String, usize> {
    let workers = fleet.placed.values().enumerate();
    let keys = workers
        .flat_map(|(number, asks)| asks.iter().map(move |ask| (ask.key.to_string(), number % 3)));
    keys.collect()
}

#[test]
fn spread_is_even_and_spills_over_when_a_zone_is_full() {
    let mut fleet = fleet(6, Rules::default());
    fleet.auction(&service("web", 9, &wants(1)));
    assert_eq!(by_zone(&fleet), [3, 3, 3]);
    for worker in [0, 3] {
        fleet.registry.set(
            BidderId::new(worker),
            Offer { standing: Standing::Withheld, ..offer(worker, NAMES[worker as usize % 3]) },
        );
    }
    fleet.auction(&service("api", 6, &wants(1)));
    assert_eq!(by_zone(&fleet), [3, 6, 6]);
    assert!(fleet.left.is_empty());
}

#[test]
fn what_is_on_a_worker_that_drains_counts_for_no_zone() {
    let mut fleet = fleet(6, Rules::default());
    fleet.auction(&service("web", 3, &wants(1)));
    let offer = Offer { standing: Standing::Withheld, ..offer(0, NAMES[0]) };
    fleet.registry.set(BidderId::new(0), offer);
    // Its replacement goes to the same zone, where nobody is now.
    fleet.auction(&[instance("web", 0, &wants(1))]);
    assert_eq!(fleet.on(3), ["web/0"]);
}

#[test]
fn pinned_indices_go_round_the_zones() {
    let mut fleet = fleet(6, Rules::default());
    fleet.auction(&service("web", 9, &pinned(1)));
    let homes = homes(&fleet);
    let zones: Vec<usize> =
        (0..9).map(|index| homes[&format!("default/service/web/{index}")]).collect();
    let expected: Vec<usize> = (0..9).map(|index| (zones[0] + index) % 3).collect();
    assert_eq!(zones, expected);
}

#[test]
fn services_have_different_homes() {
    let mut fleet = fleet(3, Rules::default());
    let wants = pinned(1);
    let asks: Vec<_> = (0..60).map(|number| instance(&format!("s{number}"), 0, &wants)).collect();
    fleet.auction(&asks);
    for count in by_zone(&fleet) {
        assert!((10..=30).contains(&count), "{:?}", by_zone(&fleet));
    }
}

#[test]
fn of_pinned_work_only_the_first_two_go_elsewhere() {
    let mut fleet = fleet(3, Rules::default());
    // There is room for one of them in each zone.
    fleet.auction(&service("web", 6, &pinned(60)));
    assert_eq!(by_zone(&fleet), [1, 1, 1]);
    let keys: Vec<_> = homes(&fleet).into_keys().collect();
    assert_eq!(keys, [0, 1, 2].map(|index| format!("default/service/web/{index}")));
    // The zones of 0 and 1 fill up: both go on along the ranking, 2 does not.
    let mut crowded = self::fleet(3, Rules::default());
    let home = homes(&fleet)["default/service/web/2"];
    for number in (0..3).filter(|number| *number as usize != (home + 1) % 3) {
        crowded.hold(number, &[instance(&format!("old-{number}"), 0, &wants(50))]);
    }
    crowded.auction(&service("web", 1, &pinned(60)));
    crowded.auction(&[instance("web", 2, &pinned(60))]);
    assert_eq!(homes(&crowded)["default/service/web/0"], (home + 1) % 3);
    let Reason::Short { nearest, .. } = crowded.reason() else { panic!("{:?}", crowded.left) };
    assert_eq!(nearest, &name(&format!("w{home}")));
}

#[test]
fn a_zone_without_workers_keeps_what_is_pinned_to_it() {
    let zones = NAMES.iter().map(|zone| name(zone)).collect();
    let mut fleet = fleet(3, Rules { zones, ..Rules::default() });
    fleet.auction(&service("web", 6, &pinned(1)));
    let before = homes(&fleet);
    let lost = before["default/service/web/2"];
    let lost = u32::try_from(lost).unwrap();
    fleet.registry.remove(BidderId::new(lost));
    fleet.placed.get_mut(&BidderId::new(lost)).unwrap().clear();
    // Of the two that were there, neither may flood the others.
    fleet.auction(&[instance("web", 2, &pinned(1)), instance("web", 5, &pinned(1))]);
    assert_eq!(fleet.left.len(), 2);
    for (_, reason) in &fleet.left {
        let zone = Some(name(NAMES[lost as usize]));
        assert_eq!(**reason, Reason::NoZone { zone });
    }
}

#[test]
fn workers_without_a_zone_are_in_one_together() {
    let mut fleet = Fleet::empty(Rules::default());
    for (number, zone) in [(0, ""), (1, ""), (2, "a")] {
        fleet.add(offer(number, zone));
    }
    fleet.auction(&service("web", 4, &wants(1)));
    assert_eq!(fleet.counts(), [1, 1, 2]);
}
