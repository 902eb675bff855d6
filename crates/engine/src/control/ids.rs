//! The names of runs: none is ever given twice.

use sterna_model::{RunId, WallTime};

/// Names runs, by the count within a reign and by a seed between reigns.
#[derive(Clone, Debug)]
pub(super) struct RunIds {
    /// Drawn for this reign.
    seed: [u8; 16],
    made: u64,
}

impl RunIds {
    pub(super) const fn new(seed: [u8; 16]) -> Self {
        Self { seed, made: 0 }
    }

    /// How many were drawn in this reign.
    pub(super) const fn made(&self) -> u64 {
        self.made
    }

    /// A run that was never named before. SplitMix64 spreads count and seed over its bits.
    pub(super) fn draw(&mut self, now: WallTime) -> RunId {
        self.made += 1;
        let (high, low) = self.seed.split_at(8);
        let word =
            |half: &[u8]| half.iter().fold(0_u64, |word, byte| (word << 8) | u64::from(*byte));
        let mixed = mix(word(low) ^ self.made.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let other = mix(word(high) ^ self.made);
        let mut random = [0; 10];
        for (at, byte) in mixed.to_be_bytes().into_iter().chain(other.to_be_bytes()).enumerate() {
            if let Some(place) = random.get_mut(at) {
                *place = byte;
            }
        }
        RunId::from_parts(now, random)
    }
}

pub(super) const fn mix(word: u64) -> u64 {
    let word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}
