//! One mistake each: a broken promise must be reachable.

use stateright::{Checker, HasDiscoveries, Model};
use sterna_protocol::planted::Mistake;

use super::{PROMISES, Small, state::Left};

#[test]
fn explore_planted() {
    let none =
        Left { losses: 0, copies: 0, overtakings: 0, cuts: 0, stalls: 0, restarts: 0, runs: 2 };
    let lefts = [
        none,
        Left { losses: 1, ..none },
        Left { copies: 1, ..none },
        Left { overtakings: 1, ..none },
        Left { cuts: 1, ..none },
        Left { stalls: 1, ..none },
        Left { stalls: 2, ..none },
        Left { restarts: 1, ..none },
        Left { restarts: 1, losses: 1, ..none },
        Left { restarts: 1, overtakings: 1, ..none },
        Left { restarts: 1, cuts: 1, ..none },
        Left { restarts: 1, stalls: 1, ..none },
        Left { restarts: 1, stalls: 2, ..none },
        Left { restarts: 1, losses: 1, copies: 1, ..none },
    ];
    use Mistake as M;
    for mistake in [
        M::DecidesTwice,
        M::IgnoresNotify,
        M::CountsFromArrival,
        M::StopsAtTheDeadline,
        M::FreesTheUnsure,
        M::CountsAnyAbsence,
        M::ConfirmsTooEarly,
        M::FreesAtLoss,
        M::ForgetsAtRebirth,
        M::SpeaksWhenMute,
        M::DropsRosterAtLoss,
        M::OpensAllDoors,
    ] {
        let mut found = false;
        for left in lefts {
            let model = Small { left, mistake: Some(mistake) };
            let finish = HasDiscoveries::AnyFailures;
            let checker =
                model.checker().threads(1).target_state_count(3_000_000).finish_when(finish);
            let checker = checker.spawn_dfs().join();
            let broken = PROMISES.iter().find(|promise| checker.discovery(promise).is_some());
            if broken.is_some() {
                println!(
                    "{mistake:?}: {broken:?} in {} with {left:?}",
                    checker.unique_state_count()
                );
                found = true;
                break;
            }
        }
        if !found {
            println!("{mistake:?} NOT found");
        }
    }
}
