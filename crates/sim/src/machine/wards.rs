//! The worker's own part in the life of its containers: the real ward of each.

use std::collections::BTreeSet;

use sterna_executor::{
    container::{Cause, End, How, Spec, State, Step},
    guardian::{Fate, OnWorkerExit, Part, Phase, Request},
    monitor,
    ward::{Effect, Input, Question, Ward},
};
use sterna_model::{InstanceKey, RunId, Span, WorkKey};
use sterna_protocol::{
    message::{Kill, News, Run, Status},
    worker::Stop,
};

use super::Life;
use crate::{
    check::Fact,
    clock::Moment,
    manners,
    table::{SETUP_TAKES, Signal},
    words,
    world::{Event, Message, Who, World},
};

/// The workload's own grace.
const GRACE: Span = Span::from_millis(2_000);
/// How long what has a monitor still answers before its stop signal.
const LINGER: Span = Span::from_millis(500);
/// The frames, commits and probes between the end of one instance and that the next one is there.
const WORDS_TAKE: Span = Span::from_millis(1_500);
/// The own limit of tasks that have one.
const TIMEOUT: Span = Span::from_secs(20);

/// What the core must know of the work: always the same for a key.
fn spec(key: &WorkKey) -> Spec {
    let number = words::number(key);
    let has_monitor = key.instance().is_some() && number.is_multiple_of(2);
    let is_task = key.task().is_some();
    Spec {
        setup_steps: u32::from(number % 4 == 3),
        timeout: (is_task && number.is_multiple_of(5)).then_some(TIMEOUT),
        grace: GRACE,
        linger: if has_monitor { LINGER } else { Span::ZERO },
        monitor: has_monitor.then(monitor::Limits::default),
        readiness: None,
    }
}

/// The same of an order, which says whether it is asked if it is ready.
fn spec_of(order: &Run) -> Spec {
    Spec { readiness: manners::readiness(&order.work), ..spec(&order.key) }
}

/// Within what an instance that is told to end has done so, and another one runs in its place, when
/// nothing goes wrong: it is told, may linger, has its grace and is killed; the next one is given to a
/// worker, prepares itself, and is asked whether it is well.
pub(crate) fn replaced_within(key: &InstanceKey) -> Span {
    let spec = spec(&key.to_work());
    let prepares = SETUP_TAKES.times(spec.setup_steps.into());
    spec.linger.plus(spec.grace).plus(prepares).plus(WORDS_TAKE)
}

/// The step that a part is.
pub(super) fn step_of(key: &WorkKey, part: Part) -> Step {
    if part.get() < spec(key).setup_steps { Step::Setup(part.get()) } else { Step::Run }
}

impl World {
    pub(super) fn begin_ward(&mut self, machine: usize, run: RunId) {
        let one = &mut self.machines[machine];
        let Some(spec) = one.disk.orders.get(&run).map(spec_of) else { return };
        let now = one.clock.at(self.now);
        one.disk.begun.insert(run, now);
        let mut effects = Vec::new();
        let ward = Ward::begin(now, spec, &mut effects);
        let Some(process) = &mut one.worker else { return };
        process.wards.insert(run, ward);
        self.perform_warding(machine, run, effects);
    }

    /// Takes over what the guardian holds, and what was not acknowledged; of everything else nothing
    /// is left, and nothing is known (safety rule 15).
    pub(super) fn adopt_wards(&mut self, machine: usize, held: &[(RunId, Phase, Option<Part>)]) {
        let one = &mut self.machines[machine];
        let now = one.clock.at(self.now);
        let Some(process) = &mut one.worker else { return };
        let disk = &mut one.disk;
        let is_left = |run: &RunId| held.iter().any(|(held, ..)| held == run);
        disk.held.retain(|run, kept| kept.status.is_some() || is_left(run));
        for (run, kept) in &disk.held {
            let ward = if kept.status.is_some() {
                Ward::over(End { cause: Cause::Exited, exit: None })
            } else {
                let begun = disk.begun.get(run).copied().unwrap_or(now);
                let part = held.iter().find(|(held, ..)| held == run).and_then(|(.., part)| *part);
                let order = disk.orders.get(run);
                let spec = order.map_or_else(|| spec(&kept.key), spec_of);
                Ward::adopt(now, spec, begun, part)
            };
            process.wards.insert(*run, ward);
        }
    }

    /// What a new guardian has found of these.
    pub(super) fn compare_wards(
        &mut self,
        machine: usize,
        asked: BTreeSet<RunId>,
        held: &[(RunId, Phase, Option<Part>)],
    ) {
        for run in asked {
            let found = held.iter().find(|(held, ..)| *held == run);
            let input = found.map_or(Input::Lost, |(_, phase, part)| Input::Held(*phase, *part));
            self.step_ward(machine, run, input);
        }
    }

