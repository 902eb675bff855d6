//! A look at everything, as if nothing were known to have changed: it must find nothing.
//!
//! Each event leads to what follows from it. Were one forgotten, or a timer lost, nobody would ever
//! come back to it; the sweep does, says so, and mends it. It goes on in slices, so that no step of a
//! leader takes long.

use std::ops::Bound;

use sterna_model::{InstanceKey, Lock, Name, RunId, TaskKey, record::TaskState};

use super::{Alarm, Control, Effect, Now, Timer, placing::Helped, tasks};

/// How far a sweep is; what was looked at last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Cursor {
    /// Indices that are wanted.
    Wanted(Option<InstanceKey>),
    /// Instances that there are.
    Instances(Option<InstanceKey>),
    /// Tasks.
    Tasks(Option<TaskKey>),
    /// Names of tasks that were deleted.
    Tombstones(Option<TaskKey>),
    /// Machines that are drained.
    Drains(Option<Lock>),
    /// Domains.
    Domains(Option<Name>),
}

impl Cursor {
    pub(super) const START: Self = Self::Wanted(None);
}

/// What is decided and waits to be done.
struct Undone {
    asks: usize,
    writes: usize,
    timers: u64,
}

impl Undone {
    /// What there is more of by now, in words.
    const fn less_than(&self, after: &Self) -> Option<&'static str> {
        if after.writes > self.writes {
            Some("a write")
        } else if after.asks > self.asks {
            Some("an ask")
        } else if after.timers > self.timers {
            Some("a timer")
        } else {
            None
        }
    }
}

/// The next so many, and the last of them if there may be more.
fn slice<T: Clone>(rest: impl Iterator<Item = T>, count: usize) -> (Vec<T>, Option<T>) {
    let slice: Vec<T> = rest.take(count).collect();
    let last = slice.last().filter(|_| slice.len() == count).cloned();
    (slice, last)
}

/// From the one after this on; from the first if nothing was looked at.
fn after<T>(last: Option<&T>) -> (Bound<&T>, Bound<&T>) {
    (last.map_or(Bound::Unbounded, Bound::Excluded), Bound::Unbounded)
}

/// Where to go on: after the last of a slice, or with what comes next.
fn on<T>(last: Option<T>, same: impl FnOnce(Option<T>) -> Cursor, next: Cursor) -> Cursor {
    if last.is_some() { same(last) } else { next }
}

impl Control {
    /// How many things a leader looks at in one step of a sweep: a few milliseconds.
    pub const SLICE: usize = 2_000;

    /// Looks at everything, and gives what something was to be done about. Between events that is
    /// nothing: what is found is a mistake of ours.
    pub fn sweep(&mut self, now: Now) -> Vec<String> {
        let mut found = Vec::new();
        while !self.sweep_slice(now, usize::MAX, &mut found) {}
        found
    }

    /// Looks at the next so many things, and adds what something was to be done about. Gives whether
    /// that was the end; the next slice begins anew.
    pub fn sweep_slice(&mut self, now: Now, count: usize, found: &mut Vec<String>) -> bool {
        self.mind_clock(now);
        if self.anew.is_some() {
            // A clock was set, and not everything was looked at since.
            self.look_anew(now);
            return false;
        }
        // What is due now is no finding.
        self.pass_time(now);
        self.place(now);
        let cursor = std::mem::replace(&mut self.swept, Cursor::START);
        let known = found.len();
        let next = match cursor {
            Cursor::Wanted(last) => Some(self.sweep_wanted(now, last.as_ref(), count, found)),
            Cursor::Instances(last) => Some(self.sweep_instances(now, last.as_ref(), count, found)),
            Cursor::Tasks(last) => Some(self.sweep_tasks(now, last.as_ref(), count, found)),
            Cursor::Tombstones(last) => Some(self.sweep_tombstones(last.as_ref(), count, found)),
            Cursor::Drains(last) => Some(self.sweep_drains(now, last.as_ref(), count, found)),
            Cursor::Domains(last) => self.sweep_domains(last.as_ref(), count, found),
        };
        if next.is_none() && self.queue.waiting().waits_in_vain(&self.registry) {
            self.queue.help(Helped::Started);
            found.push("what waits for others to have started".to_owned());
        }
        for what in found.iter().skip(known).cloned().collect::<Vec<_>>() {
            self.tell(Effect::Alarm(Alarm::Swept(what)));
        }
        let is_over = next.is_none();
        self.swept = next.unwrap_or(Cursor::START);
        is_over
    }

