//! One machine: a `Worker`, its guardian, its disk and its clock.

use std::collections::BTreeMap;

use sterna_model::{BootTime, Incarnation, Lock, Name, Revision, RunId};
use sterna_protocol::{
    limits::Limits,
    message::{Held, Kill, Mandate, News, Status, StreamId},
    worker::{Effect, Input, Start, Stop, Worker},
};

use super::{World, rng::Clock, words};

pub(crate) struct Machine {
    pub(crate) name: Name,
    pub(crate) lock: Lock,
    pub(crate) clock: Clock,
    pub(crate) boot: u128,
    pub(crate) is_destroyed: bool,
    pub(crate) worker: Option<Worker>,
    /// When the worker's process starts again.
    pub(crate) up_at: u64,
    pub(crate) paused_until: u64,
    /// Until when it is cut off.
    pub(crate) cut_until: u64,
    /// When it will be cut off again, while its new stream is young.
    pub(crate) cut_at: Option<u64>,
    pub(crate) stream: Option<StreamId>,
    pub(crate) dial_at: u64,
    pub(crate) timers: Vec<(u64, Timer)>,
    pub(crate) disk: Disk,
}

/// What outlives the worker's process: its disk, and what the guardian holds.
#[derive(Default)]
pub(crate) struct Disk {
    life: u64,
    seen: Option<(Mandate, Revision)>,
    pub(crate) confirmed: Option<BootTime>,
    pub(crate) held: BTreeMap<RunId, Held>,
    limits: Option<Limits>,
}

pub(crate) enum Timer {
    Input(Input),
    Reborn,
}

impl Machine {
    pub(crate) fn new(number: u64, name: Name, clock: Clock, up_at: u64) -> Self {
        Self {
            name,
            lock: words::lock(number),
            clock,
            boot: 1,
            is_destroyed: false,
            worker: None,
            up_at,
            paused_until: 0,
            cut_until: 0,
            cut_at: None,
            stream: None,
            dial_at: 0,
            timers: Vec::new(),
            disk: Disk::default(),
        }
    }

    pub(crate) const fn is_running(&self, now: u64) -> bool {
        self.worker.is_some() && now >= self.paused_until
    }
}

impl World {
    pub(crate) fn run_machine(&mut self, index: usize) {
        let now = self.now;
        let machine = &mut self.machines[index];
        if machine.is_destroyed {
            return;
        }
        if machine.worker.is_none() && now >= machine.up_at {
            self.boot_worker(index);
        }
        if !self.machines[index].is_running(now) {
            return self.guard(index);
        }
        if self.machines[index].cut_at.take_if(|at| now >= *at).is_some() && !self.is_calm {
            self.machines[index].cut_until = now + self.rng.between(1_000, 40_000);
            self.net.cut(now, &mut self.rng, |stream| stream.machine == index);
        }
        self.dial(index);
        for (stream, frame) in self.net.due_down(now, index) {
            if self.net.is_open_below(stream) {
                self.say(|| format!("  m{index} hears {stream:?} {:?}", frame.order));
                self.step_worker(index, Input::Frame(stream, frame));
            }
        }
        let machine = &mut self.machines[index];
        let (due, later) =
            std::mem::take(&mut machine.timers).into_iter().partition(|(at, _)| now >= *at);
        machine.timers = later;
        for (_, timer) in due {
            self.ring(index, timer);
        }
        let machine = &self.machines[index];
        if machine.worker.as_ref().is_some_and(|worker| machine.clock.at(now) >= worker.deadline())
        {
            self.step_worker(index, Input::Tick);
        }
    }

    fn ring(&mut self, index: usize, timer: Timer) {
        let input = match timer {
            Timer::Input(input) => input,
            Timer::Reborn => {
                let machine = &mut self.machines[index];
                machine.disk.life += 1;
                Input::Reborn(Incarnation { lock: machine.lock, life: machine.disk.life })
            }
        };
        self.step_worker(index, input);
    }

    fn boot_worker(&mut self, index: usize) {
        let usual = self.limits;
        let machine = &mut self.machines[index];
        machine.disk.life += 1;
        let limits = machine.disk.limits.unwrap_or(usual);
        let start = Start {
            incarnation: Incarnation { lock: machine.lock, life: machine.disk.life },
            name: machine.name.clone(),
            boot: machine.boot,
            facts: words::nothing(),
            seen: machine.disk.seen,
            confirmed: machine.disk.confirmed,
            held: machine.disk.held.values().cloned().collect(),
            limits,
        };
        let life = machine.disk.life;
        machine.worker = Some(Worker::new(machine.clock.at(self.now), start));
        self.say(|| format!("m{index} starts life {life}"));
    }

    /// While no worker runs, the guardian alone keeps the deadlines.
    fn guard(&mut self, index: usize) {
        let machine = &self.machines[index];
        let local = machine.clock.at(self.now);
        let confirmed = machine.disk.confirmed.unwrap_or(BootTime::from_millis(0));
        for container in self.table.alive_mut().filter(|container| container.machine == index) {
            if let Some(after) = container.contract.stop_after()
                && local >= confirmed.plus(self.limits.stop_begins_after(after))
            {
                let end = self.now + self.limits.kill_wait.as_millis();
                container.end_at = Some(container.end_at.map_or(end, |at| at.min(end)));
            }
        }
    }

