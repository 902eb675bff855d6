//! What a worker bids for a piece of work: the lower, the better.
//!
//! A score is the mean of the shares of memory, disk and containers that would be used, then a
//! weight for each container that is starting, a thousand for each instance of the same service
//! (for a task: for each task), and for instances a weight for the worker's rank in its zone.
//!
//! It is kept as a whole number of very small parts, so that sums do not depend on their order.
//! A share is counted from the *nominal* total: the total, rounded down to seven binary digits. So
//! workers that differ by what their kernels keep for themselves score the same, and can be ordered
//! once for all demands.

use std::{collections::BTreeSet, fmt};

use sterna_model::Name;

/// How the auction weighs and what it holds back. A change of these is a new registry.
#[derive(Clone, Debug, PartialEq)]
pub struct Rules {
    /// What a container that is starting counts, in used workers: it keeps a new, empty worker from
    /// being flooded. Between 0 and 1.
    pub starting_weight: f64,
    /// What each worker before it in its zone counts against one, for instances. Above 0 workers
    /// are filled one after the other. Between 0 and 1.
    pub first_fit_weight: f64,
    /// How many containers may be starting in the whole cluster; no limit when there is none.
    pub start_limit: Option<u32>,
    /// Zones that there are even while no worker is known in them, and nobody keeps them
    /// ([`Registry::keep_zone`](super::Registry::keep_zone)): the zone of an index depends on how many
    /// there are.
    pub zones: BTreeSet<Name>,
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            starting_weight: 0.25,
            first_fit_weight: 0.0,
            start_limit: None,
            zones: BTreeSet::new(),
        }
    }
}

/// A score, or a part of one. One used worker is [`Score::ONE`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Score(u64);

impl Score {
    /// A worker that would be used up in every way.
    pub const ONE: Self = Self(1 << 40);
    pub(super) const ZERO: Self = Self(0);
    /// What one more of the same on a worker counts: more than anything else can.
    pub(super) const SAME: Self = Self::ONE.times(1000);

    /// So many used workers.
    pub(super) fn of(workers: f64) -> Self {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a cast from a float stops at the ends"
        )]
        Self((workers * (1_u64 << 40) as f64) as u64)
    }

    pub(super) const fn times(self, count: u32) -> Self {
        Self(self.0.saturating_mul(count as u64))
    }

    pub(super) const fn plus(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }

    /// In used workers, for people.
    pub fn workers(self) -> f64 {
        self.0 as f64 / Self::ONE.0 as f64
    }
}

impl fmt::Display for Score {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.3}", self.workers())
    }
}

/// What `amount` of one of the three resources adds to a score. A resource that a worker does not
/// have at all is not used.
pub(super) fn share(amount: u64, nominal: u64) -> Score {
    if nominal == 0 {
        return Score::ZERO;
    }
    Score::of(amount as f64 / nominal as f64 / 3.0)
}

/// A total, rounded down to seven binary digits; so a score is off by less than one part in 64.
pub(super) const fn nominal(total: u64) -> u64 {
    const DIGITS: u32 = 7;
    let spare = (u64::BITS - total.leading_zeros()).saturating_sub(DIGITS);
    total >> spare << spare
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_nominal_total_is_near_and_never_above() {
        for exact in [0, 1, 100, 127, 128, 250, 64 << 30, 96 << 30] {
            assert_eq!(nominal(exact), exact);
        }
        assert_eq!(nominal(255), 254);
        assert_eq!(nominal(u64::MAX), 127 << 57);
        for total in [129, 1_000_003, 67_374_329_856] {
            let near = nominal(total);
            assert!(near <= total && total - near < total / 64, "{near} for {total}");
        }
    }

    #[test]
    fn one_more_of_the_same_counts_more_than_a_full_worker_with_everything_starting() {
        let full = Score::ONE.plus(Score::of(0.25).times(250)).plus(Score::of(1.0).times(900));
        assert!(full < Score::SAME);
        let used = share(64, 64).plus(share(1, 1)).plus(share(7, 7));
        assert!((used.workers() - 1.0).abs() < 1e-9);
        assert_eq!(share(5, 0), Score::ZERO);
        assert_eq!(Score::of(0.25).to_string(), "0.250");
    }

    #[test]
    fn scores_stop_at_the_end() {
        assert_eq!(Score::SAME.times(u32::MAX).plus(Score::ONE), Score(u64::MAX));
        assert_eq!(Score::of(f64::MAX), Score(u64::MAX));
        assert_eq!(Score::of(-1.0), Score::ZERO);
    }
}
