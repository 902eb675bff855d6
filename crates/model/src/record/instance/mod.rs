//! The record of one index of a service.
//!
//! It has two slots for runs: the place that its state speaks of, and the twin's. A run leaves its
//! slot only when it is certainly gone, and nothing starts without a free place (safety rule 22).

use std::{fmt, sync::Arc};

use super::{Crash, CrashPolicy, Crashes, Illegal, Past, PastCrash, Placed, TaskEnd};
use crate::{
    RunId, WallTime, Wants,
    payload::Progress,
    planted::{Mistake, is_planted},
};

/// Where an instance is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum InstancePhase {
    /// It waits for a worker.
    Unclaimed,
    /// A worker was given it, and starts it.
    Claimed,
    /// It runs.
    Running,
    /// It crashed, and waits before it begins again.
    Crashed,
}

/// What may happen to an instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum InstanceEvent {
    /// It is given to a worker.
    Claim,
    /// Its worker says that it runs.
    Start,
    /// It ended, and nobody had asked for that.
    Crash,
    /// Its run is certainly gone, and that was no crash.
    Vacate,
    /// Its run goes on beside it, as the twin.
    Displace,
    /// It has waited long enough after a crash.
    Restart,
    /// Its twin takes its place.
    Promote,
    /// Its worker is silent, and it changes places with its twin.
    Yield,
    /// A worker was found to have it, and nobody else has.
    Adopt,
    /// Its record is to go.
    Retire,
}

impl InstancePhase {
    /// All of them, in their order.
    pub const ALL: [Self; 4] = [Self::Unclaimed, Self::Claimed, Self::Running, Self::Crashed];

    /// The word for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Unclaimed => "unclaimed",
            Self::Claimed => "claimed",
            Self::Running => "running",
            Self::Crashed => "crashed",
        }
    }
}

impl fmt::Display for InstancePhase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl InstanceEvent {
    /// All of them, in their order.
    pub const ALL: [Self; 10] = [
        Self::Claim,
        Self::Start,
        Self::Crash,
        Self::Vacate,
        Self::Displace,
        Self::Restart,
        Self::Promote,
        Self::Yield,
        Self::Adopt,
        Self::Retire,
    ];

    /// The word for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Claim => "claim",
            Self::Start => "start",
            Self::Crash => "crash",
            Self::Vacate => "vacate",
            Self::Displace => "displace",
            Self::Restart => "restart",
            Self::Promote => "promote",
            Self::Yield => "yield",
            Self::Adopt => "adopt",
            Self::Retire => "retire",
        }
    }
}

/// What follows: one of some phases, nothing any more, or a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InstanceAfter {
    /// It is in this phase.
    In(InstancePhase),
    /// It begins again at once or waits, as its policy has it.
    UnclaimedOrCrashed,
    /// It is as far as its twin was.
    AsTheTwin,
    /// Its record goes.
    Gone,
    /// That cannot happen to it.
    Refused,
}

