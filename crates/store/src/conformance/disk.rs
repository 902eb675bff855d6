//! A disk in memory that loses power, tears and reorders writes, fails syncs, runs full and lies,
//! all from one seed.
//!
//! What is written is seen at once and durable only after a sync, as with a real disk behind a
//! system's page cache. When power is lost, each sector of each write since the last sync of its
//! file is there or not, by chance; so is each name that was made or removed since the last sync of
//! names.

use std::{collections::BTreeMap, io, sync::Arc};

use parking_lot::Mutex;

use super::Rng;
use crate::embedded::files::{File, Files};

/// What a disk writes as a whole or not at all.
const SECTOR_BYTES: usize = 512;

/// What shall go wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// Nothing works any more.
    PowerLoss,
    /// The next sync fails, and what it should have made durable is by chance lost for good,
    /// although it can still be read.
    SyncFails,
    /// Writes of new bytes fail, after a part of them, until [`Disk::make_room`].
    Full,
    /// From now on syncs do nothing and say that all is well.
    SyncsLie,
}

/// The disk; clones are the same disk.
#[derive(Clone, Debug)]
pub struct Disk {
    state: Arc<Mutex<State>>,
}

#[derive(Debug)]
struct State {
    rng: Rng,
    names: BTreeMap<String, u64>,
    durable_names: BTreeMap<String, u64>,
    /// Since the last sync of names: the name, and the file that it stands for now.
    name_changes: Vec<(String, Option<u64>)>,
    contents: BTreeMap<u64, Contents>,
    files_made: u64,
    operations: u64,
    planned: Option<(u64, Trouble)>,
    is_down: bool,
    is_full: bool,
    is_lying: bool,
    next_sync_fails: bool,
}

#[derive(Clone, Debug, Default)]
struct Contents {
    seen: Vec<u8>,
    durable: Vec<u8>,
    /// Since the last sync.
    writes: Vec<Unsynced>,
}

#[derive(Clone, Debug)]
enum Unsynced {
    Bytes(usize, Vec<u8>),
    Length(usize),
}

impl Disk {
    /// An empty disk.
    pub fn new(seed: u64) -> Self {
        Self::with(Rng::new(seed), BTreeMap::new(), BTreeMap::new())
    }

    fn with(rng: Rng, names: BTreeMap<String, u64>, contents: BTreeMap<u64, Contents>) -> Self {
        let files_made = contents.keys().max().map_or(0, |last| last + 1);
        let state = State {
            rng,
            durable_names: names.clone(),
            names,
            name_changes: Vec::new(),
            contents,
            files_made,
            operations: 0,
            planned: None,
            is_down: false,
            is_full: false,
            is_lying: false,
            next_sync_fails: false,
        };
        Self { state: Arc::new(Mutex::new(state)) }
    }

    /// Lets something go wrong after so many more operations.
    pub fn plan(&self, operations: u64, trouble: Trouble) {
        let mut state = self.state.lock();
        state.planned = Some((state.operations + operations, trouble));
    }

    /// Whether power was lost.
    pub fn is_down(&self) -> bool {
        self.state.lock().is_down
    }

    /// Frees space.
    pub fn make_room(&self) {
        self.state.lock().is_full = false;
    }

    /// How many operations were asked of it.
    pub fn operations(&self) -> u64 {
        self.state.lock().operations
    }

    /// The disk as it is found when power is back.
    #[must_use]
    pub fn after_power_loss(&self) -> Self {
        let mut state = self.state.lock();
        let State { rng, durable_names, name_changes, contents, .. } = &mut *state;
        let mut names = durable_names.clone();
        for (name, file) in name_changes.iter() {
            match file {
                _ if rng.one_in(2) => None,
                Some(file) => names.insert(name.clone(), *file),
                None => names.remove(name),
            };
        }
        let mut survived = BTreeMap::new();
        for (&file, contents) in contents.iter() {
            let bytes = contents.after_power_loss(rng);
            let contents = Contents { seen: bytes.clone(), durable: bytes, writes: Vec::new() };
            survived.insert(file, contents);
        }
        Self::with(Rng::new(rng.next()), names, survived)
    }

