//! A worker's process: the protocol's core, its link, and its guardian's socket.

use std::collections::BTreeSet;

use sterna_executor::guardian::{Part, Phase, Process, Request, SocketId};
use sterna_model::{Incarnation, RunId, Span};
use sterna_protocol::{
    health::Health,
    message::{FromLeader, FromWorker, HeartbeatAnswer, Held, News, Order, Refusal, Run, StreamId},
    worker::{Alarm, Effect, Input, Start, Worker},
};

use super::WorkerProcess;
use crate::{
    check::Fact,
    clock::Moment,
    net::Toward,
    planted::{Mistake, is_planted},
    words,
    world::{Event, FromGuardian, Message, Pid, ToGuardian, Who, World},
};

impl World {
    pub(crate) fn start_worker(&mut self, machine: usize) {
        let one = &mut self.machines[machine];
        one.power_on();
        if one.worker.is_some() || !one.is_on() {
            return;
        }
        let pid = self.new_pid();
        let has_lived = self.machines[machine].disk.life > 0;
        if !(has_lived && is_planted(Mistake::ReusesItsLife)) {
            self.machines[machine].disk.life += 1;
        }
        self.machines[machine].worker = Some(WorkerProcess {
            pid,
            stopped_until: 0,
            core: None,
            socket: None,
            adopting: BTreeSet::new(),
            stream: None,
            tick_at: None,
            wants_drain: false,
            is_leaving: false,
            wards: std::collections::BTreeMap::new(),
            lives: std::collections::BTreeMap::new(),
            ward_tick_at: None,
        });
        self.say(|| format!("m{machine} starts a worker"));
        self.connect_guardian(machine);
    }

    /// Its process is gone. Who is at the other ends hears of it.
    pub(crate) fn kill_worker(&mut self, machine: usize) {
        let Some(process) = self.machines[machine].worker.take() else { return };
        self.tell(&Fact::WorkerGone { machine });
        if let Some(stream) = process.stream {
            self.hang_up_below(stream);
        }
        if let Some(socket) = process.socket
            && let Some((pid, _)) = self.machines[machine].guardian_process()
        {
            let after = self.rng.between(0, 3);
            let gone = Message::ToGuardian(socket, ToGuardian::Gone);
            self.later(after, Who::Guardian(machine), pid, gone);
        }
        if let Some(guardian) = &self.machines[machine].guardian
            && guardian.starter == Some(process.pid)
        {
            let pid = guardian.pid;
            self.later(1, Who::Guardian(machine), pid, Message::StarterGone);
        }
    }

    /// Finds its guardian, or starts one, and adopts what that holds (safety rule 15).
    pub(super) fn connect_guardian(&mut self, machine: usize) {
        if self.machines[machine].guardian.is_none() {
            self.start_guardian(machine);
        }
        let one = &mut self.machines[machine];
        one.sockets += 1;
        let socket = SocketId::new(one.sockets);
        let incarnation = Incarnation { lock: one.lock, life: one.disk.life };
        let Some(process) = &mut one.worker else { return };
        let pid = Process::new(process.pid.0);
        process.socket = Some(socket);
        process.adopting = one.disk.held.keys().copied().collect();
        self.ask_guardian(machine, Request::Adopt(incarnation, pid));
        let kill_wait = self.machines[machine].disk.limits.kill_wait;
        self.ask_guardian(machine, Request::KillWait(kill_wait));
    }

    pub(super) fn ask_guardian(&mut self, machine: usize, request: Request) {
        let Some(socket) = self.machines[machine].worker.as_ref().and_then(|one| one.socket) else {
            return;
        };
        if let Some((pid, _)) = self.machines[machine].guardian_process() {
            let request = Message::ToGuardian(socket, ToGuardian::Request(request));
            self.later(1, Who::Guardian(machine), pid, request);
        }
    }

