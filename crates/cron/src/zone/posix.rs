//! POSIX rules such as `EST5EDT,M3.2.0,M11.1.0`, as changes of offset year by year.
//!
//! Their dates may lie anywhere, and their times up to a week before or after the date: a change
//! may fall into the year beside its own. So changes are computed for all years and then put in
//! order, not sought within a year.

use super::table::ORIGIN;
use crate::civil::{self, DAY, index};

/// Beyond the cycle that the table keeps, with room for changes that reach over.
const YEARS: std::ops::Range<i64> = 1966..2504;

/// The changes of offset that a rule means, the first at the origin of the table; none when the
/// text is no rule.
pub(super) fn changes(text: &str) -> Option<Vec<(i64, i64)>> {
    let mut rest = Rest(text.as_bytes());
    rest.name()?;
    // POSIX counts offsets westward.
    let standard = -rest.span(24)?;
    if rest.0.is_empty() {
        return Some(vec![(ORIGIN, standard)]);
    }
    rest.name()?;
    let summer = match rest.0.first()? {
        b',' => standard + 3600,
        _ => -rest.span(24)?,
    };
    let begins = rest.date()?;
    let ends = rest.date()?;
    if !rest.0.is_empty() {
        return None;
    }
    let mut all: Vec<(i64, i64)> = YEARS
        .flat_map(|year| {
            // Each date is told by the clock that is about to be changed.
            [(begins.label(year) - standard, summer), (ends.label(year) - summer, standard)]
        })
        .collect();
    // Stable: where summer time ends and begins in one instant, as for one without end, it stays.
    all.sort_by_key(|change| change.0);
    let mut changes: Vec<(i64, i64)> = Vec::with_capacity(all.len());
    for (at, offset) in all {
        match changes.last_mut() {
            Some(last) if at <= ORIGIN || last.0 == at => *last = (at, offset),
            Some(_) | None => changes.push((at, offset)),
        }
    }
    // The last year has no successor to go on where it ends.
    changes.retain(|change| change.0 < civil::new_year(YEARS.end - 1) * DAY);
    changes.dedup_by_key(|change| change.1);
    changes[0].0 = ORIGIN;
    Some(changes)
}

/// The day of a change, and its time of day in seconds.
#[derive(Clone, Copy, Debug)]
struct Moment {
    day: Day,
    time: i64,
}

#[derive(Clone, Copy, Debug)]
enum Day {
    /// `J60`: 29 February is not counted, so this is always 1 March.
    WithoutLeap(i64),
    /// `59`: from 0, and 29 February is counted.
    WithLeap(i64),
    /// `M3.2.0`: month, which of its weekdays (5 is the last), weekday.
    Weekday(i64, i64, i64),
}

impl Moment {
    /// What the clock shows at the change of a year.
    const fn label(self, year: i64) -> i64 {
        let day = match self.day {
            Day::WithoutLeap(day) => {
                let leap = if civil::is_leap(year) && day >= 60 { 1 } else { 0 };
                civil::new_year(year) + day - 1 + leap
            }
            Day::WithLeap(day) => civil::new_year(year) + day,
            Day::Weekday(month, nth, weekday) => {
                let first = civil::new_year(year) + civil::months_of(year)[index(month - 1)];
                let ahead = (weekday - civil::weekday(first)).rem_euclid(7);
                let day = ahead + (nth - 1) * 7;
                let is_over = day >= civil::month_length(year, month);
                first + if is_over { day - 7 } else { day }
            }
        };
        day * DAY + self.time
    }
}

/// What is left to be read.
struct Rest<'a>(&'a [u8]);

