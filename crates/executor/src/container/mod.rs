//! One container, from its reservation until its end is acknowledged.
//!
//! ```text
//!   RESERVED ──▶ INITIALIZING ──▶ CREATED ──▶ RUNNING ──▶ COMPLETED
//!      │               │             └────────────────────────▲
//!      │               └──────────────────────────────────────┘
//!      └── expired: nothing was there, nothing is left
//! ```
//!
//! INITIALIZING makes what the container needs; CREATED runs the setup steps and then the run step,
//! until the monitor is content; RUNNING is what the world sees.
//!
//! Invariant: [`step`](Container::step) changes the state along these arrows and no others; one that
//! is adopted begins as CREATED, or as RUNNING if nothing monitors it.
//!
//! Invariant: COMPLETED is reached when every process of the container is gone and its pipes are
//! closed, not before; and the first cause of its end is the one that is told.
//!
//! Invariant: a stop that was begun is never undone, only hurried.

mod ending;
mod state;
#[cfg(test)]
mod tests;

use sterna_model::{BootTime, Span};

use self::{ending::Stopping, state::Stage};
pub use self::{
    ending::{Cause, End, Exit},
    state::{Spec, State, Step, may_follow},
};
use crate::monitor::{self, Monitor, ProbeId};

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// The moment of [`Container::deadline`] came.
    Tick,
    /// The work is here: begin.
    Start(Spec),
    /// What [`Effect::Create`] asked for is there.
    Created,
    /// It could not be made; everything of it is removed again.
    NotCreated(String),
    /// The command of the present step has begun.
    Started,
    /// The process of the present step could not be started.
    NotStarted(String),
    /// The process of the present step has ended; others may be left.
    Exited(Exit),
    /// No process is left, and all pipes are closed.
    Empty,
    /// A probe of the monitor was answered.
    Probed(ProbeId, bool),
    /// A probe of readiness was answered.
    Ready(ProbeId, bool),
    /// Nobody can answer this probe of the monitor.
    NotProbed(ProbeId),
    /// Nobody can answer this probe of readiness.
    ReadinessNotProbed(ProbeId),
    /// Somebody asks for its end.
    Stop(Cause, How),
    /// Its end is recorded where it matters.
    Acknowledged,
}

/// How to end it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// The workload's own signal, and its own grace before KILL.
    Gracefully,
    /// TERM, and KILL after so long, whatever the workload asks for.
    Within(Span),
    /// KILL.
    Now,
}

/// Something that the driver must do, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Make what it needs: work directory, cgroup, ports.
    Create,
    /// Start the process of this step.
    Run(Step),
    /// Send the workload's stop signal to every process.
    Terminate,
    /// Kill every process.
    Kill,
    /// Ask the monitor's probe.
    Probe(ProbeId),
    /// Ask the readiness probe.
    ProbeReadiness(ProbeId),
    /// It is in this state now.
    Became(State),
    /// Whether it takes requests has changed.
    Readiness(bool),
    /// Report this until it is acknowledged.
    Completed(End),
    /// Remove what is left of it; logs stay.
    Remove,
}

/// One container.
#[derive(Clone, Debug)]
pub struct Container {
    stage: Stage,
    spec: Spec,
    /// Set once the end has begun; the first cause stays.
    stopping: Option<Stopping>,
    /// When the run must be over; `None` before it began, or for never.
    timeout_at: Option<BootTime>,
    monitor: Option<Monitor>,
    readiness: Option<Monitor>,
    is_ready: bool,
}

impl Container {
    /// Keeps a place for work that is to come until then.
    pub fn reserve(until: BootTime) -> Self {
        Self {
            stage: Stage::Reserved { until },
            spec: Spec::default(),
            stopping: None,
            timeout_at: None,
            monitor: None,
            readiness: None,
            is_ready: false,
        }
    }

    /// Goes on with one that an earlier worker has begun: its present step was started already, and
    /// its timeout counts from when it began.
    pub fn adopt(now: BootTime, spec: Spec, begun: BootTime, step: Step) -> Self {
        let mut container = Self::reserve(now);
        container.timeout_at = spec.timeout.map(|timeout| begun.plus(timeout));
        container.spec = spec;
        container.stage = Stage::Created(step);
        match step {
            Step::Setup(_) => {}
            Step::Run => container.monitor_from(now),
        }
        // Nobody is told: whoever adopts it asks for its state.
        if step == Step::Run && container.monitor.is_none() {
            container.stage = Stage::Running;
        }
        container
    }

    /// One whose end an earlier worker has seen, and nobody has acknowledged.
    pub fn over(end: End) -> Self {
        let mut container = Self::reserve(BootTime::from_millis(0));
        container.stage = Stage::Completed(end);
        container
    }

    /// What it is.
    pub const fn state(&self) -> State {
        self.stage.state()
    }

