//! P3: work that was on a lost worker is started elsewhere, unless a rule forbids it.
//!
//! Once faults are over every wanted key must run, and every task must have ended, within the
//! stated time. Excused is what waits for a machine of which nobody says that it is gone, and what
//! no machine has room for.

use super::{Checker, Fact, Promise};
use crate::clock::Moment;

#[derive(Debug)]
pub(crate) struct StartedElsewhere;

impl Checker for StartedElsewhere {
    const PROMISE: Promise = Promise::P3;

    fn see(&mut self, _now: Moment, fact: &Fact<'_>) -> Option<String> {
        match fact {
            Fact::NotWell { what, is_forgotten: true } => Some((*what).to_owned()),
            Fact::NotWell { is_forgotten: false, .. }
            | Fact::Sent { .. }
            | Fact::Began { .. }
            | Fact::Gone { .. }
            | Fact::WorkerGone { .. }
            | Fact::GuardianStopped { .. }
            | Fact::Committed { .. }
            | Fact::Restored
            | Fact::Acknowledged { .. }
            | Fact::Forgotten { .. }
            | Fact::Enrolled { .. }
            | Fact::Confirmed { .. }
            | Fact::Calm
            | Fact::Well => None,
        }
    }
}
