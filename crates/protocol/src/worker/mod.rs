//! The worker's side of its link, as a pure machine.
//!
//! ```text
//!   heartbeat.rs   ask the guardian, stamp, send; confirmed, welcome, refused; rebirth
//!   runs.rs        decide each run once; stop what reaches its deadline
//!   statuses.rs    report what happened until it is acknowledged
//! ```
//!
//! The leader's side, in `scheduler`, has the same files.
//!
//! Invariant: a run is decided at most once, and only started while this worker takes itself for
//! healthy, under the newest mandate that it has seen, before the run's deadline.
//!
//! Invariant: nothing that this worker was started with, accepted or adopted leaves its table
//! before its end was acknowledged.
//!
//! It does not know what work is, and it does not know the disk: what must survive a crash goes out
//! as an effect, in the order in which it must be kept.

mod heartbeat;
mod runs;
mod statuses;

use std::collections::{BTreeMap, BTreeSet};

use sterna_model::{
    BootTime, ClusterId, Incarnation, Name, NotifySequence, Revision, RunId, RunSequence, Span,
};

use self::{
    heartbeat::{Pulse, Wish},
    runs::Entry,
    statuses::Outbox,
};
use crate::{
    consensus,
    health::{Health, Permit, Vitals},
    limits::{Limits, Terms},
    message::{
        FromLeader, FromWorker, Held, Kill, Mandate, Order, Payload, Run, Saying, Standing,
        StreamId, VERSION,
    },
    planted::{Mistake, is_planted},
};

/// What a worker knows when it starts.
#[derive(Clone, Debug)]
pub struct Start {
    /// This life; its counter was raised and synced before.
    pub incarnation: Incarnation,
    /// What the worker is called.
    pub name: Name,
    /// Names this boot of the machine.
    pub boot: u128,
    /// Drawn for this start.
    pub birth: u64,
    /// What it has.
    pub facts: Payload,
    /// The highest that earlier lives have seen of the store.
    pub seen: Option<(Mandate, Revision)>,
    /// The stamp of the last confirmed heartbeat of an earlier life in this boot.
    pub confirmed: Option<BootTime>,
    /// What was adopted of earlier lives, with what was not acknowledged.
    pub held: Vec<Held>,
    /// The limits that an earlier life went by, or the usual ones.
    pub limits: Limits,
}

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// The moment of [`Worker::deadline`] came.
    Tick,
    /// A stream to a leader is open; any earlier one is over.
    Opened(StreamId),
    /// A stream broke.
    Closed(StreamId),
    /// A frame arrived.
    Frame(StreamId, FromLeader),
    /// The guardian has answered [`Effect::AskGuardian`] with this number.
    GuardianAnswered(u64),
    /// A check that began then has ended well.
    Checked(BootTime),
    /// Something worth knowing of a run.
    Progress(RunId, Payload),
    /// Everything of a run is gone.
    Ended(RunId, Payload),
    /// The counter is raised and synced: this is who we are now.
    Reborn(Incarnation),
    /// The operator of this machine wants it drained, or no longer. It is said with every heartbeat
    /// until the leader says that it is so.
    WantsDrain(bool),
    /// This process is about to end: no more work is taken, and the leader is told so at once.
    Leave,
}

/// Something that the driver must do, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Ask the guardian whether it is well (safety rule 12). The answer carries this number; only
    /// that to the last question counts.
    AskGuardian(u64),
    /// Run a check: a real subprocess.
    Check,
    /// Send a frame.
    Send(StreamId, FromWorker),
    /// End a stream; nothing more is read from it.
    Close(StreamId),
    /// Keep this run on the disk, then start it, once. Its end, or that it could not start, is an end.
    /// What cannot be kept is not started: [`Worker::not_kept`] comes before anything that follows.
    Start(Run),
    /// End a run; may be asked again.
    Stop(RunId, Stop),
    /// The run's end was acknowledged: forget it on the disk too.
    Forget(RunId),
    /// Let the guardian count deadlines from this stamp.
    Confirmed(BootTime),
    /// Keep this on the disk.
    Remember(Mandate, Revision),
    /// Keep these on the disk: the next life goes by them. A life that went by older ones than were
    /// echoed might go by what is retired (safety rule 11).
    Limits(Limits),
    /// Raise the counter, sync it, and answer with [`Input::Reborn`].
    Rebirth,
    /// Tell people.
    Alarm(Alarm),
}

impl Effect {
    /// The run that must be kept before this is done.
    pub const fn begins(&self) -> Option<&Run> {
        if let Self::Start(run) = self { Some(run) } else { None }
    }
}

/// How a run is ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// The leader asks for it.
    Asked(Kill),
    /// Its deadline: TERM, so much time, KILL. Not to be undone (safety rule 8).
    Deadline(Span),
}

/// What people must know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Alarm {
    /// Two leaders claim the same term: the store was restored from an older state.
    Rival(Mandate),
    /// The other side speaks another version.
    WrongVersion(u16),
    /// The name belongs to another machine.
    NameTaken,
    /// As many machines are on the roster as may be.
    RosterFull,
    /// The other side leads another cluster, this one.
    Foreign(ClusterId),
    /// The leader knows this life of the same lock, a later one or another process: the data directory
    /// was set back or copied.
    WentBack(u64),
}