    /// Whether a sweep has begun, and has not come to its end.
    pub fn is_sweeping(&self) -> bool {
        self.swept != Cursor::START
    }

    /// What is decided and waits to be done: if it grows, something was to be done.
    fn undone(&self) -> Undone {
        Undone { asks: self.queue.asks(), writes: self.outbox.len(), timers: self.timers.changes() }
    }

    /// Those that a spec wants.
    fn sweep_wanted(
        &mut self,
        now: Now,
        last: Option<&InstanceKey>,
        count: usize,
        found: &mut Vec<String>,
    ) -> Cursor {
        let from = last.map_or(Bound::Unbounded, |last| Bound::Included(last.service.clone()));
        let known = self.services.range((from, Bound::Unbounded));
        let wanted = known.flat_map(|(service, known)| {
            let last = last.filter(|last| last.service == *service);
            let first = last.map_or(0, |last| last.index + 1);
            (first..known.record.spec.instances).map(move |index| service.instance(index))
        });
        let (keys, last) = slice(wanted, count);
        self.sweep_indices(now, &keys, found);
        on(last, Cursor::Wanted, Cursor::Instances(None))
    }

    /// Those that somebody has, and no spec wants.
    fn sweep_instances(
        &mut self,
        now: Now,
        last: Option<&InstanceKey>,
        count: usize,
        found: &mut Vec<String>,
    ) -> Cursor {
        let (mut keys, last) = slice(self.instances.keys_after(last, count).into_iter(), count);
        keys.retain(|key| !self.is_wanted(key));
        self.sweep_indices(now, &keys, found);
        on(last, Cursor::Instances, Cursor::Tasks(None))
    }

    /// Does what indices need, and their services' updates, once for each.
    fn sweep_indices(&mut self, now: Now, keys: &[InstanceKey], found: &mut Vec<String>) {
        for keys in keys.chunk_by(|one, other| one.service == other.service) {
            for key in keys {
                let before = self.undone();
                self.look_at_index(now, key);
                self.note_undone(&before, || key.to_string(), found);
            }
            let Some(service) = keys.first().map(|key| &key.service) else { continue };
            let before = self.undone();
            self.roll(now, service);
            self.note_undone(&before, || service.to_string(), found);
        }
    }

    /// Adds what something was to be done about.
    fn note_undone(&self, before: &Undone, what: impl FnOnce() -> String, found: &mut Vec<String>) {
        if let Some(lacking) = before.less_than(&self.undone()) {
            found.push(format!("{}: {lacking}", what()));
        }
    }

    fn sweep_tasks(
        &mut self,
        now: Now,
        last: Option<&TaskKey>,
        count: usize,
        found: &mut Vec<String>,
    ) -> Cursor {
        let rest = self.tasks.range(after(last)).map(|(key, _)| key.clone());
        let (keys, last) = slice(rest, count);
        for key in &keys {
            let before = self.undone();
            if !self.tasks.is_minded(key) {
                self.tasks.mind(key);
                found.push(format!("{key}: that its record goes"));
            } else if self.sweep_task(now, key) {
                self.note_undone(&before, || key.to_string(), found);
            } else {
                found.push(format!("{key}: a seat"));
            }
        }
        on(last, Cursor::Tasks, Cursor::Tombstones(None))
    }

