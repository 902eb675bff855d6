//! Judges a group of commits, each by itself and in order, and says what to write for all of them.
//!
//! Pure: the writer reads what [`Needs`] names under the counter's lock, [`decide`] judges, and
//! the writer stores the [`Plan`] in one statement.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    convert::Infallible,
};

use bytes::Bytes;
use sterna_model::{Revision, WriteId};

use crate::{
    Change, Commit, Expect, Key, Outcome, Write,
    commit::{following, judge},
    own::Own,
};

/// Commits that share one transaction at most; bounds how long the first of them waits.
pub(super) const COMMITS_MAX: usize = 512;
/// Bytes after which a group ends; it may exceed them by one commit. One statement carries it all,
/// and the server holds it in memory twice.
pub(super) const BYTES_MAX: usize = 8 << 20;

/// How many of the commits that wait are the next group. Never none of some.
pub(super) fn cut<'a>(waiting: impl IntoIterator<Item = &'a Commit>) -> usize {
    let mut bytes = 0;
    let mut count = 0;
    for commit in waiting {
        if count == COMMITS_MAX || bytes >= BYTES_MAX {
            break;
        }
        bytes += carried_bytes(commit);
        count += 1;
    }
    count
}

/// What must be read before a group can be judged.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Needs {
    /// Each key once, and whether its value matters: only `Expect::Value` asks for it.
    pub(super) keys: Vec<(Key, bool)>,
    /// Every write id, to see whether it has left its trace already.
    pub(super) ids: Vec<WriteId>,
}

impl Needs {
    pub(super) fn of(group: &[Commit]) -> Self {
        let mut keys = BTreeMap::<Key, bool>::new();
        let mut ids = Vec::new();
        for commit in group {
            for (key, expect) in &commit.expects {
                *keys.entry(key.clone()).or_default() |= matches!(expect, Expect::Value(_));
            }
            for (key, _) in &commit.writes {
                keys.entry(key.clone()).or_default();
            }
            ids.push(commit.write_id);
        }
        Self { keys: keys.into_iter().collect(), ids }
    }
}

/// What was found, all under one lock of the counter.
#[derive(Debug)]
pub(super) struct Found {
    /// The revision of the last commit.
    pub(super) revision: Revision,
    /// What was compacted last.
    pub(super) floor: Revision,
    /// Bytes of all history that was ever written.
    pub(super) bytes: u64,
    /// The keys that are there. A value that nobody asked for is empty.
    pub(super) items: BTreeMap<Key, (Revision, Bytes)>,
    /// Where the write ids of the group were seen.
    pub(super) written: BTreeMap<WriteId, Revision>,
}

impl Found {
    /// A store that is so far, of which nothing else was found yet.
    pub(super) const fn at(revision: Revision, floor: Revision, bytes: u64) -> Self {
        Self { revision, floor, bytes, items: BTreeMap::new(), written: BTreeMap::new() }
    }
}

/// What a change replaced.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Was {
    /// Nothing.
    Absent,
    /// What the table of items holds; the server copies it there without sending it to us.
    Stored,
    /// What an earlier commit of the same group put.
    Staged(Revision, Bytes),
}

/// One row of history.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Row {
    pub(super) revision: Revision,
    /// The place within its commit, in key order.
    pub(super) place: i16,
    pub(super) key: Key,
    /// `None` when the key was removed.
    pub(super) value: Option<Bytes>,
    pub(super) was: Was,
    /// Whether this is the group's last word on the key: then it is the state.
    pub(super) is_last: bool,
}

/// What to store for a whole group.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Plan {
    /// The commits that made a revision, with the bytes of all history up to each.
    pub(super) commits: Vec<(Revision, WriteId, u64)>,
    /// What they changed.
    pub(super) rows: Vec<Row>,
}

impl Plan {
    /// Notes what was stored, for watches of this process.
    pub(super) fn note(&self, own: &mut Own) {
        let mut rows = self.rows.iter().peekable();
        for (revision, ..) in &self.commits {
            let mut changes = Vec::new();
            while let Some(row) = rows.next_if(|row| row.revision == *revision) {
                changes.push(Change { key: row.key.clone(), value: row.value.clone() });
            }
            own.note(*revision, changes);
        }
    }
}

/// How the commits of a group end, if the plan is stored.
#[derive(Debug, Default)]
pub(super) struct Verdict {
    /// One for each commit of the group, in order.
    pub(super) outcomes: Vec<Outcome>,
    /// Which of them the plan applies.
    pub(super) is_staged: Vec<bool>,
    /// Which of them were found to be applied by an earlier transaction.
    pub(super) is_found: Vec<bool>,
    pub(super) plan: Plan,
}

