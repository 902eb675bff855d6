//! The leader, which is the real one: frames, calls and commits into it, effects out of it.

use sterna_engine::{
    Effect, Input,
    control::{self, Called},
};
use sterna_model::{Incarnation, Position};
use sterna_protocol::message::{FromLeader, FromWorker, HeartbeatAnswer, Order, Saying, StreamId};

use crate::{
    check::Fact,
    net::Toward,
    words,
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
        let Some(office) = self.office(server) else { return };
        let (term, epoch) = (office.reign.term, office.cluster.epoch);
        let Incarnation { lock, life } = frame.incarnation;
        if self.is_traced() && !matches!(frame.saying, Saying::Heartbeat(_)) {
            self.say(|| format!("    s{server} hears {stream:?} {:?}", frame.saying));
        }
        if let Some(machine) = self.machine_of(lock) {
            match &frame.saying {
                // Who is mute hears nothing.
                Saying::Heartbeat(_) if self.is_leading(server) => {
                    self.tell(&Fact::Heard { machine, life, term });
                }
                Saying::Heartbeat(_) => {}
                Saying::Running(_) => {
                    self.machines[machine].listed_in = Some((epoch, term));
                    self.tell(&Fact::Listed { machine, life, term });
                }
                Saying::Statuses(_) | Saying::Answers(_) | Saying::Noted(_) => {}
            }
        }
        self.step_leader(server, Input::Frame(stream, frame));
        self.arm_server(server);
    }

    pub(crate) fn hear_closed(&mut self, server: usize, stream: StreamId) {
        self.step_leader(server, Input::Closed(stream));
    }

    pub(crate) fn tick_leader(&mut self, server: usize) {
        let now = self.now_of(server);
        if self.office(server).is_some_and(|office| now.boot >= office.leader.deadline(now)) {
            self.step_leader(server, Input::Tick);
        }
    }

    /// One step of the leader, and what follows from it.
    pub(crate) fn step_leader(&mut self, server: usize, input: Input) {
        let now = self.now_of(server);
        let Some(office) = self.office_mut(server) else { return };
        let mut effects = Vec::new();
        office.leader.step(now, input, &mut effects);
        for effect in effects {
            self.perform_above(server, effect);
        }
        self.pump(server);
    }

    /// The leader looks at everything, and must find nothing.
    pub(crate) fn sweep_leader(&mut self, server: usize) {
        let now = self.now_of(server);
        let Some(office) = self.office_mut(server) else { return };
        let mut effects = Vec::new();
        office.leader.sweep(now, &mut effects);
        while office.leader.control().is_sweeping() {
            office.leader.sweep(now, &mut effects);
        }
        for effect in effects {
            self.perform_above(server, effect);
        }
        self.pump(server);
    }

    fn perform_above(&mut self, server: usize, effect: Effect) {
        if self.is_traced() && !matches!(effect, Effect::Send(..)) {
            self.say(|| format!("s{server} {effect:?}"));
        }
        match effect {
            Effect::Send(stream, frame) => self.send_down(server, stream, frame),
            Effect::Close(stream) => self.hang_up_above(stream),
            Effect::Answer(call, answer) => self.client_told(call, &answer),
            Effect::Callback(callback) => self.call_back(server, &callback),
            Effect::Alarm(control::Alarm::Swept(what)) => {
                self.coverage.turn("alarm-swept");
                self.tell(&Fact::Swept { what: &what });
            }
            Effect::Alarm(alarm) => self.coverage.turn(match alarm {
                control::Alarm::AdoptedPending(..) => "alarm-adopted-pending",
                control::Alarm::FoundAfterRestore(..) => "alarm-found-after-restore",
                control::Alarm::RunsElsewhere(..) => "alarm-runs-elsewhere",
                control::Alarm::Stray(..) => "alarm-stray",
                control::Alarm::Swept(_) => "alarm-swept",
                control::Alarm::Worker(..) => "alarm-worker",
                control::Alarm::CallbackGivenUp(..) => "alarm-callback-given-up",
                control::Alarm::Reverted(_) => "alarm-reverted",
            }),
            Effect::Why(_) => self.coverage.turn("why-logged"),
            Effect::Batch(news) => self.batch_news(server, news),
            Effect::StoreLags(mandate, revision) => {
                // The next reign opens a recovered epoch: this is written down before it begins.
                self.coverage.turn("store-lags");
                let position = Position { epoch: mandate.epoch, revision };
                self.write_down(server, position, (mandate.term, mandate.nonce));
                self.end_soon(server);
            }
        }
    }

    fn send_down(&mut self, server: usize, stream: StreamId, frame: FromLeader) {
        let machine = self.machine_of(frame.incarnation.lock);
        match (&frame.order, machine) {
            (Order::Run(runs), Some(machine)) => {
                let term = frame.mandate.term;
                for run in runs {
                    if run.key.is_in_batch() {
                        self.sent.insert(run.key.clone(), machine);
                    }
                    self.tell(&Fact::Sent { run, machine, term });
                }
            }
            (Order::Heartbeat(HeartbeatAnswer::Confirmed(_)), Some(machine)) => {
                let (life, term) = (frame.incarnation.life, frame.mandate.term);
                self.tell(&Fact::Confirmed { machine, life, term });
            }
            (Order::Die | Order::Heartbeat(HeartbeatAnswer::Refused(_)), Some(machine)) => {
                self.tell(&Fact::GivenUp { machine });
            }
            (
                Order::Run(_)
                | Order::Heartbeat(_)
                | Order::Statuses(..)
                | Order::GetRunning
                | Order::NotifyIfNotRunning(..)
                | Order::Kill(..)
                | Order::Die,
                Some(_) | None,
            ) => {}
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

    /// Tells a receiver that a task is over. It takes that, mostly.
    fn call_back(&mut self, server: usize, callback: &control::Callback) {
        let Some((pid, _)) = self.servers[server].process() else { return };
        // Some receivers are not there before everything is calm.
        let is_there = words::number(&callback.key.to_work()) % 20 != 3;
        let is_taken = self.is_calm || is_there && self.rng.chance(700);
        let called = if is_taken { Called::Taken } else { Called::NotTaken };
        self.coverage.turn(if is_taken { "callback-taken" } else { "callback-not-taken" });
        let (key, incarnation) = (callback.key.clone(), callback.incarnation);
        self.tell(&Fact::Called { incarnation, is_taken });
        // Its answer may be lost with whoever called.
        let after = self.rng.between(5, 2_000);
        let answer = control::Input::Called(key, incarnation, called);
        self.later(after, Who::Server(server), pid, Message::Called(Box::new(answer)));
    }
}
