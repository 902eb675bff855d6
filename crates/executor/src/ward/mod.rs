//! One container as its worker has it: its [`Container`], and what the guardian tells of it.
//!
//! ```text
//!   worker ── stop, acknowledged ──▶ ward ── spawn, stop, kill ──▶ guardian
//!          ◀─ became, completed ────  │  ◀── started, exited, empty ──┘
//!                                container
//! ```
//!
//! Invariant: what is told twice counts once. A guardian tells everything again to every worker that
//! adopts its runs, and a new guardian tells again what it found of the one before it.
//!
//! Invariant: it is over only when the guardian has said that nothing is left, or never had it.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use sterna_model::{
    BootTime, Span,
    planted::{Mistake, is_planted},
};

use crate::{
    container::{self, Cause, Container, End, Exit, How, Spec, State, Step},
    guardian::{Fate, Part, Phase, Role, Why},
    monitor::ProbeId,
};

/// Longer than anything lives.
const FOREVER: Span = Span::from_millis(u64::MAX / 4);

/// Which of its two monitors asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Question {
    /// Whether it does what it is to do.
    IsWell,
    /// Whether it takes requests.
    IsReady,
}

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// The moment of [`Ward::deadline`] came.
    Tick,
    /// What [`Effect::Create`] asked for is there.
    Created,
    /// It could not be made, for this reason; everything of it is removed again.
    NotCreated(String),
    /// The guardian was not asked for the command of the present step, for this reason.
    NotAsked(String),
    /// The guardian says what became of it; the span is the kill wait at deadlines.
    Told(Fate, Span),
    /// A new guardian has found nothing of it.
    Lost,
    /// A new guardian has found it so, and this is the newest of its steps that it knows of.
    Held(Phase, Option<Part>),
    /// The guardian is gone, and with it the answers to the probes that it was asked.
    Unguarded,
    /// Its pipes are closed and read to their ends.
    Drained,
    /// A probe that is not a command of the run was answered.
    Probed(Question, ProbeId, bool),
    /// Nobody can be asked this probe now.
    NotProbed(Question, ProbeId),
    /// Somebody asks for its end.
    Stop(Cause, How),
    /// Its end is recorded where it matters.
    Acknowledged,
}

/// Something that the driver must do, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Make what it needs: work directory, cgroup, ports.
    Create,
    /// Ask the guardian for the command of this step.
    Spawn(Part, Step),
    /// Ask the guardian to stop it: its signal now, KILL after so long.
    Stop(Span),
    /// Kill every process, and have the guardian do it: either may be stopped (safety rule 12).
    Kill,
    /// No process is left: read its pipes to their ends.
    Drain,
    /// Ask a probe: by a command, under the number that [`Ward::probe_by_command`] gives, or else.
    Probe(Question, ProbeId),
    /// It is in this state now.
    Became(State),
    /// Whether it takes requests has changed.
    Readiness(bool),
    /// Report this until it is acknowledged.
    Completed(End),
    /// Remove what is left of it; logs stay.
    Remove,
}

/// One container, as its worker has it.
#[derive(Clone, Debug)]
pub struct Ward {
    container: Container,
    setup_steps: u32,
    /// For how many steps the guardian was asked.
    asked: u32,
    is_killed: bool,
    /// Whether no process is left.
    is_empty: bool,
    started: BTreeSet<Part>,
    over: BTreeSet<Part>,
    /// So many of those are taken to be over since it was adopted in a later step.
    granted: usize,
    next_probe: Part,
    probes: BTreeMap<Part, (Question, ProbeId)>,
}

impl Ward {
    /// Work that is here to be begun.
    pub fn begin(now: BootTime, spec: Spec, effects: &mut Vec<Effect>) -> Self {
        let steps = spec.setup_steps;
        let mut ward = Self::around(Container::reserve(now.plus(Span::from_secs(1))), steps);
        ward.drive(now, container::Input::Start(spec), effects);
        ward
    }

