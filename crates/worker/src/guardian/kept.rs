//! What one guardian keeps for the next: the last confirmed stamp, and the journal of each run.
//!
//! Safety rule 14 asks for a mapped file. A write to a file outlives the process just as well, since
//! both end in the page cache, and it answers a full disk with an error instead of a signal.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::{self, File, OpenOptions},
    io::{self, Write},
    os::unix::fs::{FileExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

use rustix::fs::{CWD, RenameFlags, renameat_with};
use serde::{Deserialize, Serialize};
use sterna_executor::guardian::{self, Fate, Found, Kept, Part, Stopping};
use sterna_model::{BootTime, RunId, Span};

use super::words::{ContractWord, FateWord, RoleWord};
use crate::{cgroup::Hold, stop::StopSignal};

const STATE: &str = "guardian.state";
/// The folder of all runs, and in each of theirs the journal.
pub(crate) const RUNS: &str = "runs";
pub(crate) const JOURNAL: &str = "journal";
/// The file of a run that is over, which is to become the journal of the next.
pub(crate) const SPARE_JOURNAL: &str = "journal.spare";

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct StateLine {
    pub(super) boot: String,
    pub(super) confirmed_ms: Option<u64>,
    pub(super) process: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) kill_wait_ms: Option<u64>,
}

/// The file with the last confirmed stamp.
#[derive(Debug)]
pub(super) struct State {
    file: File,
    boot: String,
}

/// The last confirmed stamp of this boot, as a guardian has kept it.
pub(crate) fn confirmed(directory: &Path, boot: &str) -> Option<BootTime> {
    let text = fs::read_to_string(directory.join(STATE)).ok()?;
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
            process: line.process.map(guardian::Process::new),
            kill_wait: line.kill_wait_ms.map(Span::from_millis),
        });
        Ok((Self { file, boot: boot.to_owned() }, kept))
    }

    pub(super) fn write(&self, kept: Kept) -> io::Result<()> {
        let line = StateLine {
            boot: self.boot.clone(),
            confirmed_ms: kept.confirmed.map(BootTime::as_millis),
            process: kept.process.map(guardian::Process::get),
            kill_wait_ms: kept.kill_wait.map(Span::as_millis),
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
    /// A process was made; it has this number.
    Part {
        part: u32,
        role: RoleWord,
        pid: i32,
        /// The tick of the machine at which it began, where its number alone tells who it is.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        began: Option<u64>,
        /// It is a runtime, which makes the command's process and ends.
        #[serde(default)]
        is_runtime: bool,
    },
    /// The runtime has made the command's process, which has this number.
    Made { part: u32, pid: i32 },
    /// Its end has begun: who knows no more kills it at once.
    Stopping,
    /// It is killed then, and not at once: what an earlier version did not keep.
    KillAt { boot_ms: u64 },
    /// What became of it.
    Fate(FateWord),
}

/// The journal of one run. That it can be made is what lets the run begin (safety rule 13).
#[derive(Debug)]
pub(super) struct Journal {
    file: File,
    path: PathBuf,
    /// Up to where it is whole.
    length: u64,
    /// Probes that stand in it and are over.
    gone: BTreeSet<Part>,
}

/// So many probes that are over may stand in a journal.
const GONE_MAX: usize = 32;

impl Journal {
    pub(super) fn create(directory: &Path, run: RunId, first: &Entry) -> io::Result<Self> {
        let path = path(directory, run);
        let file = match marked(&path) {
            Some(file) => file,
            None => {
                let mut options = OpenOptions::new();
                options.append(true).create_new(true).mode(0o600).open(&path)?
            }
        };
        let mut journal =
            Self { length: file.metadata()?.len(), file, path, gone: BTreeSet::new() };
        journal.add(first)?;
        Ok(journal)
    }

    /// Opens one that an earlier guardian has left, with what it says. A line without its end was
    /// never acted upon, and is cut off: what is added must not become a part of it.
    fn open(directory: &Path, run: RunId) -> io::Result<(Self, String)> {
        let path = path(directory, run);
        let bytes = fs::read(&path)?;
        let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let file = OpenOptions::new().append(true).open(&path)?;
        if whole < bytes.len() {
            file.set_len(whole as u64)?;
        }
        let text = String::from_utf8_lossy(&bytes[..whole]).into_owned();
        Ok((Self { file, path, length: whole as u64, gone: BTreeSet::new() }, text))
    }

    pub(super) fn add(&mut self, entry: &Entry) -> io::Result<()> {
        self.add_all(std::slice::from_ref(entry))
    }

    /// Adds all of them, or none.
    pub(super) fn add_all(&mut self, entries: &[Entry]) -> io::Result<()> {
        let mut lines = Vec::new();
        for entry in entries {
            serde_json::to_writer(&mut lines, entry)?;
            lines.push(b'\n');
        }
        if lines.is_empty() {
            return Ok(());
        }
        self.file.write_all(&lines).inspect_err(|_| {
            // What follows must not become a part of it. If not even this can be done, the next
            // guardian reads as far as it is whole.
            drop(self.file.set_len(self.length));
        })?;
        self.length += lines.len() as u64;
        Ok(())
    }

    /// A probe that stands in it is over. From time to time it is written anew without those.
    pub(super) fn drop_probe(&mut self, part: Part) {
        self.gone.insert(part);
        if self.gone.len() >= GONE_MAX && self.rewrite().is_ok() {
            self.gone.clear();
        }
    }

    fn rewrite(&mut self) -> io::Result<()> {
        let is_gone = |line: &&str| match serde_json::from_str::<Entry>(line) {
            Ok(Entry::Part { part, .. }) => self.gone.contains(&Part::new(part)),
            Ok(
                Entry::Run { .. }
                | Entry::Made { .. }
                | Entry::Stopping
                | Entry::KillAt { .. }
                | Entry::Fate(_),
            )
            | Err(_) => false,
        };
        let text = fs::read_to_string(&self.path)?;
        let mut left = String::new();
        for line in text.lines().filter(|line| !is_gone(line)) {
            left.push_str(line);
            left.push('\n');
        }
        let draft = self.path.with_extension("draft");
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true).mode(0o600);
        options.open(&draft)?.write_all(left.as_bytes())?;
        let file = OpenOptions::new().append(true).open(&draft)?;
        fs::rename(&draft, &self.path)?;
        (self.file, self.length) = (file, left.len() as u64);
        Ok(())
    }
}

