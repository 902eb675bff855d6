//! The record of a task.

#[cfg(test)]
mod tests;

use std::fmt;

use super::{Illegal, Placed};
use crate::{
    Epoch, Incarnation, RunId, TaskIncarnation, WallTime,
    planted::{Mistake, is_planted},
};

/// Where a task is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TaskPhase {
    /// It waits for a worker.
    Pending,
    /// A worker was given it: it may be running.
    Running,
    /// It is over, and it is known how.
    Completed,
    /// Its end is being told to whoever asked for it.
    Resolving,
}

/// What may happen to a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TaskEvent {
    /// It is given to a worker, or found with one.
    Claim,
    /// The worker has certainly not started it.
    Return,
    /// It is over.
    End,
    /// More became known of how it ended.
    Amend,
    /// Somebody no longer wants it.
    Cancel,
    /// A server begins to tell its end.
    Resolve,
    /// That server has not come to an end with it.
    HandOver,
    /// It is to be forgotten.
    Delete,
}

impl TaskPhase {
    /// All of them, in their order.
    pub const ALL: [Self; 4] = [Self::Pending, Self::Running, Self::Completed, Self::Resolving];

    /// The word for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Running => "running",
            Self::Completed => "completed",
            Self::Resolving => "resolving",
        }
    }
}

impl fmt::Display for TaskPhase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl TaskEvent {
    /// All of them, in their order.
    pub const ALL: [Self; 8] = [
        Self::Claim,
        Self::Return,
        Self::End,
        Self::Amend,
        Self::Cancel,
        Self::Resolve,
        Self::HandOver,
        Self::Delete,
    ];

    /// The word for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Claim => "claim",
            Self::Return => "return",
            Self::End => "end",
            Self::Amend => "amend",
            Self::Cancel => "cancel",
            Self::Resolve => "resolve",
            Self::HandOver => "hand over",
            Self::Delete => "delete",
        }
    }
}

/// What follows: a phase, nothing any more, or a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskAfter {
    /// It is in this phase.
    In(TaskPhase),
    /// Its record goes.
    Gone,
    /// That cannot happen to it.
    Refused,
}

/// The table of tasks. Every pair is written out.
#[rustfmt::skip]
pub const fn task_after(phase: TaskPhase, event: TaskEvent) -> TaskAfter {
    use TaskAfter::{Gone, In, Refused};
    use TaskEvent as E;
    use TaskPhase as P;
    match (phase, event) {
        (P::Pending,   E::Claim)    => In(P::Running),
        (P::Pending,   E::Return)   => Refused,
        // Not started: too late, no room, nobody took it, or nobody knows after a restore.
        (P::Pending,   E::End)      => In(P::Completed),
        (P::Pending,   E::Amend)    => Refused,
        (P::Pending,   E::Cancel)   => In(P::Completed),
        (P::Pending,   E::Resolve)  => Refused,
        (P::Pending,   E::HandOver) => Refused,
        (P::Pending,   E::Delete)   => Refused,
        // It was claimed, and no second claim may stand beside the first.
        (P::Running,   E::Claim)    => Refused,
        (P::Running,   E::Return)   => In(P::Pending),
        (P::Running,   E::End)      => In(P::Completed),
        (P::Running,   E::Amend)    => Refused,
        (P::Running,   E::Cancel)   => In(P::Completed),
        (P::Running,   E::Resolve)  => Refused,
        (P::Running,   E::HandOver) => Refused,
        (P::Running,   E::Delete)   => Refused,
        // At most once: what has ended is not started again.
        (P::Completed, E::Claim)    => Refused,
        (P::Completed, E::Return)   => Refused,
        (P::Completed, E::End)      => Refused,
        (P::Completed, E::Amend)    => In(P::Completed),
        (P::Completed, E::Cancel)   => Refused,
        (P::Completed, E::Resolve)  => In(P::Resolving),
        (P::Completed, E::HandOver) => Refused,
        (P::Completed, E::Delete)   => Gone,
        (P::Resolving, E::Claim)    => Refused,
        (P::Resolving, E::Return)   => Refused,
        (P::Resolving, E::End)      => Refused,
        (P::Resolving, E::Amend)    => In(P::Resolving),
        (P::Resolving, E::Cancel)   => Refused,
        (P::Resolving, E::Resolve)  => Refused,
        (P::Resolving, E::HandOver) => In(P::Completed),
        // Whoever is to be told of it would never be.
        (P::Resolving, E::Delete)   => Refused,
    }
}

