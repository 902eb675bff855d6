//! What clients have asked for: only by that, or by a rule that is named here, may change what was
//! acknowledged before.
//!
//! A call counts for commits of the reign that it was made in, until it is answered: what it does stands
//! before that. Beside calls there is the wish of a machine's own operator that it be drained, or no
//! longer; it may arrive late, and for ever.

use std::collections::{BTreeMap, BTreeSet};

use sterna_engine::control::{Call, Drain, Row, RowKey, ServiceRecord};
use sterna_model::{
    DefinitionKey, Lock, Marks, Nonce, ServiceKey, TaskKey, Term,
    record::{Task, TaskEnd},
    spec::{ServiceSpec, UpdatePolicy, WhenFull},
};
use sterna_protocol::limits::Limits;

use super::{Changed, Fact, Sight};
use crate::store::Applied;

/// Which reign.
type Reign = (Term, Nonce);

#[derive(Debug)]
struct Question {
    call: Call,
    reign: Reign,
    /// What stood in the store then under what it is about.
    stood: Option<Row>,
}

#[derive(Debug)]
pub(super) struct Asked {
    /// So many records of tasks that are over are kept; beyond that the oldest go though nobody asks.
    tasks_max: usize,
    open: BTreeMap<u64, Question>,
    /// The newest call about each record.
    newest: BTreeMap<RowKey, u64>,
    /// Machines whose own operator has wished for something.
    wished: BTreeSet<usize>,
    /// To which term a machine has said last what it runs, since it was declared dead.
    listed: BTreeMap<usize, Term>,
}

impl Asked {
    pub(super) const fn new(tasks_max: usize) -> Self {
        Self {
            tasks_max,
            open: BTreeMap::new(),
            newest: BTreeMap::new(),
            wished: BTreeSet::new(),
            listed: BTreeMap::new(),
        }
    }

    pub(super) fn see(&mut self, sight: &Sight<'_>, fact: &Fact<'_>) {
        if let Fact::Asked { id, call, reign } = fact {
            let stood = about(call).and_then(|key| sight.stored.get(&key)).cloned();
            let reign = (reign.term, reign.nonce);
            self.open.insert(*id, Question { call: (*call).clone(), reign, stood });
            self.newest.extend(about(call).map(|key| (key, *id)));
        }
        if let Fact::Wished { machine } = fact {
            self.wished.insert(*machine);
        }
        if let Fact::Listed { machine, term, .. } = fact {
            self.listed.insert(*machine, *term);
        }
    }

    /// A call is answered: gives what stood in the store when it was made.
    pub(super) fn close(&mut self, id: u64) -> Option<Row> {
        self.open.remove(&id)?.stood
    }

    /// Whether somebody has asked for something else since.
    pub(super) fn is_overtaken(&self, id: u64, call: &Call) -> bool {
        about(call).is_some_and(|key| self.newest.get(&key) != Some(&id))
    }

    pub(super) fn is_wished(&self, sight: &Sight<'_>, lock: Lock) -> bool {
        sight.stored.machine_of(lock).is_some_and(|machine| self.wished.contains(&machine))
    }

    fn by(&self, applied: &Applied, is_meant: impl Fn(&Call) -> bool) -> bool {
        let reign = applied.said.map(|said| (said.term, said.nonce));
        self.open.values().any(|one| Some(one.reign) == reign && is_meant(&one.call))
    }

    /// How the specs of this service that somebody asks for want it to be updated.
    pub(super) fn put(&self, applied: &Applied, key: &ServiceKey) -> Vec<UpdatePolicy> {
        let reign = applied.said.map(|said| (said.term, said.nonce));
        let open = self.open.values().filter(|one| Some(one.reign) == reign);
        let put = open.filter_map(|one| {
            let Call::PutService(asked, spec) = &one.call else { return None };
            (asked == key).then_some(spec.update)
        });
        put.collect()
    }

