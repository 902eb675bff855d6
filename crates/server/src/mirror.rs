//! What stands in the store, in memory: what clients are shown. Pure.
//!
//! The engine decides by what the store is going to say; this is what it has said. So nobody is shown
//! what may yet not come about.

use std::{collections::BTreeMap, sync::Arc};

use sterna_engine::control::{Drain, Row, ServiceRecord, TaskRow};
use sterna_model::{
    DefinitionKey, InstanceKey, Lock, Name, Revision, ServiceKey, TaskKey, WallTime,
    record::Instance, spec::Definition,
};
use sterna_protocol::roster::Enrolled;

use crate::counts::{Count, Totals};

/// The versions of a definition that stand; there is one at least.
pub(crate) type Versions = BTreeMap<u64, Arc<Definition>>;

/// Everything that stands in the store, as of one revision.
#[derive(Clone, Debug)]
pub(crate) struct Mirror {
    pub(crate) revision: Revision,
    pub(crate) services: BTreeMap<ServiceKey, Arc<ServiceRecord>>,
    pub(crate) instances: BTreeMap<InstanceKey, Instance>,
    /// How far those of each service are.
    counts: BTreeMap<ServiceKey, Count>,
    pub(crate) tasks: BTreeMap<TaskKey, TaskRow>,
    /// What is counted of tasks and specs.
    pub(crate) totals: Totals,
    pub(crate) roster: BTreeMap<Lock, Enrolled>,
    pub(crate) drains: BTreeMap<Lock, Drain>,
    pub(crate) domains: BTreeMap<Name, Option<WallTime>>,
    pub(crate) definitions: BTreeMap<DefinitionKey, Versions>,
}

impl Mirror {
    /// A store in which nothing stands.
    pub(crate) const fn new(revision: Revision) -> Self {
        Self {
            revision,
            services: BTreeMap::new(),
            instances: BTreeMap::new(),
            counts: BTreeMap::new(),
            tasks: BTreeMap::new(),
            totals: Totals::new(),
            roster: BTreeMap::new(),
            drains: BTreeMap::new(),
            domains: BTreeMap::new(),
            definitions: BTreeMap::new(),
        }
    }

    /// What stands after a commit.
    pub(crate) fn apply(&mut self, revision: Revision, rows: Vec<Row>) {
        self.revision = self.revision.max(revision);
        for row in rows {
            self.write(row);
        }
    }

    fn write(&mut self, row: Row) {
        match row {
            Row::Service(key, Some(record)) => self.write_service(key, record),
            Row::Service(key, None) => {
                let before = self.services.remove(&key);
                before.iter().for_each(|before| self.totals.subtract_service(before));
                self.counts.remove(&key);
            }
            Row::Instance(key, instance) => self.write_instance(key, instance),
            Row::Task(key, task) => self.write_task(key, task),
            Row::Roster(lock, entry) => set(&mut self.roster, lock, entry),
            Row::Drain(lock, drain) => set(&mut self.drains, lock, drain),
            Row::Domain(name, until) => set(&mut self.domains, name, until),
            Row::Definition(key, version, definition) => {
                self.write_definition(key, version, definition);
            }
            // No client is shown these.
            Row::Tombstone(..) | Row::Limits(_) | Row::Stage(_) => {}
        }
    }

    fn write_task(&mut self, key: TaskKey, task: Option<TaskRow>) {
        task.iter().for_each(|task| self.totals.add_task(&key.namespace, task));
        let before = match task {
            Some(task) => self.tasks.insert(key.clone(), task),
            None => self.tasks.remove(&key),
        };
        before.iter().for_each(|before| self.totals.subtract_task(&key.namespace, before));
    }

    fn write_service(&mut self, key: ServiceKey, record: Arc<ServiceRecord>) {
        let counted_by = |record: &ServiceRecord| (record.version, record.spec.instances);
        let by = counted_by(&record);
        self.totals.add_service(&record);
        let before = self.services.insert(key.clone(), record);
        before.iter().for_each(|before| self.totals.subtract_service(before));
        if before.is_some_and(|before| counted_by(&before) == by) {
            return;
        }
        let Some(record) = self.services.get(&key) else { return };
        let mut count = Count::default();
        for (key, instance) in self.instances.range(key.instance(0)..=key.instance(u32::MAX)) {
            count.add(Count::of(record, key.index, instance));
        }
        self.counts.insert(key, count);
    }

