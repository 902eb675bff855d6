//! One reign of one leader: its fleet and its control core, each telling the other what it decided.
//!
//! ```text
//!   frames, lease ──▶ Fleet ──news──▶ Control ◀── calls, commits
//!                       ▲                │
//!                       └─ runs, kills ──┘  once they stand in the store
//! ```
//!
//! A driver calls it in this order, again and again:
//!
//! 1. [`Leader::step`] with what happened: a frame, an answer of the store, a call, or
//!    [`Input::Tick`] when [`Leader::deadline`] has come. An early tick changes nothing.
//! 2. It performs the effects, in their order.
//! 3. [`Leader::commit`]: if it gives rows, the driver writes them in one fenced commit, and steps
//!    with [`control::Input::Committed`] when they stand. Only one commit is under way at a time.
//! 4. [`Leader::deadline`] may have changed after every step and every commit; it never changes
//!    between two calls.
//!
//! [`Leader::sweep`] may be called between any two of these. [`Leader::why`] and
//! [`Leader::forecast`] change nothing.
//!
//! Batches are driven beside the control core: their driver speaks to the fleet through
//! [`Input::Batch`], and hears of their runs by [`Effect::Batch`].
//!
//! Invariant: nothing decides here. What one says is handed to the other until both are silent; what
//! concerns the outside goes out, in order.

use std::{
    collections::{BTreeSet, VecDeque},
    sync::Arc,
};

use sterna_model::{
    BootTime, Incarnation, Lock, Revision, RunId, WallTime, Wants, WorkKey,
    planted::{Mistake, is_planted},
};
use sterna_protocol::{
    message::{FromLeader, FromWorker, Mandate, StreamId},
    scheduler::{self, Fleet},
};

use crate::{
    control::{self, Alarm, Answer, Call, CallId, Control, Now, ParcelId, Row},
    diary::{Diary, Line},
};

/// A leader, from its election until its reign is over.
#[derive(Clone, Debug)]
pub struct Leader {
    fleet: Fleet,
    control: Control,
    /// The runs of batches that it has sent or found.
    batches: BTreeSet<RunId>,
    /// What was told of keys that are not where they should be.
    diary: Diary,
}

/// Something that happened.
#[derive(Clone, Debug, PartialEq)]
pub enum Input {
    /// The moment of [`Leader::deadline`] came.
    Tick,
    /// A frame arrived.
    Frame(StreamId, FromWorker),
    /// A stream broke.
    Closed(StreamId),
    /// The lease was renewed: this leader may act until then.
    Lease(BootTime),
    /// The store has come this far.
    Revision(Revision),
    /// Something for the control core: a call, a commit, a callback's answer.
    Control(control::Input),
    /// Something for the fleet that concerns a batch: send runs, end one, or a status is recorded.
    Batch(scheduler::Input),
}

/// Something that the driver must do, in order.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// Send a frame.
    Send(StreamId, FromLeader),
    /// End a stream; nothing more is read from it.
    Close(StreamId),
    /// Tell a client.
    Answer(CallId, Answer),
    /// Tell whoever asked for it that a task is over.
    Callback(control::Callback),
    /// Tell people.
    Alarm(Alarm),
    /// Write into the log what keeps something from being where its spec wants it.
    Why(Box<Line>),
    /// What the fleet says of a run of a batch.
    Batch(scheduler::Effect),
    /// This reign is over, and the next one must open a recovered epoch (safety rule 25).
    StoreLags(Mandate, Revision),
}

impl Leader {
    /// A leader that has just been elected. The claims of `fleet` are those that the records tell.
    pub fn new(now: Now, mut fleet: scheduler::Begin, mut records: control::Begin) -> Self {
        if is_planted(Mistake::ForgetsDrains) {
            records.records.retain(|row| !matches!(row, Row::Drain(..)));
            fleet.roster.iter_mut().for_each(|entry| entry.is_draining = false);
        }
        let mut control = Control::new(now, records);
        // In a store that has none, both go by the same.
        control.go_by(*fleet.book.newest());
        fleet.claims = control.claims().collect();
        let draining = control.draining();
        let fleet = Fleet::new(now.boot, fleet);
        control.follow();
        let diary = Diary::new(now.boot, control.take_touched());
        let mut leader = Self { fleet, control, batches: BTreeSet::new(), diary };
        // What the store says of drains counts from the first moment, and so do doors that are open.
        let mut ignored = Vec::new();
        for lock in draining {
            leader.fleet.step(now.boot, scheduler::Input::Draining(lock, true), &mut ignored);
        }
        let opened = scheduler::Effect::Opened(leader.fleet.doors());
        leader.control.step(now, control::Input::Fleet(opened), &mut Vec::new());
        leader
    }

    /// All workers, as it sees them.
    pub const fn fleet(&self) -> &Fleet {
        &self.fleet
    }

