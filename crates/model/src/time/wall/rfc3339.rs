//! The text of a moment, both ways.

use super::{DAY_MS, WallTime, WallTimeError};
use crate::time::civil::{date_from_days, days_from_date, days_in_month};
use std::fmt;
use std::str::FromStr;

impl fmt::Display for WallTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (year, month, day) = date_from_days(self.0.div_euclid(DAY_MS));
        let millis = self.0.rem_euclid(DAY_MS);
        let (hour, minute) = (millis / 3_600_000, millis / 60_000 % 60);
        let (second, milli) = (millis / 1000 % 60, millis % 1000);
        write!(f, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{milli:03}Z")
    }
}

impl FromStr for WallTime {
    type Err = WallTimeError;

    fn from_str(text: &str) -> Result<Self, WallTimeError> {
        let mut reader = Reader { text, at: 0 };
        let year = reader.number(4, "year", 1, 9999)?;
        reader.one_of("-")?;
        let month = reader.number(2, "month", 1, 12)?;
        reader.one_of("-")?;
        let day = reader.number(2, "day", 1, days_in_month(year, month))?;
        reader.one_of("Tt")?;
        let hour = reader.number(2, "hour", 0, 23)?;
        reader.one_of(":")?;
        let minute = reader.number(2, "minute", 0, 59)?;
        reader.one_of(":")?;
        let second_at = reader.place();
        let second = reader.number(2, "second", 0, 60)?;
        let milli = reader.fraction()?;
        let offset_min = reader.offset()?;
        reader.end()?;

        let minutes = (days_from_date(year, month, day) * 24 + hour) * 60 + minute - offset_min;
        let millis = minutes * 60_000 + second * 1000 + milli;
        if second < 60 {
            return Self::from_millis(millis);
        }
        // It has no moment of its own here; the last one before it keeps it in its day.
        if minutes.rem_euclid(24 * 60) != 24 * 60 - 1 {
            return Err(WallTimeError::NoLeapSecond { at: second_at });
        }
        Self::from_millis(minutes * 60_000 + 59_999)
    }
}

/// Reads fields of fixed width, one after the other. Stands only between characters: what it has
/// passed is ASCII.
struct Reader<'a> {
    text: &'a str,
    at: usize,
}

impl Reader<'_> {
    const fn place(&self) -> usize {
        self.at + 1
    }

    fn rest(&self) -> &str {
        &self.text[self.at..]
    }

    fn mistyped(&self, expected: impl Into<String>) -> WallTimeError {
        let found = self.rest().chars().take(4).collect();
        WallTimeError::Mistyped { at: self.place(), found, expected: expected.into() }
    }

    fn number(
        &mut self,
        width: usize,
        field: &'static str,
        min: i64,
        max: i64,
    ) -> Result<i64, WallTimeError> {
        let at = self.place();
        let digits = self.rest().bytes().take(width).take_while(u8::is_ascii_digit);
        let (count, value) = digits.fold((0, 0), |(count, value), digit| {
            (count + 1, value * 10 + i64::from(digit - b'0'))
        });
        if count < width {
            return Err(self.mistyped(format!("{width} digits of the {field}")));
        }
        self.at += width;
        if value < min || value > max {
            return Err(WallTimeError::NoSuch { at, field, value, min, max });
        }
        Ok(value)
    }

    /// Takes one of `allowed`, which are ASCII.
    fn one_of(&mut self, allowed: &str) -> Result<char, WallTimeError> {
        match self.rest().chars().next().filter(|c| allowed.contains(*c)) {
            Some(character) => {
                self.at += 1;
                Ok(character)
            }
            None => Err(self.mistyped(format!("'{}'", &allowed[..1]))),
        }
    }

    /// Milliseconds after the point, if there is one.
    fn fraction(&mut self) -> Result<i64, WallTimeError> {
        if !self.rest().starts_with('.') {
            return Ok(0);
        }
        self.at += 1;
        let count = self.rest().bytes().take_while(u8::is_ascii_digit).count();
        if count == 0 {
            return Err(self.mistyped("digits"));
        }
        let digits = self.rest().bytes().take(count).chain(*b"00").take(3);
        let millis = digits.fold(0, |millis, digit| millis * 10 + i64::from(digit - b'0'));
        self.at += count;
        Ok(millis)
    }

    /// Minutes ahead of UTC.
    fn offset(&mut self) -> Result<i64, WallTimeError> {
        let sign = match self.one_of("Zz+-").map_err(|_| self.mistyped("Z or an offset"))? {
            '+' => 1,
            '-' => -1,
            _ => return Ok(0),
        };
        let hours = self.number(2, "offset's hour", 0, 23)?;
        self.one_of(":")?;
        let minutes = self.number(2, "offset's minute", 0, 59)?;
        Ok(sign * (hours * 60 + minutes))
    }

    fn end(&self) -> Result<(), WallTimeError> {
        if self.rest().is_empty() { Ok(()) } else { Err(self.mistyped("the end")) }
    }
}
