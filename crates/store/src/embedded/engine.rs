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
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use parking_lot::{Mutex, RwLock};
use sterna_model::{Revision, WriteId};

use super::{
    files::{Files, ReadError},
    log::{self, Closed},
    recent::Recent,
    table::{self, Table},
    view::{View, unreadable},
};
use crate::{Limits, Page, Reading, Scan, StoreError, follow::Next};

/// Commits handled in one hold of the lock while merging, so that nobody waits long for it.
const MERGE_CHUNK: usize = 256;

/// When the log is cut and merged.
#[derive(Clone, Copy, Debug)]
pub struct Sizes {
    /// A segment is closed when it is this large.
    pub segment_bytes: u64,
    /// Closed segments are kept, as history for watches and pinned scans, up to this much.
    pub history_bytes: u64,
    /// And up to this many.
    pub history_segments: usize,
    /// The writer waits for the merger when closed segments have grown to this much.
    pub backlog_bytes: u64,
}

impl Default for Sizes {
    fn default() -> Self {
        Self {
            segment_bytes: 8 << 20,
            history_bytes: 16 << 20,
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
    /// Set by a write of which nobody knows whether it reached the disk; never cleared.
    poisoned: AtomicBool,
    /// Why the last merge failed, if it did, and how many segments were closed then.
    merge_failure: Mutex<Option<(String, usize)>>,
}

impl Engine {
    /// Starts from a table and the whole segments that continue it.
    pub(super) fn new(
        files: Arc<dyn Files>,
        sizes: Sizes,
        table: Table,
        segments: Vec<log::Contents>,
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
        self.view.read().get(key)
    }

    pub(super) fn scan(&self, scan: &Scan) -> Result<Page, StoreError> {
        self.check()?;
        self.view.read().page(scan)
    }

    pub(super) fn next_changes(&self, prefix: &str, after: Revision) -> Result<Next, StoreError> {
        self.check()?;
        let view = self.view.read();
        Limits::check_reached(after, view.recent.published())?;
        view.recent.next_changes(prefix, after)
    }

    pub(super) fn written(&self, id: WriteId) -> Result<Option<Revision>, StoreError> {
        self.check()?;
        let view = self.view.read();
        Ok(view.recent.written(id).filter(|revision| *revision <= view.recent.published()))
    }

    /// Merges the oldest segments while there is more history than is kept.
    pub(super) fn merge_due(&self) -> Result<(), StoreError> {
        while let Some(up_to) = self.merge_next() {
            self.merge(up_to)?;
        }
        Ok(())
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

    fn merge_next(&self) -> Option<Revision> {
        // Each merge writes the whole table: the larger it is, the more must be worth it.
        let kept = self.sizes.history_bytes.max(self.view.read().table.bytes() / 8);
        let closed = self.closed.lock();
        let bytes: u64 = closed.iter().map(|segment| segment.bytes).sum();
        let is_due = bytes > kept || closed.len() > self.sizes.history_segments;
        closed.front().filter(|_| is_due).map(|oldest| oldest.last)
    }

    fn merge(&self, up_to: Revision) -> Result<(), StoreError> {
        self.check()?;
        if up_to <= self.view.read().recent.floor() {
            return Ok(());
        }
        if let Err(error) = self.merge_into_table(up_to) {
            let segments = self.closed.lock().len();
            *self.merge_failure.lock() = Some((error.to_string(), segments));
            return Err(unreadable(error));
        }
        *self.merge_failure.lock() = None;
        while self.view.write().recent.trim(MERGE_CHUNK) {}
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
        let merged = table.merged(&*self.files, reached, &outcome)?;
        {
            let mut view = self.view.write();
            view.recent.raise_floor(reached);
            view.table = Arc::new(merged);
        }
        // One that stays is found to be old, and removed, when the store is next opened.
        drop(table::remove(&*self.files, table.revision()));
        Ok(())
    }

    fn remove_merged(&self, up_to: Revision) {
        let mut closed = self.closed.lock();
        while let Some(segment) = closed.pop_front_if(|segment| segment.last <= up_to) {
            // One that stays is found to be merged, and removed, when the store is next opened.
            drop(log::remove(&*self.files, segment.first));
        }
    }

    /// Whether the writer must wait for the merger, and whether that has a hope.
    pub(super) fn backlog(&self) -> Backlog {
        let bytes: u64 = self.closed.lock().iter().map(|segment| segment.bytes).sum();
        if bytes < self.sizes.backlog_bytes {
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
