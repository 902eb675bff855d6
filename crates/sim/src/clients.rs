//! What clients ask for, and what they are told.

use std::{collections::BTreeMap, sync::Arc};

use sterna_engine::{
    Input,
    control::{self, Answer, Call, CallId},
};
use sterna_model::{
    Contract, InstanceKey, Lock, ServiceKey, Span, TaskIncarnation, TaskKey, WorkKey,
    record::CrashPolicy,
    spec::{DEFAULT_DOMAIN, ServiceSpec, TaskSpec, UpdatePolicy, WhenFull},
};
use sterna_protocol::limits::Limits;

use crate::{
    check::Fact,
    manners::{self, Manner},
    rng::Rng,
    words::{self, Pace, Size},
    world::{Event, World},
};

/// Services that are there from the beginning; another one comes and goes.
const SERVICES: [&str; 3] = ["web", "db", "log"];
const PASSING: &str = "tmp";
/// Instances of a service at most.
const INSTANCES: u64 = 4;
/// One that is too large for a commit, in a few worlds, and how large.
const BULK: &str = "bulk";
const MANY: u32 = 90;

/// All clients of the world.
#[derive(Debug, Default)]
pub(crate) struct Clients {
    /// Calls that were not answered.
    asked: BTreeMap<u64, Call>,
    count: u64,
    /// How many tasks were thought of.
    pub(crate) tasks: u64,
    /// What they want of services.
    specs: BTreeMap<ServiceKey, ServiceSpec>,
    incarnations: BTreeMap<TaskKey, TaskIncarnation>,
    /// Whether they want a service that does not fit into one commit.
    is_bulky: bool,
}

impl Clients {
    pub(crate) fn new(rng: &mut Rng) -> Self {
        Self { is_bulky: rng.chance(30), ..Self::default() }
    }

    /// Whether something is being asked.
    pub(crate) fn is_asking(&self, is_meant: impl Fn(&Call) -> bool) -> bool {
        self.asked.values().any(is_meant)
    }

    /// Nobody hears an answer of a server that is gone.
    pub(crate) fn give_up(&mut self) {
        self.asked.retain(|_, call| matches!(call, Call::CreateTask(..)));
    }
}

impl World {
    /// A client asks for something, if somebody leads.
    pub(crate) fn client(&mut self) {
        if self.is_calm {
            return;
        }
        let after = self.rng.between(400, 5_000);
        self.queue.push(self.now + after, Event::Client);
        let Some(server) = self.leading() else { return };
        if let Some(call) = self.draw_call(server) {
            self.ask(server, call);
        }
    }

    pub(crate) fn ask(&mut self, server: usize, call: Call) {
        let Some(reign) = self.office(server).map(|office| office.reign) else { return };
        self.clients.count += 1;
        let id = self.clients.count;
        self.say(|| format!("a client asks s{server} as {id}: {call:?}"));
        self.tell(&Fact::Asked { id, call: &call, reign });
        self.clients.asked.insert(id, call.clone());
        self.coverage.turn(word(&call));
        let input = control::Input::Call(CallId(id), call);
        self.step_leader(server, Input::Control(input));
        self.arm_server(server);
    }

    /// A client hears what became of its call.
    pub(crate) fn client_told(&mut self, id: CallId, answer: &Answer) {
        let Some(call) = self.clients.asked.remove(&id.0) else { return };
        self.coverage.turn(match answer {
            Answer::Done => "answered-done",
            Answer::BeginsAgain => "answered-begins-again",
            Answer::Already => "answered-already",
            Answer::NotFound => "answered-not-found",
            Answer::Taken(_) => "answered-taken",
            Answer::Conflict(_) => "answered-conflict",
            Answer::BadLimits(_) => "answered-bad-limits",
            Answer::BadSpec(_) => "answered-bad-spec",
        });
        self.tell(&Fact::Answered { id: id.0, call: &call, answer });
        if let Call::DeclareDead(lock) = call {
            self.release_machine(lock);
        }
    }

