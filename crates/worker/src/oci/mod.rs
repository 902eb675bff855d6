//! Work in an image: the file system that it finds instead of the machine's own, and the runtime (runc
//! or crun) that puts it there.
//!
//! ```text
//!   Work.image ── opened ──▶ config.json ── guardian ── runc run --detach ──▶ first process
//!                            (one for each command)       (ends at once)      (falls to the guardian)
//! ```
//!
//! Invariant: an image changes what a run finds and nothing of how it is held: its processes lie in
//! groups below the run's own, and the guardian is the parent of each command.
//!
//! Invariant: what a command is told stands in files that only the worker can read, never in words of
//! a command line.
//!
//! It does not know how images come to the machine: each is a directory that is there.

mod config;
mod discover;
mod opened;

pub use self::discover::Runtime;
pub(crate) use self::{
    config::{Bounds, Told},
    discover::{MISSING, discover},
    opened::{Opened, Start, WORK},
};
