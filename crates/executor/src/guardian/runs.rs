//! One run, as its guardian holds it.

use sterna_model::{
    BootTime, RunId, Span,
    planted::{Mistake, is_planted},
};

use super::{Effect, Part, Parts, Role, Spawn, parts::Progress};
use crate::container::Exit;

/// What is asked for first.
const FIRST: Part = Part::new(0);

/// What becomes of a run when its worker is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnWorkerExit {
    /// It ends, within the kill wait.
    Stop,
    /// It goes on to its own deadline, for the next worker.
    Keep,
}

/// How far a run has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Its first process is being made, or waits for the go byte.
    Cloning,
    /// Its commands run.
    Live,
    /// Its commands were told to end.
    Stopping,
    /// Nothing of it is left.
    Empty,
}

/// What a worker is told of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fate {
    /// A command has begun.
    Started(Part),
    /// A command never began, for this reason.
    NotStarted(Part, String),
    /// It is being stopped, though nobody asked for it.
    Stopping(Why),
    /// The first process of a command has ended.
    Exited(Part, Exit),
    /// Nothing of the run is left.
    Empty,
}

/// Why a guardian stops a run by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// Its deadline has passed.
    Deadline,
    /// Its worker is gone.
    WorkerGone,
}

/// A stop that an earlier guardian has begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stopping {
    /// When what is left is killed, if that was kept; at once if it was not.
    pub kill_at: Option<BootTime>,
}

/// What an earlier guardian has left of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// It may have processes.
    Live {
        /// What holds for it.
        spawn: Spawn,
        /// Its end, if that had begun.
        stopping: Option<Stopping>,
        /// The newest part that was no probe, if any was let go.
        part: Option<(Part, Role)>,
        /// What had become of it, as far as it was kept: not that a command had begun.
        fates: Vec<Fate>,
    },
    /// Nothing was left, and this is what became of it.
    Over(Vec<Fate>),
}

#[derive(Clone, Debug)]
pub(super) struct Held {
    phase: Phase,
    spawn: Spawn,
    parts: Parts,
    /// The kill wait when it was begun, which its `stop_after` was counted with; not known of one that
    /// an earlier guardian began.
    kill_wait: Option<Span>,
    kill_at: Option<BootTime>,
    /// Whether its deadline came while it was being stopped already.
    is_hurried: bool,
    was_killed: bool,
    /// What a worker must have heard, in order.
    fates: Vec<Fate>,
    /// What became of probes: only whoever is there now hears it.
    passing: Vec<Fate>,
}

impl Held {
    pub(super) fn new(spawn: Spawn, kill_wait: Option<Span>) -> Self {
        Self {
            phase: Phase::Cloning,
            spawn,
            parts: Parts::default(),
            kill_wait,
            kill_at: None,
            is_hurried: false,
            was_killed: false,
            fates: Vec::new(),
            passing: Vec::new(),
        }
    }

    /// What an earlier guardian has left. What cannot be read ends at once (safety rule 14).
    pub(super) fn found(now: BootTime, found: Option<Found>) -> Self {
        let unknown = Spawn { stop_after: Some(Span::ZERO), on_worker_exit: OnWorkerExit::Stop };
        match found {
            None => Self { phase: Phase::Live, kill_at: Some(now), ..Self::new(unknown, None) },
            Some(Found::Over(fates)) => {
                Self { phase: Phase::Empty, fates, ..Self::new(unknown, None) }
            }
            Some(Found::Live { spawn, stopping, part, fates }) => {
                let mut held = Self { phase: Phase::Live, ..Self::new(spawn, None) };
                if let Some(stopping) = stopping.filter(|_| !is_planted(Mistake::ForgetsStops)) {
                    // It was asked to end, and has what is left of its grace.
                    held.phase = Phase::Stopping;
                    held.kill_at = Some(stopping.kill_at.unwrap_or(now));
                }
                held.remember(now, part, fates);
                held
            }
        }
    }

    /// Takes in what was kept of it.
    fn remember(&mut self, now: BootTime, newest: Option<(Part, Role)>, fates: Vec<Fate>) {
        let Some((newest, role)) = newest else {
            // What was never let go has ended by itself: that it was is kept before.
            self.parts.insert(now, FIRST, Role::Setup, Progress::Over);
            self.fates = fates;
            let why = "its guardian was killed before it began".to_owned();
            self.fates.push(Fate::NotStarted(FIRST, why));
            self.kill_at = Some(now);
            return;
        };
        let mut is_over = false;
        for fate in fates {
            match &fate {
                Fate::Exited(part, _) => {
                    self.fates.push(Fate::Started(*part));
                    is_over |= *part == newest;
                }
                Fate::NotStarted(part, _) => is_over |= *part == newest,
                Fate::Started(_) | Fate::Stopping(_) | Fate::Empty => {}
            }
            self.fates.push(fate);
        }
        let progress = if is_over { Progress::Over } else { Progress::Going };
        self.parts.insert(now, newest, role, progress);
        match (role, is_over) {
            (Role::Setup | Role::Main | Role::Probe(_), false) => {
                self.fates.push(Fate::Started(newest));
            }
            // What the work has left goes, too.
            (Role::Main, true) => self.kill_at = Some(now),
            (Role::Setup | Role::Probe(_), true) => {}
        }
    }