/// One worker.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Worker {
    incarnation: Incarnation,
    name: Name,
    boot: u128,
    birth: u64,
    facts: Payload,
    wish: Option<Wish>,
    stream: Option<StreamId>,
    /// Whether a heartbeat was sent on it: before, nothing else on it would be heard.
    has_greeted: bool,
    /// The highest seen, of all lives.
    seen: Option<(Mandate, Revision)>,
    /// The highest revision that an answer to a status told, which is not written down: only this process
    /// needs to know.
    told: Revision,
    /// Whose worker this incarnation is; with the incarnation this is the association.
    mandate: Option<Mandate>,
    /// Numbers of the association (safety rule 4).
    decided: RunSequence,
    notified: NotifySequence,
    /// Stamp of the last confirmed heartbeat, of all lives in this boot.
    confirmed: Option<BootTime>,
    is_draining: bool,
    is_leaving: bool,
    vitals: Vitals,
    /// When a run could not be kept last: what was looked at before says nothing of now.
    doubted: Option<BootTime>,
    limits: Limits,
    set: consensus::Held,
    pulse: Pulse,
    runs: BTreeMap<RunId, Entry>,
    outbox: Outbox,
    judge_at: BootTime,
}

impl Worker {
    /// A worker that has just started.
    pub fn new(now: BootTime, start: Start) -> Self {
        let mut worker = Self {
            incarnation: start.incarnation,
            name: start.name,
            boot: start.boot,
            birth: start.birth,
            facts: start.facts,
            wish: None,
            stream: None,
            has_greeted: false,
            seen: start.seen,
            told: Revision::ZERO,
            mandate: None,
            decided: RunSequence::ZERO,
            notified: NotifySequence::ZERO,
            confirmed: start.confirmed,
            is_draining: false,
            is_leaving: false,
            vitals: Vitals::new(now),
            doubted: None,
            limits: start.limits,
            set: consensus::Held::default(),
            pulse: Pulse::new(now),
            runs: BTreeMap::new(),
            outbox: Outbox::default(),
            judge_at: now,
        };
        for held in start.held {
            if is_planted(Mistake::AdoptsNothing) {
                break;
            }
            worker.adopt(held);
        }
        worker
    }

    /// Who this is now.
    pub const fn incarnation(&self) -> Incarnation {
        self.incarnation
    }

    /// Whom it takes for the leader; `None` before the first word of any to this life.
    pub const fn mandate(&self) -> Option<Mandate> {
        self.mandate
    }

    /// How this worker judges itself.
    pub const fn health(&self) -> Health {
        self.vitals.health()
    }

    /// The runs that it has, ended and unacknowledged ones included.
    pub fn runs(&self) -> impl Iterator<Item = &RunId> {
        self.runs.keys()
    }

    /// When to call [`Worker::step`] with [`Input::Tick`].
    pub fn deadline(&self) -> BootTime {
        let stops = self.runs.values().filter_map(|entry| self.stop_at(entry));
        let statuses = self.can_report().then(|| self.outbox.deadline()).flatten();
        let due = [Some(self.judge_at), self.pulse.deadline(), statuses];
        due.into_iter().flatten().chain(stops).min().unwrap_or(self.judge_at)
    }

    /// Takes one input at `now` and adds to `effects` what the driver must do, in order.
    ///
    /// An early or repeated tick changes nothing.
    pub fn step(&mut self, now: BootTime, input: Input, effects: &mut Vec<Effect>) {
        // Time first: what a message may do must not depend on whether the timer came before it.
        self.pass_time(now, effects);
        match input {
            Input::Tick => {}
            Input::Opened(stream) => self.open(now, stream, effects),
            Input::Closed(stream) => {
                if self.stream == Some(stream) {
                    self.stream = None;
                }
            }
            Input::Frame(stream, frame) => self.receive(now, stream, frame, effects),
            Input::GuardianAnswered(number) => self.beat(now, number, effects),
            Input::Checked(began) => {
                if self.doubted.is_none_or(|doubted| began > doubted) {
                    self.vitals.check(began);
                }
            }
            Input::Progress(run, what) => self.progress(now, run, what, effects),
            Input::Ended(run, how) => self.end(now, run, how, effects),
            Input::Reborn(incarnation) => self.be_reborn(now, incarnation, effects),
            Input::WantsDrain(drain) => self.wish = Some(Wish { drain, said: None }),
            Input::Leave => {
                self.is_leaving = true;
                self.pulse.hurry(now);
                self.pass_time(now, effects);
            }
        }
    }

    /// What it has, or says of itself, is something else now: the next heartbeat says so.
    pub fn set_facts(&mut self, facts: Payload) {
        self.facts = facts;
    }

