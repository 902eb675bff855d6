//! From a value to a pattern.

use super::{
    ItemError, every,
    select::{self, Domain, Selection},
    value::{Value, cut},
};
use crate::{
    civil, names,
    pattern::{
        Calendar, DayRule, DstFixes, Epoch, Every, Fields, Numbers, Pattern, Unit, Weekdays, Years,
    },
};

const KEYS: &str = "epoch; or second, minute, hour, day_of_week, day_of_month, weekday_of_month, \
                    last_day_of_month, month, year, every and dst_fixes";

/// The keys of an item that is not `epoch`, as found.
#[derive(Default)]
struct Keys<'a> {
    second: Option<&'a Value>,
    minute: Option<&'a Value>,
    hour: Option<&'a Value>,
    day_of_week: Option<&'a Value>,
    day_of_month: Option<&'a Value>,
    weekday_of_month: Option<&'a Value>,
    last_day_of_month: Option<&'a Value>,
    month: Option<&'a Value>,
    year: Option<&'a Value>,
    every: Option<&'a Value>,
    dst_fixes: Option<&'a Value>,
}

pub(super) fn pattern(source: &Value) -> Result<Pattern, ItemError> {
    let Value::Map(entries) = source else {
        return Err(ItemError::NotAMap { found: source.quote() });
    };
    if let Some((_, value)) = entries.iter().find(|(key, _)| key == "epoch") {
        return epoch(entries, value);
    }
    let keys = keys(entries)?;
    let Some(minute) = keys.minute else {
        let allowed = "whole numbers from 0 to 59; {} means every minute".to_owned();
        return Err(ItemError::Missing { key: "minute".to_owned(), allowed });
    };
    let fixes = dst_fixes(keys.dst_fixes)?;
    let bits = |domain: Domain, value: Option<&Value>, otherwise: u64| match value {
        Some(value) => domain.select(value).map(Selection::bits),
        None => Ok(otherwise),
    };
    let every = keys.every.map(every::parse).transpose()?;
    let fields = Fields {
        seconds: bits(select::SECOND, keys.second, 1)?,
        minutes: select::MINUTE.select(minute)?.bits(),
        hours: narrow(bits(select::HOUR, keys.hour, u64::MAX >> 40)?),
        months: u16::try_from(bits(select::MONTH, keys.month, 0b1_1111_1111_1110)?)
            .expect("months are at most 12"),
        days: days(&keys, every.as_ref())?,
        years: keys.year.map(|value| years(value, every.as_ref())).transpose()?,
        every,
    };
    let calendar = Calendar::new(fields);
    if calendar.never_matches() {
        return Err(ItemError::Never { dates: calendar.fields().describe_dates() });
    }
    Ok(Pattern::from_calendar(calendar, fixes))
}

fn epoch(entries: &[(String, Value)], value: &Value) -> Result<Pattern, ItemError> {
    if let Some((other, _)) = entries.iter().find(|(key, _)| key != "epoch") {
        let remedy = "epoch counts seconds, so no other key may stand beside it".to_owned();
        return Err(ItemError::Clash { one: "epoch".to_owned(), other: cut(other), remedy });
    }
    if entries.len() > 1 {
        return Err(ItemError::twice("epoch"));
    }
    let epoch = match select::EPOCH.select(value)? {
        Selection::Range { start, end, period } => Epoch::Range { start, end, period },
        Selection::Values(mut moments) => {
            moments.sort_unstable();
            moments.dedup();
            Epoch::List(moments.into())
        }
    };
    Ok(Pattern::from_epoch(epoch))
}

fn keys(entries: &[(String, Value)]) -> Result<Keys<'_>, ItemError> {
    let mut keys = Keys::default();
    for (key, value) in entries {
        let slot = match key.as_str() {
            "second" => &mut keys.second,
            "minute" => &mut keys.minute,
            "hour" => &mut keys.hour,
            "day_of_week" => &mut keys.day_of_week,
            "day_of_month" => &mut keys.day_of_month,
            "weekday_of_month" => &mut keys.weekday_of_month,
            "last_day_of_month" => &mut keys.last_day_of_month,
            "month" => &mut keys.month,
            "year" => &mut keys.year,
            "every" => &mut keys.every,
            "dst_fixes" => &mut keys.dst_fixes,
            _ => return Err(ItemError::unknown(key, KEYS)),
        };
        if slot.replace(value).is_some() {
            return Err(ItemError::twice(key));
        }
    }
    Ok(keys)
}

