//! P3: work that was on a lost worker is started elsewhere, unless a rule forbids it.
//!
//! Once faults are over every wanted key must run, and every task must have ended, within the stated
//! time. Excused is, in `well.rs`, exactly what a rule makes wait for a machine of which nobody says what
//! became of it, for as long as nobody does: what it may keep, an index of which it has the second slot
//! or both (rules 20, 22 and 25), and what no machine has room for. Somebody who says it ends the wait:
//! such machines are declared dead in other seeds.

use super::{Checker, Fact, Promise, Sight};

#[derive(Debug)]
pub(crate) struct StartedElsewhere;

impl Checker for StartedElsewhere {
    const PROMISE: Promise = Promise::P3;

    fn see(&mut self, _sight: &Sight<'_>, fact: &Fact<'_>) -> Option<String> {
        let Fact::NotWell { unwell } = fact else { return None };
        unwell.is_forgotten.then(|| unwell.text.clone())
    }
}
