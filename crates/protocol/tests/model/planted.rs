//! One mistake each: a broken promise must be reachable, in a world no larger than it takes.

use stateright::{Checker, HasDiscoveries, Model};
use sterna_protocol::planted::Mistake;

use crate::{KEPT_MOMENTS, MOMENTS, NO_FAULT, PROMISES, Small, state::Left};

fn is_found(mistake: Mistake, left: Left) {
    is_found_by(mistake, left, MOMENTS);
}

fn is_found_by(mistake: Mistake, left: Left, moments: &'static [u64]) {
    let checker = Small::new(left, moments).with(mistake).checker().threads(1);
    let checker = checker.finish_when(HasDiscoveries::AnyFailures).spawn_dfs().join();
    let broken = PROMISES.iter().find(|promise| checker.discovery(promise).is_some());
    let states = checker.unique_state_count();
    let broken = broken.unwrap_or_else(|| panic!("{mistake:?} breaks nothing in {states} states"));
    println!("{mistake:?} breaks {broken}, found after {states} states");
}

#[test]
fn mistakes_that_one_faulty_frame_shows() {
    is_found(Mistake::DecidesTwice, Left { copies: 1, ..NO_FAULT });
    is_found(Mistake::IgnoresNotify, Left { overtakings: 1, ..NO_FAULT });
    is_found(Mistake::FreesTheUnsure, Left { losses: 1, ..NO_FAULT });
}

#[test]
fn mistakes_that_a_silent_worker_shows() {
    for mistake in [
        Mistake::StopsAtTheDeadline,
        Mistake::FreesAtLoss,
        Mistake::ForgetsAtRebirth,
        Mistake::ForgetsAtOwnRebirth,
        Mistake::CountsFromElection,
    ] {
        is_found(mistake, Left { cuts: 1, ..NO_FAULT });
        is_found(mistake, Left { stalls: 1, ..NO_FAULT });
    }
}

/// An answer is held up, then what would follow it, too; it comes late, and whoever counts from its arrival
/// stops too late. The worker gives itself up soon after the second moment.
#[test]
fn mistakes_that_a_late_answer_shows() {
    let moments = &[11_000, 15_000, 28_000];
    is_found_by(Mistake::CountsFromArrival, Left { stalls: 2, ..NO_FAULT }, moments);
}

#[test]
fn mistakes_that_a_change_of_leader_shows() {
    for mistake in [Mistake::SpeaksWhenMute, Mistake::OpensAllDoors, Mistake::EnrolsNobody] {
        is_found(mistake, Left { restarts: 1, ..NO_FAULT });
    }
    is_found(Mistake::CountsAnyAbsence, Left { restarts: 1, copies: 1, ..NO_FAULT });
}

/// Somebody says, rightly, that the roster is complete, and it is not asked who of it is back.
#[test]
fn mistakes_that_a_restore_shows() {
    let left = Left { is_kept: true, restores: 1, ..NO_FAULT };
    is_found_by(Mistake::IgnoresRoster, left, KEPT_MOMENTS);
}

#[test]
fn mistakes_that_take_a_broken_stream_and_a_change_of_leader() {
    for mistake in [Mistake::ConfirmsTooEarly, Mistake::DropsRosterAtLoss, Mistake::IgnoresRoster] {
        is_found(mistake, Left { restarts: 1, cuts: 1, ..NO_FAULT });
    }
}
