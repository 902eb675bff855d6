//! How a run ended, what it used and what it left.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{bytes, cut, lenient};

/// The worker keeps so many bytes of a run's result.
pub const RESULT_BYTES_MAX: usize = 50 * 1024;
/// The leader keeps a report that is no longer whole; of a longer one only why and how. A report must
/// fit into a record, and a result of [`RESULT_BYTES_MAX`] fits in whatever letters it is written.
pub const REPORT_BYTES_MAX: usize = 400_000;
/// Where only why and how are kept, each text is cut to so many bytes.
pub const CRASH_TEXT_BYTES_MAX: usize = 300;

/// Why a container ended: the first cause there was.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "CauseWord", into = "CauseWord")]
pub enum Cause {
    /// Its run step ended by itself; the exit says how.
    Exited,
    /// A setup step did not succeed.
    SetupFailed(u32),
    /// It could not be made, or a command could not be started, for this reason.
    FailedToStart(String),
    /// Its own timeout passed.
    Timeout,
    /// Its monitor gave it up.
    Monitor(Failure),
    /// Its work directory held more than it may.
    DiskLimit,
    /// Somebody asked for it.
    Request,
    /// Its worker was out of contact for too long (safety rule 7).
    Deadline,
    /// Its worker ends.
    WorkerExit,
}

impl Cause {
    /// Whether the worker ended the run because it was told to, or because of the worker itself.
    pub const fn is_stop(&self) -> bool {
        match self {
            Self::Request | Self::Deadline | Self::WorkerExit => true,
            Self::Exited
            | Self::SetupFailed(_)
            | Self::FailedToStart(_)
            | Self::Timeout
            | Self::Monitor(_)
            | Self::DiskLimit => false,
        }
    }
}

/// Why probes mean the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// No good probe came in time.
    NeverHealthy,
    /// Too many bad ones in a row.
    Unhealthy,
}

/// A cause as it is written.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum CauseWord {
    Exited,
    SetupFailed(u32),
    FailedToStart(String),
    Timeout,
    NeverHealthy,
    Unhealthy,
    DiskLimit,
    Request,
    Deadline,
    WorkerExit,
}

impl From<Cause> for CauseWord {
    fn from(cause: Cause) -> Self {
        match cause {
            Cause::Exited => Self::Exited,
            Cause::SetupFailed(step) => Self::SetupFailed(step),
            Cause::FailedToStart(why) => Self::FailedToStart(why),
            Cause::Timeout => Self::Timeout,
            Cause::Monitor(Failure::NeverHealthy) => Self::NeverHealthy,
            Cause::Monitor(Failure::Unhealthy) => Self::Unhealthy,
            Cause::DiskLimit => Self::DiskLimit,
            Cause::Request => Self::Request,
            Cause::Deadline => Self::Deadline,
            Cause::WorkerExit => Self::WorkerExit,
        }
    }
}

impl From<CauseWord> for Cause {
    fn from(word: CauseWord) -> Self {
        match word {
            CauseWord::Exited => Self::Exited,
            CauseWord::SetupFailed(step) => Self::SetupFailed(step),
            CauseWord::FailedToStart(why) => Self::FailedToStart(why),
            CauseWord::Timeout => Self::Timeout,
            CauseWord::NeverHealthy => Self::Monitor(Failure::NeverHealthy),
            CauseWord::Unhealthy => Self::Monitor(Failure::Unhealthy),
            CauseWord::DiskLimit => Self::DiskLimit,
            CauseWord::Request => Self::Request,
            CauseWord::Deadline => Self::Deadline,
            CauseWord::WorkerExit => Self::WorkerExit,
        }
    }
}

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Exit {
    /// By itself, with this code.
    Code(i32),
    /// By this signal.
    Signal(i32),
    /// The kernel killed it because its memory limit was reached.
    OutOfMemory,
    /// Nobody could ask how: its guardian was killed, and the machine does not tell others.
    Unknown,
}

impl Exit {
    /// Whether it did what it was to do.
    pub const fn is_success(self) -> bool {
        match self {
            Self::Code(code) => code == 0,
            Self::Signal(_) | Self::OutOfMemory | Self::Unknown => false,
        }
    }
}

/// How a container ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct End {
    /// Why.
    pub cause: Cause,
    /// How the process of its last step ended, if there was one.
    pub exit: Option<Exit>,
}

impl End {
    /// An end for this cause, of which nothing else is known.
    pub const fn new(cause: Cause) -> Self {
        Self { cause, exit: None }
    }

    /// The part of a report that decisions read.
    pub fn to_bytes(&self) -> Vec<u8> {
        bytes(self)
    }
}