fn dst_fixes(value: Option<&Value>) -> Result<DstFixes, ItemError> {
    const ALLOWED: &str = "two names: skip or unskip, and repeat_use_both, repeat_use_only_early \
                           or repeat_use_only_late";
    let Some(value) = value else {
        let key = "dst_fixes".to_owned();
        return Err(ItemError::Missing { key, allowed: ALLOWED.to_owned() });
    };
    let names = match value {
        Value::List(names) => names.iter().map(text).collect::<Option<Vec<&str>>>(),
        Value::Null
        | Value::Bool(_)
        | Value::Int(_)
        | Value::Other(_)
        | Value::Text(_)
        | Value::Map(_) => None,
    };
    names
        .and_then(|names| DstFixes::from_names(names).ok())
        .ok_or_else(|| ItemError::refused("dst_fixes", value, ALLOWED))
}

pub(super) fn text(value: &Value) -> Option<&str> {
    match value {
        Value::Text(text) => Some(text),
        Value::Null
        | Value::Bool(_)
        | Value::Int(_)
        | Value::Other(_)
        | Value::List(_)
        | Value::Map(_) => None,
    }
}

/// At most one of the four ways to choose days within a month.
fn days(keys: &Keys<'_>, every: Option<&Every>) -> Result<DayRule, ItemError> {
    let given = [
        ("day_of_week", keys.day_of_week),
        ("day_of_month", keys.day_of_month),
        ("weekday_of_month", keys.weekday_of_month),
        ("last_day_of_month", keys.last_day_of_month),
    ];
    let mut given = given.into_iter().filter_map(|(key, value)| value.map(|value| (key, value)));
    let Some((key, value)) = given.next() else { return Ok(days_of_count(every)) };
    if let Some((other, _)) = given.next() {
        let remedy = "write two items, one with each".to_owned();
        return Err(ItemError::Clash { one: key.to_owned(), other: other.to_owned(), remedy });
    }
    Ok(match key {
        "day_of_week" => {
            let bits = select::DAY_OF_WEEK.select(value)?.bits() >> 1;
            let every = u8::try_from(bits).expect("weekdays are at most 7");
            let weekdays = Some(Weekdays { every, ..Weekdays::default() });
            DayRule { weekdays, ..DayRule::ALL }
        }
        "day_of_month" => {
            let days = narrow(select::DAY_OF_MONTH.select(value)?.bits());
            let numbers = Some(Numbers { days, ..Numbers::default() });
            DayRule { numbers, ..DayRule::ALL }
        }
        "weekday_of_month" => {
            let weekdays = Some(weekdays_of_month(value)?);
            DayRule { weekdays, ..DayRule::ALL }
        }
        _ => {
            if *value != Value::Bool(true) {
                return Err(ItemError::refused(key, value, "true, or leave the key out"));
            }
            let numbers = Some(Numbers { before_last: 1, ..Numbers::default() });
            DayRule { numbers, ..DayRule::ALL }
        }
    })
}

/// Without a choice of its own, a count keeps to the day of its start.
fn days_of_count(every: Option<&Every>) -> DayRule {
    let Some(every) = every else { return DayRule::ALL };
    match every.unit {
        Unit::Days => DayRule::ALL,
        Unit::Weeks => {
            let only = 1 << civil::weekday(civil::day_of(every.start));
            let weekdays = Some(Weekdays { every: only, ..Weekdays::default() });
            DayRule { weekdays, ..DayRule::ALL }
        }
        Unit::Months => {
            let numbers = Some(Numbers { days: 1 << every.start.day, ..Numbers::default() });
            DayRule { numbers, ..DayRule::ALL }
        }
    }
}

