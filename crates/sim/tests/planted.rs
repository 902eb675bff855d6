//! Every checker bites: each mistake is found by the checker of a promise that it breaks.
//!
//! With `STERNA_COUNT=1` nothing is spared, and the table that stands in PROMISES.md is printed:
//! `STERNA_COUNT=1 cargo test -p sterna-sim --all-features --test planted -- --nocapture`.

use std::{collections::BTreeMap, iter, sync::Mutex, thread};

use sterna_sim::{
    Options, Violation,
    planted::{Mistake, find},
};

const USUAL: Options = Options { minutes: 10, workers: 5 };

/// Within so many seeds, counted from the first; most within so many.
const SEEDS: u64 = 2_000;
const MOST: u64 = 500;

/// Seeds that are known to find what takes long; it spares the search while the world is as it is.
const KNOWN: &[(Mistake, u64)] = &[
    (Mistake::CountsFromArrival, 244),
    (Mistake::HasNoMargin, 141),
    (Mistake::LeavesKillingToOthers, 153),
    (Mistake::LeavesStrays, 160),
    (Mistake::ListsOnlyTheStarted, 296),
    (Mistake::OutlivesTheEpoch, 541),
    (Mistake::RestartsAfterRestore, 413),
    (Mistake::StopsAtTheDeadline, 653),
];

fn search(mistake: Mistake, spares: bool) -> Option<(u64, Violation)> {
    let known = KNOWN.iter().find(|(one, _)| *one == mistake).filter(|_| spares);
    known
        .and_then(|(_, seed)| {
            let (_, violation) = find(mistake, &USUAL, iter::once(*seed))?;
            Some((seed + 1, violation))
        })
        .or_else(|| find(mistake, &USUAL, 0..SEEDS))
}

#[test]
fn every_planted_mistake_is_found() {
    let is_counting = std::env::var_os("STERNA_COUNT").is_some();
    let left = Mutex::new(Mistake::ALL.iter());
    let found = Mutex::new(BTreeMap::new());
    // By turns, so that two threads are busy to the end.
    let work = || {
        while let Some(mistake) = { left.lock().unwrap().next() } {
            let one = search(*mistake, !is_counting);
            found.lock().unwrap().insert(*mistake, one);
        }
    };
    thread::scope(|scope| {
        scope.spawn(work);
        work();
    });
    let found = found.into_inner().unwrap();
    for mistake in Mistake::ALL {
        let sentence = mistake.sentence().trim();
        match &found[mistake] {
            Some((count, violation)) => {
                println!("| {sentence} | {} | {count} |", violation.promise);
            }
            None => println!("| {sentence} | nobody | |"),
        }
    }
    let not_found: Vec<_> = found.iter().filter(|(_, one)| one.is_none()).collect();
    assert!(not_found.is_empty(), "{not_found:?}");
    let is_soon =
        |one: &&Option<(u64, Violation)>| matches!(one, Some((count, _)) if *count <= MOST);
    let soon = found.values().filter(is_soon).count();
    assert!(soon * 4 >= found.len() * 3, "{soon} of {} within {MOST} seeds", found.len());
}

#[test]
fn what_is_known_keeps_the_bound() {
    let beyond: Vec<_> = KNOWN.iter().filter(|(_, seed)| *seed >= SEEDS).collect();
    assert!(beyond.is_empty(), "{beyond:?}");
}

#[test]
fn the_table_of_the_promises_has_every_mistake() {
    let page = include_str!("../../../PROMISES.md");
    let is_missing = |one: &&Mistake| !page.contains(&format!("| {} | P", one.sentence().trim()));
    let missing: Vec<_> = Mistake::ALL.iter().filter(is_missing).collect();
    assert!(missing.is_empty(), "{missing:?}: print the table anew, as this file says");
}

#[test]
fn there_are_fifty() {
    assert!(Mistake::ALL.len() >= 50, "{}", Mistake::ALL.len());
}
