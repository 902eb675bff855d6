//! What a worker keeps for its next life: the runs that it has, and what it has seen of the store.
//!
//! ```text
//!   held/<run>.json    written before the run begins, removed when its end was acknowledged
//!   seen.json          its cluster, the highest mandate and revision, the limits that it goes by
//! ```
//!
//! A file is whole, or the run in it never began: it is written before anything follows from it.

use std::{
    fs::{self, File},
    io::{self, Write},
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};
use sterna_model::{
    ClusterId, Contract, Epoch, Nonce, Revision, RunId, Span, TaskIncarnation, Term, WorkKey,
};
use sterna_protocol::{
    limits::Limits,
    message::{Held, Mandate},
};

const HELD: &str = "held";
const SEEN: &str = "seen.json";
/// So much must have room, or nothing more is taken.
const PROBE_BYTES: usize = 64 * 1024;
/// The same, as the file system counts it.
const ROOM_BYTES: u64 = 64 * 1024;
/// A run makes so many files and directories before it begins.
const FILES: u64 = 16;

/// What is kept of the leader and the store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// The highest that was seen.
    pub seen: Option<(Mandate, Revision)>,
    /// The limits that the last life went by.
    pub limits: Option<Limits>,
}

/// A run that an earlier life has accepted, and of which nobody has acknowledged the end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kept {
    /// The boot in which it was accepted.
    pub boot: String,
    /// The run; without a status.
    pub held: Held,
}

/// The files.
#[derive(Debug)]
pub(super) struct Table {
    path: PathBuf,
    boot: String,
    memory: Memory,
}

impl Table {
    /// Opens the table of a data directory, with what earlier lives have left. A file that is not
    /// whole is of a run that never began.
    pub(super) fn open(path: &Path, boot: String) -> io::Result<(Self, Memory, Vec<Kept>)> {
        fs::create_dir_all(path.join(HELD))?;
        let memory = match fs::read(path.join(SEEN)) {
            Ok(bytes) => Memory::from(serde_json::from_slice::<SeenFile>(&bytes)?),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Memory::default(),
            Err(error) => return Err(error),
        };
        let table = Self { path: path.to_owned(), boot, memory };
        let mut kept = Vec::new();
        for entry in fs::read_dir(path.join(HELD))? {
            let at = entry?.path();
            match serde_json::from_slice::<HeldFile>(&fs::read(&at)?) {
                Ok(file) => kept.push(file.into()),
                Err(_) => fs::remove_file(&at)?,
            }
        }
        kept.sort_by_key(|kept: &Kept| kept.held.run);
        Ok((table, memory, kept))
    }

    fn at(&self, run: RunId) -> PathBuf {
        self.path.join(HELD).join(format!("{run}.json"))
    }

    /// Keeps runs; gives those that could not be kept, of which nothing is left.
    pub(super) fn hold_all(&self, runs: &[Held]) -> Vec<(RunId, io::Error)> {
        let mut failed = Vec::new();
        for held in runs {
            if let Err(error) = self.has_room().and_then(|()| self.hold(held)) {
                // What is left of it says nothing: the next life takes it for torn.
                drop(fs::remove_file(self.at(held.run)));
                failed.push((held.run, error));
            }
        }
        failed
    }

    /// Keeps a run. It outlives this process; after the end of the machine nothing of it would.
    fn hold(&self, held: &Held) -> io::Result<()> {
        let bytes = serde_json::to_vec(&HeldFile::of(&self.boot, held))?;
        fs::write(self.at(held.run), bytes)
    }

    /// Whether there is room for a run: its place in the table, and the directories that it begins in.
    fn has_room(&self) -> io::Result<()> {
        let disk = rustix::fs::statvfs(&self.path)?;
        // A file system without bounds tells none of both.
        let is_short = |all: u64, left: u64, least: u64| all > 0 && left < least;
        let left = disk.f_bfree.saturating_mul(disk.f_frsize);
        if is_short(disk.f_blocks, left, ROOM_BYTES) || is_short(disk.f_files, disk.f_ffree, FILES)
        {
            return Err(rustix::io::Errno::NOSPC.into());
        }
        Ok(())
    }

    /// Whether something can still be kept: some blocks more than the next run needs.
    pub(super) fn probe(&self) -> io::Result<()> {
        self.has_room()?;
        // Where runs are kept: who can write elsewhere only must not be given any.
        let at = self.path.join(HELD).join(".probe");
        let written = fs::write(&at, [0; PROBE_BYTES]);
        // On a full disk what was written of it is given back.
        drop(fs::remove_file(&at));
        written
    }

