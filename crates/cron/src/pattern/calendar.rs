//! Labels that match: the calendar side of the search, which knows no zone.

use super::{
    every::{Every, Unit},
    kinds::YEARS_OF_KIND,
    rule::{DayRule, SHAPES},
    years::Years,
};
use crate::{
    civil::{self, DAY, index},
    zone::FAR,
};

/// What a calendar pattern says, field by field; every selection is a set of bits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fields {
    pub(crate) seconds: u64,
    pub(crate) minutes: u64,
    pub(crate) hours: u32,
    /// From bit 1 for January.
    pub(crate) months: u16,
    pub(crate) days: DayRule,
    pub(crate) years: Option<Box<Years>>,
    pub(crate) every: Option<Every>,
}

/// The same, compiled for the search.
#[derive(Clone, Debug)]
pub(crate) struct Calendar {
    fields: Fields,
    /// The months in which some day may match, from bit 1 for January.
    months: u16,
    /// By shape of month, the days that match.
    shapes: [u32; SHAPES],
    /// Years with at least one matching day, so that no search goes through a barren one.
    years: Years,
    /// First and last matching second of a day.
    first: i64,
    last: i64,
}

impl Calendar {
    /// Compiles; when no date can ever match, [`Calendar::never_matches`] says so.
    pub(crate) fn new(fields: Fields) -> Self {
        let shapes = fields.days.shapes();
        let years = fields.years.as_deref().cloned().unwrap_or_else(Years::all);
        let (first, last) = (first_second(&fields), last_second(&fields));
        let months = fields.months & possible_months(&shapes) & counted_months(&fields);
        let mut calendar = Self { fields, months, shapes, years, first, last };
        calendar.drop_barren_years();
        calendar
    }

    pub(crate) const fn fields(&self) -> &Fields {
        &self.fields
    }

    /// Whether no date from 1969 to 9999 matches.
    pub(crate) fn never_matches(&self) -> bool {
        self.years.at_or_after(civil::YEAR_MIN).is_none()
    }

    /// The years in which some date matches.
    pub(crate) const fn years(&self) -> &Years {
        &self.years
    }

    /// Whether selected years of one kind have the same matching days, while a count goes on.
    pub(crate) const fn is_alike_by_kind(&self) -> bool {
        match self.fields.every {
            None => true,
            // In each year that the count meets it meets the same months.
            Some(Every { unit: Unit::Months, period, .. }) => {
                12 % period == 0 || self.months.count_ones() <= 1
            }
            Some(Every { unit: Unit::Days | Unit::Weeks, .. }) => false,
        }
    }

    /// The least matching label that is `label` or later; [`FAR`] when there is none.
    #[inline]
    pub(crate) fn at_or_after(&self, label: i64) -> i64 {
        let (day, second) = civil::split(label);
        // When the last moment of today has passed, today need not be looked at.
        let from = if second > self.last { day + 1 } else { day };
        match self.day_at_or_after(from) {
            Some(found) if found == day => day * DAY + self.second_at_or_after(second),
            Some(found) => found * DAY + self.first,
            None => FAR,
        }
    }

    /// The least matching label of `year` from `label` on, whether or not the year is selected.
    /// The count from a date is left out unless given.
    pub(crate) fn within_year(&self, year: i64, label: i64, every: Option<&Every>) -> Option<i64> {
        let (day, second) = civil::split(label);
        let date = civil::date_of(if second > self.last { day + 1 } else { day });
        if date.year != year {
            return None;
        }
        let found = self.day_within(year, date.month, date.day, every)?;
        let at = if found == day { self.second_at_or_after(second) } else { self.first };
        Some(found * DAY + at)
    }

    #[inline]
    fn day_at_or_after(&self, day: i64) -> Option<i64> {
        let date = civil::date_of(day);
        let every = self.fields.every.as_ref();
        if self.years.contains(date.year) {
            // Mostly the month at hand answers, and then the year need not be laid out.
            if self.months >> date.month & 1 == 1 {
                let first = day - date.day + 1;
                let length = civil::month_length(date.year, date.month);
                let mask = self.mask(date.year, date.month, first, length, every);
                let mask = mask & u32::MAX << date.day;
                if mask != 0 {
                    return Some(first + i64::from(mask.trailing_zeros()) - 1);
                }
            }
            if let Some(found) = self.day_within(date.year, date.month + 1, 1, every) {
                return Some(found);
            }
        }
        let year = self.years.at_or_after(date.year + 1)?;
        self.day_within(year, 1, 1, every)
    }

