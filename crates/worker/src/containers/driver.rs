//! The loop that drives the cores of all containers.

use std::{
    cell::Cell,
    collections::BTreeMap,
    io,
    os::fd::OwnedFd,
    process::Child,
    sync::{Arc, mpsc::Receiver},
};

use rustix::event::{Timespec, epoll};
use sterna_executor::{
    container::{Cause, How, State, Step},
    guardian::{Fate, Part},
    monitor::ProbeId,
    ward::{Effect, Input, Question, Ward},
};
use sterna_model::{
    BootTime, Incarnation, RunId, Span,
    payload::{Probe, RunReport, Work},
};

use super::{
    Command, Event, Listener, Options, Orders,
    check::check,
    live::{Live, spec},
    output::{Order, Output},
    pipes,
    ports::Ports,
    prepare::{Ground, Prepared, is_plain},
    probe,
    replace::Search,
    result,
    spare::Spares,
    stored::{self, Begun},
    sweeper::{Chore, Removal, Sweeper},
};
use crate::{
    cgroup::Cgroups,
    clock::{boot_id, boot_time},
    directory::{Layout, random},
    guardian::{Ask, Channel, LENGTH_MAX, Launched, RoleWord},
    sink::Sinks,
    stop::number,
};

const WAKE: u64 = 0;
const GUARDIAN: u64 = 1;
/// How often work directories with a limit are measured, in samples.
const MEASURE_EVERY: u64 = 2;

/// What a run with an image is told while its guardian is of an earlier version.
const OLD_GUARDIAN: &str = "the guardian of this worker is of an earlier version, which knows no \
     images: it is replaced when it holds nothing any more and its worker starts anew";

/// Everything that the loop has.
pub(super) struct Driver {
    pub(super) at: Place,
    pub(super) options: Options,
    pub(super) cgroups: Cgroups,
    pub(super) ports: Ports,
    pub(super) channel: Channel,
    pub(super) child: Option<Child>,
    /// The way to the next guardian, while there is none.
    pub(super) search: Option<Search>,
    pub(super) output: Output,
    pub(super) sweeper: Sweeper,
    spares: Spares,
    pub(super) listener: Listener,
    pub(super) lives: BTreeMap<RunId, Live>,
    pub(super) confirmed: Option<BootTime>,
    /// Whether containers were last told to stand still, or to go on, if either.
    pub(super) frozen: Option<bool>,
    /// Whether the guardian knows what to do with images.
    pub(super) has_images: bool,
    /// Ends that were noted, of which the guardian is told with the next thing that it is told, or
    /// then: it does not wait for that.
    pub(super) forgotten: Vec<RunId>,
    pub(super) forget_by: Option<BootTime>,
    /// What is to be said of runs of which nothing was said yet: a short one may be over by then.
    pub(super) early: BTreeMap<RunId, Vec<Order>>,
    pub(super) orders: Orders,
    pub(super) epoll: OwnedFd,
    /// Whether it is told when the guardian has read.
    waits_for_room: Cell<bool>,
    next_sample: BootTime,
    samples: u64,
    pub(super) is_shutting_down: bool,
}

/// Who and where this worker is.
#[derive(Debug)]
pub(super) struct Place {
    pub(super) layout: Layout,
    pub(super) boot: String,
    pub(super) incarnation: Incarnation,
    /// Tells this process of the worker from every other.
    pub(super) process: u64,
}

impl Place {
    pub(super) fn new(layout: Layout, incarnation: Incarnation) -> io::Result<Self> {
        let process = u64::from_ne_bytes(random()?);
        Ok(Self { layout, boot: boot_id(), incarnation, process })
    }
}

/// Whoever the driver speaks to, beside the guardian.
pub(super) struct Ends {
    pub(super) orders: Orders,
    pub(super) sinks: Box<dyn Sinks>,
    pub(super) listener: Listener,
}

