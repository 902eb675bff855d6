//! What servers keep in the store here, and the shelf on which it lies.
//!
//! The store holds bytes, and the encoding of records comes with the server. Until then a value is the
//! number of a record on a shelf that only grows. What has a real encoding (the lease, the reign, the
//! cluster) is kept in it.

use std::collections::BTreeMap;

use bytes::Bytes;
use sterna_engine::control::{Row, RowKey};
use sterna_store::{
    Key,
    cluster::{CLUSTER_KEY, Stage},
};

/// Where all of this stands.
pub(crate) const PREFIX: &str = "/v1/";

/// Where a record stands. What the store is stands in the record of its cluster.
pub(crate) fn path(key: &RowKey) -> Key {
    match key {
        RowKey::Service(service) => format!("{PREFIX}{service}").into(),
        RowKey::Instance(key) => format!("{PREFIX}{key}").into(),
        RowKey::Task(key) => format!("{PREFIX}{key}").into(),
        RowKey::Tombstone(work) => format!("{PREFIX}-/tombstone/{work}").into(),
        RowKey::Roster(lock) => format!("{PREFIX}-/roster/{lock}").into(),
        RowKey::Drain(lock) => format!("{PREFIX}-/drain/{lock}").into(),
        RowKey::Domain(name) => format!("{PREFIX}-/domain/{name}").into(),
        RowKey::Definition(key, version) => format!("{PREFIX}{key}/{version}").into(),
        RowKey::Limits => format!("{PREFIX}-/limits").into(),
        RowKey::Stage => CLUSTER_KEY.into(),
    }
}

/// What the store is, in the words of its record.
pub(crate) const fn stage(stage: sterna_engine::control::Stage) -> Stage {
    match stage {
        sterna_engine::control::Stage::Virgin => Stage::Virgin,
        sterna_engine::control::Stage::Used => Stage::Used,
        sterna_engine::control::Stage::Recovered => Stage::Recovered,
    }
}

/// All records there ever were.
#[derive(Debug, Default)]
pub(crate) struct Shelf(Vec<Row>);

impl Shelf {
    pub(crate) fn put(&mut self, row: Row) -> Bytes {
        self.0.push(row);
        (self.0.len() as u64).to_be_bytes().to_vec().into()
    }

    pub(crate) fn get(&self, value: &Bytes) -> Option<&Row> {
        let number = u64::from_be_bytes(value.as_ref().try_into().ok()?);
        self.0.get(usize::try_from(number).ok()?.checked_sub(1)?)
    }
}

/// What the store says, as its log of commits tells it.
pub(crate) type Records = BTreeMap<RowKey, Row>;
