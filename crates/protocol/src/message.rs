//! What is said on a link: every call and every answer, as plain values.
//!
//! | call | who calls | answers |
//! | --- | --- | --- |
//! | heartbeat | worker | [`HeartbeatAnswer`]: welcome, confirmed or refused |
//! | update_status | worker | [`StatusAnswer`]: recorded, ignored or retry |
//! | get_running | leader | [`Saying::Running`], or none: unknown |
//! | run | leader | [`RunAnswer`]: started or refused, or none: *unsure* |
//! | notify_if_not_running | leader | [`Saying::Noted`], or none: unknown |
//! | kill, die | leader | none; what follows from them is reported as a status or a rebirth |
//!
//! Invariant: every frame of a leader says under which mandate it speaks and to which incarnation;
//! every frame of a worker says who it is and whom it takes for the leader.
//!
//! What work is, and what a worker has, are bytes here: who knows them encodes them.

use std::{fmt, sync::Arc};

use sterna_model::{
    BootTime, ClusterId, Contract, Epoch, Fence, Incarnation, Name, Nonce, NotifySequence,
    Revision, RunId, RunSequence, Span, TaskIncarnation, Term, WorkKey,
};

use crate::{consensus::SetId, health::Health, limits::Limits};

/// The version of this protocol. Both sides must speak the same. Since 2 an acknowledgement says how
/// far the store was, and a heartbeat which process it is and whether that is about to end.
pub const VERSION: u16 = 2;

/// Bytes that mean something to somebody else.
pub type Payload = Arc<[u8]>;

/// One stream between a worker and a leader, named by whoever keeps it. Later ones are greater.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId(u64);

impl StreamId {
    /// The stream with this number.
    pub const fn new(number: u64) -> Self {
        Self(number)
    }

    /// Its number.
    pub const fn get(self) -> u64 {
        self.0
    }
}

impl fmt::Debug for StreamId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "stream{}", self.0)
    }
}

/// Under what a leader speaks.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Mandate {
    /// Of which cluster. Nothing of one counts in another (safety rule 25).
    pub cluster: ClusterId,
    /// The life of the store.
    pub epoch: Epoch,
    /// The reign in it.
    pub term: Term,
    /// Drawn with the term.
    pub nonce: Nonce,
}

/// How one mandate stands to the highest that was seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It is of another cluster.
    Foreign,
    /// Its leader has been followed by another.
    Older,
    /// It is that one.
    Same,
    /// It claims the same term, and is another: the store has lived twice.
    Rival,
    /// Its leader has taken over.
    Newer,
}

impl Mandate {
    /// How this one stands to `seen`.
    pub fn standing(&self, seen: &Self) -> Standing {
        use std::cmp::Ordering;
        if self.cluster != seen.cluster {
            return Standing::Foreign;
        }
        match (self.epoch, self.term).cmp(&(seen.epoch, seen.term)) {
            Ordering::Less => Standing::Older,
            Ordering::Greater => Standing::Newer,
            Ordering::Equal if self.nonce == seen.nonce => Standing::Same,
            Ordering::Equal => Standing::Rival,
        }
    }
}

impl fmt::Debug for Mandate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}/{:?}", self.epoch, self.term, self.nonce)
    }
}

/// A frame of a worker.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FromWorker {
    /// The protocol that it speaks.
    pub version: u16,
    /// Who it is.
    pub incarnation: Incarnation,
    /// Whom it takes for the leader; `None` before the first answer of any.
    pub mandate: Option<Mandate>,
    /// What it says.
    pub saying: Saying,
}

/// What a worker says.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Saying {
    /// It is alive.
    Heartbeat(Heartbeat),
    /// What became of runs; sent again until answered.
    Statuses(Vec<Status>),
    /// The answer to [`Order::GetRunning`]: everything that it has, ended and unacknowledged runs
    /// included.
    Running(Vec<Held>),
    /// The answers to runs, each of which was decided now, for the first and only time.
    Answers(Vec<(RunId, RunAnswer)>),
    /// The answer to [`Order::NotifyIfNotRunning`] with this number.
    Noted(NotifySequence),
}

/// A heartbeat.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Heartbeat {
    /// What the worker is called.
    pub name: Name,
    /// Taken from its clock before it is sent, and echoed by the answer.
    pub stamp: BootTime,
    /// How long before the stamp its last good check began.
    pub checked: Option<Span>,
    /// Names this boot of its machine.
    pub boot: u128,
    /// Drawn when its process began. Two with one incarnation and different births: a data directory was
    /// set back, or copied, and counted to the same life again.
    pub birth: u64,
    /// The highest that it has seen of the store.
    pub seen: Option<(Mandate, Revision)>,
    /// The version of the limits that it goes by.
    pub limits: u64,
    /// The set of workers that it was told last.
    pub set: Option<SetId>,
    /// Whether it asks to be drained, or to be drained no longer; `None` when it is as it wants.
    pub wants_drain: Option<bool>,
    /// Whether it takes no more work in this life: its process is about to end.
    pub is_leaving: bool,
    /// What it has: resources, tags, zone, address.
    pub facts: Payload,
}

/// What became of a run.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Status {
    /// Counts the statuses of this incarnation, so that an answer is not taken for a later one's.
    pub number: u64,
    /// The run.
    pub run: RunId,
    /// What became of it.
    pub news: News,
}

