//! Whether a store on a server has gone back under us (safety rule 25).
//!
//! Revisions only grow, and every answer carries one. An answer to what was asked after a higher
//! revision was told comes from a store that has lost something: an older backup was restored, or
//! a standby took over that lagged. Nothing of it may be believed, and it must not pass for whole
//! when it has counted on: so from then on nothing is asked of it until it is opened again, where
//! `cluster::judge` finds out what that means.

use std::sync::atomic::{AtomicU64, Ordering};

use sterna_model::Revision;

use crate::WentBack;

/// The highest revision that this process was told, and what put an end to that.
#[derive(Debug)]
pub(crate) struct Reached {
    highest: AtomicU64,
    /// What the store had gone back to; `u64::MAX` while it has not.
    fallen_to: AtomicU64,
}

/// What had been told before a call was sent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mark(Revision);

impl Reached {
    pub(crate) const fn new() -> Self {
        Self { highest: AtomicU64::new(0), fallen_to: AtomicU64::new(u64::MAX) }
    }

    /// The highest revision that was told.
    pub(crate) fn highest(&self) -> Revision {
        Revision::new(self.highest.load(Ordering::Acquire))
    }

    /// To be taken before a call is sent.
    ///
    /// # Errors
    /// The store has gone back.
    pub(crate) fn mark(&self) -> Result<Mark, WentBack> {
        match self.fallen_to.load(Ordering::Acquire) {
            u64::MAX => Ok(Mark(self.highest())),
            fallen_to => Err(self.fallen(Revision::new(fallen_to))),
        }
    }

    /// Holds the revision that an answer carries against what had been told before it was asked
    /// for. Concurrent answers may overtake each other, so only that is compared.
    ///
    /// # Errors
    /// The store has gone back.
    pub(crate) fn note(&self, mark: Mark, now: Revision) -> Result<(), WentBack> {
        if now < mark.0 {
            self.fallen_to.store(now.get(), Ordering::Release);
            return Err(self.fallen(now));
        }
        self.highest.fetch_max(now.get(), Ordering::AcqRel);
        Ok(())
    }

    /// The same of a commit that was applied and wrote something: it has a revision of its own. If that
    /// was told before, the store has lost what had it.
    ///
    /// # Errors
    /// The store has gone back.
    #[cfg(any(test, feature = "etcd"))]
    pub(crate) fn note_applied(&self, mark: Mark, now: Revision) -> Result<(), WentBack> {
        let before = Revision::new(now.get().saturating_sub(1));
        self.note(mark, before)?;
        self.note(mark, now)
    }

    fn fallen(&self, to: Revision) -> WentBack {
        WentBack { seen: self.highest(), found: to }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(number: u64) -> Revision {
        Revision::new(number)
    }

    #[test]
    fn answers_that_overtake_each_other_are_no_going_back() {
        let reached = Reached::new();
        let (early, late) = (reached.mark().unwrap(), reached.mark().unwrap());
        reached.note(late, at(7)).unwrap();
        reached.note(early, at(5)).unwrap();
        assert_eq!(reached.highest(), at(7));
    }

    /// The leader's last commit was lost, and its next one got the same revision.
    #[test]
    fn a_commit_with_a_revision_that_was_told_is_one_of_a_store_that_has_gone_back() {
        let reached = Reached::new();
        reached.note_applied(reached.mark().unwrap(), at(7)).unwrap();
        reached.note(reached.mark().unwrap(), at(7)).unwrap();
        assert_eq!(reached.note_applied(reached.mark().unwrap(), at(7)).unwrap_err().found, at(6));
        assert!(reached.mark().is_err());
    }

    #[test]
    fn a_store_that_has_gone_back_is_not_believed_again() {
        let reached = Reached::new();
        reached.note(reached.mark().unwrap(), at(7)).unwrap();
        let mark = reached.mark().unwrap();
        let told = reached.note(mark, at(6)).unwrap_err().to_string();
        let expected = "the store has gone back from rev7 to rev6: an older backup was restored, or a \
                        standby took over that lagged; open it again, and what follows is decided \
                        by what was seen of it";
        assert_eq!(told, expected);
        // Even if it has counted on meanwhile.
        reached.note(mark, at(9)).unwrap();
        assert_eq!(reached.mark().unwrap_err().found, at(6));
    }
}
