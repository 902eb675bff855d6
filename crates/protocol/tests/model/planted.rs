//! One mistake each: a broken promise must be reachable.

use stateright::{Checker, HasDiscoveries, Model};
use sterna_protocol::planted::Mistake;

use super::{PROMISES, Small, state::Left};

/// No fault, and so many runs.
const fn runs(runs: u8) -> Left {
    Left { losses: 0, copies: 0, cuts: 0, restarts: 0, runs }
}

#[test]
fn planted_mistakes_are_found() {
    let all = [
        (Mistake::DecidesTwice, Left { copies: 1, ..runs(2) }),
        (Mistake::FreesTheUnsure, runs(2)),
        (Mistake::FreesAtLoss, Left { cuts: 1, ..runs(2) }),
        (Mistake::IgnoresNotify, runs(2)),
    ];
    for (mistake, left) in all {
        let model = Small { left, mistake: Some(mistake) };
        let found = HasDiscoveries::AnyFailures;
        let checker = model.checker().threads(2).target_state_count(200_000).finish_when(found);
        let checker = checker.spawn_bfs().join();
        let broken = PROMISES.iter().find(|promise| checker.discovery(promise).is_some());
        println!("{mistake:?}: {broken:?} in {} distinct states", checker.unique_state_count());
        assert!(broken.is_some(), "{mistake:?} is not found");
    }
}