/// The table of instances. Every pair is written out.
#[rustfmt::skip]
pub const fn instance_after(phase: InstancePhase, event: InstanceEvent) -> InstanceAfter {
    use InstanceAfter::{AsTheTwin, Gone, In, Refused, UnclaimedOrCrashed};
    use InstanceEvent as E;
    use InstancePhase as P;
    match (phase, event) {
        (P::Unclaimed, E::Claim)    => In(P::Claimed),
        (P::Unclaimed, E::Start)    => Refused,
        (P::Unclaimed, E::Crash)    => Refused,
        (P::Unclaimed, E::Vacate)   => Refused,
        (P::Unclaimed, E::Displace) => Refused,
        (P::Unclaimed, E::Restart)  => Refused,
        (P::Unclaimed, E::Promote)  => AsTheTwin,
        (P::Unclaimed, E::Yield)    => Refused,
        (P::Unclaimed, E::Adopt)    => In(P::Running),
        (P::Unclaimed, E::Retire)   => Gone,
        (P::Claimed,   E::Claim)    => Refused,
        (P::Claimed,   E::Start)    => In(P::Running),
        (P::Claimed,   E::Crash)    => UnclaimedOrCrashed,
        (P::Claimed,   E::Vacate)   => In(P::Unclaimed),
        (P::Claimed,   E::Displace) => In(P::Unclaimed),
        (P::Claimed,   E::Restart)  => Refused,
        // What runs wins over what is only starting; that one becomes the twin, and is ended.
        (P::Claimed,   E::Promote)  => AsTheTwin,
        (P::Claimed,   E::Yield)    => AsTheTwin,
        (P::Claimed,   E::Adopt)    => Refused,
        (P::Claimed,   E::Retire)   => Refused,
        (P::Running,   E::Claim)    => Refused,
        (P::Running,   E::Start)    => Refused,
        (P::Running,   E::Crash)    => UnclaimedOrCrashed,
        (P::Running,   E::Vacate)   => In(P::Unclaimed),
        (P::Running,   E::Displace) => In(P::Unclaimed),
        (P::Running,   E::Restart)  => Refused,
        (P::Running,   E::Promote)  => Refused,
        // Its worker is silent, and the twin's is heard: the index goes on where somebody answers.
        (P::Running,   E::Yield)    => AsTheTwin,
        (P::Running,   E::Adopt)    => Refused,
        (P::Running,   E::Retire)   => Refused,
        (P::Crashed,   E::Claim)    => Refused,
        (P::Crashed,   E::Start)    => Refused,
        (P::Crashed,   E::Crash)    => Refused,
        (P::Crashed,   E::Vacate)   => Refused,
        (P::Crashed,   E::Displace) => Refused,
        (P::Crashed,   E::Restart)  => In(P::Unclaimed),
        (P::Crashed,   E::Promote)  => AsTheTwin,
        (P::Crashed,   E::Yield)    => Refused,
        (P::Crashed,   E::Adopt)    => In(P::Running),
        (P::Crashed,   E::Retire)   => Gone,
    }
}

/// One run of an instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InstanceCopy {
    /// The run, and who has it.
    pub placed: Placed,
    /// Of which version of the spec.
    pub version: u64,
    /// What it takes on its worker, as long as it is there: its spec may be another by then, or gone.
    pub wants: Arc<Wants>,
    /// Why it is being ended, if it is.
    pub stopping: Option<StopReason>,
    /// What its worker said of it last, in the worker's words: where it takes requests, and whether.
    pub told: Option<Arc<[u8]>>,
}

impl InstanceCopy {
    /// Whether a copy that runs takes requests by its worker's last word.
    pub fn is_ready(&self) -> bool {
        self.told.as_deref().is_none_or(Progress::is_ready_in)
    }
}

/// Why a copy is being ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum StopReason {
    /// The spec no longer wants its index.
    Unwanted,
    /// Somebody asked for it; it begins again.
    Asked,
    /// The spec has another version.
    Update,
    /// Another copy has its place.
    Elsewhere,
    /// Its worker is being drained.
    Drain,
}

/// A second copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Twin {
    /// The copy.
    pub copy: InstanceCopy,
    /// What it does there.
    pub reason: TwinReason,
    /// Since when it has been RUNNING; `None` if it was only starting.
    pub running_since: Option<WallTime>,
}

/// What a twin does beside its instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TwinReason {
    /// Its worker is silent: it may run or not.
    Silent,
    /// Its worker is drained: it runs until another copy does.
    Evacuating,
    /// It lost its place to another copy, and is being ended.
    Surplus,
}

/// What an instance is doing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InstanceState {
    /// It waits for a worker.
    Unclaimed {
        /// Since when.
        since: WallTime,
    },
    /// A worker starts it.
    Claimed {
        /// The copy.
        copy: InstanceCopy,
        /// Since when.
        since: WallTime,
    },
    /// It runs.
    Running {
        /// The copy.
        copy: InstanceCopy,
        /// Since it is RUNNING: nothing but that moves this (see [`CrashPolicy`]).
        since: WallTime,
    },
    /// It crashed.
    Crashed {
        /// Until when it waits; `None` if it was given up.
        until: Option<WallTime>,
    },
}

/// The record of one index of a service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Instance {
    state: InstanceState,
    /// Rare, so it does not take the room of one in every record.
    twin: Option<Box<Twin>>,
    crashes: Crashes,
    /// Rare, too.
    past: Option<Box<Past>>,
}

