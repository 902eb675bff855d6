//! Batches, of which the engine knows nothing yet: fixed nodes that are wanted all the time, sent
//! through the leader's fleet without claims.

use std::collections::BTreeMap;

use sterna_engine::Input;
use sterna_model::{Incarnation, RunId, WorkKey};
use sterna_protocol::{
    message::{Held, Kill, News, Ordinal, StatusAnswer},
    scheduler::{self, Dispatch, Effect, GoneBy, Report, Settlement},
};

use crate::{
    words::{self, NODES},
    world::World,
};

/// The runs of batches that may be running, as far as a leader knows, and where.
#[derive(Debug, Default)]
pub(crate) struct Batches(BTreeMap<RunId, (WorkKey, Incarnation)>);

impl Batches {
    fn has(&self, key: &WorkKey) -> bool {
        self.0.values().any(|(held, _)| held == key)
    }

    fn on(&self, worker: Incarnation) -> usize {
        self.0.values().filter(|(_, on)| on.lock == worker.lock).count()
    }
}

impl World {
    /// Starts the nodes that may start, mostly.
    pub(crate) fn start_nodes(&mut self, server: usize) {
        for wanted in self.wanted.clone() {
            let is_any = self.rng.chance(20) && !self.is_calm;
            let Some(office) = self.office(server) else { return };
            let fleet = office.leader.fleet();
            let may_start = !office.batches.has(&wanted.key)
                && fleet.contract_objection(&wanted.key, wanted.contract).is_none();
            if !may_start || self.rng.chance(200) {
                continue;
            }
            let Some(office) = self.office(server) else { return };
            let fleet = office.leader.fleet();
            let lives = self.machines.iter().filter_map(|one| one.incarnation());
            let is_fit = |worker: &Incarnation| {
                (is_any || fleet.worker_objection(*worker).is_none())
                    && office.batches.on(*worker) < NODES
            };
            let fit: Vec<Incarnation> = lives.filter(is_fit).collect();
            let Some(to) = self.rng.pick(&fit) else { continue };
            let wall = self.servers[server].clock.wall(self.now);
            let run = RunId::from_parts(wall, self.rng.bytes());
            let (key, contract) = (wanted.key, wanted.contract);
            if let Some(office) = self.office_mut(server) {
                office.batches.0.insert(run, (key.clone(), to));
            }
            let (ordinal, work) = (Ordinal::default(), words::nothing());
            let dispatch = Dispatch { to, run, key, task: None, contract, ordinal, work };
            let dispatch = scheduler::Input::Dispatch(vec![dispatch]);
            self.step_leader(server, Input::Batch(dispatch));
        }
    }

    pub(crate) fn batch_news(&mut self, server: usize, news: Effect) {
        match news {
            Effect::Settled(run, settlement) => {
                self.coverage.turn(match settlement {
                    Settlement::NotSent(_) => "settled-not-sent",
                    Settlement::Refused(_) => "settled-refused",
                    Settlement::Gone(GoneBy::Deadline) => "gone-by-deadline",
                    Settlement::Gone(GoneBy::Absence) => "gone-by-absence",
                    Settlement::Gone(GoneBy::NeverCame) => "gone-never-came",
                    Settlement::Gone(GoneBy::Reboot) => "gone-by-reboot",
                    Settlement::Gone(GoneBy::Declaration) => "gone-by-declaration",
                });
                if let Some(office) = self.office_mut(server) {
                    office.batches.0.remove(&run);
                }
                // What waited for a run that is gone begins at once.
                if matches!(settlement, Settlement::Gone(_)) {
                    self.look_soon(server);
                }
            }
            Effect::Found(from, held) => self.node_found(server, from, &held),
            Effect::Reported(Report { from, run, number, news, .. }) => {
                self.coverage.turn(match &news {
                    News::Progress(_) => "progress",
                    News::Ended(_) => "ended",
                    News::WasNotRunning => "was-not-running",
                });
                if news.is_end()
                    && let Some(office) = self.office_mut(server)
                {
                    office.batches.0.remove(&run);
                }
                // Nothing is kept of it.
                let recorded =
                    scheduler::Input::Recorded(from, run, number, StatusAnswer::Recorded);
                self.step_leader(server, Input::Batch(recorded));
            }
            Effect::Send(..)
            | Effect::Close(_)
            | Effect::Enroll(_)
            | Effect::Revive(_)
            | Effect::Strike(_)
            | Effect::Silent(_)
            | Effect::Heard(_)
            | Effect::Health(..)
            | Effect::Facts(..)
            | Effect::WantsDrain(..)
            | Effect::Opened(_)
            | Effect::Raise(_)
            | Effect::Healed
            | Effect::Retired(_)
            | Effect::StoreLags(..)
            | Effect::Alarm(..) => {}
        }
    }

    /// One that nobody knows of is adopted if its key is free, and ended otherwise.
    fn node_found(&mut self, server: usize, from: Incarnation, held: &Held) {
        self.coverage.turn("found");
        let Some(office) = self.office_mut(server) else { return };
        let has_ended = held.status.as_ref().is_some_and(|status| status.news.is_end());
        let is_free = !office.batches.has(&held.key);
        // One that has ended, or is being ended, still has the key.
        office.batches.0.insert(held.run, (held.key.clone(), from));
        if !is_free && !has_ended {
            let kill = scheduler::Input::Kill(held.run, Kill::Now);
            self.step_leader(server, Input::Batch(kill));
        }
    }
}
