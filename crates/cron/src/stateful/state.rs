use std::fmt;

use serde::{Deserialize, Serialize};

use crate::Time;

/// A moment on a clock that nobody sets: seconds since the machine started, or since any other
/// moment that stays the same while the process lives. It should run while the machine sleeps.
///
/// ```
/// # use sterna_cron::Uptime;
/// assert!(Uptime::from_seconds(5) < Uptime::from_seconds(6));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Uptime(i64);

impl Uptime {
    /// Wraps a count of seconds.
    ///
    /// ```
    /// # use sterna_cron::Uptime;
    /// assert_eq!(Uptime::from_seconds(7).seconds(), 7);
    /// ```
    pub const fn from_seconds(seconds: i64) -> Self {
        Self(seconds)
    }

    /// The count of seconds.
    ///
    /// ```
    /// # use sterna_cron::Uptime;
    /// assert_eq!(Uptime::from_seconds(-1).seconds(), -1);
    /// ```
    pub const fn seconds(self) -> i64 {
        self.0
    }
}

impl fmt::Debug for Uptime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "up{}", self.0)
    }
}

/// What the two clocks show, read together.
///
/// ```
/// # use sterna_cron::{Reading, Time, Uptime};
/// let reading = Reading { system: Time::from_epoch(60), monotonic: Uptime::from_seconds(3) };
/// assert_eq!(reading.system.epoch(), 60);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reading {
    /// The clock that people and NTP set.
    pub system: Time,
    /// The clock that nobody sets.
    pub monotonic: Uptime,
}

/// Which clock an item follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Follows {
    /// The system clock: when it is set, firings come early or late.
    System,
    /// The monotonic clock, counted from the system time at the start: setting the system clock
    /// changes nothing. Only for `epoch` items, since a calendar needs to know the date.
    Monotonic,
}

/// Local time that went by before, and comes again because time was set back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Repeat {
    /// It begins after this moment,
    pub(super) after: Time,
    /// and ends with this one.
    pub(super) until: Time,
    /// How far time was set back, when it was.
    pub(super) shift_seconds: i64,
}

/// Local time that was jumped over without listing what was due in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Unlisted {
    /// It begins after this moment,
    pub(super) after: Time,
    /// and ends with this one.
    pub(super) until: Time,
}

/// The local clock was moved forward; what it was moved over is not all emitted yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Moved {
    /// The moment of the move.
    pub(super) at: Time,
    /// Up to this label everything had been emitted.
    pub(super) done_label: i64,
}

/// Everything that a clockwork remembers; save it with serde, and load it after a restart.
///
/// ```
/// use sterna_cron::{Clockwork, Follows, Item, Listing, Reading, Saved, Time, Uptime, Zone};
///
/// let item: Item = serde_json::from_str(r#"{"epoch": {"period": 300}}"#)?;
/// let reading = Reading { system: Time::from_epoch(1_000), monotonic: Uptime::from_seconds(0) };
/// let listing = Listing { on_time_seconds: 60, listed_seconds: 600 };
/// let work = Clockwork::new(
///     item.pattern().clone(), Zone::utc(), Follows::System, listing, reading,
/// );
/// let text = serde_json::to_string(work.saved())?;
/// let loaded: Saved = serde_json::from_str(&text)?;
/// assert_eq!(&loaded, work.saved());
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Saved {
    /// The form of this record; no other is read.
    #[serde(deserialize_with = "known_version")]
    pub(super) version: u32,
    /// The last reading.
    pub(super) system: Time,
    pub(super) monotonic: Uptime,
    /// The offset of the zone at that reading.
    pub(super) offset_seconds: i64,
    /// The present on the followed clock: the system time, unless the monotonic one is followed.
    pub(super) present: Time,
    /// Everything up to here has been emitted.
    pub(super) done: Time,
    /// Up to which label that is, for items that fire once for each; for others what is shown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) done_label: Option<i64>,
    /// While a move of the local clock is being caught up with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) moved: Option<Moved>,
    /// What comes again, in order of time; none overlap.
    pub(super) repeats: Vec<Repeat>,
    /// What was never emitted, in order of time: it cannot have been fired already.
    pub(super) unlisted: Vec<Unlisted>,
}

fn known_version<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<u32, D::Error> {
    match u32::deserialize(deserializer)? {
        Saved::VERSION => Ok(Saved::VERSION),
        other => Err(serde::de::Error::custom(format!(
            "version: {other} is not allowed; this build reads version {}",
            Saved::VERSION
        ))),
    }
}

impl Saved {
    /// The present form.
    pub(super) const VERSION: u32 = 1;
}