    /// Goes on with one that an earlier worker has begun: this part is the newest that was asked for.
    pub fn adopt(now: BootTime, spec: Spec, begun: BootTime, part: Option<Part>) -> Self {
        let steps = spec.setup_steps;
        let mut ward = Self::around(Container::reserve(now), steps);
        let step = part.and_then(|part| ward.step_of(part)).unwrap_or(Step::Run);
        ward.container = Container::adopt(now, spec, begun, step);
        ward.asked = 1;
        // Of the steps before it everything is told again, and nothing of that is news.
        let before = if is_planted(Mistake::HearsOldNews) { 0 } else { ward.part_of(step).get() };
        let before = (0..before).map(Part::new);
        ward.started.extend(before.clone());
        ward.over.extend(before);
        ward.granted = ward.over.len();
        ward
    }

    /// One whose end an earlier worker has seen, and nobody has acknowledged.
    pub fn over(end: End) -> Self {
        Self::around(Container::over(end), 0)
    }

    fn around(container: Container, setup_steps: u32) -> Self {
        Self {
            container,
            setup_steps,
            asked: 0,
            is_killed: false,
            is_empty: false,
            started: BTreeSet::new(),
            over: BTreeSet::new(),
            granted: 0,
            next_probe: Part::new(setup_steps.saturating_add(1)),
            probes: BTreeMap::new(),
        }
    }

    /// What the container is.
    pub const fn state(&self) -> State {
        self.container.state()
    }

    /// Why its end has begun, if it has and is not over.
    pub fn cause(&self) -> Option<&Cause> {
        self.container.cause()
    }

    /// When to call [`Ward::step`] with [`Input::Tick`]; `None` for never.
    pub fn deadline(&self) -> Option<BootTime> {
        self.container.deadline()
    }

    /// Whether all of it is to be gone, and is not known to be.
    pub const fn is_to_be_gone(&self) -> bool {
        self.is_killed && !self.is_empty
    }

    /// Whether the guardian may hold anything of it.
    pub const fn is_asked(&self) -> bool {
        self.asked > 0
    }

    /// Whether this would be news: a step that was not known to have begun.
    pub fn is_new(&self, part: Part) -> bool {
        !self.started.contains(&part) && self.step_of(part).is_some()
    }

    /// Whether it is a step that is not known to be over.
    pub fn is_open(&self, part: Part) -> bool {
        !self.over.contains(&part) && self.step_of(part).is_some()
    }

    /// The steps that have begun and are not known to be over.
    pub fn begun(&self) -> Vec<Part> {
        self.started.difference(&self.over).copied().collect()
    }

    /// The step that a part is; `None` for a probe.
    fn step_of(&self, part: Part) -> Option<Step> {
        match part.get().cmp(&self.setup_steps) {
            std::cmp::Ordering::Less => Some(Step::Setup(part.get())),
            std::cmp::Ordering::Equal => Some(Step::Run),
            std::cmp::Ordering::Greater => None,
        }
    }

    /// An earlier worker has asked for this part, and its guardian takes only greater ones.
    pub fn number_probes_after(&mut self, last: Part) {
        self.next_probe = self.next_probe.max(Part::new(last.get().saturating_add(1)));
    }

    /// The number of a command that answers a probe.
    pub fn probe_by_command(&mut self, question: Question, probe: ProbeId) -> Part {
        let part = self.next_probe;
        self.next_probe = Part::new(part.get().saturating_add(1));
        self.probes.insert(part, (question, probe));
        part
    }