/// `{"nth": 1, "weekday": "Mon"}`, or a list of such; `nth` may be a list.
fn weekdays_of_month(value: &Value) -> Result<Weekdays, ItemError> {
    const KEY: &str = "weekday_of_month";
    const ALLOWED: &str = r#"maps such as {"nth": 2, "weekday": "Tue"}, or a list of them"#;
    let mut weekdays = Weekdays::default();
    let whole = std::slice::from_ref(value);
    let entries = match value {
        Value::List(entries) if !entries.is_empty() => entries,
        Value::Null
        | Value::Bool(_)
        | Value::Int(_)
        | Value::Other(_)
        | Value::Text(_)
        | Value::List(_)
        | Value::Map(_) => whole,
    };
    for entry in entries {
        let Value::Map(parts) = entry else {
            return Err(ItemError::refused(KEY, entry, ALLOWED));
        };
        let (mut nth, mut weekday) = (None, None);
        for (name, part) in parts {
            let slot = match name.as_str() {
                "nth" => &mut nth,
                "weekday" => &mut weekday,
                _ => return Err(ItemError::unknown(&format!("{KEY}.{name}"), "nth and weekday")),
            };
            if slot.replace(part).is_some() {
                return Err(ItemError::twice(&format!("{KEY}.{name}")));
            }
        }
        let (Some(nth), Some(weekday)) = (nth, weekday) else {
            return Err(ItemError::refused(KEY, entry, ALLOWED));
        };
        add_nth(nth, weekday, &mut weekdays)?;
    }
    Ok(weekdays)
}

fn add_nth(nth: &Value, weekday: &Value, weekdays: &mut Weekdays) -> Result<(), ItemError> {
    let domain =
        Domain { key: "weekday_of_month.weekday", min: 1, max: 7, names: &names::WEEKDAYS };
    let days = domain.select(weekday)?.bits() >> 1;
    let numbers = match nth {
        Value::List(numbers) if !numbers.is_empty() => numbers.as_slice(),
        Value::Null
        | Value::Bool(_)
        | Value::Int(_)
        | Value::Other(_)
        | Value::Text(_)
        | Value::List(_)
        | Value::Map(_) => std::slice::from_ref(nth),
    };
    for number in numbers {
        for day in (0..7).filter(|day| days >> day & 1 == 1) {
            match number {
                Value::Int(nth @ 1..=5) => weekdays.nth[day] |= 1 << nth,
                Value::Int(nth @ -5..=-1) => weekdays.nth_last[day] |= 1 << -nth,
                Value::Null
                | Value::Bool(_)
                | Value::Int(_)
                | Value::Other(_)
                | Value::Text(_)
                | Value::List(_)
                | Value::Map(_) => {
                    let allowed = "1 to 5, or -1 (the last) to -5";
                    return Err(ItemError::refused("weekday_of_month.nth", number, allowed));
                }
            }
        }
    }
    Ok(())
}

/// Years chosen one by one beside a count of days: each must be judged by itself when all its days
/// may fall into gaps, so there may not be many. Nobody needs them; `start` and `end` say the same.
const YEARS_BESIDE_COUNT_MAX: usize = 40;

fn years(value: &Value, every: Option<&Every>) -> Result<Box<Years>, ItemError> {
    let mut years = Box::new(Years::NONE);
    for year in select::YEAR.select(value)?.values() {
        years.insert(year);
    }
    let is_judged_one_by_one = match every.map(|every| every.unit) {
        Some(Unit::Days | Unit::Weeks) => true,
        Some(Unit::Months) | None => false,
    };
    let chosen = years.iter().count();
    let has_gaps = years.iter().zip(years.iter().skip(1)).any(|(year, next)| next != year + 1);
    if is_judged_one_by_one && has_gaps && chosen > YEARS_BESIDE_COUNT_MAX {
        let allowed = format!(
            "at most {YEARS_BESIDE_COUNT_MAX} years beside days or weeks that are counted, or a \
             range without gaps; give `every` a start and an end instead"
        );
        return Err(ItemError::refused("year", value, allowed));
    }
    Ok(years)
}

fn narrow(bits: u64) -> u32 {
    u32::try_from(bits).expect("hours and days are below 32")
}
