//! Keys: of work that must not run twice, and of records in the store.

use super::{Name, NameError, Namespace, NodeError, NodeName};
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
}

impl Kind {
    /// All kinds, in their order.
    pub const ALL: [Self; 5] =
        [Self::Service, Self::Task, Self::Schedule, Self::Batch, Self::Forest];

    /// The word for it in keys, specs and selectors.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Service => "service",
            Self::Task => "task",
            Self::Schedule => "schedule",
            Self::Batch => "batch",
            Self::Forest => "forest",
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

/// Work that must not run twice, inside its namespace.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Work {
    /// One index of a service: `service/web/3`.
    Instance {
        /// The service.
        service: Name,
        /// Counted from 0.
        index: u32,
    },
    /// A task: `task/build-42`.
    Task(Name),
    /// One node of a batch: `batch/reindex/db7`.
    Node {
        /// The batch.
        batch: Name,
        /// The node; escaped in text.
        node: NodeName,
    },
}

impl fmt::Display for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Instance { service, index } => write!(f, "service/{service}/{index}"),
            Self::Task(name) => write!(f, "task/{name}"),
            Self::Node { batch, node } => write!(f, "batch/{batch}/{node}"),
        }
    }
}

/// The key of work that must not run twice: the namespace, and the work in it. A *run* is one
/// start of it. Not to be confused with the key of a record in the store: [`record_path`].
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WorkKey {
    /// Where the name holds.
    pub namespace: Namespace,
    /// The work.
    pub work: Work,
}

impl WorkKey {
    /// Shows the key to someone who is in `namespace`: what is there goes without saying so.
    pub fn short(&self, namespace: &Namespace) -> impl fmt::Display {
        let is_clear = self.namespace == *namespace;
        fmt::from_fn(
            move |f| {
                if is_clear { write!(f, "{}", self.work) } else { write!(f, "{self}") }
            },
        )
    }
}

impl fmt::Display for WorkKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.work)
    }
}

impl FromStr for WorkKey {
    type Err = KeyError;

    fn from_str(key: &str) -> Result<Self, KeyError> {
        let mistyped = || KeyError::Mistyped { key: key.to_owned() };
        let name = |text: &str| {
            Name::new(text).map_err(|source| KeyError::BadName { key: key.to_owned(), source })
        };
        let parts: Vec<&str> = key.split('/').collect();
        let (namespace, work) = match parts[..] {
            [namespace, "service", service, index] => {
                let index = read_index(index).ok_or_else(mistyped)?;
                (namespace, Work::Instance { service: name(service)?, index })
            }
            [namespace, "task", task] => (namespace, Work::Task(name(task)?)),
            [namespace, "batch", batch, node] => {
                let node: NodeName = node
                    .parse()
                    .map_err(|source| KeyError::BadNode { key: key.to_owned(), source })?;
                (namespace, Work::Node { batch: name(batch)?, node })
            }
            _ => return Err(mistyped()),
        };
        let read = Self { namespace: Namespace(name(namespace)?), work };
        // A node can be escaped in many ways, but equal keys must have equal texts.
        if read.to_string() != key {
            return Err(KeyError::Respell { key: key.to_owned(), spelled: read });
        }
        Ok(read)
    }
}

text_face! {
    Kind reads with word, "a kind";
    WorkKey reads with word, "a key";
}

impl fmt::Debug for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
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
        "unknown kind {}: kinds are service, task, schedule, batch and forest",
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
