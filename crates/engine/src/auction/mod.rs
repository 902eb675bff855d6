//! The auction: which worker gets which work, or why none does.
//!
//! Workers bid for each ask with a score; the lowest bid wins, and of equal ones the worker with the
//! smallest number. Asks come in batches, and have their turn in the order of work: instances of
//! index 0, tasks, then the other instances by index; among equals the larger memory first.
//!
//! ```text
//!   offers, occupants ──▶ Registry ──auction(asks)──▶ placed, left with a Reason
//!                            ▲                                       │
//!                            │ what was placed is taken at once      ▼
//!   a worker joined, something is gone, a container has started ─▶ Waiting ──▶ asks to try again
//! ```
//!
//! Invariant: nothing is placed that does not fit into what is free at that moment, and what was
//! placed is taken until it is gone (safety rule 23).
//! Invariant: what is scored is what is taken.
//! Invariant: an outcome depends on the offers, the occupants and the batch, not on how they came.
//! Invariant: whoever is left over is told why, and whether waiting can help.
//!
//! Workers of one class differ only in what is free, so one order by score serves all work; a tree
//! for each class finds the first of them that has room. This room does not know what a placement
//! leads to, when to hold an auction, nor how long anybody has waited.

mod bidder;
mod class;
mod diagnose;
mod indices;
mod order;
mod place;
mod reason;
mod registry;
mod rehearsal;
mod score;
mod service;
mod tree;
mod waiting;

pub use bidder::{BidderId, Occupant, Offer, Stage, Standing};
pub use place::{Ask, Left, Outcome, Placement};
pub use reason::{Prospect, Reason};
pub use registry::{Registry, RegistryError};
pub use score::{Rules, Score};
pub use waiting::{Change, Waiting};