impl Instance {
    /// One that is wanted, and that nobody has.
    pub fn new(now: WallTime) -> Self {
        let state = InstanceState::Unclaimed { since: now };
        Self { state, twin: None, crashes: Crashes::default(), past: None }
    }

    /// One that was kept, as it was.
    pub fn from_parts(
        state: InstanceState,
        twin: Option<Twin>,
        crashes: Crashes,
        past: Option<Past>,
    ) -> Self {
        Self { state, twin: twin.map(Box::new), crashes, past: past.map(Box::new) }
    }

    /// What it is doing.
    pub const fn state(&self) -> &InstanceState {
        &self.state
    }

    /// Its second copy.
    pub fn twin(&self) -> Option<&Twin> {
        self.twin.as_deref()
    }

    /// How often it crashed.
    pub const fn crashes(&self) -> Crashes {
        self.crashes
    }

    /// What is kept of its runs that are over.
    pub fn past(&self) -> Option<&Past> {
        self.past.as_deref()
    }

    /// Its last crash; also one that is forgiven.
    pub fn last_crash(&self) -> Option<&PastCrash> {
        self.past()?.crash.as_deref()
    }

    /// Where it is in its life.
    pub const fn phase(&self) -> InstancePhase {
        match &self.state {
            InstanceState::Unclaimed { .. } => InstancePhase::Unclaimed,
            InstanceState::Claimed { .. } => InstancePhase::Claimed,
            InstanceState::Running { .. } => InstancePhase::Running,
            InstanceState::Crashed { .. } => InstancePhase::Crashed,
        }
    }

    /// The copy that its state speaks of.
    pub const fn copy(&self) -> Option<&InstanceCopy> {
        match &self.state {
            InstanceState::Claimed { copy, .. } | InstanceState::Running { copy, .. } => Some(copy),
            InstanceState::Unclaimed { .. } | InstanceState::Crashed { .. } => None,
        }
    }

    /// All copies that may be running: its own, then the twin.
    pub fn copies(&self) -> impl Iterator<Item = &InstanceCopy> {
        self.copy().into_iter().chain(self.twin.as_ref().map(|twin| &twin.copy))
    }

    /// Whether this is the run in its place, not the twin's.
    pub fn is_its(&self, run: RunId) -> bool {
        self.copy().is_some_and(|copy| copy.placed.run == run)
    }

    /// Whether this is the twin's run.
    pub fn is_twins(&self, run: RunId) -> bool {
        self.twin.as_ref().is_some_and(|twin| twin.copy.placed.run == run)
    }

    fn check(&self, event: InstanceEvent) -> Result<(), Illegal> {
        match instance_after(self.phase(), event) {
            InstanceAfter::In(_)
            | InstanceAfter::UnclaimedOrCrashed
            | InstanceAfter::AsTheTwin
            | InstanceAfter::Gone => Ok(()),
            InstanceAfter::Refused => Err(self.refuse(event)),
        }
    }

    const fn refuse(&self, event: InstanceEvent) -> Illegal {
        Illegal { event: event.as_str(), phase: self.phase().as_str() }
    }

    /// Takes the copy out of its place, which becomes something else.
    fn take(&mut self, next: InstanceState) -> Option<(InstanceCopy, Option<WallTime>)> {
        match std::mem::replace(&mut self.state, next) {
            InstanceState::Claimed { copy, .. } => Some((copy, None)),
            InstanceState::Running { copy, since } => Some((copy, Some(since))),
            InstanceState::Unclaimed { .. } | InstanceState::Crashed { .. } => None,
        }
    }

    /// It is given to a worker.
    ///
    /// # Errors
    /// When it does not wait for one.
    pub fn claim(
        &mut self,
        placed: Placed,
        version: u64,
        wants: Arc<Wants>,
        now: WallTime,
    ) -> Result<(), Illegal> {
        self.check(InstanceEvent::Claim)?;
        let copy = InstanceCopy { placed, version, wants, stopping: None, told: None };
        self.state = InstanceState::Claimed { copy, since: now };
        if is_planted(Mistake::ForgetsCrashes) {
            self.crashes = Crashes::default();
        }
        Ok(())
    }