    /// Whether somebody has asked that this be written there.
    fn wrote(&self, applied: &Applied, key: &RowKey, after: Option<&Row>) -> bool {
        self.by(applied, |call| {
            let written = match call {
                Call::SetDomain(name, until) => Some(Row::Domain(name.clone(), Some(*until))),
                Call::Drain(lock, deadline) => match after {
                    // Since when is the leader's own.
                    Some(Row::Drain(_, Some(Drain { since, .. }))) => {
                        let drain = Drain { deadline: *deadline, since: *since };
                        Some(Row::Drain(*lock, Some(drain)))
                    }
                    Some(_) | None => return false,
                },
                Call::RemoveDomain(_) | Call::Undrain(_) => None,
                Call::CreateTask(..)
                | Call::CancelTask(_)
                | Call::DeleteTask(_)
                | Call::FreeName(_)
                | Call::PutService(..)
                | Call::DeleteService(_)
                | Call::StopInstance(_)
                | Call::Kill(_)
                | Call::DeclareDead(_)
                | Call::Forget(_)
                // Which version it has is the leader's own.
                | Call::PutDefinition(..)
                | Call::DeleteDefinition(_)
                | Call::SetLimits(_) => return false,
            };
            about(call).as_ref() == Some(key) && written.as_ref() == after
        })
    }

    /// What a commit did that nobody has asked for, and no rule.
    pub(super) fn unasked(
        &mut self,
        sight: &Sight<'_>,
        applied: &Applied,
        changed: &Changed,
        changes: &[Changed],
    ) -> Option<String> {
        // What a store is founded with is nobody's.
        applied.said?;
        match &changed.key {
            RowKey::Service(key) => self.service(sight, applied, key, changed),
            RowKey::Task(key) => self.task(sight, applied, key, (changed, changes)),
            RowKey::Tombstone(key) => {
                let is_news = changed.before.is_none();
                let has_reason =
                    || self.is_deleted(applied, key) || self.is_surplus(sight, changes);
                (is_news && !has_reason())
                    .then(|| format!("{key} is deleted, and nobody asked for that"))
            }
            RowKey::Roster(lock) => self.roster(sight, applied, *lock, changed),
            RowKey::Drain(lock) => self.drain(sight, applied, *lock, changed),
            RowKey::Domain(_) => {
                let after = sight.stored.get(&changed.key);
                let is_same = changed.before.as_ref() == after;
                (!is_same && !self.wrote(applied, &changed.key, after))
                    .then(|| format!("{:?} is {after:?}, and nobody asked for that", changed.key))
            }
            RowKey::Definition(key, _) => self.definition(sight, applied, key, changed),
            RowKey::Limits => self.limits(sight, applied, changed),
            RowKey::Instance(_) | RowKey::Stage => None,
        }
    }

    fn definition(
        &self,
        sight: &Sight<'_>,
        applied: &Applied,
        key: &DefinitionKey,
        changed: &Changed,
    ) -> Option<String> {
        let is_asked = |call: &Call| match sight.stored.get(&changed.key) {
            Some(Row::Definition(_, _, Some(stands))) => {
                matches!(call, Call::PutDefinition(one, asked) if one == key && asked == stands)
            }
            // A version goes with the next one, too.
            Some(_) | None => matches!(
                call,
                Call::PutDefinition(one, _) | Call::DeleteDefinition(one) if one == key
            ),
        };
        (!self.by(applied, is_asked))
            .then(|| format!("{:?} is another one, and nobody asked for that", changed.key))
    }

    /// Whether somebody asks that a task be forgotten.
    fn is_deleted(&self, applied: &Applied, key: &TaskKey) -> bool {
        self.by(
            applied,
            |call| matches!(call, Call::DeleteTask(one) | Call::FreeName(one) if one == key),
        )
    }

    /// Whether as many tasks that are over are left as may be kept, or were before what was forgotten in
    /// the same commit: who went first was more than that.
    fn is_surplus(&self, sight: &Sight<'_>, changes: &[Changed]) -> bool {
        let is_over =
            |record: &Row| matches!(record, Row::Task(_, Some((task, _))) if task.end().is_some());
        let is_buried =
            |one: &&Changed| matches!(one.key, RowKey::Tombstone(_)) && one.before.is_none();
        let left = sight.stored.all().filter(|(_, record)| is_over(record)).count();
        left + changes.iter().filter(is_buried).count() > self.tasks_max
    }

