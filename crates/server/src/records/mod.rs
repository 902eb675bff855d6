//! Records in the store: under which key each stands, and in which bytes.
//!
//! ```text
//!   /v1/-/cluster                      whose store it is (sterna_store::cluster)
//!   /v1/-/limits                       the limits in force
//!   /v1/-/worker/LOCK                  a machine on the roster
//!   /v1/-/drain/LOCK                   a machine that is drained
//!   /v1/-/domain/NAME                  a domain
//!   /v1/-/event/NUMBER                 events, of one commit each
//!   /v1/NAMESPACE/service/NAME         a service
//!   /v1/NAMESPACE/instance/NAME/INDEX  one index of one
//!   /v1/NAMESPACE/task/NAME            a task
//!   /v1/NAMESPACE/tombstone/NAME       the name of a task that was deleted
//!   /v1/NAMESPACE/definition/NAME/VERSION
//!                                      one version of a definition, counted from 1
//! ```
//!
//! Invariant: what was written is read back as it was. What cannot be read, or stands under a key that
//! this version does not know, is refused with its key, and no server leads without it.

mod convert;
#[cfg(test)]
mod tests;
mod words;

use std::sync::Arc;

use prost::Message;
use sterna_engine::control::{Row, RowKey, ServiceRecord};
use sterna_model::{
    DefinitionKey, InstanceKey, Kind, Name, Namespace, ServiceKey, TaskKey, record_path,
};
use sterna_store::{
    cluster::{CLUSTER_KEY, COPYING_KEY},
    leader::is_election_key,
};
use sterna_wire::convert::{FieldError, Word};

/// What the keys of all records begin with.
pub(crate) const ALL: &str = "/v1/";
/// Events.
pub(crate) const EVENTS: &str = "/v1/-/event/";

const LIMITS: &str = "/v1/-/limits";
const WORKER: &str = "/v1/-/worker/";
const DRAIN: &str = "/v1/-/drain/";
const DOMAIN: &str = "/v1/-/domain/";
/// Stands for no namespace: what belongs to the whole cluster.
const NOBODYS: &str = "-";
const INSTANCE: &str = "instance";
const TOMBSTONE: &str = "tombstone";
/// `sterna store check` writes this one and removes it.
const CHECK_KEY: &str = "/v1/-/check";
/// `sterna store copy` leaves this one where a cluster has moved away from.
const MOVED_KEY: &str = "/v1/-/moved";

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Why a server does not lead with what stands in the store.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecordError {
    /// A record cannot be read.
    #[error(
        "the record {key} cannot be read: it is damaged, or a newer sterna wrote it; run one version \
         everywhere"
    )]
    Damaged {
        /// Where it stands.
        key: String,
        /// What is wrong with it.
        #[source]
        source: BoxError,
    },
    /// No program of this version writes such a key.
    #[error(
        "the store has a record that this sterna ({version}) does not know, {key}: a newer sterna wrote \
         it; let that version lead, or restore a backup from before it",
        version = env!("CARGO_PKG_VERSION")
    )]
    Unknown {
        /// Where it stands.
        key: String,
    },
}

/// The store's key of a row.
pub(crate) fn path(key: &RowKey) -> String {
    let other =
        |namespace: &Namespace, kind: &str, name: &Name| format!("{ALL}{namespace}/{kind}/{name}");
    match key {
        RowKey::Service(ServiceKey { namespace, name }) => {
            record_path(namespace, Kind::Service, name)
        }
        RowKey::Instance(InstanceKey { service: ServiceKey { namespace, name }, index }) => {
            format!("{}/{index}", other(namespace, INSTANCE, name))
        }
        RowKey::Task(TaskKey { namespace, name }) => record_path(namespace, Kind::Task, name),
        RowKey::Tombstone(TaskKey { namespace, name }) => other(namespace, TOMBSTONE, name),
        RowKey::Definition(DefinitionKey { namespace, name }, version) => {
            format!("{}/{version}", record_path(namespace, Kind::Definition, name))
        }
        RowKey::Roster(lock) => format!("{WORKER}{lock}"),
        RowKey::Drain(lock) => format!("{DRAIN}{lock}"),
        RowKey::Domain(name) => format!("{DOMAIN}{name}"),
        RowKey::Limits => LIMITS.to_owned(),
        RowKey::Stage => CLUSTER_KEY.to_owned(),
    }
}

