//! A zone as a table that answers without allocating, and almost without searching.

use super::build;
use crate::{
    civil::{self, CYCLE, CYCLE_YEARS, DAY, index},
    pattern::Repeated,
};

/// Before every moment that a pattern can name, in any zone.
pub(crate) const ORIGIN: i64 = civil::new_year(1968) * DAY;
/// Later than any moment: "never ends".
pub(crate) const FAR: i64 = i64::MAX / 4;
/// No offset is larger; jiff's limit.
pub(crate) const OFFSET_MAX: i64 = 26 * 3600;
/// Labels that two stretches share lie less than this apart in time.
pub(crate) const REACH: i64 = 2 * OFFSET_MAX + DAY;

/// Rules repeat from here on with the calendar: no zone lists single changes beyond 2087.
const CYCLE_FROM: i64 = civil::new_year(2100) * DAY;
const CYCLE_UNTIL: i64 = CYCLE_FROM + CYCLE;
/// One bucket is 2^23 seconds, about 97 days: rarely more than one change in it.
const BUCKET_BITS: u32 = 23;

/// One stretch of time with one offset; a cache line.
///
/// Labels run evenly through it, so that all questions about it are comparisons.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    /// The instant at which it begins.
    pub(crate) start: i64,
    /// What to add to an instant for its label.
    pub(crate) offset: i64,
    /// The first label.
    pub(crate) from: i64,
    /// The label after the last.
    pub(crate) until: i64,
    /// Labels before this one were shown earlier already.
    pub(crate) new_from: i64,
    /// Labels from this one on will be shown again later.
    pub(crate) last_until: i64,
    /// Labels that the jump at `start` left out, and that are shown nowhere else.
    pub(crate) gap_from: i64,
    /// The label after those; equal to `gap_from` when there are none.
    pub(crate) gap_until: i64,
}

/// A place in a table: the record, and how far the table is moved to lie under it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    index: usize,
    /// Whole cycles, in seconds; 0 before [`CYCLE_UNTIL`].
    pub(crate) shift: i64,
}

/// All stretches of a zone, in order of time.
#[derive(Debug)]
pub(crate) struct Table {
    records: Box<[Record]>,
    buckets: Box<[u32]>,
    /// Where to go on after the last record of the cycle; none when the last stretch has no end.
    wrap: Option<usize>,
    /// From this year on the rules repeat with the calendar.
    periodic_from: i64,
    /// Whether a rule that repeats moves the clock so close to New Year that it may fall into the
    /// year beside its own.
    changes_at_new_year: bool,
}

impl Table {
    /// Builds the table from changes of offset in order; the first must be at [`ORIGIN`].
    pub(super) fn new(changes: &[(i64, i64)]) -> Self {
        let mut records = build::records(changes);
        // Keep one record beyond the cycle: reaching it means to wrap.
        let beyond = records.iter().position(|record| record.start >= CYCLE_UNTIL);
        if let Some(beyond) = beyond {
            records.truncate(beyond + 1);
        }
        let wrap = beyond.and_then(|_| records.iter().position(|r| r.start >= CYCLE_FROM));
        let end = Record { start: FAR, ..records[records.len() - 1] };
        records.push(end);
        let buckets = buckets(&records);
        Self {
            records: records.into(),
            buckets,
            wrap,
            periodic_from: periodic_from(changes),
            changes_at_new_year: changes_at_new_year(changes),
        }
    }

    /// Whether a repeating change may fall into the year beside its own.
    pub(crate) const fn changes_at_new_year(&self) -> bool {
        self.changes_at_new_year
    }

    /// The first year from which on the rules repeat with the calendar.
    pub(crate) const fn periodic_from(&self) -> i64 {
        self.periodic_from
    }

    /// The stretch that holds `instant`; for instants before 1968 the first.
    #[inline]
    pub(crate) fn locate(&self, instant: i64) -> Place {
        let mut shift = 0;
        if instant >= CYCLE_UNTIL && self.wrap.is_some() {
            shift = (instant - CYCLE_FROM) / CYCLE * CYCLE;
        }
        let sought = instant - shift;
        let bucket = index((sought - ORIGIN).max(0) >> BUCKET_BITS).min(self.buckets.len() - 1);
        let mut index = self.buckets[bucket] as usize;
        while self.records[index + 1].start <= sought {
            index += 1;
        }
        Place { index, shift }
    }

    /// The record at a place; its moments must be moved by the shift of the place.
    #[inline]
    pub(crate) fn record(&self, place: Place) -> &Record {
        &self.records[place.index]
    }

    /// The place after `place`; none after the last stretch.
    #[inline]
    pub(crate) fn after(&self, place: Place) -> Option<Place> {
        let index = place.index + 1;
        if self.records[index].start >= FAR {
            return None;
        }
        match self.wrap {
            Some(wrap) if self.records[index].start >= CYCLE_UNTIL => {
                Some(Place { index: wrap, shift: place.shift + CYCLE })
            }
            Some(_) | None => Some(Place { index, shift: place.shift }),
        }
    }

