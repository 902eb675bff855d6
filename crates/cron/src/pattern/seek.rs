//! The next firing of a calendar pattern in a zone.
//!
//! Ordinarily one stretch of constant offset answers: the label of the start is looked up, the
//! next matching label found, and it lies in the same stretch. Otherwise the stretches ahead are
//! walked in order of time, jumping over those that cannot hold the label found.
//!
//! Invariant: `Walk::found` is the least matching label that is `Walk::low` or later and not in
//! `Walk::barren`, whose labels are all known to be missing.

use std::ops::Range;

use super::{
    calendar::Calendar,
    desert,
    fixes::{DstFixes, Missing, Repeated},
};
use crate::{
    civil,
    zone::{FAR, OFFSET_MAX, ORIGIN, Place, REACH, Record, Table},
};

/// No label of the year 9999 is shown later than this, in any zone.
const LAST: i64 = civil::new_year(10_000) * civil::DAY + OFFSET_MAX;
/// So many labels in a row may fall into gaps before the years ahead are judged wholesale.
const PATIENCE: u32 = 6;

/// A firing, and how it came about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Hit {
    pub(crate) at: i64,
    /// The label that fired; in a gap it is one that the clock never showed.
    pub(crate) label: i64,
    pub(crate) is_in_gap: bool,
}

/// The least firing at or after `from`.
#[inline]
pub(crate) fn next(calendar: &Calendar, fixes: DstFixes, table: &Table, from: i64) -> Option<Hit> {
    let from = from.max(ORIGIN);
    if from > LAST {
        return None;
    }
    let place = table.locate(from);
    let record = table.record(place);
    let starts_here = from == record.start + place.shift;
    if starts_here && fixes.missing == Missing::FirstSecondAfter {
        return after_jump(calendar, fixes, table, from);
    }
    let low = (from + record.offset).max(first_label(record, fixes.repeated) + place.shift);
    let found = calendar.at_or_after(low);
    if found < end_label(record, fixes.repeated) + place.shift {
        return Some(Hit { at: found - record.offset, label: found, is_in_gap: false });
    }
    Walk { calendar, fixes, table, low, found, barren: FAR..FAR }.walk(place, from)
}

/// Starts exactly at a jump, whose own firing may be due now.
#[cold]
fn after_jump(calendar: &Calendar, fixes: DstFixes, table: &Table, from: i64) -> Option<Hit> {
    let mut place = table.first_at_same_start(table.locate(from));
    let mut walk = Walk { calendar, fixes, table, low: FAR, found: FAR, barren: FAR..FAR };
    loop {
        if let Some(hit) = walk.visit(place) {
            return Some(hit);
        }
        match table.after(place) {
            Some(next) if table.record(next).start + next.shift == from => place = next,
            Some(_) | None => return walk.walk(place, from),
        }
    }
}

struct Walk<'a> {
    calendar: &'a Calendar,
    fixes: DstFixes,
    table: &'a Table,
    low: i64,
    found: i64,
    /// Labels of years in which no matching one is shown.
    barren: Range<i64>,
}

impl Walk<'_> {
    /// The first firing in the stretches after `place`.
    fn walk(&mut self, mut place: Place, from: i64) -> Option<Hit> {
        // Up to here a clock set back may show labels below `low`: no stretch may be left out.
        let mut near = from + REACH;
        let mut missed = 0;
        loop {
            place = self.table.after(place)?;
            if self.start(place) > near {
                if self.found >= FAR {
                    return None;
                }
                let jump = self.table.locate(self.found - OFFSET_MAX);
                if self.start(jump) > self.start(place) {
                    place = jump;
                }
            }
            let sought = self.found;
            if let Some(hit) = self.visit(place) {
                return Some(hit);
            }
            if self.found != sought {
                near = near.max(self.start(place) + REACH);
                missed += 1;
                if missed % PATIENCE == 0 && self.fixes.missing == Missing::Skip {
                    self.cross_desert();
                }
            }
        }
    }

    /// The first firing of one stretch, the jump at its start included.
    fn visit(&mut self, place: Place) -> Option<Hit> {
        let record = self.table.record(place);
        let shift = place.shift;
        let jump = match self.fixes.missing {
            Missing::Skip => None,
            Missing::LastSecondBefore => Some(record.start + shift - 1),
            Missing::FirstSecondAfter => Some(record.start + shift),
        };
        if let Some(at) = jump
            && let Some(label) = self.first(record.gap_from + shift, record.gap_until + shift)
        {
            return Some(Hit { at, label, is_in_gap: true });
        }
        let from = first_label(record, self.fixes.repeated) + shift;
        let label = self.first(from, end_label(record, self.fixes.repeated) + shift)?;
        Some(Hit { at: label - record.offset, label, is_in_gap: false })
    }

    /// The least matching label in a span.
    fn first(&mut self, from: i64, until: i64) -> Option<i64> {
        if from >= until {
            return None;
        }
        if from < self.low || from > self.found {
            self.seek(from);
        }
        (self.found < until).then_some(self.found)
    }

    fn seek(&mut self, low: i64) {
        self.low = low;
        self.found = self.calendar.at_or_after(low);
        if self.barren.contains(&self.found) {
            self.found = self.calendar.at_or_after(self.barren.end);
        }
    }

    /// Goes on in the next year that shows a matching label at all.
    fn cross_desert(&mut self) {
        let year = civil::date_of(self.found.min(LAST).div_euclid(civil::DAY)).year;
        if year < self.table.periodic_from() {
            return;
        }
        let end = match desert::next_fertile(self.calendar, self.table, year) {
            Some(fertile) => civil::new_year(fertile) * civil::DAY,
            None => LAST,
        };
        if end > self.found {
            // A clock set back shortly before may still show what lies before that year.
            self.barren = civil::new_year(year) * civil::DAY..end;
            self.seek(self.found);
        }
    }

    fn start(&self, place: Place) -> i64 {
        self.table.record(place).start + place.shift
    }
}

#[inline]
const fn first_label(record: &Record, repeated: Repeated) -> i64 {
    match repeated {
        Repeated::Both | Repeated::OnlyLate => record.from,
        Repeated::OnlyEarly => record.new_from,
    }
}

#[inline]
const fn end_label(record: &Record, repeated: Repeated) -> i64 {
    match repeated {
        Repeated::Both | Repeated::OnlyEarly => record.until,
        Repeated::OnlyLate => record.last_until,
    }
}
