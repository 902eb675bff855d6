//! The set of moments at which something fires.
//!
//! ```text
//!   item ──┐                  ┌── epoch: counts seconds, knows no zone
//!          ├──▶  Pattern  ────┤
//!   line ──┘                  └── calendar: labels that match  ─┐
//!                                 zone: when labels are shown  ─┴─▶ firings
//! ```
//!
//! A calendar pattern names *labels*, what a local clock shows. A label that is shown once fires
//! at that instant; one shown several times fires early, late or each time; one never shown fires
//! not at all or beside the jump. Together these instants are a set, and [`Pattern::next`] gives
//! its least member from a moment on.
//!
//! Invariant: for `t <= u <= next(t)`, `next(u)` is the same moment.
//! Invariant: the search is bounded for every pattern and zone, and allocates nothing.
//!
//! This module does not know how patterns are written; see `item` and `line`.

mod calendar;
mod desert;
mod epoch;
mod every;
mod fixes;
mod kinds;
mod rule;
mod seek;
mod words;
mod years;

pub(crate) use calendar::{Calendar, Fields};
pub(crate) use epoch::Epoch;
pub(crate) use every::{Every, Unit};
pub use fixes::{DstFixes, FixesError, Missing, Repeated};
pub(crate) use rule::{DayRule, Join, Numbers, Weekdays};
pub(crate) use years::Years;

use crate::{Time, Zone};

/// A compiled pattern, from an [`Item`](crate::Item) or a [`Line`](crate::Line).
///
/// ```
/// use sterna_cron::{Item, Pattern, Time, Zone};
///
/// let item: Item = serde_json::from_str(
///     r#"{"hour": 2, "minute": 30, "dst_fixes": ["unskip", "repeat_use_only_early"]}"#,
/// )?;
/// let pattern: &Pattern = item.pattern();
/// let zone: Zone = "America/Los_Angeles".parse()?;
/// // 02:30 did not exist on 10 March 2013: it fires in the last second before the jump.
/// let firing = pattern.next(&zone, Time::from_epoch(1_362_900_000)).unwrap();
/// assert_eq!(zone.format(firing), "2013-03-10T01:59:59-08:00");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Pattern {
    kind: Kind,
}

#[derive(Clone, Debug)]
enum Kind {
    Epoch(Epoch),
    Calendar {
        calendar: Box<Calendar>,
        fixes: DstFixes,
    },
    /// Fires never, as `@reboot` does by the clock.
    Never,
}

/// One firing and its reason; see [`Pattern::next_firing`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Firing {
    /// When.
    pub at: Time,
    /// Why then.
    pub why: Why,
}

/// Whether a rule about jumping clocks had a part in a firing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// No: the clock shows a matching label, once.
    Plain,
    /// The label is shown again later; this is the first time.
    RepeatedEarly,
    /// The label was shown before; this is not the first time.
    RepeatedLate,
    /// The label is missing, so it fires in the last second before the jump.
    BeforeGap,
    /// The label is missing, so it fires at the first instant after the jump.
    AfterGap,
}

impl Pattern {
    pub(crate) const fn from_epoch(epoch: Epoch) -> Self {
        Self { kind: Kind::Epoch(epoch) }
    }

    pub(crate) fn from_calendar(calendar: Calendar, fixes: DstFixes) -> Self {
        Self { kind: Kind::Calendar { calendar: Box::new(calendar), fixes } }
    }

    pub(crate) const fn never() -> Self {
        Self { kind: Kind::Never }
    }

    /// The least firing at or after `from`; `None` when there is no more.
    ///
    /// Local times from 1969 to 9999 are considered. The search is bounded for every pattern
    /// (microseconds at worst) and allocates nothing.
    ///
    /// ```
    /// use sterna_cron::{Item, Time, Zone};
    ///
    /// let item: Item = serde_json::from_str(r#"{"epoch": [2700, 5400]}"#)?;
    /// let next = |from| item.pattern().next(&Zone::utc(), Time::from_epoch(from));
    /// assert_eq!(next(2700), Some(Time::from_epoch(2700)));
    /// assert_eq!(next(2701), Some(Time::from_epoch(5400)));
    /// assert_eq!(next(5401), None);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[inline]
    pub fn next(&self, zone: &Zone, from: Time) -> Option<Time> {
        match &self.kind {
            Kind::Epoch(epoch) => epoch.at_or_after(from.epoch()).map(Time::from_epoch),
            Kind::Calendar { calendar, fixes } => {
                seek::next(calendar, *fixes, zone.table(), from.epoch())
                    .map(|hit| Time::from_epoch(hit.at))
            }
            Kind::Never => None,
        }
    }

