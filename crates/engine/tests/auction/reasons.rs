//! Who is left over, why, and what would help.

use std::{collections::BTreeSet, sync::Arc};

use sterna_engine::{
    auction::{Offer, Prospect, Reason, Rules, Standing},
    control::Unplaced,
};
use sterna_model::{Bytes, Constraints, Name, Resource};

use crate::fleet::{Fleet, constrained, instance, name, offer, service, task, total, wants};

fn names(names: &[&str]) -> BTreeSet<Name> {
    names.iter().map(|text| name(text)).collect()
}

fn of_stack(stack: &str) -> Constraints {
    Constraints { stack: Some(name(stack)), ..Constraints::default() }
}

fn of_tags(tags: &[&str]) -> Constraints {
    Constraints { tags: names(tags), ..Constraints::default() }
}

fn apart_from(services: &[&str]) -> Constraints {
    Constraints { apart_from: names(services), ..Constraints::default() }
}

fn assert_left(fleet: &Fleet, prospect: Prospect, says: &str) {
    let (reason, apart) = (Arc::new(fleet.reason().clone()), Vec::new());
    let unplaced = Unplaced { reason, withheld: None, apart, copy: None, pinned: None };
    assert_eq!(unplaced.to_string(), says);
    assert_eq!(fleet.reason().prospect(), prospect);
}

#[test]
fn no_worker_at_all() {
    let mut fleet = Fleet::empty(Rules::default());
    fleet.auction(&[instance("web", 0, &wants(1))]);
    assert_left(&fleet, Prospect::Never, "there is no worker: start one with `sterna worker`");
}

#[test]
fn no_worker_with_that_stack() {
    let mut fleet = Fleet::new(2);
    let ask = [task("t", &constrained(1, of_stack("arm")))];
    fleet.auction(&ask);
    let none = "it asks for the stack arm, and no worker has one: start a worker that has it";
    assert_left(&fleet, Prospect::Never, none);
    let mut fleet = Fleet::empty(Rules::default());
    for (number, stack) in [(0, "x86"), (1, "riscv"), (2, "x86")] {
        fleet.add(Offer { stack: Some(name(stack)), ..offer(number, "z") });
    }
    fleet.auction(&ask);
    assert_left(
        &fleet,
        Prospect::Never,
        "no worker has the stack arm; the workers have riscv, x86",
    );
}

#[test]
fn work_goes_where_its_stack_is() {
    let mut fleet = Fleet::new(3);
    fleet.add(Offer { stack: Some(name("arm")), ..offer(3, "z0") });
    fleet.auction(&service("web", 4, &constrained(1, of_stack("arm"))));
    assert_eq!(fleet.counts(), [0, 0, 0, 4]);
    // Who names no stack goes anywhere.
    let any: Vec<_> = (0..4).map(|number| task(&format!("t{number}"), &wants(1))).collect();
    fleet.auction(&any);
    assert_eq!(fleet.counts(), [1, 1, 1, 5]);
}

/// One worker of each kind: without tags, one that requires `gpu`, one that may have `ssd`, one
/// that requires `gpu` and may have `ssd`.
fn tagged() -> Fleet {
    let mut fleet = Fleet::empty(Rules::default());
    let kinds: [(&[&str], &[&str]); 4] =
        [(&[], &[]), (&["gpu"], &[]), (&[], &["ssd"]), (&["gpu"], &["ssd"])];
    for (number, (required, optional)) in (0..).zip(kinds) {
        fleet.add(Offer {
            required: names(required),
            optional: names(optional),
            ..offer(number, "z")
        });
    }
    fleet
}

#[test]
fn tags_lead_to_the_right_workers() {
    let cases: [(&[&str], [usize; 4]); 4] = [
        (&[], [4, 0, 4, 0]),
        (&["gpu"], [0, 4, 0, 4]),
        (&["ssd"], [0, 0, 8, 0]),
        (&["gpu", "ssd"], [0, 0, 0, 8]),
    ];
    for (tags, expected) in cases {
        let mut fleet = tagged();
        fleet.auction(&service("web", 8, &constrained(1, of_tags(tags))));
        assert_eq!(fleet.counts(), expected, "{tags:?}");
    }
}

#[test]
fn a_tag_that_nobody_has_is_named_with_the_nearest_worker() {
    let mut fleet = tagged();
    fleet.auction(&[instance("web", 0, &constrained(1, of_tags(&["fpga"])))]);
    let says = "no worker has the right tags; w0 comes nearest, it lacks fpga; start a worker with \
                --tag fpga, or remove it from the spec";
    assert_left(&fleet, Prospect::Never, says);
}

