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
//! | live | its commands; between two setup steps perhaps none |
//! | stopping | its commands, which were told to end; not to be undone |
//! | empty | nothing; its end waits to be taken note of |
//!
//! Invariant: at most one worker is heard, the one of the newest incarnation that came; what an
//! earlier one still says is dropped unread.
//!
//! Invariant: each part of a run is cloned at most once, and its command begins only before the
//! run's deadline.
//!
//! Invariant: when the main command of a run has ended, what it left is killed, whether or not a
//! worker is there.
//!
//! Invariant: nothing is kept for the next worker once the owner of this one is gone.
//!
//! Invariant: the guardian goes last: when nobody is connected and nothing is held.

mod parts;
mod runs;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use sterna_model::{
    BootTime, Incarnation, RunId, Span,
    planted::{Mistake, is_planted},
};

use self::{parts::Parts, runs::Held};
pub use self::{
    parts::{Part, Role},
    runs::{Fate, Found, OnWorkerExit, Phase, Stopping, Why},
};
use crate::container::Exit;

/// Who does not come within this after the guardian has started does not come, if it is not known
/// whether they live.
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

/// One process of a worker, drawn at random when it starts. A rebirth changes the incarnation and
/// not the process; a restart changes both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Process(u64);

impl Process {
    /// The process that drew this number.
    pub const fn new(number: u64) -> Self {
        Self(number)
    }

    /// The number that it drew.
    pub const fn get(self) -> u64 {
        self.0
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
    /// The worker that has started this guardian has ended.
    StarterGone,
    /// Whoever owns the newest worker, and ends with everything it has started, has ended. To be said
    /// anew of each worker that has come.
    OwnerGone,
    /// The part's process is there and waits for the go byte.
    Cloned(RunId, Part),
    /// There is none, for this reason, and there will not be.
    NotCloned(RunId, Part, String),
    /// The part's command has begun.
    Execed(RunId, Part),
    /// The part's process could not become its command, for this reason, and ends.
    NotExeced(RunId, Part, String),
    /// The first process of a part has ended; others may be left.
    Exited(RunId, Part, Exit),
    /// No process of a run is left. To be said whenever that becomes so, and after every
    /// [`Effect::Kill`] that finds it so.
    Empty(RunId),
}

impl Input {
    /// The run that it is about, if it says what became of one: that is kept before it is told.
    pub const fn concerned(&self) -> Option<RunId> {
        match self {
            Self::Tick
            | Self::Request(..)
            | Self::Closed(_)
            | Self::StarterGone
            | Self::OwnerGone => None,
            Self::Cloned(run, _)
            | Self::NotCloned(run, ..)
            | Self::Execed(run, _)
            | Self::NotExeced(run, ..)
            | Self::Exited(run, ..)
            | Self::Empty(run) => Some(*run),
        }
    }
}

/// What a worker asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// I am your worker now: what do you hold?
    Adopt(Incarnation, Process),
    /// Start this part of a run, once. What holds for the run is said with its first part.
    Spawn(RunId, Spawn, Part, Role),
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

/// What holds for a run.
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
    /// Say what is held, and the newest step of each that is known.
    Adopted(SocketId, Vec<(RunId, Phase, Option<Part>)>),
    /// Say what became of a run.
    Tell(SocketId, RunId, Fate),
    /// Say that all is well.
    Pong(SocketId, u64),
    /// Keep this where the next guardian finds it.
    Keep(Kept),
    /// Make the part's marker, which must not be there, and then its process, which waits.
    Clone(RunId, Part),
    /// Let the process go on to its command.
    Go(RunId, Part),
    /// End the process of this part alone: before its command, or because its time is over.
    Abort(RunId, Part),
    /// Send the stop signal to every process of a run.
    Terminate(RunId),
    /// A stop that was begun ends sooner: keep when, where the next guardian finds it.
    Hurry(RunId),
    /// Kill every process of a run.
    Kill(RunId),
    /// Let go of everything that is kept for a run.
    Release(RunId),
    /// End the guardian itself.
    Exit,
}

/// What one guardian keeps for the next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Kept {
    /// The last confirmed stamp, if it is of this boot.
    pub confirmed: Option<BootTime>,
    /// The process of the last worker.
    pub process: Option<Process>,
    /// The kill wait that a worker has said last.
    pub kill_wait: Option<Span>,
}

/// How long a guardian to which nobody has come yet waits for somebody.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Patience {
    /// Until then: it is not known whether its starter lives.
    Until(BootTime),
    /// For as long as its starter lives, which may stand still.
    WhileStarterLives,
    /// Somebody came, or nobody did.
    Over,
}

/// The guardian of one data directory.
#[derive(Clone, Debug)]
pub struct Guardian {
    patience: Patience,
    /// The newest worker that came.
    incarnation: Option<Incarnation>,
    socket: Option<SocketId>,
    /// Whether nobody is to take over what its worker leaves.
    is_ownerless: bool,
    kept: Kept,
    kill_wait: Span,
    runs: BTreeMap<RunId, Held>,
}

