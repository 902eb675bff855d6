//! Years in which every matching label is missing.
//!
//! "02:30 on the second Sunday of March", skipped when missing, never fires in Los Angeles. The
//! plain search would find that out year by year up to 9999. But under rules that repeat with
//! the calendar, what a year shows depends only on its weekdays and on the leap years beside it:
//! 28 kinds of years, and one look at each is enough.

use super::calendar::Calendar;
use crate::{
    civil::{self, DAY, YEAR_MIN, index},
    zone::Table,
};

/// Kinds of years: by the weekday of 1 January, and by the leap years at hand.
const KINDS: usize = 28;
/// Words of 64 years after which both the words and the calendar begin anew: 1600 years.
const ROUND: usize = 25;

/// For each kind its years, laid out as [`Years`](super::years::Years) has them.
static YEARS_OF_KIND: [[u64; ROUND]; KINDS] = years_of_kind();

const fn kind(year: i64) -> usize {
    let leap = match (civil::is_leap(year - 1), civil::is_leap(year), civil::is_leap(year + 1)) {
        (false, false, false) => 0,
        (true, false | true, false | true) => 1,
        (false, true, false | true) => 2,
        (false, false, true) => 3,
    };
    index(civil::weekday(civil::new_year(year)) * 4 + leap)
}

const fn years_of_kind() -> [[u64; ROUND]; KINDS] {
    let mut words = [[0; ROUND]; KINDS];
    let mut at = 0;
    while at < ROUND * 64 {
        words[kind(YEAR_MIN + at as i64)][at / 64] |= 1 << (at % 64);
        at += 1;
    }
    words
}

/// The first selected year from `year` on in which some matching label is shown.
///
/// The rules must repeat from `year` on. A count from a date is not looked into: a year may be
/// called fertile although the count leaves out what it shows.
pub(super) fn next_fertile(calendar: &Calendar, table: &Table, year: i64) -> Option<i64> {
    // The years of kinds that are not known to be barren.
    let mut hopeful = [u64::MAX; ROUND];
    let mut next = year;
    loop {
        next = calendar.years().at_or_after_within(next, &hopeful)?;
        if shows_match(calendar, table, next) {
            return Some(next);
        }
        for (word, barren) in hopeful.iter_mut().zip(YEARS_OF_KIND[kind(next)]) {
            *word &= !barren;
        }
    }
}

/// Whether some matching label of a year is shown by the clock.
fn shows_match(calendar: &Calendar, table: &Table, year: i64) -> bool {
    let mut label = civil::new_year(year) * DAY;
    while let Some(found) = calendar.within_year(year, label) {
        let mut is_shown = false;
        table.instants(found, |_| is_shown = true);
        if is_shown {
            return true;
        }
        label = table.end_of_gap(found);
    }
    false
}
