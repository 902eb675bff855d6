//! When an instance that crashed begins again.
//!
//! A crash is counted first and judged then. Of the usual policy: the first two begin again at
//! once; from the third on it waits 30 s, then 60 s, up to 16 minutes; with the 200th it is given
//! up. Whoever has run for 5 minutes begins to be counted anew.

use crate::{Span, WallTime};

/// How crashes are answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CrashPolicy {
    /// From this count on there is a wait.
    pub wait_from: u32,
    /// The first wait; each further one is twice as long.
    pub first_wait: Span,
    /// The longest.
    pub longest_wait: Span,
    /// At this count it is given up.
    pub give_up_at: u32,
    /// Whoever ran so long has not crashed before.
    pub forgiven_after: Span,
}

impl Default for CrashPolicy {
    fn default() -> Self {
        Self {
            wait_from: 3,
            first_wait: Span::from_secs(30),
            longest_wait: Span::from_secs(16 * 60),
            give_up_at: 200,
            forgiven_after: Span::from_secs(5 * 60),
        }
    }
}

/// The crashes of an instance so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Crashes {
    /// How many, since it last ran long enough.
    pub count: u32,
    /// When the last one was.
    pub last: Option<WallTime>,
}

/// What follows from a crash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Crash {
    /// It begins again at once.
    Now,
    /// It begins again after this.
    After(Span),
    /// It does not begin again by itself.
    GivenUp,
}

impl CrashPolicy {
    /// Counts a crash, and says what follows. `ran` is how long it was RUNNING, if it was at all.
    pub fn judge(&self, before: Crashes, ran: Option<Span>, now: WallTime) -> (Crashes, Crash) {
        let is_forgiven = ran.is_some_and(|ran| ran >= self.forgiven_after);
        let count = if is_forgiven { 1 } else { before.count.saturating_add(1) };
        let crashes = Crashes { count, last: Some(now) };
        (crashes, self.answer(count))
    }

    /// What follows from the crash with this count.
    pub fn answer(&self, count: u32) -> Crash {
        if count >= self.give_up_at {
            return Crash::GivenUp;
        }
        let Some(doublings) = count.checked_sub(self.wait_from) else { return Crash::Now };
        let factor = 1_u64.checked_shl(doublings).unwrap_or(u64::MAX);
        let wait = self.first_wait.as_millis().saturating_mul(factor);
        Crash::After(Span::from_millis(wait.min(self.longest_wait.as_millis())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: WallTime = WallTime::EPOCH;

    #[test]
    fn the_ladder_is_two_at_once_then_thirty_seconds_doubled_up_to_sixteen_minutes() {
        let policy = CrashPolicy::default();
        let waits: Vec<_> = (1..=9).map(|count| policy.answer(count)).collect();
        let after = |seconds| Crash::After(Span::from_secs(seconds));
        let mut expected = vec![Crash::Now, Crash::Now];
        expected.extend([30, 60, 120, 240, 480, 960, 960].map(after));
        assert_eq!(waits, expected);
        assert_eq!(policy.answer(199), after(960));
        assert_eq!(policy.answer(200), Crash::GivenUp);
        assert_eq!(policy.answer(u32::MAX), Crash::GivenUp);
    }

    #[test]
    fn a_crash_is_counted_before_it_is_judged() {
        let policy = CrashPolicy::default();
        let mut crashes = Crashes::default();
        let mut answers = Vec::new();
        for _ in 0..3 {
            let (next, answer) = policy.judge(crashes, Some(Span::from_secs(1)), NOW);
            crashes = next;
            answers.push(answer);
        }
        assert_eq!(crashes, Crashes { count: 3, last: Some(NOW) });
        assert_eq!(answers, [Crash::Now, Crash::Now, Crash::After(Span::from_secs(30))]);
    }

    #[test]
    fn five_minutes_of_running_set_the_count_to_one() {
        let policy = CrashPolicy::default();
        let before = Crashes { count: 7, last: None };
        let ran = |seconds| policy.judge(before, Some(Span::from_secs(seconds)), NOW).0.count;
        assert_eq!((ran(299), ran(300)), (8, 1));
        assert_eq!(
            policy.judge(before, None, NOW).0.count,
            8,
            "one that never ran is not forgiven"
        );
    }

    #[test]
    fn all_five_numbers_may_be_set() {
        let policy = CrashPolicy {
            wait_from: 1,
            first_wait: Span::from_secs(1),
            longest_wait: Span::from_secs(3),
            give_up_at: 4,
            forgiven_after: Span::from_secs(10),
        };
        let answers: Vec<_> = (1..=4).map(|count| policy.answer(count)).collect();
        let after = |seconds| Crash::After(Span::from_secs(seconds));
        assert_eq!(answers, [after(1), after(2), after(3), Crash::GivenUp]);
        let (crashes, _) =
            policy.judge(Crashes { count: 3, last: None }, Some(Span::from_secs(10)), NOW);
        assert_eq!(crashes.count, 1);
    }
}
