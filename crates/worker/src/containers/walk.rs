//! The one way into what work has made: from directory to directory, by descriptor.
//!
//! Invariant: it leads through no link and no mount. Work that may mount things can put any directory
//! of the machine into its own.

use std::{
    ffi::CStr,
    os::fd::{AsFd, OwnedFd},
    path::Path,
};

use rustix::{
    fs::{
        AtFlags, CWD, Dir, DirEntry, FileType, Mode, OFlags, ResolveFlags, Stat, openat2, statat,
    },
    io::{Errno, Result},
};

/// Opens the directory that a walk begins in.
pub(super) fn enter(path: &Path) -> Result<OwnedFd> {
    open(CWD, path, ResolveFlags::empty())
}

/// Opens the directory of that name in another one; it must be of the same mount.
pub(super) fn below(at: impl AsFd, name: &CStr) -> Result<OwnedFd> {
    open(at, name, ResolveFlags::NO_XDEV | ResolveFlags::NO_SYMLINKS)
}

fn open<P: rustix::path::Arg>(at: impl AsFd, name: P, resolve: ResolveFlags) -> Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    openat2(at, name, flags, Mode::empty(), resolve)
}

/// The next that stands in a directory, beside itself and the one above it.
pub(super) fn next(directory: &mut Dir) -> Option<Result<DirEntry>> {
    directory.find(|entry| {
        !entry.as_ref().is_ok_and(|entry| matches!(entry.file_name().to_bytes(), b"." | b".."))
    })
}

/// What stands there under a name, if anything does.
pub(super) fn look(at: impl AsFd, name: &CStr) -> Result<Option<Stat>> {
    match statat(at, name, AtFlags::SYMLINK_NOFOLLOW) {
        Err(Errno::NOENT) => Ok(None),
        found => found.map(Some),
    }
}

pub(super) fn is_directory(found: &Stat) -> bool {
    FileType::from_raw_mode(found.st_mode).is_dir()
}
