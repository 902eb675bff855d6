//! P2: under `stop` and `keep` a key never has two live containers, under `replace` never three.
//!
//! A store that was set back has forgotten claims, and no wait is long enough for copies under
//! `replace` on machines that stay silent: those from before are not counted. Nor is what a machine
//! has that was declared dead and lives: that must end before the machine is confirmed again.

use std::collections::{BTreeMap, BTreeSet};

use sterna_model::{Contract, RunId, WorkKey};

use super::{Checker, Fact, Promise, forsaken::Forsaken};
use crate::clock::Moment;

#[derive(Debug, Default)]
pub(crate) struct Copies {
    alive: BTreeMap<RunId, (WorkKey, usize)>,
    /// Under `replace`, from before the store was set back.
    forgotten: BTreeSet<RunId>,
    replaced: BTreeSet<RunId>,
    forsaken: Forsaken,
}

impl Checker for Copies {
    const PROMISE: Promise = Promise::P2;

    fn see(&mut self, _now: Moment, fact: &Fact<'_>) -> Option<String> {
        if let Some(what) = self.forsaken.see(fact) {
            return Some(what);
        }
        match fact {
            Fact::Began { run, container } => {
                let (key, machine) = (container.key.clone(), container.machine);
                let others: Vec<String> = self
                    .alive
                    .iter()
                    .filter(|(run, (other, _))| *other == key && !self.forgotten.contains(run))
                    .filter(|(run, _)| !self.forsaken.contains(**run))
                    .map(|(run, (_, machine))| format!("{run:?} on m{machine}"))
                    .collect();
                self.alive.insert(*run, (key.clone(), machine));
                let max = match container.contract {
                    Contract::Stop { .. } | Contract::Keep => 0,
                    Contract::Replace { .. } => {
                        self.replaced.insert(*run);
                        1
                    }
                };
                (others.len() > max && !self.forsaken.contains(*run))
                    .then(|| format!("{run:?} of {key} begins on m{machine} beside {others:?}"))
            }
            Fact::Gone { run } => {
                self.alive.remove(run);
                self.forgotten.remove(run);
                self.replaced.remove(run);
                None
            }
            Fact::Restored => {
                self.forgotten.append(&mut self.replaced);
                None
            }
            Fact::Sent { .. }
            | Fact::WorkerGone { .. }
            | Fact::GuardianStopped { .. }
            | Fact::Committed { .. }
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
