//! P9: once faults stop, everything is well within the stated time.

use super::{Checker, Fact, Promise};
use crate::clock::Moment;

#[derive(Debug)]
pub(crate) struct Converged;

impl Checker for Converged {
    const PROMISE: Promise = Promise::P9;

    fn see(&mut self, _now: Moment, fact: &Fact<'_>) -> Option<String> {
        match fact {
            Fact::NotWell { what, is_forgotten: false } => Some((*what).to_owned()),
            Fact::NotWell { is_forgotten: true, .. }
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
