//! P10: nothing under `stop` or `keep` is sent while a machine that is missing may be running it.
//!
//! Who may be running a task or an instance stands in its claims: its own claim must stand there when
//! it is sent, and no other. Batches have no claims: after a change of leader everybody on the roster
//! must have said what it runs, or be certainly gone. And where a worker is missing its containers live
//! as long as their contracts allow: what may be running there is running there.
//!
//! How long that is the marks say of what was ever started; they never fall (safety rule 11).
//!
//! Claims that were lost with a store bind nobody until that is noticed (`unnoticed.rs`); what runs
//! binds then, too; but where a server leads that was told nothing of what is lost.

use std::collections::{BTreeMap, BTreeSet};

use sterna_engine::control::Row;
use sterna_model::{Contract, Lock, Marks, RunId, Span, Term, WorkKey};
use sterna_protocol::{limits::Limits, message::Run};

use super::{Changed, Checker, Fact, Promise, Sight, forsaken::Forsaken, unnoticed::Unnoticed};
use crate::{clock::Moment, words::Pace};

#[derive(Debug)]
pub(crate) struct Missing {
    usual: Limits,
    alive: BTreeMap<RunId, (WorkKey, usize, Contract)>,
    /// Under `replace`, and forgotten by a store that was set back: no wait is long enough for it.
    forgotten: BTreeSet<RunId>,
    was_restored: bool,
    /// Whether a server leads that was told nothing of what is lost.
    is_unaware: bool,
    forsaken: Forsaken,
    term: Option<Term>,
    elected: Moment,
    /// Who was on the roster when this term began, and has not said what it runs.
    awaited: BTreeSet<Lock>,
    unnoticed: Unnoticed,
    /// The longest that any batch was ever sent with, and whether one was to be kept.
    longest: Span,
    was_kept: bool,
}

impl Missing {
    pub(crate) fn new(pace: &Pace) -> Self {
        Self {
            usual: pace.limits,
            alive: BTreeMap::new(),
            forgotten: BTreeSet::new(),
            was_restored: false,
            is_unaware: false,
            forsaken: Forsaken::default(),
            term: None,
            elected: 0,
            awaited: BTreeSet::new(),
            unnoticed: Unnoticed::default(),
            longest: Span::ZERO,
            was_kept: false,
        }
    }

    fn begin(&mut self, sight: &Sight<'_>) {
        if self.term != sight.stored.term() {
            self.term = sight.stored.term();
            self.elected = sight.now;
            self.awaited = sight.stored.roster().map(|(lock, _)| lock).collect();
        }
    }

    fn note_forgotten(&mut self, sight: &Sight<'_>, run: RunId) {
        let Some((key, _, contract)) = self.alive.get(&run) else { return };
        let is_replaced = matches!(contract, Contract::Replace { .. });
        let is_bound = !is_replaced && !self.is_unaware;
        if self.was_restored && !is_bound && !sight.stored.is_claimed(key, run) {
            self.forgotten.insert(run);
        }
    }

    /// How long a batch may last that is sent: the next leader waits for that.
    fn note_batch(&mut self, run: &Run) {
        if run.key.is_in_batch() {
            let after = run.contract.stop_after();
            self.longest = self.longest.max(after.unwrap_or(Span::ZERO));
            self.was_kept |= run.contract == Contract::Keep;
        }
    }

    /// What claims say against it.
    fn claimed(&self, sight: &Sight<'_>, run: &Run) -> Option<String> {
        if self.unnoticed.is_so() {
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
            .batch_wait(&self.usual)
            // What was sent counts, whatever the marks say of it.
            .filter(|_| !self.was_kept)
            .map(|wait| wait.max(self.longest))
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

/// Marks of what was ever started that a commit has lowered: the next leader would wait too short a time.
fn fallen(sight: &Sight<'_>, changed: &Changed) -> Option<String> {
    let marks = |record: &Row| {
        let Row::Limits(all) = record else { return None };
        all.iter().map(Limits::marks).reduce(Marks::max)
    };
    let before = changed.before.as_ref().and_then(marks)?;
    let after = sight.stored.get(&changed.key).and_then(marks).unwrap_or(Marks::NONE);
    (after.max(before) != after).then(|| format!("the marks were {before:?}, and are {after:?}"))
}

impl Checker for Missing {
    const PROMISE: Promise = Promise::P10;

    fn see(&mut self, sight: &Sight<'_>, fact: &Fact<'_>) -> Option<String> {
        // What is broken by it is said by the checker of P2.
        drop(self.forsaken.see(sight, fact));
        self.unnoticed.see(sight, fact);
        if let Fact::Began { run, container } = fact {
            let (key, contract) = (container.key.clone(), container.contract);
            self.alive.insert(*run, (key, container.machine, contract));
            self.note_forgotten(sight, *run);
        }
        if let Fact::Gone { run } = fact {
            self.alive.remove(run);
        }
        if let Fact::Committed { changes, .. } = fact {
            self.begin(sight);
            if let Some(what) = changes.iter().find_map(|changed| fallen(sight, changed)) {
                return Some(what);
            }
        }
        if let Fact::Restored = fact {
            self.awaited.clear();
            self.was_restored = true;
        }
        if let Fact::TookOffice { is_unaware } = fact {
            self.is_unaware = *is_unaware;
        }
        if let Fact::Restored | Fact::TookOffice { .. } = fact {
            for run in self.alive.keys().copied().collect::<Vec<_>>() {
                self.note_forgotten(sight, run);
            }
        }
        if let Fact::Listed { machine, term, .. } = fact
            && self.term == Some(*term)
        {
            self.awaited.retain(|lock| sight.stored.machine_of(*lock) != Some(*machine));
        }
        let Fact::Sent { run, term, .. } = fact else { return None };
        self.note_batch(run);
        let is_strict = match run.contract {
            Contract::Stop { .. } | Contract::Keep => true,
            Contract::Replace { .. } => false,
        };
        let said = match &run.key {
            WorkKey::Task(_) | WorkKey::Instance(_) => {
                let said = self.claimed(sight, run);
                let is_own = !sight.stored.claims(&run.key).iter().any(|one| one.run == run.run);
                said.filter(|_| is_strict || is_own)
            }
            WorkKey::Node(_) if self.term == Some(*term) => self.awaited(sight, run),
            WorkKey::Node(_) => None,
        };
        if said.is_some() || !is_strict {
            return said;
        }
        let (other, (_, machine, _)) = self
            .alive
            .iter()
            .filter(|(id, _)| !self.forsaken.contains(**id) && !self.forgotten.contains(*id))
            .find(|(_, (other, ..))| *other == run.key)?;
        Some(format!("{:?} of {} is sent while {other:?} runs on m{machine}", run.run, run.key))
    }
}
