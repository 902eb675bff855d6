//! P7: a deposed leader changes nothing.
//!
//! No commit of a term applies when the store names another. No machine does what an older leader says
//! after it has done what a newer one said. A run counts when it is accepted: its command may begin
//! later, when somebody else leads.

use std::collections::BTreeMap;

use sterna_model::{Epoch, Term};

use super::{Checker, Fact, Promise, Sight};

#[derive(Debug, Default)]
pub(crate) struct Deposed {
    /// Whose orders each machine has followed.
    followed: BTreeMap<usize, (Epoch, Term)>,
}

/// Notes the newest; gives it if this one is older.
fn note(
    all: &mut BTreeMap<usize, (Epoch, Term)>,
    machine: usize,
    reign: (Epoch, Term),
) -> Option<(Epoch, Term)> {
    let newest = all.entry(machine).or_insert(reign);
    let before = *newest;
    *newest = before.max(reign);
    (reign < before).then_some(before)
}

impl Checker for Deposed {
    const PROMISE: Promise = Promise::P7;

    fn see(&mut self, _sight: &Sight<'_>, fact: &Fact<'_>) -> Option<String> {
        if let Fact::Committed { applied, .. } = fact {
            let (said, stood) = (applied.term?, applied.reign?.term);
            let revision = applied.revision;
            return (said != stood).then(|| {
                format!("a commit of {said:?} applied at {revision:?}, when {stood:?} stood")
            });
        }
        if let Fact::Followed { machine, reign } = fact {
            let before = note(&mut self.followed, *machine, *reign)?;
            return Some(format!(
                "m{machine} does what {reign:?} says, and has followed {before:?}"
            ));
        }
        None
    }
}