    /// Its worker says that it runs.
    ///
    /// # Errors
    /// When nobody was starting it.
    pub fn start(&mut self, now: WallTime) -> Result<(), Illegal> {
        self.check(InstanceEvent::Start)?;
        if let Some((copy, _)) = self.take(InstanceState::Unclaimed { since: now }) {
            self.state = InstanceState::Running { copy, since: now };
        }
        Ok(())
    }

    /// It ended so, and nobody had asked for that: what follows is the policy's.
    ///
    /// # Errors
    /// When it had no run.
    pub fn crash(
        &mut self,
        policy: &CrashPolicy,
        end: TaskEnd,
        now: WallTime,
    ) -> Result<Crash, Illegal> {
        self.check(InstanceEvent::Crash)?;
        if let Some(Placed { run, on, .. }) = self.copy().map(|copy| &copy.placed) {
            let (run, on) = (*run, *on);
            let crash = Some(Box::new(PastCrash { run, on, at: now, end }));
            self.past = Some(Box::new(Past { run, on, crash }));
        }
        let ran = match &self.state {
            InstanceState::Running { since, .. } => Some(now.since(*since)),
            InstanceState::Unclaimed { .. }
            | InstanceState::Claimed { .. }
            | InstanceState::Crashed { .. } => None,
        };
        let (crashes, crash) = policy.judge(self.crashes, ran, now);
        self.crashes = crashes;
        self.state = match crash {
            Crash::Now => InstanceState::Unclaimed { since: now },
            Crash::After(wait) => InstanceState::Crashed { until: Some(now.plus(wait)) },
            Crash::GivenUp => InstanceState::Crashed { until: None },
        };
        Ok(crash)
    }

    /// Its run is certainly gone, and that was no crash.
    ///
    /// # Errors
    /// When it had no run.
    pub fn vacate(&mut self, now: WallTime) -> Result<(), Illegal> {
        self.check(InstanceEvent::Vacate)?;
        self.state = InstanceState::Unclaimed { since: now };
        Ok(())
    }

    /// Its run goes on as the twin, and its place is free.
    ///
    /// # Errors
    /// When it has no run, or a twin already: there is never a third.
    pub fn displace(&mut self, reason: TwinReason, now: WallTime) -> Result<(), Illegal> {
        self.check(InstanceEvent::Displace)?;
        if self.twin.is_some() && !is_planted(Mistake::StartsAThird) {
            return Err(self.refuse(InstanceEvent::Displace));
        }
        let taken = self.take(InstanceState::Unclaimed { since: now });
        self.twin =
            taken.map(|(copy, running_since)| Box::new(Twin { copy, reason, running_since }));
        Ok(())
    }

    /// It has waited long enough.
    ///
    /// # Errors
    /// When it was not waiting after a crash.
    pub fn restart(&mut self, now: WallTime) -> Result<(), Illegal> {
        self.check(InstanceEvent::Restart)?;
        self.state = InstanceState::Unclaimed { since: now };
        Ok(())
    }

    /// It is another program from now on: what crashed before was not this one. Gives whether that is
    /// news.
    pub fn forgive(&mut self) -> bool {
        std::mem::take(&mut self.crashes) != Crashes::default()
    }

    /// Its twin takes its place. A copy that was being started becomes the twin, and is surplus.
    ///
    /// # Errors
    /// When it runs, or has no twin.
    pub fn promote(&mut self, now: WallTime) -> Result<(), Illegal> {
        self.check(InstanceEvent::Promote)?;
        let Some(twin) = self.twin.take() else {
            return Err(self.refuse(InstanceEvent::Promote));
        };
        let Twin { copy, running_since, .. } = *twin;
        let next = match running_since {
            Some(since) => InstanceState::Running { copy, since },
            None => InstanceState::Claimed { copy, since: now },
        };
        let displaced = self.take(next);
        self.twin = displaced.map(|(mut copy, running_since)| {
            copy.stopping = Some(StopReason::Elsewhere);
            Box::new(Twin { copy, reason: TwinReason::Surplus, running_since })
        });
        Ok(())
    }

