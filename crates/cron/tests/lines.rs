//! Random crontab lines in random zones, compared with an oracle that walks every second.
//!
//! A line is made from a structure, and the oracle knows the structure, not the text.

#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

mod support;

use jiff::civil::DateTime;
use sterna_cron::{Database, Line, Time};
use support::{
    Random, oracle,
    oracle::{Fold, Gap},
    world::{moment, rounds, zone},
};

/// A part of a field: how it is written, and which values it means.
struct Part {
    text: String,
    values: Vec<i64>,
}

/// A field of numbers.
fn numbers(random: &mut Random, min: i64, max: i64) -> Part {
    let (low, high) = (random.between(min, max), random.between(min, max));
    let step = random.between(1, 9);
    let stepped = |from: i64, to: i64| -> Vec<i64> {
        (from..=to).filter(|value| (value - from) % step == 0).collect()
    };
    match random.below(7) {
        0 => Part { text: "*".to_owned(), values: (min..=max).collect() },
        1 => Part { text: format!("*/{step}"), values: stepped(min, max) },
        2 => Part { text: low.to_string(), values: vec![low] },
        3 => Part { text: format!("{low},{high}"), values: vec![low, high] },
        4 if low <= high => {
            Part { text: format!("{low}-{high}/{step}"), values: stepped(low, high) }
        }
        5 if low > high => {
            Part { text: format!("{low}-{high}"), values: (low..=max).chain(min..=high).collect() }
        }
        _ => Part { text: format!("{low}/{step}"), values: stepped(low, max) },
    }
}

/// The same values, one by one.
fn listed(part: Part) -> Part {
    let values: Vec<String> = part.values.iter().map(i64::to_string).collect();
    Part { text: values.join(","), values: part.values }
}

/// Which dates a day field means.
enum Days {
    Values(Vec<i64>),
    BeforeLast(i64),
    Nearest(i64),
    LastWeekday(i64),
    NthWeekday(i64, i64),
}

fn month_days(random: &mut Random) -> (String, Days) {
    let day = random.between(1, 31);
    match random.below(8) {
        0 => ("L".to_owned(), Days::BeforeLast(0)),
        1 => (format!("L-{}", day.min(30)), Days::BeforeLast(day.min(30))),
        2 => (format!("{day}W"), Days::Nearest(day)),
        3 | 4 => {
            let part = numbers(random, 1, 31);
            (part.text, Days::Values(part.values))
        }
        _ => ("*".to_owned(), Days::Values((1..=31).collect())),
    }
}

fn week_days(random: &mut Random) -> (String, Days) {
    let day = random.between(0, 7);
    let nth = random.between(1, 5);
    match random.below(8) {
        0 => (format!("{day}L"), Days::LastWeekday(day % 7)),
        1 => (format!("{day}#{nth}"), Days::NthWeekday(day % 7, nth)),
        2 | 3 => {
            let part = numbers(random, 0, 6);
            (part.text, Days::Values(part.values))
        }
        _ => ("?".to_owned(), Days::Values((0..=6).collect())),
    }
}

fn is_weekday(at: DateTime) -> bool {
    (1..=5).contains(&at.weekday().to_sunday_zero_offset())
}

impl Days {
    /// `number` is the day of the month or of the week, by the field that this is.
    fn holds(&self, at: DateTime, number: i64) -> bool {
        let (day, length) = (i64::from(at.day()), i64::from(at.days_in_month()));
        match self {
            Self::Values(values) => values.contains(&number),
            Self::BeforeLast(back) => day == length - back,
            Self::Nearest(wanted) => {
                let near = [0, -1, 1, -2, 2].map(|step| wanted + step);
                let exists = |day: &i64| (1..=length).contains(day);
                let is_weekday = |day: &i64| {
                    is_weekday(at.with().day(i8::try_from(*day).unwrap()).build().unwrap())
                };
                *wanted <= length && near.into_iter().filter(exists).find(is_weekday) == Some(day)
            }
            Self::LastWeekday(weekday) => number == *weekday && day + 7 > length,
            Self::NthWeekday(weekday, nth) => number == *weekday && (day + 6) / 7 == *nth,
        }
    }
}

#[test]
fn lines_fire_as_a_walk_over_every_second_finds() {
    let mut random = Random(64);
    let database = Database::bundled();
    let names = database.names();
    let mut fired = 0;
    for _ in 0..rounds(120, 4_000) {
        let minutes = numbers(&mut random, 0, 59);
        // Half of them in the small hours, where clocks are moved.
        let hours = match random.one_in(2) {
            true => listed(numbers(&mut random, 0, 4)),
            false => numbers(&mut random, 0, 23),
        };
        let (days, month_days) = month_days(&mut random);
        let months = if random.one_in(5) { Some(numbers(&mut random, 1, 12)) } else { None };
        let (weekdays, week_days) = week_days(&mut random);
        let month_text = months.as_ref().map_or("*", |months| &months.text);
        let text = format!("{} {} {days} {month_text} {weekdays}", minutes.text, hours.text);
        let line: Line = text.parse().unwrap_or_else(|error| panic!("{text}: {error}"));

        let either = !days.starts_with(['*', '?']) && !weekdays.starts_with(['*', '?']);
        let matches = |label: i64| {
            if label.rem_euclid(60) != 0 {
                return false;
            }
            let at = oracle::civil(label);
            let by_month = month_days.holds(at, at.day().into());
            let by_week = week_days.holds(at, at.weekday().to_sunday_zero_offset().into());
            minutes.values.contains(&at.minute().into())
                && hours.values.contains(&at.hour().into())
                && months.as_ref().is_none_or(|months| months.values.contains(&at.month().into()))
                && if either { by_month || by_week } else { by_month && by_week }
        };
        let is_real_time = minutes.text.starts_with('*') || hours.text.starts_with('*');
        let (gap, fold) =
            if is_real_time { (Gap::Skip, Fold::Both) } else { (Gap::SecondAfter, Fold::First) };
        let (zone, rules) = zone(&mut random, &database, &names);
        let from = moment(&mut random, &rules);
        let until = from + 100_000;
        let expected = oracle::walk(matches, gap, fold, &rules, from..until);
        fired += expected.len();
        let found: Vec<i64> = line
            .pattern()
            .firings(&zone, Time::from_epoch(from))
            .map(Time::epoch)
            .take_while(|epoch| *epoch < until)
            .collect();
        assert_eq!(found, expected, "{text} in {} from {from}", zone.name());
    }
    assert!(fired > 500, "only {fired} firings were compared");
}
