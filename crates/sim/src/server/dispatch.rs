//! A plain dispatcher: it wants fixed keys to run, and tasks that clients made. It stands in for
//! the engine, and goes when that comes.

use sterna_model::{Contract, Incarnation, Lock, RunId, TaskIncarnation, Work, WorkKey};
use sterna_protocol::{
    message::Kill,
    scheduler::{Claim, Dispatch, Input},
};

use super::{Op, office::Office};
use crate::{
    planted::{Mistake, is_planted},
    record::{Record, TaskState, work_key},
    words::{self, CAPACITY},
    world::{Event, Message, Who, World},
};

/// How often it looks.
const EVERY: u64 = 250;

/// Something that may start now.
struct Startable {
    key: WorkKey,
    contract: Contract,
    task: Option<TaskIncarnation>,
}

impl Office {
    pub(crate) fn slots(&self, key: &WorkKey) -> &[Claim] {
        match self.records.get(&work_key(key)) {
            Some(Record::Instance(slots)) => slots,
            Some(Record::Task(_) | Record::Enrolled(_) | Record::Limits(_)) | None => &[],
        }
    }

    /// What a run is a run of, by the records alone.
    pub(crate) fn key_of(&self, run: RunId) -> Option<WorkKey> {
        self.records.values().find_map(|record| match record {
            Record::Task(task) => {
                let is_its = match &task.state {
                    TaskState::Claimed(claim) => claim.run == run,
                    TaskState::Ended(crate::record::TaskEnd::Lost(lost)) => *lost == run,
                    TaskState::Pending | TaskState::Ended(_) => false,
                };
                is_its.then(|| task.key.clone())
            }
            Record::Instance(_) | Record::Enrolled(_) | Record::Limits(_) => None,
        })
    }

    /// Whether the record takes this life of a task for one that was not started.
    pub(crate) fn is_pending(&self, key: &WorkKey, task: Option<TaskIncarnation>) -> bool {
        match self.records.get(&work_key(key)) {
            Some(Record::Task(known)) => {
                Some(known.incarnation) == task
                    && known.state == TaskState::Pending
                    && !self.busy.contains_key(key)
            }
            Some(Record::Instance(_) | Record::Enrolled(_) | Record::Limits(_)) | None => false,
        }
    }

    /// How much of a machine nobody has.
    fn free(&self, lock: Lock) -> u64 {
        let held: u64 = self.fleet.held(lock).map(|claim| words::size(&claim.key)).sum();
        let busy = self.busy.iter().filter(|(_, on)| **on == lock);
        let busy: u64 = busy.map(|(key, _)| words::size(key)).sum();
        let busy = if is_planted(Mistake::OversellsWorkers) { 0 } else { busy };
        CAPACITY.saturating_sub(held + busy)
    }

    /// Whether this key may start.
    fn may_start(&self, key: &WorkKey, contract: Contract) -> bool {
        if self.busy.contains_key(key) {
            return false;
        }
        let doors = self.fleet.doors();
        match &key.work {
            Work::Task(_) => match contract {
                Contract::Keep => doors.unclaimed_kept,
                Contract::Stop { .. } | Contract::Replace { .. } => doors.unclaimed,
            },
            Work::Node { .. } => {
                let is_open = match contract {
                    Contract::Stop { .. } | Contract::Replace { .. } => doors.stop_batches,
                    Contract::Keep => doors.keep_batches,
                };
                is_open && !self.batches.values().any(|busy| busy == key)
            }
            Work::Instance { .. } => {
                let slots = self.slots(key);
                let max = if is_planted(Mistake::StartsAThird) { 3 } else { 2 };
                doors.unclaimed
                    && slots.len() < max
                    && slots.iter().all(|slot| self.silent.contains(&slot.run))
            }
        }
    }
}

impl World {
    pub(crate) fn dispatch(&mut self, server: usize) {
        let now = self.servers[server].clock.at(self.now);
        let Some((pid, _)) = self.servers[server].process() else { return };
        if self.office(server).is_none() {
            return;
        }
        let every = self.rng.between(EVERY / 2, EVERY * 2);
        self.queue.push(self.now + every, Event::To(Who::Server(server), pid, Message::Dispatch));
        self.pump(server);
        if self.office(server).is_some_and(|office| !office.fleet.is_mute(now)) {
            self.end_twins(server);
            self.operate(server);
            self.start_due(server);
        }
    }

    /// Starts what may start, mostly.
    pub(crate) fn start_due(&mut self, server: usize) {
        let now = self.servers[server].clock.at(self.now);
        if self.office(server).is_none_or(|office| office.fleet.is_mute(now)) {
            return;
        }
        for startable in self.startable(server) {
            if self.rng.chance(200) {
                continue;
            }
            self.send_off(server, startable);
        }
        self.arm_server(server);
    }

