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
//! ```
//!
//! Invariant: what was written is read back as it was; what cannot be read is refused with its key and
//! the field, and nothing goes on without it.

mod convert;
#[cfg(test)]
mod tests;
mod words;

use std::sync::Arc;

use prost::Message;
use sterna_engine::control::{Record, RecordKey, ServiceKey, ServiceRecord, Stage};
use sterna_model::{Name, Namespace, Work, WorkKey};
use sterna_store::cluster::{self, CLUSTER_KEY, Cluster};
use sterna_wire::convert::{FieldError, Word};

/// What the keys of all records begin with.
pub(crate) const ALL: &str = "/v1/";
/// Events.
pub(crate) const EVENTS: &str = "/v1/-/event/";

const LIMITS: &str = "/v1/-/limits";
const WORKER: &str = "/v1/-/worker/";
const DRAIN: &str = "/v1/-/drain/";
const DOMAIN: &str = "/v1/-/domain/";
/// What is no namespace: it stands for what belongs to none.
const NOBODYS: &str = "-";

/// Why a record cannot be read.
#[derive(Debug, thiserror::Error)]
#[error(
    "the record {key} cannot be read: it is damaged, or of a newer sterna; run one version everywhere"
)]
pub struct RecordError {
    /// Where it stands.
    pub key: String,
    /// What is wrong with it.
    #[source]
    pub source: Box<dyn std::error::Error + Send + Sync>,
}

/// Under which key a record stands.
pub(crate) fn path(key: &RecordKey) -> String {
    let named =
        |namespace: &Namespace, kind: &str, name: &Name| format!("{ALL}{namespace}/{kind}/{name}");
    match key {
        RecordKey::Service(ServiceKey { namespace, name }) => named(namespace, "service", name),
        RecordKey::Instance(key) => of_work(key, "instance"),
        RecordKey::Task(key) => of_work(key, "task"),
        RecordKey::Tombstone(key) => of_work(key, "tombstone"),
        RecordKey::Roster(lock) => format!("{WORKER}{lock}"),
        RecordKey::Drain(lock) => format!("{DRAIN}{lock}"),
        RecordKey::Domain(name) => format!("{DOMAIN}{name}"),
        RecordKey::Limits => LIMITS.to_owned(),
        RecordKey::Stage => CLUSTER_KEY.to_owned(),
    }
}

fn of_work(key: &WorkKey, kind: &str) -> String {
    let namespace = &key.namespace;
    match &key.work {
        Work::Instance { service, index } => format!("{ALL}{namespace}/{kind}/{service}/{index}"),
        Work::Task(name) => format!("{ALL}{namespace}/{kind}/{name}"),
        Work::Node { batch, node } => format!("{ALL}{namespace}/{kind}/{batch}/{node}"),
    }
}

/// A record in bytes. What the store is stands in the record of the cluster.
pub(crate) fn encode(record: &Record, cluster: &Cluster) -> Vec<u8> {
    match record {
        Record::Service(record) => encode_service(record),
        Record::Instance(instance) => words::Instance::of(instance).encode_to_vec(),
        Record::Task(task, spec) => {
            words::Task::of(&(task.clone(), Arc::clone(spec))).encode_to_vec()
        }
        Record::Tombstone(tombstone) => words::Tombstone::of(tombstone).encode_to_vec(),
        Record::Roster(entry) => words::Enrolled::of(entry).encode_to_vec(),
        Record::Drain(drain) => words::Drain::of(drain).encode_to_vec(),
        Record::Domain(until) => words::Domain::of(until).encode_to_vec(),
        Record::Limits(limits) => words::LimitsInForce::of(limits).encode_to_vec(),
        Record::Stage(stage) => {
            let stage = match stage {
                Stage::Virgin => cluster::Stage::Virgin,
                Stage::Used => cluster::Stage::Used,
                Stage::Recovered => cluster::Stage::Recovered,
            };
            Cluster { stage, ..*cluster }.to_string().into_bytes()
        }
    }
}

/// A service in bytes.
pub(crate) fn encode_service(record: &ServiceRecord) -> Vec<u8> {
    words::Service::of(record).encode_to_vec()
}

/// The record under a key; `None` for what is none of a leader's records.
///
/// # Errors
/// It cannot be read.
pub(crate) fn decode(path: &str, bytes: &[u8]) -> Result<Option<(RecordKey, Record)>, RecordError> {
    let Some((key, kind)) = key(path) else { return Ok(None) };
    let read =
        record(kind, bytes).map_err(|source| RecordError { key: path.to_owned(), source })?;
    Ok(Some((key, read)))
}

/// What stands under a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Service,
    Instance,
    Task,
    Tombstone,
    Roster,
    Drain,
    Domain,
    Limits,
}

fn key(path: &str) -> Option<(RecordKey, Kind)> {
    if path == LIMITS {
        return Some((RecordKey::Limits, Kind::Limits));
    }
    if let Some(lock) = path.strip_prefix(WORKER) {
        return Some((RecordKey::Roster(lock.parse().ok()?), Kind::Roster));
    }
    if let Some(lock) = path.strip_prefix(DRAIN) {
        return Some((RecordKey::Drain(lock.parse().ok()?), Kind::Drain));
    }
    if let Some(name) = path.strip_prefix(DOMAIN) {
        return Some((RecordKey::Domain(Name::new(name).ok()?), Kind::Domain));
    }
    let mut parts = path.strip_prefix(ALL)?.split('/');
    let (namespace, kind, name) = (parts.next()?, parts.next()?, parts.next()?);
    let rest = parts.next();
    if namespace == NOBODYS || parts.next().is_some() {
        return None;
    }
    let (namespace, name) = (Namespace::new(namespace).ok()?, Name::new(name).ok()?);
    let task = |name| WorkKey { namespace: namespace.clone(), work: Work::Task(name) };
    // tidy: not a table
    match (kind, rest) {
        ("service", None) => {
            Some((RecordKey::Service(ServiceKey { namespace, name }), Kind::Service))
        }
        ("instance", Some(index)) => {
            let work = Work::Instance { service: name, index: index.parse().ok()? };
            Some((RecordKey::Instance(WorkKey { namespace, work }), Kind::Instance))
        }
        ("task", None) => Some((RecordKey::Task(task(name)), Kind::Task)),
        ("tombstone", None) => Some((RecordKey::Tombstone(task(name)), Kind::Tombstone)),
        _ => None,
    }
}

fn record(kind: Kind, bytes: &[u8]) -> Result<Record, Box<dyn std::error::Error + Send + Sync>> {
    Ok(match kind {
        Kind::Service => Record::Service(Arc::new(read::<words::Service, _>(bytes)?)),
        Kind::Instance => Record::Instance(read::<words::Instance, _>(bytes)?),
        Kind::Task => {
            let (task, spec) = read::<words::Task, _>(bytes)?;
            Record::Task(task, spec)
        }
        Kind::Tombstone => Record::Tombstone(read::<words::Tombstone, _>(bytes)?),
        Kind::Roster => Record::Roster(read::<words::Enrolled, _>(bytes)?),
        Kind::Drain => Record::Drain(read::<words::Drain, _>(bytes)?),
        Kind::Domain => Record::Domain(read::<words::Domain, _>(bytes)?),
        Kind::Limits => Record::Limits(read::<words::LimitsInForce, _>(bytes)?),
    })
}

fn read<W: Word<T> + Message + Default, T>(
    bytes: &[u8],
) -> Result<T, Box<dyn std::error::Error + Send + Sync>> {
    let word = W::decode(bytes)?;
    word.read().map_err(|error: FieldError| error.into())
}
