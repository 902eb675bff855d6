//! The guardian's decisions: it parents every container and holds every deadline (safety rules 12
//! to 15).
//!
//! ```text
//!   worker ── Adopt, Spawn, Stop, Confirmed, Ping ──▶ guardian ── clone, go, TERM, KILL ──▶ containers
//!          ◀─ what it holds, what became of it ───────┘   │
//!                                                 the last confirmed stamp, on the disk
//! ```
//!
//! | a run is | what is there |
//! | --- | --- |
//! | cloning | its marker; a process that waits for the go byte, or will |
//! | live | its command |
//! | stopping | its command, which was told to end; not to be undone |
//! | empty | nothing; its end waits to be taken note of |
//!
//! Invariant: at most one worker is heard, the one of the newest incarnation that came; what an
//! earlier one still says is dropped unread.
//!
//! Invariant: a run id is cloned at most once, and its command begins only before its deadline.
//!
//! Invariant: the guardian goes last: when nobody is connected and nothing is held.

mod runs;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, btree_map::Entry};

use sterna_model::{BootTime, Incarnation, RunId, Span};

use self::runs::Held;
pub use self::runs::{Fate, OnWorkerExit, Phase};
use crate::container::Exit;

/// Who does not come within this after the guardian has started does not come.
const PATIENCE: Span = Span::from_secs(10);

/// One connection of a worker. Later ones are greater.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SocketId(u64);

impl SocketId {
    /// The connection with this number.
    pub const fn new(number: u64) -> Self {
        Self(number)
    }
}

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// The moment of [`Guardian::deadline`] came.
    Tick,
    /// A worker says something.
    Request(SocketId, Request),
    /// A worker's connection is gone.
    Closed(SocketId),
    /// The run's process is there and waits for the go byte.
    Cloned(RunId),
    /// There is none, for this reason, and there will not be.
    NotCloned(RunId, String),
    /// The first process of a run has ended; others may be left.
    Exited(RunId, Exit),
    /// No process of a run is left.
    Empty(RunId),
}

/// What a worker asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// I am your worker now: what do you hold?
    Adopt(Incarnation),
    /// Start this, once.
    Spawn(RunId, Spawn),
    /// End this: its signal now, KILL after so long.
    Stop(RunId, Span),
    /// The heartbeat with this stamp was confirmed: deadlines count from it.
    Confirmed(BootTime),
    /// Use this kill wait at deadlines.
    KillWait(Span),
    /// I have noted the end of this run.
    Forget(RunId),
    /// Are you well?
    Ping(u64),
}

/// What is started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spawn {
    /// How long after the last confirmed stamp it begins to be stopped; `None` for never.
    pub stop_after: Option<Span>,
    /// What becomes of it when its worker is gone.
    pub on_worker_exit: OnWorkerExit,
}

/// Something that the driver must do, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// End a connection, and drop what was not read from it.
    Close(SocketId),
    /// Say what is held.
    Adopted(SocketId, Vec<(RunId, Phase)>),
    /// Say what became of a run.
    Tell(SocketId, RunId, Fate),
    /// Say that all is well.
    Pong(SocketId, u64),
    /// Keep this stamp where the next guardian finds it.
    Keep(BootTime),
    /// Make the run's marker, which must not be there, and then its process, which waits.
    Clone(RunId),
    /// Let the process go on to its command.
    Go(RunId),
    /// Let the process end without its command.
    Abort(RunId),
    /// Send the stop signal to every process of a run.
    Terminate(RunId),
    /// Kill every process of a run.
    Kill(RunId),
    /// End the guardian itself.
    Exit,
}

/// The guardian of one data directory.
#[derive(Clone, Debug)]
pub struct Guardian {
    started: BootTime,
    /// The newest worker that came.
    incarnation: Option<Incarnation>,
    socket: Option<SocketId>,
    confirmed: Option<BootTime>,
    kill_wait: Span,
    runs: BTreeMap<RunId, Held>,
}

impl Guardian {
    /// A guardian that has just started. `confirmed` is what an earlier one kept in this boot, and
    /// `found` is what it left, with the deadline of each as far as it could be read.
    pub fn new(
        now: BootTime,
        kill_wait: Span,
        confirmed: Option<BootTime>,
        found: impl IntoIterator<Item = (RunId, Option<Spawn>)>,
    ) -> Self {
        let runs = found.into_iter().map(|(run, spawn)| (run, Held::found(now, spawn))).collect();
        Self { started: now, incarnation: None, socket: None, confirmed, kill_wait, runs }
    }

    /// When to call [`Guardian::step`] with [`Input::Tick`]; `None` for never.
    pub fn deadline(&self) -> Option<BootTime> {
        let runs = self.runs.values().filter_map(|held| held.due(self.confirmed));
        let patience = self.incarnation.is_none().then(|| self.started.plus(PATIENCE));
        runs.chain(patience).min()
    }

