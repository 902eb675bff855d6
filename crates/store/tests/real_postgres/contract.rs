//! The whole suite, on one store and on two that share a schema.

use std::sync::{
    Arc,
    atomic::{AtomicU32, Ordering},
};

use futures_util::future::BoxFuture;

use crate::server::Server;
use sterna_model::{Revision, WriteId};
use sterna_store::{
    Commit, Limits, Outcome, Page, Postgres, Reading, Scan, Store, StoreError, Watch, conformance,
};

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_contract_is_kept() {
    let server = Server::start(&[]);
    let next = AtomicU32::new(0);
    let open = || async {
        let number = next.fetch_add(1, Ordering::Relaxed);
        let store = Postgres::open(&server.url(&format!("rule_{number}"))).await.unwrap();
        Arc::new(store) as Arc<dyn Store>
    };
    conformance::all(1, open).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_contract_is_kept_by_two_processes_together() {
    let server = Server::start(&[]);
    let next = AtomicU32::new(0);
    let open = || async {
        let number = next.fetch_add(1, Ordering::Relaxed);
        let url = server.url(&format!("rule_{number}"));
        let both = tokio::try_join!(Postgres::open(&url), Postgres::open(&url)).unwrap();
        Arc::new(Two { both: [both.0, both.1], turn: AtomicU32::new(0) }) as Arc<dyn Store>
    };
    conformance::all(2, open).await;
}

/// Two stores on one schema, as two processes have them; each call goes to the other one.
struct Two {
    both: [Postgres; 2],
    turn: AtomicU32,
}

impl Two {
    fn next(&self) -> &Postgres {
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        &self.both[usize::from(turn % 2 == 1)]
    }
}

impl Store for Two {
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
