//! The store as plainly as it can be said: the state, and the list of what led to it.

use std::{
    borrow::Cow,
    collections::{BTreeMap, VecDeque},
    convert::Infallible,
};

use bytes::Bytes;
use sterna_model::{Revision, WriteId};

use crate::{
    Change, Changes, Commit, Item, Key, Limits, Outcome, Page, Reading, Refusal, Scan, StoreError,
    Write,
    commit::{following, judge},
    follow::Next,
};

type State = BTreeMap<Key, (Revision, Bytes)>;

/// The reference that other backends are compared with. Pure: the simulator drives it directly.
#[derive(Clone, Debug, Default)]
pub struct Model {
    now: State,
    /// The state at the floor, from which older states are made again by replaying.
    at_floor: State,
    /// What was compacted last.
    floor: u64,
    /// Every commit after the floor, one for each revision.
    commits: VecDeque<(WriteId, Vec<Change>)>,
}

impl Model {
    /// The revision of the last commit.
    pub fn revision(&self) -> Revision {
        Revision::new(self.floor + self.commits.len() as u64)
    }

    /// The oldest revision that can still be read or watched from.
    pub const fn floor(&self) -> Revision {
        Revision::new(self.floor)
    }

    /// Judges and applies a commit.
    ///
    /// # Errors
    /// It can never be taken.
    pub fn commit(&mut self, commit: &Commit) -> Result<Outcome, Refusal> {
        Limits::PORTABLE.check(commit)?;
        if let Some(revision) = self.written(commit.write_id) {
            return Ok(Outcome::Applied(revision));
        }
        let Ok(conflicts) = judge(commit, |key| Ok::<_, Infallible>(self.now.get(key).cloned()));
        if !conflicts.is_empty() {
            return Ok(Outcome::Conflict(conflicts));
        }
        if !commit.writes.is_empty() {
            let changes = self.changes_of(commit);
            let revision = following(self.revision());
            apply(&mut self.now, revision, &changes);
            self.commits.push_back((commit.write_id, changes));
        }
        Ok(Outcome::Applied(self.revision()))
    }

    /// The revision that this write made, unless it is compacted.
    pub fn written(&self, id: WriteId) -> Option<Revision> {
        let at = self.commits.iter().rposition(|(write_id, _)| *write_id == id)?;
        Some(Revision::new(self.floor + at as u64 + 1))
    }

    /// One key as it is now.
    pub fn get(&self, key: &str) -> Reading {
        let item = self.now.get_key_value(key).map(item);
        Reading { item, revision: self.revision() }
    }

    /// One page in key order.
    ///
    /// # Errors
    /// Refused, or the revision is compacted.
    pub fn scan(&self, scan: &Scan) -> Result<Page, StoreError> {
        let revision = Limits::PORTABLE.check_scan(scan, self.revision())?;
        let state = self.state(revision)?;
        let mut page = Page { items: Vec::new(), revision, more: false };
        let mut bytes = 0;
        for (key, found) in state.iter() {
            let is_wanted = key.starts_with(&scan.prefix)
                && scan.after.as_ref().is_none_or(|after| key > after);
            if !is_wanted {
                continue;
            }
            if page.items.len() == scan.limit || bytes >= Limits::PORTABLE.page_bytes_max {
                page.more = true;
                break;
            }
            bytes += key.len() + found.1.len();
            page.items.push(item((key, found)));
        }
        Ok(page)
    }

    /// The first commits after `after` that changed a key under `prefix`, at most `limit` of them.
    ///
    /// # Errors
    /// The history after `after` is gone, or has not come yet.
    pub fn next_changes(
        &self,
        prefix: &str,
        after: Revision,
        limit: usize,
    ) -> Result<Next, StoreError> {
        Limits::check_reached(after, self.revision())?;
        self.check_floor(after)?;
        let mut next = Next { found: Vec::new(), up_to: after };
        for (revision, (_, all)) in (self.floor + 1..).map(Revision::new).zip(&self.commits) {
            if revision <= after {
                continue;
            }
            if next.found.len() == limit {
                break;
            }
            let matching = all.iter().filter(|change| change.key.starts_with(prefix));
            let changes: Vec<_> = matching.cloned().collect();
            if !changes.is_empty() {
                next.found.push(Changes { revision, changes });
            }
            next.up_to = revision;
        }
        Ok(next)
    }

    /// Forgets the history up to and including `up_to`.
    ///
    /// # Errors
    /// It lies in the future.
    pub fn compact(&mut self, up_to: Revision) -> Result<(), Refusal> {
        Limits::check_reached(up_to, self.revision())?;
        while self.floor < up_to.get() {
            let Some((_, changes)) = self.commits.pop_front() else { break };
            self.floor += 1;
            apply(&mut self.at_floor, Revision::new(self.floor), &changes);
        }
        Ok(())
    }

    fn check_floor(&self, revision: Revision) -> Result<(), StoreError> {
        let floor = self.floor();
        if revision < floor { Err(StoreError::Compacted { floor }) } else { Ok(()) }
    }

    fn state(&self, at: Revision) -> Result<Cow<'_, State>, StoreError> {
        self.check_floor(at)?;
        if at == self.revision() {
            return Ok(Cow::Borrowed(&self.now));
        }
        let mut state = self.at_floor.clone();
        for (revision, (_, changes)) in (self.floor + 1..=at.get()).zip(&self.commits) {
            apply(&mut state, Revision::new(revision), changes);
        }
        Ok(Cow::Owned(state))
    }

    fn changes_of(&self, commit: &Commit) -> Vec<Change> {
        let mut changes: Vec<Change> = commit
            .writes
            .iter()
            .filter_map(|(key, write)| match write {
                Write::Put(value) => Some(Change { key: key.clone(), value: Some(value.clone()) }),
                // Removing what is not there is no change.
                Write::Delete => {
                    self.now.contains_key(key).then(|| Change { key: key.clone(), value: None })
                }
            })
            .collect();
        changes.sort_by(|a, b| a.key.cmp(&b.key));
        changes
    }
}

fn apply(state: &mut State, revision: Revision, changes: &[Change]) {
    for Change { key, value } in changes {
        match value {
            Some(value) => state.insert(key.clone(), (revision, value.clone())),
            None => state.remove(key),
        };
    }
}

fn item((key, (revision, value)): (&Key, &(Revision, Bytes))) -> Item {
    Item { key: key.clone(), value: value.clone(), revision: *revision }
}
