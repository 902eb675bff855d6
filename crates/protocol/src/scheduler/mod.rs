//! The leader's side of all links, as a pure machine.
//!
//! ```text
//!   heartbeat.rs   welcome, confirmed, refused; judge; lose
//!   runs.rs        send each run once; settle it, or know that it is certainly gone
//!   statuses.rs    report what happened, and acknowledge when it is recorded
//!   unsure.rs      ask about runs whose sending was not answered
//!   replace.rs     who is this; the table of arrivals: who may take whose place; enrol
//!   wait.rs        for whom this leader waits
//! ```
//!
//! The worker's side, in `worker`, has the first three files too.
//!
//! Invariant: a run is in the table of exactly one machine from before it is sent until it is
//! settled; MUST_DIE takes nothing out (safety rule 9).
//!
//! Invariant: nothing is sent, confirmed or concluded after the lease has ended (safety rule 16).
//!
//! It does not know what work is, nor the store: what must be committed goes out as an effect, and
//! what was committed comes in as an input.

mod heartbeat;
mod peer;
mod replace;
mod runs;
mod statuses;
mod unsure;
mod wait;

use std::collections::{BTreeMap, BTreeSet};

use sterna_model::{
    BootTime, Contract, Incarnation, Lock, Name, Revision, RunId, TaskIncarnation, WorkKey,
};

use self::peer::Peer;
pub use self::{
    replace::{Arrival, Bump, arrival},
    runs::{GoneBy, NotSent, Settlement},
};
use crate::{
    consensus::Consensus,
    health::Health,
    limits::{Book, Limits},
    message::{
        FromLeader, FromWorker, Held, Kill, Mandate, News, Order, Payload, Saying, StatusAnswer,
        StreamId, VERSION,
    },
    planted::{Mistake, is_planted},
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
    /// The limits, with those not yet retired.
    pub book: Book,
    /// Everybody who may be running something.
    pub roster: Vec<Enrolled>,
    /// The runs that the store says are claimed.
    pub claims: Vec<Claim>,
    /// What the store is.
    pub origin: Origin,
    /// Whether a worker of another machine may take the name of one that is merely not healthy.
    pub bump: Bump,
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
    /// The run; an id is dispatched once.
    pub run: RunId,
    /// Of what.
    pub key: WorkKey,
    /// Of which life of the task.
    pub task: Option<TaskIncarnation>,
    /// What holds when the link is silent.
    pub contract: Contract,
    /// How it is done.
    pub work: Payload,
}

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// The moment of [`Fleet::deadline`] came.
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
    Struck(Lock),
    /// A status is dealt with: its worker is told so.
    Recorded(Incarnation, RunId, u64, StatusAnswer),
    /// Somebody who must know says that nothing on this machine runs any more, and its entry in the
    /// roster says so too.
    DeclaredDead(Lock),
    /// The worker of this machine gets no new work, or does again, and what is stored of it says so
    /// too: its entry in the roster if there is one. Who keeps the marks of machines that are not on
    /// the roster says them when a reign begins.
    Draining(Lock, bool),
    /// These limits were committed.
    Limits(Limits),
    /// The store has come this far.
    Revision(Revision),
    /// Somebody who must know says that the roster is complete although the store was restored.
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
    /// [`Input::Enrolled`]. The marks of an entry that stands, `is_declared_dead` and `is_draining`,
    /// stay as they are stored: somebody may be setting them at this moment.
    Enroll(Enrolled),
    /// Take the mark `is_declared_dead` off the entry of this life, and answer with
    /// [`Input::Enrolled`]: everything that it had then has ended.
    Revive(Incarnation),
    /// Take the entry with this lock out of the roster, and answer with [`Input::Struck`]. Its drain
    /// is not ended by this.
    Strike(Lock),
    /// A run is not, and will not be, running there.
    Settled(RunId, Settlement),
    /// A worker has a run that nobody claimed in this reign.
    Found(Incarnation, Held),
    /// A status came; answer with [`Input::Recorded`] when it needs not to be sent again.
    Reported(Report),
    /// The worker of a run under `replace` has been silent for so long that another may start.
    Silent(RunId),
    /// A worker is something else from now on.
    Health(Incarnation, Health),
    /// What a worker has: resources, tags, zone, address.
    Facts(Incarnation, Name, Payload),
    /// A worker asks to be drained, or to be drained no longer; store that, and answer with
    /// [`Input::Draining`]. Said again with each of its heartbeats until then.
    WantsDrain(Lock, bool),
    /// More may start than before.
    Opened(Doors),
    /// Nobody goes by limits from before this version any more: they may leave the store (safety rule
    /// 11).
    Retired(u64),
    /// The store lags behind what a worker has seen: this reign is over, and the next one must open
    /// a recovered epoch (safety rule 25).
    StoreLags(Mandate, Revision),
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

