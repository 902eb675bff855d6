//! Diego's simulation scenarios, and the distributions that it asserts.

use sterna_engine::auction::Rules;

use crate::fleet::{
    Fleet, Random, assert_even, instance, offer, service, task, total, unique, wants,
};

/// Services and workers.
const SMALL: [(u32, u32); 4] = [(8, 4), (40, 10), (200, 20), (800, 40)];

#[test]
fn small_cold_start() {
    for (services, workers) in SMALL {
        let mut fleet = Fleet::new(workers);
        fleet.auction(&unique("app", services, &wants(1)));
        let each = (services / workers) as usize;
        assert_eq!(fleet.counts(), vec![each; workers as usize]);
    }
}

#[test]
fn bin_pack_unique() {
    for (services, workers) in SMALL {
        for first_fit_weight in [0.25, 0.5, 0.75] {
            let rules = Rules { first_fit_weight, starting_weight: 0.5, ..Rules::default() };
            let mut fleet = Fleet::with_rules(workers, rules);
            fleet.auction(&unique("app", services, &wants(1)));
            let zones = fleet.zone_counts();
            for counts in &zones {
                assert!(counts.is_sorted_by(|a, b| a >= b), "{first_fit_weight}: {counts:?}");
            }
            let sums = zones.clone().map(|counts| counts.iter().sum::<usize>());
            assert_even(&sums, 1.0);
            assert!(fleet.left.is_empty());
            if services == 800 {
                let ends = |weight| match weight {
                    0.25 => (25, 15),
                    0.5 => (29, 11),
                    _ => (34, 6),
                };
                let [zone, _] = &zones;
                assert_eq!((zone[0], zone[zone.len() - 1]), ends(first_fit_weight));
            }
        }
    }
}

#[test]
fn bin_pack_same_app() {
    for (instances, workers) in SMALL {
        for first_fit_weight in [0.25, 0.5, 0.75] {
            let rules = Rules { first_fit_weight, starting_weight: 0.5, ..Rules::default() };
            let mut fleet = Fleet::with_rules(workers, rules);
            fleet.auction(&service("app", instances, &wants(1)));
            assert_eq!(fleet.counts(), vec![(instances / workers) as usize; workers as usize]);
        }
    }
}

#[test]
fn large_cold_start() {
    for (workers, times) in [(25, 1), (100, 4)] {
        let mut random = Random(workers.into());
        let mut asks = Vec::new();
        for (memory, count) in [(1, 1800 * times), (2, 200 * times), (4, 50 * times)] {
            let wants = wants(memory);
            asks.extend(unique(&format!("unique-{memory}"), count / 2, &wants));
            let mut indices = [0; 4];
            for _ in 0..count / 2 {
                let app = usize::try_from(random.below(4)).unwrap();
                asks.push(instance(&format!("same-{memory}-{app}"), indices[app], &wants));
                indices[app] += 1;
            }
        }
        random.shuffle(&mut asks);
        let mut fleet = Fleet::new(workers);
        fleet.auction(&asks);
        assert_eq!(fleet.left.len(), 0, "of {}", asks.len());
        assert_even(&fleet.counts(), 10.0);
        let memory = |asks: &Vec<_>| -> f64 {
            let each = asks.iter().map(|ask: &sterna_engine::auction::Ask| {
                ask.wants.demand.amounts().memory.get() as f64
            });
            each.sum()
        };
        let used: Vec<f64> = fleet.placed.values().map(memory).collect();
        let mean = used.iter().sum::<f64>() / used.len() as f64;
        let variance = used.iter().map(|used| (used - mean).powi(2)).sum::<f64>();
        let score = (variance / used.len() as f64).sqrt() / mean;
        assert!(score <= 0.035, "distribution score {score}");
    }
}

#[test]
fn imbalanced_deploy() {
    for (full, empty, asked) in [(95, 5, 500), (99, 1, 100)] {
        let mut fleet = Fleet::new(full + empty);
        for number in 0..full {
            fleet.hold(number, &unique(&format!("old-{number}"), 50, &wants(1)));
        }
        fleet.auction(&unique("new", asked, &wants(1)));
        assert_even(&fleet.counts(), 1.0);
    }
}