    fn service(
        &self,
        sight: &Sight<'_>,
        applied: &Applied,
        key: &ServiceKey,
        changed: &Changed,
    ) -> Option<String> {
        let before = changed.before.as_ref().and_then(service_of);
        let Some(after) = sight.stored.service(key) else {
            let is_asked = self.by(applied, |call| *call == Call::DeleteService(key.clone()));
            return (!is_asked).then(|| format!("the service {} is gone unasked", key.name));
        };
        // A spec that is taken back takes along what is no part of a version.
        let (mut restarted, mut in_place) = (false, false);
        let mut compare = |known: &ServiceSpec| {
            restarted |= !known.needs_restart(&after.spec);
            in_place |= is_same_in_place(known, &after.spec);
        };
        if let Some(before) = before {
            compare(&before.spec);
            before.before.iter().for_each(|(_, spec)| compare(spec));
        }
        let is_of = |call: &Call| matches!(call, Call::PutService(asked, _) if asked == key);
        let reign = applied.said.map(|said| (said.term, said.nonce));
        for one in self.open.values().filter(|one| Some(one.reign) == reign && is_of(&one.call)) {
            if let Call::PutService(_, spec) = &one.call {
                compare(spec);
            }
        }
        (!restarted || !in_place).then(|| {
            let spec = &after.spec;
            format!("the service {} is {spec:?}, and nobody asked for that", key.name)
        })
    }

    fn task(
        &self,
        sight: &Sight<'_>,
        applied: &Applied,
        key: &TaskKey,
        (changed, changes): (&Changed, &[Changed]),
    ) -> Option<String> {
        let (task, spec) = sight.stored.task(key)?;
        let before = match &changed.before {
            Some(Row::Task(_, Some((before, _)))) => Some(before),
            Some(_) | None => None,
        };
        let end = task.end()?;
        if before.is_some_and(|before| before.end() == Some(end)) {
            return None;
        }
        let has_reason = match end {
            TaskEnd::Cancelled => self.by(applied, |call| *call == Call::CancelTask(key.clone())),
            TaskEnd::Drained => {
                let mut both = before.into_iter().chain([task]);
                both.any(|one| is_drained(sight, one, changes))
            }
            TaskEnd::NoRoom { .. } => spec.when_full == WhenFull::Fail,
            TaskEnd::TooLate => spec.latest_start.is_some(),
            TaskEnd::UnknownAfterRestore => Some(task.epoch()) < sight.stored.epoch(),
            TaskEnd::NeverTaken { .. } => task.returns() > 0,
            // What ran, or is called lost, is held against what its worker was told.
            TaskEnd::Ran { .. } | TaskEnd::Lost => true,
        };
        (!has_reason).then(|| format!("{key} is {end:?}, and nobody asked for that"))
    }

    /// A mark stays until a life of its machine has said what it has to whoever takes it off.
    fn roster(
        &mut self,
        sight: &Sight<'_>,
        applied: &Applied,
        lock: Lock,
        changed: &Changed,
    ) -> Option<String> {
        let machine = sight.stored.machine_of(lock)?;
        let was_dead = match &changed.before {
            Some(Row::Roster(_, Some(entry))) => entry.is_declared_dead,
            Some(_) | None => false,
        };
        let is_dead = sight.stored.is_declared_dead(lock);
        if !was_dead && is_dead {
            self.listed.remove(&machine);
            let is_asked = self.by(applied, |call| *call == Call::DeclareDead(lock));
            return (!is_asked).then(|| format!("m{machine} is declared dead by nobody"));
        }
        let has_listed = self.listed.get(&machine) == applied.said.map(|said| said.term).as_ref();
        (was_dead && !is_dead && !has_listed)
            .then(|| format!("that m{machine} was declared dead is forgotten"))
    }

