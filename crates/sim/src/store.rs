//! The store of the world: the reference backend, reached over a network that loses calls.

use std::collections::VecDeque;

use sterna_model::{Revision, WriteId};
use sterna_store::{
    Change, Commit, Outcome, Page, Reading, Scan, StoreError,
    leader::{REIGN_KEY, Reign},
    memory::Model,
};

use crate::{clock::Moment, plan::Loss};

/// A call.
#[derive(Clone, Debug)]
pub(crate) enum Ask {
    Commit(Commit),
    Get(String),
    Scan(Scan),
    Written(WriteId),
    Compact(Revision),
}

/// Its answer.
#[derive(Debug)]
pub(crate) enum Told {
    Commit(Result<Outcome, StoreError>),
    Get(Result<Reading, StoreError>),
    Scan(Result<Page, StoreError>),
    Written(Result<Option<Revision>, StoreError>),
    Compact(Result<(), StoreError>),
}

impl Told {
    /// How far the store had come, if it says so.
    pub(crate) const fn revision(&self) -> Option<Revision> {
        match self {
            Self::Commit(Ok(Outcome::Applied(revision))) => Some(*revision),
            Self::Get(Ok(reading)) => Some(reading.revision),
            Self::Commit(_)
            | Self::Get(_)
            | Self::Scan(_)
            | Self::Written(_)
            | Self::Compact(_) => None,
        }
    }
}

impl Ask {
    /// It does not get through.
    pub(crate) fn refused(&self) -> Told {
        let error = || StoreError::Unavailable("the simulated network".into());
        match self {
            Self::Commit(_) => Told::Commit(Err(error())),
            Self::Get(_) => Told::Get(Err(error())),
            Self::Scan(_) => Told::Scan(Err(error())),
            Self::Written(_) => Told::Written(Err(error())),
            Self::Compact(_) => Told::Compact(Err(error())),
        }
    }

    /// Its answer does not get through.
    pub(crate) fn unanswered(&self) -> Told {
        match self {
            Self::Commit(_) => {
                Told::Commit(Err(StoreError::Unknown("the simulated network".into())))
            }
            Self::Get(_) | Self::Scan(_) | Self::Written(_) | Self::Compact(_) => self.refused(),
        }
    }
}

/// A commit that applied.
#[derive(Clone, Debug)]
pub(crate) struct Applied {
    pub(crate) revision: Revision,
    /// The reign in which its sender spoke, unless it was about leadership itself.
    pub(crate) said: Option<Reign>,
    /// The reign that stood in the store before it.
    pub(crate) reign: Option<Reign>,
    pub(crate) changes: Vec<Change>,
}

/// How far back the history goes, in revisions.
const HISTORY: u64 = 400;
/// How often the store is copied away.
const BACKUP_EVERY: Moment = 2_000;
/// How many such copies are kept.
const BACKUPS: usize = 90;

#[derive(Debug, Default)]
pub(crate) struct Store {
    model: Model,
    backups: VecDeque<(Moment, Model)>,
    pub(crate) down_until: Moment,
    pub(crate) slow_until: Moment,
    losses: VecDeque<Loss>,
    /// Whether it will go back to one.
    keeps_backups: bool,
}

impl Store {
    pub(crate) fn new(keeps_backups: bool) -> Self {
        Self { keeps_backups, ..Self::default() }
    }

    pub(crate) fn revision(&self) -> Revision {
        self.model.revision()
    }

    pub(crate) const fn model(&self) -> &Model {
        &self.model
    }

    pub(crate) fn order(&mut self, loss: Loss, count: u64) {
        (0..count).for_each(|_| self.losses.push_back(loss));
    }

    pub(crate) fn forget_losses(&mut self) {
        self.losses.clear();
    }

    /// What befalls the commit that is sent now.
    pub(crate) fn next_loss(&mut self) -> Option<Loss> {
        self.losses.pop_front()
    }

    /// A call has arrived.
    pub(crate) fn serve(
        &mut self,
        now: Moment,
        ask: &Ask,
        said: Option<Reign>,
    ) -> (Told, Option<Applied>) {
        if now < self.down_until {
            return (ask.refused(), None);
        }
        match ask {
            Ask::Commit(commit) => {
                self.back_up(now);
                let (before, reign) = (self.revision(), self.reign());
                let outcome = self.model.commit(commit).map_err(StoreError::from);
                let after = self.revision();
                let applied = (after > before).then(|| {
                    let changes = self.model.next_changes("", before, 1);
                    let changes = changes.ok().and_then(|mut next| next.found.pop());
                    let changes = changes.map(|found| found.changes).unwrap_or_default();
                    Applied { revision: after, said, reign, changes }
                });
                if after.get() > self.model.floor().get() + 2 * HISTORY {
                    // Its own upkeep; it lies in the past, so it is not refused.
                    drop(self.model.compact(Revision::new(after.get() - HISTORY)));
                }
                (Told::Commit(outcome), applied)
            }
            Ask::Get(key) => (Told::Get(Ok(self.model.get(key))), None),
            Ask::Scan(scan) => (Told::Scan(self.model.scan(scan)), None),
            Ask::Written(id) => (Told::Written(Ok(self.model.written(*id))), None),
            Ask::Compact(up_to) => {
                (Told::Compact(self.model.compact(*up_to).map_err(StoreError::from)), None)
            }
        }
    }

    fn reign(&self) -> Option<Reign> {
        let item = self.model.get(REIGN_KEY).item?;
        std::str::from_utf8(&item.value).ok()?.parse().ok()
    }

    fn back_up(&mut self, now: Moment) {
        if self.keeps_backups && self.backups.back().is_none_or(|(at, _)| now >= at + BACKUP_EVERY)
        {
            self.backups.push_back((now, self.model.clone()));
            if self.backups.len() > BACKUPS {
                self.backups.pop_front();
            }
        }
    }

    /// Goes back to the newest copy that is so old; gives its age.
    pub(crate) fn restore(&mut self, now: Moment, back: u64) -> Option<u64> {
        let wanted = now.saturating_sub(back);
        while self.backups.back().is_some_and(|(at, _)| *at > wanted) && self.backups.len() > 1 {
            self.backups.pop_back();
        }
        let (at, model) = self.backups.back()?;
        self.model = model.clone();
        Some(now - at)
    }
}
