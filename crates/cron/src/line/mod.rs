//! Classic crontab lines.
//!
//! ```text
//!   CRON_TZ=Europe/Berlin   30    2     *      *        1-5
//!   (optional)              min   hour  day    month    weekday
//! ```
//!
//! A sixth field in front holds seconds. Names, lists, ranges and steps go everywhere; days also
//! take `L`, `L-3`, `15W` and `LW`, weekdays `5L` and `5#2`; `?` is `*`; `@daily` and its kin
//! stand for whole lines.
//!
//! A line is not an item: when both day fields are restricted, a day must satisfy *one* of them.
//! As in cron, a field that begins with `*` does not count as restricted, `*/2` included.
//!
//! What happens when the clock jumps is a [`Policy`], by default [`Policy::Vixie`].

mod field;
mod parse;
#[cfg(test)]
mod tests;

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};

use crate::{
    Pattern, Time, Zone,
    pattern::{DstFixes, Missing, Repeated},
};

/// What a line does where the local clock jumps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Policy {
    /// As Vixie's cron and its descendants: a line whose minute or hour field begins with `*` or
    /// `?` follows real time; any other runs once in a repeated hour, the first time, and right
    /// after a jump that left it out.
    Vixie,
    /// As an item would.
    Fixes(DstFixes),
}

/// A crontab line.
///
/// ```
/// use sterna_cron::{Line, Time, Zone};
///
/// let line: Line = "30 2 * * *".parse()?;
/// let zone: Zone = "America/Los_Angeles".parse()?;
/// // 02:30 did not exist on 10 March 2013: the line runs right after the jump.
/// let next = line.next(&zone, Time::from_epoch(1_362_900_000)).unwrap();
/// assert_eq!(zone.format(next), "2013-03-10T03:00:00-07:00");
///
/// let refused = "30 25 * * *".parse::<Line>().unwrap_err();
/// assert_eq!(refused.column(), 4);
/// assert_eq!(refused.to_string(), "column 4, hours: 25 is not allowed; allowed are 0 to 23");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Line {
    source: String,
    timezone: Option<String>,
    /// The minute or the hour field begins with a star.
    follows_real_time: bool,
    is_reboot: bool,
    pattern: Pattern,
}

/// Where and why a line is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LineError {
    line: String,
    column: usize,
    field: Option<&'static str>,
    problem: String,
}

impl Line {
    /// The compiled pattern.
    ///
    /// ```
    /// # use sterna_cron::Line;
    /// let line: Line = "0 0 L * *".parse()?;
    /// assert_eq!(line.pattern().describe(), "at 00:00 on the last day of the month");
    /// # Ok::<(), sterna_cron::LineError>(())
    /// ```
    pub const fn pattern(&self) -> &Pattern {
        &self.pattern
    }

    /// The least firing at or after `from`; `None` for dates that never come, and for `@reboot`.
    ///
    /// ```
    /// # use sterna_cron::{Line, Time, Zone};
    /// let line: Line = "0 0 30 2 *".parse()?;
    /// assert_eq!(line.next(&Zone::utc(), Time::from_epoch(0)), None);
    /// # Ok::<(), sterna_cron::LineError>(())
    /// ```
    pub fn next(&self, zone: &Zone, from: Time) -> Option<Time> {
        self.pattern.next(zone, from)
    }

    /// The zone that the line itself names with `CRON_TZ=` or `TZ=`; it is not looked up.
    ///
    /// ```
    /// # use sterna_cron::Line;
    /// let line: Line = "CRON_TZ=Asia/Tokyo 0 9 * * *".parse()?;
    /// assert_eq!(line.timezone(), Some("Asia/Tokyo"));
    /// assert_eq!("0 9 * * *".parse::<Line>()?.timezone(), None);
    /// # Ok::<(), sterna_cron::LineError>(())
    /// ```
    pub fn timezone(&self) -> Option<&str> {
        self.timezone.as_deref()
    }

