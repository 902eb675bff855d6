//! Years in which every matching label is missing.
//!
//! "02:30 on the second Sunday of March", skipped when missing, never fires in Los Angeles. The
//! plain search would find that out year by year up to 9999. But under rules that repeat with
//! the calendar, what a year shows depends only on its weekdays and on the leap years beside it:
//! 28 kinds of years, and one look at each is enough.

use super::calendar::Calendar;
use crate::{
    civil::{self, CYCLE_YEARS, DAY, index},
    zone::Table,
};

/// By place in the cycle, the kind of a year: weekday of 1 January, and leap years around.
static KINDS: [u8; index(CYCLE_YEARS)] = kinds();

const fn kinds() -> [u8; index(CYCLE_YEARS)] {
    let mut kinds = [0; index(CYCLE_YEARS)];
    let mut year = 0;
    while year < CYCLE_YEARS {
        let leap = match (civil::is_leap(year - 1), civil::is_leap(year), civil::is_leap(year + 1))
        {
            (false, false, false) => 0,
            (true, false | true, false | true) => 1,
            (false, true, false | true) => 2,
            (false, false, true) => 3,
        };
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a weekday is from 0 to 6"
        )]
        let weekday = civil::weekday(civil::new_year(year)) as u8;
        kinds[index(year)] = weekday * 4 + leap;
        year += 1;
    }
    kinds
}

/// The first selected year from `year` on in which some matching label is shown.
///
/// The rules must repeat from `year` on. A count from a date is not looked into: a year may be
/// called fertile although the count leaves out what it shows.
pub(super) fn next_fertile(calendar: &Calendar, table: &Table, year: i64) -> Option<i64> {
    let mut known = 0_u32;
    let mut fertile = 0_u32;
    let mut next = calendar.years().at_or_after(year)?;
    loop {
        let kind = KINDS[index(next.rem_euclid(CYCLE_YEARS))];
        if known >> kind & 1 == 0 {
            known |= 1 << kind;
            fertile |= u32::from(shows_match(calendar, table, next)) << kind;
        }
        if fertile >> kind & 1 == 1 {
            return Some(next);
        }
        next = calendar.years().at_or_after(next + 1)?;
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
