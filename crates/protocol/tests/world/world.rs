//! Time, faults and calm.

use sterna_model::{Contract, WorkKey};
use sterna_protocol::{health::Health, limits::Limits};

use super::{
    leader::Leader,
    machine::Machine,
    net::{Net, Temper},
    rng::{Clock, Rng},
    store::{Store, Task},
    table::Table,
    words::{self, Kind},
};

/// When faults stop, everything is well again within this.
const CALM: u64 = 120_000;

pub(crate) struct Wanted {
    pub(crate) kind: Kind,
    pub(crate) key: WorkKey,
    pub(crate) contract: Contract,
}

pub(crate) struct World {
    pub(crate) now: u64,
    pub(crate) rng: Rng,
    pub(crate) is_calm: bool,
    pub(crate) limits: Limits,
    pub(crate) store: Store,
    pub(crate) leaders: Vec<Leader>,
    pub(crate) machines: Vec<Machine>,
    pub(crate) net: Net,
    pub(crate) table: Table,
    pub(crate) wanted: Vec<Wanted>,
    pub(crate) runs: u64,
    tasks: u64,
    /// How many of a thousand containers end by themselves.
    pub(crate) short_lived: u64,
    /// How often something breaks: once in so many milliseconds, for each machine.
    fault_every: u64,
    elect_at: u64,
    pub(crate) elected_at: u64,
    faults_until: u64,
    is_traced: bool,
    pub(crate) trace: Vec<String>,
}

impl World {
    pub(crate) fn new(seed: u64, is_traced: bool) -> Self {
        let mut rng = Rng::new(seed);
        let has_kept = rng.chance(700);
        let temper = if rng.chance(450) { Temper::Harsh } else { Temper::Plain };
        let mut world = Self {
            now: 0,
            is_calm: false,
            limits: words::limits(has_kept),
            store: Store::default(),
            leaders: Vec::new(),
            machines: Vec::new(),
            net: Net { temper, ..Net::default() },
            table: Table::default(),
            wanted: Vec::new(),
            runs: 0,
            tasks: 0,
            short_lived: rng.pick(&[0, 100, 500]).unwrap_or(0),
            fault_every: rng.between(4_000, 40_000),
            elect_at: 0,
            elected_at: 0,
            faults_until: rng.between(60_000, 140_000),
            is_traced,
            trace: Vec::new(),
            rng,
        };
        world.store.limits.push(world.limits);
        for number in 1..=world.rng.between(1, 3) {
            let clock = Clock::new(&mut world.rng);
            let up_at = world.rng.below(5_000);
            let name = words::name(&format!("w{number}"));
            world.machines.push(Machine::new(number, name, clock, up_at));
        }
        let keys = [
            (Kind::Batch, 1, words::STOP),
            (Kind::Batch, 2, words::STOP),
            (Kind::Batch, 3, Contract::Keep),
            (Kind::Service, 1, words::REPLACE),
            (Kind::Service, 2, words::REPLACE),
        ];
        for (kind, number, contract) in keys {
            if world.rng.chance(750) && (contract != Contract::Keep || has_kept) {
                world.want(kind, number, contract);
            }
        }
        world
    }

    /// A calm one with two machines and two batches under `keep`.
    pub(crate) fn of_two() -> Self {
        let mut world = Self::new(1, false);
        world.be_calm();
        world.machines.clear();
        for number in 1..=2 {
            let clock = Clock::new(&mut world.rng);
            let name = words::name(&format!("w{number}"));
            world.machines.push(Machine::new(number, name, clock, 0));
        }
        world.wanted.clear();
        world.want(Kind::Batch, 1, Contract::Keep);
        world.want(Kind::Batch, 2, Contract::Keep);
        world
    }

    fn want(&mut self, kind: Kind, number: u64, contract: Contract) {
        self.wanted.push(Wanted { kind, key: words::key(kind, number), contract });
    }

