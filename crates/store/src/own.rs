//! The last commits of this process, so that its own watches need not wait for a server to tell
//! them.
//!
//! Pure. Whoever leads writes nearly everything, and watches what it writes. On both servers every
//! revision is of one commit, and none is left out: so a watch that stands at one revision and finds
//! the next one here has missed nothing. Where others have committed in between there is a gap, and
//! the server tells what is in it.
//!
//! Invariant: what is here was committed, whole, at its revision.

use std::collections::BTreeMap;

use sterna_model::Revision;

use crate::{Change, Changes};

/// Commits that are kept; a watch that is further behind is told by the server.
const COMMITS_MAX: usize = 4_096;
/// Bytes of keys and values that are kept, but for the last commit.
const BYTES_MAX: usize = 8 << 20;

/// What this process committed last.
#[derive(Debug, Default)]
pub(crate) struct Own {
    /// By revision; in key order, and empty where nothing was changed.
    commits: BTreeMap<Revision, Vec<Change>>,
    bytes: usize,
}

/// What followed upon a revision without a gap.
#[derive(Debug)]
pub(crate) struct Known {
    /// What concerns the one who asked.
    pub(crate) found: Vec<Changes>,
    /// How far it reaches.
    pub(crate) up_to: Revision,
}

impl Own {
    /// Notes what a commit changed.
    pub(crate) fn note(&mut self, revision: Revision, mut changes: Vec<Change>) {
        changes.sort_by(|one, other| one.key.cmp(&other.key));
        self.bytes += bytes_of(&changes);
        if let Some(before) = self.commits.insert(revision, changes) {
            self.bytes -= bytes_of(&before);
        }
        while self.commits.len() > COMMITS_MAX || (self.bytes > BYTES_MAX && self.commits.len() > 1)
        {
            let Some((_, oldest)) = self.commits.pop_first() else { break };
            self.bytes -= bytes_of(&oldest);
        }
    }

    /// What followed upon `after` under `prefix`, up to the first gap; `None` if the next commit is
    /// not here.
    pub(crate) fn since(&self, prefix: &str, after: Revision) -> Option<Known> {
        let mut up_to = after;
        let mut found = Vec::new();
        for (revision, changes) in self.commits.range(after.next()?..) {
            if up_to.next() != Some(*revision) {
                break;
            }
            up_to = *revision;
            let is_asked = |change: &&Change| change.key.starts_with(prefix);
            let changes: Vec<_> = changes.iter().filter(is_asked).cloned().collect();
            if !changes.is_empty() {
                found.push(Changes { revision: *revision, changes });
            }
        }
        (up_to > after).then_some(Known { found, up_to })
    }
}

fn bytes_of(changes: &[Change]) -> usize {
    let bytes = |change: &Change| change.key.len() + change.value.as_ref().map_or(0, |v| v.len());
    changes.iter().map(bytes).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Key;

    /// Notes a commit to `/a` (even revisions) or `/b` (odd ones), with a value of so many bytes.
    fn note(own: &mut Own, revision: u64, bytes: usize) {
        let key = Key::from(if revision.is_multiple_of(2) { "/a" } else { "/b" });
        let change = Change { key, value: Some(vec![b'x'; bytes].into()) };
        own.note(Revision::new(revision), vec![change]);
    }

    fn noted(revisions: impl IntoIterator<Item = u64>) -> Own {
        let mut own = Own::default();
        for revision in revisions {
            note(&mut own, revision, 1);
        }
        own
    }

    fn seen(own: &Own, prefix: &str, after: u64) -> Option<(Vec<u64>, u64)> {
        let known = own.since(prefix, Revision::new(after))?;
        let found = known.found.iter().map(|changes| changes.revision.get()).collect();
        Some((found, known.up_to.get()))
    }

    #[test]
    fn answers_may_come_in_any_order() {
        let own = noted([13, 11, 15, 12, 14]);
        assert_eq!(seen(&own, "/", 10), Some((vec![11, 12, 13, 14, 15], 15)));
        assert_eq!(seen(&own, "/b", 11), Some((vec![13, 15], 15)));
        assert_eq!(seen(&own, "/c", 11), Some((vec![], 15)));
    }

    #[test]
    fn what_it_does_not_hold_whole_it_does_not_tell() {
        assert_eq!(seen(&Own::default(), "/", 0), None);
        let own = noted([11, 12, 13]);
        assert_eq!(seen(&own, "/", 9), None, "the beginning is not here");
        assert_eq!(seen(&own, "/", 13), None, "there is nothing new");
        assert_eq!(seen(&own, "/", 14), None, "the server knows more");
    }

    #[test]
    fn the_commits_of_others_are_a_gap() {
        let own = noted([11, 12, 21]);
        assert_eq!(seen(&own, "/", 10), Some((vec![11, 12], 12)));
        assert_eq!(seen(&own, "/", 12), None);
        assert_eq!(seen(&own, "/", 20), Some((vec![21], 21)));
    }

    #[test]
    fn it_stays_within_its_bounds() {
        let own = noted(1..=20_000);
        assert_eq!(own.commits.len(), COMMITS_MAX);
        let oldest = 20_000 - COMMITS_MAX as u64;
        assert_eq!(seen(&own, "/", oldest - 1), None);
        assert_eq!(seen(&own, "/", oldest).map(|(found, _)| found.len()), Some(COMMITS_MAX));
        let mut large = Own::default();
        for revision in 1..=20 {
            note(&mut large, revision, 1 << 20);
        }
        assert_eq!((large.commits.len(), large.bytes), (7, 7 * ((1 << 20) + 2)));
        note(&mut large, 21, BYTES_MAX + 1);
        assert_eq!(seen(&large, "/", 20), Some((vec![21], 21)), "the last stays, however large");
    }
}
