//! From records to words and back: total one way, checked the other.

use std::sync::Arc;

use sterna_engine::control::{Drain, ServiceRecord, TakenBack, Tombstone};
use sterna_model::{
    Bytes, Constraints, Countables, Demand, Epoch, Incarnation, Millicores, Name, RunId, Span,
    TaskIncarnation, WallTime, Wants, Zones,
    record::{
        CrashPolicy, Crashes, Instance, InstanceCopy, InstanceState, Past, PastCrash, Placed,
        StopReason, Task, TaskEnd, TaskParts, TaskState, Twin, TwinReason,
    },
    spec::{Definition, ServiceSpec, TaskSpec, UpdatePolicy, WhenFull},
};
use sterna_protocol::roster::{Enrolled, Zone};
use sterna_wire::{
    convert::{At, FieldError, Word, given, id, known, list, part, perhaps, said, word},
    words::Nothing,
};

use super::words;

const fn ms(at: WallTime) -> i64 {
    at.as_millis()
}

fn at(ms: i64) -> Result<WallTime, FieldError> {
    WallTime::from_millis(ms).map_err(FieldError::invalid)
}

const fn span(ms: u64) -> Span {
    Span::from_millis(ms)
}

impl Word<Wants> for words::Wants {
    fn of(wants: &Wants) -> Self {
        let Wants { demand, constraints } = wants;
        let amounts = demand.amounts();
        let countable = |(name, count): (&Name, u64)| words::Countable {
            name: name.as_str().to_owned(),
            count,
        };
        let names = |names: &std::collections::BTreeSet<Name>| {
            names.iter().map(|name| name.as_str().to_owned()).collect()
        };
        Self {
            cpu_millicores: amounts.cpu.get(),
            memory_bytes: amounts.memory.get(),
            disk_bytes: amounts.disk.get(),
            countables: amounts.countables.iter().map(countable).collect(),
            stack: constraints.stack.as_ref().map(|stack| stack.as_str().to_owned()),
            tags: names(&constraints.tags),
            apart_from: names(&constraints.apart_from),
            zones: match constraints.zones {
                Zones::Spread => String::new(),
                Zones::Pinned => Zones::Pinned.as_str().to_owned(),
            },
        }
    }

    fn read(self) -> Result<Wants, FieldError> {
        let names = |field: &str, all: &[String]| {
            all.iter().map(|name| word(field, name, Name::new)).collect::<Result<_, _>>()
        };
        let mut countables = Countables::default();
        for words::Countable { name, count } in &self.countables {
            countables.set(word("countables", name, Name::new)?, *count);
        }
        let zones = match self.zones.as_str() {
            "" => Zones::Spread,
            zones => word("zones", zones, str::parse)?,
        };
        let stack = self.stack.map(|stack| word("stack", &stack, Name::new)).transpose()?;
        let constraints = Constraints {
            stack,
            tags: names("tags", &self.tags)?,
            apart_from: names("apart_from", &self.apart_from)?,
            zones,
        };
        let (cpu, memory) = (Millicores::new(self.cpu_millicores), Bytes::new(self.memory_bytes));
        let demand = Demand::new(cpu, memory, Bytes::new(self.disk_bytes), countables);
        Ok(Wants { demand, constraints })
    }
}

impl Word<CrashPolicy> for words::CrashPolicy {
    fn of(policy: &CrashPolicy) -> Self {
        Self {
            wait_from: policy.wait_from,
            first_wait_ms: policy.first_wait.as_millis(),
            longest_wait_ms: policy.longest_wait.as_millis(),
            give_up_at: policy.give_up_at,
            forgiven_after_ms: policy.forgiven_after.as_millis(),
        }
    }

    fn read(self) -> Result<CrashPolicy, FieldError> {
        Ok(CrashPolicy {
            wait_from: self.wait_from,
            first_wait: span(self.first_wait_ms),
            longest_wait: span(self.longest_wait_ms),
            give_up_at: self.give_up_at,
            forgiven_after: span(self.forgiven_after_ms),
        })
    }
}

