//! Why work was not placed, with all that a person needs to change it.

use std::collections::BTreeSet;

use sterna_model::{Lack, Name};

/// Why no worker got the work: of all workers, the one that came nearest decides which it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// There is no worker at all.
    NoWorker,
    /// No worker has the stack.
    NoStack {
        /// What was asked for.
        stack: Name,
        /// What there is.
        known: BTreeSet<Name>,
    },
    /// No worker of that stack has all tags that are asked for and requires no other.
    NoTags {
        /// The worker with the fewest differences.
        nearest: Name,
        /// What is asked for and it does not have.
        missing: BTreeSet<Name>,
        /// What it requires and is not asked for.
        unasked: BTreeSet<Name>,
    },
    /// The work is pinned to a zone in which no worker may have it.
    NoZone {
        /// The zone, where it has a name.
        zone: Option<Name>,
    },
    /// No worker that may have it could hold it, even if it were empty.
    TooLarge {
        /// The worker that comes nearest.
        nearest: Name,
        /// What even all of it lacks.
        lacks: Vec<Lack>,
    },
    /// Workers could have it, but none of them takes work: they drain, or are not healthy.
    Withheld {
        /// One of them.
        nearest: Name,
        /// How many there are.
        workers: usize,
    },
    /// No worker that takes work has enough free.
    Short {
        /// The worker that comes nearest.
        nearest: Name,
        /// What it lacks: the smallest change that would help.
        lacks: Vec<Lack>,
    },
    /// Every worker with enough free has a service from which this must be apart.
    Apart {
        /// The worker that would have got it.
        nearest: Name,
        /// The service that is there.
        from: Name,
    },
    /// As many containers are starting as may.
    StartLimit {
        /// The limit.
        limit: u32,
    },
}

/// What would have to happen for the work to be placed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Prospect {
    /// Some worker could hold it: it waits for what others use now.
    Wait,
    /// No worker could, even an empty one: a worker or the spec must change.
    Never,
}

impl Reason {
    /// Whether it is somebody's room that lacks, and not only others that are starting just now.
    pub const fn is_room(&self) -> bool {
        match self {
            Self::NoWorker
            | Self::NoStack { .. }
            | Self::NoTags { .. }
            | Self::NoZone { .. }
            | Self::TooLarge { .. }
            | Self::Withheld { .. }
            | Self::Short { .. }
            | Self::Apart { .. } => true,
            Self::StartLimit { .. } => false,
        }
    }

    /// Whether waiting alone may help.
    pub const fn prospect(&self) -> Prospect {
        match self {
            Self::NoWorker
            | Self::NoStack { .. }
            | Self::NoTags { .. }
            | Self::NoZone { .. }
            | Self::TooLarge { .. } => Prospect::Never,
            Self::Withheld { .. }
            | Self::Short { .. }
            | Self::Apart { .. }
            | Self::StartLimit { .. } => Prospect::Wait,
        }
    }
}
