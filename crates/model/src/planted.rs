//! Mistakes that are put in on purpose, to show that checkers bite.
//!
//! Each is asked for at the one place where it would be made. Without the feature `planted` the
//! answer is a constant no, and nothing can be planted.

use std::cell::Cell;

macro_rules! mistakes {
    ($($(#[doc = $line:literal])* $name:ident,)*) => {
        /// One way to get it wrong.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Mistake {
            $($(#[doc = $line])* $name,)*
        }

        impl Mistake {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$name,)*];

            /// What is done wrong, in a sentence. It begins with a space, as its comment does.
            pub const fn sentence(self) -> &'static str {
                match self {
                    $(Self::$name => concat!($($line),*),)*
                }
            }
        }
    };
}

mistakes! {
    /// A worker decides again about a run that it has decided (safety rule 1).
    DecidesTwice,
    /// A worker begins what it has refused because it cannot keep it (safety rule 1).
    BeginsTheRefused,
    /// A worker starts what it has said to be not running.
    IgnoresNotify,
    /// A worker counts deadlines from when it hears (safety rules 3 and 7).
    CountsFromArrival,
    /// Whoever stops a run begins with that when it should be gone (safety rule 7).
    StopsAtTheDeadline,
    /// A leader takes what it has no answer about for not started.
    FreesTheUnsure,
    /// A leader believes every list that lacks a run (safety rule 5).
    CountsAnyAbsence,
    /// A leader confirms a worker before it knows what that runs (safety rule 7).
    ConfirmsTooEarly,
    /// A leader frees what a worker ran when it gives the worker up (safety rule 9).
    FreesAtLoss,
    /// A leader takes what an earlier life ran for gone (safety rule 5).
    ForgetsAtRebirth,
    /// A leader goes on after its lease (safety rule 16).
    SpeaksWhenMute,
    /// A worker leaves the roster when it is given up (safety rule 19).
    DropsRosterAtLoss,
    /// A new leader waits for nobody (safety rule 20).
    OpensAllDoors,
    /// A new leader counts the deadlines of earlier reigns from before its election (safety rule 7).
    CountsFromStart,
    /// A leader's commits expect nothing (safety rule 17).
    CommitsUnfenced,
    /// A leader takes a commit without an answer for one that did not apply (safety rule 18).
    TakesUnknownForFailed,
    /// A status overwrites how a task ended, though that is known (safety rule 24).
    BelievesStaleRuns,
    /// A task whose run is gone is started again (safety rule 6).
    RestartsLostTasks,
    /// A worker lives on when the store was set back (safety rule 6).
    OutlivesTheEpoch,
    /// A leader acknowledges a status before it is recorded.
    AcknowledgesTooEarly,
    /// A leader commits a claim after it has sent the run (safety rule 6).
    ClaimsAfterSend,
    /// An instance gets a third copy (safety rule 22).
    StartsAThird,
    /// Deadlines have no margin (safety rule 10).
    HasNoMargin,
    /// A worker forgets what it runs when it is reborn.
    ForgetsAtOwnRebirth,
    /// A new leader does not ask who is on the roster (safety rule 20).
    IgnoresRoster,
    /// A leader counts all deadlines from its election (safety rule 7).
    CountsFromElection,
    /// A leader puts nobody on the roster (safety rule 19).
    EnrolsNobody,
    /// Marks of what was ever started fall with the limits (safety rule 11).
    LetsMarksFall,
    /// Settling does not raise the fence counter (safety rule 18).
    RaisesNoFence,
    /// A guardian keeps no deadlines (safety rule 12).
    KeepsNoDeadline,
    /// A guardian lets everything outlive its worker.
    IgnoresWorkerExit,
    /// A guardian does not know which ends an earlier one has begun (safety rules 8 and 14).
    ForgetsStops,
    /// A worker begins its life without what its guardian holds (safety rule 15).
    AdoptsNothing,
    /// A guardian does not list what waits for its go byte (safety rule 13).
    ListsOnlyTheStarted,
    /// A worker that starts again does not raise its counter.
    ReusesItsLife,
    /// A leader does not count what an earlier one has placed.
    OversellsWorkers,
    /// A client is told of its task before it is committed.
    AcknowledgesUnwritten,
    /// A worker that adopts a run takes the end of an earlier step for the run's own.
    HearsOldNews,
    /// A worker leaves it to its guardian to kill (safety rule 12).
    LeavesKillingToOthers,
    /// A leader calls a worker alive that was declared dead, by the word of the life that it gave up
    /// (safety rule 24).
    RevivesTheDead,
    /// Whether an index is wanted is judged by how many there are.
    JudgesByCount,
    /// The crashes of an instance are forgotten when it is given to a worker.
    ForgetsCrashes,
    /// Work is placed where it does not fit.
    PlacesOverCapacity,
    /// What is told to end takes nothing any more (safety rule 23).
    FreesAtTerm,
    /// A callback that nobody took is not tried again.
    LosesCallbacks,
    /// A copy that evacuated goes on beside the one that took its place.
    LeavesTwins,
    /// The name of a task that is over may be taken (safety rule 27).
    FreesNames,
    /// A new leader does not know which machines are drained (safety rule 23).
    ForgetsDrains,
    /// What is not wanted ends though its domain is stale.
    DestroysStale,
    /// A task that runs is ended by its latest start.
    ExpiresRunning,
    /// Nothing stays of a task that was deleted (safety rule 27).
    ForgetsTombstones,
    /// A store stays virgin when a worker joins (safety rule 21).
    StaysVirgin,
    /// A task that was pending before a restore is started (safety rule 25).
    RestartsAfterRestore,
    /// A leader numbers its runs anew on a new stream (safety rule 4).
    ResetsNumbers,
    /// What waits for room is not tried again when a worker has some.
    ForgetsWaiting,
    /// An instance that waits after a crash is forgotten.
    ForgetsRestarts,
    /// What runs without a record goes on (safety rule 24).
    LeavesStrays,
    /// A worker that was silent once is taken for silent.
    RemembersSilence,
    /// Crashes are forgotten when the spec changes in place.
    ForgivesChanges,
    /// A task that is made asks nobody for a worker.
    ForgetsPending,
    /// The latest start of a task is forgotten.
    ForgetsLatestStarts,
    /// The deadline of a drain is forgotten.
    ForgetsDrainEnds,
    /// What could move from a drained machine is asked to end when the drain begins.
    EndsTheDrained,
    /// The name of a task that was deleted is never free again.
    KeepsNames,
    /// Of the tasks that are over half as many are kept as may be.
    ForgetsTooMany,
    /// When an update is over, the spec before it is written.
    DropsUpdates,
    /// The drain of a machine goes when it leaves the roster.
    ForgetsStruckDrains,
    /// A domain is forgotten with a service of it.
    ForgetsDomains,
    /// A life that joins takes off that its machine was declared dead.
    UnmarksTheDead,
    /// When older limits are over, the newest go.
    LosesLimits,
    /// A task whose run is gone is called cancelled.
    CallsLostCancelled,
    /// A task is deleted when its receiver was told.
    BuriesTheTold,
    /// An instance that is asked to stop goes on, and the client is told that it is done.
    StopsNothing,
    /// That a machine is forgotten is not written, and the client is told that it is done.
    ForgetsNobody,
    /// A task that is over is said not to be there.
    DeniesTasks,
    /// A guardian lets go once more what its worker adopts.
    LetsGoTwice,
    /// A new leader reads anew how long a run may last (safety rule 7).
    RereadsStopAfter,
    /// An update ends all instances at once.
    EndsAllAtOnce,
    /// An update does not wait until an instance has run for long enough.
    TrustsTheYoung,
    /// A version is taken back by its first crash.
    TakesBackTooEarly,
    /// A version that crashes again and again is not taken back.
    TakesNothingBack,
    /// An update does not wait until an instance is ready.
    TrustsTheUnready,
    /// A version that is not ready is not taken back.
    ForgivesTheUnready,
    /// What is moved from a drained machine ends before the next one is ready.
    EndsTheMoved,
    /// An update goes no further than its first instances.
    LeavesUpdates,
}

thread_local! {
    static PLANTED: Cell<Option<Mistake>> = const { Cell::new(None) };
}

/// Makes everything on this thread do this wrong from now on, or nothing.
#[cfg(feature = "planted")]
pub fn plant(mistake: Option<Mistake>) {
    PLANTED.set(mistake);
}

/// Whether this is to be done wrong.
pub fn is_planted(mistake: Mistake) -> bool {
    cfg!(feature = "planted") && PLANTED.get() == Some(mistake)
}
