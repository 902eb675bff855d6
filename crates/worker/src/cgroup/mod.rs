//! The cgroups of this machine, as files: one group for each run, in every hierarchy that it needs.
//!
//! ```text
//!   version 2 (where mounted):  sterna-<directory>/<run>     who belongs to it, kill, freeze, empty
//!   version 1 (per hierarchy):  sterna-<directory>/<run>     limits that version 2 does not have here
//! ```
//!
//! A machine may have version 2 whole, version 1 whole, or (hybrid) both, with each controller in one
//! of them. A run with an image has its runtime in `<run>/main` and what that makes in `<run>/oci`, in
//! every hierarchy. Without version 2 a run is told apart by a group of the freezer; without either, by its
//! process tree.
//!
//! Invariant: nothing outside of our own groups is written to, except to enable controllers for them.
//!
//! It does not know when a run ends: the guardian kills, and asks whether anybody is left.

mod bounds;
mod discover;
mod group;
mod usage;

pub(crate) use self::{
    bounds::{Bounds, Texts},
    discover::{Cgroups, Versions, versions},
    group::{Group, Hold, Kind},
};
pub use self::{discover::Isolation, usage::Usage};

/// What can be limited or counted by cgroup.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Controller {
    Cpu,
    Memory,
    Pids,
    /// Version 1 only: tells runs apart where there is no version 2.
    Freezer,
}

impl Controller {
    const LIMITING: [Self; 3] = [Self::Cpu, Self::Memory, Self::Pids];

    const fn name(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::Memory => "memory",
            Self::Pids => "pids",
            Self::Freezer => "freezer",
        }
    }
}