/// How a task ended. Always with a reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TaskEnd {
    /// Its command ran.
    Ran {
        /// Whether it did what it was to do.
        is_success: bool,
        /// How it ended, in its worker's words.
        report: Box<str>,
    },
    /// A client cancelled it.
    Cancelled,
    /// Its run is certainly gone, and nobody says how it ended.
    Lost,
    /// Its worker was drained, and the time for that was over.
    Drained,
    /// No worker took it, however often it was tried.
    NeverTaken {
        /// Why not, the last time; empty if nobody said.
        why: Box<str>,
    },
    /// No worker had room, and it was not to wait.
    NoRoom {
        /// What was lacking.
        why: Box<str>,
    },
    /// It was not started by its latest start.
    TooLate,
    /// The store was restored from an older state: whether it ran nobody knows.
    UnknownAfterRestore,
}

impl TaskEnd {
    /// Whether it did what it was to do.
    pub const fn is_success(&self) -> bool {
        match self {
            Self::Ran { is_success, .. } => *is_success,
            Self::Cancelled
            | Self::Lost
            | Self::Drained
            | Self::NeverTaken { .. }
            | Self::NoRoom { .. }
            | Self::TooLate
            | Self::UnknownAfterRestore => false,
        }
    }
}

/// How a task that is over came out, in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TaskOutcome {
    /// It did what it was to do.
    Succeeded,
    /// It ran and failed, or it never started.
    Failed,
    /// A client cancelled it.
    Cancelled,
    /// Its worker, or its record, was lost: how far it ran is unknown.
    Lost,
}

impl TaskOutcome {
    /// All of them, in their order.
    pub const ALL: [Self; 4] = [Self::Succeeded, Self::Failed, Self::Cancelled, Self::Lost];

    /// The word for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
            Self::Lost => "lost",
        }
    }
}

impl TaskEnd {
    /// The outcome of a task that ended so.
    pub const fn outcome(&self) -> TaskOutcome {
        match self {
            Self::Ran { is_success: true, .. } => TaskOutcome::Succeeded,
            Self::Ran { is_success: false, .. }
            | Self::Drained
            | Self::NeverTaken { .. }
            | Self::NoRoom { .. }
            | Self::TooLate => TaskOutcome::Failed,
            Self::Cancelled => TaskOutcome::Cancelled,
            Self::Lost | Self::UnknownAfterRestore => TaskOutcome::Lost,
        }
    }
}

impl fmt::Display for TaskEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ran { report, .. } => f.write_str(report),
            Self::Cancelled => f.write_str("it was cancelled"),
            Self::Lost => f.write_str("its worker was lost before it ended"),
            Self::Drained => f.write_str("ended: its worker was drained and the deadline passed"),
            Self::NeverTaken { why } => {
                f.write_str("no worker accepted it, after all retries")?;
                if why.is_empty() { Ok(()) } else { write!(f, ": {why}") }
            }
            Self::NoRoom { why } => write!(f, "no room: {why}"),
            Self::TooLate => f.write_str("it did not start before its latest start"),
            Self::UnknownAfterRestore => f.write_str("unknown after restore"),
        }
    }
}

/// What a task is doing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TaskState {
    /// It waits for a worker.
    Pending,
    /// A worker was given it.
    Running {
        /// Which, and by which run.
        placed: Placed,
        /// Since when.
        since: WallTime,
    },
    /// It is over.
    Completed {
        /// How.
        end: TaskEnd,
        /// Since when.
        at: WallTime,
    },
    /// Its end is being told.
    Resolving {
        /// How it ended.
        end: TaskEnd,
        /// Since when it is over.
        at: WallTime,
        /// Since when it is being told.
        since: WallTime,
    },
}

/// The record of a task: its parts, which change by its doors alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Task(TaskParts);

/// A record of a task in parts, for those who keep it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskParts {
    /// Tells it from an earlier or later one with its name.
    pub incarnation: TaskIncarnation,
    /// The life of the store in which it was made.
    pub epoch: Epoch,
    /// When it was made.
    pub made: WallTime,
    /// What it is doing.
    pub state: TaskState,
    /// How often a worker turned it down.
    pub returns: u32,
    /// A run that has lost its record, because it was cancelled or called lost, and that is not
    /// certainly gone: it is ended, and its end is still of interest.
    pub left: Option<Placed>,
    /// The run that was called lost, or ended by a drain without being asked: it may say more.
    pub lost: Option<RunId>,
    /// The last run, and who had it; there its output is.
    pub last: Option<(RunId, Incarnation)>,
    /// Of one that is over: since when its last run was with a worker; that of one that runs is in its
    /// state. Unknown of what an earlier build wrote.
    pub started: Option<WallTime>,
    /// Whether whoever asked for it knows that it is over, or was tried often enough.
    pub is_told: bool,
    /// Whether that was tried often enough, and nobody took it.
    pub is_given_up: bool,
}