impl Word<UpdatePolicy> for words::UpdatePolicy {
    fn of(policy: &UpdatePolicy) -> Self {
        Self {
            max_unavailable: policy.max_unavailable,
            healthy_for_ms: policy.healthy_for.as_millis(),
            revert_after: policy.revert_after,
        }
    }

    fn read(self) -> Result<UpdatePolicy, FieldError> {
        Ok(UpdatePolicy {
            max_unavailable: self.max_unavailable,
            healthy_for: span(self.healthy_for_ms),
            revert_after: self.revert_after,
        })
    }
}

impl Word<ServiceSpec> for words::ServiceSpec {
    fn of(spec: &ServiceSpec) -> Self {
        Self {
            instances: spec.instances,
            wants: Some(Word::of(&*spec.wants)),
            contract: Some(Word::of(&spec.contract)),
            work: spec.work.to_vec(),
            crash: Some(Word::of(&spec.crash)),
            update: Some(Word::of(&spec.update)),
            domain: spec.domain.as_str().to_owned(),
            notes: spec.notes.to_string(),
        }
    }

    fn read(self) -> Result<ServiceSpec, FieldError> {
        Ok(ServiceSpec {
            instances: self.instances,
            wants: Arc::new(part("wants", self.wants)?),
            contract: part("contract", self.contract)?,
            work: self.work.into(),
            crash: part("crash", self.crash)?,
            update: part("update", self.update)?,
            domain: word("domain", &self.domain, Name::new)?,
            notes: self.notes.into(),
        })
    }
}

impl Word<ServiceRecord> for words::Service {
    fn of(record: &ServiceRecord) -> Self {
        let before = record.before.as_ref();
        Self {
            spec: Some(Word::of(&record.spec)),
            version: record.version,
            highest: record.highest,
            before: before.map(|(_, spec)| Word::of(&**spec)),
            before_version: before.map_or(0, |(version, _)| *version),
            crashes: record.crashes,
            taken_back: record.taken_back.as_ref().map(Word::of),
        }
    }

    fn read(self) -> Result<ServiceRecord, FieldError> {
        let before = perhaps("before", self.before)?;
        Ok(ServiceRecord {
            spec: part("spec", self.spec)?,
            version: self.version,
            highest: self.highest,
            before: before.map(|spec| (self.before_version, Arc::new(spec))),
            crashes: self.crashes,
            taken_back: perhaps("taken_back", self.taken_back)?,
        })
    }
}

impl Word<TakenBack> for words::TakenBack {
    fn of(taken: &TakenBack) -> Self {
        let TakenBack { version, at, index, why } = taken;
        Self { version: *version, at_ms: ms(*at), index: *index, why: why.to_string() }
    }

    fn read(self) -> Result<TakenBack, FieldError> {
        let Self { version, at_ms, index, why } = self;
        Ok(TakenBack { version, at: at(at_ms)?, index, why: why.into() })
    }
}

impl Word<TaskSpec> for words::TaskSpec {
    fn of(spec: &TaskSpec) -> Self {
        Self {
            wants: Some(Word::of(&*spec.wants)),
            contract: Some(Word::of(&spec.contract)),
            work: spec.work.to_vec(),
            fails_when_full: spec.when_full == WhenFull::Fail,
            latest_start_ms: spec.latest_start.map(ms),
            callback: spec.callback.as_deref().map(str::to_owned),
            keeps_name: spec.keeps_name,
        }
    }

    fn read(self) -> Result<TaskSpec, FieldError> {
        Ok(TaskSpec {
            wants: Arc::new(part("wants", self.wants)?),
            contract: part("contract", self.contract)?,
            work: self.work.into(),
            when_full: if self.fails_when_full { WhenFull::Fail } else { WhenFull::Wait },
            latest_start: self.latest_start_ms.map(at).transpose()?,
            callback: self.callback.map(String::into_boxed_str),
            keeps_name: self.keeps_name,
        })
    }
}

