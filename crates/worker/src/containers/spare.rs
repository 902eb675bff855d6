//! Directories of runs that are over, for those that come: a file system takes longer to make and to
//! remove files than to rename them.
//!
//! ```text
//!   runs/<run>/ ── over, and as it was made ──▶ runs/.spare-<n>/ ── rename ──▶ runs/<next run>/
//!     journal                                     journal.spare     guardian     journal
//! ```
//!
//! Invariant: what comes out has an empty work directory of the worker's own, as what is made; its
//! journal has an empty line, and the worker's two files name another run, so that nobody believes
//! them. Whatever else is found in a directory, it is removed and not used again.
//!
//! Invariant: a journal is no journal while it is spare. The guardian alone makes it one, by a rename
//! that fails if there is one (safety rule 13).

use std::{
    fs, io,
    mem::MaybeUninit,
    os::fd::OwnedFd,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use rustix::{
    fs::{
        CWD, FileType, IFlags, Mode, OFlags, RawDir, RenameFlags, ResolveFlags, flistxattr, fstat,
        ftruncate, ioctl_getflags, openat2, renameat, renameat_with,
    },
    io::{Errno, pwrite},
    process::{getegid, geteuid},
};

use crate::guardian::{JOURNAL, SPARE_JOURNAL};

/// So many are kept.
const KEPT_MAX: usize = 64;
const PREFIX: &str = ".spare-";
/// The fresh directory of a run, in its own.
pub(super) const WORK: &str = "work";
/// What a worker writes of a run, with its name.
const FILES: [&str; 2] = [super::stored::WORK, super::stored::END];

/// Directories to be used again.
#[derive(Clone, Debug, Default)]
pub(super) struct Spares {
    kept: Arc<Mutex<Vec<PathBuf>>>,
    next: Arc<AtomicU64>,
}

impl Spares {
    /// Takes the directory of a run that is over, if it is as it was made; gives whether it has.
    ///
    /// # Errors
    /// It cannot be told, or something was in the way: it is to be removed.
    pub(super) fn keep(&self, directory: &Path) -> io::Result<bool> {
        if self.lock().len() >= KEPT_MAX {
            return Ok(false);
        }
        let opened = open(CWD, directory, OFlags::RDONLY | OFlags::DIRECTORY)?;
        if !is_as_made(&opened)? {
            return Ok(false);
        }
        spare_journal(&opened)?;
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let spare = directory.with_file_name(format!("{PREFIX}{number}"));
        renameat_with(CWD, directory, CWD, &spare, RenameFlags::NOREPLACE)?;
        self.lock().push(spare);
        Ok(true)
    }

    /// Makes one of them the directory of a run; gives whether there was one.
    pub(super) fn take(&self, directory: &Path) -> bool {
        let Some(spare) = self.lock().pop() else { return false };
        renameat_with(CWD, &spare, CWD, directory, RenameFlags::NOREPLACE).is_ok()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<PathBuf>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Makes the journal of a run that is over one that is spare.
pub(crate) fn spare_journal(directory: &OwnedFd) -> io::Result<()> {
    let journal = open(directory, Path::new(JOURNAL), OFlags::WRONLY)?;
    // Not to nothing at all: some file systems write that to the disk when it is closed.
    pwrite(&journal, b"\n", 0)?;
    ftruncate(&journal, 1)?;
    Ok(renameat(directory, JOURNAL, directory, SPARE_JOURNAL)?)
}

/// What an earlier worker has kept, which nobody knows any more.
pub(super) fn left(runs: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(runs).into_iter().flatten().flatten();
    let spares = entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(PREFIX));
    spares.map(|entry| entry.path()).collect()
}

fn open(at: impl std::os::fd::AsFd, path: &Path, flags: OFlags) -> io::Result<OwnedFd> {
    let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    // Nothing of a run is a link or a mount, unless its work has made it so.
    let resolve = if path.is_absolute() { ResolveFlags::empty() } else { ResolveFlags::NO_XDEV };
    Ok(openat2(at, path, flags, Mode::empty(), resolve)?)
}

/// Whether nothing but what a worker and its guardian make is in it, and its work directory is empty.
fn is_as_made(directory: &OwnedFd) -> io::Result<bool> {
    let mut count = 0;
    let mut room = [MaybeUninit::uninit(); 1024];
    let mut entries = RawDir::new(directory, &mut room);
    while let Some(entry) = entries.next() {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        let is_file = entry.file_type() == FileType::RegularFile;
        let is_known = FILES.into_iter().chain([JOURNAL]).any(|known| known.as_bytes() == name);
        match name {
            b"." | b".." => {}
            _ if is_known && is_file => count += 1,
            _ if name == WORK.as_bytes() => {}
            _ => return Ok(false),
        }
    }
    if count != FILES.len() + 1 {
        return Ok(false);
    }
    let work = open(directory, Path::new(WORK), OFlags::RDONLY | OFlags::DIRECTORY)?;
    let mut entries = RawDir::new(&work, &mut room);
    while let Some(entry) = entries.next() {
        match entry?.file_name().to_bytes() {
            b"." | b".." => {}
            _ => return Ok(false),
        }
    }
    let found = fstat(&work)?;
    let is_ours = found.st_uid == geteuid().as_raw() && found.st_gid == getegid().as_raw();
    let has_attributes = match flistxattr(&work, &mut [0_u8; 256]) {
        // A file system without attributes has none.
        Ok(0) | Err(Errno::OPNOTSUPP) => false,
        Ok(_) | Err(_) => true,
    };
    let is_flagged = flags(&work)? != flags(directory)?;
    Ok(is_ours && found.st_mode & 0o7777 == 0o700 && !has_attributes && !is_flagged)
}

/// What `chattr` has put on a directory, such as that nothing in it may be changed. One that is made
/// has those of the directory above it.
fn flags(directory: &OwnedFd) -> io::Result<IFlags> {
    // How the file system itself stores it: an index, extents, or in the inode.
    let stored = IFlags::from_bits_retain(0x1000_0000 | 0x0008_0000 | 0x0000_1000);
    match ioctl_getflags(directory) {
        Ok(flags) => Ok(flags.difference(stored)),
        // A file system without them has none.
        Err(Errno::NOTTY | Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) => Ok(IFlags::empty()),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{DirBuilderExt, PermissionsExt, chown, symlink};

    use super::*;

    fn flag(run: &Path, flag: IFlags) {
        let work = fs::File::open(run.join(WORK)).unwrap();
        // A file system without them cannot be changed so.
        match ioctl_getflags(&work) {
            Ok(flags) => rustix::fs::ioctl_setflags(&work, flags | flag).unwrap(),
            Err(_) => fs::write(run.join("work/file"), "").unwrap(),
        }
    }

    /// So that it can be removed.
    fn unflag(run: &Path) {
        let Ok(work) = open(CWD, &run.join(WORK), OFlags::RDONLY | OFlags::DIRECTORY) else {
            return;
        };
        if let Ok(flags) = ioctl_getflags(&work) {
            let ours = IFlags::IMMUTABLE | IFlags::APPEND;
            if flags.intersects(ours) {
                rustix::fs::ioctl_setflags(&work, flags - ours).unwrap();
            }
        }
    }

    /// Something that work does to the directory of its run.
    type Change = fn(&Path);

    struct Scratch(PathBuf);

    impl Scratch {
        fn new(name: &str) -> Self {
            let path =
                std::env::temp_dir().join(format!("sterna-spare-{}-{name}", std::process::id()));
            drop(fs::remove_dir_all(&path));
            fs::create_dir_all(&path).unwrap();
            Self(path)
        }

        /// The directory of a run, as it is when the run is over.
        fn run(&self, name: &str) -> PathBuf {
            let path = self.0.join(name);
            fs::create_dir(&path).unwrap();
            fs::DirBuilder::new().mode(0o700).create(path.join(WORK)).unwrap();
            for file in FILES.into_iter().chain([JOURNAL]) {
                fs::write(path.join(file), "of an earlier run").unwrap();
            }
            path
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            drop(fs::remove_dir_all(&self.0));
        }
    }

    #[test]
    fn what_is_used_again_is_as_what_is_made() {
        let scratch = Scratch::new("again");
        let (spares, next) = (Spares::default(), scratch.0.join("next"));
        assert!(!spares.take(&next), "there is none yet");
        let over = scratch.run("over");
        assert!(spares.keep(&over).unwrap());
        assert!(!over.exists());
        assert_eq!(left(&scratch.0).len(), 1);
        assert!(spares.take(&next));
        assert!(!next.join(JOURNAL).exists(), "it has no journal before its guardian makes it");
        assert_eq!(fs::read(next.join(SPARE_JOURNAL)).unwrap(), b"\n");
        assert_eq!(fs::read_dir(next.join(WORK)).unwrap().count(), 0);
        assert!(left(&scratch.0).is_empty());
    }

    #[test]
    fn nobody_takes_the_place_of_another() {
        let scratch = Scratch::new("place");
        let spares = Spares::default();
        assert!(spares.keep(&scratch.run("over")).unwrap());
        let next = scratch.run("next");
        assert!(!spares.take(&next));
        assert_eq!(fs::read(next.join(JOURNAL)).unwrap(), b"of an earlier run");
    }

    #[test]
    fn no_more_are_kept_than_are_of_use() {
        let scratch = Scratch::new("many");
        let spares = Spares::default();
        for number in 0..KEPT_MAX {
            assert!(spares.keep(&scratch.run(&number.to_string())).unwrap());
        }
        let one_more = scratch.run("more");
        assert!(!spares.keep(&one_more).unwrap());
        assert!(one_more.exists(), "it is left to whoever removes it");
    }

    #[test]
    fn what_work_has_changed_is_not_used_again() {
        let scratch = Scratch::new("changed");
        let spares = Spares::default();
        let changes: [(&str, Change); 12] = [
            ("a file", |run| fs::write(run.join("work/file"), "").unwrap()),
            ("a mode", |run| {
                fs::set_permissions(run.join(WORK), fs::Permissions::from_mode(0o755)).unwrap();
            }),
            ("an owner", |run| chown(run.join(WORK), Some(65_534), None).unwrap()),
            ("a group", |run| chown(run.join(WORK), None, Some(65_534)).unwrap()),
            ("an attribute", |run| {
                let flags = rustix::fs::XattrFlags::empty();
                rustix::fs::setxattr(run.join(WORK), "trusted.sterna", b"1", flags).unwrap();
            }),
            ("what may not be changed", |run| flag(run, IFlags::IMMUTABLE)),
            ("what is only added to", |run| flag(run, IFlags::APPEND)),
            ("a directory for a file", |run| {
                fs::remove_file(run.join(super::super::stored::END)).unwrap();
                fs::create_dir(run.join(super::super::stored::END)).unwrap();
            }),
            ("another file", |run| fs::write(run.join("status"), "").unwrap()),
            ("no end", |run| fs::remove_file(run.join(super::super::stored::END)).unwrap()),
            ("a link", |run| {
                fs::remove_file(run.join(JOURNAL)).unwrap();
                symlink("/etc/passwd", run.join(JOURNAL)).unwrap();
            }),
            ("a link for a directory", |run| {
                fs::remove_dir(run.join(WORK)).unwrap();
                symlink("/", run.join(WORK)).unwrap();
            }),
        ];
        for (what, change) in changes {
            let run = scratch.run("run");
            change(&run);
            let is_kept = spares.keep(&run).unwrap_or(false);
            let found = if is_kept { left(&scratch.0).remove(0) } else { run.clone() };
            unflag(&found);
            assert!(!is_kept, "{what}");
            fs::remove_dir_all(&run).unwrap();
        }
        assert!(left(&scratch.0).is_empty());
    }
}
