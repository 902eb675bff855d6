//! Everything since the floor, in memory: every version of every changed key, and every commit.
//!
//! ```text
//!     floor             published            last
//!   ────┼───────────────────┼──────────────────┤
//!  table│ readers and watches see up to here   │ staged: judged and logged, not yet durable
//! ```
//!
//! Invariant: the newest version of a key at or below a revision, and else what the table holds,
//! is
//! the key at that revision, for every revision from the floor on.

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;
use sterna_model::{Revision, WriteId};

use super::frame::Record;
use crate::{Changes, Key, StoreError, commit::following, follow::Next};

/// One state of a key: the revision that made it so, and its value unless it was removed.
pub(super) type Version = (Revision, Option<Bytes>);

#[derive(Debug)]
pub(super) struct Recent {
    floor: Revision,
    published: Revision,
    /// Oldest version first.
    versions: BTreeMap<Key, Vec<Version>>,
    /// One for each revision after the floor, and what is left of those before it.
    commits: VecDeque<Record>,
    writes: BTreeMap<WriteId, Revision>,
}

impl Recent {
    /// Nothing since `floor`.
    pub(super) const fn new(floor: Revision) -> Self {
        Self {
            floor,
            published: floor,
            versions: BTreeMap::new(),
            commits: VecDeque::new(),
            writes: BTreeMap::new(),
        }
    }

    pub(super) const fn floor(&self) -> Revision {
        self.floor
    }

    pub(super) const fn published(&self) -> Revision {
        self.published
    }

    /// The revision of the newest commit, staged ones included.
    pub(super) fn last(&self) -> Revision {
        self.commits.back().map_or(self.floor, |record| record.revision.max(self.floor))
    }

    /// Adds a commit that nobody sees before it is published.
    pub(super) fn stage(&mut self, record: Record) {
        assert_eq!(record.revision, following(self.last()), "revisions follow one another");
        for change in &record.changes {
            let version = (record.revision, change.value.clone());
            match self.versions.get_mut(&change.key) {
                Some(versions) => versions.push(version),
                None => {
                    self.versions.insert(change.key.clone(), vec![version]);
                }
            }
        }
        self.writes.insert(record.write_id, record.revision);
        self.commits.push_back(record);
    }

    /// Shows everything that is staged; it must be durable.
    pub(super) fn publish(&mut self) {
        self.published = self.last();
    }

    /// Takes back everything that is staged; it must never become durable.
    pub(super) fn withdraw(&mut self) {
        while self.last() > self.published {
            let Some(record) = self.commits.pop_back() else { break };
            self.writes.remove(&record.write_id);
            for change in &record.changes {
                let Some(versions) = self.versions.get_mut(&change.key) else { continue };
                versions.pop();
                if versions.is_empty() {
                    self.versions.remove(&change.key);
                }
            }
        }
    }

    /// The newest version of a key, staged ones included; `None` if it has not changed since the
    /// floor.
    pub(super) fn newest(&self, key: &str) -> Option<&Version> {
        self.versions.get(key)?.last()
    }

    /// The keys from `start` on that changed between the floor and `at`, as they were then.
    pub(super) fn range<'a>(
        &'a self,
        start: std::ops::Bound<&'a str>,
        at: Revision,
    ) -> impl Iterator<Item = (&'a Key, &'a Version)> {
        let bounds = (start, std::ops::Bound::Unbounded);
        self.versions
            .range::<str, _>(bounds)
            .filter_map(move |(key, versions)| Some((key, at_revision(versions, at)?)))
    }

    /// A key as it was at `at`; `None` if it had not changed since the floor.
    pub(super) fn version(&self, key: &str, at: Revision) -> Option<&Version> {
        at_revision(self.versions.get(key)?, at)
    }

    /// The revision that this write made, staged ones included, unless it is forgotten.
    pub(super) fn written(&self, id: WriteId) -> Option<Revision> {
        self.writes.get(&id).copied().filter(|revision| *revision > self.floor)
    }

    /// The first published commit after `after` that changed a key under `prefix`.
    pub(super) fn next_changes(&self, prefix: &str, after: Revision) -> Result<Next, StoreError> {
        self.check_floor(after)?;
        let unseen = self.commits.partition_point(|record| record.revision <= after);
        for record in self.commits.range(unseen..) {
            if record.revision > self.published {
                break;
            }
            let matching = record.changes.iter().filter(|change| change.key.starts_with(prefix));
            let changes: Vec<_> = matching.cloned().collect();
            if !changes.is_empty() {
                return Ok(Next::Found(Changes { revision: record.revision, changes }));
            }
        }
        Ok(Next::NoneUpTo(self.published))
    }

    pub(super) const fn check_floor(&self, revision: Revision) -> Result<(), StoreError> {
        if revision.get() < self.floor.get() {
            return Err(StoreError::Compacted { floor: self.floor });
        }
        Ok(())
    }

    /// Adds to `outcome` what the next `count` commits after `after` did to each key, up to
    /// `up_to`; gives the revision reached.
    pub(super) fn gather(
        &self,
        after: Revision,
        up_to: Revision,
        count: usize,
        outcome: &mut BTreeMap<Key, Version>,
    ) -> Revision {
        let start = self.commits.partition_point(|record| record.revision <= after);
        let mut reached = after;
        for record in self.commits.range(start..).take(count) {
            if record.revision > up_to {
                break;
            }
            for change in &record.changes {
                outcome.insert(change.key.clone(), (record.revision, change.value.clone()));
            }
            reached = record.revision;
        }
        reached
    }

    /// From now on the table holds the state at `floor`.
    pub(super) fn raise_floor(&mut self, floor: Revision) {
        assert!(floor <= self.published, "the table takes over only what is durable");
        self.floor = self.floor.max(floor);
    }

    /// Forgets up to `count` commits that the table has taken over; gives whether any is left. What
    /// is not yet forgotten says the same as the table and does no harm.
    pub(super) fn trim(&mut self, count: usize) -> bool {
        let floor = self.floor;
        for _ in 0..count {
            let Some(record) = self.commits.pop_front_if(|record| record.revision <= floor) else {
                return false;
            };
            self.writes.remove(&record.write_id);
            for change in &record.changes {
                let Some(versions) = self.versions.get_mut(&change.key) else { continue };
                let taken = versions.partition_point(|(revision, _)| *revision <= floor);
                versions.drain(..taken);
                if versions.is_empty() {
                    self.versions.remove(&change.key);
                }
            }
        }
        true
    }
}

fn at_revision(versions: &[Version], at: Revision) -> Option<&Version> {
    let newer = versions.partition_point(|(revision, _)| *revision <= at);
    newer.checked_sub(1).map(|index| &versions[index])
}
