//! How a new version of a service comes about: a few instances at a time, and back again if it
//! crashes.

use std::sync::Arc;

use sterna_model::{
    InstanceKey, ServiceKey, Span,
    planted::{Mistake, is_planted},
    record::{InstanceState, StopReason},
};

use crate::auction::Ask;

use super::{Alarm, Control, Effect, Now, Row, TakenBack, Timer, standing::Service};

/// How many of those that serve are looked at for room, when there is none: one of the first does, or
/// there is little hope.
const LOOKED_AT: usize = 64;

#[cfg(test)]
thread_local! {
    /// How many indices were looked at to go on with updates.
    pub(super) static LOOKS: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// Counts a look at an index.
fn looked() {
    #[cfg(test)]
    LOOKS.set(LOOKS.get() + 1);
}

impl Control {
    pub(super) fn write_service(&mut self, key: &ServiceKey) {
        let record = self.services.get(key).map(|service| Arc::clone(&service.record));
        self.outbox.write(Row::Service(key.clone(), record));
    }

    /// Notes whether an index serves, and whether it is of the version that is wanted.
    pub(super) fn note_index(&mut self, now: Now, key: &InstanceKey) {
        let index = key.index;
        let Some(known) = self.services.get_mut(&key.service) else { return };
        let record = &known.record;
        let is_wanted = index < record.spec.instances;
        // Without a version before there is nothing to go back to, and nobody to be spared; one that was
        // taken back comes about as any other.
        let is_update = record.before.is_some() || record.version != record.highest;
        let is_awaited = is_update && !is_planted(Mistake::TrustsTheYoung);
        let healthy_for = if is_awaited { record.spec.update.healthy_for } else { Span::ZERO };
        let mut serves = false;
        let mut is_outdated = false;
        let mut settles = None;
        let mut is_unready = false;
        match self.instances.get(key).map(sterna_model::record::Instance::state) {
            Some(InstanceState::Running { copy, since }) => {
                let is_current = copy.version == record.version;
                let settled = since.plus(healthy_for);
                is_outdated = !is_current && copy.stopping.is_none();
                // One that runs since later than now does so by a clock that was wrong.
                let is_settled = settled <= now.wall || *since > now.wall;
                // What runs of another version takes requests, or did: it is not ended for nothing.
                is_unready = is_update && is_current && !copy.is_ready();
                is_unready &= !is_planted(Mistake::TrustsTheUnready);
                serves = copy.stopping.is_none() && (!is_current || is_settled && !is_unready);
                is_unready &= copy.stopping.is_none();
                if is_update && is_current && settled > now.wall && copy.stopping.is_none() {
                    settles = Some(settled);
                }
            }
            Some(InstanceState::Claimed { copy, .. }) => {
                is_outdated = copy.version != record.version && copy.stopping.is_none();
            }
            Some(InstanceState::Unclaimed { .. } | InstanceState::Crashed { .. }) | None => {}
        }
        let is_news = known.note(index, is_wanted && !serves, is_wanted && is_outdated);
        let late = known.note_unready(now, index, is_wanted && is_unready);
        if is_news {
            self.touch(&key.to_work());
        }
        if let Some(at) = late {
            self.timers.set(at, Timer::Unready(key.clone()));
        }
        if let Some(at) = settles {
            self.timers.set(at, Timer::Settled(key.clone()));
        }
    }

    /// An instance of a version that is just coming about was not ready for as long as it may take: that
    /// counts as a crash of it, and so does the next time as long. It is not ended: it may yet be.
    pub(super) fn unready_is_due(&mut self, now: Now, key: &InstanceKey) {
        let InstanceKey { service, index } = key;
        let Some(known) = self.services.get_mut(service) else { return };
        let is_due = known.unready.get(index).is_some_and(|at| *at <= now.wall);
        if !is_due {
            return;
        }
        known.unready.remove(index);
        let version = known.record.version;
        let within = known.ready_within();
        self.count_against_update(now, key, version, within);
        if !self.changed.contains(service) {
            self.converge_index(now, key);
        }
    }

    /// Goes on with an update: ends as many copies of other versions as may be missing. What has no run
    /// is of the new version already, and one that does not serve costs nothing. An index for which
    /// there is no room does not hold up the others either, where ending one of those makes room.
    pub(super) fn roll(&mut self, now: Now, service: &ServiceKey) {
        let Some(known) = self.services.get(service) else { return };
        if known.outdated.is_empty() {
            if known.record.before.is_some() && known.is_there() {
                self.change_record(service, |record| {
                    let before = record.before.take();
                    if let Some((_, spec)) = before.filter(|_| is_planted(Mistake::DropsUpdates)) {
                        record.spec = (*spec).clone();
                    }
                    record.crashes = 0;
                });
            }
            return;
        }
        let is_begun = known.outdated.len() < known.record.spec.instances as usize;
        if is_begun && is_planted(Mistake::LeavesUpdates) {
            return;
        }
        let budget = known.budget(known.missing.len());
        let idle = known.idle.clone();
        let mut next: Vec<u32> = idle.iter().copied().collect();
        let near = LOOKED_AT.saturating_add(budget.any).saturating_add(budget.for_room);
        let mut rest: Vec<u32> = known.serving().inspect(|_| looked()).take(near).collect();
        let is_spent = rest.len() >= budget.any;
        next.extend(rest.drain(..budget.any.min(rest.len())));
        if is_spent
            && budget.for_room > 0
            && let Some(waits) = known.unplaced.first().copied()
        {
            next.extend(self.those_that_make_room(service, waits, rest, budget.for_room));
        }
        for index in next {
            let key = service.instance(index);
            let copy = self.instances.get(&key).and_then(|instance| instance.copy());
            if let Some(run) = copy.map(|copy| copy.placed.run) {
                self.stop_copy(&key, run, StopReason::Update);
            }
            self.note_index(now, &key);
            if let Some(known) = self.services.get_mut(service)
                && !idle.contains(&index)
            {
                known.taken_down.insert(index);
            }
        }
    }

    /// So many of these, at most, that make room for an index that waits if they end. One more would be
    /// found only when something else has changed.
    fn those_that_make_room(
        &mut self,
        service: &ServiceKey,
        waits: u32,
        mut serving: Vec<u32>,
        budget: usize,
    ) -> Vec<u32> {
        let mut chosen = Vec::new();
        while chosen.len() < budget {
            let mut near = serving.iter().take(LOOKED_AT);
            let Some(at) = near.position(|it| self.makes_room(service, *it, waits)) else {
                self.held_up.insert(service.clone());
                break;
            };
            chosen.push(serving.remove(at));
        }
        chosen
    }

    /// Whether an update would end one more of those that serve, if so many were missing.
    pub(super) fn ends_more(&self, service: &ServiceKey, known: &Service, missing: usize) -> bool {
        let budget = known.budget(missing);
        budget.any > 0 || budget.for_room > 0 && self.would_make_room(service, known)
    }

    /// Whether to end one of those that serve makes room for one that finds none.
    pub(super) fn would_make_room(&self, service: &ServiceKey, known: &Service) -> bool {
        let Some(waits) = known.unplaced.first() else { return false };
        known.serving().take(LOOKED_AT).any(|index| self.makes_room(service, index, *waits))
    }

    /// Whether the worker of one index could have another, that waits, if it had not the first.
    fn makes_room(&self, service: &ServiceKey, ends: u32, waits: u32) -> bool {
        let ends = self.instances.get(&service.instance(ends)).and_then(|one| one.copy());
        let Some(run) = ends.map(|copy| copy.placed.run) else { return false };
        let key = service.instance(waits).to_work();
        let ask = Ask { wants: self.wants_of(&key), key };
        self.would_hold(run, &ask)
    }

    pub(super) fn change_record(
        &mut self,
        service: &ServiceKey,
        change: impl FnOnce(&mut super::ServiceRecord),
    ) {
        if let Some(known) = self.services.get_mut(service) {
            change(Arc::make_mut(&mut known.record));
            self.write_service(service);
        }
    }

    /// An instance crashed, or was not ready for so long. If it was of a version that is just coming about,
    /// that may be taken back.
    pub(super) fn count_against_update(
        &mut self,
        now: Now,
        key: &InstanceKey,
        version: u64,
        unready: Option<Span>,
    ) {
        let Some(known) = self.service_having(key) else { return };
        let record = &known.record;
        let Some((before, spec)) = record.before.clone() else { return };
        let wanted = Arc::clone(&record.spec.wants);
        let Some(limit) = record.spec.update.revert_after else { return };
        let is_forgiven = unready.is_some() && is_planted(Mistake::ForgivesTheUnready);
        if is_forgiven || is_planted(Mistake::TakesNothingBack) {
            return;
        }
        let limit = if is_planted(Mistake::TakesBackTooEarly) { 1 } else { limit };
        if version != record.version {
            return;
        }
        let InstanceKey { service, index } = key;
        if record.crashes + 1 < limit {
            return self.change_record(service, |record| record.crashes += 1);
        }
        let crash = self.instances.get(key).and_then(|instance| instance.last_crash());
        let crash = crash.map(|crash| crash.end.to_string());
        let unready = unready.map(|within| format!("it was not ready for {within}"));
        let why = unready.or(crash).unwrap_or_default().into();
        let Some(known) = self.services.get_mut(service) else { return };
        // The crash stands with its count before it is forgiven for this.
        self.outbox.part();
        {
            let record = Arc::make_mut(&mut known.record);
            // What changes in place is no part of a version.
            let sterna_model::spec::ServiceSpec { wants, contract, work, .. } = (*spec).clone();
            (record.spec.wants, record.spec.contract, record.spec.work) = (wants, contract, work);
            let taken_back = TakenBack { version, at: now.wall, index: *index, why };
            record.taken_back = Some(taken_back);
            record.version = before;
            record.before = None;
            record.crashes = 0;
        }
        known.since = Some(now.wall);
        self.mind_distance(service, &wanted);
        self.tell(Effect::Alarm(Alarm::Reverted(service.clone())));
        self.changed.insert(service.clone());
    }
}