/// A process that an earlier guardian has made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Process {
    pub(super) pid: i32,
    /// When it began, where its number alone tells who it is.
    pub(super) began: Option<u64>,
}

/// Makes a spare file the journal at this path, unless there is one, or no spare one.
fn marked(path: &Path) -> Option<File> {
    let spare = path.with_file_name(SPARE_JOURNAL);
    renameat_with(CWD, &spare, CWD, path, RenameFlags::NOREPLACE).ok()?;
    let file = OpenOptions::new().append(true).open(path).ok()?;
    // Whoever kept it has left an empty line of it.
    (file.metadata().ok()?.len() == 1).then_some(file)
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
    pub(super) processes: Vec<(Part, RoleWord, Process)>,
    /// The numbers of all that it ever had, but for probes that are over.
    pub(super) numbers: BTreeMap<Part, i32>,
    pub(super) journal: Journal,
}

/// Reads every journal of this boot.
pub(super) fn left(directory: &Path, boot: &str) -> io::Result<Vec<Left>> {
    let mut all = Vec::new();
    for entry in fs::read_dir(directory.join(RUNS))? {
        let name = entry?.file_name();
        let Some(run) = name.to_str().and_then(|name| name.parse::<RunId>().ok()) else { continue };
        let Ok((journal, text)) = Journal::open(directory, run) else { continue };
        all.extend(read(run, &text, boot, journal));
    }
    Ok(all)
}

