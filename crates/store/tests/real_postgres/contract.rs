//! The whole suite, on one store and on two that share a schema.

use std::sync::{
    Arc,
    atomic::{AtomicU32, Ordering},
};

use sterna_store::{Postgres, Store, conformance};

use crate::{server::Server, two::Two};

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
        Arc::new(Two::new(both.0, both.1)) as Arc<dyn Store>
    };
    conformance::all(2, open).await;
}
