//! The default store: one directory, one process, crash-safe, group commit.
//!
//! ```text
//!   commit ─▶ writer ─▶ log (one sync for a group) ─▶ recent, in memory ─▶ readers, watches
//!                                                        │ oldest part, now and then
//!                                                        ▼
//!                                             merger ─▶ table, sorted, never changed
//! ```
//!
//! | room | what it is |
//! | --- | --- |
//! | `frame`, `log` | how commits look on disk, and the segments that hold them |
//! | `recent`, `table`, `view` | everything since the floor, the state at the floor, and both as one |
//! | `engine`, `writer` | the store without threads |
//! | `driver` | the threads |
//! | `open`, `lock` | finding out what is in a directory, and keeping others out |
//! | `files`, `directory` | the few things asked of a disk, and the real one |
//!
//! Invariant: an acknowledged commit was synced; after any crash the state is that after some whole
//! number of commits, no acknowledged one missing. Damage that no crash can explain is an error.
//!
//! A failed sync poisons the store: what reached the disk is then found out by opening it again,
//! never guessed.

mod directory;
mod driver;
mod engine;
pub mod files;
mod frame;
mod lock;
mod log;
mod open;
mod recent;
mod table;
#[cfg(test)]
mod tests;
mod view;
mod writer;

use std::{path::Path, sync::Arc};

use futures_util::{FutureExt, future::BoxFuture};
use sterna_model::{Revision, WriteId};
use tokio::sync::oneshot;

pub use self::engine::Sizes;
use self::{
    directory::Directory,
    driver::{Driver, Merge},
    engine::Engine,
    lock::Lock,
    writer::Writer,
};
use crate::{
    About, Commit, Failover, Limits, OpenError, Outcome, Page, Reading, Scan, Store, StoreError,
    Watch,
    follow::{Next, Source, follow},
};

/// A store in a directory of its own. Dropping it closes it, which waits for what is under way.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// use sterna_model::{WallTime, WriteId};
/// use sterna_store::{Commit, Embedded, Expect, Outcome, Store};
///
/// # let directory = std::env::temp_dir().join(format!("sterna-doc-{}", std::process::id()));
/// let store = Embedded::open(&directory)?;
/// let create = |id| {
///     Commit::new(WriteId::from_parts(WallTime::EPOCH, [id; 10]))
///         .expect("/task/a", Expect::Absent)
///         .put("/task/a", "pending")
/// };
/// assert!(matches!(store.commit(create(1)).await?, Outcome::Applied(_)));
/// assert!(matches!(store.commit(create(2)).await?, Outcome::Conflict(_)));
/// # drop(store);
/// # std::fs::remove_dir_all(directory)?;
/// # Ok::<(), Box<dyn std::error::Error>>(()) }).unwrap();
/// ```
#[derive(Debug)]
pub struct Embedded {
    engine: Arc<Engine>,
    driver: Driver,
    /// Let go of last, when the threads have ended.
    _lock: Option<Lock>,
}

impl Embedded {
    /// Opens the store in `directory`, which is made if it is not there.
    ///
    /// This reads and checks everything that is stored, so it takes time in proportion to it.
    ///
    /// # Errors
    /// Each says what is in the way and what to do about it.
    pub fn open(directory: impl AsRef<Path>) -> Result<Self, OpenError> {
        Self::open_with(directory, Sizes::default())
    }

    /// As [`Embedded::open`], with other sizes than the default ones.
    ///
    /// # Errors
    /// As [`Embedded::open`].
    pub fn open_with(directory: impl AsRef<Path>, sizes: Sizes) -> Result<Self, OpenError> {
        let path = directory.as_ref();
        let of_io = |error| OpenError::of_io(path, error);
        let files = Directory::open(path).map_err(of_io)?;
        // Nothing is touched in a directory that is not ours, not even by locking it.
        open::check_names(&files, path)?;
        let lock = Lock::take(&files, path)?;
        Self::start(Arc::new(files), sizes, path, Some(lock))
    }

    /// Opens a store on any files, for tests; nothing keeps a second one out.
    ///
    /// # Errors
    /// As [`Embedded::open`].
    #[cfg(any(test, feature = "conformance"))]
    pub fn open_on(files: Arc<dyn files::Files>, sizes: Sizes) -> Result<Self, OpenError> {
        Self::start(files, sizes, Path::new("files"), None)
    }

    fn start(
        files: Arc<dyn files::Files>,
        sizes: Sizes,
        path: &Path,
        lock: Option<Lock>,
    ) -> Result<Self, OpenError> {
        let of_io = |error| OpenError::of_io(path, error);
        let engine = Arc::new(open::recover(files, sizes, path)?);
        let writer = Writer::new(Arc::clone(&engine)).map_err(of_io)?;
        let driver = Driver::start(&engine, writer).map_err(of_io)?;
        Ok(Self { engine, driver, _lock: lock })
    }
}

impl Store for Embedded {
    fn about(&self) -> About {
        About {
            engine: concat!("embedded, of sterna ", env!("CARGO_PKG_VERSION")).to_owned(),
            settings: vec![("sync", "before every answer".to_owned())],
            is_durable: true,
            is_shared: false,
            failover: Failover::Never,
        }
    }

    fn limits(&self) -> Limits {
        Limits::PORTABLE
    }

    fn commit(&self, commit: Commit) -> BoxFuture<'_, Result<Outcome, StoreError>> {
        async move {
            self.limits().check(&commit)?;
            let (caller, answer) = oneshot::channel();
            let writes = self.driver.writes.as_ref().ok_or(StoreError::Poisoned)?;
            writes.send((commit, caller)).await.map_err(|_| StoreError::Poisoned)?;
            // The writer answers everything that it takes, unless it panics in the middle.
            answer.await.unwrap_or_else(|gone| Err(StoreError::Unknown(gone.into())))
        }
        .boxed()
    }

    fn get<'a>(&'a self, key: &'a str) -> BoxFuture<'a, Result<Reading, StoreError>> {
        async move { self.engine.get(key) }.boxed()
    }

    fn scan(&self, scan: Scan) -> BoxFuture<'_, Result<Page, StoreError>> {
        async move { self.engine.scan(&scan) }.boxed()
    }

    fn watch<'a>(
        &'a self,
        prefix: &'a str,
        after: Revision,
    ) -> BoxFuture<'a, Result<Watch, StoreError>> {
        let revisions = self.driver.revisions.clone();
        async move { follow(Arc::clone(&self.engine), revisions, prefix.to_owned(), after) }.boxed()
    }

    fn written(&self, id: WriteId) -> BoxFuture<'_, Result<Option<Revision>, StoreError>> {
        async move { self.engine.written(id) }.boxed()
    }

    fn compact(&self, up_to: Revision) -> BoxFuture<'_, Result<(), StoreError>> {
        async move {
            let (caller, answer) = oneshot::channel();
            let merges = self.driver.merges.as_ref().ok_or(StoreError::Poisoned)?;
            let request = Merge::UpTo(up_to, caller);
            merges.send(request).await.map_err(|_| StoreError::Poisoned)?;
            answer.await.unwrap_or(Err(StoreError::Poisoned))
        }
        .boxed()
    }
}

impl Source for Engine {
    fn next(&self, prefix: &str, after: Revision, limit: usize) -> Result<Next, StoreError> {
        self.next_changes(prefix, after, limit)
    }
}
