//! Machines that are drained: what moves from them, what stays, and how it ends.

use sterna_model::{
    Contract, InstanceKey, Lock, RunId, Span, WallTime, WorkKey,
    payload::{GRACE, WorkOutline},
    planted::{Mistake, is_planted},
    record::{InstanceCopy, InstancePhase, InstanceState, StopReason, TaskEnd, TwinReason},
};
use sterna_protocol::{message::Kill, scheduler};

use super::{Control, Drain, Now, Row, Timer, domains::SHOWN, services};

/// An instance is asked to end no earlier than this before the deadline of a drain, however long its grace
/// is, and not in the first half of the drain: another may come for it until then. Nothing comes for a task.
const ASKED_BEFORE_MAX: Span = Span::from_secs(60);

impl Control {
    /// Begins to drain a machine until this deadline, or ends that.
    pub(super) fn set_drain(&mut self, now: Now, lock: Lock, deadline: Option<WallTime>) {
        let is_draining = deadline.is_some();
        let drain = deadline.map(|deadline| self.drain_until(now, lock, deadline));
        self.drains.remove(&lock);
        self.timers.cancel(&Timer::Drain(lock));
        self.timers.cancel(&Timer::Asked(lock));
        if let Some(drain) = &drain {
            if !is_planted(Mistake::ForgetsDrainEnds) {
                self.timers.set(drain.deadline, Timer::Drain(lock));
            }
            self.drains.insert(lock, drain.clone());
        }
        self.outbox.keep_together(2);
        self.outbox.write(Row::Drain(lock, drain));
        if let Some(entry) = self.roster.get_mut(&lock) {
            entry.is_draining = is_draining;
            let entry = entry.clone();
            self.outbox.write(Row::Roster(lock, Some(entry)));
        }
        self.tell_fleet(scheduler::Input::Draining(lock, is_draining));
        self.offer(lock);
        if is_draining {
            self.empty(now, lock);
        } else {
            self.stay(now, lock);
        }
    }

    /// What a drain is that is asked for now: who is drained already has been since that began.
    pub(super) fn drain_until(&self, now: Now, lock: Lock, deadline: WallTime) -> Drain {
        let before = self.drains.get(&lock).map(|drain| drain.since);
        // A clock that was ahead has left a moment that is yet to come.
        Drain { deadline, since: before.unwrap_or(now.wall).min(now.wall) }
    }

    /// What was to move from a machine, and has not, stays there. Beside another that runs it goes on as
    /// long as it would on a machine that is drained: until that one has its place.
    fn stay(&mut self, now: Now, lock: Lock) {
        for run in self.runs_on(lock) {
            let key = self.seats.key_of(run).and_then(WorkKey::instance).cloned();
            let Some(key) = key else { continue };
            let Some(instance) = self.instances.get(&key) else { continue };
            let is_evacuating = instance.twin().is_some_and(|twin| {
                twin.copy.placed.run == run && twin.reason == TwinReason::Evacuating
            });
            let phase = instance.phase();
            if is_evacuating && self.yield_silent(now, &key) {
                self.converge_index(now, &key);
            } else if is_evacuating && phase == InstancePhase::Running {
                self.end_evacuated(&key);
            } else if is_evacuating && (phase == InstancePhase::Claimed || self.has_stayed(&key)) {
                self.settle_twin(now, &key);
            }
        }
    }

    /// A copy was moved under a contract that let another run beside it, and none may any more: it ends
    /// first.
    pub(super) fn end_moved_alone(&mut self, key: &InstanceKey) {
        let twin = self.instances.get(key).and_then(|instance| instance.twin());
        let moved = twin.filter(|twin| twin.reason == TwinReason::Evacuating);
        if let Some(run) = moved.map(|twin| twin.copy.placed.run) {
            self.stop_copy(key, run, StopReason::Drain);
        }
    }