    pub(crate) fn worker_gets(&mut self, machine: usize, message: Message) {
        match message {
            Message::Tick(at) => self.tick_worker(machine, at),
            Message::Dial => self.dial(machine),
            Message::Checked(began) => self.step_worker(machine, Input::Checked(began)),
            Message::Reborn => {
                let one = &mut self.machines[machine];
                one.disk.life += 1;
                let life = Incarnation { lock: one.lock, life: one.disk.life };
                self.coverage.turn("reborn");
                self.step_worker(machine, Input::Reborn(life));
            }
            Message::Frame(stream, frame) => self.hear_leader(machine, stream, frame),
            Message::Closed(stream) => self.stream_ended(machine, stream),
            Message::FromGuardian(socket, said) => self.hear_guardian(machine, socket, said),
            Message::StartGuardian => self.connect_guardian(machine),
            Message::Ward(run, input) => self.step_ward(machine, run, input),
            Message::WardTick(at) => self.tick_wards(machine, at),
            Message::Told(..)
            | Message::Operate
            | Message::Look
            | Message::Pump
            | Message::Called(_)
            | Message::FrameUp(..)
            | Message::ToGuardian(..)
            | Message::Cloned(..)
            | Message::Exited(..)
            | Message::StarterGone
            | Message::Empty(_) => {}
        }
        self.arm_worker(machine);
        self.arm_wards(machine);
    }

    fn hear_guardian(&mut self, machine: usize, socket: SocketId, said: FromGuardian) {
        let Some(process) = &self.machines[machine].worker else { return };
        if process.socket != Some(socket) {
            return;
        }
        match said {
            FromGuardian::Adopted(held) => self.adopted(machine, &held),
            FromGuardian::Tell(run, fate) => self.told_of(machine, run, fate),
            FromGuardian::Pong(number) => {
                self.step_worker(machine, Input::GuardianAnswered(number));
            }
            FromGuardian::Gone => {
                // It was killed alone: another takes its place.
                if let Some(process) = &mut self.machines[machine].worker {
                    process.socket = None;
                    let pid = process.pid;
                    let after = self.rng.between(5, 300);
                    self.later(after, Who::Worker(machine), pid, Message::StartGuardian);
                }
            }
        }
    }

    /// What the guardian does not hold, of what was started before the question, is over.
    fn adopted(&mut self, machine: usize, held: &[(RunId, Phase, Option<Part>)]) {
        let Some(process) = &mut self.machines[machine].worker else { return };
        let asked = std::mem::take(&mut process.adopting);
        let is_fresh = process.core.is_none();
        if is_fresh {
            self.adopt_wards(machine, held);
        } else {
            self.compare_wards(machine, asked, held);
        }
        // And what it holds of which nobody knows any more is ended.
        for (run, ..) in held {
            if !self.machines[machine].disk.held.contains_key(run) {
                self.ask_guardian(machine, Request::Stop(*run, Span::ZERO));
            }
        }
        if is_fresh {
            self.begin_life(machine);
        }
    }

    fn begin_life(&mut self, machine: usize) {
        let one = &mut self.machines[machine];
        let now = one.clock.at(self.now);
        let start = Start {
            incarnation: Incarnation { lock: one.lock, life: one.disk.life },
            name: one.name.clone(),
            boot: one.boot,
            birth: one.disk.life,
            facts: words::facts(),
            seen: one.disk.seen,
            confirmed: one.disk.kept.confirmed,
            held: one.disk.held.values().cloned().collect(),
            limits: one.disk.limits,
        };
        let Some(process) = &mut one.worker else { return };
        process.core = Some(Worker::new(now, start));
        let pid = process.pid;
        self.tell_adopted(machine);
        self.later(1, Who::Worker(machine), pid, Message::Dial);
    }

    fn tick_worker(&mut self, machine: usize, at: Moment) {
        let Some(process) = &mut self.machines[machine].worker else { return };
        if process.tick_at == Some(at) {
            process.tick_at = None;
            self.step_worker(machine, Input::Tick);
        }
    }

    fn arm_worker(&mut self, machine: usize) {
        let now = self.now;
        let one = &mut self.machines[machine];
        let Some(process) = &mut one.worker else { return };
        let Some(core) = &process.core else { return };
        let at = one.clock.when(core.deadline()).max(now);
        if process.tick_at.is_none_or(|before| at < before) {
            process.tick_at = Some(at);
            let pid = process.pid;
            self.queue.push(at, Event::To(Who::Worker(machine), pid, Message::Tick(at)));
        }
    }

