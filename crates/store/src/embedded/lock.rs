//! One process at a time.

use std::{
    fs::{File, OpenOptions, TryLockError},
    io::{Read, Write},
    path::Path,
};

use super::open::LOCK;
use crate::OpenError;

/// Held while the store is open; the system lets go of it even if the process is killed.
#[derive(Debug)]
pub(super) struct Lock {
    _file: File,
}

impl Lock {
    /// Takes the lock on the directory, or says who has it.
    pub(super) fn take(directory: &Path) -> Result<Self, OpenError> {
        let path = directory.join(LOCK);
        let of_io = |error| OpenError::of_io(&path, error);
        let mut options = OpenOptions::new();
        let mut file = options
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path)
            .map_err(of_io)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut holder = String::new();
                // Who it is helps, but is not needed for saying no.
                let is_said = file.read_to_string(&mut holder).is_ok() && !holder.trim().is_empty();
                let holder =
                    if is_said { holder.trim().to_owned() } else { "another process".into() };
                return Err(OpenError::InUse { path: directory.to_owned(), holder });
            }
            Err(TryLockError::Error(error)) => return Err(of_io(error)),
        }
        let program = std::env::args().next().unwrap_or_default();
        let name = Path::new(&program).file_name().unwrap_or_default().to_string_lossy();
        file.set_len(0).map_err(of_io)?;
        writeln!(file, "process {} ({name})", std::process::id()).map_err(of_io)?;
        Ok(Self { _file: file })
    }
}