    /// A copy that evacuates ends when another runs and is ready, or has crashed. One that is not ready
    /// itself keeps nobody waiting. While a version comes about, a copy of the one before ends when one of
    /// the new has run for long enough, and for no crash; one of a version that is wanted again, when
    /// another of that version runs.
    pub(super) fn end_evacuated(&mut self, key: &InstanceKey) {
        let Some(instance) = self.instances.get(key) else { return };
        let Some(twin) = instance.twin() else { return };
        let InstanceKey { service, index } = key;
        if self.changed.contains(service) {
            // What is wanted is something else in a moment, and it is looked at then.
            return;
        }
        let Some(known) = self.services.get(service) else { return };
        let is_coming = known.record.before.is_some();
        let is_wanted = known.record.version == twin.copy.version;
        let is_replaced = match instance.state() {
            InstanceState::Unclaimed { .. } | InstanceState::Claimed { .. } => false,
            InstanceState::Running { copy, .. } => {
                let has_its_version = match (is_wanted, is_coming) {
                    (true, true | false) => copy.version == twin.copy.version,
                    (false, true) => !known.missing.contains(index),
                    (false, false) => true,
                };
                has_its_version && copy.stopping.is_none() && is_replaced(copy, &twin.copy)
            }
            InstanceState::Crashed { .. } => is_wanted || !is_coming,
        };
        if twin.reason == TwinReason::Evacuating && is_replaced {
            self.stop_copy(key, twin.copy.placed.run, StopReason::Elsewhere);
        }
    }

    /// Whether an instance has no copy but one that was to be moved, from a machine that is drained no
    /// longer: that has its place again, and nothing is started beside it. What has crashed keeps its wait,
    /// if what would be there again is not of the version that is wanted.
    pub(super) fn has_stayed(&self, key: &InstanceKey) -> bool {
        let Some(instance) = self.instances.get(key) else { return false };
        let Some(twin) = instance.twin() else { return false };
        let is_wanted = || {
            let known = self.service_having(key);
            known.is_some_and(|known| known.record.version == twin.copy.version)
        };
        let is_free = match instance.phase() {
            InstancePhase::Unclaimed => true,
            InstancePhase::Crashed => twin.running_since.is_some() && is_wanted(),
            InstancePhase::Claimed | InstancePhase::Running => false,
        };
        let is_drained = self.drains.contains_key(&twin.copy.placed.on.lock);
        is_free && twin.reason == TwinReason::Evacuating && !is_drained
    }

    /// Moves what can be moved from a machine, and asks the rest to end in time.
    pub(super) fn empty(&mut self, now: Now, lock: Lock) {
        self.evacuate(now, lock);
        self.ask_before_end(now, lock);
    }

    /// Moves what can be moved from a machine. Tasks do not move: they run on while they may.
    pub(super) fn evacuate(&mut self, now: Now, lock: Lock) {
        for run in self.runs_on(lock) {
            match self.seats.key_of(run).cloned() {
                Some(WorkKey::Instance(key)) => self.evacuate_copy(now, &key, run),
                Some(WorkKey::Task(_) | WorkKey::Node(_)) | None => {}
            }
        }
    }

    /// Moves one copy, if it is its instance's own: a copy that runs goes on until another does, one
    /// that is starting ends.
    pub(super) fn evacuate_copy(&mut self, now: Now, key: &InstanceKey, run: RunId) {
        let contract = self.service_having(key).map(|known| known.record.spec.contract);
        let Some(instance) = self.instances.get_mut(key) else { return };
        let Some(copy) = instance.copy().filter(|copy| copy.placed.run == run).cloned() else {
            return;
        };
        if copy.stopping.is_some() {
            return;
        }
        let is_running = instance.phase() == InstancePhase::Running;
        if services::may_overlap(copy.placed.contract) && instance.twin().is_some() {
            // Its twin's slot is taken: it moves when that is free.
            return;
        }
        let may_overlap = may_overlap(&copy, contract);
        if may_overlap && instance.displace(TwinReason::Evacuating, now.wall).is_err() {
            return;
        }
        if !may_overlap || !is_running {
            instance.stop(run, StopReason::Drain);
        }
        let is_stopping =
            instance.copies().any(|copy| copy.placed.run == run && copy.stopping.is_some());
        self.write_instance(key);
        if is_stopping {
            self.kill(run, Kill::Gracefully);
        }
        self.converge_index(now, key);
    }

    /// What is still on a drained machine has its grace before the deadline: it is asked to end then, and
    /// killed at the deadline if it has not.
    pub(super) fn ask_before_end(&mut self, now: Now, lock: Lock) {
        if !self.drains.contains_key(&lock) {
            return;
        }
        let mut next: Option<WallTime> = None;
        for run in self.runs_on(lock) {
            let Some(at) = self.asked_at(run) else { continue };
            if at > now.wall {
                next = Some(next.map_or(at, |next| next.min(at)));
            } else if let Some(key) = self.seats.key_of(run).cloned() {
                self.end_for_drain(now, &key, run);
            }
        }
        // One that is set for an earlier moment, for what has ended since, comes by here again.
        if let Some(at) = next.filter(|at| !self.timers.is_set_until(*at, &Timer::Asked(lock))) {
            self.timers.set(at, Timer::Asked(lock));
        }
    }