/// What a journal says; `None` if it is of another boot, after which nothing is left of anything.
fn read(run: RunId, text: &str, boot: &str, journal: Journal) -> Option<Left> {
    let lines = text.lines().filter(|line| !line.is_empty());
    let mut lines = lines.map(|line| serde_json::from_str::<Entry>(line).ok());
    let mut left = Left {
        run,
        found: None,
        known: None,
        processes: Vec::new(),
        numbers: BTreeMap::new(),
        journal,
    };
    let Some(Some(Entry::Run { boot: of, contract, hold, stop })) = lines.next() else {
        return Some(left);
    };
    if of != boot {
        return None;
    }
    let (processes, mut fates) = (&mut left.processes, Vec::new());
    let (mut stopping, mut newest, mut starting) = (None, None, None);
    let at_once = Stopping { kill_at: None };
    // A line that is torn is the last one, and was not acted upon.
    for entry in lines.map_while(|entry| entry) {
        match entry {
            Entry::Run { .. } => {}
            Entry::Part { part, role, pid, began, is_runtime } => {
                let part = Part::new(part);
                processes.push((part, role, Process { pid, began }));
                left.numbers.insert(part, pid);
                starting = is_runtime.then_some(part);
                match role {
                    RoleWord::Setup | RoleWord::Main => newest = Some((part, role.role(None))),
                    RoleWord::Probe => {}
                }
            }
            Entry::Made { part, pid } => {
                let part = Part::new(part);
                starting = None;
                left.numbers.insert(part, pid);
                let of_part = processes.iter_mut().filter(|(known, ..)| *known == part);
                of_part.for_each(|(.., process)| *process = Process { pid, began: None });
            }
            Entry::Stopping => stopping = Some(at_once),
            Entry::KillAt { boot_ms } => {
                stopping = Some(Stopping { kill_at: Some(BootTime::from_millis(boot_ms)) });
            }
            Entry::Fate(word) => {
                let fate = word.fate();
                if matches!(fate, Fate::Stopping(_)) {
                    stopping.get_or_insert(at_once);
                }
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
        stopping = Some(at_once);
        processes.retain(|(known, ..)| *known != part);
    }
    let found = if fates.contains(&Fate::Empty) {
        Found::Over(fates)
    } else {
        Found::Live { spawn: contract.spawn(), stopping, part: newest, fates }
    };
    (left.found, left.known) = (Some(found), Some((hold, stop)));
    Some(left)
}

#[cfg(test)]
mod tests {
    use super::*;
    use sterna_model::payload::{Exit, To};

    use crate::guardian::words::WhyWord;

    const STOP: StopSignal = StopSignal { signal: 15, to: To::Group };

    struct Scratch(PathBuf, RunId);

    impl Scratch {
        fn new(name: &str) -> (Self, Journal) {
            let path =
                std::env::temp_dir().join(format!("sterna-kept-{}-{name}", std::process::id()));
            let run: RunId = "run-00000000000170008000000000000001".parse().unwrap();
            fs::create_dir_all(path.join(RUNS).join(run.to_string())).unwrap();
            let contract = ContractWord { stop_after_ms: None, is_kept: true };
            let first = Entry::Run { boot: "b".to_owned(), contract, hold: Hold::Tree, stop: STOP };
            let journal = Journal::create(&path, run, &first).unwrap();
            (Self(path, run), journal)
        }

        fn left(&self) -> Left {
            left(&self.0, "b").unwrap().pop().unwrap()
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            drop(fs::remove_dir_all(&self.0));
        }
    }

    fn part(number: u32, role: RoleWord) -> Entry {
        Entry::Part { part: number, role, pid: 7, began: Some(9), is_runtime: false }
    }

    #[test]
    fn what_is_added_after_a_torn_line_is_read() {
        let (scratch, mut journal) = Scratch::new("torn");
        journal.add(&part(0, RoleWord::Main)).unwrap();
        let text = path(&scratch.0, scratch.1);
        let mut file = OpenOptions::new().append(true).open(&text).unwrap();
        file.write_all(b"{\"fate\":{\"sto").unwrap();
        let mut left = scratch.left();
        assert_eq!(left.processes.len(), 1);
        let exit = Exit::Code(0);
        for fate in [
            FateWord::Stopping { why: WhyWord::Deadline },
            FateWord::Exited { part: 0, exit, cpu_us: 0, peak_bytes: 0 },
            FateWord::Empty,
        ] {
            left.journal.add(&Entry::Fate(fate)).unwrap();
        }
        let Some(Found::Over(fates)) = scratch.left().found else { panic!("its end is lost") };
        assert_eq!(fates.len(), 3);
    }

    /// Its worker may not have heard of it, and another one never has.
    #[test]
    fn what_became_of_a_run_that_is_not_over_is_read() {
        let (scratch, mut journal) = Scratch::new("fates");
        journal.add(&part(0, RoleWord::Main)).unwrap();
        let exit = Exit::Code(3);
        let words = [
            FateWord::Stopping { why: WhyWord::Deadline },
            FateWord::Exited { part: 0, exit, cpu_us: 0, peak_bytes: 0 },
        ];
        journal.add_all(&words.clone().map(Entry::Fate)).unwrap();
        let left = scratch.left();
        let Some(Found::Live { fates, stopping, .. }) = left.found else { panic!("{left:?}") };
        assert_eq!(fates, words.map(|word| word.fate()));
        assert_eq!(stopping, Some(Stopping { kill_at: None }), "why says that, too");
        assert_eq!((left.processes.len(), left.numbers[&Part::new(0)]), (0, 7));
    }

    #[test]
    fn a_spare_file_becomes_a_journal_once() {
        let (scratch, journal) = Scratch::new("spare");
        let (at, first) = (path(&scratch.0, scratch.1), Entry::Stopping);
        let spare = at.with_file_name(SPARE_JOURNAL);
        fs::write(&spare, "\n").unwrap();
        assert!(Journal::create(&scratch.0, scratch.1, &first).is_err(), "it is marked");
        assert!(spare.exists());
        drop(journal);
        fs::remove_file(&at).unwrap();
        drop(Journal::create(&scratch.0, scratch.1, &first).unwrap());
        assert!(!spare.exists());
        assert!(Journal::create(&scratch.0, scratch.1, &first).is_err(), "it is marked again");
        let (opened, text) = Journal::open(&scratch.0, scratch.1).unwrap();
        assert_eq!((text.trim(), opened.length), ("\"stopping\"", 12));
    }

    #[test]
    fn probes_that_are_over_do_not_stay() {
        let (scratch, mut journal) = Scratch::new("probes");
        journal.add(&part(0, RoleWord::Main)).unwrap();
        for number in 1..200 {
            journal.add(&part(number, RoleWord::Probe)).unwrap();
            journal.drop_probe(Part::new(number));
        }
        journal.add(&Entry::Stopping).unwrap();
        let length = fs::metadata(path(&scratch.0, scratch.1)).unwrap().len();
        assert_eq!(length, journal.length);
        let left = scratch.left();
        assert!(left.processes.len() < GONE_MAX, "{} are left", left.processes.len());
        assert_eq!(
            left.processes[0],
            (Part::new(0), RoleWord::Main, Process { pid: 7, began: Some(9) })
        );
        assert!(matches!(left.found, Some(Found::Live { stopping: Some(_), .. })));
    }

    /// An earlier version reads as far as it understands, and kills at once.
    #[test]
    fn when_a_run_is_killed_is_read() {
        let (scratch, mut journal) = Scratch::new("kill-at");
        let stopping = || match scratch.left().found {
            Some(Found::Live { stopping, .. }) => stopping,
            Some(Found::Over(_)) | None => panic!("it lives"),
        };
        journal.add(&part(0, RoleWord::Main)).unwrap();
        assert_eq!(stopping(), None);
        let fate = Entry::Fate(FateWord::Stopping { why: WhyWord::Deadline });
        journal.add_all(&[fate, Entry::Stopping, Entry::KillAt { boot_ms: 900 }]).unwrap();
        journal.add(&Entry::KillAt { boot_ms: 700 }).unwrap();
        assert_eq!(stopping(), Some(Stopping { kill_at: Some(BootTime::from_millis(700)) }));
        journal.add(&Entry::Stopping).unwrap();
        assert_eq!(stopping(), Some(Stopping { kill_at: None }), "it was killed");
    }
}