/// The news of a run.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum News {
    /// Something that is worth knowing, and it goes on.
    Progress(Payload),
    /// It has ended, and everything of it is gone.
    Ended(Payload),
    /// It was not running when the leader asked, and never will be.
    WasNotRunning,
}

impl News {
    /// Whether nothing can follow it.
    pub const fn is_end(&self) -> bool {
        match self {
            Self::Ended(_) | Self::WasNotRunning => true,
            Self::Progress(_) => false,
        }
    }
}

/// One run that a worker has.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Held {
    /// The run.
    pub run: RunId,
    /// What it is a run of.
    pub key: WorkKey,
    /// Tells a re-created task from the old one.
    pub task: Option<TaskIncarnation>,
    /// As it was frozen.
    pub contract: Contract,
    /// The newest status that was not acknowledged; `Ended` if it has ended.
    pub status: Option<Status>,
}

/// How a worker decided about a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RunAnswer {
    /// It has it: an end will be reported.
    Started,
    /// It has not started it, and never will.
    Refused(RunRefusal),
}

/// Why a run was not started.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RunRefusal {
    /// The worker does not take itself for healthy; or it cannot keep the run on its disk, and does not
    /// from now on.
    NotHealthy,
    /// It is draining.
    Draining,
    /// It has said, or may have said, that this run was not running.
    Overtaken,
    /// Another run of the key is here.
    KeyIsHere(RunId),
    /// The run's deadline has passed already.
    TooLate,
}

/// A frame of a leader.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FromLeader {
    /// The protocol that it speaks.
    pub version: u16,
    /// Under what it speaks.
    pub mandate: Mandate,
    /// To whom.
    pub incarnation: Incarnation,
    /// What it says.
    pub order: Order,
}

/// What a leader says.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Order {
    /// The answer to a heartbeat.
    Heartbeat(HeartbeatAnswer),
    /// The answers to statuses, by run and number, and the newest revision that the leader knows of:
    /// who was told that its word is stored notices when it is not any more (safety rule 25).
    Statuses(Revision, Vec<(RunId, u64, StatusAnswer)>),
    /// Say what you run.
    GetRunning,
    /// Start these. Their run sequences grow.
    Run(Vec<Run>),
    /// Report of these runs which are not running.
    NotifyIfNotRunning(NotifySequence, Vec<RunId>),
    /// End this run.
    Kill(RunId, Kill),
    /// Give up this incarnation; keep what you run.
    Die,
}

/// The answer to a heartbeat.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum HeartbeatAnswer {
    /// Heard, but what you run is not known yet: no deadline is re-armed.
    Welcome,
    /// Heard and known.
    Confirmed(Box<Confirmation>),
    /// Not heard.
    Refused(Refusal),
}

/// What a confirmed heartbeat is answered with.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Confirmation {
    /// The stamp of the heartbeat: deadlines count from it.
    pub stamp: BootTime,
    /// To go by from now on.
    pub limits: Limits,
    /// How the leader judges the worker.
    pub verdict: Health,
    /// To be echoed; `None` while the worker waits to be counted in.
    pub set: Option<SetId>,
    /// The newest revision that the leader knows of.
    pub revision: Revision,
    /// Whether no new work will come.
    pub is_draining: bool,
}

/// Why a heartbeat was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Refusal {
    /// This incarnation was given up: come back as the next one.
    Die,
    /// The name belongs to another machine that is not given up: ask again later.
    NameTaken,
    /// The protocol is another; this one is spoken here.
    WrongVersion(u16),
    /// The worker belongs to another cluster.
    WrongCluster,
    /// This life is known under the same lock, and is a later one or another process: the data directory
    /// was set back or copied, and its counter with it.
    WentBack(u64),
    /// As many machines are on the roster as may be: ask again later.
    RosterFull,
}

/// How a status was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum StatusAnswer {
    /// It stands in the store, or needs not to: do not send it again.
    Recorded,
    /// Nobody waits for it: do not send it again.
    Ignored,
    /// Not now: send it again.
    Retry,
}

/// An order to start something.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Run {
    /// Its number in this association (safety rule 1).
    pub sequence: RunSequence,
    /// The notify sequence when it was sent.
    pub notify: NotifySequence,
    /// Names this start for good; sent once.
    pub run: RunId,
    /// What is started.
    pub key: WorkKey,
    /// Tells a re-created task from the old one.
    pub task: Option<TaskIncarnation>,
    /// What holds when the link is silent.
    pub contract: Contract,
    /// Which start this is, for the work to know.
    pub ordinal: Ordinal,
    /// How it is done.
    pub work: Payload,
}

/// Which start a run is among others. The work is told; neither side decides anything by it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Ordinal {
    /// Among all runs that this leader has made; it only ever grows, from 1. With epoch and term it is
    /// the run's [`Fence`]. 0 if nobody has said.
    pub number: u64,
    /// 1, and one more for each time in a row that its key has failed to run. 0 if nobody has said.
    pub attempt: u32,
}

impl Ordinal {
    /// What a run of this leader shows to resources outside of the cluster.
    pub fn fence(&self, mandate: &Mandate) -> Option<Fence> {
        let fence = Fence { epoch: mandate.epoch, term: mandate.term, number: self.number };
        (self.number > 0).then_some(fence)
    }
}

/// How to end a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kill {
    /// As the workload asks to be ended.
    Gracefully,
    /// At once.
    Now,
}
