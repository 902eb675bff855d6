use crate::civil::{YEAR_MAX, YEAR_MIN, index};

const WORDS: usize = index(YEAR_MAX - YEAR_MIN) / 64 + 1;

/// A set of years from 1969 to 9999.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Years {
    words: [u64; WORDS],
}

impl Years {
    /// No year.
    pub(crate) const NONE: Self = Self { words: [0; WORDS] };

    /// Every year.
    pub(crate) const fn all() -> Self {
        let mut words = [u64::MAX; WORDS];
        // The last word goes beyond the last year.
        words[WORDS - 1] >>= WORDS * 64 - index(YEAR_MAX - YEAR_MIN) - 1;
        Self { words }
    }

    /// Adds a year that lies in range.
    pub(crate) fn insert(&mut self, year: i64) {
        let at = index(year - YEAR_MIN);
        self.words[at / 64] |= 1 << (at % 64);
    }

    /// Takes a year out.
    pub(crate) fn remove(&mut self, year: i64) {
        let at = index(year - YEAR_MIN);
        self.words[at / 64] &= !(1 << (at % 64));
    }

    /// Takes out all years of `others`, which is laid out as the set is and begins anew after its
    /// last word.
    pub(crate) fn remove_all(&mut self, others: &[u64]) {
        for (word, other) in self.words.iter_mut().zip(others.iter().cycle()) {
            *word &= !other;
        }
    }

    /// Whether it holds `year`; years out of range are never held.
    #[inline]
    pub(crate) fn contains(&self, year: i64) -> bool {
        if !(YEAR_MIN..=YEAR_MAX).contains(&year) {
            return false;
        }
        let at = index(year - YEAR_MIN);
        self.words[at / 64] >> (at % 64) & 1 == 1
    }

    /// The least year in the set that is `year` or later.
    #[inline]
    pub(crate) fn at_or_after(&self, year: i64) -> Option<i64> {
        if year > YEAR_MAX {
            return None;
        }
        let at = index((year - YEAR_MIN).max(0));
        let mut word = at / 64;
        let mut left = self.words[word] & (u64::MAX << (at % 64));
        while left == 0 {
            word += 1;
            left = *self.words.get(word)?;
        }
        let found = word * 64 + left.trailing_zeros() as usize;
        i64::try_from(found).ok().map(|found| found + YEAR_MIN)
    }

    /// The same among the years that `filter` allows, which is laid out as the set is and begins
    /// anew after its last word.
    pub(crate) fn at_or_after_within(&self, year: i64, filter: &[u64]) -> Option<i64> {
        let mut at = index((year - YEAR_MIN).max(0));
        while at < WORDS * 64 {
            let word = at / 64;
            let allowed = self.words[word] & filter[word % filter.len()];
            let left = allowed & (u64::MAX << (at % 64));
            if left != 0 {
                let found = word * 64 + left.trailing_zeros() as usize;
                return i64::try_from(found).ok().map(|found| found + YEAR_MIN);
            }
            at = (word + 1) * 64;
        }
        None
    }

    /// Its years in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = i64> {
        std::iter::successors(self.at_or_after(YEAR_MIN), |year| self.at_or_after(year + 1))
    }
}

impl std::fmt::Debug for Years {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let shown: Vec<i64> = self.iter().take(8).collect();
        write!(f, "Years{shown:?}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_next_year_across_words() {
        let mut years = Years::NONE;
        assert_eq!(years.at_or_after(1969), None);
        for year in [1969, 2032, 2033, 9999] {
            years.insert(year);
        }
        assert_eq!(years.at_or_after(-5), Some(1969));
        assert_eq!(years.at_or_after(1970), Some(2032));
        assert_eq!(years.at_or_after(2034), Some(9999));
        assert_eq!(years.at_or_after(10_000), None);
        years.remove(2032);
        assert_eq!(years.iter().collect::<Vec<_>>(), [1969, 2033, 9999]);
        assert!(!years.contains(1968) && !years.contains(10_000));
    }

    #[test]
    fn all_means_all() {
        assert_eq!(Years::all().iter().count(), 8031);
    }
}
