//! Kinds, and the keys of records in the store.

use super::{Name, NameError, Namespace, NodeError, WorkKey};
use crate::number;
use crate::text::{quoted, text_face};
use std::fmt;
use std::str::FromStr;

/// What a name is the name of.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// Instances that are kept running.
    Service,
    /// One command, once.
    Task,
    /// A time pattern that fires work.
    Schedule,
    /// One command for each node of a forest.
    Batch,
    /// Nodes and their limits, shared by batches; no work itself.
    Forest,
    /// A task that is stored and not started; no work itself.
    Definition,
}

impl Kind {
    /// All kinds, in their order.
    pub const ALL: [Self; 6] =
        [Self::Service, Self::Task, Self::Schedule, Self::Batch, Self::Forest, Self::Definition];

    /// The word for it in keys, specs and selectors.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Service => "service",
            Self::Task => "task",
            Self::Schedule => "schedule",
            Self::Batch => "batch",
            Self::Forest => "forest",
            Self::Definition => "definition",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for Kind {
    type Err = KeyError;

    fn from_str(text: &str) -> Result<Self, KeyError> {
        let unknown = || KeyError::UnknownKind { text: text.to_owned() };
        Self::ALL.into_iter().find(|kind| kind.as_str() == text).ok_or_else(unknown)
    }
}

text_face! {
    Kind reads with word, "a kind";
}

/// The store's key for the record of one named thing: `/v1/default/service/web`.
pub fn record_path(namespace: &Namespace, kind: Kind, name: &Name) -> String {
    format!("/v1/{namespace}/{kind}/{name}")
}

/// What the store's keys for all records of a kind start with: `/v1/default/service/`. Ends with
/// the slash, so that nothing else starts with it.
pub fn record_prefix(namespace: &Namespace, kind: Kind) -> String {
    format!("/v1/{namespace}/{kind}/")
}

/// Reads the index of an instance.
pub(crate) fn read_index(text: &str) -> Option<u32> {
    number::plain(text).and_then(|index| u32::try_from(index).ok())
}

/// Why a text is not a key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KeyError {
    /// The word is no kind.
    #[error(
        "unknown kind {}: kinds are service, task, schedule, batch, forest and definition",
        quoted(.text)
    )]
    UnknownKind {
        /// The word.
        text: String,
    },
    /// The parts do not make a key.
    #[error(
        "{} is not a key: write NAMESPACE/service/NAME/INDEX, NAMESPACE/task/NAME \
         or NAMESPACE/batch/NAME/NODE",
        quoted(.key)
    )]
    Mistyped {
        /// The whole text.
        key: String,
    },
    /// A key of another kind of work.
    #[error("{} is a key of another kind: write {form}", quoted(.key))]
    OtherKind {
        /// The whole text.
        key: String,
        /// The form that is expected.
        form: &'static str,
    },
    /// One of the names is none.
    #[error("key {} holds a bad name", quoted(.key))]
    BadName {
        /// The whole text.
        key: String,
        /// What is wrong with it.
        source: NameError,
    },
    /// The node is none.
    #[error("key {} holds a bad node", quoted(.key))]
    BadNode {
        /// The whole text.
        key: String,
        /// What is wrong with it.
        source: NodeError,
    },
    /// The node is escaped in another way than ours.
    #[error("key {} has another spelling: write '{spelled}'", quoted(.key))]
    Respell {
        /// The whole text.
        key: String,
        /// What it means.
        spelled: WorkKey,
    },
}
