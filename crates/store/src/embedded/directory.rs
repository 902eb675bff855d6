//! A real directory, reached by its handle: what is moved or replaced under its path is not ours.
//!
//! Invariant: nobody else can read what is stored. Environments of work stand there as they were given.

use std::{
    fs::{DirBuilder, File as OsFile, Permissions},
    io,
    os::unix::fs::{DirBuilderExt, FileExt, PermissionsExt},
    path::Path,
    sync::Arc,
};

use rustix::fs::{AtFlags, Dir, Mode, OFlags, openat, renameat, unlinkat};

use super::files::{File, Files};

/// A directory of the operating system.
#[derive(Debug)]
pub(super) struct Directory {
    handle: OsFile,
}

impl Directory {
    /// Opens a directory, which is made if it is not there, with all above it.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        make(path)?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let handle = openat(rustix::fs::CWD, path, flags, Mode::empty())?;
        Ok(Self { handle: handle.into() })
    }

    /// Opens or makes a file, but not through a link, which might lead anywhere.
    pub(super) fn open_or_create(&self, name: &str) -> io::Result<OsFile> {
        self.open_with(name, OFlags::CREATE | OFlags::NOFOLLOW)
    }

    fn open_with(&self, name: &str, flags: OFlags) -> io::Result<OsFile> {
        let flags = flags | OFlags::RDWR | OFlags::CLOEXEC;
        let file = OsFile::from(openat(&self.handle, name, flags, Mode::from_raw_mode(0o600))?);
        if file.metadata()?.permissions().mode() & 0o077 != 0 {
            // Of an earlier version. Whose it is not cannot change it, and uses it as it is.
            drop(file.set_permissions(Permissions::from_mode(0o600)));
        }
        Ok(file)
    }
}

/// Makes a directory so that it is still there after a crash: its name is synced, too.
fn make(path: &Path) -> io::Result<()> {
    if path.is_dir() {
        return Ok(());
    }
    let above = match path.parent() {
        Some(above) if above.as_os_str().is_empty() => Path::new("."),
        Some(above) => above,
        None => return Err(io::ErrorKind::NotADirectory.into()),
    };
    make(above)?;
    match DirBuilder::new().mode(0o700).create(path) {
        Ok(()) => OsFile::open(above)?.sync_all(),
        // Somebody else was quicker.
        Err(_) if path.is_dir() => Ok(()),
        Err(error) => Err(error),
    }
}

impl Files for Directory {
    fn open(&self, name: &str) -> io::Result<Option<Arc<dyn File>>> {
        match self.open_with(name, OFlags::empty()) {
            Ok(file) => Ok(Some(Arc::new(file))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn create(&self, name: &str) -> io::Result<Arc<dyn File>> {
        Ok(Arc::new(self.open_with(name, OFlags::CREATE | OFlags::TRUNC)?))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        Ok(renameat(&self.handle, from, &self.handle, to)?)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        Ok(unlinkat(&self.handle, name, AtFlags::empty())?)
    }

    fn list(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in Dir::read_from(&self.handle)? {
            let name = entry?.file_name().to_string_lossy().into_owned();
            if name != "." && name != ".." {
                names.push(name);
            }
        }
        Ok(names)
    }

    fn sync_names(&self) -> io::Result<()> {
        self.handle.sync_all()
    }

    fn salt(&self) -> io::Result<u64> {
        let mut salt = [0; 8];
        OsFile::open("/dev/urandom")?.read_exact_at(&mut salt, 0)?;
        Ok(u64::from_le_bytes(salt))
    }
}

impl File for OsFile {
    fn bytes(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.read_exact_at(out, offset)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.write_all_at(bytes, offset)
    }

    fn set_bytes(&self, bytes: u64) -> io::Result<()> {
        self.set_len(bytes)
    }

    fn sync(&self) -> io::Result<()> {
        self.sync_data()
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, path::PathBuf};

    use super::*;

    #[test]
    fn only_its_owner_can_read_what_is_stored() {
        let top = std::env::temp_dir().join(format!("sterna-modes-{}", std::process::id()));
        drop(fs::remove_dir_all(&top));
        let path = top.join("data/store");
        let directory = Directory::open(&path).unwrap();
        drop(directory.create("new").unwrap());
        drop(directory.open_or_create("lock").unwrap());
        // As an earlier version has left it.
        fs::write(path.join("old"), "x").unwrap();
        fs::set_permissions(path.join("old"), Permissions::from_mode(0o644)).unwrap();
        drop(directory.open("old").unwrap().unwrap());
        let mode = |path: PathBuf| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        let files = ["new", "lock", "old"].map(|name| mode(path.join(name)));
        let directories = [top.clone(), top.join("data"), path].map(mode);
        fs::remove_dir_all(top).unwrap();
        assert_eq!((files, directories), ([0o600; 3], [0o700; 3]));
    }
}
