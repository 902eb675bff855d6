//! The store on an etcd cluster (3.4 or later), which several processes share.
//!
//! ```text
//!   commit ─▶ one transaction: if expectations hold, writes and the record of the write id ─▶ member
//!   watch  ◀─ one stream, begun again elsewhere where it broke ◀──────────────────────────── member
//! ```
//!
//! | room | what it is |
//! | --- | --- |
//! | `plan` | a commit as a transaction, and what its answer means; pure |
//! | `gather` | whole commits out of the events of a watch; pure |
//! | `keys`, `wire` | where everything lies, and etcd's words; pure |
//! | `writer`, `reader`, `scan`, `watch`, `upkeep` | the drivers |
//! | `link`, `session` | a connection that is made again, to the next member, when it is lost |
//! | `known` | what this process knows of its store |
//! | `open`, `target` | the URL, the way in |
//! | `trouble` | what went wrong, whether it may have been done, and what to do about it |
//!
//! Invariant: revisions are etcd's own; they grow in the order in which they become visible.
//!
//! Invariant: of all copies of a commit at most one applies, ever; `plan` says why. So a commit
//! whose answer was lost is sent again.
//!
//! Invariant: every call ends within 15 seconds, but for [`Watch::next`], which waits for what
//! comes; `Unknown` is said of a commit only if it
//! may have been written.
//!
//! It does not know leaders or terms: what keeps a deposed one from writing is expectations.

mod gather;
mod keys;
mod known;
mod link;
mod open;
mod plan;
mod reader;
mod scan;
mod session;
mod target;
#[cfg(test)]
mod tests;
mod trouble;
mod upkeep;
mod watch;
mod wire;
mod writer;

use std::sync::Arc;

use futures_util::{FutureExt, future::BoxFuture};
use sterna_model::{Revision, WriteId};
use tokio::{
    sync::Semaphore,
    task::JoinSet,
    time::{Instant, timeout_at},
};

pub use self::open::Bare;
use self::{
    keys::Keys,
    known::Known,
    link::{CALL_MAX, Link, Opened},
    trouble::Trouble,
};
use crate::{
    About, Commit, Limits, OpenError, Outcome, Page, Reading, Scan, Store, StoreError, Watch,
    bound::{self, ANSWER_MAX},
};

/// What a call is told that took too long in all.
const OVERDUE: Trouble = Trouble::Silent { limit: ANSWER_MAX };

/// How many connections one open store keeps: one commits, one reads, one watches.
pub const CONNECTIONS: usize = 3;
/// Commits that are on their way at a time. When so many are, committers wait, which is the
/// back-pressure, and are told `Unavailable` when that takes too long.
const COMMITS_MAX: usize = 1_024;

/// A store under a prefix of an etcd cluster (3.4 or later). Many processes may have it open.
///
/// It must be opened in a tokio runtime with I/O and time, and lives no longer than that.
/// Compaction concerns the whole cluster, whoever else uses it: it is best left to this store.
///
/// ```no_run
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// use sterna_store::{Etcd, Store};
///
/// let store = Etcd::open("etcd://me:secret@one,two,three/work?sslmode=verify-full").await?;
/// for warning in store.warnings() {
///     eprintln!("{warning}");
/// }
/// # Ok::<(), sterna_store::OpenError>(()) }).unwrap();
/// ```
#[derive(Debug)]
pub struct Etcd {
    commits: Link,
    reads: Link,
    watches: Link,
    known: Arc<Known>,
    places: Semaphore,
    about: About,
    warnings: Vec<String>,
    /// Ends the tasks when the store is dropped; nobody then waits for them.
    _tasks: JoinSet<()>,
}