    pub(crate) fn say(&mut self, what: impl FnOnce() -> String) {
        if self.is_traced {
            // Ids are as long as they must be in a real cluster.
            let what = what()
                .replace("00000000000070008000000000", "")
                .replace("-070707070707070700000000000000", "");
            self.trace.push(format!("{:>7} {what}", self.now));
        }
    }

    /// Faults, then calm; gives how long it took until everything was well again.
    pub(crate) fn play(&mut self) -> Result<u64, String> {
        while self.now < self.faults_until {
            self.pass_moment()?;
        }
        self.be_calm();
        let since = self.now;
        let mut look_at = since;
        loop {
            self.pass_moment()?;
            if self.now < look_at {
                continue;
            }
            look_at = self.now + 1_000;
            match self.is_well() {
                Ok(()) => return Ok(self.now - since),
                Err(why) if self.now > since + CALM => return Err(why),
                Err(_) => {}
            }
        }
    }

    pub(crate) fn pass_moment(&mut self) -> Result<(), String> {
        self.now += self.rng.between(10, 120);
        if !self.is_calm {
            self.break_something();
            self.want_tasks();
        }
        if self.now >= self.store.lease_until {
            if self.elect_at < self.store.lease_until {
                self.elect_at = self.now + self.rng.between(10, 1_500);
            }
            if self.now >= self.elect_at {
                self.elect();
            }
        }
        for index in 0..self.leaders.len() {
            self.run_leader(index);
        }
        for (machine, run) in self.table.end_due(self.now) {
            self.container_ended(machine, run);
        }
        for index in 0..self.machines.len() {
            self.run_machine(index);
        }
        self.net.forget_closed();
        self.table.broken.clone().map_or(Ok(()), Err)
    }

    fn want_tasks(&mut self) {
        let open = self.store.tasks.values().filter(|task| **task != Task::Ended).count();
        if open < 3 {
            self.tasks += 1;
            let contract = match self.tasks % 3 {
                0 => Contract::Keep,
                1 => words::STOP,
                _ => words::STOP_TASK,
            };
            self.want(Kind::Task, self.tasks, contract);
            self.store.tasks.insert(words::key(Kind::Task, self.tasks), Task::Pending);
            let (store, wanted) = (&self.store, &mut self.wanted);
            wanted.retain(|wanted| store.tasks.get(&wanted.key) != Some(&Task::Ended));
        }
    }

    fn break_something(&mut self) {
        // Much is unsettled when a reign begins: then more breaks.
        let is_early = self.now < self.elected_at + 3_000;
        let likely = if is_early { 500 } else { 65 };
        for index in 0..self.machines.len() {
            if self.rng.below(self.fault_every) < likely {
                self.break_machine(index);
            }
        }
        if self.rng.below(self.fault_every) < 40 {
            self.break_leader();
        }
    }

    fn break_machine(&mut self, index: usize) {
        let now = self.now;
        if self.machines[index].is_destroyed {
            return;
        }
        // Mostly short; sometimes longer than any deadline.
        let long = self.rng.pick(&[1_000, 5_000, 12_000, 40_000]).unwrap_or(1_000);
        let until = now + self.rng.between(200, long);
        let is_its = |stream: &super::net::Stream| stream.machine == index;
        let what = match self.rng.below(100) {
            0..25 => {
                self.net.cut(now, &mut self.rng, is_its);
                "loses its stream"
            }
            25..50 => {
                self.machines[index].cut_until = until;
                self.net.cut(now, &mut self.rng, is_its);
                "is cut off"
            }
            50..60 => {
                self.net.stall(until, is_its);
                "has a slow stream"
            }
            60..77 => {
                self.crash_worker(index, until);
                "crashes its worker"
            }
            77..92 => {
                self.machines[index].paused_until = until;
                "stops its worker for a while"
            }
            92..98 => {
                self.reboot(index, until);
                if self.rng.chance(400) {
                    self.declare_dead(index);
                }
                "reboots"
            }
            _ => {
                self.reboot(index, until);
                self.machines[index].is_destroyed = true;
                // Another machine comes in its place, with its name.
                let number = u64::try_from(self.machines.len()).unwrap() + 1;
                let name = self.machines[index].name.clone();
                let clock = Clock::new(&mut self.rng);
                self.machines.push(Machine::new(number, name, clock, until));
                "is destroyed"
            }
        };
        self.say(|| format!("m{index} {what}, until {until}"));
    }