    /// Its worker is silent and its twin's is heard, so they change places: the index goes on with the copy
    /// of which something is known.
    ///
    /// # Errors
    /// When it has no run, or no twin.
    pub fn yield_place(&mut self, now: WallTime) -> Result<(), Illegal> {
        self.check(InstanceEvent::Yield)?;
        let Some(twin) = self.twin.take() else {
            return Err(self.refuse(InstanceEvent::Yield));
        };
        let Twin { copy, running_since, .. } = *twin;
        let next = match running_since {
            Some(since) => InstanceState::Running { copy, since },
            None => InstanceState::Claimed { copy, since: now },
        };
        let reason = TwinReason::Silent;
        let taken = self.take(next);
        self.twin =
            taken.map(|(copy, running_since)| Box::new(Twin { copy, reason, running_since }));
        Ok(())
    }

    /// A worker was found to have it, running since then, and nobody else has.
    ///
    /// # Errors
    /// When somebody has.
    pub fn adopt(
        &mut self,
        placed: Placed,
        version: u64,
        wants: Arc<Wants>,
        since: WallTime,
    ) -> Result<(), Illegal> {
        self.check(InstanceEvent::Adopt)?;
        let copy = InstanceCopy { placed, version, wants, stopping: None, told: None };
        self.state = InstanceState::Running { copy, since };
        Ok(())
    }

    /// Whether its record may go.
    ///
    /// # Errors
    /// When something of it may still run.
    pub fn check_retire(&self) -> Result<(), Illegal> {
        self.check(InstanceEvent::Retire)?;
        if self.twin.is_some() {
            return Err(self.refuse(InstanceEvent::Retire));
        }
        Ok(())
    }

    /// The twin's run is certainly gone.
    pub fn lose_twin(&mut self) -> Option<Twin> {
        self.twin.take().map(|twin| *twin)
    }

    /// This run is over, and may have left output with whoever had it. To be said before it leaves its
    /// slot.
    pub fn remember(&mut self, run: RunId) {
        let on = self.copies().find(|copy| copy.placed.run == run).map(|copy| copy.placed.on);
        let Some(on) = on else { return };
        let crash = self.past.take().and_then(|past| past.crash);
        self.past = Some(Box::new(Past { run, on, crash }));
    }

    /// Says why this run is to end; the first reason stays. Whether that is news.
    pub fn stop(&mut self, run: RunId, reason: StopReason) -> bool {
        let place = match &mut self.state {
            InstanceState::Claimed { copy, .. } | InstanceState::Running { copy, .. } => Some(copy),
            InstanceState::Unclaimed { .. } | InstanceState::Crashed { .. } => None,
        };
        let twin = self.twin.as_mut().map(|twin| &mut twin.copy);
        let mut copies = place.into_iter().chain(twin);
        let Some(copy) = copies.find(|copy| copy.placed.run == run) else { return false };
        let is_news = copy.stopping.is_none();
        copy.stopping.get_or_insert(reason);
        is_news
    }

    /// The twin is there for another reason now.
    pub fn turn_twin(&mut self, reason: TwinReason) {
        if let Some(twin) = &mut self.twin {
            twin.reason = reason;
        }
    }

    /// The worker of a copy says more of it; gives whether that is new.
    pub fn tell(&mut self, run: RunId, told: &[u8]) -> bool {
        let own = match &mut self.state {
            InstanceState::Claimed { copy, .. } | InstanceState::Running { copy, .. } => Some(copy),
            InstanceState::Unclaimed { .. } | InstanceState::Crashed { .. } => None,
        };
        let twins = self.twin.as_mut().map(|twin| &mut twin.copy);
        let copy = own.into_iter().chain(twins).find(|copy| copy.placed.run == run);
        let Some(copy) = copy.filter(|copy| copy.told.as_deref() != Some(told)) else {
            return false;
        };
        copy.told = Some(told.into());
        true
    }

    /// The twin's worker says that it runs.
    pub fn start_twin(&mut self, now: WallTime) {
        if let Some(twin) = &mut self.twin {
            twin.running_since.get_or_insert(now);
        }
    }
}

#[cfg(test)]
mod tests;
