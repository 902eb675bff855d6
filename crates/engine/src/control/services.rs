//! Which indices of a service are to run, and what becomes of their copies.
//!
//! Every index is judged by itself, never by how many there are. What time or a worker did to one
//! leads here, and [`Control::converge_index`] says what is missing.

use std::sync::Arc;

use sterna_model::{
    Contract, Incarnation, InstanceKey, RunId, ServiceKey, Span, WallTime,
    payload::PROGRESS_BYTES_MAX,
    planted::{Mistake, is_planted},
    record::{
        Crash, CrashPolicy, Instance, InstancePhase, InstanceState, Placed, StopReason, TwinReason,
    },
};
use sterna_protocol::{
    message::{Kill, News},
    scheduler::{self, Dispatch},
};

use super::{Control, Effect, Now, Row, Timer, interface::Sending, payload, standing::Service};
use crate::tables::{Container, instance as table};

/// How a copy came to be certainly gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Gone {
    /// It may have run, and left output.
    Over,
    /// It was not sent after all.
    NotSent,
    /// Its worker has not begun it: the next try waits a little.
    TurnedDown,
}

/// How long work waits that a worker refused.
pub(super) const TURNED_DOWN: Span = Span::from_secs(1);

/// Whether two copies may run at a time, while a worker is silent or evacuating.
pub(super) const fn may_overlap(contract: Contract) -> bool {
    match contract {
        Contract::Replace { .. } => true,
        Contract::Stop { .. } | Contract::Keep => false,
    }
}

/// By how much the clocks of two servers may differ, as far as waits after crashes go.
const CLOCKS_DIFFER: Span = Span::from_secs(10);

/// Whether an instance that crashed still waits, or stays given up, under this policy.
pub(super) fn waits(
    instance: &Instance,
    until: Option<WallTime>,
    policy: &CrashPolicy,
    now: WallTime,
) -> bool {
    match until {
        // One that is further away than its wait was reckoned by a clock that was wrong; those of two
        // servers may differ a little.
        Some(until) => {
            let wait = match policy.answer(instance.crashes().count) {
                Crash::Now => Span::ZERO,
                Crash::After(wait) => wait,
                Crash::GivenUp => policy.longest_wait,
            };
            until > now && until.since(now) <= wait.plus(CLOCKS_DIFFER)
        }
        // A policy may give up later than the one before did.
        None => policy.answer(instance.crashes().count) == Crash::GivenUp,
    }
}

/// Whether another copy may start beside what the record still holds.
pub(super) fn may_start(instance: &Instance, contract: Contract) -> bool {
    match instance.twin().map(|twin| twin.reason) {
        None => true,
        Some(TwinReason::Silent | TwinReason::Evacuating) => may_overlap(contract),
        // It is on its way out, and nothing else excuses a second one.
        Some(TwinReason::Surplus) => false,
    }
}

impl Control {
    pub(super) fn write_instance(&mut self, key: &InstanceKey) {
        self.touch(&key.to_work());
        self.outbox.write(Row::Instance(key.clone(), self.instances.get(key).cloned()));
    }

    /// Looks at every index of a service.
    pub(super) fn converge(&mut self, now: Now, service: &ServiceKey) {
        let instances =
            self.services.get(service).map_or(0, |service| service.record.spec.instances);
        for index in 0..instances {
            self.look_at_index(now, &service.instance(index));
        }
        for key in self.indices_from(service, instances) {
            self.look_at_index(now, &key);
        }
        self.roll(now, service);
    }

    /// The instances of a service that there are, from this index on.
    pub(super) fn indices_from(&self, service: &ServiceKey, first: u32) -> Vec<InstanceKey> {
        self.instances.keys_from(service, first)
    }

    /// Does what one index needs now, and what its service's update may do; nothing, if it is as it
    /// should be.
    pub(super) fn converge_index(&mut self, now: Now, key: &InstanceKey) {
        self.look_at_index(now, key);
        self.roll(now, &key.service);
    }

    pub(super) fn look_at_index(&mut self, now: Now, key: &InstanceKey) {
        let is_wanted = if is_planted(Mistake::JudgesByCount) {
            self.is_lacking(key)
        } else {
            self.is_wanted(key)
        };
        if is_wanted && !self.instances.contains(key) {
            self.instances.insert(key, Instance::new(now.wall));
            self.write_instance(key);
        }
        if is_wanted {
            self.keep_index(now, key);
        } else {
            self.release_index(now, key);
        }
        self.note_index(now, key);
        if is_wanted {
            self.end_evacuated(key);
        }
    }

    /// Whether a spec wants this index.
    pub(super) fn is_wanted(&self, key: &InstanceKey) -> bool {
        self.services.get(&key.service).is_some_and(|known| key.index < known.record.spec.instances)
    }

