//! Selectors: a value, a list of values, or a range with a period.

use super::{ItemError, value::Value};
use crate::names;

/// The values that a key takes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Domain {
    pub(super) key: &'static str,
    pub(super) min: i64,
    pub(super) max: i64,
    /// Names for the values from `min` on.
    pub(super) names: &'static [&'static str],
}

pub(super) const SECOND: Domain = Domain { key: "second", min: 0, max: 59, names: &[] };
pub(super) const MINUTE: Domain = Domain { key: "minute", min: 0, max: 59, names: &[] };
pub(super) const HOUR: Domain = Domain { key: "hour", min: 0, max: 23, names: &[] };
pub(super) const DAY_OF_WEEK: Domain =
    Domain { key: "day_of_week", min: 1, max: 7, names: &names::WEEKDAYS };
pub(super) const DAY_OF_MONTH: Domain = Domain { key: "day_of_month", min: 1, max: 31, names: &[] };
pub(super) const MONTH: Domain = Domain { key: "month", min: 1, max: 12, names: &names::MONTHS };
pub(super) const YEAR: Domain = Domain { key: "year", min: 1969, max: 9999, names: &[] };
pub(super) const EPOCH: Domain = Domain { key: "epoch", min: 0, max: i64::MAX, names: &[] };

/// What a selector chooses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Selection {
    Values(Vec<i64>),
    Range { start: i64, end: i64, period: i64 },
}

impl Selection {
    /// The chosen values; only for domains small enough to list.
    pub(super) fn values(self) -> Vec<i64> {
        match self {
            Self::Values(values) => values,
            Self::Range { start, end, period } => {
                std::iter::successors(Some(start), |value| value.checked_add(period))
                    .take_while(|value| *value <= end)
                    .collect()
            }
        }
    }

    /// The chosen values as bits; only for values below 64.
    pub(super) fn bits(self) -> u64 {
        self.values().into_iter().fold(0, |bits, value| bits | 1 << value)
    }
}

impl Domain {
    /// Reads a selector; `[]` and `{}` choose everything.
    pub(super) fn select(&self, value: &Value) -> Result<Selection, ItemError> {
        match value {
            Value::List(values) if values.is_empty() => Ok(self.everything()),
            Value::List(values) => {
                let values: Result<Vec<i64>, _> =
                    values.iter().map(|value| self.value(self.key, value)).collect();
                Ok(Selection::Values(values?))
            }
            Value::Map(entries) => self.range(entries),
            Value::Null | Value::Bool(_) | Value::Int(_) | Value::Other(_) | Value::Text(_) => {
                Ok(Selection::Values(vec![self.value(self.key, value)?]))
            }
        }
    }

    const fn everything(&self) -> Selection {
        Selection::Range { start: self.min, end: self.max, period: 1 }
    }

    fn range(&self, entries: &[(String, Value)]) -> Result<Selection, ItemError> {
        let (mut start, mut end, mut period) = (None, None, None);
        for (name, value) in entries {
            let key = format!("{}.{name}", self.key);
            let slot = match name.as_str() {
                "start" => &mut start,
                "end" => &mut end,
                "period" => &mut period,
                _ => return Err(ItemError::unknown(&key, "start, end and period")),
            };
            let read = match name.as_str() {
                "period" => self.period(&key, value)?,
                _ => self.value(&key, value)?,
            };
            if slot.replace(read).is_some() {
                return Err(ItemError::twice(&key));
            }
        }
        let (start, end) = (start.unwrap_or(self.min), end.unwrap_or(self.max));
        if start > end {
            let allowed = format!("a range that does not wrap: end at least {start}");
            return Err(ItemError::refused(
                &format!("{}.end", self.key),
                &Value::Int(end),
                allowed,
            ));
        }
        Ok(Selection::Range { start, end, period: period.unwrap_or(1) })
    }

    /// One value of the domain, as a number or as a name.
    pub(super) fn value(&self, key: &str, value: &Value) -> Result<i64, ItemError> {
        let found = match value {
            Value::Int(number) => Some(*number),
            Value::Text(text) => names::find(self.names, text).map(|at| at + self.min),
            Value::Null | Value::Bool(_) | Value::Other(_) | Value::List(_) | Value::Map(_) => None,
        };
        found
            .filter(|number| (self.min..=self.max).contains(number))
            .ok_or_else(|| ItemError::refused(key, value, self.allowed()))
    }

    /// A period, which may be written as a string of digits.
    fn period(&self, key: &str, value: &Value) -> Result<i64, ItemError> {
        let found = match value {
            Value::Int(number) => Some(*number),
            Value::Text(text) => text.parse().ok(),
            Value::Null | Value::Bool(_) | Value::Other(_) | Value::List(_) | Value::Map(_) => None,
        };
        let max = self.max - self.min - 1;
        found
            .filter(|number| (1..=max).contains(number))
            .ok_or_else(|| ItemError::refused(key, value, format!("whole numbers from 1 to {max}")))
    }

    fn allowed(&self) -> String {
        let numbers = match self.max {
            i64::MAX => format!("whole numbers from {}", self.min),
            max => format!("whole numbers from {} to {max}", self.min),
        };
        match self.names {
            [] => numbers,
            [first, .., last] => format!(
                "{numbers}, or English names from {first} to {last}, of which three letters are \
                 enough"
            ),
            [only] => format!("{numbers}, or {only}"),
        }
    }
}
