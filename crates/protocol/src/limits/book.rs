//! All limits that somebody may go by.

use sterna_model::{Marks, Span};

use super::{Limits, LimitsError, Terms};
use crate::message::Held;

/// The limits in force, with those that some worker may still go by (safety rule 11).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Book {
    newest: Limits,
    /// Not yet retired, oldest first.
    older: Vec<Limits>,
}

/// The usual limits, and none before.
impl Default for Book {
    fn default() -> Self {
        Self { newest: Limits::default(), older: Vec::new() }
    }
}

impl Book {
    /// The limits as they stand in the store, with those not yet retired.
    ///
    /// # Errors
    /// Nobody can go by one of them. What was started under them has no say here: it was.
    pub fn new(newest: Limits, older: Vec<Limits>) -> Result<Self, LimitsError> {
        older.iter().chain([&newest]).try_for_each(Limits::check_pace)?;
        Ok(Self { newest, older })
    }

    /// What workers are told.
    pub const fn newest(&self) -> &Limits {
        &self.newest
    }

    /// New limits were committed; they must not be sent before.
    ///
    /// A version that is not above the newest changes nothing, nor do limits that nobody can go by.
    pub fn committed(&mut self, limits: Limits) {
        if limits.version > self.newest.version && limits.check_pace().is_ok() {
            let limits = limits.after(&self.newest);
            self.older.push(std::mem::replace(&mut self.newest, limits));
        }
    }

    /// The limits after the newest, with marks that allow for all that a worker has, if these do not:
    /// a store that was set back has lost the marks that were raised since.
    pub fn raised_for(&self, held: &[Held]) -> Option<Limits> {
        let raise = |limits: Limits, held: &Held| {
            limits.raised_for(&held.key, held.contract).unwrap_or(limits)
        };
        let has_not_ended =
            |held: &&Held| held.status.as_ref().is_none_or(|status| !status.news.is_end());
        self.next(held.iter().filter(has_not_ended).fold(self.newest, raise))
    }

    /// The same for marks that somebody has seen.
    pub fn raised_to(&self, marks: Marks) -> Option<Limits> {
        self.next(self.newest.with(marks))
    }

    /// These as the limits after the newest, if they are others.
    fn next(&self, raised: Limits) -> Option<Limits> {
        (raised != self.newest)
            .then(|| Limits { version: self.newest.version.saturating_add(1), ..raised })
    }

    /// What was ever started under those that may be in use.
    pub fn marks(&self) -> Marks {
        self.older.iter().map(Limits::marks).fold(self.newest.marks(), Marks::max)
    }

    /// Whether somebody may go by other limits than the newest.
    pub const fn has_older(&self) -> bool {
        !self.older.is_empty()
    }

    /// Retires what nobody goes by any more. `echoes` are the versions that everybody who may run
    /// something has said last, 0 for nothing. Gives the oldest version that is left, if any was
    /// retired.
    pub fn retire(&mut self, echoes: impl Iterator<Item = u64>) -> Option<u64> {
        let lowest = echoes.min().unwrap_or(self.newest.version);
        let before = self.older.len();
        // A worker goes by what it echoed last, so that one, and all after it, may be in use.
        self.older.retain(|limits| limits.version >= lowest);
        let oldest = self.older.first().unwrap_or(&self.newest).version;
        (self.older.len() < before).then_some(oldest)
    }

    /// The largest of a limit among those that may be in use.
    pub fn largest(&self, limit: impl Fn(&Limits) -> Span) -> Span {
        self.older.iter().map(&limit).fold(limit(&self.newest), Span::max)
    }

    /// How the leader judges: by the most patient of the limits that may be in use.
    pub fn terms(&self) -> Terms {
        let of = |part: fn(&Terms) -> Span| self.largest(|limits| part(&limits.leader_terms()));
        Terms {
            heartbeat_gap: of(|terms| terms.heartbeat_gap),
            check_gap: of(|terms| terms.check_gap),
            lose_after: Some(self.largest(|limits| limits.lose_after)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rule_11_lowered_limits_count_only_when_everybody_has_echoed_them() {
        let old = Limits::default();
        let new = Limits { version: 2, lose_after: Span::from_secs(10), ..old };
        let mut book = Book::new(old, Vec::new()).unwrap();
        book.committed(new);
        assert_eq!(book.newest(), &new);
        let mut after =
            |echoes: [u64; 2]| (book.retire(echoes.into_iter()), book.terms().lose_after);
        // One of them was not heard yet.
        assert_eq!(after([2, 0]), (None, Some(Span::from_secs(60))));
        assert_eq!(after([2, 1]), (None, Some(Span::from_secs(60))));
        assert_eq!(after([2, 2]), (Some(2), Some(Span::from_secs(10))));
        assert_eq!(after([2, 2]), (None, Some(Span::from_secs(10))));
    }

    /// A run that was started under a longer `stop_after` has it frozen: who goes by new limits may
    /// still have it.
    #[test]
    fn rule_11_the_marks_of_what_was_started_do_not_fall() {
        let minutes = |count: u64| Span::from_secs(60 * count);
        let old = Limits {
            batch_stop_after_max: minutes(10),
            stop_after_max: minutes(20),
            has_kept_batches: true,
            has_kept_claims: true,
            ..Limits::default()
        };
        let mut book = Book::new(old, Vec::new()).unwrap();
        book.committed(Limits { version: 2, ..Limits::default() });
        book.retire([2].into_iter());
        assert_eq!(book.marks(), old.marks());
        assert_eq!(book.newest().marks(), old.marks());
        assert_eq!(book.newest().version, 2);
    }

    #[test]
    fn rule_11_raised_limits_count_at_once() {
        let old = Limits::default();
        let mut book = Book::new(old, Vec::new()).unwrap();
        book.committed(Limits { version: 2, lose_after: Span::from_secs(90), ..old });
        assert_eq!(book.terms().lose_after, Some(Span::from_secs(90)));
        // A version from before changes nothing.
        book.committed(Limits { version: 1, lose_after: Span::from_secs(99), ..old });
        assert_eq!(book.terms().lose_after, Some(Span::from_secs(90)));
    }

    #[test]
    fn limits_that_nobody_can_go_by_are_in_no_book() {
        let usual = Limits::default();
        let none = Limits { judge_every: Span::ZERO, version: 2, ..usual };
        let hasty = Limits { lose_after: Span::from_millis(1), version: 2, ..usual };
        for wrong in [none, hasty] {
            assert_eq!(Book::new(wrong, Vec::new()).unwrap_err(), wrong.check().unwrap_err());
            assert!(Book::new(usual, vec![wrong]).is_err());
            let mut book = Book::default();
            book.committed(wrong);
            assert_eq!(book.newest(), &usual);
        }
        // What was started is no reason not to begin: the marks were raised when it was.
        let short = Limits { batch_stop_after_max: Span::from_secs(1), ..usual };
        assert!(Book::new(short, Vec::new()).is_ok());
    }
}