impl Etcd {
    /// Opens the store that a URL names: `etcd://USER:PASSWORD@HOST:PORT,HOST:PORT/PREFIX`, with the
    /// options `sslmode` (`disable`, `require`, `verify-ca`, `verify-full`), `sslrootcert` (a PEM
    /// file; without it, the system's roots), `sslcert` and `sslkey` (PEM files, for members that
    /// ask who we are). All but the hosts may be left out: port 2379, prefix `sterna`, no user, no
    /// TLS. Naming all members lets the store outlive some of them. It gives up after 7 s for each
    /// member that is named and 15 s more at the latest.
    ///
    /// # Errors
    /// Each says what is in the way and what to do about it.
    pub async fn open(url: &str) -> Result<Self, OpenError> {
        let connector = open::connector(url)?;
        let first = open::any(&connector).await?;
        let facts = open::prepare(&connector, &first).await?;
        let endpoint = &connector.target.endpoints[first.member];
        let mut tasks = JoinSet::new();
        let mut keep = |opened| Link::keep(connector.clone(), opened, &mut tasks);
        let mut more = Vec::new();
        for _ in 1..CONNECTIONS {
            let session =
                connector.session(endpoint).await.map_err(|trouble| OpenError::NotReady {
                    server: connector.target.server.clone(),
                    source: trouble.into(),
                })?;
            more.push(keep(Opened { session, member: first.member }));
        }
        let commits = keep(first);
        let [reads, watches] = <[Link; 2]>::try_from(more).expect("two more were made");
        let known = Known::new(Keys::under(&connector.target.prefix), facts.floor);
        let known = Arc::new(known);
        tasks.spawn(upkeep::run(watches.clone(), reads.clone(), Arc::clone(&known)));
        let open::Facts { about, warnings, .. } = facts;
        let places = Semaphore::new(COMMITS_MAX);
        Ok(Self { commits, reads, watches, known, places, about, warnings, _tasks: tasks })
    }
}

impl Store for Etcd {
    fn limits(&self) -> Limits {
        // With the record of the write id, and keys named twice, this stays below what etcd takes
        // unless it is told otherwise: 128 operations of a kind, and 1.5 MiB.
        Limits::PORTABLE
    }

    fn about(&self) -> About {
        self.about.clone()
    }

    fn warnings(&self) -> Vec<String> {
        self.warnings.clone()
    }

    fn commit(&self, commit: Commit) -> BoxFuture<'_, Result<Outcome, StoreError>> {
        let call = async move {
            self.limits().check(&commit)?;
            let until = Instant::now() + CALL_MAX;
            let place = timeout_at(until, self.places.acquire()).await;
            let Ok(Ok(_place)) = place else {
                let crowded = Trouble::Crowded { waiting: COMMITS_MAX };
                return Err(StoreError::Unavailable(crowded.into()));
            };
            writer::commit(&self.commits, &self.known, until, &commit).await
        };
        bound::told(ANSWER_MAX, OVERDUE, call).boxed()
    }

    fn get<'a>(&'a self, key: &'a str) -> BoxFuture<'a, Result<Reading, StoreError>> {
        let call = async move {
            self.limits().check_key(key)?;
            reader::get(&self.reads, &self.known, key).await
        };
        bound::asked(ANSWER_MAX, OVERDUE, call).boxed()
    }

    fn scan(&self, scan: Scan) -> BoxFuture<'_, Result<Page, StoreError>> {
        let call = async move { scan::scan(&self.reads, &self.known, &self.limits(), &scan).await };
        bound::asked(ANSWER_MAX, OVERDUE, call).boxed()
    }

    fn watch<'a>(
        &'a self,
        prefix: &'a str,
        after: Revision,
    ) -> BoxFuture<'a, Result<Watch, StoreError>> {
        let call = watch::watch(self.watches.clone(), Arc::clone(&self.known), prefix, after);
        bound::asked(ANSWER_MAX, OVERDUE, call).boxed()
    }

    fn written(&self, id: WriteId) -> BoxFuture<'_, Result<Option<Revision>, StoreError>> {
        let call = reader::written(&self.reads, &self.known, id);
        bound::asked(ANSWER_MAX, OVERDUE, call).boxed()
    }

    fn compact(&self, up_to: Revision) -> BoxFuture<'_, Result<(), StoreError>> {
        let call = upkeep::compact(&self.reads, &self.known, up_to);
        bound::told(ANSWER_MAX, OVERDUE, call).boxed()
    }
}
