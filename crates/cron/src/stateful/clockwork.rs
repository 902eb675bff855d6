//! The machine below the policy: it labels events and decides nothing.

use super::state::{Follows, Reading, Repeat, Saved, Unlisted, Uptime};
use crate::{Pattern, Time, Zone};

/// So many events at most come out of one step; the others follow in the next ones.
const EVENTS_MAX: usize = 1_000;
/// So many stretches that come again are kept apart; beyond it the last ones are merged.
const REPEATS_MAX: usize = 32;
/// So many stretches that were jumped over are remembered; the oldest is forgotten.
const UNLISTED_MAX: usize = 8;

/// How the clockwork lists what is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listing {
    /// An event this late is still on time: how often you promise to call [`Clockwork::step`].
    pub on_time_seconds: i64,
    /// Events later than this are not listed one by one, only mentioned in
    /// [`Movement::unlisted`]. It bounds the work after a jump.
    pub listed_seconds: i64,
}

/// How an event came to be due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Label {
    /// Time came to it, and it is on time.
    Fired,
    /// Time went past it: it is late by the shift.
    Skipped,
    /// It was emitted before, then time was set back by the shift.
    AlreadyFired,
}

/// One firing that is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// The moment it was due, on the followed clock.
    pub due: Time,
    /// How it came to be due.
    pub label: Label,
    /// For skipped events how late they are; for those already fired how far time was set back;
    /// for others 0.
    pub shift_seconds: i64,
    /// How late it is, whatever its label.
    pub late_seconds: i64,
}

/// What happened to time between two steps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Movement {
    /// Real time that passed, by the monotonic clock.
    pub elapsed_seconds: i64,
    /// How far the system clock was set, beyond what passed. A second either way is rounding.
    pub step_seconds: i64,
    /// How far the zone moved local time, judged at the last reading.
    pub zone_shift_seconds: i64,
    /// The first firing that was passed over without being listed, and the moment from which on
    /// they are listed again.
    pub unlisted: Option<(Time, Time)>,
    /// Whether more events are due at once: step again.
    pub has_more: bool,
}

/// A pure machine that turns readings of clocks into labelled events.
///
/// ```
/// use sterna_cron::{Clockwork, Follows, Item, Label, Listing, Reading, Time, Uptime, Zone};
///
/// let item: Item = serde_json::from_str(r#"{"epoch": {"period": 300}}"#)?;
/// let at = |system, up| Reading {
///     system: Time::from_epoch(system),
///     monotonic: Uptime::from_seconds(up),
/// };
/// let listing = Listing { on_time_seconds: 60, listed_seconds: 3600 };
/// let mut work = Clockwork::new(
///     item.pattern().clone(), Zone::utc(), Follows::System, listing, at(1_000, 0),
/// );
/// assert_eq!(work.deadline(), Some(Time::from_epoch(1_200)));
///
/// let mut events = Vec::new();
/// work.step(at(1_200, 200), &mut events);
/// assert_eq!((events[0].due.epoch(), events[0].label), (1_200, Label::Fired));
///
/// // The clock is set back by ten minutes: 900 and 1200 come again.
/// events.clear();
/// let movement = work.step(at(610, 210), &mut events);
/// assert_eq!(movement.step_seconds, -600);
/// work.step(at(1_210, 810), &mut events);
/// let labels: Vec<_> = events.iter().map(|event| (event.due.epoch(), event.label)).collect();
/// assert_eq!(labels, [(900, Label::AlreadyFired), (1_200, Label::AlreadyFired)]);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Clockwork {
    pub(super) pattern: Pattern,
    pub(super) zone: Zone,
    /// The zone before it was set, until the next step has dealt with that.
    pub(super) left: Option<Zone>,
    follows: Follows,
    pub(super) listing: Listing,
    pub(super) saved: Saved,
}