#[test]
fn a_tag_that_is_required_and_not_asked_for_is_named() {
    let mut fleet = Fleet::empty(Rules::default());
    let required = names(&["gpu", "ssd"]);
    fleet.add(Offer { required, ..offer(0, "z") });
    fleet.auction(&[instance("web", 0, &constrained(1, of_tags(&["arm", "gpu"])))]);
    let says = "no worker has the right tags; w0 comes nearest, it lacks arm, it accepts only work with the tag ssd; start a worker with --tag arm, or remove it from the spec; ask for \
                ssd, or start a worker without --require-tag ssd";
    assert_left(&fleet, Prospect::Never, says);
}

#[test]
fn what_no_worker_could_ever_hold_is_told_apart_from_what_must_wait() {
    let mut fleet = Fleet::new(2);
    fleet.add(Offer { total: total(120), ..offer(2, "z0") });
    fleet.hold(2, &[instance("old", 0, &wants(90))]);
    fleet.auction(&[instance("huge", 0, &wants(130))]);
    let says = "it is too large for every worker; w2 comes nearest: memory: 130B asked, 120B in all, \
                10B missing";
    assert_left(&fleet, Prospect::Never, says);
    fleet.left.clear();
    // w2 alone could hold it, and it is w2 that has to be freed, though others have more free.
    fleet.auction(&[instance("large", 0, &wants(110))]);
    let says = "no worker has enough free; w2 comes nearest: memory: 110B asked, 30B free, 80B \
                missing";
    assert_left(&fleet, Prospect::Wait, says);
}

#[test]
fn the_nearest_miss_is_the_smallest_change_that_would_help() {
    let mut fleet = Fleet::new(3);
    for (number, taken) in [(0, 70), (1, 60), (2, 65)] {
        fleet.hold(number, &[instance(&format!("old-{number}"), 0, &wants(taken))]);
    }
    fleet.auction(&[task("t", &wants(50))]);
    let Reason::Short { nearest, lacks } = fleet.reason() else { panic!("{:?}", fleet.left) };
    assert_eq!(nearest, &name("w1"));
    let [lack] = lacks.as_slice() else { panic!("{lacks:?}") };
    assert_eq!((&lack.resource, lack.missing()), (&Resource::Memory, 10));
}

#[test]
fn every_resource_and_countable_is_held_to() {
    let gpus = [(name("gpu"), 2), (name("fpga"), 1), (name("tpu"), 4)];
    let mut fleet = Fleet::new(1);
    let mut with = offer(1, "z0");
    with.total.countables = gpus.into_iter().collect();
    fleet.add(with);
    let asks = |what: &str, count: u64| {
        let mut amounts = wants(1).demand.amounts().clone();
        amounts.countables = [(name(what), count)].into_iter().collect();
        let sterna_model::Amounts { cpu, memory, disk, countables, .. } = amounts;
        let demand = sterna_model::Demand::new(cpu, memory, disk, countables);
        Arc::new(sterna_model::Wants { demand, constraints: Constraints::default() })
    };
    for (what, fit) in [("gpu", 2), ("fpga", 1), ("tpu", 4)] {
        fleet.left.clear();
        fleet.auction(&service(what, fit + 1, &asks(what, 1)));
        let says = format!(
            "no worker has enough free; w1 comes nearest: {what}: 1 asked, 0 free, 1 missing"
        );
        assert_left(&fleet, Prospect::Wait, &says);
        fleet.left.clear();
        fleet.auction(&[task("t", &asks(what, 5))]);
        assert_eq!(fleet.reason().prospect(), Prospect::Never, "{:?}", fleet.reason());
    }
    assert_eq!(fleet.counts(), [0, 7]);
    fleet.left.clear();
    fleet.auction(&[task("t", &asks("abacus", 1))]);
    assert_eq!(fleet.reason().prospect(), Prospect::Never);
}

#[test]
fn workers_that_take_no_work_get_none_and_are_counted() {
    let mut fleet = Fleet::empty(Rules::default());
    for number in 0..3 {
        let standing = Standing::Withheld;
        fleet.add(Offer { standing, ..offer(number, "z0") });
    }
    fleet.auction(&[instance("web", 0, &wants(1))]);
    let says = "3 workers may run it, but none takes work now; w0 is one";
    assert_left(&fleet, Prospect::Wait, says);
}

