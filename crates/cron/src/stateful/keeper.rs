//! The policy on top: one number decides what fires.

use super::{
    clockwork::{Clockwork, Event, Label, Listing, Movement},
    kept::StatefulItem,
    state::{Reading, Saved},
};
use crate::{Time, Zone};

/// What to do about a firing that is due, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Fire: it is on time.
    FireOnTime,
    /// Fire: it is late, but not too late.
    FireUnskipped,
    /// Fire again: time was set back too far to count as the same.
    FireRepeated,
    /// Drop: it is too late.
    DropTooLate,
    /// Drop: it was fired, and time was set back a little only.
    DropRepeated,
}

/// A firing that is due, with its verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decision {
    /// What to do.
    pub verdict: Verdict,
    /// What the clockwork said.
    pub event: Event,
}

impl Verdict {
    /// What the policy says about an event: for those who turn a [`Clockwork`] themselves.
    ///
    /// ```
    /// use sterna_cron::{Event, Label, Time, Verdict};
    ///
    /// let due = Time::from_epoch(0);
    /// let late = Event { due, label: Label::Skipped, shift_seconds: 300, late_seconds: 300 };
    /// assert_eq!(Verdict::of(&late, 300), Verdict::FireUnskipped);
    /// assert_eq!(Verdict::of(&late, 299), Verdict::DropTooLate);
    /// ```
    pub fn of(event: &Event, max_shift_seconds: u32) -> Self {
        let size = |seconds| match seconds <= i64::from(max_shift_seconds) {
            true => Size::Within,
            false => Size::Beyond,
        };
        decide(event.label, size(event.shift_seconds), size(event.late_seconds))
    }

    /// Whether it says to fire.
    ///
    /// ```
    /// # use sterna_cron::Verdict;
    /// assert!(Verdict::FireUnskipped.fires());
    /// assert!(!Verdict::DropTooLate.fires());
    /// ```
    pub const fn fires(self) -> bool {
        match self {
            Self::FireOnTime | Self::FireUnskipped | Self::FireRepeated => true,
            Self::DropTooLate | Self::DropRepeated => false,
        }
    }
}

/// How a number of seconds compares with what the policy allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Size {
    Within,
    Beyond,
}

/// Decides about one event, by the size of its shift and of its lateness. Every case is written.
#[rustfmt::skip]
const fn decide(label: Label, shift: Size, late: Size) -> Verdict {
    use Label as L;
    use Size as S;
    match (label, shift, late) {
        (L::Fired,        S::Within | S::Beyond, S::Within | S::Beyond) => Verdict::FireOnTime,
        (L::Skipped,      S::Within,             S::Within | S::Beyond) => Verdict::FireUnskipped,
        (L::Skipped,      S::Beyond,             S::Within | S::Beyond) => Verdict::DropTooLate,
        (L::AlreadyFired, S::Within,             S::Within | S::Beyond) => Verdict::DropRepeated,
        (L::AlreadyFired, S::Beyond,             S::Within)             => Verdict::FireRepeated,
        // To be repeated it would have to be on time at least the second time.
        (L::AlreadyFired, S::Beyond,             S::Beyond)             => Verdict::DropTooLate,
    }
}

/// Keeps one item through clock steps, zone changes and suspensions.
///
/// ```
/// use sterna_cron::{Reading, StatefulItem, Time, Timekeeper, Uptime, Verdict, Zone};
///
/// let item: StatefulItem = serde_json::from_str(
///     r#"{"epoch": {"period": 300},
///         "max_shift_seconds_for_unskip_and_do_not_repeat": 600}"#,
/// )?;
/// let at = |system, up| Reading {
///     system: Time::from_epoch(system),
///     monotonic: Uptime::from_seconds(up),
/// };
/// let mut keeper = Timekeeper::new(item, Zone::utc(), 60, at(1_000, 0));
///
/// // Stopped for an hour: the last ten minutes are caught up, the rest is dropped.
/// let mut decisions = Vec::new();
/// keeper.step(at(4_610, 3_610), &mut decisions);
/// let fired: Vec<i64> = decisions.iter().map(|decision| decision.event.due.epoch()).collect();
/// assert_eq!(fired, [4_200, 4_500]);
/// assert_eq!(decisions[1].verdict, Verdict::FireUnskipped);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Timekeeper {
    max_shift_seconds: u32,
    clockwork: Clockwork,
    events: Vec<Event>,
}

