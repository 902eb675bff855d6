//! Second copies of an index: how silence makes one, and which of two goes.

use sterna_model::{
    InstanceKey, RunId,
    record::{InstancePhase, Placed, StopReason, TwinReason},
};
use sterna_protocol::message::Kill;

use super::{Control, Now};
use crate::tables::{self, Container, instance as table};

impl Control {
    /// The worker of a copy has been silent for so long that another may start.
    pub(super) fn silent(&mut self, now: Now, run: RunId) {
        let Some(key) = self.seats.key_of(run).cloned() else { return };
        self.silent.insert(run);
        // Only an instance may have a second copy.
        if let Some(key) = key.instance() {
            self.displace_silent(now, key);
            self.converge_index(now, key);
        }
    }

    /// Makes room beside a copy whose worker is silent, if there is not another one already.
    pub(super) fn displace_silent(&mut self, now: Now, key: &InstanceKey) {
        let Some(instance) = self.instances.get_mut(key) else { return };
        let run = instance.copy().map(|copy| copy.placed.run);
        let is_silent = run.is_some_and(|run| self.silent.contains(&run));
        let is_twin_silent = instance.twin().is_some_and(|twin| {
            twin.reason != TwinReason::Silent && self.silent.contains(&twin.copy.placed.run)
        });
        if is_twin_silent {
            instance.turn_twin(TwinReason::Silent);
            self.write_instance(key);
        } else if is_silent && instance.displace(TwinReason::Silent, now.wall).is_ok() {
            self.write_instance(key);
        } else if is_silent {
            self.yield_silent(now, key);
        }
    }

    /// The worker of a copy is silent, and its twin was to be moved from a machine that is drained no longer:
    /// the twin has the place again. The silent copy may never free its slot, and an update would wait for
    /// that with a twin that nobody replaces. Gives whether it was so.
    pub(super) fn yield_silent(&mut self, now: Now, key: &InstanceKey) -> bool {
        let Some(instance) = self.instances.get_mut(key) else { return false };
        let is_silent = instance.copy().is_some_and(|it| self.silent.contains(&it.placed.run));
        let goes_on = instance.twin().is_some_and(|twin| {
            let Placed { run, on, .. } = twin.copy.placed;
            let is_running = twin.running_since.is_some() && twin.copy.stopping.is_none();
            let is_heard = !self.silent.contains(&run) && !self.drains.contains_key(&on.lock);
            twin.reason == TwinReason::Evacuating && is_running && is_heard
        });
        let yields = is_silent && goes_on && instance.yield_place(now.wall).is_ok();
        if yields {
            self.write_instance(key);
        }
        yields
    }

    /// The worker of a silent twin is heard again: the table says which copy goes.
    pub(super) fn settle_twin(&mut self, now: Now, key: &InstanceKey) {
        self.decide_twin(now, key);
        self.converge_index(now, key);
    }

    /// The same, and what follows from it is not looked at: an update may go on by it, and not before all
    /// indices are.
    pub(super) fn decide_twin(&mut self, now: Now, key: &InstanceKey) {
        let Some(instance) = self.instances.get(key) else { return };
        let Some(twin) = instance.twin().cloned() else { return };
        let run = twin.copy.placed.run;
        self.silent.remove(&run);
        let container =
            if twin.running_since.is_some() { Container::Running } else { Container::Starting };
        let record = self.instance_seen_from(key, run);
        match tables::instance::reconcile(container, record) {
            table::Action::Claim | table::Action::Run if twin.copy.stopping.is_some() => {
                self.leave_surplus(key);
            }
            table::Action::Claim | table::Action::Run => self.promote(now, key),
            table::Action::End => {
                self.stop_copy(key, run, StopReason::Elsewhere);
            }
            table::Action::Leave | table::Action::Crash | table::Action::Vacate => {}
        }
    }

    /// Its twin was told to end, and takes no place any more. Until it is gone nothing is started beside
    /// it: neither silence nor a drain excuses that now.
    fn leave_surplus(&mut self, key: &InstanceKey) {
        let Some(instance) = self.instances.get_mut(key) else { return };
        instance.turn_twin(TwinReason::Surplus);
        self.withdraw(&key.to_work());
        self.write_instance(key);
    }

    fn promote(&mut self, now: Now, key: &InstanceKey) {
        let Some(instance) = self.instances.get_mut(key) else { return };
        if instance.promote(now.wall).is_err() {
            return;
        }
        let surplus = instance.twin().map(|twin| twin.copy.placed.run);
        self.withdraw(&key.to_work());
        self.write_instance(key);
        if let Some(run) = surplus {
            self.kill(run, Kill::Gracefully);
        }
    }

    /// The worker of a silent copy is heard again, and drained, and another copy runs in its place: it serves
    /// until that one does, as any that is moved. Gives whether it does.
    pub(super) fn goes_on_moving(&mut self, key: &InstanceKey) -> bool {
        let is_wanted = self.is_wanted(key);
        let Some(instance) = self.instances.get_mut(key) else { return false };
        let serves = instance.twin().is_some_and(|twin| {
            let is_running = twin.running_since.is_some() && twin.copy.stopping.is_none();
            let is_drained = self.drains.contains_key(&twin.copy.placed.on.lock);
            is_running && is_drained && twin.copy.is_ready()
        });
        let goes_on = is_wanted && serves && instance.phase() == InstancePhase::Running;
        if goes_on {
            instance.turn_twin(TwinReason::Evacuating);
            self.write_instance(key);
            self.end_evacuated(key);
        }
        goes_on
    }
}