#[test]
fn apart_from_itself_means_one_on_each_worker() {
    let mut fleet = Fleet::new(4);
    fleet.auction(&service("db", 5, &constrained(1, apart_from(&["db"]))));
    assert_eq!(fleet.counts(), [1, 1, 1, 1]);
    let says = "every worker with room runs something that `apart_from` forbids beside it; w0 comes nearest: db runs there; start another worker, or change that spec";
    assert_left(&fleet, Prospect::Wait, says);
}

/// It was the one that was heard of first.
#[test]
fn of_some_that_are_in_the_way_the_first_by_name_is_said() {
    for order in [["cache", "batch"], ["batch", "cache"]] {
        let mut fleet = Fleet::new(1);
        for name in order {
            fleet.auction(&[instance(name, 0, &wants(1))]);
        }
        fleet.auction(&[instance("db", 0, &constrained(1, apart_from(&["batch", "cache"])))]);
        let says = "every worker with room runs something that `apart_from` forbids beside it; w0 comes nearest: batch runs there; start another worker, or change that spec";
        assert_left(&fleet, Prospect::Wait, says);
    }
}

#[test]
fn apart_holds_in_both_directions() {
    let mut fleet = Fleet::new(2);
    let shy = constrained(1, apart_from(&["batch"]));
    fleet.auction(&[instance("db", 0, &shy)]);
    // What comes later does not know that somebody is shy, and stays away all the same.
    fleet.auction(&service("batch", 6, &wants(1)));
    assert_eq!(fleet.counts(), [1, 6]);
    fleet.auction(&[instance("db", 1, &shy)]);
    assert_eq!(fleet.on(0), ["db/0", "db/1"]);
    // A task may be shy, too.
    fleet.auction(&[task("t", &constrained(1, apart_from(&["db"])))]);
    assert!(fleet.on(1).contains(&"t".to_owned()));
}

#[test]
fn no_more_than_the_limit_are_starting() {
    let rules = Rules { start_limit: Some(3), ..Rules::default() };
    let mut fleet = Fleet::with_rules(2, rules);
    let asks = service("web", 5, &wants(1));
    let outcome = fleet.auction(&asks);
    assert_eq!((outcome.placed.len(), outcome.left.len()), (3, 2));
    assert_eq!(*outcome.left[0].reason, Reason::StartLimit { limit: 3 });
    assert_eq!(outcome.left[0].reason.prospect(), Prospect::Wait);
    // What could never be placed is not told to wait.
    fleet.left.clear();
    fleet.auction(&[task("huge", &wants(101))]);
    assert_eq!(fleet.reason().prospect(), Prospect::Never);
    let started = outcome.placed[0];
    fleet.registry.started(started.bidder, &asks[started.ask].key).unwrap();
    assert_eq!(fleet.auction(&asks[3..]).placed.len(), 1);
}

#[test]
fn the_last_ask_of_a_key_counts() {
    let mut fleet = Fleet::new(2);
    let asks = [
        instance("web", 0, &wants(200)),
        task("t", &wants(200)),
        instance("web", 0, &wants(3)),
        task("t", &wants(4)),
        task("t", &wants(5)),
    ];
    let outcome = fleet.auction(&asks);
    assert_eq!(outcome.left, []);
    let placed: Vec<usize> = outcome.placed.iter().map(|placed| placed.ask).collect();
    assert_eq!(placed, [2, 4]);
}

#[test]
fn tasks_spread_by_count() {
    let mut fleet = Fleet::new(4);
    fleet.hold(0, &[instance("old", 0, &wants(60))]);
    let asks: Vec<_> = (0..8).map(|number| task(&format!("t{number}"), &wants(1))).collect();
    fleet.auction(&asks);
    assert_eq!(fleet.counts(), [2, 2, 2, 2]);
}

#[test]
fn a_worker_with_less_than_it_holds_gets_nothing() {
    let mut fleet = Fleet::new(1);
    fleet.hold(0, &[instance("old", 0, &wants(60)), instance("old", 1, &wants(30))]);
    let mut less = offer(0, "z0");
    less.total.memory = Bytes::new(50);
    fleet.registry.set(sterna_engine::auction::BidderId::new(0), less);
    fleet.auction(&[instance("new", 0, &wants(1))]);
    assert_eq!(fleet.reason().prospect(), Prospect::Wait);
}