impl From<Task> for TaskParts {
    fn from(Task(parts): Task) -> Self {
        parts
    }
}

impl From<TaskParts> for Task {
    fn from(parts: TaskParts) -> Self {
        Self(parts)
    }
}

impl Task {
    /// How many more tries a task has after its first (safety rule 6); it ends with the next return.
    pub const RETURNS_MAX: u32 = 3;

    /// A task that was just made.
    pub const fn new(incarnation: TaskIncarnation, epoch: Epoch, made: WallTime) -> Self {
        Self(TaskParts {
            incarnation,
            epoch,
            made,
            state: TaskState::Pending,
            returns: 0,
            left: None,
            lost: None,
            last: None,
            started: None,
            is_told: false,
            is_given_up: false,
        })
    }

    /// Tells it from an earlier or later one with its name.
    pub const fn incarnation(&self) -> TaskIncarnation {
        self.0.incarnation
    }

    /// The life of the store in which it was made.
    pub const fn epoch(&self) -> Epoch {
        self.0.epoch
    }

    /// When it was made.
    pub const fn made(&self) -> WallTime {
        self.0.made
    }

    /// What it is doing.
    pub const fn state(&self) -> &TaskState {
        &self.0.state
    }

    /// How often a worker turned it down.
    pub const fn returns(&self) -> u32 {
        self.0.returns
    }

    /// The last run, and who had it: there its output is.
    pub const fn last(&self) -> Option<(RunId, Incarnation)> {
        self.0.last
    }

    /// Since when a worker had its last run, if one has it or it ended with one; unknown of what an
    /// earlier build wrote down as over.
    pub const fn started(&self) -> Option<WallTime> {
        match &self.0.state {
            TaskState::Running { since, .. } => Some(*since),
            TaskState::Pending => None,
            TaskState::Completed { .. } | TaskState::Resolving { .. } => self.0.started,
        }
    }

    /// The run that was called lost or drained, as long as it has not said how it ended.
    pub const fn lost(&self) -> Option<RunId> {
        self.0.lost
    }

    /// Whether whoever asked for it knows that it is over, or was tried often enough.
    pub const fn is_told(&self) -> bool {
        self.0.is_told
    }

    /// Nobody needs to be told any more.
    pub const fn tell(&mut self) {
        self.0.is_told = true;
    }

    /// Nobody took it that it is over, however often it was told.
    pub const fn give_up(&mut self) {
        self.0.is_told = true;
        self.0.is_given_up = true;
    }

    /// Whether nobody took it that it is over, however often it was told.
    pub const fn is_given_up(&self) -> bool {
        self.0.is_given_up
    }

    /// Where it is in its life.
    pub const fn phase(&self) -> TaskPhase {
        match &self.0.state {
            TaskState::Pending => TaskPhase::Pending,
            TaskState::Running { .. } => TaskPhase::Running,
            TaskState::Completed { .. } => TaskPhase::Completed,
            TaskState::Resolving { .. } => TaskPhase::Resolving,
        }
    }

    /// Whoever may be running it.
    pub const fn placed(&self) -> Option<&Placed> {
        match &self.0.state {
            TaskState::Running { placed, .. } => Some(placed),
            TaskState::Pending | TaskState::Completed { .. } | TaskState::Resolving { .. } => {
                self.0.left.as_ref()
            }
        }
    }

    /// How it ended, if it did.
    pub const fn end(&self) -> Option<&TaskEnd> {
        match &self.0.state {
            TaskState::Completed { end, .. } | TaskState::Resolving { end, .. } => Some(end),
            TaskState::Pending | TaskState::Running { .. } => None,
        }
    }

    /// Whether this run is one whose news still matter.
    pub fn knows(&self, run: RunId) -> bool {
        self.placed().is_some_and(|placed| placed.run == run) || self.0.lost == Some(run)
    }

    fn check(&self, event: TaskEvent) -> Result<(), Illegal> {
        match task_after(self.phase(), event) {
            TaskAfter::In(_) | TaskAfter::Gone => Ok(()),
            TaskAfter::Refused => {
                Err(Illegal { event: event.as_str(), phase: self.phase().as_str() })
            }
        }
    }

