use std::fmt;

use serde::{Deserialize, Serialize};

/// A moment: whole seconds since 1970-01-01T00:00:00Z, leap seconds not counted.
///
/// ```
/// use sterna_cron::Time;
///
/// let moment = Time::from_epoch(1_383_467_400);
/// assert_eq!(moment.epoch(), 1_383_467_400);
/// assert!(moment < moment.plus_seconds(1));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Time(i64);

impl Time {
    /// Wraps a count of seconds since the epoch; negative counts are moments before 1970.
    ///
    /// ```
    /// # use sterna_cron::Time;
    /// assert_eq!(Time::from_epoch(-1).epoch(), -1);
    /// ```
    pub const fn from_epoch(seconds: i64) -> Self {
        Self(seconds)
    }

    /// Seconds since the epoch.
    ///
    /// ```
    /// # use sterna_cron::Time;
    /// assert_eq!(Time::from_epoch(60).epoch(), 60);
    /// ```
    pub const fn epoch(self) -> i64 {
        self.0
    }

    /// The moment `seconds` later (earlier when negative); stops at the ends of the range
    /// instead of wrapping round.
    ///
    /// ```
    /// # use sterna_cron::Time;
    /// assert_eq!(Time::from_epoch(60).plus_seconds(-90).epoch(), -30);
    /// assert_eq!(Time::from_epoch(i64::MAX).plus_seconds(1).epoch(), i64::MAX);
    /// ```
    #[must_use]
    pub const fn plus_seconds(self, seconds: i64) -> Self {
        Self(self.0.saturating_add(seconds))
    }

    /// Seconds from `earlier` to this moment, negative when it is later; stops at the ends of
    /// the range.
    ///
    /// ```
    /// # use sterna_cron::Time;
    /// assert_eq!(Time::from_epoch(60).seconds_since(Time::from_epoch(90)), -30);
    /// ```
    pub const fn seconds_since(self, earlier: Self) -> i64 {
        self.0.saturating_sub(earlier.0)
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

// Debug prints as Display: moments stand in every test table.
impl fmt::Debug for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}