impl Timekeeper {
    /// Begins at a reading. `on_time_seconds` is how often [`Timekeeper::step`] will be called:
    /// what is no later than that is on time, whatever the item allows.
    ///
    /// ```
    /// # use sterna_cron::{Reading, StatefulItem, Time, Timekeeper, Uptime, Zone};
    /// # let item: StatefulItem = serde_json::from_str(
    /// #     r#"{"epoch": 5, "max_shift_seconds_for_unskip_and_do_not_repeat": 9}"#,
    /// # )?;
    /// let reading = Reading { system: Time::from_epoch(0), monotonic: Uptime::from_seconds(0) };
    /// let keeper = Timekeeper::new(item, Zone::utc(), 1, reading);
    /// assert_eq!(keeper.deadline(), Some(Time::from_epoch(5)));
    /// # Ok::<(), serde_json::Error>(())
    /// ```
    pub fn new(item: StatefulItem, zone: Zone, on_time_seconds: u32, reading: Reading) -> Self {
        let max_shift_seconds = item.max_shift_seconds_for_unskip_and_do_not_repeat;
        let listing = listing(max_shift_seconds, on_time_seconds);
        let pattern = item.item.pattern().clone();
        let clockwork = Clockwork::new(pattern, zone, item.follows, listing, reading);
        Self { max_shift_seconds, clockwork, events: Vec::new() }
    }

    /// Goes on from what was saved; see [`Clockwork::load`].
    ///
    /// ```
    /// # use sterna_cron::{Reading, StatefulItem, Time, Timekeeper, Uptime, Zone};
    /// # let item: StatefulItem = serde_json::from_str(
    /// #     r#"{"epoch": {"period": 60},
    /// #         "max_shift_seconds_for_unskip_and_do_not_repeat": 90}"#,
    /// # )?;
    /// # let at = |system| Reading {
    /// #     system: Time::from_epoch(system), monotonic: Uptime::from_seconds(0),
    /// # };
    /// let saved = Timekeeper::new(item.clone(), Zone::utc(), 1, at(0)).saved().clone();
    /// let mut keeper = Timekeeper::load(item, Zone::utc(), 1, saved, at(200));
    /// let mut decisions = Vec::new();
    /// keeper.step(at(200), &mut decisions);
    /// // The first is 140 seconds late, which is too late.
    /// assert_eq!(decisions.len(), 2);
    /// # Ok::<(), serde_json::Error>(())
    /// ```
    pub fn load(
        item: StatefulItem,
        zone: Zone,
        on_time_seconds: u32,
        saved: Saved,
        reading: Reading,
    ) -> Self {
        let max_shift_seconds = item.max_shift_seconds_for_unskip_and_do_not_repeat;
        let listing = listing(max_shift_seconds, on_time_seconds);
        let pattern = item.item.pattern().clone();
        let clockwork = Clockwork::load(pattern, zone, item.follows, listing, saved, reading);
        Self { max_shift_seconds, clockwork, events: Vec::new() }
    }

    /// What to keep for [`Timekeeper::load`].
    ///
    /// ```
    /// # use sterna_cron::{Reading, StatefulItem, Time, Timekeeper, Uptime, Zone};
    /// # let item: StatefulItem = serde_json::from_str(
    /// #     r#"{"epoch": 5, "max_shift_seconds_for_unskip_and_do_not_repeat": 9}"#,
    /// # )?;
    /// # let reading = Reading { system: Time::from_epoch(0), monotonic: Uptime::from_seconds(0) };
    /// # let keeper = Timekeeper::new(item, Zone::utc(), 1, reading);
    /// assert!(serde_json::to_string(keeper.saved()).is_ok());
    /// # Ok::<(), serde_json::Error>(())
    /// ```
    pub const fn saved(&self) -> &Saved {
        self.clockwork.saved()
    }

