//! The contract that every backend keeps; `conformance` tests it rule by rule.

use std::pin::Pin;

use bytes::Bytes;
use futures_util::{Stream, StreamExt, future::BoxFuture};
use sterna_model::{Revision, WriteId};

use crate::{Commit, Key, Limits, Outcome, StoreError};

/// A store of keys with an atomic, conditional, many-key commit.
///
/// Every applied commit that writes makes one new [`Revision`], greater than all before it and
/// never used again. All calls are linearizable: there is one order of commits and reads, it is the
/// order of revisions, and it agrees with the order in which calls returned and began.
pub trait Store: Send + Sync + 'static {
    /// What one call may carry.
    fn limits(&self) -> Limits;

    /// What this store stands on, known since it was opened.
    fn about(&self) -> About;

    /// What is set up so that a promise of this contract does not hold, each with its remedy;
    /// known since the store was opened. Whoever opens a store shows them.
    fn warnings(&self) -> Vec<String> {
        Vec::new()
    }

    /// Applies `commit` if every expectation holds: all of it or none of it.
    ///
    /// A commit whose write id is still remembered is not applied again; it is answered with the
    /// revision that it made the first time.
    fn commit(&self, commit: Commit) -> BoxFuture<'_, Result<Outcome, StoreError>>;

    /// Reads one key as it is now.
    fn get<'a>(&'a self, key: &'a str) -> BoxFuture<'a, Result<Reading, StoreError>>;

    /// Reads one page in key order.
    ///
    /// Pages are pinned by passing the first page's revision on in [`Scan::at`]: together they are
    /// the state at that one revision, or one of them answers [`StoreError::Compacted`].
    fn scan(&self, scan: Scan) -> BoxFuture<'_, Result<Page, StoreError>>;

    /// Follows the changes of all keys that begin with `prefix`, from the first one after `after`.
    ///
    /// Each change is delivered once, in order, and the changes of one commit together. To resume,
    /// watch from the revision of the last [`Changes`] that was seen. A watch that asks for, or
    /// falls behind, what the store still remembers ends with [`StoreError::Compacted`].
    fn watch<'a>(
        &'a self,
        prefix: &'a str,
        after: Revision,
    ) -> BoxFuture<'a, Result<Watch, StoreError>>;

    /// The revision made by the commit with this write id, or `None` if it did not apply so far.
    ///
    /// Remembered for as long as the commit's revision is not compacted. `None` proves nothing
    /// about later: a commit that was sent and not answered may still arrive, unless something it
    /// expects has been changed since it was sent.
    fn written(&self, id: WriteId) -> BoxFuture<'_, Result<Option<Revision>, StoreError>>;

    /// Forgets the history up to and including `up_to`: the state stays, pinned scans and watches
    /// from before it answer [`StoreError::Compacted`]. A revision in the future is refused; one
    /// already compacted changes nothing.
    fn compact(&self, up_to: Revision) -> BoxFuture<'_, Result<(), StoreError>>;
}

/// What a store stands on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct About {
    /// What keeps it, with its version.
    pub engine: String,
    /// What bears on how well it is kept, by name, as the engine says it.
    pub settings: Vec<(&'static str, String)>,
    /// Whether what was acknowledged survives a crash of the machines that keep it.
    pub is_durable: bool,
    /// Whether several servers may use it at the same time.
    pub is_shared: bool,
    /// What becomes of that if another machine takes over.
    pub failover: Failover,
}

/// What becomes of what was acknowledged if another machine takes over from the one that keeps it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failover {
    /// None could.
    Never,
    /// It is kept: how, and what must be seen to.
    Keeps(String),
    /// Some of it may be lost: why, and the remedy.
    Loses(String),
    /// That cannot be told: why, and the remedy.
    Unclear(String),
}

/// One key as it stood at a revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    /// Its name.
    pub key: Key,
    /// What it held.
    pub value: Bytes,
    /// The revision of the commit that last wrote it.
    pub revision: Revision,
}

/// The answer to [`Store::get`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reading {
    /// The key, if it was there.
    pub item: Option<Item>,
    /// The store's revision at which this was so.
    pub revision: Revision,
}