#[test]
fn without_a_weight_for_starting_an_empty_worker_is_flooded() {
    let rules = Rules { starting_weight: 0.0, ..Rules::default() };
    let mut fleet = Fleet::with_rules(100, rules);
    for number in 0..99 {
        fleet.hold(number, &unique(&format!("old-{number}"), 50, &wants(1)));
    }
    fleet.auction(&unique("new", 100, &wants(1)));
    assert!(fleet.counts()[99] >= 50, "{:?}", fleet.counts());
}

#[test]
fn zones_are_balanced_before_anything_else() {
    let mut fleet = Fleet::empty(Rules::default());
    for (number, zone) in [(0, "z0"), (1, "z1"), (2, "z0")] {
        fleet.add(offer(number, zone));
    }
    fleet.hold(1, &unique("old", 50, &wants(1)));
    fleet.auction(&service("app", 40, &wants(1)));
    let [a, b, c] = fleet.counts()[..] else { panic!() };
    assert_eq!((a + c, b), (20, 20));
}

#[test]
fn demo() {
    for (workers, instances) in [(10, 80), (30, 200), (100, 400)] {
        let mut fleet = Fleet::new(workers);
        let mut random = Random(7);
        for number in 0..workers {
            let count = 78 + u32::try_from(random.below(3)).unwrap();
            fleet.hold(number, &unique(&format!("old-{number}"), count, &wants(1)));
        }
        fleet.auction(&service("app", instances, &wants(1)));
        assert_eq!(fleet.left.len(), 0);
        assert_even(&fleet.counts(), 1.0);
    }
}

#[test]
fn boulders_and_pebbles() {
    let mut fleet = Fleet::new(1);
    let pebble = wants(1);
    let mut asks: Vec<_> =
        (0..80).map(|number| instance(&format!("pebble-{number}"), 0, &pebble)).collect();
    asks.extend(service("red", 2, &wants(50)));
    let outcome = fleet.auction(&asks);
    assert_eq!((outcome.placed.len(), outcome.left.len()), (51, 31));
    let keys = fleet.on(0);
    assert!(keys.contains(&"red/0".to_owned()));
    assert!(!keys.contains(&"red/1".to_owned()));
}

#[test]
fn order_when_memory_is_scarce() {
    let cases = [
        (10, vec!["pg7/0"]),
        (45, vec!["pg7/0", "t10", "t20"]),
        (80, vec!["pg7/0", "pg8/1", "t10", "t20"]),
        (95, vec!["pg7/0", "pg7/1", "pg8/1", "t10", "t20"]),
        (130, vec!["pg7/0", "pg7/1", "pg8/1", "pg8/2", "t10", "t20"]),
    ];
    for (memory, expected) in cases {
        let mut fleet = Fleet::empty(Rules::default());
        let mut only = offer(0, "z0");
        only.total = total(1000);
        only.total.memory = sterna_model::Bytes::new(memory);
        fleet.add(only);
        let (small, large) = (wants(10), wants(40));
        let asks = [
            instance("pg7", 0, &small),
            instance("pg7", 1, &small),
            instance("pg8", 1, &large),
            instance("pg8", 2, &large),
            task("t10", &small),
            task("t20", &wants(20)),
        ];
        fleet.auction(&asks);
        assert_eq!(fleet.on(0), expected, "with {memory}");
    }
}

#[test]
fn order_of_bids_in_two_zones() {
    let mut fleet = Fleet::new(2);
    fleet.hold(0, &[instance("pg1", 0, &wants(10)), instance("pg2", 0, &wants(10))]);
    fleet.hold(1, &[instance("pg3", 0, &wants(10)), instance("pg4", 0, &wants(20))]);
    let asks = [
        instance("pg3", 1, &wants(40)),
        instance("pg2", 1, &wants(5)),
        task("t40", &wants(40)),
        task("t5", &wants(5)),
    ];
    fleet.auction(&asks);
    assert_eq!(fleet.on(0), ["pg3/1", "t40"]);
    assert_eq!(fleet.on(1), ["pg2/1", "t5"]);
}
