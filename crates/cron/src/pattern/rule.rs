//! Which days of a month a pattern names, before it is compiled.
//!
//! Everything that can be said about days within a month depends on two facts only: the weekday
//! of the first, and the length. There are 28 such shapes, so a rule compiles to 28 masks.

/// Shapes of a month: seven weekdays of the first, lengths 28 to 31.
pub(crate) const SHAPES: usize = 28;

/// How the two kinds of day selection go together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Join {
    /// A day must satisfy both.
    Both,
    /// A day must satisfy one of them, as crontab lines have it.
    Either,
}

/// Days chosen by their number; bit `n` stands for day `n` or for `n` days before the last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Numbers {
    pub(crate) days: u32,
    /// Counted back from the last day, which is bit 0.
    pub(crate) before_last: u32,
    /// The weekday (Monday to Friday) nearest to the day, in the same month.
    pub(crate) nearest: u32,
    /// The same, counted back from the last day.
    pub(crate) nearest_before_last: u32,
}

/// Days chosen by their weekday; bit 0 stands for Sunday.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Weekdays {
    pub(crate) every: u8,
    /// By weekday: bit `n` for the n-th of the month.
    pub(crate) nth: [u8; 7],
    /// By weekday: bit `n` for the n-th from the end, 1 being the last.
    pub(crate) nth_last: [u8; 7],
}

/// The whole choice of days within a month; a part that is absent allows every day.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DayRule {
    pub(crate) numbers: Option<Numbers>,
    pub(crate) weekdays: Option<Weekdays>,
    pub(crate) join: Join,
}

impl DayRule {
    /// Every day.
    pub(crate) const ALL: Self = Self { numbers: None, weekdays: None, join: Join::Both };

    /// For each shape (first weekday x 4 + length - 28) the days that match, day `n` as bit `n`.
    pub(crate) fn shapes(&self) -> [u32; SHAPES] {
        let mut shapes = [0; SHAPES];
        for (shape, mask) in shapes.iter_mut().enumerate() {
            let month = Month { first: shape / 4, length: shape % 4 + 28 };
            *mask = self.mask(month);
        }
        shapes
    }

    fn mask(&self, month: Month) -> u32 {
        let all = (u32::MAX >> (31 - month.length)) & !1;
        let matching = match (self.numbers, self.weekdays, self.join) {
            (None, None, Join::Both | Join::Either) => all,
            (Some(numbers), None, Join::Both | Join::Either) => numbers.mask(month),
            (None, Some(weekdays), Join::Both | Join::Either) => weekdays.mask(month),
            (Some(numbers), Some(weekdays), Join::Both) => {
                numbers.mask(month) & weekdays.mask(month)
            }
            (Some(numbers), Some(weekdays), Join::Either) => {
                numbers.mask(month) | weekdays.mask(month)
            }
        };
        matching & all
    }
}

#[derive(Clone, Copy)]
struct Month {
    /// Weekday of the first, 0 for Sunday.
    first: usize,
    length: usize,
}

impl Month {
    const fn weekday(self, day: usize) -> usize {
        (self.first + day - 1) % 7
    }

    /// The weekday from Monday to Friday nearest to `day` without leaving the month.
    const fn nearest_weekday(self, day: usize) -> usize {
        match self.weekday(day) {
            6 if day == 1 => 3,
            6 => day - 1,
            0 if day == self.length => day - 2,
            0 => day + 1,
            _ => day,
        }
    }
}

/// The numbers of the bits that are set.
pub(crate) fn bits(mask: u64) -> impl Iterator<Item = usize> {
    (0..64).filter(move |bit| mask >> bit & 1 == 1)
}

impl Numbers {
    fn mask(self, month: Month) -> u32 {
        let mut mask = self.days;
        for back in bits(self.before_last.into()).filter(|back| *back < month.length) {
            mask |= 1 << (month.length - back);
        }
        for day in bits(self.nearest.into()).filter(|day| *day <= month.length) {
            mask |= 1 << month.nearest_weekday(day);
        }
        for back in bits(self.nearest_before_last.into()).filter(|back| *back < month.length) {
            mask |= 1 << month.nearest_weekday(month.length - back);
        }
        mask
    }
}

impl Weekdays {
    fn mask(self, month: Month) -> u32 {
        let mut mask = 0;
        for day in 1..=month.length {
            let weekday = month.weekday(day);
            let nth = (day - 1) / 7 + 1;
            let nth_last = (month.length - day) / 7 + 1;
            let is_named = self.every >> weekday & 1 == 1
                || self.nth[weekday] >> nth & 1 == 1
                || self.nth_last[weekday] >> nth_last & 1 == 1;
            mask |= u32::from(is_named) << day;
        }
        mask
    }
}
