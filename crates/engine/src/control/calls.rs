//! What clients ask for.

use std::sync::Arc;

use sterna_model::{
    InstanceKey, Lock, ServiceKey, WorkKey,
    planted::{Mistake, is_planted},
    record::{Illegal, InstancePhase, StopReason},
    spec::ServiceSpec,
};

use sterna_protocol::message::Kill;

use super::{Answer, Call, CallId, Control, Effect, Now, ServiceRecord, standing::Service};

impl Control {
    pub(super) fn call(&mut self, now: Now, id: CallId, call: Call) {
        match call {
            Call::CreateTask(key, incarnation, spec) => {
                self.create_task(now, id, &key, incarnation, spec);
            }
            Call::CancelTask(key) => self.cancel_task(now, id, &key),
            Call::DeleteTask(key) => {
                let answer = self.delete_task(now, &key);
                self.answer(id, answer);
            }
            Call::FreeName(key) => {
                let answer = self.free_name(now, &key);
                self.answer(id, answer);
            }
            Call::PutService(key, spec) => self.put_service(now, id, &key, spec),
            Call::DeleteService(key) => self.delete_service(now, id, &key),
            Call::PutDefinition(key, definition) => {
                let answer = self.put_definition(key, definition);
                self.answer(id, answer);
            }
            Call::DeleteDefinition(key) => {
                let answer = self.delete_definition(&key);
                self.answer(id, answer);
            }
            Call::StopInstance(key) => self.stop_instance(now, id, &key),
            Call::Kill(key) => self.kill_work(id, &key),
            Call::Drain(lock, deadline) => {
                let answer = self.known_machine(lock);
                if answer == Answer::Done {
                    self.set_drain(now, lock, Some(deadline));
                }
                self.answer(id, answer);
            }
            Call::Undrain(lock) => {
                let is_drained = self.drains.contains_key(&lock);
                if is_drained {
                    self.set_drain(now, lock, None);
                }
                self.answer(id, if is_drained { Answer::Done } else { Answer::Already });
            }
            Call::DeclareDead(lock) => {
                let is_known = self.declare_dead(lock);
                self.answer(id, if is_known { Answer::Done } else { Answer::NotFound });
            }
            Call::Forget(lock) => {
                let answer = self.forget(lock);
                self.answer(id, answer);
            }
            Call::SetLimits(limits) => {
                let answer = match self.limits_objection(&limits) {
                    None => {
                        self.set_limits(limits);
                        Answer::Done
                    }
                    Some(wrong) => Answer::BadLimits(wrong),
                };
                self.answer(id, answer);
            }
            Call::SetDomain(name, until) => {
                self.set_domain(now, &name, until);
                self.answer(id, Answer::Done);
            }
            Call::RemoveDomain(name) => {
                let was_there = self.remove_domain(&name);
                self.answer(id, if was_there { Answer::Done } else { Answer::NotFound });
            }
        }
    }

    /// Answers a call, once what it says stands.
    pub(super) fn answer(&mut self, id: CallId, answer: Answer) {
        if is_planted(Mistake::AcknowledgesUnwritten) {
            return self.outbox.say_at_once(Effect::Answer(id, answer));
        }
        self.tell(Effect::Answer(id, answer));
    }

    fn known_machine(&self, lock: Lock) -> Answer {
        if self.roster.contains_key(&lock) || self.workers.contains_key(&lock) {
            Answer::Done
        } else {
            Answer::NotFound
        }
    }

    fn put_service(&mut self, now: Now, id: CallId, key: &ServiceKey, spec: ServiceSpec) {
        let instances = spec.instances;
        let known = self.services.get(key).map(|known| &known.record);
        let before = known.map(|record| (record.version, Arc::clone(&record.spec.wants)));
        let is_known = self.services.get(key).is_some_and(|known| known.record.spec == spec);
        if !is_known && let Some(wrong) = self.limits_forbid(&key.to_string(), spec.contract) {
            return self.answer(id, Answer::BadSpec(wrong));
        }
        self.allow_for(&key.instance(0).to_work(), spec.contract);
        let begins_again = !self.begin_again_with(key, &spec).is_empty();
        let record = match self.services.get(key).map(|known| &known.record) {
            None => ServiceRecord {
                spec,
                version: 0,
                highest: 0,
                before: None,
                crashes: 0,
                taken_back: None,
            },
            Some(record) if record.spec == spec => {
                let has_ended = self.stop_from(key, instances);
                return self.answer(id, if has_ended { Answer::Done } else { Answer::Already });
            }
            Some(record) if record.spec.needs_restart(&spec) => other_version(record, spec),
            Some(record) => ServiceRecord { spec, ..(**record).clone() },
        };
        // What is left of one that was deleted was another program, too.
        let is_anew = before.as_ref().is_none_or(|(version, _)| *version != record.version);
        let record = Arc::new(record);
        match self.services.get_mut(key) {
            Some(known) => {
                known.record = record;
                known.since = if is_anew { Some(now.wall) } else { known.since };
            }
            None => self.services.insert(key.clone(), Service::new(record, Some(now.wall))),
        }
        if let Some((_, wants)) = before {
            self.mind_distance(key, &wants);
        }
        self.stop_from(key, instances);
        if is_anew {
            self.begin_anew(now, key);
        }
        if is_planted(Mistake::ForgivesChanges) {
            for index in self.indices_from(key, 0) {
                if self
                    .instances
                    .get_mut(&index)
                    .is_some_and(sterna_model::record::Instance::forgive)
                {
                    self.write_instance(&index);
                }
            }
        }
        // Last, or a leader that ends between two commits would leave the rest undone for ever.
        self.write_service(key);
        self.ask_anew(key);
        self.converge(now, key);
        self.answer(id, if begins_again { Answer::BeginsAgain } else { Answer::Done });
    }

