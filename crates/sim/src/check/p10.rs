//! P10: nothing under `stop` or `keep` is sent while a machine that is missing may be running it.
//!
//! Where a worker is missing its containers live as long as their contracts allow; so what may be
//! running there is running there.

use std::collections::BTreeMap;

use sterna_model::{Contract, RunId, WorkKey};

use super::{Checker, Fact, Promise, forsaken::Forsaken};
use crate::clock::Moment;

#[derive(Debug, Default)]
pub(crate) struct Missing {
    alive: BTreeMap<RunId, (WorkKey, usize)>,
    forsaken: Forsaken,
}

impl Checker for Missing {
    const PROMISE: Promise = Promise::P10;

    fn see(&mut self, _now: Moment, fact: &Fact<'_>) -> Option<String> {
        // What is broken by it is said by the checker of P2.
        drop(self.forsaken.see(fact));
        match fact {
            Fact::Sent { run, key, contract } => {
                match contract {
                    Contract::Stop { .. } | Contract::Keep => {}
                    Contract::Replace { .. } => return None,
                }
                let (other, (_, machine)) = self
                    .alive
                    .iter()
                    .find(|(run, (other, _))| other == *key && !self.forsaken.contains(**run))?;
                Some(format!("{run:?} of {key} is sent while {other:?} runs on m{machine}"))
            }
            Fact::Began { run, container } => {
                self.alive.insert(*run, (container.key.clone(), container.machine));
                None
            }
            Fact::Gone { run } => {
                self.alive.remove(run);
                None
            }
            Fact::WorkerGone { .. }
            | Fact::GuardianStopped { .. }
            | Fact::Committed { .. }
            | Fact::Restored
            | Fact::Acknowledged { .. }
            | Fact::Forgotten { .. }
            | Fact::Enrolled { .. }
            | Fact::Confirmed { .. }
            | Fact::Calm
            | Fact::Well
            | Fact::NotWell { .. } => None,
        }
    }
}
