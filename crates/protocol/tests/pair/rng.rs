//! Randomness from a seed, and clocks that run a little differently.

use sterna_model::BootTime;

pub(crate) struct Rng(u64);

impl Rng {
    pub(crate) const fn new(seed: u64) -> Self {
        // Neighbouring seeds must not begin alike; zero would stay zero.
        Self((seed ^ 0x9e37_79b9_7f4a_7c15).wrapping_mul(0xd134_2543_de82_ef95) | 1)
    }

    const fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 11
    }

    pub(crate) const fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    pub(crate) const fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high - low + 1)
    }

    /// So many times in a thousand.
    pub(crate) const fn chance(&mut self, thousandths: u64) -> bool {
        self.below(1_000) < thousandths
    }

    pub(crate) fn pick<T: Copy>(&mut self, among: &[T]) -> Option<T> {
        let count = u64::try_from(among.len()).unwrap();
        (count > 0).then(|| among[usize::try_from(self.below(count)).unwrap()])
    }
}

/// The clock of one machine: its own zero, and up to 0.1 % too fast or too slow.
#[derive(Clone, Copy)]
pub(crate) struct Clock {
    zero: u64,
    millionths_slow: u64,
}

impl Clock {
    pub(crate) const fn new(rng: &mut Rng) -> Self {
        Self { zero: rng.between(1, 1_000_000), millionths_slow: rng.below(2_001) }
    }

    /// What it shows at this moment of the world.
    pub(crate) const fn at(&self, now: u64) -> BootTime {
        BootTime::from_millis(
            self.zero + now + now / 1_000 - now * self.millionths_slow / 1_000_000,
        )
    }
}