    fn break_leader(&mut self) {
        let now = self.now;
        let Some(index) = self.leaders.len().checked_sub(1) else { return };
        let what = match self.rng.below(11) {
            10 => {
                self.change_limits(index);
                "changes the limits"
            }
            0..3 => {
                self.leaders[index].is_alive = false;
                self.net.cut(now, &mut self.rng, |stream| stream.leader == index);
                "crashes"
            }
            3..5 => {
                // It says so before it is silent.
                self.leaders[index].is_alive = false;
                self.store.lease_until = now;
                "resigns"
            }
            5..7 => {
                self.leaders[index].alone_until = now + self.rng.between(1_000, 40_000);
                "does not reach the store"
            }
            _ => {
                let until = now + self.rng.between(100, 12_000);
                self.leaders[index].paused_until = until;
                "stops for a while"
            }
        };
        self.say(|| format!("L{index} {what}"));
    }

    pub(crate) fn be_calm(&mut self) {
        self.say(|| "calm".to_owned());
        self.is_calm = true;
        self.net.temper = Temper::Calm;
        let now = self.now;
        for machine in &mut self.machines {
            machine.cut_until = machine.cut_until.min(now);
            machine.paused_until = machine.paused_until.min(now);
            machine.up_at = machine.up_at.min(now);
        }
        for leader in &mut self.leaders {
            leader.paused_until = leader.paused_until.min(now);
            leader.alone_until = leader.alone_until.min(now);
        }
        for container in self.table.alive_mut() {
            container.end_at = container.end_at.map(|end| end.min(now));
        }
    }

    /// Every worker is healthy on both sides, every wanted key runs, and nothing is left over.
    fn is_well(&self) -> Result<(), String> {
        let leader = self.leaders.last().ok_or("nobody leads")?;
        for (index, machine) in
            self.machines.iter().enumerate().filter(|(_, one)| !one.is_destroyed)
        {
            let worker = machine.worker.as_ref().ok_or(format!("m{index} has no worker"))?;
            let above = leader.fleet.health(worker.incarnation());
            if worker.health() != Health::Healthy || above != Some(Health::Healthy) {
                return Err(format!(
                    "m{index} is {:?} and is taken for {above:?}",
                    worker.health()
                ));
            }
            if let Some(ended) = machine.disk.held.values().find(|held| held.status.is_some()) {
                return Err(format!("m{index} has an end that nobody acknowledged: {ended:?}"));
            }
            for claim in leader.fleet.held(machine.lock) {
                let is_here = |container: &super::table::Container| {
                    container.run == claim.run && container.machine == index
                };
                if !self.table.alive().any(is_here) {
                    return Err(format!("the leader still believes in {claim:?}"));
                }
            }
        }
        for wanted in &self.wanted {
            let alive = self.table.alive().filter(|container| container.key == wanted.key).count();
            let has_ended = self.store.tasks.get(&wanted.key) == Some(&Task::Ended);
            if alive != usize::from(!has_ended) {
                return Err(format!("{alive} containers of {:?}", wanted.key));
            }
        }
        let destroyed = self.machines.iter().find(|machine| {
            machine.is_destroyed && leader.fleet.held(machine.lock).next().is_some()
        });
        destroyed.map_or(Ok(()), |machine| Err(format!("{:?} still counts", machine.lock)))
    }
}