    /// When a run on a drained machine is asked to end, which nobody has asked yet.
    pub(super) fn asked_at(&self, run: RunId) -> Option<WallTime> {
        let seat = self.seats.get(run)?;
        let drain = self.drains.get(&seat.lock)?;
        if self.ending.contains_key(&run) || self.was_asked(&seat.key, run) {
            return None;
        }
        Some(drain.deadline.minus(self.asked_before(drain, &seat.key, run)))
    }

    /// Whether its record says that a run is to end, whoever asked for that.
    fn was_asked(&self, key: &WorkKey, run: RunId) -> bool {
        match key {
            WorkKey::Instance(key) => {
                let mut copies = self.instances.get(key).into_iter().flat_map(|one| one.copies());
                copies.any(|copy| copy.placed.run == run && copy.stopping.is_some())
            }
            WorkKey::Task(key) => self.tasks.get(key).is_some_and(|(task, _)| task.end().is_some()),
            WorkKey::Node(_) => false,
        }
    }

    /// How long before the deadline of a drain that is.
    pub(super) fn asked_before(&self, drain: &Drain, key: &WorkKey, run: RunId) -> Span {
        let whole = drain.deadline.since(drain.since);
        // As of one that runs, which it may by then.
        let work = self.work_of_run(key, run);
        let within = work.and_then(|it| WorkOutline::read(&it).ends_within(true));
        // Who may take as long as it likes has the usual time, and who is of a version that nobody knows.
        let within = within.unwrap_or(GRACE);
        match key {
            WorkKey::Task(_) | WorkKey::Node(_) => within.min(whole),
            WorkKey::Instance(_) if is_planted(Mistake::EndsTheDrained) => whole,
            WorkKey::Instance(_) => {
                let half = Span::from_millis(whole.as_millis() / 2);
                within.min(ASKED_BEFORE_MAX).min(half)
            }
        }
    }

    /// Asks a run to end because the drain of its machine does.
    fn end_for_drain(&mut self, now: Now, key: &WorkKey, run: RunId) {
        match key {
            WorkKey::Instance(key) => {
                self.stop_copy(key, run, StopReason::Drain);
            }
            WorkKey::Task(key) if self.is_run_of_task(key, run) => {
                self.end_task_early(now, key, TaskEnd::Drained);
            }
            // Nodes are killed at the deadline alone.
            WorkKey::Task(_) | WorkKey::Node(_) => {}
        }
    }

    /// The drain of a machine that is not on the roster any more is forgotten a day after its deadline:
    /// until then whoever comes back finds itself drained.
    fn forget_drain(&mut self, now: Now, lock: Lock, deadline: WallTime) {
        if deadline.plus(SHOWN) <= now.wall {
            self.set_drain(now, lock, None);
        } else {
            self.timers.set(deadline.plus(SHOWN), Timer::Drain(lock));
        }
    }

    /// Whether a machine is neither here nor on the roster.
    pub(super) fn is_gone(&self, lock: Lock) -> bool {
        !self.roster.contains_key(&lock) && !self.workers.contains_key(&lock)
    }

    /// A drain always ends: what is still there is ended (and the machine stays without work).
    pub(super) fn end_drain(&mut self, now: Now, lock: Lock) {
        let Some(drain) = self.drains.get(&lock) else { return };
        let deadline = drain.deadline;
        if deadline > now.wall {
            return;
        }
        let is_gone = self.is_gone(lock);
        if is_gone && self.runs_on(lock).is_empty() {
            return self.forget_drain(now, lock, deadline);
        }
        if is_gone && deadline.plus(SHOWN) > now.wall {
            self.timers.set(deadline.plus(SHOWN), Timer::Drain(lock));
        }
        for run in self.runs_on(lock) {
            let Some(key) = self.seats.key_of(run).cloned() else { continue };
            // Who was asked before, as it should have been, has had its grace.
            self.end_for_drain(now, &key, run);
            self.kill(run, Kill::Now);
        }
    }
}

/// Whether another may run beside a copy that is being moved, by what holds for it and for what comes in
/// its place.
pub(super) fn may_overlap(copy: &InstanceCopy, next: Option<Contract>) -> bool {
    services::may_overlap(copy.placed.contract) && next.is_none_or(services::may_overlap)
}

/// Whether a copy that runs has the place of one that is being moved.
fn is_replaced(copy: &InstanceCopy, moved: &InstanceCopy) -> bool {
    copy.is_ready() || !moved.is_ready() || is_planted(Mistake::EndsTheMoved)
}