    /// Why its end has begun, if it has and is not over.
    pub fn cause(&self) -> Option<&Cause> {
        self.stopping.as_ref().map(Stopping::cause)
    }

    /// How long until KILL, if its processes were told to end and are not killed yet.
    pub fn grace_left(&self, now: BootTime) -> Option<Span> {
        let stopping = self.stopping.as_ref().filter(|_| self.is_up())?;
        stopping.kill_at().filter(|_| stopping.is_signalled()).map(|at| at.since(now))
    }

    /// When to call [`Container::step`] with [`Input::Tick`]; `None` for never.
    pub fn deadline(&self) -> Option<BootTime> {
        match &self.stage {
            Stage::Reserved { until } => Some(*until),
            Stage::Expired | Stage::Completed(_) | Stage::Removed => None,
            Stage::Initializing | Stage::Created(_) | Stage::Running => {
                if let Some(stopping) = &self.stopping {
                    // Before anything runs there is nothing to kill.
                    return stopping.deadline().filter(|_| self.is_up());
                }
                let monitors = [&self.monitor, &self.readiness].into_iter().flatten();
                monitors.filter_map(Monitor::deadline).chain(self.timeout_at).min()
            }
        }
    }

    /// Takes one input at `now` and adds to `effects` what the driver must do, in order.
    ///
    /// An early or repeated tick changes nothing, and so does whatever comes too late to matter.
    pub fn step(&mut self, now: BootTime, input: Input, effects: &mut Vec<Effect>) {
        self.pass_time(now, effects);
        match input {
            Input::Tick => {}
            Input::Start(spec) => self.start(now, spec, effects),
            Input::Created => self.created(effects),
            Input::NotCreated(why) => self.not_created(why, effects),
            Input::Started => self.started(now, effects),
            Input::NotStarted(why) => self.not_started(why, effects),
            Input::Exited(exit) => self.exited(exit, effects),
            Input::Empty => self.emptied(effects),
            Input::Probed(probe, is_good) => self.probed(now, probe, is_good, effects),
            Input::Ready(probe, is_good) => self.ready(now, probe, is_good, effects),
            Input::NotProbed(probe) => {
                if let Some(monitor) = &mut self.monitor {
                    monitor.unanswerable(now, probe);
                }
            }
            Input::ReadinessNotProbed(probe) => {
                if let Some(monitor) = &mut self.readiness {
                    monitor.unanswerable(now, probe);
                }
            }
            Input::Stop(cause, how) => self.stop(now, cause, how, effects),
            Input::Acknowledged => self.acknowledged(effects),
        }
    }

    fn pass_time(&mut self, now: BootTime, effects: &mut Vec<Effect>) {
        match &self.stage {
            Stage::Reserved { until } if now >= *until => self.stage = Stage::Expired,
            Stage::Reserved { .. } | Stage::Expired | Stage::Completed(_) | Stage::Removed => {}
            Stage::Initializing | Stage::Created(_) | Stage::Running => {
                let is_up = self.is_up();
                if let Some(stopping) = &mut self.stopping {
                    // Who comes so late that both are due has no time to ask.
                    if is_up && stopping.kill_due(now) {
                        effects.push(Effect::Kill);
                    } else if is_up && stopping.signal_due(now) {
                        effects.push(Effect::Terminate);
                    }
                } else if self.timeout_at.is_some_and(|at| now >= at) {
                    self.stop(now, Cause::Timeout, How::Gracefully, effects);
                } else {
                    self.probe(now, effects);
                }
            }
        }
    }

    fn start(&mut self, now: BootTime, spec: Spec, effects: &mut Vec<Effect>) {
        match self.stage {
            Stage::Reserved { .. } => {
                self.timeout_at = spec.timeout.map(|timeout| now.plus(timeout));
                self.spec = spec;
                self.enter(Stage::Initializing, effects);
                effects.push(Effect::Create);
            }
            // Its place is gone: whoever sent the work is told that it did not start.
            Stage::Expired => {
                let end = End::new(Cause::FailedToStart("its reservation had expired".to_owned()));
                self.enter(Stage::Initializing, effects);
                self.complete(end, effects);
            }
            Stage::Initializing
            | Stage::Created(_)
            | Stage::Running
            | Stage::Completed(_)
            | Stage::Removed => {}
        }
    }

    fn created(&mut self, effects: &mut Vec<Effect>) {
        match self.stage {
            Stage::Initializing => {}
            Stage::Reserved { .. }
            | Stage::Expired
            | Stage::Created(_)
            | Stage::Running
            | Stage::Completed(_)
            | Stage::Removed => return,
        }
        if let Some(stopping) = self.stopping.take() {
            // Stopped before anything ran: nothing needs a signal.
            return self.complete(stopping.end(None), effects);
        }
        let step = self.spec.first_step();
        self.enter(Stage::Created(step), effects);
        effects.push(Effect::Run(step));
    }

