//! A guardian's process, and the containers that it parents.

use std::collections::{BTreeMap, BTreeSet};

use sterna_executor::{
    container::{Cause, Exit, How, Step},
    guardian::{Effect, Fate, Found, Guardian, Input, Part, SocketId, Stopping},
    ward,
};
use sterna_model::{RunId, WorkKey};

use super::{GuardianProcess, Waiting, wards::step_of};
use crate::{
    check::Fact,
    clock::Moment,
    manners,
    table::{Container, Happening, Nature, Signal},
    words,
    world::{Event, FromGuardian, Message, ToGuardian, Who, World},
};

impl World {
    /// A guardian starts: what an earlier one has left is found by its cgroups (safety rule 14).
    pub(crate) fn start_guardian(&mut self, machine: usize) {
        let one = &self.machines[machine];
        if one.guardian.is_some() || !one.is_on() {
            return;
        }
        let pid = self.new_pid();
        let found = self.found(machine);
        let gone = self.gone(&found);
        let one = &mut self.machines[machine];
        let now = one.clock.at(self.now);
        let kill_wait = one.disk.limits.kill_wait;
        let starter = one.worker.as_ref().map(|worker| worker.pid);
        let mut core = Guardian::new(now, kill_wait, one.disk.kept, found);
        if starter.is_some() {
            core = core.that_sees_its_starter();
        }
        one.guardian = Some(GuardianProcess {
            pid,
            starter,
            stopped_until: 0,
            core,
            tick_at: None,
            worker: None,
            waiting: BTreeMap::new(),
        });
        self.coverage.turn("guardian-started");
        self.step_guardian(machine, Input::Tick);
        for (run, part) in gone {
            let exited = Message::Exited(run, part, Exit::Unknown);
            self.later(1, Who::Guardian(machine), pid, exited);
        }
        self.arm_guardian(machine);
    }

    /// What the journals say of every run that a guardian began.
    fn found(&self, machine: usize) -> Vec<(RunId, Option<Found>)> {
        let disk = &self.machines[machine].disk;
        let begun = disk.markers.iter().map(|(run, _)| *run);
        // The journals of an earlier boot say nothing.
        let is_known = |run: &RunId| {
            disk.spawns.contains_key(run)
                || disk.fates.contains_key(run)
                || self.table.get(*run).is_some()
        };
        let begun: BTreeSet<RunId> = begun.filter(is_known).collect();
        let found = begun.into_iter().map(|run| {
            let fates = disk.fates.get(&run).cloned().unwrap_or_default();
            if fates.contains(&Fate::Empty) {
                return (run, Some(Found::Over(fates)));
            }
            let stopping = disk.stopping.get(&run).copied();
            let order = disk.orders.get(&run);
            let part = disk.parts.get(&run).copied().zip(order);
            let part = part.map(|(part, order)| (part, step_of(&order.key, part).role()));
            let spawn = disk.spawns.get(&run).copied();
            (run, spawn.map(|spawn| Found::Live { spawn, stopping, part, fates }))
        });
        found.collect()
    }

    /// The newest part of each run whose process is gone, and nobody knows how it ended: it ended while
    /// no guardian was there, or it waited for the go byte of the one before.
    fn gone(&self, found: &[(RunId, Option<Found>)]) -> Vec<(RunId, Part)> {
        let gone = found.iter().filter_map(|(run, found)| {
            let Some(Found::Live { part, fates, .. }) = found else { return None };
            let (part, _) = (*part)?;
            let is_told = fates.iter().any(|fate| match fate {
                Fate::Exited(of, _) | Fate::NotStarted(of, _) => *of == part,
                Fate::Started(_) | Fate::Stopping(_) | Fate::Empty => false,
            });
            let is_there = |one: &Container| one.part == part && !one.has_exited;
            (!is_told && !self.table.get(*run).is_some_and(is_there)).then_some((*run, part))
        });
        gone.collect()
    }

    /// Its process is gone; containers live on, but for those that wait for its go byte.
    pub(crate) fn kill_guardian(&mut self, machine: usize) {
        let Some(process) = self.machines[machine].guardian.take() else { return };
        for (run, _) in process.waiting {
            self.say(|| format!("m{machine}: {run:?} ends without its command"));
        }
        // Whoever is connected notices, adopted or not.
        if let Some(worker) = &self.machines[machine].worker
            && let Some(socket) = worker.socket
        {
            let (pid, gone) = (worker.pid, Message::FromGuardian(socket, FromGuardian::Gone));
            self.later(1, Who::Worker(machine), pid, gone);
        }
    }

