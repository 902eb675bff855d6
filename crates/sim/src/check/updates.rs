//! How a new version comes about, as its acknowledged spec says: no more instances are ended for it than
//! may be missing, and it is taken back when it has crashed so often as was said, and not before.
//!
//! All of this is seen in the log of commits. What one commit does has no order: an index that was not
//! there before it, and is not after it, was missing; what else became of one in the same commit may have
//! come later. One that waits for a worker does not count, for an update goes on where ending another one
//! makes room for it. Whether one has run for long enough is judged by the latest that the clock of any
//! server ever showed, so that a clock that was set excuses a leader, and never blames it. One that is not
//! ready, by what stands in its record, is missing; each time that it is not for too long counts as a
//! crash (`strikes.rs`).
//!
//! Not held against a leader: that it does not take back what crashed for the last time when its reign
//! ended in between, or in an earlier reign; the next one counts what stands in the store.

use std::collections::BTreeMap;

use sterna_engine::control::{Row, RowKey, ServiceRecord};
use sterna_model::{
    RunId, ServiceKey, Span, Term, WallTime,
    record::{Instance, InstanceState, StopReason},
    spec::UpdatePolicy,
};

use super::{Changed, Sight, ready::Said, strikes::Strikes};
use crate::{manners, store::Applied};

/// After so many more commits of the same reign a version that crashed too often is taken back: what
/// begins anew with that is written before, and may be more than fits into one.
const COMMITS: u32 = 6;

#[derive(Debug, Default)]
pub(super) struct Updates {
    /// By service and version: a store that is set back has an earlier one again, with its crashes.
    crashes: BTreeMap<(ServiceKey, u64), Crashes>,
    /// The latest that the clock of any server showed.
    latest: Option<WallTime>,
    strikes: Strikes,
}

/// The crashes of a version that comes about.
#[derive(Debug, Default)]
struct Crashes {
    /// All that may be counted.
    at_most: u32,
    /// Those that must be counted: of one reign.
    at_least: u32,
    term: Option<Term>,
    /// How many commits there were since they were too many.
    since: Option<u32>,
}

/// What a commit that changes an instance may stand for.
#[derive(Debug)]
struct Meanwhile {
    /// It was told to end before: one that this commit tells to may have served until then.
    was_ending: bool,
    /// It may have been ready in between, and no longer.
    was_ready: bool,
}

impl Updates {
    /// The latest that the clock of any server ever showed.
    pub(super) const fn latest(&self) -> Option<WallTime> {
        self.latest
    }

    pub(super) fn look(&mut self, sight: &Sight<'_>) {
        self.latest = self.latest.max(Some(sight.latest));
        self.strikes.look(sight.now, sight.wall, sight.latest);
    }

    /// The store is as it was: what was counted may not stand there any more.
    pub(super) fn restored(&mut self) {
        for one in self.crashes.values_mut() {
            (one.at_least, one.since) = (0, None);
        }
        self.strikes.restored();
    }

    /// What a commit did to versions that come about. `put` tells how the specs of a service that
    /// somebody asks for want it to be updated.
    pub(super) fn committed(
        &mut self,
        sight: &Sight<'_>,
        (applied, changes): (&Applied, &[Changed]),
        said: &Said,
        put: impl Fn(&ServiceKey) -> Vec<UpdatePolicy>,
    ) -> Option<String> {
        let term = applied.said.map(|said| said.term)?;
        self.forget_gone(sight, changes);
        self.count(sight, term, changes);
        let services: Vec<ServiceKey> =
            sight.stored.services().map(|(key, _)| key.clone()).collect();
        services.iter().find_map(|key| {
            let put = put(key);
            let too_early = self.taken_back(sight, key, changes, !put.is_empty());
            too_early
                .or_else(|| self.too_many_end(sight, key, (changes, said, &put)))
                .or_else(|| self.not_taken_back(sight, key, term))
        })
    }

    /// A service that is gone takes its versions with it: the next of its name counts them anew.
    fn forget_gone(&mut self, sight: &Sight<'_>, changes: &[Changed]) {
        for changed in changes {
            let RowKey::Service(key) = &changed.key else { continue };
            let Some(Row::Service(_, Some(before))) = &changed.before else { continue };
            let after = sight.stored.service(key).map(|record| record.highest);
            if after.is_none_or(|highest| highest < before.highest) {
                self.crashes.retain(|(known, _), _| known != key);
                self.strikes.forget(key);
            }
        }
    }