impl Driver {
    pub(super) fn new(
        at: Place,
        options: Options,
        cgroups: Cgroups,
        launched: Launched,
        ends: Ends,
    ) -> io::Result<Self> {
        let Ends { orders, sinks, listener } = ends;
        let drained = orders.clone();
        let output = Output::start(
            sinks,
            at.layout.clone(),
            Box::new(move |run, status| drained.send(Command::Drained(run, status))),
        )?;
        let spares = Spares::default();
        let sweeper = Sweeper::start(orders.clone(), cgroups.ours(), spares.clone())?;
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let wake = epoll::EventData::new_u64(WAKE);
        epoll::add(&epoll, &*orders.wake, wake, epoll::EventFlags::IN)?;
        let driver = Self {
            ports: Ports::new(options.ports.clone()),
            at,
            options,
            cgroups,
            channel: launched.channel,
            child: launched.child,
            search: None,
            output,
            sweeper,
            spares,
            listener,
            lives: BTreeMap::new(),
            confirmed: None,
            frozen: None,
            has_images: false,
            forgotten: Vec::new(),
            forget_by: None,
            early: BTreeMap::new(),
            orders,
            epoll,
            waits_for_room: Cell::new(false),
            next_sample: boot_time(),
            samples: 0,
            is_shutting_down: false,
        };
        driver.watch_guardian(&driver.channel)?;
        Ok(driver)
    }

    pub(super) fn watch_guardian(&self, channel: &Channel) -> io::Result<()> {
        let data = epoll::EventData::new_u64(GUARDIAN);
        self.waits_for_room.set(false);
        Ok(epoll::add(&self.epoll, channel, data, epoll::EventFlags::IN)?)
    }

    /// Waits for room while something waits to be sent, and only then: it would wake us whenever the
    /// guardian has read.
    pub(super) fn watch_room(&self) {
        let is_waiting = self.channel.is_waiting();
        if is_waiting != self.waits_for_room.get() {
            let mut flags = epoll::EventFlags::IN;
            flags.set(epoll::EventFlags::OUT, is_waiting);
            let data = epoll::EventData::new_u64(GUARDIAN);
            if epoll::modify(&self.epoll, &self.channel, data, flags).is_ok() {
                self.waits_for_room.set(is_waiting);
            }
        }
    }

    /// Works until it is told to end.
    pub(super) fn work(mut self, commands: Receiver<Command>) {
        let mut events = Vec::with_capacity(16);
        loop {
            self.pass_time();
            self.flush();
            events.clear();
            let early = self.orders.fall_asleep(&commands);
            let timeout = if early.is_some() { Some(Timespec::default()) } else { self.timeout() };
            let room = rustix::buffer::spare_capacity(&mut events);
            // An interrupted wait is one without events.
            let _ = epoll::wait(&self.epoll, room, timeout.as_ref());
            self.orders.wake_up();
            for event in &events {
                match event.data.u64() {
                    WAKE => drop(rustix::io::read(&self.orders.wake, &mut [0; 8])),
                    _ => self.hear(),
                }
            }
            let others = std::iter::from_fn(|| commands.try_recv().ok());
            for command in early.into_iter().chain(others) {
                if let Command::End = command {
                    // Whoever waits for room to say something is not to be waited for.
                    return drop(commands);
                }
                self.obey(command);
            }
        }
    }

    fn timeout(&self) -> Option<Timespec> {
        let cores = self.lives.values().filter_map(|live| live.ward.deadline());
        let sample = (!self.lives.is_empty()).then_some(self.next_sample);
        let search = self.search.as_ref().and_then(Search::deadline);
        let others = [sample, self.forget_by, search, self.ports.deadline()];
        let first = cores.chain(others.into_iter().flatten()).min()?;
        let wait = first.since(boot_time()).plus(Span::from_millis(1));
        Timespec::try_from(wait.as_duration()).ok()
    }

    fn pass_time(&mut self) {
        self.go_on_searching();
        let now = boot_time();
        self.ports.release(now);
        let is_due = |live: &Live| live.ward.deadline().is_some_and(|at| now >= at);
        let due: Vec<RunId> =
            self.lives.iter().filter(|(_, live)| is_due(live)).map(|(run, _)| *run).collect();
        for run in due {
            self.step(run, Input::Tick);
        }
        if now >= self.next_sample {
            self.next_sample = now.plus(self.options.sample_every);
            self.sample();
            let unkept = self.lives.iter().filter(|(_, live)| live.is_unkept);
            let unkept: Vec<RunId> = unkept.map(|(run, _)| *run).collect();
            unkept.into_iter().for_each(|run| self.keep_end(run));
        }
    }

