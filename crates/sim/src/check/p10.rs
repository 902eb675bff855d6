//! P10: nothing under `stop` or `keep` is sent while a machine that is missing may be running it.
//!
//! Who may be running a task or an instance stands in its claims: its own claim must stand there when
//! it is sent, and no other. Batches have no claims: after a change of leader everybody on the roster
//! must have said what it runs, or be certainly gone. And where a worker is missing its containers live
//! as long as their contracts allow: what may be running there is running there.

use std::collections::{BTreeMap, BTreeSet};

use sterna_model::{Contract, Lock, RunId, Term, Work, WorkKey};
use sterna_protocol::message::Run;

use super::{Checker, Fact, Promise, Sight, forsaken::Forsaken};
use crate::clock::Moment;

/// How long after a restore a leader may not have noticed.
const NOTICED_WITHIN: u64 = 20_000;

#[derive(Debug, Default)]
pub(crate) struct Missing {
    alive: BTreeMap<RunId, (WorkKey, usize)>,
    forsaken: Forsaken,
    term: Option<Term>,
    elected: Moment,
    /// Who was on the roster when this term began, and has not said what it runs.
    awaited: BTreeSet<Lock>,
    restored: Option<Moment>,
}

impl Missing {
    fn begin(&mut self, sight: &Sight<'_>) {
        if self.term != sight.stored.term() {
            self.term = sight.stored.term();
            self.elected = sight.now;
            self.awaited = sight.stored.roster().map(|(lock, _)| lock).collect();
        }
    }

    /// What claims say against it.
    fn claimed(&self, sight: &Sight<'_>, run: &Run) -> Option<String> {
        if self.restored.is_some_and(|at| sight.now < at + NOTICED_WITHIN) {
            return None;
        }
        let claims = sight.stored.claims(&run.key);
        if !claims.iter().any(|claim| claim.run == run.run) {
            return Some(format!("{:?} of {} is sent before its claim stands", run.run, run.key));
        }
        let other = claims.iter().find(|claim| claim.run != run.run)?;
        Some(format!("{:?} of {} is sent while {other:?} may have it", run.run, run.key))
    }

    /// What the roster says against it.
    fn awaited(&self, sight: &Sight<'_>, run: &Run) -> Option<String> {
        let waited = sight.now - self.elected;
        // Clocks differ by a thousandth.
        let is_over = sight
            .stored
            .batch_wait()
            .is_some_and(|wait| waited >= wait.as_millis() - wait.as_millis() / 500);
        if is_over {
            return None;
        }
        let mut roster = sight.stored.roster();
        let (lock, _) = roster.find(|(lock, is_dead)| !is_dead && self.awaited.contains(lock))?;
        let machine = sight.stored.machine_of(lock)?;
        Some(format!(
            "{:?} of {} is sent, and m{machine} has not said whether it runs it",
            run.run, run.key
        ))
    }
}

impl Checker for Missing {
    const PROMISE: Promise = Promise::P10;

    fn see(&mut self, sight: &Sight<'_>, fact: &Fact<'_>) -> Option<String> {
        // What is broken by it is said by the checker of P2.
        drop(self.forsaken.see(sight, fact));
        if let Fact::Began { run, container } = fact {
            self.alive.insert(*run, (container.key.clone(), container.machine));
        }
        if let Fact::Gone { run } = fact {
            self.alive.remove(run);
        }
        if let Fact::Committed { .. } = fact {
            self.begin(sight);
        }
        if let Fact::Restored = fact {
            self.restored = Some(sight.now);
            self.awaited.clear();
        }
        if let Fact::Listed { machine, term, .. } = fact
            && self.term == Some(*term)
        {
            self.awaited.retain(|lock| sight.stored.machine_of(*lock) != Some(*machine));
        }
        let Fact::Sent { run, term, .. } = fact else { return None };
        let is_strict = match run.contract {
            Contract::Stop { .. } | Contract::Keep => true,
            Contract::Replace { .. } => false,
        };
        let said = match &run.key.work {
            Work::Task(_) | Work::Instance { .. } => {
                let said = self.claimed(sight, run);
                let is_own = !sight.stored.claims(&run.key).iter().any(|one| one.run == run.run);
                said.filter(|_| is_strict || is_own)
            }
            Work::Node { .. } if self.term == Some(*term) => self.awaited(sight, run),
            Work::Node { .. } => None,
        };
        if said.is_some() || !is_strict {
            return said;
        }
        let (other, (_, machine)) = self
            .alive
            .iter()
            .find(|(id, (other, _))| *other == run.key && !self.forsaken.contains(**id))?;
        Some(format!("{:?} of {} is sent while {other:?} runs on m{machine}", run.run, run.key))
    }
}
