//! What goes into the leader's side, and what comes out of it.

use std::collections::BTreeMap;

use sterna_model::{
    BootTime, ClusterId, Contract, Incarnation, Lock, Marks, Name, Nonce, Revision, RunId,
    TaskIncarnation, Term, WorkKey,
};

use super::{Bump, Settlement};
use crate::{
    health::Health,
    limits::{Book, Limits},
    message::{
        FromLeader, FromWorker, Held, Kill, Mandate, News, Ordinal, Payload, StatusAnswer, StreamId,
    },
    roster::{Doors, Enrolled, Origin},
};

/// What a leader knows when its reign begins.
#[derive(Clone, Debug)]
pub struct Begin {
    /// Under what it speaks.
    pub mandate: Mandate,
    /// When its election was committed, at the latest; deadlines of earlier reigns count from it.
    pub elected: BootTime,
    /// Until when it may act; moved by [`Input::Lease`].
    pub lease_until: BootTime,
    /// The newest revision that it knows.
    pub revision: Revision,
    /// The reigns that the store knows of: the nonce of each, and at which revision it began. Who has
    /// followed one of them tells whether it was the same. Empty if nobody has said.
    pub reigns: BTreeMap<Term, (Nonce, Revision)>,
    /// The limits, with those not yet retired.
    pub book: Book,
    /// The highest marks that this server has ever seen, from where the store's own losses do not reach:
    /// those of the book may have been set back with the store (safety rule 25). [`Fleet::marks`] tells
    /// what to remember there.
    ///
    /// [`Fleet::marks`]: super::Fleet::marks
    pub marks: Marks,
    /// Everybody who may be running something.
    pub roster: Vec<Enrolled>,
    /// The runs that the store says are claimed.
    pub claims: Vec<Claim>,
    /// What the store is.
    pub origin: Origin,
    /// Whether a worker of another machine may take the name of one that is merely not healthy.
    pub bump: Bump,
    /// How many machines may be on the roster. Who is on it already is let in nevertheless.
    pub roster_max: usize,
}

/// A run that the store says may be running.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Claim {
    /// By which life of a worker.
    pub holder: Incarnation,
    /// The run.
    pub run: RunId,
    /// Of what.
    pub key: WorkKey,
    /// Of which life of the task.
    pub task: Option<TaskIncarnation>,
    /// As it was frozen.
    pub contract: Contract,
}

/// A run to be sent. Whatever must be committed before is committed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dispatch {
    /// To whom.
    pub to: Incarnation,
    /// The run; an id is dispatched once. While it may be running, a second time changes nothing.
    pub run: RunId,
    /// Of what.
    pub key: WorkKey,
    /// Of which life of the task.
    pub task: Option<TaskIncarnation>,
    /// What holds when the link is silent.
    pub contract: Contract,
    /// Which start this is.
    pub ordinal: Ordinal,
    /// How it is done.
    pub work: Payload,
}

/// Something that happened.
#[expect(clippy::large_enum_variant, reason = "nearly every input is a frame, which is not kept")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// The moment of [`Fleet::deadline`](super::Fleet::deadline) came.
    Tick,
    /// A frame arrived.
    Frame(StreamId, FromWorker),
    /// A stream broke.
    Closed(StreamId),
    /// The lease was renewed: this leader may act until then.
    Lease(BootTime),
    /// Send these runs.
    Dispatch(Vec<Dispatch>),
    /// End this run.
    Kill(RunId, Kill),
    /// The entry of [`Effect::Enroll`] stands in the roster, or [`Effect::Revive`] is done.
    Enrolled(Incarnation),
    /// The entry of [`Effect::Strike`] is out of the roster.
    Struck(Incarnation),
    /// A status is dealt with: its worker is told so.
    Recorded(Incarnation, RunId, u64, StatusAnswer),
    /// Somebody who must know says that nothing on this machine runs any more, and its entry in the
    /// roster says so too.
    DeclaredDead(Lock),
    /// The worker of this machine gets no new work, or does again, and what is stored of it says so
    /// too: its entry in the roster if there is one. Who keeps the marks of machines that are not on
    /// the roster says them when a reign begins.
    Draining(Lock, bool),
    /// These limits were committed. Those that [`Limits::check`] refuses change nothing.
    Limits(Limits),
    /// The store has come this far.
    Revision(Revision),
    /// Somebody who must know says that the roster is complete although the store was restored: nobody
    /// is missing from it. This is said to one reign and not stored; the next one asks again, until
    /// [`Effect::Healed`].
    RosterIsComplete,
}