    /// The run step is what the monitor looks at; without one it is up as soon as it has begun.
    fn started(&mut self, now: BootTime, effects: &mut Vec<Effect>) {
        match self.stage {
            Stage::Created(Step::Run) if self.stopping.is_none() && self.monitor.is_none() => {
                self.monitor_from(now);
                if self.monitor.is_none() {
                    self.enter(Stage::Running, effects);
                    self.settle_readiness(effects);
                }
                self.probe(now, effects);
            }
            Stage::Created(Step::Run | Step::Setup(_))
            | Stage::Reserved { .. }
            | Stage::Expired
            | Stage::Initializing
            | Stage::Running
            | Stage::Completed(_)
            | Stage::Removed => {}
        }
    }

    fn monitor_from(&mut self, now: BootTime) {
        self.monitor = self.spec.monitor.map(|limits| Monitor::new(now, limits));
        self.readiness = self.spec.readiness.map(|limits| Monitor::new(now, limits));
    }

    fn not_created(&mut self, why: String, effects: &mut Vec<Effect>) {
        match self.stage {
            Stage::Initializing => self.complete(End::new(Cause::FailedToStart(why)), effects),
            Stage::Reserved { .. }
            | Stage::Expired
            | Stage::Created(_)
            | Stage::Running
            | Stage::Completed(_)
            | Stage::Removed => {}
        }
    }

    /// Steps before may have left something behind, so it is not over yet.
    fn not_started(&mut self, why: String, effects: &mut Vec<Effect>) {
        if self.is_up() {
            self.first_cause(Cause::FailedToStart(why), None);
            effects.push(Effect::Kill);
        }
    }

    fn exited(&mut self, exit: Exit, effects: &mut Vec<Effect>) {
        let step = match self.stage {
            Stage::Created(step) => step,
            Stage::Running => Step::Run,
            Stage::Reserved { .. }
            | Stage::Expired
            | Stage::Initializing
            | Stage::Completed(_)
            | Stage::Removed => return,
        };
        let is_stopping = self.stopping.is_some();
        match (step, exit.is_success(), is_stopping) {
            (Step::Setup(_), true, false) => {
                let next = self.spec.step_after(step);
                self.stage = Stage::Created(next);
                effects.push(Effect::Run(next));
            }
            (Step::Setup(number), false, false) => {
                self.first_cause(Cause::SetupFailed(number), Some(exit));
                effects.push(Effect::Kill);
            }
            // The main process is gone; what it has left behind goes too.
            (Step::Run, true | false, false) => {
                self.first_cause(Cause::Exited, Some(exit));
                effects.push(Effect::Kill);
            }
            (Step::Setup(_) | Step::Run, true | false, true) => {
                if let Some(stopping) = &mut self.stopping {
                    stopping.note(exit);
                }
                effects.push(Effect::Kill);
            }
        }
    }

    fn emptied(&mut self, effects: &mut Vec<Effect>) {
        if self.is_up()
            && let Some(stopping) = self.stopping.take()
        {
            self.complete(stopping.end(None), effects);
        }
    }

    fn probe(&mut self, now: BootTime, effects: &mut Vec<Effect>) {
        if let Some(probe) = self.monitor.as_mut().and_then(|monitor| monitor.tick(now)) {
            effects.push(Effect::Probe(probe));
        }
        if let Some(probe) = self.readiness.as_mut().and_then(|monitor| monitor.tick(now)) {
            effects.push(Effect::ProbeReadiness(probe));
        }
        self.ask_again(now);
        self.heed_monitor(now, effects);
        self.settle_readiness(effects);
    }

    fn probed(&mut self, now: BootTime, probe: ProbeId, is_good: bool, effects: &mut Vec<Effect>) {
        if let Some(monitor) = &mut self.monitor {
            monitor.answered(now, probe, is_good);
        }
        self.heed_monitor(now, effects);
        self.settle_readiness(effects);
    }

    fn heed_monitor(&mut self, now: BootTime, effects: &mut Vec<Effect>) {
        if self.stopping.is_some() {
            return;
        }
        let Some(health) = self.monitor.as_ref().map(Monitor::health) else { return };
        match (&self.stage, health) {
            (Stage::Created(Step::Run), monitor::Health::Healthy) => {
                self.enter(Stage::Running, effects);
            }
            (Stage::Created(_) | Stage::Running, monitor::Health::Failed(failure)) => {
                self.stop(now, Cause::Monitor(failure), How::Gracefully, effects);
            }
            (Stage::Created(_) | Stage::Running, monitor::Health::Starting)
            | (Stage::Created(Step::Setup(_)) | Stage::Running, monitor::Health::Healthy)
            | (
                Stage::Reserved { .. }
                | Stage::Expired
                | Stage::Initializing
                | Stage::Completed(_)
                | Stage::Removed,
                monitor::Health::Starting | monitor::Health::Healthy | monitor::Health::Failed(_),
            ) => {}
        }
    }

