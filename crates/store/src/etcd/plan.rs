//! One commit as one transaction of etcd, and what its answer means. Pure.
//!
//! ```text
//!   if    no commit with this write id applied, the floor is as known, every expectation holds
//!   then  the writes, and the record of the write id
//! ```
//!
//! Where that did not hold, a question follows: the record, the floor and what is expected, read at
//! the revision at which it did not hold. It is not part of the transaction, whose every byte is
//! written to the log of every member: most commits apply.
//!
//! Invariant: however many copies of a commit are on their way, at most one applies, ever. As long
//! as the record of the one that applied is there, no other applies. It is removed only after the
//! floor was raised to its revision or beyond, and raising the floor makes void every copy that was
//! sent before: they expect the floor as it was.

use std::collections::BTreeMap;

use bytes::Bytes;
use sterna_model::Revision;

use super::{
    keys::{Keys, revision, signed},
    wire::{
        Compare, DeleteRangeRequest, PutRequest, RangeRequest, RangeResponse, Request, RequestOp,
        TxnRequest, TxnResponse,
    },
};
use crate::{Change, Commit, Expect, Key, Outcome, Write, commit::judge};

/// How far history is forgotten, as it was last read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Floor {
    /// Everything up to this revision.
    pub(super) up_to: Revision,
    /// When this was written; 0 if it never was.
    pub(super) put_at: i64,
}

impl Floor {
    /// What a reading of its record says.
    pub(super) fn read(range: &RangeResponse) -> Option<Self> {
        match range.kvs.first() {
            None => Some(Self { up_to: Revision::ZERO, put_at: 0 }),
            Some(kv) => {
                let number = std::str::from_utf8(&kv.value).ok()?.parse().ok()?;
                Some(Self { up_to: Revision::new(number), put_at: kv.mod_revision })
            }
        }
    }
}

/// What became of a commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It has applied, now or earlier.
    Applied(Revision),
    /// It did not apply, because the floor is another one: to be sent again with this one.
    FloorMoved(Floor),
    /// It did not apply; what is not known yet must be read at this revision to say why.
    Lost(Lost),
    /// Not an answer to what was asked.
    Nonsense,
}

/// A commit whose expectations did not all hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Lost {
    /// When this was so.
    pub(super) at: Revision,
    /// Every key that is expected to be something, if it was there.
    found: BTreeMap<Key, Option<(Revision, Option<Bytes>)>>,
}

/// The transaction for `commit`, as long as the floor is the one that is known.
pub(super) fn transaction(keys: &Keys, floor: Floor, commit: &Commit) -> TxnRequest {
    let mut compare = Vec::with_capacity(commit.expects.len() + 2);
    let mut success = Vec::with_capacity(commit.writes.len() + 1);
    if commit.writes.is_empty() {
        // A transaction that reads nothing would be answered by a member that lags behind.
        success.push(read(keys.floor(), With::Nothing, Revision::ZERO));
    } else {
        let record = keys.write(commit.write_id);
        compare.push(Compare::is_absent(record.clone()));
        compare.push(Compare::was_put_at(keys.floor(), floor.put_at));
        success.push(Request::Put(PutRequest { key: record, value: Bytes::new() }).into());
    }
    compare.extend(commit.expects.iter().map(|(key, expect)| condition(keys.of(key), expect)));
    success.extend(commit.writes.iter().map(|(key, write)| step(keys.of(key), write)));
    TxnRequest { compare, success, failure: Vec::new() }
}

/// What `commit` changed, by the answer that says that it applied; `None` if that is not an answer
/// to it.
pub(super) fn changes(commit: &Commit, answer: &TxnResponse) -> Option<Vec<Change>> {
    // The first step is the record.
    let steps = answer.responses.get(1..)?;
    if steps.len() != commit.writes.len() {
        return None;
    }
    let mut changes = Vec::with_capacity(steps.len());
    for ((key, write), step) in commit.writes.iter().zip(steps) {
        let value = match write {
            Write::Put(value) => Some(value.clone()),
            // Removing what was not there is no change.
            Write::Delete if step.delete_range.as_ref()?.deleted == 0 => continue,
            Write::Delete => None,
        };
        changes.push(Change { key: key.clone(), value });
    }
    Some(changes)
}

