//! The table of instances.

use super::Container;

/// What the record says of the index, seen from α.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Record {
    /// There is none.
    Missing,
    /// It waits for a worker.
    Unclaimed,
    /// α starts it.
    ClaimedHere,
    /// ω starts it.
    ClaimedElsewhere,
    /// α runs it.
    RunningHere,
    /// ω runs it.
    RunningElsewhere,
    /// It crashed, and waits.
    Crashed,
}

impl Record {
    /// All of them, in their order.
    pub const ALL: [Self; 7] = [
        Self::Missing,
        Self::Unclaimed,
        Self::ClaimedHere,
        Self::ClaimedElsewhere,
        Self::RunningHere,
        Self::RunningElsewhere,
        Self::Crashed,
    ];
}

/// What is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Action {
    /// Nothing.
    Leave,
    /// The container ends, and goes.
    End,
    /// The record says that α starts it.
    Claim,
    /// The record says that α runs it.
    Run,
    /// The crash is counted and judged, and the container goes.
    Crash,
    /// The record is free of α, and the container goes.
    Vacate,
}

/// The table. Every pair is written out.
#[rustfmt::skip]
pub const fn reconcile(container: Container, record: Record) -> Action {
    use Action::{Claim, Crash, End, Leave, Run, Vacate};
    use Container as C;
    use Record as R;
    match (container, record) {
        // A place is kept, and nothing is decided yet.
        (C::Reserved, R::Missing)          => Leave,
        (C::Reserved, R::Unclaimed)        => Leave,
        (C::Reserved, R::ClaimedHere)      => Leave,
        (C::Reserved, R::ClaimedElsewhere) => Leave,
        (C::Reserved, R::RunningHere)      => Leave,
        (C::Reserved, R::RunningElsewhere) => Leave,
        (C::Reserved, R::Crashed)          => Leave,
        // Nobody wants it any more.
        (C::Starting, R::Missing)          => End,
        (C::Starting, R::Unclaimed)        => Claim,
        (C::Starting, R::ClaimedHere)      => Leave,
        (C::Starting, R::ClaimedElsewhere) => End,
        // Not possible, but the record should be made to tell the truth.
        (C::Starting, R::RunningHere)      => Claim,
        (C::Starting, R::RunningElsewhere) => End,
        (C::Starting, R::Crashed)          => End,
        // An empty store must not end what runs.
        (C::Running,  R::Missing)          => Run,
        (C::Running,  R::Unclaimed)        => Run,
        (C::Running,  R::ClaimedHere)      => Run,
        // What runs wins over what is only starting.
        (C::Running,  R::ClaimedElsewhere) => Run,
        (C::Running,  R::RunningHere)      => Leave,
        (C::Running,  R::RunningElsewhere) => End,
        // It has not crashed: here it is.
        (C::Running,  R::Crashed)          => Run,
        (C::Crashed,  R::Missing)          => Crash,
        (C::Crashed,  R::Unclaimed)        => End,
        (C::Crashed,  R::ClaimedHere)      => Crash,
        (C::Crashed,  R::ClaimedElsewhere) => End,
        (C::Crashed,  R::RunningHere)      => Crash,
        (C::Crashed,  R::RunningElsewhere) => End,
        // It was counted already.
        (C::Crashed,  R::Crashed)          => End,
        (C::Shutdown, R::Missing)          => End,
        (C::Shutdown, R::Unclaimed)        => End,
        (C::Shutdown, R::ClaimedHere)      => Vacate,
        (C::Shutdown, R::ClaimedElsewhere) => End,
        (C::Shutdown, R::RunningHere)      => Vacate,
        (C::Shutdown, R::RunningElsewhere) => End,
        (C::Shutdown, R::Crashed)          => End,
        (C::Absent,   R::Missing)          => Leave,
        (C::Absent,   R::Unclaimed)        => Leave,
        (C::Absent,   R::ClaimedHere)      => Vacate,
        (C::Absent,   R::ClaimedElsewhere) => Leave,
        (C::Absent,   R::RunningHere)      => Vacate,
        (C::Absent,   R::RunningElsewhere) => Leave,
        (C::Absent,   R::Crashed)          => Leave,
    }
}