/// What a worker knows of a run that is over.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunReport {
    /// Why, and how.
    #[serde(flatten)]
    pub end: End,
    /// What it used.
    pub usage: Usage,
    /// The last line that it wrote to its status pipe.
    pub status: Option<String>,
    /// What it has left in the file that `STERNA_RESULT` names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<RunResult>,
}

impl RunReport {
    /// What a worker says.
    pub fn to_bytes(&self) -> Vec<u8> {
        bytes(self)
    }
}

/// What a run has left.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunResult {
    /// The file, or its beginning; what is no text in it is replaced.
    pub text: String,
    /// Whether there was more.
    pub is_cut: bool,
}

/// What a run has used so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Processor time, in microseconds.
    pub cpu_us: u64,
    /// Memory at this moment, in bytes.
    pub memory_bytes: u64,
    /// The most memory at any moment that was seen, in bytes.
    pub memory_peak_bytes: u64,
}

impl Usage {
    /// Takes in a later sample: counts only grow, and a peak stays.
    #[must_use]
    pub fn later(self, sample: Self) -> Self {
        let peak = self.memory_peak_bytes.max(sample.memory_peak_bytes).max(sample.memory_bytes);
        Self {
            cpu_us: self.cpu_us.max(sample.cpu_us),
            memory_bytes: sample.memory_bytes,
            memory_peak_bytes: peak,
        }
    }
}

/// Why and how a run ended, in the words of its report. What the run used and left, which may be long,
/// is skipped. Words that this version does not know are kept.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ReportWords {
    cause: Value,
    exit: Value,
}

impl ReportWords {
    /// Reads a report; `None` if it is none.
    pub fn read(said: &[u8]) -> Option<Self> {
        lenient::object(said)
    }

    /// Why, if this version knows that cause.
    pub fn cause(&self) -> Option<Cause> {
        if let Some(why) = self.cause["failed_to_start"].as_str() {
            return Some(Cause::FailedToStart(why.to_owned()));
        }
        if let Some(step) = self.cause["setup_failed"].as_u64() {
            return Some(Cause::SetupFailed(step.try_into().ok()?));
        }
        Cause::deserialize(self.word()?).ok()
    }

    /// The cause where it is a single word, known or not.
    pub fn cause_word(&self) -> Option<&str> {
        self.cause.as_str()
    }

    fn word(&self) -> Option<&Value> {
        self.cause.is_string().then_some(&self.cause)
    }

    /// How the process of the last step ended, if there was one and this version knows that word.
    pub fn exit(&self) -> Option<Exit> {
        let number = |name: &str| i32::try_from(self.exit[name].as_i64()?).ok();
        if let Some(code) = number("code") {
            return Some(Exit::Code(code));
        }
        if let Some(signal) = number("signal") {
            return Some(Exit::Signal(signal));
        }
        Exit::deserialize(self.exit.is_string().then_some(&self.exit)?).ok()
    }

    /// Whether its worker stopped the run, for whatever reason.
    pub fn was_stopped(&self) -> bool {
        self.cause().is_some_and(|cause| cause.is_stop())
    }

    /// Whether the run did what it was to do.
    pub fn is_success(&self) -> bool {
        self.cause() == Some(Cause::Exited) && self.exit().is_some_and(Exit::is_success)
    }

    /// A report that is short, however long the one that was said: the same words, or the beginning of
    /// what could not be read.
    pub fn brief_of(said: &[u8]) -> String {
        let unread = || cut(&String::from_utf8_lossy(said), CRASH_TEXT_BYTES_MAX).to_owned();
        Self::read(said).map_or_else(unread, Self::in_brief)
    }

    /// The same words in a report that is short whatever they are.
    pub fn in_brief(self) -> String {
        let brief = Self { cause: brief(self.cause), exit: brief(self.exit) };
        // Every crash is written so. Its two fields are in order without the detour of `bytes`.
        serde_json::to_string(&brief).unwrap_or_default()
    }
}

/// A part of a report: a word, or one by its name.
fn brief(part: Value) -> Value {
    let word = |word: Value| match word {
        Value::String(text) => cut(&text, CRASH_TEXT_BYTES_MAX).into(),
        Value::Null | Value::Bool(_) | Value::Number(_) => word,
        Value::Array(_) | Value::Object(_) => Value::Null,
    };
    let Value::Object(words) = part else { return word(part) };
    let first = words.into_iter().take(1);
    let first = first.map(|(name, it)| (cut(&name, CRASH_TEXT_BYTES_MAX).to_owned(), word(it)));
    Value::Object(first.collect())
}
