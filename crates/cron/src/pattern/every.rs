//! Rules that count from a date: every N days, weeks or months.

use crate::civil::{self, Date};

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    /// The start, and each N-th day after it.
    Days,
    /// The seven days from the start, and each N-th seven days after them.
    Weeks,
    /// The month of the start, and each N-th month after it.
    Months,
}

/// Every N units from a date up to a date, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Every {
    pub(crate) unit: Unit,
    pub(crate) period: i64,
    pub(crate) start: Date,
    pub(crate) end: Option<Date>,
}

impl Every {
    /// Whether the count meets a year at all; a cheap look before a thorough one.
    pub(crate) fn touches(&self, year: i64) -> bool {
        let (from, until) = (civil::new_year(year), civil::new_year(year + 1));
        let start = civil::day_of(self.start);
        if start >= until || self.end.is_some_and(|end| civil::day_of(end) < from) {
            return false;
        }
        let (passed, pace, length) = match self.unit {
            Unit::Days => (from - start, self.period, until - from),
            // A week that begins in the old year may reach into the new one.
            Unit::Weeks => (from - start - 6, self.period * 7, until - from + 6),
            Unit::Months => (12 * (year - self.start.year) + 1 - self.start.month, self.period, 12),
        };
        passed <= 0 || (pace - passed % pace) % pace < length
    }

    /// Which days of a month it allows, day `n` as bit `n`; `first` is the day of the first.
    pub(crate) fn mask(&self, year: i64, month: i64, first: i64, length: i64) -> u32 {
        let start = civil::day_of(self.start);
        let from = (start - first).max(0);
        let until = self.end.map_or(length, |end| (civil::day_of(end) + 1 - first).min(length));
        if from >= until {
            return 0;
        }
        let within = (u32::MAX >> (32 - (until - from))) << (from + 1);
        match self.unit {
            Unit::Days => within & self.stride(start, first, length, 1),
            Unit::Weeks => within & self.stride(start, first, length, 7),
            Unit::Months => {
                let passed = (year - self.start.year) * 12 + month - self.start.month;
                if passed % self.period == 0 { within } else { 0 }
            }
        }
    }

    /// Blocks of `width` days, `width * period` apart.
    fn stride(&self, start: i64, first: i64, length: i64, width: i64) -> u32 {
        let pace = self.period * width;
        let mut mask = 0_u64;
        // The block that holds the first of the month, or the one after it, comes first.
        let mut block = -(first - start).rem_euclid(pace);
        while block < length {
            for day in block.max(0)..(block + width).min(length) {
                mask |= 2 << day;
            }
            block += pace;
        }
        u32::try_from(mask).unwrap_or(u32::MAX)
    }
}
