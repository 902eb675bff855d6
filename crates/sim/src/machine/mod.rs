//! A machine: a worker, its guardian, what they keep on the disk, and the containers.
//!
//! ```text
//!   worker.rs     the process around the real protocol core: link, guardian's socket, run table
//!   wards.rs      the worker's part in the life of containers, around the real wards
//!   guardian.rs   the process around the real guardian's decisions, and what containers do
//! ```

mod guardian;
mod wards;
mod worker;

use std::collections::{BTreeMap, BTreeSet};

use sterna_executor::{
    guardian::{Fate, Guardian, Kept, Part, SocketId, Spawn, Stopping},
    ward::Ward,
};
use sterna_model::{BootTime, Epoch, Incarnation, Lock, Name, Revision, RunId, Term};
use sterna_protocol::{
    health::Health,
    limits::Limits,
    message::{Held, Mandate, Run, StreamId},
    worker::Worker,
};

use crate::{
    clock::{Clock, Moment},
    words::{self, Pace},
    world::Pid,
};

pub(crate) use self::wards::replaced_within;

pub(crate) struct Machine {
    pub(crate) name: Name,
    pub(crate) lock: Lock,
    pub(crate) clock: Clock,
    boot: u128,
    pub(crate) power: Power,
    /// Whether an operator takes it for dead, who is wrong.
    pub(crate) is_taken_for_dead: bool,
    /// Until when its checks of itself fail.
    pub(crate) unwell_until: Moment,
    /// For how long it is cut off soon after it has dialled the next time.
    pub(crate) cut_at_dial: Option<u64>,
    /// What its worker was told last of its health, and in which life.
    verdict: Option<(u64, Health)>,
    /// When its worker was told last that it is healthy, and in which life.
    told_healthy: (Moment, u64),
    /// To which reign it has said last what it runs.
    pub(crate) listed_in: Option<(Epoch, Term)>,
    pub(crate) disk: Disk,
    pub(crate) worker: Option<WorkerProcess>,
    pub(crate) guardian: Option<GuardianProcess>,
    sockets: u64,
    /// How runs ended that ended by themselves.
    results: BTreeMap<RunId, u64>,
    /// In which reign each run was sent.
    reigns: BTreeMap<RunId, (Epoch, Term)>,
}

/// Whether a machine is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Power {
    On,
    Off,
    /// Off, and kept so until somebody has declared it dead.
    HeldOff,
    /// For good, and an operator says so.
    Destroyed,
    /// For good, and nobody says so.
    Vanished,
}

/// What outlives processes.
pub(crate) struct Disk {
    life: u64,
    seen: Option<(Mandate, Revision)>,
    limits: Limits,
    /// The run table, with what was not acknowledged.
    held: BTreeMap<RunId, Held>,
    /// The mapped file of the guardian (safety rule 14).
    kept: Kept,
    spawns: BTreeMap<RunId, Spawn>,
    /// Runs whose end was begun.
    stopping: BTreeMap<RunId, Stopping>,
    /// What became of each run, as it stands in its journal: not that a command had begun.
    fates: BTreeMap<RunId, Vec<Fate>>,
    /// Made exclusively before each clone (safety rule 13).
    markers: BTreeSet<(RunId, Part)>,
    /// What was to be started, for the process table.
    orders: BTreeMap<RunId, Run>,
    /// When each was begun.
    begun: BTreeMap<RunId, BootTime>,
    /// The newest part of each that was made; it stands in the journal before it is let go.
    parts: BTreeMap<RunId, Part>,
}

pub(crate) struct WorkerProcess {
    pid: Pid,
    pub(crate) stopped_until: Moment,
    /// `None` until it has adopted what its guardian holds.
    core: Option<Worker>,
    /// The connection to the guardian, and which.
    socket: Option<SocketId>,
    /// Which runs the answer to its last adoption settles.
    adopting: BTreeSet<RunId>,
    stream: Option<StreamId>,
    tick_at: Option<Moment>,
    wants_drain: bool,
    /// Whether it was asked to end: it takes nothing on any more.
    is_leaving: bool,
    wards: BTreeMap<RunId, Ward>,
    /// What it knows of those that run.
    lives: BTreeMap<RunId, Life>,
    ward_tick_at: Option<Moment>,
}

/// A run that runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Life {
    is_ready: bool,
    /// What was said of that last.
    told: Option<bool>,
}

pub(crate) struct GuardianProcess {
    pid: Pid,
    /// The worker that has started it.
    starter: Option<Pid>,
    pub(crate) stopped_until: Moment,
    core: Guardian,
    tick_at: Option<Moment>,
    /// Who is at the other end.
    worker: Option<(SocketId, Pid)>,
    /// Cloned, and waiting for the go byte: they end with it. Whoever is killed meanwhile begins
    /// nothing.
    waiting: BTreeMap<RunId, Waiting>,
}