impl Word<Definition> for words::Definition {
    fn of(definition: &Definition) -> Self {
        let Definition { spec, latest_start_after } = definition;
        Self {
            spec: Some(Word::of(&**spec)),
            latest_start_after_ms: latest_start_after.map(Span::as_millis),
        }
    }

    fn read(self) -> Result<Definition, FieldError> {
        Ok(Definition {
            spec: Arc::new(part("spec", self.spec)?),
            latest_start_after: self.latest_start_after_ms.map(span),
        })
    }
}

impl Word<Placed> for words::Placed {
    fn of(placed: &Placed) -> Self {
        Self {
            run: placed.run.as_bytes().to_vec(),
            on: Some(Word::of(&placed.on)),
            contract: Some(Word::of(&placed.contract)),
        }
    }

    fn read(self) -> Result<Placed, FieldError> {
        Ok(Placed {
            run: id("run", &self.run, RunId::from_bytes)?,
            on: part("on", self.on)?,
            contract: part("contract", self.contract)?,
        })
    }
}

impl words::TaskOver {
    fn of(end: &TaskEnd, over_at: WallTime, since: Option<WallTime>) -> Self {
        let end = match end {
            TaskEnd::Ran { is_success: true, report } => {
                words::TaskEnd::Succeeded(report.clone().into())
            }
            TaskEnd::Ran { is_success: false, report } => {
                words::TaskEnd::Failed(report.clone().into())
            }
            TaskEnd::Cancelled => words::TaskEnd::Cancelled(Nothing {}),
            TaskEnd::Lost => words::TaskEnd::Lost(Nothing {}),
            TaskEnd::Drained => words::TaskEnd::Drained(Nothing {}),
            TaskEnd::NeverTaken { why } => {
                words::TaskEnd::NeverTaken(words::NeverTaken { why: why.clone().into() })
            }
            TaskEnd::NoRoom { why } => words::TaskEnd::NoRoom(why.clone().into()),
            TaskEnd::TooLate => words::TaskEnd::TooLate(Nothing {}),
            TaskEnd::UnknownAfterRestore => words::TaskEnd::UnknownAfterRestore(Nothing {}),
        };
        Self { at_ms: ms(over_at), since_ms: since.map_or(0, ms), end: Some(end) }
    }

    fn read(self) -> Result<(TaskEnd, WallTime, WallTime), FieldError> {
        let ran = |is_success, report: String| TaskEnd::Ran { is_success, report: report.into() };
        let end = match given("end", self.end)? {
            words::TaskEnd::Succeeded(report) => ran(true, report),
            words::TaskEnd::Failed(report) => ran(false, report),
            words::TaskEnd::Cancelled(Nothing {}) => TaskEnd::Cancelled,
            words::TaskEnd::Lost(Nothing {}) => TaskEnd::Lost,
            words::TaskEnd::Drained(Nothing {}) => TaskEnd::Drained,
            words::TaskEnd::NeverTaken(words::NeverTaken { why }) => {
                TaskEnd::NeverTaken { why: why.into() }
            }
            words::TaskEnd::NoRoom(why) => TaskEnd::NoRoom { why: why.into() },
            words::TaskEnd::TooLate(Nothing {}) => TaskEnd::TooLate,
            words::TaskEnd::UnknownAfterRestore(Nothing {}) => TaskEnd::UnknownAfterRestore,
        };
        Ok((end, at(self.at_ms)?, at(self.since_ms)?))
    }
}