    /// Whether it is `@reboot`, which no clock fires.
    ///
    /// ```
    /// # use sterna_cron::Line;
    /// assert!("@reboot".parse::<Line>()?.is_reboot());
    /// assert!(!"@daily".parse::<Line>()?.is_reboot());
    /// # Ok::<(), sterna_cron::LineError>(())
    /// ```
    pub const fn is_reboot(&self) -> bool {
        self.is_reboot
    }

    /// The same line under another policy.
    ///
    /// ```
    /// use sterna_cron::{DstFixes, Line, Policy, Time, Zone};
    ///
    /// let fixes = DstFixes::from_names(["skip", "repeat_use_both"])?;
    /// let line = "30 2 * * *".parse::<Line>()?.with_policy(Policy::Fixes(fixes));
    /// let zone: Zone = "America/Los_Angeles".parse()?;
    /// let next = line.next(&zone, Time::from_epoch(1_362_900_000)).unwrap();
    /// assert_eq!(zone.format(next), "2013-03-11T02:30:00-07:00");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn with_policy(mut self, policy: Policy) -> Self {
        self.pattern = self.pattern.with_fixes(fixes(policy, self.follows_real_time));
        self
    }

    /// Reads an entry of a crontab file: five time fields (or an `@` name), then a command, which
    /// is given back as written. A missing command is an error.
    ///
    /// ```
    /// # use sterna_cron::Line;
    /// let (line, command) = Line::with_command("30 2 * * 1-5\t/usr/bin/backup --all")?;
    /// assert_eq!(line.to_string(), "30 2 * * 1-5");
    /// assert_eq!(command, "/usr/bin/backup --all");
    /// assert_eq!(Line::with_command("@daily true")?.1, "true");
    /// assert!(Line::with_command("30 2 * * 1-5").is_err());
    /// # Ok::<(), sterna_cron::LineError>(())
    /// ```
    pub fn with_command(entry: &str) -> Result<(Self, &str), LineError> {
        parse::entry(entry)
    }
}

/// What a policy means for a line that follows real time, or does not.
#[rustfmt::skip]
const fn fixes(policy: Policy, follows_real_time: bool) -> DstFixes {
    match (policy, follows_real_time) {
        (Policy::Vixie, true)  => DstFixes { missing: Missing::Skip, repeated: Repeated::Both },
        (Policy::Vixie, false) => {
            DstFixes { missing: Missing::FirstSecondAfter, repeated: Repeated::OnlyEarly }
        }
        (Policy::Fixes(fixes), true | false) => fixes,
    }
}

impl LineError {
    /// Where the problem begins, counted in characters from 1.
    ///
    /// ```
    /// # use sterna_cron::Line;
    /// assert_eq!("* * 1-32 * *".parse::<Line>().unwrap_err().column(), 7);
    /// ```
    pub const fn column(&self) -> usize {
        self.column
    }

    /// The line with a mark under the problem, for a terminal.
    ///
    /// ```
    /// # use sterna_cron::Line;
    /// let refused = "* * 1-32 * *".parse::<Line>().unwrap_err();
    /// assert_eq!(refused.marked(), "* * 1-32 * *\n      ^");
    /// ```
    pub fn marked(&self) -> String {
        format!("{}\n{:>width$}", self.line, '^', width = self.column)
    }
}

impl fmt::Display for LineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.field {
            Some(field) => write!(f, "column {}, {field}: {}", self.column, self.problem),
            None => write!(f, "column {}: {}", self.column, self.problem),
        }
    }
}

impl std::error::Error for LineError {}

impl std::str::FromStr for Line {
    type Err = LineError;

    /// Five fields, or six with seconds in front, or an `@` name; a zone may come first.
    fn from_str(text: &str) -> Result<Self, LineError> {
        parse::line(text)
    }
}

/// Writes the line as it was read.
impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.source)
    }
}

impl<'de> Deserialize<'de> for Line {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

impl Serialize for Line {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.source)
    }
}
