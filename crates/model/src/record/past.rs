//! What is kept of an instance's runs that are over: where their output is, and how the last crash was.

use super::TaskEnd;
use crate::{Incarnation, RunId, WallTime};

/// The runs of an instance that are over. Most have none, and it says little of them: there may be
/// hundreds of thousands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Past {
    /// The one that was over last.
    pub run: RunId,
    /// Who had it: there its output is.
    pub on: Incarnation,
    /// The last crash; also one of an older version of its spec.
    pub crash: Option<Box<PastCrash>>,
}

/// A run that ended though nobody had asked for that.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PastCrash {
    /// Which.
    pub run: RunId,
    /// Who had it.
    pub on: Incarnation,
    /// When.
    pub at: WallTime,
    /// How it ended: its worker's report, or as much of it as is kept.
    pub end: TaskEnd,
}
