//! A look at everything, as if nothing were known to have changed: it must find nothing.
//!
//! Each event leads to what follows from it. Were one forgotten, or a timer lost, nobody would ever
//! come back to it; the sweep does, says so, and mends it. It goes on in slices, so that no step of a
//! leader takes long.

use std::ops::Bound;

use sterna_model::{RunId, WallTime, WorkKey, record::TaskState};

use super::{Alarm, Control, Effect, Now, ServiceKey, Timer, tasks};

/// How far a sweep is; what was looked at last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Cursor {
    /// Indices that are wanted.
    Wanted(Option<(ServiceKey, u32)>),
    /// Instances that there are.
    Instances(Option<WorkKey>),
    /// Tasks.
    Tasks(Option<WorkKey>),
    /// Names of tasks that were deleted.
    Tombstones(Option<WorkKey>),
    /// Machines that are drained.
    Drains,
}

impl Cursor {
    pub(super) const START: Self = Self::Wanted(None);
}

/// What is decided and waits to be done.
struct Undone {
    asks: usize,
    writes: usize,
    timers: usize,
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

impl Control {
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
            Cursor::Wanted(after) => self.sweep_wanted(now, after, count, found),
            Cursor::Instances(after) => self.sweep_instances(now, after, count, found),
            Cursor::Tasks(after) => self.sweep_tasks(now, after, count, found),
            Cursor::Tombstones(after) => self.sweep_tombstones(after, count, found),
            Cursor::Drains => {
                self.sweep_drains(now, found);
                None
            }
        };
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
        Undone { asks: self.asks.len(), writes: self.outbox.len(), timers: self.timers.len() }
    }

    fn sweep_wanted(
        &mut self,
        now: Now,
        after: Option<(ServiceKey, u32)>,
        count: usize,
        found: &mut Vec<String>,
    ) -> Option<Cursor> {
        let from = after.as_ref().map_or(Bound::Unbounded, |(key, _)| Bound::Included(key));
        let known = self.services.range((from, Bound::Unbounded));
        let wanted = known.flat_map(|(service, known)| {
            let is_last = after.as_ref().filter(|(last, _)| last == service);
            let first = is_last.map_or(0, |(_, index)| index + 1);
            (first..known.record.spec.instances).map(move |index| (service.clone(), index))
        });
        let slice: Vec<_> = wanted.take(count).collect();
        let is_over = slice.len() < count;
        for (service, index) in &slice {
            self.sweep_index(now, &service.instance(*index), found);
        }
        let last = slice.into_iter().last();
        Some(if is_over { Cursor::Instances(None) } else { Cursor::Wanted(last) })
    }

    /// Those that somebody has, and no spec wants.
    fn sweep_instances(
        &mut self,
        now: Now,
        after: Option<WorkKey>,
        count: usize,
        found: &mut Vec<String>,
    ) -> Option<Cursor> {
        let slice = self.instances.keys_after(after.as_ref(), count);
        let is_over = slice.len() < count;
        for key in slice.iter().filter(|key| !self.is_wanted(key)).cloned().collect::<Vec<_>>() {
            self.sweep_index(now, &key, found);
        }
        let last = slice.into_iter().last();
        Some(if is_over { Cursor::Tasks(None) } else { Cursor::Instances(last) })
    }

    fn sweep_index(&mut self, now: Now, key: &WorkKey, found: &mut Vec<String>) {
        let before = self.undone();
        self.converge_index(now, key);
        if let Some(what) = before.less_than(&self.undone()) {
            found.push(format!("{key}: {what}"));
        }
    }

    fn sweep_tasks(
        &mut self,
        now: Now,
        after: Option<WorkKey>,
        count: usize,
        found: &mut Vec<String>,
    ) -> Option<Cursor> {
        let from = after.as_ref().map_or(Bound::Unbounded, Bound::Excluded);
        let range = self.tasks.range((from, Bound::Unbounded));
        let slice: Vec<_> = range.take(count).map(|(key, _)| key.clone()).collect();
        let is_over = slice.len() < count;
        for key in &slice {
            let before = self.undone();
            let has_seat = self.sweep_task(now, key);
            let seat = (!has_seat).then_some("a seat");
            if let Some(what) = before.less_than(&self.undone()).or(seat) {
                found.push(format!("{key}: {what}"));
            }
        }
        let last = slice.into_iter().last();
        Some(if is_over { Cursor::Tombstones(None) } else { Cursor::Tasks(last) })
    }

    /// Does what a task needs; gives whether whatever may run of it has its seat.
    fn sweep_task(&mut self, now: Now, key: &WorkKey) -> bool {
        let Some((task, spec)) = self.tasks.get(key) else { return true };
        let has_callback = spec.callback.is_some();
        let placed = task.placed().map(|placed| (placed.run, placed.on));
        match task.state() {
            TaskState::Pending => {
                if let Some(at) = spec.latest_start {
                    self.timers.insert((at, Timer::Task(key.clone())));
                }
                self.sweep_pending(key);
            }
            TaskState::Running { .. } => {}
            TaskState::Completed { at, .. } => {
                let (goes, is_told) = (at.plus(self.retention.tasks), task.is_told());
                if goes > now.wall || placed.is_none() {
                    self.timers.insert((goes, Timer::Task(key.clone())));
                }
                if has_callback && !is_told {
                    self.call_back(now, key);
                }
            }
            TaskState::Resolving { .. } => match self.callbacks.get(key) {
                Some(tasks::Telling { next: Some(next), .. }) => {
                    self.timers.insert((*next, Timer::Callback(key.clone())));
                }
                // It is on its way, and its answer comes or its time is over.
                Some(tasks::Telling { next: None, .. }) => {}
                None => self.call_back(now, key),
            },
        }
        let Some((run, on)) = placed.filter(|(run, _)| !self.has_seat(*run)) else { return true };
        self.seat(run, key.clone(), on);
        false
    }

    fn has_seat(&self, run: RunId) -> bool {
        self.seats.contains_key(&run)
    }

    /// A task that waits asks for a worker, or will.
    fn sweep_pending(&mut self, key: &WorkKey) {
        if let Some(until) = self.resting.get(key) {
            self.timers.insert((*until, Timer::Restart(key.clone())));
        } else if self.waiting.get(key).is_none()
            && !self.asks.contains_key(key)
            && !self.kept_back.contains_key(key)
        {
            self.ask(key);
        }
    }

    fn sweep_tombstones(
        &mut self,
        after: Option<WorkKey>,
        count: usize,
        found: &mut Vec<String>,
    ) -> Option<Cursor> {
        let from = after.as_ref().map_or(Bound::Unbounded, Bound::Excluded);
        let range = self.tombstones.range((from, Bound::Unbounded));
        let slice: Vec<(WorkKey, WallTime)> =
            range.take(count).map(|(key, stone)| (key.clone(), stone.at)).collect();
        let is_over = slice.len() < count;
        let last = slice.last().map(|(key, _)| key.clone());
        for (key, at) in slice {
            if self.timers.insert((at.plus(self.retention.names), Timer::Task(key.clone()))) {
                found.push(format!("the name {key}: a timer"));
            }
        }
        Some(if is_over { Cursor::Drains } else { Cursor::Tombstones(last) })
    }

    fn sweep_drains(&mut self, now: Now, found: &mut Vec<String>) {
        for (lock, drain) in self.drains.clone() {
            let before = self.undone();
            if drain.deadline > now.wall {
                self.timers.insert((drain.deadline, Timer::Drain(lock)));
            }
            self.evacuate(now, lock);
            if let Some(what) = before.less_than(&self.undone()) {
                found.push(format!("the drain of {lock}: {what}"));
            }
        }
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
