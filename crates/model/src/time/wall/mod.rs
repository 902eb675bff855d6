//! What people call the time, and how it is written.

mod rfc3339;
#[cfg(test)]
mod tests;

use super::Span;
use super::civil::days_from_date;
use crate::text::{quoted, text_face};

const DAY_MS: i64 = 86_400_000;

/// A moment in UTC, in milliseconds since the start of 1970, without leap seconds; between the
/// years 0001 and 9999, so that each has a text.
///
/// Wall time can be set, so it may jump both ways: records carry it and schedules follow it, but
/// no deadline that guards a promise may depend on it.
///
/// The text is RFC 3339, written always as `2026-11-15T08:30:00.000Z`. Reading also takes other
/// offsets and fewer or more decimals; what is finer than a millisecond is dropped. A leap second,
/// 23:59:60 UTC, is read as the last millisecond before it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WallTime(i64);

impl WallTime {
    /// The first moment of the year 0001.
    pub const MIN: Self = Self(days_from_date(1, 1, 1) * DAY_MS);
    /// The start of 1970.
    pub const EPOCH: Self = Self(0);
    /// The last moment of the year 9999.
    pub const MAX: Self = Self(days_from_date(10_000, 1, 1) * DAY_MS - 1);

    /// Takes milliseconds since the start of 1970.
    ///
    /// # Errors
    /// [`WallTimeError::OutOfRange`] outside of the years 0001 to 9999.
    pub const fn from_millis(millis: i64) -> Result<Self, WallTimeError> {
        if millis < Self::MIN.0 || millis > Self::MAX.0 {
            return Err(WallTimeError::OutOfRange);
        }
        Ok(Self(millis))
    }

    /// The milliseconds since the start of 1970.
    pub const fn as_millis(self) -> i64 {
        self.0
    }

    /// The moment `span` later, or the last there is.
    #[must_use]
    pub fn plus(self, span: Span) -> Self {
        Self(self.0.saturating_add_unsigned(span.as_millis())).min(Self::MAX)
    }

    /// The moment `span` earlier, or the first there is.
    #[must_use]
    pub fn minus(self, span: Span) -> Self {
        Self(self.0.saturating_sub_unsigned(span.as_millis())).max(Self::MIN)
    }

    /// The time from `earlier` to this moment; none when that lies ahead.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Span {
        if earlier.0 > self.0 {
            return Span::ZERO;
        }
        Span::from_millis(self.0.abs_diff(earlier.0))
    }
}

text_face! { WallTime reads with word, "a time such as \"2026-11-15T08:30:00Z\""; }

/// Why something is not a moment. Places count characters from 1.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WallTimeError {
    /// The text is not in the form of RFC 3339.
    #[error(
        "{} at character {at} should be {expected}: write a time as 2026-11-15T08:30:00Z",
        quoted(.found)
    )]
    Mistyped {
        /// Where.
        at: usize,
        /// What stands there.
        found: String,
        /// What should.
        expected: String,
    },
    /// The form is right, and the calendar or the clock has no such value.
    #[error("{field} {value} at character {at} does not exist: it is {min} to {max} here")]
    NoSuch {
        /// Where.
        at: usize,
        /// Which part of the time.
        field: &'static str,
        /// Its value.
        value: i64,
        /// The least that there is.
        min: i64,
        /// The greatest that there is.
        max: i64,
    },
    /// Second 60 elsewhere than at the end of a day in UTC.
    #[error("second 60 at character {at} does not exist: only 23:59:60 UTC does")]
    NoLeapSecond {
        /// Where.
        at: usize,
    },
    /// No text could be written for it.
    #[error("time is outside of the years 0001 to 9999 in UTC")]
    OutOfRange,
}
