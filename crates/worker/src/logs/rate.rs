//! How fast a run may fill its log.

use sterna_model::{Bytes, Span, WallTime};

/// Fills at a rate up to a second's worth, and may be overdrawn by whatever is taken last.
///
/// It follows wall time, as output does. A clock that is set back only stops the filling for a
/// moment.
#[derive(Debug)]
pub(super) struct Bucket {
    /// Bytes in a second, and so thousandths of a byte in a millisecond.
    rate: u64,
    /// In thousandths of a byte.
    level: i128,
    at: WallTime,
}

impl Bucket {
    pub(super) fn new(rate: Bytes) -> Self {
        let rate = rate.get().max(1);
        Self { rate, level: i128::from(rate) * 1_000, at: WallTime::MIN }
    }

    /// How long until something may be taken.
    pub(super) fn wait(&mut self, now: WallTime) -> Span {
        let filled = i128::from(self.rate) * i128::from(now.since(self.at).as_millis());
        self.level = (self.level + filled).min(i128::from(self.rate) * 1_000);
        self.at = now;
        let owed = (1 - self.level).max(0).unsigned_abs();
        let millis = owed.div_ceil(u128::from(self.rate));
        Span::from_millis(u64::try_from(millis).unwrap_or(u64::MAX))
    }

    pub(super) const fn rate(&self) -> Bytes {
        Bytes::new(self.rate)
    }

    pub(super) fn take(&mut self, bytes: usize) {
        self.level -= i128::try_from(bytes).unwrap_or(i128::MAX / 2) * 1_000;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: i64) -> WallTime {
        WallTime::from_millis(millis).unwrap()
    }

    #[test]
    fn a_second_is_free_and_more_is_waited_for() {
        let mut bucket = Bucket::new(Bytes::new(1_000));
        assert_eq!(bucket.wait(at(0)), Span::ZERO);
        bucket.take(999);
        assert_eq!(bucket.wait(at(0)), Span::ZERO);
        bucket.take(501);
        assert_eq!(bucket.wait(at(0)), Span::from_millis(501));
        assert_eq!(bucket.wait(at(500)), Span::from_millis(1));
        assert_eq!(bucket.wait(at(501)), Span::ZERO);
    }

    #[test]
    fn a_clock_that_is_set_back_does_not_stop_it_for_long() {
        let mut bucket = Bucket::new(Bytes::new(1_000));
        assert_eq!(bucket.wait(at(1_000_000)), Span::ZERO);
        bucket.take(2_000);
        assert_eq!(bucket.wait(at(5)), Span::from_millis(1_001));
        assert_eq!(bucket.wait(at(1_006)), Span::ZERO);
    }

    #[test]
    fn over_a_long_time_the_rate_holds() {
        let mut bucket = Bucket::new(Bytes::new(10_000));
        let (mut now, mut taken) = (0, 0);
        while now < 60_000 {
            if bucket.wait(at(now)) == Span::ZERO {
                bucket.take(777);
                taken += 777;
            }
            now += 3;
        }
        assert!((600_000..620_000).contains(&taken), "{taken}");
    }
}
