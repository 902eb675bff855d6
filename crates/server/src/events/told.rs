//! What a commit tells people: an event for each record that became something else, and one more for
//! what it was in between. Pure.

use std::{collections::BTreeMap, sync::Arc};

use serde_json::{Map, Value, json};
use sterna_api::rest::EventKind as Kind;
use sterna_engine::control::Row;
use sterna_model::{
    DefinitionKey, RunId,
    record::{
        Instance, InstanceCopy, InstancePhase, InstanceState, PastCrash, StopReason, Task,
        TaskState, TwinReason,
    },
};
use sterna_protocol::roster::Enrolled;

use crate::mirror::{Mirror, Versions};

/// So much of a reason is told.
const REASON_BYTES_MAX: usize = 1_024;

/// An event that has no number yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Told {
    pub(crate) kind: Kind,
    /// What it is about.
    pub(crate) key: String,
    pub(crate) run: Option<RunId>,
    /// Why, in words.
    pub(crate) reason: Option<String>,
    pub(crate) data: Map<String, Value>,
}

impl Told {
    pub(crate) fn new(kind: Kind, key: impl Into<String>) -> Self {
        Self { kind, key: key.into(), run: None, reason: None, data: Map::new() }
    }

    fn of_run(self, run: RunId) -> Self {
        Self { run: Some(run), ..self }
    }

    fn because(self, reason: impl Into<String>) -> Self {
        let mut reason = reason.into();
        // Many are told with one commit; the whole of it is in the record.
        reason.truncate(reason.floor_char_boundary(REASON_BYTES_MAX));
        Self { reason: Some(reason), ..self }
    }

    fn with(mut self, name: &str, value: Value) -> Self {
        self.data.insert(name.to_owned(), value);
        self
    }
}

/// What these writes tell, to those who know what stood before.
pub(crate) fn told(before: &Mirror, writes: &[Row]) -> Vec<Told> {
    let each = writes.iter().flat_map(|write| {
        let ended = ended(before, write).into_iter();
        ended.chain(between(before, write)).chain(one(before, write))
    });
    each.chain(definitions(before, writes)).collect()
}

/// What became of definitions. A version goes in the commit in which the next one comes: that is one event.
fn definitions(before: &Mirror, writes: &[Row]) -> Vec<Told> {
    let mut all: BTreeMap<&DefinitionKey, Versions> = BTreeMap::new();
    for write in writes {
        let Row::Definition(key, version, definition) = write else { continue };
        let known = || before.definitions.get(key).cloned().unwrap_or_default();
        let versions = all.entry(key).or_insert_with(known);
        match definition {
            Some(definition) => drop(versions.insert(*version, Arc::clone(definition))),
            None => drop(versions.remove(version)),
        }
    }
    let told = |(key, after): (&DefinitionKey, Versions)| {
        let (was, is) = (before.definition(key), after.last_key_value());
        let kind = match (was, is) {
            (None, None) => return None,
            (None, Some(_)) => Kind::DefinitionCreated,
            (Some((_, was)), Some((_, is))) if *was == **is => return None,
            (Some(_), Some(_)) => Kind::DefinitionChanged,
            (Some(_), None) => Kind::DefinitionDeleted,
        };
        let told = Told::new(kind, key.to_string());
        Some(is.map_or(told.clone(), |(version, _)| told.with("version", json!(version))))
    };
    all.into_iter().filter_map(told).collect()
}