    pub(crate) fn guardian_gets(&mut self, machine: usize, message: Message) {
        match message {
            Message::Tick(at) => self.tick_guardian(machine, at),
            Message::ToGuardian(socket, ToGuardian::Request(request)) => {
                let worker = self.machines[machine].worker_process();
                if let (
                    Some(process),
                    Some((pid, _)),
                    sterna_executor::guardian::Request::Adopt(..),
                ) = (&mut self.machines[machine].guardian, worker, &request)
                {
                    process.worker = Some((socket, pid));
                }
                self.step_guardian(machine, Input::Request(socket, request));
            }
            Message::ToGuardian(socket, ToGuardian::Gone) => {
                self.step_guardian(machine, Input::Closed(socket));
            }
            Message::StarterGone => self.step_guardian(machine, Input::StarterGone),
            Message::Cloned(run, part) => self.step_guardian(machine, Input::Cloned(run, part)),
            Message::Exited(run, part, exit) => {
                self.step_guardian(machine, Input::Exited(run, part, exit));
            }
            Message::Empty(run) => {
                self.step_guardian(machine, Input::Empty(run));
            }
            Message::Told(..)
            | Message::Operate
            | Message::Look
            | Message::Pump
            | Message::Called(_)
            | Message::Dial
            | Message::Checked(_)
            | Message::Reborn
            | Message::Frame(..)
            | Message::FrameUp(..)
            | Message::Closed(_)
            | Message::FromGuardian(..)
            | Message::StartGuardian
            | Message::Ward(..)
            | Message::WardTick(_) => {}
        }
        self.arm_guardian(machine);
    }

    fn tick_guardian(&mut self, machine: usize, at: Moment) {
        let Some(process) = &mut self.machines[machine].guardian else { return };
        if process.tick_at == Some(at) {
            process.tick_at = None;
            self.step_guardian(machine, Input::Tick);
        }
    }

    fn arm_guardian(&mut self, machine: usize) {
        let now = self.now;
        let one = &mut self.machines[machine];
        let Some(process) = &mut one.guardian else { return };
        let Some(due) = process.core.deadline() else { return };
        let at = one.clock.when(due).max(now);
        if process.tick_at.is_none_or(|before| at < before) {
            process.tick_at = Some(at);
            let pid = process.pid;
            self.queue.push(at, Event::To(Who::Guardian(machine), pid, Message::Tick(at)));
        }
    }

    fn step_guardian(&mut self, machine: usize, input: Input) {
        let one = &mut self.machines[machine];
        let now = one.clock.at(self.now);
        let Some(process) = &mut one.guardian else { return };
        let mut effects = Vec::new();
        let mut runs = BTreeSet::from_iter(input.concerned());
        process.core.step(now, input, &mut effects);
        runs.extend(effects.iter().filter_map(ended_by));
        self.record(machine, &runs);
        for effect in effects {
            self.perform_guarding(machine, effect);
        }
    }

    fn perform_guarding(&mut self, machine: usize, effect: Effect) {
        let Some((pid, _)) = self.machines[machine].guardian_process() else { return };
        let who = Who::Guardian(machine);
        match effect {
            Effect::Close(_) => {}
            Effect::Adopted(socket, held) => {
                self.coverage.turn("adopted");
                self.tell_worker(machine, socket, FromGuardian::Adopted(held));
            }
            Effect::Tell(socket, run, fate) => {
                self.tell_worker(machine, socket, FromGuardian::Tell(run, fate));
            }
            Effect::Pong(socket, number) => {
                self.tell_worker(machine, socket, FromGuardian::Pong(number));
            }
            Effect::Keep(kept) => self.machines[machine].disk.kept = kept,
            Effect::Clone(run, part) => {
                // The marker must not be there.
                let disk = &mut self.machines[machine].disk;
                if disk.markers.insert((run, part)) {
                    disk.parts.insert(run, part);
                    if let Some(process) = &mut self.machines[machine].guardian {
                        process.waiting.insert(run, Waiting::Alive);
                    }
                    // On a machine that is busy it takes long.
                    let is_slow = !self.is_calm && self.rng.chance(150);
                    let after = self.rng.between(1, if is_slow { 6_000 } else { 30 });
                    self.later(after, who, pid, Message::Cloned(run, part));
                } else {
                    self.later(1, who, pid, Message::Empty(run));
                }
            }
            Effect::Go(run, part) => self.let_go(machine, run, part),
            Effect::Abort(run, _) => {
                self.coverage.turn("aborted");
                if let Some(process) = &mut self.machines[machine].guardian {
                    process.waiting.remove(&run);
                }
                self.later(1, who, pid, Message::Empty(run));
            }
            Effect::Terminate(run) => {
                self.coverage.turn("terminated");
                self.keep_stop(machine, run);
                self.signal(machine, run, Signal::Terminate);
            }
            Effect::Hurry(run) => self.keep_stop(machine, run),
            Effect::Kill(run) => {
                self.coverage.turn("killed");
                let disk = &mut self.machines[machine].disk;
                disk.stopping.insert(run, Stopping { kill_at: None });
                if self.table.get(run).is_some() {
                    self.signal(machine, run, Signal::Kill);
                } else {
                    self.later(1, who, pid, Message::Empty(run));
                }
            }
            Effect::Release(run) => {
                let disk = &mut self.machines[machine].disk;
                disk.fates.remove(&run);
                disk.markers.retain(|(marked, _)| *marked != run);
            }
            Effect::Exit => {
                self.say(|| format!("m{machine}: the guardian ends"));
                self.kill_guardian(machine);
            }
        }
    }

