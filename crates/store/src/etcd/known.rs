//! What this process knows of its store, for all who talk to it.

use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

use super::{keys::Keys, plan::Floor};
use crate::reached::Reached;

/// Shared by everything that one open store does.
#[derive(Debug)]
pub(super) struct Known {
    pub(super) keys: Keys,
    floor: Mutex<Floor>,
    pub(super) reached: Reached,
    /// Whether records of commits may lie below the floor.
    is_cleaning_due: AtomicBool,
}

impl Known {
    pub(super) const fn new(keys: Keys, floor: Floor) -> Self {
        Self {
            keys,
            floor: Mutex::new(floor),
            reached: Reached::new(),
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

    /// Says that records may lie below the floor.
    pub(super) fn ask_for_cleaning(&self) {
        self.is_cleaning_due.store(true, Ordering::Release);
    }

    /// Whether that was said since the last time.
    pub(super) fn take_cleaning(&self) -> bool {
        self.is_cleaning_due.swap(false, Ordering::AcqRel)
    }
}
