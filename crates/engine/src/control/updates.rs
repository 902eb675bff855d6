//! How a new version of a service comes about: a few instances at a time, and back again if it
//! crashes.

use std::sync::Arc;

use sterna_model::{
    WorkKey,
    record::{InstanceState, StopReason},
};

use super::{Alarm, Control, Effect, Now, Record, RecordKey, ServiceKey, Timer, services};

impl Control {
    pub(super) fn write_service(&mut self, key: &ServiceKey) {
        let record =
            self.services.get(key).map(|service| Record::Service(Arc::clone(&service.record)));
        self.outbox.write(RecordKey::Service(key.clone()), record);
    }

    /// Notes whether an index serves, and whether it is of the version that is wanted.
    pub(super) fn note_index(&mut self, now: Now, service: &ServiceKey, key: &WorkKey, index: u32) {
        let Some(known) = self.services.get_mut(service) else { return };
        let record = &known.record;
        let is_wanted = index < record.spec.instances;
        let healthy_for = record.spec.update.healthy_for;
        let mut serves = false;
        let mut is_outdated = false;
        let mut settles = None;
        match self.instances.get(key).map(sterna_model::record::Instance::state) {
            Some(InstanceState::Running { copy, since }) => {
                let is_current = copy.version == record.version;
                let settled = since.plus(healthy_for);
                is_outdated = !is_current && copy.stopping.is_none();
                // One that runs since later than now does so by a clock that was wrong.
                let is_settled = settled <= now.wall || *since > now.wall;
                serves = copy.stopping.is_none() && (!is_current || is_settled);
                if is_current && !serves && copy.stopping.is_none() {
                    settles = Some(settled);
                }
            }
            Some(InstanceState::Claimed { copy, .. }) => {
                is_outdated = copy.version != record.version && copy.stopping.is_none();
            }
            Some(InstanceState::Unclaimed { .. } | InstanceState::Crashed { .. }) | None => {}
        }
        set(&mut known.missing, index, is_wanted && !serves);
        set(&mut known.outdated, index, is_wanted && is_outdated);
        if let Some(at) = settles {
            self.timers.insert((at, Timer::Settled(key.clone())));
        }
    }

    /// Goes on with an update: ends as many copies of other versions as may be missing.
    pub(super) fn roll(&mut self, now: Now, service: &ServiceKey) {
        let Some(known) = self.services.get(service) else { return };
        if known.outdated.is_empty() {
            if known.record.before.is_some() && known.missing.is_empty() {
                self.change_record(service, |record| {
                    record.before = None;
                    record.crashes = 0;
                });
            }
            return;
        }
        let allowed = known.record.spec.update.max_unavailable.max(1) as usize;
        let budget = allowed.saturating_sub(known.missing.len());
        // One that does not serve costs nothing.
        let idle = known.outdated.iter().filter(|index| known.missing.contains(index));
        let serving = known.outdated.iter().filter(|index| !known.missing.contains(index));
        let next: Vec<u32> = idle.chain(serving.take(budget)).copied().collect();
        for index in next {
            let key = service.instance(index);
            let copy = self.instances.get(&key).and_then(|instance| instance.copy());
            if let Some(run) = copy.map(|copy| copy.placed.run) {
                self.stop_copy(&key, run, StopReason::Update);
            }
            self.note_index(now, service, &key, index);
        }
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

    /// An instance crashed. If it was of a version that is just coming about, that may be taken back.
    pub(super) fn count_against_update(&mut self, key: &WorkKey, version: u64) {
        let Some(service) = services::service_of(key) else { return };
        let Some(known) = self.services.get(&service) else { return };
        let record = &known.record;
        let Some((before, spec)) = record.before.clone() else { return };
        let Some(limit) = record.spec.update.revert_after else { return };
        if version != record.version {
            return;
        }
        if record.crashes + 1 < limit {
            return self.change_record(&service, |record| record.crashes += 1);
        }
        let instances = record.spec.instances;
        self.change_record(&service, |record| {
            record.spec = (*spec).clone();
            // How many there are is no part of a version.
            record.spec.instances = instances;
            record.version = before;
            record.before = None;
            record.crashes = 0;
        });
        self.tell(Effect::Alarm(Alarm::Reverted(service.clone())));
        self.changed.insert(service);
    }
}

fn set(all: &mut std::collections::BTreeSet<u32>, index: u32, is_in: bool) {
    if is_in {
        all.insert(index);
    } else {
        all.remove(&index);
    }
}
