//! The record of a cluster, and what a server remembers of it: one line of text each.

use std::{fmt, str::FromStr};

use sterna_model::{ClusterId, Epoch, Marks, Nonce, Position, Span, Term};

use crate::{StoreError, leader::RecordError};

/// Where the record stands.
pub const CLUSTER_KEY: &str = "/v1/-/cluster";
/// Stands in a store as long as a cluster is being copied into it.
pub const COPYING_KEY: &str = "/v1/-/copying";

/// Whose store it is, and in which of its lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cluster {
    /// Drawn once, when the cluster was made.
    pub id: ClusterId,
    /// The life of the store.
    pub epoch: Epoch,
    /// How far it has come in it.
    pub stage: Stage,
    /// The oldest sterna that may lead with what stands in it.
    pub floor: Floor,
}

/// The oldest version of sterna that may lead with a store: what an older one would forget or
/// misread stands there.
///
/// It rises in the commit that first writes such a thing, and never falls. Programs from before
/// there were floors refuse the whole record, so they do not lead either.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Floor {
    major: u16,
    minor: u16,
    patch: u16,
}

impl Floor {
    /// The first version. A store with this floor has no word for it.
    pub const FIRST: Self = Self::new(0, 1, 0);
    /// Definitions of tasks are records of their own.
    pub const DEFINITIONS: Self = Self::new(0, 2, 0);
    /// This program leads with stores up to this floor.
    pub const OURS: Self = Self::DEFINITIONS;

    const fn new(major: u16, minor: u16, patch: u16) -> Self {
        Self { major, minor, patch }
    }
}

impl fmt::Display for Floor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)
    }
}

impl FromStr for Floor {
    type Err = ClusterError;

    fn from_str(text: &str) -> Result<Self, ClusterError> {
        let read = || {
            let mut parts = text.split('.').map(|part| part.parse().ok());
            let floor = Self::new(parts.next()??, parts.next()??, parts.next()??);
            (parts.next().is_none() && floor.to_string() == text).then_some(floor)
        };
        read().ok_or_else(|| ClusterError::Unreadable { text: text.to_owned() })
    }
}

/// What stands before the floor in a cluster's record.
const FLOOR: &str = "floor:";

/// How far a cluster has come in its epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Nobody was ever on its roster (safety rule 21).
    Virgin,
    /// In use. The commit that enrols the first worker also writes this.
    Used,
    /// It was found to lag, and is used with all care until somebody says that it is whole.
    Recovered,
    /// It goes on in another store; no server uses this one.
    Moved,
}

impl Stage {
    pub(super) const ALL: [Self; 4] = [Self::Virgin, Self::Used, Self::Recovered, Self::Moved];

    const fn as_str(self) -> &'static str {
        match self {
            Self::Virgin => "virgin",
            Self::Used => "used",
            Self::Recovered => "recovered",
            Self::Moved => "moved",
        }
    }
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for Stage {
    type Err = ClusterError;

    fn from_str(text: &str) -> Result<Self, ClusterError> {
        let unreadable = || ClusterError::Unreadable { text: text.to_owned() };
        Self::ALL.into_iter().find(|stage| stage.as_str() == text).ok_or_else(unreadable)
    }
}

impl Cluster {
    /// Reads what stands in the store.
    ///
    /// # Errors
    /// It is damaged, or of a newer sterna.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, ClusterError> {
        String::from_utf8_lossy(bytes).parse()
    }
}

impl fmt::Display for Cluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "1 {} {} {}", self.id, self.epoch.get(), self.stage.as_str())?;
        if self.floor == Floor::FIRST { Ok(()) } else { write!(f, " {FLOOR}{}", self.floor) }
    }
}

impl FromStr for Cluster {
    type Err = ClusterError;

    fn from_str(text: &str) -> Result<Self, ClusterError> {
        let read = || {
            let mut words = text.split(' ');
            let (version, id) = (words.next()?, words.next()?.parse().ok()?);
            let epoch = Epoch::new(words.next()?.parse().ok()?);
            let stage = words.next()?.parse().ok()?;
            let floor = match words.next() {
                Some(word) => word.strip_prefix(FLOOR)?.parse().ok()?,
                None => Floor::FIRST,
            };
            let is_whole = version == "1" && words.next().is_none();
            is_whole.then_some(Self { id, epoch, stage, floor })
        };
        read().ok_or_else(|| ClusterError::Unreadable { text: text.to_owned() })
    }
}

/// What a server, or a worker, has seen of a store. It outlives the store's own memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    /// Whose.
    pub cluster: ClusterId,
    /// The highest that was seen.
    pub position: Position,
    /// The reign that lasted at that position, by its term and nonce.
    pub reign: Option<(Term, Nonce)>,
    /// The highest marks that were seen of it; whoever reads limits says them. A store that is set back
    /// takes its own along, and what was started under them may still be running.
    pub marks: Marks,
}

