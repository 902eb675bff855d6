//! What the store says, as its log of commits tells it.

use std::collections::BTreeMap;

use bytes::Bytes;
use sterna_engine::control::{Row, RowKey, ServiceRecord};
use sterna_model::{
    DefinitionKey, Epoch, InstanceKey, Lock, Nonce, Revision, RunId, ServiceKey, Span, TaskKey,
    Term, WorkKey,
    record::{Instance, Placed, Task},
    spec::{Definition, TaskSpec},
};
use sterna_protocol::limits::Limits;
use sterna_store::{
    Key,
    cluster::{CLUSTER_KEY, Cluster},
    leader::{REIGN_KEY, Reign},
    memory::Model,
};

use crate::{
    record::{Records, Shelf},
    store::Applied,
    words::{self, Size},
};

/// All records, and since which revision each stands.
#[derive(Debug, Default)]
pub(crate) struct Stored {
    records: Records,
    since: BTreeMap<RowKey, Revision>,
    /// Every place at which anything ever stood.
    paths: BTreeMap<Key, RowKey>,
    term: Option<Term>,
    /// That of the reign that it names.
    nonce: Option<Nonce>,
    epoch: Option<Epoch>,
    /// The longest `stop_after` that anything was ever started with, by the marks: those never fall.
    longest_stop: Option<Span>,
    /// The machines of the world, by their place.
    locks: Vec<Lock>,
}

/// What one commit did to one record.
#[derive(Debug)]
pub(crate) struct Changed {
    pub(crate) key: RowKey,
    pub(crate) before: Option<Row>,
}

impl Stored {
    pub(crate) fn add_machine(&mut self, lock: Lock) {
        self.locks.push(lock);
    }

    pub(crate) fn machine_of(&self, lock: Lock) -> Option<usize> {
        self.locks.iter().position(|known| *known == lock)
    }

    /// A commit applied.
    pub(crate) fn apply(&mut self, applied: &Applied, shelf: &Shelf) -> Vec<Changed> {
        let mut all = Vec::new();
        for change in &applied.changes {
            if &*change.key == REIGN_KEY {
                let reign = change.value.as_ref().and_then(reign_of);
                self.term = reign.map(|reign| reign.term).or(self.term);
                self.nonce = reign.map(|reign| reign.nonce);
                continue;
            }
            if &*change.key == CLUSTER_KEY {
                let cluster = change.value.as_ref().map(|value| Cluster::from_bytes(value));
                self.epoch = cluster.and_then(Result::ok).map(|cluster| cluster.epoch);
                continue;
            }
            let after = change.value.as_ref().and_then(|value| shelf.get(value)).cloned();
            let (key, before) = match after {
                Some(row) => {
                    let key = row.key();
                    self.paths.insert(change.key.clone(), key.clone());
                    self.since.insert(key.clone(), applied.revision);
                    let before = self.records.insert(key.clone(), row);
                    (key, before)
                }
                None => {
                    let Some(key) = self.paths.get(&change.key).cloned() else { continue };
                    self.since.remove(&key);
                    let before = self.records.remove(&key);
                    (key, before)
                }
            };
            all.push(Changed { key, before });
        }
        let longest = self.limits().iter().map(|limits| limits.stop_after_max).max();
        self.longest_stop = self.longest_stop.max(longest);
        all
    }

    /// The store is as it was before.
    pub(crate) fn reset(&mut self, model: &Model, shelf: &Shelf) {
        self.records.clear();
        self.since.clear();
        let reign = model.get(REIGN_KEY).item.and_then(|item| reign_of(&item.value));
        self.nonce = reign.map(|reign| reign.nonce);
        for (path, key) in &self.paths {
            let Some(item) = model.get(path).item else { continue };
            if let Some(row) = shelf.get(&item.value) {
                self.records.insert(key.clone(), row.clone());
                self.since.insert(key.clone(), item.revision);
            }
        }
    }

    /// The term of the last election.
    pub(crate) const fn term(&self) -> Option<Term> {
        self.term
    }

    /// What was drawn with the reign that it names.
    pub(crate) const fn nonce(&self) -> Option<Nonce> {
        self.nonce
    }

    /// The life of the store.
    pub(crate) const fn epoch(&self) -> Option<Epoch> {
        self.epoch
    }

