//! Every state of very small worlds, driven by the same two sides as everything else.
//!
//! One leader that may be followed by one other, which resigns or is found mute and lives on; two
//! workers; a task, which is claimed, and a node of a batch under `stop`, which is not; two runs; and so
//! many faults of each kind. In two of the worlds the first key is an instance, both are under `keep`, a
//! machine may be destroyed and declared dead, and the store may be set back, also to before one or both
//! were on its roster. Streams keep the order of their frames; that one is overtaken is a fault, as that
//! one is lost or comes again. A direction of a stream may stall, heartbeats and their answers included,
//! for as long as it likes, and what was on its way then comes late.
//!
//! Left out, and tested elsewhere:
//!
//! - On a stream that is not stalled a heartbeat and its answer arrive at once, and are not lost or repeated:
//!   the next one comes a second later. Of those that are held up the last arrives, and may be lost or come
//!   again. That others do is played at random by `tests/pair` and the simulator.
//! - A stream that is followed by another takes along what was on its way, late copies included: that
//!   neither side reads it any more (safety rule 4) is for scripts. So are versions, other clusters, names,
//!   checks that fail, drains, limits that change, and marks: nothing here is above them.
//! - A worker's process does not end; its machine may be destroyed. Clocks run alike.
//!
//! Time passes from one of a few moments to the next, or until something is said, and in every state
//! everything that may happen is tried. Nothing else bounds a world, neither a depth nor a count, so
//! all that can be reached in it is looked at: up to the point where no run is on its way and none may
//! be sent, since after that nothing can be started.
//!
//! `STERNA_LONG=1` makes four of the worlds larger.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test that cannot go on says where, and what it has seen is worth a line"
)]

#[cfg(feature = "planted")]
mod planted;
mod shared;
mod small;
mod state;

use stateright::{Checker, Model};

use small::{PROMISES, Small};
use state::Left;

/// All begins at 10 s, with the last heartbeats. Who is silent from then on is given up at 17 s, has
/// ended what it runs at 24, and the leader counts on that at 26.
const MOMENTS: &[u64] = &[11_000, 13_000, 18_000, 21_000, 26_500, 28_000];
/// Those around which something is decided.
const FEW_MOMENTS: &[u64] = &[13_000, 18_000, 26_500];

/// Those of a world in which nothing ends by itself: the full wait of a leader that is elected by 13 s is
/// over at the last.
const KEPT_MOMENTS: &[u64] = &[11_000, 13_000, 18_000, 30_000];

/// Nothing goes wrong, and the leader stays.
const NO_FAULT: Left = Left {
    losses: 0,
    copies: 0,
    overtakings: 0,
    cuts: 0,
    stalls: 0,
    restarts: 0,
    restores: 0,
    deaths: 0,
    is_kept: false,
    runs: 2,
};

/// Looks at everything that can be reached, which must be so many states at least.
fn holds(left: Left, moments: &'static [u64], states_min: usize) {
    let checker = Small::new(left, moments).checker().threads(1).spawn_dfs().join();
    let states = checker.unique_state_count();
    println!("{left:?}: {states} distinct states, at most {} deep", checker.max_depth());
    // What follows was asked for in each: it ended because nothing was left.
    assert_eq!(checker.model().expanded(), states);
    for promise in PROMISES {
        checker.assert_no_discovery(promise);
    }
    // Else nothing happened that could have broken one.
    checker.assert_any_discovery("both run");
    checker.assert_any_discovery("a key runs again");
    if left.restarts > 0 {
        checker.assert_any_discovery("two lead");
    }
    if left.restores > 0 {
        checker.assert_any_discovery("something runs after a restore");
    }
    assert!(states >= states_min, "only {states}");
}

fn is_long() -> bool {
    std::env::var_os("STERNA_LONG").is_some()
}

/// One frame is lost, one comes again, and the leader is followed by another.
#[test]
fn a_change_of_leader_with_a_lost_and_a_repeated_frame() {
    holds(Left { restarts: 1, losses: 1, copies: 1, ..NO_FAULT }, MOMENTS, 1_800_000);
}

/// One stream breaks, unnoticed by the leader, and the leader is followed by another.
#[test]
fn a_change_of_leader_with_a_broken_stream() {
    holds(Left { restarts: 1, cuts: 1, ..NO_FAULT }, MOMENTS, 1_600_000);
}

/// One direction of a stream is stalled for a while, and the leader is followed by another.
#[test]
fn a_change_of_leader_with_a_stall() {
    let (moments, states_min) =
        if is_long() { (MOMENTS, 10_000_000) } else { (FEW_MOMENTS, 900_000) };
    holds(Left { restarts: 1, stalls: 1, ..NO_FAULT }, moments, states_min);
}

/// One direction of a stream is stalled for a while, and one frame is lost.
#[test]
fn a_stall_with_a_lost_frame() {
    holds(Left { stalls: 1, losses: 1, ..NO_FAULT }, MOMENTS, 600_000);
}

/// One direction of a stream is stalled for a while, and one of the frames that come then comes again: a
/// heartbeat or its answer, too.
#[test]
fn a_stall_with_a_repeated_frame() {
    let moments = if is_long() { MOMENTS } else { FEW_MOMENTS };
    holds(Left { stalls: 1, copies: 1, ..NO_FAULT }, moments, 350_000);
}

/// Everything is under `keep`, a machine is destroyed and may be declared dead, and the leader is followed
/// by another.
#[test]
fn kept_work_with_a_destroyed_machine_and_a_change_of_leader() {
    let left = Left { is_kept: true, deaths: 1, restarts: 1, ..NO_FAULT };
    holds(left, KEPT_MOMENTS, 110_000);
}

/// The same with a store that is set back to before everything: whoever is missing may keep what nobody
/// claims any more (safety rule 25). One frame is lost; in long mode a stream breaks, too.
#[test]
fn kept_work_after_a_restore() {
    let left = Left { is_kept: true, restores: 1, deaths: 1, losses: 1, ..NO_FAULT };
    holds(Left { cuts: u8::from(is_long()), ..left }, KEPT_MOMENTS, 500_000);
}

/// One frame each is lost, comes again, and is overtaken; in long mode a stream breaks, too.
#[test]
fn frames_lost_repeated_and_overtaken() {
    let left = Left { losses: 1, copies: 1, overtakings: 1, ..NO_FAULT };
    holds(Left { cuts: u8::from(is_long()), ..left }, MOMENTS, 120_000);
}
