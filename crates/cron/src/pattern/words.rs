//! Patterns in words.

use super::{
    calendar::Fields,
    every::{Every, Unit},
    rule::{DayRule, Join, Numbers, Weekdays, bits},
    years::Years,
};
use crate::{civil::Date, names};

const ORDINALS: [&str; 6] = ["", "first", "second", "third", "fourth", "fifth"];
/// More times of day than this are better said by their rule.
const TIMES_MAX: u32 = 6;

/// The whole pattern: "at 10:00 on Tuesdays".
pub(super) fn describe(fields: &Fields) -> String {
    let mut text = time_of_day(fields);
    let dates = dates(fields);
    if !dates.is_empty() {
        text = format!("{text} {dates}");
    } else if names_times(fields) {
        text.push_str(" every day");
    }
    text
}

impl Fields {
    /// The dates alone, for a message that says there are none.
    pub(crate) fn describe_dates(&self) -> String {
        dates(self)
    }
}

/// Whether the times of day are few enough to be listed.
fn names_times(fields: &Fields) -> bool {
    let times = fields.hours.count_ones() * fields.minutes.count_ones();
    fields.seconds.count_ones() == 1 && times <= TIMES_MAX
}

fn time_of_day(fields: &Fields) -> String {
    if names_times(fields) {
        let second = fields.seconds.trailing_zeros();
        let mut times = Vec::new();
        for hour in bits(fields.hours.into()) {
            for minute in bits(fields.minutes) {
                times.push(match second {
                    0 => format!("{hour:02}:{minute:02}"),
                    second => format!("{hour:02}:{minute:02}:{second:02}"),
                });
            }
        }
        return format!("at {}", join(&times, "and"));
    }
    let mut parts = Vec::new();
    if fields.seconds != 1 {
        parts.push(each(fields.seconds, 60, "second"));
    }
    let says_minutes = fields.minutes != u64::MAX >> 4 || fields.seconds == 1;
    if says_minutes {
        parts.push(each(fields.minutes, 60, "minute"));
    }
    if fields.hours != u32::MAX >> 8 {
        parts.push(each(fields.hours.into(), 24, "hour"));
    }
    parts.join(" of ")
}

/// "every minute", "every 5 minutes", "minutes 3 and 7".
fn each(mask: u64, size: u32, unit: &str) -> String {
    let count = mask.count_ones();
    if count == size {
        return format!("every {unit}");
    }
    let chosen: Vec<usize> = bits(mask).collect();
    if let [first, second, ..] = chosen[..] {
        let step = second - first;
        let is_even = chosen.windows(2).all(|pair| pair[1] - pair[0] == step);
        let reaches_end = chosen[chosen.len() - 1] + step >= size as usize;
        if is_even && step > 1 && count > 2 && first < step && reaches_end {
            let from = if first > 0 { format!(" from {unit} {first}") } else { String::new() };
            return format!("every {step} {unit}s{from}");
        }
    }
    match chosen[..] {
        [only] => format!("{unit} {only}"),
        _ => format!("{unit}s {}", join(&runs(&chosen, |number| number.to_string()), "and")),
    }
}

fn dates(fields: &Fields) -> String {
    let mut parts = Vec::new();
    if let Some(every) = &fields.every {
        parts.push(count(every));
    }
    let days = days(&fields.days);
    if !days.is_empty() {
        parts.push(days);
    }
    if fields.months != 0b1_1111_1111_1110 {
        let months: Vec<usize> = bits(fields.months.into()).collect();
        let months = runs(&months, |month| names::MONTHS[month - 1].to_owned());
        parts.push(format!("in {}", join(&months, "and")));
    }
    if let Some(years) = &fields.years {
        parts.push(format!("in {}", years_in_words(years)));
    }
    parts.join(" ")
}

fn days(rule: &DayRule) -> String {
    let numbers = rule.numbers.map(|numbers| numbers_in_words(&numbers));
    let weekdays = rule.weekdays.map(|weekdays| weekdays_in_words(&weekdays));
    match (numbers, weekdays, rule.join) {
        (None, None, Join::Both | Join::Either) => String::new(),
        (Some(one), None, Join::Both | Join::Either)
        | (None, Some(one), Join::Both | Join::Either) => one,
        (Some(numbers), Some(weekdays), Join::Both) => format!("{numbers} if also {weekdays}"),
        (Some(numbers), Some(weekdays), Join::Either) => format!("{numbers} or {weekdays}"),
    }
}