    /// The first place whose record begins at the same instant as that of `place`.
    pub(crate) fn first_at_same_start(&self, place: Place) -> Place {
        let start = self.records[place.index].start;
        let mut index = place.index;
        while index > 0 && self.records[index - 1].start == start {
            index -= 1;
        }
        Place { index, shift: place.shift }
    }

    /// What to add to `instant` for its label.
    #[inline]
    pub(crate) fn offset(&self, instant: i64) -> i64 {
        self.record(self.locate(instant.clamp(ORIGIN, FAR - 1))).offset
    }

    /// Calls `visit` with each instant that shows `label`, in order.
    pub(crate) fn instants(&self, label: i64, mut visit: impl FnMut(i64)) {
        let mut place = self.locate(label - OFFSET_MAX);
        loop {
            let record = self.record(place);
            let (from, until) = (record.from + place.shift, record.until + place.shift);
            if from <= label && label < until {
                visit(label - record.offset);
            }
            match self.after(place) {
                Some(next) if self.record(next).start + next.shift <= label + OFFSET_MAX => {
                    place = next;
                }
                Some(_) | None => return,
            }
        }
    }

    /// The first instant at which the clock shows `label` or a later one, near that label.
    pub(crate) fn first_showing(&self, label: i64) -> i64 {
        let label = label.clamp(ORIGIN, FAR);
        let mut place = self.locate(label - OFFSET_MAX);
        loop {
            let record = self.record(place);
            if record.until + place.shift > label {
                let start = record.start + place.shift;
                return start.max(label - record.offset);
            }
            match self.after(place) {
                Some(next) => place = next,
                None => return label - record.offset,
            }
        }
    }

    /// The last instant at which the clock shows `label` or an earlier one, near that label.
    pub(crate) fn last_showing(&self, label: i64) -> i64 {
        let label = label.clamp(ORIGIN, FAR - 1);
        let mut place = self.locate(label - OFFSET_MAX);
        let mut last = None;
        loop {
            let record = self.record(place);
            let (from, until) = (record.from + place.shift, record.until + place.shift);
            if from < until && from <= label {
                last = Some(label.min(until - 1) - record.offset);
            }
            match self.after(place) {
                Some(next) if self.record(next).start + next.shift <= label + OFFSET_MAX => {
                    place = next;
                }
                Some(_) | None => return last.unwrap_or(label - record.offset),
            }
        }
    }

    /// Up to which label everything is done at the end of `instant`, when each label counts as
    /// often as `repeated` says.
    pub(crate) fn done_label(&self, instant: i64, repeated: Repeated) -> i64 {
        let instant = instant.clamp(ORIGIN, FAR - 1);
        let place = self.locate(instant);
        let record = self.record(place);
        let label = instant + record.offset;
        match repeated {
            Repeated::Both => label,
            // The labels up to here were done when they were shown before.
            Repeated::OnlyEarly => label.max(record.new_from + place.shift - 1),
            // The labels from here on wait until they are shown again.
            Repeated::OnlyLate => label.min(record.last_until + place.shift - 1),
        }
    }

    /// The first label after the missing ones around `label`; none when it is not missing.
    pub(crate) fn missing_until(&self, label: i64) -> Option<i64> {
        let mut place = self.locate(label - OFFSET_MAX);
        loop {
            let record = self.record(place);
            if record.gap_from + place.shift <= label && label < record.gap_until + place.shift {
                return Some(record.gap_until + place.shift);
            }
            let next = self.after(place)?;
            if self.record(next).start + next.shift > label + OFFSET_MAX {
                return None;
            }
            place = next;
        }
    }
}

/// For each bucket the record that holds its first instant.
fn buckets(records: &[Record]) -> Box<[u32]> {
    let last = records[records.len() - 2].start;
    let count = index((last - ORIGIN) >> BUCKET_BITS) + 2;
    let mut at = 0;
    (0..)
        .take(count)
        .map(|bucket: i64| {
            let first = ORIGIN + (bucket << BUCKET_BITS);
            while records[at + 1].start <= first {
                at += 1;
            }
            u32::try_from(at).expect("no file of four thousand million changes was read")
        })
        .collect()
}

/// The first year such that it and all later ones equal the year a cycle later.
fn periodic_from(changes: &[(i64, i64)]) -> i64 {
    let of_year = |year: i64, shift: i64| {
        let (from, until) = (civil::new_year(year) * DAY, civil::new_year(year + 1) * DAY);
        let first = changes.partition_point(|change| change.0 < from);
        changes[first..]
            .iter()
            .take_while(move |change| change.0 < until)
            .map(move |change| (change.0 - shift, change.1))
    };
    let mut year = 2100;
    while year > 1970 && of_year(year - 1, 0).eq(of_year(year - 1 + CYCLE_YEARS, CYCLE)) {
        year -= 1;
    }
    year
}

/// Whether some change of the cycle lies within two weeks of a New Year.
fn changes_at_new_year(changes: &[(i64, i64)]) -> bool {
    changes.iter().filter(|change| change.0 >= CYCLE_FROM).any(|change| {
        let day = change.0.div_euclid(DAY);
        let year = civil::date_of(day).year;
        day - civil::new_year(year) < 14 || civil::new_year(year + 1) - day <= 14
    })
}
