//! Whether an instance takes requests: by what stands of it in the store, and by what its worker said.
//!
//! One commit may stand for several words of a worker: what it says may have been otherwise when a leader
//! decided something that stands in the same commit.

use std::collections::{BTreeMap, BTreeSet};

use sterna_model::RunId;

use super::Fact;
use crate::clock::Moment;

/// For so long a worker's word may be on its way into the store.
const ON_ITS_WAY: Moment = 60_000;

/// What workers said of runs.
#[derive(Debug, Default)]
pub(super) struct Said {
    /// What was ever ready.
    ready: BTreeSet<RunId>,
    /// When each was last not ready.
    unready: BTreeMap<RunId, Unready>,
}

#[derive(Clone, Copy, Debug)]
enum Unready {
    Still,
    Until(Moment),
}

impl Said {
    pub(super) fn see(&mut self, now: Moment, fact: &Fact<'_>) {
        let Fact::Readiness { run, is_ready } = fact else { return };
        if *is_ready {
            self.ready.insert(*run);
            self.unready.entry(*run).and_modify(|it| *it = Unready::Until(now));
        } else {
            self.unready.insert(*run, Unready::Still);
        }
    }

    /// Whether a run was ever said to be ready.
    pub(super) fn was_ready(&self, run: RunId) -> bool {
        self.ready.contains(&run)
    }

    /// Whether a run was said not to be ready, as a leader may just have heard.
    pub(super) fn was_unready(&self, now: Moment, run: RunId) -> bool {
        match self.unready.get(&run) {
            Some(Unready::Still) => true,
            Some(Unready::Until(at)) => now <= *at + ON_ITS_WAY,
            None => false,
        }
    }
}
