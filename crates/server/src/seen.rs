//! What this server has seen of its store, kept where the store's own losses do not reach (safety rule
//! 25).

use std::{
    fs, io,
    io::Write,
    path::{Path, PathBuf},
    time::Duration,
};

use sterna_store::cluster::Seen;
use tokio::{sync::watch, task::JoinHandle, time::sleep};

const FILE: &str = "seen";
/// At most so often it is written.
const EVERY: Duration = Duration::from_secs(1);

/// Why it cannot be kept.
#[derive(Debug, thiserror::Error)]
#[error("cannot keep what was seen of the store in {}", path.display())]
pub struct SeenError {
    /// The file.
    pub path: PathBuf,
    /// Why.
    #[source]
    pub source: io::Error,
}

/// Reads what was kept; nothing if there is nothing.
pub(crate) fn read(data: &Path) -> Result<Option<Seen>, SeenError> {
    let path = data.join(FILE);
    let text = match fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(source) => return Err(SeenError { path, source }),
    };
    let wrong = |error| io::Error::new(io::ErrorKind::InvalidData, format!("{error}"));
    match text.trim().parse() {
        Ok(seen) => Ok(Some(seen)),
        Err(error) => Err(SeenError { path, source: wrong(error) }),
    }
}

/// Writes it, whole or not at all.
pub(crate) fn write(data: &Path, seen: &Seen) -> Result<(), SeenError> {
    let path = data.join(FILE);
    let next = data.join("seen.next");
    let written = || {
        let mut file = fs::File::create(&next)?;
        writeln!(file, "{seen}")?;
        file.sync_data()?;
        fs::rename(&next, &path)?;
        fs::File::open(data)?.sync_all()
    };
    written().map_err(|source| SeenError { path: path.clone(), source })
}

/// Keeps what is seen, as it comes.
pub(crate) fn keep(data: PathBuf) -> (watch::Sender<Option<Seen>>, JoinHandle<()>) {
    let (sender, mut seen) = watch::channel(None);
    let mut end = seen.clone();
    let keeper = tokio::spawn(async move {
        while seen.changed().await.is_ok() {
            let newest = *seen.borrow_and_update();
            if let Some(newest) = newest {
                let data = data.clone();
                // A disk that does not take it is said to be so by the store beside it.
                drop(tokio::task::spawn_blocking(move || write(&data, &newest)).await);
            }
            tokio::select! {
                () = sleep(EVERY) => {}
                // Nobody tells anything any more.
                _ = end.wait_for(|_| false) => {}
            }
        }
    });
    (sender, keeper)
}
