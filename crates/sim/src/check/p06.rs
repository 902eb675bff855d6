//! P6: no worker is given more than it has, stopping containers included. (Nodes have no resources of
//! their own yet.)
//!
//! What a store that was set back has forgotten is not counted: nobody knows what it takes before its
//! machine is back, and work that was given to the machine until then begins beside it.

use std::collections::BTreeMap;

use sterna_model::{RunId, WorkKey};

use super::{Checker, Fact, Promise, Sight};
use crate::words::{CAPACITY, Size};

#[derive(Debug, Default)]
pub(crate) struct Room {
    /// What it is, where, and how much it takes there.
    alive: BTreeMap<RunId, (WorkKey, usize, Size)>,
}

impl Checker for Room {
    const PROMISE: Promise = Promise::P6;

    fn see(&mut self, sight: &Sight<'_>, fact: &Fact<'_>) -> Option<String> {
        if let Fact::Gone { run } = fact {
            self.alive.remove(run);
        }
        let is_known = |run: &RunId, key: &WorkKey| {
            sight.stored.claims(key).iter().any(|claim| claim.run == *run)
        };
        if let Fact::Restored = fact {
            self.alive.retain(|run, (key, ..)| is_known(run, key));
        }
        let Fact::Began { run, container } = fact else { return None };
        // Also one that was on its way when its claim was lost.
        if !is_known(run, &container.key) {
            return None;
        }
        let machine = container.machine;
        let takes = sight.stored.taken_by(&container.key, *run);
        self.alive.insert(*run, (container.key.clone(), machine, takes));
        let there = self.alive.values().filter(|(_, on, _)| *on == machine);
        let used = there.fold(Size::default(), |used, (.., takes)| used.plus(*takes));
        (!used.fits(CAPACITY)).then(|| format!("m{machine} has {CAPACITY:?}, and {used:?} is used"))
    }
}
