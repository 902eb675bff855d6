//! Why work was not placed, with all that a person needs to change it.

use std::{collections::BTreeSet, fmt};

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

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoWorker => f.write_str("there is no worker: start one"),
            Self::NoStack { stack, known } if known.is_empty() => {
                write!(f, "no worker has a stack, {stack} is asked for: start one that has it")
            }
            Self::NoStack { stack, known } => {
                write!(f, "no worker has the stack {stack}: there are {}", list(known))
            }
            Self::NoTags { nearest, missing, unasked } => {
                write!(f, "no worker has the right tags; {nearest} comes nearest")?;
                if !missing.is_empty() {
                    write!(f, ", it lacks {}", list(missing))?;
                }
                if !unasked.is_empty() {
                    write!(f, ", it takes only work that asks for {}", list(unasked))?;
                }
                Ok(())
            }
            Self::NoZone { zone: Some(zone) } => {
                write!(f, "it is pinned to the zone {zone}, where no worker may have it")
            }
            Self::NoZone { zone: None } => {
                f.write_str("it is pinned to the workers without a zone, of which none may have it")
            }
            Self::TooLarge { nearest, lacks } => {
                let lacks = list(lacks);
                write!(f, "no worker could ever hold it; {nearest} comes nearest: {lacks}")
            }
            Self::Withheld { nearest, workers: 1 } => {
                write!(f, "only {nearest} may have it, and takes no work now")
            }
            Self::Withheld { nearest, workers } => {
                write!(f, "{workers} workers may have it, none takes work now; {nearest} is one")
            }
            Self::Short { nearest, lacks } => {
                write!(f, "no worker has enough free; {nearest} comes nearest: {}", list(lacks))
            }
            Self::Apart { nearest, from } => {
                write!(f, "it must be apart from {from}, which is on every worker with room; ")?;
                write!(f, "without it {nearest} would be next")
            }
            Self::StartLimit { limit } => {
                write!(f, "{limit} containers are starting, as many as may: it waits for one")
            }
        }
    }
}

fn list<T: fmt::Display>(items: impl IntoIterator<Item = T>) -> String {
    items.into_iter().map(|item| item.to_string()).collect::<Vec<_>>().join(", ")
}