    fn sample(&mut self) {
        self.samples += 1;
        for (run, live) in &mut self.lives {
            match live.ward.state() {
                State::Created | State::Running => live.sample(),
                State::Reserved | State::Initializing | State::Completed | State::Gone => continue,
            }
            if live.ward.is_to_be_gone() {
                live.kill();
            }
            if self.samples.is_multiple_of(MEASURE_EVERY)
                && let Some(pending) = live.begin_measuring()
            {
                let directory = self.at.layout.run(*run).join("work");
                self.sweeper.tell(Chore::Measure(*run, directory, pending));
            }
        }
    }

    pub(super) fn obey(&mut self, command: Command) {
        let Some(command) = self.keep_for_guardian(command) else { return };
        match command {
            Command::Start(run, work) => self.start(run, *work),
            Command::Stop(run, cause, how) => self.step(run, Input::Stop(cause, how)),
            Command::Signal(run, signal, to) => {
                self.ask(&Ask::Signal { run, signal: number(signal), to });
            }
            Command::Acknowledge(run) => self.step(run, Input::Acknowledged),
            Command::Confirmed(stamp) => {
                self.confirmed = self.confirmed.max(Some(stamp));
                self.ask(&Ask::Confirmed { stamp_ms: stamp.as_millis() });
            }
            Command::KillWait(span) => {
                self.options.kill_wait = span;
                self.ask(&Ask::KillWait { ms: span.as_millis() });
            }
            Command::Ping(number) => self.ask(&Ask::Ping { number }),
            Command::Adopt(incarnation) => {
                self.at.incarnation = incarnation;
                let process = self.at.process;
                self.introduce(&Ask::Adopt { incarnation, process, needs: None });
            }
            Command::Freeze(is_frozen, done) => {
                self.freeze(is_frozen);
                // Who does not wait for it needs no answer.
                let _ = done.send(());
            }
            Command::ShutDown => self.shut_down(),
            Command::Drained(run, status) => {
                if let Some(live) = self.lives.get_mut(&run) {
                    live.status = status;
                }
                self.step(run, Input::Drained);
            }
            Command::Measured(run, bytes) => self.measured(run, bytes),
            Command::NotRemoved(removal, why) => self.not_removed(*removal, &why),
            Command::Probed(run, question, probe, is_good) => {
                self.step(run, Input::Probed(question, probe, is_good));
            }
            Command::Replaced(replaced) => self.greet_next(*replaced),
            Command::End => {}
        }
    }

    fn start(&mut self, run: RunId, work: Work) {
        // A run that is known is never begun again.
        if self.lives.contains_key(&run) {
            return;
        }
        let (now, spec) = (boot_time(), spec(&work));
        let mut effects = Vec::new();
        let ward = Ward::begin(now, spec, &mut effects);
        self.lives.insert(run, Live::new(ward, work));
        self.perform_all(run, effects);
    }

    fn measured(&mut self, run: RunId, bytes: Option<u64>) {
        let limit = self.lives.get(&run).and_then(|live| live.work.limits.disk);
        if limit.zip(bytes).is_some_and(|(limit, bytes)| bytes > limit.get()) {
            self.step(run, Input::Stop(Cause::DiskLimit, How::Gracefully));
        }
    }

    pub(super) fn ask(&mut self, ask: &Ask) {
        self.channel.push(ask, Vec::new());
    }

    /// Lets the core of a run decide, and does what it says.
    pub(super) fn step(&mut self, run: RunId, input: Input) {
        let Some(live) = self.lives.get_mut(&run) else { return };
        let mut effects = Vec::new();
        live.ward.step(boot_time(), input, &mut effects);
        self.perform_all(run, effects);
    }

    /// The guardian says what became of a run.
    pub(super) fn told(&mut self, run: RunId, fate: Fate) {
        self.step(run, Input::Told(fate, self.options.kill_wait));
    }