    /// These runs of [`Effect::Start`] could not be kept, and nothing of them has begun. `rest` is what
    /// is not done yet of what the step has asked for, from the first of their starts on: so their answer
    /// is in it still, and says that they are refused. Nothing is taken any more until a check that
    /// begins later has ended well.
    ///
    /// A run is decided once (safety rule 1), and this is part of that: it is never said of a run whose
    /// answer has gone out.
    pub fn not_kept(&mut self, now: BootTime, runs: &BTreeSet<RunId>, rest: &mut Vec<Effect>) {
        self.turn_down(runs, rest);
        self.doubted = Some(now);
        self.vitals.doubt();
        self.judge(now, rest);
    }

    /// Does what is due.
    fn pass_time(&mut self, now: BootTime, effects: &mut Vec<Effect>) {
        if now >= self.judge_at {
            self.judge_at = now.plus(self.limits.judge_every);
            self.judge(now, effects);
        }
        self.stop_due(now, effects);
        self.pulse_due(now, effects);
        if self.can_report() && self.outbox.is_due(now) {
            self.send_statuses(now, effects);
        }
    }

    fn judge(&mut self, now: BootTime, effects: &mut Vec<Effect>) {
        let terms = match self.mandate {
            Some(_) => self.limits.worker_terms(),
            // Whoever has no leader is nobody's to lose.
            None => Terms { lose_after: None, ..self.limits.worker_terms() },
        };
        let before = self.vitals.judge(now, &terms, Permit::Withheld);
        if before.is_some() && self.vitals.health() == Health::MustDie {
            self.die(effects);
        }
    }

    fn open(&mut self, now: BootTime, stream: StreamId, effects: &mut Vec<Effect>) {
        // Unread frames of the old stream are dropped with it (safety rule 4).
        if let Some(old) = self.stream.replace(stream) {
            effects.push(Effect::Close(old));
        }
        self.has_greeted = false;
        self.pulse.hurry(now);
        self.pulse_due(now, effects);
    }

    fn receive(
        &mut self,
        now: BootTime,
        stream: StreamId,
        frame: FromLeader,
        effects: &mut Vec<Effect>,
    ) {
        if self.stream != Some(stream) || frame.incarnation != self.incarnation {
            return;
        }
        if frame.version != VERSION {
            return self.put_off(now, Alarm::WrongVersion(frame.version), effects);
        }
        if self.pulse.is_dying() {
            // This identity is given up; the next one will hear everything anew.
            return;
        }
        match self.seen.map_or(Standing::Newer, |(seen, _)| frame.mandate.standing(&seen)) {
            Standing::Foreign => {
                return self.put_off(now, Alarm::Foreign(frame.mandate.cluster), effects);
            }
            Standing::Older => return,
            Standing::Rival => {
                return effects.push(Effect::Alarm(Alarm::Rival(frame.mandate)));
            }
            Standing::Same | Standing::Newer => {}
        }
        let is_of_this_epoch = |mandate: Mandate| mandate.epoch == frame.mandate.epoch;
        if !self.mandate.is_none_or(is_of_this_epoch) && !is_planted(Mistake::OutlivesTheEpoch) {
            // A life is of one epoch: what a later leader reads of it and does not find here was never
            // sent, or it would stand in the same store that it ended (safety rule 6).
            return self.die(effects);
        }
        self.associate(now, frame.mandate, effects);
        match frame.order {
            Order::Heartbeat(answer) => self.hear(now, answer, effects),
            Order::Statuses(revision, answers) => self.acknowledge(revision, &answers, effects),
            Order::GetRunning => self.tell_running(effects),
            Order::Run(runs) => self.decide(now, runs, effects),
            Order::NotifyIfNotRunning(number, runs) => self.note(now, number, &runs, effects),
            Order::Kill(run, kill) => self.kill(run, kill, effects),
            Order::Die => self.die(effects),
        }
    }

    /// Follows a leader. The numbers start over only here (safety rule 4).
    fn associate(&mut self, now: BootTime, mandate: Mandate, effects: &mut Vec<Effect>) {
        if self.mandate == Some(mandate) {
            return;
        }
        let revision = match self.seen {
            Some((seen, revision)) if seen.epoch == mandate.epoch => revision.max(self.told),
            Some(_) => {
                // A restored store counts from where it was: what is held of the epoch before would
                // pass for newer than anything that this leader says.
                self.set = consensus::Held::default();
                self.told = Revision::ZERO;
                self.limits.version = 0;
                effects.push(Effect::Limits(self.limits));
                self.outbox.tell_again();
                Revision::ZERO
            }
            None => Revision::ZERO,
        };
        self.seen = Some((mandate, revision));
        self.mandate = Some(mandate);
        self.decided = RunSequence::ZERO;
        self.notified = NotifySequence::ZERO;
        self.is_draining = false;
        self.vitals = self.vitals.anew(now);
        self.outbox.hurry(now);
        effects.push(Effect::Remember(mandate, revision));
    }

    fn say(&self, saying: Saying, effects: &mut Vec<Effect>) {
        if let Some(stream) = self.stream {
            let (incarnation, mandate) = (self.incarnation, self.mandate);
            let frame = FromWorker { version: VERSION, incarnation, mandate, saying };
            effects.push(Effect::Send(stream, frame));
        }
    }
}
