//! Two stores on one place, as two processes have them.

use std::sync::atomic::{AtomicU32, Ordering};

use futures_util::future::BoxFuture;
use sterna_model::{Revision, WriteId};
use sterna_store::{About, Commit, Limits, Outcome, Page, Reading, Scan, Store, StoreError, Watch};

/// Each call goes to the other one.
pub(crate) struct Two<S> {
    both: [S; 2],
    turn: AtomicU32,
}

impl<S> Two<S> {
    pub(crate) const fn new(one: S, other: S) -> Self {
        Self { both: [one, other], turn: AtomicU32::new(0) }
    }

    fn next(&self) -> &S {
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        &self.both[usize::from(turn % 2 == 1)]
    }
}

impl<S: Store> Store for Two<S> {
    fn about(&self) -> About {
        self.next().about()
    }

    fn limits(&self) -> Limits {
        self.next().limits()
    }

    fn commit(&self, commit: Commit) -> BoxFuture<'_, Result<Outcome, StoreError>> {
        self.next().commit(commit)
    }

    fn get<'a>(&'a self, key: &'a str) -> BoxFuture<'a, Result<Reading, StoreError>> {
        self.next().get(key)
    }

    fn scan(&self, scan: Scan) -> BoxFuture<'_, Result<Page, StoreError>> {
        self.next().scan(scan)
    }

    fn watch<'a>(
        &'a self,
        prefix: &'a str,
        after: Revision,
    ) -> BoxFuture<'a, Result<Watch, StoreError>> {
        self.next().watch(prefix, after)
    }

    fn written(&self, id: WriteId) -> BoxFuture<'_, Result<Option<Revision>, StoreError>> {
        self.next().written(id)
    }

    fn compact(&self, up_to: Revision) -> BoxFuture<'_, Result<(), StoreError>> {
        self.next().compact(up_to)
    }
}