    /// The disk as it is found after a clean stop.
    #[must_use]
    pub fn after_sync(&self) -> Self {
        let mut state = self.state.lock();
        let mut contents = state.contents.clone();
        for contents in contents.values_mut() {
            contents.sync();
        }
        let seed = state.rng.next();
        Self::with(Rng::new(seed), state.names.clone(), contents)
    }

    /// Damages one of the files that `is_meant` picks by name, by chance: a bit, a torn end, or a
    /// sector of zeros. Says what it did.
    pub fn damage(&self, is_meant: impl Fn(&str) -> bool) -> String {
        let mut state = self.state.lock();
        let State { rng, names, contents, .. } = &mut *state;
        let large: Vec<_> = names
            .iter()
            .filter(|(name, file)| {
                let is_large = |contents: &Contents| !contents.seen.is_empty();
                is_meant(name) && contents.get(file).is_some_and(is_large)
            })
            .collect();
        let (name, file) = large[rng.index(large.len())];
        let Some(contents) = contents.get_mut(file) else { return String::new() };
        let at = rng.index(contents.seen.len());
        let what = match rng.below(3) {
            0 => {
                contents.seen[at] ^= 1 << rng.below(8);
                "a bit flipped"
            }
            1 => {
                contents.seen.truncate(at);
                "cut"
            }
            _ => {
                let end = (at + SECTOR_BYTES).min(contents.seen.len());
                contents.seen[at..end].fill(0);
                "a sector of zeros"
            }
        };
        contents.sync();
        format!("{name}: {what} at byte {at}")
    }
}

impl Contents {
    fn sync(&mut self) {
        self.durable.clone_from(&self.seen);
        self.writes.clear();
    }

    /// After a failed sync: some of it is durable, and the rest is not tried again.
    fn half_sync(&mut self, rng: &mut Rng) {
        self.durable = self.after_power_loss(rng);
        self.writes.clear();
    }

    fn after_power_loss(&self, rng: &mut Rng) -> Vec<u8> {
        let mut bytes = self.durable.clone();
        // Sometimes all of it has been written, sometimes nothing, mostly a part.
        let mood = rng.below(4);
        for write in &self.writes {
            let mut survives = || match mood {
                0 => true,
                1 => false,
                _ => rng.one_in(2),
            };
            match write {
                Unsynced::Length(length) if survives() => bytes.resize(*length, 0),
                Unsynced::Length(_) => {}
                Unsynced::Bytes(offset, written) => {
                    for (index, byte) in written.chunks(SECTOR_BYTES).enumerate() {
                        if survives() {
                            put(&mut bytes, offset + index * SECTOR_BYTES, byte);
                        }
                    }
                }
            }
        }
        bytes
    }
}

fn put(bytes: &mut Vec<u8>, offset: usize, written: &[u8]) {
    let end = offset + written.len();
    if bytes.len() < end {
        bytes.resize(end, 0);
    }
    bytes[offset..end].copy_from_slice(written);
}

impl State {
    /// Counts an operation, and lets what was planned for it happen.
    fn operate(&mut self) -> io::Result<()> {
        self.operations += 1;
        if let Some((_, trouble)) = self.planned.take_if(|(at, _)| *at <= self.operations) {
            match trouble {
                Trouble::PowerLoss => self.is_down = true,
                Trouble::SyncFails => self.next_sync_fails = true,
                Trouble::Full => self.is_full = true,
                Trouble::SyncsLie => self.is_lying = true,
            }
        }
        self.check()
    }

    fn check(&self) -> io::Result<()> {
        if self.is_down { Err(io::Error::other("power was lost")) } else { Ok(()) }
    }

    fn file(&mut self, file: u64) -> &mut Contents {
        self.contents.entry(file).or_default()
    }

