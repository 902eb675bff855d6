//! One mistake each: the world must notice.

use std::iter;

use sterna_protocol::planted::{Mistake, plant};

use super::World;

/// Seeds to be played at most until a mistake is found.
const SEEDS: u64 = 3_000;

/// `first` is a seed that is known to find it, which spares the search while the world is as it is.
fn is_found(mistake: Mistake, first: u64) {
    plant(Some(mistake));
    // That something is late, or looks odd, is not enough: a promise must be broken.
    let is_promise = |broken: &String| broken.starts_with('P');
    let broken = |seed| World::new(seed, false).play().err().filter(is_promise);
    let found = iter::once(first).chain(0..SEEDS).find_map(|seed| Some((seed, broken(seed)?)));
    plant(None);
    let Some((seed, broken)) = found else { panic!("{mistake:?} is not found") };
    println!("{mistake:?} is found by seed {seed}: {broken}");
}

macro_rules! found {
    ($($name:ident => $mistake:ident, $first:literal;)*) => {
        $(#[test]
        fn $name() {
            is_found(Mistake::$mistake, $first);
        })*
    };
}

found! {
    a_worker_that_decides_twice_is_found => DecidesTwice, 3;
    a_worker_that_ignores_notify_is_found => IgnoresNotify, 678;
    a_worker_that_counts_from_arrival_is_found => CountsFromArrival, 783;
    a_worker_that_stops_at_the_deadline_is_found => StopsAtTheDeadline, 25;
    a_leader_that_frees_the_unsure_is_found => FreesTheUnsure, 25;
    a_leader_that_counts_any_absence_is_found => CountsAnyAbsence, 56;
    a_leader_that_confirms_too_early_is_found => ConfirmsTooEarly, 1055;
    a_leader_that_frees_at_loss_is_found => FreesAtLoss, 17;
    a_leader_that_forgets_at_rebirth_is_found => ForgetsAtRebirth, 22;
    a_leader_that_speaks_when_mute_is_found => SpeaksWhenMute, 94;
    a_leader_that_drops_the_roster_at_loss_is_found => DropsRosterAtLoss, 120;
    a_leader_that_opens_all_doors_is_found => OpensAllDoors, 2;
}