/// The runs of an instance that its record has no longer: each is told of, but for one that crashed, of
/// which that is told.
fn ended(before: &Mirror, row: &Row) -> Vec<Told> {
    let Row::Instance(key, now) = row else { return Vec::new() };
    let Some(was) = before.instances.get(key) else { return Vec::new() };
    let now = now.as_ref();
    let crashed = now.and_then(|now| new_crash(Some(was), now)).map(|crash| crash.run);
    let is_there = |run: RunId| {
        crashed == Some(run)
            || now.is_some_and(|now| now.copies().any(|copy| copy.placed.run == run))
    };
    let gone = was.copies().filter(|copy| !is_there(copy.placed.run));
    let told = gone.map(|copy| {
        let told = Told::new(Kind::InstanceEnded, key.to_string()).of_run(copy.placed.run);
        let worker = before.worker(copy.placed.on.lock).map(ToString::to_string);
        told.with("worker", json!(worker)).because(ended_for(was, copy))
    });
    told.collect()
}

/// Why a run is over that did not crash.
fn ended_for(was: &Instance, copy: &InstanceCopy) -> &'static str {
    let is_twin = was.is_twins(copy.placed.run);
    let has_begun = match was.twin().filter(|_| is_twin) {
        Some(twin) => twin.running_since.is_some(),
        None => was.phase() == InstancePhase::Running,
    };
    match copy.stopping {
        Some(StopReason::Unwanted) => "its spec no longer asks for it",
        Some(StopReason::Asked) => "a client stopped it",
        Some(StopReason::Update) => "the update replaces it",
        Some(StopReason::Elsewhere) => "another copy replaces it",
        Some(StopReason::Drain) => "its worker is being drained",
        None if has_begun => "its worker ended it, or is gone",
        None => "its worker did not start it, or is gone",
    }
}

/// What a record was for no more than a moment, which no commit shows: made and given to a worker at
/// once, or crashed and begun again at once.
fn between(before: &Mirror, row: &Row) -> Option<Told> {
    match row {
        Row::Task(key, Some((task, _))) => {
            let was = before.tasks.get(key).map(|(task, _)| task);
            let is_told = match task.state() {
                TaskState::Pending => true,
                TaskState::Running { .. }
                | TaskState::Completed { .. }
                | TaskState::Resolving { .. } => {
                    was.is_some_and(|was| was.incarnation() == task.incarnation())
                }
            };
            (!is_told).then(|| Told::new(Kind::TaskCreated, key.to_string()))
        }
        Row::Instance(key, Some(instance)) => {
            let crash = new_crash(before.instances.get(key), instance)?;
            match instance.state() {
                InstanceState::Unclaimed { .. } | InstanceState::Crashed { .. } => None,
                InstanceState::Claimed { .. } | InstanceState::Running { .. } => {
                    Some(crash_told(before, key.to_string(), instance, crash))
                }
            }
        }
        Row::Task(_, None)
        | Row::Instance(_, None)
        | Row::Service(..)
        | Row::Tombstone(..)
        | Row::Roster(..)
        | Row::Drain(..)
        | Row::Domain(..)
        | Row::Definition(..)
        | Row::Limits(_)
        | Row::Stage(_) => None,
    }
}

fn one(before: &Mirror, row: &Row) -> Option<Told> {
    match row {
        Row::Task(key, record) => {
            let was = before.tasks.get(key).map(|(task, _)| task);
            let name = key.to_string();
            let Some((task, _)) = record else {
                return was.map(|_| Told::new(Kind::TaskDeleted, name));
            };
            task_told(before, name, was, task)
        }
        Row::Instance(key, record) => {
            let was = before.instances.get(key);
            let name = key.to_string();
            let Some(instance) = record else {
                return was.map(|_| Told::new(Kind::InstanceGone, name));
            };
            instance_told(before, name, was, instance)
        }
        Row::Service(key, record) => {
            let was = before.services.get(key);
            let name = key.to_string();
            let Some(service) = record else {
                return was.map(|_| Told::new(Kind::ServiceDeleted, name));
            };
            let kind = match was {
                None => Kind::ServiceCreated,
                Some(was) if was.version > service.version => Kind::ServiceReverted,
                Some(was) if was.spec != service.spec => Kind::ServiceChanged,
                // Counts of an update that goes on.
                Some(_) => return None,
            };
            let told = Told::new(kind, name).with("instances", json!(service.spec.instances));
            Some(told.with("version", json!(service.version)))
        }
        Row::Roster(lock, entry) => roster_told(before.roster.get(lock), entry.as_ref()),
        Row::Drain(lock, record) => {
            let name = before.worker(*lock).map_or_else(|| lock.to_string(), ToString::to_string);
            let Some(drain) = record else {
                return Some(Told::new(Kind::WorkerUndrained, worker(&name)));
            };
            let told = Told::new(Kind::WorkerDraining, worker(&name));
            Some(told.with("deadline", json!(drain.deadline.to_string())))
        }
        Row::Domain(name, record) => {
            let Some(until) = record else {
                return Some(Told::new(Kind::DomainRemoved, format!("domain/{name}")));
            };
            let until = until.map(|until| until.to_string());
            Some(Told::new(Kind::DomainSet, format!("domain/{name}")).with("until", json!(until)))
        }
        Row::Limits(_) => Some(Told::new(Kind::LimitsChanged, "limits")),
        // Told of all its versions together.
        Row::Definition(..) | Row::Tombstone(..) | Row::Stage(_) => None,
    }
}

