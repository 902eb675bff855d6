//! Faults, as they befall the world.

use sterna_model::Lock;

use crate::{
    check::Fact,
    machine::Power,
    net::Split,
    plan::Fault,
    store::Applied,
    turns,
    world::{Event, Who, World},
};

impl World {
    pub(crate) fn fault(&mut self, index: usize) {
        let fault = self.plan[index].fault;
        self.say(|| format!("!! {} {} {:?}", fault.whose(), fault.kind(), fault.lasts()));
        if self.befall(fault) {
            self.coverage.fault(fault.kind());
        } else {
            self.say(|| "   and finds nothing to harm".to_owned());
        }
    }

    /// Gives whether there was anything to harm.
    fn befall(&mut self, fault: Fault) -> bool {
        let now = self.now;
        match fault {
            Fault::StreamBreaks(machine) => return self.break_streams(machine),
            Fault::CutOff(machine, way, lasts) => self.net.block(machine, way, now + lasts),
            Fault::CutOffAtDial(machine, lasts) => self.machines[machine].cut_at_dial = Some(lasts),
            Fault::NetworkSplit(machines, server, lasts) => {
                self.net.cut_in_two(Split { machines, server, until: now + lasts });
                self.servers[server].alone_until = now + lasts;
            }
            Fault::NetworkHarsh(lasts) => self.net.harsh_until = now + lasts,
            Fault::WorkerKilled(machine, lasts) => return self.worker_killed(machine, lasts),
            Fault::WorkerLeaves(machine, lasts) => return self.leave_gracefully(machine, lasts),
            Fault::ChecksFail(machine, lasts) => {
                self.machines[machine].unwell_until = now + lasts;
            }
            Fault::WorkerStopped(machine, lasts) => return self.worker_stopped(machine, lasts),
            Fault::GuardianKilled(machine) => return self.guardian_killed(machine),
            Fault::GuardianStopped(machine, lasts) => return self.guardian_stopped(machine, lasts),
            Fault::NamespaceKilled(machine, lasts) => return self.namespace_killed(machine, lasts),
            Fault::MachineRebooted(machine, lasts) => {
                return self.power_off(machine, Power::Off, lasts);
            }
            Fault::MachineDeclaredDead(machine, lasts) => {
                return self.power_off(machine, Power::HeldOff, lasts);
            }
            Fault::LiveDeclaredDead(machine) => {
                let is_on = self.machines[machine].is_on();
                self.machines[machine].is_taken_for_dead |= is_on;
                return is_on;
            }
            Fault::MachineDestroyed(machine, lasts) => return self.destroyed(machine, lasts),
            Fault::MachineVanished(machine) => return self.vanish(machine),
            Fault::WallClockSet(machine, off) => {
                self.machines[machine].clock.set_wall(off);
                let server = machine % self.servers.len();
                self.servers[server].clock.set_wall(off);
            }
            Fault::DrainWanted(machine, lasts) => {
                self.want_drain(machine, true);
                self.queue.push(now + lasts, Event::DrainOver(machine));
                return self.machines[machine].worker.is_some();
            }
            Fault::ServerKilled(server, lasts) => {
                let is_there = self.servers[server].process.is_some();
                self.end_server(server, lasts);
                return is_there;
            }
            Fault::ServerStopped(server, lasts) => {
                let Some(process) = &mut self.servers[server].process else { return false };
                process.stopped_until = process.stopped_until.max(now + lasts);
            }
            Fault::ServerAlone(server, lasts) => self.servers[server].alone_until = now + lasts,
            Fault::ServerResigns(server, _) => return self.resign(server),
            Fault::StoreDown(lasts) => self.store.down_until = now + lasts,
            Fault::StoreSlow(lasts) => self.store.slow_until = now + lasts,
            Fault::CommitsLost(loss, count) => self.store.order(loss, count),
            Fault::StoreRestored(back) => return self.restore(back),
            Fault::StoreSetBack(back) => return self.set_back(back),
            Fault::LimitsChanged => return self.change_limits(),
        }
        true
    }

    fn vanish(&mut self, machine: usize) -> bool {
        let on = self.machines.iter().filter(|machine| machine.is_on()).count();
        if on <= 2 || !self.machines[machine].is_on() {
            return false;
        }
        self.power_off(machine, Power::Vanished, 0)
    }

    // Worker and guardian both stopped, or one stopped and the other killed, is a stated limit: who
    // befalls one of them leaves the other in peace.

    fn worker_killed(&mut self, machine: usize, lasts: u64) -> bool {
        let one = &self.machines[machine];
        let is_harmed = one.is_guarded(self.now) && one.worker.is_some();
        if is_harmed {
            self.kill_worker(machine);
        }
        self.queue.push(self.now + lasts, Event::Start(Who::Worker(machine)));
        is_harmed
    }