impl Rest<'_> {
    fn take(&mut self, byte: u8) -> Option<()> {
        self.0 = self.0.strip_prefix(&[byte])?;
        Some(())
    }

    /// Three letters or more, or anything between angle brackets.
    fn name(&mut self) -> Option<()> {
        let length = match self.0.first()? {
            b'<' => self.0.iter().position(|byte| *byte == b'>')? + 1,
            _ => self.0.iter().take_while(|byte| byte.is_ascii_alphabetic()).count(),
        };
        let is_enough = length >= 3;
        self.0 = &self.0[length..];
        is_enough.then_some(())
    }

    /// Digits as a number; at most three of them are of use.
    fn number(&mut self, max: i64) -> Option<i64> {
        let length = self.0.iter().take_while(|byte| byte.is_ascii_digit()).count();
        if !(1..=3).contains(&length) {
            return None;
        }
        let (digits, rest) = self.0.split_at(length);
        self.0 = rest;
        let number = digits.iter().fold(0, |sum, digit| sum * 10 + i64::from(digit - b'0'));
        (number <= max).then_some(number)
    }

    /// `[+-]hh[:mm[:ss]]` in seconds.
    fn span(&mut self, hours_max: i64) -> Option<i64> {
        let sign = match self.0.first()? {
            b'-' => -1,
            _ => 1,
        };
        if matches!(self.0.first(), Some(b'-' | b'+')) {
            self.0 = &self.0[1..];
        }
        let mut seconds = self.number(hours_max)? * 3600;
        for unit in [60, 1] {
            if self.take(b':').is_none() {
                break;
            }
            seconds += self.number(59)? * unit;
        }
        Some(sign * seconds)
    }

    /// `,date[/time]`; at 02:00 unless a time is given.
    fn date(&mut self) -> Option<Moment> {
        self.take(b',')?;
        let day = match self.0.first()? {
            b'J' => {
                self.take(b'J')?;
                Day::WithoutLeap(self.number(365).filter(|day| *day >= 1)?)
            }
            b'M' => {
                self.take(b'M')?;
                let month = self.number(12).filter(|month| *month >= 1)?;
                self.take(b'.')?;
                let nth = self.number(5).filter(|nth| *nth >= 1)?;
                self.take(b'.')?;
                Day::Weekday(month, nth, self.number(6)?)
            }
            _ => Day::WithLeap(self.number(365)?),
        };
        let time = match self.take(b'/') {
            Some(()) => self.span(167)?,
            None => 2 * 3600,
        };
        Some(Moment { day, time })
    }
}

#[cfg(test)]
mod tests {
    use jiff::{Timestamp, tz::TimeZone};

    use super::*;

    fn offset_at(changes: &[(i64, i64)], instant: i64) -> i64 {
        changes[changes.partition_point(|change| change.0 <= instant) - 1].1
    }

    #[test]
    fn ordinary_rules_agree_with_jiff() {
        for text in [
            "PST8PDT,M3.2.0,M11.1.0",
            "EST+5EDT+4,M3.2.0,M11.1.0",
            "<+1030>-10:30<+11>-11,M10.1.0,M4.1.0",
            "IST-1GMT0,M10.5.0,M3.5.0/1",
            "<-02>2<-01>,M3.5.0/-1,M10.5.0/0",
            "EET-2EEST,M4.5.5/0,M10.5.4/24",
            "AAA3BBB,J60/3:15:20,300/1",
            "MST-07",
            "<+0330>-3:30",
        ] {
            let rules = TimeZone::posix(text).unwrap();
            let changes = changes(text).unwrap();
            for step in 0..40_000 {
                let instant = ORIGIN + step * 412_345;
                let expected = rules.to_offset(Timestamp::from_second(instant).unwrap()).seconds();
                assert_eq!(
                    offset_at(&changes, instant),
                    i64::from(expected),
                    "{text} at {instant}"
                );
            }
        }
    }

    #[test]
    fn a_change_may_fall_into_the_next_year() {
        // 20:00 on 31 December in UTC-5 is 01:00 on 1 January in UTC.
        let changes = changes("AAA5BBB4,J365/20,J60").unwrap();
        let new_year = civil::new_year(2030) * DAY;
        assert_eq!(offset_at(&changes, new_year + 3599), -5 * 3600);
        assert_eq!(offset_at(&changes, new_year + 3600), -4 * 3600);
    }

    #[test]
    fn summer_time_without_end_has_no_changes() {
        assert_eq!(changes("XXX3YYY2,0/0,J365/25").unwrap(), [(ORIGIN, -2 * 3600)]);
    }

    #[test]
    fn what_is_no_rule_is_refused() {
        for text in [
            "",
            "A",
            "AB3",
            "AAA",
            "AAA25",
            "AAA3:60",
            "AAA3BBB",
            "AAA3BBB,J0,J1",
            "AAA3BBB,J366,J1",
            "AAA3BBB,M13.1.0,M1.1.0",
            "AAA3BBB,M1.6.0,M1.1.0",
            "AAA3BBB,M1.1.7,M1.1.0",
            "AAA3BBB,J1/168,J2",
            "AAA3BBB,J1",
            "AAA3BBB,J1,J2,",
            "<AAA3",
            "AAA3BBB,J1,J2 ",
            "\u{e9}\u{e9}\u{e9}3",
        ] {
            assert_eq!(changes(text), None, "{text}");
        }
    }
}