    pub(crate) fn step_worker(&mut self, machine: usize, input: Input) {
        let one = &mut self.machines[machine];
        let now = one.clock.at(self.now);
        let Some(core) = one.worker.as_mut().and_then(|process| process.core.as_mut()) else {
            return;
        };
        let mandate = match &input {
            Input::Frame(_, frame) => Some(frame.mandate),
            Input::Tick
            | Input::Opened(_)
            | Input::Closed(_)
            | Input::GuardianAnswered(_)
            | Input::Checked(_)
            | Input::Progress(..)
            | Input::Ended(..)
            | Input::Reborn(_)
            | Input::WantsDrain(_)
            | Input::Leave => None,
        };
        let mut effects = Vec::new();
        // What is due by now is not done for what is said.
        core.step(now, Input::Tick, &mut effects);
        let due = effects.len();
        core.step(now, input, &mut effects);
        let is_full = self.now < one.unwell_until;
        let starts = effects.iter().filter_map(Effect::begins).filter(|_| is_full);
        let unkept: BTreeSet<RunId> = starts.map(|run| run.run).collect();
        if !unkept.is_empty() {
            core.not_kept(now, &unkept, &mut effects);
            self.coverage.turn("not-kept");
        }
        if let Some(mandate) = mandate.filter(|_| effects.iter().skip(due).any(is_obedience)) {
            self.tell(&Fact::Followed { machine, mandate });
        }
        for effect in effects {
            self.perform_below(machine, effect);
        }
    }

    fn perform_below(&mut self, machine: usize, effect: Effect) {
        let Some((pid, _)) = self.machines[machine].worker_process() else { return };
        let who = Who::Worker(machine);
        match effect {
            Effect::AskGuardian(number) => self.ask_guardian(machine, Request::Ping(number)),
            Effect::Check => {
                let one = &self.machines[machine];
                let (began, is_well) = (one.clock.at(self.now), self.now >= one.unwell_until);
                let after = self.rng.between(20, 300);
                if is_well {
                    self.later(after, who, pid, Message::Checked(began));
                }
            }
            Effect::Send(stream, frame) => self.send_up(machine, stream, frame),
            Effect::Close(stream) => self.hang_up_below(stream),
            Effect::Start(run) => self.start_run(machine, run),
            Effect::Stop(run, how) => self.stop_ward(machine, run, how),
            Effect::Forget(run) => self.forget(machine, run),
            Effect::Confirmed(stamp) => self.ask_guardian(machine, Request::Confirmed(stamp)),
            Effect::Remember(mandate, revision) => {
                self.machines[machine].disk.seen = Some((mandate, revision));
            }
            Effect::Limits(limits) => {
                self.machines[machine].disk.limits = limits;
                self.ask_guardian(machine, Request::KillWait(limits.kill_wait));
            }
            Effect::Rebirth => {
                self.say(|| format!("m{machine} gives up its identity"));
                let after = self.rng.between(5, 600);
                self.later(after, who, pid, Message::Reborn);
            }
            Effect::Alarm(alarm) => {
                self.coverage.turn(match alarm {
                    Alarm::Rival(_) => "alarm-rival",
                    Alarm::WrongVersion(_) => "alarm-version",
                    Alarm::NameTaken => "alarm-name-taken",
                    Alarm::RosterFull => "alarm-roster-full",
                    Alarm::Foreign(_) => "alarm-foreign",
                    Alarm::WentBack(_) => "alarm-went-back",
                });
                self.say(|| format!("m{machine} {alarm:?}"));
            }
        }
    }

    /// On the disk first, then to the guardian, once (safety rule 13).
    fn start_run(&mut self, machine: usize, run: Run) {
        self.say(|| format!("m{machine} accepts {:?} of {}", run.run, run.key));
        let id = run.run;
        let held = Held {
            run: id,
            key: run.key.clone(),
            task: run.task,
            contract: run.contract,
            status: None,
        };
        let one = &mut self.machines[machine];
        one.disk.held.insert(id, held);
        let on_worker_exit = words::on_worker_exit(&run.key);
        let limits = one.disk.limits;
        let stop_after = run.contract.stop_after().map(|after| limits.stop_begins_after(after));
        let spawn = sterna_executor::guardian::Spawn { stop_after, on_worker_exit };
        one.disk.spawns.insert(id, spawn);
        one.disk.orders.insert(id, run);
        self.begin_ward(machine, id);
        if self.machines[machine].worker.as_ref().is_some_and(|process| process.is_leaving) {
            self.end_ward_with_worker(machine, id);
        }
    }

