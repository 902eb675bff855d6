//! Removes a directory with everything in it, whatever work has made there.
//!
//! Invariant: nothing is removed through a mount or a link. Work that may mount things can put any
//! directory of the machine into its own.
//!
//! Invariant: it takes the same memory for a tree of any depth. Work may nest directories deeper than
//! any stack, or any table of open files.

use std::{
    ffi::{CStr, CString},
    io,
    os::fd::{AsFd, AsRawFd, OwnedFd},
    path::Path,
};

use rustix::{
    fs::{
        AtFlags, CWD, Dir, FileType, Mode, OFlags, ResolveFlags, chmod, fchmod, fstat, openat2,
        unlinkat,
    },
    io::Errno,
    process::geteuid,
};

use super::walk::{self, below};

/// Removes it. One that is not there is no error.
///
/// # Errors
/// Something in it cannot be removed, or is mounted there; what came before it is gone.
pub(super) fn remove_directory(path: &Path) -> io::Result<()> {
    let mut current = match walk::enter(path) {
        Err(Errno::NOENT) => return Ok(()),
        Err(Errno::ACCESS) => {
            let _ = let_in(CWD, path, ResolveFlags::empty());
            walk::enter(path)?
        }
        opened => opened?,
    };
    // The way down: each name, and which directory it stands in.
    let mut way: Vec<(CString, Place)> = Vec::new();
    loop {
        let_change(&current)?;
        if let Some(name) = empty(&current)? {
            let place = place(&current)?;
            current = enter(&current, &name).map_err(|error| refuse(error, &name))?;
            way.push((name, place));
            continue;
        }
        let Some((name, place_above)) = way.pop() else { break };
        let above = below(&current, c"..")?;
        if place(&above)? != place_above {
            // Somebody has moved it: that is another tree.
            return Err(io::Error::other(format!("{name:?} was moved while it was removed")));
        }
        unlinkat(&above, &*name, AtFlags::REMOVEDIR).map_err(|error| refuse(error, &name))?;
        current = above;
    }
    Ok(unlinkat(CWD, path, AtFlags::REMOVEDIR)?)
}

/// Opens a directory in another one, whatever its owner, whom we are, may do there.
fn enter(at: &OwnedFd, name: &CStr) -> rustix::io::Result<OwnedFd> {
    match below(at, name) {
        Err(Errno::ACCESS) => {
            let _ = let_in(at, name, ResolveFlags::NO_XDEV | ResolveFlags::NO_SYMLINKS);
            below(at, name)
        }
        opened => opened,
    }
}

/// Lets us open a directory of our own that may not be read. Whether it could is seen by opening it.
fn let_in<P: rustix::path::Arg>(
    at: impl AsFd,
    name: P,
    resolve: ResolveFlags,
) -> rustix::io::Result<()> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let closed = openat2(at, name, flags, Mode::empty(), resolve)?;
    // A descriptor of what may not be read is taken by its name alone.
    chmod(format!("/proc/self/fd/{}", closed.as_raw_fd()), Mode::RWXU)
}

/// Lets us remove what is in a directory of our own, if work has kept its owner from that.
fn let_change(directory: &OwnedFd) -> io::Result<()> {
    let found = fstat(directory)?;
    let is_ours = found.st_uid == geteuid().as_raw();
    if is_ours && !Mode::from_raw_mode(found.st_mode).contains(Mode::RWXU) {
        fchmod(directory, Mode::RWXU)?;
    }
    Ok(())
}

/// Which directory it is, whatever it is called.
type Place = (u64, u64);

fn place(directory: &OwnedFd) -> io::Result<Place> {
    let found = fstat(directory)?;
    Ok((found.st_dev, found.st_ino))
}

/// Removes everything in it but directories that are not empty, and gives the first of those.
fn empty(directory: &OwnedFd) -> io::Result<Option<CString>> {
    let mut entries = Dir::read_from(directory)?;
    while let Some(entry) = walk::next(&mut entries) {
        let entry = entry?;
        let name = entry.file_name();
        let is_directory = match entry.file_type() {
            FileType::Directory => true,
            FileType::Unknown => {
                walk::look(directory, name)?.is_some_and(|found| walk::is_directory(&found))
            }
            FileType::RegularFile
            | FileType::Symlink
            | FileType::Fifo
            | FileType::Socket
            | FileType::CharacterDevice
            | FileType::BlockDevice => false,
        };
        let flags = if is_directory { AtFlags::REMOVEDIR } else { AtFlags::empty() };
        match unlinkat(directory, name, flags) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(Errno::NOTEMPTY | Errno::EXIST) if is_directory => {
                return Ok(Some(name.to_owned()));
            }
            Err(error) => return Err(refuse(error, name)),
        }
    }
    Ok(None)
}

