//! The time between two moments, and how people write it.

use crate::number::{self, NumberError};
use crate::text::{place, quoted, text_face};
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// A length of time, in milliseconds.
///
/// People write it as `30s`, `1h30m`, `1.5h`, `250ms` or `2d`: one or more numbers, each with its
/// unit, the largest first. A day is 24 hours. A number without a unit is refused, because what
/// it counts would be a guess.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span(u64);

impl Span {
    /// No time at all.
    pub const ZERO: Self = Self(0);

    /// A span of so many milliseconds.
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis)
    }

    /// A span of so many seconds.
    pub const fn from_secs(seconds: u64) -> Self {
        Self(seconds.saturating_mul(1000))
    }

    /// How many milliseconds it lasts.
    pub const fn as_millis(self) -> u64 {
        self.0
    }

    /// The same for the timers of drivers.
    pub const fn as_duration(self) -> Duration {
        Duration::from_millis(self.0)
    }

    /// Both, one after the other.
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }

    /// What is left of it after `other`; nothing when that lasts longer.
    #[must_use]
    pub const fn minus(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }

    /// So many of it, one after the other.
    #[must_use]
    pub const fn times(self, count: u64) -> Self {
        Self(self.0.saturating_mul(count))
    }
}

/// Units and their milliseconds, from the largest to the smallest.
const UNITS: [(&str, u64); 5] =
    [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1)];

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 == 0 {
            return f.write_str("0s");
        }
        let mut rest = self.0;
        for (unit, millis) in UNITS {
            let count = rest / millis;
            rest %= millis;
            if count > 0 {
                write!(f, "{count}{unit}")?;
            }
        }
        Ok(())
    }
}

impl FromStr for Span {
    type Err = SpanError;

    fn from_str(text: &str) -> Result<Self, SpanError> {
        if text.is_empty() {
            return Err(SpanError::Empty);
        }
        let mut rest = text;
        let mut total: u64 = 0;
        // Where in the list of units the next one may stand.
        let mut allowed_from = 0;
        while !rest.is_empty() {
            let number_at = place(text, rest);
            let (number, after) = number::split(rest);
            let unit_at = place(text, after);
            let end = after.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(after.len());
            let (unit, after) = after.split_at(end);
            if number.is_empty() {
                return Err(SpanError::NoNumber { at: number_at, found: unit.to_owned() });
            }
            if unit.is_empty() {
                return Err(SpanError::NoUnit { at: unit_at, number: number.to_owned() });
            }
            let Some(index) = UNITS.iter().position(|(name, _)| *name == unit) else {
                return Err(SpanError::UnknownUnit { at: unit_at, unit: unit.to_owned() });
            };
            if index < allowed_from {
                return Err(SpanError::OutOfOrder { at: unit_at, unit: unit.to_owned() });
            }
            allowed_from = index + 1;
            let millis = number::scaled(number, UNITS[index].1).map_err(|error| match error {
                NumberError::Malformed => {
                    SpanError::NoNumber { at: number_at, found: number.to_owned() }
                }
                NumberError::TooFine => {
                    SpanError::TooFine { at: number_at, part: format!("{number}{unit}") }
                }
                NumberError::TooLarge => SpanError::TooLong,
            })?;
            total = total.checked_add(millis).ok_or(SpanError::TooLong)?;
            rest = after;
        }
        Ok(Self(total))
    }
}

text_face! { Span reads with amount, "a duration such as \"30s\""; }