impl Word<(Task, Arc<TaskSpec>)> for words::Task {
    fn of((task, spec): &(Task, Arc<TaskSpec>)) -> Self {
        let parts = TaskParts::from(task.clone());
        let state = match &parts.state {
            TaskState::Pending => words::TaskState::Pending(Nothing {}),
            TaskState::Running { placed, since } => {
                let placed = Some(Word::of(placed));
                words::TaskState::Running(words::TaskRunning { placed, since_ms: ms(*since) })
            }
            TaskState::Completed { end, at } => {
                words::TaskState::Completed(words::TaskOver::of(end, *at, None))
            }
            TaskState::Resolving { end, at, since } => {
                words::TaskState::Resolving(words::TaskOver::of(end, *at, Some(*since)))
            }
        };
        Self {
            incarnation: parts.incarnation.as_bytes().to_vec(),
            epoch: parts.epoch.get(),
            made_ms: ms(parts.made),
            returns: parts.returns,
            left: parts.left.as_ref().map(Word::of),
            lost: parts.lost.map(|run| run.as_bytes().to_vec()),
            last: parts.last.map(|(run, on)| words::LastRun::of(run, on)),
            started_ms: parts.started.map(ms),
            is_told: parts.is_told,
            is_given_up: parts.is_given_up,
            spec: Some(Word::of(&**spec)),
            state: Some(state),
        }
    }

    fn read(self) -> Result<(Task, Arc<TaskSpec>), FieldError> {
        let state = match given("state", self.state)? {
            words::TaskState::Pending(Nothing {}) => TaskState::Pending,
            words::TaskState::Running(words::TaskRunning { placed, since_ms }) => {
                TaskState::Running { placed: part("running", placed)?, since: at(since_ms)? }
            }
            words::TaskState::Completed(over) => {
                let (end, at, _) = over.read().at("completed")?;
                TaskState::Completed { end, at }
            }
            words::TaskState::Resolving(over) => {
                let (end, at, since) = over.read().at("resolving")?;
                TaskState::Resolving { end, at, since }
            }
        };
        let lost = self.lost.map(|run| id("lost", &run, RunId::from_bytes)).transpose()?;
        let parts = TaskParts {
            incarnation: id("incarnation", &self.incarnation, TaskIncarnation::from_bytes)?,
            epoch: Epoch::new(self.epoch),
            made: at(self.made_ms)?,
            state,
            returns: self.returns,
            left: perhaps("left", self.left)?,
            lost,
            last: self.last.map(words::LastRun::read).transpose().at("last")?,
            started: self.started_ms.map(at).transpose()?,
            is_told: self.is_told,
            is_given_up: self.is_given_up,
        };
        Ok((parts.into(), Arc::new(part("spec", self.spec)?)))
    }
}

impl words::LastRun {
    fn of(run: RunId, on: Incarnation) -> Self {
        Self { run: run.as_bytes().to_vec(), on: Some(Word::of(&on)) }
    }

    fn read(self) -> Result<(RunId, Incarnation), FieldError> {
        Ok((id("run", &self.run, RunId::from_bytes)?, part("on", self.on)?))
    }
}

impl words::Copy {
    fn of(copy: &InstanceCopy, since: Option<WallTime>) -> Self {
        let stopping = match copy.stopping {
            None => words::Stopping::No,
            Some(StopReason::Unwanted) => words::Stopping::Unwanted,
            Some(StopReason::Asked) => words::Stopping::Asked,
            Some(StopReason::Update) => words::Stopping::Update,
            Some(StopReason::Elsewhere) => words::Stopping::Elsewhere,
            Some(StopReason::Drain) => words::Stopping::Drain,
        };
        Self {
            placed: Some(Word::of(&copy.placed)),
            version: copy.version,
            stopping: stopping.into(),
            since_ms: since.map(ms),
            told: copy.told.as_deref().map(<[u8]>::to_vec),
            wants: Some(Word::of(&*copy.wants)),
        }
    }