    /// When a run is killed stands in its journal before it is told to end.
    fn keep_stop(&mut self, machine: usize, run: RunId) {
        let one = &mut self.machines[machine];
        let kill_at = one.guardian.as_ref().and_then(|process| process.core.kill_at(run));
        one.disk.stopping.insert(run, Stopping { kill_at });
    }

    /// The go byte: whoever waits for it becomes its command.
    fn let_go(&mut self, machine: usize, run: RunId, part: Part) {
        let Some(process) = &mut self.machines[machine].guardian else { return };
        let pid = process.pid;
        match process.waiting.remove(&run) {
            Some(Waiting::Killed) => {
                self.coverage.turn("killed-before-it-began");
                let why = "it was killed before it began".to_owned();
                self.step_guardian(machine, Input::NotExeced(run, part, why));
                self.later(1, Who::Guardian(machine), pid, Message::Empty(run));
            }
            Some(Waiting::Alive) | None => {
                self.exec(machine, run, part);
                self.step_guardian(machine, Input::Execed(run, part));
            }
        }
    }

    /// What became of the runs that an input is about stands in their journals before anybody is told.
    fn record(&mut self, machine: usize, runs: &BTreeSet<RunId>) {
        let one = &mut self.machines[machine];
        let Some(process) = &one.guardian else { return };
        let is_kept = |fate: &&Fate| match fate {
            // That it was let go stands there already.
            Fate::Started(_) => false,
            Fate::NotStarted(..) | Fate::Stopping(_) | Fate::Exited(..) | Fate::Empty => true,
        };
        for run in runs {
            let fates: Vec<Fate> =
                process.core.fates(*run).iter().filter(is_kept).cloned().collect();
            if !fates.is_empty() {
                one.disk.fates.insert(*run, fates);
            }
        }
    }

    fn tell_worker(&mut self, machine: usize, socket: SocketId, said: FromGuardian) {
        let process = self.machines[machine].guardian.as_ref();
        let worker = process.and_then(|process| process.worker);
        if let Some((_, worker)) = worker.filter(|(known, _)| *known == socket) {
            self.later(1, Who::Worker(machine), worker, Message::FromGuardian(socket, said));
        }
    }

    /// A command begins: from here on it really runs.
    fn exec(&mut self, machine: usize, run: RunId, part: Part) {
        let Some(order) = self.machines[machine].disk.orders.get(&run) else { return };
        let (key, task, contract) = (order.key.clone(), order.task, order.contract);
        let (step, manner) = (step_of(&key, part), manners::of(&order.work));
        let at = (self.now, self.is_calm);
        let nature = match step {
            Step::Setup(_) => Nature::of_setup(&mut self.rng, self.is_calm),
            Step::Run => Nature::draw(&mut self.rng, &key, manner, at),
        };
        if let Some(after) = nature.exits_after {
            let exits = Happening::Exits(part, nature.result);
            self.queue.push(self.now + after, Event::Container(run, exits));
        }
        self.say(|| format!("m{machine}: {run:?} of {key} begins {part:?}"));
        if let Some(container) = self.table.get_mut(run) {
            // What the steps before have left is still there.
            (container.part, container.nature, container.has_exited) = (part, nature, false);
            let container = container.clone();
            return self.tell(&Fact::Execed { run, container: &container, step });
        }
        let Some(reign) = self.machines[machine].reigns.get(&run).copied() else { return };
        let on_worker_exit = words::on_worker_exit(&key);
        self.coverage.starts += 1;
        let container = Container {
            key,
            task,
            contract,
            on_worker_exit,
            machine,
            reign,
            part,
            nature,
            has_exited: false,
        };
        self.fill_disk(machine, run, &container);
        self.tell(&Fact::Began { run, container: &container });
        self.tell(&Fact::Execed { run, container: &container, step });
        self.table.insert(run, container);
    }

