//! The store itself, without threads: what is shared by readers, the writer and the merger.
//!
//! ```text
//!   Writer::commit_group ─▶ judge, stage ─▶ log: one write, one sync ─▶ publish
//!   Engine::merge        ─▶ table takes over the oldest part of the log ─▶ its segments go
//! ```
//!
//! Invariant: what is published is durable, and what is durable and whole is found again.

use std::{
    collections::{BTreeMap, VecDeque},
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use parking_lot::{Mutex, RwLock};
use sterna_model::{Revision, WriteId};

use super::{
    files::{Files, ReadError},
    log::{self, Closed, Segment},
    recent::Recent,
    table::{self, Table},
    view::{View, unreadable},
};
use crate::{Item, Limits, Page, Reading, Scan, StoreError, follow::Next};

/// Commits handled in one hold of the lock while merging, so that nobody waits long for it.
const MERGE_CHUNK: usize = 256;

/// So many merged segments are kept for use again: what one merge sets free. Removing a file and
/// filling a new one cost more than they free.
const PREPARED_MAX: usize = 4;

/// When the log is cut and merged.
#[derive(Clone, Copy, Debug)]
pub struct Sizes {
    /// A segment is closed when it is this large.
    pub segment_bytes: u64,
    /// Closed segments are kept, as history for watches and pinned scans, up to this much.
    pub history_bytes: u64,
    /// And up to this many more than that takes, since a restart closes a segment early.
    pub history_segments: usize,
    /// The writer waits for the merger when closed segments have grown to this much.
    pub backlog_bytes: u64,
}

impl Default for Sizes {
    fn default() -> Self {
        Self {
            segment_bytes: 8 << 20,
            history_bytes: 32 << 20,
            history_segments: 16,
            backlog_bytes: 64 << 20,
        }
    }
}

/// What readers, the writer and the merger share.
#[derive(Debug)]
pub(super) struct Engine {
    pub(super) files: Arc<dyn Files>,
    pub(super) sizes: Sizes,
    pub(super) view: RwLock<View>,
    /// Whole segments, oldest first.
    pub(super) closed: Mutex<VecDeque<Closed>>,
    prepared: Mutex<Prepared>,
    /// Set by a write of which nobody knows whether it reached the disk; never cleared.
    poisoned: AtomicBool,
    /// Why the last merge failed, if it did, and how many segments were closed then.
    merge_failure: Mutex<Option<(String, usize)>>,
}

/// The segments that come next.
#[derive(Debug)]
struct Prepared {
    next_number: u64,
    /// Made in advance, so that the writer need not wait for them.
    segments: VecDeque<Segment>,
    /// Whether that failed: then it is left to the writer, who needs it, to try again.
    has_failed: bool,
}

impl Engine {
    /// Starts from a table and the whole segments that continue it.
    pub(super) fn new(
        files: Arc<dyn Files>,
        sizes: Sizes,
        table: Table,
        (segments, next_number): (Vec<log::Contents>, u64),
    ) -> Self {
        let mut recent = Recent::new(table.revision());
        let mut closed = VecDeque::new();
        for segment in segments {
            closed.push_back(segment.closed);
            for record in segment.records {
                // What the table has taken over already.
                if record.revision > recent.last() {
                    recent.stage(record);
                }
            }
        }
        recent.publish();
        Self {
            files,
            sizes,
            view: RwLock::new(View { recent, table: Arc::new(table) }),
            closed: Mutex::new(closed),
            prepared: Mutex::new(Prepared {
                next_number,
                segments: VecDeque::new(),
                has_failed: false,
            }),
            poisoned: AtomicBool::new(false),
            merge_failure: Mutex::default(),
        }
    }

    pub(super) fn revision(&self) -> Revision {
        self.view.read().recent.published()
    }

    pub(super) fn get(&self, key: &str) -> Result<Reading, StoreError> {
        self.check()?;
        Limits::PORTABLE.check_key(key)?;
        // What must be read from the disk is read without holding anybody up.
        let (table, revision) = match self.view.read().find(key) {
            Ok(reading) => return Ok(reading),
            Err(found) => found,
        };
        let found = table.get(key).map_err(unreadable)?;
        let item = found.map(|(revision, value)| Item { key: key.into(), value, revision });
        Ok(Reading { item, revision })
    }

    pub(super) fn scan(&self, scan: &Scan) -> Result<Page, StoreError> {
        self.check()?;
        self.view.read().page(scan)
    }

    pub(super) fn next_changes(
        &self,
        prefix: &str,
        after: Revision,
        limit: usize,
    ) -> Result<Next, StoreError> {
        self.check()?;
        let view = self.view.read();
        Limits::check_reached(after, view.recent.published())?;
        view.recent.next_changes(prefix, after, limit)
    }

    pub(super) fn written(&self, id: WriteId) -> Result<Option<Revision>, StoreError> {
        self.check()?;
        let view = self.view.read();
        Ok(view.recent.written(id).filter(|revision| *revision <= view.recent.published()))
    }

    /// Makes the next segment in advance, if there is none.
    pub(super) fn prepare(&self) -> Result<(), StoreError> {
        self.check()?;
        let mut prepared = self.prepared.lock();
        if prepared.segments.is_empty() {
            let segment = self.make_segment(&mut prepared);
            prepared.has_failed = segment.is_err();
            prepared.segments.push_back(segment.map_err(|error| unreadable(error.into()))?);
        }
        Ok(())
    }

    /// The segment that comes next, made now if it was not made in advance.
    pub(super) fn next_segment(&self) -> io::Result<Segment> {
        let mut prepared = self.prepared.lock();
        prepared.has_failed = false;
        prepared.segments.pop_front().map_or_else(|| self.make_segment(&mut prepared), Ok)
    }

    fn make_segment(&self, prepared: &mut Prepared) -> io::Result<Segment> {
        let number = prepared.next_number;
        let segment = Segment::prepare(&*self.files, number, self.sizes.segment_bytes)?;
        prepared.next_number += 1;
        Ok(segment)
    }

    /// Whether the merger has something to do.
    pub(super) fn needs_upkeep(&self) -> bool {
        let prepared = self.prepared.try_lock();
        // If it cannot be seen, it is just being made.
        let is_wanted = |prepared: &Prepared| prepared.segments.is_empty() && !prepared.has_failed;
        self.is_merge_due() || prepared.is_some_and(|prepared| is_wanted(&prepared))
    }

    /// Merges the oldest segments if there is more history than is kept.
    pub(super) fn merge_due(&self) -> Result<(), StoreError> {
        let Some(up_to) = self.merge_next() else { return Ok(()) };
        let merged = self.merge(up_to);
        *self.merge_failure.lock() = merged.as_ref().err().map(|error| {
            let cause = std::error::Error::source(error).map(ToString::to_string);
            (cause.unwrap_or_else(|| error.to_string()), self.closed.lock().len())
        });
        merged
    }

    /// Merges up to `up_to`, whatever history is lost by it.
    pub(super) fn compact(&self, up_to: Revision) -> Result<(), StoreError> {
        self.check()?;
        Limits::check_reached(up_to, self.revision())?;
        self.merge(up_to)
    }

    /// Whether there is more history than is kept. After a failure it is tried again when a
    /// segment has been added, or when nothing else is left to do.
    pub(super) fn is_merge_due(&self) -> bool {
        let segments = self.closed.lock().len();
        let failed_at = self.merge_failure.lock().as_ref().map(|(_, segments)| *segments);
        let is_worth_it = failed_at.is_none_or(|failed_at| segments > failed_at);
        (is_worth_it || matches!(self.backlog(), Backlog::Stuck(_))) && self.merge_next().is_some()
    }

    /// How many bytes of closed segments are kept as history.
    fn kept_bytes(&self) -> u64 {
        // Each merge writes the whole table: the larger it is, the more must be worth it.
        self.sizes.history_bytes.max(self.view.read().table.bytes() / 4)
    }

    /// Up to where to merge, if that is due: until a quarter of what may be kept is left. Merges are
    /// then few, and commits seldom wait for a disk that is busy with them.
    fn merge_next(&self) -> Option<Revision> {
        let kept_bytes = self.kept_bytes();
        // Full ones are counted by their bytes; this bounds the small ones that restarts leave.
        let full = usize::try_from(kept_bytes / self.sizes.segment_bytes).unwrap_or(usize::MAX);
        let kept_segments = self.sizes.history_segments.saturating_add(full);
        let closed = self.closed.lock();
        let mut bytes: u64 = closed.iter().map(|segment| segment.bytes).sum();
        let mut segments = closed.len();
        if bytes <= kept_bytes && segments <= kept_segments {
            return None;
        }
        let is_merged = |segment: &&Closed| {
            let is_enough = bytes <= kept_bytes / 4 && segments <= kept_segments / 4;
            bytes -= segment.bytes;
            segments -= 1;
            !is_enough
        };
        closed.iter().take_while(is_merged).last().map(|newest| newest.last)
    }

    fn merge(&self, up_to: Revision) -> Result<(), StoreError> {
        self.check()?;
        if up_to > self.view.read().recent.floor() {
            self.merge_into_table(up_to).map_err(unreadable)?;
            while self.view.write().recent.trim(MERGE_CHUNK) {}
        }
        self.remove_merged(up_to);
        Ok(())
    }

    /// Writes the next table beside the one that readers use, and gives it to them.
    fn merge_into_table(&self, up_to: Revision) -> Result<(), ReadError> {
        let mut outcome = BTreeMap::new();
        let (table, mut reached) = {
            let view = self.view.read();
            (Arc::clone(&view.table), view.recent.floor())
        };
        while reached < up_to {
            let view = self.view.read();
            let next = view.recent.gather(reached, up_to, MERGE_CHUNK, &mut outcome);
            assert!(next > reached, "every revision after the floor is remembered");
            reached = next;
        }
        let merged = table.merged(&*self.files, reached, &outcome).inspect_err(|_| {
            // A draft that cannot be finished only takes space.
            drop(table::remove_draft(&*self.files));
        })?;
        {
            let mut view = self.view.write();
            view.recent.raise_floor(reached);
            view.table = Arc::new(merged);
        }
        // One that stays is found to be old, and removed, when the store is next opened.
        drop(table::remove(&*self.files, table.revision()));
        Ok(())
    }

    /// Segments that are merged are used again, or go. One that stays by accident is found to be
    /// merged, and removed, when the store is next opened.
    fn remove_merged(&self, up_to: Revision) {
        let pop = || self.closed.lock().pop_front_if(|segment| segment.last <= up_to);
        while let Some(old) = pop() {
            let mut prepared = self.prepared.lock();
            let number = prepared.next_number;
            let are_enough = prepared.segments.len() >= PREPARED_MAX;
            if are_enough || old.bytes < self.sizes.segment_bytes {
                drop(log::remove(&*self.files, old.number));
            } else if let Ok(segment) = Segment::recycle(&*self.files, old.number, number) {
                prepared.next_number += 1;
                prepared.segments.push_back(segment);
            }
        }
    }

    /// Whether the writer must wait for the merger, and whether that has a hope.
    pub(super) fn backlog(&self) -> Backlog {
        let allowed = self.sizes.backlog_bytes.max(self.kept_bytes().saturating_mul(2));
        let bytes: u64 = self.closed.lock().iter().map(|segment| segment.bytes).sum();
        if bytes < allowed {
            return Backlog::Small;
        }
        let failure = self.merge_failure.lock().clone();
        failure.map_or(Backlog::Large, |(reason, _)| Backlog::Stuck(reason))
    }

    pub(super) fn poison(&self) {
        self.poisoned.store(true, Ordering::SeqCst);
    }

    pub(super) fn check(&self) -> Result<(), StoreError> {
        if self.poisoned.load(Ordering::SeqCst) { Err(StoreError::Poisoned) } else { Ok(()) }
    }
}

/// How far the merger is behind the writer.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Backlog {
    /// Not far.
    Small,
    /// So far that the writer should wait.
    Large,
    /// As far, and it fails for this reason.
    Stuck(String),
}
