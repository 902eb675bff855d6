//! Days and dates of the proleptic Gregorian calendar.
//!
//! Years are counted from March here, so that the leap day is the last of its year and the months
//! before it have lengths that do not depend on the year (30.6 days on average, rounded).

/// Days in 400 years, after which the calendar repeats.
const DAYS_IN_ERA: i64 = 146_097;
/// From the first of March of year 0 to the first of January 1970.
const DAYS_TO_1970: i64 = 719_468;

/// The number of a day, where 0 is the first of January 1970.
pub(super) const fn days_from_date(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let month_from_march = (month + 9) % 12;
    let day_of_year = (153 * month_from_march + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * DAYS_IN_ERA + day_of_era - DAYS_TO_1970
}

/// The year, month and day of a day's number.
pub(super) const fn date_from_days(days: i64) -> (i64, i64, i64) {
    let days = days + DAYS_TO_1970;
    let era = days.div_euclid(DAYS_IN_ERA);
    let day_of_era = days.rem_euclid(DAYS_IN_ERA);
    // Takes out the leap days, of which one is added every 4 years, one dropped every 100 years,
    // and one added at the end of the era.
    let leap_days = day_of_era / 1460 - day_of_era / 36_524 + day_of_era / 146_096;
    let year_of_era = (day_of_era - leap_days) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = (month_from_march + 2) % 12 + 1;
    let year = era * 400 + year_of_era;
    (if month <= 2 { year + 1 } else { year }, month, day)
}

/// How many days a month has.
pub(super) const fn days_in_month(year: i64, month: i64) -> i64 {
    let (next_year, next_month) = if month == 12 { (year + 1, 1) } else { (year, month + 1) };
    days_from_date(next_year, next_month, 1) - days_from_date(year, month, 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_day_of_ten_thousand_years_is_where_counting_puts_it() {
        let is_leap = |year| year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
        let mut days = -719_162;
        for year in 1..=9999 {
            let february = if is_leap(year) { 29 } else { 28 };
            let lengths = [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
            for (month, length) in (1..).zip(lengths) {
                assert_eq!(days_in_month(year, month), length);
                for day in 1..=length {
                    assert_eq!(date_from_days(days), (year, month, day));
                    assert_eq!(days_from_date(year, month, day), days);
                    days += 1;
                }
            }
        }
        assert_eq!(date_from_days(0), (1970, 1, 1));
    }
}
