//! What a machine had when it was declared dead, though it lived.
//!
//! Its keys were free from then on, by the word of somebody who should have known. So what it still runs
//! is not counted as a copy; but it must be gone before the roster takes the machine for alive, or any
//! leader confirms it again (safety rule 24).

use std::collections::{BTreeMap, BTreeSet};

use sterna_model::{RunId, Term};

use super::{Fact, Mark};

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

    fn left(&self, machine: usize) -> Option<RunId> {
        self.runs.iter().copied().find(|run| self.alive.get(run) == Some(&machine))
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
            Fact::Enrolled { machine, mark: Mark::Dead(life, term) } => {
                if self.declared.get(machine).is_none_or(|declared| !declared.is_marked) {
                    let declared = Declared { life: *life, term: *term, is_marked: true };
                    self.declared.insert(*machine, declared);
                    let there = self.alive.iter().filter(|(_, on)| *on == machine);
                    self.runs.extend(there.map(|(run, _)| *run));
                }
            }
            Fact::Enrolled { machine, mark: Mark::Alive } => {
                self.declared.remove(machine)?;
                return self.left(*machine).map(|run| {
                    format!("m{machine} was declared dead, and is not while {run:?} goes on there")
                });
            }
            Fact::Enrolled { machine, mark: Mark::Struck } => {
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
                return self.left(*machine).map(|run| {
                    format!(
                        "m{machine} was declared dead, and is confirmed while {run:?} goes on there"
                    )
                });
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
