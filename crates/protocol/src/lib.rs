//! What a leader and its workers say to each other, and what each may conclude from it.
//!
//! ```text
//!        leader                                            worker
//!   scheduler::Fleet ◀── FromWorker: heartbeats, ... ──  worker::Worker
//!        │           ──  FromLeader: runs, ...      ──▶      │
//!     consensus, roster         health, limits           deadlines
//! ```
//!
//! | room | what it is |
//! | --- | --- |
//! | [`message`] | every call and answer, as plain values |
//! | [`limits`] | the one record from which all deadlines are computed |
//! | [`health`] | one function, judged by both sides |
//! | [`scheduler`], [`worker`] | the two sides of a link, mirrored file by file |
//! | [`consensus`] | whether the workers that came back agree on who they all are |
//! | [`planted`] | mistakes on purpose, under the feature of that name |
//! | [`roster`] | for whom a new leader waits, and how long |
//!
//! Invariant: the leader errs on the side of "it is running": a run leaves its table only when it
//! was settled, or is certainly gone.
//!
//! This crate is pure: no clock, no randomness, no I/O. Time, ids and messages come in as
//! arguments; what is to be done goes out as effects. It does not know what work is, nor who
//! stores what.

pub mod consensus;
pub mod health;
pub mod limits;
pub mod message;
pub mod planted;
pub mod roster;
pub mod scheduler;
pub mod worker;
