//! What is to be run, and how: everything that a worker must know of one piece of work.

use std::{collections::BTreeMap, path::PathBuf};

use serde::{Deserialize, Serialize};
use sterna_executor::monitor;
use sterna_model::{Bytes, Millicores, Span};

use crate::oci::Image;

/// One piece of work.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Work {
    /// The command and its arguments.
    pub run: Vec<String>,
    /// Commands that come before it, one after the other; each must succeed.
    pub setup: Vec<Vec<String>>,
    /// The file system that it finds; the machine's own if none.
    pub image: Option<Image>,
    /// What it finds in its environment, beside what the worker says of the run.
    pub env: BTreeMap<String, String>,
    /// What the worker says of the run.
    pub about: About,
    /// Where it begins, in its image if it has one; a fresh directory of its own if none.
    pub directory: Option<PathBuf>,
    /// As whom it runs; as the worker does if none. A name or a number.
    pub user: Option<String>,
    /// With which group; the user's own if none. A name or a number.
    pub group: Option<String>,
    /// What it may use at most.
    pub limits: Limits,
    /// Limits of each of its processes, by the kernel's names, such as `nofile`.
    pub rlimits: BTreeMap<String, u64>,
    /// Names of the ports that it wants; each is given as `PORT_<NAME>`.
    pub ports: Vec<String>,
    /// What signals do.
    pub signals: Signals,
    /// What becomes of it when its worker goes.
    pub when_worker_exits: WhenWorkerExits,
    /// How long after the last confirmed stamp it begins to be stopped; `None` for never.
    pub stop_after: Option<Span>,
    /// Within this everything must be over; `None` for whenever.
    pub timeout: Option<Span>,
    /// What decides that it is up, and that it has failed; without it, it is up at once.
    pub monitor: Option<Monitor>,
    /// What decides whether it takes requests; it ends nothing.
    pub readiness: Option<Monitor>,
    /// How its output is kept.
    pub logs: Logging,
    /// For a batch: the node, and what the command is given as JSON. Then the command is also given
    /// a pipe to write its status to.
    pub node: Option<Node>,
}

/// How output is kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Logging {
    /// So much in a second, and as much at once; `None` for as fast as it comes.
    pub rate: Option<Bytes>,
    /// What becomes of more than that.
    pub when_over: WhenOver,
}

/// What becomes of output that comes faster than it may.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WhenOver {
    /// The work waits until it may write on.
    #[default]
    Wait,
    /// Lines are dropped and counted; the newest are kept.
    Drop,
}

/// What a run is told of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct About {
    /// `STERNA_KEY`: what it is a run of.
    pub key: String,
    /// `STERNA_FENCE`: for its own use against outside resources; empty if nobody has given it one.
    pub fence: String,
    /// `STERNA_WORKER`: where it runs.
    pub worker: String,
    /// `STERNA_INSTANCE_INDEX`: which instance of a service.
    pub index: Option<u32>,
    /// `STERNA_ATTEMPT`: 1, and one more for each time in a row that its key has failed to run; 0 if
    /// nobody has said.
    pub attempt: u32,
    /// `STERNA_PREVIOUS_STATUS`: how the last run of its node ended.
    pub previous_status: Option<String>,
}

/// A node of a batch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Node {
    /// Its name: the command's first additional argument, and `STERNA_NODE`.
    pub name: String,
    /// The command's third additional argument; the second is the path of the status pipe.
    pub json: String,
}

/// What a run may use at most; `None` for whatever there is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Limits {
    /// Processor time.
    pub cpu: Option<Millicores>,
    /// Memory.
    pub memory: Option<Bytes>,
    /// Processes and threads.
    pub pids: Option<u64>,
    /// What its work directory may hold; looked at from time to time.
    pub disk: Option<Bytes>,
}