    /// From now on local time is that of `zone`; see [`Clockwork::set_timezone`].
    ///
    /// ```
    /// # use sterna_cron::{Reading, StatefulItem, Time, Timekeeper, Uptime, Zone};
    /// # let item: StatefulItem = serde_json::from_str(
    /// #     r#"{"epoch": 5, "max_shift_seconds_for_unskip_and_do_not_repeat": 9}"#,
    /// # )?;
    /// # let reading = Reading { system: Time::from_epoch(0), monotonic: Uptime::from_seconds(0) };
    /// # let mut keeper = Timekeeper::new(item, Zone::utc(), 1, reading);
    /// keeper.set_timezone("Asia/Tokyo".parse()?);
    /// // Items that count seconds do not mind.
    /// assert_eq!(keeper.step(reading, &mut Vec::new()).zone_shift_seconds, 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn set_timezone(&mut self, zone: Zone) {
        self.clockwork.set_timezone(zone);
    }

    /// When to step next, by the system clock; see [`Clockwork::deadline`].
    ///
    /// ```
    /// # use sterna_cron::{Reading, StatefulItem, Time, Timekeeper, Uptime, Zone};
    /// # let item: StatefulItem = serde_json::from_str(
    /// #     r#"{"epoch": 5, "max_shift_seconds_for_unskip_and_do_not_repeat": 9}"#,
    /// # )?;
    /// # let reading = Reading { system: Time::from_epoch(6), monotonic: Uptime::from_seconds(0) };
    /// let keeper = Timekeeper::new(item, Zone::utc(), 1, reading);
    /// assert_eq!(keeper.deadline(), None);
    /// # Ok::<(), serde_json::Error>(())
    /// ```
    pub fn deadline(&self) -> Option<Time> {
        self.clockwork.deadline()
    }

    /// Moves on to a reading, and adds to `decisions` what became due and what to do about it.
    ///
    /// Firings too late to be worth a decision are only mentioned in [`Movement::unlisted`]. An
    /// early or repeated call changes nothing.
    ///
    /// ```
    /// # use sterna_cron::{Reading, StatefulItem, Time, Timekeeper, Uptime, Verdict, Zone};
    /// # let item: StatefulItem = serde_json::from_str(
    /// #     r#"{"epoch": 5, "max_shift_seconds_for_unskip_and_do_not_repeat": 9}"#,
    /// # )?;
    /// # let at = |seconds| Reading {
    /// #     system: Time::from_epoch(seconds), monotonic: Uptime::from_seconds(seconds),
    /// # };
    /// let mut keeper = Timekeeper::new(item, Zone::utc(), 1, at(0));
    /// let mut decisions = Vec::new();
    /// keeper.step(at(5), &mut decisions);
    /// keeper.step(at(5), &mut decisions);
    /// assert_eq!(decisions.len(), 1);
    /// assert_eq!(decisions[0].verdict, Verdict::FireOnTime);
    /// # Ok::<(), serde_json::Error>(())
    /// ```
    pub fn step(&mut self, reading: Reading, decisions: &mut Vec<Decision>) -> Movement {
        let movement = self.clockwork.step(reading, &mut self.events);
        let max_shift_seconds = self.max_shift_seconds;
        decisions.extend(
            self.events
                .drain(..)
                .map(|event| Decision { verdict: Verdict::of(&event, max_shift_seconds), event }),
        );
        movement
    }
}

fn listing(max_shift_seconds: u32, on_time_seconds: u32) -> Listing {
    Listing {
        on_time_seconds: on_time_seconds.into(),
        listed_seconds: max_shift_seconds.max(on_time_seconds).into(),
    }
}