    /// The service that an instance is one of.
    pub(super) fn service_having(&self, key: &InstanceKey) -> Option<&Service> {
        self.services.get(&key.service)
    }

    /// Whether there are fewer than the spec wants, beside this one.
    fn is_lacking(&self, key: &InstanceKey) -> bool {
        let wanted = self.service_having(key).map_or(0, |known| known.record.spec.instances);
        let others = self.indices_from(&key.service, 0).into_iter().filter(|other| other != key);
        others.count() < wanted as usize
    }

    /// A wanted index: it runs, or is on its way there.
    fn keep_index(&mut self, now: Now, key: &InstanceKey) {
        if self.has_stayed(key) {
            self.decide_twin(now, key);
        }
        let spec = self.service_having(key).map(|service| &service.record.spec);
        let spec = spec.map(|spec| (spec.contract, spec.crash));
        let (Some(instance), Some((contract, policy))) = (self.instances.get_mut(key), spec) else {
            return;
        };
        match instance.state() {
            InstanceState::Unclaimed { .. } if may_start(instance, contract) => {
                self.ask_when_rested(now, key);
            }
            InstanceState::Unclaimed { .. } => self.end_moved_alone(key),
            InstanceState::Crashed { until } if !waits(instance, *until, &policy, now.wall) => {
                self.begin_again(now, key);
            }
            InstanceState::Crashed { until: Some(_) } if is_planted(Mistake::ForgetsRestarts) => {}
            InstanceState::Crashed { until: Some(until) } => {
                self.timers.set(*until, Timer::Restart(key.clone()));
            }
            InstanceState::Crashed { until: None }
            | InstanceState::Claimed { .. }
            | InstanceState::Running { .. } => {}
        }
    }

    /// It has waited long enough after a crash.
    fn begin_again(&mut self, now: Now, key: &InstanceKey) {
        let Some(instance) = self.instances.get_mut(key) else { return };
        if instance.restart(now.wall).is_ok() {
            self.write_instance(key);
            self.keep_index(now, key);
        }
    }

    /// A service is another program now: what crashed of the one before counts no more, and what has
    /// no run waits for nothing. What runs of an older version is forgiven when it has ended.
    pub(super) fn begin_anew(&mut self, now: Now, service: &ServiceKey) {
        for key in self.indices_from(service, 0) {
            if self.instances.get(&key).is_some_and(|instance| instance.copy().is_none()) {
                self.forgive(now, &key);
            }
        }
    }

    /// Lets an index without a run begin as if it had never crashed; gives whether it had.
    pub(super) fn forgive(&mut self, now: Now, key: &InstanceKey) -> bool {
        let Some(instance) = self.instances.get_mut(key) else { return false };
        let had_crashed = instance.forgive();
        let waited = instance.restart(now.wall).is_ok();
        if had_crashed || waited {
            self.write_instance(key);
        }
        had_crashed || waited
    }

    /// A copy has ended. If its service is another program by now, its crashes are not that one's.
    fn forgive_outdated(&mut self, now: Now, key: &InstanceKey, version: u64) {
        if self.service_having(key).is_some_and(|service| service.record.version != version) {
            self.forgive(now, key);
        }
    }

    /// Asks for a worker, unless one has just turned it down.
    fn ask_when_rested(&mut self, now: Now, key: &InstanceKey) {
        let work = key.to_work();
        match self.queue.resting_until(&work) {
            Some(until) if until > now.wall => {
                self.timers.set(until, Timer::Restart(key.clone()));
            }
            Some(_) | None => {
                self.queue.has_rested(&work);
                if !self.queue.is_waiting(&work) {
                    self.ask(&work);
                }
            }
        }
    }

    /// Lets an instance that a worker refused wait a little, or both would do nothing else.
    fn rest(&mut self, now: Now, key: &InstanceKey) {
        let until = now.wall.plus(TURNED_DOWN);
        self.queue.rest(key.to_work(), until);
        self.timers.set(until, Timer::Restart(key.clone()));
    }

    /// An index that nobody wants: its record goes when its copies have. Copies are ended only where
    /// the domain is fresh: what is not known to be wanted may be wanted.
    fn release_index(&mut self, now: Now, key: &InstanceKey) {
        let work = key.to_work();
        self.withdraw(&work);
        let Some(instance) = self.instances.get(key) else { return };
        if instance.check_retire().is_ok() {
            self.instances.remove(key);
            self.queue.has_rested(&work);
            self.timers.cancel_instance(key);
            self.write_instance(key);
            return;
        }
        if self.may_destroy(now, &key.service) {
            self.stop_all(key, StopReason::Unwanted);
        } else {
            self.touch(&work);
        }
    }

    /// Whether what a spec does not want may be ended though nobody asked for that.
    fn may_destroy(&self, now: Now, service: &ServiceKey) -> bool {
        let domain = self.services.get(service).map(|service| &service.record.spec.domain);
        !self.is_recovered && domain.is_none_or(|domain| self.is_fresh(domain, now.wall))
    }

