//! A leader, a store that commits at once, and workers that run nothing and answer at once.

use std::collections::{BTreeMap, BTreeSet};

use sterna_model::{
    BootTime, ClusterId, DirectoryId, Epoch, Incarnation, Lock, MachineId, Name, Nonce, Revision,
    Span, Term, WallTime,
};
use sterna_protocol::{
    consensus::SetId,
    health::Health,
    limits::Book,
    message::{
        FromWorker, Heartbeat, HeartbeatAnswer, Mandate, Order, Refusal, Saying, StreamId, VERSION,
    },
    roster::{Doors, Enrolled, Origin},
    scheduler::{Begin, Bump, Effect, Fleet, Input},
};

/// A life of the worker with this number, which is below 65,536.
pub(crate) fn worker(number: u64, life: u64) -> Incarnation {
    let mut random = [0; 10];
    random[2..].copy_from_slice(&number.to_be_bytes());
    let directory = DirectoryId::from_parts(WallTime::EPOCH, random);
    let machine = MachineId::from_bytes([1; 16]).unwrap();
    Incarnation { lock: Lock { directory, machine }, life }
}

pub(crate) struct World {
    pub(crate) fleet: Fleet,
    mandate: Mandate,
    now: BootTime,
    /// What each worker was told of the set.
    pub(crate) sets: BTreeMap<(u64, u64), SetId>,
    /// Who was told to give up its life.
    pub(crate) refused: BTreeSet<(u64, u64)>,
    pub(crate) roster: BTreeMap<Lock, Enrolled>,
    /// When more was opened, and what is open then.
    pub(crate) opened: Vec<(BootTime, Doors)>,
}

impl World {
    pub(crate) fn begin(term: u64, now: BootTime, origin: Origin, roster: Vec<Enrolled>) -> Self {
        let mandate = Mandate {
            cluster: ClusterId::from_parts(WallTime::EPOCH, [1; 10]),
            epoch: Epoch::new(1),
            term: Term::new(term),
            nonce: Nonce::new(term * 7),
        };
        let begin = Begin {
            mandate,
            elected: now,
            lease_until: now.plus(Span::from_secs(1_000_000)),
            revision: Revision::new(1),
            reigns: BTreeMap::new(),
            marks: sterna_model::Marks::NONE,
            book: Book::default(),
            roster: roster.clone(),
            claims: Vec::new(),
            origin,
            bump: Bump::Forbidden,
            roster_max: usize::MAX,
        };
        Self {
            fleet: Fleet::new(now, begin),
            mandate,
            now,
            sets: BTreeMap::new(),
            refused: BTreeSet::new(),
            roster: roster.into_iter().map(|entry| (entry.incarnation.lock, entry)).collect(),
            opened: Vec::new(),
        }
    }

    /// The next leader, with the roster of this one and workers that hold what this one told them.
    pub(crate) fn followed(&self, at: BootTime) -> Self {
        let roster = self.roster.values().cloned().collect();
        let term = self.mandate.term.get() + 1;
        Self { sets: self.sets.clone(), ..Self::begin(term, at, Origin::Continued, roster) }
    }

    pub(crate) fn pass_time(&mut self, until: BootTime) {
        while self.fleet.deadline() <= until {
            self.now = self.fleet.deadline();
            self.step(Input::Tick);
        }
        self.now = until;
    }

    /// A heartbeat of a worker in one of its lives, with everything that follows from it.
    pub(crate) fn beat(&mut self, number: u64, life: u64) {
        self.beat_checked(number, life, Some(Span::ZERO));
    }

    /// The same, with the age of its last good check.
    pub(crate) fn beat_checked(&mut self, number: u64, life: u64, checked: Option<Span>) {
        let heartbeat = Heartbeat {
            name: Name::new(&format!("w{number}")).unwrap(),
            stamp: self.now,
            checked,
            boot: 1,
            seen: None,
            limits: 1,
            set: self.sets.get(&(number, life)).copied(),
            birth: 1,
            wants_drain: None,
            is_leaving: false,
            facts: [].into(),
        };
        self.say(number, life, Saying::Heartbeat(heartbeat));
    }

    pub(crate) fn is_healthy(&self, number: u64, life: u64) -> bool {
        self.fleet.health(worker(number, life)) == Some(Health::Healthy)
    }

    /// Whether a run would be sent to it.
    pub(crate) fn takes_work(&self, number: u64, life: u64) -> bool {
        self.fleet.worker_objection(worker(number, life)).is_none()
    }

    fn say(&mut self, number: u64, life: u64, saying: Saying) {
        let (incarnation, mandate) = (worker(number, life), Some(self.mandate));
        let frame = FromWorker { version: VERSION, incarnation, mandate, saying };
        self.step(Input::Frame(StreamId::new(number), frame));
    }

    fn step(&mut self, input: Input) {
        let mut effects = Vec::new();
        self.fleet.step(self.now, input, &mut effects);
        for effect in effects {
            match effect {
                Effect::Enroll(entry) => {
                    let incarnation = entry.incarnation;
                    self.roster.insert(incarnation.lock, entry);
                    self.step(Input::Enrolled(incarnation));
                }
                Effect::Revive(incarnation) => {
                    if let Some(entry) = self.roster.get_mut(&incarnation.lock) {
                        entry.is_declared_dead = false;
                    }
                    self.step(Input::Enrolled(incarnation));
                }
                Effect::Strike(life) => {
                    self.roster.remove(&life.lock);
                    self.step(Input::Struck(life));
                }
                Effect::Opened(doors) => self.opened.push((self.now, doors)),
                Effect::Send(_, frame) => self.deliver(frame.incarnation, frame.order),
                Effect::Close(_)
                | Effect::Settled(..)
                | Effect::Found(..)
                | Effect::Reported(_)
                | Effect::Silent(_)
                | Effect::Heard(_)
                | Effect::Health(..)
                | Effect::Facts(..)
                | Effect::WantsDrain(..)
                | Effect::Retired(_)
                | Effect::Alarm(..)
                | Effect::Raise(_)
                | Effect::Healed
                | Effect::StoreLags(..) => {}
            }
        }
    }

    fn deliver(&mut self, to: Incarnation, order: Order) {
        let bytes = to.lock.directory.as_bytes();
        let number = u64::from(u16::from_be_bytes([bytes[14], bytes[15]]));
        let who = (number, to.life);
        match order {
            Order::GetRunning => self.say(number, to.life, Saying::Running(Vec::new())),
            Order::Heartbeat(HeartbeatAnswer::Confirmed(confirmation)) => {
                if let Some(set) = confirmation.set {
                    self.sets.insert(who, set);
                }
            }
            Order::Heartbeat(HeartbeatAnswer::Refused(Refusal::Die)) | Order::Die => {
                self.refused.insert(who);
            }
            Order::Heartbeat(HeartbeatAnswer::Welcome | HeartbeatAnswer::Refused(_))
            | Order::Statuses(..)
            | Order::Run(_)
            | Order::NotifyIfNotRunning(..)
            | Order::Kill(..) => {}
        }
    }
}
