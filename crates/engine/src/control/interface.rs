//! What goes into the control core, and what comes out of it.

use std::sync::Arc;

use sterna_model::{
    BootTime, Contract, DefinitionKey, Epoch, Incarnation, InstanceKey, Lock, Name, RunId,
    ServiceKey, Span, TaskIncarnation, TaskKey, WallTime, WorkKey,
    record::TaskEnd,
    spec::{Definition, ServiceSpec, TaskSpec},
};
use sterna_protocol::{health::Health, limits::Limits, message::Payload, scheduler};

use super::Row;
use crate::auction::Rules;

/// Now, on both clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Now {
    /// For what must not depend on anybody setting a clock.
    pub boot: BootTime,
    /// For records and people.
    pub wall: WallTime,
}

impl Now {
    /// What the wall clock of now says of a moment, before or after.
    pub fn wall_at(self, at: BootTime) -> WallTime {
        if at < self.boot {
            self.wall.minus(self.boot.since(at))
        } else {
            self.wall.plus(at.since(self.boot))
        }
    }
}

/// What the store is to those who lead with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Nobody was ever on the roster (safety rule 21).
    Virgin,
    /// It is in use.
    Used,
    /// It was restored from an older state (safety rule 25).
    Recovered,
}

/// The record of a service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceRecord {
    /// What is wanted.
    pub spec: ServiceSpec,
    /// Names the spec, as far as it needs restarts; instances say of which they are.
    pub version: u64,
    /// The highest version there was: none is named twice.
    pub highest: u64,
    /// What was wanted before, while a new version comes about.
    pub before: Option<(u64, Arc<ServiceSpec>)>,
    /// Crashes of instances of the new version, while it comes about.
    pub crashes: u32,
    /// The last version that was taken back because it failed, until somebody wants another one.
    pub taken_back: Option<TakenBack>,
}

/// A version that was taken back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TakenBack {
    /// Which.
    pub version: u64,
    /// When.
    pub at: WallTime,
    /// The instance with which it was enough.
    pub index: u32,
    /// How that one crashed, in its worker's words; or in ours, that it was not ready.
    pub why: Box<str>,
}

impl ServiceRecord {
    /// The version that this spec goes back to, if it is what was wanted before the update that is under
    /// way.
    pub(super) fn taken_back_by(&self, next: &ServiceSpec) -> Option<u64> {
        let (version, before) = self.before.as_ref()?;
        let is_back = self.spec.needs_restart(next) && !before.needs_restart(next);
        is_back.then_some(*version)
    }
}

/// What stays of a task that was deleted (safety rule 27).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tombstone {
    /// Which it was.
    pub incarnation: TaskIncarnation,
    /// When.
    pub at: WallTime,
    /// Whether it stays until somebody deletes it, too.
    pub is_kept: bool,
}

/// A machine that is being drained.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Drain {
    /// When what is still there is killed.
    pub deadline: WallTime,
    /// Since when it is drained.
    pub since: WallTime,
}

/// What a leader begins with.
#[derive(Clone, Debug)]
pub struct Begin {
    /// The life of the store.
    pub epoch: Epoch,
    /// What the store is.
    pub stage: Stage,
    /// Everything that stands in the store.
    pub records: Vec<Row>,
    /// For the ids of runs; never given twice.
    pub seed: [u8; 16],
    /// What is true of the whole auction.
    pub rules: Rules,
}

/// Names a call of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CallId(pub u64);

/// What a client asks for.
#[derive(Clone, Debug, PartialEq)]
pub enum Call {
    /// A task, under an id that the client has drawn.
    CreateTask(TaskKey, TaskIncarnation, Arc<TaskSpec>),
    /// No longer.
    CancelTask(TaskKey),
    /// Forget it.
    DeleteTask(TaskKey),
    /// Forget it with its name, if that is kept for longer than those of others.
    FreeName(TaskKey),
    /// A service, or another spec for one.
    PutService(ServiceKey, ServiceSpec),
    /// No longer.
    DeleteService(ServiceKey),
    /// A definition, or another one under its name.
    PutDefinition(DefinitionKey, Arc<Definition>),
    /// Forget it.
    DeleteDefinition(DefinitionKey),
    /// End this instance, gracefully; it comes back.
    StopInstance(InstanceKey),
    /// End whatever runs of this task or instance at once, without grace.
    Kill(WorkKey),
    /// Give this machine no more work, and move what it has; what is still there at this moment is killed.
    Drain(Lock, WallTime),
    /// Give it work again.
    Undrain(Lock),
    /// Somebody who must know says that nothing on this machine runs any more.
    DeclareDead(Lock),
    /// Take a machine that is away, and has nothing, off the roster.
    Forget(Lock),
    /// These limits, in place of those that hold.
    SetLimits(Limits),
    /// Until when a domain is fresh; `None` for always.
    SetDomain(Name, Option<WallTime>),
    /// A domain is fresh no longer, and is forgotten.
    RemoveDomain(Name),
}

