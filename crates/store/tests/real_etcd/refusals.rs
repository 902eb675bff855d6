//! What an open store says when etcd is there and refuses, and what it does by itself.

use std::sync::Arc;

use sterna_store::{Commit, Etcd, Outcome, Store, StoreError, etcd::Bare, scan_all};

use crate::{assert_unavailable, cluster::Cluster, told, write_id};

fn put(number: u64, bytes: usize) -> Commit {
    Commit::new(write_id(0, number)).put(format!("/{number}"), vec![0; bytes])
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_cluster_that_takes_less_than_usual_says_what_to_change() {
    let cluster = Cluster::start(1, &["--max-txn-ops", "20", "--max-request-bytes", "100000"]);
    let store = Etcd::open(&cluster.url("small")).await.unwrap();
    let many = (0..40)
        .fold(Commit::new(write_id(0, 1)), |commit, index| commit.put(format!("/{index}"), "1"));
    assert_unavailable(store.commit(many).await, "set its --max-txn-ops to 128 or more");
    let says = "set its --max-request-bytes to 1572864 or more";
    assert_unavailable(store.commit(put(2, 200_000)).await, says);
    // Beyond 512 KiB more than that it is not etcd that refuses but what hands it its requests.
    assert_unavailable(store.commit(put(4, 999_000)).await, says);
    assert_eq!(scan_all(&store, "").await.unwrap().0, []);
    drop(store.commit(put(3, 10)).await.unwrap());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_full_database_is_told_and_nothing_of_what_it_refused_is_there() {
    let cluster = Cluster::start(1, &["--quota-backend-bytes", "16777216"]);
    let store = Etcd::open(&cluster.url("full")).await.unwrap();
    let mut number = 0;
    let error = loop {
        number += 1;
        if let Err(error) = store.commit(put(number, 900_000)).await {
            break error;
        }
    };
    assert_unavailable(Err(error), "the database of etcd is full");
    let (items, _) = scan_all(&store, "").await.unwrap();
    assert_eq!(items.len() as u64, number - 1, "what was acknowledged is there, and no more");
    assert_eq!(store.written(write_id(0, number)).await.unwrap(), None);
    // What it has can be read, also by a process that comes later.
    let later = Etcd::open(&cluster.url("full")).await.unwrap();
    assert!(later.get("/1").await.unwrap().item.is_some());
    let error = Etcd::open(&cluster.url("other")).await.unwrap_err();
    assert!(told(&error).contains("the database of etcd is full"), "{}", told(&error));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn commits_that_a_filling_database_takes_are_never_said_to_be_refused() {
    let cluster = Cluster::start(1, &["--quota-backend-bytes", "20000000"]);
    let store = Arc::new(Etcd::open(&cluster.url("filling")).await.unwrap());
    // So many at a time that some are on their way into the database when it is found to be full.
    // It may take them all; what comes after that it refuses.
    let (mut refused, mut next) = (0, 0);
    while refused == 0 {
        let wave: Vec<_> = (next..next + 300)
            .map(|number| {
                let store = Arc::clone(&store);
                (number, tokio::spawn(async move { store.commit(put(number, 90_000)).await }))
            })
            .collect();
        next += 300;
        for (number, commit) in wave {
            let answer = commit.await.unwrap();
            let written = store.written(write_id(0, number)).await.unwrap();
            let item = store.get(&format!("/{number}")).await.unwrap().item;
            assert_eq!(item.map(|item| item.revision), written, "{number}");
            match answer {
                Ok(Outcome::Applied(at)) => assert_eq!(written, Some(at), "{number}"),
                Ok(Outcome::Conflict(keys)) => panic!("{keys:?} were expected to be nothing"),
                Err(StoreError::Unknown(_)) => {}
                refusal => {
                    assert_eq!(written, None, "{number} applied, and was told {refusal:?}");
                    assert_unavailable(refusal, "the database of etcd is full");
                    refused += 1;
                }
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_store_keeps_what_it_has_whatever_one_does_whose_prefix_begins_its_own() {
    let cluster = Cluster::start(1, &[]);
    let (outer_url, id) = (cluster.url("sterna"), write_id(7, 7));
    let commit = |key: &str| Commit::new(id).put(key, "1");
    let mut inner = Vec::new();
    for prefix in ["sterna/work", "sterna/benchmark", "sterna/k", "sterna/w", "sterna/bench"] {
        let store = Etcd::open(&cluster.url(prefix)).await.unwrap();
        drop(store.commit(commit("/inner")).await.unwrap());
        inner.push((prefix, store));
    }
    let outer = Etcd::open(&outer_url).await.unwrap();
    let Outcome::Applied(last) = outer.commit(commit("/outer")).await.unwrap() else {
        panic!("no conflict")
    };
    let names = |(items, _): (Vec<sterna_store::Item>, _)| -> Vec<String> {
        items.iter().map(|item| item.key.to_string()).collect()
    };
    assert_eq!(names(scan_all(&outer, "").await.unwrap()), ["/outer"]);
    // Its upkeep has done its work when its own record is gone.
    outer.compact(last).await.unwrap();
    while outer.written(id).await.unwrap().is_some() {}
    let bare = Bare::connect(&outer_url).await.unwrap();
    assert!(bare.put_if_at("a", 0, "1".into()).await.unwrap().is_some());
    bare.clean_up().await.unwrap();
    assert!(bare.put_if_at("a", 0, "1".into()).await.unwrap().is_some(), "it was not removed");
    for (prefix, store) in inner {
        assert_eq!(names(scan_all(&store, "").await.unwrap()), ["/inner"], "{prefix}");
        assert!(store.written(id).await.unwrap().is_some(), "{prefix}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_scan_asks_for_little_more_than_it_takes_however_large_the_values() {
    let values = if std::env::var_os("STERNA_LONG").is_some() { 800 } else { 60 };
    let cluster = Cluster::start(1, &[]);
    let store = Etcd::open(&cluster.url("large")).await.unwrap();
    // Small ones first, which let it expect more of them.
    for number in 0..1_000 {
        let small = Commit::new(write_id(1, number)).put(format!("/0{number:03}"), "1");
        drop(store.commit(small).await.unwrap());
    }
    assert_eq!(scan_all(&store, "/0").await.unwrap().0.len(), 1_000);
    for number in 0..values {
        let large =
            Commit::new(write_id(0, number)).put(format!("/9{number:03}"), vec![0; 999_000]);
        drop(store.commit(large).await.unwrap());
    }
    let before = cluster.bytes_sent(0);
    assert_eq!(scan_all(&store, "/").await.unwrap().0.len() as u64, 1_000 + values);
    let sent = cluster.bytes_sent(0) - before;
    assert!(sent < values * 2_000_000, "etcd had to send {sent} bytes");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn write_ids_go_with_the_history_and_late_copies_with_them() {
    let cluster = Cluster::start(1, &[]);
    let store = Etcd::open(&cluster.url("clean")).await.unwrap();
    let bare = Bare::connect(&cluster.url("clean")).await.unwrap();
    let mut last = None;
    for number in 0..2_500 {
        last = Some(store.commit(Commit::new(write_id(0, number)).put("/a", "1")).await.unwrap());
    }
    let Some(Outcome::Applied(last)) = last else { panic!("no conflict") };
    let kept = write_id(1, 0);
    let Outcome::Applied(later) = store.commit(Commit::new(kept).put("/b", "1")).await.unwrap()
    else {
        panic!("no conflict")
    };
    store.compact(last).await.unwrap();
    // The floor, two keys and the one record that is not compacted.
    while bare.count().await.unwrap() != 4 {}
    assert_eq!(store.written(kept).await.unwrap(), Some(later));
    assert_eq!(store.written(write_id(0, 2_499)).await.unwrap(), None);
    // A commit after that is judged by the floor as it is now.
    assert!(matches!(store.commit(put(9_999, 1)).await.unwrap(), Outcome::Applied(_)));
}
