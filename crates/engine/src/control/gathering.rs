//! A leader that begins waits a moment for its workers before it places instances.
//!
//! They come back one after the other, and what is to be spread over all of them would be put on the first:
//! nothing moves it away again (ADR 24). Tasks are not spread, and do not wait.

use std::{collections::BTreeMap, sync::Arc};

use sterna_model::{BootTime, Span, Wants, WorkKey};

use super::{Control, Now};

/// So long after the first of them others may come of whom nobody knows.
const LEAST: Span = Span::from_secs(1);
/// So long after the first of them those of the roster are waited for.
const MOST: Span = Span::from_secs(3);

/// What waits for the workers of a leader that has just begun.
#[derive(Clone, Debug, Default)]
pub(super) struct Gathering {
    /// Since when a worker takes work.
    first: Option<BootTime>,
    /// Instances that ask for a worker.
    asks: BTreeMap<WorkKey, Arc<Wants>>,
}

/// Whether work is spread over the workers, so that it waits for them.
const fn is_spread(key: &WorkKey) -> bool {
    key.instance().is_some()
}

impl Control {
    /// Workers are waited for if there is something to be spread over them.
    pub(super) fn gather(&mut self) {
        self.gathering = (self.services.len() > 0).then(Gathering::default);
    }

    /// Whether this waits for workers, from now on. Not before the first is here: then nobody has room.
    pub(super) fn gathers(&mut self, key: &WorkKey, wants: &Arc<Wants>) -> bool {
        let has_begun = |gathering: &&mut Gathering| gathering.first.is_some();
        let gathering = self.gathering.as_mut().filter(has_begun);
        let Some(gathering) = gathering.filter(|_| is_spread(key)) else {
            return false;
        };
        gathering.asks.insert(key.clone(), Arc::clone(wants));
        true
    }

    pub(super) fn is_gathered(&self, key: &WorkKey) -> bool {
        self.gathering.as_ref().is_some_and(|gathering| gathering.asks.contains_key(key))
    }

    pub(super) fn leave_gathering(&mut self, key: &WorkKey) {
        if let Some(gathering) = &mut self.gathering {
            gathering.asks.remove(key);
        }
    }

    /// When those who are not back are no longer waited for, if one is here.
    pub(super) fn gathers_until(&self) -> Option<BootTime> {
        let gathering = self.gathering.as_ref()?;
        Some(gathering.first?.plus(if self.coming.is_empty() { LEAST } else { MOST }))
    }

    /// The first worker takes work: what asks for one waits for the others, too.
    fn begin_gathering(&mut self, now: Now) {
        let is_begun = self.gathering.as_ref().is_none_or(|it| it.first.is_some());
        if is_begun || !self.workers.values().any(|worker| worker.takes) {
            return;
        }
        let Some(gathering) = &mut self.gathering else { return };
        gathering.first = Some(now.boot);
        let waiting: Vec<_> = self.queue.keys().filter(|key| is_spread(key)).cloned().collect();
        waiting.iter().for_each(|key| self.ask(key));
    }

    /// A worker takes work: what waits for it is placed when all are here, or waited long enough.
    pub(super) fn end_gathering(&mut self, now: Now) {
        if self.gathering.is_none() {
            return;
        }
        self.begin_gathering(now);
        if self.gathers_until().is_some_and(|until| now.boot >= until)
            && let Some(gathering) = self.gathering.take()
        {
            gathering.asks.keys().for_each(|key| self.ask(key));
        }
    }
}
