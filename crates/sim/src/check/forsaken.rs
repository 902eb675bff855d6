//! What a machine had when it was declared dead, though it lived.
//!
//! Its keys were free from then on, by the word of somebody who should have known. So what it still runs
//! is not counted as a copy; but it must be gone before the roster takes the machine for alive, or any
//! leader confirms it again (safety rule 24).

use std::collections::{BTreeMap, BTreeSet};

use sterna_engine::control::{Row, RowKey};
use sterna_model::{RunId, Term};

use super::{Fact, Sight};

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
    pub(super) fn see(&mut self, sight: &Sight<'_>, fact: &Fact<'_>) -> Option<String> {
        if let Fact::Began { run, container } = fact {
            self.alive.insert(*run, container.machine);
            if self.declared.contains_key(&container.machine) {
                self.runs.insert(*run);
            }
        }
        if let Fact::Gone { run } = fact {
            self.alive.remove(run);
            self.runs.remove(run);
        }
        if let Fact::Committed { changes, applied } = fact {
            return changes.iter().find_map(|changed| {
                let RowKey::Roster(lock) = &changed.key else { return None };
                let machine = sight.stored.machine_of(*lock)?;
                match sight.stored.get(&changed.key) {
                    Some(Row::Roster(_, Some(entry))) if entry.is_declared_dead => {
                        self.declare(
                            machine,
                            entry.incarnation.life,
                            applied.said.map(|said| said.term),
                        );
                        None
                    }
                    Some(_) => self.revive(machine),
                    None => {
                        if let Some(declared) = self.declared.get_mut(&machine) {
                            declared.is_marked = false;
                        }
                        None
                    }
                }
            });
        }
        // A leader that has not heard of the declaration confirms the same life still.
        if let Fact::Confirmed { machine, life, term } = fact {
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
        if let Fact::Restored = fact {
            self.declared.clear();
        }
        None
    }

    fn declare(&mut self, machine: usize, life: u64, term: Option<Term>) {
        if self.declared.get(&machine).is_none_or(|declared| !declared.is_marked) {
            self.declared.insert(machine, Declared { life, term, is_marked: true });
            let there = self.alive.iter().filter(|(_, on)| **on == machine);
            self.runs.extend(there.map(|(run, _)| *run));
        }
    }

    fn revive(&mut self, machine: usize) -> Option<String> {
        self.declared.remove(&machine)?;
        self.left(machine).map(|run| {
            format!("m{machine} was declared dead, and is not while {run:?} goes on there")
        })
    }
}