    /// Its worker is asked to end: what does not outlive it is ended first, and then it goes.
    pub(crate) fn leave_gracefully(&mut self, machine: usize, lasts: u64) -> bool {
        let is_guarded = self.machines[machine].is_guarded(self.now);
        let Some(process) = &mut self.machines[machine].worker else { return false };
        if process.is_leaving || process.core.is_none() || !is_guarded {
            return false;
        }
        process.is_leaving = true;
        let (pid, runs) = (process.pid, process.wards.keys().copied().collect::<Vec<_>>());
        self.step_worker(machine, Input::Leave);
        for run in runs {
            self.end_ward_with_worker(machine, run);
        }
        let after = self.rng.between(500, 6_000);
        self.queue.push(self.now + after, Event::Leave(machine, pid, lasts));
        true
    }

    /// It has gone, unless it was killed before.
    pub(crate) fn worker_leaves(&mut self, machine: usize, pid: Pid, lasts: u64) {
        let is_it = |one: &super::Machine| one.worker.as_ref().is_some_and(|one| one.pid == pid);
        if !is_it(&self.machines[machine]) {
            return;
        }
        if !self.machines[machine].is_guarded(self.now) {
            // A guardian that stands still cannot end what this one leaves: a stated limit.
            return self.queue.push(self.now + 1_000, Event::Leave(machine, pid, lasts));
        }
        self.kill_worker(machine);
        self.queue.push(self.now + lasts, Event::Start(Who::Worker(machine)));
    }

    fn forget(&mut self, machine: usize, run: RunId) {
        let one = &mut self.machines[machine];
        if let Some(held) = one.disk.held.remove(&run) {
            let told = held.status.as_ref().and_then(|status| match &status.news {
                News::Ended(how) => words::code_of(how),
                News::Progress(_) | News::WasNotRunning => None,
            });
            // What was told of it must be how it was.
            let result = one.results.get(&run).copied().filter(|_| told.is_some());
            let epoch = one.reigns.get(&run).map(|(epoch, _)| *epoch);
            if let (Some(_), Some(result)) = (held.task, result) {
                let fact = Fact::Forgotten { key: &held.key, epoch, result };
                self.tell(&fact);
            }
        }
        let disk = &mut self.machines[machine].disk;
        disk.spawns.remove(&run);
        disk.orders.remove(&run);
        disk.begun.remove(&run);
        disk.parts.remove(&run);
        self.step_ward(machine, run, sterna_executor::ward::Input::Acknowledged);
    }

    fn hear_leader(&mut self, machine: usize, stream: StreamId, frame: FromLeader) {
        if let Some(open) = self.net.streams.get_mut(&stream) {
            open.heard = self.now;
        }
        self.coverage.message(match &frame.order {
            Order::Heartbeat(answer) => match answer {
                HeartbeatAnswer::Welcome => "welcome",
                HeartbeatAnswer::Confirmed(_) => "confirmed",
                HeartbeatAnswer::Refused(_) => "refused",
            },
            Order::Statuses(..) => "status-answers",
            Order::GetRunning => "get-running",
            Order::Run(_) => "run",
            Order::NotifyIfNotRunning(..) => "notify-if-not-running",
            Order::Kill(..) => "kill",
            Order::Die => "die",
        });
        if self.is_traced() && !matches!(frame.order, Order::Heartbeat(_)) {
            self.say(|| format!("    m{machine} hears {stream:?} {:?}", frame.order));
        }
        let verdict = match &frame.order {
            Order::Heartbeat(HeartbeatAnswer::Confirmed(confirmation)) => {
                Some(confirmation.verdict)
            }
            Order::Die | Order::Heartbeat(HeartbeatAnswer::Refused(Refusal::Die)) => {
                Some(Health::MustDie)
            }
            Order::Heartbeat(_)
            | Order::Statuses(..)
            | Order::GetRunning
            | Order::Run(_)
            | Order::NotifyIfNotRunning(..)
            | Order::Kill(..) => None,
        };
        let life = frame.incarnation.life;
        let news = verdict.and_then(|it| self.machines[machine].note_verdict(life, it));
        if let Some(news) = news {
            self.coverage.turn(news);
        }
        if let Order::Heartbeat(HeartbeatAnswer::Confirmed(confirmation)) = &frame.order
            && confirmation.verdict == Health::Healthy
        {
            self.machines[machine].told_healthy = (self.now, frame.incarnation.life);
        }
        if let Order::Run(runs) = &frame.order {
            let reign = (frame.mandate.epoch, frame.mandate.term);
            let reigns = &mut self.machines[machine].reigns;
            for run in runs {
                reigns.entry(run.run).or_insert(reign);
            }
        }
        self.step_worker(machine, Input::Frame(stream, frame));
    }

