//! The leader's side of the links: frames into the fleet, effects out of it.

use sterna_model::{Incarnation, RunId};
use sterna_model::{Position, Work};
use sterna_protocol::{
    health::Health,
    message::{
        FromLeader, FromWorker, HeartbeatAnswer, Held, Kill, News, Order, Saying, StatusAnswer,
        StreamId,
    },
    scheduler::{Effect, GoneBy, Input, Report, Settlement},
};

use super::{Op, ops};
use crate::{
    check::Fact,
    machine::Machine,
    net::Toward,
    planted::{Mistake, is_planted},
    world::{Event, Message, Who, World},
};

impl World {
    pub(crate) fn hear_worker(&mut self, server: usize, stream: StreamId, frame: FromWorker) {
        self.coverage.message(match &frame.saying {
            Saying::Heartbeat(_) => "heartbeat",
            Saying::Statuses(_) => "statuses",
            Saying::Running(_) => "running",
            Saying::Answers(_) => "answers",
            Saying::Noted(_) => "noted",
        });
        if self.is_traced() && !matches!(frame.saying, Saying::Heartbeat(_)) {
            self.say(|| format!("    s{server} hears {stream:?} {:?}", frame.saying));
        }
        self.step_fleet(server, Input::Frame(stream, frame));
        self.arm_server(server);
    }

    pub(crate) fn hear_closed(&mut self, server: usize, stream: StreamId) {
        self.step_fleet(server, Input::Closed(stream));
    }

    pub(crate) fn tick_fleet(&mut self, server: usize) {
        let now = self.servers[server].clock.at(self.now);
        if self.office(server).is_some_and(|office| now >= office.fleet.deadline()) {
            self.step_fleet(server, Input::Tick);
        }
    }

    pub(crate) fn step_fleet(&mut self, server: usize, input: Input) {
        let now = self.servers[server].clock.at(self.now);
        let Some(office) = self.office_mut(server) else { return };
        let mut effects = Vec::new();
        office.fleet.step(now, input, &mut effects);
        for effect in effects {
            self.perform_above(server, effect);
        }
    }

    fn perform_above(&mut self, server: usize, effect: Effect) {
        if self.is_traced() && !matches!(effect, Effect::Send(..)) {
            self.say(|| format!("s{server} {effect:?}"));
        }
        match effect {
            Effect::Send(stream, frame) => self.send_down(server, stream, frame),
            Effect::Close(stream) => self.hang_up_above(stream),
            Effect::Enroll(entry) => self.submit(server, Op::Enroll(entry)),
            Effect::Strike(life) => self.submit(server, Op::Strike(life)),
            Effect::Settled(run, settlement) => self.run_settled(server, run, settlement),
            Effect::Found(from, held) => self.run_found(server, from, held),
            Effect::Reported(report) => self.run_reported(server, report),
            Effect::Silent(run) => {
                self.coverage.turn("silent");
                if let Some(office) = self.office_mut(server) {
                    office.silent.insert(run);
                }
            }
            Effect::Health(who, health) => self.health_changed(server, who, health),
            Effect::WantsDrain(lock, wants) => self.submit(server, Op::Drain(lock, wants)),
            Effect::Revive(life) => {
                // What is being declared counts from now on.
                let is_declared =
                    self.office(server).is_some_and(|office| office.declared.contains(&life.lock));
                if !is_declared {
                    self.submit(server, Op::Revive(life));
                }
            }
            Effect::Retired(oldest) => self.submit(server, Op::Retire(oldest)),
            Effect::Raise(limits) => {
                self.coverage.turn("marks-raised");
                self.submit(server, Op::Limits(limits));
            }
            Effect::Healed => self.submit(server, Op::Healed),
            Effect::StoreLags(mandate, revision) => {
                // The next reign opens a recovered epoch: this is written down before it begins.
                self.coverage.turn("store-lags");
                let position = Position { epoch: mandate.epoch, revision };
                self.write_down(server, position, (mandate.term, mandate.nonce));
                let after = self.rng.between(100, 2_000);
                self.end_server(server, after);
            }
            Effect::Opened(_) => self.coverage.turn("opened"),
            Effect::Facts(..) | Effect::Alarm(..) => {}
        }
    }

    fn send_down(&mut self, server: usize, stream: StreamId, frame: FromLeader) {
        match &frame.order {
            Order::Run(runs) => {
                for run in runs {
                    let fact = Fact::Sent { run: run.run, key: &run.key, contract: run.contract };
                    self.checks.see(self.now, &fact);
                }
            }
            Order::Heartbeat(HeartbeatAnswer::Confirmed(_)) => {
                let (life, term) = (frame.incarnation.life, frame.mandate.term);
                let is_it = |one: &Machine| one.lock == frame.incarnation.lock;
                if let Some(machine) = self.machines.iter().position(is_it) {
                    self.checks.see(self.now, &Fact::Confirmed { machine, life, term });
                }
            }
            Order::Heartbeat(HeartbeatAnswer::Welcome | HeartbeatAnswer::Refused(_))
            | Order::Statuses(_)
            | Order::GetRunning
            | Order::NotifyIfNotRunning(..)
            | Order::Kill(..)
            | Order::Die => {}
        }
        if self.is_traced() && !matches!(frame.order, Order::Heartbeat(_)) {
            self.say(|| format!("    s{server} says {stream:?} {:?}", frame.order));
        }
        let arrivals = self.net.arrivals(self.now, stream, Toward::Worker);
        if let Some((last, rest)) = arrivals.split_last() {
            for at in rest {
                self.queue.push(*at, Event::Down(stream, frame.clone()));
            }
            self.queue.push(*last, Event::Down(stream, frame));
        }
    }

