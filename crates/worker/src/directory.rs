//! The worker's data directory: whose it is, which life this is, and what lies where.
//!
//! ```text
//!   worker.lock     held by the worker        guardian.lock, .sock, .state, .log   the guardian's
//!   id, life        who this directory is     runs/<run>/   journal, work/, oci/,
//!                                               work.json, asked.json, status, end.json
//!                                             runs/.spare-<n>/   of a run that is over
//!   logs/           what runs wrote, and what was said of them, after their end, too
//! ```
//!
//! Invariant: one worker at a time has the directory open; the system lets go of its lock even if it
//! is killed. What it left is the guardian's until the next worker adopts it.

use std::{
    fs::{self, DirBuilder, File, TryLockError},
    io::{self, Write},
    os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
};

use sterna_model::{DirectoryId, Incarnation, Lock, MachineId, RunId};

use crate::{clock::wall_time, guardian::RUNS};

/// An open data directory.
#[derive(Debug)]
pub struct Directory {
    path: PathBuf,
    lock: Lock,
    life: u64,
    _locked: File,
}

/// Why a data directory cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DirectoryError {
    /// Another worker has it; stop that one, or use another directory.
    #[error("{path} is in use by another worker: stop that one, or use another directory")]
    InUse {
        /// The directory.
        path: PathBuf,
    },
    /// A file in it says something that cannot be.
    #[error("{path} is damaged: remove the directory if nothing in it is needed")]
    Damaged {
        /// The file.
        path: PathBuf,
    },
    /// It cannot be read or written.
    #[error("cannot use {path}{}", remedy(.error))]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// Why.
        #[source]
        error: io::Error,
    },
}

/// Makes a file that nobody else may open, or opens one that is there and makes it so.
pub(crate) fn private(path: &Path) -> io::Result<File> {
    let mut options = File::options();
    let file = options.write(true).create(true).truncate(true).mode(0o600).open(path)?;
    file.set_permissions(fs::Permissions::from_mode(0o600))?;
    Ok(file)
}

impl Directory {
    /// Opens the directory, makes it if it is not there, and begins a new life in it.
    ///
    /// # Errors
    /// Another worker has it, or it cannot be used.
    pub fn open(path: &Path) -> Result<Self, DirectoryError> {
        let of_io = |path: &Path| {
            let path = path.to_owned();
            move |error| DirectoryError::Io { path, error }
        };
        let mut builder = DirBuilder::new();
        builder.recursive(true).mode(0o711).create(path.join(RUNS)).map_err(of_io(path))?;
        let path = fs::canonicalize(path).map_err(of_io(path))?;
        let at = path.join("worker.lock");
        // For us alone: whoever may open it may lock it.
        let locked = private(&at).map_err(of_io(&at))?;
        match locked.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(DirectoryError::InUse { path }),
            Err(TryLockError::Error(error)) => return Err(DirectoryError::Io { path: at, error }),
        }
        let directory = id(&path)?;
        let lock = Lock { directory, machine: machine(directory) };
        let mut opened = Self { path, lock, life: 0, _locked: locked };
        opened.be_reborn()?;
        Ok(opened)
    }

    /// Raises the counter of lives, and makes sure of it before it is used.
    ///
    /// # Errors
    /// It cannot be written: no life may then begin.
    pub fn be_reborn(&mut self) -> Result<Incarnation, DirectoryError> {
        let path = self.path.join("life");
        let before = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => "0".to_owned(),
            Err(error) => return Err(DirectoryError::Io { path, error }),
        };
        let count: u64 =
            before.trim().parse().map_err(|_| DirectoryError::Damaged { path: path.clone() })?;
        let life = count + 1;
        // Of one length for every number, so that the next is written over it on a full disk, too.
        let text = format!("{life:020}\n");
        let is_written = if text.len() == before.len() {
            write_over(&path, &text)
        } else {
            write_synced(&path, &text)
        };
        is_written.map_err(|error| DirectoryError::Io { path, error })?;
        self.life = life;
        Ok(self.incarnation())
    }

    /// Who this worker is now.
    pub const fn incarnation(&self) -> Incarnation {
        Incarnation { lock: self.lock, life: self.life }
    }

    /// Where everything lies in it.
    pub(crate) fn layout(&self) -> Layout {
        // Ids begin with the time of their making; the end is random.
        let id = self.lock.directory.to_string();
        let group = format!("sterna-{}", &id[id.len() - 12..]);
        Layout { path: self.path.clone(), group }
    }
}

/// What lies where in a data directory.
#[derive(Clone, Debug)]
pub(crate) struct Layout {
    pub(crate) path: PathBuf,
    /// The name of our cgroups.
    pub(crate) group: String,
}

impl Layout {
    /// Everything of one run.
    pub(crate) fn run(&self, run: RunId) -> PathBuf {
        self.path.join(RUNS).join(run.to_string())
    }

    /// The runs of which anything is there.
    pub(crate) fn runs(&self) -> Vec<RunId> {
        let entries = fs::read_dir(self.path.join(RUNS)).into_iter().flatten().flatten();
        entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
    }
}

