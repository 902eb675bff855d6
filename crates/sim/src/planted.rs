//! Mistakes that are put in on purpose, and which promises each breaks.
//!
//! The list of mistakes is the model's, so that every core can ask for its own.

#[cfg(feature = "planted")]
pub use sterna_model::planted::plant;
pub use sterna_model::planted::{Mistake, is_planted};

use crate::Promise;

/// The promises that a mistake breaks, whichever is seen first.
#[rustfmt::skip]
pub const fn breaks(mistake: Mistake) -> &'static [Promise] {
    use Mistake as M;
    use Promise::{P1, P2, P3, P5, P6, P7, P8, P9, P10, Swept};
    match mistake {
        M::DecidesTwice          => &[P1],
        M::BeginsTheRefused | M::IgnoresNotify => &[P1, P2, P10],
        M::CountsFromArrival     => &[P2, P10],
        M::StopsAtTheDeadline    => &[P2, P10],
        M::FreesTheUnsure        => &[P2, P10],
        M::CountsAnyAbsence      => &[P2, P10],
        M::ConfirmsTooEarly      => &[P2, P10],
        M::FreesAtLoss           => &[P2, P10],
        M::ForgetsAtRebirth      => &[P1, P2, P10],
        M::SpeaksWhenMute        => &[P2, P10],
        M::DropsRosterAtLoss     => &[P2, P10],
        M::OpensAllDoors         => &[P2, P10],
        M::CountsFromStart       => &[P2, P10],
        M::CommitsUnfenced       => &[P7],
        M::TakesUnknownForFailed => &[P1, P2, P5, P7, P10],
        M::BelievesStaleRuns     => &[P5],
        M::RestartsLostTasks     => &[P1],
        M::AcknowledgesTooEarly  => &[P5],
        M::ClaimsAfterSend       => &[P10],
        M::StartsAThird          => &[P2],
        M::HasNoMargin           => &[P2, P10],
        M::ForgetsAtOwnRebirth   => &[P2, P10],
        M::IgnoresRoster         => &[P2, P10],
        M::CountsFromElection    => &[P2, P10],
        M::EnrolsNobody          => &[P2, P10],
        M::LetsMarksFall         => &[P10],
        M::RaisesNoFence         => &[P1, P2, P5, P10],
        M::KeepsNoDeadline       => &[P2, P10],
        M::IgnoresWorkerExit     => &[P8],
        M::ForgetsStops          => &[P8],
        M::AdoptsNothing         => &[P1, P2, P10],
        M::ListsOnlyTheStarted   => &[P1, P2, P9, P10],
        M::ReusesItsLife         => &[P1, P2, P3, P9, P10],
        M::OversellsWorkers      => &[P6],
        M::AcknowledgesUnwritten => &[P5],
        M::HearsOldNews          => &[P5],
        M::LeavesKillingToOthers => &[P2, P10],
        M::RevivesTheDead        => &[P2],
        M::JudgesByCount         => &[P3],
        M::ForgetsCrashes        => &[P9],
        M::PlacesOverCapacity | M::FreesAtTerm => &[P6],
        M::LosesCallbacks        => &[P5],
        M::LeavesTwins           => &[P2, P9],
        M::FreesNames            => &[P1, P5],
        M::ForgetsDrains         => &[P5],
        M::DestroysStale | M::ExpiresRunning => &[P5],
        M::ForgetsTombstones     => &[P1, P5],
        M::StaysVirgin           => &[P2, P10],
        M::RestartsAfterRestore  => &[P1],
        M::OutlivesTheEpoch      => &[P1],
        M::ResetsNumbers         => &[P3, P9],
        M::ForgetsWaiting        => &[P3],
        M::ForgetsRestarts       => &[P3, Swept],
        M::LeavesStrays | M::ForgivesTheUnready | M::LeavesUpdates => &[P9],
        M::RemembersSilence      => &[P2, P9],
        M::ForgivesChanges       => &[P9],
        M::ForgetsPending        => &[P3, Swept],
        M::ForgetsLatestStarts | M::ForgetsDrainEnds | M::KeepsNames => &[Swept],
        M::ForgetsTooMany        => &[P5],
        M::DropsUpdates | M::ForgetsStruckDrains | M::ForgetsDomains | M::UnmarksTheDead
        | M::LosesLimits | M::CallsLostCancelled | M::BuriesTheTold | M::StopsNothing
        | M::ForgetsNobody | M::DeniesTasks => &[P5],
        M::LetsGoTwice           => &[P1],
        M::RereadsStopAfter      => &[P2, P10],
        M::EndsAllAtOnce | M::TrustsTheYoung | M::TakesBackTooEarly | M::TakesNothingBack
        | M::TrustsTheUnready | M::EndsTheMoved | M::EndsTheDrained => &[P5],
    }
}

/// Plays seeds from `from` on with a mistake in everything, until a promise that it breaks is broken;
/// gives how many seeds that took, and how it was broken.
#[cfg(feature = "planted")]
pub fn find(
    mistake: Mistake,
    options: &crate::Options,
    seeds: impl Iterator<Item = u64>,
) -> Option<(u64, crate::Violation)> {
    plant(Some(mistake));
    let found = seeds.zip(1..).find_map(|(seed, count)| {
        let violation = crate::play(seed, options).violation?;
        breaks(mistake).contains(&violation.promise).then_some((count, violation))
    });
    plant(None);
    found
}
