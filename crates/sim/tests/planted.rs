//! Every checker bites: each mistake is found by the checker of a promise that it breaks.
//!
//! With `STERNA_COUNT=1` nothing is spared, and the table that stands in PROMISES.md is printed:
//! `STERNA_COUNT=1 cargo test -p sterna-sim --all-features --test planted -- --nocapture`.

use std::{collections::BTreeMap, iter, sync::Mutex, thread};

use sterna_sim::{
    Options, Promise, Violation,
    planted::{Mistake, breaks, find},
};

const USUAL: Options = Options { minutes: 10, workers: 5 };

/// Within so many seeds, counted from the first; most within so many.
const SEEDS: u64 = 2_000;
const MOST: u64 = 500;

/// By which promise and seed each mistake is known to be found: the table of PROMISES.md says the same,
/// and it spares the search while the world is as it is.
const KNOWN: &[(Mistake, Promise, u64)] = &[
    (Mistake::DecidesTwice, Promise::P1, 393),
    (Mistake::BeginsTheRefused, Promise::P2, 15),
    (Mistake::IgnoresNotify, Promise::P10, 98),
    (Mistake::CountsFromArrival, Promise::P10, 46),
    (Mistake::StopsAtTheDeadline, Promise::P10, 2),
    (Mistake::FreesTheUnsure, Promise::P10, 63),
    (Mistake::CountsAnyAbsence, Promise::P10, 23),
    (Mistake::ConfirmsTooEarly, Promise::P2, 2),
    (Mistake::FreesAtLoss, Promise::P10, 0),
    (Mistake::ForgetsAtRebirth, Promise::P10, 0),
    (Mistake::SpeaksWhenMute, Promise::P10, 10),
    (Mistake::DropsRosterAtLoss, Promise::P10, 35),
    (Mistake::OpensAllDoors, Promise::P10, 0),
    (Mistake::CountsFromStart, Promise::P10, 0),
    (Mistake::CommitsUnfenced, Promise::P7, 4),
    (Mistake::TakesUnknownForFailed, Promise::P5, 9),
    (Mistake::BelievesStaleRuns, Promise::P5, 0),
    (Mistake::RestartsLostTasks, Promise::P1, 0),
    (Mistake::OutlivesTheEpoch, Promise::P1, 175),
    (Mistake::AcknowledgesTooEarly, Promise::P5, 0),
    (Mistake::ClaimsAfterSend, Promise::P10, 0),
    (Mistake::StartsAThird, Promise::P2, 0),
    (Mistake::HasNoMargin, Promise::P10, 273),
    (Mistake::ForgetsAtOwnRebirth, Promise::P10, 0),
    (Mistake::IgnoresRoster, Promise::P10, 1),
    (Mistake::CountsFromElection, Promise::P10, 0),
    (Mistake::EnrolsNobody, Promise::P10, 8),
    (Mistake::LetsMarksFall, Promise::P10, 1),
    (Mistake::RaisesNoFence, Promise::P5, 1),
    (Mistake::KeepsNoDeadline, Promise::P10, 0),
    (Mistake::IgnoresWorkerExit, Promise::P8, 0),
    (Mistake::ForgetsStops, Promise::P8, 779),
    (Mistake::AdoptsNothing, Promise::P10, 0),
    (Mistake::ListsOnlyTheStarted, Promise::P2, 419),
    (Mistake::ReusesItsLife, Promise::P3, 3),
    (Mistake::OversellsWorkers, Promise::P6, 2),
    (Mistake::AcknowledgesUnwritten, Promise::P5, 0),
    (Mistake::HearsOldNews, Promise::P5, 1),
    (Mistake::LeavesKillingToOthers, Promise::P10, 206),
    (Mistake::RevivesTheDead, Promise::P2, 2),
    (Mistake::JudgesByCount, Promise::P3, 0),
    (Mistake::ForgetsCrashes, Promise::P9, 8),
    (Mistake::PlacesOverCapacity, Promise::P6, 1),
    (Mistake::FreesAtTerm, Promise::P6, 1),
    (Mistake::LosesCallbacks, Promise::P5, 0),
    (Mistake::LeavesTwins, Promise::P9, 1),
    (Mistake::FreesNames, Promise::P5, 0),
    (Mistake::ForgetsDrains, Promise::P5, 4),
    (Mistake::DestroysStale, Promise::P5, 264),
    (Mistake::ExpiresRunning, Promise::P5, 0),
    (Mistake::ForgetsTombstones, Promise::P5, 0),
    (Mistake::StaysVirgin, Promise::P10, 0),
    (Mistake::RestartsAfterRestore, Promise::P1, 413),
    (Mistake::ResetsNumbers, Promise::P3, 0),
    (Mistake::ForgetsWaiting, Promise::P3, 2),
    (Mistake::ForgetsRestarts, Promise::Swept, 0),
    (Mistake::LeavesStrays, Promise::P9, 20),
    (Mistake::RemembersSilence, Promise::P2, 1),
    (Mistake::ForgivesChanges, Promise::P9, 0),
    (Mistake::ForgetsPending, Promise::Swept, 0),
    (Mistake::ForgetsLatestStarts, Promise::Swept, 1),
    (Mistake::ForgetsDrainEnds, Promise::Swept, 0),
    (Mistake::KeepsNames, Promise::Swept, 0),
    (Mistake::ForgetsTooMany, Promise::P5, 5),
    (Mistake::DropsUpdates, Promise::P5, 0),
    (Mistake::ForgetsStruckDrains, Promise::P5, 3),
    (Mistake::ForgetsDomains, Promise::P5, 0),
    (Mistake::UnmarksTheDead, Promise::P5, 1),
    (Mistake::LosesLimits, Promise::P5, 159),
    (Mistake::CallsLostCancelled, Promise::P5, 0),
    (Mistake::BuriesTheTold, Promise::P5, 0),
    (Mistake::StopsNothing, Promise::P5, 0),
    (Mistake::ForgetsNobody, Promise::P5, 53),
    (Mistake::DeniesTasks, Promise::P5, 0),
    (Mistake::LetsGoTwice, Promise::P1, 0),
    (Mistake::RereadsStopAfter, Promise::P10, 25),
    (Mistake::EndsAllAtOnce, Promise::P5, 0),
    (Mistake::TrustsTheYoung, Promise::P5, 0),
    (Mistake::TakesBackTooEarly, Promise::P5, 0),
    (Mistake::TakesNothingBack, Promise::P5, 0),
    (Mistake::TrustsTheUnready, Promise::P5, 0),
    (Mistake::ForgivesTheUnready, Promise::P9, 0),
    (Mistake::EndsTheMoved, Promise::P5, 0),
    (Mistake::EndsTheDrained, Promise::P5, 0),
    (Mistake::LeavesUpdates, Promise::P9, 0),
];