    /// Ends every copy of an index; gives whether that is news to one.
    pub(super) fn stop_all(&mut self, key: &InstanceKey, reason: StopReason) -> bool {
        let Some(instance) = self.instances.get(key) else { return false };
        let runs: Vec<_> = instance.copies().map(|copy| copy.placed.run).collect();
        let news = runs.into_iter().filter(|run| self.stop_copy(key, *run, reason));
        news.count() > 0
    }

    /// Ends a copy. That stands in the store first: an acknowledged stop is not forgotten.
    pub(super) fn stop_copy(&mut self, key: &InstanceKey, run: RunId, reason: StopReason) -> bool {
        if reason == StopReason::Elsewhere && is_planted(Mistake::LeavesTwins) {
            return false;
        }
        let Some(instance) = self.instances.get_mut(key) else { return false };
        let is_news = instance.stop(run, reason);
        if is_news {
            self.write_instance(key);
            self.kill(run, Kill::Gracefully);
            // What ends does not serve any more, whoever asked for that: an update counts it as missing.
            self.note_index(self.seen, key);
        }
        is_news
    }

    /// A worker gets it.
    pub(super) fn claim_instance(
        &mut self,
        now: Now,
        key: &InstanceKey,
        run: RunId,
        to: Incarnation,
    ) -> Option<Sending> {
        let record = &self.service_having(key)?.record;
        let (contract, version) = (record.spec.contract, record.version);
        let (work, wants) = (Arc::clone(&record.spec.work), Arc::clone(&record.spec.wants));
        let instance = self.instances.get_mut(key)?;
        if !may_start(instance, contract) {
            return None;
        }
        let placed = Placed { run, on: to, contract };
        let attempt = instance.crashes().count.saturating_add(1);
        instance.claim(placed, version, wants, now.wall).ok()?;
        self.note_index(now, key);
        Some(Sending { run, key: key.to_work(), to, contract, task: None, attempt, work })
    }

    /// What the record says of an index, from the worker that has this run.
    pub(super) fn instance_seen_from(&self, key: &InstanceKey, run: RunId) -> table::Record {
        let Some(instance) = self.instances.get(key) else { return table::Record::Missing };
        match (instance.phase(), instance.is_its(run)) {
            (InstancePhase::Unclaimed, true | false) => table::Record::Unclaimed,
            (InstancePhase::Claimed, true) => table::Record::ClaimedHere,
            (InstancePhase::Claimed, false) => table::Record::ClaimedElsewhere,
            (InstancePhase::Running, true) => table::Record::RunningHere,
            (InstancePhase::Running, false) => table::Record::RunningElsewhere,
            (InstancePhase::Crashed, true | false) => table::Record::Crashed,
        }
    }

    /// A worker was found to have it, so far. If a copy is starting elsewhere, that one goes.
    pub(super) fn adopt_instance(
        &mut self,
        now: Now,
        key: &InstanceKey,
        placed: Placed,
        container: Container,
    ) {
        let is_starting = match container {
            Container::Reserved | Container::Starting => true,
            Container::Running | Container::Crashed | Container::Shutdown | Container::Absent => {
                false
            }
        };
        let (run, on) = (placed.run, placed.on);
        // Nobody knows of which version it is. Where another one comes about it is replaced as what ran before.
        let version = self.service_having(key).map_or(0, |service| {
            let record = &service.record;
            record.before.as_ref().map_or(record.version, |(before, _)| *before)
        });
        let work = key.to_work();
        let wants = self.wants_of(&work);
        if !self.instances.contains(key) {
            self.instances.insert(key, Instance::new(now.wall));
        }
        let Some(instance) = self.instances.get_mut(key) else { return };
        let rival = instance.copy().map(|copy| copy.placed.run);
        let has_room = rival.is_none() || instance.displace(TwinReason::Surplus, now.wall).is_ok();
        // What is only starting says itself when it runs.
        let adopt = if is_starting { Instance::claim } else { Instance::adopt };
        if !has_room || adopt(instance, placed, version, wants, now.wall).is_err() {
            return self.end_stray(run, &work, on, Container::Running);
        }
        self.withdraw(&work);
        self.seat(run, work, on);
        if !is_starting {
            self.seat_started(run);
        }
        self.write_instance(key);
        if let Some(rival) = rival {
            self.stop_copy(key, rival, StopReason::Elsewhere);
        }
        self.converge_index(now, key);
        if self.drains.contains_key(&on.lock) {
            self.evacuate_copy(now, key, run);
        }
    }

