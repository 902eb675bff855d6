//! What stands in the store, in memory: what clients are shown. Pure.
//!
//! The engine decides by what the store is going to say; this is what it has said. So nobody is shown
//! what may yet not come about.

use std::{collections::BTreeMap, sync::Arc};

use sterna_engine::control::{Drain, Record, RecordKey, ServiceKey, ServiceRecord};
use sterna_model::{
    Lock, Name, Revision, WallTime, WorkKey,
    record::{Instance, Task},
    spec::TaskSpec,
};
use sterna_protocol::roster::Enrolled;

/// One write of a commit.
pub(crate) type Write = (RecordKey, Option<Record>);

/// Everything that stands in the store, as of one revision.
#[derive(Clone, Debug)]
pub(crate) struct Mirror {
    pub(crate) revision: Revision,
    pub(crate) services: BTreeMap<ServiceKey, Arc<ServiceRecord>>,
    pub(crate) instances: BTreeMap<WorkKey, Instance>,
    pub(crate) tasks: BTreeMap<WorkKey, (Task, Arc<TaskSpec>)>,
    /// How many of those are not over.
    pub(crate) under_way: usize,
    pub(crate) roster: BTreeMap<Lock, Enrolled>,
    pub(crate) drains: BTreeMap<Lock, Drain>,
    pub(crate) domains: BTreeMap<Name, Option<WallTime>>,
}

impl Mirror {
    /// A store in which nothing stands.
    pub(crate) const fn new(revision: Revision) -> Self {
        Self {
            revision,
            services: BTreeMap::new(),
            instances: BTreeMap::new(),
            tasks: BTreeMap::new(),
            under_way: 0,
            roster: BTreeMap::new(),
            drains: BTreeMap::new(),
            domains: BTreeMap::new(),
        }
    }

    /// What stands after a commit.
    pub(crate) fn apply(&mut self, revision: Revision, writes: Vec<Write>) {
        self.revision = self.revision.max(revision);
        for (key, record) in writes {
            self.write(key, record);
        }
    }

    fn write(&mut self, key: RecordKey, record: Option<Record>) {
        // tidy: not a table
        match (key, record) {
            (RecordKey::Service(key), Some(Record::Service(record))) => {
                self.services.insert(key, record);
            }
            (RecordKey::Service(key), None) => drop(self.services.remove(&key)),
            (RecordKey::Instance(key), Some(Record::Instance(instance))) => {
                self.instances.insert(key, instance);
            }
            (RecordKey::Instance(key), None) => drop(self.instances.remove(&key)),
            (RecordKey::Task(key), Some(Record::Task(task, spec))) => {
                self.under_way += usize::from(is_under_way(&task));
                let before = self.tasks.insert(key, (task, spec));
                self.forget(before);
            }
            (RecordKey::Task(key), None) => {
                let before = self.tasks.remove(&key);
                self.forget(before);
            }
            (RecordKey::Roster(lock), Some(Record::Roster(entry))) => {
                self.roster.insert(lock, entry);
            }
            (RecordKey::Roster(lock), None) => drop(self.roster.remove(&lock)),
            (RecordKey::Drain(lock), Some(Record::Drain(drain))) => {
                self.drains.insert(lock, drain);
            }
            (RecordKey::Drain(lock), None) => drop(self.drains.remove(&lock)),
            (RecordKey::Domain(name), Some(Record::Domain(until))) => {
                self.domains.insert(name, until);
            }
            (RecordKey::Domain(name), None) => drop(self.domains.remove(&name)),
            // Nobody is shown these, and nothing else can stand under those keys.
            (
                RecordKey::Service(_)
                | RecordKey::Instance(_)
                | RecordKey::Task(_)
                | RecordKey::Tombstone(_)
                | RecordKey::Roster(_)
                | RecordKey::Drain(_)
                | RecordKey::Domain(_)
                | RecordKey::Limits
                | RecordKey::Stage,
                _,
            ) => {}
        }
    }

    /// A task is no more what it was.
    fn forget(&mut self, before: Option<(Task, Arc<TaskSpec>)>) {
        self.under_way -= usize::from(before.is_some_and(|(task, _)| is_under_way(&task)));
    }

    /// What the worker of a machine is called.
    pub(crate) fn worker(&self, lock: Lock) -> Option<&Name> {
        self.roster.get(&lock).map(|entry| &entry.name)
    }
}

fn is_under_way(task: &Task) -> bool {
    task.end().is_none()
}
