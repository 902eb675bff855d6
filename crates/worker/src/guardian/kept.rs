//! What one guardian keeps for the next: the last confirmed stamp, and the journal of each run.
//!
//! Safety rule 14 asks for a mapped file. A write to a file outlives the process just as well, since
//! both end in the page cache, and it answers a full disk with an error instead of a signal.

use std::{
    fs::{File, OpenOptions},
    io::{self, Write},
    os::unix::fs::{FileExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};
use sterna_executor::guardian::{Fate, Found, Kept, Part, Process};
use sterna_model::{BootTime, RunId};

use super::words::{ContractWord, FateWord, RoleWord};
use crate::{cgroup::Hold, work::StopSignal};

const STATE: &str = "guardian.state";
/// The folder of all runs, and in each of theirs the journal.
pub(crate) const RUNS: &str = "runs";
const JOURNAL: &str = "journal";

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct StateLine {
    pub(super) boot: String,
    pub(super) confirmed_ms: Option<u64>,
    pub(super) process: Option<u64>,
}

/// The file with the last confirmed stamp.
#[derive(Debug)]
pub(super) struct State {
    file: File,
    boot: String,
}

/// The last confirmed stamp of this boot, as a guardian has kept it.
pub(crate) fn confirmed(directory: &Path, boot: &str) -> Option<BootTime> {
    let text = std::fs::read_to_string(directory.join(STATE)).ok()?;
    let line = serde_json::from_str::<StateLine>(text.trim()).ok()?;
    (line.boot == boot).then_some(line.confirmed_ms).flatten().map(BootTime::from_millis)
}

impl State {
    /// Opens the file, with what an earlier guardian kept in this boot.
    pub(super) fn open(directory: &Path, boot: &str) -> io::Result<(Self, Kept)> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        let file = options.open(directory.join(STATE))?;
        let text = io::read_to_string(&file)?;
        let line = serde_json::from_str::<StateLine>(text.trim()).ok();
        let line = line.filter(|line| line.boot == boot);
        let kept = line.map_or(Kept::default(), |line| Kept {
            confirmed: line.confirmed_ms.map(BootTime::from_millis),
            process: line.process.map(Process::new),
        });
        Ok((Self { file, boot: boot.to_owned() }, kept))
    }

    pub(super) fn write(&self, kept: Kept) -> io::Result<()> {
        let line = StateLine {
            boot: self.boot.clone(),
            confirmed_ms: kept.confirmed.map(BootTime::as_millis),
            process: kept.process.map(Process::get),
        };
        // Always of the same length, so that one write replaces the other.
        let text = format!("{:<160}\n", serde_json::to_string(&line).map_err(io::Error::other)?);
        self.file.write_all_at(text.as_bytes(), 0)
    }
}

/// One line of a run's journal.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Entry {
    /// The first line: what the run is to its guardian.
    Run { boot: String, contract: ContractWord, hold: Hold, stop: StopSignal },
    /// A process was made; it has this number, and began at this tick of the machine.
    Part {
        part: u32,
        role: RoleWord,
        pid: i32,
        /// It is a runtime, which makes the command's process and ends.
        #[serde(default)]
        is_runtime: bool,
    },
    /// The runtime has made the command's process, which has this number.
    Made { part: u32, pid: i32 },
    /// Its end has begun.
    Stopping,
    /// What became of it.
    Fate(FateWord),
}

/// The journal of one run. That it can be made is what lets the run begin (safety rule 13).
#[derive(Debug)]
pub(super) struct Journal(File);

impl Journal {
    pub(super) fn create(directory: &Path, run: RunId, first: &Entry) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        options.append(true).create_new(true).mode(0o600);
        let mut journal = Self(options.open(path(directory, run))?);
        journal.add(first)?;
        Ok(journal)
    }

    fn open(directory: &Path, run: RunId) -> io::Result<Self> {
        Ok(Self(OpenOptions::new().append(true).open(path(directory, run))?))
    }

    pub(super) fn add(&mut self, entry: &Entry) -> io::Result<()> {
        let mut line = serde_json::to_vec(entry)?;
        line.push(b'\n');
        self.0.write_all(&line)
    }
}

fn path(directory: &Path, run: RunId) -> PathBuf {
    directory.join(RUNS).join(run.to_string()).join(JOURNAL)
}

/// A run that an earlier guardian of this boot has left.
#[derive(Debug)]
pub(super) struct Left {
    pub(super) run: RunId,
    pub(super) found: Option<Found>,
    /// What is needed to hold it; `None` if it cannot be read.
    pub(super) known: Option<(Hold, StopSignal)>,
    /// Its processes that had not ended, as far as is known.
    pub(super) processes: Vec<(Part, RoleWord, i32)>,
    pub(super) journal: Journal,
}

/// Reads every journal of this boot.
pub(super) fn left(directory: &Path, boot: &str) -> io::Result<Vec<Left>> {
    let mut all = Vec::new();
    for entry in std::fs::read_dir(directory.join(RUNS))? {
        let name = entry?.file_name();
        let Some(run) = name.to_str().and_then(|name| name.parse::<RunId>().ok()) else { continue };
        let Ok(journal) = Journal::open(directory, run) else { continue };
        let text = std::fs::read_to_string(path(directory, run)).unwrap_or_default();
        all.extend(read(run, &text, boot, journal));
    }
    Ok(all)
}

/// What a journal says; `None` if it is of another boot, after which nothing is left of anything.
fn read(run: RunId, text: &str, boot: &str, journal: Journal) -> Option<Left> {
    let mut lines = text.lines().map(|line| serde_json::from_str::<Entry>(line).ok());
    let unreadable =
        |journal| Left { run, found: None, known: None, processes: Vec::new(), journal };
    let Some(Some(Entry::Run { boot: of, contract, hold, stop })) = lines.next() else {
        return Some(unreadable(journal));
    };
    if of != boot {
        return None;
    }
    let (mut processes, mut fates) = (Vec::new(), Vec::new());
    let (mut is_stopping, mut newest, mut starting) = (false, None, None);
    // A line that is torn is the last one, and was not acted upon.
    for entry in lines.map_while(|entry| entry) {
        match entry {
            Entry::Run { .. } => {}
            Entry::Part { part, role, pid, is_runtime } => {
                let part = Part::new(part);
                processes.push((part, role, pid));
                starting = is_runtime.then_some(part);
                match role {
                    RoleWord::Setup | RoleWord::Main => newest = Some((part, role.role())),
                    RoleWord::Probe => {}
                }
            }
            Entry::Made { part, pid } => {
                let part = Part::new(part);
                starting = None;
                let of_part = processes.iter_mut().filter(|(known, ..)| *known == part);
                of_part.for_each(|(.., of_runtime)| *of_runtime = pid);
            }
            Entry::Stopping => is_stopping = true,
            Entry::Fate(word) => {
                let fate = word.fate();
                if let Fate::Exited(part, _) | Fate::NotStarted(part, _) = &fate {
                    processes.retain(|(known, ..)| known != part);
                    starting = starting.filter(|known| known != part);
                }
                fates.push(fate);
            }
        }
    }
    if let Some(part) = starting {
        // Whose child its command would be, and how it would end, nobody would know.
        is_stopping = true;
        processes.retain(|(known, ..)| *known != part);
    }
    let found = if fates.contains(&Fate::Empty) {
        Found::Over(fates)
    } else {
        Found::Live { spawn: contract.spawn(), is_stopping, part: newest }
    };
    Some(Left { run, found: Some(found), known: Some((hold, stop)), processes, journal })
}
