//! Items: patterns as data, in JSON or any other format that serde reads.
//!
//! | key | values |
//! | --- | --- |
//! | `epoch` | seconds since 1970; stands alone |
//! | `second`, `minute`, `hour` | 0 to 59, 0 to 59, 0 to 23; `minute` is required, `second` is 0 unless given |
//! | `day_of_week` | 1 (Sunday) to 7, or names |
//! | `day_of_month` | 1 to 31 |
//! | `weekday_of_month` | `{"nth": 2, "weekday": "Tue"}`; -1 is the last |
//! | `last_day_of_month` | `true` |
//! | `month`, `year` | 1 to 12 or names, 1969 to 9999 |
//! | `every` | `{"days": 3, "start": "2024-01-31", "end": "2024-12-31"}`; or `weeks`, or `months` |
//! | `dst_fixes` | required, unless `epoch` stands there: see [`DstFixes`](crate::DstFixes) |
//!
//! All but the last are selectors: a value, a list of values, or a range
//! `{"start": .., "end": .., "period": ..}` of which every part may be left out. All must match.
//!
//! Invariant: an item that exists can fire, in some year; one that never could is refused.

mod every;
mod parse;
mod select;
#[cfg(test)]
mod tests;
mod value;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};

use crate::{Pattern, Time, Zone};
pub(crate) use value::{Value, cut};

/// A pattern as data; read it with serde.
///
/// ```
/// use sterna_cron::{Item, Time, Zone};
///
/// let item: Item = serde_json::from_str(
///     r#"{"day_of_week": "Tues", "hour": [10, 20], "minute": 0,
///         "dst_fixes": ["skip", "repeat_use_only_early"]}"#,
/// )?;
/// let zone: Zone = "America/Los_Angeles".parse()?;
/// let next = item.next(&zone, Time::from_epoch(1_362_729_600)).unwrap();
/// assert_eq!(zone.format(next), "2013-03-12T10:00:00-07:00");
///
/// // What is wrong is said by key, value and what is allowed.
/// let refused = serde_json::from_str::<Item>(
///     r#"{"minute": 60, "dst_fixes": ["skip", "repeat_use_both"]}"#,
/// );
/// assert_eq!(
///     refused.unwrap_err().to_string(),
///     "minute: 60 is not allowed; allowed are whole numbers from 0 to 59",
/// );
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Item {
    source: Value,
    pattern: Pattern,
}

/// Why a value is no item.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ItemError {
    /// Not a map of keys.
    #[error("an item is a map of keys, not {found}")]
    NotAMap {
        /// What it is.
        found: String,
    },
    /// A value that the key does not take; change it.
    #[error("{key}: {value} is not allowed; allowed are {allowed}")]
    Refused {
        /// The key, with a dot before a key inside it.
        key: String,
        /// The value as written.
        value: String,
        /// What to write instead.
        allowed: String,
    },
    /// A key that does not exist; correct or remove it.
    #[error("{key}: there is no such key; allowed are {allowed}")]
    UnknownKey {
        /// The key.
        key: String,
        /// The keys there are.
        allowed: String,
    },
    /// A key that must be there.
    #[error("{key} is missing; it takes {allowed}")]
    Missing {
        /// The key.
        key: String,
        /// What it takes.
        allowed: String,
    },
    /// A key that stands twice; remove one.
    #[error("{key} is given twice")]
    Twice {
        /// The key.
        key: String,
    },
    /// Two keys that do not go together.
    #[error("{one} and {other} do not go together: {remedy}")]
    Clash {
        /// One of them.
        one: String,
        /// The other.
        other: String,
        /// What to do.
        remedy: String,
    },
    /// No date from 1969 to 9999 matches; loosen a selector.
    #[error("the item can never match: no date from 1969 to 9999 is {dates}")]
    Never {
        /// The dates asked for, in words.
        dates: String,
    },
}

impl ItemError {
    pub(crate) fn refused(key: &str, value: &Value, allowed: impl Into<String>) -> Self {
        Self::Refused { key: key.to_owned(), value: value.quote(), allowed: allowed.into() }
    }

    fn unknown(key: &str, allowed: impl Into<String>) -> Self {
        Self::UnknownKey { key: cut(key), allowed: allowed.into() }
    }

    pub(crate) fn twice(key: &str) -> Self {
        Self::Twice { key: cut(key) }
    }
}

impl Item {
    /// The compiled pattern.
    ///
    /// ```
    /// # use sterna_cron::Item;
    /// let item: Item = serde_json::from_str(r#"{"epoch": {"period": 300}}"#)?;
    /// assert_eq!(item.pattern().describe(), "every 300 seconds since 1970-01-01T00:00:00Z");
    /// # Ok::<(), serde_json::Error>(())
    /// ```
    pub const fn pattern(&self) -> &Pattern {
        &self.pattern
    }

    /// The least firing at or after `from`; `None` when its years are exhausted.
    ///
    /// ```
    /// # use sterna_cron::{Item, Time, Zone};
    /// let item: Item = serde_json::from_str(
    ///     r#"{"year": 2003, "month": 1, "day_of_month": 1, "hour": 0, "minute": 0,
    ///         "dst_fixes": ["skip", "repeat_use_both"]}"#,
    /// )?;
    /// let new_year = Time::from_epoch(1_041_379_200);
    /// assert_eq!(item.next(&Zone::utc(), Time::from_epoch(0)), Some(new_year));
    /// assert_eq!(item.next(&Zone::utc(), new_year.plus_seconds(1)), None);
    /// # Ok::<(), serde_json::Error>(())
    /// ```
    pub fn next(&self, zone: &Zone, from: Time) -> Option<Time> {
        self.pattern.next(zone, from)
    }

    /// Whether the zone makes a difference: false for `epoch` items only.
    ///
    /// ```
    /// # use sterna_cron::Item;
    /// let item: Item = serde_json::from_str(r#"{"epoch": 2700}"#)?;
    /// assert!(!item.is_timezone_dependent());
    /// # Ok::<(), serde_json::Error>(())
    /// ```
    pub const fn is_timezone_dependent(&self) -> bool {
        self.pattern.is_timezone_dependent()
    }
}

impl Item {
    /// From a value that some format gave.
    pub(crate) fn from_value(source: Value) -> Result<Self, ItemError> {
        let pattern = parse::pattern(&source)?;
        Ok(Self { source, pattern })
    }

    /// What it was read from.
    pub(crate) const fn source(&self) -> &Value {
        &self.source
    }
}

impl<'de> Deserialize<'de> for Item {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::from_value(Value::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}

impl Serialize for Item {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.source.serialize(serializer)
    }
}
