//! What is to be run, and how: everything that a worker must know of one piece of work.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
};

use serde::{Deserialize, Serialize};

use super::{Image, bytes};
use crate::{
    resources::{Bytes, Millicores},
    time::Span,
};

/// Work takes so many bytes at most. The store takes a record of a megabyte; this and the notes of a
/// service leave it room.
pub const WORK_BYTES_MAX: usize = 256 * 1024;
/// Between the request to end and KILL, if work does not say.
pub const GRACE: Span = Span::from_secs(10);
/// For so long what has ports still answers after it was taken off the list of endpoints: who has just
/// read that list finds it.
pub const LINGER: Span = Span::from_secs(1);

/// One piece of work.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Work {
    /// The command and its arguments.
    #[serde(skip_serializing_if = "is_usual")]
    pub run: Vec<String>,
    /// Commands that come before it, one after the other; each must succeed.
    #[serde(skip_serializing_if = "is_usual")]
    pub setup: Vec<Vec<String>>,
    /// The file system that it finds; the machine's own if none.
    #[serde(skip_serializing_if = "is_usual")]
    pub image: Option<Image>,
    /// What it finds in its environment, beside what the worker says of the run.
    #[serde(skip_serializing_if = "is_usual")]
    pub env: BTreeMap<String, String>,
    /// What the worker says of the run.
    #[serde(skip_serializing_if = "is_usual")]
    pub about: About,
    /// Where it begins, in its image if it has one; a fresh directory of its own if none.
    #[serde(skip_serializing_if = "is_usual")]
    pub directory: Option<PathBuf>,
    /// As whom it runs; as the worker does if none. A name or a number.
    #[serde(skip_serializing_if = "is_usual")]
    pub user: Option<String>,
    /// With which group; the user's own if none. A name or a number.
    #[serde(skip_serializing_if = "is_usual")]
    pub group: Option<String>,
    /// What it may use at most.
    #[serde(skip_serializing_if = "is_usual")]
    pub limits: Limits,
    /// Limits of each of its processes, by the kernel's names, such as `nofile`.
    #[serde(skip_serializing_if = "is_usual")]
    pub rlimits: BTreeMap<String, u64>,
    /// Names of the ports that it wants; each is given as `PORT_<NAME>`.
    #[serde(skip_serializing_if = "is_usual")]
    pub ports: Vec<String>,
    /// What signals do.
    #[serde(skip_serializing_if = "is_usual")]
    pub signals: Signals,
    /// What becomes of it when its worker goes.
    #[serde(skip_serializing_if = "is_usual")]
    pub when_worker_exits: WhenWorkerExits,
    /// How long after the last confirmed stamp it begins to be stopped; `None` for never.
    #[serde(skip_serializing_if = "is_usual")]
    pub stop_after: Option<Span>,
    /// Within this everything must be over; `None` for whenever.
    #[serde(skip_serializing_if = "is_usual")]
    pub timeout: Option<Span>,
    /// What decides that it is up, and that it has failed; without it, it is up at once.
    #[serde(skip_serializing_if = "is_usual")]
    pub monitor: Option<Monitor>,
    /// What decides whether it takes requests; it ends nothing.
    #[serde(skip_serializing_if = "is_usual")]
    pub readiness: Option<Monitor>,
    /// How its output is kept.
    #[serde(skip_serializing_if = "is_usual")]
    pub logs: Logging,
    /// What its worker must be able to do, by the words of [`super::Facts::features`]. A worker that
    /// does not know one of them refuses the work: it would run it otherwise than it is meant.
    #[serde(skip_serializing_if = "is_usual")]
    pub needs: BTreeSet<String>,
    /// For a batch: the node, and what the command is given as JSON. Then the command is also given
    /// a pipe to write its status to.
    #[serde(skip_serializing_if = "is_usual")]
    pub node: Option<Node>,
}

/// How output is kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Logging {
    /// So much in a second, and as much at once; `None` for as fast as it comes.
    #[serde(skip_serializing_if = "is_usual")]
    pub rate: Option<Bytes>,
    /// What becomes of more than that.
    #[serde(skip_serializing_if = "is_usual")]
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
    #[serde(skip_serializing_if = "is_usual")]
    pub key: String,
    /// `STERNA_FENCE`: for its own use against outside resources; empty if nobody has given it one.
    #[serde(skip_serializing_if = "is_usual")]
    pub fence: String,
    /// `STERNA_WORKER`: where it runs.
    #[serde(skip_serializing_if = "is_usual")]
    pub worker: String,
    /// `STERNA_INSTANCE_INDEX`: which instance of a service.
    #[serde(skip_serializing_if = "is_usual")]
    pub index: Option<u32>,
    /// `STERNA_ATTEMPT`: 1, and one more for each time in a row that its key has failed to run; 0 if
    /// nobody has said.
    #[serde(skip_serializing_if = "is_usual")]
    pub attempt: u32,
    /// `STERNA_PREVIOUS_STATUS`: how the last run of its node ended.
    #[serde(skip_serializing_if = "is_usual")]
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
    #[serde(skip_serializing_if = "is_usual")]
    pub cpu: Option<Millicores>,
    /// Memory.
    #[serde(skip_serializing_if = "is_usual")]
    pub memory: Option<Bytes>,
    /// Processes and threads.
    #[serde(skip_serializing_if = "is_usual")]
    pub pids: Option<u64>,
    /// What its work directory may hold; looked at from time to time.
    #[serde(skip_serializing_if = "is_usual")]
    pub disk: Option<Bytes>,
}

/// What signals do: the choices (a) to (d); (e) is [`WhenWorkerExits`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Signals {
    /// (a) Sent to the command when the guardian, its parent, dies. None lets it live on until the
    /// guardian is back, and be held to its deadline then.
    #[serde(skip_serializing_if = "is_usual")]
    pub death: Option<Signal>,
    /// (b) Whether it leads a process group of its own.
    #[serde(skip_serializing_if = "is_usual")]
    pub group: ProcessGroup,
    /// (c) What asks it to end.
    #[serde(skip_serializing_if = "is_usual")]
    pub stop: Signal,
    /// (c) Between that and KILL; no time at all is KILL at once, and without it KILL comes only at a
    /// deadline.
    #[serde(skip_serializing_if = "is_usual_grace")]
    pub grace: Option<Span>,
    /// How long it still answers before that, once it takes no more requests; a second if it has ports
    /// and nothing is said.
    #[serde(skip_serializing_if = "is_usual")]
    pub linger: Option<Span>,
    /// (d) Who is asked to end. KILL goes to everything, always.
    #[serde(skip_serializing_if = "is_usual")]
    pub to: To,
}

/// Whether a field is as it is taken for if it is not written.
fn is_usual<T: Default + PartialEq>(field: &T) -> bool {
    *field == T::default()
}

#[expect(clippy::ref_option, reason = "serde gives it so")]
fn is_usual_grace(grace: &Option<Span>) -> bool {
    *grace == Some(GRACE)
}

impl Work {
    /// As its worker reads it. Keys are sorted and what is as usual is left out, so that the same work
    /// has the same bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        bytes(self)
    }
}

impl Signals {
    /// How long work still answers before it is asked to end, if it does not say.
    pub const fn usual_linger(has_ports: bool) -> Span {
        if has_ports { LINGER } else { Span::ZERO }
    }
}

impl Default for Signals {
    fn default() -> Self {
        Self {
            death: None,
            group: ProcessGroup::Own,
            stop: Signal::Term,
            grace: Some(GRACE),
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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Signal {
    /// SIGTERM.
    #[default]
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