    fn draw_call(&mut self, server: usize) -> Option<Call> {
        let missing = SERVICES.iter().map(|name| words::service(name));
        let missing = missing.into_iter().find(|key| !self.clients.specs.contains_key(key));
        if let Some(key) = missing {
            let instances = u32::try_from(self.rng.between(1, 3)).unwrap_or(1);
            let spec = self.first_spec(&key, instances);
            return Some(self.want(key, spec));
        }
        match self.rng.below(100) {
            0..42 => Some(self.draw_task(server)),
            42..52 => self.some_task().map(Call::CancelTask),
            52..60 => self.some_task().map(Call::DeleteTask),
            60..64 => self.same_name_again(server),
            64..82 => Some(self.draw_service()),
            82..85 => Some(Call::StopInstance(self.some_instance())),
            85..88 => {
                let task = self.some_task().filter(|_| self.rng.chance(500));
                let work = task.map(WorkKey::Task);
                Some(Call::Kill(work.unwrap_or_else(|| self.some_instance().into())))
            }
            88..91 if self.rng.chance(150) => Some(Call::RemoveDomain(words::name("blue"))),
            88..91 => {
                let now = self.servers[server].clock.wall(self.now);
                let until = match self.rng.below(4) {
                    0 => None,
                    1 => Some(now.plus(Span::from_secs(self.rng.between(5, 120)))),
                    _ => Some(now),
                };
                Some(Call::SetDomain(words::name("blue"), until))
            }
            91 if self.rng.chance(200) => {
                // Nobody could go by these.
                let heartbeat_every = Span::ZERO;
                Some(Call::SetLimits(Limits { heartbeat_every, ..self.pace.limits }))
            }
            91 => self.some_lock().map(Call::Forget),
            92..95 => {
                let lock = self.some_lock()?;
                let after = Span::from_secs(self.rng.between(1, 90));
                let deadline = self.servers[server].clock.wall(self.now).plus(after);
                Some(Call::Drain(lock, deadline))
            }
            _ => self.some_drained().map(Call::Undrain),
        }
    }

    fn some_lock(&mut self) -> Option<Lock> {
        let locks: Vec<Lock> = self.machines.iter().map(|one| one.lock).collect();
        self.rng.pick(&locks)
    }

    /// A machine that the store says is drained.
    pub(crate) fn some_drained(&mut self) -> Option<Lock> {
        let drained: Vec<Lock> = self.stored.drained().collect();
        self.rng.pick(&drained)
    }

    fn draw_task(&mut self, server: usize) -> Call {
        self.clients.tasks += 1;
        let key = words::task(self.clients.tasks);
        self.create(server, key)
    }

    fn create(&mut self, server: usize, key: TaskKey) -> Call {
        let work = key.to_work();
        let wall = self.servers[server].clock.wall(self.now);
        let incarnation = TaskIncarnation::from_parts(wall, self.rng.bytes());
        let contract = match words::number(&work) % 4 {
            0 => Contract::Keep,
            1 | 2 => Contract::Stop { after: self.pace.stop_after },
            _ => Contract::Stop { after: self.pace.stop_after_task },
        };
        let latest = self.rng.between(1_000, 40_000);
        let spec = TaskSpec {
            wants: words::wants(words::size(&work)),
            contract,
            work: Arc::from(*b"once"),
            when_full: if self.rng.chance(100) { WhenFull::Fail } else { WhenFull::Wait },
            latest_start: self.rng.chance(250).then(|| wall.plus(Span::from_millis(latest))),
            callback: self.rng.chance(400).then(|| "https://receiver".into()),
            keeps_name: false,
        };
        self.clients.incarnations.insert(key.clone(), incarnation);
        Call::CreateTask(key, incarnation, Arc::new(spec))
    }

    /// The newest are the most interesting.
    fn some_task(&mut self) -> Option<TaskKey> {
        let last = self.clients.tasks;
        let back = self.rng.between(1, 12);
        (last > 0).then(|| words::task(last.saturating_sub(back).max(1)))
    }

    /// A client that was not told asks again; another one takes a name that was used.
    fn same_name_again(&mut self, server: usize) -> Option<Call> {
        let again = self.clients.asked.iter().find_map(|(id, call)| {
            matches!(call, Call::CreateTask(..)).then(|| (*id, call.clone()))
        });
        if let Some((id, call)) = again {
            self.clients.asked.remove(&id);
            return Some(call);
        }
        let key = self.some_task()?;
        Some(self.create(server, key))
    }

    fn some_service(&mut self) -> ServiceKey {
        let known = self.clients.specs.keys().filter(|key| key.name.as_str() != BULK);
        let known: Vec<&ServiceKey> = known.collect();
        let known = known[self.rng.index(known.len())];
        known.clone()
    }

    fn some_instance(&mut self) -> InstanceKey {
        let (service, index) = (self.some_service(), self.rng.below(INSTANCES));
        service.instance(u32::try_from(index).unwrap_or(0))
    }

    fn first_spec(&mut self, key: &ServiceKey, instances: u32) -> ServiceSpec {
        let stop = Contract::Stop { after: self.pace.stop_after };
        let replace = Contract::Replace { after: self.pace.replace_after };
        let (contract, domain) = match key.name.as_str() {
            "db" => (stop, "blue"),
            "log" => (Contract::Keep, DEFAULT_DOMAIN),
            "web" => (replace, "blue"),
            _ => {
                let domain = if self.rng.chance(500) { "blue" } else { DEFAULT_DOMAIN };
                (if self.rng.chance(500) { replace } else { stop }, domain)
            }
        };
        ServiceSpec {
            instances,
            wants: words::wants(words::SIZE_OF_INSTANCES),
            contract,
            work: manners::work(1, Manner::Good, self.rng.chance(500)),
            crash: CrashPolicy {
                wait_from: 2,
                first_wait: Span::from_secs(2),
                longest_wait: Span::from_secs(8),
                give_up_at: 200,
                forgiven_after: Span::from_secs(60),
            },
            update: UpdatePolicy { healthy_for: Span::ZERO, ..UpdatePolicy::default() },
            domain: words::name(domain),
            notes: "".into(),
        }
    }