/// Who was forgotten and stands there for its mark alone is not there.
fn roster_told(was: Option<&Enrolled>, entry: Option<&Enrolled>) -> Option<Told> {
    let was = was.filter(|was| !was.is_forgotten);
    let entry = entry.filter(|entry| !entry.is_forgotten);
    let Some(entry) = entry else {
        return was.map(|was| Told::new(Kind::WorkerLeft, worker(was.name.as_str())));
    };
    let told = |kind| Told::new(kind, worker(entry.name.as_str()));
    let life = json!(entry.incarnation.life);
    match was {
        None => Some(told(Kind::WorkerJoined).with("life", life)),
        Some(was) if entry.is_declared_dead && !was.is_declared_dead => {
            Some(told(Kind::WorkerDeclaredDead))
        }
        Some(was) if was.incarnation != entry.incarnation => {
            Some(told(Kind::WorkerReturned).with("life", life))
        }
        Some(_) => None,
    }
}

fn worker(name: &str) -> String {
    format!("worker/{name}")
}

/// Why a task waits again.
const TURNED_DOWN: &str = "its worker did not start it";
const NEVER_CAME: &str = "it never reached its worker";

fn task_told(before: &Mirror, name: String, was: Option<&Task>, task: &Task) -> Option<Told> {
    let on = |lock| json!(before.worker(lock).map(ToString::to_string));
    let is_new = was.is_none_or(|was| was.incarnation() != task.incarnation());
    match task.state() {
        TaskState::Pending if is_new => Some(Told::new(Kind::TaskCreated, name)),
        TaskState::Pending => match was.map(Task::state) {
            Some(TaskState::Running { placed, .. }) => {
                let told = Told::new(Kind::TaskReturned, name).of_run(placed.run);
                let is_counted = was.is_some_and(|was| was.returns() < task.returns());
                Some(told.because(if is_counted { TURNED_DOWN } else { NEVER_CAME }))
            }
            Some(
                TaskState::Pending | TaskState::Completed { .. } | TaskState::Resolving { .. },
            )
            | None => None,
        },
        TaskState::Running { placed, .. } => {
            let is_same = was.is_some_and(|was| match was.state() {
                TaskState::Running { placed: before, .. } => before.run == placed.run,
                TaskState::Pending | TaskState::Completed { .. } | TaskState::Resolving { .. } => {
                    false
                }
            });
            if is_same && !is_new {
                return None;
            }
            let told = Told::new(Kind::TaskRunning, name).of_run(placed.run);
            Some(told.with("worker", on(placed.on.lock)))
        }
        TaskState::Completed { end, .. } | TaskState::Resolving { end, .. } => {
            let kind = match was.filter(|_| !is_new).and_then(Task::end) {
                None => Kind::TaskCompleted,
                Some(told) if told != end => Kind::TaskAmended,
                Some(_) => return None,
            };
            let told = Told::new(kind, name).because(crate::views::end_text(end));
            let told = told.with("is_success", json!(end.is_success()));
            Some(Told { run: task.last().map(|(run, _)| run), ..told })
        }
    }
}

