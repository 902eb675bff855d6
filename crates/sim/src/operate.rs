//! What operators do: they know which machines are off, which drains are over, and when a roster is
//! complete.

use sterna_engine::{
    Input,
    control::{self, Call},
};
use sterna_model::Lock;
use sterna_store::cluster::Stage;

use crate::machine::Power;
use crate::world::{Event, Message, Who, World};

/// How often they look.
const EVERY: u64 = 250;

impl World {
    /// Looks, and will again.
    pub(crate) fn operate(&mut self, server: usize) {
        let now = self.servers[server].clock.at(self.now);
        let Some((pid, _)) = self.servers[server].process() else { return };
        if self.office(server).is_none() {
            return;
        }
        let every = self.rng.between(EVERY / 2, EVERY * 2);
        self.queue.push(self.now + every, Event::To(Who::Server(server), pid, Message::Operate));
        if self.office(server).is_some_and(|office| !office.leader.fleet().is_mute(now)) {
            self.declare_dead(server);
            self.forget_vanished(server);
            self.complete_roster(server);
            self.be_content(server);
            self.start_nodes(server);
        }
        self.pump(server);
        self.arm_server(server);
    }

    /// The nodes are looked at once, soon.
    pub(crate) fn look_soon(&mut self, server: usize) {
        if let Some((pid, _)) = self.servers[server].process() {
            self.later(1, Who::Server(server), pid, Message::Look);
        }
    }

    fn declare_dead(&mut self, server: usize) {
        for machine in 0..self.machines.len() {
            let one = &self.machines[machine];
            let lock = one.lock;
            let is_asking = self
                .clients
                .is_asking(|call| matches!(call, Call::DeclareDead(asked) if *asked == lock));
            let (is_held_off, has_been) = (one.is_held_off(), self.stored.is_declared_dead(lock));
            if is_held_off && has_been && !is_asking {
                // Nobody was told that it stands, and it does.
                self.release_machine(lock);
            }
            let is_due = is_held_off && !is_asking && !has_been;
            if is_due && self.rng.chance(if self.is_calm { 500 } else { 100 }) {
                self.ask(server, Call::DeclareDead(lock));
            }
        }
    }

    /// When nothing goes wrong any more, nothing is drained, and it is said who was lost.
    fn be_content(&mut self, server: usize) {
        if !self.is_calm {
            return;
        }
        if self.rng.chance(300)
            && let Some(lock) = self.some_drained()
        {
            self.ask(server, Call::Undrain(lock));
        }
    }

    /// A machine that nobody will see again is forgotten, once it may be.
    fn forget_vanished(&mut self, server: usize) {
        if !self.rng.chance(10) {
            return;
        }
        let gone: Vec<Lock> = self
            .machines
            .iter()
            .filter(|one| one.power == Power::Vanished)
            .map(|one| one.lock)
            .filter(|lock| self.stored.roster().any(|(known, _)| known == *lock))
            .collect();
        if let Some(lock) = self.rng.pick(&gone) {
            self.ask(server, Call::Forget(lock));
        }
    }

    /// After a restore somebody who knows says who was lost.
    fn complete_roster(&mut self, server: usize) {
        let is_recovered =
            self.office(server).is_some_and(|office| office.cluster.stage == Stage::Recovered);
        let chance = if self.is_calm { 50 } else { 10 };
        if is_recovered && self.rng.chance(chance) && self.roster_is_complete(server) {
            let input = control::Input::RosterIsComplete;
            self.step_leader(server, Input::Control(input));
        }
    }

    /// Whether every machine that runs something is on the roster, and what it runs is known. While
    /// things go wrong, a run may be on its way to any machine that may still be on: everybody is.
    fn roster_is_complete(&self, server: usize) -> bool {
        let Some(office) = self.office(server) else { return false };
        let is_enrolled = |lock| self.stored.roster().any(|(known, _)| known == lock);
        let may_be_on = |power| !matches!(power, Power::Destroyed | Power::Vanished);
        let is_whole = self.is_calm
            || self.machines.iter().all(|one| !may_be_on(one.power) || is_enrolled(one.lock));
        is_whole
            && self.table.all().all(|(run, container)| {
                let lock = self.machines[container.machine].lock;
                office.leader.fleet().held(lock).any(|claim| claim.run == *run)
            })
    }
}
