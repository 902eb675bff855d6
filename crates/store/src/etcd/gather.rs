//! Whole commits out of the events of a watch. Pure.
//!
//! Invariant: a commit is handed on once, whole, and after all that came before it.

use sterna_model::Revision;

use super::{
    keys::{Keys, revision},
    wire::{Event, EventKind},
};
use crate::{Change, Changes};

/// Gathers what one watch is told.
#[derive(Debug)]
pub(super) struct Gather {
    /// Everything up to here was handed on.
    after: Revision,
    /// A commit of which more events may come.
    partial: Option<Changes>,
}

impl Gather {
    pub(super) const fn after(after: Revision) -> Self {
        Self { after, partial: None }
    }

    /// Where a new stream must begin so that nothing is missed.
    pub(super) const fn position(&self) -> Revision {
        self.after
    }

    /// Forgets what a stream that broke had told in part; the next one tells it anew.
    pub(super) fn begin_anew(&mut self) {
        self.partial = None;
    }

    /// Passes over everything up to here, which was told otherwise.
    pub(super) fn pass(&mut self, up_to: Revision) {
        self.after = self.after.max(up_to);
        if self.partial.as_ref().is_some_and(|partial| partial.revision <= up_to) {
            self.partial = None;
        }
    }

    /// Takes the events of one answer, and gives the commits that are whole by it. If another
    /// answer goes on with this one, its last commit is not.
    pub(super) fn take(&mut self, keys: &Keys, events: Vec<Event>, goes_on: bool) -> Vec<Changes> {
        let mut whole = Vec::new();
        for event in events {
            let is_delete = event.kind == i32::from(EventKind::Delete);
            let Some(kv) = event.kv else { continue };
            let revision = revision(kv.mod_revision);
            // A stream begins at the position itself, so that it fails if that is compacted.
            if revision <= self.after {
                continue;
            }
            let value = (!is_delete).then_some(kv.value);
            let change = Change { key: keys.name_of(&kv.key), value };
            match &mut self.partial {
                Some(last) if last.revision == revision => last.changes.push(change),
                Some(_) | None => {
                    self.finish(&mut whole);
                    self.partial = Some(Changes { revision, changes: vec![change] });
                }
            }
        }
        if !goes_on {
            self.finish(&mut whole);
        }
        whole
    }

    fn finish(&mut self, whole: &mut Vec<Changes>) {
        if let Some(mut last) = self.partial.take() {
            last.changes.sort_by(|one, other| one.key.cmp(&other.key));
            self.after = last.revision;
            whole.push(last);
        }
    }
}