    /// The matching days of a month, day `n` as bit `n`; `first` is the day of the first.
    #[inline]
    fn mask(&self, year: i64, month: i64, first: i64, length: i64, every: Option<&Every>) -> u32 {
        let mask = self.shapes[index(civil::weekday(first) * 4 + length - 28)];
        match every {
            None => mask,
            Some(every) => mask & every.mask(year, month, first, length),
        }
    }

    /// The least matching day of a year from a date on: twelve months at most are looked at.
    /// Month 13 is after the year.
    #[inline]
    fn day_within(&self, year: i64, month: i64, day: i64, every: Option<&Every>) -> Option<i64> {
        let new_year = civil::new_year(year);
        let before = civil::months_of(year);
        let mut floor = u32::MAX << day;
        let mut months = self.months & (u16::MAX << month);
        while months != 0 {
            let at = i64::from(months.trailing_zeros());
            if at != month {
                floor = u32::MAX;
            }
            let first = new_year + before[index(at - 1)];
            let length = before[index(at)] - before[index(at - 1)];
            let mask = self.mask(year, at, first, length, every) & floor;
            if mask != 0 {
                return Some(first + i64::from(mask.trailing_zeros()) - 1);
            }
            months &= months - 1;
        }
        None
    }

    /// The least matching second of a day from `second` on; there must be one.
    #[inline]
    fn second_at_or_after(&self, second: i64) -> i64 {
        let minutes = civil::narrow(second) / 60;
        let (hour, minute) = (minutes / 60, minutes % 60);
        let within = second - i64::from(minutes) * 60;
        let fields = &self.fields;
        if fields.hours >> hour & 1 == 1 {
            if fields.minutes >> minute & 1 == 1 {
                let left = fields.seconds & (u64::MAX << within);
                if left != 0 {
                    return second - within + low(left);
                }
            }
            let left = fields.minutes & (u64::MAX << minute << 1);
            if left != 0 {
                return i64::from(hour) * 3600 + low(left) * 60 + low(fields.seconds);
            }
        }
        let later = low(u64::from(fields.hours & (u32::MAX << hour << 1)));
        later * 3600 + self.first % 3600
    }

    /// Takes out the years in which no day matches.
    fn drop_barren_years(&mut self) {
        let Some(every) = self.fields.every else {
            // Without a count from a date all years of one kind agree.
            for kind in &YEARS_OF_KIND {
                let sample = self.years.at_or_after_within(civil::YEAR_MIN, kind);
                if sample.is_some_and(|year| self.day_within(year, 1, 1, None).is_none()) {
                    self.years.remove_all(kind);
                }
            }
            return;
        };
        let mut next = civil::YEAR_MIN;
        while let Some(year) = self.years.at_or_after(next) {
            if !every.touches(year) || self.day_within(year, 1, 1, Some(&every)).is_none() {
                self.years.remove(year);
            }
            next = year + 1;
        }
    }
}

#[inline]
fn low(mask: u64) -> i64 {
    i64::from(mask.trailing_zeros())
}

/// The months that are ever long enough to have a matching day.
fn possible_months(shapes: &[u32; SHAPES]) -> u16 {
    let has_days = |length: i64| (0..7).any(|first| shapes[index(first * 4 + length - 28)] != 0);
    (1..=12)
        .filter(|month| {
            has_days(civil::month_length(2000, *month))
                || has_days(civil::month_length(2001, *month))
        })
        .fold(0, |months, month| months | 1 << month)
}

/// The months that a count from a date ever comes to.
fn counted_months(fields: &Fields) -> u16 {
    let Some(Every { unit: Unit::Months, period, start, .. }) = fields.every else {
        return u16::MAX;
    };
    (1..=12)
        // Whole years apart, or so many months that some multiple of the period is.
        .filter(|month| (1..=12).any(|times| (month - start.month - times * period) % 12 == 0))
        .fold(0, |months, month| months | 1 << month)
}

fn first_second(fields: &Fields) -> i64 {
    low(fields.hours.into()) * 3600 + low(fields.minutes) * 60 + low(fields.seconds)
}

fn last_second(fields: &Fields) -> i64 {
    let high = |mask: u64| 63 - i64::from(mask.leading_zeros());
    high(fields.hours.into()) * 3600 + high(fields.minutes) * 60 + high(fields.seconds)
}
