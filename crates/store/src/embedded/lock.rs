//! One process at a time.

use std::{
    fs::{File, TryLockError},
    io::{self, Read, Write},
    path::Path,
};

use super::{directory::Directory, open::LOCK};
use crate::OpenError;

/// Held while the store is open; the system lets go of it even if the process is killed.
#[derive(Debug)]
pub(super) struct Lock {
    _file: File,
}

/// How the file begins if it is ours.
const TITLE: &str = "process ";

impl Lock {
    /// Takes the lock on the directory at `path`, or says who has it.
    pub(super) fn take(directory: &Directory, path: &Path) -> Result<Self, OpenError> {
        let of_io = |error| OpenError::of_io(&path.join(LOCK), error);
        let foreign =
            || OpenError::Foreign { path: path.to_owned(), found: format!("another {LOCK} file") };
        let mut file = directory.open_or_create(LOCK).map_err(|error| {
            let is_link = error.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error());
            if is_link { foreign() } else { of_io(error) }
        })?;
        let mut holder = String::new();
        let is_ours = file.read_to_string(&mut holder).is_ok()
            && (holder.is_empty() || holder.starts_with(TITLE));
        if !is_ours {
            return Err(foreign());
        }
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                // Its holder may be about to say who it is.
                let holder = match holder.trim() {
                    "" => "another process".to_owned(),
                    holder => holder.to_owned(),
                };
                return Err(OpenError::InUse { path: path.to_owned(), holder });
            }
            Err(TryLockError::Error(error)) => return Err(of_io(error)),
        }
        let program = std::env::args_os().next().unwrap_or_default();
        let name =
            Path::new(&program).file_name().unwrap_or_default().to_string_lossy().into_owned();
        let text = format!("{TITLE}{} ({name})\n", std::process::id());
        file.set_len(0).map_err(of_io)?;
        // Reading it has moved the place at which it is written.
        io::Seek::rewind(&mut file).map_err(of_io)?;
        file.write_all(text.as_bytes()).map_err(of_io)?;
        Ok(Self { _file: file })
    }
}