    /// Does what a task needs; gives whether whatever may run of it has its seat.
    fn sweep_task(&mut self, now: Now, key: &TaskKey) -> bool {
        let Some((task, spec)) = self.tasks.get(key) else { return true };
        let has_callback = spec.callback.is_some();
        let placed = task.placed().map(|placed| (placed.run, placed.on));
        match task.state() {
            TaskState::Pending => {
                if let Some(at) = spec.latest_start {
                    self.timers.set(at, Timer::Task(key.clone()));
                }
                self.sweep_pending(key);
            }
            TaskState::Running { .. } => {}
            TaskState::Completed { .. } => {
                if has_callback && !task.is_told() {
                    self.call_back(now, key);
                }
            }
            TaskState::Resolving { .. } => match self.tasks.callback(key) {
                Some(tasks::Telling { next: Some(next), .. }) => {
                    self.timers.set(*next, Timer::Callback(key.clone()));
                }
                // It is on its way, and its answer comes or its time is over.
                Some(tasks::Telling { next: None, .. }) => {}
                None => self.call_back(now, key),
            },
        }
        let Some((run, on)) = placed.filter(|(run, _)| !self.has_seat(*run)) else { return true };
        self.seat(run, key.to_work(), on);
        false
    }

    fn has_seat(&self, run: RunId) -> bool {
        self.seats.get(run).is_some()
    }

    /// A task that waits asks for a worker, or will.
    fn sweep_pending(&mut self, key: &TaskKey) {
        let work = key.to_work();
        if let Some(until) = self.queue.resting_until(&work) {
            self.timers.set(until, Timer::Rested(key.clone()));
        } else if !self.queue.is_waiting(&work)
            && !self.queue.is_asking(&work)
            && !self.is_gathered(&work)
        {
            self.ask(&work);
        }
    }

    fn sweep_tombstones(
        &mut self,
        last: Option<&TaskKey>,
        count: usize,
        found: &mut Vec<String>,
    ) -> Cursor {
        let rest = self.tasks.tombstones_in(after(last)).map(|(key, _)| key.clone());
        let (keys, last) = slice(rest, count);
        for key in keys {
            if !self.tasks.is_name_minded(&key) {
                self.tasks.mind_name(&key);
                found.push(format!("the name {key}: that it is free some time"));
            }
        }
        on(last, Cursor::Tombstones, Cursor::Drains(None))
    }

    fn sweep_drains(
        &mut self,
        now: Now,
        last: Option<&Lock>,
        count: usize,
        found: &mut Vec<String>,
    ) -> Cursor {
        // Each has many runs.
        let rest = self.drains.range(after(last)).map(|(lock, drain)| (*lock, drain.deadline));
        let (drains, last) = slice(rest, (count / 50).max(1));
        for (lock, deadline) in drains {
            let before = self.undone();
            if deadline > now.wall {
                self.timers.set(deadline, Timer::Drain(lock));
            }
            if self.seats.count_on(lock) > 0 || self.is_gone(lock) {
                self.end_drain(now, lock);
            }
            self.evacuate(now, lock);
            self.ask_before_end(now, lock);
            self.note_undone(&before, || format!("the drain of {lock}"), found);
        }
        on(last.map(|(lock, _)| lock), Cursor::Drains, Cursor::Domains(None))
    }

    fn sweep_domains(
        &mut self,
        last: Option<&Name>,
        count: usize,
        found: &mut Vec<String>,
    ) -> Option<Cursor> {
        let rest = self.domains.range(after(last)).map(|(name, until)| (name.clone(), *until));
        let (domains, last) = slice(rest, count);
        for (name, until) in domains {
            if self.mind_domain(&name, until) {
                found.push(format!("the domain {name}: a timer"));
            }
        }
        last.map(|(name, _)| Cursor::Domains(Some(name)))
    }

    /// Looks at instances anew after a clock was set, some at each step.
    pub(super) fn look_anew(&mut self, now: Now) {
        const SLICE: usize = 1_000;
        let Some(after) = self.anew.take() else { return };
        let slice = self.instances.keys_after(after.as_ref(), SLICE);
        for key in &slice {
            self.converge_index(now, key);
        }
        if slice.len() == SLICE {
            self.anew = Some(slice.into_iter().last());
        }
    }
}