/// What signals do: the choices (a) to (d); (e) is [`WhenWorkerExits`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Signals {
    /// (a) Sent to the command when the guardian, its parent, dies. None lets it live on until the
    /// guardian is back, and be held to its deadline then.
    pub death: Option<Signal>,
    /// (b) Whether it leads a process group of its own.
    pub group: ProcessGroup,
    /// (c) What asks it to end.
    pub stop: Signal,
    /// (c) Between that and KILL; no time at all is KILL at once, and without it KILL comes only at a
    /// deadline.
    pub grace: Option<Span>,
    /// How long it still answers before that, once it takes no more requests; a second if it has ports
    /// and nothing is said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub linger: Option<Span>,
    /// (d) Who is asked to end. KILL goes to everything, always.
    pub to: To,
}

impl Default for Signals {
    fn default() -> Self {
        Self {
            death: None,
            group: ProcessGroup::Own,
            stop: Signal::Term,
            grace: Some(Span::from_secs(10)),
            linger: None,
            to: To::Group,
        }
    }
}

/// Whose process group a command is in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProcessGroup {
    /// Its own, which it leads.
    #[default]
    Own,
    /// The guardian's; then only the command itself can be asked to end.
    Shared,
}

/// Whom a signal goes to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum To {
    /// The command's first process.
    Process,
    /// Its process group.
    #[default]
    Group,
    /// Every process of the run.
    All,
}

/// A signal, by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Signal {
    /// SIGTERM.
    Term,
    /// SIGINT.
    Int,
    /// SIGQUIT.
    Quit,
    /// SIGHUP.
    Hup,
    /// SIGUSR1.
    Usr1,
    /// SIGUSR2.
    Usr2,
    /// SIGKILL.
    Kill,
}

impl Signal {
    /// Its number.
    pub const fn number(self) -> i32 {
        match self {
            Self::Term => libc::SIGTERM,
            Self::Int => libc::SIGINT,
            Self::Quit => libc::SIGQUIT,
            Self::Hup => libc::SIGHUP,
            Self::Usr1 => libc::SIGUSR1,
            Self::Usr2 => libc::SIGUSR2,
            Self::Kill => libc::SIGKILL,
        }
    }
}

/// What asks a run to end, as its guardian must know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct StopSignal {
    pub(crate) signal: i32,
    pub(crate) to: To,
}

impl Signals {
    pub(crate) const fn stop_signal(&self) -> StopSignal {
        let to = match (self.group, self.to) {
            // The group is the guardian's, which must not be asked to end.
            (ProcessGroup::Shared, To::Group | To::Process) | (ProcessGroup::Own, To::Process) => {
                To::Process
            }
            (ProcessGroup::Own, To::Group) => To::Group,
            (ProcessGroup::Own | ProcessGroup::Shared, To::All) => To::All,
        };
        StopSignal { signal: self.stop.number(), to }
    }
}

/// (e) What becomes of a run when its worker ends, by itself or by TERM, INT, QUIT, HUP or KILL.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WhenWorkerExits {
    /// It ends, too.
    #[default]
    Stop,
    /// The guardian holds it to its deadline, and the next worker takes it over.
    Keep,
}

/// What is asked to see whether work is well.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Monitor {
    /// What is asked.
    pub probe: Probe,
    /// Between two questions until the first good answer.
    pub starting_every: Span,
    /// Between two questions after that.
    pub healthy_every: Span,
    /// Within this an answer must come.
    pub timeout: Span,
    /// So many bad answers in a row, once well, mean failure.
    pub failures_max: u32,
    /// Within this the first good answer must come; `None` for whenever.
    pub start_timeout: Option<Span>,
}

impl Monitor {
    pub(crate) const fn limits(&self) -> monitor::Limits {
        monitor::Limits {
            starting_every: self.starting_every,
            healthy_every: self.healthy_every,
            timeout: self.timeout,
            failures_max: self.failures_max,
            start_timeout: self.start_timeout,
        }
    }
}

/// One question.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Probe {
    /// Good if it exits with 0; it runs where the work runs.
    Command(Vec<String>),
    /// Good if the port takes a connection; the name of one of the work's ports.
    Tcp(String),
    /// Good if the answer is 200 to 399; the name of a port, and a path.
    Http(String, String),
}