/// For people: what is in the way, and what to do about it.
fn refuse(error: Errno, name: &CStr) -> io::Error {
    let name = name.to_string_lossy();
    io::Error::other(match error {
        Errno::BUSY | Errno::XDEV => format!("something is mounted at '{name}': unmount it"),
        Errno::PERM => {
            format!("'{name}' may not be removed: take its attributes off (chattr -i -a)")
        }
        other => format!("'{name}': {other}"),
    })
}

#[cfg(test)]
mod tests {
    use std::{
        fs,
        os::unix::fs::{PermissionsExt, symlink},
        path::PathBuf,
    };

    use super::*;

    struct Scratch(PathBuf);

    impl Scratch {
        fn new(name: &str) -> Self {
            let path =
                std::env::temp_dir().join(format!("sterna-remove-{}-{name}", std::process::id()));
            fs::create_dir_all(&path).unwrap();
            Self(path)
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            drop(fs::remove_dir_all(&self.0));
        }
    }

    #[test]
    fn everything_goes_and_links_lead_nowhere() {
        let scratch = Scratch::new("all");
        let (kept, gone) = (scratch.0.join("kept"), scratch.0.join("gone"));
        fs::create_dir_all(gone.join("a/b/c")).unwrap();
        fs::create_dir_all(gone.join("d")).unwrap();
        fs::create_dir(&kept).unwrap();
        fs::write(kept.join("file"), "x").unwrap();
        for number in 0..3_000 {
            fs::write(gone.join(format!("a/b/{number}")), "x").unwrap();
        }
        symlink(&kept, gone.join("a/link")).unwrap();
        symlink("/no/such", gone.join("dangling")).unwrap();
        remove_directory(&gone).unwrap();
        assert!(!gone.exists());
        assert!(kept.join("file").exists());
        remove_directory(&gone).unwrap();
    }

    /// Does something as somebody who may not do everything.
    fn as_nobody<T: Send>(act: impl FnOnce() -> T + Send) -> T {
        let thread = || {
            if geteuid().is_root() {
                let nobody = rustix::process::Uid::from_raw(65_534);
                rustix::thread::set_thread_uid(nobody).unwrap();
            }
            act()
        };
        std::thread::scope(|scope| scope.spawn(thread).join().unwrap())
    }

    #[test]
    fn what_its_owner_has_closed_goes_too() {
        let scratch = Scratch::new("closed");
        fs::set_permissions(&scratch.0, fs::Permissions::from_mode(0o777)).unwrap();
        let top = scratch.0.join("top");
        as_nobody(|| {
            for (name, mode) in [("none", 0o000), ("no-write", 0o555), ("no-search", 0o600)] {
                let directory = top.join(name);
                fs::create_dir_all(directory.join("a/b")).unwrap();
                fs::write(directory.join("a/file"), "x").unwrap();
                for path in [directory.join("a"), directory] {
                    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
                }
            }
            fs::set_permissions(&top, fs::Permissions::from_mode(0o000)).unwrap();
            remove_directory(&top).unwrap();
        });
        assert!(!top.exists());
    }

    #[test]
    fn a_tree_that_is_deeper_than_a_stack_goes_too() {
        let scratch = Scratch::new("deep");
        let top = scratch.0.join("top");
        fs::create_dir(&top).unwrap();
        let mut current = walk::enter(&top).unwrap();
        for _ in 0..30_000 {
            let mode = Mode::from_raw_mode(0o755);
            rustix::fs::mkdirat(&current, c"d", mode).unwrap();
            current = below(&current, c"d").unwrap();
        }
        drop(current);
        remove_directory(&top).unwrap();
        assert!(!top.exists());
    }

    #[test]
    fn what_is_mounted_there_is_left_alone() {
        if !geteuid().is_root() {
            return;
        }
        let scratch = Scratch::new("mount");
        let (precious, run) = (scratch.0.join("precious"), scratch.0.join("run"));
        let inside = run.join("a/m");
        fs::create_dir_all(&inside).unwrap();
        fs::create_dir(&precious).unwrap();
        fs::write(precious.join("file"), "x").unwrap();
        let mount = |arguments: &[&std::ffi::OsStr]| {
            std::process::Command::new("mount")
                .args(arguments)
                .status()
                .is_ok_and(|it| it.success())
        };
        if !mount(&["--bind".as_ref(), precious.as_os_str(), inside.as_os_str()]) {
            return;
        }
        let refused = remove_directory(&run).unwrap_err().to_string();
        let unmounted = std::process::Command::new("umount").arg(&inside).status();
        assert!(unmounted.is_ok_and(|it| it.success()));
        assert!(refused.contains("something is mounted"), "{refused}");
        assert!(precious.join("file").exists(), "nothing is removed through a mount");
        remove_directory(&run).unwrap();
        assert!(!run.exists());
    }
}