    fn worker_stopped(&mut self, machine: usize, lasts: u64) -> bool {
        let until = self.now + lasts;
        let is_guarded = self.machines[machine].is_guarded(self.now);
        let worker = self.machines[machine].worker.as_mut().filter(|_| is_guarded);
        let Some(process) = worker else { return false };
        process.stopped_until = process.stopped_until.max(until);
        true
    }

    fn guardian_killed(&mut self, machine: usize) -> bool {
        let one = &self.machines[machine];
        let is_harmed = one.is_worked(self.now) && one.guardian.is_some();
        if is_harmed {
            self.kill_guardian(machine);
        }
        is_harmed
    }

    fn guardian_stopped(&mut self, machine: usize, lasts: u64) -> bool {
        let until = self.now + lasts;
        let is_worked = self.machines[machine].is_worked(self.now);
        let guardian = self.machines[machine].guardian.as_mut().filter(|_| is_worked);
        let Some(process) = guardian else { return false };
        process.stopped_until = process.stopped_until.max(until);
        let until = process.stopped_until;
        self.tell(&Fact::GuardianStopped { machine, until });
        true
    }

    fn namespace_killed(&mut self, machine: usize, lasts: u64) -> bool {
        let one = &self.machines[machine];
        let is_harmed = one.worker.is_some() || one.guardian.is_some();
        self.kill_worker(machine);
        self.kill_guardian(machine);
        self.end_all(machine);
        self.queue.push(self.now + lasts, Event::Start(Who::Worker(machine)));
        is_harmed
    }

    /// Another machine comes, with the name of one that is gone.
    fn destroyed(&mut self, machine: usize, lasts: u64) -> bool {
        let is_harmed = self.power_off(machine, Power::Destroyed, 0);
        if is_harmed {
            let name = self.machines[machine].name.to_string();
            self.add_machine(&name, lasts);
        }
        is_harmed
    }

    /// A machine loses power: everything on it is gone but its disk.
    fn power_off(&mut self, machine: usize, power: Power, lasts: u64) -> bool {
        if !self.machines[machine].is_on() {
            return false;
        }
        self.kill_worker(machine);
        self.kill_guardian(machine);
        self.end_all(machine);
        let one = &mut self.machines[machine];
        one.power = power;
        one.reboot(&mut self.rng);
        match power {
            Power::Off | Power::HeldOff => {
                self.queue.push(self.now + lasts, Event::Start(Who::Worker(machine)));
            }
            Power::On | Power::Destroyed | Power::Vanished => {}
        }
        true
    }

    /// It was declared dead: now it may come back.
    pub(crate) fn release_machine(&mut self, lock: Lock) {
        for (index, machine) in self.machines.iter_mut().enumerate() {
            machine.is_taken_for_dead &= machine.lock != lock;
            if machine.lock == lock && machine.power == Power::HeldOff {
                machine.power = Power::Off;
                self.queue.push(self.now + 500, Event::Start(Who::Worker(index)));
            }
        }
    }

    fn restore(&mut self, back: u64) -> bool {
        for server in 0..self.servers.len() {
            let after = self.rng.between(200, 8_000);
            self.end_server(server, after);
        }
        self.set_back(back)
    }

    /// An older copy of the store takes its place.
    fn set_back(&mut self, back: u64) -> bool {
        let Some(age) = self.store.restore(self.now, back) else { return false };
        self.say(|| format!("the store is as it was {age} ms ago"));
        self.stored.reset(self.store.model(), &self.shelf);
        let revision = self.store.revision();
        self.servers.iter_mut().for_each(|server| server.lose_from(revision));
        self.tell(&Fact::Restored);
        true
    }

    /// A commit applied.
    pub(crate) fn committed(&mut self, applied: &Applied) {
        let changes = self.stored.apply(applied, &self.shelf);
        for changed in &changes {
            if self.is_traced() {
                let says = match self.stored.get(&changed.key) {
                    Some(row) => format!("{row:?}"),
                    None => format!("{:?} is gone", changed.key),
                };
                self.say(|| format!("    the store: {says}"));
            }
            for turn in turns::of(changed, self.stored.get(&changed.key)) {
                self.coverage.turn(turn);
            }
        }
        self.tell(&Fact::Committed { applied, changes: &changes });
    }

    /// Everybody who is stopped, cut off or off goes on; what is gone for good stays so.
    pub(crate) fn continue_all(&mut self) {
        self.wake_all();
        for machine in 0..self.machines.len() {
            self.machines[machine].is_taken_for_dead = false;
            self.machines[machine].unwell_until = 0;
            self.queue.push(self.now + 1, Event::Start(Who::Worker(machine)));
            self.want_drain(machine, false);
        }
        for server in 0..self.servers.len() {
            self.servers[server].alone_until = 0;
            self.queue.push(self.now + 1, Event::Start(Who::Server(server)));
        }
    }
}
