//! Calendar arithmetic on plain integers, Gregorian rules without end in both directions.
//!
//! A *day* is the count of days since 1970-01-01; a *label* is what a local clock shows, as
//! seconds since 1970-01-01T00:00:00 on that clock. Neither knows a zone.

/// Seconds in a day of labels.
pub(crate) const DAY: i64 = 86_400;
/// The first year that a pattern may name: 1969 is what the epoch looks like west of Greenwich.
pub(crate) const YEAR_MIN: i64 = 1969;
/// The last year that a pattern may name.
pub(crate) const YEAR_MAX: i64 = 9999;
/// The Gregorian calendar, weekdays included, repeats after this many years,
pub(crate) const CYCLE_YEARS: i64 = 400;
/// which are this many seconds.
pub(crate) const CYCLE: i64 = 146_097 * DAY;

/// Days before each month, then the length of the year; by leap year.
const BEFORE_MONTH: [[i64; 13]; 2] = [
    [0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334, 365],
    [0, 31, 60, 91, 121, 152, 182, 213, 244, 274, 305, 335, 366],
];

/// A date as people write it: month from 1, day from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Date {
    pub(crate) year: i64,
    pub(crate) month: i64,
    pub(crate) day: i64,
}

/// Narrows a number that is known not to be negative, for use as an index.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "only small counts that cannot be negative are given to it"
)]
#[inline]
pub(crate) const fn index(number: i64) -> usize {
    number as usize
}

/// Whether February has 29 days.
#[inline]
pub(crate) const fn is_leap(year: i64) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

/// The day of 1 January.
#[inline]
pub(crate) const fn new_year(year: i64) -> i64 {
    let last = year - 1;
    // 477 leap days had passed by the end of 1969.
    365 * (year - 1970) + last.div_euclid(4) - last.div_euclid(100) + last.div_euclid(400) - 477
}

/// Days before each month of a year.
#[inline]
pub(crate) const fn months_of(year: i64) -> &'static [i64; 13] {
    &BEFORE_MONTH[is_leap(year) as usize]
}

/// The day of a date; the date must exist.
pub(crate) const fn day_of(date: Date) -> i64 {
    new_year(date.year) + months_of(date.year)[index(date.month - 1)] + date.day - 1
}

/// The number of days of a month.
#[inline]
pub(crate) const fn month_length(year: i64, month: i64) -> i64 {
    let before = months_of(year);
    before[index(month)] - before[index(month - 1)]
}

/// The date of a day, by the usual reckoning of years from 1 March: the leap day comes last, so
/// that months have lengths which a line through the origin describes. The day must lie in the
/// years 0 to 10,000 or near them: half-width numbers divide twice as fast.
#[inline]
pub(crate) const fn date_of(day: i64) -> Date {
    let shifted = narrow(day + 719_468);
    let era = shifted / 146_097;
    let of_era = shifted - era * 146_097;
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * from_march + 2) / 5 + 1;
    let is_next_year = from_march >= 10;
    let month = if is_next_year { from_march - 9 } else { from_march + 3 };
    let year = year_of_era + era * 400 + is_next_year as u32;
    Date { year: year as i64, month: month as i64, day: day as i64 }
}

/// The day of a label, and the second of that day. The label must lie in the years 0 to 10,000
/// or near them.
#[inline]
pub(crate) const fn split(label: i64) -> (i64, i64) {
    const BASE: i64 = new_year(1600);
    #[expect(clippy::cast_sign_loss, reason = "labels lie after the year 1600")]
    let since = (label - BASE * DAY) as u64;
    let day = (since / 86_400).cast_signed();
    (day + BASE, since.cast_signed() - day * DAY)
}

/// Narrows a number that is known to be a small count.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "only small counts that cannot be negative are given to it"
)]
#[inline]
pub(crate) const fn narrow(number: i64) -> u32 {
    number as u32
}

/// The weekday of a day, from 0 for Sunday.
#[inline]
pub(crate) const fn weekday(day: i64) -> i64 {
    // 1970 began on a Thursday; 719,467 more days are whole weeks, and no day in use is earlier.
    (narrow(day + 719_471) % 7) as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_and_dates_agree_over_all_years() {
        let mut date = Date { year: 1969, month: 1, day: 1 };
        for day in new_year(1969)..new_year(10_000) {
            assert_eq!(date_of(day), date);
            assert_eq!(day_of(date), day);
            date.day += 1;
            if date.day > month_length(date.year, date.month) {
                date.day = 1;
                date.month += 1;
            }
            if date.month > 12 {
                date.month = 1;
                date.year += 1;
            }
        }
        assert_eq!(date, Date { year: 10_000, month: 1, day: 1 });
    }

    #[test]
    fn known_weekdays() {
        assert_eq!(weekday(0), 4, "1970-01-01 was a Thursday");
        assert_eq!(weekday(-1), 3);
        assert_eq!(weekday(day_of(Date { year: 2024, month: 2, day: 29 })), 4);
    }

    #[test]
    fn a_cycle_is_whole_weeks() {
        assert_eq!((CYCLE / DAY) % 7, 0);
        assert_eq!(new_year(1970 + CYCLE_YEARS) * DAY, CYCLE);
    }
}