    fn perform_all(&mut self, run: RunId, effects: Vec<Effect>) {
        for effect in effects {
            self.perform(run, effect);
        }
    }

    fn perform(&mut self, run: RunId, effect: Effect) {
        match effect {
            Effect::Create => {
                let made = self.create(run).inspect_err(|why| {
                    self.refused(run, why);
                    // Nothing of it ever was: its log is over, too.
                    self.output.tell(Order::Finish(run));
                });
                self.step(run, made.map_or_else(Input::NotCreated, |()| Input::Created));
            }
            Effect::Spawn(part, step) => {
                if let Err(why) = self.spawn(run, part, step) {
                    self.refused(run, &why);
                    self.step(run, Input::NotAsked(why));
                }
            }
            Effect::Stop(grace) => {
                self.keep_cause(run);
                self.ask(&Ask::Stop { run, grace_ms: grace.as_millis() });
            }
            Effect::Kill => {
                self.keep_cause(run);
                if let Some(live) = self.lives.get(&run) {
                    live.kill();
                }
                self.ask(&Ask::Stop { run, grace_ms: 0 });
            }
            Effect::Drain => self.drain(run),
            Effect::Probe(question, probe) => self.probe(run, question, probe),
            Effect::Became(state) => (self.listener)(Event::Became(run, state)),
            Effect::Readiness(is_ready) => (self.listener)(Event::Readiness(run, is_ready)),
            Effect::Completed(end) => self.complete(run, end),
            Effect::Remove => self.remove(run),
        }
    }

    fn keep_cause(&self, run: RunId) {
        if let Some(cause) = self.lives.get(&run).and_then(|live| live.ward.cause()) {
            // If it is not kept, the next worker says how it ended, and not why.
            drop(stored::write_asked(&self.at.layout.run(run), cause));
        }
    }

    fn create(&mut self, run: RunId) -> Result<(), String> {
        let Some(live) = self.lives.get_mut(&run) else { return Ok(()) };
        check(&live.work)?;
        let ports = self.ports.take(boot_time(), &live.work.ports)?;
        let ground =
            Ground { layout: &self.at.layout, cgroups: &self.cgroups, options: &self.options };
        let made = match (&live.work.image, self.has_images) {
            (Some(_), false) => Err(OLD_GUARDIAN.to_owned()),
            (Some(_), true) | (None, true | false) => {
                Prepared::make(ground, run, &live.work, &ports, &self.spares)
            }
        };
        let made = made.and_then(|prepared| {
            let begun = Begun {
                run: Some(run),
                boot: self.at.boot.clone(),
                begun_ms: boot_time().as_millis(),
                ports: ports.clone(),
                work: live.work.clone(),
                who: prepared.who.clone(),
            };
            let directory = self.at.layout.run(run);
            begun
                .write(&directory)
                .map_err(|error| format!("cannot write to {}: {error}", directory.display()))?;
            Ok(prepared)
        });
        match made {
            Ok(prepared) => {
                live.prepared = Some(prepared);
                if !ports.is_empty() {
                    (self.listener)(Event::Ports(run, ports.clone()));
                }
                live.ports = ports;
                Ok(())
            }
            Err(why) => {
                self.ports.give_back(boot_time(), &ports);
                Err(why)
            }
        }
    }

    fn spawn(&mut self, run: RunId, part: Part, step: Step) -> Result<(), String> {
        let Some(live) = self.lives.get_mut(&run) else { return Ok(()) };
        let Some(prepared) = &live.prepared else { return Ok(()) };
        let role = RoleWord::of(step.role());
        let plan = Box::new(prepared.plan(&live.work, live.command(step), part.get(), role)?);
        let contract = live.contract();
        let (ours, theirs) = pipes::make(&plan.streams)?;
        live.pipes.insert(part, ours);
        self.ask_to_spawn(&Ask::Spawn { run, part: part.get(), role, contract, plan }, theirs)?;
        if part == Part::new(0) {
            self.give_claims(run);
        }
        Ok(())
    }

