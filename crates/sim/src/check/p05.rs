//! P5: what was acknowledged is never lost.
//!
//! What a client was told stands in the store when it is told, and stays there: tasks and their ends,
//! services, domains, drains. A result of which a worker was told that it is recorded stands in the
//! task's record. Whoever asked to be told of an end was told. Nothing is ended for the lack of a
//! record where a domain is stale. A new version comes about as its spec says (`updates.rs`), and a
//! machine is drained as its drain says (`moved.rs`). Only a store that was set back loses what came
//! since; what is said before anybody can have noticed that (`unnoticed.rs`) is not held against it.

use std::collections::BTreeMap;

use sterna_engine::control::{Answer, Call, Row, RowKey};
use sterna_model::{
    Epoch, InstanceKey, ServiceKey, TaskIncarnation, TaskKey, WorkKey,
    record::{Instance, StopReason, TaskEnd},
    spec::DEFAULT_DOMAIN,
};
use sterna_protocol::message::Run;

use super::{
    Changed, Checker, Fact, Promise, Sight,
    asked::{Asked, about, bare},
    moved,
    ready::Said,
    unnoticed::Unnoticed,
    updates::Updates,
};
use crate::{
    clock::Moment,
    words::{self, Pace},
};

/// How often a receiver is tried before it is given up.
const CALLS: u32 = 8;

#[derive(Debug)]
pub(crate) struct Kept {
    unnoticed: Unnoticed,
    asked: Asked,
    /// How often each receiver was told, and whether it took that.
    called: BTreeMap<TaskIncarnation, (u32, bool)>,
    /// When somebody has put each service last, whatever came of it.
    put: BTreeMap<ServiceKey, Moment>,
    updates: Updates,
    said: Said,
    is_restored: bool,
}

/// Within so many milliseconds stands what somebody has asked for, or nobody is told that it does.
const ANSWERED_WITHIN: Moment = 10_000;

impl Kept {
    pub(crate) fn new(pace: &Pace) -> Self {
        Self {
            unnoticed: Unnoticed::default(),
            asked: Asked::new(pace.tasks_max),
            called: BTreeMap::new(),
            put: BTreeMap::new(),
            updates: Updates::default(),
            said: Said::default(),
            is_restored: false,
        }
    }

    fn answered(
        &mut self,
        sight: &Sight<'_>,
        id: u64,
        call: &Call,
        answer: &Answer,
    ) -> Option<String> {
        let stood = self.asked.close(id);
        if self.asked.is_overtaken(id, call) || self.is_wished(sight, call) {
            return None;
        }
        let holds = match answer {
            Answer::Done | Answer::BeginsAgain | Answer::Already => {
                holds(sight, call, stood.as_ref())
            }
            Answer::NotFound => !is_there(sight, call, stood.as_ref()),
            Answer::Taken(_) | Answer::Conflict(_) | Answer::BadLimits(_) | Answer::BadSpec(_) => {
                true
            }
        };
        (!holds).then(|| format!("{answer:?} was said to {call:?}, and the store says otherwise"))
    }

    /// Whether the operator of a machine says something else about its drain.
    fn is_wished(&self, sight: &Sight<'_>, call: &Call) -> bool {
        match call {
            Call::Drain(lock, _) | Call::Undrain(lock) => self.asked.is_wished(sight, *lock),
            Call::CreateTask(..)
            | Call::CancelTask(_)
            | Call::DeleteTask(_)
            | Call::FreeName(_)
            | Call::PutService(..)
            | Call::DeleteService(_)
            | Call::SetDomain(..)
            | Call::RemoveDomain(_)
            | Call::PutDefinition(..)
            | Call::DeleteDefinition(_)
            | Call::StopInstance(_)
            | Call::Kill(_)
            | Call::Forget(_)
            | Call::DeclareDead(_)
            | Call::SetLimits(_) => false,
        }
    }

