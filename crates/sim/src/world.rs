//! The world: time, and everything that is in it.

use std::collections::BTreeMap;

use sterna_engine::control;
use sterna_executor::{
    container::Exit,
    guardian::{Fate, Part, Phase, Request, SocketId},
    ward,
};
use sterna_model::{BootTime, Lock, Revision, RunId, WorkKey, WriteId};
use sterna_protocol::message::{FromLeader, FromWorker, StreamId};
use sterna_store::{
    cluster::{CLUSTER_KEY, Cluster, Stage},
    leader::Reign,
};

use crate::{
    Options,
    check::{self, Checks, Fact, Rolling, Scene, SceneMachine, Sight, Stored, Violation},
    clients::Clients,
    clock::{Clock, Moment},
    coverage::Coverage,
    machine::{self, Machine, Power},
    net::{Net, Toward},
    plan::{self, Fault, Planned},
    queue::Queue,
    record::Shelf,
    rng::Rng,
    server::{CallId, Server},
    store::{Ask, Store, Told},
    table::{Happening, Table},
    words::{self, Pace, Wanted},
};

/// Names one process for good.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Pid(pub(crate) u64);

/// A kind of process, and where it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Who {
    Server(usize),
    Worker(usize),
    Guardian(usize),
}

/// What a guardian says to its worker.
#[derive(Clone, Debug)]
pub(crate) enum FromGuardian {
    Adopted(Vec<(RunId, Phase, Option<Part>)>),
    Tell(RunId, Fate),
    Pong(u64),
    Gone,
}

/// What a guardian hears.
#[derive(Clone, Debug)]
pub(crate) enum ToGuardian {
    Request(Request),
    Gone,
}

/// Something that will happen.
#[derive(Debug)]
pub(crate) enum Event {
    /// Of the plan, by its place.
    Fault(usize),
    /// A process starts, if its machine is up and it is not there.
    Start(Who),
    /// A process that was stopped may go on.
    Continue(Who, Pid),
    /// To one process, which may be stopped, and then gets it later.
    To(Who, Pid, Message),
    /// A frame arrives at a worker's end, or a server's.
    Down(StreamId, FromLeader),
    Up(StreamId, FromWorker),
    /// An end of a stream notices that it is over.
    ClosedBelow(StreamId),
    ClosedAbove(StreamId),
    /// The worker's end looks whether it was told anything.
    Patience(StreamId),
    /// A call arrives at the store; its answer goes to its sender after so long, or is lost.
    Call {
        server: usize,
        pid: Pid,
        call: CallId,
        ask: Ask,
        said: Option<Reign>,
        answer: Answer,
        /// How far its sender knew the store to have come.
        known: Revision,
    },
    /// Something happens in a container, whoever looks.
    Container(RunId, Happening),
    /// A machine that has just come is cut off again.
    CutOff(usize, u64),
    /// A client asks for something.
    Client,
    /// The operator of a machine wants it drained no longer.
    DrainOver(usize),
    /// A worker that was asked to end is gone, and comes back after so long.
    Leave(usize, Pid, u64),
    /// Faults are over.
    Calm,
    /// Is everything well?
    Look,
}

/// What becomes of the answer to a call.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Answer {
    After(u64),
    Lost,
}

/// What one process gets.
#[derive(Debug)]
pub(crate) enum Message {
    Tick(Moment),
    /// The answer to a call, which was sent when the store was known to have come so far.
    Told(CallId, Told, Revision),
    /// Operators look, and will again.
    Operate,
    /// Nodes are looked at once.
    Look,
    /// What waits to be committed is sent.
    Pump,
    /// The answer to a callback.
    Called(Box<control::Input>),
    Dial,
    Checked(BootTime),
    Reborn,
    Frame(StreamId, FromLeader),
    FrameUp(StreamId, FromWorker),
    Closed(StreamId),
    FromGuardian(SocketId, FromGuardian),
    ToGuardian(SocketId, ToGuardian),
    Cloned(RunId, Part),
    Exited(RunId, Part, Exit),
    Empty(RunId),
    StartGuardian,
    /// The worker that has started this guardian has ended.
    StarterGone,
    /// For the ward of a run.
    Ward(RunId, ward::Input),
    WardTick(Moment),
}

