//! What a worker and its guardian say to each other, and what a command is to the guardian.
//!
//! The two may be of different versions, because a new worker takes over an old guardian: fields are
//! only added, each with a default, and what is not understood is dropped. Where that would not do,
//! `needs` says with the first word how much the other side must understand; who does not refuses,
//! and says why.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use sterna_executor::{
    container::Exit,
    guardian::{Fate, OnWorkerExit, Part, Phase, Role, Spawn, Why},
};
use sterna_model::{Incarnation, RunId, Span, payload::To};

use super::frames::Word;
use crate::{cgroup::Hold, stop::StopSignal};

/// How much of these words this version understands: one more whenever somebody may say that it is
/// needed.
pub(crate) const UNDERSTOOD: u32 = 1;

/// What to do where the two do not understand each other.
pub(crate) const REMEDY: &str = "start the worker's earlier program again, or wait until what it keeps \
     has ended; what runs goes on, each to its own deadline";

/// What a worker asks.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Ask {
    /// The pipe of whoever owns the worker comes with it, if anybody does.
    Adopt {
        incarnation: Incarnation,
        process: u64,
        /// How much its guardian must understand, if that is not what every version does.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        needs: Option<u32>,
    },
    /// Of each of the plan's streams the read end and the write end come with it; a worker of an
    /// earlier version sends none.
    Spawn {
        run: RunId,
        part: u32,
        role: RoleWord,
        contract: ContractWord,
        plan: Box<Plan>,
    },
    Stop {
        run: RunId,
        grace_ms: u64,
    },
    Confirmed {
        stamp_ms: u64,
    },
    KillWait {
        ms: u64,
    },
    Forget {
        run: RunId,
    },
    Ping {
        number: u64,
    },
    /// Copies of the read ends of a part's pipes come with it: the guardian that made them is gone.
    Pipes {
        run: RunId,
        part: u32,
        streams: Vec<StreamWord>,
    },
    /// The names of a run's ports come with it, to be kept for as long as it is.
    Claims {
        run: RunId,
    },
    /// Stops every process of a run where it is, or lets it go on.
    Freeze {
        run: RunId,
        is_frozen: bool,
    },
    /// Sends a signal to the command of a run, or to all of it.
    Signal {
        run: RunId,
        signal: i32,
        to: To,
    },
    /// A spawn that is not understood, as of a later version: whoever asks waits for an answer.
    #[serde(skip)]
    Unread {
        run: RunId,
        part: u32,
    },
}

/// As much of a spawn as every version says.
#[derive(Deserialize)]
struct Unread {
    spawn: UnreadSpawn,
}

#[derive(Deserialize)]
struct UnreadSpawn {
    run: RunId,
    part: u32,
}

impl Word for Ask {
    fn of_unread(body: &[u8]) -> Option<Self> {
        let Unread { spawn: UnreadSpawn { run, part } } = serde_json::from_slice(body).ok()?;
        Some(Self::Unread { run, part })
    }
}

impl Word for Say {}

/// What a guardian says.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Say {
    Adopted {
        held: Vec<HeldWord>,
        /// Whether it knows what to do with [`Plan::runtime`].
        #[serde(default)]
        has_images: bool,
        /// How much its worker must understand, if that is not what every version does.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        needs: Option<u32>,
    },
    /// It does not understand enough to be this worker's, for this reason. It goes on as before.
    Refused {
        why: String,
    },
    /// With `started` come the read ends of the part's pipes, unless this worker has sent them.
    Fate {
        run: RunId,
        fate: FateWord,
    },
    Pong {
        number: u64,
    },
}

/// A run that a guardian holds.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct HeldWord {
    pub(crate) run: RunId,
    pub(crate) phase: PhaseWord,
    /// The newest of its steps.
    pub(crate) part: Option<u32>,
    /// The newest of all its parts: only greater ones are new to this guardian.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) last: Option<u32>,
}

/// One command, with everything that its process must be.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Plan {
    /// The file that is run.
    pub(crate) program: String,
    /// Its own name first.
    pub(crate) arguments: Vec<String>,
    pub(crate) environment: Vec<(String, String)>,
    pub(crate) directory: String,
    /// User, group and other groups; those of the worker if none.
    pub(crate) ids: Option<(u32, u32, Vec<u32>)>,
    /// Number of the resource, soft and hard limit.
    pub(crate) rlimits: Vec<(u32, u64, u64)>,
    pub(crate) own_group: bool,
    pub(crate) death_signal: Option<i32>,
    pub(crate) no_new_privileges: bool,
    /// Which pipes it gets.
    pub(crate) streams: Vec<StreamWord>,
    /// By what the run is told apart.
    pub(crate) hold: Hold,
    /// Files that take the process's number before it is let go.
    pub(crate) doors: Vec<PathBuf>,
    pub(crate) stop: StopSignal,
    /// The group of version 2 that the process begins in, if it is not the one that holds the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) leaf: Option<PathBuf>,
    /// If the file that is run is a runtime: it makes the command's process, and ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) runtime: Option<RuntimeWord>,
    /// Whose its pipes are, if a runtime makes it another's process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) owner: Option<(u32, u32)>,
    /// Within so long it must be over, if it is a probe.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) timeout_ms: Option<u64>,
}