    fn read(self) -> Result<(InstanceCopy, Option<WallTime>), FieldError> {
        let stopping = match known("stopping", self.stopping)? {
            words::Stopping::No => None,
            words::Stopping::Unwanted => Some(StopReason::Unwanted),
            words::Stopping::Asked => Some(StopReason::Asked),
            words::Stopping::Update => Some(StopReason::Update),
            words::Stopping::Elsewhere => Some(StopReason::Elsewhere),
            words::Stopping::Drain => Some(StopReason::Drain),
        };
        let placed = part("placed", self.placed)?;
        let told = self.told.map(Arc::from);
        let since = self.since_ms.map(at).transpose()?;
        let wants = Arc::new(part("wants", self.wants)?);
        Ok((InstanceCopy { placed, version: self.version, wants, stopping, told }, since))
    }

    /// A copy that is as it is since some moment.
    fn since(self, field: &str) -> Result<(InstanceCopy, WallTime), FieldError> {
        let (copy, since) = self.read().at(field)?;
        Ok((copy, given("since", since).at(field)?))
    }
}

impl Word<Past> for words::Past {
    fn of(past: &Past) -> Self {
        let crash = past.crash.as_deref().map(|crash| words::PastCrash {
            run: Some(words::LastRun::of(crash.run, crash.on)),
            over: Some(words::TaskOver::of(&crash.end, crash.at, None)),
        });
        Self { last: Some(words::LastRun::of(past.run, past.on)), crash }
    }

    fn read(self) -> Result<Past, FieldError> {
        let (run, on) = given("last", self.last)?.read().at("last")?;
        let crash = self.crash.map(|crash| {
            let (run, on) = given("run", crash.run)?.read().at("run")?;
            let (end, at, _) = given("over", crash.over)?.read().at("over")?;
            Ok(Box::new(PastCrash { run, on, at, end }))
        });
        Ok(Past { run, on, crash: crash.transpose().at("crash")? })
    }
}

impl Word<Instance> for words::Instance {
    fn of(instance: &Instance) -> Self {
        let state = match instance.state() {
            InstanceState::Unclaimed { since } => words::InstanceState::UnclaimedMs(ms(*since)),
            InstanceState::Claimed { copy, since } => {
                words::InstanceState::Claimed(words::Copy::of(copy, Some(*since)))
            }
            InstanceState::Running { copy, since } => {
                words::InstanceState::Running(words::Copy::of(copy, Some(*since)))
            }
            InstanceState::Crashed { until: Some(until) } => {
                words::InstanceState::CrashedUntilMs(ms(*until))
            }
            InstanceState::Crashed { until: None } => words::InstanceState::GivenUp(Nothing {}),
        };
        let twin = instance.twin().map(|twin| {
            let reason = match twin.reason {
                TwinReason::Silent => words::TwinReason::Silent,
                TwinReason::Evacuating => words::TwinReason::Evacuating,
                TwinReason::Surplus => words::TwinReason::Surplus,
            };
            let copy = Some(words::Copy::of(&twin.copy, twin.running_since));
            words::Twin { copy, reason: reason.into() }
        });
        let crashes = instance.crashes();
        let last_crash_ms = crashes.last.map(ms);
        let past = instance.past().map(Word::of);
        Self { crashes: crashes.count, last_crash_ms, twin, state: Some(state), past }
    }