    fn want(&mut self, key: ServiceKey, spec: ServiceSpec) -> Call {
        self.clients.specs.insert(key.clone(), spec.clone());
        Call::PutService(key, spec)
    }

    /// Another contract; what was started under the one before keeps that (safety rule 7).
    fn other_contract(&mut self, before: Contract) -> Contract {
        let Pace { stop_after, stop_after_task, replace_after, .. } = self.pace;
        let stop = Contract::Stop { after: stop_after };
        let longer = Contract::Stop { after: stop_after_task };
        let replace = Contract::Replace { after: replace_after };
        let slower = Contract::Replace { after: replace_after.times(2) };
        let all = match before {
            Contract::Keep => [stop, longer, Contract::Keep],
            Contract::Stop { .. } => [stop, longer, replace],
            Contract::Replace { .. } => [replace, slower, stop],
        };
        self.rng.pick(&all).unwrap_or(before)
    }

    /// A service so large that what follows from one call does not fit into one commit.
    fn draw_bulk(&mut self) -> Call {
        let key = words::service(BULK);
        if let Some(mut spec) = self.clients.specs.get(&key).cloned() {
            if self.rng.chance(300) {
                self.clients.specs.remove(&key);
                return Call::DeleteService(key);
            }
            if spec.instances > 0 && self.rng.chance(300) {
                spec.work = manners::work(self.rng.between(2, 9), Manner::Good, false);
                return self.want(key, spec);
            }
            spec.instances = if spec.instances == 0 { MANY } else { 0 };
            return self.want(key, spec);
        }
        let mut spec = self.first_spec(&key, MANY);
        spec.wants = words::wants(Size::default());
        self.want(key, spec)
    }

    fn draw_service(&mut self) -> Call {
        if self.clients.is_bulky && self.rng.chance(200) {
            return self.draw_bulk();
        }
        let passing = words::service(PASSING);
        if self.rng.chance(150) {
            let is_there = self.clients.specs.contains_key(&passing);
            if is_there {
                self.clients.specs.remove(&passing);
                return Call::DeleteService(passing);
            }
            let spec = self.first_spec(&passing, 2);
            return self.want(passing, spec);
        }
        let key = self.some_service();
        let Some(mut spec) = self.clients.specs.get(&key).cloned() else {
            return Call::DeleteService(key);
        };
        match self.rng.below(14) {
            0..5 => spec.instances = u32::try_from(self.rng.between(0, INSTANCES)).unwrap_or(1),
            5..8 => {
                let (version, manner) = (self.rng.between(2, 9), Manner::draw(&mut self.rng));
                spec.work = manners::work(version, manner, self.rng.chance(500));
                // Sometimes as long as by default: ten seconds for each instance.
                let seconds = match self.rng.below(10) {
                    0 => 10,
                    short => short % 4,
                };
                spec.update.healthy_for = Span::from_secs(seconds);
                spec.update.max_unavailable = if self.rng.chance(300) { 2 } else { 1 };
            }
            8..10 => spec.notes = format!("note {}", self.rng.below(1_000)).into(),
            10..12 => spec.contract = self.other_contract(spec.contract),
            _ => {
                let size = Size {
                    memory: self.rng.between(1, 3),
                    cpu: self.rng.below(3) * 200,
                    gpus: u64::from(self.rng.chance(100)),
                };
                spec.wants = words::wants(size);
            }
        }
        self.want(key, spec)
    }
}

const fn word(call: &Call) -> &'static str {
    match call {
        Call::CreateTask(..) => "asked-create-task",
        Call::CancelTask(_) => "asked-cancel-task",
        Call::DeleteTask(_) => "asked-delete-task",
        Call::FreeName(_) => "asked-free-name",
        Call::PutService(..) => "asked-put-service",
        Call::DeleteService(_) => "asked-delete-service",
        Call::StopInstance(_) => "asked-stop-instance",
        Call::Kill(_) => "asked-kill",
        Call::Forget(_) => "asked-forget",
        Call::Drain(..) => "asked-drain",
        Call::Undrain(_) => "asked-undrain",
        Call::DeclareDead(_) => "asked-declare-dead",
        Call::SetLimits(_) => "asked-set-limits",
        Call::SetDomain(..) => "asked-set-domain",
        Call::RemoveDomain(_) => "asked-remove-domain",
        Call::PutDefinition(..) => "asked-put-definition",
        Call::DeleteDefinition(_) => "asked-delete-definition",
    }
}
