//! Keeps a worker on its link: the protocol's core, whom to dial, the containers and their run table
//! put together, as a pure machine.
//!
//! ```text
//!   begin.rs     what a life begins with: runs of earlier lives, ends that nobody has, strays
//!   runs.rs      what containers tell the leader, and what the leader tells containers
//!   ending.rs    how it goes: first what must end, then what must be told
//! ```
//!
//! | phase | what it does |
//! | --- | --- |
//! | working | everything |
//! | ending | no run begins any more; what must end with the worker ends |
//! | telling | ends are told for a moment, while somebody listens |
//! | left | nothing |
//!
//! Invariant: a run stands in the table before it begins, and leaves it before its end is forgotten.
//!
//! Invariant: nobody is dialled while something runs here that no leader would be told of.
//!
//! It does not know sockets, files, clocks or randomness: the driver does.

mod begin;
mod ending;
mod runs;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use sterna_executor::container::{Cause, How, State};
use sterna_model::{
    BootTime, Incarnation, Name, RunId, Span,
    payload::{Facts, Work},
};
use sterna_protocol::{
    health::Health,
    limits::Limits,
    message::{FromLeader, FromWorker, HeartbeatAnswer, Held, Mandate, Order, Saying, StreamId},
    worker::{self, Alarm, Worker},
};
use sterna_wire::{Address, Aside};

pub use self::begin::Begin;
use self::{
    ending::{Farewell, Phase},
    runs::held,
};
use super::{
    dial::Dialer,
    mailbox::Tidings,
    remark::{Muffle, Remark},
    table::Memory,
};

/// When the counter of lives could not be raised, it is tried again after this.
const REBIRTH_AGAIN: Span = Span::from_secs(1);
/// When what was seen could not be kept, it is tried again after this.
const REMEMBER_AGAIN: Span = Span::from_secs(1);

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// The moment of [`Keeper::deadline`] came.
    Tick,
    /// The stream of [`Effect::Dial`] is open.
    Opened(StreamId),
    /// It cannot be opened, for this reason; perhaps this one leads.
    NotOpened(StreamId, String, Option<Address>),
    /// A frame arrived.
    Frame(StreamId, FromLeader),
    /// A stream is over.
    Over(StreamId, Broken),
    /// A message cannot be said on any stream.
    Unsaid(String),
    /// What is new of the containers.
    Tidings(Tidings),
    /// The check that began then has ended, well or not.
    Checked(BootTime, Result<(), String>),
    /// The answer to [`Effect::Rebirth`].
    Reborn(Result<Incarnation, String>),
    /// The runs of [`Effect::Keep`] stand in the table, all but these, for these reasons.
    Kept(Vec<(RunId, String)>),
    /// What [`Effect::Remember`] asks for could not be written.
    NotRemembered(String),
    /// The operator of this machine wants it drained, or no longer.
    WantsDrain(bool),
    /// Somebody wants this worker to end.
    End,
}

/// How a stream ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Broken {
    /// The other side ended it.
    Ended,
    /// It broke, for this reason.
    By(String),
    /// The other side speaks another version, and cannot be understood.
    Version(u32),
}

/// Something that the driver must do, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Open a stream there, under this name; any other one is over.
    Dial(StreamId, Address),
    /// Send a frame.
    Send(StreamId, FromWorker),
    /// End a stream, or the attempt to open it.
    Close(StreamId),
    /// Ask the guardian whether it is well.
    AskGuardian(u64),
    /// Run a subprocess, within so long.
    Check(Span),
    /// Write these runs into the table, and answer with [`Input::Kept`]. Nothing is said of them before.
    Keep(Vec<Held>),
    /// Begin this run, which stands in the table.
    Start(Held, Box<Work>),
    /// End a run.
    Stop(RunId, Cause, How),
    /// Take a run out of the table, then let its end be forgotten.
    Forget(RunId),
    /// Let the guardian count deadlines from this stamp.
    Confirmed(BootTime),
    /// Use this kill wait.
    KillWait(Span),
    /// Keep this.
    Remember(Memory),
    /// Raise the counter of lives.
    Rebirth,
    /// Tell people.
    Say(Remark),
    /// End what must end with this worker.
    ShutDown,
    /// End the link, and this worker.
    Leave,
}