    /// Takes one input at `now` and adds to `effects` what the driver must do, in order.
    ///
    /// An early or repeated tick changes nothing, and so does whatever comes too late to matter.
    pub fn step(&mut self, now: BootTime, input: Input, effects: &mut Vec<Effect>) {
        match input {
            Input::Tick => self.drive(now, container::Input::Tick, effects),
            Input::Created => self.drive(now, container::Input::Created, effects),
            Input::NotCreated(why) => {
                self.drive(now, container::Input::NotCreated(why), effects);
            }
            Input::NotAsked(why) => {
                self.asked = self.asked.saturating_sub(1);
                self.drive(now, container::Input::NotStarted(why), effects);
            }
            Input::Told(fate, kill_wait) => self.told(now, fate, kill_wait, effects),
            Input::Lost => self.lost(now, effects),
            Input::Held(phase, part) => {
                self.held(now, phase, part, effects);
                self.ask_again(now, phase, effects);
            }
            Input::Unguarded => {
                for (question, probe) in std::mem::take(&mut self.probes).into_values() {
                    self.not_probed(now, question, probe, effects);
                }
            }
            Input::Drained => self.drive(now, container::Input::Empty, effects),
            Input::Probed(question, probe, is_good) => {
                self.probed(now, question, probe, is_good, effects);
            }
            Input::NotProbed(question, probe) => self.not_probed(now, question, probe, effects),
            Input::Stop(cause, how) => {
                self.drive(now, container::Input::Stop(cause, how), effects);
            }
            Input::Acknowledged => self.drive(now, container::Input::Acknowledged, effects),
        }
    }

    fn told(&mut self, now: BootTime, fate: Fate, kill_wait: Span, effects: &mut Vec<Effect>) {
        match fate {
            Fate::Started(part) => {
                if self.is_new(part) {
                    self.started.insert(part);
                    self.drive(now, container::Input::Started, effects);
                }
            }
            Fate::NotStarted(part, why) => {
                if let Some((question, probe)) = self.probes.remove(&part) {
                    self.probed(now, question, probe, false, effects);
                } else if self.is_open(part) {
                    self.over.insert(part);
                    self.drive(now, container::Input::NotStarted(why), effects);
                }
            }
            Fate::Stopping(why) => {
                let cause = match why {
                    Why::Deadline => Cause::Deadline,
                    Why::WorkerGone => Cause::WorkerExit,
                };
                // The guardian does it; the container must know the first cause.
                let stop = container::Input::Stop(cause, How::Within(kill_wait));
                self.drive(now, stop, effects);
            }
            Fate::Exited(part, exit) => {
                if let Some((question, probe)) = self.probes.remove(&part) {
                    self.probed(now, question, probe, exit.is_success(), effects);
                } else {
                    self.exited(now, part, exit, effects);
                }
            }
            Fate::Empty => self.emptied(now, effects),
        }
    }

    fn exited(&mut self, now: BootTime, part: Part, exit: Exit, effects: &mut Vec<Effect>) {
        if !self.is_open(part) {
            return;
        }
        self.over.insert(part);
        let is_main = self.step_of(part) == Some(Step::Run);
        let mut decided = Vec::new();
        self.drive(now, container::Input::Exited(exit), &mut decided);
        // What the main command leaves the guardian kills without being asked.
        decided.retain(|effect| !is_main || *effect != Effect::Kill);
        effects.append(&mut decided);
    }

    fn emptied(&mut self, now: BootTime, effects: &mut Vec<Effect>) {
        if std::mem::replace(&mut self.is_empty, true) {
            return;
        }
        // A guardian that was killed could not tell how it ended.
        let begun = self.begun();
        // What was taken for granted says nothing: a guardian that found all of it over knows no step, and
        // the work is taken for running.
        let is_silent = self.over.len() == self.granted && begun.is_empty();
        for part in begun {
            self.exited(now, part, Exit::Unknown, effects);
        }
        if is_silent {
            self.drive(now, container::Input::Exited(Exit::Unknown), effects);
        }
        effects.push(Effect::Drain);
    }

    fn lost(&mut self, now: BootTime, effects: &mut Vec<Effect>) {
        let is_over = match self.state() {
            State::Completed | State::Gone => true,
            State::Reserved | State::Initializing | State::Created | State::Running => false,
        };
        if !self.is_asked() || is_over || self.is_empty {
            return;
        }
        if self.started.is_empty() {
            let why = "its guardian was killed before it began".to_owned();
            self.drive(now, container::Input::NotStarted(why), effects);
        }
        self.emptied(now, effects);
    }