    /// A run is certainly gone, and that was no crash.
    pub(super) fn copy_is_gone(&mut self, now: Now, key: &InstanceKey, run: RunId, how: Gone) {
        self.silent.remove(&run);
        let Some(instance) = self.instances.get_mut(key) else { return };
        let version = instance.copy().map(|copy| copy.version);
        let was_unwanted = instance
            .copies()
            .any(|copy| copy.placed.run == run && copy.stopping == Some(StopReason::Unwanted));
        match how {
            Gone::Over => instance.remember(run),
            Gone::NotSent | Gone::TurnedDown => {}
        }
        if instance.is_its(run) && instance.vacate(now.wall).is_ok() {
            version.into_iter().for_each(|it| self.forgive_outdated(now, key, it));
            if was_unwanted {
                // If somebody wants it by now, that is another service, whose versions begin anew.
                self.forgive(now, key);
            }
            if how == Gone::TurnedDown {
                self.rest(now, key);
            }
        } else if instance.is_twins(run) {
            instance.lose_twin();
        } else {
            return;
        }
        self.write_instance(key);
        self.copy_went(now, key);
    }

    /// A copy that is to end before it was sent is not sent: its instance would have it beside another
    /// one, and nobody is silent or drained any more. Gives whether this was to be the sending of one.
    pub(super) fn call_off(&mut self, now: Now, effect: &Effect) -> bool {
        let Effect::Fleet(input) = effect else { return false };
        let scheduler::Input::Dispatch(all) = &**input else { return false };
        let [Dispatch { run, key, .. }] = all.as_slice() else { return false };
        let Some(key) = key.instance() else { return false };
        let is_stopping = self.instances.get(key).is_some_and(|instance| {
            let mut copies = instance.copies();
            copies.any(|copy| copy.placed.run == *run && copy.stopping.is_some())
        });
        if is_stopping {
            self.leave_seat(*run);
            self.copy_is_gone(now, key, *run, Gone::NotSent);
        }
        is_stopping
    }

    /// A slot is free: what waited for it goes on.
    fn copy_went(&mut self, now: Now, key: &InstanceKey) {
        self.displace_silent(now, key);
        let copy = self.instances.get(key).and_then(|instance| {
            let copy = instance.copy()?;
            Some((copy.placed.run, copy.placed.on.lock))
        });
        if let Some((run, lock)) = copy
            && self.drains.contains_key(&lock)
        {
            self.evacuate_copy(now, key, run);
        }
        self.converge_index(now, key);
    }

    /// A status of one of its copies.
    pub(super) fn instance_reported(
        &mut self,
        now: Now,
        key: &InstanceKey,
        run: RunId,
        news: &News,
    ) {
        match news {
            News::Progress(said) => {
                if payload::progress(said) == Container::Running {
                    let fits = said.len() <= PROGRESS_BYTES_MAX;
                    let instance = self.instances.get_mut(key).filter(|_| fits);
                    let is_new = instance.is_some_and(|it| it.tell(run, said));
                    if is_new {
                        self.write_instance(key);
                    }
                    let has_begun = self.copy_runs(now, key, run);
                    // It may be ready now, or no longer.
                    if is_new && !has_begun {
                        self.converge_index(now, key);
                    }
                }
            }
            News::WasNotRunning => {
                self.leave_seat(run);
                self.copy_is_gone(now, key, run, Gone::TurnedDown);
            }
            News::Ended(said) => {
                self.leave_seat(run);
                self.copy_ended(now, key, run, said);
            }
        }
    }

    /// A copy runs; gives whether anything followed from that.
    fn copy_runs(&mut self, now: Now, key: &InstanceKey, run: RunId) -> bool {
        self.seat_started(run);
        let Some(instance) = self.instances.get_mut(key) else { return false };
        if instance.is_its(run) {
            // Told again it is no news.
            if instance.start(now.wall).is_err() {
                return false;
            }
        } else if instance.is_twins(run) {
            instance.start_twin(now.wall);
        } else {
            return false;
        }
        self.write_instance(key);
        self.converge_index(now, key);
        true
    }

    fn copy_ended(&mut self, now: Now, key: &InstanceKey, run: RunId, said: &[u8]) {
        let Some(instance) = self.instances.get_mut(key) else { return };
        let copy = instance.copy().filter(|copy| copy.placed.run == run).cloned();
        let Some(copy) = copy else { return self.copy_is_gone(now, key, run, Gone::Over) };
        let service = self.services.get(&key.service);
        let policy = service.map(|service| service.record.spec.crash).unwrap_or_default();
        if payload::was_stopped(said) || copy.stopping.is_some() {
            return self.copy_is_gone(now, key, run, Gone::Over);
        }
        self.silent.remove(&run);
        if instance.crash(&policy, payload::crash(said), now.wall).is_err() {
            return;
        }
        self.write_instance(key);
        self.forgive_outdated(now, key, copy.version);
        self.count_against_update(now, key, copy.version, None);
        self.copy_went(now, key);
    }
}
