//! P2: under `stop` and `keep` a key never has two live containers; under `replace` two only while a
//! worker is silent or drained, never three.
//!
//! Whether a second copy under `replace` may be is judged when its claim is committed: whatever else
//! stands in the record and lives is being ended, or is on a machine that is silent or drained. If not,
//! it must not be sent: a commit may stand long after it was decided, and its leader have heard the
//! machine since. When it begins, late perhaps, nothing else may live than what stood beside it then.
//! So nothing depends on how long frames take.
//!
//! A store that was set back has forgotten claims, and no wait is long enough for copies under
//! `replace` on machines that stay silent: those that were claimed before anybody can have noticed that
//! are not counted; nor is anything whose claim is lost, if a server leads that was told nothing of what
//! is lost. Nor is what a machine has that was declared dead and lives: that must end before
//! the machine is confirmed again.

use std::collections::{BTreeMap, BTreeSet};

use sterna_engine::control::RowKey;
use sterna_model::{
    Contract, RunId, WorkKey,
    record::{InstanceCopy, Placed},
};

use super::{
    Changed, Checker, Fact, Promise, Sight, forsaken::Forsaken, silence::Silence,
    unnoticed::Unnoticed,
};
use crate::words::Pace;

#[derive(Debug)]
pub(crate) struct Copies {
    alive: BTreeMap<RunId, (WorkKey, usize, Contract)>,
    gone: BTreeSet<RunId>,
    /// What else stood in the record of an instance when each run was claimed, and its contract.
    beside: BTreeMap<RunId, (Contract, BTreeSet<RunId>)>,
    /// What was claimed beside another one without reason, and is not sent.
    unsent: BTreeMap<RunId, String>,
    /// Under `replace`, from before it was noticed that the store was set back.
    forgotten: BTreeSet<RunId>,
    /// Whether a server leads that was told nothing of what is lost.
    is_unaware: bool,
    forsaken: Forsaken,
    silence: Silence,
    unnoticed: Unnoticed,
}

impl Copies {
    pub(crate) fn new(pace: &Pace) -> Self {
        Self {
            alive: BTreeMap::new(),
            gone: BTreeSet::new(),
            beside: BTreeMap::new(),
            unsent: BTreeMap::new(),
            forgotten: BTreeSet::new(),
            is_unaware: false,
            forsaken: Forsaken::default(),
            silence: Silence::new(pace.timing.lease),
            unnoticed: Unnoticed::default(),
        }
    }

    /// A claim of an instance is committed, perhaps. Gives it, and what is wrong with it.
    fn claimed(&mut self, sight: &Sight<'_>, changed: &Changed) -> Option<(RunId, String)> {
        let RowKey::Instance(key) = &changed.key else { return None };
        let instance = sight.stored.instance(key)?;
        let Placed { run, contract, .. } = instance.copy()?.placed;
        if self.beside.contains_key(&run) {
            return None;
        }
        let others = || instance.copies().filter(|copy| copy.placed.run != run);
        self.beside.insert(run, (contract, others().map(|copy| copy.placed.run).collect()));
        // Also one that has not begun yet: it will.
        let is_free = |copy: &InstanceCopy| copy.stopping.is_none() && self.counts(copy.placed.run);
        others().filter(|copy| is_free(copy)).find_map(|copy| {
            let on = sight.stored.machine_of(copy.placed.on.lock)?;
            let Contract::Replace { after } = copy.placed.contract else { return None };
            let silent = self.silence.silent_for(sight.now, on);
            (!self.silence.excuses(sight, on, after)).then(|| {
                let other = copy.placed.run;
                let what = format!("beside {other:?} on m{on}, heard {silent} ms before");
                (run, format!("{run:?} of {key} was claimed {what}, and is sent"))
            })
        })
    }

    /// Claims under `replace` may be lost; wherever others were, nothing else may run beside them.
    fn forget_claims(&mut self) {
        let replaced = self.beside.iter().filter(|(_, (contract, _))| is_replaced(*contract));
        self.forgotten.extend(replaced.map(|(run, _)| *run));
    }

    /// Whether a run lives or may yet begin, and counts.
    fn counts(&self, run: RunId) -> bool {
        !self.gone.contains(&run) && !self.forgotten.contains(&run) && !self.forsaken.contains(run)
    }

    fn began(&self, run: RunId, key: &WorkKey, contract: Contract) -> Option<String> {
        let others = self
            .alive
            .iter()
            .filter(|(other, (known, ..))| **other != run && known == key && self.counts(**other));
        let others: Vec<(RunId, usize, Contract)> =
            others.map(|(other, (_, on, contract))| (*other, *on, *contract)).collect();
        let stands = |one: RunId, other: RunId| {
            self.beside.get(&one).is_some_and(|(_, beside)| beside.contains(&other))
        };
        // tidy: not a table
        let is_fine = match (contract, others.as_slice()) {
            (_, []) => true,
            (Contract::Replace { .. }, [(other, _, Contract::Replace { .. })]) => {
                stands(run, *other) || stands(*other, run)
            }
            (Contract::Replace { .. } | Contract::Stop { .. } | Contract::Keep, [..]) => false,
        };
        let is_excused = self.forsaken.contains(run) || self.forgotten.contains(&run);
        (!is_fine && !is_excused).then(|| {
            let others = others.iter().map(|(other, on, _)| format!("{other:?} on m{on}"));
            format!("{run:?} of {key} begins beside {:?}", others.collect::<Vec<_>>())
        })
    }
}

const fn is_replaced(contract: Contract) -> bool {
    match contract {
        Contract::Replace { .. } => true,
        Contract::Stop { .. } | Contract::Keep => false,
    }
}

impl Checker for Copies {
    const PROMISE: Promise = Promise::P2;

    fn see(&mut self, sight: &Sight<'_>, fact: &Fact<'_>) -> Option<String> {
        self.silence.see(sight, fact);
        self.unnoticed.see(sight, fact);
        if let Some(what) = self.forsaken.see(sight, fact) {
            return Some(what);
        }
        if let Fact::Gone { run } = fact {
            self.alive.remove(run);
            self.gone.insert(*run);
        }
        if let Fact::Restored = fact {
            // Also those that were claimed, and have not begun.
            self.forget_claims();
            let replaced = self.alive.iter().filter(|(_, (.., contract))| is_replaced(*contract));
            self.forgotten.extend(replaced.map(|(run, _)| *run));
        }
        if let Fact::TookOffice { is_unaware } = fact {
            self.is_unaware = *is_unaware;
            let is_lost = |run: &RunId, key: &WorkKey| !sight.stored.is_claimed(key, *run);
            let lost = self.alive.iter().filter(|(run, (key, ..))| is_lost(run, key));
            self.forgotten.extend(lost.map(|(run, _)| *run).filter(|_| *is_unaware));
        }
        if let Fact::Committed { changes, .. } = fact {
            let is_unnoticed = self.unnoticed.is_so();
            for changed in *changes {
                let known = self.beside.len();
                let wrong = self.claimed(sight, changed);
                if is_unnoticed && self.beside.len() > known {
                    self.forget_claims();
                } else {
                    self.unsent.extend(wrong);
                }
            }
        }
        if let Fact::Sent { run, .. } = fact {
            return self.unsent.remove(&run.run);
        }
        let Fact::Began { run, container } = fact else { return None };
        let (key, contract) = (container.key.clone(), container.contract);
        if self.is_unaware && !sight.stored.is_claimed(&key, *run) {
            self.forgotten.insert(*run);
        }
        let what = self.began(*run, &key, contract);
        self.alive.insert(*run, (key, container.machine, contract));
        what
    }
}