fn id(path: &Path) -> Result<DirectoryId, DirectoryError> {
    let path = path.join("id");
    let of_io = |error| DirectoryError::Io { path: path.clone(), error };
    match fs::read_to_string(&path) {
        Ok(text) => text.trim().parse().map_err(|_| DirectoryError::Damaged { path: path.clone() }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let id = DirectoryId::from_parts(wall_time(), random().map_err(of_io)?);
            write_synced(&path, &format!("{id}\n")).map_err(of_io)?;
            Ok(id)
        }
        Err(error) => Err(of_io(error)),
    }
}

/// The machine's own id; where it has none, the directory's stands for both.
fn machine(directory: DirectoryId) -> MachineId {
    let text = fs::read_to_string("/etc/machine-id").unwrap_or_default();
    let named = format!("machine-{}", text.trim()).parse::<MachineId>().ok();
    let own = || MachineId::from_bytes(*directory.as_bytes()).ok();
    named.or_else(own).expect("an id that was drawn is not all zeros")
}

/// Random bytes from the system.
pub(crate) fn random<const N: usize>() -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    let count = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())?;
    if count == N { Ok(bytes) } else { Err(io::Error::other("no randomness")) }
}

/// For people.
fn remedy(error: &io::Error) -> &'static str {
    let is_full =
        [io::ErrorKind::StorageFull, io::ErrorKind::QuotaExceeded].contains(&error.kind());
    if is_full { "; make room there" } else { "" }
}

/// Writes a text over one that is as long. It needs no room; it is less than a disk writes at once,
/// so that the file is whole, old or new, whenever the machine stops.
fn write_over(path: &Path, text: &str) -> io::Result<()> {
    let file = File::options().write(true).open(path)?;
    file.write_all_at(text.as_bytes(), 0)?;
    file.sync_all()
}

/// The file is whole, old or new, whenever the machine stops.
fn write_synced(path: &Path, text: &str) -> io::Result<()> {
    let draft = path.with_extension("draft");
    let mut file = File::create(&draft)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    fs::rename(&draft, path)?;
    path.parent().map_or(Ok(()), |parent| File::open(parent)?.sync_all())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(name: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("sterna-{name}-{}", std::process::id()));
        drop(fs::remove_dir_all(&path));
        path
    }

    #[test]
    fn each_life_is_later_and_the_directory_stays_who_it_is() {
        let path = place("lives");
        let mut one = Directory::open(&path).unwrap();
        let first = one.incarnation();
        let second = one.be_reborn().unwrap();
        assert_eq!((second.life, second.lock), (first.life + 1, first.lock));
        drop(one);
        let third = Directory::open(&path).unwrap().incarnation();
        assert_eq!((third.life, third.lock), (first.life + 2, first.lock));
        fs::remove_dir_all(path).unwrap();
    }

    #[test]
    fn two_workers_do_not_share_a_directory() {
        let path = place("shared");
        let one = Directory::open(&path).unwrap();
        assert!(matches!(Directory::open(&path), Err(DirectoryError::InUse { .. })));
        drop(one);
        Directory::open(&path).unwrap();
        fs::remove_dir_all(path).unwrap();
    }

    #[test]
    fn a_damaged_counter_is_not_begun_anew() {
        let path = place("damaged");
        drop(Directory::open(&path).unwrap());
        fs::write(path.join("life"), "many").unwrap();
        assert!(matches!(Directory::open(&path), Err(DirectoryError::Damaged { .. })));
        fs::remove_dir_all(path).unwrap();
    }

    #[test]
    fn a_full_disk_does_not_keep_the_next_life_from_beginning() {
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let disk = place("full");
        fs::create_dir(&disk).unwrap();
        let run = |program: &str, arguments: &[&str]| {
            let mut command = std::process::Command::new(program);
            command.args(arguments).arg(&disk).status().is_ok_and(|it| it.success())
        };
        if !run("mount", &["-t", "tmpfs", "-o", "size=64k", "tmpfs"]) {
            return;
        }
        let path = disk.join("data");
        let lives = (|| {
            let mut one = Directory::open(&path)?;
            let first = one.incarnation().life;
            let mut blocker = File::create(disk.join("blocker")).unwrap();
            while blocker.write_all(&[1]).is_ok() {}
            let second = one.be_reborn()?.life;
            drop(one);
            Ok([first, second, Directory::open(&path)?.incarnation().life])
        })();
        let new = Directory::open(&disk.join("new"));
        assert!(run("umount", &["--lazy"]));
        fs::remove_dir(disk).unwrap();
        assert_eq!(lives.map_err(|error: DirectoryError| error.to_string()), Ok([1, 2, 3]));
        let refused = new.unwrap_err().to_string();
        assert!(refused.ends_with("/new/id; make room there"), "{refused}");
    }

    #[test]
    fn a_counter_of_an_earlier_form_is_counted_on() {
        let path = place("earlier");
        drop(Directory::open(&path).unwrap());
        fs::write(path.join("life"), "41\n").unwrap();
        assert_eq!(Directory::open(&path).unwrap().incarnation().life, 42);
        assert_eq!(Directory::open(&path).unwrap().incarnation().life, 43);
        fs::remove_dir_all(path).unwrap();
    }
}