    /// Asked for by name: what is not wanted from this index on ends, fresh or not. Gives whether
    /// anything is told to end by this.
    fn stop_from(&mut self, key: &ServiceKey, first: u32) -> bool {
        let extras = self.indices_from(key, first);
        let news = extras.iter().filter(|extra| self.stop_all(extra, StopReason::Unwanted));
        news.count() > 0
    }

    /// What waits for a worker asks for what the spec says now.
    pub(super) fn ask_anew(&mut self, key: &ServiceKey) {
        for instance in self.indices_from(key, 0) {
            let work = instance.to_work();
            if self.queue.is_waiting(&work) {
                self.ask(&work);
            }
        }
    }

    fn delete_service(&mut self, now: Now, id: CallId, key: &ServiceKey) {
        if !self.services.contains(key) {
            return self.answer(id, Answer::NotFound);
        }
        // While it is still known how long each may take to end.
        let instances = self.indices_from(key, 0);
        for instance in &instances {
            self.stop_all(instance, StopReason::Unwanted);
        }
        if let Some(known) = self.services.remove(key)
            && is_planted(Mistake::ForgetsDomains)
        {
            self.remove_domain(&known.record.spec.domain);
        }
        for instance in &instances {
            self.converge_index(now, instance);
        }
        self.write_service(key);
        self.answer(id, Answer::Done);
    }

    /// Ends whatever runs of it, at once. What follows from its end follows as from any other.
    fn kill_work(&mut self, id: CallId, key: &WorkKey) {
        let (is_known, mut runs) = match key {
            WorkKey::Instance(key) => {
                let instance = self.instances.get(key);
                let copies = instance.into_iter().flat_map(|instance| instance.copies());
                (instance.is_some(), copies.map(|copy| copy.placed.run).collect())
            }
            WorkKey::Task(key) => {
                let task = self.tasks.get(key).map(|(task, _)| task);
                let placed = task.and_then(|task| task.placed());
                (task.is_some(), placed.map(|placed| placed.run).into_iter().collect())
            }
            WorkKey::Node(_) => (false, Vec::new()),
        };
        if runs.is_empty() {
            // What runs without a record, or beside it, can be named by its key alone.
            runs = self.seats.runs_of(key);
        }
        if runs.is_empty() && !is_known {
            return self.answer(id, Answer::NotFound);
        }
        let answer = if runs.is_empty() { Answer::Already } else { Answer::Done };
        for run in runs {
            self.kill(run, Kill::Now);
        }
        self.answer(id, answer);
    }

    /// Ends an instance, so that it begins again; one that waits after a crash, or was given up, begins
    /// again at once.
    fn stop_instance(&mut self, now: Now, id: CallId, key: &InstanceKey) {
        let Some(instance) = self.instances.get(key) else {
            return self.answer(id, Answer::NotFound);
        };
        let phase = instance.phase();
        let answer = match instance.copy().map(|copy| copy.placed.run) {
            Some(_) if is_planted(Mistake::StopsNothing) => Answer::Done,
            // Every copy: one that is silent now may be its own again.
            Some(_) if self.stop_all(key, StopReason::Asked) => Answer::Done,
            Some(_) => Answer::Already,
            // What is being moved is all that there is of it.
            None if self.stop_all(key, StopReason::Asked) => Answer::Done,
            None if phase == InstancePhase::Crashed && self.is_wanted(key) => {
                self.forgive(now, key);
                self.converge_index(now, key);
                Answer::BeginsAgain
            }
            None => Answer::Conflict(Illegal { event: "stop", phase: phase.as_str() }),
        };
        self.answer(id, answer);
    }
}

/// A service that is another program from now on.
fn other_version(record: &ServiceRecord, spec: ServiceSpec) -> ServiceRecord {
    // What still runs of the version before is as it is wanted again.
    if let Some(version) = record.taken_back_by(&spec) {
        let highest = record.highest;
        return ServiceRecord {
            spec,
            version,
            highest,
            before: None,
            crashes: 0,
            taken_back: None,
        };
    }
    // While one update is under way, the way back leads to what was before it.
    let before = record.before.clone();
    let before = before.or_else(|| Some((record.version, Arc::new(record.spec.clone()))));
    let highest = record.highest + 1;
    ServiceRecord { spec, version: highest, highest, before, crashes: 0, taken_back: None }
}