    fn write_instance(&mut self, key: InstanceKey, instance: Option<Instance>) {
        if let Some(record) = self.services.get(&key.service)
            && let Some(count) = self.counts.get_mut(&key.service)
        {
            let was = self.instances.get(&key).map(|was| Count::of(record, key.index, was));
            let is = instance.as_ref().map(|is| Count::of(record, key.index, is));
            count.subtract(was.unwrap_or_default());
            count.add(is.unwrap_or_default());
        }
        set(&mut self.instances, key, instance);
    }

    fn write_definition(
        &mut self,
        key: DefinitionKey,
        version: u64,
        definition: Option<Arc<Definition>>,
    ) {
        definition.iter().for_each(|it| self.totals.add_definition(it));
        let versions = self.definitions.entry(key.clone()).or_default();
        let before = match definition {
            Some(definition) => versions.insert(version, definition),
            None => versions.remove(&version),
        };
        if versions.is_empty() {
            self.definitions.remove(&key);
        }
        before.iter().for_each(|it| self.totals.subtract_definition(it));
    }

    /// The newest version of a definition.
    pub(crate) fn definition(&self, key: &DefinitionKey) -> Option<(u64, &Definition)> {
        let (version, definition) = self.definitions.get(key)?.last_key_value()?;
        Some((*version, definition))
    }

    /// How far the instances of a service are.
    pub(crate) fn count(&self, service: &ServiceKey) -> Count {
        self.counts.get(service).copied().unwrap_or_default()
    }

    /// What the worker of a machine is called.
    pub(crate) fn worker(&self, lock: Lock) -> Option<&Name> {
        self.roster.get(&lock).map(|entry| &entry.name)
    }
}

/// Makes a map say what a row says.
fn set<K: Ord, V>(map: &mut BTreeMap<K, V>, key: K, value: Option<V>) {
    match value {
        Some(value) => drop(map.insert(key, value)),
        None => drop(map.remove(&key)),
    }
}

#[cfg(test)]
mod tests {
    use sterna_api::spec::{Source, read};
    use sterna_model::{
        DirectoryId, Epoch, Incarnation, MachineId, Namespace, RunId, TaskIncarnation,
        record::{Placed, StopReason, Task, TaskEnd, TwinReason},
    };

    use super::*;
    use crate::{counts::Phases, weight};

    fn web() -> ServiceKey {
        ServiceKey { namespace: Namespace::default(), name: Name::new("web").unwrap() }
    }

    /// A record of a service of so many instances, in this version.
    fn record(instances: u32, version: u64) -> Arc<ServiceRecord> {
        let text = format!("version = 1\n[service.web]\nrun = [\"a\"]\ninstances = {instances}\n");
        let specs = read(&[Source { name: "a.toml", text: &text }]).unwrap();
        let spec = specs.services.into_values().next().unwrap();
        Arc::new(ServiceRecord {
            spec,
            version,
            highest: 1,
            before: None,
            crashes: 0,
            taken_back: None,
        })
    }

    fn running(version: u64) -> Instance {
        let directory = DirectoryId::from_parts(WallTime::EPOCH, [1; 10]);
        let machine = MachineId::from_bytes([1; 16]).unwrap();
        let on = Incarnation { lock: Lock { directory, machine }, life: 1 };
        let record = record(1, 0);
        let spec = &record.spec;
        let run = RunId::from_parts(WallTime::EPOCH, [1; 10]);
        let placed = Placed { run, on, contract: spec.contract };
        let mut instance = Instance::new(WallTime::EPOCH);
        instance.claim(placed, version, Arc::clone(&spec.wants), WallTime::EPOCH).unwrap();
        instance.start(WallTime::EPOCH).unwrap();
        instance
    }

    fn write(mirror: &mut Mirror, index: u32, instance: Option<Instance>) {
        mirror.apply(mirror.revision, vec![Row::Instance(web().instance(index), instance)]);
        check(mirror);
    }

    fn write_service(mirror: &mut Mirror, record: Option<Arc<ServiceRecord>>) {
        mirror.apply(mirror.revision, vec![Row::Service(web(), record)]);
        check(mirror);
    }

    #[test]
    fn what_specs_take_is_counted_write_by_write() {
        let mut mirror = Mirror::new(Revision::new(1));
        let first = record(3, 0);
        write_service(&mut mirror, Some(Arc::clone(&first)));
        let one = weight::of_service(&first.spec);
        assert_eq!(mirror.totals.specs_bytes, one);
        let with_before =
            ServiceRecord { before: Some((0, Arc::new(first.spec.clone()))), ..(*first).clone() };
        write_service(&mut mirror, Some(Arc::new(with_before)));
        assert_eq!(mirror.totals.specs_bytes, one * 2, "it may be taken back");
        write_service(&mut mirror, None);
        assert_eq!(mirror.totals.specs_bytes, 0);
    }