    /// The guardian says what became of a run.
    pub(super) fn told_of(&mut self, machine: usize, run: RunId, fate: Fate) {
        let one = &self.machines[machine];
        let is_known = one.worker.as_ref().is_some_and(|process| process.wards.contains_key(&run));
        if is_known {
            let kill_wait = one.disk.limits.kill_wait;
            self.step_ward(machine, run, Input::Told(fate, kill_wait));
        } else if fate == Fate::Empty {
            // One that was ended because nothing is known of it.
            self.ask_guardian(machine, Request::Forget(run));
        }
    }

    pub(super) fn stop_ward(&mut self, machine: usize, run: RunId, how: Stop) {
        self.say(|| format!("m{machine} stops {run:?}: {how:?}"));
        let (cause, how) = match how {
            Stop::Asked(Kill::Now) => (Cause::Request, How::Now),
            Stop::Asked(Kill::Gracefully) => (Cause::Request, How::Gracefully),
            Stop::Deadline(wait) => (Cause::Deadline, How::Within(wait)),
        };
        self.step_ward(machine, run, Input::Stop(cause, how));
    }

    /// A worker that is about to go ends what does not outlive it.
    pub(super) fn end_ward_with_worker(&mut self, machine: usize, run: RunId) {
        let held = self.machines[machine].disk.held.get(&run);
        let is_ended = held.is_some_and(|held| match words::on_worker_exit(&held.key) {
            OnWorkerExit::Stop => true,
            OnWorkerExit::Keep => false,
        });
        if is_ended {
            let stop = Input::Stop(Cause::WorkerExit, How::Gracefully);
            self.step_ward(machine, run, stop);
        }
    }

    pub(super) fn step_ward(&mut self, machine: usize, run: RunId, input: Input) {
        let one = &mut self.machines[machine];
        let now = one.clock.at(self.now);
        let ward = one.worker.as_mut().and_then(|process| process.wards.get_mut(&run));
        let Some(ward) = ward else { return };
        let mut effects = Vec::new();
        ward.step(now, input, &mut effects);
        self.perform_warding(machine, run, effects);
    }

    fn perform_warding(&mut self, machine: usize, run: RunId, effects: Vec<Effect>) {
        for effect in effects {
            self.perform_ward(machine, run, effect);
        }
        self.tell_life(machine, run);
    }

    /// Says whether a run that runs is ready, if it was not said already.
    fn tell_life(&mut self, machine: usize, run: RunId) {
        let Some(process) = &mut self.machines[machine].worker else { return };
        let Some(life) = process.lives.get_mut(&run) else { return };
        let is_ready = life.is_ready;
        if life.told.replace(is_ready) != Some(is_ready) {
            let progress = sterna_protocol::worker::Input::Progress(run, words::running(is_ready));
            self.tell(&Fact::Readiness { run, is_ready });
            self.step_worker(machine, progress);
        }
    }

    /// Says once more of everything that runs whether it is ready.
    pub(crate) fn tell_lives_again(&mut self, machine: usize) {
        let Some(process) = &mut self.machines[machine].worker else { return };
        let runs: Vec<RunId> = process.lives.keys().copied().collect();
        process.lives.values_mut().for_each(|life| life.told = None);
        for run in runs {
            self.tell_life(machine, run);
        }
    }

    fn note_readiness(&mut self, machine: usize, run: RunId, is_ready: bool) {
        self.coverage.turn(if is_ready { "ready" } else { "not-ready" });
        let Some(process) = &mut self.machines[machine].worker else { return };
        process.lives.entry(run).and_modify(|life| life.is_ready = is_ready);
    }

