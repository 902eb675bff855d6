//! Connections that are cut, and ones that fall silent.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use sterna_store::{
    Commit, Etcd, Expect, Outcome, Store, StoreError,
    conformance::{Subject, history},
    etcd::Bare,
};

use crate::{
    ANSWERED_BY, assert_silent, assert_unavailable,
    cluster::Cluster,
    ledger::{self, until_answered},
    proxy::{Proxy, Weather},
    told, write_id,
};

/// Stands in the value of a commit whose answer is to be lost.
const MARK: &str = "the marked one";

async fn proxies(cluster: &Cluster, seed: u64) -> Vec<Proxy> {
    let mut proxies = Vec::new();
    for member in 0..cluster.size() {
        proxies.push(Proxy::before(&cluster.address(member), MARK, seed + member as u64).await);
    }
    proxies
}

fn url_of(proxies: &[Proxy], prefix: &str) -> String {
    let addresses: Vec<_> = proxies.iter().map(Proxy::address).collect();
    format!("etcd://{}/{prefix}", addresses.join(","))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn histories_over_connections_that_are_cut_are_linearizable() {
    let rounds = if std::env::var_os("STERNA_LONG").is_some() { 200 } else { 8 };
    let cluster = Cluster::start(3, &[]);
    let proxies = proxies(&cluster, 1).await;
    let store = Arc::new(Etcd::open(&url_of(&proxies, "cut")).await.unwrap());
    proxies.iter().for_each(|proxy| proxy.set(Weather::Cutting));
    for round in 0..rounds {
        let history = history::record(&Subject::new(store.clone(), round), 12, 60).await;
        history.check().unwrap_or_else(|why| panic!("round {round}: {why}"));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn answers_are_true_and_watches_whole_over_connections_that_stall_and_are_cut() {
    let rounds = if std::env::var_os("STERNA_LONG").is_some() { 60 } else { 6 };
    let cluster = Cluster::start(3, &[]);
    let proxies = proxies(&cluster, 7).await;
    let url = url_of(&proxies, "stalls");
    let (store, observer) = tokio::try_join!(Etcd::open(&url), Etcd::open(&url)).unwrap();
    let harm = |round: u64| {
        for (member, proxy) in (0_u64..).zip(&proxies) {
            let weather = match (round + member) % 3 {
                0 => Weather::Silent,
                1 => Weather::Cutting,
                _ => Weather::Fair,
            };
            // In between all is fair, so that what was held back arrives, late.
            proxy.set(Weather::Fair);
            proxy.set(weather);
        }
    };
    let kept = ledger::keep(Arc::new(store), Arc::new(observer), rounds, harm);
    kept.await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_watch_that_nobody_reads_any_more_costs_the_member_nothing() {
    let cluster = Cluster::start(1, &[]);
    let watches = || cluster.count(0, "etcd_debugging_mvcc_watcher_total");
    let store = Etcd::open(&cluster.url("dropped")).await.unwrap();
    let (_, start) = sterna_store::scan_all(&store, "/").await.unwrap();
    let before = watches();
    let mut open = Vec::new();
    for _ in 0..5 {
        open.push(store.watch("/", start).await.unwrap());
    }
    until(|| watches() == before + 5).await;
    drop(open);
    until(|| watches() == before).await;
}

/// Waits until it is so, for as long as a call may take.
async fn until(is_so: impl Fn() -> bool) {
    let begun = now();
    while !is_so() {
        assert!(begun.elapsed() < ANSWERED_BY, "it never came to that");
        let pause = tokio::time::sleep(Duration::from_millis(20)); // why: the member is asked again
        pause.await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_silent_cluster_is_answered_for_by_the_deadline() {
    let cluster = Cluster::start(1, &[]);
    let proxies = proxies(&cluster, 2).await;
    let store = Etcd::open(&url_of(&proxies, "silent")).await.unwrap();
    let put = |number| Commit::new(write_id(0, number)).put("/a", number.to_string());
    drop(store.commit(put(1)).await.unwrap());

    proxies[0].set(Weather::Silent);
    let begun = now();
    // It expects something, because it may arrive after the next one.
    let second = put(2).expect("/a", Expect::Value("1".into()));
    let (committed, ()) = tokio::join!(store.commit(second), assert_silent(&store));
    assert!(begun.elapsed() < ANSWERED_BY, "it took {:?}", begun.elapsed());
    // It went onto the wire, and nobody knows how far.
    assert!(matches!(committed, Err(StoreError::Unknown(_))), "{committed:?}");

    proxies[0].set(Weather::Fair);
    drop(until_answered(&store, put(3)).await);
    let item = store.get("/a").await.unwrap().item.unwrap();
    assert_eq!(item.value, "3");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn calls_of_many_slow_steps_are_answered_by_the_deadline() {
    let cluster = Cluster::start(1, &[]);
    let proxies = proxies(&cluster, 4).await;
    let store = Etcd::open(&url_of(&proxies, "slow")).await.unwrap();
    let keys: Vec<_> = (0..40).map(|number| format!("/{number:02}")).collect();
    let all = keys.iter().fold(Commit::new(write_id(0, 1)), |all, key| all.put(&**key, "1"));
    drop(store.commit(all).await.unwrap());
    proxies[0].set(Weather::Slow);
    let begun = now();
    // Which of them were not so is asked one by one.
    let lost = keys.iter().fold(Commit::new(write_id(0, 2)).put("/a", "1"), |lost, key| {
        lost.expect(&**key, Expect::Value("2".into()))
    });
    let answer = store.commit(lost).await;
    assert!(begun.elapsed() < ANSWERED_BY, "it took {:?}", begun.elapsed());
    // Lost, and so certainly not written.
    assert_unavailable(answer, "etcd did not answer within 10000 ms");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_commit_whose_answer_was_lost_is_unknown_and_settled_by_its_write_id() {
    let cluster = Cluster::start(1, &[]);
    tokio::join!(
        lose_answer(&cluster, Weather::SilentAfterCommit, "0"),
        lose_answer(&cluster, Weather::SilentBeforeCommit, "1"),
    );
}

/// Loses the answer to a commit in this way, and settles it as safety rule 18 has it: by raising
/// what it expects, and then reading.
async fn lose_answer(cluster: &Cluster, weather: Weather, prefix: &str) {
    let proxies = proxies(cluster, 3).await;
    let store = Etcd::open(&url_of(&proxies, prefix)).await.unwrap();
    let first = Commit::new(write_id(0, 1)).put("/fence", "1").put("/a", "before");
    drop(store.commit(first).await.unwrap());

    proxies[0].set(weather);
    let begun = now();
    let lost = write_id(0, 2);
    let fenced = Commit::new(lost).expect("/fence", Expect::Value("1".into())).put("/a", MARK);
    let answer = store.commit(fenced).await;
    assert!(matches!(answer, Err(StoreError::Unknown(_))), "{weather:?}: {answer:?}");
    assert!(begun.elapsed() < ANSWERED_BY, "it took {:?}", begun.elapsed());
    assert!(proxies[0].has_met_commit());

    proxies[0].set(Weather::Fair);
    drop(until_answered(&store, Commit::new(write_id(0, 3)).put("/fence", "2")).await);
    let has_applied = store.written(lost).await.unwrap().is_some();
    let item = store.get("/a").await.unwrap().item.unwrap();
    let should_apply = weather == Weather::SilentAfterCommit;
    assert_eq!(item.value, if should_apply { MARK } else { "before" }, "{weather:?}");
    assert_eq!(has_applied, should_apply, "{weather:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_commit_whose_answer_was_lost_is_settled_over_another_member() {
    let cluster = Cluster::start(3, &[]);
    for weather in [Weather::SilentAfterCommit, Weather::SilentBeforeCommit] {
        // A store begins at the leader. Should there be another one by then, it is no test.
        let mut number = 0;
        while !is_settled_elsewhere(&cluster, weather, number).await {
            number += 1;
        }
    }
}

/// Loses the answer to a commit in this way, over one member of three; gives whether it was put to
/// the test.
async fn is_settled_elsewhere(cluster: &Cluster, weather: Weather, number: u64) -> bool {
    let (proxy, direct) = before_leader(cluster).await;
    let url = format!("etcd://{},{direct}/{weather:?}-{number}", proxy.address());
    let store = Etcd::open(&url).await.unwrap();
    proxy.set(weather);
    let id = write_id(0, number);
    let commit = Commit::new(id).expect("/a", Expect::Absent).put("/a", MARK);
    let Outcome::Applied(revision) = store.commit(commit).await.unwrap() else {
        panic!("{weather:?}: it lost against itself");
    };
    assert_eq!(store.written(id).await.unwrap(), Some(revision), "{weather:?}");
    let item = store.get("/a").await.unwrap().item.unwrap();
    assert_eq!((item.revision, item.value), (revision, MARK.into()), "{weather:?}");
    proxy.has_met_commit()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_copy_that_arrives_after_its_write_id_is_forgotten_does_not_apply() {
    let cluster = Cluster::start(1, &[]);
    let proxy = Proxy::before(&cluster.address(0), MARK, 9).await;
    let slow = Etcd::open(&format!("etcd://{}/late", proxy.address())).await.unwrap();
    let direct = Etcd::open(&cluster.url("late")).await.unwrap();
    let bare = Bare::connect(&cluster.url("late")).await.unwrap();
    // Without expectations: nothing but its write id keeps it from applying twice.
    let late = Commit::new(write_id(0, 1)).put("/a", MARK);
    proxy.set(Weather::Silent);
    let answer = slow.commit(late.clone()).await;
    assert!(matches!(answer, Err(StoreError::Unknown(_))), "{answer:?}");
    drop(until_answered(&direct, late).await);
    let after = until_answered(&direct, Commit::new(write_id(0, 2)).put("/a", "after")).await;
    let Outcome::Applied(after) = after else { panic!("no conflict") };
    direct.compact(after).await.unwrap();
    // The floor and the key: both records are gone.
    while bare.count().await.unwrap() != 2 {}

    proxy.set(Weather::Fair);
    for number in 0..50 {
        let other = Commit::new(write_id(1, number)).put("/b", number.to_string());
        drop(until_answered(&slow, other).await);
    }
    assert_eq!(direct.get("/a").await.unwrap().item.unwrap().value, "after");
    assert_eq!(direct.written(write_id(0, 1)).await.unwrap(), None);
}

/// A proxy before the leader, and the addresses of the others.
async fn before_leader(cluster: &Cluster) -> (Proxy, String) {
    let leader = tokio::task::block_in_place(|| cluster.leader());
    let others = (1..cluster.size()).map(|step| (leader + step) % cluster.size());
    let others: Vec<_> = others.map(|member| cluster.address(member)).collect();
    (Proxy::before(&cluster.address(leader), MARK, 5).await, others.join(","))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_watch_over_a_silent_member_goes_on_over_another() {
    let cluster = Cluster::start(3, &[]);
    let (proxy, direct) = before_leader(&cluster).await;
    let store = Etcd::open(&format!("etcd://{},{direct}/moving", proxy.address())).await.unwrap();
    let other = Etcd::open(&format!("etcd://{direct}/moving")).await.unwrap();
    let first = until_answered(&other, Commit::new(write_id(0, 1)).put("/a", "1")).await;
    let Outcome::Applied(first) = first else { panic!("no conflict") };
    let mut watch = store.watch("/", first).await.unwrap();
    proxy.set(Weather::Silent);
    let begun = now();
    let second = until_answered(&other, Commit::new(write_id(0, 2)).put("/a", "2")).await;
    let changes = match watch.next().await {
        Ok(changes) => changes,
        Err(error) => panic!("{}", told(&error)),
    };
    assert_eq!(Outcome::Applied(changes.revision), second);
    assert!(begun.elapsed() < ANSWERED_BY, "it took {:?}", begun.elapsed());
}

#[expect(clippy::disallowed_methods, reason = "a deadline is what is tested")]
fn now() -> Instant {
    Instant::now()
}