    /// When what is left of it is killed, if its end has begun.
    pub(super) const fn kill_at(&self) -> Option<BootTime> {
        self.kill_at
    }

    pub(super) const fn phase(&self) -> Phase {
        self.phase
    }

    /// The newest of its steps that was asked for here, or found.
    pub(super) fn newest(&self) -> Option<Part> {
        self.parts.newest()
    }

    /// The newest of its parts, probes included.
    pub(super) fn last(&self) -> Option<Part> {
        self.parts.last()
    }

    pub(super) const fn is_over(&self) -> bool {
        matches!(self.phase, Phase::Empty)
    }

    pub(super) fn fates(&self) -> &[Fate] {
        &self.fates
    }

    pub(super) fn take_passing(&mut self) -> Vec<Fate> {
        std::mem::take(&mut self.passing)
    }

    fn note(&mut self, role: Role, fate: Fate) {
        match role {
            Role::Setup | Role::Main => self.fates.push(fate),
            Role::Probe(_) => self.passing.push(fate),
        }
    }

    /// When it must begin to stop.
    fn stop_at(&self, confirmed: Option<BootTime>) -> Option<BootTime> {
        let after = self.spawn.stop_after.filter(|_| !is_planted(Mistake::KeepsNoDeadline))?;
        Some(confirmed.map_or(BootTime::from_millis(0), |confirmed| confirmed.plus(after)))
    }

    /// When something is due for it.
    pub(super) fn due(&self, confirmed: Option<BootTime>) -> Option<BootTime> {
        let kill = self.kill_at.filter(|_| !self.was_killed);
        match self.phase {
            Phase::Live => {
                self.stop_at(confirmed).into_iter().chain(kill).chain(self.parts.due()).min()
            }
            Phase::Stopping => {
                let stop = self.stop_at(confirmed).filter(|_| !self.is_hurried && !self.was_killed);
                kill.into_iter().chain(stop).min()
            }
            // Whether it may begin is asked when it is there.
            Phase::Cloning | Phase::Empty => None,
        }
    }

    pub(super) fn pass_time(
        &mut self,
        now: BootTime,
        run: RunId,
        confirmed: Option<BootTime>,
        kill_wait: Span,
        effects: &mut Vec<Effect>,
    ) {
        for part in self.parts.take_late(now) {
            effects.push(Effect::Abort(run, part));
        }
        let due = self.stop_at(confirmed).filter(|stop| now >= *stop);
        // Who was asleep gives no more time than is left; and a kill wait that was raised since gives
        // none beyond what its leader counts with.
        let kill_wait = self.kill_wait.map_or(kill_wait, |begun| begun.min(kill_wait));
        let left = due.map(|stop| stop.plus(kill_wait).since(now));
        match (self.phase, left) {
            (Phase::Live, Some(left)) => {
                self.fates.push(Fate::Stopping(Why::Deadline));
                self.is_hurried = true;
                self.stop(now, run, left, effects);
            }
            // However long somebody gave it, its deadline gives it the kill wait (safety rule 8).
            (Phase::Stopping, Some(left)) => {
                self.is_hurried = true;
                self.stop(now, run, left, effects);
            }
            (Phase::Live | Phase::Stopping, None) => self.kill_due(now, run, effects),
            (Phase::Cloning | Phase::Empty, Some(_) | None) => {}
        }
    }

    /// Begins a part, if it is new and the run goes on.
    pub(super) fn spawn(
        &mut self,
        now: BootTime,
        run: RunId,
        (part, role): (Part, Role),
        effects: &mut Vec<Effect>,
    ) {
        match self.phase {
            // A part that is known is never begun again.
            Phase::Cloning | Phase::Live => {
                if self.parts.insert(now, part, role, Progress::Cloning) {
                    effects.push(Effect::Clone(run, part));
                }
            }
            Phase::Stopping | Phase::Empty => {
                if self.parts.insert(now, part, role, Progress::Over) {
                    let why = "the run was being stopped already".to_owned();
                    self.note(role, Fate::NotStarted(part, why));
                }
            }
        }
    }

    /// Its worker is gone.
    /// There is no next worker that could take it over.
    pub(super) const fn keep_no_more(&mut self) {
        self.spawn.on_worker_exit = OnWorkerExit::Stop;
    }