    /// Counts crashes of the versions that come about.
    fn count(&mut self, sight: &Sight<'_>, term: Term, changes: &[Changed]) {
        for changed in changes {
            let RowKey::Instance(key) = &changed.key else { continue };
            let service = &key.service;
            let before = instance_in(changed.before.as_ref());
            let after = sight.stored.instance(key);
            self.strikes.note(sight.now, service, (before, after));
            // One that nobody wants any more may have crashed before, in the same commit.
            let run = after.map_or_else(|| before.and_then(own_run), crashed_run);
            let Some(run) = run else { continue };
            if before.and_then(crashed_run) == Some(run) {
                continue;
            }
            let Some(now) = sight.stored.service(service) else { continue };
            let stood = service_before(sight, service, changes);
            let version = before.and_then(|before| version_of(before, run));
            let of = stood.map_or(now.version, |stood| stood.version);
            if version.is_some_and(|version| version != of && version != now.version) {
                continue;
            }
            let one = self.crashes.entry((service.clone(), of)).or_default();
            one.at_most += 1;
            // Surely: it was of that version, and nothing else became of the service in this commit.
            let is_sure = after.is_some()
                && version == Some(of)
                && stood.is_some_and(|stood| stood.before.is_some() && is_same(stood, now));
            if one.term != Some(term) {
                (one.term, one.at_least) = (Some(term), 0);
            }
            one.at_least += u32::from(is_sure);
        }
    }

    /// A version that was taken back before it had crashed so often as was said.
    fn taken_back(
        &self,
        sight: &Sight<'_>,
        key: &ServiceKey,
        changes: &[Changed],
        is_put: bool,
    ) -> Option<String> {
        let after = sight.stored.service(key)?;
        let stood = service_before(sight, key, changes)?;
        let back = stood.before.as_ref().map(|(version, _)| *version)?;
        if after.version == stood.version || after.version != back || is_put {
            return None;
        }
        let limits = [stood.spec.update.revert_after, after.spec.update.revert_after];
        let limit = limits.into_iter().flatten().min();
        let counted = self.crashes.get(&(key.clone(), stood.version)).map_or(0, |one| one.at_most);
        let within = manners::ready_within(&stood.spec.work);
        let strikes = self.strikes.at_most(sight.now, (key, stood.version), within)?;
        let counted = counted.saturating_add(strikes);
        (limit.is_none_or(|limit| counted < limit)).then(|| {
            let name = &key.name;
            format!("{name} was taken back after {counted} crashes, and {limit:?} were said")
        })
    }

    /// A version that has crashed so often as was said, and is not taken back.
    fn not_taken_back(
        &mut self,
        sight: &Sight<'_>,
        key: &ServiceKey,
        term: Term,
    ) -> Option<String> {
        let after = sight.stored.service(key)?;
        let one = self.crashes.get_mut(&(key.clone(), after.version))?;
        let limit = after.spec.update.revert_after.filter(|_| after.before.is_some());
        let is_due = limit.is_some_and(|limit| one.term == Some(term) && one.at_least >= limit);
        if !is_due {
            one.since = None;
            return None;
        }
        let since = one.since.map_or(0, |since| since + 1);
        one.since = Some(since);
        let counted = one.at_least;
        (since > COMMITS)
            .then(|| format!("{} crashed {counted} times, and was not taken back", key.name))
    }

