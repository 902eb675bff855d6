//! One run, as its guardian holds it.

use sterna_model::{BootTime, RunId, Span};

use super::{Effect, Spawn};
use crate::container::Exit;

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
    /// Its process is being made, or waits for the go byte.
    Cloning,
    /// Its command runs.
    Live,
    /// Its command was told to end.
    Stopping,
    /// Nothing of it is left.
    Empty,
}

/// What a worker is told of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fate {
    /// Its command runs.
    Started,
    /// It never ran, for this reason.
    NotStarted(String),
    /// Its first process has ended.
    Exited(Exit),
    /// Nothing of it is left.
    Empty,
}

#[derive(Clone, Debug)]
pub(super) struct Held {
    phase: Phase,
    spawn: Spawn,
    kill_at: Option<BootTime>,
    was_killed: bool,
    /// What a worker must have heard, in order.
    fates: Vec<Fate>,
}

impl Held {
    pub(super) const fn new(spawn: Spawn) -> Self {
        let phase = Phase::Cloning;
        Self { phase, spawn, kill_at: None, was_killed: false, fates: Vec::new() }
    }

    /// What an earlier guardian has left. One whose deadline cannot be read ends at once (safety
    /// rule 14).
    pub(super) fn found(now: BootTime, spawn: Option<Spawn>) -> Self {
        let unknown = Spawn { stop_after: Some(Span::ZERO), on_worker_exit: OnWorkerExit::Stop };
        Self {
            phase: Phase::Live,
            kill_at: spawn.is_none().then_some(now),
            ..Self::new(spawn.unwrap_or(unknown))
        }
    }

    pub(super) const fn phase(&self) -> Phase {
        self.phase
    }

    pub(super) const fn on_worker_exit(&self) -> OnWorkerExit {
        self.spawn.on_worker_exit
    }

    pub(super) const fn is_over(&self) -> bool {
        matches!(self.phase, Phase::Empty)
    }

    pub(super) fn untold(&self) -> impl Iterator<Item = &Fate> {
        self.fates.iter()
    }

    /// When it must begin to stop.
    fn stop_at(&self, confirmed: Option<BootTime>) -> Option<BootTime> {
        let after = self.spawn.stop_after?;
        Some(confirmed.map_or(BootTime::from_millis(0), |confirmed| confirmed.plus(after)))
    }

    /// When something is due for it.
    pub(super) fn due(&self, confirmed: Option<BootTime>) -> Option<BootTime> {
        let kill = self.kill_at.filter(|_| !self.was_killed);
        match self.phase {
            Phase::Live => self.stop_at(confirmed).into_iter().chain(kill).min(),
            Phase::Stopping => kill,
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
        match self.phase {
            Phase::Live if self.stop_at(confirmed).is_some_and(|stop| now >= stop) => {
                self.stop(now, run, kill_wait, effects);
            }
            Phase::Live | Phase::Stopping => self.kill_due(now, run, effects),
            Phase::Cloning | Phase::Empty => {}
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
        self.kill_at = Some(self.kill_at.map_or(kill_at, |before| before.min(kill_at)));
        match self.phase {
            Phase::Live => {
                self.phase = Phase::Stopping;
                if grace > Span::ZERO {
                    effects.push(Effect::Terminate(run));
                }
                self.kill_due(now, run, effects);
            }
            Phase::Stopping => self.kill_due(now, run, effects),
            // It will not be let go when its process is there.
            Phase::Cloning | Phase::Empty => {}
        }
    }

    fn kill_due(&mut self, now: BootTime, run: RunId, effects: &mut Vec<Effect>) {
        if !self.was_killed && self.kill_at.is_some_and(|at| now >= at) {
            self.was_killed = true;
            self.phase = Phase::Stopping;
            effects.push(Effect::Kill(run));
        }
    }

    pub(super) fn cloned(
        &mut self,
        now: BootTime,
        run: RunId,
        confirmed: Option<BootTime>,
        effects: &mut Vec<Effect>,
    ) {
        match self.phase {
            Phase::Cloning => {}
            Phase::Live | Phase::Stopping | Phase::Empty => return,
        }
        let is_late = self.stop_at(confirmed).is_some_and(|stop| now >= stop);
        if self.kill_at.is_some() || is_late {
            // Its end is reported when its process is gone, like any other.
            self.phase = Phase::Stopping;
            self.was_killed = true;
            effects.push(Effect::Abort(run));
        } else {
            self.phase = Phase::Live;
            self.fates.push(Fate::Started);
            effects.push(Effect::Go(run));
        }
    }

    /// Notes what became of it; gives whether that is news.
    pub(super) fn learn(&mut self, fate: &Fate) -> bool {
        let is_news = match (&self.phase, fate) {
            (Phase::Cloning, Fate::NotStarted(_))
            | (Phase::Cloning | Phase::Live | Phase::Stopping, Fate::Exited(_) | Fate::Empty) => {
                true
            }
            (Phase::Live | Phase::Stopping | Phase::Empty, Fate::NotStarted(_))
            | (Phase::Cloning | Phase::Live | Phase::Stopping | Phase::Empty, Fate::Started)
            | (Phase::Empty, Fate::Exited(_) | Fate::Empty) => false,
        };
        if is_news {
            self.fates.push(fate.clone());
            match fate {
                Fate::NotStarted(_) | Fate::Empty => self.phase = Phase::Empty,
                Fate::Started | Fate::Exited(_) => {}
            }
        }
        is_news
    }
}