    /// What is counted is what a look at all of them gives.
    fn check(mirror: &Mirror) {
        let mut whole = Count::default();
        for (key, instance) in &mirror.instances {
            let record = mirror.services.get(&key.service);
            record.into_iter().for_each(|record| whole.add(Count::of(record, key.index, instance)));
        }
        assert_eq!(mirror.count(&web()), whole);
    }

    #[test]
    fn tasks_are_counted_by_phase_and_namespace_write_by_write() {
        let text = "version = 1\n[task.a]\nrun = [\"a\"]\n";
        let specs = read(&[Source { name: "a.toml", text }]).unwrap();
        let spec = Arc::new(specs.tasks.into_values().next().unwrap().made_at(WallTime::EPOCH));
        let incarnation = TaskIncarnation::from_parts(WallTime::EPOCH, [1; 10]);
        let pending = Task::new(incarnation, Epoch::new(1), WallTime::EPOCH);
        let mut over = pending.clone();
        over.finish(TaskEnd::TooLate, WallTime::EPOCH).unwrap();
        let mut mirror = Mirror::new(Revision::new(1));
        let mut write = |key: &str, task: Option<&Task>| {
            let task = task.map(|task| (task.clone(), Arc::clone(&spec)));
            mirror.apply(mirror.revision, vec![Row::Task(key.parse().unwrap(), task)]);
            let mut whole = BTreeMap::<_, Phases>::new();
            for (key, (task, _)) in &mirror.tasks {
                whole.entry(key.namespace.clone()).or_default().add(task);
            }
            assert_eq!(mirror.totals.by_namespace, whole, "what a look at all of them gives");
            let mut all = Phases::default();
            whole.values().for_each(|phases| all.join(phases));
            assert_eq!(mirror.totals.phases(None), all);
            let words = |phases: Phases| phases.words().collect::<Vec<_>>();
            (
                words(mirror.totals.phases(None)),
                mirror.totals.under_way,
                mirror.totals.by_namespace.len(),
            )
        };
        assert_eq!(write("default/task/a", Some(&pending)), (vec![("pending", 1)], 1, 1));
        assert_eq!(write("other/task/a", Some(&pending)), (vec![("pending", 2)], 2, 2));
        let both = vec![("pending", 1), ("completed", 1)];
        assert_eq!(write("default/task/a", Some(&over)), (both, 1, 2));
        assert_eq!(write("other/task/a", None), (vec![("completed", 1)], 0, 1));
        assert_eq!(write("default/task/a", None), (vec![], 0, 0));
    }

    #[test]
    fn what_runs_and_of_which_version_is_counted_write_by_write() {
        let mut mirror = Mirror::new(Revision::new(1));
        let count = |running, outdated| Count { running, outdated };
        write(&mut mirror, 0, Some(running(0)));
        write_service(&mut mirror, Some(record(3, 0)));
        for index in 0..3 {
            write(&mut mirror, index, Some(running(0)));
        }
        assert_eq!(mirror.count(&web()), count(3, 0));
        write(&mut mirror, 1, Some(running(1)));
        assert_eq!(mirror.count(&web()), count(3, 1), "one of a version that was taken back");
        let mut ends = running(1);
        ends.stop(ends.copy().unwrap().placed.run, StopReason::Update);
        write(&mut mirror, 1, Some(ends));
        assert_eq!(mirror.count(&web()), count(2, 1), "it is there until it is gone");
        write(&mut mirror, 1, Some(Instance::new(WallTime::EPOCH)));
        assert_eq!(mirror.count(&web()), count(2, 0));
        write_service(&mut mirror, Some(record(3, 1)));
        assert_eq!(mirror.count(&web()), count(2, 2));
        write_service(&mut mirror, Some(record(1, 1)));
        assert_eq!(mirror.count(&web()), count(1, 1), "what is not wanted is not counted");
        let mut moves = running(1);
        moves.displace(TwinReason::Evacuating, WallTime::EPOCH).unwrap();
        write(&mut mirror, 0, Some(moves));
        assert_eq!(mirror.count(&web()), count(1, 0), "its copy runs on until another does");
        write(&mut mirror, 2, None);
        write_service(&mut mirror, None);
        assert_eq!(mirror.count(&web()), count(0, 0));
    }
}