    /// What it decides by.
    pub const fn control(&self) -> &Control {
        &self.control
    }

    /// How long what is over is kept, from now on.
    pub fn retain(&mut self, retention: control::Retention) {
        self.control.retain(retention);
    }

    /// Why a key is not where its spec wants it; see [`Control::why`]. Nothing is changed.
    pub fn why(&mut self, now: Now, key: &WorkKey) -> Option<control::Why> {
        self.control.why(now, key, |lock| self.fleet.reach(now.boot, lock))
    }

    /// Why no worker could ever have this; see [`Control::in_vain`]. Nothing is changed.
    pub fn in_vain(
        &mut self,
        now: Now,
        key: &WorkKey,
        wants: &Arc<Wants>,
    ) -> Option<control::Unplaced> {
        self.control.in_vain(now, key, wants)
    }

    /// What a drain of this machine would do; see [`Control::forecast`]. Nothing is changed.
    pub fn forecast(&mut self, now: Now, lock: Lock, deadline: WallTime) -> Vec<control::Forecast> {
        self.control.forecast(now, lock, deadline)
    }

    /// When to call [`Leader::step`] with [`Input::Tick`].
    pub fn deadline(&self, now: Now) -> BootTime {
        let others = [self.control.deadline(now), self.diary.deadline()];
        others.into_iter().flatten().fold(self.fleet.deadline(), BootTime::min)
    }

    /// What is to be committed next, if nothing is on its way.
    pub fn commit(&mut self) -> Option<(ParcelId, Vec<Row>)> {
        self.control.commit()
    }

    /// Looks at the next part of everything as if nothing were known to have changed; see
    /// [`Control::sweep_slice`]. What is found is told as an alarm, and mended. Gives whether that was
    /// the end.
    pub fn sweep(&mut self, now: Now, effects: &mut Vec<Effect>) -> bool {
        self.step(now, Input::Tick, effects);
        let mut found = Vec::new();
        let is_over = self.control.sweep_slice(now, Control::SLICE, &mut found);
        self.step(now, Input::Tick, effects);
        is_over
    }

    /// Takes one input at `now` and adds to `effects` what the driver must do, in order.
    pub fn step(&mut self, now: Now, input: Input, effects: &mut Vec<Effect>) {
        let mut queue = VecDeque::new();
        match input {
            Input::Tick => {
                queue.push_back(Turn::Fleet(scheduler::Input::Tick));
                queue.push_back(Turn::Control(control::Input::Tick));
            }
            Input::Frame(stream, frame) => {
                queue.push_back(Turn::Fleet(scheduler::Input::Frame(stream, frame)));
            }
            Input::Closed(stream) => queue.push_back(Turn::Fleet(scheduler::Input::Closed(stream))),
            Input::Lease(until) => queue.push_back(Turn::Fleet(scheduler::Input::Lease(until))),
            Input::Revision(revision) => {
                queue.push_back(Turn::Fleet(scheduler::Input::Revision(revision)));
            }
            Input::Control(control::Input::RosterIsComplete) => {
                queue.push_back(Turn::Fleet(scheduler::Input::RosterIsComplete));
                queue.push_back(Turn::Control(control::Input::RosterIsComplete));
            }
            Input::Control(input) => {
                if let control::Input::Call(_, Call::Forget(lock)) = &input {
                    let may_have = self.may_have_batches(*lock);
                    let said = control::Input::MayHaveBatches(*lock, may_have);
                    queue.push_back(Turn::Control(said));
                }
                queue.push_back(Turn::Control(input));
            }
            Input::Batch(input) => {
                if let scheduler::Input::Dispatch(runs) = &input {
                    self.batches.extend(runs.iter().map(|run| run.run));
                }
                queue.push_back(Turn::Fleet(input));
            }
        }
        while let Some(turn) = queue.pop_front() {
            match turn {
                Turn::Fleet(scheduler::Input::Frame(stream, frame)) => {
                    let life = frame.incarnation;
                    let input = scheduler::Input::Frame(stream, frame);
                    self.step_fleet(now, input, &mut queue, effects);
                    queue.push_back(Turn::Look(life));
                }
                Turn::Fleet(scheduler::Input::Closed(stream)) => {
                    // Whoever was on it takes nothing until it is back.
                    let life = self.fleet.life_on(stream);
                    let input = scheduler::Input::Closed(stream);
                    self.step_fleet(now, input, &mut queue, effects);
                    queue.extend(life.map(Turn::Look));
                }
                Turn::Fleet(scheduler::Input::DeclaredDead(lock)) => {
                    // What the fleet said before it heard this is older, and must not undo it.
                    let input = scheduler::Input::DeclaredDead(lock);
                    queue.push_back(Turn::Control(control::Input::HeardDead(lock)));
                    self.step_fleet(now, input, &mut queue, effects);
                }
                Turn::Look(life) => self.look(now, life, &mut queue, effects),
                Turn::Fleet(input) => self.step_fleet(now, input, &mut queue, effects),
                Turn::Control(input) => self.step_control(now, input, &mut queue, effects),
            }
        }
        self.write_diary(now, effects);
    }

