//! What is looked at again when its time comes: each thing once, at the moment that was named last.

use std::collections::{BTreeMap, BTreeSet};

use sterna_model::{InstanceKey, Lock, Name, TaskKey, WallTime};

/// What is looked at again when its time comes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Timer {
    /// An instance that waits after a crash, or that a worker refused.
    Restart(InstanceKey),
    /// A task that a worker refused.
    Rested(TaskKey),
    /// An instance that has run long enough to count.
    Settled(InstanceKey),
    /// An instance that was not ready for long enough to count against its update.
    Unready(InstanceKey),
    /// The latest start of a task.
    Task(TaskKey),
    /// A callback that is tried again.
    Callback(TaskKey),
    /// What is still on a drained machine is asked to end.
    Asked(Lock),
    /// The end of a drain.
    Drain(Lock),
    /// A domain that is over is forgotten.
    Domain(Name),
}

/// All that are set.
#[derive(Clone, Debug, Default)]
pub(super) struct Timers {
    at: BTreeMap<Timer, WallTime>,
    queue: BTreeSet<(WallTime, Timer)>,
    /// How often one was set that was not set for that moment.
    changes: u64,
}

impl Timers {
    /// Sets it for this moment, and no longer for any other; gives whether that is news.
    pub(super) fn set(&mut self, at: WallTime, timer: Timer) -> bool {
        let before = self.at.insert(timer.clone(), at);
        if before == Some(at) {
            return false;
        }
        if let Some(before) = before {
            self.queue.remove(&(before, timer.clone()));
        }
        self.queue.insert((at, timer));
        self.changes += 1;
        true
    }

    /// Whether it is set for this moment, or an earlier one.
    pub(super) fn is_set_until(&self, at: WallTime, timer: &Timer) -> bool {
        self.at.get(timer).is_some_and(|set| *set <= at)
    }

    pub(super) fn cancel(&mut self, timer: &Timer) {
        if let Some(at) = self.at.remove(timer) {
            self.queue.remove(&(at, timer.clone()));
        }
    }

    /// Everything that is set for an index of a service.
    pub(super) fn cancel_instance(&mut self, key: &InstanceKey) {
        for timer in [Timer::Restart, Timer::Settled, Timer::Unready] {
            self.cancel(&timer(key.clone()));
        }
    }

    /// When the first is due.
    pub(super) fn first(&self) -> Option<WallTime> {
        self.queue.first().map(|(at, _)| *at)
    }

    /// Takes the first of those that are due.
    pub(super) fn take_due(&mut self, now: WallTime) -> Option<Timer> {
        self.first().filter(|at| *at <= now)?;
        let (_, timer) = self.queue.pop_first()?;
        self.at.remove(&timer);
        Some(timer)
    }

    pub(super) const fn changes(&self) -> u64 {
        self.changes
    }

    #[cfg(test)]
    pub(super) fn retain(&mut self, keep: impl Fn(&Timer) -> bool) {
        self.at.retain(|timer, _| keep(timer));
        self.queue.retain(|(_, timer)| keep(timer));
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        assert_eq!(self.at.len(), self.queue.len(), "each is set once");
        self.queue.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_set_once_and_for_the_moment_that_was_named_last() {
        let at = |millis| WallTime::from_millis(millis).expect("a moment");
        let timer = || Timer::Domain("d".parse().expect("a name"));
        let mut timers = Timers::default();
        assert!(timers.set(at(5), timer()) && !timers.set(at(5), timer()));
        assert!(timers.set(at(9), timer()) && timers.set(at(7), timer()));
        assert_eq!((timers.len(), timers.first(), timers.changes()), (1, Some(at(7)), 3));
        assert_eq!(timers.take_due(at(6)), None);
        assert_eq!(timers.take_due(at(7)), Some(timer()));
        assert_eq!((timers.len(), timers.take_due(at(9))), (0, None));
        timers.set(at(1), timer());
        timers.cancel(&timer());
        assert_eq!((timers.len(), timers.first()), (0, None));
    }
}
