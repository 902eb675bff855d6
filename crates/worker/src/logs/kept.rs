//! All logs of a worker: what writers and readers share, and what is removed.

use std::{
    fs::{self, DirBuilder, File, OpenOptions},
    io::{self, Write},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::{Path, PathBuf},
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
};

use sterna_model::{RunId, WallTime};

use super::{
    Limits, Reader,
    frame::{Frame, Frames, put_quiet},
    names::{KeyHash, LOGS, QUIET},
    scan::{self, scan},
    shelf::{Place, Segment, Shelf, Spot, must_rotate},
    writer::Writer,
};
use crate::sink::{Origin, Sink, Sinks};

/// The logs of a worker.
#[derive(Debug)]
pub struct Logs {
    shared: Arc<Shared>,
}

/// What writers and readers share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) place: PathBuf,
    pub(super) limits: Limits,
    shelf: Mutex<Shelf>,
    pub(super) changed: Condvar,
    /// How many wait for a change.
    pub(super) waiting: AtomicUsize,
    /// One buffer serves all runs: they are written by one thread.
    pub(super) scratch: Mutex<Vec<u8>>,
    quiet: Mutex<Option<File>>,
}

impl Shared {
    pub(super) fn new(place: PathBuf, limits: Limits, shelf: Shelf) -> Self {
        Self {
            place,
            limits,
            shelf: Mutex::new(shelf),
            changed: Condvar::new(),
            waiting: AtomicUsize::new(0),
            scratch: Mutex::default(),
            quiet: Mutex::default(),
        }
    }

    pub(super) fn shelf(&self) -> MutexGuard<'_, Shelf> {
        // Whoever panicked left numbers behind, not half a file.
        self.shelf.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn tell(&self) {
        if self.waiting.load(Ordering::SeqCst) > 0 {
            self.changed.notify_all();
        }
    }

    /// Removes what must go.
    pub(super) fn prune(&self, at: WallTime, run: Option<RunId>) {
        loop {
            let mut shelf = self.shelf();
            let Some((place, segment)) = shelf.overdue(&self.limits, at, run) else { return };
            let emptied = match place {
                Place::Own(run, ..) => shelf.is_gone(run),
                Place::Quiet(_) => false,
            };
            drop(shelf);
            let path = scan::path(&self.place, place, segment.first_at);
            // What cannot be removed is found again by the next worker.
            drop(fs::remove_file(&path));
            if let Some(directory) = path.parent().filter(|_| emptied) {
                drop(fs::remove_dir(directory));
            }
        }
    }

    /// Removes the oldest file of a run that is not written to any more, if there is one.
    pub(super) fn make_room(&self, run: RunId) -> bool {
        let oldest = self.shelf().oldest(run);
        oldest.is_some_and(|(place, segment)| {
            fs::remove_file(scan::path(&self.place, place, segment.first_at)).is_ok()
        })
    }

    /// The whole log of a run that wrote nothing: its key, its frames, and the next number.
    pub(super) fn quiet_log(&self, run: RunId) -> Option<(String, Vec<u8>, u64)> {
        let (segment, spot) = self.shelf().spot(run)?;
        let path = scan::path(&self.place, Place::Quiet(segment.first), segment.first_at);
        let found = scan::read(&path, spot.offset, spot.bytes).ok()??;
        match Frames::of(&found).next()? {
            (Frame::Quiet { key, frames, .. }, _) => {
                let key = String::from_utf8_lossy(key).into_owned();
                Some((key, frames.to_vec(), u64::from(spot.count) + 1))
            }
            (Frame::Begin { .. } | Frame::Lines(_), _) => None,
        }
    }

    /// Keeps the whole log of a run that wrote nothing.
    pub(super) fn keep_quiet(
        &self,
        run: RunId,
        log: (&str, &[u8], u64),
        at: WallTime,
    ) -> io::Result<()> {
        let (key, frames, next) = log;
        let count = u32::try_from(next.saturating_sub(1)).unwrap_or(u32::MAX);
        let mut out = Vec::with_capacity(frames.len() + 128);
        put_quiet(run, count, key, frames, &mut out);
        let bytes = out.len() as u64;
        let mut file = self.quiet.lock().unwrap_or_else(PoisonError::into_inner);
        let live = self.shelf().quiet_live();
        let live =
            live.filter(|live| file.is_some() && !must_rotate(&self.limits, live, bytes, at));
        let segment = match live {
            Some(live) => live,
            None => {
                let number = self.shelf().quiet_next();
                let segment = Segment { first: number, first_at: at, last_at: at, bytes: 0 };
                *file = Some(create(&scan::path(&self.place, Place::Quiet(number), at))?);
                self.shelf().quiet_begun(segment, true);
                segment
            }
        };
        if let Some(file) = file.as_mut() {
            append(file, segment.bytes, &out)?;
        }
        let spot = Spot { key: KeyHash::of(key), offset: segment.bytes, bytes, count };
        self.shelf().quieted(run, spot, at);
        Ok(())
    }
}

impl Logs {
    /// Takes over what earlier workers have kept in a data directory.
    ///
    /// # Errors
    /// There can be no logs in it.
    pub fn open(data: &Path, limits: Limits, now: WallTime) -> io::Result<Self> {
        let place = data.join(LOGS);
        DirBuilder::new().recursive(true).mode(0o700).create(place.join(QUIET))?;
        // Left by somebody who was killed.
        let shelf = scan(&place, |empty| drop(fs::remove_dir(empty)));
        let shared = Arc::new(Shared::new(place, limits, shelf));
        shared.prune(now, None);
        Ok(Self { shared })
    }

    /// Reads them.
    pub fn reader(&self) -> Reader {
        Reader::of(Arc::clone(&self.shared))
    }
}

impl Sinks for Logs {
    fn open(&mut self, run: RunId, origin: &Origin) -> Box<dyn Sink> {
        Box::new(Writer::open(&self.shared, run, origin))
    }

    fn tend(&mut self, at: WallTime) {
        self.shared.prune(at, None);
    }
}

pub(super) fn create(path: &Path) -> io::Result<File> {
    OpenOptions::new().append(true).create_new(true).mode(0o600).open(path)
}

/// Adds bytes to a file of this length, all or none of them.
pub(super) fn append(file: &mut File, length: u64, bytes: &[u8]) -> io::Result<()> {
    file.write_all(bytes).inspect_err(|_| {
        // A frame that is not whole ends the log for whoever reads it.
        drop(file.set_len(length));
    })
}