    /// Says of what is not where it should be why, as far as that is news.
    fn write_diary(&mut self, now: Now, effects: &mut Vec<Effect>) {
        self.diary.note(now.boot, self.control.take_touched());
        let due = self.diary.due(now.boot);
        if due.is_empty() {
            return;
        }
        self.control.look_again_at(&due);
        for key in due {
            let rule = self.control.rule(now, &key, |lock| self.fleet.reach(now.boot, lock));
            self.diary.found(now.boot, key, rule.as_ref());
        }
        for (key, others) in self.diary.lines(now.boot) {
            let why = self.why(now, &key);
            effects.extend(why.map(|why| Effect::Why(Box::new(Line { key, others, why }))));
        }
    }

    fn step_fleet(
        &mut self,
        now: Now,
        input: scheduler::Input,
        queue: &mut VecDeque<Turn>,
        effects: &mut Vec<Effect>,
    ) {
        let mut said = Vec::new();
        self.fleet.step(now.boot, input, &mut said);
        for news in said {
            match news {
                scheduler::Effect::Send(stream, frame) => effects.push(Effect::Send(stream, frame)),
                scheduler::Effect::Close(stream) => effects.push(Effect::Close(stream)),
                scheduler::Effect::StoreLags(mandate, revision) => {
                    effects.push(Effect::StoreLags(mandate, revision));
                }
                scheduler::Effect::Found(_, ref held) if held.key.is_in_batch() => {
                    self.batches.insert(held.run);
                    effects.push(Effect::Batch(news));
                }
                scheduler::Effect::Settled(run, _) if self.batches.remove(&run) => {
                    effects.push(Effect::Batch(news));
                }
                scheduler::Effect::Reported(ref report) if self.batches.contains(&report.run) => {
                    if report.news.is_end() {
                        // Nothing follows an end.
                        self.batches.remove(&report.run);
                    }
                    effects.push(Effect::Batch(news));
                }
                news @ (scheduler::Effect::Enroll(_)
                | scheduler::Effect::Revive(_)
                | scheduler::Effect::Strike(_)
                | scheduler::Effect::Settled(..)
                | scheduler::Effect::Found(..)
                | scheduler::Effect::Reported(_)
                | scheduler::Effect::Silent(_)
                | scheduler::Effect::Heard(_)
                | scheduler::Effect::Health(..)
                | scheduler::Effect::Facts(..)
                | scheduler::Effect::WantsDrain(..)
                | scheduler::Effect::Opened(_)
                | scheduler::Effect::Raise(_)
                | scheduler::Effect::Healed
                | scheduler::Effect::Retired(_)
                | scheduler::Effect::Alarm(..)) => {
                    queue.push_back(Turn::Control(control::Input::Fleet(news)));
                }
            }
        }
    }

    /// Whether a batch may be running on a machine: one is known, or somebody may be missing who runs one.
    fn may_have_batches(&self, lock: Lock) -> bool {
        let doors = self.fleet.doors();
        let is_node = |claim: scheduler::Claim| claim.key.is_in_batch();
        !(doors.stop_batches && doors.keep_batches) || self.fleet.held(lock).any(is_node)
    }

    /// Whether a worker takes runs changes with what it says and what it is told.
    fn look(
        &mut self,
        now: Now,
        life: Incarnation,
        queue: &mut VecDeque<Turn>,
        effects: &mut Vec<Effect>,
    ) {
        let takes = self.fleet.worker_objection(life).is_none();
        if takes != self.control.takes(life) {
            self.step_control(now, control::Input::Takes(life, takes), queue, effects);
        }
    }

    fn step_control(
        &mut self,
        now: Now,
        input: control::Input,
        queue: &mut VecDeque<Turn>,
        effects: &mut Vec<Effect>,
    ) {
        let mut said = Vec::new();
        self.control.step(now, input, &mut said);
        for effect in said {
            match effect {
                control::Effect::Fleet(input) => queue.push_back(Turn::Fleet(*input)),
                control::Effect::Answer(id, answer) => effects.push(Effect::Answer(id, answer)),
                control::Effect::Callback(callback) => effects.push(Effect::Callback(callback)),
                control::Effect::Alarm(alarm) => effects.push(Effect::Alarm(alarm)),
            }
        }
    }
}

/// Whose turn it is.
enum Turn {
    Fleet(scheduler::Input),
    Control(control::Input),
    /// Look whether this life takes runs.
    Look(Incarnation),
}