/// All workers, as the leader sees them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Fleet {
    mandate: Mandate,
    elected: BootTime,
    lease_until: BootTime,
    revision: Revision,
    book: Book,
    bump: Bump,
    origin: Origin,
    peers: BTreeMap<Lock, Peer>,
    /// Who holds a name.
    names: BTreeMap<Name, Lock>,
    streams: BTreeMap<StreamId, Lock>,
    /// Machines that get no new work and are not among the peers.
    draining: BTreeSet<Lock>,
    /// The newest life of those who were given up and struck: they are never confirmed again.
    given_up: BTreeMap<Lock, u64>,
    /// Where each run is.
    places: BTreeMap<RunId, Lock>,
    consensus: Consensus,
    doors: Doors,
    /// Who was declared dead while this leader was mute.
    declared: BTreeSet<Lock>,
    /// Set when the store was found to lag: nothing is said any more.
    is_over: bool,
    judged: BootTime,
    /// When to tick next; who is mute ticks too, and judges nobody.
    tick_at: BootTime,
}

impl Fleet {
    /// A leader that has just been elected.
    pub fn new(now: BootTime, begin: Begin) -> Self {
        let Begin { mandate, elected, lease_until, revision, .. } = begin;
        let mut fleet = Self {
            mandate,
            elected,
            lease_until,
            revision,
            tick_at: now.plus(begin.book.newest().judge_every),
            book: begin.book,
            bump: begin.bump,
            origin: begin.origin,
            peers: BTreeMap::new(),
            names: BTreeMap::new(),
            streams: BTreeMap::new(),
            draining: BTreeSet::new(),
            given_up: BTreeMap::new(),
            places: BTreeMap::new(),
            consensus: Consensus::new(mandate.term, mandate.nonce),
            doors: Doors::default(),
            declared: BTreeSet::new(),
            is_over: false,
            judged: now,
        };
        for entry in begin.roster {
            let lock = entry.incarnation.lock;
            fleet.names.insert(entry.name.clone(), lock);
            fleet.peers.insert(lock, Peer::awaited(now, entry));
        }
        for claim in begin.claims {
            fleet.presume(now, claim);
        }
        // What need not wait is open from the first moment.
        fleet.open_doors(now, &mut Vec::new());
        fleet
    }

    /// When to call [`Fleet::step`] with [`Input::Tick`].
    pub const fn deadline(&self) -> BootTime {
        self.tick_at
    }

    /// Takes one input at `now` and adds to `effects` what the driver must do, in order.
    ///
    /// An early or repeated tick changes nothing. After the lease has ended nothing is said or
    /// concluded; what is told then is remembered, until a renewal of the lease ends the silence.
    pub fn step(&mut self, now: BootTime, input: Input, effects: &mut Vec<Effect>) {
        let was_mute = self.is_mute(now);
        if let Input::Lease(until) = input {
            self.lease_until = self.lease_until.max(until);
        }
        if !self.is_mute(now) {
            self.excuse(now);
            if was_mute {
                self.speak_again(now, effects);
            }
            return self.act(now, input, effects);
        }
        if let Input::Dispatch(runs) = input {
            let not_sent =
                |run: Dispatch| Effect::Settled(run.run, Settlement::NotSent(NotSent::NotLeading));
            return effects.extend(runs.into_iter().map(not_sent));
        }
        self.remember(now, input);
    }

    /// What a mute leader does with an input. It has nowhere to say anything: whatever follows from
    /// this, follows when it leads again.
    fn remember(&mut self, now: BootTime, input: Input) {
        match input {
            Input::Tick => self.tick_at = now.plus(self.book.newest().judge_every),
            // Said again, or asked about; and a dispatch was refused.
            Input::Frame(..) | Input::Lease(_) | Input::Dispatch(_) => {}
            Input::Closed(stream) => self.close(now, stream),
            Input::Kill(run, kill) => drop(self.note_kill(run, kill)),
            Input::Enrolled(incarnation) => drop(self.note_enrolled(incarnation)),
            Input::Struck(lock) => self.be_struck(lock),
            Input::Recorded(to, run, number, answer) => {
                self.note_recorded(to, run, number, answer);
            }
            Input::DeclaredDead(lock) => drop(self.declared.insert(lock)),
            Input::Draining(lock, is_draining) => self.set_draining(lock, is_draining),
            Input::Limits(limits) => self.book.committed(limits),
            Input::Revision(revision) => self.revision = self.revision.max(revision),
            Input::RosterIsComplete => self.trust_roster(),
        }
    }

    /// What was told to this leader while it was mute has its consequences now.
    fn speak_again(&mut self, now: BootTime, effects: &mut Vec<Effect>) {
        for lock in self.peers.keys().copied().collect::<Vec<_>>() {
            self.repeat_kills(lock, effects);
            self.finish_purge(lock, effects);
        }
        for lock in std::mem::take(&mut self.declared) {
            self.declare_dead(now, lock, effects);
        }
        self.open_doors(now, effects);
    }