    fn name(&mut self, name: &str, file: Option<u64>) {
        match file {
            Some(file) => self.names.insert(name.to_owned(), file),
            None => self.names.remove(name),
        };
        self.name_changes.push((name.to_owned(), file));
    }
}

impl Files for Disk {
    fn open(&self, name: &str) -> io::Result<Option<Arc<dyn File>>> {
        let state = self.state.lock();
        state.check()?;
        let file = state.names.get(name).copied();
        Ok(file.map(|file| Arc::new(Handle { disk: self.clone(), file }) as Arc<dyn File>))
    }

    fn create(&self, name: &str) -> io::Result<Arc<dyn File>> {
        let mut state = self.state.lock();
        state.operate()?;
        let file = state.files_made;
        state.files_made += 1;
        state.contents.insert(file, Contents::default());
        state.name(name, Some(file));
        Ok(Arc::new(Handle { disk: self.clone(), file }))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut state = self.state.lock();
        state.operate()?;
        let file = state.names.get(from).copied();
        let file = file.ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))?;
        state.name(to, Some(file));
        state.name(from, None);
        Ok(())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let mut state = self.state.lock();
        state.operate()?;
        state.name(name, None);
        Ok(())
    }

    fn list(&self) -> io::Result<Vec<String>> {
        let state = self.state.lock();
        state.check()?;
        Ok(state.names.keys().cloned().collect())
    }

    fn salt(&self) -> io::Result<u64> {
        Ok(self.state.lock().rng.next())
    }

    fn sync_names(&self) -> io::Result<()> {
        let mut state = self.state.lock();
        state.operate()?;
        if std::mem::take(&mut state.next_sync_fails) {
            return Err(io::Error::other("the disk failed to write"));
        }
        if !state.is_lying {
            state.durable_names = state.names.clone();
            state.name_changes.clear();
        }
        Ok(())
    }
}

#[derive(Debug)]
struct Handle {
    disk: Disk,
    file: u64,
}

impl File for Handle {
    fn bytes(&self) -> io::Result<u64> {
        let mut state = self.disk.state.lock();
        state.check()?;
        Ok(state.file(self.file).seen.len() as u64)
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let mut state = self.disk.state.lock();
        state.check()?;
        let offset = index(offset)?;
        let seen = &state.file(self.file).seen;
        let bytes = seen.get(offset..offset + out.len());
        out.copy_from_slice(bytes.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let mut state = self.disk.state.lock();
        state.operate()?;
        let offset = index(offset)?;
        let grows = offset + bytes.len() > state.file(self.file).seen.len();
        let is_refused = state.is_full && grows;
        let taken = if is_refused { state.rng.index(bytes.len().max(1)) } else { bytes.len() };
        let contents = state.file(self.file);
        put(&mut contents.seen, offset, &bytes[..taken]);
        contents.writes.push(Unsynced::Bytes(offset, bytes[..taken].to_vec()));
        if is_refused { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) }
    }

    fn set_bytes(&self, bytes: u64) -> io::Result<()> {
        let mut state = self.disk.state.lock();
        state.operate()?;
        let length = index(bytes)?;
        let is_full = state.is_full;
        let contents = state.file(self.file);
        if is_full && length > contents.seen.len() {
            return Err(io::ErrorKind::StorageFull.into());
        }
        contents.seen.resize(length, 0);
        contents.writes.push(Unsynced::Length(length));
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        let mut state = self.disk.state.lock();
        state.operate()?;
        let State { rng, contents, is_lying, next_sync_fails, .. } = &mut *state;
        let Some(contents) = contents.get_mut(&self.file) else { return Ok(()) };
        if std::mem::take(next_sync_fails) {
            contents.half_sync(rng);
            return Err(io::Error::other("the disk failed to write"));
        }
        if !*is_lying {
            contents.sync();
        }
        Ok(())
    }
}

fn index(offset: u64) -> io::Result<usize> {
    usize::try_from(offset).map_err(io::Error::other)
}
