//! What servers keep in the store here, and the shelf on which it lies.
//!
//! The store holds bytes. So that no encoding has to be made for a stand-in, a value is the number of
//! a record on a shelf that only grows. What has a real encoding (the lease, the reign, the cluster)
//! is kept in it.

use std::collections::BTreeMap;

use bytes::Bytes;
use sterna_model::{Contract, Epoch, Lock, RunId, TaskIncarnation, WorkKey};
use sterna_protocol::{limits::Limits, roster::Enrolled, scheduler::Claim};
use sterna_store::Key;

/// Where all of this stands.
pub(crate) const PREFIX: &str = "/v1/";

/// The limits.
pub(crate) const LIMITS: &str = "/v1/-/limits";

/// A record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Record {
    /// Of the roster.
    Enrolled(Enrolled),
    /// All limits that may be in use, the newest last.
    Limits(Vec<Limits>),
    Task(Task),
    /// The copies of an instance: two slots (safety rule 22).
    Instance(Vec<Claim>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Task {
    pub(crate) incarnation: TaskIncarnation,
    pub(crate) key: WorkKey,
    pub(crate) contract: Contract,
    /// In which life of the store it was created.
    pub(crate) epoch: Epoch,
    /// How often it was given back without having been started.
    pub(crate) returns: u32,
    pub(crate) state: TaskState,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TaskState {
    Pending,
    Claimed(Claim),
    Ended(TaskEnd),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TaskEnd {
    /// By itself, with this result.
    Result(RunId, u64),
    /// Its run is gone, and nobody knows how it ended.
    Lost(RunId),
    /// It was returned too often.
    NeverTaken,
    /// It may have been started in a part of the store's life that is gone (safety rule 25).
    UnknownAfterRestore,
}

pub(crate) fn roster_key(lock: Lock) -> Key {
    format!("/v1/-/roster/{lock}").into()
}

pub(crate) fn work_key(key: &WorkKey) -> Key {
    format!("/v1/{key}").into()
}

/// All records there ever were.
#[derive(Debug, Default)]
pub(crate) struct Shelf(Vec<Record>);

impl Shelf {
    pub(crate) fn put(&mut self, record: Record) -> Bytes {
        self.0.push(record);
        (self.0.len() as u64).to_be_bytes().to_vec().into()
    }

    pub(crate) fn get(&self, value: &Bytes) -> Option<&Record> {
        let number = u64::from_be_bytes(value.as_ref().try_into().ok()?);
        self.0.get(usize::try_from(number).ok()?.checked_sub(1)?)
    }
}

/// The records, as a leader knows them.
pub(crate) type Records = BTreeMap<Key, Record>;
