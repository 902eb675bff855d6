//! Faults, as they befall the world.

use sterna_model::Lock;

use crate::{
    check::{Fact, Mark},
    machine::Power,
    plan::Fault,
    record::{Record, roster_key},
    store::Applied,
    world::{Event, Who, World},
};

impl World {
    pub(crate) fn fault(&mut self, index: usize) {
        let fault = self.plan[index].fault;
        self.say(|| format!("!! {} {} {:?}", fault.whose(), fault.kind(), fault.lasts()));
        self.coverage.fault(fault.kind());
        let now = self.now;
        match fault {
            Fault::StreamBreaks(machine) => self.break_streams(machine),
            Fault::CutOff(machine, way, lasts) => self.net.block(machine, way, now + lasts),
            Fault::NetworkHarsh(lasts) => self.net.harsh_until = now + lasts,
            Fault::WorkerKilled(machine, lasts) => self.worker_killed(machine, lasts),
            Fault::WorkerStopped(machine, lasts) => self.worker_stopped(machine, lasts),
            Fault::GuardianKilled(machine) => self.guardian_killed(machine),
            Fault::GuardianStopped(machine, lasts) => self.guardian_stopped(machine, lasts),
            Fault::NamespaceKilled(machine, lasts) => self.namespace_killed(machine, lasts),
            Fault::MachineRebooted(machine, lasts) => self.power_off(machine, Power::Off, lasts),
            Fault::MachineDeclaredDead(machine, lasts) => {
                self.power_off(machine, Power::HeldOff, lasts);
            }
            Fault::LiveDeclaredDead(machine) => self.machines[machine].is_taken_for_dead = true,
            Fault::MachineDestroyed(machine, lasts) => self.destroyed(machine, lasts),
            Fault::MachineVanished(machine) => {
                let on = self.machines.iter().filter(|machine| machine.is_on()).count();
                if on > 2 {
                    self.power_off(machine, Power::Vanished, 0);
                }
            }
            Fault::WallClockSet(machine, off) => {
                self.machines[machine].clock.set_wall(off);
                let server = machine % self.servers.len();
                self.servers[server].clock.set_wall(off);
            }
            Fault::DrainWanted(machine, lasts) => {
                self.want_drain(machine, true);
                self.queue.push(now + lasts, Event::DrainOver(machine));
            }
            Fault::ServerKilled(server, lasts) => self.end_server(server, lasts),
            Fault::ServerStopped(server, lasts) => {
                if let Some(process) = &mut self.servers[server].process {
                    process.stopped_until = process.stopped_until.max(now + lasts);
                }
            }
            Fault::ServerAlone(server, lasts) => self.servers[server].alone_until = now + lasts,
            Fault::ServerResigns(server, _) => self.resign(server),
            Fault::StoreDown(lasts) => self.store.down_until = now + lasts,
            Fault::StoreSlow(lasts) => self.store.slow_until = now + lasts,
            Fault::CommitsLost(loss, count) => self.store.order(loss, count),
            Fault::StoreRestored(back) => self.restore(back),
            Fault::LimitsChanged => self.change_limits(),
        }
    }

    // Worker and guardian both stopped, or one stopped and the other killed, is a stated limit: who
    // befalls one of them leaves the other in peace.

    fn worker_killed(&mut self, machine: usize, lasts: u64) {
        if self.machines[machine].is_guarded(self.now) {
            self.kill_worker(machine);
        }
        self.queue.push(self.now + lasts, Event::Start(Who::Worker(machine)));
    }

    fn worker_stopped(&mut self, machine: usize, lasts: u64) {
        let until = self.now + lasts;
        let is_guarded = self.machines[machine].is_guarded(self.now);
        if let Some(process) = self.machines[machine].worker.as_mut().filter(|_| is_guarded) {
            process.stopped_until = process.stopped_until.max(until);
        }
    }

    fn guardian_killed(&mut self, machine: usize) {
        if self.machines[machine].is_worked(self.now) {
            self.kill_guardian(machine);
        }
    }

    fn guardian_stopped(&mut self, machine: usize, lasts: u64) {
        let until = self.now + lasts;
        let is_worked = self.machines[machine].is_worked(self.now);
        if let Some(process) = self.machines[machine].guardian.as_mut().filter(|_| is_worked) {
            process.stopped_until = process.stopped_until.max(until);
            let until = process.stopped_until;
            self.tell(&Fact::GuardianStopped { machine, until });
        }
    }

    fn namespace_killed(&mut self, machine: usize, lasts: u64) {
        self.kill_worker(machine);
        self.kill_guardian(machine);
        self.end_all(machine);
        self.queue.push(self.now + lasts, Event::Start(Who::Worker(machine)));
    }

    /// Another machine comes, with the name of one that is gone.
    fn destroyed(&mut self, machine: usize, lasts: u64) {
        if self.machines[machine].is_on() {
            self.power_off(machine, Power::Destroyed, 0);
            let name = self.machines[machine].name.to_string();
            self.add_machine(&name, lasts);
        }
    }

    /// A machine loses power: everything on it is gone but its disk.
    fn power_off(&mut self, machine: usize, power: Power, lasts: u64) {
        if !self.machines[machine].is_on() {
            return;
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

    fn restore(&mut self, back: u64) {
        // Nobody restores a store under a server that runs.
        for server in 0..self.servers.len() {
            let after = self.rng.between(200, 8_000);
            self.end_server(server, after);
        }
        if let Some(age) = self.store.restore(self.now, back) {
            self.say(|| format!("the store is as it was {age} ms ago"));
            self.tell(&Fact::Restored);
        }
    }

    /// A commit applied.
    pub(crate) fn committed(&mut self, applied: &Applied) {
        let fact = Fact::Committed { applied, shelf: &self.shelf };
        self.checks.see(self.now, &fact);
        for (machine, one) in self.machines.iter().enumerate() {
            let key = roster_key(one.lock);
            for change in applied.changes.iter().filter(|change| change.key == key) {
                let record = change.value.as_ref().and_then(|value| self.shelf.get(value));
                let mark = match record {
                    Some(Record::Enrolled(entry)) if entry.is_declared_dead => {
                        Mark::Dead(entry.incarnation.life, applied.term)
                    }
                    Some(Record::Enrolled(_)) => Mark::Alive,
                    Some(Record::Task(_) | Record::Instance(_) | Record::Limits(_)) | None => {
                        Mark::Struck
                    }
                };
                self.checks.see(self.now, &Fact::Enrolled { machine, mark });
            }
        }
    }

    /// Everybody who is stopped, cut off or off goes on; what is gone for good stays so.
    pub(crate) fn continue_all(&mut self) {
        self.wake_all();
        for machine in 0..self.machines.len() {
            self.machines[machine].is_taken_for_dead = false;
            self.queue.push(self.now + 1, Event::Start(Who::Worker(machine)));
            self.want_drain(machine, false);
        }
        for server in 0..self.servers.len() {
            self.servers[server].alone_until = 0;
            self.queue.push(self.now + 1, Event::Start(Who::Server(server)));
        }
    }
}