impl Clockwork {
    /// Begins at a reading: what was due then or earlier is past.
    ///
    /// Patterns that depend on a zone follow the system clock, whatever is asked for.
    ///
    /// ```
    /// # use sterna_cron::{Clockwork, Follows, Line, Listing, Reading, Time, Uptime, Zone};
    /// let line: Line = "* * * * *".parse()?;
    /// let reading = Reading { system: Time::from_epoch(60), monotonic: Uptime::from_seconds(0) };
    /// let listing = Listing { on_time_seconds: 60, listed_seconds: 600 };
    /// let work = Clockwork::new(
    ///     line.pattern().clone(), Zone::utc(), Follows::System, listing, reading,
    /// );
    /// assert_eq!(work.deadline(), Some(Time::from_epoch(120)));
    /// # Ok::<(), sterna_cron::LineError>(())
    /// ```
    pub fn new(
        pattern: Pattern,
        zone: Zone,
        follows: Follows,
        listing: Listing,
        reading: Reading,
    ) -> Self {
        let saved = Saved {
            version: Saved::VERSION,
            system: reading.system,
            monotonic: reading.monotonic,
            offset_seconds: zone.offset_seconds(reading.system),
            present: reading.system,
            done: reading.system,
            done_label: None,
            moved: None,
            repeats: Vec::new(),
            unlisted: Vec::new(),
        };
        let mut clockwork = Self::assemble(pattern, zone, follows, listing, saved);
        clockwork.saved.done_label = clockwork.done_label();
        clockwork
    }

    /// Goes on from what was saved: a restart is a suspension, and the next step deals with it.
    ///
    /// The monotonic clock may have begun anew with the machine, so the time that passed is taken
    /// from the system clock.
    ///
    /// ```
    /// # use sterna_cron::{Clockwork, Follows, Line, Listing, Reading, Time, Uptime, Zone};
    /// let line: Line = "* * * * *".parse()?;
    /// let reading = |system, up| Reading {
    ///     system: Time::from_epoch(system),
    ///     monotonic: Uptime::from_seconds(up),
    /// };
    /// let listing = Listing { on_time_seconds: 60, listed_seconds: 600 };
    /// let (pattern, zone) = (line.pattern().clone(), Zone::utc());
    /// let work =
    ///     Clockwork::new(pattern.clone(), zone.clone(), Follows::System, listing, reading(60, 9));
    /// let saved = work.saved().clone();
    /// // Later, in another process, perhaps after a reboot:
    /// let mut work =
    ///     Clockwork::load(pattern, zone, Follows::System, listing, saved, reading(190, 2));
    /// let mut events = Vec::new();
    /// work.step(reading(190, 2), &mut events);
    /// assert_eq!(events.len(), 2);
    /// # Ok::<(), sterna_cron::LineError>(())
    /// ```
    pub fn load(
        pattern: Pattern,
        zone: Zone,
        follows: Follows,
        listing: Listing,
        mut saved: Saved,
        reading: Reading,
    ) -> Self {
        let passed = reading.system.seconds_since(saved.system).max(0);
        saved.monotonic = Uptime::from_seconds(reading.monotonic.seconds().saturating_sub(passed));
        // What was written elsewhere may be anything; only its order matters here.
        saved.repeats.retain(|repeat| repeat.after < repeat.until);
        saved.repeats.sort_unstable_by_key(|repeat| repeat.after);
        saved.unlisted.sort_unstable_by_key(|unlisted| unlisted.after);
        Self::assemble(pattern, zone, follows, listing, saved)
    }

    fn assemble(
        pattern: Pattern,
        zone: Zone,
        follows: Follows,
        listing: Listing,
        saved: Saved,
    ) -> Self {
        let follows = match (pattern.is_timezone_dependent(), follows) {
            (false, Follows::Monotonic) => Follows::Monotonic,
            (false | true, Follows::System) | (true, Follows::Monotonic) => Follows::System,
        };
        Self { pattern, zone, left: None, follows, listing, saved }
    }

    /// What to keep for [`Clockwork::load`].
    ///
    /// ```
    /// # use sterna_cron::{Clockwork, Follows, Item, Listing, Reading, Time, Uptime, Zone};
    /// # let item: Item = serde_json::from_str(r#"{"epoch": 5}"#)?;
    /// # let reading = Reading { system: Time::from_epoch(0), monotonic: Uptime::from_seconds(0) };
    /// # let listing = Listing { on_time_seconds: 60, listed_seconds: 600 };
    /// # let pattern = item.pattern().clone();
    /// # let work = Clockwork::new(pattern, Zone::utc(), Follows::System, listing, reading);
    /// let text = serde_json::to_string(work.saved())?;
    /// assert!(text.contains("\"version\":1"));
    /// # Ok::<(), serde_json::Error>(())
    /// ```
    pub const fn saved(&self) -> &Saved {
        &self.saved
    }

