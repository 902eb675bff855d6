//! How much a directory holds, whatever work has made there.
//!
//! Invariant: what cannot be looked at is not taken for nothing. Work may nest directories deeper than
//! any path, any stack, or any table of open files.

use std::{ffi::CStr, os::fd::OwnedFd, path::Path};

use rustix::{fs::Dir, io::Errno};

use super::walk;

/// So many directories are open at once. What lies deeper counts as more than any limit.
const DEPTH_MAX: usize = 256;

/// How many bytes it takes on the disk, which is less than the lengths of its files where those have
/// holes; more than any limit if that cannot be found out. `None` if this process has not the means to
/// look now. Links and mounts are not followed, and what goes meanwhile counts nothing.
pub(super) fn held(directory: &Path) -> Option<u64> {
    match measure(directory) {
        Ok(bytes) => Some(bytes),
        // That is ours, and nobody is ended for it.
        Err(Errno::MFILE | Errno::NFILE | Errno::NOMEM) => None,
        Err(_) => Some(u64::MAX),
    }
}

fn measure(directory: &Path) -> Result<u64, Errno> {
    let mut bytes: u64 = 0;
    let mut way: Vec<Dir> = opened(walk::enter(directory))?.into_iter().collect();
    while let Some(current) = way.last_mut() {
        let Some(entry) = walk::next(current) else {
            way.pop();
            continue;
        };
        match found(current, entry?.file_name())? {
            Found::Nothing => {}
            Found::File(blocks) => bytes = bytes.saturating_add(blocks.saturating_mul(512)),
            Found::Directory(_) if way.len() >= DEPTH_MAX => return Err(Errno::NAMETOOLONG),
            Found::Directory(below) => way.push(below),
        }
    }
    Ok(bytes)
}

/// What stands in a directory under a name.
enum Found {
    /// Nothing, or nothing of this directory any more.
    Nothing,
    /// Something that takes so many blocks.
    File(u64),
    Directory(Dir),
}

fn found(current: &Dir, name: &CStr) -> Result<Found, Errno> {
    let at = current.fd()?;
    let Some(found) = walk::look(at, name)? else { return Ok(Found::Nothing) };
    if !walk::is_directory(&found) {
        return Ok(Found::File(u64::try_from(found.st_blocks).unwrap_or(0)));
    }
    Ok(opened(walk::below(at, name))?.map_or(Found::Nothing, Found::Directory))
}

/// A directory, if it is there and of the same mount.
fn opened(opened: Result<OwnedFd, Errno>) -> Result<Option<Dir>, Errno> {
    match opened {
        Ok(opened) => Ok(Some(Dir::new(opened)?)),
        // It is something else by now, or somebody else's.
        Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::XDEV) => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use std::{ffi::CString, fs, io::Write, path::PathBuf};

    use rustix::fs::{CWD, Mode, OFlags, mkdirat, openat};

    use super::*;
    use crate::containers::remove::remove_directory;

    struct Scratch(PathBuf);

    impl Scratch {
        fn new(name: &str) -> Self {
            let path =
                std::env::temp_dir().join(format!("sterna-measure-{}-{name}", std::process::id()));
            fs::create_dir_all(&path).unwrap();
            Self(path)
        }

        /// Makes so many directories of that name, each in the one before, and gives the last.
        fn nest(&self, name: &str, depth: usize) -> OwnedFd {
            let name = CString::new(name).unwrap();
            let flags = OFlags::RDONLY | OFlags::DIRECTORY;
            let mut current = openat(CWD, &self.0, flags, Mode::empty()).unwrap();
            for _ in 0..depth {
                mkdirat(&current, &name, Mode::from_raw_mode(0o755)).unwrap();
                current = openat(&current, &name, flags, Mode::empty()).unwrap();
            }
            current
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            drop(remove_directory(&self.0));
        }
    }

    #[test]
    fn what_lies_beyond_the_longest_path_counts() {
        let scratch = Scratch::new("long");
        let last = scratch.nest(&"d".repeat(250), 20);
        let flags = OFlags::WRONLY | OFlags::CREATE;
        let file = openat(&last, c"big", flags, Mode::from_raw_mode(0o644)).unwrap();
        fs::File::from(file).write_all(&vec![1; 1 << 20]).unwrap();
        let bytes = held(&scratch.0).unwrap();
        assert!((1 << 20..1 << 21).contains(&bytes), "{bytes}");
    }

    #[test]
    fn what_is_deeper_than_any_stack_is_more_than_any_limit() {
        let scratch = Scratch::new("deep");
        drop(scratch.nest("d", 3_000));
        assert_eq!(held(&scratch.0), Some(u64::MAX));
    }

    #[test]
    fn links_lead_nowhere_and_what_is_not_there_holds_nothing() {
        let scratch = Scratch::new("links");
        fs::create_dir_all(scratch.0.join("a/b")).unwrap();
        fs::create_dir_all(scratch.0.join("c")).unwrap();
        std::os::unix::fs::symlink("/usr", scratch.0.join("a/usr")).unwrap();
        std::os::unix::fs::symlink("..", scratch.0.join("a/b/up")).unwrap();
        fs::write(scratch.0.join("a/b/file"), vec![1; 4096]).unwrap();
        fs::write(scratch.0.join("c/file"), vec![1; 4096]).unwrap();
        let bytes = held(&scratch.0).unwrap();
        assert!((8192..65_536).contains(&bytes), "{bytes}");
        assert_eq!(held(&scratch.0.join("none")), Some(0));
    }
}
