//! The meaning of an item, said as plainly as possible and as slowly as need be.
//!
//! It shares nothing with the crate: dates and offsets come from jiff second by second, selectors
//! are read from the JSON anew, and firings are collected by walking every second.

use std::{collections::BTreeMap, ops::Range};

use jiff::{Timestamp, civil::DateTime, tz::TimeZone};
use serde_json::Value;

/// What happens to labels that are never shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Gap {
    Skip,
    SecondBefore,
    SecondAfter,
}

/// What happens to labels that are shown again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fold {
    Both,
    First,
    Last,
}

/// Everything that an item fires in `from..until`.
pub(crate) fn firings(item: &Value, rules: &TimeZone, from: i64, until: i64) -> Vec<i64> {
    let has_seconds = item.get("second").is_some();
    let matches =
        |label: i64| (has_seconds || label.rem_euclid(60) == 0) && matches(item, civil(label));
    let fixes: Vec<&str> =
        item["dst_fixes"].as_array().unwrap().iter().map(|fix| fix.as_str().unwrap()).collect();
    let gap = if fixes.contains(&"unskip") { Gap::SecondBefore } else { Gap::Skip };
    let fold = if fixes.contains(&"repeat_use_only_early") {
        Fold::First
    } else if fixes.contains(&"repeat_use_only_late") {
        Fold::Last
    } else {
        Fold::Both
    };
    walk(matches, gap, fold, rules, from..until)
}

/// The firings that a walk over every second of a window finds.
pub(crate) fn walk(
    matches: impl Fn(i64) -> bool,
    gap: Gap,
    fold: Fold,
    rules: &TimeZone,
    window: Range<i64>,
) -> Vec<i64> {
    // Labels beside the window may be shown in it again, so the walk begins and ends further out.
    let margin = 3 * 86_400;
    let mut shown: BTreeMap<i64, Vec<i64>> = BTreeMap::new();
    let mut jumps: Vec<(i64, i64, i64)> = Vec::new();
    let mut last = None;
    for instant in window.start - margin..window.end + margin {
        let label = instant + i64::from(offset(rules, instant));
        if matches(label) {
            shown.entry(label).or_default().push(instant);
        }
        if let Some(last) = last
            && label > last + 1
        {
            jumps.push((instant, last + 1, label));
        }
        last = Some(label);
    }
    let mut firings: Vec<i64> = Vec::new();
    for instants in shown.values() {
        match fold {
            Fold::Both => firings.extend(instants),
            Fold::First => firings.push(instants[0]),
            Fold::Last => firings.push(instants[instants.len() - 1]),
        }
    }
    let mut taken = Vec::new();
    for (instant, first, end) in jumps {
        for label in (first..end).filter(|label| matches(*label)) {
            if gap != Gap::Skip && !shown.contains_key(&label) && !taken.contains(&label) {
                taken.push(label);
                firings.push(if gap == Gap::SecondBefore { instant - 1 } else { instant });
            }
        }
    }
    firings.retain(|instant| window.contains(instant));
    firings.sort_unstable();
    firings.dedup();
    firings
}

pub(crate) fn offset(rules: &TimeZone, instant: i64) -> i32 {
    rules.to_offset(Timestamp::from_second(instant).unwrap()).seconds()
}

pub(crate) fn civil(label: i64) -> DateTime {
    TimeZone::UTC.to_datetime(Timestamp::from_second(label).unwrap())
}

/// Whether all selectors of an item match a local time.
pub(crate) fn matches(item: &Value, at: DateTime) -> bool {
    let second = item
        .get("second")
        .map_or(at.second() == 0, |selector| selects(selector, i64::from(at.second()), 0));
    second
        && selected(item, "minute", at.minute().into(), 0)
        && selected(item, "hour", at.hour().into(), 0)
        && matches_date(item, at)
}

/// The same, by the date alone.
pub(crate) fn matches_date(item: &Value, at: DateTime) -> bool {
    let weekday = i64::from(at.weekday().to_sunday_one_offset());
    let nth = (i64::from(at.day()) + 6) / 7;
    let nth_last = (i64::from(at.days_in_month()) - i64::from(at.day())) / 7 + 1;
    selected(item, "day_of_week", weekday, 1)
        && selected(item, "day_of_month", at.day().into(), 1)
        && selected(item, "month", at.month().into(), 1)
        && selected(item, "year", at.year().into(), 1969)
        && item.get("last_day_of_month").is_none_or(|_| at.day() == at.days_in_month())
        && item.get("weekday_of_month").is_none_or(|rule| {
            let asked = rule["nth"].as_i64().unwrap();
            rule["weekday"].as_i64() == Some(weekday) && (asked == nth || asked == -nth_last)
        })
        && item.get("every").is_none_or(|every| counts(every, item, at))
}

fn counts(every: &Value, item: &Value, at: DateTime) -> bool {
    let date = |key: &str| -> Option<jiff::civil::Date> { every.get(key)?.as_str()?.parse().ok() };
    let (start, today) = (date("start").unwrap(), at.date());
    if today < start || date("end").is_some_and(|end| today > end) {
        return false;
    }
    let passed = i64::from((today - start).get_days());
    if let Some(days) = every.get("days") {
        return passed % days.as_i64().unwrap() == 0;
    }
    let has_days = ["day_of_week", "day_of_month", "weekday_of_month", "last_day_of_month"]
        .iter()
        .any(|key| item.get(*key).is_some());
    if let Some(weeks) = every.get("weeks") {
        return (has_days || passed % 7 == 0) && (passed / 7) % weeks.as_i64().unwrap() == 0;
    }
    let months = i64::from(today.year() - start.year()) * 12 + i64::from(today.month())
        - i64::from(start.month());
    months % every["months"].as_i64().unwrap() == 0 && (has_days || today.day() == start.day())
}

fn selected(item: &Value, key: &str, value: i64, min: i64) -> bool {
    item.get(key).is_none_or(|selector| selects(selector, value, min))
}

fn selects(selector: &Value, value: i64, min: i64) -> bool {
    if let Some(list) = selector.as_array() {
        return list.is_empty() || list.iter().any(|one| one.as_i64() == Some(value));
    }
    if selector.is_object() {
        let start = selector.get("start").map_or(min, |start| start.as_i64().unwrap());
        let end = selector.get("end").map_or(i64::MAX, |end| end.as_i64().unwrap());
        let period = selector.get("period").map_or(1, |period| period.as_i64().unwrap());
        return start <= value && value <= end && (value - start) % period == 0;
    }
    selector.as_i64() == Some(value)
}