impl Seen {
    /// This, after what was seen before: neither the position nor a mark falls. What was seen of
    /// another cluster is no part of it.
    #[must_use]
    pub fn after(self, before: Option<&Self>) -> Self {
        let Some(before) = before.filter(|before| before.cluster == self.cluster) else {
            return self;
        };
        let highest = if before.position > self.position { *before } else { self };
        Self { marks: self.marks.max(before.marks), ..highest }
    }
}

/// What stands before marks.
const MARKS: &str = "marks:";
/// What stands in marks of a cluster that has kept batches, and of one that has not.
const KEPT: [&str; 2] = ["kept", "none-kept"];
/// What stands at their end if a task or an instance was ever kept.
const KEPT_CLAIMS: &str = "claims-kept";

impl fmt::Display for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "1 {} {}", self.cluster, self.position)?;
        if let Some((term, nonce)) = self.reign {
            write!(f, " {} {:016x}", term.get(), nonce.get())?;
        }
        if self.marks == Marks::NONE {
            return Ok(());
        }
        let Marks {
            batch_stop_after_max: batch,
            stop_after_max: any,
            has_kept_batches,
            has_kept_claims,
        } = self.marks;
        let kept = KEPT[usize::from(!has_kept_batches)];
        write!(f, " {MARKS}{},{},{kept}", batch.as_millis(), any.as_millis())?;
        if has_kept_claims { write!(f, ",{KEPT_CLAIMS}") } else { Ok(()) }
    }
}

fn marks_of(word: &str) -> Option<Marks> {
    let mut parts = word.strip_prefix(MARKS)?.split(',');
    let mut span = || Some(Span::from_millis(parts.next()?.parse().ok()?));
    let (batch_stop_after_max, stop_after_max) = (span()?, span()?);
    let kept = parts.next()?;
    let has_kept_batches = !KEPT.iter().position(|word| *word == kept).map(|at| at == 1)?;
    // Earlier builds end here.
    let has_kept_claims = match parts.next() {
        Some(word) => Some(word).filter(|word| *word == KEPT_CLAIMS).map(|_| true)?,
        None => false,
    };
    let marks = Marks { batch_stop_after_max, stop_after_max, has_kept_batches, has_kept_claims };
    (parts.next().is_none() && marks != Marks::NONE).then_some(marks)
}

impl FromStr for Seen {
    type Err = ClusterError;

    fn from_str(text: &str) -> Result<Self, ClusterError> {
        let read = || {
            let mut words = text.split(' ');
            let (version, cluster) = (words.next()?, words.next()?.parse().ok()?);
            let position = words.next()?.parse().ok()?;
            let mut words = words.peekable();
            let reign = match words.next_if(|word| !word.starts_with(MARKS)) {
                Some(term) => {
                    let nonce = u64::from_str_radix(words.next()?, 16).ok()?;
                    Some((Term::new(term.parse().ok()?), Nonce::new(nonce)))
                }
                None => None,
            };
            let marks = match words.next() {
                Some(word) => marks_of(word)?,
                None => Marks::NONE,
            };
            let is_whole = version == "1" && words.next().is_none();
            is_whole.then_some(Self { cluster, position, reign, marks })
        };
        read().ok_or_else(|| ClusterError::Unreadable { text: text.to_owned() })
    }
}

/// Why a cluster could not be read, made or recovered.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClusterError {
    /// The store itself.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Who leads, or led, cannot be read.
    #[error(transparent)]
    Reign(#[from] RecordError),
    /// What stands there is not ours to understand.
    #[error(
        "the cluster record {text:?} is damaged or of a newer sterna; run one version everywhere"
    )]
    Unreadable {
        /// What stands there.
        text: String,
    },
    /// A newer sterna has written what this one does not know.
    #[error(
        "this sterna leads with stores up to format {}, and the store has format {floor}: let sterna \
         {floor} or later lead, or restore a backup from before it",
        Floor::OURS
    )]
    TooNew {
        /// The oldest version that may lead.
        floor: Floor,
    },
    /// A new cluster is made only in an empty store.
    #[error("the store is not empty, it holds {key}; give the cluster a store of its own")]
    NotEmpty {
        /// The first key that was found.
        key: String,
    },
    /// A cluster was being copied here, and that was not finished.
    #[error(
        "a cluster was being copied into this store, and that did not come to its end; empty the \
         store and copy again"
    )]
    HalfCopied,
    /// Somebody else was faster.
    #[error("another server leads, or has opened an epoch; read the cluster record again")]
    Overtaken,
}