/// The question for one page.
///
/// ```
/// use sterna_store::Scan;
///
/// let first = Scan::of("/v1/default/task/").limit(100);
/// assert_eq!(first.at, None);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scan {
    /// What the keys begin with; empty for all.
    pub prefix: String,
    /// Only keys after this one.
    pub after: Option<Key>,
    /// Items of the page at most.
    pub limit: usize,
    /// The revision to read at; `None` for now.
    pub at: Option<Revision>,
}

impl Scan {
    /// The first page of the keys that begin with `prefix`, as large as every backend allows.
    pub fn of(prefix: impl Into<String>) -> Self {
        let limit = Limits::PORTABLE.page_items_max;
        Self { prefix: prefix.into(), after: None, limit, at: None }
    }

    /// Asks for at most so many items.
    #[must_use]
    pub const fn limit(mut self, limit: usize) -> Self {
        self.limit = limit;
        self
    }

    /// Reads at an earlier revision.
    #[must_use]
    pub const fn at(mut self, revision: Revision) -> Self {
        self.at = Some(revision);
        self
    }

    /// The question for the page that follows `page`, pinned to its revision; `None` after the last.
    pub fn following(self, page: &Page) -> Option<Self> {
        let last = page.items.last().filter(|_| page.more)?;
        Some(Self { after: Some(last.key.clone()), at: Some(page.revision), ..self })
    }
}

/// The answer to [`Store::scan`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// In key order; may be fewer than asked for even if there are more, but then not none.
    pub items: Vec<Item>,
    /// The revision of which this is the state.
    pub revision: Revision,
    /// Whether keys follow after the last item.
    pub more: bool,
}

/// What one commit did to the keys under a prefix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Changes {
    /// The commit's revision.
    pub revision: Revision,
    /// In key order, never empty.
    pub changes: Vec<Change>,
}

/// What became of one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// Its name.
    pub key: Key,
    /// What it holds now; `None` if it was removed. Removing what was not there is no change.
    pub value: Option<Bytes>,
}

/// A running watch. Dropping it ends it.
pub struct Watch {
    changes: Pin<Box<dyn Stream<Item = Result<Changes, StoreError>> + Send>>,
}

impl Watch {
    /// Makes a watch of a stream, for those who write a backend.
    pub fn new(changes: impl Stream<Item = Result<Changes, StoreError>> + Send + 'static) -> Self {
        Self { changes: Box::pin(changes) }
    }

    /// Waits for the next commit that touches the prefix.
    ///
    /// # Errors
    /// What ended the watch; the caller resumes with a new one.
    pub async fn next(&mut self) -> Result<Changes, StoreError> {
        // A stream that ends without a word was dropped by its store.
        self.changes.next().await.unwrap_or_else(|| {
            Err(StoreError::Unavailable("the store was closed under the watch".into()))
        })
    }
}

impl std::fmt::Debug for Watch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Watch").finish_non_exhaustive()
    }
}

/// Reads every key under `prefix` at one revision, page by page.
///
/// # Errors
/// What the store answered. [`StoreError::Compacted`] means that reading took longer than the
/// store remembers; beginning again is safe.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// use sterna_model::{Revision, WallTime, WriteId};
/// use sterna_store::{Commit, Memory, Store, scan_all};
///
/// let store = Memory::new();
/// let id = WriteId::from_parts(WallTime::EPOCH, [1; 10]);
/// store.commit(Commit::new(id).put("/a", "1").put("/b", "2")).await?;
/// let (items, revision) = scan_all(&store, "/").await?;
/// assert_eq!(items.len(), 2);
/// assert_eq!(revision, Revision::new(1));
/// # Ok::<(), sterna_store::StoreError>(()) }).unwrap();
/// ```
pub async fn scan_all(
    store: &(impl Store + ?Sized),
    prefix: &str,
) -> Result<(Vec<Item>, Revision), StoreError> {
    let mut question = Scan::of(prefix);
    let mut items = Vec::new();
    loop {
        let page = store.scan(question.clone()).await?;
        let following = question.following(&page);
        let revision = page.revision;
        items.extend(page.items);
        match following {
            Some(next) => question = next,
            None => return Ok((items, revision)),
        }
    }
}