pub(crate) struct World {
    pub(crate) now: Moment,
    pub(crate) queue: Queue<Event>,
    pub(crate) rng: Rng,
    pub(crate) pace: Pace,
    pub(crate) plan: Vec<Planned>,
    pub(crate) store: Store,
    pub(crate) shelf: Shelf,
    pub(crate) servers: Vec<Server>,
    pub(crate) machines: Vec<Machine>,
    pub(crate) net: Net,
    pub(crate) table: Table,
    pub(crate) wanted: Vec<Wanted>,
    /// Where each node was sent last.
    pub(crate) sent: BTreeMap<WorkKey, usize>,
    pub(crate) checks: Checks,
    pub(crate) coverage: Coverage,
    pub(crate) is_calm: bool,
    pub(crate) calm_at: Moment,
    pub(crate) well_since: Option<Moment>,
    /// The updates that go on when faults are over.
    rolling: Rolling,
    pub(crate) is_done: bool,
    pids: u64,
    /// What waits for processes that are stopped.
    parked: BTreeMap<Pid, Vec<Message>>,
    pub(crate) clients: Clients,
    /// What the store says, by its log of commits.
    pub(crate) stored: Stored,
    trace: Option<Vec<String>>,
}

/// In which seeds only a few records of tasks that are over are kept: those with this rest. Not drawn, so
/// that the others are what they were.
const FEW_ARE_KEPT: (u64, u64) = (5, 8);
/// How many.
const FEW: usize = 6;

/// How long everything must stay well.
const STAYS_WELL: u64 = 5_000;

impl World {
    /// The world of a seed, in which goes wrong what the plan says, or what the seed says.
    pub(crate) fn new(
        seed: u64,
        options: &Options,
        plan: Option<Vec<Planned>>,
        is_traced: bool,
    ) -> Self {
        let mut rng = Rng::new(seed);
        let (mut planning, netting) = (rng.fork(), rng.fork());
        let mut pace = Pace::draw(&mut rng);
        if seed % FEW_ARE_KEPT.1 == FEW_ARE_KEPT.0 {
            pace.tasks_max = FEW;
        }
        let workers = options.workers.max(1);
        let servers = 2;
        let until = options.minutes.max(1) * 60_000;
        let drawn = plan::draw(&mut planning, workers, servers, until);
        let plan = plan.unwrap_or(drawn);
        let keeps_backups = plan.iter().any(|planned| {
            matches!(planned.fault, Fault::StoreRestored(_) | Fault::StoreSetBack(_))
        });
        let mut world = Self {
            now: 0,
            queue: Queue::new(),
            pace,
            plan,
            store: Store::new(keeps_backups),
            shelf: Shelf::default(),
            servers: Vec::new(),
            machines: Vec::new(),
            net: Net::new(netting),
            table: Table::default(),
            wanted: words::wanted(&pace, options.workers),
            sent: BTreeMap::new(),
            checks: Checks::new(&pace),
            coverage: Coverage::default(),
            is_calm: false,
            calm_at: until,
            well_since: None,
            rolling: Rolling::default(),
            is_done: false,
            pids: 0,
            parked: BTreeMap::new(),
            clients: Clients::new(&mut rng),
            stored: Stored::default(),
            trace: is_traced.then(Vec::new),
            rng,
        };
        world.found_cluster();
        for index in 0..servers {
            let clock = Clock::new(&mut world.rng);
            world.servers.push(Server::new(clock));
            let at = world.rng.below(1_000);
            world.queue.push(at, Event::Start(Who::Server(index)));
        }
        for number in 1..=workers {
            let at = world.rng.below(5_000);
            world.add_machine(&format!("w{number}"), at);
        }
        for (index, planned) in world.plan.iter().enumerate() {
            world.queue.push(planned.at, Event::Fault(index));
        }
        world.queue.push(500, Event::Client);
        world.queue.push(2_000, Event::Look);
        world.queue.push(until, Event::Calm);
        world
    }

    pub(crate) fn add_machine(&mut self, name: &str, at: Moment) {
        let number = self.machines.len();
        let clock = Clock::new(&mut self.rng);
        self.machines.push(Machine::new(number as u64 + 1, words::name(name), clock, &self.pace));
        self.net.add_machine();
        self.stored.add_machine(self.machines[number].lock);
        self.queue.push(self.now + at, Event::Start(Who::Worker(number)));
    }