    fn act(&mut self, now: BootTime, input: Input, effects: &mut Vec<Effect>) {
        match input {
            Input::Lease(_) => {}
            Input::Tick => self.tick(now, effects),
            Input::Frame(stream, frame) => self.receive(now, stream, frame, effects),
            Input::Closed(stream) => self.close(now, stream),
            Input::Dispatch(runs) => self.dispatch(now, runs, effects),
            Input::Kill(run, kill) => self.kill(run, kill, effects),
            Input::Enrolled(incarnation) => self.be_enrolled(incarnation, effects),
            Input::Struck(lock) => self.be_struck(lock),
            Input::Recorded(to, run, number, answer) => {
                self.recorded(to, run, number, answer, effects);
            }
            Input::DeclaredDead(lock) => self.declare_dead(now, lock, effects),
            Input::Draining(lock, is_draining) => self.set_draining(lock, is_draining),
            Input::Limits(limits) => self.book.committed(limits),
            Input::Revision(revision) => self.revision = self.revision.max(revision),
            Input::RosterIsComplete => {
                self.trust_roster();
                self.open_doors(now, effects);
            }
        }
    }

    /// Kept for a machine that nobody knows, too: it may come, or come back.
    fn set_draining(&mut self, lock: Lock, is_draining: bool) {
        match (self.peers.get_mut(&lock), is_draining) {
            (Some(peer), true | false) => {
                peer.is_draining = is_draining;
                peer.asked_drain.take_if(|asked| *asked == is_draining);
            }
            (None, true) => drop(self.draining.insert(lock)),
            (None, false) => drop(self.draining.remove(&lock)),
        }
    }

    /// Whether this leader may neither speak nor conclude anything.
    pub fn is_mute(&self, now: BootTime) -> bool {
        self.is_over || now >= self.lease_until && !is_planted(Mistake::SpeaksWhenMute)
    }

    /// How a worker is judged; `None` if it is not the newest life under its lock.
    pub fn health(&self, worker: Incarnation) -> Option<Health> {
        let peer = self.peers.get(&worker.lock)?;
        (peer.incarnation == worker).then(|| peer.vitals.health())
    }

    /// Where a run may be running.
    pub fn place(&self, run: RunId) -> Option<Lock> {
        self.places.get(&run).copied()
    }

    /// Everything that may be running on a machine.
    pub fn held(&self, lock: Lock) -> impl Iterator<Item = Claim> {
        self.peers.get(&lock).into_iter().flat_map(Peer::held)
    }

    /// What may start.
    pub const fn doors(&self) -> Doors {
        self.doors
    }

    /// The limits in force.
    pub const fn limits(&self) -> &Limits {
        self.book.newest()
    }

    fn receive(
        &mut self,
        now: BootTime,
        stream: StreamId,
        frame: FromWorker,
        effects: &mut Vec<Effect>,
    ) {
        let FromWorker { version, incarnation, mandate, saying } = frame;
        let saying = match saying {
            Saying::Heartbeat(heartbeat) => {
                return self.hear(now, stream, (version, incarnation), heartbeat, effects);
            }
            // Only a heartbeat is answered in another version.
            Saying::Statuses(_) | Saying::Running(_) | Saying::Answers(_) | Saying::Noted(_)
                if version != VERSION =>
            {
                return;
            }
            Saying::Statuses(statuses) => {
                let from = (stream, incarnation, mandate);
                return self.take_statuses(from, statuses, effects);
            }
            saying @ (Saying::Running(_) | Saying::Answers(_) | Saying::Noted(_)) => saying,
        };
        // Answers count only in the association and on the stream in which the question was asked.
        let Some(peer) = self.peers.get(&incarnation.lock) else { return };
        let is_ours = mandate == Some(self.mandate)
            && peer.incarnation == incarnation
            && peer.stream == Some(stream);
        if !is_ours {
            return;
        }
        match saying {
            Saying::Running(held) => self.learn_running(incarnation, held, effects),
            Saying::Answers(answers) => self.learn_answers(incarnation.lock, answers, effects),
            Saying::Noted(number) => self.learn_noted(incarnation.lock, number),
            Saying::Heartbeat(_) | Saying::Statuses(_) => {}
        }
    }

    fn send(&self, stream: StreamId, to: Incarnation, order: Order, effects: &mut Vec<Effect>) {
        let frame = FromLeader { version: VERSION, mandate: self.mandate, incarnation: to, order };
        effects.push(Effect::Send(stream, frame));
    }

    /// Sends to a worker that this leader has a stream with.
    fn send_to(&self, lock: Lock, order: Order, effects: &mut Vec<Effect>) {
        if let Some(peer) = self.peers.get(&lock)
            && let Some(stream) = peer.stream
        {
            self.send(stream, peer.incarnation, order, effects);
        }
    }
}
