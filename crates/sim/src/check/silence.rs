//! Which machines were silent or drained lately: only then may an instance have two copies.
//!
//! A leader hears only a life that has said what it runs, and only while it is not mute; one that it
//! has given up it does not hear. So a machine counts as silent then, whatever it says.

use std::collections::BTreeMap;

use sterna_engine::control::RowKey;
use sterna_model::{Span, Term};

use super::{Fact, Sight};
use crate::clock::Moment;

#[derive(Debug)]
pub(super) struct Silence {
    /// How long after a silence or a drain a second copy may still be claimed, in milliseconds. Who
    /// hears that it is over may die before that stands, for a lease; and what the next one has decided
    /// before it hears so, too, is committed within its own.
    lately: u64,
    term: Option<Term>,
    /// When the newest leader was elected.
    elected: Moment,
    /// Which life of each has said what it runs: it is not heard before that.
    listed: BTreeMap<usize, u64>,
    /// When it heard each machine last.
    heard: BTreeMap<usize, Moment>,
    /// When any leader did.
    heard_by_any: BTreeMap<usize, Moment>,
    /// When each was heard again, or given up, and how long it had been silent: what is lately, the
    /// longest first, and each of those later than the one before.
    broken: BTreeMap<usize, Vec<(Moment, u64)>>,
    drained: BTreeMap<usize, Moment>,
}

impl Silence {
    pub(super) const fn new(lease: Span) -> Self {
        Self {
            lately: lease.as_millis() * 2,
            term: None,
            elected: 0,
            listed: BTreeMap::new(),
            heard: BTreeMap::new(),
            heard_by_any: BTreeMap::new(),
            broken: BTreeMap::new(),
            drained: BTreeMap::new(),
        }
    }

    /// For how long a machine has not been heard.
    pub(super) fn silent_for(&self, now: Moment, machine: usize) -> u64 {
        // Who was silent before the election is so after it.
        let any = self.heard_by_any.get(&machine).copied().unwrap_or(0);
        now - self.heard.get(&machine).copied().unwrap_or(self.elected.min(any))
    }

    fn begin(&mut self, now: Moment, term: Term) {
        if self.term < Some(term) {
            for machine in self.heard.keys().copied().collect::<Vec<_>>() {
                self.break_off(now, machine);
            }
            self.term = Some(term);
            self.elected = now;
            self.heard.clear();
            self.listed.clear();
        }
    }

    fn break_off(&mut self, now: Moment, machine: usize) {
        self.note_broken(now, machine, self.silent_for(now, machine));
    }

    /// A longer silence that ended earlier hides none: it is over sooner.
    fn note_broken(&mut self, now: Moment, machine: usize, lasted: u64) {
        let broken = self.broken.entry(machine).or_default();
        broken.retain(|(at, before)| now <= *at + self.lately && *before > lasted);
        broken.push((now, lasted));
    }

    pub(super) fn see(&mut self, sight: &Sight<'_>, fact: &Fact<'_>) {
        let now = sight.now;
        if let Fact::Listed { machine, life, term } = fact {
            self.begin(now, *term);
            if self.term == Some(*term) {
                self.listed.insert(*machine, *life);
            }
        }
        if let Fact::Heard { machine, life, term } = fact {
            self.begin(now, *term);
            if self.term == Some(*term) && self.listed.get(machine) == Some(life) {
                self.break_off(now, *machine);
                self.heard.insert(*machine, now);
                self.heard_by_any.insert(*machine, now);
            }
        }
        if let Fact::Committed { changes, .. } = fact {
            if let Some(term) = sight.stored.term() {
                self.begin(now, term);
            }
            for changed in *changes {
                if let RowKey::Drain(lock) = &changed.key
                    && let Some(machine) = sight.stored.machine_of(*lock)
                {
                    self.drained.insert(machine, now);
                }
            }
        }
        if let Fact::GivenUp { machine } = fact {
            self.note_broken(now, *machine, u64::MAX);
        }
        if let Fact::Restored = fact {
            // Terms count from where they were.
            self.term = None;
        }
    }

    /// Whether this machine is drained, or has been silent for so long, now or lately.
    pub(super) fn excuses(&self, sight: &Sight<'_>, machine: usize, after: Span) -> bool {
        let now = sight.now;
        // Clocks differ by a thousandth.
        let enough = after.as_millis() - after.as_millis() / 200;
        let lately = |at: Moment| now <= at + self.lately;
        let is_drained =
            sight.stored.drained().any(|lock| sight.stored.machine_of(lock) == Some(machine));
        let mut broken = self.broken.get(&machine).into_iter().flatten();
        let was_silent = broken.any(|(at, lasted)| lately(*at) && *lasted >= enough);
        is_drained
            || self.drained.get(&machine).is_some_and(|at| lately(*at))
            || self.silent_for(now, machine) >= enough
            || was_silent
    }
}