    fn dial(&mut self, index: usize) {
        let now = self.now;
        if let Some(id) = self.machines[index].stream {
            let stream = self.net.streams.iter_mut().find(|stream| stream.id == id);
            let is_over = stream.is_none_or(|stream| {
                stream.told_below.is_some_and(|at| now >= at)
                    || now > stream.heard + stream.patience
            });
            if is_over {
                self.net.close_below(now, id, &mut self.rng);
                self.machines[index].stream = None;
                self.machines[index].dial_at = now + self.rng.between(1, 1_500);
                self.step_worker(index, Input::Closed(id));
            }
            return;
        }
        if now < self.machines[index].dial_at || now < self.machines[index].cut_until {
            return;
        }
        let alive: Vec<usize> =
            (0..self.leaders.len()).filter(|at| self.leaders[*at].is_alive).collect();
        let newest = alive.last().copied();
        let leader = if self.rng.chance(100) { self.rng.pick(&alive) } else { newest };
        if let Some(leader) = leader {
            let stream = self.net.open(now, index, leader, &mut self.rng);
            self.machines[index].stream = Some(stream);
            if self.rng.chance(60) {
                self.machines[index].cut_at = Some(now + self.rng.between(50, 400));
            }
            self.say(|| format!("m{index} opens {stream:?} to L{leader}"));
            self.step_worker(index, Input::Opened(stream));
        }
    }

    pub(crate) fn step_worker(&mut self, index: usize, input: Input) {
        let machine = &mut self.machines[index];
        let now = machine.clock.at(self.now);
        let Some(worker) = &mut machine.worker else { return };
        let mut effects = Vec::new();
        worker.step(now, input, &mut effects);
        for effect in effects {
            self.perform_below(index, effect);
        }
    }

    fn perform_below(&mut self, index: usize, effect: Effect) {
        let now = self.now;
        match &effect {
            Effect::AskGuardian(_) | Effect::Check | Effect::Confirmed(_) => {}
            Effect::Send(stream, frame) => {
                self.say(|| format!("  m{index} says {stream:?} {:?}", frame.saying));
            }
            other @ (Effect::Close(_)
            | Effect::Start(_)
            | Effect::Stop(..)
            | Effect::Forget(_)
            | Effect::Remember(..)
            | Effect::Limits(_)
            | Effect::Rebirth
            | Effect::Alarm(_)) => self.say(|| format!("m{index} {other:?}")),
        }
        let machine = &mut self.machines[index];
        match effect {
            Effect::AskGuardian(number) => {
                let at = now + self.rng.below(20);
                machine.timers.push((at, Timer::Input(Input::GuardianAnswered(number))));
            }
            Effect::Check => {
                let checked = Input::Checked(machine.clock.at(now));
                machine.timers.push((now + self.rng.between(20, 300), Timer::Input(checked)));
            }
            Effect::Send(stream, frame) => self.net.send_up(now, stream, frame, &mut self.rng),
            Effect::Close(stream) => self.net.close_below(now, stream, &mut self.rng),
            Effect::Start(run) => {
                let id = run.run;
                self.table.start(index, &run);
                if !self.is_calm && self.rng.chance(self.short_lived) {
                    self.table.end_by(id, now + self.rng.between(100, 30_000));
                }
                let held = Held {
                    run: id,
                    key: run.key,
                    task: run.task,
                    contract: run.contract,
                    status: None,
                };
                machine.disk.held.insert(id, held);
            }
            Effect::Stop(run, how) => {
                let within = match how {
                    Stop::Asked(Kill::Now) => self.rng.between(1, 200),
                    Stop::Asked(Kill::Gracefully) => self.rng.between(100, 3_000),
                    // Mostly to the very end of what is allowed.
                    Stop::Deadline(wait) if self.rng.chance(800) => wait.as_millis(),
                    Stop::Deadline(wait) => self.rng.between(0, wait.as_millis()),
                };
                self.table.end_by(run, now + within);
            }
            Effect::Forget(run) => drop(machine.disk.held.remove(&run)),
            Effect::Confirmed(stamp) => machine.disk.confirmed = Some(stamp),
            Effect::Remember(mandate, revision) => machine.disk.seen = Some((mandate, revision)),
            Effect::Limits(limits) => machine.disk.limits = Some(limits),
            Effect::Rebirth => {
                let at = now + self.rng.between(5, 600);
                machine.timers.push((at, Timer::Reborn));
            }
            Effect::Alarm(_) => {}
        }
    }

    /// A container is gone: kept on the disk, and told to the worker if there is one.
    pub(crate) fn container_ended(&mut self, index: usize, run: RunId) {
        self.say(|| format!("m{index}: {run:?} is gone"));
        let machine = &mut self.machines[index];
        if let Some(held) = machine.disk.held.get_mut(&run) {
            held.status = Some(Status { number: 1, run, news: News::Ended(words::nothing()) });
        }
        machine.timers.push((self.now, Timer::Input(Input::Ended(run, words::nothing()))));
    }

    /// The worker's process is gone; its containers are not.
    pub(crate) fn crash_worker(&mut self, index: usize, up_at: u64) {
        let machine = &mut self.machines[index];
        machine.worker = None;
        machine.up_at = up_at;
        machine.paused_until = 0;
        machine.timers.clear();
        if let Some(stream) = machine.stream.take() {
            self.net.close_below(self.now, stream, &mut self.rng);
        }
    }

    /// The machine loses power, and comes back with another clock.
    pub(crate) fn reboot(&mut self, index: usize, up_at: u64) {
        self.crash_worker(index, up_at);
        self.table.end_all(index);
        let machine = &mut self.machines[index];
        machine.boot += 1;
        machine.clock = Clock::new(&mut self.rng);
        machine.disk.confirmed = None;
        // What had not ended by then leaves no word; the other boot says it.
        machine.disk.held.retain(|_, held| held.status.is_some());
    }
}
