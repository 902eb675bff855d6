//! What stands in the store, in memory: what clients are shown. Pure.
//!
//! The engine decides by what the store is going to say; this is what it has said. So nobody is shown
//! what may yet not come about.

use std::{collections::BTreeMap, sync::Arc};

use sterna_engine::control::{Drain, Record, RecordKey, ServiceKey, ServiceRecord};
use sterna_model::{
    Lock, Name, Namespace, Revision, WallTime, WorkKey,
    record::{Instance, Task, TaskPhase},
    spec::TaskSpec,
};
use sterna_protocol::roster::Enrolled;

use crate::{
    counts::{self, Count, Phases},
    weight,
};

/// One write of a commit.
pub(crate) type Write = (RecordKey, Option<Record>);

/// Everything that stands in the store, as of one revision.
#[derive(Clone, Debug)]
pub(crate) struct Mirror {
    pub(crate) revision: Revision,
    pub(crate) services: BTreeMap<ServiceKey, Arc<ServiceRecord>>,
    pub(crate) instances: BTreeMap<WorkKey, Instance>,
    /// How far those of each service are.
    counts: BTreeMap<ServiceKey, Count>,
    pub(crate) tasks: BTreeMap<WorkKey, (Task, Arc<TaskSpec>)>,
    /// How many of those are in which phase, by namespace; no namespace without one.
    pub(crate) phases: BTreeMap<Namespace, Phases>,
    /// The same of all namespaces.
    all_phases: Phases,
    /// How many of those are not over, or still end.
    pub(crate) under_way: usize,
    /// How many are over, and whoever asked for them is still to be told.
    pub(crate) telling: usize,
    /// About how many bytes the specs of those take, and of services.
    pub(crate) specs_bytes: u64,
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
            counts: BTreeMap::new(),
            tasks: BTreeMap::new(),
            phases: BTreeMap::new(),
            all_phases: Phases::new(),
            under_way: 0,
            telling: 0,
            specs_bytes: 0,
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
                self.write_service(key, record);
            }
            (RecordKey::Service(key), None) => {
                let before = self.services.remove(&key);
                self.specs_bytes -= before.map_or(0, |before| weight::of_record(&before));
                self.counts.remove(&key);
            }
            (RecordKey::Instance(key), Some(Record::Instance(instance))) => {
                self.write_instance(key, Some(instance));
            }
            (RecordKey::Instance(key), None) => self.write_instance(key, None),
            (RecordKey::Task(key), Some(Record::Task(task, spec))) => {
                self.phases.entry(key.namespace.clone()).or_default().add(task.phase());
                self.all_phases.add(task.phase());
                let space = key.namespace.clone();
                let stands = Stands::of(&task, &spec);
                self.under_way += usize::from(stands == Stands::UnderWay);
                self.telling += usize::from(stands == Stands::Telling);
                self.specs_bytes += stands.bytes(&spec);
                let before = self.tasks.insert(key, (task, spec));
                self.forget(&space, before);
            }
            (RecordKey::Task(key), None) => {
                let before = self.tasks.remove(&key);
                self.forget(&key.namespace, before);
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

    fn write_service(&mut self, key: ServiceKey, record: Arc<ServiceRecord>) {
        let counted_by = |record: &ServiceRecord| (record.version, record.spec.instances);
        let by = counted_by(&record);
        self.specs_bytes += weight::of_record(&record);
        let before = self.services.insert(key.clone(), record);
        self.specs_bytes -= before.as_ref().map_or(0, |before| weight::of_record(before));
        if before.is_some_and(|before| counted_by(&before) == by) {
            return;
        }
        let Some(record) = self.services.get(&key) else { return };
        let mut count = Count::default();
        for (key, instance) in self.instances.range(key.instance(0)..=key.instance(u32::MAX)) {
            if let Some((_, index)) = counts::service_of(key) {
                count.add(Count::of(record, index, instance));
            }
        }
        self.counts.insert(key, count);
    }

    fn write_instance(&mut self, key: WorkKey, instance: Option<Instance>) {
        if let Some((service, index)) = counts::service_of(&key)
            && let Some(record) = self.services.get(&service)
            && let Some(count) = self.counts.get_mut(&service)
        {
            let was = self.instances.get(&key).map(|was| Count::of(record, index, was));
            let is = instance.as_ref().map(|is| Count::of(record, index, is));
            count.subtract(was.unwrap_or_default());
            count.add(is.unwrap_or_default());
        }
        match instance {
            Some(instance) => drop(self.instances.insert(key, instance)),
            None => drop(self.instances.remove(&key)),
        }
    }

    /// How far the instances of a service are.
    pub(crate) fn count(&self, service: &ServiceKey) -> Count {
        self.counts.get(service).copied().unwrap_or_default()
    }

    /// How many tasks are in which phase, of one namespace or of all.
    pub(crate) fn phases(&self, of: Option<&Namespace>) -> Phases {
        let one = |of| self.phases.get(of).copied().unwrap_or_default();
        of.map_or(self.all_phases, one)
    }

    /// A task is no more what it was.
    fn forget(&mut self, space: &Namespace, before: Option<(Task, Arc<TaskSpec>)>) {
        let Some((task, spec)) = before else { return };
        let stood = Stands::of(&task, &spec);
        self.under_way -= usize::from(stood == Stands::UnderWay);
        self.telling -= usize::from(stood == Stands::Telling);
        self.specs_bytes -= stood.bytes(&spec);
        self.all_phases.subtract(task.phase());
        let Some(phases) = self.phases.get_mut(space) else { return };
        phases.subtract(task.phase());
        if *phases == Phases::default() {
            self.phases.remove(space);
        }
    }

    /// What the worker of a machine is called.
    pub(crate) fn worker(&self, lock: Lock) -> Option<&Name> {
        self.roster.get(&lock).map(|entry| &entry.name)
    }
}

