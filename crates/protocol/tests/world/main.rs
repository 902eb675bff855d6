//! A whole small world in one thread: leaders that follow one another, machines that are cut off,
//! crash, stop and reboot, and a network between them; all of it from one seed.
//!
//! ```text
//!   leader.rs    a server around a `Fleet`: lease, commits, a plain dispatcher
//!   machine.rs   a machine around a `Worker`: guardian, disk, clock
//!   net.rs       streams: in order and lost with the stream; or, harsh, frame by frame
//!   store.rs     claims, roster, lease; a deposed leader's commits do not apply
//!   table.rs     the containers of all machines, and the promises P1, P2 and P10
//!   world.rs     time, faults and calm
//! ```
//!
//! The checks read only the containers and what was committed, never what a machine believes.
//! `STERNA_LONG=1` plays a hundred times as many seeds.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test that cannot go on says where, and what was found is shown"
)]

mod leader;
mod machine;
mod net;
#[cfg(feature = "planted")]
mod planted;
mod regress;
mod rng;
mod store;
mod table;
mod words;
mod world;

use world::World;

/// Plays seeds; a broken promise is told with the whole history of its seed.
fn play(seeds: std::ops::Range<u64>) {
    let factor = if std::env::var_os("STERNA_LONG").is_some() { 100 } else { 1 };
    let (from, count) = (seeds.start, seeds.end - seeds.start);
    let mut longest = 0;
    for seed in (from * factor)..(from * factor + count * factor) {
        match World::new(seed, false).play() {
            Ok(calm) => longest = calm.max(longest),
            Err(broken) => tell(seed, &broken),
        }
    }
    println!("{} seeds; well again within {longest} ms", count * factor);
}

/// Plays a seed again, and shows all of it.
fn tell(seed: u64, broken: &str) -> ! {
    let mut world = World::new(seed, true);
    let again = world.play();
    let trace = world.trace.join("\n");
    panic!("{trace}\nseed {seed}: {broken} (again: {again:?})");
}

#[test]
fn the_promises_hold_in_the_first_hundred_seeds() {
    play(0..100);
}

#[test]
fn the_promises_hold_in_the_second_hundred_seeds() {
    play(100..200);
}

#[test]
fn the_promises_hold_in_the_third_hundred_seeds() {
    play(200..300);
}
