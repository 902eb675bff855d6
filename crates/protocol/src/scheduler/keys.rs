//! Which runs a key has, found without a look at all machines.
//!
//! Keys are long, and stand with their runs already: here stands a number for each. Two keys may have
//! the same one, so whoever asks compares.

use std::{
    collections::BTreeSet,
    hash::{Hash, Hasher},
};

use sterna_model::{RunId, WallTime, WorkKey};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Keys {
    rows: BTreeSet<(u64, RunId)>,
}

impl Keys {
    pub(super) const EMPTY: Self = Self { rows: BTreeSet::new() };

    pub(super) fn insert(&mut self, key: &WorkKey, run: RunId) {
        self.rows.insert((number(key), run));
    }

    pub(super) fn remove(&mut self, key: &WorkKey, run: RunId) {
        self.rows.remove(&(number(key), run));
    }

    /// Every run of this key, and perhaps some of others.
    pub(super) fn candidates(&self, key: &WorkKey) -> impl Iterator<Item = RunId> {
        let number = number(key);
        let first = RunId::from_parts(WallTime::EPOCH, [0; 10]);
        let rows = self.rows.range((number, first)..);
        rows.take_while(move |(other, _)| *other == number).map(|(_, run)| *run)
    }

    pub(super) fn len(&self) -> usize {
        self.rows.len()
    }
}

fn number(key: &WorkKey) -> u64 {
    let mut mixer = Mixer(0xcbf2_9ce4_8422_2325);
    key.hash(&mut mixer);
    mixer.finish()
}

/// FNV-1a: the same everywhere, and good enough for names.
struct Mixer(u64);

impl Hasher for Mixer {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }

    fn finish(&self) -> u64 {
        self.0
    }
}