fn search(mistake: Mistake, spares: bool) -> Option<(u64, Violation)> {
    let known = KNOWN.iter().find(|(one, ..)| *one == mistake).filter(|_| spares);
    known
        .and_then(|(_, promise, seed)| {
            let (_, violation) = find(mistake, &USUAL, iter::once(*seed))?;
            (violation.promise == *promise).then_some((seed + 1, violation))
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
    // The same, to be put into `KNOWN`.
    for (mistake, one) in &found {
        if let Some((count, violation)) = one {
            println!(
                "    (Mistake::{mistake:?}, Promise::{:?}, {}),",
                violation.promise,
                count - 1
            );
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
    let beyond: Vec<_> = KNOWN.iter().filter(|(.., seed)| *seed >= SEEDS).collect();
    assert!(beyond.is_empty(), "{beyond:?}");
    let wrong: Vec<_> = KNOWN.iter().filter(|(one, by, _)| !breaks(*one).contains(by)).collect();
    assert!(wrong.is_empty(), "{wrong:?}");
    let unknown = |one: &&Mistake| !KNOWN.iter().any(|(known, ..)| known == *one);
    let unknown: Vec<_> = Mistake::ALL.iter().filter(unknown).collect();
    assert!(unknown.is_empty(), "{unknown:?}");
}

#[test]
fn the_table_of_the_promises_is_what_is_known() {
    let page = include_str!("../../../PROMISES.md");
    let row = |(one, promise, seed): &(Mistake, Promise, u64)| {
        format!("| {} | {promise} | {} |", one.sentence().trim(), seed + 1)
    };
    let rows: Vec<String> = KNOWN.iter().map(row).collect();
    let missing: Vec<_> =
        rows.iter().filter(|row| !page.lines().any(|line| line == *row)).collect();
    assert!(missing.is_empty(), "{missing:#?}: print the table anew, as this file says");
    let head = "| mistake | found by | seeds |";
    let told = page.lines().skip_while(|line| *line != head).skip(2);
    let told: Vec<&str> = told.take_while(|line| line.starts_with('|')).collect();
    let strange: Vec<_> = told.iter().filter(|line| !rows.iter().any(|row| row == *line)).collect();
    assert!(strange.is_empty(), "{strange:#?}: nobody knows these");
    assert_eq!(told.len(), rows.len(), "none stands there twice");
}

#[test]
fn there_are_fifty() {
    assert!(Mistake::ALL.len() >= 50, "{}", Mistake::ALL.len());
}