impl Plan {
    pub(crate) fn timeout(&self) -> Option<Span> {
        self.timeout_ms.map(Span::from_millis)
    }

    /// What of it is longest, for people: an argument, or an entry of the environment.
    pub(crate) fn longest(&self) -> (String, usize) {
        let words = self.arguments.iter().enumerate();
        let words = words.map(|(at, word)| (format!("word {at} of the command"), word.len()));
        let entries = self.environment.iter();
        let entries =
            entries.map(|(name, value)| (format!("the environment's {name:.100}"), value.len()));
        words.chain(entries).max_by_key(|(_, length)| *length).unwrap_or_default()
    }
}

/// Where a runtime says what became of the command that it was to start.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RuntimeWord {
    /// The number of the command's first process.
    pub(crate) pid_file: PathBuf,
    /// What it complains of, a line of JSON for each.
    pub(crate) log: PathBuf,
}

/// Which pipe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum StreamWord {
    Stdout,
    Stderr,
    Status,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum RoleWord {
    Setup,
    Main,
    Probe,
}

impl RoleWord {
    pub(crate) const fn of(role: Role) -> Self {
        match role {
            Role::Setup => Self::Setup,
            Role::Main => Self::Main,
            Role::Probe(_) => Self::Probe,
        }
    }

    /// A probe must be over within `timeout`.
    pub(crate) const fn role(self, timeout: Option<Span>) -> Role {
        match self {
            Self::Setup => Role::Setup,
            Self::Main => Role::Main,
            Self::Probe => Role::Probe(timeout),
        }
    }
}

/// What holds for a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ContractWord {
    pub(crate) stop_after_ms: Option<u64>,
    /// Whether it outlives its worker.
    pub(crate) is_kept: bool,
}

impl ContractWord {
    pub(crate) fn spawn(self) -> Spawn {
        let on_worker_exit = if self.is_kept { OnWorkerExit::Keep } else { OnWorkerExit::Stop };
        Spawn { stop_after: self.stop_after_ms.map(Span::from_millis), on_worker_exit }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum PhaseWord {
    Cloning,
    Live,
    Stopping,
    Empty,
}

impl PhaseWord {
    pub(crate) const fn of(phase: Phase) -> Self {
        match phase {
            Phase::Cloning => Self::Cloning,
            Phase::Live => Self::Live,
            Phase::Stopping => Self::Stopping,
            Phase::Empty => Self::Empty,
        }
    }

    pub(crate) const fn phase(&self) -> Phase {
        match self {
            Self::Cloning => Phase::Cloning,
            Self::Live => Phase::Live,
            Self::Stopping => Phase::Stopping,
            Self::Empty => Phase::Empty,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum FateWord {
    Started { part: u32, pid: i32, streams: Vec<StreamWord> },
    NotStarted { part: u32, why: String },
    Stopping { why: WhyWord },
    Exited { part: u32, exit: Exit, cpu_us: u64, peak_bytes: u64 },
    Empty,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum WhyWord {
    Deadline,
    WorkerGone,
}

impl FateWord {
    /// Without what only the driver knows.
    pub(crate) fn of(fate: &Fate) -> Self {
        match fate {
            Fate::Started(part) => Self::Started { part: part.get(), pid: 0, streams: Vec::new() },
            Fate::NotStarted(part, why) => Self::NotStarted { part: part.get(), why: why.clone() },
            Fate::Exited(part, exit) => {
                Self::Exited { part: part.get(), exit: *exit, cpu_us: 0, peak_bytes: 0 }
            }
            Fate::Stopping(Why::Deadline) => Self::Stopping { why: WhyWord::Deadline },
            Fate::Stopping(Why::WorkerGone) => Self::Stopping { why: WhyWord::WorkerGone },
            Fate::Empty => Self::Empty,
        }
    }

    pub(crate) fn fate(&self) -> Fate {
        match self {
            Self::Started { part, .. } => Fate::Started(Part::new(*part)),
            Self::NotStarted { part, why } => Fate::NotStarted(Part::new(*part), why.clone()),
            Self::Exited { part, exit, .. } => Fate::Exited(Part::new(*part), *exit),
            Self::Stopping { why: WhyWord::Deadline } => Fate::Stopping(Why::Deadline),
            Self::Stopping { why: WhyWord::WorkerGone } => Fate::Stopping(Why::WorkerGone),
            Self::Empty => Fate::Empty,
        }
    }
}