/// The question why `commit` did not apply at this revision.
pub(super) fn question(keys: &Keys, at: Revision, commit: &Commit) -> TxnRequest {
    let mut success = vec![
        read(keys.write(commit.write_id), With::Nothing, at),
        read(keys.floor(), With::Value, at),
    ];
    // Without values, which may be large: most conflicts are told by the revision alone.
    success.extend(expected(commit).map(|key| read(keys.of(key), With::Nothing, at)));
    TxnRequest { success, ..TxnRequest::default() }
}

/// What the answer to that question says.
pub(super) fn verdict(
    floor: Floor,
    at: Revision,
    commit: &Commit,
    answer: &TxnResponse,
) -> Verdict {
    let mut readings = answer.responses.iter().map(|response| response.range.as_ref());
    let (Some(Some(record)), Some(Some(now))) = (readings.next(), readings.next()) else {
        return Verdict::Nonsense;
    };
    let is_writing = !commit.writes.is_empty();
    if let Some(record) = record.kvs.first()
        && is_writing
    {
        return Verdict::Applied(revision(record.mod_revision));
    }
    let Some(now) = Floor::read(now) else { return Verdict::Nonsense };
    if is_writing && now != floor {
        return Verdict::FloorMoved(now);
    }
    let mut found = BTreeMap::new();
    for key in expected(commit) {
        let Some(Some(reading)) = readings.next() else { return Verdict::Nonsense };
        let item = reading.kvs.first().map(|kv| (revision(kv.mod_revision), None));
        found.insert(key.clone(), item);
    }
    Verdict::Lost(Lost { at, found })
}

impl Lost {
    /// The keys whose values decide, and are not known yet.
    pub(super) fn unread(&self, commit: &Commit) -> Vec<Key> {
        let by_value = commit.expects.iter().filter_map(|(key, expect)| match expect {
            Expect::Value(_) => Some(key),
            Expect::Absent | Expect::Present | Expect::At(_) => None,
        });
        let mut keys: Vec<_> = by_value
            .filter(|key| matches!(self.found.get(*key), Some(Some((_, None)))))
            .cloned()
            .collect();
        keys.sort();
        keys.dedup();
        keys
    }

    /// Notes the value that a key had at that revision.
    pub(super) fn note(&mut self, key: &Key, value: Bytes) {
        if let Some(Some((_, known))) = self.found.get_mut(key) {
            *known = Some(value);
        }
    }

    /// Which keys were not as expected; `None` if all were, which cannot be.
    pub(super) fn outcome(&self, commit: &Commit) -> Option<Outcome> {
        let current = |key: &Key| {
            let item = self.found.get(key).cloned().flatten();
            let item = item.map(|(revision, value)| (revision, value.unwrap_or_default()));
            Ok::<_, std::convert::Infallible>(item)
        };
        let Ok(conflicts) = judge(commit, current);
        if conflicts.is_empty() { None } else { Some(Outcome::Conflict(conflicts)) }
    }
}

/// Every key that is expected to be something, in order and once.
fn expected(commit: &Commit) -> impl Iterator<Item = &Key> {
    let mut keys: Vec<_> = commit.expects.iter().map(|(key, _)| key).collect();
    keys.sort();
    keys.dedup();
    keys.into_iter()
}

fn condition(key: Bytes, expect: &Expect) -> Compare {
    match expect {
        Expect::Absent => Compare::is_absent(key),
        Expect::Present => Compare::is_present(key),
        // To etcd a key that is not there was put at 0; to us it was not put at all.
        Expect::At(Revision::ZERO) => Compare::was_put_at(key, -1),
        Expect::At(revision) => Compare::was_put_at(key, signed(*revision)),
        Expect::Value(value) => Compare::has_value(key, value.clone()),
    }
}

fn step(key: Bytes, write: &Write) -> RequestOp {
    match write {
        Write::Put(value) => Request::Put(PutRequest { key, value: value.clone() }).into(),
        Write::Delete => {
            Request::DeleteRange(DeleteRangeRequest { key, range_end: Bytes::new() }).into()
        }
    }
}

/// Whether a reading brings values.
enum With {
    Value,
    Nothing,
}

/// Reads a key at a revision, 0 for now.
fn read(key: Bytes, with: With, at: Revision) -> RequestOp {
    let (keys_only, revision) = (matches!(with, With::Nothing), signed(at));
    Request::Range(RangeRequest { key, keys_only, revision, ..RangeRequest::default() }).into()
}