    /// From now on local time is that of `zone`; the next step compares it with the past.
    ///
    /// Give a zone anew when its database was renewed. A change that leaves the offset of the
    /// last reading as it was is no disturbance: only the future is computed from the new rules.
    ///
    /// ```
    /// # use sterna_cron::{Clockwork, Follows, Line, Listing, Reading, Time, Uptime, Zone};
    /// # let line: Line = "0 12 * * *".parse()?;
    /// # let reading = Reading { system: Time::from_epoch(0), monotonic: Uptime::from_seconds(0) };
    /// # let listing = Listing { on_time_seconds: 60, listed_seconds: 86_400 };
    /// # let pattern = line.pattern().clone();
    /// let mut work = Clockwork::new(pattern, Zone::utc(), Follows::System, listing, reading);
    /// work.set_timezone("Asia/Tokyo".parse()?);
    /// let movement = work.step(reading, &mut Vec::new());
    /// assert_eq!(movement.zone_shift_seconds, 9 * 3600);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn set_timezone(&mut self, zone: Zone) {
        let left = std::mem::replace(&mut self.zone, zone);
        self.left.get_or_insert(left);
    }

    /// When to step next, by the system clock; `None` when nothing is left to fire.
    ///
    /// Step more often than that, or a clock that is set will be noticed late.
    ///
    /// ```
    /// # use sterna_cron::{Clockwork, Follows, Item, Listing, Reading, Time, Uptime, Zone};
    /// # let item: Item = serde_json::from_str(r#"{"epoch": 5}"#)?;
    /// # let listing = Listing { on_time_seconds: 60, listed_seconds: 600 };
    /// let reading = Reading { system: Time::from_epoch(9), monotonic: Uptime::from_seconds(0) };
    /// let pattern = item.pattern().clone();
    /// let work = Clockwork::new(pattern, Zone::utc(), Follows::System, listing, reading);
    /// assert_eq!(work.deadline(), None);
    /// # Ok::<(), serde_json::Error>(())
    /// ```
    pub fn deadline(&self) -> Option<Time> {
        let due = self.pattern.next(&self.zone, self.saved.done.plus_seconds(1))?;
        let ahead = due.seconds_since(self.saved.present);
        Some(self.saved.system.plus_seconds(ahead.max(0)))
    }

    /// Moves on to a reading, and adds to `events` what became due, in order.
    ///
    /// A reading that shows the same as the last one changes nothing. At most a thousand events
    /// come at a time; [`Movement::has_more`] says that a further step is due at once.
    ///
    /// ```
    /// # use sterna_cron::{Clockwork, Follows, Item, Listing, Reading, Time, Uptime, Zone};
    /// # let item: Item = serde_json::from_str(r#"{"epoch": {"period": 60}}"#)?;
    /// # let at = |seconds| Reading {
    /// #     system: Time::from_epoch(seconds), monotonic: Uptime::from_seconds(seconds),
    /// # };
    /// # let pattern = item.pattern().clone();
    /// let listing = Listing { on_time_seconds: 60, listed_seconds: 150 };
    /// let mut work = Clockwork::new(pattern, Zone::utc(), Follows::System, listing, at(0));
    /// // A year passes at once: only the last 150 seconds are listed.
    /// let mut events = Vec::new();
    /// let movement = work.step(at(31_536_000), &mut events);
    /// assert_eq!(events.len(), 3);
    /// assert_eq!(movement.unlisted.unwrap().0, Time::from_epoch(60));
    /// # Ok::<(), serde_json::Error>(())
    /// ```
    pub fn step(&mut self, reading: Reading, events: &mut Vec<Event>) -> Movement {
        let mut movement = self.pass_time(reading);
        self.move_zone(&mut movement);
        self.undo_set_back(&movement);
        self.saved.system = reading.system;
        self.saved.monotonic = reading.monotonic;
        self.saved.offset_seconds = self.zone.offset_seconds(reading.system);
        if self.saved.present < self.saved.done {
            self.set_back(&movement);
        } else {
            self.emit(&mut movement, events);
        }
        self.saved.done_label = self.done_label();
        movement
    }

    /// Moves the present, and says how far each clock went.
    fn pass_time(&mut self, reading: Reading) -> Movement {
        let by_system = reading.system.seconds_since(self.saved.system);
        let by_monotonic =
            reading.monotonic.seconds().saturating_sub(self.saved.monotonic.seconds());
        // A monotonic clock that went back began anew: all that is left is the system's word.
        let elapsed_seconds = if by_monotonic < 0 { by_system.max(0) } else { by_monotonic };
        self.saved.present = match self.follows {
            Follows::System => reading.system,
            Follows::Monotonic => self.saved.present.plus_seconds(elapsed_seconds),
        };
        let step_seconds = by_system.saturating_sub(elapsed_seconds);
        Movement { elapsed_seconds, step_seconds, ..Movement::default() }
    }

    /// Time was set forward: what was set back before is set back by so much less, and a clock that
    /// goes wrong and is set right again has not been set back at all.
    fn undo_set_back(&mut self, movement: &Movement) {
        let by_clock = match self.follows {
            // A second either way is rounding.
            Follows::System if movement.step_seconds > 1 => movement.step_seconds,
            Follows::System | Follows::Monotonic => 0,
        };
        let forward = by_clock.saturating_add(movement.zone_shift_seconds.max(0));
        for repeat in &mut self.saved.repeats {
            repeat.shift_seconds = repeat.shift_seconds.saturating_sub(forward).max(0);
        }
    }

    /// Time went back: what was emitted between the present and what is done comes again.
    fn set_back(&mut self, movement: &Movement) {
        let (present, done) = (self.saved.present, self.saved.done);
        // By the local clock: a new zone may take longer to come back to what the old one showed.
        let by_system = movement.elapsed_seconds.saturating_add(movement.step_seconds);
        let shift_seconds =
            by_system.saturating_add(movement.zone_shift_seconds).saturating_neg().max(0);
        let mut repeats = Vec::new();
        let mut after = present;
        for unlisted in &mut self.saved.unlisted {
            let until = unlisted.after.clamp(present, done);
            repeats.push(Repeat { after, until, shift_seconds });
            after = unlisted.until.clamp(present, done);
            // What lies ahead again will be passed again, and is then no longer unlisted.
            unlisted.until = unlisted.until.min(present);
        }
        repeats.push(Repeat { after, until: done, shift_seconds });
        self.saved.unlisted.retain(|unlisted| unlisted.after < unlisted.until);
        // Earlier returns count only beyond what this one covers: the latest step decides.
        repeats.extend(
            self.saved
                .repeats
                .iter()
                .map(|repeat| Repeat { after: repeat.after.max(done), ..*repeat }),
        );
        repeats.retain(|repeat| repeat.after < repeat.until);
        while repeats.len() > REPEATS_MAX
            && let Some(last) = repeats.pop()
            && let Some(merged) = repeats.last_mut()
        {
            // The smaller shift errs on the side of not firing twice.
            merged.until = last.until;
            merged.shift_seconds = merged.shift_seconds.min(last.shift_seconds);
        }
        self.saved.repeats = repeats;
        self.saved.moved = None;
        self.saved.done = present;
    }

    /// Time went on: everything up to the present is due, except what is too old to be listed.
    fn emit(&mut self, movement: &mut Movement, events: &mut Vec<Event>) {
        let present = self.saved.present;
        let mut from = self.saved.done.plus_seconds(1);
        let listed_from = self.listed_from();
        if from < listed_from {
            let first = self.pattern.next(&self.zone, from);
            movement.unlisted =
                first.filter(|first| *first < listed_from).map(|first| (first, listed_from));
            if movement.unlisted.is_some() {
                let until = listed_from.plus_seconds(-1);
                self.saved.unlisted.push(Unlisted { after: self.saved.done, until });
                let excess = self.saved.unlisted.len().saturating_sub(UNLISTED_MAX);
                self.saved.unlisted.drain(..excess);
            }
            from = listed_from;
        }
        let mut left = EVENTS_MAX;
        while let Some(due) = self.pattern.next(&self.zone, from).filter(|due| *due <= present) {
            if left == 0 {
                movement.has_more = true;
                self.saved.done = from.plus_seconds(-1);
                return;
            }
            left -= 1;
            if self.is_passed(due) {
                events.push(self.label(due));
            }
            from = due.plus_seconds(1);
        }
        self.saved.done = present;
        self.saved.moved = self.saved.moved.filter(|moved| moved.at > present);
        self.saved.repeats.retain(|repeat| repeat.until > present);
    }

    fn label(&self, due: Time) -> Event {
        let late_seconds = self.late_seconds(due);
        let returned =
            self.saved.repeats.iter().find(|repeat| repeat.after < due && due <= repeat.until);
        let (label, shift_seconds) = match returned {
            Some(repeat) => (Label::AlreadyFired, repeat.shift_seconds),
            None if late_seconds > self.listing.on_time_seconds => (Label::Skipped, late_seconds),
            None => (Label::Fired, 0),
        };
        Event { due, label, shift_seconds, late_seconds }
    }
}