/// One worker on its link.
#[derive(Debug)]
pub struct Keeper {
    core: Worker,
    name: Name,
    dialer: Dialer,
    memory: Memory,
    phase: Phase,
    farewell: Farewell,
    /// What is running here that nobody knows any more.
    strays: BTreeSet<RunId>,
    /// How far the runs have come that go on.
    lives: BTreeMap<RunId, Life>,
    /// Ends that are not acknowledged.
    ends: BTreeSet<RunId>,
    /// What the core is to hear next.
    inputs: VecDeque<worker::Input>,
    /// What the core has asked for when it took runs, until they stand in the table. It hears nothing
    /// meanwhile: no other word comes between its decision and its answer.
    taken: Vec<worker::Effect>,
    rebirth_at: Option<BootTime>,
    /// When what could not be kept is written again.
    remember_at: Option<BootTime>,
    told: Told,
    muffle: Muffle,
    /// What goes with every heartbeat, but for a check that failed.
    facts: Facts,
}

/// A run that goes on.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Life {
    state: State,
    is_ready: bool,
    /// By their names.
    ports: Vec<(String, u16)>,
}

impl Life {
    const fn new(state: State) -> Self {
        Self { state, is_ready: false, ports: Vec::new() }
    }
}

/// What people were told last.
#[derive(Debug, Default)]
struct Told {
    association: Option<(Mandate, Incarnation)>,
    verdict: Option<Health>,
    is_draining: bool,
}

impl Keeper {
    /// When to call [`Keeper::step`] with [`Input::Tick`].
    pub fn deadline(&self) -> BootTime {
        let dial = self.dialer.deadline().filter(|_| self.may_dial());
        let others = [dial, self.rebirth_at, self.remember_at, self.phase.deadline()];
        others.into_iter().flatten().fold(self.core.deadline(), BootTime::min)
    }

    /// Takes one input at `now` and adds to `effects` what the driver must do, in order. `random`
    /// decides how long a pause is.
    pub fn step(&mut self, now: BootTime, random: u64, input: Input, effects: &mut Vec<Effect>) {
        self.pass_time(now, random, effects);
        self.take(now, random, input, effects);
        self.drive(now, effects);
        if self.may_dial()
            && let Some((stream, address)) = self.dialer.due(now)
        {
            effects.push(Effect::Dial(stream, address));
        }
        self.leave_when_told(now, effects);
    }

    /// Whether something that was said beside the protocol is for this life, from the leader that it
    /// follows (safety rule 2).
    pub fn hears(&self, aside: &Aside) -> bool {
        let mandate = self.core.mandate();
        mandate.is_some_and(|mandate| aside.is_of(&mandate, &self.core.incarnation()))
    }

    fn may_dial(&self) -> bool {
        self.strays.is_empty() && self.phase.has_link()
    }

    fn pass_time(&mut self, now: BootTime, random: u64, effects: &mut Vec<Effect>) {
        if let Some(stream) = self.dialer.is_silent(now) {
            effects.push(Effect::Close(stream));
            self.lose(now, random, stream, "no answer arrives".to_owned(), effects);
        }
        if self.rebirth_at.is_some_and(|at| now >= at) {
            self.rebirth_at = None;
            effects.push(Effect::Rebirth);
        }
        if self.remember_at.is_some_and(|at| now >= at) {
            self.remember(effects);
        }
    }

