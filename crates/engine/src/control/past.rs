//! What is over, in the order in which it goes.
//!
//! ```text
//!   a task is over, and nothing of it runs ──▶ its record ──▶ its name, which stays taken ──▶ nothing
//!                                              a time, and so many        a time, and so many
//! ```
//!
//! Invariant: what is over and could go is in exactly one of the two orders, by the moment from which
//! its time counts; so is every name that is ever free again.

use std::collections::{BTreeMap, BTreeSet};

use sterna_model::{
    Span, TaskKey, WallTime,
    planted::{Mistake, is_planted},
};

use super::Retention;

/// A name stays taken for so long after its record went, however many names there are: a client that got
/// no answer repeats its creation within that, if at all.
pub const NAMES_AT_LEAST: Span = Span::from_secs(10 * 60);

/// What is over, in the order in which it goes.
#[derive(Clone, Debug, Default)]
pub(super) struct Past {
    /// Records that may go, by when their task was over, and about how many bytes each takes.
    records: BTreeMap<(WallTime, TaskKey), u64>,
    bytes: u64,
    /// Names that are free again some time, by when their record went.
    names: BTreeSet<(WallTime, TaskKey)>,
}

impl Past {
    pub(super) fn keep(&mut self, at: WallTime, key: &TaskKey, bytes: u64) {
        self.drop(at, key);
        self.bytes += bytes;
        self.records.insert((at, key.clone()), bytes);
    }

    pub(super) fn drop(&mut self, at: WallTime, key: &TaskKey) {
        if let Some(bytes) = self.records.remove(&(at, key.clone())) {
            self.bytes -= bytes;
        }
    }

    /// Whether there are more records than may be.
    pub(super) fn is_too_much(&self, retention: &Retention) -> bool {
        let most = match is_planted(Mistake::ForgetsTooMany) {
            true => retention.tasks_max / 2,
            false => retention.tasks_max,
        };
        self.records.len() > most || self.bytes > retention.tasks_bytes_max
    }

    /// Whether the record of a task that was over then is in its order.
    pub(super) fn has_record(&self, at: WallTime, key: &TaskKey) -> bool {
        self.records.contains_key(&(at, key.clone()))
    }

    /// The record that goes first, and since when its task is over.
    pub(super) fn first_record(&self) -> Option<&(WallTime, TaskKey)> {
        self.records.first_key_value().map(|(first, _)| first)
    }

    /// A name is free again some time.
    pub(super) fn keep_name(&mut self, at: WallTime, key: &TaskKey) {
        self.names.insert((at, key.clone()));
    }

    pub(super) fn drop_name(&mut self, at: WallTime, key: &TaskKey) {
        self.names.remove(&(at, key.clone()));
    }

    pub(super) fn has_name(&self, at: WallTime, key: &TaskKey) -> bool {
        self.names.contains(&(at, key.clone()))
    }

    /// The name that goes first, and since when it has no record.
    pub(super) fn first_name(&self) -> Option<&(WallTime, TaskKey)> {
        self.names.first()
    }

    /// How many names are free again some time.
    pub(super) fn names(&self) -> usize {
        self.names.len()
    }

    /// When the next of these goes by its time.
    pub(super) fn deadline(&self, retention: &Retention) -> Option<WallTime> {
        let record = self.records.first_key_value().map(|((at, _), _)| at.plus(retention.tasks));
        let name = self.names.first().map(|(at, _)| at.plus(retention.names));
        record.into_iter().chain(name).min()
    }
}
