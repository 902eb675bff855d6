//! How a container ends, and what is told of it.

use sterna_model::BootTime;

use crate::monitor::Failure;

/// Why a container ended: the first cause there was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cause {
    /// Its run step ended by itself; the exit says how.
    Exited,
    /// A setup step did not succeed.
    SetupFailed(u32),
    /// It could not be made, or a command could not be started, for this reason.
    FailedToStart(String),
    /// Its own timeout passed.
    Timeout,
    /// Its monitor gave it up.
    Monitor(Failure),
    /// Its work directory held more than it may.
    DiskLimit,
    /// Somebody asked for it.
    Request,
    /// Its worker was out of contact for too long (safety rule 7).
    Deadline,
    /// Its worker ends.
    WorkerExit,
}

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// By itself, with this code.
    Code(i32),
    /// By this signal.
    Signal(i32),
    /// The kernel killed it because its memory limit was reached.
    OutOfMemory,
    /// Nobody could ask how: its guardian was killed, and the machine does not tell others.
    Unknown,
}

impl Exit {
    /// Whether it did what it was to do.
    pub const fn is_success(self) -> bool {
        match self {
            Self::Code(code) => code == 0,
            Self::Signal(_) | Self::OutOfMemory | Self::Unknown => false,
        }
    }
}

/// How a container ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct End {
    /// Why.
    pub cause: Cause,
    /// How the process of its last step ended, if there was one.
    pub exit: Option<Exit>,
}

impl End {
    pub(super) const fn new(cause: Cause) -> Self {
        Self { cause, exit: None }
    }
}

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
