//! Coming back to a server that was lost.

use std::time::Duration;

/// How long to wait before the next attempt: twice as long each time up to a bound, and each time
/// somewhere between half and all of that, so that many clients do not come back as one.
#[derive(Debug)]
pub(crate) struct Backoff {
    /// Of a generator that needs to be no better than this.
    random: u64,
    millis: u64,
}

impl Backoff {
    const FIRST_MS: u64 = 20;
    const LAST_MS: u64 = 1_000;

    pub(crate) const fn new(seed: u64) -> Self {
        Self { random: seed, millis: Self::FIRST_MS }
    }

    pub(crate) const fn begin_anew(&mut self) {
        self.millis = Self::FIRST_MS;
    }

    pub(crate) fn next(&mut self) -> Duration {
        self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let half = self.millis / 2;
        let wait = half + (self.random >> 33) % (half + 1);
        self.millis = (self.millis * 2).min(Self::LAST_MS);
        Duration::from_millis(wait)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_back_off_grows_to_a_bound_and_differs_between_clients() {
        let (mut one, mut two) = (Backoff::new(1), Backoff::new(2));
        let waits: Vec<_> = (0..20).map(|_| (one.next(), two.next())).collect();
        assert!(waits[0].0 >= Duration::from_millis(10) && waits[0].0 <= Duration::from_millis(20));
        for (wait, _) in &waits[8..] {
            assert!((500..=1_000).contains(&wait.as_millis()), "{wait:?}");
        }
        assert!(waits.iter().any(|(one, two)| one != two));
        one.begin_anew();
        assert!(one.next() <= Duration::from_millis(20));
    }
}
