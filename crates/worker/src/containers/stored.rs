//! What stands on the disk of a run, for the next worker.

use std::{fs, io, os::unix::fs::OpenOptionsExt, path::Path};

use serde::{Deserialize, Serialize};
use sterna_executor::{
    container::{Cause, End},
    monitor::Failure,
};

use super::Report;
use crate::{cgroup::Usage, guardian::ExitWord, work::Work};

const WORK: &str = "work.json";
const END: &str = "end.json";

/// A run that was begun.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Begun {
    /// The boot that the moment is of.
    pub(super) boot: String,
    pub(super) begun_ms: u64,
    pub(super) ports: Vec<(String, u16)>,
    pub(super) work: Work,
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
        let cause = match &end.cause {
            Cause::Exited => CauseWord::Exited,
            Cause::SetupFailed(step) => CauseWord::SetupFailed(*step),
            Cause::FailedToStart(why) => CauseWord::FailedToStart(why.clone()),
            Cause::Timeout => CauseWord::Timeout,
            Cause::Monitor(Failure::NeverHealthy) => CauseWord::NeverHealthy,
            Cause::Monitor(Failure::Unhealthy) => CauseWord::Unhealthy,
            Cause::DiskLimit => CauseWord::DiskLimit,
            Cause::Request => CauseWord::Request,
            Cause::Deadline => CauseWord::Deadline,
            Cause::WorkerExit => CauseWord::WorkerExit,
        };
        let exit = end.exit.map(ExitWord::of);
        Self { cause, exit, usage: *usage, status: status.clone() }
    }
}

pub(super) fn read_end(directory: &Path) -> Option<Report> {
    let ended: Ended = serde_json::from_slice(&fs::read(directory.join(END)).ok()?).ok()?;
    let cause = match ended.cause {
        CauseWord::Exited => Cause::Exited,
        CauseWord::SetupFailed(step) => Cause::SetupFailed(step),
        CauseWord::FailedToStart(why) => Cause::FailedToStart(why),
        CauseWord::Timeout => Cause::Timeout,
        CauseWord::NeverHealthy => Cause::Monitor(Failure::NeverHealthy),
        CauseWord::Unhealthy => Cause::Monitor(Failure::Unhealthy),
        CauseWord::DiskLimit => Cause::DiskLimit,
        CauseWord::Request => Cause::Request,
        CauseWord::Deadline => Cause::Deadline,
        CauseWord::WorkerExit => Cause::WorkerExit,
    };
    let end = End { cause, exit: ended.exit.map(ExitWord::exit) };
    Some(Report { end, usage: ended.usage, status: ended.status })
}

fn write<T: Serialize>(path: &Path, value: &T) -> io::Result<()> {
    let mut options = fs::OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600);
    let bytes = serde_json::to_vec(value)?;
    io::Write::write_all(&mut options.open(path)?, &bytes)
}