    /// What a commit did to a task.
    fn task_changed(&self, sight: &Sight<'_>, key: &TaskKey, changed: &Changed) -> Option<String> {
        let before = changed.before.as_ref().and_then(task_of);
        let after = sight.stored.task(key);
        if let (Some(before), None) = (before, after) {
            let is_buried = knows(sight, key, Some(before.incarnation()));
            return (!is_buried).then(|| format!("{key} is gone from the store"));
        }
        let (task, spec) = after?;
        if let Some(before) = before {
            if before.incarnation() != task.incarnation() {
                return Some(format!("{key} is another task, and its name was taken"));
            }
            // Only one that was called lost or unknown, or drained unheard, may yet tell how it ended.
            let is_unknown = |end: &TaskEnd| {
                matches!(end, TaskEnd::Lost | TaskEnd::UnknownAfterRestore | TaskEnd::Drained)
            };
            let is_known = before.end().is_some_and(|end| !is_unknown(end));
            if is_known && before.end() != task.end() {
                return Some(format!("{key} had ended, and now {:?}", task.end()));
            }
        }
        let (tries, is_taken) = self.called.get(&task.incarnation()).copied().unwrap_or_default();
        let is_lost = spec.callback.is_some() && task.is_told() && !is_taken && tries < CALLS;
        is_lost.then(|| format!("nobody was told that {key} is over, and nobody will be"))
    }

    /// What a commit did to a record.
    fn changed(&self, sight: &Sight<'_>, changed: &Changed, changes: &[Changed]) -> Option<String> {
        match &changed.key {
            RowKey::Task(key) => self.task_changed(sight, key, changed),
            RowKey::Tombstone(key) => {
                let is_gone = sight.stored.get(&changed.key).is_none();
                is_gone.then(|| format!("it is forgotten that there was {key}"))
            }
            RowKey::Instance(_) => destroyed(sight, changed, changes, &self.put),
            RowKey::Service(_)
            | RowKey::Roster(_)
            | RowKey::Drain(_)
            | RowKey::Domain(_)
            | RowKey::Definition(..)
            | RowKey::Limits
            | RowKey::Stage => None,
        }
    }

    fn forgotten(
        &self,
        sight: &Sight<'_>,
        key: &TaskKey,
        epoch: Option<Epoch>,
        result: u64,
    ) -> Option<String> {
        // What was sent in an earlier life of the store may be unknown in this one.
        if epoch < sight.stored.epoch() {
            return None;
        }
        let Some((task, _)) = sight.stored.task(key) else {
            let is_buried = knows(sight, key, None);
            return (!is_buried).then(|| format!("the result of {key} was acknowledged, and lost"));
        };
        let is_there = match task.end() {
            Some(TaskEnd::Ran { report, .. }) => words::code_of(report.as_bytes()) == Some(result),
            Some(TaskEnd::Cancelled | TaskEnd::Drained | TaskEnd::UnknownAfterRestore) => true,
            Some(
                TaskEnd::Lost
                | TaskEnd::NeverTaken { .. }
                | TaskEnd::NoRoom { .. }
                | TaskEnd::TooLate,
            )
            | None => false,
        };
        (!is_there).then(|| {
            let state = task.state();
            format!("the result {result} of {key} was acknowledged, and the store says {state:?}")
        })
    }
}