    fn drain(
        &self,
        sight: &Sight<'_>,
        applied: &Applied,
        lock: Lock,
        changed: &Changed,
    ) -> Option<String> {
        let after = sight.stored.get(&changed.key);
        if changed.before.as_ref() == after || self.is_wished(sight, lock) {
            return None;
        }
        let is_asked = self.wrote(applied, &changed.key, after)
            || after.is_none() && self.by(applied, |call| *call == Call::Forget(lock));
        let machine = sight.stored.machine_of(lock)?;
        (!is_asked)
            .then(|| format!("the drain of m{machine} is {after:?}, and nobody asked for that"))
    }

    fn limits(&self, sight: &Sight<'_>, applied: &Applied, changed: &Changed) -> Option<String> {
        // A store that was emptied has none, and its leader goes by the usual ones.
        let before = changed.before.as_ref().and_then(newest).map(bare)?;
        let after = sight.stored.get(&changed.key).and_then(newest).map(bare);
        let is_asked = || {
            self.by(
                applied,
                |call| matches!(call, Call::SetLimits(asked) if Some(bare(*asked)) == after),
            )
        };
        (Some(before) != after && !is_asked())
            .then(|| format!("the limits are {after:?}, and nobody asked for that"))
    }
}

/// The record that a call is about.
pub(super) fn about(call: &Call) -> Option<RowKey> {
    match call {
        Call::PutService(key, _) | Call::DeleteService(key) => Some(RowKey::Service(key.clone())),
        Call::SetDomain(name, _) | Call::RemoveDomain(name) => Some(RowKey::Domain(name.clone())),
        Call::CreateTask(key, ..)
        | Call::CancelTask(key)
        | Call::DeleteTask(key)
        | Call::FreeName(key) => Some(RowKey::Task(key.clone())),
        Call::StopInstance(key) => Some(RowKey::Instance(key.clone())),
        Call::Drain(lock, _) | Call::Undrain(lock) => Some(RowKey::Drain(*lock)),
        Call::Forget(lock) | Call::DeclareDead(lock) => Some(RowKey::Roster(*lock)),
        Call::SetLimits(_) => Some(RowKey::Limits),
        // Under which version it stands is the leader's own.
        Call::PutDefinition(..) | Call::DeleteDefinition(_) | Call::Kill(_) => None,
    }
}

fn service_of(record: &Row) -> Option<&ServiceRecord> {
    let Row::Service(_, Some(record)) = record else { return None };
    Some(record)
}

/// Whether all is the same that changes without a restart.
fn is_same_in_place(one: &ServiceSpec, other: &ServiceSpec) -> bool {
    let ServiceSpec { instances, wants: _, contract: _, work: _, crash, update, domain, notes } =
        one;
    (*instances, crash, update, domain, notes)
        == (other.instances, &other.crash, &other.update, &other.domain, &other.notes)
}

/// Whether the machine of a task is drained, or was until this commit. It may have been claimed, drained
/// and ended in one.
fn is_drained(sight: &Sight<'_>, task: &Task, changes: &[Changed]) -> bool {
    let on = task.placed().map(|placed| placed.on).or(task.last().map(|(_, on)| on));
    let Some(lock) = on.map(|on| on.lock) else { return false };
    sight.stored.drained().any(|drained| drained == lock)
        || changes.iter().any(|one| one.key == RowKey::Drain(lock))
}

fn newest(record: &Row) -> Option<Limits> {
    let Row::Limits(all) = record else { return None };
    all.last().copied()
}

/// Limits, without their number and without marks of what was started, which rise by themselves.
pub(super) fn bare(limits: Limits) -> Limits {
    let Marks { batch_stop_after_max, stop_after_max, has_kept_batches, has_kept_claims } =
        Marks::NONE;
    Limits {
        version: 0,
        batch_stop_after_max,
        stop_after_max,
        has_kept_batches,
        has_kept_claims,
        ..limits
    }
}