/// The bytes of a row; `None` where nothing is to stand. The stage has none of its own: it is a word
/// of the cluster's record.
pub(crate) fn encode(row: &Row) -> Option<Vec<u8>> {
    match row {
        Row::Service(_, record) => record.as_deref().map(encode_service),
        Row::Instance(_, instance) => {
            instance.as_ref().map(|it| words::Instance::of(it).encode_to_vec())
        }
        Row::Task(_, task) => task.as_ref().map(|it| words::Task::of(it).encode_to_vec()),
        Row::Tombstone(_, stone) => {
            stone.as_ref().map(|it| words::Tombstone::of(it).encode_to_vec())
        }
        Row::Roster(_, entry) => entry.as_ref().map(|it| words::Enrolled::of(it).encode_to_vec()),
        Row::Drain(_, drain) => drain.as_ref().map(|it| words::Drain::of(it).encode_to_vec()),
        Row::Domain(_, until) => until.as_ref().map(|it| words::Domain::of(it).encode_to_vec()),
        Row::Definition(_, _, definition) => {
            definition.as_ref().map(|it| words::Definition::of(it).encode_to_vec())
        }
        Row::Limits(limits) => Some(words::LimitsInForce::of(limits).encode_to_vec()),
        Row::Stage(_) => None,
    }
}

/// A service in bytes.
pub(crate) fn encode_service(record: &ServiceRecord) -> Vec<u8> {
    words::Service::of(record).encode_to_vec()
}

/// The row under a key; `None` for the keys that elections, the cluster's record and a copy own.
///
/// # Errors
/// The bytes cannot be read, or no program of this version writes such a key: whoever led without
/// it would forget what it means.
pub(crate) fn decode(path: &str, bytes: &[u8]) -> Result<Option<Row>, RecordError> {
    if [CLUSTER_KEY, COPYING_KEY, CHECK_KEY, MOVED_KEY].contains(&path) || is_election_key(path) {
        return Ok(None);
    }
    let Some(key) = key(path) else { return Err(RecordError::Unknown { key: path.to_owned() }) };
    let row = row(key, bytes);
    row.map_err(|source| RecordError::Damaged { key: path.to_owned(), source })
}

fn key(path: &str) -> Option<RowKey> {
    if path == LIMITS {
        return Some(RowKey::Limits);
    }
    if let Some(lock) = path.strip_prefix(WORKER) {
        return Some(RowKey::Roster(lock.parse().ok()?));
    }
    if let Some(lock) = path.strip_prefix(DRAIN) {
        return Some(RowKey::Drain(lock.parse().ok()?));
    }
    if let Some(name) = path.strip_prefix(DOMAIN) {
        return Some(RowKey::Domain(Name::new(name).ok()?));
    }
    let mut parts = path.strip_prefix(ALL)?.split('/');
    let (namespace, kind, name) = (parts.next()?, parts.next()?, parts.next()?);
    let rest = parts.next();
    if namespace == NOBODYS || parts.next().is_some() {
        return None;
    }
    let (namespace, name) = (Namespace::new(namespace).ok()?, Name::new(name).ok()?);
    // tidy: not a table
    match (kind, rest) {
        ("service", None) => Some(RowKey::Service(ServiceKey { namespace, name })),
        (INSTANCE, Some(index)) => {
            let service = ServiceKey { namespace, name };
            Some(RowKey::Instance(InstanceKey::new(service, index.parse().ok()?)))
        }
        ("task", None) => Some(RowKey::Task(TaskKey { namespace, name })),
        ("definition", Some(version)) => {
            Some(RowKey::Definition(DefinitionKey { namespace, name }, counted(version)?))
        }
        (TOMBSTONE, None) => Some(RowKey::Tombstone(TaskKey { namespace, name })),
        _ => None,
    }
}

/// A number from 1 on, in the one way in which it is written.
fn counted(text: &str) -> Option<u64> {
    let number: u64 = text.parse().ok()?;
    (number > 0 && number.to_string() == text).then_some(number)
}

fn row(key: RowKey, bytes: &[u8]) -> Result<Option<Row>, BoxError> {
    Ok(Some(match key {
        RowKey::Service(key) => {
            Row::Service(key, Some(Arc::new(read::<words::Service, _>(bytes)?)))
        }
        RowKey::Instance(key) => Row::Instance(key, Some(read::<words::Instance, _>(bytes)?)),
        RowKey::Task(key) => Row::Task(key, Some(read::<words::Task, _>(bytes)?)),
        RowKey::Tombstone(key) => Row::Tombstone(key, Some(read::<words::Tombstone, _>(bytes)?)),
        RowKey::Roster(lock) => Row::Roster(lock, Some(read::<words::Enrolled, _>(bytes)?)),
        RowKey::Drain(lock) => Row::Drain(lock, Some(read::<words::Drain, _>(bytes)?)),
        RowKey::Domain(name) => Row::Domain(name, Some(read::<words::Domain, _>(bytes)?)),
        RowKey::Definition(key, version) => {
            let definition = read::<words::Definition, _>(bytes)?;
            Row::Definition(key, version, Some(Arc::new(definition)))
        }
        RowKey::Limits => Row::Limits(read::<words::LimitsInForce, _>(bytes)?),
        // The cluster's record has it.
        RowKey::Stage => return Ok(None),
    }))
}

fn read<W: Word<T> + Message + Default, T>(bytes: &[u8]) -> Result<T, BoxError> {
    let word = W::decode(bytes)?;
    word.read().map_err(|error: FieldError| error.into())
}