/// Something that the driver must do, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Send a frame.
    Send(StreamId, FromLeader),
    /// End a stream; nothing more is read from it.
    Close(StreamId),
    /// Commit this entry of the roster, in place of any with the same lock, and answer with
    /// [`Input::Enrolled`]. The marks in it, `is_declared_dead` and `is_draining`, are as this leader
    /// knows them. What is stored of them counts and stays: somebody may be setting them now.
    Enroll(Enrolled),
    /// Take the mark `is_declared_dead` off the entry of this life, and answer with
    /// [`Input::Enrolled`]: everything that it had then has ended. Not if a declaration is on its way
    /// into the store: that one is newer than what has ended.
    Revive(Incarnation),
    /// Take the entry of this life out of the roster, and answer with [`Input::Struck`]. An entry of
    /// another life stays. Its drain is not ended by this.
    Strike(Incarnation),
    /// A run is not, and will not be, running there.
    Settled(RunId, Settlement),
    /// A worker has a run that nobody claimed in this reign.
    Found(Incarnation, Held),
    /// A status came; answer with [`Input::Recorded`] when it needs not to be sent again.
    Reported(Report),
    /// The worker of a run under `replace` has been silent for so long that another may start.
    Silent(RunId),
    /// A worker is heard: it has said in this reign what it runs, or was silent for a while after that.
    /// Nothing on it is silent any more, however it is judged: its checks may go on failing.
    Heard(Incarnation),
    /// A worker is something else from now on.
    Health(Incarnation, Health),
    /// What a worker has: resources, tags, zone, address.
    Facts(Incarnation, Name, Payload),
    /// A worker asks to be drained, or to be drained no longer; store that, and answer with
    /// [`Input::Draining`]. Said again with each of its heartbeats until then.
    WantsDrain(Lock, bool),
    /// More may start than before.
    Opened(Doors),
    /// Commit these limits, as the ones after the newest, and answer with [`Input::Limits`]: this server
    /// has seen higher marks, or a worker has a run that they do not allow for, because they were set
    /// back with the store (safety rule 25). What the worker runs does not count as known before. Said
    /// again until then.
    Raise(Limits),
    /// Nothing can be running any more that the store lost when it was set back: from the next reign on
    /// it may be called a continued one.
    Healed,
    /// Nobody goes by limits from before this version any more: they may leave the store (safety rule
    /// 11).
    Retired(u64),
    /// The store lags behind what a worker has seen: this reign is over, and the next one must open
    /// a recovered epoch (safety rule 25).
    StoreLags(Mandate, Revision),
    /// Tell people of this worker. It was refused, and asks again with each of its heartbeats, which is
    /// told only now and then; or it has what it should not have.
    Alarm(Incarnation, Alarm),
}

/// What people must know of a worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Alarm {
    /// Its name belongs to another machine that is not given up.
    NameTaken(Name),
    /// As many machines are on the roster as may be: so many.
    RosterFull(usize),
    /// It belongs to another cluster, this one.
    Foreign(ClusterId),
    /// This life is known under its lock, and is a later one or another process: its data directory was
    /// restored from an older state, or copied. It must begin with an empty one.
    WentBack(u64),
    /// It has a run that another machine has, or may have: one data directory is a copy of the other.
    /// Both are believed, and the run's key is free when neither has it; only one of them should live.
    RunIsElsewhere(RunId, Lock),
}

/// A status, and whether this leader knows of its run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// Who sent it.
    pub from: Incarnation,
    /// The run.
    pub run: RunId,
    /// Its number, for the answer.
    pub number: u64,
    /// What became of the run.
    pub news: News,
    /// Whether the run is one that this leader waits for; else it is late.
    pub is_awaited: bool,
}
