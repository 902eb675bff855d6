//! P2: under `stop` and `keep` a key never has two live containers; under `replace` two only while a
//! worker is silent or drained, never three.
//!
//! A store that was set back has forgotten claims, and no wait is long enough for copies under
//! `replace` on machines that stay silent: those from before are not counted. Nor is what a machine
//! has that was declared dead and lives: that must end before the machine is confirmed again.

use std::collections::{BTreeMap, BTreeSet};

use sterna_model::{Contract, RunId, WorkKey};

use super::{Checker, Fact, Promise, Sight, forsaken::Forsaken, silence::Silence};

#[derive(Debug, Default)]
pub(crate) struct Copies {
    alive: BTreeMap<RunId, (WorkKey, usize, Contract)>,
    /// Under `replace`, from before the store was set back.
    forgotten: BTreeSet<RunId>,
    forsaken: Forsaken,
    silence: Silence,
}

impl Checker for Copies {
    const PROMISE: Promise = Promise::P2;

    fn see(&mut self, sight: &Sight<'_>, fact: &Fact<'_>) -> Option<String> {
        self.silence.see(sight, fact);
        if let Some(what) = self.forsaken.see(sight, fact) {
            return Some(what);
        }
        if let Fact::Gone { run } = fact {
            self.alive.remove(run);
            self.forgotten.remove(run);
        }
        if let Fact::Restored = fact {
            let is_replaced = |contract: &Contract| matches!(contract, Contract::Replace { .. });
            let replaced = self.alive.iter().filter(|(_, (.., contract))| is_replaced(contract));
            self.forgotten.extend(replaced.map(|(run, _)| *run));
        }
        let Fact::Began { run, container } = fact else { return None };
        let (key, machine) = (container.key.clone(), container.machine);
        let others: Vec<(RunId, usize, Contract)> = self
            .alive
            .iter()
            .filter(|(run, (other, ..))| *other == key && !self.forgotten.contains(run))
            .filter(|(run, _)| !self.forsaken.contains(**run))
            .map(|(run, (_, machine, contract))| (*run, *machine, *contract))
            .collect();
        self.alive.insert(*run, (key.clone(), machine, container.contract));
        // tidy: not a table
        let is_fine = match (container.contract, others.as_slice()) {
            (_, []) => true,
            (Contract::Replace { .. }, [(_, on, Contract::Replace { after })]) => {
                let excuses = |machine| self.silence.excuses(sight, machine, *after);
                excuses(*on) || excuses(machine)
            }
            (Contract::Replace { .. } | Contract::Stop { .. } | Contract::Keep, [..]) => false,
        };
        let others = others.iter().map(|(run, on, _)| {
            let silent = self.silence.silent_for(sight.now, *on);
            format!("{run:?} on m{on}, heard {silent} ms ago")
        });
        (!is_fine && !self.forsaken.contains(*run)).then(|| {
            let others: Vec<_> = others.collect();
            format!("{run:?} of {key} begins on m{machine} beside {others:?}")
        })
    }
}