    fn take(&mut self, now: BootTime, random: u64, input: Input, effects: &mut Vec<Effect>) {
        match input {
            Input::Tick => self.inputs.push_back(worker::Input::Tick),
            Input::Opened(stream) => {
                if self.dialer.opened(stream) {
                    if let Some(address) = self.dialer.address().cloned() {
                        self.say(now, Remark::Open(address), effects);
                    }
                    self.inputs.push_back(worker::Input::Opened(stream));
                } else {
                    effects.push(Effect::Close(stream));
                }
            }
            Input::NotOpened(stream, why, leader) => {
                self.dialer.over(now, random, stream, leader);
                self.say(now, Remark::NotOpen(why), effects);
            }
            Input::Frame(stream, frame) => {
                self.dialer.heard(stream);
                self.observe(now, &frame, effects);
                self.inputs.push_back(worker::Input::Frame(stream, frame));
            }
            Input::Over(stream, Broken::Ended) => {
                self.lose(now, random, stream, "the server ended it".to_owned(), effects);
            }
            Input::Over(stream, Broken::By(why)) => self.lose(now, random, stream, why, effects),
            Input::Over(stream, Broken::Version(theirs)) => {
                self.say(now, Remark::WrongVersion(theirs), effects);
                let why = format!("it speaks version {theirs} of the protocol");
                self.lose(now, random, stream, why, effects);
            }
            Input::Unsaid(why) => self.say(now, Remark::Unsaid(why), effects),
            Input::Tidings(tidings) => self.hear_containers(now, tidings, effects),
            Input::Checked(began, Ok(())) => {
                self.muffle.calm_health();
                self.note_check(None);
                self.inputs.push_back(worker::Input::Checked(began));
            }
            Input::Checked(_, Err(why)) => {
                self.note_check(Some(&why));
                self.say(now, Remark::Unwell(why), effects);
            }
            Input::Reborn(Ok(incarnation)) => {
                self.say(now, Remark::Reborn(incarnation), effects);
                self.inputs.push_back(worker::Input::Reborn(incarnation));
            }
            Input::Reborn(Err(why)) => {
                // No write, no heartbeat: nothing is said before it succeeds.
                self.rebirth_at = Some(now.plus(REBIRTH_AGAIN));
                self.say(now, Remark::NotReborn(why), effects);
            }
            Input::Kept(failed) => self.kept(now, failed, effects),
            Input::NotRemembered(why) => {
                self.remember_at = Some(now.plus(REMEMBER_AGAIN));
                self.say(now, Remark::NotKept(why), effects);
            }
            Input::WantsDrain(wants) => self.inputs.push_back(worker::Input::WantsDrain(wants)),
            Input::End => self.end(now, effects),
        }
    }

    /// How the last check ended goes with the facts, so that people see it where they see the worker.
    fn note_check(&mut self, failed: Option<&str>) {
        let mut facts = self.facts.clone();
        if let Some(failed) = failed {
            facts.set_failed_check(failed);
        }
        self.core.set_facts(facts.to_bytes().into());
    }

    /// Lets the core hear what there is, and what follows from it.
    fn drive(&mut self, now: BootTime, effects: &mut Vec<Effect>) {
        let mut asked = Vec::new();
        while self.taken.is_empty()
            && let Some(input) = self.inputs.pop_front()
        {
            self.core.step(now, input, &mut asked);
            let held: Vec<Held> =
                asked.iter().filter_map(worker::Effect::begins).map(held).collect();
            if !held.is_empty() {
                self.taken.append(&mut asked);
                effects.push(Effect::Keep(held));
            }
            for effect in asked.drain(..) {
                self.perform(now, effect, effects);
            }
        }
    }