impl Guardian {
    /// A guardian that has just started. `kept` is what an earlier one kept in this boot, and `found`
    /// is what it left, as far as it could be read.
    pub fn new(
        now: BootTime,
        kill_wait: Span,
        kept: Kept,
        found: impl IntoIterator<Item = (RunId, Option<Found>)>,
    ) -> Self {
        let runs = found.into_iter().map(|(run, found)| (run, Held::found(now, found))).collect();
        let patience = Patience::Until(now.plus(PATIENCE));
        let kill_wait = kept.kill_wait.unwrap_or(kill_wait);
        let (incarnation, socket, is_ownerless) = (None, None, false);
        Self { patience, incarnation, socket, is_ownerless, kept, kill_wait, runs }
    }

    /// [`Input::StarterGone`] will be said: until then it waits for whoever has started it.
    #[must_use]
    pub const fn that_sees_its_starter(mut self) -> Self {
        self.patience = Patience::WhileStarterLives;
        self
    }

    /// When to call [`Guardian::step`] with [`Input::Tick`]; `None` for never.
    pub fn deadline(&self) -> Option<BootTime> {
        let runs = self.runs.values().filter_map(|held| held.due(self.kept.confirmed));
        let patience = match self.patience {
            Patience::Until(until) => Some(until),
            Patience::WhileStarterLives | Patience::Over => None,
        };
        runs.chain(patience).min()
    }

    /// Whether what this connection says is heard.
    pub fn hears(&self, socket: SocketId) -> bool {
        self.socket == Some(socket)
    }

    /// What became of a run so far, to be kept for the next guardian before anybody is told.
    pub fn fates(&self, run: RunId) -> &[Fate] {
        self.runs.get(&run).map_or(&[], Held::fates)
    }

    /// When what is left of a run is killed, if its end has begun.
    pub fn kill_at(&self, run: RunId) -> Option<BootTime> {
        self.runs.get(&run).and_then(Held::kill_at)
    }

    /// The newest part of a run that is known here, probes included: only greater ones are new.
    pub fn last(&self, run: RunId) -> Option<Part> {
        self.runs.get(&run).and_then(Held::last)
    }

