//! Every checker bites: each mistake is found by the checker of a promise that it breaks.

use std::{iter, sync::Mutex, thread};

use sterna_sim::{
    Options,
    planted::{Mistake, find},
};

const USUAL: Options = Options { minutes: 10, workers: 5 };

/// Within so many seeds.
const SEEDS: u64 = 2_000;

/// Seeds that are known to find what takes long; it spares the search while the world is as it is.
const KNOWN: &[(Mistake, u64)] = &[
    (Mistake::CountsAnyAbsence, 111),
    (Mistake::DestroysStale, 3_896),
    (Mistake::ForgetsStops, 455),
    (Mistake::HasNoMargin, 259),
    (Mistake::LeavesKillingToOthers, 118),
    (Mistake::LeavesStrays, 264),
    (Mistake::StopsAtTheDeadline, 118),
];

#[test]
fn every_planted_mistake_is_found() {
    let left = Mutex::new(Mistake::ALL.iter());
    let not_found = Mutex::new(Vec::new());
    // By turns, so that two threads are busy to the end.
    let search = || {
        while let Some(mistake) = { left.lock().unwrap().next() } {
            let known = KNOWN.iter().find(|(one, _)| one == mistake).map(|(_, seed)| *seed);
            let found = known
                .and_then(|seed| find(*mistake, &USUAL, iter::once(seed)))
                .or_else(|| find(*mistake, &USUAL, 0..SEEDS));
            match found {
                Some((count, violation)) => println!("{mistake:?} | {count} | {violation}"),
                None => not_found.lock().unwrap().push(*mistake),
            }
        }
    };
    thread::scope(|scope| {
        scope.spawn(search);
        search();
    });
    assert_eq!(*not_found.lock().unwrap(), []);
}

#[test]
fn there_are_fifty() {
    assert!(Mistake::ALL.len() >= 50, "{}", Mistake::ALL.len());
}
