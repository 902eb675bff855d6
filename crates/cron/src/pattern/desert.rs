//! Years in which every matching label is missing.
//!
//! "02:30 on the second Sunday of March", skipped when missing, never fires in Los Angeles. The
//! plain search would find that out year by year up to 9999. But under rules that repeat with
//! the calendar, what a year shows depends only on its kind, and one look at each kind is enough.

use super::{
    calendar::Calendar,
    kinds::{ROUND, YEARS_OF_KIND, is_alike, kind},
};
use crate::{
    civil::{self, DAY},
    zone::Table,
};

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
        let barren = kind(next);
        for (other, years) in YEARS_OF_KIND.iter().enumerate() {
            // What lies beside a year matters only to changes that may reach over.
            if other == barren || (!table.changes_at_new_year() && is_alike(other, barren)) {
                hopeful.iter_mut().zip(years).for_each(|(word, years)| *word &= !years);
            }
        }
    }
}

/// Whether some matching label of a year is shown by the clock.
fn shows_match(calendar: &Calendar, table: &Table, year: i64) -> bool {
    let mut label = civil::new_year(year) * DAY;
    while let Some(found) = calendar.within_year(year, label) {
        match table.missing_until(found) {
            Some(end) => label = end,
            None => return true,
        }
    }
    false
}