    /// Takes one input at `now` and adds to `effects` what the driver must do, in order.
    ///
    /// An early or repeated tick changes nothing.
    pub fn step(&mut self, now: BootTime, input: Input, effects: &mut Vec<Effect>) {
        // Time first: nothing that arrives late undoes what was due before it.
        self.pass_time(now, effects);
        match input {
            Input::Tick => {}
            Input::Request(socket, Request::Adopt(incarnation)) => {
                self.adopt(socket, incarnation, effects);
            }
            Input::Request(socket, request) => {
                if self.socket == Some(socket) {
                    self.serve(now, socket, request, effects);
                }
            }
            Input::Closed(socket) => {
                if self.socket == Some(socket) {
                    self.socket = None;
                    self.be_left(now, effects);
                }
            }
            Input::Cloned(run) => self.cloned(now, run, effects),
            Input::NotCloned(run, why) => self.fated(run, Fate::NotStarted(why), effects),
            Input::Exited(run, exit) => self.fated(run, Fate::Exited(exit), effects),
            Input::Empty(run) => self.fated(run, Fate::Empty, effects),
        }
        self.leave_last(now, effects);
    }

    fn pass_time(&mut self, now: BootTime, effects: &mut Vec<Effect>) {
        let (confirmed, kill_wait) = (self.confirmed, self.kill_wait);
        for (run, held) in &mut self.runs {
            held.pass_time(now, *run, confirmed, kill_wait, effects);
        }
    }

    /// First the past is closed, then it is said what is held (safety rule 13).
    fn adopt(&mut self, socket: SocketId, incarnation: Incarnation, effects: &mut Vec<Effect>) {
        let is_older = self.incarnation.is_some_and(|known| incarnation.life < known.life);
        if is_older {
            return effects.push(Effect::Close(socket));
        }
        if let Some(old) = self.socket.replace(socket).filter(|old| *old != socket) {
            effects.push(Effect::Close(old));
        }
        self.incarnation = Some(incarnation);
        let held = self.runs.iter().map(|(run, held)| (*run, held.phase())).collect();
        effects.push(Effect::Adopted(socket, held));
        for (run, held) in &self.runs {
            for fate in held.untold() {
                effects.push(Effect::Tell(socket, *run, fate.clone()));
            }
        }
    }

    fn serve(
        &mut self,
        now: BootTime,
        socket: SocketId,
        request: Request,
        effects: &mut Vec<Effect>,
    ) {
        match request {
            Request::Adopt(_) => {}
            Request::Spawn(run, spawn) => {
                // A run that is known is never begun again.
                if let Entry::Vacant(place) = self.runs.entry(run) {
                    place.insert(Held::new(spawn));
                    effects.push(Effect::Clone(run));
                }
            }
            Request::Stop(run, grace) => {
                if let Some(held) = self.runs.get_mut(&run) {
                    held.stop(now, run, grace, effects);
                }
            }
            Request::Confirmed(stamp) => {
                if stamp <= now && self.confirmed < Some(stamp) {
                    self.confirmed = Some(stamp);
                    effects.push(Effect::Keep(stamp));
                }
            }
            Request::KillWait(kill_wait) => self.kill_wait = kill_wait,
            Request::Forget(run) => {
                if self.runs.get(&run).is_some_and(Held::is_over) {
                    self.runs.remove(&run);
                }
            }
            Request::Ping(number) => effects.push(Effect::Pong(socket, number)),
        }
    }

    /// The worker is gone. What is not to outlive it ends now.
    fn be_left(&mut self, now: BootTime, effects: &mut Vec<Effect>) {
        let kill_wait = self.kill_wait;
        for (run, held) in &mut self.runs {
            match held.on_worker_exit() {
                OnWorkerExit::Stop => held.stop(now, *run, kill_wait, effects),
                OnWorkerExit::Keep => {}
            }
        }
    }

    /// Between clone and exec the deadline is looked at again (safety rule 3).
    fn cloned(&mut self, now: BootTime, run: RunId, effects: &mut Vec<Effect>) {
        let confirmed = self.confirmed;
        if let Some(held) = self.runs.get_mut(&run) {
            held.cloned(now, run, confirmed, effects);
        }
    }

    fn fated(&mut self, run: RunId, fate: Fate, effects: &mut Vec<Effect>) {
        let Some(held) = self.runs.get_mut(&run) else { return };
        if held.learn(&fate)
            && let Some(socket) = self.socket
        {
            effects.push(Effect::Tell(socket, run, fate));
        }
    }

    fn leave_last(&self, now: BootTime, effects: &mut Vec<Effect>) {
        let is_left = match self.incarnation {
            Some(_) => self.socket.is_none(),
            None => now >= self.started.plus(PATIENCE),
        };
        if is_left && self.runs.values().all(Held::is_over) {
            effects.push(Effect::Exit);
        }
    }
}
