//! The last commits of this process, so that its own watches need not ask the server for them.
//!
//! Pure. Whoever leads writes nearly everything, and watches what it writes.
//!
//! Invariant: what is here was committed, and nothing is missing between the first and the last.

use std::collections::VecDeque;

use sterna_model::Revision;

use super::{group::Plan, reader::Look};
use crate::{Change, Changes};

/// Commits that are kept; a watch that is further behind asks the server.
const COMMITS_MAX: usize = 4_096;
/// Bytes of keys and values that are kept, but for the last commit.
const BYTES_MAX: usize = 8 << 20;

/// An unbroken run of commits.
#[derive(Debug)]
pub(super) struct Recent {
    /// The revision right before the first one.
    after: Revision,
    /// One for each revision, also if it changed nothing.
    commits: VecDeque<Changes>,
    bytes: usize,
}

impl Recent {
    /// Nothing is known yet.
    pub(super) const fn new() -> Self {
        Self { after: Revision::ZERO, commits: VecDeque::new(), bytes: 0 }
    }

    /// Notes what was committed right after `before`. If that is not where the run ended, others
    /// have committed meanwhile, and a new run begins.
    pub(super) fn note(&mut self, before: Revision, plan: &Plan) {
        if self.last() != before {
            *self = Self { after: before, ..Self::new() };
        }
        let mut rows = plan.rows.iter().peekable();
        for (revision, ..) in &plan.commits {
            let mut changes = Vec::new();
            while let Some(row) = rows.next_if(|row| row.revision == *revision) {
                changes.push(Change { key: row.key.clone(), value: row.value.clone() });
            }
            self.bytes += bytes_of(&changes);
            self.commits.push_back(Changes { revision: *revision, changes });
        }
        while self.commits.len() > COMMITS_MAX || self.bytes > BYTES_MAX {
            let Some(oldest) = self.commits.pop_front() else { break };
            self.bytes -= bytes_of(&oldest.changes);
            self.after = oldest.revision;
        }
    }

    /// What followed upon `after` under `prefix`; `None` if the run does not reach from there to
    /// anything new.
    pub(super) fn since(&self, prefix: &str, after: Revision) -> Option<Look> {
        if after < self.after || after >= self.last() {
            return None;
        }
        let first = self.commits.partition_point(|commit| commit.revision <= after);
        let mut found = Vec::new();
        for commit in self.commits.range(first..) {
            let changes: Vec<_> = commit
                .changes
                .iter()
                .filter(|change| change.key.starts_with(prefix))
                .cloned()
                .collect();
            if !changes.is_empty() {
                found.push(Changes { revision: commit.revision, changes });
            }
        }
        Some(Look { found, up_to: self.last(), is_whole: true })
    }

    fn last(&self) -> Revision {
        self.commits.back().map_or(self.after, |last| last.revision)
    }
}

fn bytes_of(changes: &[Change]) -> usize {
    let bytes = |change: &Change| change.key.len() + change.value.as_ref().map_or(0, |v| v.len());
    changes.iter().map(bytes).sum()
}

#[cfg(test)]
mod tests {
    use sterna_model::{WallTime, WriteId};

    use super::*;
    use crate::{
        Commit,
        postgres::group::{Found, decide},
    };

    fn revision(number: u64) -> Revision {
        Revision::new(number)
    }

    /// Notes so many commits to `/a` and `/b` in turn.
    fn note(recent: &mut Recent, before: u64, count: u8) {
        let commit = |number: u8| {
            let commit = Commit::new(WriteId::from_parts(WallTime::EPOCH, [number; 10]));
            commit.put(if number.is_multiple_of(2) { "/a" } else { "/b" }, number.to_string())
        };
        let group: Vec<_> = (0..count).map(commit).collect();
        let verdict = decide(&group, Found::at(revision(before), Revision::ZERO, 0));
        recent.note(revision(before), &verdict.plan);
    }

    fn seen(recent: &Recent, prefix: &str, after: u64) -> Option<(Vec<u64>, u64)> {
        let look = recent.since(prefix, revision(after))?;
        let found = look.found.iter().map(|changes| changes.revision.get()).collect();
        Some((found, look.up_to.get()))
    }

    #[test]
    fn a_run_goes_on_from_group_to_group() {
        let mut recent = Recent::new();
        note(&mut recent, 10, 3);
        note(&mut recent, 13, 2);
        assert_eq!(seen(&recent, "/", 10), Some((vec![11, 12, 13, 14, 15], 15)));
        assert_eq!(seen(&recent, "/b", 11), Some((vec![12, 15], 15)));
        assert_eq!(seen(&recent, "/c", 11), Some((vec![], 15)));
    }

    #[test]
    fn what_it_does_not_hold_whole_it_does_not_tell() {
        let mut recent = Recent::new();
        assert_eq!(seen(&recent, "/", 0), None);
        note(&mut recent, 10, 3);
        assert_eq!(seen(&recent, "/", 9), None, "the beginning is not here");
        assert_eq!(seen(&recent, "/", 13), None, "there is nothing new");
        assert_eq!(seen(&recent, "/", 14), None, "the server knows more");
    }

    #[test]
    fn the_commits_of_others_begin_a_new_run() {
        let mut recent = Recent::new();
        note(&mut recent, 10, 3);
        note(&mut recent, 20, 1);
        assert_eq!(seen(&recent, "/", 10), None);
        assert_eq!(seen(&recent, "/", 20), Some((vec![21], 21)));
    }

    #[test]
    fn it_stays_within_its_bounds() {
        let mut recent = Recent::new();
        for group in 0..100 {
            note(&mut recent, group * 200, 200);
        }
        assert_eq!(recent.commits.len(), COMMITS_MAX);
        let oldest = 20_000 - COMMITS_MAX as u64;
        assert_eq!(seen(&recent, "/", oldest - 1), None);
        assert_eq!(seen(&recent, "/", oldest).map(|(found, _)| found.len()), Some(COMMITS_MAX));
    }
}