    fn health_changed(&mut self, server: usize, who: Incarnation, health: Health) {
        self.coverage.turn(match health {
            Health::New => "health-new",
            Health::Unhealthy => "health-unhealthy",
            Health::Healthy => "health-healthy",
            Health::MustDie => "health-must-die",
        });
        let Some(office) = self.office_mut(server) else { return };
        office.workers.insert(who.lock, who);
        if health == Health::Healthy {
            let fleet = &office.fleet;
            office.silent.retain(|run| fleet.place(*run) != Some(who.lock));
        }
    }

    /// Safety rule 6.
    fn run_settled(&mut self, server: usize, run: RunId, settlement: Settlement) {
        self.coverage.turn(match settlement {
            Settlement::NotSent(_) => "settled-not-sent",
            Settlement::Refused(_) => "settled-refused",
            Settlement::Gone(GoneBy::Deadline) => "gone-by-deadline",
            Settlement::Gone(GoneBy::Absence) => "gone-by-absence",
            Settlement::Gone(GoneBy::Reboot) => "gone-by-reboot",
            Settlement::Gone(GoneBy::Declaration) => "gone-by-declaration",
        });
        let Some(office) = self.office_mut(server) else { return };
        office.batches.remove(&run);
        let Some(key) = office.keys.get(&run).cloned() else { return };
        let op = match settlement {
            Settlement::NotSent(_) | Settlement::Refused(_) => Op::Return(key, run),
            Settlement::Gone(_) => Op::Lose(key, run),
        };
        self.submit(server, op);
        // What waited for a run that is gone begins at once.
        if matches!(settlement, Settlement::Gone(_))
            && let Some((pid, _)) = self.servers[server].process()
        {
            self.later(1, Who::Server(server), pid, Message::Look);
        }
    }

    /// Safety rule 24: what nobody knows of is adopted if its key is free, and ended otherwise.
    fn run_found(&mut self, server: usize, from: Incarnation, held: Held) {
        self.coverage.turn("found");
        let Some(office) = self.office_mut(server) else { return };
        office.keys.insert(held.run, held.key.clone());
        let is_free = match &held.key.work {
            Work::Node { .. } => {
                // One that has ended, or is being ended, still has the key.
                let has_ended = held.status.as_ref().is_some_and(|status| status.news.is_end());
                let is_free = !office.batches.values().any(|key| *key == held.key);
                office.batches.insert(held.run, held.key.clone());
                is_free || has_ended
            }
            Work::Instance { .. } => {
                let is_free = office.slots(&held.key).is_empty();
                if is_free {
                    let claim = ops::found_claim(from, &held);
                    self.submit(server, Op::Adopt(held.key.clone(), claim));
                }
                is_free
            }
            // One that is taken for pending is adopted; else its end, when it comes, is history.
            Work::Task(_) => {
                let is_free = office.is_pending(&held.key, held.task);
                if is_free {
                    office.busy.insert(held.key.clone(), from.lock);
                    let claim = ops::found_claim(from, &held);
                    self.submit(server, Op::Adopt(held.key.clone(), claim));
                }
                is_free
            }
        };
        if !is_free {
            self.step_fleet(server, Input::Kill(held.run, Kill::Now));
        }
    }

    fn run_reported(&mut self, server: usize, report: Report) {
        self.coverage.turn(match &report.news {
            News::Progress(_) => "progress",
            News::Ended(_) => "ended",
            News::WasNotRunning => "was-not-running",
        });
        let Some(office) = self.office(server) else { return };
        let key = office.keys.get(&report.run).cloned().or_else(|| office.key_of(report.run));
        if is_planted(Mistake::AcknowledgesTooEarly) {
            let Report { from, run, number, .. } = report;
            let answer = Input::Recorded(from, run, number, StatusAnswer::Recorded);
            self.step_fleet(server, answer);
        }
        self.submit(server, Op::Report(key, report));
    }

    /// An operation stands in the store: now what follows from it.
    pub(crate) fn op_committed(&mut self, server: usize, op: Op) {
        let input = match op {
            Op::Enroll(entry) => Input::Enrolled(entry.incarnation),
            Op::Revive(life) => Input::Enrolled(life),
            Op::Strike(life) => Input::Struck(life),
            Op::DeclareDead(lock) => {
                self.release_machine(lock);
                if let Some(office) = self.office_mut(server) {
                    office.declared.remove(&lock);
                }
                Input::DeclaredDead(lock)
            }
            Op::Drain(lock, is_draining) => Input::Draining(lock, is_draining),
            Op::Limits(limits) => Input::Limits(limits),
            Op::Create(key, incarnation, _) => {
                return self.tell(&Fact::Acknowledged { key: &key, incarnation });
            }
            Op::Claim(dispatch) => {
                if let Some(office) = self.office_mut(server) {
                    office.busy.remove(&dispatch.key);
                }
                if is_planted(Mistake::ClaimsAfterSend) {
                    return;
                }
                Input::Dispatch(vec![dispatch])
            }
            Op::Adopt(key, _) => {
                if let Some(office) = self.office_mut(server) {
                    office.busy.remove(&key);
                }
                return;
            }
            Op::Return(..) | Op::Lose(..) | Op::End(..) | Op::Retire(_) | Op::Healed => return,
            Op::Report(_, Report { from, run, number, news, .. }) => {
                if news.is_end()
                    && let Some(office) = self.office_mut(server)
                {
                    office.batches.remove(&run);
                }
                Input::Recorded(from, run, number, StatusAnswer::Recorded)
            }
        };
        self.step_fleet(server, input);
    }
}
