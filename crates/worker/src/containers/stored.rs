//! What stands on the disk of a run, for the next worker.

use std::{fs, io, os::unix::fs::OpenOptionsExt, path::Path};

use serde::{Deserialize, Serialize};
use sterna_model::{
    RunId,
    payload::{Cause, RunReport, Work},
};

use super::users::Who;

pub(super) const WORK: &str = "work.json";
pub(super) const END: &str = "end.json";
/// Why somebody has asked for its end, until that is known.
const ASKED: &str = "asked.json";
/// What was read of its status pipe.
const STATUS: &str = "status";

/// A run that was begun.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Begun {
    /// Which: the file may have been another's, whose directory is used again.
    #[serde(default)]
    pub(super) run: Option<RunId>,
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
struct Ended<R> {
    /// Which, where it is kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    run: Option<RunId>,
    #[serde(flatten)]
    report: R,
}

/// Keeps why the end of a run was asked for, before the guardian is asked: the next worker tells it.
pub(super) fn write_asked(directory: &Path, cause: &Cause) -> io::Result<()> {
    write(&directory.join(ASKED), cause)
}

pub(super) fn read_asked(directory: &Path) -> Option<Cause> {
    serde_json::from_slice(&fs::read(directory.join(ASKED)).ok()?).ok()
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

    pub(super) fn read(directory: &Path, run: RunId) -> Option<Self> {
        let begun: Self = serde_json::from_slice(&fs::read(directory.join(WORK)).ok()?).ok()?;
        begun.run.is_none_or(|known| known == run).then_some(begun)
    }
}

/// Keeps an end until it is acknowledged. The directory is made if the run never had one.
pub(super) fn write_end(directory: &Path, run: RunId, report: &RunReport) -> io::Result<()> {
    let (path, ended) = (directory.join(END), Ended { run: Some(run), report });
    match write(&path, &ended) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            fs::create_dir_all(directory)?;
            write(&path, &ended)
        }
        written => written,
    }
}

pub(super) fn read_end(directory: &Path, run: RunId) -> Option<RunReport> {
    let file = fs::read(directory.join(END)).ok()?;
    let ended: Ended<RunReport> = serde_json::from_slice(&file).ok()?;
    ended.run.is_none_or(|known| known == run).then_some(ended.report)
}

fn write<T: Serialize>(path: &Path, value: &T) -> io::Result<()> {
    let mut bytes = serde_json::to_vec(value)?;
    let mut options = fs::OpenOptions::new();
    let mut file = options.write(true).create(true).truncate(false).mode(0o600).open(path)?;
    // What was there before is written over, and the rest of it with spaces: a file that is emptied
    // and written again costs some file systems a write to the disk.
    let before = usize::try_from(file.metadata()?.len()).unwrap_or(0);
    bytes.resize(bytes.len().max(before), b' ');
    io::Write::write_all(&mut file, &bytes)
}

#[cfg(test)]
mod tests {
    use sterna_model::payload::{End, Usage};

    use super::*;

    #[test]
    fn what_was_kept_of_another_run_is_not_believed_and_a_shorter_end_is_whole() {
        let path = std::env::temp_dir().join(format!("sterna-stored-{}", std::process::id()));
        let run = |last: &str| -> RunId {
            format!("run-0000000000017000800000000000000{last}").parse().unwrap()
        };
        let cause = |why: &str| Cause::FailedToStart(why.to_owned());
        let report = |why| {
            let end = End { cause: cause(why), exit: None };
            RunReport { end, usage: Usage::default(), status: None, result: None }
        };
        write_end(&path, run("1"), &report("something long")).unwrap();
        assert_eq!(read_end(&path, run("2")), None);
        write_end(&path, run("2"), &report("short")).unwrap();
        assert_eq!(read_end(&path, run("2")).unwrap().end.cause, cause("short"));
        fs::remove_dir_all(path).unwrap();
    }
}
