//! What happens to a run when its worker falls silent.

use crate::Span;

/// The silence contract of a run. It travels with the run and is frozen when the run starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Contract {
    /// The worker keeps it running; the leader starts another after so much silence, never a third.
    Replace {
        /// How long the worker must have been silent.
        after: Span,
    },
    /// The worker has ended it before so long has passed since the stamp of its last confirmed
    /// heartbeat; after that the leader may start it elsewhere.
    Stop {
        /// How long, as the leader counts it. The worker begins earlier (safety rule 7).
        after: Span,
    },
    /// The worker keeps it running, and the leader starts nothing in its place.
    Keep,
}

impl Contract {
    /// After how much silence the run has certainly ended by itself; `None` if never.
    pub const fn stop_after(self) -> Option<Span> {
        match self {
            Self::Stop { after } => Some(after),
            Self::Replace { .. } | Self::Keep => None,
        }
    }
}
