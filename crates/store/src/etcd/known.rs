//! What this process knows of its store, for all who talk to it.

use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use sterna_model::Revision;
use tokio::sync::watch;

use super::{keys::Keys, plan::Floor};
use crate::{
    Change,
    own::{self, Own},
    reached::Reached,
};

/// Shared by everything that one open store does.
#[derive(Debug)]
pub(super) struct Known {
    pub(super) keys: Keys,
    floor: Mutex<Floor>,
    pub(super) reached: Reached,
    own: Mutex<Own>,
    /// The last of our commits that was noted.
    noted: watch::Sender<Revision>,
    /// Whether records of commits may lie below the floor.
    is_cleaning_due: AtomicBool,
}

impl Known {
    pub(super) fn new(keys: Keys, floor: Floor) -> Self {
        Self {
            keys,
            floor: Mutex::new(floor),
            reached: Reached::new(),
            own: Mutex::default(),
            noted: watch::Sender::new(Revision::ZERO),
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

    /// Notes what we have committed, for our own watches.
    pub(super) fn note_own(&self, revision: Revision, changes: Vec<Change>) {
        self.own.lock().note(revision, changes);
        self.noted.send_replace(revision);
    }

    /// What we know to have followed upon a revision.
    pub(super) fn since(&self, prefix: &str, after: Revision) -> Option<own::Known> {
        self.own.lock().since(prefix, after)
    }

    /// Wakes whoever waits for more of that.
    pub(super) fn own_commits(&self) -> watch::Receiver<Revision> {
        self.noted.subscribe()
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