    /// More were ended for an update than may be missing.
    fn too_many_end(
        &self,
        sight: &Sight<'_>,
        key: &ServiceKey,
        (changes, said, put): (&[Changed], &Said, &[UpdatePolicy]),
    ) -> Option<String> {
        let after = sight.stored.service(key)?;
        // Who is wanted no more by a spec that comes with the same commit is missed by nobody.
        let ended = changes.iter().filter_map(|changed| ended_for_update(sight, key, changed));
        let ended: Vec<u32> = ended.filter(|index| *index < after.spec.instances).collect();
        if ended.is_empty() {
            return None;
        }
        let stood = service_before(sight, key, changes).unwrap_or(after);
        let (one, other) = (&stood.spec, &after.spec);
        // Two specs may come with one commit: it may have gone on by the first of them.
        let all = || put.iter().chain([&one.update, &other.update]);
        let allowed = all().map(|it| it.max_unavailable).max().unwrap_or(1).max(1) as usize;
        let healthy_for = all().map(|it| it.healthy_for).min().unwrap_or(Span::ZERO);
        let is_missing = |instance: Option<&Instance>, meanwhile: &Meanwhile| {
            let is_missing = |it| self.is_missing(sight, it, (after, healthy_for), meanwhile);
            instance.is_some_and(is_missing)
        };
        let others = (0..one.instances.min(other.instances)).filter(|index| {
            let instance = key.instance(*index);
            let now = sight.stored.instance(&instance);
            let changed = changes.iter().find(|it| it.key == RowKey::Instance(instance.clone()));
            let before = match changed {
                Some(changed) => instance_in(changed.before.as_ref()),
                None => now,
            };
            // With another copy it waited for a worker in between.
            let is_same = before.and_then(own_run) == now.and_then(own_run);
            let run = now.and_then(own_run).filter(|_| changed.is_some());
            let meanwhile = Meanwhile {
                was_ending: before.is_some_and(is_ending),
                was_ready: run.is_some_and(|run| said.was_ready(run)),
            };
            let was_missing = is_missing(before, &meanwhile) && is_missing(now, &meanwhile);
            !ended.contains(index) && is_same && was_missing
        });
        let missing: Vec<u32> = others.collect();
        (ended.len() + missing.len() > allowed).then(|| {
            let name = &key.name;
            format!("{ended:?} of {name} end for an update while {missing:?} are missing, and {allowed} may be")
        })
    }

    /// Whether an index has a copy, or waits after a crash, and does not serve.
    fn is_missing(
        &self,
        sight: &Sight<'_>,
        instance: &Instance,
        (service, healthy_for): (&ServiceRecord, Span),
        meanwhile: &Meanwhile,
    ) -> bool {
        let is_update = service.before.is_some() || service.version != service.highest;
        match instance.state() {
            InstanceState::Unclaimed { .. } => false,
            InstanceState::Claimed { .. } | InstanceState::Crashed { .. } => true,
            InstanceState::Running { copy, since } => {
                let settles = since.plus(healthy_for);
                let is_young =
                    self.latest.is_some_and(|latest| settles > latest) && *since <= sight.wall;
                let is_unready = !copy.is_ready() && !meanwhile.was_ready;
                let is_awaited = is_update && copy.version == service.version;
                meanwhile.was_ending || is_awaited && (is_young || is_unready)
            }
        }
    }
}

/// An index that served, and is ended for an update by this.
fn ended_for_update(sight: &Sight<'_>, service: &ServiceKey, changed: &Changed) -> Option<u32> {
    let RowKey::Instance(key) = &changed.key else { return None };
    let (of, index) = (&key.service, key.index);
    let before = instance_in(changed.before.as_ref())?;
    let InstanceState::Running { copy: before, .. } = before.state() else { return None };
    // One that has lost its place to silence in the same commit waits for a worker.
    let after = sight.stored.instance(key)?.copy();
    let after = after.filter(|copy| copy.placed.run == before.placed.run)?;
    let is_ended = before.stopping.is_none() && after.stopping == Some(StopReason::Update);
    (of == service && is_ended).then_some(index)
}

/// What stood of a service before these changes.
fn service_before<'a>(
    sight: &'a Sight<'_>,
    key: &ServiceKey,
    changes: &'a [Changed],
) -> Option<&'a ServiceRecord> {
    let changed = changes.iter().find(|one| one.key == RowKey::Service(key.clone()));
    match changed {
        None => sight.stored.service(key),
        Some(Changed { before: Some(Row::Service(_, Some(record))), .. }) => Some(record),
        Some(_) => None,
    }
}

fn is_same(one: &ServiceRecord, other: &ServiceRecord) -> bool {
    one.version == other.version && one.spec == other.spec && other.before.is_some()
}

fn instance_in(record: Option<&Row>) -> Option<&Instance> {
    let Some(Row::Instance(_, Some(instance))) = record else { return None };
    Some(instance)
}

/// Whether the run in its place is told to end.
fn is_ending(instance: &Instance) -> bool {
    instance.copy().is_some_and(|copy| copy.stopping.is_some())
}

/// The run in its place.
fn own_run(instance: &Instance) -> Option<RunId> {
    instance.copy().map(|copy| copy.placed.run)
}

/// The run that crashed last.
fn crashed_run(instance: &Instance) -> Option<RunId> {
    instance.last_crash().map(|crash| crash.run)
}

fn version_of(instance: &Instance, run: RunId) -> Option<u64> {
    instance.copies().find(|copy| copy.placed.run == run).map(|copy| copy.version)
}