    /// A worker is given it, or was found to have it.
    ///
    /// # Errors
    /// When it does not wait for one.
    pub fn claim(&mut self, placed: Placed, now: WallTime) -> Result<(), Illegal> {
        self.check(TaskEvent::Claim)?;
        self.0.last = Some((placed.run, placed.on));
        self.0.state = TaskState::Running { placed, since: now };
        Ok(())
    }

    /// Its worker has certainly not started it, for this reason. After [`Task::RETURNS_MAX`] more tries it
    /// is over.
    ///
    /// # Errors
    /// When no worker was given it.
    pub fn give_back(&mut self, counts: bool, why: &str, now: WallTime) -> Result<(), Illegal> {
        self.check(TaskEvent::Return)?;
        self.0.returns += u32::from(counts);
        self.0.state = if self.0.returns > Self::RETURNS_MAX {
            TaskState::Completed { end: TaskEnd::NeverTaken { why: why.into() }, at: now }
        } else {
            TaskState::Pending
        };
        Ok(())
    }

    /// It is over. A run that was called lost may tell more later.
    ///
    /// # Errors
    /// When it is over already.
    pub fn finish(&mut self, end: TaskEnd, now: WallTime) -> Result<(), Illegal> {
        self.check(TaskEvent::End)?;
        if let (TaskState::Running { placed, .. }, TaskEnd::Lost) = (&self.0.state, &end) {
            self.0.lost = Some(placed.run);
        }
        self.0.started = self.started();
        self.0.state = TaskState::Completed { end, at: now };
        Ok(())
    }

    /// Nobody wants it any more, or its drain is over: it is over, and whatever runs of it is to be
    /// ended. What a drain ends may have ended by itself, unheard, and may say so later.
    ///
    /// # Errors
    /// When it is over already.
    pub fn cancel(&mut self, end: TaskEnd, now: WallTime) -> Result<(), Illegal> {
        self.check(TaskEvent::Cancel)?;
        if let (TaskState::Running { placed, .. }, TaskEnd::Drained) = (&self.0.state, &end) {
            self.0.lost = Some(placed.run);
        }
        self.0.started = self.started();
        let before = std::mem::replace(&mut self.0.state, TaskState::Completed { end, at: now });
        self.0.left = match before {
            TaskState::Running { placed, .. } => Some(placed),
            TaskState::Pending | TaskState::Completed { .. } | TaskState::Resolving { .. } => None,
        };
        Ok(())
    }

    /// The run that was left is certainly gone, or the one that was called lost or drained says how it
    /// ended (safety rule 24). `told` is what it says.
    ///
    /// # Errors
    /// When it is not over.
    pub fn amend(&mut self, run: RunId, told: Option<TaskEnd>) -> Result<(), Illegal> {
        self.check(TaskEvent::Amend)?;
        self.0.left.take_if(|left| left.run == run);
        if (self.0.lost == Some(run) || is_planted(Mistake::BelievesStaleRuns))
            && let Some(told) = told
            && let TaskState::Completed { end, .. } | TaskState::Resolving { end, .. } =
                &mut self.0.state
        {
            *end = told;
            self.0.lost = None;
        }
        Ok(())
    }

    /// A run of it was found, though nobody knew whether it ran: how that ends is how the task did.
    ///
    /// # Errors
    /// When it is not over.
    pub fn find(&mut self, run: RunId, on: Incarnation) -> Result<(), Illegal> {
        self.check(TaskEvent::Amend)?;
        self.0.lost = Some(run);
        self.0.last = Some((run, on));
        Ok(())
    }

    /// A server begins to tell its end.
    ///
    /// # Errors
    /// When it is not over, or being told already.
    pub fn resolve(&mut self, now: WallTime) -> Result<(), Illegal> {
        self.check(TaskEvent::Resolve)?;
        if let TaskState::Completed { end, at } = &self.0.state {
            self.0.state = TaskState::Resolving { end: end.clone(), at: *at, since: now };
        }
        Ok(())
    }

    /// The server that told its end has not come to an end with it: another may.
    ///
    /// # Errors
    /// When nobody tells it.
    pub fn hand_over(&mut self) -> Result<(), Illegal> {
        self.check(TaskEvent::HandOver)?;
        if let TaskState::Resolving { end, at, .. } = &self.0.state {
            self.0.state = TaskState::Completed { end: end.clone(), at: *at };
        }
        Ok(())
    }

    /// Whether its record may go.
    ///
    /// # Errors
    /// When it is not over.
    pub fn check_delete(&self) -> Result<(), Illegal> {
        self.check(TaskEvent::Delete)
    }
}