    pub(super) fn be_left(
        &mut self,
        now: BootTime,
        run: RunId,
        kill_wait: Span,
        effects: &mut Vec<Effect>,
    ) {
        match (self.spawn.on_worker_exit, self.phase) {
            (OnWorkerExit::Stop, Phase::Cloning | Phase::Live) => {
                self.fates.push(Fate::Stopping(Why::WorkerGone));
                self.stop(now, run, kill_wait, effects);
            }
            (OnWorkerExit::Stop, Phase::Stopping) => self.stop(now, run, kill_wait, effects),
            (OnWorkerExit::Stop, Phase::Empty)
            | (OnWorkerExit::Keep, Phase::Cloning | Phase::Live | Phase::Stopping | Phase::Empty) =>
                {}
        }
    }

    /// Begins to stop it, or hurries a stop that was begun.
    pub(super) fn stop(
        &mut self,
        now: BootTime,
        run: RunId,
        grace: Span,
        effects: &mut Vec<Effect>,
    ) {
        let kill_at = now.plus(grace);
        let is_sooner = self.kill_at.is_none_or(|before| kill_at < before);
        if is_sooner {
            self.kill_at = Some(kill_at);
        }
        match self.phase {
            Phase::Live => {
                self.phase = Phase::Stopping;
                if grace > Span::ZERO {
                    effects.push(Effect::Terminate(run));
                }
                self.kill_due(now, run, effects);
            }
            Phase::Stopping => {
                if is_sooner && grace > Span::ZERO && !self.was_killed {
                    effects.push(Effect::Hurry(run));
                }
                self.kill_due(now, run, effects);
            }
            // It will not be let go when its process is there.
            Phase::Cloning | Phase::Empty => {}
        }
    }

    fn kill_due(&mut self, now: BootTime, run: RunId, effects: &mut Vec<Effect>) {
        if !self.was_killed && self.kill_at.is_some_and(|at| now >= at) {
            self.kill(run, effects);
        }
    }

    fn kill(&mut self, run: RunId, effects: &mut Vec<Effect>) {
        self.was_killed = true;
        self.phase = Phase::Stopping;
        effects.push(Effect::Kill(run));
    }

    pub(super) fn cloned(
        &mut self,
        now: BootTime,
        run: RunId,
        part: Part,
        confirmed: Option<BootTime>,
        effects: &mut Vec<Effect>,
    ) {
        let role = match self.parts.get(part) {
            Some((role, Progress::Cloning)) => role,
            Some((_, Progress::Going | Progress::Over)) | None => return,
        };
        let is_late = self.stop_at(confirmed).is_some_and(|stop| now >= stop);
        if self.kill_at.is_some() || self.was_killed || is_late {
            self.parts.advance(part, Progress::Over);
            // Its end is reported when its process is gone, like any other.
            let why = if is_late { "its deadline had passed" } else { "it was stopped" };
            let why = format!("{why} before its command began");
            self.note(role, Fate::NotStarted(part, why));
            effects.push(Effect::Abort(run, part));
            self.kill(run, effects);
        } else {
            self.parts.advance(part, Progress::Going);
            self.phase = Phase::Live;
            effects.push(Effect::Go(run, part));
        }
    }

    /// Notes what became of it, and does what follows.
    pub(super) fn learn(&mut self, run: RunId, fate: Fate, effects: &mut Vec<Effect>) {
        match self.phase {
            Phase::Cloning | Phase::Live | Phase::Stopping => {}
            Phase::Empty => return,
        }
        match &fate {
            Fate::Started(part) => {
                if let Some((role, _)) = self.parts.get(*part) {
                    self.note(role, fate);
                }
            }
            Fate::NotStarted(part, _) | Fate::Exited(part, _) => {
                let Some((role, progress)) = self.parts.get(*part) else { return };
                let part = *part;
                match progress {
                    // Said once: a process that never became its command has no end of its own.
                    Progress::Over => return,
                    Progress::Cloning | Progress::Going => self.note(role, fate),
                }
                self.parts.advance(part, Progress::Over);
                self.follow(run, role, effects);
            }
            Fate::Stopping(_) => {}
            Fate::Empty => self.empty(),
        }
    }

    /// A part is over.
    fn follow(&mut self, run: RunId, role: Role, effects: &mut Vec<Effect>) {
        match (role, self.phase) {
            // Nothing was ever let go, so nothing is left.
            (Role::Setup | Role::Main | Role::Probe(_), Phase::Cloning) => {
                self.phase = Phase::Empty;
                self.fates.push(Fate::Empty);
            }
            // What the work has left behind goes too.
            (Role::Main, Phase::Live | Phase::Stopping) => self.kill(run, effects),
            (Role::Setup | Role::Probe(_), Phase::Live | Phase::Stopping)
            | (Role::Setup | Role::Main | Role::Probe(_), Phase::Empty) => {}
        }
    }

    /// Between two setup steps it may be empty and go on.
    fn empty(&mut self) {
        let is_over = match self.phase {
            Phase::Stopping => true,
            Phase::Live => self.parts.is_main_over(),
            Phase::Cloning | Phase::Empty => false,
        };
        if is_over {
            self.phase = Phase::Empty;
            self.fates.push(Fate::Empty);
        }
    }
}
