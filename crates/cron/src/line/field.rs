//! One field: lists of values, ranges and steps, and what only days take.

use super::LineError;
use crate::{
    item::cut,
    names,
    pattern::{Numbers, Weekdays},
};

/// What a field holds.
#[derive(Debug)]
pub(super) struct Kind {
    name: &'static str,
    min: i64,
    max: i64,
    /// Where counting begins again: a range that ends before it begins runs on from here.
    period: i64,
    names: &'static [&'static str],
    /// What else may stand there, whole.
    besides: &'static str,
}

pub(super) static SECONDS: Kind =
    Kind { name: "seconds", min: 0, max: 59, period: 60, names: &[], besides: "" };
pub(super) static MINUTES: Kind =
    Kind { name: "minutes", min: 0, max: 59, period: 60, names: &[], besides: "" };
pub(super) static HOURS: Kind =
    Kind { name: "hours", min: 0, max: 23, period: 24, names: &[], besides: "" };
pub(super) static DAYS: Kind =
    Kind { name: "days", min: 1, max: 31, period: 31, names: &[], besides: ", L, L-3, LW or 15W" };
pub(super) static MONTHS: Kind =
    Kind { name: "months", min: 1, max: 12, period: 12, names: &names::MONTHS, besides: "" };
/// Both 0 and 7 are Sunday.
pub(super) static WEEKDAYS: Kind = Kind {
    name: "weekdays",
    min: 0,
    max: 7,
    period: 7,
    names: &names::WEEKDAYS,
    besides: ", 5L or 5#2",
};

/// One field as it stands in its line.
#[derive(Clone, Copy)]
pub(super) struct Field<'a> {
    pub(super) kind: &'static Kind,
    pub(super) text: &'a str,
    /// Column of its first character, from 1.
    pub(super) column: usize,
}

/// A part of a field: the text, and its column.
#[derive(Clone, Copy)]
struct Part<'a> {
    text: &'a str,
    column: usize,
}

impl<'a> Part<'a> {
    /// Splits at the first `mark`; the second part begins after it.
    fn split(self, mark: char) -> Option<(Self, Self)> {
        let (left, right) = self.text.split_once(mark)?;
        let column = self.column + left.chars().count() + 1;
        Some((Part { text: left, ..self }, Part { text: right, column }))
    }

    /// Takes a last letter off, in either case.
    fn without_last(self, letter: char) -> Option<Self> {
        let text = self
            .text
            .strip_suffix(letter)
            .or_else(|| self.text.strip_suffix(letter.to_ascii_lowercase()))?;
        Some(Part { text, ..self })
    }
}

impl<'a> Field<'a> {
    /// The chosen values as bits.
    pub(super) fn bits(self) -> Result<u64, LineError> {
        self.parts().try_fold(0, |bits, part| Ok(bits | self.range(part)?))
    }

    /// Whether cron takes the field for unrestricted, whatever follows the star.
    pub(super) fn begins_with_star(self) -> bool {
        self.text.starts_with(['*', '?'])
    }

    /// Days of the month; none when every day is allowed.
    pub(super) fn numbers(self) -> Result<Option<Numbers>, LineError> {
        let mut numbers = Numbers::default();
        for part in self.parts() {
            if let Some(back) = self.last_day(part)? {
                numbers.before_last |= back.plain;
                numbers.nearest_before_last |= back.nearest;
            } else if let Some(day) = part.without_last('W') {
                numbers.nearest |= 1 << self.value(day)?;
            } else {
                let days = self.range(part)?;
                numbers.days |= u32::try_from(days).expect("days are below 32");
            }
        }
        let is_everything = self.begins_with_star() && numbers.days == u32::MAX << 1;
        Ok((!is_everything).then_some(numbers))
    }

    /// Days of the week; none when every day is allowed.
    pub(super) fn weekdays(self) -> Result<Option<Weekdays>, LineError> {
        let mut weekdays = Weekdays::default();
        for part in self.parts() {
            if let Some((day, nth)) = part.split('#') {
                let day = crate::civil::index(self.value(day)? % 7);
                match nth.text {
                    "1" | "2" | "3" | "4" | "5" => {
                        weekdays.nth[day] |= 1 << nth.text.parse::<u8>().expect("one digit");
                    }
                    "L" | "l" => weekdays.nth_last[day] |= 1 << 1,
                    _ => return Err(self.refuse(nth, "which of the month: 1 to 5, or L")),
                }
            } else if let Some(day) = part.without_last('L') {
                if day.text.is_empty() {
                    return Err(self.refuse(part, "L after a weekday, such as 5L"));
                }
                weekdays.nth_last[crate::civil::index(self.value(day)? % 7)] |= 1 << 1;
            } else {
                // Sunday is 0 and 7.
                let bits = self.range(part)?;
                let folded = (bits | bits >> 7) & 0x7f;
                weekdays.every |= u8::try_from(folded).expect("seven bits");
            }
        }
        let is_everything = self.begins_with_star() && weekdays.every == 0x7f;
        Ok((!is_everything).then_some(weekdays))
    }

