//! One `dev` for a data directory: looked at before anything is written there.

use std::{
    fs::{self, File, TryLockError},
    io::{self, Write},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::Arc,
    thread::sleep,
    time::Duration,
};

use anyhow::Context;

use crate::exit;

/// Who has a data directory holds a lock on this file, and says in it which process it is.
const LOCK: &str = "dev.lock";

/// Whoever looks whether somebody has it holds it for a moment, too: so often it is tried, and so long
/// after each other.
const TRIES: u32 = 20;
const AGAIN: Duration = Duration::from_millis(5);
/// How often a `dev` looks whether its directory is still there.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Whether a `dev` has a data directory now; also if nobody here may know it.
pub(crate) fn is_held(data: &Path) -> bool {
    match File::open(data.join(LOCK)) {
        // Shared: two who look do not take each other for a `dev`.
        Ok(file) => file.try_lock_shared().is_err(),
        Err(error) => error.kind() != io::ErrorKind::NotFound,
    }
}

fn try_lock(file: &File) -> Result<(), TryLockError> {
    for _ in 1..TRIES {
        match file.try_lock() {
            Err(TryLockError::WouldBlock) => sleep(AGAIN),
            taken @ (Ok(()) | Err(TryLockError::Error(_))) => return taken,
        }
    }
    file.try_lock()
}

/// Takes a data directory, for as long as the file is open; the system lets go of it even if this process
/// is killed.
///
/// # Errors
/// Another `dev` has it, or it cannot be written to.
pub(super) fn take(data: &Path) -> anyhow::Result<File> {
    let path = data.join(LOCK);
    let mut options = fs::OpenOptions::new();
    let file = options.create(true).truncate(false).write(true).open(&path);
    let mut file = file.map_err(|error| unwritable(&path, error))?;
    match try_lock(&file) {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            let holder = fs::read_to_string(&path).unwrap_or_default();
            let holder = match holder.trim() {
                "" => String::new(),
                pid => format!(", process {pid}"),
            };
            let error = anyhow::anyhow!(
                "{} is in use by another `sterna dev`{holder}: end that one, or name another place by \
                 --data, and by --listen another port",
                data.display()
            );
            return Err(exit::coded(exit::TRY_AGAIN)(error));
        }
        Err(TryLockError::Error(error)) => {
            return Err(error).with_context(|| format!("cannot lock {}", path.display()));
        }
    }
    let told = file.set_len(0).and_then(|()| writeln!(file, "{}", std::process::id()));
    told.map_err(|error| unwritable(&path, error))?;
    Ok(file)
}

fn unwritable(path: &Path, error: io::Error) -> anyhow::Error {
    let kind = error.kind();
    let is_denied =
        kind == io::ErrorKind::PermissionDenied || kind == io::ErrorKind::ReadOnlyFilesystem;
    let code = if is_denied { exit::DENIED } else { 1 };
    let what = format!(
        "cannot write to {}: make it writable for the user of `sterna dev`, or name another directory by --data",
        path.display()
    );
    exit::coded(code)(anyhow::Error::new(error).context(what))
}

/// Waits until the directory that was taken is this one no longer: its files were removed, or it was put
/// elsewhere. Commands would not find this `dev` any more, another one could take what is there now, and
/// what it acknowledges would be lost.
pub(super) async fn lost(data: PathBuf, held: File) -> anyhow::Error {
    let (lock, held) = (Arc::new(data.join(LOCK)), Arc::new(held));
    let mut looks = 0;
    // Whoever moves it away and back at once is not taken at his word.
    while looks < 2 {
        tokio::time::sleep(LOOK_EVERY).await;
        let (lock, held) = (Arc::clone(&lock), Arc::clone(&held));
        // It may take long, and somebody may want this process to end.
        let is_gone = tokio::task::spawn_blocking(move || is_other(&lock, &held)).await;
        looks = if is_gone.unwrap_or(false) { looks + 1 } else { 0 };
    }
    anyhow::anyhow!(
        "{} was emptied or replaced while `sterna dev` ran in it, so that nothing more can be kept there: \
         what ran is ended; begin again with `sterna dev`",
        data.display()
    )
}

/// Whether there is another file by this name, or none. That it cannot be looked at says neither.
fn is_other(path: &Path, held: &File) -> bool {
    match (fs::metadata(path), held.metadata()) {
        (Ok(there), Ok(held)) => (there.dev(), there.ino()) != (held.dev(), held.ino()),
        (Err(error), Ok(_)) => error.kind() == io::ErrorKind::NotFound,
        (Ok(_) | Err(_), Err(_)) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_may_not_write_there_is_told_what_to_do() {
        let path = Path::new("here");
        let denied = unwritable(path, io::ErrorKind::PermissionDenied.into());
        assert_eq!(exit::code(&denied), exit::DENIED);
        assert!(denied.to_string().contains("make it writable"), "{denied}");
        assert_eq!(exit::code(&unwritable(path, io::ErrorKind::StorageFull.into())), 1);
    }

    #[test]
    fn a_second_one_is_told_who_has_it_and_gets_it_when_that_has_ended() {
        let path = std::env::temp_dir().join(format!("sterna-holding-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        let first = take(&path).unwrap();
        let refused = take(&path).unwrap_err();
        assert_eq!(exit::code(&refused), exit::TRY_AGAIN);
        assert!(is_held(&path) && is_held(&path), "it is looked at, and stays held");
        let pid = format!("process {}", std::process::id());
        assert!(refused.to_string().contains(&pid), "{refused}");
        drop(first);
        assert!(!is_held(&path));
        let looks = File::open(path.join(LOCK)).unwrap();
        looks.lock_shared().unwrap();
        assert!(!is_held(&path), "another one only looks");
        let looking = std::thread::spawn(move || {
            sleep(AGAIN * 2); // why: whoever looks holds it for a moment
            drop(looks);
        });
        assert!(take(&path).is_ok(), "who only looks is waited for");
        looking.join().unwrap();
        fs::remove_dir_all(&path).unwrap();
    }
}