    /// Lets everything happen until the end; gives the first promise that was broken.
    pub(crate) fn play(&mut self) -> Option<Violation> {
        while let Some((at, event)) = self.queue.pop() {
            self.now = at;
            self.coverage.events += 1;
            self.happen(event);
            if let Some(violation) = self.checks.broken() {
                return Some(violation);
            }
            if self.is_done {
                return None;
            }
        }
        None
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Fault(index) => self.fault(index),
            Event::Start(who) => self.start(who),
            Event::Continue(who, pid) => self.go_on_again(who, pid),
            Event::To(who, pid, message) => self.deliver(who, pid, message),
            Event::Up(stream, frame) => {
                if self.net.is_read(self.now, stream, Toward::Server)
                    && let Some(open) = self.net.streams.get(&stream)
                {
                    let (server, leader) = (open.server, open.leader);
                    self.deliver(Who::Server(server), leader, Message::FrameUp(stream, frame));
                }
            }
            Event::Down(stream, frame) => {
                if self.net.is_read(self.now, stream, Toward::Worker)
                    && let Some(open) = self.net.streams.get(&stream)
                {
                    let (machine, worker) = (open.machine, open.worker);
                    self.deliver(Who::Worker(machine), worker, Message::Frame(stream, frame));
                }
            }
            Event::ClosedBelow(stream) => self.close_below(stream),
            Event::ClosedAbove(stream) => self.close_above(stream),
            Event::Patience(stream) => self.lose_patience(stream),
            Event::Call { server, pid, call, ask, said, answer, known } => {
                let (told, applied) = self.store.serve(self.now, &ask, said);
                if let Some(applied) = applied {
                    self.committed(&applied);
                }
                if let Answer::After(back) = answer {
                    self.later(back, Who::Server(server), pid, Message::Told(call, told, known));
                }
            }
            Event::Container(run, what) => self.container(run, what),
            Event::CutOff(machine, lasts) => self.cut_off(machine, lasts),
            Event::Client => self.client(),
            Event::DrainOver(machine) => self.want_drain(machine, false),
            Event::Leave(machine, pid, lasts) => self.worker_leaves(machine, pid, lasts),
            Event::Calm => self.be_calm(),
            Event::Look => self.look(),
        }
    }

    /// Gives a message to a process: now, when it continues, or never.
    pub(crate) fn deliver(&mut self, who: Who, pid: Pid, message: Message) {
        let state = match who {
            Who::Server(server) => self.servers[server].process(),
            Who::Worker(machine) => self.machines[machine].worker_process(),
            Who::Guardian(machine) => self.machines[machine].guardian_process(),
        };
        let Some((_, stopped_until)) = state.filter(|(alive, _)| *alive == pid) else { return };
        if self.now < stopped_until {
            // In the order in which they came, when it goes on.
            let parked = self.parked.entry(pid).or_default();
            if parked.is_empty() {
                self.queue.push(stopped_until, Event::Continue(who, pid));
            }
            return parked.push(message);
        }
        match who {
            Who::Server(server) => self.server_gets(server, message),
            Who::Worker(machine) => self.worker_gets(machine, message),
            Who::Guardian(machine) => self.guardian_gets(machine, message),
        }
    }

    /// A process that was stopped goes on, if it does.
    fn go_on_again(&mut self, who: Who, pid: Pid) {
        let parked = self.parked.remove(&pid).unwrap_or_default();
        for message in parked {
            self.deliver(who, pid, message);
        }
    }

    /// Lets every process that is stopped go on now.
    pub(crate) fn wake_all(&mut self) {
        for machine in 0..self.machines.len() {
            let one = &mut self.machines[machine];
            let worker = one.worker.as_mut().map(|one| &mut one.stopped_until);
            let guardian = one.guardian.as_mut().map(|one| &mut one.stopped_until);
            for until in worker.into_iter().chain(guardian) {
                *until = self.now.min(*until);
            }
            let one = &self.machines[machine];
            let (worker, guardian) = (one.worker_process(), one.guardian_process());
            if let Some((pid, _)) = guardian {
                self.queue.push(self.now, Event::Continue(Who::Guardian(machine), pid));
            }
            if let Some((pid, _)) = worker {
                self.queue.push(self.now, Event::Continue(Who::Worker(machine), pid));
            }
        }
        for server in 0..self.servers.len() {
            if let Some(process) = &mut self.servers[server].process {
                process.stopped_until = process.stopped_until.min(self.now);
            }
            if let Some((pid, _)) = self.servers[server].process() {
                self.queue.push(self.now, Event::Continue(Who::Server(server), pid));
            }
        }
    }

    fn start(&mut self, who: Who) {
        match who {
            Who::Server(server) => self.start_server(server),
            Who::Worker(machine) => self.start_worker(machine),
            Who::Guardian(machine) => self.start_guardian(machine),
        }
    }

    pub(crate) const fn new_pid(&mut self) -> Pid {
        self.pids += 1;
        Pid(self.pids)
    }

    pub(crate) fn later(&mut self, after: u64, who: Who, pid: Pid, message: Message) {
        self.queue.push(self.now + after, Event::To(who, pid, message));
    }

    pub(crate) fn write_id(&mut self) -> WriteId {
        WriteId::from_parts(sterna_model::WallTime::EPOCH, self.rng.bytes())
    }

    pub(crate) fn tell(&mut self, fact: &Fact<'_>) {
        let mut walls: Vec<_> =
            self.servers.iter().map(|server| server.clock.wall(self.now)).collect();
        walls.sort_unstable();
        let (wall, latest) = match &walls[..] {
            [] => (sterna_model::WallTime::EPOCH, sterna_model::WallTime::EPOCH),
            [only] => (*only, *only),
            [wall, .., latest] => (*wall, *latest),
        };
        self.checks.see(&Sight { now: self.now, stored: &self.stored, wall, latest }, fact);
    }

    pub(crate) fn machine_of(&self, lock: Lock) -> Option<usize> {
        self.machines.iter().position(|one| one.lock == lock)
    }

    pub(crate) const fn is_traced(&self) -> bool {
        self.trace.is_some()
    }

    pub(crate) fn say(&mut self, what: impl FnOnce() -> String) {
        if let Some(trace) = &mut self.trace {
            // Ids are as long as they must be in a real cluster.
            let what = crate::trace::shorten(&what());
            let (seconds, millis) = (self.now / 1_000, self.now % 1_000);
            trace.push(format!("{seconds:>5}.{millis:03}  {what}"));
        }
    }

    pub(crate) fn take_trace(&mut self) -> Vec<String> {
        self.trace.take().unwrap_or_default()
    }

    fn be_calm(&mut self) {
        self.say(|| "== faults are over ==".to_owned());
        self.is_calm = true;
        self.net.is_calm = true;
        self.net.unblock_all();
        // What a harsh network loses of a stream, a real one never does without the stream: its calm
        // begins with streams that lose nothing.
        let disordered = std::mem::take(&mut self.net.disordered);
        for stream in self.net.of(|one| one.is_lossy || disordered.contains(&one.machine)) {
            self.queue.push(self.now + 1, Event::ClosedBelow(stream));
            self.queue.push(self.now + 2, Event::ClosedAbove(stream));
        }
        // Nor does a word overtake the next one: what was said last is said once more.
        for machine in disordered {
            self.tell_lives_again(machine);
        }
        self.store.forget_losses();
        self.store.down_until = 0;
        self.store.slow_until = 0;
        self.continue_all();
    }

    /// Looks whether everything is well, and stays so.
    fn look(&mut self) {
        self.tell(&Fact::Looked);
        if let Some(server) = self.leading() {
            self.sweep_leader(server);
            self.arm_server(server);
        }
        if !self.is_calm {
            return self.queue.push(self.now + 2_000, Event::Look);
        }
        self.rolling.look(&self.stored, machine::replaced_within);
        let longest = (self.stored.longest_stop(), self.rolling.longest());
        let within = self.pace.converges_within(longest).as_millis();
        match check::unwell(&self.scene()) {
            None => {
                let since = *self.well_since.get_or_insert(self.now);
                if self.now >= since + STAYS_WELL {
                    self.say(|| "== everything is well ==".to_owned());
                    let took = since - self.calm_at;
                    self.coverage.converged_ms = took;
                    self.is_done = true;
                    return;
                }
            }
            Some(unwell) => {
                self.well_since = None;
                if self.now > self.calm_at + within {
                    self.is_done = true;
                    return self.tell(&Fact::NotWell { unwell: &unwell });
                }
            }
        }
        self.queue.push(self.now + 500, Event::Look);
    }

    /// The world, as anybody could see it who can be everywhere.
    fn scene(&self) -> Scene<'_> {
        let stage = self.store.model().get(CLUSTER_KEY).item;
        let stage = stage.and_then(|item| Cluster::from_bytes(&item.value).ok());
        let is_recovered = stage.is_some_and(|cluster| cluster.stage == Stage::Recovered);
        let machines = self.machines.iter().map(|one| SceneMachine {
            lock: one.lock,
            is_on: one.is_on(),
            is_vanished: one.power == Power::Vanished,
            is_healthy: one.is_told_healthy(self.now),
            has_unacknowledged: one.has_unacknowledged(),
            is_listed: one.listed_in.is_some()
                && one.listed_in == self.stored.epoch().zip(self.stored.term()),
        });
        Scene {
            table: &self.table,
            stored: &self.stored,
            machines: machines.collect(),
            nodes: &self.wanted,
            sent: &self.sent,
            // Where a batch may have been kept, every batch waits for everybody (safety rule 20).
            may_be_kept: is_recovered || self.pace.limits.has_kept_batches,
            is_recovered,
        }
    }
}
