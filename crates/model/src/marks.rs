//! How long anything that was ever started may last without a word.

use crate::Span;

/// High-water marks of what was ever started (safety rule 11). They stand in the limits, with every
/// worker, and with every server, where the store's own losses do not reach (safety rule 25).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Marks {
    /// The largest `stop_after` of a batch.
    pub batch_stop_after_max: Span,
    /// The same of any run.
    pub stop_after_max: Span,
    /// Whether a batch was ever started under `keep`.
    pub has_kept_batches: bool,
    /// Whether a task or an instance was.
    pub has_kept_claims: bool,
}

impl Marks {
    /// Of a cluster in which nothing was ever started.
    pub const NONE: Self = Self {
        batch_stop_after_max: Span::ZERO,
        stop_after_max: Span::ZERO,
        has_kept_batches: false,
        has_kept_claims: false,
    };

    /// Those that allow for what either does.
    #[must_use]
    pub fn max(self, other: Self) -> Self {
        Self {
            batch_stop_after_max: self.batch_stop_after_max.max(other.batch_stop_after_max),
            stop_after_max: self.stop_after_max.max(other.stop_after_max),
            has_kept_batches: self.has_kept_batches || other.has_kept_batches,
            has_kept_claims: self.has_kept_claims || other.has_kept_claims,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_higher_of_two_allows_for_both() {
        let seconds = Span::from_secs;
        let short =
            Marks { batch_stop_after_max: seconds(9), has_kept_batches: true, ..Marks::NONE };
        let long = Marks { stop_after_max: seconds(7), has_kept_claims: true, ..Marks::NONE };
        let both = Marks { stop_after_max: seconds(7), has_kept_claims: true, ..short };
        assert_eq!((short.max(long), long.max(short), both.max(Marks::NONE)), (both, both, both));
    }
}