    /// Seldom a run writes more than it may, and its worker ends it.
    fn fill_disk(&mut self, machine: usize, run: RunId, container: &Container) {
        let is_instance = matches!(container.key, WorkKey::Instance(_));
        if self.is_calm || !is_instance || !self.rng.chance(20) {
            return;
        }
        if let Some((pid, _)) = self.machines[machine].worker_process() {
            let stop = ward::Input::Stop(Cause::DiskLimit, How::Gracefully);
            let after = self.rng.between(500, 20_000);
            self.later(after, Who::Worker(machine), pid, Message::Ward(run, stop));
        }
    }

    /// Signals every process of a container, by its cgroup.
    pub(super) fn signal(&mut self, machine: usize, run: RunId, signal: Signal) {
        let waiting = self.machines[machine].guardian.as_mut();
        if let Some(waiting) = waiting.and_then(|process| process.waiting.get_mut(&run)) {
            // It heeds no signal yet but one.
            *waiting = match signal {
                Signal::Terminate => *waiting,
                Signal::Kill => Waiting::Killed,
            };
        }
        let Some(container) = self.table.get(run) else { return };
        let after = match signal {
            Signal::Terminate => container.nature.heeds_term,
            Signal::Kill => Some(1),
        };
        if let Some(after) = after {
            self.queue.push(self.now + after, Event::Container(run, Happening::Empties));
        }
    }

    /// Something happens in a container, whether or not anybody looks.
    pub(crate) fn container(&mut self, run: RunId, what: Happening) {
        let Some(container) = self.table.get_mut(run) else { return };
        let machine = container.machine;
        let guardian = self.machines[machine].guardian_process();
        match what {
            Happening::Exits(part, code) => {
                if part != container.part || std::mem::replace(&mut container.has_exited, true) {
                    return;
                }
                match step_of(&container.key, part) {
                    // Something of it stays behind, until it is killed.
                    Step::Setup(_) => {}
                    Step::Run => {
                        let after = container.nature.lingers.unwrap_or(0);
                        let empties = Event::Container(run, Happening::Empties);
                        self.queue.push(self.now + after, empties);
                        self.machines[machine].results.insert(run, u64::from(code));
                    }
                }
                if let Some((pid, _)) = guardian {
                    let exit = Exit::Code(i32::from(code));
                    self.deliver(Who::Guardian(machine), pid, Message::Exited(run, part, exit));
                }
            }
            Happening::Empties => {
                self.say(|| format!("m{machine}: {run:?} is gone"));
                let gone = self.table.remove(run);
                self.tell(&Fact::Gone { run });
                let Some((pid, _)) = guardian else { return };
                if let Some(gone) = gone.filter(|gone| !gone.has_exited) {
                    let exited = Message::Exited(run, gone.part, Exit::Signal(9));
                    self.deliver(Who::Guardian(machine), pid, exited);
                }
                self.deliver(Who::Guardian(machine), pid, Message::Empty(run));
            }
        }
    }

    /// Everything on a machine is gone at once.
    pub(crate) fn end_all(&mut self, machine: usize) {
        for run in self.table.on(machine) {
            self.table.remove(run);
            self.tell(&Fact::Gone { run });
        }
    }
}

/// The run whose end an effect begins: why stands in its journal before that.
const fn ended_by(effect: &Effect) -> Option<RunId> {
    match effect {
        Effect::Terminate(run) | Effect::Hurry(run) | Effect::Kill(run) => Some(*run),
        Effect::Close(_)
        | Effect::Adopted(..)
        | Effect::Tell(..)
        | Effect::Pong(..)
        | Effect::Keep(_)
        | Effect::Clone(..)
        | Effect::Go(..)
        | Effect::Abort(..)
        | Effect::Release(_)
        | Effect::Exit => None,
    }
}
