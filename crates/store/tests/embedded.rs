//! The embedded store keeps the contract, whether its log is cut seldom or all the time.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on says where")]

mod support;

use std::sync::Arc;

use futures_util::future::BoxFuture;
use sterna_model::{Revision, WriteId};
use sterna_store::{
    Commit, Embedded, Limits, Outcome, Page, Reading, Scan, Store, StoreError, Watch,
    embedded::Sizes,
};
use support::Folder;

/// A store whose directory goes with it.
struct Kept {
    store: Embedded,
    _folder: Folder,
}

impl Kept {
    fn open(sizes: Sizes) -> Arc<dyn Store> {
        let folder = Folder::new("embedded");
        let store = Embedded::open_with(folder.path(), sizes).unwrap();
        Arc::new(Self { store, _folder: folder })
    }
}

impl Store for Kept {
    fn limits(&self) -> Limits {
        self.store.limits()
    }

    fn commit(&self, commit: Commit) -> BoxFuture<'_, Result<Outcome, StoreError>> {
        self.store.commit(commit)
    }

    fn get<'a>(&'a self, key: &'a str) -> BoxFuture<'a, Result<Reading, StoreError>> {
        self.store.get(key)
    }

    fn scan(&self, scan: Scan) -> BoxFuture<'_, Result<Page, StoreError>> {
        self.store.scan(scan)
    }

    fn watch<'a>(
        &'a self,
        prefix: &'a str,
        after: Revision,
    ) -> BoxFuture<'a, Result<Watch, StoreError>> {
        self.store.watch(prefix, after)
    }

    fn written(&self, id: WriteId) -> BoxFuture<'_, Result<Option<Revision>, StoreError>> {
        self.store.written(id)
    }

    fn compact(&self, up_to: Revision) -> BoxFuture<'_, Result<(), StoreError>> {
        self.store.compact(up_to)
    }
}

mod as_it_comes {
    use super::*;

    async fn open() -> Arc<dyn Store> {
        Kept::open(Sizes::default())
    }

    sterna_store::conformance!(open());
}

/// History is kept long enough for the rules, and yet segments are closed and merged under them.
mod cut_all_the_time {
    use super::*;

    async fn open() -> Arc<dyn Store> {
        Kept::open(Sizes {
            segment_bytes: 2_000,
            history_bytes: 16 << 20,
            history_segments: 40,
            backlog_bytes: 64 << 20,
        })
    }

    sterna_store::conformance!(open());
}
