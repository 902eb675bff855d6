//! The process table of all machines, and what must hold of it at every instant.

use std::collections::BTreeMap;

use sterna_model::{Contract, RunId, WorkKey};
use sterna_protocol::message::Run;

pub(crate) struct Container {
    pub(crate) run: RunId,
    pub(crate) key: WorkKey,
    pub(crate) contract: Contract,
    pub(crate) machine: usize,
    pub(crate) end_at: Option<u64>,
    pub(crate) is_alive: bool,
}

#[derive(Default)]
pub(crate) struct Table {
    containers: Vec<Container>,
    /// Every run that was ever started, by its key.
    started: BTreeMap<WorkKey, Vec<RunId>>,
    /// The first promise that was broken.
    pub(crate) broken: Option<String>,
}

impl Table {
    /// A run is sent: P10 is checked. Where a worker is missing its containers live as long as their
    /// contracts allow, so what may be running there is running there.
    pub(crate) fn send(&mut self, run: &Run) {
        let twin = self.alive().find(|other| other.key == run.key).map(|other| other.machine);
        let (key, id) = (&run.key, run.run);
        match (run.contract, twin) {
            (Contract::Stop { .. } | Contract::Keep, Some(machine)) => {
                self.fail(format!("P10: {id:?} of {key:?} is sent while it runs on m{machine}"));
            }
            (Contract::Stop { .. } | Contract::Keep, None) | (Contract::Replace { .. }, _) => {}
        }
    }

    /// A container is started: P1 and P2 are checked.
    pub(crate) fn start(&mut self, machine: usize, run: &Run) {
        let earlier = self.started.entry(run.key.clone()).or_default();
        let is_repeated = earlier.contains(&run.run);
        let is_again = run.task.is_some() && !earlier.is_empty();
        earlier.push(run.run);
        let twins = self.alive().filter(|other| other.key == run.key);
        let twins: Vec<String> =
            twins.map(|other| format!("{:?} on m{}", other.run, other.machine)).collect();
        let max = match run.contract {
            Contract::Stop { .. } | Contract::Keep => 0,
            Contract::Replace { .. } => 1,
        };
        let (key, id) = (&run.key, run.run);
        if is_repeated {
            self.fail(format!("P1: {id:?} of {key:?} is started twice"));
        } else if is_again {
            self.fail(format!("P1: the task {key:?} is started again, as {id:?} on m{machine}"));
        } else if twins.len() > max {
            self.fail(format!("P2: {id:?} of {key:?} starts on m{machine} beside {twins:?}"));
        }
        self.containers.push(Container {
            run: run.run,
            key: run.key.clone(),
            contract: run.contract,
            machine,
            end_at: None,
            is_alive: true,
        });
    }

    fn fail(&mut self, what: String) {
        self.broken.get_or_insert(what);
    }

    pub(crate) fn alive(&self) -> impl Iterator<Item = &Container> {
        self.containers.iter().filter(|container| container.is_alive)
    }

    pub(crate) fn alive_mut(&mut self) -> impl Iterator<Item = &mut Container> {
        self.containers.iter_mut().filter(|container| container.is_alive)
    }

    /// It will be gone then, if not earlier.
    pub(crate) fn end_by(&mut self, run: RunId, at: u64) {
        for container in self.alive_mut().filter(|container| container.run == run) {
            container.end_at = Some(container.end_at.map_or(at, |end| end.min(at)));
        }
    }

    /// Ends what is due; gives where, and which run.
    pub(crate) fn end_due(&mut self, now: u64) -> Vec<(usize, RunId)> {
        let is_due = |container: &&mut Container| container.end_at.is_some_and(|end| now >= end);
        let ended = self.alive_mut().filter(is_due).map(|container| {
            container.is_alive = false;
            (container.machine, container.run)
        });
        let ended = ended.collect();
        self.containers.retain(|container| container.is_alive);
        ended
    }

    /// The machine lost power.
    pub(crate) fn end_all(&mut self, machine: usize) {
        self.containers.retain(|container| container.machine != machine);
    }
}
