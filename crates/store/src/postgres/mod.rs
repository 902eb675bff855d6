//! The store on a PostgreSQL server, which several processes share.
//!
//! ```text
//!   commit ─▶ queue ─▶ writer ── BEGIN, lock counter, read ──▶ server     (first round trip)
//!                        │ judge each commit, in order
//!                        └────── store the group, COMMIT ────▶ server     (second round trip)
//!                                                                │ NOTIFY, a hint
//!   watch ◀── read on from a revision ◀── woken by ──────────────┘
//! ```
//!
//! | room | what it is |
//! | --- | --- |
//! | `group` | which commits of a group apply, and what to store for them; pure |
//! | `sql`, `columns` | what is said to the server, and our words in its types |
//! | `writer`, `reader`, `watch`, `upkeep` | the drivers |
//! | `link`, `session` | a connection that is made again when it is lost |
//! | `open`, `target` | the URL, the way in, the schema |
//! | `durability` | how the server keeps what it acknowledges, and who else has it; pure |
//! | `trouble` | what went wrong, and what to do about it |
//!
//! Invariant: revisions come from one counter row that is locked until commit, so they become
//! visible in order (safety rule 26).
//!
//! Invariant: a transaction is over before another holds the counter's lock. So a group whose
//! COMMIT got no answer is settled by trying it again: its write ids tell what had applied.
//!
//! Invariant: every call ends within 15 seconds, but for [`Watch::next`], which waits for what
//! comes; `Unknown` is said of a commit only if it
//! may have been written.
//!
//! It does not know leaders or terms: what keeps a deposed one from writing is expectations.

mod columns;
mod durability;
mod group;
mod link;
mod open;
mod reader;
mod session;
mod sql;
mod target;
#[cfg(test)]
mod tests;
mod trouble;
mod upkeep;
mod watch;
mod writer;

use std::sync::Arc;

use futures_util::{FutureExt, future::BoxFuture};
use parking_lot::Mutex;
use sterna_model::{Revision, WriteId};
use tokio::{
    sync::{mpsc, mpsc::error::SendTimeoutError, oneshot},
    task::JoinSet,
    time::Instant,
};

pub use self::{
    durability::{Confirms, Durability, Standby},
    open::Bare,
};
use self::{
    link::{CALL_MAX, Link},
    session::{Duty, Hints},
    trouble::Trouble,
    writer::{COMMITS_WAITING, Request, WAIT_MAX, Writer},
};
use crate::{
    About, Commit, Limits, OpenError, Outcome, Page, Reading, Scan, Store, StoreError, Watch,
    bound::{self, ANSWER_MAX},
    own::Own,
};

/// What a call is told that took too long in all.
const OVERDUE: Trouble = Trouble::Silent { limit: ANSWER_MAX };

/// How many connections one open store keeps: one commits, one reads, one listens.
pub const CONNECTIONS: usize = 3;

/// A store in a schema of a PostgreSQL database (13 or later). Many processes may have it open.
///
/// It must be opened in a tokio runtime with I/O and time, and lives no longer than that. The
/// connections must lead to the server itself, or to a proxy that keeps sessions: one that hands
/// out a connection anew for each transaction loses prepared statements and LISTEN.
///
/// ```no_run
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// use sterna_store::{Postgres, Store};
///
/// let store = Postgres::open("postgres://me:secret@db/work?sslmode=verify-full").await?;
/// for warning in store.durability().warnings() {
///     eprintln!("{warning}");
/// }
/// # Ok::<(), sterna_store::OpenError>(()) }).unwrap();
/// ```
#[derive(Debug)]
pub struct Postgres {
    commits: mpsc::Sender<Request>,
    read: Link,
    listen: Link,
    hints: Hints,
    own: Arc<Mutex<Own>>,
    durability: Durability,
    /// Ends the tasks when the store is dropped; nobody then waits for them.
    _tasks: JoinSet<()>,
}