    fn read(self) -> Result<Instance, FieldError> {
        let state = match given("state", self.state)? {
            words::InstanceState::UnclaimedMs(since) => {
                InstanceState::Unclaimed { since: at(since)? }
            }
            words::InstanceState::Claimed(copy) => {
                let (copy, since) = copy.since("claimed")?;
                InstanceState::Claimed { copy, since }
            }
            words::InstanceState::Running(copy) => {
                let (copy, since) = copy.since("running")?;
                InstanceState::Running { copy, since }
            }
            words::InstanceState::CrashedUntilMs(until) => {
                InstanceState::Crashed { until: Some(at(until)?) }
            }
            words::InstanceState::GivenUp(Nothing {}) => InstanceState::Crashed { until: None },
        };
        let twin = self.twin.map(|twin| {
            let reason = match known("reason", twin.reason)? {
                words::TwinReason::Unsaid => return Err(FieldError::missing()).at("reason"),
                words::TwinReason::Silent => TwinReason::Silent,
                words::TwinReason::Evacuating => TwinReason::Evacuating,
                words::TwinReason::Surplus => TwinReason::Surplus,
            };
            let (copy, running_since) = given("copy", twin.copy)?.read().at("copy")?;
            Ok(Twin { copy, reason, running_since })
        });
        let twin = twin.transpose().at("twin")?;
        let crashes =
            Crashes { count: self.crashes, last: self.last_crash_ms.map(at).transpose()? };
        Ok(Instance::from_parts(state, twin, crashes, perhaps("past", self.past)?))
    }
}

impl Word<Tombstone> for words::Tombstone {
    fn of(tombstone: &Tombstone) -> Self {
        let incarnation = tombstone.incarnation.as_bytes().to_vec();
        Self { incarnation, at_ms: ms(tombstone.at), is_kept: tombstone.is_kept }
    }

    fn read(self) -> Result<Tombstone, FieldError> {
        let incarnation = id("incarnation", &self.incarnation, TaskIncarnation::from_bytes)?;
        Ok(Tombstone { incarnation, at: at(self.at_ms)?, is_kept: self.is_kept })
    }
}

impl Word<Enrolled> for words::Enrolled {
    fn of(entry: &Enrolled) -> Self {
        Self {
            incarnation: Some(Word::of(&entry.incarnation)),
            name: entry.name.as_str().to_owned(),
            boot: entry.boot.to_be_bytes().to_vec(),
            is_declared_dead: entry.is_declared_dead,
            is_draining: entry.is_draining,
            is_forgotten: entry.is_forgotten,
            birth: entry.birth,
            zone: match &entry.zone {
                Zone::Unsaid => None,
                Zone::Nameless => Some(String::new()),
                Zone::Named(name) => Some(name.as_str().to_owned()),
            },
        }
    }

    fn read(self) -> Result<Enrolled, FieldError> {
        let boot = |bytes: [u8; 16]| Ok::<_, std::convert::Infallible>(u128::from_be_bytes(bytes));
        Ok(Enrolled {
            incarnation: part("incarnation", self.incarnation)?,
            name: word("name", &self.name, Name::new)?,
            boot: id("boot", &self.boot, boot)?,
            is_declared_dead: self.is_declared_dead,
            is_draining: self.is_draining,
            is_forgotten: self.is_forgotten,
            birth: self.birth,
            zone: match self.zone.as_deref() {
                None => Zone::Unsaid,
                Some("") => Zone::Nameless,
                Some(name) => Zone::Named(word("zone", name, Name::new)?),
            },
        })
    }
}

impl Word<Drain> for words::Drain {
    fn of(drain: &Drain) -> Self {
        Self { deadline_ms: ms(drain.deadline), since_ms: ms(drain.since) }
    }

    fn read(self) -> Result<Drain, FieldError> {
        Ok(Drain { deadline: at(self.deadline_ms)?, since: at(self.since_ms)? })
    }
}

impl Word<Option<WallTime>> for words::Domain {
    fn of(until: &Option<WallTime>) -> Self {
        Self { fresh_until_ms: until.map(ms) }
    }

    fn read(self) -> Result<Option<WallTime>, FieldError> {
        self.fresh_until_ms.map(at).transpose()
    }
}

impl Word<Vec<sterna_protocol::limits::Limits>> for words::LimitsInForce {
    fn of(limits: &Vec<sterna_protocol::limits::Limits>) -> Self {
        Self { limits: said(limits) }
    }

    fn read(self) -> Result<Vec<sterna_protocol::limits::Limits>, FieldError> {
        list("limits", self.limits)
    }
}
