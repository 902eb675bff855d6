//! A change of leader with a thousand workers.

use sterna_model::{BootTime, Span};
use sterna_protocol::roster::Origin;

use super::world::World;

const WORKERS: u64 = 1_000;

/// Everybody is healthy and holds the newest set; gives the world and its time in seconds.
fn settled() -> (World, u64) {
    let mut world = World::begin(1, BootTime::from_millis(0), Origin::Virgin, Vec::new());
    for second in 0..10 {
        world.pass_time(BootTime::from_millis(second * 1_000));
        for number in 0..WORKERS {
            world.beat(number, 1);
        }
    }
    assert!((0..WORKERS).all(|number| world.is_healthy(number, 1)));
    (world, 10)
}

#[test]
fn a_thousand_healthy_workers_end_the_wait_within_two_heartbeats_of_the_last() {
    let (before, second) = settled();
    let elected = BootTime::from_millis(second * 1_000);
    let mut world = before.followed(elected);
    assert!(!world.fleet.doors().are_all_open());
    // They come back within three seconds, one after the other.
    let mut last = elected;
    for number in 0..WORKERS {
        last = elected.plus(Span::from_millis(number * 3));
        world.pass_time(last);
        world.beat(number, 1);
    }
    let two_heartbeats = world.fleet.limits().heartbeat_every.times(2);
    world.pass_time(last.plus(two_heartbeats));
    assert!(world.fleet.doors().are_all_open(), "{:?}", world.fleet.doors());
    let (opened, _) = world.opened.last().unwrap();
    assert!(*opened >= last && *opened <= last.plus(two_heartbeats));
}

#[test]
fn with_one_of_a_thousand_missing_batches_wait_for_the_safe_wait() {
    let (before, second) = settled();
    let elected = BootTime::from_millis(second * 1_000);
    let mut world = before.followed(elected);
    let safe = world.fleet.limits().batch_stop_after_max;
    assert!(world.fleet.doors().unclaimed);
    for second in 0..125 {
        let now = elected.plus(Span::from_secs(second));
        world.pass_time(now);
        // Later every fourth heartbeat does, and the test is quick.
        if second < 10 || second.is_multiple_of(4) {
            for number in 1..WORKERS {
                world.beat(number, 1);
            }
        }
        let is_over = now >= elected.plus(safe);
        assert_eq!(world.fleet.doors().stop_batches, is_over, "after {second} s");
        // The others are given work long before.
        if second >= 10 {
            assert!(world.is_healthy(1, 1));
        }
    }
}