impl Postgres {
    /// Opens the store that a URL names: `postgres://USER:PASSWORD@HOST:PORT/DATABASE`, with the
    /// options `schema`, `sslmode` (`disable`, `prefer`, `require`, `verify-ca`, `verify-full`),
    /// `sslrootcert` (a PEM file; without it, the system's roots), `sslcert` and `sslkey` (PEM files,
    /// for a server that asks who we are). The schema, `sterna` unless named, and its tables are
    /// made if they are not there, and brought up to date. It gives up after 70 s at the latest, of
    /// which it waits 30 s for tables that another process makes.
    ///
    /// # Errors
    /// Each says what is in the way and what to do about it.
    pub async fn open(url: &str) -> Result<Self, OpenError> {
        let connector = open::connector(url)?;
        let durability = open::prepare(&connector).await?;
        let hints = Hints::clone(&connector.hints);
        let mut tasks = JoinSet::new();
        let mut keep = |duty| Link::keep(connector.clone(), duty, &mut tasks);
        let (write, read, listen) = (keep(Duty::Write), keep(Duty::Read), keep(Duty::Listen));
        for link in [&write, &read, &listen] {
            link.session(Instant::now() + CALL_MAX).await.map_err(|trouble| {
                let server = connector.target.server.clone();
                OpenError::NotReady { server, source: trouble.into() }
            })?;
        }
        let (commits, queue) = mpsc::channel(COMMITS_WAITING);
        let own = Arc::new(Mutex::new(Own::default()));
        let (known, told) = (Arc::clone(&own), Hints::clone(&hints));
        tasks.spawn(Writer { link: write, hints: told, own: known }.run(queue));
        tasks.spawn(upkeep::run(listen.clone(), read.clone(), Hints::clone(&hints)));
        Ok(Self { commits, read, listen, hints, own, durability, _tasks: tasks })
    }

    /// How the server keeps what it acknowledges.
    pub const fn durability(&self) -> &Durability {
        &self.durability
    }
}

impl Store for Postgres {
    fn limits(&self) -> Limits {
        Limits::PORTABLE
    }

    fn about(&self) -> About {
        self.durability.about()
    }

    fn warnings(&self) -> Vec<String> {
        self.durability.warnings()
    }

    fn commit(&self, commit: Commit) -> BoxFuture<'_, Result<Outcome, StoreError>> {
        let call = async move {
            self.limits().check(&commit)?;
            let (caller, answer) = oneshot::channel();
            let request = Request { commit, since: Instant::now(), caller };
            self.commits.send_timeout(request, WAIT_MAX).await.map_err(|error| {
                let trouble = match error {
                    SendTimeoutError::Timeout(_) => Trouble::Crowded { waiting: COMMITS_WAITING },
                    SendTimeoutError::Closed(_) => Trouble::Closed,
                };
                StoreError::Unavailable(trouble.into())
            })?;
            // The writer answers everything that it takes, unless its runtime is gone.
            answer.await.unwrap_or_else(|gone| Err(StoreError::Unknown(gone.into())))
        };
        bound::told(ANSWER_MAX, OVERDUE, call).boxed()
    }

    fn get<'a>(&'a self, key: &'a str) -> BoxFuture<'a, Result<Reading, StoreError>> {
        let call = async move {
            self.limits().check_key(key)?;
            reader::get(&self.read, key).await
        };
        bound::asked(ANSWER_MAX, OVERDUE, call).boxed()
    }

    fn scan(&self, scan: Scan) -> BoxFuture<'_, Result<Page, StoreError>> {
        let call = async move { reader::scan(&self.read, &self.limits(), &scan).await };
        bound::asked(ANSWER_MAX, OVERDUE, call).boxed()
    }

    fn watch<'a>(
        &'a self,
        prefix: &'a str,
        after: Revision,
    ) -> BoxFuture<'a, Result<Watch, StoreError>> {
        let source = watch::Source {
            // Behind what listens: readings of much else would delay it.
            link: self.listen.clone(),
            limits: self.limits(),
            hints: self.hints.subscribe(),
            own: Arc::clone(&self.own),
        };
        bound::asked(ANSWER_MAX, OVERDUE, watch::watch(source, prefix, after)).boxed()
    }

    fn written(&self, id: WriteId) -> BoxFuture<'_, Result<Option<Revision>, StoreError>> {
        bound::asked(ANSWER_MAX, OVERDUE, reader::written(&self.read, id)).boxed()
    }

    fn compact(&self, up_to: Revision) -> BoxFuture<'_, Result<(), StoreError>> {
        bound::told(ANSWER_MAX, OVERDUE, upkeep::compact(&self.read, up_to)).boxed()
    }
}
