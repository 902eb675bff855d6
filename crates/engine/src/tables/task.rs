//! The table of tasks.

use super::Container;

/// What the record says of the task, seen from α. Another life of the task is no task of α's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Record {
    /// There is none.
    Missing,
    /// It waits for a worker.
    Pending,
    /// α has it.
    RunningHere,
    /// ω has it.
    RunningElsewhere,
    /// It is over.
    Completed,
    /// Its end is being told.
    Resolving,
}

impl Record {
    /// All of them, in their order.
    pub const ALL: [Self; 6] = [
        Self::Missing,
        Self::Pending,
        Self::RunningHere,
        Self::RunningElsewhere,
        Self::Completed,
        Self::Resolving,
    ];
}

/// What is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Action {
    /// Nothing.
    Leave,
    /// The container ends, and goes.
    End,
    /// The same, and people are told: it must not be.
    EndLoudly,
    /// The record says that α has it.
    Claim,
    /// The task is over, as the container says; that goes.
    Complete,
    /// The task is over and failed: it is not where the record says.
    Fail,
}

/// The table. Every pair is written out.
#[rustfmt::skip]
pub const fn reconcile(container: Container, record: Record) -> Action {
    use Action::{Claim, Complete, End, EndLoudly, Fail, Leave};
    use Container as C;
    use Record as R;
    match (container, record) {
        (C::Reserved, R::Missing)          => End,
        (C::Reserved, R::Pending)          => Leave,
        // The record says that it runs, and it does not.
        (C::Reserved, R::RunningHere)      => Fail,
        (C::Reserved, R::RunningElsewhere) => End,
        (C::Reserved, R::Completed)        => End,
        (C::Reserved, R::Resolving)        => End,
        // It was cancelled and deleted.
        (C::Starting | C::Running, R::Missing)          => End,
        (C::Starting | C::Running, R::Pending)          => Claim,
        (C::Starting | C::Running, R::RunningHere)      => Leave,
        (C::Starting | C::Running, R::RunningElsewhere) => EndLoudly,
        // It was cancelled.
        (C::Starting | C::Running, R::Completed)        => End,
        (C::Starting | C::Running, R::Resolving)        => End,
        (C::Crashed | C::Shutdown, R::Missing)          => End,
        (C::Crashed | C::Shutdown, R::Pending)          => Complete,
        (C::Crashed | C::Shutdown, R::RunningHere)      => Complete,
        (C::Crashed | C::Shutdown, R::RunningElsewhere) => EndLoudly,
        (C::Crashed | C::Shutdown, R::Completed)        => End,
        (C::Crashed | C::Shutdown, R::Resolving)        => End,
        (C::Absent, R::Missing)            => Leave,
        (C::Absent, R::Pending)            => Leave,
        (C::Absent, R::RunningHere)        => Fail,
        (C::Absent, R::RunningElsewhere)   => Leave,
        (C::Absent, R::Completed)          => Leave,
        (C::Absent, R::Resolving)          => Leave,
    }
}
