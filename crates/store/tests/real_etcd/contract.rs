//! The whole suite, on one store and on two that share a prefix.

use std::sync::{
    Arc,
    atomic::{AtomicU32, Ordering},
};

use sterna_store::{Etcd, Store, conformance};

use crate::{cluster::Cluster, two::Two};

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_contract_is_kept() {
    let cluster = Cluster::start(3, &[]);
    let next = AtomicU32::new(0);
    let open = || async {
        let number = next.fetch_add(1, Ordering::Relaxed);
        let store = Etcd::open(&cluster.url(&format!("rule-{number}"))).await.unwrap();
        Arc::new(store) as Arc<dyn Store>
    };
    conformance::all(1, open).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_contract_is_kept_by_two_processes_together() {
    let cluster = Cluster::start(3, &[]);
    let next = AtomicU32::new(0);
    let open = || async {
        let number = next.fetch_add(1, Ordering::Relaxed);
        // Each over another member: what one has acknowledged the other must show.
        let url = |member| format!("etcd://{}/rule-{number}", cluster.address(member));
        let (one, other) = (url(0), url(1));
        let both = tokio::try_join!(Etcd::open(&one), Etcd::open(&other)).unwrap();
        Arc::new(Two::new(both.0, both.1)) as Arc<dyn Store>
    };
    conformance::all(2, open).await;
}
