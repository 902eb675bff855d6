//! Names that machines give: one type for each, so that one is never taken for another.
//!
//! | file | ids |
//! | --- | --- |
//! | `uuids.rs` | drawn once, unique everywhere: runs, clusters, task incarnations, writes |
//! | `counters.rs` | raised by one holder, never reused: revisions, terms, epochs, sequences |
//! | `nonce.rs` | tells two reigns apart that claim the same term |
//! | `position.rs` | a revision that can be compared across lives of the store |
//! | `triples.rs` | fences and event ids: ordered across leaders and across lives of the store |
//! | `machine.rs` | the lock of a data directory, and the lives that a worker leads under it |
//!
//! Invariant: an id has one text, so equal ids have equal texts, and texts may stand in keys. All
//! but the triples say in it what they are: `run-…`, `rev7`.
//!
//! Ids are built from given time and given randomness. This room draws neither.

mod counters;
mod machine;
mod nonce;
mod position;
mod triples;
mod uuids;

pub use counters::{Epoch, FenceCounter, NotifySequence, Revision, RunSequence, Term};
pub use machine::{Incarnation, Lock, Succession};
pub use nonce::Nonce;
pub use position::Position;
pub use triples::{EventId, Fence};
pub use uuids::{ClusterId, DirectoryId, MachineId, RunId, TaskIncarnation, WriteId};

use crate::text::quoted;
use uuid::Uuid;

/// Why something is not an id.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum IdError {
    /// The text was mistyped or cut, or names another kind of thing; write it as shown.
    #[error("{} is not {expected}", quoted(.text))]
    Mistyped {
        /// What was read.
        text: String,
        /// What it should have been, and how that is written.
        expected: &'static str,
    },
    /// The bytes cannot have been made as this id; what they were read from is damaged.
    #[error(
        "bytes {} are not {expected}: what holds them is damaged",
        Uuid::from_bytes(*.bytes).simple()
    )]
    Damaged {
        /// What was read.
        bytes: [u8; 16],
        /// What it should have been.
        expected: &'static str,
    },
}