    fn perform(&mut self, now: BootTime, effect: worker::Effect, effects: &mut Vec<Effect>) {
        match effect {
            worker::Effect::AskGuardian(number) => effects.push(Effect::AskGuardian(number)),
            worker::Effect::Check => effects.push(Effect::Check(self.limits().check_grace)),
            worker::Effect::Send(stream, frame) => {
                if let Saying::Heartbeat(_) = frame.saying {
                    self.dialer.sent(now);
                }
                self.farewell.say(&frame.saying);
                effects.push(Effect::Send(stream, frame));
            }
            worker::Effect::Close(stream) => effects.push(Effect::Close(stream)),
            worker::Effect::Start(run) => self.start(now, &run, effects),
            worker::Effect::Stop(run, stop) => self.stop(now, run, stop, effects),
            worker::Effect::Forget(run) => self.forget(now, run, effects),
            worker::Effect::Confirmed(stamp) => effects.push(Effect::Confirmed(stamp)),
            worker::Effect::Remember(mandate, revision) => {
                self.memory.seen = Some((mandate, revision));
                self.remember(effects);
            }
            worker::Effect::Limits(limits) => {
                self.memory.limits = Some(limits);
                self.remember(effects);
                effects.push(Effect::KillWait(limits.kill_wait));
            }
            worker::Effect::Rebirth => effects.push(Effect::Rebirth),
            worker::Effect::Alarm(alarm) => {
                let remark = match alarm {
                    Alarm::Rival(mandate) => Remark::Rival(mandate),
                    Alarm::WrongVersion(theirs) => Remark::WrongVersion(theirs.into()),
                    Alarm::NameTaken => Remark::NameTaken(self.name.clone()),
                    Alarm::RosterFull => Remark::RosterFull,
                    Alarm::Foreign(cluster) => Remark::Foreign(cluster),
                    Alarm::WentBack(newest) => Remark::WentBack(newest),
                };
                self.say(now, remark, effects);
            }
        }
    }

    fn remember(&mut self, effects: &mut Vec<Effect>) {
        self.remember_at = None;
        effects.push(Effect::Remember(self.memory));
    }

    fn lose(
        &mut self,
        now: BootTime,
        random: u64,
        stream: StreamId,
        why: String,
        effects: &mut Vec<Effect>,
    ) {
        if self.dialer.stream() != Some(stream) {
            return;
        }
        if let Some(address) = self.dialer.address().cloned() {
            self.say(now, Remark::Over(address, why), effects);
        }
        self.dialer.over(now, random, stream, None);
        self.inputs.push_back(worker::Input::Closed(stream));
    }

    /// Tells people what a leader thinks of this worker, when that changes.
    fn observe(&mut self, now: BootTime, frame: &FromLeader, effects: &mut Vec<Effect>) {
        self.farewell.hear(&frame.order);
        let confirmation = match &frame.order {
            Order::Heartbeat(HeartbeatAnswer::Confirmed(confirmation)) => confirmation,
            Order::Heartbeat(HeartbeatAnswer::Welcome | HeartbeatAnswer::Refused(_))
            | Order::Statuses(..)
            | Order::GetRunning
            | Order::Run(_)
            | Order::NotifyIfNotRunning(..)
            | Order::Kill(..)
            | Order::Die => return,
        };
        if frame.incarnation != self.core.incarnation() {
            return;
        }
        self.muffle.calm_link();
        let association = Some((frame.mandate, frame.incarnation));
        if std::mem::replace(&mut self.told.association, association) != association {
            self.told.verdict = None;
            self.say(now, Remark::Confirmed(frame.mandate, frame.incarnation), effects);
        }
        let verdict = Some(confirmation.verdict);
        if std::mem::replace(&mut self.told.verdict, verdict) != verdict {
            self.say(now, Remark::Verdict(confirmation.verdict), effects);
        }
        let is_draining = confirmation.is_draining;
        if std::mem::replace(&mut self.told.is_draining, is_draining) != is_draining {
            self.say(now, Remark::Draining(is_draining), effects);
        }
    }

    /// The limits that this life goes by.
    fn limits(&self) -> Limits {
        self.memory.limits.unwrap_or_default()
    }

    fn say(&mut self, now: BootTime, remark: Remark, effects: &mut Vec<Effect>) {
        if self.muffle.lets(now, &remark) {
            effects.push(Effect::Say(remark));
        }
    }
}