    fn startable(&self, server: usize) -> Vec<Startable> {
        let Some(office) = self.office(server) else { return Vec::new() };
        let wanted = self.wanted.iter().map(|wanted| Startable {
            key: wanted.key.clone(),
            contract: wanted.contract,
            task: None,
        });
        let tasks = office.records.values().filter_map(|record| match record {
            Record::Task(task) if task.state == TaskState::Pending => Some(Startable {
                key: task.key.clone(),
                contract: task.contract,
                task: Some(task.incarnation),
            }),
            Record::Task(_) | Record::Enrolled(_) | Record::Limits(_) | Record::Instance(_) => None,
        });
        let all = wanted.chain(tasks);
        all.filter(|one| office.may_start(&one.key, one.contract)).collect()
    }

    /// Where both copies of an instance are heard, one goes.
    fn end_twins(&mut self, server: usize) {
        let Some(office) = self.office(server) else { return };
        let mut twins = Vec::new();
        for wanted in &self.wanted {
            if let [first, _, ..] = office.slots(&wanted.key)
                && office.slots(&wanted.key).iter().all(|slot| !office.silent.contains(&slot.run))
            {
                twins.push(first.run);
            }
        }
        for run in twins {
            self.step_fleet(server, Input::Kill(run, Kill::Now));
        }
    }

    fn send_off(&mut self, server: usize, startable: Startable) {
        let Startable { key, contract, task } = startable;
        let is_any = self.rng.chance(20) && !self.is_calm;
        let size = words::size(&key);
        let Some(office) = self.office(server) else { return };
        let is_fit = |worker: &&Incarnation| {
            (is_any || office.fleet.worker_objection(**worker).is_none())
                && office.free(worker.lock) >= size
        };
        let fit: Vec<Incarnation> = office.workers.values().filter(is_fit).copied().collect();
        let Some(to) = self.rng.pick(&fit) else { return };
        let wall = self.servers[server].clock.wall(self.now);
        let run = RunId::from_parts(wall, self.rng.bytes());
        let work = words::nothing();
        let dispatch = Dispatch { to, run, key: key.clone(), task, contract, work };
        let Some(office) = self.office_mut(server) else { return };
        office.keys.insert(run, key.clone());
        match &key.work {
            Work::Task(_) | Work::Instance { .. } => {
                office.busy.insert(key, to.lock);
                if is_planted(Mistake::ClaimsAfterSend) {
                    self.step_fleet(server, Input::Dispatch(vec![dispatch.clone()]));
                }
                self.submit(server, Op::Claim(dispatch));
            }
            Work::Node { .. } => {
                office.batches.insert(run, key);
                self.step_fleet(server, Input::Dispatch(vec![dispatch]));
            }
        }
    }

    /// A client makes a task, if somebody leads.
    pub(crate) fn create_task(&mut self) {
        if self.is_calm {
            return;
        }
        let after = self.rng.between(1_500, 9_000);
        self.queue.push(self.now + after, Event::Client);
        let Some(server) = self.leading() else { return };
        self.tasks += 1;
        let key = words::task(self.tasks);
        let wall = self.servers[server].clock.wall(self.now);
        let incarnation = TaskIncarnation::from_parts(wall, self.rng.bytes());
        let contract = match self.tasks % 4 {
            0 => Contract::Keep,
            1 | 2 => Contract::Stop { after: self.pace.stop_after },
            _ => Contract::Stop { after: self.pace.stop_after_task },
        };
        if is_planted(Mistake::AcknowledgesUnwritten) {
            self.tell(&crate::check::Fact::Acknowledged { key: &key, incarnation });
        }
        self.submit(server, Op::Create(key, incarnation, contract));
    }

    /// What operators do: they know which machines are off, and when a roster is complete.
    fn operate(&mut self, server: usize) {
        for machine in 0..self.machines.len() {
            let lock = self.machines[machine].lock;
            let is_known = self.machines[machine].is_held_off()
                && self
                    .office(server)
                    .is_some_and(|office| !office.declared.contains(&lock) && office.knows(lock));
            let is_unknown = self.is_calm
                && !is_known
                && self.office(server).is_some_and(|office| !office.knows(lock));
            if is_unknown {
                // Nobody has anything to say of it.
                self.release_machine(lock);
            }
            if is_known
                && self.rng.chance(if self.is_calm { 500 } else { 100 })
                && let Some(office) = self.office_mut(server)
            {
                office.declared.insert(lock);
                self.submit(server, Op::DeclareDead(lock));
            }
        }
        let is_recovered = self
            .office(server)
            .is_some_and(|office| office.cluster.stage == sterna_store::cluster::Stage::Recovered);
        if is_recovered && self.is_calm && self.rng.chance(50) && self.roster_is_complete(server) {
            self.step_fleet(server, Input::RosterIsComplete);
        }
    }

    /// Whether every machine that runs something is on the roster, and what it runs is known.
    fn roster_is_complete(&self, server: usize) -> bool {
        let Some(office) = self.office(server) else { return false };
        self.table.all().all(|(run, container)| {
            let lock = self.machines[container.machine].lock;
            office.fleet.held(lock).any(|claim| claim.run == *run)
        })
    }
}

impl Office {
    /// Whether the store says anything of a machine.
    fn knows(&self, lock: Lock) -> bool {
        self.records.contains_key(&crate::record::roster_key(lock))
            || self.fleet.held(lock).next().is_some()
    }
}
