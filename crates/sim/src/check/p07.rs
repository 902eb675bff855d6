//! P7: a deposed leader changes nothing.
//!
//! No commit of a reign applies when the store names another. No machine does what an older leader says
//! after it has done what a newer one said, nor what two say who were elected to one term: a store that
//! was set back has lived twice, and what was drawn with the term tells them apart. A run counts when it
//! is accepted: its command may begin later, when somebody else leads.

use std::{cmp::Ordering, collections::BTreeMap};

use sterna_protocol::message::Mandate;
use sterna_store::leader::Reign;

use super::{Checker, Fact, Promise, Sight};

#[derive(Debug, Default)]
pub(crate) struct Deposed {
    /// Whose orders each machine has followed, the newest.
    followed: BTreeMap<usize, Mandate>,
}

impl Deposed {
    /// Notes whom a machine follows; gives whom it has followed, if that is not one before this.
    fn follow(&mut self, machine: usize, mandate: Mandate) -> Option<Mandate> {
        let newest = self.followed.entry(machine).or_insert(mandate);
        let before = *newest;
        match (mandate.epoch, mandate.term).cmp(&(before.epoch, before.term)) {
            Ordering::Greater => {
                *newest = mandate;
                None
            }
            Ordering::Equal => (mandate.nonce != before.nonce).then_some(before),
            Ordering::Less => Some(before),
        }
    }
}

/// A reign, without what its leader raises in it.
fn is_same(one: Reign, other: Reign) -> bool {
    (one.term, one.nonce) == (other.term, other.nonce)
}

impl Checker for Deposed {
    const PROMISE: Promise = Promise::P7;

    fn see(&mut self, _sight: &Sight<'_>, fact: &Fact<'_>) -> Option<String> {
        if let Fact::Committed { applied, .. } = fact {
            let (said, stood) = (applied.said?, applied.reign?);
            let revision = applied.revision;
            return (!is_same(said, stood)).then(|| {
                format!("a commit of {said:?} applied at {revision:?}, when {stood:?} stood")
            });
        }
        if let Fact::Followed { machine, mandate } = fact {
            let before = self.follow(*machine, *mandate)?;
            return Some(format!(
                "m{machine} does what {mandate:?} says, and has followed {before:?}"
            ));
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use sterna_model::{ClusterId, Epoch, Nonce, Term, WallTime};

    use super::*;

    fn mandate(epoch: u64, term: u64, nonce: u64) -> Mandate {
        let cluster = ClusterId::from_parts(WallTime::EPOCH, [1; 10]);
        Mandate {
            cluster,
            epoch: Epoch::new(epoch),
            term: Term::new(term),
            nonce: Nonce::new(nonce),
        }
    }

    #[test]
    fn two_leaders_of_one_term_are_told_apart() {
        let mut deposed = Deposed::default();
        assert_eq!(deposed.follow(0, mandate(1, 3, 7)), None);
        assert_eq!(deposed.follow(0, mandate(1, 3, 7)), None);
        assert_eq!(deposed.follow(0, mandate(1, 3, 8)), Some(mandate(1, 3, 7)));
        // Each machine for itself, and a later one is followed.
        assert_eq!(deposed.follow(1, mandate(1, 3, 8)), None);
        assert_eq!(deposed.follow(0, mandate(1, 4, 8)), None);
        assert_eq!(deposed.follow(0, mandate(1, 3, 7)), Some(mandate(1, 4, 8)));
        assert_eq!(deposed.follow(0, mandate(2, 1, 9)), None);
    }
}