    /// Asks for a command, unless it is longer than can be asked for.
    fn ask_to_spawn(&mut self, ask: &Ask, fds: Vec<Arc<OwnedFd>>) -> Result<(), String> {
        // What the next run gets may have been that of a run to be forgotten: its journal, too.
        self.push_forgotten();
        self.channel.try_push(ask, fds).map_err(|_| {
            let (what, length) = if let Ask::Spawn { plan, .. } = ask {
                plan.longest()
            } else {
                ("what is asked for".to_owned(), LENGTH_MAX)
            };
            let tenths = length * 10 / (1 << 20);
            format!(
                "{what} has {}.{} MiB, and a command takes {} MiB in all at most: put what is long \
                 into a file, and give its path",
                tenths / 10,
                tenths % 10,
                LENGTH_MAX >> 20,
            )
        })
    }

    fn probe(&mut self, run: RunId, question: Question, id: ProbeId) {
        let Some(live) = self.lives.get_mut(&run) else { return };
        let monitor = match question {
            Question::IsWell => &live.work.monitor,
            Question::IsReady => &live.work.readiness,
        };
        let Some(monitor) = monitor else { return };
        let orders = self.orders.clone();
        let answer = move |is_good| orders.send(Command::Probed(run, question, id, is_good));
        match &monitor.probe {
            Probe::Command(_) if self.search.is_some() => {
                self.step(run, Input::NotProbed(question, id));
            }
            Probe::Command(command) => {
                let part = live.ward.probe_by_command(question, id).get();
                let plan = live
                    .prepared
                    .as_ref()
                    .map(|prepared| prepared.plan(&live.work, command, part, RoleWord::Probe));
                let Some(Ok(mut plan)) = plan else {
                    return self.step(run, Input::Probed(question, id, false));
                };
                plan.timeout_ms = Some(monitor.timeout.as_millis());
                let (contract, role, plan) = (live.contract(), RoleWord::Probe, Box::new(plan));
                let ask = Ask::Spawn { run, part, role, contract, plan };
                if self.ask_to_spawn(&ask, Vec::new()).is_err() {
                    self.step(run, Input::Probed(question, id, false));
                }
            }
            Probe::Tcp(port) => {
                probe::tcp(live.port(port), monitor.timeout, answer);
            }
            Probe::Http(port, path) => {
                probe::http(live.port(port), path, monitor.timeout, answer);
            }
        }
    }

    fn complete(&mut self, run: RunId, end: sterna_executor::container::End) {
        let Some(live) = self.lives.get_mut(&run) else { return };
        live.sample_at_end();
        let (usage, status) = (live.usage, live.status.take());
        let result =
            if live.prepared.is_some() { result::read(&self.at.layout.run(run)) } else { None };
        let report = RunReport { end, usage, status, result };
        self.ports.give_back(boot_time(), &std::mem::take(&mut live.ports));
        live.pipes.clear();
        let group = live.prepared.take().map(|prepared| prepared.group);
        self.sweeper.tell(Chore::Groups(group));
        live.report = Some(report.clone());
        live.is_unkept = true;
        self.keep_end(run);
        (self.listener)(Event::Completed(run, Box::new(report)));
        self.tell_when_shut_down();
    }

    /// Keeps an end that was told. Until it stands, the guardian keeps what it knows of it; if it
    /// cannot be kept, as on a full disk, it is still told, and tried again.
    fn keep_end(&mut self, run: RunId) {
        let Some(live) = self.lives.get_mut(&run).filter(|live| live.is_unkept) else { return };
        let Some(report) = &live.report else { return };
        if stored::write_end(&self.at.layout.run(run), run, report).is_ok() {
            live.is_unkept = false;
            if live.ward.is_asked() {
                self.forget(run);
            }
        }
    }

    fn remove(&mut self, run: RunId) {
        if let Some(live) = self.lives.remove(&run) {
            if live.is_unkept && live.ward.is_asked() {
                self.forget(run);
            }
            let of = Some((run, live.origin()));
            let removal = Removal { directory: self.at.layout.run(run), of };
            let chore = if is_plain(&live.work) { Chore::Keep } else { Chore::Directory };
            self.sweeper.tell(chore(removal));
        }
    }
}
