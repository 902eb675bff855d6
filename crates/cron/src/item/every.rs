//! `every`: N days, weeks or months, counted from a date.

use super::{ItemError, parse, value::Value};
use crate::{
    civil::{self, Date},
    pattern::{Every, Unit},
};

/// Longer periods are surely mistakes.
const PERIOD_MAX: i64 = 10_000;

pub(super) fn parse(value: &Value) -> Result<Every, ItemError> {
    const ALLOWED: &str = r#"maps such as {"days": 3, "start": "2024-01-31"}, with days, weeks or months, and an optional end"#;
    let Value::Map(entries) = value else {
        return Err(ItemError::refused("every", value, ALLOWED));
    };
    let (mut count, mut start, mut end) = (None, None, None);
    for (name, part) in entries {
        let key = format!("every.{name}");
        let is_new = match name.as_str() {
            "days" => count.replace((Unit::Days, period(&key, part)?)).is_none(),
            "weeks" => count.replace((Unit::Weeks, period(&key, part)?)).is_none(),
            "months" => count.replace((Unit::Months, period(&key, part)?)).is_none(),
            "start" => start.replace(date(&key, part)?).is_none(),
            "end" => end.replace((date(&key, part)?, part)).is_none(),
            _ => return Err(ItemError::unknown(&key, "days, weeks or months; start; end")),
        };
        if !is_new {
            return Err(ItemError::refused("every", value, ALLOWED));
        }
    }
    let (Some((unit, period)), Some(start)) = (count, start) else {
        return Err(ItemError::refused("every", value, ALLOWED));
    };
    if let Some((end, written)) = end
        && civil::day_of(end) < civil::day_of(start)
    {
        let Date { year, month, day } = start;
        let allowed = format!("dates from the start on, {year}-{month:02}-{day:02}");
        return Err(ItemError::refused("every.end", written, allowed));
    }
    Ok(Every { unit, period, start, end: end.map(|(end, _)| end) })
}

fn period(key: &str, value: &Value) -> Result<i64, ItemError> {
    match value {
        Value::Int(period @ 1..=PERIOD_MAX) => Ok(*period),
        Value::Null
        | Value::Bool(_)
        | Value::Int(_)
        | Value::Other(_)
        | Value::Text(_)
        | Value::List(_)
        | Value::Map(_) => {
            Err(ItemError::refused(key, value, format!("whole numbers from 1 to {PERIOD_MAX}")))
        }
    }
}

/// A date as `2024-01-31`.
fn date(key: &str, value: &Value) -> Result<Date, ItemError> {
    let refused = || ItemError::refused(key, value, "dates such as 2024-01-31, from 1969 to 9999");
    // TOML has dates of its own, and gives them to serde as a map of one secret key.
    let text = match value {
        Value::Map(entries) => match &entries[..] {
            [(key, date)] if key == "$__toml_private_datetime" => parse::text(date),
            _ => None,
        },
        Value::Null
        | Value::Bool(_)
        | Value::Int(_)
        | Value::Other(_)
        | Value::Text(_)
        | Value::List(_) => parse::text(value),
    };
    let text = text.ok_or_else(refused)?;
    let is_well_formed = text.len() == 10
        && text.bytes().enumerate().all(|(i, byte)| match i {
            4 | 7 => byte == b'-',
            _ => byte.is_ascii_digit(),
        });
    if !is_well_formed {
        return Err(refused());
    }
    let number = |part: &str| part.parse::<i64>().map_err(|_| refused());
    let date =
        Date { year: number(&text[..4])?, month: number(&text[5..7])?, day: number(&text[8..])? };
    let exists = (civil::YEAR_MIN..=civil::YEAR_MAX).contains(&date.year)
        && (1..=12).contains(&date.month)
        && (1..=civil::month_length(date.year, date.month)).contains(&date.day);
    if exists { Ok(date) } else { Err(refused()) }
}
