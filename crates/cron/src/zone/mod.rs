//! Time zones: what a local clock shows, at any moment, under the rules of some database.
//!
//! A [`Zone`] is a table of stretches with one offset each, built once from the rules. It knows
//! which labels (what a local clock shows) exist once, repeatedly, or not at all, by time alone:
//! whether a change is called "daylight saving" plays no part.
//!
//! Invariant: a zone never changes. A newer database gives a new zone, see [`Database::reload`].

mod build;
mod database;
mod posix;
mod spans;
mod table;
#[cfg(test)]
mod tests;

use std::{fmt, sync::Arc};

use jiff::{Timestamp, tz::TimeZone};

pub use database::Database;
pub(crate) use table::{FAR, OFFSET_MAX, ORIGIN, Place, REACH, Record, Table};

use crate::{Time, civil};

/// The rules by which one place sets its clocks. Cheap to clone.
///
/// ```
/// use sterna_cron::{Time, Zone};
///
/// let zone: Zone = "America/Los_Angeles".parse()?;
/// assert_eq!(zone.offset_seconds(Time::from_epoch(1_383_467_400)), -7 * 3600);
/// // Not only names: POSIX rules and plain offsets are zones too.
/// let rules: Zone = "PST8PDT,M3.2.0,M11.1.0".parse()?;
/// assert_eq!(rules.offset_seconds(Time::from_epoch(1_383_467_400)), -7 * 3600);
/// let fixed: Zone = "+05:45".parse()?;
/// assert_eq!(fixed.offset_seconds(Time::from_epoch(0)), 20_700);
/// # Ok::<(), sterna_cron::ZoneError>(())
/// ```
#[derive(Clone)]
pub struct Zone {
    name: Arc<str>,
    table: Arc<Table>,
}

/// Why a zone could not be had.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ZoneError {
    /// No database has it and it is no rule; correct the name.
    #[error(
        "unknown time zone {name:?}: expected a name such as Europe/Berlin, a POSIX rule such as \
         EST5EDT,M3.2.0,M11.1.0, or an offset such as +05:30"
    )]
    Unknown {
        /// What was asked for.
        name: String,
        /// What the database said.
        #[source]
        source: jiff::Error,
    },
    /// The database is not there; name another, or use the bundled one.
    #[error("no time zone database at {path}")]
    NoDatabase {
        /// Where it was sought.
        path: String,
        /// What reading it said.
        #[source]
        source: jiff::Error,
    },
}

impl Zone {
    /// Coordinated Universal Time: no label ever repeats or is missing.
    ///
    /// ```
    /// # use sterna_cron::{Time, Zone};
    /// assert_eq!(Zone::utc().offset_seconds(Time::from_epoch(0)), 0);
    /// ```
    pub fn utc() -> Self {
        Self::from_rules("UTC", &TimeZone::UTC)
    }

    /// The name that it was asked for by.
    ///
    /// ```
    /// # use sterna_cron::Zone;
    /// assert_eq!("Asia/Tokyo".parse::<Zone>()?.name(), "Asia/Tokyo");
    /// # Ok::<(), sterna_cron::ZoneError>(())
    /// ```
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What to add to UTC for local time at `at`, east positive. Before 1968 it is the offset of
    /// 1 January 1968.
    ///
    /// ```
    /// # use sterna_cron::{Time, Zone};
    /// let monrovia: Zone = "Africa/Monrovia".parse()?;
    /// assert_eq!(monrovia.offset_seconds(Time::from_epoch(0)), -2670);
    /// # Ok::<(), sterna_cron::ZoneError>(())
    /// ```
    pub fn offset_seconds(&self, at: Time) -> i64 {
        self.table.offset(at.epoch())
    }

    /// Local time with its offset, as RFC 3339 writes it.
    ///
    /// Moments that do not fall into the years 1 to 9999 are given as their count of seconds.
    ///
    /// ```
    /// # use sterna_cron::{Time, Zone};
    /// let zone: Zone = "Asia/Kathmandu".parse()?;
    /// assert_eq!(zone.format(Time::from_epoch(0)), "1970-01-01T05:30:00+05:30");
    /// assert_eq!(zone.format(Time::from_epoch(i64::MAX)), "9223372036854775807");
    /// # Ok::<(), sterna_cron::ZoneError>(())
    /// ```
    pub fn format(&self, at: Time) -> String {
        let offset = self.offset_seconds(at);
        let Some(label) = at.epoch().checked_add(offset) else { return at.to_string() };
        let date = civil::date_of(label.div_euclid(civil::DAY).clamp(-719_468, 2_933_000));
        if !(1..=9999).contains(&date.year) {
            return at.to_string();
        }
        let second = label.rem_euclid(civil::DAY);
        let sign = if offset < 0 { '-' } else { '+' };
        let (hours, minutes) = (offset.abs() / 3600, offset.abs() / 60 % 60);
        let mut text = format!(
            "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}{sign}{hours:02}:{minutes:02}",
            date.year,
            date.month,
            date.day,
            second / 3600,
            second / 60 % 60,
            second % 60,
        );
        if offset % 60 != 0 {
            text.push_str(&format!(":{:02}", offset.abs() % 60));
        }
        text
    }

    /// What the local clock shows at `at`, counted as if it were UTC.
    pub(crate) fn label(&self, at: Time) -> i64 {
        at.epoch().saturating_add(self.offset_seconds(at))
    }

    /// The first moment at which the local clock shows `label`, or a later label, near it.
    pub(crate) fn first_showing(&self, label: i64) -> Time {
        Time::from_epoch(self.table.first_showing(label))
    }

    pub(crate) fn table(&self) -> &Table {
        &self.table
    }

    fn from_rules(name: &str, rules: &TimeZone) -> Self {
        let origin = Timestamp::from_second(ORIGIN).expect("1968 is in range");
        let mut changes = vec![(ORIGIN, i64::from(rules.to_offset(origin).seconds()))];
        // Two years more than a whole cycle: the last stretch that is used has a true end.
        let enough = civil::new_year(2502) * civil::DAY;
        for change in rules.following(origin) {
            let (start, offset) =
                (change.timestamp().as_second(), i64::from(change.offset().seconds()));
            if start >= enough {
                break;
            }
            // Some changes rename the zone only, or call the same offset by another kind of time.
            if changes.last().is_some_and(|last| last.1 != offset) {
                changes.push((start, offset));
            }
        }
        Self::from_changes(name, &changes)
    }

    fn from_changes(name: &str, changes: &[(i64, i64)]) -> Self {
        Self { name: name.into(), table: Arc::new(Table::new(changes)) }
    }
}

impl std::str::FromStr for Zone {
    type Err = ZoneError;

    /// Looks a zone up in the bundled database; see [`Database::zone`].
    fn from_str(name: &str) -> Result<Self, ZoneError> {
        Database::bundled().zone(name)
    }
}

impl fmt::Debug for Zone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Zone").field(&self.name).finish()
    }
}
