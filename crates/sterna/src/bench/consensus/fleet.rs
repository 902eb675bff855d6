//! The whole of a leader's side with so many workers, each with a run: everybody heard, known and
//! healthy.

use std::{hint::black_box, sync::Arc};

use anyhow::Context;
use sterna_model::{BootTime, Contract, Incarnation, Name, Namespace, RunId, Span, WallTime, Work};
use sterna_protocol::{
    consensus::SetId,
    health::Health,
    limits::{Book, Limits},
    message::{
        FromWorker, Heartbeat, HeartbeatAnswer, Held, Mandate, Order, Payload, Saying, StreamId,
        VERSION,
    },
    roster::Origin,
    scheduler::{Begin, Bump, Effect, Fleet, Input},
};

use super::worker;
use crate::clock;

/// A leader and its workers, as far as the leader can tell.
pub(super) struct Played {
    fleet: Fleet,
    now: BootTime,
    mandate: Mandate,
    workers: Vec<(Incarnation, Name)>,
    set: Option<SetId>,
    /// What each has, as it says with every heartbeat.
    facts: Vec<Payload>,
}

impl Played {
    /// Everybody joins, as after a change of leader, and becomes healthy.
    pub(super) fn new(size: u64, mandate: Mandate, earlier: SetId) -> anyhow::Result<Self> {
        let now = BootTime::from_millis(0);
        let begin = Begin {
            mandate,
            elected: now,
            lease_until: BootTime::from_millis(u64::MAX),
            revision: sterna_model::Revision::ZERO,
            reigns: std::collections::BTreeMap::new(),
            marks: sterna_model::Marks::NONE,
            book: Book::default(),
            roster: Vec::new(),
            claims: Vec::new(),
            origin: Origin::Continued,
            bump: Bump::Forbidden,
            roster_max: usize::MAX,
        };
        let facts = (0..size).map(facts).collect();
        let fleet = Fleet::new(now, begin);
        let workers = (0..size).map(|number| {
            Ok((worker(number)?, Name::new(&format!("w{number}")).context("a name is refused")?))
        });
        let workers = workers.collect::<anyhow::Result<Vec<_>>>()?;
        let mut played = Self { fleet, now, mandate, workers, set: Some(earlier), facts };
        played.join()?;
        Ok(played)
    }

    fn join(&mut self) -> anyhow::Result<()> {
        for index in 0..self.workers.len() {
            self.beat(index);
            let (worker, _) = self.workers[index];
            self.step(Input::Enrolled(worker));
            let held = Held {
                run: RunId::from_parts(WallTime::EPOCH, unique(index)),
                key: Work::Task(self.workers[index].1.clone()).within(&Namespace::default()),
                task: None,
                contract: Contract::Stop { after: Span::from_secs(600) },
                status: None,
            };
            let frame = self.frame(index, Saying::Running(vec![held]));
            self.step(Input::Frame(stream(index), frame));
        }
        self.set = None;
        for _ in 0..4 {
            self.tick();
            for index in 0..self.workers.len() {
                self.beat(index);
            }
        }
        let is_healthy =
            |(worker, _): &(Incarnation, Name)| self.fleet.health(*worker) == Some(Health::Healthy);
        anyhow::ensure!(self.workers.iter().all(is_healthy), "somebody is not healthy");
        Ok(())
    }

    fn frame(&self, index: usize, saying: Saying) -> FromWorker {
        let incarnation = self.workers[index].0;
        FromWorker { version: VERSION, incarnation, mandate: Some(self.mandate), saying }
    }

    fn heartbeat(&self, index: usize) -> Input {
        let heartbeat = Heartbeat {
            name: self.workers[index].1.clone(),
            stamp: self.now,
            checked: Some(Span::ZERO),
            boot: 1,
            seen: None,
            limits: 1,
            set: self.set,
            birth: 1,
            wants_drain: None,
            is_leaving: false,
            facts: Arc::clone(&self.facts[index]),
        };
        Input::Frame(stream(index), self.frame(index, Saying::Heartbeat(heartbeat)))
    }

    fn beat(&mut self, index: usize) {
        let input = self.heartbeat(index);
        self.step(input);
    }

    fn step(&mut self, input: Input) {
        let mut effects = Vec::new();
        self.fleet.step(self.now, input, &mut effects);
        for effect in effects {
            if let Effect::Send(_, frame) = effect
                && let Order::Heartbeat(HeartbeatAnswer::Confirmed(confirmation)) = frame.order
            {
                // All have joined, so all are told the same.
                self.set = confirmation.set.or(self.set);
            }
        }
    }

    fn tick(&mut self) {
        self.now = self.fleet.deadline();
        self.step(Input::Tick);
    }

    /// One whole pass after somebody has changed the limits: everybody is looked at.
    pub(super) fn pass_all_ms(&mut self) -> f64 {
        let limits = *self.fleet.limits();
        self.step(Input::Limits(Limits { version: limits.version + 1, ..limits }));
        self.pass_ms()
    }

    /// One whole pass: consensus, health, deadlines and the doors.
    pub(super) fn pass_ms(&mut self) -> f64 {
        self.now = self.fleet.deadline();
        let mut effects = Vec::new();
        let begun = clock::instant();
        self.fleet.step(self.now, Input::Tick, &mut effects);
        let taken = begun.elapsed().as_secs_f64() * 1e3;
        black_box(effects);
        taken
    }

    /// One heartbeat, from the frame to the answer, of workers in an order that no cache foresees.
    pub(super) fn heartbeat_ns(&mut self) -> f64 {
        let mut seed = 11;
        let order = self.workers.iter().map(|_| super::below(&mut seed, self.workers.len()));
        let inputs: Vec<Input> = order.map(|index| self.heartbeat(index)).collect();
        let count = inputs.len() as f64;
        let mut effects = Vec::new();
        let begun = clock::instant();
        for input in inputs {
            self.fleet.step(self.now, input, &mut effects);
            black_box(effects.drain(..).count());
        }
        begun.elapsed().as_secs_f64() * 1e9 / count
    }

    /// What the leader holds of each worker, at most.
    pub(super) fn bytes_per_worker(&self) -> f64 {
        self.fleet.heap_bytes() as f64 / self.workers.len() as f64
    }
}

/// As a worker says them, each its own.
fn facts(number: u64) -> Payload {
    let memory = 67_430_000_000 + number;
    let facts = format!(
        r#"{{"containers":100,"countables":{{"licence":3}},"cpu_millicores":16000,"disk_bytes":512110190592,"gpus":[],"isolation":"tree","memory_bytes":{memory},"missing":[],"runtimes":["process","runc"],"stack":"bare","tags":["ssd"],"version":"0.1.0","zone":"z1"}}"#
    );
    facts.into_bytes().into()
}

fn stream(index: usize) -> StreamId {
    StreamId::new(index as u64)
}

fn unique(index: usize) -> [u8; 10] {
    let mut unique = [0; 10];
    unique[2..].copy_from_slice(&(index as u64).to_be_bytes());
    unique
}
