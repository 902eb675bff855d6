//! What this process knows of its store, for all who talk to it.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::Mutex;
use sterna_model::Revision;

use super::{
    keys::{Keys, revision},
    plan::Floor,
    wire::Header,
};

/// Shared by everything that one open store does.
#[derive(Debug)]
pub(super) struct Known {
    pub(super) keys: Keys,
    floor: Mutex<Floor>,
    /// A revision that the store has surely reached.
    seen: AtomicU64,
    /// Whether records of commits may lie below the floor.
    is_cleaning_due: AtomicBool,
}

impl Known {
    pub(super) const fn new(keys: Keys, floor: Floor) -> Self {
        Self {
            keys,
            floor: Mutex::new(floor),
            seen: AtomicU64::new(0),
            is_cleaning_due: AtomicBool::new(false),
        }
    }

    /// The floor, as it was last read.
    pub(super) fn floor(&self) -> Floor {
        *self.floor.lock()
    }

    /// Notes a floor that was read; one that is older than what is known is no news.
    pub(super) fn note_floor(&self, floor: Floor) {
        let mut known = self.floor.lock();
        if floor.put_at > known.put_at {
            *known = floor;
        }
    }

    /// A revision that the store has surely reached.
    pub(super) fn seen(&self) -> Revision {
        Revision::new(self.seen.load(Ordering::Acquire))
    }

    /// Notes and gives the revision that an answer carries.
    pub(super) fn note(&self, header: Option<&Header>) -> Option<Revision> {
        let reached = revision(header?.revision);
        self.seen.fetch_max(reached.get(), Ordering::AcqRel);
        Some(reached)
    }

    /// Says that records may lie below the floor.
    pub(super) fn ask_for_cleaning(&self) {
        self.is_cleaning_due.store(true, Ordering::Release);
    }

    /// Whether that was said since the last time.
    pub(super) fn take_cleaning(&self) -> bool {
        self.is_cleaning_due.swap(false, Ordering::AcqRel)
    }
}
