//! How a container ends, and what is told of it.

use sterna_model::BootTime;
pub use sterna_model::payload::{Cause, End, Exit};

/// An end that has begun.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Stopping {
    cause: Cause,
    exit: Option<Exit>,
    /// When its stop signal is due, if it was not sent.
    signal_at: Option<BootTime>,
    kill_at: Option<BootTime>,
    was_killed: bool,
}

impl Stopping {
    pub(super) const fn new(cause: Cause) -> Self {
        Self { cause, exit: None, signal_at: None, kill_at: None, was_killed: false }
    }

    /// Why it has begun.
    pub(super) const fn cause(&self) -> &Cause {
        &self.cause
    }

    /// The process has ended so; what was noted first stays.
    pub(super) fn note(&mut self, exit: Exit) {
        self.exit.get_or_insert(exit);
    }

    /// It is to be killed at `at`, or earlier.
    pub(super) fn hurry(&mut self, at: BootTime) {
        self.kill_at = Some(self.kill_at.map_or(at, |before| before.min(at)));
    }

    /// Its stop signal is to be sent at `at`.
    pub(super) const fn signal_at(&mut self, at: BootTime) {
        self.signal_at = Some(at);
    }

    /// If it was not sent, it is to be sent by then.
    pub(super) fn signal_by(&mut self, at: BootTime) {
        self.signal_at = self.signal_at.map(|before| before.min(at));
    }

    /// Whether to send the stop signal now; said once.
    pub(super) fn signal_due(&mut self, now: BootTime) -> bool {
        self.signal_at.take_if(|at| now >= *at).is_some()
    }

    /// Whether no stop signal is to be sent any more.
    pub(super) const fn is_signalled(&self) -> bool {
        self.signal_at.is_none()
    }

    /// When to look at it again; `None` for never.
    pub(super) fn deadline(&self) -> Option<BootTime> {
        self.signal_at.into_iter().chain(self.kill_at()).min()
    }

    /// When KILL is due; `None` if it was sent, or none is wanted.
    pub(super) fn kill_at(&self) -> Option<BootTime> {
        self.kill_at.filter(|_| !self.was_killed)
    }

    /// Whether to kill now; said once.
    pub(super) fn kill_due(&mut self, now: BootTime) -> bool {
        let is_due = self.kill_at().is_some_and(|at| now >= at);
        self.was_killed |= is_due;
        if is_due {
            self.signal_at = None;
        }
        is_due
    }

    pub(super) fn end(self, exit: Option<Exit>) -> End {
        End { cause: self.cause, exit: self.exit.or(exit) }
    }
}
