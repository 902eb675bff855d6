//! The keys of work that must not run twice: one type for each kind, and one for all.

use super::{KeyError, Kind, Name, Namespace, NodeName, key::read_index};
use crate::text::text_face;
use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

/// A piece of work inside its namespace, as people write it.
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

impl Work {
    /// The key of this work in a namespace.
    pub fn within(self, namespace: &Namespace) -> WorkKey {
        let namespace = namespace.clone();
        match self {
            Self::Instance { service, index } => {
                WorkKey::Instance(InstanceKey::new(ServiceKey { namespace, name: service }, index))
            }
            Self::Task(name) => WorkKey::Task(TaskKey { namespace, name }),
            Self::Node { batch, node } => {
                WorkKey::Node(NodeKey { batch: BatchKey { namespace, name: batch }, node })
            }
        }
    }
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

/// Defines the key of a kind: a name in a namespace.
macro_rules! named_keys {
    ($($(#[$doc:meta])* $key:ident => $kind:expr;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $key {
            /// The namespace of the name.
            pub namespace: Namespace,
            /// The name.
            pub name: Name,
        }

        impl $key {
            /// The kind of what has such a key.
            pub const KIND: Kind = $kind;
        }

        impl fmt::Display for $key {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}/{}/{}", self.namespace, Self::KIND, self.name)
            }
        }

        impl fmt::Debug for $key {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }
    )*};
}

named_keys! {
    /// The key of a service: `default/service/web`.
    ServiceKey => Kind::Service;
    /// The key of a task: `default/task/build-42`.
    TaskKey => Kind::Task;
    /// The key of a schedule: `default/schedule/nightly`.
    ScheduleKey => Kind::Schedule;
    /// The key of a batch: `default/batch/reindex`.
    BatchKey => Kind::Batch;
    /// The key of a definition: `default/definition/build`.
    DefinitionKey => Kind::Definition;
}

impl ServiceKey {
    /// The key of one of its instances.
    pub fn instance(&self, index: u32) -> InstanceKey {
        InstanceKey::new(self.clone(), index)
    }
}

/// The key of one instance of a service: `default/service/web/3`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct InstanceKey {
    /// The service.
    pub service: ServiceKey,
    /// Counted from 0.
    pub index: u32,
}

impl InstanceKey {
    /// The instance of `service` with this index.
    pub const fn new(service: ServiceKey, index: u32) -> Self {
        Self { service, index }
    }

    /// The same key, where any work may stand.
    pub fn to_work(&self) -> WorkKey {
        WorkKey::Instance(self.clone())
    }
}

impl TaskKey {
    /// The same key, where any work may stand.
    pub fn to_work(&self) -> WorkKey {
        WorkKey::Task(self.clone())
    }
}

impl fmt::Display for InstanceKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.service, self.index)
    }
}

/// The key of one node of a batch: `default/batch/reindex/db7`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeKey {
    /// The batch.
    pub batch: BatchKey,
    /// The node; escaped in text.
    pub node: NodeName,
}

impl fmt::Display for NodeKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.batch, self.node)
    }
}

/// The key of any work that must not run twice. A *run* is one start of it.
///
/// Code that handles one kind only takes the key of that kind; code that handles all kinds matches
/// on this, and so refuses to compile when a kind is added. Not to be confused with the key of a
/// record in the store: [`record_path`](crate::record_path).
#[derive(Clone, PartialEq, Eq, Hash)]
pub enum WorkKey {
    /// An instance of a service.
    Instance(InstanceKey),
    /// A task.
    Task(TaskKey),
    /// A node of a batch.
    Node(NodeKey),
}

impl WorkKey {
    /// The namespace of the work.
    pub const fn namespace(&self) -> &Namespace {
        match self {
            Self::Instance(key) => &key.service.namespace,
            Self::Task(key) => &key.namespace,
            Self::Node(key) => &key.batch.namespace,
        }
    }

    /// The work inside its namespace.
    pub fn work(&self) -> Work {
        match self {
            Self::Instance(InstanceKey { service, index }) => {
                Work::Instance { service: service.name.clone(), index: *index }
            }
            Self::Task(key) => Work::Task(key.name.clone()),
            Self::Node(NodeKey { batch, node }) => {
                Work::Node { batch: batch.name.clone(), node: node.clone() }
            }
        }
    }

    /// Shows the key to someone who works in `namespace`: the namespace is left out there.
    pub fn short(&self, namespace: &Namespace) -> impl fmt::Display {
        let is_clear = self.namespace() == namespace;
        fmt::from_fn(
            move |f| {
                if is_clear { write!(f, "{}", self.work()) } else { write!(f, "{self}") }
            },
        )
    }

    /// The kind of what this is a part of.
    pub const fn kind(&self) -> Kind {
        match self {
            Self::Instance(_) => Kind::Service,
            Self::Task(_) => Kind::Task,
            Self::Node(_) => Kind::Batch,
        }
    }