/// Judges each commit against what was found and the commits of the group before it.
pub(super) fn decide(group: &[Commit], mut found: Found) -> Verdict {
    // A write id that was compacted is forgotten, also while its row waits to be removed.
    let floor = found.floor;
    found.written.retain(|_, revision| *revision > floor);
    let mut verdict = Verdict::default();
    let mut staged = BTreeSet::new();
    for commit in group {
        let before = verdict.plan.commits.len();
        verdict.is_found.push(found.written.contains_key(&commit.write_id));
        let outcome = decide_one(commit, &mut found, &mut staged, &mut verdict.plan);
        verdict.outcomes.push(outcome);
        verdict.is_staged.push(verdict.plan.commits.len() > before);
    }
    mark_last(&mut verdict.plan.rows);
    verdict
}

fn decide_one(
    commit: &Commit,
    found: &mut Found,
    staged: &mut BTreeSet<Key>,
    plan: &mut Plan,
) -> Outcome {
    if let Some(revision) = found.written.get(&commit.write_id) {
        return Outcome::Applied(*revision);
    }
    let Ok(conflicts) = judge(commit, |key| Ok::<_, Infallible>(found.items.get(key).cloned()));
    if !conflicts.is_empty() {
        return Outcome::Conflict(conflicts);
    }
    if commit.writes.is_empty() {
        return Outcome::Applied(found.revision);
    }
    let revision = following(found.revision);
    found.revision = revision;
    let mut writes: Vec<_> = commit.writes.iter().collect();
    writes.sort_by(|(a, _), (b, _)| a.cmp(b));
    let mut place = 0;
    for (key, write) in writes {
        let value = match write {
            Write::Put(value) => Some(value.clone()),
            Write::Delete => None,
        };
        let before = match &value {
            Some(value) => found.items.insert(key.clone(), (revision, value.clone())),
            None => found.items.remove(key),
        };
        let was = match before {
            // Removing what is not there is no change.
            None if value.is_none() => continue,
            None => Was::Absent,
            Some((revision, value)) if staged.contains(key) => Was::Staged(revision, value),
            Some(_) => Was::Stored,
        };
        staged.insert(key.clone());
        found.bytes += (key.len() + value.as_ref().map_or(0, Bytes::len)) as u64;
        plan.rows.push(Row { revision, place, key: key.clone(), value, was, is_last: false });
        place += 1;
    }
    found.written.insert(commit.write_id, revision);
    plan.commits.push((revision, commit.write_id, found.bytes));
    Outcome::Applied(revision)
}

fn mark_last(rows: &mut [Row]) {
    let mut seen = BTreeSet::new();
    for row in rows.iter_mut().rev() {
        row.is_last = seen.insert(row.key.clone());
    }
}

fn carried_bytes(commit: &Commit) -> usize {
    let expects = commit.expects.iter().map(|(key, expect)| match expect {
        Expect::Value(value) => key.len() + value.len(),
        Expect::Absent | Expect::Present | Expect::At(_) => key.len(),
    });
    let writes = commit.writes.iter().map(|(key, write)| match write {
        Write::Put(value) => key.len() + value.len(),
        Write::Delete => key.len(),
    });
    expects.chain(writes).sum()
}

/// What is known of a group whose transaction was sent to be committed and got no answer.
#[derive(Debug, Default)]
pub(super) struct Doubt {
    /// Which commits may have been written, by any attempt.
    may_be: Vec<bool>,
    /// The counter before the first such attempt.
    since: Option<Revision>,
}

impl Doubt {
    /// Notes that the plan of `verdict`, or what it found, is about to be committed.
    pub(super) fn begin(&mut self, found: Revision, verdict: &Verdict) {
        self.since.get_or_insert(found);
        self.may_be.resize(verdict.is_staged.len(), false);
        let is_written = verdict.is_staged.iter().zip(&verdict.is_found);
        for (may_be, (is_staged, is_found)) in self.may_be.iter_mut().zip(is_written) {
            *may_be |= *is_staged || *is_found;
        }
    }

    /// Takes back the last [`Doubt::begin`]: the server said that it did not commit.
    ///
    /// `earlier` is what was known before it.
    pub(super) fn undo(&mut self, earlier: Self) {
        *self = earlier;
    }

    /// What is known now, to be taken back to.
    pub(super) fn copy(&self) -> Self {
        Self { may_be: self.may_be.clone(), since: self.since }
    }

    /// Whether the commit at `index` may have been written.
    pub(super) fn covers(&self, index: usize) -> bool {
        self.may_be.get(index).copied().unwrap_or(false)
    }

    /// Whether any may have been.
    pub(super) const fn is_some(&self) -> bool {
        self.since.is_some()
    }

    /// Whether the write ids of all attempts would still be remembered under this floor. If not,
    /// trying again could apply a commit twice.
    pub(super) fn can_be_settled(&self, floor: Revision) -> bool {
        self.since.is_none_or(|since| floor <= since)
    }
}

/// Takes the next group off what waits, oldest first.
pub(super) fn take<T>(waiting: &mut VecDeque<T>, commit: impl Fn(&T) -> &Commit) -> Vec<T> {
    let count = cut(waiting.iter().map(commit));
    waiting.drain(..count).collect()
}