    pub(crate) fn get(&self, key: &RowKey) -> Option<&Row> {
        self.records.get(key)
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = (&RowKey, &Row)> {
        self.records.iter()
    }

    pub(crate) fn since(&self, key: &RowKey) -> Option<Revision> {
        self.since.get(key).copied()
    }

    pub(crate) fn task(&self, key: &TaskKey) -> Option<(&Task, &TaskSpec)> {
        let Row::Task(_, Some((task, spec))) = self.get(&RowKey::Task(key.clone()))? else {
            return None;
        };
        Some((task, spec))
    }

    pub(crate) fn instance(&self, key: &InstanceKey) -> Option<&Instance> {
        let Row::Instance(_, Some(instance)) = self.get(&RowKey::Instance(key.clone()))? else {
            return None;
        };
        Some(instance)
    }

    pub(crate) fn service(&self, key: &ServiceKey) -> Option<&ServiceRecord> {
        let Row::Service(_, Some(record)) = self.get(&RowKey::Service(key.clone()))? else {
            return None;
        };
        Some(record)
    }

    /// The newest version of a definition.
    pub(crate) fn definition(&self, key: &DefinitionKey) -> Option<&Definition> {
        let version = |number| RowKey::Definition(key.clone(), number);
        let mut versions = self.records.range(version(0)..=version(u64::MAX));
        let (_, Row::Definition(_, _, Some(definition))) = versions.next_back()? else {
            return None;
        };
        Some(definition)
    }

    pub(crate) fn services(&self) -> impl Iterator<Item = (&ServiceKey, &ServiceRecord)> {
        self.records.values().filter_map(|row| {
            let Row::Service(key, Some(record)) = row else { return None };
            Some((key, record.as_ref()))
        })
    }

    /// Everybody who may be running this, by claims.
    pub(crate) fn claims(&self, key: &WorkKey) -> Vec<&Placed> {
        match key {
            WorkKey::Task(key) => {
                self.task(key).and_then(|(task, _)| task.placed()).into_iter().collect()
            }
            WorkKey::Instance(key) => {
                let copies = self.instance(key).into_iter().flat_map(Instance::copies);
                copies.map(|copy| &copy.placed).collect()
            }
            WorkKey::Node(_) => Vec::new(),
        }
    }

    pub(crate) fn is_claimed(&self, key: &WorkKey, run: RunId) -> bool {
        self.claims(key).iter().any(|claim| claim.run == run)
    }

    /// How much a run takes of its worker, as it was placed.
    pub(crate) fn taken_by(&self, key: &WorkKey, run: RunId) -> Size {
        let instance = key.instance().and_then(|key| self.instance(key));
        let copies = instance.into_iter().flat_map(Instance::copies);
        let copy = copies.into_iter().find(|copy| copy.placed.run == run);
        copy.map_or_else(|| words::size(key), |copy| words::size_of(&copy.wants))
    }

    /// How much of a worker it would take.
    pub(crate) fn wanted_by(&self, key: &WorkKey) -> Size {
        let record = key.instance().and_then(|key| self.service(&key.service));
        record.map_or_else(|| words::size(key), |record| words::size_of(&record.spec.wants))
    }

    pub(crate) fn drained(&self) -> impl Iterator<Item = Lock> {
        let is_drained = |lock: &Lock| self.records.contains_key(&RowKey::Drain(*lock));
        self.locks.iter().copied().filter(is_drained)
    }

    /// Everybody on the roster, and whether it was declared dead.
    pub(crate) fn roster(&self) -> impl Iterator<Item = (Lock, bool)> {
        self.locks.iter().filter_map(|lock| {
            let Some(Row::Roster(_, Some(entry))) = self.get(&RowKey::Roster(*lock)) else {
                return None;
            };
            Some((*lock, entry.is_declared_dead))
        })
    }

    pub(crate) fn is_declared_dead(&self, lock: Lock) -> bool {
        let entry = self.get(&RowKey::Roster(lock));
        matches!(entry, Some(Row::Roster(_, Some(entry))) if entry.is_declared_dead)
    }

    /// All limits that somebody may go by.
    fn limits(&self) -> &[Limits] {
        match self.get(&RowKey::Limits) {
            Some(Row::Limits(all)) => all,
            Some(_) | None => &[],
        }
    }

    /// The longest `stop_after` that anything was ever started with, by the marks.
    pub(crate) fn longest_stop(&self) -> Span {
        self.longest_stop.unwrap_or(Span::ZERO)
    }

    /// Whether a task or an instance was ever started under `keep`, by the marks.
    pub(crate) fn has_kept_claims(&self) -> bool {
        let Some(Row::Limits(all)) = self.get(&RowKey::Limits) else { return false };
        all.iter().any(|limits| limits.has_kept_claims)
    }

    /// After how long nothing of a batch under `stop` can be running; `None` if one may be kept.
    /// A store that has no limits goes by the usual ones.
    pub(crate) fn batch_wait(&self, usual: &Limits) -> Option<Span> {
        let all = match self.limits() {
            [] => std::slice::from_ref(usual),
            all => all,
        };
        let may_be_kept = all.iter().any(|limits| limits.has_kept_batches);
        let longest = all.iter().map(|limits| limits.batch_stop_after_max).max();
        longest.filter(|_| !may_be_kept)
    }
}

fn reign_of(value: &Bytes) -> Option<Reign> {
    std::str::from_utf8(value).ok()?.parse().ok()
}
