//! Members are killed, paused and restarted while committers commit and a watch watches.

use std::sync::Arc;

use sterna_store::Etcd;

use crate::{cluster::Cluster, ledger};

fn rounds() -> u64 {
    if std::env::var_os("STERNA_LONG").is_some() { 60 } else { 6 }
}

/// Two stores on one prefix, as two processes have them.
async fn both(cluster: &Cluster, prefix: &str) -> (Arc<Etcd>, Arc<Etcd>) {
    let url = cluster.url(prefix);
    let both = tokio::try_join!(Etcd::open(&url), Etcd::open(&url)).unwrap();
    (Arc::new(both.0), Arc::new(both.1))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn answers_are_true_and_watches_whole_when_the_only_member_is_killed() {
    let cluster = Cluster::start(1, &[]);
    let (store, observer) = both(&cluster, "crashes").await;
    let harm = |_| {
        cluster.kill(0);
        cluster.launch(0);
        cluster.until_healthy();
    };
    ledger::keep(store, observer, rounds(), harm).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn answers_are_true_and_watches_whole_when_the_leader_or_another_member_is_killed() {
    let cluster = Cluster::start(3, &[]);
    let (store, observer) = both(&cluster, "crashes").await;
    let harm = |round| {
        let leader = cluster.leader();
        let member = if round % 2 == 0 { leader } else { (leader + 1) % cluster.size() };
        cluster.kill(member);
        // The others go on without it, and choose another leader if they must.
        cluster.leader();
        cluster.launch(member);
        cluster.until_healthy();
    };
    ledger::keep(store, observer, rounds(), harm).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn answers_are_true_and_watches_whole_when_most_members_are_killed() {
    let cluster = Cluster::start(3, &[]);
    let (store, observer) = both(&cluster, "crashes").await;
    let harm = |_| {
        let leader = cluster.leader();
        let members = [leader, (leader + 1) % cluster.size()];
        members.iter().for_each(|member| cluster.kill(*member));
        members.iter().for_each(|member| cluster.launch(*member));
        cluster.until_healthy();
    };
    ledger::keep(store, observer, rounds(), harm).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn answers_are_true_and_watches_whole_when_the_leader_is_paused() {
    let cluster = Cluster::start(3, &[]);
    let (store, observer) = both(&cluster, "crashes").await;
    let harm = |_| {
        let leader = cluster.leader();
        cluster.signal(leader, "-STOP");
        // What it had taken in it does when it goes on: late, and after others have settled it.
        let others = (1..cluster.size()).map(|step| (leader + step) % cluster.size());
        cluster.leader_of(&others.collect::<Vec<_>>());
        cluster.signal(leader, "-CONT");
    };
    ledger::keep(store, observer, rounds(), harm).await;
}