/// A process that waits for its go byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Waiting {
    Alive,
    Killed,
}

impl Machine {
    pub(crate) fn new(number: u64, name: Name, clock: Clock, pace: &Pace) -> Self {
        Self {
            name,
            lock: words::lock(number),
            clock,
            boot: 1,
            power: Power::On,
            is_taken_for_dead: false,
            unwell_until: 0,
            cut_at_dial: None,
            verdict: None,
            told_healthy: (0, 0),
            listed_in: None,
            disk: Disk {
                life: 0,
                seen: None,
                limits: pace.limits,
                held: BTreeMap::new(),
                kept: Kept::default(),
                spawns: BTreeMap::new(),
                stopping: BTreeMap::new(),
                fates: BTreeMap::new(),
                markers: BTreeSet::new(),
                orders: BTreeMap::new(),
                begun: BTreeMap::new(),
                parts: BTreeMap::new(),
            },
            worker: None,
            guardian: None,
            sockets: 0,
            results: BTreeMap::new(),
            reigns: BTreeMap::new(),
        }
    }

    pub(crate) fn worker_process(&self) -> Option<(Pid, Moment)> {
        self.worker.as_ref().map(|process| (process.pid, process.stopped_until))
    }

    pub(crate) fn guardian_process(&self) -> Option<(Pid, Moment)> {
        self.guardian.as_ref().map(|process| (process.pid, process.stopped_until))
    }

    /// Whether an operator knows that nothing runs here, or thinks so.
    pub(crate) const fn is_held_off(&self) -> bool {
        match self.power {
            Power::HeldOff | Power::Destroyed => true,
            Power::On | Power::Off => self.is_taken_for_dead,
            Power::Vanished => false,
        }
    }

    /// Whether a guardian is there and not stopped.
    pub(crate) fn is_guarded(&self, now: Moment) -> bool {
        self.guardian_process().is_some_and(|(_, stopped_until)| now >= stopped_until)
    }

    /// Whether a worker is there, not stopped and not about to leave.
    pub(crate) fn is_worked(&self, now: Moment) -> bool {
        let is_leaving = self.worker.as_ref().is_some_and(|worker| worker.is_leaving);
        !is_leaving && self.worker_process().is_some_and(|(_, stopped_until)| now >= stopped_until)
    }

    /// It has power again, if it is to have it.
    pub(crate) const fn power_on(&mut self) {
        match self.power {
            Power::Off => self.power = Power::On,
            Power::On | Power::HeldOff | Power::Destroyed | Power::Vanished => {}
        }
    }

    pub(crate) const fn is_on(&self) -> bool {
        matches!(self.power, Power::On)
    }

    /// Its clock begins anew, and what was only in memory is gone. Of what had not ended, the new
    /// boot says enough.
    pub(crate) fn reboot(&mut self, rng: &mut crate::rng::Rng) {
        self.boot += 1;
        self.clock.reboot(rng);
        self.disk.kept = Kept::default();
        self.disk.spawns.clear();
        self.disk.stopping.clear();
        self.disk.fates.clear();
        self.disk.begun.clear();
        self.disk.parts.clear();
        self.disk.held.retain(|_, held| held.status.is_some());
    }

    /// The life of its worker, if that has begun.
    pub(crate) fn incarnation(&self) -> Option<Incarnation> {
        let core = self.worker.as_ref()?.core.as_ref()?;
        Some(core.incarnation())
    }

    /// Whether its worker was told within a few heartbeats that it is healthy.
    pub(crate) fn is_told_healthy(&self, now: Moment) -> bool {
        let (at, life) = self.told_healthy;
        self.worker.is_some() && life == self.disk.life && now <= at + 3_000
    }

    /// Notes what its worker is told of its health; gives what that is called, if it is news.
    pub(crate) fn note_verdict(&mut self, life: u64, verdict: Health) -> Option<&'static str> {
        let before = self.verdict.replace((life, verdict));
        let before = before.filter(|(known, _)| *known == life).map(|(_, verdict)| verdict);
        match (before, verdict) {
            (None, Health::Healthy) => Some("health-well-at-once"),
            (None, Health::Unhealthy) => Some("health-unwell-at-once"),
            (Some(Health::Unhealthy), Health::Healthy) => Some("health-well-again"),
            (Some(Health::Healthy), Health::Unhealthy) => Some("health-unwell"),
            (None | Some(_), Health::MustDie) => Some("health-given-up"),
            (None | Some(_), Health::New) => Some("health-new"),
            (Some(_), Health::Healthy | Health::Unhealthy) => None,
        }
    }

    pub(crate) fn has_unacknowledged(&self) -> bool {
        self.disk.held.values().any(|held| held.status.is_some())
    }
}
