//! How far the instances of a service are: which serve, which are of another version, which find no room.
//!
//! An update asks for that at each event of each instance. So it is noted index by index, and nobody
//! walks over all of them.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use sterna_model::{
    Span, WallTime, WorkKey,
    payload::WorkOutline,
    planted::{Mistake, is_planted},
};

use super::{Control, Now, ServiceRecord};
use crate::auction::Reason;

/// A service, and which of its indices are not as its spec wants them.
#[derive(Clone, Debug)]
pub(super) struct Service {
    pub(super) record: Arc<ServiceRecord>,
    /// Since when it is wanted in this version; `None` if that was under an earlier leader.
    pub(super) since: Option<WallTime>,
    /// Those that do not serve now.
    pub(super) missing: BTreeSet<u32>,
    /// Those of them that nobody has room for; not those that only wait for others to start.
    pub(super) unplaced: BTreeSet<u32>,
    /// Those that served until an update ended them, and have not served since, as far as this leader
    /// knows.
    pub(super) taken_down: BTreeSet<u32>,
    /// Those with a copy of another version.
    pub(super) outdated: BTreeSet<u32>,
    /// Those of them that do not serve.
    pub(super) idle: BTreeSet<u32>,
    /// Those that run, of a version that is just coming about, and are not ready: when that counts as a
    /// crash. Since when they are not is known to this leader alone.
    pub(super) unready: BTreeMap<u32, WallTime>,
}

/// How many of those that serve an update may end now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Budget {
    /// Whatever follows.
    pub(super) any: usize,
    /// So many more where that makes room for one that finds none.
    pub(super) for_room: usize,
}

impl Service {
    pub(super) const fn new(record: Arc<ServiceRecord>, since: Option<WallTime>) -> Self {
        Self {
            record,
            since,
            missing: BTreeSet::new(),
            unplaced: BTreeSet::new(),
            taken_down: BTreeSet::new(),
            outdated: BTreeSet::new(),
            idle: BTreeSet::new(),
            unready: BTreeMap::new(),
        }
    }

    /// Whether another version comes about.
    pub(super) fn is_updating(&self) -> bool {
        self.record.before.is_some() || !self.outdated.is_empty()
    }

    /// How many may be missing while another version comes about.
    pub(super) fn at_most(&self) -> u32 {
        match is_planted(Mistake::EndsAllAtOnce) {
            true => self.record.spec.instances,
            false => self.record.spec.update.max_unavailable.max(1),
        }
    }

    /// How many of those that serve may be ended when so many are missing: what serves costs, and what
    /// finds no room holds nobody up who makes room for it. But if others have had the room that was made,
    /// no more is made: they would have that, too.
    pub(super) fn budget(&self, missing: usize) -> Budget {
        let at_most = self.at_most() as usize;
        let any = at_most.saturating_sub(missing);
        if self.taken_down.intersection(&self.unplaced).count() > at_most {
            return Budget { any, for_room: 0 };
        }
        let with_room = at_most.saturating_sub(missing.saturating_sub(self.unplaced.len()));
        Budget { any, for_room: with_room - any }
    }

    /// Those of another version that serve.
    pub(super) fn serving(&self) -> impl Iterator<Item = u32> {
        self.outdated.iter().filter(|index| !self.idle.contains(index)).copied()
    }

    /// Whether its version is there, as far as there is room for it: at least one serves, and those that
    /// do not only wait for room.
    pub(super) fn is_there(&self) -> bool {
        let missing = self.missing.len();
        let some_serve = missing < self.record.spec.instances as usize;
        missing == 0 || some_serve && missing == self.unplaced.len()
    }

    /// Within what an instance of a version that is just coming about is to be ready; `None` if nothing
    /// follows when it is not.
    pub(super) fn ready_within(&self) -> Option<Span> {
        let record = &self.record;
        record.before.as_ref()?;
        record.spec.update.revert_after?;
        WorkOutline::read(&record.spec.work).readiness?.start_timeout
    }

    /// Notes whether an index that should be ready is not; gives when that counts as a crash.
    pub(super) fn note_unready(
        &mut self,
        now: Now,
        index: u32,
        is_unready: bool,
    ) -> Option<WallTime> {
        let within = if is_unready { self.ready_within() } else { None };
        let Some(within) = within else {
            self.unready.remove(&index);
            return None;
        };
        let latest = now.wall.plus(within);
        let at = self.unready.entry(index).or_insert(latest);
        // A clock that was set back makes nobody wait longer.
        *at = latest.min(*at);
        Some(*at)
    }

    /// Notes how an index is; gives whether that is news.
    pub(super) fn note(&mut self, index: u32, is_missing: bool, is_outdated: bool) -> bool {
        set(&mut self.idle, index, is_missing && is_outdated);
        if !is_missing {
            self.taken_down.remove(&index);
        }
        set(&mut self.missing, index, is_missing) | set(&mut self.outdated, index, is_outdated)
    }
}

impl Control {
    /// Nobody has room for this.
    pub(super) fn note_left(&mut self, key: &WorkKey, reason: Arc<Reason>) {
        let is_room = reason.is_room();
        self.queue.note_reason(key, reason);
        if let Some(key) = key.instance()
            && let Some(known) = self.services.get_mut(&key.service)
        {
            set(&mut known.unplaced, key.index, is_room);
        }
    }

    /// It has a worker, or asks for none.
    pub(super) fn forget_left(&mut self, key: &WorkKey) {
        if self.queue.forget_reason(key)
            && let Some(key) = key.instance()
            && let Some(known) = self.services.get_mut(&key.service)
        {
            known.unplaced.remove(&key.index);
        }
    }

    /// What is noted of a service and is not so: nothing, or it is a mistake of ours.
    #[cfg(test)]
    pub(super) fn misnoted(&self) -> Vec<String> {
        let mut wrong = Vec::new();
        let coming: BTreeSet<_> =
            self.roster.keys().copied().filter(|lock| self.is_coming(*lock)).collect();
        if coming != self.coming {
            wrong.push(format!("{coming:?} are coming: {:?}", self.coming));
        }
        for (key, known) in self.services.iter() {
            let left = self.queue.reasons().filter(|(_, reason)| reason.is_room());
            let left = left.filter_map(|(key, _)| key.instance());
            let left = left.filter(|left| left.service == *key);
            let unplaced: BTreeSet<u32> = left.map(|left| left.index).collect();
            let idle: BTreeSet<u32> =
                known.outdated.intersection(&known.missing).copied().collect();
            if unplaced != known.unplaced || !unplaced.is_subset(&known.missing) {
                wrong.push(format!("{key:?}: {unplaced:?} find no room: {known:?}"));
            }
            if idle != known.idle {
                wrong.push(format!("{key:?}: {idle:?} are idle: {known:?}"));
            }
        }
        wrong
    }
}

/// Gives whether that is news.
fn set(all: &mut BTreeSet<u32>, index: u32, is_in: bool) -> bool {
    if is_in { all.insert(index) } else { all.remove(&index) }
}