/// Why a text is not a span. Places count characters from 1.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SpanError {
    /// There is no text.
    #[error("duration is empty: write a number and a unit, such as 30s")]
    Empty,
    /// A number was expected.
    #[error(
        "{} at character {at} is not a number: write a number and a unit, such as 30s or 1h30m",
        quoted(.found)
    )]
    NoNumber {
        /// Where.
        at: usize,
        /// What stands there.
        found: String,
    },
    /// A number has no unit.
    #[error("no unit at character {at}: write {number}s, {number}m or {number}h")]
    NoUnit {
        /// Where it is missing.
        at: usize,
        /// The number that lacks it.
        number: String,
    },
    /// The unit is none of ours.
    #[error("unknown unit {} at character {at}: units are d, h, m, s and ms", quoted(.unit))]
    UnknownUnit {
        /// Where.
        at: usize,
        /// What stands there.
        unit: String,
    },
    /// A unit follows a smaller one or itself.
    #[error(
        "unit {} at character {at} is out of order: \
         write each unit once, the largest first, as in 1h30m",
        quoted(.unit)
    )]
    OutOfOrder {
        /// Where.
        at: usize,
        /// The unit.
        unit: String,
    },
    /// A fraction is finer than a millisecond.
    #[error("{} at character {at} is not a whole number of milliseconds: round it", quoted(.part))]
    TooFine {
        /// Where.
        at: usize,
        /// The number and its unit.
        part: String,
    },
    /// It does not fit in 64 bits of milliseconds.
    #[error("duration is longer than {}: write a shorter one", Span(u64::MAX))]
    TooLong,
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn people_write_numbers_with_units() {
        let cases = [
            ("0s", 0, "0s"),
            ("0d0ms", 0, "0s"),
            ("30s", 30_000, "30s"),
            ("030s", 30_000, "30s"),
            ("250ms", 250, "250ms"),
            ("1h30m", 5_400_000, "1h30m"),
            ("90m", 5_400_000, "1h30m"),
            ("1.5h", 5_400_000, "1h30m"),
            ("0.25s", 250, "250ms"),
            ("1m0.5s", 60_500, "1m500ms"),
            ("2d", 172_800_000, "2d"),
            ("1d2h3m4s5ms", 93_784_005, "1d2h3m4s5ms"),
            ("18446744073709551615ms", u64::MAX, "213503982334d14h25m51s615ms"),
        ];
        for (text, millis, canonical) in cases {
            let span: Span = text.parse().unwrap();
            assert_eq!(span.as_millis(), millis, "{text}");
            assert_eq!(span.to_string(), canonical, "{text}");
        }
    }

    #[test]
    fn a_refusal_names_place_reason_and_remedy() {
        let number = "is not a number: write a number and a unit, such as 30s or 1h30m";
        let units = "units are d, h, m, s and ms";
        let order = "is out of order: write each unit once, the largest first, as in 1h30m";
        let fine = "is not a whole number of milliseconds: round it";
        let long = "duration is longer than 213503982334d14h25m51s615ms: write a shorter one";
        let cases = [
            ("", "duration is empty: write a number and a unit, such as 30s".to_owned()),
            ("30", "no unit at character 3: write 30s, 30m or 30h".to_owned()),
            ("1h30", "no unit at character 5: write 30s, 30m or 30h".to_owned()),
            ("s", format!("'s' at character 1 {number}")),
            ("-5s", format!("'-' at character 1 {number}")),
            ("1h.s", format!("'.' at character 3 {number}")),
            ("1.2.3s", format!("'1.2.3' at character 1 {number}")),
            ("30 s", format!("unknown unit ' s' at character 3: {units}")),
            ("5min", format!("unknown unit 'min' at character 2: {units}")),
            ("30S", format!("unknown unit 'S' at character 3: {units}")),
            ("1h2ü", format!("unknown unit 'ü' at character 4: {units}")),
            ("30m1h", format!("unit 'h' at character 5 {order}")),
            ("1h1h", format!("unit 'h' at character 4 {order}")),
            ("0.5ms", format!("'0.5ms' at character 1 {fine}")),
            ("1s0.0001ms", format!("'0.0001ms' at character 3 {fine}")),
            ("18446744073709551616ms", long.to_owned()),
            ("18446744073709551s616ms", long.to_owned()),
            ("9999999999999d", long.to_owned()),
        ];
        for (text, message) in cases {
            assert_eq!(text.parse::<Span>().unwrap_err().to_string(), message, "{text}");
        }
    }

    #[test]
    fn a_bare_number_in_json_is_told_its_units() {
        let error = serde_json::from_str::<Span>("30").unwrap_err().to_string();
        assert_eq!(error, "no unit at character 3: write 30s, 30m or 30h at line 1 column 2");
        assert_eq!(serde_json::from_str::<Span>("\"30s\"").unwrap(), Span::from_secs(30));
    }

    #[test]
    fn arithmetic_stops_at_both_ends() {
        let longest = Span::from_millis(u64::MAX);
        assert_eq!(longest.plus(Span::from_millis(1)), longest);
        assert_eq!(longest.times(2), longest);
        assert_eq!(Span::from_secs(u64::MAX), longest);
        assert_eq!(Span::from_secs(1).minus(Span::from_secs(2)), Span::ZERO);
    }

    proptest! {
        #[test]
        fn text_comes_back_as_the_same_span(millis: u64) {
            let span = Span::from_millis(millis);
            prop_assert_eq!(span.to_string().parse(), Ok(span));
        }
    }
}