/// The crash that a record tells of and the one before did not.
fn new_crash<'a>(was: Option<&Instance>, instance: &'a Instance) -> Option<&'a PastCrash> {
    let known = was?.last_crash().map(|crash| crash.run);
    instance.last_crash().filter(|crash| Some(crash.run) != known)
}

fn crash_told(before: &Mirror, name: String, instance: &Instance, crash: &PastCrash) -> Told {
    let end = crate::views::end_text(&crash.end);
    let told = Told::new(Kind::InstanceCrashed, name).of_run(crash.run);
    let told = told.with("crashes", json!(instance.crashes().count));
    let told = told.with("worker", json!(before.worker(crash.on.lock).map(ToString::to_string)));
    match instance.state() {
        InstanceState::Crashed { until: Some(until) } => {
            told.because(end).with("again_at", json!(until.to_string()))
        }
        InstanceState::Crashed { until: None } => told
            .because(format!("{end}; it crashed too often, and the leader gave up restarting it")),
        InstanceState::Unclaimed { .. }
        | InstanceState::Claimed { .. }
        | InstanceState::Running { .. } => told.because(end),
    }
}

fn instance_told(
    before: &Mirror,
    name: String,
    was: Option<&Instance>,
    instance: &Instance,
) -> Option<Told> {
    let on = |lock| json!(before.worker(lock).map(ToString::to_string));
    let had_twin = was.and_then(Instance::twin);
    if let Some(twin) = instance.twin()
        && had_twin.is_none_or(|had| had.reason != twin.reason)
        && twin.reason != TwinReason::Surplus
    {
        let kind = match twin.reason {
            TwinReason::Silent => Kind::InstanceSilent,
            TwinReason::Evacuating | TwinReason::Surplus => Kind::InstanceEvacuating,
        };
        let placed = &twin.copy.placed;
        let told = Told::new(kind, name).of_run(placed.run);
        return Some(told.with("worker", on(placed.on.lock)));
    }
    if instance.copy().is_none()
        && let Some(crash) = new_crash(was, instance)
    {
        return Some(crash_told(before, name, instance, crash));
    }
    let is_as_before = was.is_some_and(|was| {
        was.phase() == instance.phase()
            && was.copy().map(|copy| copy.placed.run) == instance.copy().map(|copy| copy.placed.run)
    });
    match instance.state() {
        _ if is_as_before => None,
        InstanceState::Unclaimed { .. } => Some(Told::new(Kind::InstanceUnclaimed, name)),
        InstanceState::Crashed { .. } => None,
        InstanceState::Claimed { copy, .. } => {
            let told = Told::new(Kind::InstanceClaimed, name).of_run(copy.placed.run);
            Some(told.with("worker", on(copy.placed.on.lock)))
        }
        InstanceState::Running { copy, .. } => {
            let told = Told::new(Kind::InstanceRunning, name).of_run(copy.placed.run);
            Some(told.with("worker", on(copy.placed.on.lock)))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use sterna_model::{
        Bytes, Constraints, Contract, Countables, Demand, DirectoryId, Epoch, Incarnation,
        InstanceKey, Lock, MachineId, Millicores, Revision, Span, TaskIncarnation, WallTime, Wants,
        record::{CrashPolicy, Placed, TaskEnd},
    };

    use super::*;

    const NOW: WallTime = WallTime::EPOCH;

    #[test]
    fn a_task_that_waits_again_says_whether_its_worker_turned_it_down() {
        let mut given = Task::new(TaskIncarnation::from_parts(NOW, [1; 10]), Epoch::new(1), NOW);
        let placed =
            Placed { run: RunId::from_parts(NOW, [1; 10]), on: on(), contract: Contract::Keep };
        given.claim(placed, NOW).unwrap();
        for (counts, why) in [(true, TURNED_DOWN), (false, NEVER_CAME)] {
            let mut back = given.clone();
            back.give_back(counts, "", NOW).unwrap();
            let mirror = Mirror::new(Revision::new(1));
            let told = task_told(&mirror, "a".to_owned(), Some(&given), &back).unwrap();
            assert_eq!(told.reason.as_deref(), Some(why));
        }
    }

    fn on() -> Incarnation {
        let directory = DirectoryId::from_parts(NOW, [1; 10]);
        let machine = MachineId::from_bytes(*directory.as_bytes()).unwrap();
        Incarnation { lock: Lock { directory, machine }, life: 1 }
    }

    fn claim(instance: &mut Instance, number: u8, at: WallTime) {
        let placed = Placed {
            run: RunId::from_parts(NOW, [number; 10]),
            on: on(),
            contract: Contract::Keep,
        };
        let demand =
            Demand::new(Millicores::new(0), Bytes::new(1), Bytes::new(0), Countables::default());
        let wants = Arc::new(Wants { demand, constraints: Constraints::default() });
        instance.claim(placed, 1, wants, at).unwrap();
        instance.start(at).unwrap();
    }

    fn exited(code: u8) -> TaskEnd {
        let report = format!(r#"{{"cause":"exited","exit":{{"code":{code}}}}}"#).into();
        TaskEnd::Ran { is_success: false, report }
    }

    /// What a commit tells that has made one record of another.
    fn between_these(was: &Instance, instance: &Instance) -> Vec<Told> {
        let key: InstanceKey = "default/service/web/0".parse().unwrap();
        let mut mirror = Mirror::new(Revision::new(1));
        mirror.instances.insert(key.clone(), was.clone());
        told(&mirror, &[Row::Instance(key, Some(instance.clone()))])
    }

    /// It was told by the count alone, which begins anew after five minutes.
    #[test]
    fn a_crash_that_was_begun_again_in_the_same_commit_is_told_with_its_end() {
        let mut was = Instance::new(NOW);
        for number in 1..=2 {
            claim(&mut was, number, NOW);
            was.crash(&CrashPolicy::default(), exited(3), NOW).unwrap();
        }
        claim(&mut was, 3, NOW);
        let mut instance = was.clone();
        let later = NOW.plus(Span::from_secs(600));
        instance.crash(&CrashPolicy::default(), exited(4), later).unwrap();
        claim(&mut instance, 4, later);
        let told = between_these(&was, &instance);
        let kinds: Vec<_> = told.iter().map(|told| told.kind).collect();
        assert_eq!(kinds, [Kind::InstanceCrashed, Kind::InstanceRunning]);
        assert_eq!(told[0].reason.as_deref(), Some("exited with 4"));
        assert_eq!((told[0].run, &told[0].data["crashes"]), (was.copy().map(run_of), &json!(1)));
    }

    #[test]
    fn a_definition_tells_once_what_became_of_it_however_many_versions_a_commit_touches() {
        let text = "version = 1\n[task.a]\nrun = [\"a\"]\n";
        let stored = |more: &str| {
            let text = format!("{text}{more}");
            let source = sterna_api::spec::Source { name: "a.toml", text: &text };
            let specs = sterna_api::spec::read(&[source]).unwrap();
            Arc::new(specs.tasks.into_values().next().unwrap().stored())
        };
        let (one, other) = (stored(""), stored("when_full = \"fail\""));
        let namespace = sterna_model::Namespace::default();
        let key = DefinitionKey { namespace, name: sterna_model::Name::new("a").unwrap() };
        let row = |version, definition| Row::Definition(key.clone(), version, definition);
        let mut mirror = Mirror::new(Revision::new(1));
        let mut tells = |rows: Vec<Row>| {
            let told = told(&mirror, &rows);
            mirror.apply(mirror.revision, rows);
            assert_eq!(mirror.totals.specs_bytes > 0, mirror.definition(&key).is_some());
            let versions = |told: Told| (told.kind, told.data.get("version").cloned());
            told.into_iter().map(versions).collect::<Vec<_>>()
        };
        let version = |number: u64| Some(json!(number));
        assert_eq!(tells(vec![row(1, Some(one.clone()))]), [(Kind::DefinitionCreated, version(1))]);
        let next = vec![row(1, None), row(2, Some(other.clone()))];
        assert_eq!(tells(next), [(Kind::DefinitionChanged, version(2))]);
        // It was deleted and made again as something else: its count begins anew.
        let anew = vec![row(1, Some(one)), row(2, None)];
        assert_eq!(tells(anew), [(Kind::DefinitionChanged, version(1))]);
        assert_eq!(tells(vec![row(1, None)]), [(Kind::DefinitionDeleted, None)]);
        assert_eq!(tells(vec![row(1, None)]), []);
        assert_eq!(tells(vec![row(1, Some(other)), row(1, None)]), []);
    }

    fn run_of(copy: &InstanceCopy) -> RunId {
        copy.placed.run
    }

    #[test]
    fn what_was_given_up_says_how_it_ended_and_what_is_forgiven_is_no_crash() {
        let mut was = Instance::new(NOW);
        claim(&mut was, 1, NOW);
        let mut given_up = was.clone();
        let policy = CrashPolicy { give_up_at: 1, ..CrashPolicy::default() };
        given_up.crash(&policy, exited(3), NOW).unwrap();
        let [told] = &between_these(&was, &given_up)[..] else { panic!("one event") };
        let reason = "exited with 3; it crashed too often, and the leader gave up restarting it";
        assert_eq!((told.kind, told.reason.as_deref()), (Kind::InstanceCrashed, Some(reason)));
        let mut again = given_up.clone();
        again.forgive();
        again.restart(NOW).unwrap();
        let [told] = &between_these(&given_up, &again)[..] else { panic!("one event") };
        assert_eq!(told.kind, Kind::InstanceUnclaimed);
    }

    #[test]
    fn every_run_that_ends_is_told_of_once_with_its_worker_and_why() {
        let mut was = Instance::new(NOW);
        claim(&mut was, 1, NOW);
        let run = was.copy().map(run_of);
        let ended = |was: &Instance| {
            let mut gone = was.clone();
            gone.vacate(NOW).unwrap();
            let [told, unclaimed] = &between_these(was, &gone)[..] else { panic!("two events") };
            assert_eq!((told.kind, told.run), (Kind::InstanceEnded, run));
            assert_eq!(unclaimed.kind, Kind::InstanceUnclaimed);
            assert!(told.data.contains_key("worker"));
            told.reason.clone().unwrap_or_default()
        };
        assert_eq!(ended(&was), "its worker ended it, or is gone");
        was.stop(run.unwrap(), StopReason::Drain);
        assert_eq!(ended(&was), "its worker is being drained");
        // Its record may go with it.
        let key: InstanceKey = "default/service/web/0".parse().unwrap();
        let mut mirror = Mirror::new(Revision::new(1));
        mirror.instances.insert(key.clone(), was.clone());
        let told = told(&mirror, &[Row::Instance(key, None)]);
        let kinds: Vec<_> = told.iter().map(|told| told.kind).collect();
        assert_eq!(kinds, [Kind::InstanceEnded, Kind::InstanceGone]);
        // A copy that another one has displaced is still there.
        let mut moved = was.clone();
        moved.displace(TwinReason::Silent, NOW).unwrap();
        let kinds: Vec<_> = between_these(&was, &moved).iter().map(|told| told.kind).collect();
        assert_eq!(kinds, [Kind::InstanceSilent]);
    }
}