fn numbers_in_words(numbers: &Numbers) -> String {
    let mut parts = Vec::new();
    let days: Vec<usize> = bits(numbers.days.into()).collect();
    if !days.is_empty() {
        let plural = if days.len() > 1 { "s" } else { "" };
        let days = join(&runs(&days, |day| day.to_string()), "and");
        parts.push(format!("on day{plural} {days} of the month"));
    }
    for back in bits(numbers.before_last.into()) {
        parts.push(format!("on {}", before_last(back)));
    }
    for day in bits(numbers.nearest.into()) {
        parts.push(format!("on the weekday nearest to day {day} of the month"));
    }
    for back in bits(numbers.nearest_before_last.into()) {
        parts.push(match back {
            0 => "on the last weekday of the month".to_owned(),
            back => format!("on the weekday nearest to {}", before_last(back)),
        });
    }
    join(&parts, "and")
}

fn before_last(back: usize) -> String {
    match back {
        0 => "the last day of the month".to_owned(),
        1 => "the day before the last day of the month".to_owned(),
        back => format!("the day {back} days before the last day of the month"),
    }
}

fn weekdays_in_words(weekdays: &Weekdays) -> String {
    let mut parts = Vec::new();
    let every: Vec<usize> = bits(weekdays.every.into()).collect();
    if !every.is_empty() {
        let days = runs(&every, |day| format!("{}s", names::WEEKDAYS[day]));
        parts.push(format!("on {}", join(&days, "and")));
    }
    for (day, name) in names::WEEKDAYS.iter().enumerate() {
        for nth in bits(weekdays.nth[day].into()) {
            parts.push(format!("on the {} {name} of the month", ORDINALS[nth]));
        }
        for nth in bits(weekdays.nth_last[day].into()) {
            parts.push(match nth {
                1 => format!("on the last {name} of the month"),
                nth => format!("on the {} last {name} of the month", ORDINALS[nth]),
            });
        }
    }
    join(&parts, "and")
}

fn count(every: &Every) -> String {
    let unit = match every.unit {
        Unit::Days => "day",
        Unit::Weeks => "week",
        Unit::Months => "month",
    };
    let from = written(every.start);
    let mut text = match every.period {
        1 => format!("every {unit} from {from}"),
        period => format!("every {period} {unit}s from {from}"),
    };
    if let Some(end) = every.end {
        text.push_str(&format!(" until {}", written(end)));
    }
    text
}

fn written(date: Date) -> String {
    format!("{:04}-{:02}-{:02}", date.year, date.month, date.day)
}

fn years_in_words(years: &Years) -> String {
    let all: Vec<i64> = years.iter().collect();
    if let [first, second, .., last] = all[..] {
        let step = second - first;
        if step > 1 && all.windows(2).all(|pair| pair[1] - pair[0] == step) {
            return format!("every {step} years from {first} to {last}");
        }
    }
    let all: Vec<usize> = all.iter().filter_map(|year| usize::try_from(*year).ok()).collect();
    join(&runs(&all, |year| year.to_string()), "and")
}

/// Three or more numbers in a row become "first to last".
fn runs(numbers: &[usize], name: impl Fn(usize) -> String) -> Vec<String> {
    let mut parts = Vec::new();
    let mut rest = numbers;
    while let [first, ..] = *rest {
        let length = rest.iter().zip(first..).take_while(|(number, at)| **number == *at).count();
        let taken = if length >= 3 { length } else { 1 };
        parts.push(match taken {
            1 => name(first),
            _ => format!("{} to {}", name(first), name(rest[taken - 1])),
        });
        rest = &rest[taken..];
    }
    parts
}

fn join(parts: &[String], word: &str) -> String {
    match parts {
        [] => String::new(),
        [only] => only.clone(),
        [most @ .., last] => format!("{} {word} {last}", most.join(", ")),
    }
}
