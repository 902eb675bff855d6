//! What a machine had when it was declared dead, though it lived.
//!
//! Its keys were free from then on, by the word of somebody who should have known. So what it still runs
//! is not counted as a copy; but it must be gone before any leader confirms the machine again (safety
//! rule 24).

use std::collections::{BTreeMap, BTreeSet};

use sterna_model::{RunId, Term};

use super::Fact;

#[derive(Debug, Default)]
pub(super) struct Forsaken {
    declared: BTreeMap<usize, Declared>,
    alive: BTreeMap<RunId, usize>,
    runs: BTreeSet<RunId>,
}

#[derive(Debug)]
struct Declared {
    life: u64,
    term: Option<Term>,
    /// Whether the roster says so at this moment.
    is_marked: bool,
}

impl Forsaken {
    pub(super) fn contains(&self, run: RunId) -> bool {
        self.runs.contains(&run)
    }

    /// Sees a fact, and says what is broken by it.
    pub(super) fn see(&mut self, fact: &Fact<'_>) -> Option<String> {
        match fact {
            Fact::Began { run, container } => {
                self.alive.insert(*run, container.machine);
                if self.declared.contains_key(&container.machine) {
                    self.runs.insert(*run);
                }
            }
            Fact::Gone { run } => {
                self.alive.remove(run);
                self.runs.remove(run);
            }
            Fact::Enrolled { machine, dead: Some((life, term)) } => {
                if self.declared.get(machine).is_none_or(|declared| !declared.is_marked) {
                    let declared = Declared { life: *life, term: *term, is_marked: true };
                    self.declared.insert(*machine, declared);
                    let there = self.alive.iter().filter(|(_, on)| *on == machine);
                    self.runs.extend(there.map(|(run, _)| *run));
                }
            }
            Fact::Enrolled { machine, dead: None } => {
                if let Some(declared) = self.declared.get_mut(machine) {
                    declared.is_marked = false;
                }
            }
            // A leader that has not heard of the declaration confirms the same life still.
            Fact::Confirmed { machine, life, term } => {
                let declared = self.declared.get(machine)?;
                if declared.term == Some(*term) && *life <= declared.life {
                    return None;
                }
                self.declared.remove(machine);
                let is_left = |run: &&RunId| self.alive.get(*run) == Some(machine);
                let run = self.runs.iter().find(is_left)?;
                return Some(format!(
                    "m{machine} was declared dead, and is confirmed while {run:?} goes on there"
                ));
            }
            // The mark may be lost with the store.
            Fact::Restored => self.declared.clear(),
            Fact::Sent { .. }
            | Fact::WorkerGone { .. }
            | Fact::GuardianStopped { .. }
            | Fact::Committed { .. }
            | Fact::Acknowledged { .. }
            | Fact::Forgotten { .. }
            | Fact::Calm
            | Fact::Well
            | Fact::NotWell { .. } => {}
        }
        None
    }
}