    /// The same moment as [`Pattern::next`], with the part that a jumping clock had in it.
    ///
    /// ```
    /// use sterna_cron::{Line, Time, Why, Zone};
    ///
    /// // Fixed times run once in a repeated hour, the first time.
    /// let line: Line = "30 1 * * *".parse()?;
    /// let zone: Zone = "America/Los_Angeles".parse()?;
    /// let firing = line.pattern().next_firing(&zone, Time::from_epoch(1_383_400_000)).unwrap();
    /// assert_eq!((firing.at.epoch(), firing.why), (1_383_467_400, Why::RepeatedEarly));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn next_firing(&self, zone: &Zone, from: Time) -> Option<Firing> {
        let Kind::Calendar { calendar, fixes } = &self.kind else {
            return self.next(zone, from).map(|at| Firing { at, why: Why::Plain });
        };
        let hit = seek::next(calendar, *fixes, zone.table(), from.epoch())?;
        let why = match (hit.is_in_gap, fixes.missing) {
            (true, Missing::LastSecondBefore) => Why::BeforeGap,
            (true, Missing::FirstSecondAfter) => Why::AfterGap,
            (true, Missing::Skip)
            | (false, Missing::Skip | Missing::LastSecondBefore | Missing::FirstSecondAfter) => {
                repetition(zone, hit)
            }
        };
        Some(Firing { at: Time::from_epoch(hit.at), why })
    }

    /// The firings from a moment on, in order.
    ///
    /// ```
    /// use sterna_cron::{Line, Time, Zone};
    ///
    /// let line: Line = "0 */6 * * *".parse()?;
    /// let day: Vec<i64> = line
    ///     .pattern()
    ///     .firings(&Zone::utc(), Time::from_epoch(1))
    ///     .map(Time::epoch)
    ///     .take_while(|epoch| *epoch <= 86_400)
    ///     .collect();
    /// assert_eq!(day, [21_600, 43_200, 64_800, 86_400]);
    /// # Ok::<(), sterna_cron::LineError>(())
    /// ```
    pub fn firings<'a>(&'a self, zone: &'a Zone, from: Time) -> Firings<'a> {
        Firings { pattern: self, zone, from: Some(from) }
    }

    /// The first label from `from` up to `until` that matches but is left out because the clock
    /// never shows it (`skip`), as the instant of the jump; `None` when nothing was left out.
    ///
    /// ```
    /// use sterna_cron::{Item, Time, Zone};
    ///
    /// let item: Item = serde_json::from_str(
    ///     r#"{"hour": 2, "minute": 30, "dst_fixes": ["skip", "repeat_use_both"]}"#,
    /// )?;
    /// let zone: Zone = "America/Los_Angeles".parse()?;
    /// let (from, until) = (Time::from_epoch(1_362_825_000), Time::from_epoch(1_362_994_200));
    /// let jump = item.pattern().skipped(&zone, from, until).unwrap();
    /// assert_eq!(zone.format(jump), "2013-03-10T03:00:00-07:00");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn skipped(&self, zone: &Zone, from: Time, until: Time) -> Option<Time> {
        let Kind::Calendar { calendar, fixes: DstFixes { missing: Missing::Skip, repeated } } =
            &self.kind
        else {
            return None;
        };
        let asked = DstFixes { missing: Missing::FirstSecondAfter, repeated: *repeated };
        let mut from = from;
        loop {
            let hit = seek::next(calendar, asked, zone.table(), from.epoch())?;
            if hit.at >= until.epoch() {
                return None;
            }
            if hit.is_in_gap {
                return Some(Time::from_epoch(hit.at));
            }
            from = Time::from_epoch(hit.at + 1);
        }
    }

    /// Whether the zone makes a difference: false for `epoch` items only.
    ///
    /// ```
    /// # use sterna_cron::{Item, Line};
    /// let item: Item = serde_json::from_str(r#"{"epoch": {"period": 300}}"#)?;
    /// assert!(!item.pattern().is_timezone_dependent());
    /// let line: Line = "*/5 * * * *".parse()?;
    /// assert!(line.pattern().is_timezone_dependent());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub const fn is_timezone_dependent(&self) -> bool {
        match self.kind {
            Kind::Epoch(_) | Kind::Never => false,
            Kind::Calendar { .. } => true,
        }
    }

    /// What happens where the local clock jumps; `None` for patterns that no zone touches.
    ///
    /// ```
    /// # use sterna_cron::{Line, Missing};
    /// let line: Line = "30 2 * * *".parse()?;
    /// assert_eq!(line.pattern().dst_fixes().unwrap().missing, Missing::FirstSecondAfter);
    /// # Ok::<(), sterna_cron::LineError>(())
    /// ```
    pub const fn dst_fixes(&self) -> Option<DstFixes> {
        match self.kind {
            Kind::Epoch(_) | Kind::Never => None,
            Kind::Calendar { fixes, .. } => Some(fixes),
        }
    }

    /// The pattern in words.
    ///
    /// ```
    /// # use sterna_cron::Line;
    /// let line: Line = "0 10 * * 2".parse()?;
    /// assert_eq!(line.pattern().describe(), "at 10:00 on Tuesdays");
    /// # Ok::<(), sterna_cron::LineError>(())
    /// ```
    pub fn describe(&self) -> String {
        match &self.kind {
            Kind::Epoch(epoch) => epoch.describe(),
            Kind::Calendar { calendar, .. } => words::describe(calendar.fields()),
            Kind::Never => "never by the clock".to_owned(),
        }
    }

    /// The same pattern with other rules for jumping clocks.
    pub(crate) fn with_fixes(mut self, new: DstFixes) -> Self {
        if let Kind::Calendar { fixes, .. } = &mut self.kind {
            *fixes = new;
        }
        self
    }
}

/// Which of several showings of a label an instant is.
fn repetition(zone: &Zone, hit: seek::Hit) -> Why {
    let (mut shown, mut before) = (0, 0);
    zone.table().instants(hit.label, |instant| {
        shown += 1;
        before += i32::from(instant < hit.at);
    });
    if shown < 2 {
        Why::Plain
    } else if before == 0 {
        Why::RepeatedEarly
    } else {
        Why::RepeatedLate
    }
}

/// The firings of a pattern, in order; see [`Pattern::firings`].
#[derive(Clone, Debug)]
pub struct Firings<'a> {
    pattern: &'a Pattern,
    zone: &'a Zone,
    from: Option<Time>,
}

impl Iterator for Firings<'_> {
    type Item = Time;

    fn next(&mut self) -> Option<Time> {
        let found = self.pattern.next(self.zone, self.from?);
        self.from = found.and_then(|at| at.epoch().checked_add(1)).map(Time::from_epoch);
        found
    }
}
