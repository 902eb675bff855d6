//! What stands on the disk of a run, for the next worker.

use std::{fs, io, os::unix::fs::OpenOptionsExt, path::Path};

use serde::{Deserialize, Serialize};
use sterna_executor::{
    container::{Cause, End},
    monitor::Failure,
};

use super::{Report, users::Who};
use crate::{cgroup::Usage, guardian::ExitWord, work::Work};

const WORK: &str = "work.json";
const END: &str = "end.json";
/// Why somebody has asked for its end, until that is known.
const ASKED: &str = "asked.json";
/// What was read of its status pipe.
const STATUS: &str = "status";

/// A run that was begun.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Begun {
    /// The boot that the moment is of.
    pub(super) boot: String,
    pub(super) begun_ms: u64,
    pub(super) ports: Vec<(String, u16)>,
    pub(super) work: Work,
    /// As whom it runs. The user may be another, or nobody, when the next worker looks.
    #[serde(default)]
    pub(super) who: Option<Who>,
}

/// A run that is over and not acknowledged.
#[derive(Debug, Serialize, Deserialize)]
struct Ended {
    cause: CauseWord,
    exit: Option<ExitWord>,
    usage: Usage,
    status: Option<String>,
}

#[derive(Debug, Serialize, Deserialize)]
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

impl CauseWord {
    fn of(cause: &Cause) -> Self {
        match cause {
            Cause::Exited => Self::Exited,
            Cause::SetupFailed(step) => Self::SetupFailed(*step),
            Cause::FailedToStart(why) => Self::FailedToStart(why.clone()),
            Cause::Timeout => Self::Timeout,
            Cause::Monitor(Failure::NeverHealthy) => Self::NeverHealthy,
            Cause::Monitor(Failure::Unhealthy) => Self::Unhealthy,
            Cause::DiskLimit => Self::DiskLimit,
            Cause::Request => Self::Request,
            Cause::Deadline => Self::Deadline,
            Cause::WorkerExit => Self::WorkerExit,
        }
    }

    fn cause(self) -> Cause {
        match self {
            Self::Exited => Cause::Exited,
            Self::SetupFailed(step) => Cause::SetupFailed(step),
            Self::FailedToStart(why) => Cause::FailedToStart(why),
            Self::Timeout => Cause::Timeout,
            Self::NeverHealthy => Cause::Monitor(Failure::NeverHealthy),
            Self::Unhealthy => Cause::Monitor(Failure::Unhealthy),
            Self::DiskLimit => Cause::DiskLimit,
            Self::Request => Cause::Request,
            Self::Deadline => Cause::Deadline,
            Self::WorkerExit => Cause::WorkerExit,
        }
    }
}

/// Keeps why the end of a run was asked for, before the guardian is asked: the next worker tells it.
pub(super) fn write_asked(directory: &Path, cause: &Cause) -> io::Result<()> {
    write(&directory.join(ASKED), &CauseWord::of(cause))
}

pub(super) fn read_asked(directory: &Path) -> Option<Cause> {
    let word: CauseWord = serde_json::from_slice(&fs::read(directory.join(ASKED)).ok()?).ok()?;
    Some(word.cause())
}

/// Keeps what was read of a run's status pipe: nobody can read it again.
pub(super) fn write_status(directory: &Path, said: &[u8]) -> io::Result<()> {
    let (path, draft) = (directory.join(STATUS), directory.join("status.draft"));
    let mut options = fs::OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600);
    io::Write::write_all(&mut options.open(&draft)?, said)?;
    fs::rename(draft, path)
}

pub(super) fn read_status(directory: &Path) -> Option<Vec<u8>> {
    fs::read(directory.join(STATUS)).ok()
}

impl Begun {
    pub(super) fn write(&self, directory: &Path) -> io::Result<()> {
        write(&directory.join(WORK), self)
    }

    pub(super) fn read(directory: &Path) -> Option<Self> {
        serde_json::from_slice(&fs::read(directory.join(WORK)).ok()?).ok()
    }
}

/// What is told of an end, as it is kept.
pub(crate) fn report_json(report: &Report) -> serde_json::Value {
    serde_json::to_value(Ended::of(report)).unwrap_or_default()
}

/// Keeps an end until it is acknowledged. The directory is made if the run never had one.
pub(super) fn write_end(directory: &Path, report: &Report) -> io::Result<()> {
    let (path, ended) = (directory.join(END), Ended::of(report));
    match write(&path, &ended) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            fs::create_dir_all(directory)?;
            write(&path, &ended)
        }
        written => written,
    }
}

impl Ended {
    fn of(report: &Report) -> Self {
        let Report { end, usage, status } = report;
        let cause = CauseWord::of(&end.cause);
        let exit = end.exit.map(ExitWord::of);
        Self { cause, exit, usage: *usage, status: status.clone() }
    }
}

pub(super) fn read_end(directory: &Path) -> Option<Report> {
    let ended: Ended = serde_json::from_slice(&fs::read(directory.join(END)).ok()?).ok()?;
    let end = End { cause: ended.cause.cause(), exit: ended.exit.map(ExitWord::exit) };
    Some(Report { end, usage: ended.usage, status: ended.status })
}

fn write<T: Serialize>(path: &Path, value: &T) -> io::Result<()> {
    let mut options = fs::OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600);
    let bytes = serde_json::to_vec(value)?;
    io::Write::write_all(&mut options.open(path)?, &bytes)
}