    fn send_up(&mut self, machine: usize, stream: StreamId, frame: FromWorker) {
        if self.is_traced()
            && !matches!(frame.saying, sterna_protocol::message::Saying::Heartbeat(_))
        {
            self.say(|| format!("    m{machine} says {stream:?} {:?}", frame.saying));
        }
        let arrivals = self.net.arrivals(self.now, stream, Toward::Server);
        if let Some((last, rest)) = arrivals.split_last() {
            for at in rest {
                self.queue.push(*at, Event::Up(stream, frame.clone()));
            }
            self.queue.push(*last, Event::Up(stream, frame));
        }
    }

    /// Dials whoever leads, or thinks so.
    fn dial(&mut self, machine: usize) {
        let Some(process) = &self.machines[machine].worker else { return };
        let pid = process.pid;
        if process.stream.is_some() {
            return;
        }
        let leaders: Vec<(usize, Pid)> = (0..self.servers.len())
            .filter_map(|server| {
                self.office(server)?;
                Some((server, self.servers[server].process()?.0))
            })
            .collect();
        let leader = match self.leading().filter(|_| !self.rng.chance(100)) {
            Some(server) => self.servers[server].process().map(|(pid, _)| (server, pid)),
            None => self.rng.pick(&leaders),
        };
        let leader = leader.filter(|(server, _)| self.net.is_reachable(self.now, machine, *server));
        let Some(leader) = leader else {
            let after = self.rng.between(200, 1_500);
            return self.later(after, Who::Worker(machine), pid, Message::Dial);
        };
        let stream = self.net.open(self.now, (machine, pid), leader);
        if let Some(process) = &mut self.machines[machine].worker {
            process.stream = Some(stream);
        }
        self.say(|| format!("m{machine} opens {stream:?} to s{}", leader.0));
        self.queue.push(self.now + 1_000, Event::Patience(stream));
        // What is asked first is most easily lost.
        if let Some(lasts) = self.machines[machine].cut_at_dial.take() {
            let at = self.now + self.rng.between(20, 300);
            self.queue.push(at, Event::CutOff(machine, lasts));
        }
        self.step_worker(machine, Input::Opened(stream));
    }

    /// The worker's end of a stream is over.
    fn stream_ended(&mut self, machine: usize, stream: StreamId) {
        let Some(process) = &mut self.machines[machine].worker else { return };
        if process.stream != Some(stream) {
            return;
        }
        process.stream = None;
        let pid = process.pid;
        let after = self.rng.between(1, 1_500);
        self.later(after, Who::Worker(machine), pid, Message::Dial);
        self.step_worker(machine, Input::Closed(stream));
    }

    pub(crate) fn want_drain(&mut self, machine: usize, wants: bool) {
        let Some(process) = &mut self.machines[machine].worker else { return };
        process.wants_drain = wants;
        self.tell(&Fact::Wished { machine });
        self.step_worker(machine, Input::WantsDrain(wants));
    }
}

/// Whether a worker that does this in answer to a frame has followed whoever sent it.
const fn is_obedience(effect: &Effect) -> bool {
    match effect {
        Effect::Start(_)
        | Effect::Stop(..)
        | Effect::Forget(_)
        | Effect::Confirmed(_)
        | Effect::Remember(..)
        | Effect::Limits(_)
        | Effect::Rebirth => true,
        Effect::AskGuardian(_)
        | Effect::Check
        | Effect::Send(..)
        | Effect::Close(_)
        | Effect::Alarm(_) => false,
    }
}