/// Whether the store says what a call has done.
fn holds(sight: &Sight<'_>, call: &Call, stood: Option<&Row>) -> bool {
    match call {
        Call::CreateTask(key, incarnation, _) => knows(sight, key, Some(*incarnation)),
        Call::CancelTask(key) => {
            let task = sight.stored.task(key);
            task.map_or(knows(sight, key, None), |(task, _)| task.end().is_some())
        }
        Call::DeleteTask(key) | Call::FreeName(key) => knows(sight, key, None),
        Call::PutService(key, spec) => sight.stored.service(key).is_some_and(|record| {
            // A version may be taken back before its answer comes, of a leader that stood still.
            let before = if let Some(Row::Service(_, Some(before))) = stood {
                before.taken_back.as_ref()
            } else {
                None
            };
            let is_taken_back = record.taken_back.is_some() && record.taken_back.as_ref() != before;
            record.spec == *spec || is_taken_back
        }),
        Call::DeleteService(key) => sight.stored.service(key).is_none(),
        Call::SetDomain(name, until) => {
            let stored = sight.stored.get(&RowKey::Domain(name.clone()));
            stored == Some(&Row::Domain(name.clone(), Some(*until)))
        }
        Call::RemoveDomain(name) => sight.stored.get(&RowKey::Domain(name.clone())).is_none(),
        Call::PutDefinition(key, definition) => {
            sight.stored.definition(key).is_some_and(|stands| stands == &**definition)
        }
        Call::DeleteDefinition(key) => sight.stored.definition(key).is_none(),
        Call::Drain(lock, deadline) => match sight.stored.get(&RowKey::Drain(*lock)) {
            Some(Row::Drain(_, Some(drain))) => drain.deadline == *deadline,
            Some(_) | None => false,
        },
        Call::Undrain(lock) => sight.stored.get(&RowKey::Drain(*lock)).is_none(),
        // Nothing is left of one that has left the roster: that is looked at when it does.
        Call::DeclareDead(lock) => {
            let is_struck = sight.stored.get(&RowKey::Roster(*lock)).is_none();
            is_struck || sight.stored.is_declared_dead(*lock)
        }
        // Who was forgotten may have come again in the same commit: as another life, or as one that has
        // ended what it had when it was declared dead.
        Call::Forget(lock) => {
            let seen = |record: &Row| {
                let Row::Roster(_, Some(entry)) = record else { return None };
                let is_heard = !entry.is_declared_dead;
                (!entry.is_forgotten).then_some((entry.incarnation.life, is_heard))
            };
            let stands = sight.stored.get(&RowKey::Roster(*lock)).and_then(seen);
            stands.is_none() || stands > stood.and_then(seen)
        }
        Call::SetLimits(limits) => match sight.stored.get(&RowKey::Limits) {
            Some(Row::Limits(all)) => all.last().copied().map(bare) == Some(bare(*limits)),
            Some(_) | None => false,
        },
        // What ran then is told to end, is gone, or is followed by another already.
        Call::StopInstance(key) => {
            let before = match stood {
                Some(Row::Instance(_, Some(before))) => before.copy().map(|copy| copy.placed.run),
                Some(_) | None => None,
            };
            let copy = sight.stored.instance(key).and_then(Instance::copy);
            copy.is_none_or(|copy| Some(copy.placed.run) != before || copy.stopping.is_some())
        }
        // It writes nothing: it concerns what runs now, and dies with whoever was asked.
        Call::Kill(_) => true,
    }
}

/// Whether something is there, though a client was told that it is not: it stood there when that was
/// asked, and stands there.
fn is_there(sight: &Sight<'_>, call: &Call, stood: Option<&Row>) -> bool {
    let stands = about(call).and_then(|key| sight.stored.get(&key));
    // tidy: not a table
    match (stood, stands) {
        (Some(Row::Task(_, Some((before, _)))), Some(Row::Task(_, Some((task, _))))) => {
            before.incarnation() == task.incarnation()
        }
        (Some(Row::Roster(_, Some(before))), Some(Row::Roster(_, Some(entry)))) => {
            before.incarnation == entry.incarnation && !before.is_forgotten && !entry.is_forgotten
        }
        (Some(Row::Service(..)), Some(Row::Service(..)))
        | (Some(Row::Domain(..)), Some(Row::Domain(..))) => true,
        (_, _) => false,
    }
}

/// Whether the store has a task of this name, or what stays of it.
fn knows(sight: &Sight<'_>, key: &TaskKey, incarnation: Option<TaskIncarnation>) -> bool {
    let task = sight.stored.task(key).map(|(task, _)| task.incarnation());
    let stone = match sight.stored.get(&RowKey::Tombstone(key.clone())) {
        Some(Row::Tombstone(_, Some(stone))) => Some(stone.incarnation),
        Some(_) | None => None,
    };
    match incarnation {
        Some(incarnation) => task == Some(incarnation) || stone == Some(incarnation),
        None => stone.is_some(),
    }
}

fn task_of(record: &Row) -> Option<&sterna_model::record::Task> {
    let Row::Task(_, Some((task, _))) = record else { return None };
    Some(task)
}

