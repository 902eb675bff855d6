//! What occurred in a seed, by name: what never occurs is not tested.

use std::collections::BTreeMap;

/// Counts of what occurred.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Coverage {
    /// Everything that happened.
    pub events: u64,
    /// Containers that were started.
    pub starts: u64,
    /// Faults by kind.
    pub faults: BTreeMap<&'static str, u64>,
    /// Frames that arrived, by kind.
    pub messages: BTreeMap<&'static str, u64>,
    /// Other things: settlements, verdicts, steps of lives.
    pub turns: BTreeMap<&'static str, u64>,
    /// How long after the last fault everything was well.
    pub converged_ms: u64,
}

impl Coverage {
    pub(crate) fn fault(&mut self, kind: &'static str) {
        *self.faults.entry(kind).or_default() += 1;
    }

    pub(crate) fn message(&mut self, kind: &'static str) {
        *self.messages.entry(kind).or_default() += 1;
    }

    pub(crate) fn turn(&mut self, kind: &'static str) {
        *self.turns.entry(kind).or_default() += 1;
    }

    /// Adds what occurred in another seed.
    pub fn add(&mut self, other: &Self) {
        self.events += other.events;
        self.starts += other.starts;
        self.converged_ms = self.converged_ms.max(other.converged_ms);
        for (mine, theirs) in [
            (&mut self.faults, &other.faults),
            (&mut self.messages, &other.messages),
            (&mut self.turns, &other.turns),
        ] {
            for (kind, count) in theirs {
                *mine.entry(kind).or_default() += count;
            }
        }
    }
}