    /// A step that was asked of the guardian before, and of which that one has left no trace, never
    /// began, and nobody asks for it again. Of one that it may have begun everything is told.
    fn held(
        &mut self,
        now: BootTime,
        phase: Phase,
        newest: Option<Part>,
        effects: &mut Vec<Effect>,
    ) {
        let mut steps = (0..=self.setup_steps).map(Part::new);
        let Some(present) = steps.find(|part| !self.over.contains(part)) else { return };
        let is_known = newest.is_none_or(|newest| present <= newest) || phase == Phase::Empty;
        if self.is_asked() && !is_known {
            self.over.insert(present);
            let why = "its guardian was killed before it began".to_owned();
            self.drive(now, container::Input::NotStarted(why), effects);
        }
    }

    /// What the one before it was asked, and may have been killed before it heard. What this one knows
    /// to be ending it ends by itself.
    fn ask_again(&self, now: BootTime, phase: Phase, effects: &mut Vec<Effect>) {
        match phase {
            Phase::Cloning | Phase::Live => {}
            Phase::Stopping | Phase::Empty => return,
        }
        let is_asked_now =
            |effect: &Effect| *effect == Effect::Kill || matches!(effect, Effect::Stop(_));
        if !self.is_asked() || effects.iter().any(is_asked_now) {
            return;
        }
        if self.is_to_be_gone() {
            effects.push(Effect::Kill);
        } else if let Some(left) = self.container.grace_left(now) {
            effects.push(Effect::Stop(left));
        }
    }

    fn probed(
        &mut self,
        now: BootTime,
        question: Question,
        probe: ProbeId,
        is_good: bool,
        effects: &mut Vec<Effect>,
    ) {
        let input = match question {
            Question::IsWell => container::Input::Probed(probe, is_good),
            Question::IsReady => container::Input::Ready(probe, is_good),
        };
        self.drive(now, input, effects);
    }

    fn not_probed(
        &mut self,
        now: BootTime,
        question: Question,
        probe: ProbeId,
        effects: &mut Vec<Effect>,
    ) {
        let input = match question {
            Question::IsWell => container::Input::NotProbed(probe),
            Question::IsReady => container::Input::ReadinessNotProbed(probe),
        };
        self.drive(now, input, effects);
    }

    /// Lets the container decide.
    fn drive(&mut self, now: BootTime, input: container::Input, effects: &mut Vec<Effect>) {
        let mut decided = Vec::new();
        self.container.step(now, input, &mut decided);
        for effect in decided {
            match effect {
                container::Effect::Create => effects.push(Effect::Create),
                container::Effect::Run(step) => {
                    self.asked += 1;
                    effects.push(Effect::Spawn(self.part_of(step), step));
                }
                container::Effect::Terminate => {
                    let at = self.container.deadline();
                    effects.push(Effect::Stop(at.map_or(FOREVER, |at| at.since(now))));
                }
                // What the guardian was never asked for is over at once.
                container::Effect::Kill if !self.is_asked() => effects.push(Effect::Drain),
                container::Effect::Kill => {
                    self.is_killed = true;
                    effects.push(if is_planted(Mistake::LeavesKillingToOthers) {
                        Effect::Stop(Span::ZERO)
                    } else {
                        Effect::Kill
                    });
                }
                container::Effect::Probe(probe) => {
                    effects.push(Effect::Probe(Question::IsWell, probe));
                }
                container::Effect::ProbeReadiness(probe) => {
                    effects.push(Effect::Probe(Question::IsReady, probe));
                }
                container::Effect::Became(state) => effects.push(Effect::Became(state)),
                container::Effect::Readiness(is_ready) => {
                    effects.push(Effect::Readiness(is_ready));
                }
                container::Effect::Completed(end) => effects.push(Effect::Completed(end)),
                container::Effect::Remove => effects.push(Effect::Remove),
            }
        }
    }

    const fn part_of(&self, step: Step) -> Part {
        match step {
            Step::Setup(number) => Part::new(number),
            Step::Run => Part::new(self.setup_steps),
        }
    }
}

impl Step {
    /// What its part is for.
    pub const fn role(self) -> Role {
        match self {
            Self::Setup(_) => Role::Setup,
            Self::Run => Role::Main,
        }
    }
}