    fn perform_ward(&mut self, machine: usize, run: RunId, effect: Effect) {
        let Some((pid, _)) = self.machines[machine].worker_process() else { return };
        let who = Who::Worker(machine);
        match effect {
            Effect::Create => {
                let made = if !self.is_calm && self.rng.chance(5) {
                    Input::NotCreated("its disk is full".to_owned())
                } else {
                    Input::Created
                };
                self.step_ward(machine, run, made);
            }
            Effect::Spawn(part, step) => {
                if let Some(spawn) = self.machines[machine].disk.spawns.get(&run).copied() {
                    self.ask_guardian(machine, Request::Spawn(run, spawn, part, step.role()));
                }
            }
            Effect::Stop(grace) => self.ask_guardian(machine, Request::Stop(run, grace)),
            Effect::Kill => {
                self.signal(machine, run, Signal::Kill);
                self.ask_guardian(machine, Request::Stop(run, Span::ZERO));
            }
            Effect::Drain => {
                let after = self.rng.between(1, 20);
                self.later(after, who, pid, Message::Ward(run, Input::Drained));
            }
            Effect::Probe(question, probe) => {
                let container = self.table.get(run).map(|container| container.nature.readiness);
                let is_good = match question {
                    Question::IsWell => self.is_calm || !self.rng.chance(300),
                    Question::IsReady => container
                        .is_some_and(|it| it.is_good(&mut self.rng, self.now, self.is_calm)),
                };
                let after = self.rng.between(1, 400);
                let answer = Input::Probed(question, probe, is_good);
                self.coverage.turn(match question {
                    Question::IsWell => "asked-whether-well",
                    Question::IsReady => "asked-whether-ready",
                });
                self.later(after, who, pid, Message::Ward(run, answer));
            }
            Effect::Became(state) => self.became(machine, run, state),
            Effect::Readiness(is_ready) => self.note_readiness(machine, run, is_ready),
            Effect::Completed(end) => self.complete_ward(machine, run, &end),
            Effect::Remove => {
                if let Some(process) = &mut self.machines[machine].worker {
                    process.wards.remove(&run);
                }
            }
        }
    }

    fn became(&mut self, machine: usize, run: RunId, state: State) {
        self.coverage.turn(state.as_str());
        let Some(process) = &mut self.machines[machine].worker else { return };
        if state == State::Running {
            process.lives.entry(run).or_default();
        } else {
            process.lives.remove(&run);
        }
    }

    /// What was adopted and runs is said to run, in case nobody heard it from the worker before; whether
    /// it is ready is not known yet.
    pub(super) fn tell_adopted(&mut self, machine: usize) {
        let Some(process) = &mut self.machines[machine].worker else { return };
        let runs = process.wards.iter().filter(|(_, ward)| ward.state() == State::Running);
        let runs: Vec<RunId> = runs.map(|(run, _)| *run).collect();
        process.lives.extend(runs.iter().map(|run| (*run, Life::default())));
        for run in runs {
            self.tell_life(machine, run);
        }
    }

    /// Its end is kept on the disk, the guardian lets go of it, and it is told until it is
    /// acknowledged.
    fn complete_ward(&mut self, machine: usize, run: RunId, end: &End) {
        self.coverage.turn(name(&end.cause));
        let how = words::ended(end);
        let one = &mut self.machines[machine];
        if let Some(process) = &mut one.worker {
            process.lives.remove(&run);
        }
        let is_asked = one
            .worker
            .as_ref()
            .and_then(|process| process.wards.get(&run))
            .is_some_and(Ward::is_asked);
        if let Some(held) = one.disk.held.get_mut(&run) {
            held.status = Some(Status { number: 1, run, news: News::Ended(how.clone()) });
        }
        self.say(|| format!("m{machine}: {run:?} is over: {end:?}"));
        if is_asked {
            self.ask_guardian(machine, Request::Forget(run));
        }
        self.step_worker(machine, sterna_protocol::worker::Input::Ended(run, how));
    }

    pub(super) fn tick_wards(&mut self, machine: usize, at: Moment) {
        let now = self.machines[machine].clock.at(self.now);
        let Some(process) = &mut self.machines[machine].worker else { return };
        if process.ward_tick_at != Some(at) {
            return;
        }
        process.ward_tick_at = None;
        let is_due = |ward: &Ward| ward.deadline().is_some_and(|due| now >= due);
        let due = process.wards.iter().filter(|(_, ward)| is_due(ward)).map(|(run, _)| *run);
        for run in due.collect::<Vec<_>>() {
            self.step_ward(machine, run, Input::Tick);
        }
    }

    pub(super) fn arm_wards(&mut self, machine: usize) {
        let now = self.now;
        let one = &mut self.machines[machine];
        let Some(process) = &mut one.worker else { return };
        let Some(due) = process.wards.values().filter_map(Ward::deadline).min() else { return };
        let at = one.clock.when(due).max(now);
        if process.ward_tick_at.is_none_or(|before| at < before) {
            process.ward_tick_at = Some(at);
            let pid = process.pid;
            self.queue.push(at, Event::To(Who::Worker(machine), pid, Message::WardTick(at)));
        }
    }
}

const fn name(cause: &Cause) -> &'static str {
    match cause {
        Cause::Exited => "ended-by-itself",
        Cause::SetupFailed(_) => "ended-setup-failed",
        Cause::FailedToStart(_) => "ended-not-started",
        Cause::Timeout => "ended-by-timeout",
        Cause::Monitor(_) => "ended-by-monitor",
        Cause::DiskLimit => "ended-by-disk-limit",
        Cause::Request => "ended-by-request",
        Cause::Deadline => "ended-by-deadline",
        Cause::WorkerExit => "ended-with-worker",
    }
}