    /// Forgets a run.
    pub(super) fn forget(&self, run: RunId) -> io::Result<()> {
        match fs::remove_file(self.at(run)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            Ok(()) | Err(_) => Ok(()),
        }
    }

    /// Keeps what was seen of the store. A new leader is remembered even if the machine stops now; a
    /// newer revision of the same one, at least if this process does.
    pub(super) fn remember(&mut self, memory: Memory) -> io::Result<()> {
        let leader = |memory: &Memory| memory.seen.map(|(mandate, _)| mandate);
        let is_small =
            leader(&self.memory) == leader(&memory) && self.memory.limits == memory.limits;
        let draft = self.path.join("seen.draft");
        let mut file = File::create(&draft)?;
        file.write_all(&serde_json::to_vec_pretty(&SeenFile::from(memory))?)?;
        if !is_small {
            file.sync_all()?;
        }
        fs::rename(&draft, self.path.join(SEEN))?;
        if !is_small {
            File::open(&self.path)?.sync_all()?;
        }
        self.memory = memory;
        Ok(())
    }
}

#[derive(Serialize, Deserialize)]
struct HeldFile {
    boot: String,
    run: RunId,
    key: WorkKey,
    task: Option<TaskIncarnation>,
    contract: ContractWord,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum ContractWord {
    Replace(Span),
    Stop(Span),
    Keep,
}

impl HeldFile {
    fn of(boot: &str, held: &Held) -> Self {
        let Held { run, key, task, contract, status: _ } = held.clone();
        let contract = match contract {
            Contract::Replace { after } => ContractWord::Replace(after),
            Contract::Stop { after } => ContractWord::Stop(after),
            Contract::Keep => ContractWord::Keep,
        };
        Self { boot: boot.to_owned(), run, key, task, contract }
    }
}

impl From<HeldFile> for Kept {
    fn from(file: HeldFile) -> Self {
        let HeldFile { boot, run, key, task, contract } = file;
        let contract = match contract {
            ContractWord::Replace(after) => Contract::Replace { after },
            ContractWord::Stop(after) => Contract::Stop { after },
            ContractWord::Keep => Contract::Keep,
        };
        Self { boot, held: Held { run, key, task, contract, status: None } }
    }
}

#[derive(Serialize, Deserialize)]
struct SeenFile {
    seen: Option<SeenWord>,
    limits: Option<LimitsWord>,
}

#[derive(Serialize, Deserialize)]
struct SeenWord {
    cluster: ClusterId,
    epoch: Epoch,
    term: Term,
    nonce: u64,
    revision: Revision,
}

#[derive(Serialize, Deserialize)]
struct LimitsWord {
    version: u64,
    heartbeat_every: Span,
    heartbeat_grace: Span,
    check_every: Span,
    check_grace: Span,
    judge_every: Span,
    lose_after: Span,
    kill_wait: Span,
    batch_stop_after_max: Span,
    stop_after_max: Span,
    has_kept_batches: bool,
    /// Not said by earlier builds.
    #[serde(default)]
    has_kept_claims: bool,
}

impl From<Memory> for SeenFile {
    fn from(memory: Memory) -> Self {
        let seen = memory.seen.map(|(mandate, revision)| {
            let Mandate { cluster, epoch, term, nonce } = mandate;
            SeenWord { cluster, epoch, term, nonce: nonce.get(), revision }
        });
        let limits = memory.limits.map(|limits| LimitsWord {
            version: limits.version,
            heartbeat_every: limits.heartbeat_every,
            heartbeat_grace: limits.heartbeat_grace,
            check_every: limits.check_every,
            check_grace: limits.check_grace,
            judge_every: limits.judge_every,
            lose_after: limits.lose_after,
            kill_wait: limits.kill_wait,
            batch_stop_after_max: limits.batch_stop_after_max,
            stop_after_max: limits.stop_after_max,
            has_kept_batches: limits.has_kept_batches,
            has_kept_claims: limits.has_kept_claims,
        });
        Self { seen, limits }
    }
}

impl From<SeenFile> for Memory {
    fn from(file: SeenFile) -> Self {
        let seen = file.seen.map(|SeenWord { cluster, epoch, term, nonce, revision }| {
            (Mandate { cluster, epoch, term, nonce: Nonce::new(nonce) }, revision)
        });
        let limits = file.limits.map(|limits| Limits {
            version: limits.version,
            heartbeat_every: limits.heartbeat_every,
            heartbeat_grace: limits.heartbeat_grace,
            check_every: limits.check_every,
            check_grace: limits.check_grace,
            judge_every: limits.judge_every,
            lose_after: limits.lose_after,
            kill_wait: limits.kill_wait,
            batch_stop_after_max: limits.batch_stop_after_max,
            stop_after_max: limits.stop_after_max,
            has_kept_batches: limits.has_kept_batches,
            has_kept_claims: limits.has_kept_claims,
        });
        Self { seen, limits }
    }
}

#[cfg(test)]
mod tests {
    use sterna_model::WallTime;