/// What a client is told. What was done stands in the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It is done.
    Done,
    /// It is done: what had crashed and waited, or was given up, begins again.
    BeginsAgain,
    /// It was so already.
    Already,
    /// There is nothing of that name.
    NotFound,
    /// The name belongs to something else.
    Taken(TaskIncarnation),
    /// Not now, in this phase.
    Conflict(sterna_model::record::Illegal),
    /// These limits make no sense.
    BadLimits(String),
    /// Under the limits that hold this could not be kept.
    BadSpec(String),
}

/// Something that happened.
#[derive(Clone, Debug, PartialEq)]
pub enum Input {
    /// The moment of [`Control::deadline`](super::Control::deadline) came.
    Tick,
    /// What the fleet says.
    Fleet(scheduler::Effect),
    /// A life of a worker takes runs from now on, or no longer. Healthy is not enough: it must have
    /// been told so.
    Takes(Incarnation, bool),
    /// The fleet has heard that a machine was declared dead.
    HeardDead(Lock),
    /// Whether a batch may be running on a machine, as far as the fleet knows: it has no claim. Said
    /// before [`Call::Forget`].
    MayHaveBatches(Lock, bool),
    /// A client asks for something.
    Call(CallId, Call),
    /// A parcel stands in the store.
    Committed(super::outbox::ParcelId),
    /// The callback of a task was answered, or was not.
    Called(TaskKey, TaskIncarnation, Called),
    /// Somebody who must know says that the roster is complete although the store was restored.
    RosterIsComplete,
}

/// How long what is over is kept, and how much of it. Beyond that the oldest go first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    /// The record of a task, after its end.
    pub tasks: Span,
    /// How many of these.
    pub tasks_max: usize,
    /// How many bytes they may take together, about.
    pub tasks_bytes_max: u64,
    /// The name of a task, after its record went: so long it stays taken (safety rule 27).
    pub names: Span,
    /// How many of these; see [`NAMES_AT_LEAST`](super::NAMES_AT_LEAST).
    pub names_max: usize,
}

impl Default for Retention {
    fn default() -> Self {
        let week = Span::from_secs(7 * 24 * 3_600);
        Self {
            tasks: week,
            tasks_max: 100_000,
            tasks_bytes_max: 256 << 20,
            names: week,
            names_max: 1_000_000,
        }
    }
}

/// What came of a callback.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Called {
    /// It was taken, whatever was made of it.
    Taken,
    /// Nobody was there, or had no time.
    NotTaken,
}

/// Something that the driver must do, in order.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// Give this to the fleet.
    Fleet(Box<scheduler::Input>),
    /// Tell a client.
    Answer(CallId, Answer),
    /// Tell whoever asked for it that a task is over; answer with [`Input::Called`].
    Callback(Callback),
    /// Tell people.
    Alarm(Alarm),
}

/// Whom to tell that a task is over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Callback {
    /// Which task.
    pub key: TaskKey,
    /// Which life of it: with the key it tells a repeated call.
    pub incarnation: TaskIncarnation,
    /// Where.
    pub url: Box<str>,
    /// How it ended.
    pub end: TaskEnd,
}

/// What must not be, and is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Alarm {
    /// A task that waits runs already: its record is older than its claim.
    AdoptedPending(TaskKey, RunId),
    /// A task runs of which the restored store knows nothing, or not that it runs: it runs on.
    FoundAfterRestore(TaskKey, RunId),
    /// A task runs here, and its record says: there.
    RunsElsewhere(TaskKey, RunId),
    /// A run of which nothing is known has ended.
    Stray(Incarnation, RunId),
    /// A sweep found something that no event had led to: this.
    Swept(String),
    /// A worker was refused.
    Worker(Incarnation, scheduler::Alarm),
    /// The callback of a task was not taken, however often it was tried: so often.
    CallbackGivenUp(TaskKey, u32),
    /// A service's new version crashed too often, and was taken back.
    Reverted(ServiceKey),
}

/// A worker, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkerSeen {
    /// Which life of which machine.
    pub life: Incarnation,
    /// What it is called.
    pub name: Name,
    /// How it is; `None` if it was not heard in this reign.
    pub health: Option<Health>,
    /// Whether it is given work.
    pub takes_work: bool,
    /// Its drain.
    pub drain: Option<Drain>,
    /// Whether somebody said that nothing runs there any more.
    pub is_declared_dead: bool,
    /// How many runs it has, or may have.
    pub runs: usize,
    /// What it says of itself.
    pub facts: Payload,
}

/// A run to be sent, without what the fleet says itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Sending {
    pub(super) run: RunId,
    pub(super) key: WorkKey,
    pub(super) to: Incarnation,
    pub(super) contract: Contract,
    pub(super) task: Option<TaskIncarnation>,
    pub(super) attempt: u32,
    pub(super) work: Payload,
}
