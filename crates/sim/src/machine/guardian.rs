//! A guardian's process, and the containers that it parents.

use std::collections::BTreeSet;

use sterna_executor::{
    container::Exit,
    guardian::{Effect, Found, Guardian, Input, Role, SocketId},
};
use sterna_model::{RunId, Term};

use super::{GuardianProcess, MAIN};
use crate::{
    check::Fact,
    clock::Moment,
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
        let one = &mut self.machines[machine];
        let now = one.clock.at(self.now);
        let kill_wait = one.disk.limits.kill_wait;
        let core = Guardian::new(now, kill_wait, one.disk.kept, found);
        one.guardian = Some(GuardianProcess {
            pid,
            stopped_until: 0,
            core,
            tick_at: None,
            worker: None,
            waiting: BTreeSet::new(),
        });
        self.coverage.turn("guardian-started");
        self.step_guardian(machine, Input::Tick);
        // Whose first process ended meanwhile, nobody knows how.
        for run in self.table.on(machine) {
            if self.table.get(run).is_some_and(|container| container.has_exited) {
                self.later(1, Who::Guardian(machine), pid, Message::Exited(run, None));
            }
        }
        self.arm_guardian(machine);
    }

    fn found(&self, machine: usize) -> Vec<(RunId, Option<Found>)> {
        let disk = &self.machines[machine].disk;
        let live = self.table.on(machine).into_iter().map(|run| {
            let spawn = disk.spawns.get(&run).copied();
            let is_stopping = disk.stopping.contains(&run);
            let part = Some((MAIN, Role::Main));
            (run, spawn.map(|spawn| Found::Live { spawn, is_stopping, part }))
        });
        let over = disk.ends.iter().map(|(run, fates)| (*run, Some(Found::Over(fates.clone()))));
        over.chain(live).collect()
    }

    /// Its process is gone; containers live on, but for those that wait for its go byte.
    pub(crate) fn kill_guardian(&mut self, machine: usize) {
        let Some(process) = self.machines[machine].guardian.take() else { return };
        for run in process.waiting {
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
            Message::Cloned(run) => self.step_guardian(machine, Input::Cloned(run, MAIN)),
            Message::Exited(run, result) => {
                if let Some(result) = result {
                    self.machines[machine].results.insert(run, result);
                }
                self.step_guardian(machine, Input::Exited(run, MAIN, Exit::Code(0)));
            }
            Message::Empty(run) => self.step_guardian(machine, Input::Empty(run)),
            Message::Told(..)
            | Message::Dispatch
            | Message::Look
            | Message::Dial
            | Message::Checked(_)
            | Message::Reborn
            | Message::Frame(..)
            | Message::FrameUp(..)
            | Message::Closed(_)
            | Message::FromGuardian(..)
            | Message::StartGuardian
            | Message::KillRun(_) => {}
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
        process.core.step(now, input, &mut effects);
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
            Effect::Clone(run, _) => {
                // The marker must not be there.
                if self.machines[machine].disk.markers.insert(run) {
                    if let Some(process) = &mut self.machines[machine].guardian {
                        process.waiting.insert(run);
                    }
                    let after = self.rng.between(1, 30);
                    self.later(after, who, pid, Message::Cloned(run));
                } else {
                    self.later(1, who, pid, Message::Empty(run));
                }
            }
            Effect::Go(run, _) => {
                if let Some(process) = &mut self.machines[machine].guardian {
                    process.waiting.remove(&run);
                }
                self.exec(machine, run);
                self.step_guardian(machine, Input::Execed(run, MAIN));
            }
            Effect::Abort(run, _) => {
                self.coverage.turn("aborted");
                if let Some(process) = &mut self.machines[machine].guardian {
                    process.waiting.remove(&run);
                }
                self.later(1, who, pid, Message::Empty(run));
            }
            Effect::Terminate(run) => {
                self.coverage.turn("terminated");
                self.machines[machine].disk.stopping.insert(run);
                self.signal(run, Signal::Terminate);
            }
            Effect::Kill(run) => {
                self.coverage.turn("killed");
                self.machines[machine].disk.stopping.insert(run);
                if self.table.get(run).is_some() {
                    self.signal(run, Signal::Kill);
                } else {
                    self.later(1, who, pid, Message::Empty(run));
                }
            }
            Effect::Release(run) => {
                self.machines[machine].disk.ends.remove(&run);
            }
            Effect::Exit => {
                let one = &mut self.machines[machine];
                if let Some(process) = &one.guardian {
                    let ends = process.core.ends();
                    one.disk.ends.extend(ends.map(|(run, fates)| (run, fates.to_vec())));
                }
                self.say(|| format!("m{machine}: the guardian ends"));
                self.kill_guardian(machine);
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

    /// The command begins: from here on it really runs.
    fn exec(&mut self, machine: usize, run: RunId) {
        let Some(order) = self.machines[machine].disk.orders.get(&run) else { return };
        let (key, task, contract) = (order.key.clone(), order.task, order.contract);
        let term = self.machines[machine].terms.get(&run).copied().unwrap_or(Term::ZERO);
        let nature = Nature::draw(&mut self.rng, &key, self.is_calm);
        let on_worker_exit = words::on_worker_exit(&key);
        self.say(|| format!("m{machine}: {run:?} of {key} begins"));
        self.coverage.starts += 1;
        let container = Container {
            key,
            task,
            contract,
            on_worker_exit,
            machine,
            term,
            nature,
            has_exited: false,
        };
        self.checks.see(self.now, &Fact::Began { run, container: &container });
        self.table.insert(run, container);
        if let Some(after) = nature.exits_after {
            let exits = Happening::Exits(nature.result);
            self.queue.push(self.now + after, Event::Container(run, exits));
        }
    }

    /// Signals every process of a container, by its cgroup.
    pub(super) fn signal(&mut self, run: RunId, signal: Signal) {
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
            Happening::Exits(result) => {
                if std::mem::replace(&mut container.has_exited, true) {
                    return;
                }
                let after = container.nature.lingers.unwrap_or(0);
                self.queue.push(self.now + after, Event::Container(run, Happening::Empties));
                if let Some((pid, _)) = guardian {
                    self.deliver(Who::Guardian(machine), pid, Message::Exited(run, Some(result)));
                }
            }
            Happening::Empties => {
                self.say(|| format!("m{machine}: {run:?} is gone"));
                self.table.remove(run);
                self.checks.see(self.now, &Fact::Gone { run });
                if let Some((pid, _)) = guardian {
                    self.deliver(Who::Guardian(machine), pid, Message::Empty(run));
                }
            }
        }
    }

    /// Everything on a machine is gone at once.
    pub(crate) fn end_all(&mut self, machine: usize) {
        for run in self.table.on(machine) {
            self.table.remove(run);
            self.checks.see(self.now, &Fact::Gone { run });
        }
    }
}
