//! Kinds of years: what a year looks like, and what lies beside it.
//!
//! The weekday of 1 January and the leap years at hand (this one, the last, the next) say all
//! that a pattern or a repeating rule of a zone can depend on. So one look at a year of a kind
//! tells about all years of that kind.

use crate::civil::{self, YEAR_MIN, index};

/// Seven weekdays; no leap year at hand, or one before, now, or after.
pub(super) const KINDS: usize = 28;
/// Words of 64 years after which both the words and the calendar begin anew: 1600 years.
pub(super) const ROUND: usize = 25;

/// For each kind its years, laid out as [`Years`](super::years::Years) has them.
pub(super) static YEARS_OF_KIND: [[u64; ROUND]; KINDS] = years_of_kind();

/// The kind of a year.
pub(super) const fn kind(year: i64) -> usize {
    let leap = match (civil::is_leap(year - 1), civil::is_leap(year), civil::is_leap(year + 1)) {
        (false, false, false) => 0,
        (true, false | true, false | true) => 1,
        (false, true, false | true) => 2,
        (false, false, true) => 3,
    };
    index(civil::weekday(civil::new_year(year)) * 4 + leap)
}

/// Whether years of two kinds look alike, whatever lies beside them.
pub(super) const fn is_alike(one: usize, other: usize) -> bool {
    let is_leap_one = one % 4 == 2;
    let is_leap_other = other % 4 == 2;
    one / 4 == other / 4 && is_leap_one == is_leap_other
}

const fn years_of_kind() -> [[u64; ROUND]; KINDS] {
    let mut words = [[0; ROUND]; KINDS];
    let mut at = 0;
    while at < ROUND * 64 {
        words[kind(YEAR_MIN + at as i64)][at / 64] |= 1 << (at % 64);
        at += 1;
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_year_is_of_one_kind() {
        for at in 0..ROUND * 64 {
            let year = YEAR_MIN + i64::try_from(at).unwrap();
            let holds = |kind: &usize| YEARS_OF_KIND[*kind][at / 64] >> (at % 64) & 1 == 1;
            let kinds: Vec<usize> = (0..KINDS).filter(holds).collect();
            assert_eq!(kinds, [kind(year)]);
            assert_eq!(kind(year), kind(year + 1600));
        }
    }
}
