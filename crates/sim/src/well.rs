//! Whether everything is well.

use sterna_model::{Contract, Lock, WorkKey};
use sterna_protocol::health::Health;

use crate::{
    machine::Power,
    record::{Record, TaskState, work_key},
    words::{self, CAPACITY},
    world::World,
};

/// What is not as it should be.
pub(crate) struct Unwell {
    pub(crate) text: String,
    /// Whether it is that work is not running which should be (P3), rather than something else.
    pub(crate) is_forgotten: bool,
}

impl Unwell {
    const fn late(text: String) -> Self {
        Self { text, is_forgotten: false }
    }

    const fn forgotten(text: String) -> Self {
        Self { text, is_forgotten: true }
    }
}

impl World {
    /// Every worker is healthy on both sides, every wanted key runs once, and nothing is left over.
    pub(crate) fn is_well(&self) -> Result<(), Unwell> {
        let server = self.leading().ok_or_else(|| Unwell::late("nobody leads".to_owned()))?;
        let Some(office) = self.office(server) else {
            return Err(Unwell::late("nobody leads".to_owned()));
        };
        for (index, machine) in self.machines.iter().enumerate().filter(|(_, one)| one.is_on()) {
            let core = machine
                .core()
                .ok_or_else(|| Unwell::late(format!("m{index} has no worker that has adopted")))?;
            let above = office.fleet.health(core.incarnation());
            if core.health() != Health::Healthy || above != Some(Health::Healthy) {
                let text = format!("m{index} is {:?}, and taken for {above:?}", core.health());
                return Err(Unwell::late(text));
            }
            if machine.has_unacknowledged() {
                return Err(Unwell::late(format!("m{index} has an end that nobody took")));
            }
            for claim in office.fleet.held(machine.lock) {
                if self.table.get(claim.run).is_none_or(|one| one.machine != index) {
                    return Err(Unwell::late(format!("the leader still believes in {claim:?}")));
                }
            }
        }
        let is_recovered = office.cluster.stage == sterna_store::cluster::Stage::Recovered;
        self.are_keys_well(is_recovered)
    }

    fn are_keys_well(&self, is_recovered: bool) -> Result<(), Unwell> {
        // Where a batch may have been kept, every batch waits for everybody (safety rule 20).
        let may_be_kept = is_recovered || self.pace.limits.has_kept_batches;
        let has_vanished = self.machines.iter().any(|one| one.power == Power::Vanished);
        for wanted in &self.wanted {
            let alive = self.table.all().filter(|(_, one)| one.key == wanted.key).count();
            let is_excused = match wanted.contract {
                Contract::Keep => has_vanished,
                Contract::Replace { .. } => self.are_slots_silent(&wanted.key),
                Contract::Stop { .. } => has_vanished && may_be_kept,
            };
            let may_lack = is_excused || !self.has_room(&wanted.key);
            match alive {
                1 => {}
                0 if may_lack => {}
                0 => return Err(Unwell::forgotten(format!("{} does not run", wanted.key))),
                more => {
                    let text = format!("{more} containers of {}", wanted.key);
                    return Err(Unwell::late(text));
                }
            }
        }
        for number in 1..=self.tasks {
            let key = words::task(number);
            let Some(Record::Task(task)) = self.stored(&key) else { continue };
            let is_over = match &task.state {
                TaskState::Ended(_) => true,
                // A worker of whom nobody knows anything may keep it (safety rule 25).
                TaskState::Pending => {
                    let is_kept = task.contract == Contract::Keep && is_recovered;
                    !self.has_room(&key) || has_vanished && is_kept
                }
                // Nobody says what became of its machine.
                TaskState::Claimed(claim) => {
                    has_vanished
                        && claim.contract == Contract::Keep
                        && self.machines.iter().any(|one| {
                            one.lock == claim.holder.lock && one.power == Power::Vanished
                        })
                }
            };
            if !is_over {
                return Err(Unwell::forgotten(format!("{key} is {:?}", task.state)));
            }
        }
        Ok(())
    }

    fn stored(&self, key: &WorkKey) -> Option<&Record> {
        let item = self.store.model().get(&work_key(key)).item?;
        self.shelf.get(&item.value)
    }

    /// Whether both copies may be on machines of which nobody knows anything (safety rule 22).
    fn are_slots_silent(&self, key: &WorkKey) -> bool {
        match self.stored(key) {
            Some(Record::Instance(slots)) => {
                let is_silent = |lock: Lock| {
                    self.machines.iter().any(|one| one.lock == lock && one.power == Power::Vanished)
                };
                slots.len() >= 2 && slots.iter().all(|slot| is_silent(slot.holder.lock))
            }
            Some(Record::Task(_) | Record::Enrolled(_) | Record::Limits(_)) | None => false,
        }
    }

    /// Whether any machine could take it.
    fn has_room(&self, key: &WorkKey) -> bool {
        self.machines.iter().enumerate().filter(|(_, one)| one.is_on()).any(|(index, _)| {
            let used: u64 = self
                .table
                .on(index)
                .iter()
                .filter_map(|run| self.table.get(*run))
                .map(|container| words::size(&container.key))
                .sum();
            used + words::size(key) <= CAPACITY
        })
    }
}