    /// Takes one input at `now` and adds to `effects` what the driver must do, in order.
    ///
    /// An early or repeated tick changes nothing.
    pub fn step(&mut self, now: BootTime, input: Input, effects: &mut Vec<Effect>) {
        // Time first: nothing that arrives late undoes what was due before it.
        self.pass_time(now, effects);
        match input {
            Input::Tick => {}
            Input::Request(socket, Request::Adopt(incarnation, process)) => {
                self.adopt(now, socket, incarnation, process, effects);
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
            // Who has come since is heard, and told apart by its connection.
            Input::StarterGone => self.be_patient_no_more(now, effects),
            Input::OwnerGone => self.be_ownerless(now, effects),
            Input::Cloned(run, part) => {
                // Between clone and exec the deadline is looked at again (safety rule 3).
                let confirmed = self.kept.confirmed;
                self.with(run, effects, |held, effects| {
                    held.cloned(now, run, part, confirmed, effects);
                });
            }
            Input::NotCloned(run, part, why) | Input::NotExeced(run, part, why) => {
                self.learn(run, Fate::NotStarted(part, why), effects);
            }
            Input::Execed(run, part) => self.learn(run, Fate::Started(part), effects),
            Input::Exited(run, part, exit) => self.learn(run, Fate::Exited(part, exit), effects),
            Input::Empty(run) => self.learn(run, Fate::Empty, effects),
        }
        self.leave_last(effects);
    }

    fn pass_time(&mut self, now: BootTime, effects: &mut Vec<Effect>) {
        let (confirmed, kill_wait) = (self.kept.confirmed, self.kill_wait);
        let due: Vec<RunId> = self
            .runs
            .iter()
            .filter(|(_, held)| held.due(confirmed).is_some_and(|due| now >= due))
            .map(|(run, _)| *run)
            .collect();
        for run in due {
            self.with(run, effects, |held, effects| {
                held.pass_time(now, run, confirmed, kill_wait, effects);
            });
        }
        match self.patience {
            Patience::Until(until) if now >= until => self.be_patient_no_more(now, effects),
            Patience::Until(_) | Patience::WhileStarterLives | Patience::Over => {}
        }
    }

    /// Nobody comes any more, if nobody came.
    fn be_patient_no_more(&mut self, now: BootTime, effects: &mut Vec<Effect>) {
        match std::mem::replace(&mut self.patience, Patience::Over) {
            Patience::Until(_) | Patience::WhileStarterLives => self.be_left(now, effects),
            Patience::Over => {}
        }
    }

    /// First the past is closed, then it is said what is held (safety rule 13).
    fn adopt(
        &mut self,
        now: BootTime,
        socket: SocketId,
        incarnation: Incarnation,
        process: Process,
        effects: &mut Vec<Effect>,
    ) {
        let is_older = self.incarnation.is_some_and(|known| incarnation.life < known.life);
        if is_older {
            return effects.push(Effect::Close(socket));
        }
        if let Some(old) = self.socket.replace(socket).filter(|old| *old != socket) {
            effects.push(Effect::Close(old));
        }
        self.patience = Patience::Over;
        self.incarnation = Some(incarnation);
        self.is_ownerless = false;
        if self.kept.process != Some(process) {
            // The worker that asked for what is here is gone, whoever noticed it.
            self.be_left(now, effects);
            self.kept.process = Some(process);
            effects.push(Effect::Keep(self.kept));
        }
        let is_told = |held: &Held| {
            held.phase() != Phase::Cloning || !is_planted(Mistake::ListsOnlyTheStarted)
        };
        let held = self.runs.iter().filter(|(_, held)| is_told(held));
        let held = held.map(|(run, held)| (*run, held.phase(), held.newest())).collect();
        effects.push(Effect::Adopted(socket, held));
        for (run, held) in &self.runs {
            if is_planted(Mistake::LetsGoTwice) && held.phase() == Phase::Live {
                effects.extend(held.newest().map(|part| Effect::Go(*run, part)));
            }
            for fate in held.fates() {
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
            Request::Adopt(..) => {}
            Request::Spawn(run, spawn, part, role) => {
                let kill_wait = Some(self.kill_wait);
                let held = self.runs.entry(run).or_insert_with(|| Held::new(spawn, kill_wait));
                if self.is_ownerless {
                    held.keep_no_more();
                }
                self.with(run, effects, |held, effects| {
                    held.spawn(now, run, (part, role), effects);
                });
            }
            Request::Stop(run, grace) => {
                if let Some(held) = self.runs.get_mut(&run) {
                    held.stop(now, run, grace, effects);
                }
            }
            Request::Confirmed(stamp) => {
                if stamp <= now && self.kept.confirmed < Some(stamp) {
                    self.kept.confirmed = Some(stamp);
                    effects.push(Effect::Keep(self.kept));
                }
            }
            Request::KillWait(kill_wait) => {
                self.kill_wait = kill_wait;
                if self.kept.kill_wait != Some(kill_wait) {
                    self.kept.kill_wait = Some(kill_wait);
                    effects.push(Effect::Keep(self.kept));
                }
            }
            Request::Forget(run) => {
                if self.runs.get(&run).is_some_and(Held::is_over) {
                    self.runs.remove(&run);
                    effects.push(Effect::Release(run));
                }
            }
            Request::Ping(number) => effects.push(Effect::Pong(socket, number)),
        }
    }

    /// Nothing outlives its worker any more. As long as that is there it ends what it has by itself, with
    /// everything that belongs to it.
    fn be_ownerless(&mut self, now: BootTime, effects: &mut Vec<Effect>) {
        self.is_ownerless = true;
        self.runs.values_mut().for_each(Held::keep_no_more);
        if self.socket.is_none() {
            self.be_left(now, effects);
        }
    }

    /// The worker is gone. What is not to outlive it ends now.
    fn be_left(&mut self, now: BootTime, effects: &mut Vec<Effect>) {
        let runs: Vec<RunId> = self.runs.keys().copied().collect();
        let kill_wait = self.kill_wait;
        if is_planted(Mistake::IgnoresWorkerExit) {
            return;
        }
        for run in runs {
            self.with(run, effects, |held, effects| held.be_left(now, run, kill_wait, effects));
        }
    }

    /// Does something with a run that is held, and tells its worker what is new.
    fn with(
        &mut self,
        run: RunId,
        effects: &mut Vec<Effect>,
        act: impl FnOnce(&mut Held, &mut Vec<Effect>),
    ) {
        let Some(held) = self.runs.get_mut(&run) else { return };
        let known = held.fates().len();
        act(held, effects);
        let news: Vec<Fate> = held.fates().iter().skip(known).cloned().collect();
        let passing = held.take_passing();
        if let Some(socket) = self.socket {
            let news = passing.into_iter().chain(news);
            effects.extend(news.map(|fate| Effect::Tell(socket, run, fate)));
        }
    }

    fn learn(&mut self, run: RunId, fate: Fate, effects: &mut Vec<Effect>) {
        self.with(run, effects, |held, effects| held.learn(run, fate, effects));
    }

    fn leave_last(&self, effects: &mut Vec<Effect>) {
        let is_left = self.socket.is_none() && self.patience == Patience::Over;
        if is_left && self.runs.values().all(Held::is_over) {
            effects.push(Effect::Exit);
        }
    }
}