/// How far a task is, for those who count. Before it is over for good its record cannot go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stands {
    /// It is to run, or something of it still runs.
    UnderWay,
    /// Whoever asked for it is still to be told.
    Telling,
    /// It is over for good.
    Over,
}

impl Stands {
    fn of(task: &Task, spec: &TaskSpec) -> Self {
        let is_to_be_told = spec.callback.is_some() && !task.is_told();
        if task.end().is_none() || task.placed().is_some() {
            Self::UnderWay
        } else if task.phase() == TaskPhase::Resolving || is_to_be_told {
            Self::Telling
        } else {
            Self::Over
        }
    }

    /// What its spec takes until then.
    fn bytes(self, spec: &TaskSpec) -> u64 {
        match self {
            Self::UnderWay | Self::Telling => weight::of_task(spec),
            Self::Over => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use sterna_api::spec::{Source, read};
    use sterna_model::{
        DirectoryId, Epoch, Incarnation, MachineId, RunId, TaskIncarnation,
        record::{Placed, StopReason, TaskEnd, TwinReason},
    };

    use super::*;

    fn web() -> ServiceKey {
        ServiceKey { namespace: Namespace::default(), name: Name::new("web").unwrap() }
    }

    /// A record of a service of so many instances, in this version.
    fn record(instances: u32, version: u64) -> Record {
        let text = format!("version = 1\n[service.web]\nrun = [\"a\"]\ninstances = {instances}\n");
        let specs = read(&[Source { name: "a.toml", text: &text }]).unwrap();
        let spec = specs.services.into_values().next().unwrap();
        Record::Service(Arc::new(ServiceRecord {
            spec,
            version,
            highest: 1,
            before: None,
            crashes: 0,
            taken_back: None,
        }))
    }

    fn running(version: u64) -> Instance {
        let directory = DirectoryId::from_parts(WallTime::EPOCH, [1; 10]);
        let machine = MachineId::from_bytes([1; 16]).unwrap();
        let on = Incarnation { lock: Lock { directory, machine }, life: 1 };
        let Record::Service(record) = record(1, 0) else { panic!() };
        let spec = &record.spec;
        let run = RunId::from_parts(WallTime::EPOCH, [1; 10]);
        let placed = Placed { run, on, contract: spec.contract };
        let mut instance = Instance::new(WallTime::EPOCH);
        instance.claim(placed, version, Arc::clone(&spec.wants), WallTime::EPOCH).unwrap();
        instance.start(WallTime::EPOCH).unwrap();
        instance
    }

    fn write(mirror: &mut Mirror, index: u32, instance: Option<Instance>) {
        let key = RecordKey::Instance(web().instance(index));
        let record = instance.map(Record::Instance);
        mirror.apply(mirror.revision, vec![(key, record)]);
        check(mirror);
    }

    fn write_service(mirror: &mut Mirror, record: Option<Record>) {
        mirror.apply(mirror.revision, vec![(RecordKey::Service(web()), record)]);
        check(mirror);
    }

    #[test]
    fn what_specs_take_is_counted_write_by_write() {
        let mut mirror = Mirror::new(Revision::new(1));
        let Record::Service(first) = record(3, 0) else { panic!() };
        write_service(&mut mirror, Some(Record::Service(Arc::clone(&first))));
        let one = weight::of_service(&first.spec);
        assert_eq!(mirror.specs_bytes, one);
        let with_before =
            ServiceRecord { before: Some((0, Arc::new(first.spec.clone()))), ..(*first).clone() };
        write_service(&mut mirror, Some(Record::Service(Arc::new(with_before))));
        assert_eq!(mirror.specs_bytes, one * 2, "it may be taken back");
        write_service(&mut mirror, None);
        assert_eq!(mirror.specs_bytes, 0);
    }

    /// What is counted is what a look at all of them gives.
    fn check(mirror: &Mirror) {
        let mut whole = Count::default();
        for (key, instance) in &mirror.instances {
            let (service, index) = counts::service_of(key).unwrap();
            let record = mirror.services.get(&service);
            record.into_iter().for_each(|record| whole.add(Count::of(record, index, instance)));
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
            let record = task.map(|task| Record::Task(task.clone(), Arc::clone(&spec)));
            let key = RecordKey::Task(key.parse().unwrap());
            mirror.apply(mirror.revision, vec![(key, record)]);
            let mut whole = BTreeMap::<_, Phases>::new();
            for (key, (task, _)) in &mirror.tasks {
                whole.entry(key.namespace.clone()).or_default().add(task.phase());
            }
            assert_eq!(mirror.phases, whole, "what a look at all of them gives");
            let mut all = Phases::default();
            whole.values().for_each(|phases| all.join(phases));
            assert_eq!(mirror.phases(None), all);
            let words = |phases: Phases| phases.words().collect::<Vec<_>>();
            (words(mirror.phases(None)), mirror.under_way, mirror.phases.len())
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
