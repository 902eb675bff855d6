//! The reference: everything in memory, the plainest code, and faults to order.
//!
//! [`Model`] is the store as a pure value, [`Faulty`] adds faults to it, and [`Memory`] puts it
//! behind the contract of [`Store`]. The simulator uses the first two directly.
//!
//! Invariant: nothing here shares code with the embedded store but the judgement of expectations,
//! the limits and the waking of watches, so that comparing the two compares two ways of being
//! right.

mod faults;
mod model;

use std::{collections::BTreeMap, sync::Arc};

use futures_util::{FutureExt, future::BoxFuture};
use parking_lot::Mutex;
use sterna_model::{Revision, WriteId};
use tokio::sync::{oneshot, watch};

pub use self::{
    faults::{Fault, Faulty, Reply, Ticket},
    model::Model,
};
pub use crate::follow::Next;
use crate::{
    About, Commit, Failover, Limits, Outcome, Page, Reading, Scan, Store, StoreError, Watch,
    follow::{Source, follow},
};

/// A store in this process's memory; clones share it. Nothing survives the last clone.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// use sterna_model::{WallTime, WriteId};
/// use sterna_store::{Commit, Expect, Memory, Outcome, Store, memory::Fault};
///
/// let store = Memory::new();
/// store.order(Fault::UnknownApplied);
/// let id = WriteId::from_parts(WallTime::EPOCH, [1; 10]);
/// assert!(store.commit(Commit::new(id).put("/a", "1")).await.is_err());
/// assert!(store.written(id).await?.is_some(), "it had applied all the same");
/// # Ok::<(), sterna_store::StoreError>(()) }).unwrap();
/// ```
#[derive(Clone, Debug)]
pub struct Memory {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    faulty: Mutex<Faulty>,
    /// Callers of slow commits.
    waiting: Mutex<BTreeMap<Ticket, oneshot::Sender<Result<Outcome, StoreError>>>>,
    /// Wakes the watches.
    revision: watch::Sender<Revision>,
}

impl Default for Memory {
    fn default() -> Self {
        Self::new()
    }
}

impl Memory {
    /// An empty store.
    pub fn new() -> Self {
        let (revision, _) = watch::channel(Revision::ZERO);
        let faulty = Mutex::default();
        Self { shared: Arc::new(Shared { faulty, waiting: Mutex::default(), revision }) }
    }

    /// Orders a fault for the next commit that has none ordered before it.
    pub fn order(&self, fault: Fault) {
        self.shared.faulty.lock().order(fault);
    }

    /// Applies what was held back by [`Fault::AppliedLate`] and [`Fault::Slow`].
    pub fn release(&self) {
        let answers = self.shared.faulty.lock().release();
        self.announce();
        let mut waiting = self.shared.waiting.lock();
        for (ticket, answer) in answers {
            if let Some(caller) = waiting.remove(&ticket) {
                // A caller that has gone needs no answer.
                drop(caller.send(answer));
            }
        }
    }

    fn announce(&self) {
        let revision = self.shared.faulty.lock().model().revision();
        self.shared.revision.send_if_modified(|seen| {
            let is_new = revision > *seen;
            *seen = revision.max(*seen);
            is_new
        });
    }
}

impl Store for Memory {
    fn about(&self) -> About {
        About {
            engine: "memory of this process".to_owned(),
            settings: Vec::new(),
            is_durable: false,
            is_shared: false,
            failover: Failover::Never,
        }
    }

    fn warnings(&self) -> Vec<String> {
        let warning = "this store is in memory and goes with its process; write file:DIRECTORY for \
                       one that is kept";
        vec![warning.to_owned()]
    }

    fn limits(&self) -> Limits {
        Limits::PORTABLE
    }

    fn commit(&self, commit: Commit) -> BoxFuture<'_, Result<Outcome, StoreError>> {
        async move {
            let answer = {
                let mut faulty = self.shared.faulty.lock();
                match faulty.submit(commit) {
                    Reply::Now(result) => Ok(result),
                    Reply::Later(ticket) => {
                        let (sender, receiver) = oneshot::channel();
                        self.shared.waiting.lock().insert(ticket, sender);
                        Err(receiver)
                    }
                }
            };
            self.announce();
            match answer {
                Ok(result) => result,
                Err(receiver) => {
                    receiver.await.unwrap_or_else(|gone| Err(StoreError::Unknown(gone.into())))
                }
            }
        }
        .boxed()
    }

    fn get<'a>(&'a self, key: &'a str) -> BoxFuture<'a, Result<Reading, StoreError>> {
        async move {
            self.limits().check_key(key)?;
            Ok(self.shared.faulty.lock().model().get(key))
        }
        .boxed()
    }

    fn scan(&self, scan: Scan) -> BoxFuture<'_, Result<Page, StoreError>> {
        async move { self.shared.faulty.lock().model().scan(&scan) }.boxed()
    }

    fn watch<'a>(
        &'a self,
        prefix: &'a str,
        after: Revision,
    ) -> BoxFuture<'a, Result<Watch, StoreError>> {
        let revisions = self.shared.revision.subscribe();
        let source = Arc::clone(&self.shared);
        async move { follow(source, revisions, prefix.to_owned(), after) }.boxed()
    }

    fn written(&self, id: WriteId) -> BoxFuture<'_, Result<Option<Revision>, StoreError>> {
        async move { Ok(self.shared.faulty.lock().model().written(id)) }.boxed()
    }

    fn compact(&self, up_to: Revision) -> BoxFuture<'_, Result<(), StoreError>> {
        async move { Ok(self.shared.faulty.lock().model_mut().compact(up_to)?) }.boxed()
    }
}

impl Source for Shared {
    fn next(&self, prefix: &str, after: Revision, limit: usize) -> Result<Next, StoreError> {
        self.faulty.lock().model().next_changes(prefix, after, limit)
    }
}