    fn ready(&mut self, now: BootTime, probe: ProbeId, is_good: bool, effects: &mut Vec<Effect>) {
        if let Some(monitor) = &mut self.readiness {
            monitor.answered(now, probe, is_good);
        }
        self.ask_again(now);
        self.settle_readiness(effects);
    }

    /// A readiness probe ends nothing: one that has failed is asked again from the beginning, whether by
    /// an answer or because none came in time.
    fn ask_again(&mut self, now: BootTime) {
        if let Some(monitor) = &mut self.readiness
            && let monitor::Health::Failed(_) = monitor.health()
        {
            monitor.begin_again(now);
        }
    }

    /// Ready is who runs, is not stopping, and passes its readiness probe, if it has one.
    fn settle_readiness(&mut self, effects: &mut Vec<Effect>) {
        let passes = self
            .readiness
            .as_ref()
            .is_none_or(|monitor| monitor.health() == monitor::Health::Healthy);
        let is_ready = self.state() == State::Running && self.stopping.is_none() && passes;
        if self.is_ready != is_ready {
            self.is_ready = is_ready;
            effects.push(Effect::Readiness(is_ready));
        }
    }

    fn stop(&mut self, now: BootTime, cause: Cause, how: How, effects: &mut Vec<Effect>) {
        match self.stage {
            Stage::Reserved { .. } => self.stage = Stage::Expired,
            Stage::Initializing | Stage::Created(_) | Stage::Running => {
                let is_first = self.stopping.is_none();
                let (linger, grace) = match how {
                    How::Gracefully => (self.linger(&cause), self.spec.grace),
                    How::Within(grace) => (Span::ZERO, grace),
                    How::Now => (Span::ZERO, Span::ZERO),
                };
                self.first_cause(cause, None);
                let is_up = self.is_up();
                let Some(stopping) = &mut self.stopping else { return };
                let signal_at = now.plus(linger);
                stopping.hurry(signal_at.plus(grace));
                if is_first && grace > Span::ZERO {
                    stopping.signal_at(signal_at);
                }
                if how != How::Gracefully {
                    stopping.signal_by(now);
                }
                if is_up && stopping.kill_due(now) {
                    effects.push(Effect::Kill);
                } else if is_up && stopping.signal_due(now) {
                    effects.push(Effect::Terminate);
                }
                self.settle_readiness(effects);
            }
            Stage::Expired | Stage::Completed(_) | Stage::Removed => {}
        }
    }

    /// Who has just asked for an endpoint still finds what is moved or stopped on request.
    fn linger(&self, cause: &Cause) -> Span {
        match cause {
            Cause::Request if self.state() == State::Running => self.spec.linger,
            Cause::Request
            | Cause::Exited
            | Cause::SetupFailed(_)
            | Cause::FailedToStart(_)
            | Cause::Timeout
            | Cause::Monitor(_)
            | Cause::DiskLimit
            | Cause::Deadline
            | Cause::WorkerExit => Span::ZERO,
        }
    }

    fn first_cause(&mut self, cause: Cause, exit: Option<Exit>) {
        let stopping = self.stopping.get_or_insert_with(|| Stopping::new(cause));
        if let Some(exit) = exit {
            stopping.note(exit);
        }
    }

    /// Whether it may have processes.
    const fn is_up(&self) -> bool {
        match self.stage {
            Stage::Created(_) | Stage::Running => true,
            Stage::Reserved { .. }
            | Stage::Expired
            | Stage::Initializing
            | Stage::Completed(_)
            | Stage::Removed => false,
        }
    }

    fn complete(&mut self, end: End, effects: &mut Vec<Effect>) {
        self.monitor = None;
        self.readiness = None;
        self.enter(Stage::Completed(end.clone()), effects);
        self.settle_readiness(effects);
        effects.push(Effect::Completed(end));
    }

    fn acknowledged(&mut self, effects: &mut Vec<Effect>) {
        match self.stage {
            Stage::Completed(_) => {
                self.stage = Stage::Removed;
                effects.push(Effect::Remove);
            }
            Stage::Reserved { .. }
            | Stage::Expired
            | Stage::Initializing
            | Stage::Created(_)
            | Stage::Running
            | Stage::Removed => {}
        }
    }

    /// The one door through which the state changes.
    fn enter(&mut self, next: Stage, effects: &mut Vec<Effect>) {
        let (before, after) = (self.state(), next.state());
        if before != after {
            assert!(may_follow(before, after), "{before:?} is never followed by {after:?}");
            effects.push(Effect::Became(after));
        }
        self.stage = next;
    }
}