    use super::*;

    struct Place(PathBuf);

    impl Place {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("sterna-{name}-{}", std::process::id()));
            drop(fs::remove_dir_all(&path));
            fs::create_dir_all(&path).unwrap();
            Self(path)
        }

        fn open(&self) -> (Table, Memory, Vec<Kept>) {
            Table::open(&self.0, "b1".to_owned()).unwrap()
        }
    }

    impl Drop for Place {
        fn drop(&mut self) {
            drop(fs::remove_dir_all(&self.0));
        }
    }

    fn held(number: u8, key: &str, contract: Contract) -> Held {
        let run = RunId::from_parts(WallTime::EPOCH, [number; 10]);
        let task = Some(TaskIncarnation::from_parts(WallTime::EPOCH, [number; 10]));
        Held { run, key: key.parse().unwrap(), task, contract, status: None }
    }

    #[test]
    fn runs_are_kept_until_they_are_forgotten() {
        let place = Place::new("held");
        let (table, memory, kept) = place.open();
        assert_eq!((memory, kept), (Memory::default(), Vec::new()));
        let all = [
            held(1, "default/task/a", Contract::Stop { after: Span::from_secs(9) }),
            held(2, "default/service/web/3", Contract::Replace { after: Span::from_secs(1) }),
            held(3, "other/batch/x/db%2F7", Contract::Keep),
        ];
        all.iter().for_each(|held| table.hold(held).unwrap());
        let (table, _, kept) = place.open();
        let expected = all.clone().map(|held| Kept { boot: "b1".to_owned(), held });
        assert_eq!(kept, expected);
        table.forget(all[0].run).unwrap();
        table.forget(all[0].run).unwrap();
        assert_eq!(place.open().2, expected[1..]);
    }

    #[test]
    fn a_file_that_is_not_whole_is_of_a_run_that_never_began() {
        let place = Place::new("torn");
        let (table, ..) = place.open();
        let one = held(1, "default/task/a", Contract::Keep);
        table.hold(&one).unwrap();
        let at = table.at(one.run);
        let whole = fs::read(&at).unwrap();
        fs::write(&at, &whole[..whole.len() / 2]).unwrap();
        assert_eq!(place.open().2, []);
        assert!(!at.exists());
    }

    #[test]
    fn a_table_that_cannot_be_written_to_says_so() {
        let place = Place::new("probe");
        let (table, ..) = place.open();
        table.probe().unwrap();
        let at = place.0.join(HELD).join(".probe");
        assert!(!at.exists(), "nothing is left of it");
        // Nobody can write a file there.
        fs::create_dir(at).unwrap();
        assert!(table.probe().is_err());
    }

    #[test]
    fn what_cannot_be_kept_is_told_and_leaves_nothing() {
        let place = Place::new("unkept");
        let (table, ..) = place.open();
        let all = [1, 2].map(|number| held(number, "default/task/a", Contract::Keep));
        // Nobody can write a file there.
        fs::create_dir(table.at(all[0].run)).unwrap();
        let failed = table.hold_all(&all);
        let failed: Vec<RunId> = failed.into_iter().map(|(run, _)| run).collect();
        assert_eq!(failed, [all[0].run]);
        fs::remove_dir(table.at(all[0].run)).unwrap();
        let kept: Vec<RunId> = place.open().2.into_iter().map(|kept| kept.held.run).collect();
        assert_eq!(kept, [all[1].run]);
    }

    #[test]
    fn what_was_seen_is_remembered() {
        let place = Place::new("seen");
        let (mut table, ..) = place.open();
        let mandate = Mandate {
            cluster: ClusterId::from_parts(WallTime::EPOCH, [1; 10]),
            epoch: Epoch::new(1),
            term: Term::new(2),
            nonce: Nonce::new(u64::MAX),
        };
        let limits = Limits { version: 7, has_kept_batches: true, ..Limits::default() };
        for revision in [3, 4] {
            let seen = Some((mandate, Revision::new(revision)));
            let memory = Memory { seen, limits: Some(limits) };
            table.remember(memory).unwrap();
            assert_eq!(place.open().1, memory);
        }
    }

    #[test]
    fn what_was_seen_and_cannot_be_read_is_not_forgotten() {
        let place = Place::new("garbled");
        fs::write(place.0.join(SEEN), "{").unwrap();
        assert!(Table::open(&place.0, "b1".to_owned()).is_err());
    }
}