/// A copy that was ended because nobody wants it, though nobody asked for that and its domain is
/// stale.
fn destroyed(
    sight: &Sight<'_>,
    changed: &Changed,
    changes: &[Changed],
    put: &BTreeMap<ServiceKey, Moment>,
) -> Option<String> {
    let RowKey::Instance(key) = &changed.key else { return None };
    let InstanceKey { service, index } = key;
    let record = sight.stored.service(service)?;
    // Also for what the spec says already.
    let is_put = put.get(service).is_some_and(|at| sight.now <= at + ANSWERED_WITHIN);
    let is_asked = is_put || changes.iter().any(|one| one.key == RowKey::Service(service.clone()));
    let domain = &record.spec.domain;
    let is_stale = domain.as_str() != DEFAULT_DOMAIN
        && match sight.stored.get(&RowKey::Domain(domain.clone())) {
            Some(Row::Domain(_, Some(until))) => until.is_some_and(|until| until <= sight.wall),
            Some(_) | None => true,
        };
    let unwanted = |instance: &Instance| {
        let is_unwanted = |stopping: Option<StopReason>| stopping == Some(StopReason::Unwanted);
        instance.copies().filter(|copy| is_unwanted(copy.stopping)).count()
    };
    let before = match &changed.before {
        Some(Row::Instance(_, Some(before))) => unwanted(before),
        Some(_) | None => 0,
    };
    let after = unwanted(sight.stored.instance(key)?);
    (*index >= record.spec.instances && is_stale && !is_asked && after > before)
        .then(|| format!("{key} is ended, though {domain} is stale"))
}

/// A drain that stood before the claim was made.
fn drained(sight: &Sight<'_>, run: &Run, machine: usize) -> Option<String> {
    let lock =
        sight.stored.drained().find(|lock| sight.stored.machine_of(*lock) == Some(machine))?;
    let since = sight.stored.since(&RowKey::Drain(lock))?;
    let key = match &run.key {
        WorkKey::Task(key) => RowKey::Task(key.clone()),
        WorkKey::Instance(key) => RowKey::Instance(key.clone()),
        WorkKey::Node(_) => return None,
    };
    (since < sight.stored.since(&key)?)
        .then(|| format!("{} is sent to m{machine}, which is being drained", run.key))
}

impl Checker for Kept {
    const PROMISE: Promise = Promise::P5;

    fn see(&mut self, sight: &Sight<'_>, fact: &Fact<'_>) -> Option<String> {
        self.unnoticed.see(sight, fact);
        let is_unnoticed = self.unnoticed.is_so();
        self.asked.see(sight, fact);
        if let Fact::Asked { call: Call::PutService(service, _), .. } = fact {
            self.put.insert(service.clone(), sight.now);
        }
        if let Fact::Answered { id, call, answer } = fact {
            return self.answered(sight, *id, call, answer).filter(|_| !is_unnoticed);
        }
        if let Fact::Called { incarnation, is_taken, .. } = fact {
            let (tries, was_taken) = self.called.entry(*incarnation).or_default();
            *tries += 1;
            *was_taken |= is_taken;
        }
        self.updates.look(sight);
        self.said.see(sight.now, fact);
        if let Fact::Restored = fact {
            self.updates.restored();
            self.is_restored = true;
        }
        if let Fact::Committed { applied, changes } = fact {
            let put = |key: &ServiceKey| self.asked.put(applied, key);
            let update = self.updates.committed(sight, (applied, changes), &self.said, put);
            let latest = self.updates.latest();
            let moved = |changed| {
                moved::ended_too_early(sight, &self.said, changes, changed)
                    .or_else(|| moved::asked_too_early(sight, latest, changes, changed))
            };
            let moved = || changes.iter().find_map(moved).filter(|_| !self.is_restored);
            if let Some(wrong) = update.or_else(moved).filter(|_| !is_unnoticed) {
                return Some(wrong);
            }
            return changes.iter().find_map(|changed| {
                let unasked = self.asked.unasked(sight, applied, changed, changes);
                unasked.filter(|_| !is_unnoticed).or_else(|| self.changed(sight, changed, changes))
            });
        }
        if let Fact::Forgotten { key, epoch, result, .. } = fact {
            let task = key.task()?;
            return self.forgotten(sight, task, *epoch, *result).filter(|_| !is_unnoticed);
        }
        if let Fact::Sent { run, machine, .. } = fact {
            return drained(sight, run, *machine).filter(|_| !is_unnoticed);
        }
        None
    }
}