    /// Whether a second copy may run while the worker of the first is silent or drained, if its contract
    /// says so.
    pub const fn may_have_twin(&self) -> bool {
        match self {
            Self::Instance(_) => true,
            Self::Task(_) | Self::Node(_) => false,
        }
    }

    /// Whether it belongs to a batch: after a change of leader batches wait behind doors of their own.
    pub const fn is_in_batch(&self) -> bool {
        match self {
            Self::Node(_) => true,
            Self::Instance(_) | Self::Task(_) => false,
        }
    }

    /// How many bytes its names have.
    pub fn name_bytes(&self) -> usize {
        let names = match self {
            Self::Instance(key) => key.service.name.as_str().len(),
            Self::Task(key) => key.name.as_str().len(),
            Self::Node(key) => key.batch.name.as_str().len() + key.node.as_str().len(),
        };
        self.namespace().as_str().len() + names
    }

    /// The instance, if this is one. For code that concerns services alone; code that decides by
    /// kind matches instead.
    pub const fn instance(&self) -> Option<&InstanceKey> {
        match self {
            Self::Instance(key) => Some(key),
            Self::Task(_) | Self::Node(_) => None,
        }
    }

    /// The task, if this is one. For code that concerns tasks alone; code that decides by kind
    /// matches instead.
    pub const fn task(&self) -> Option<&TaskKey> {
        match self {
            Self::Task(key) => Some(key),
            Self::Instance(_) | Self::Node(_) => None,
        }
    }
}

/// By namespace, then instances, tasks and nodes.
impl Ord for WorkKey {
    fn cmp(&self, other: &Self) -> Ordering {
        let by_namespace = || self.namespace().cmp(other.namespace());
        match (self, other) {
            (Self::Instance(one), Self::Instance(other)) => one.cmp(other),
            (Self::Task(one), Self::Task(other)) => one.cmp(other),
            (Self::Node(one), Self::Node(other)) => one.cmp(other),
            (Self::Instance(_), Self::Task(_) | Self::Node(_)) | (Self::Task(_), Self::Node(_)) => {
                by_namespace().then(Ordering::Less)
            }
            (Self::Task(_) | Self::Node(_), Self::Instance(_)) | (Self::Node(_), Self::Task(_)) => {
                by_namespace().then(Ordering::Greater)
            }
        }
    }
}

impl PartialOrd for WorkKey {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq<InstanceKey> for WorkKey {
    fn eq(&self, other: &InstanceKey) -> bool {
        self.instance() == Some(other)
    }
}

impl PartialEq<TaskKey> for WorkKey {
    fn eq(&self, other: &TaskKey) -> bool {
        self.task() == Some(other)
    }
}

impl From<InstanceKey> for WorkKey {
    fn from(key: InstanceKey) -> Self {
        Self::Instance(key)
    }
}

impl From<TaskKey> for WorkKey {
    fn from(key: TaskKey) -> Self {
        Self::Task(key)
    }
}

impl From<&InstanceKey> for WorkKey {
    fn from(key: &InstanceKey) -> Self {
        key.to_work()
    }
}

impl From<&TaskKey> for WorkKey {
    fn from(key: &TaskKey) -> Self {
        key.to_work()
    }
}

impl From<&Self> for WorkKey {
    fn from(key: &Self) -> Self {
        key.clone()
    }
}

impl From<NodeKey> for WorkKey {
    fn from(key: NodeKey) -> Self {
        Self::Node(key)
    }
}

impl fmt::Display for WorkKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Instance(key) => key.fmt(f),
            Self::Task(key) => key.fmt(f),
            Self::Node(key) => key.fmt(f),
        }
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
        let read = work.within(&Namespace(name(namespace)?));
        // A node can be escaped in many ways, but equal keys must have equal texts.
        if read.to_string() != key {
            return Err(KeyError::Respell { key: key.to_owned(), spelled: read });
        }
        Ok(read)
    }
}

text_face! {
    WorkKey reads with word, "a key";
}

/// Debug output is the display text, because keys stand in log lines and test tables.
macro_rules! shown_as_text {
    ($($key:ident)*) => {$(
        impl fmt::Debug for $key {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }
    )*};
}

shown_as_text! { Work InstanceKey NodeKey }

impl FromStr for TaskKey {
    type Err = KeyError;

    fn from_str(text: &str) -> Result<Self, KeyError> {
        match text.parse()? {
            WorkKey::Task(key) => Ok(key),
            WorkKey::Instance(_) | WorkKey::Node(_) => {
                Err(KeyError::OtherKind { key: text.to_owned(), form: "NAMESPACE/task/NAME" })
            }
        }
    }
}

impl FromStr for InstanceKey {
    type Err = KeyError;

    fn from_str(text: &str) -> Result<Self, KeyError> {
        match text.parse()? {
            WorkKey::Instance(key) => Ok(key),
            WorkKey::Task(_) | WorkKey::Node(_) => Err(KeyError::OtherKind {
                key: text.to_owned(),
                form: "NAMESPACE/service/NAME/INDEX",
            }),
        }
    }
}
