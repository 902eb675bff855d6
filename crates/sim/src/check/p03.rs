//! P3: work that was on a lost worker is started elsewhere, unless a rule forbids it.
//!
//! Once faults are over every wanted key must run, and every task must have ended, within the stated
//! time: `well.rs` says what is excused.

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
