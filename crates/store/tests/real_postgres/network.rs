//! Connections that are cut, and ones that fall silent.

use std::{sync::Arc, time::Instant};

use sterna_store::{
    Commit, Expect, Outcome, Postgres, Store, StoreError,
    conformance::{Subject, history},
};

use crate::{
    ANSWERED_BY, assert_silent, assert_unavailable,
    ledger::until_answered,
    proxy::{Proxy, Weather},
    server::{Server, url_at},
    write_id,
};

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn histories_over_connections_that_are_cut_are_linearizable() {
    let rounds = if std::env::var_os("STERNA_LONG").is_some() { 200 } else { 8 };
    let server = Server::start(&[]);
    let proxy = Proxy::before(&server.address(), "COMMIT", 1).await;
    let store = Arc::new(Postgres::open(&url_at(proxy.address(), "cut")).await.unwrap());
    proxy.set(Weather::Cutting);
    for round in 0..rounds {
        let history = history::record(&Subject::new(store.clone(), round), 12, 60).await;
        history.check().unwrap_or_else(|why| panic!("round {round}: {why}"));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_silent_server_is_answered_for_by_the_deadline() {
    let server = Server::start(&[]);
    let proxy = Proxy::before(&server.address(), "COMMIT", 2).await;
    let store = Postgres::open(&url_at(proxy.address(), "silent")).await.unwrap();
    let put = |number| Commit::new(write_id(0, number)).put("/a", number.to_string());
    drop(store.commit(put(1)).await.unwrap());

    proxy.set(Weather::Silent);
    let begun = now();
    let (committed, ()) = tokio::join!(store.commit(put(2)), assert_silent(&store));
    assert!(begun.elapsed() < ANSWERED_BY, "it took {:?}", begun.elapsed());
    assert_unavailable(committed, "PostgreSQL did not answer within");

    proxy.set(Weather::Fair);
    drop(until_answered(&store, put(3)).await);
    assert_eq!(store.written(write_id(0, 2)).await.unwrap(), None);
    let item = store.get("/a").await.unwrap().item.unwrap();
    assert_eq!(item.value, "3");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_slow_network_is_no_reason_to_give_up() {
    let server = Server::start(&[]);
    let proxy = Proxy::before(&server.address(), "COMMIT", 4).await;
    let store = Postgres::open(&url_at(proxy.address(), "slow")).await.unwrap();
    proxy.set(Weather::Slow);
    let commit = Commit::new(write_id(0, 1)).put("/a", "1");
    let outcome = store.commit(commit).await.unwrap();
    assert!(matches!(outcome, Outcome::Applied(_)), "{outcome:?}");
    assert_eq!(store.get("/a").await.unwrap().item.unwrap().value, "1");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_commit_whose_answer_was_lost_is_unknown_and_settled_by_its_write_id() {
    let server = Server::start(&[]);
    tokio::join!(
        lose_answer(&server, Weather::SilentAfterCommit, "1"),
        lose_answer(&server, Weather::SilentBeforeCommit, "0"),
    );
}

/// Loses the answer to a commit in this way, and settles it as safety rule 18 has it: by raising
/// what it expects, and then reading. Gives the value that the commit was to set.
async fn lose_answer(server: &Server, weather: Weather, value: &str) {
    let schema = if value == "1" { "lost_answer" } else { "lost_commit" };
    let proxy = Proxy::before(&server.address(), "COMMIT", 3).await;
    let store = Postgres::open(&url_at(proxy.address(), schema)).await.unwrap();
    let first = Commit::new(write_id(0, 1)).put("/fence", "1").put("/a", "0");
    drop(store.commit(first).await.unwrap());

    proxy.set(weather);
    let begun = now();
    let lost = write_id(0, 2);
    let fenced = Commit::new(lost).expect("/fence", Expect::Value("1".into())).put("/a", "1");
    let answer = store.commit(fenced).await;
    assert!(matches!(answer, Err(StoreError::Unknown(_))), "{weather:?}: {answer:?}");
    assert!(begun.elapsed() < ANSWERED_BY, "it took {:?}", begun.elapsed());
    assert!(proxy.has_met_commit());

    proxy.set(Weather::Fair);
    drop(until_answered(&store, Commit::new(write_id(0, 3)).put("/fence", "2")).await);
    let has_applied = store.written(lost).await.unwrap().is_some();
    let item = store.get("/a").await.unwrap().item.unwrap();
    assert_eq!(item.value, value, "{weather:?}");
    assert_eq!(has_applied, value == "1", "{weather:?}");
}

#[expect(clippy::disallowed_methods, reason = "a deadline is what is tested")]
fn now() -> Instant {
    Instant::now()
}
