//! For how long nobody may have noticed that the store was set back.
//!
//! Who led then goes on until an answer of the store is lower than one before, which the next renewal
//! of its lease brings, or until the lease ends; nobody else is elected before that. So no number is
//! needed: everything counts again from the first commit of another reign on. That one opens the
//! recovered epoch, or is of somebody who found that nothing is missing.

use sterna_model::Nonce;

use super::{Fact, Sight};

#[derive(Debug, Default)]
pub(super) struct Unnoticed {
    /// The reign that the store named when it was set back.
    under: Option<Option<Nonce>>,
}

impl Unnoticed {
    pub(super) fn see(&mut self, sight: &Sight<'_>, fact: &Fact<'_>) {
        if let Fact::Restored = fact {
            self.under = Some(sight.stored.nonce());
        }
        if let Fact::Committed { applied, .. } = fact
            && applied.said.is_some()
            && self.under.is_some_and(|under| applied.reign.map(|reign| reign.nonce) != under)
        {
            self.under = None;
        }
    }

    /// Whether the store was set back, and nobody may know.
    pub(super) const fn is_so(&self) -> bool {
        self.under.is_some()
    }
}
