//! What is done about a container, given what the record says: both tables of reconciliation.
//!
//! A container is looked at from its worker, α; a record that speaks of another run, or of the same
//! run elsewhere, speaks of ω. Every row is written out, and each has a test by its name.
//!
//! Pure, and without memory. It does not know how its actions are carried out.

pub mod instance;
pub mod task;
#[cfg(test)]
mod tests;

/// How far a container is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Container {
    /// A place is kept for it.
    Reserved,
    /// It is being made, or its command does not run yet as it should.
    Starting,
    /// It runs.
    Running,
    /// It ended by itself.
    Crashed,
    /// It ended because it was asked to.
    Shutdown,
    /// There is none: it is certainly not there.
    Absent,
}

impl Container {
    /// All of them, in their order.
    pub const ALL: [Self; 6] = [
        Self::Reserved,
        Self::Starting,
        Self::Running,
        Self::Crashed,
        Self::Shutdown,
        Self::Absent,
    ];
}