    /// The elements of the list.
    fn parts(self) -> impl Iterator<Item = Part<'a>> {
        let mut column = self.column;
        self.text.split(',').map(move |text| {
            let part = Part { text, column };
            column += text.chars().count() + 1;
            part
        })
    }

    /// `*`, `5`, `1-5`, each perhaps with a step; `5/10` runs to the end of the field.
    fn range(self, part: Part<'_>) -> Result<u64, LineError> {
        let (range, step) = match part.split('/') {
            Some((range, step)) => (range, Some(self.step(step)?)),
            None => (part, None),
        };
        let (start, mut end) = if matches!(range.text, "*" | "?") {
            (self.kind.min, self.kind.max)
        } else if let Some((start, end)) = range.split('-') {
            (self.value(start)?, self.value(end)?)
        } else {
            let value = self.value_or(range, self.kind.besides)?;
            // The week ends on Saturday: Sunday as 7 has to be asked for by name.
            let last = (self.kind.min + self.kind.period - 1).max(value);
            (value, if step.is_some() { last } else { value })
        };
        if end < start {
            end += self.kind.period;
        }
        let mut bits = 0;
        let mut value = start;
        while value <= end {
            let wrapped = if value > self.kind.max { value - self.kind.period } else { value };
            bits |= 1 << wrapped;
            value += step.unwrap_or(1);
        }
        Ok(bits)
    }

    fn step(self, part: Part<'_>) -> Result<i64, LineError> {
        match part.text.parse::<u32>() {
            Ok(step @ 1..) if part.text.as_bytes()[0].is_ascii_digit() => Ok(i64::from(step)),
            Ok(_) | Err(_) => Err(self.refuse(part, "steps from 1 to 4294967295")),
        }
    }

    /// A number or a name.
    fn value(self, part: Part<'_>) -> Result<i64, LineError> {
        self.value_or(part, "")
    }

    /// The same where something else might stand as well, which a refusal mentions.
    fn value_or(self, part: Part<'_>, besides: &str) -> Result<i64, LineError> {
        let is_number = !part.text.is_empty() && part.text.bytes().all(|b| b.is_ascii_digit());
        let number = if is_number {
            part.text.parse().ok()
        } else {
            let from = i64::from(self.kind.period == 12);
            names::find(self.kind.names, part.text).map(|at| at + from)
        };
        number.filter(|number| (self.kind.min..=self.kind.max).contains(number)).ok_or_else(|| {
            let names = match self.kind.names {
                [first, .., last] => format!(", or names from {first} to {last}"),
                [] | [_] => String::new(),
            };
            self.refuse(part, &format!("{} to {}{names}{besides}", self.kind.min, self.kind.max))
        })
    }

    /// `L`, `L-3`, `LW` or `L-3W`.
    fn last_day(self, part: Part<'_>) -> Result<Option<Back>, LineError> {
        if !part.text.starts_with(['L', 'l']) {
            return Ok(None);
        }
        let (whole, is_nearest) = match part.without_last('W') {
            Some(whole) => (whole, true),
            None => (part, false),
        };
        let back = match whole.split('-') {
            None if whole.text.len() == 1 => 0,
            Some((last, back)) if last.text.len() == 1 => match back.text.parse::<u8>() {
                Ok(back @ 0..=30) => back,
                Ok(_) | Err(_) => return Err(self.refuse(back, "0 to 30 after L-")),
            },
            Some(_) | None => return Err(self.refuse(part, "L, L-3, LW or L-3W")),
        };
        let bit = 1 << back;
        Ok(Some(if is_nearest {
            Back { plain: 0, nearest: bit }
        } else {
            Back { plain: bit, nearest: 0 }
        }))
    }

    fn refuse(self, part: Part<'_>, allowed: &str) -> LineError {
        let problem = if part.text.is_empty() {
            format!("a value is missing; allowed are {allowed}")
        } else {
            format!("{} is not allowed; allowed are {allowed}", cut(part.text))
        };
        LineError { line: String::new(), column: part.column, field: Some(self.kind.name), problem }
    }
}

/// Days counted back from the last, as bits.
struct Back {
    plain: u32,
    nearest: u32,
}
