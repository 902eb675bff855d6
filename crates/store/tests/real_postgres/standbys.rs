//! A standby takes over: what it has of what was acknowledged, and what is said before.

use std::time::Duration;

use sterna_store::{Commit, Failover, Outcome, Postgres, Store, StoreError, postgres::Confirms};

use crate::{ledger::until_answered, server::Server, write_id};

fn put(number: u64) -> Commit {
    Commit::new(write_id(0, number)).put(format!("/{number}"), number.to_string())
}

/// The URL of a store on whichever of the two takes writes.
fn url_of(one: &Server, other: &Server) -> String {
    one.url("failover").replace(&one.address(), &format!("{},{}", one.address(), other.address()))
}

/// Opens the store until its server tells of this failover: standbys take their time to come.
async fn open_until(url: &str, is_it: impl Fn(&Failover) -> bool) -> Postgres {
    let opened = async {
        loop {
            let store = Postgres::open(url).await.unwrap();
            if is_it(&store.durability().failover()) {
                return store;
            }
        }
    };
    let opened = tokio::time::timeout(Duration::from_secs(60), opened).await;
    opened.expect("the server tells of another failover than was waited for")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn what_a_synchronous_standby_confirmed_outlives_the_primary() {
    let primary = Server::start(&[]);
    let standby = tokio::task::block_in_place(|| primary.start_standby("second"));
    let admin = primary.admin().await;
    admin.batch_execute("ALTER SYSTEM SET synchronous_standby_names = 'second'").await.unwrap();
    admin.batch_execute("SELECT pg_reload_conf()").await.unwrap();
    let url = url_of(&primary, &standby);
    let store = open_until(
        &url,
        |it| matches!(it, Failover::Keeps(text) if text.contains("second has every commit")),
    )
    .await;
    assert_eq!(store.warnings(), Vec::<String>::new());
    assert_eq!(store.durability().standbys[0].confirms, Confirms::Every);

    let mut applied = Vec::new();
    for number in 0..50 {
        if let Ok(Outcome::Applied(revision)) = store.commit(put(number)).await {
            applied.push((number, revision));
        }
    }
    assert!(applied.len() > 40, "{applied:?}");
    tokio::task::block_in_place(|| {
        primary.kill();
        standby.promote();
    });
    // The new one has no standby to wait for.
    let admin = standby.admin().await;
    admin.batch_execute("ALTER SYSTEM SET synchronous_standby_names = ''").await.unwrap();
    admin.batch_execute("SELECT pg_reload_conf()").await.unwrap();
    // The same open store goes on with it, and all is there.
    drop(until_answered(&store, put(1_000)).await);
    for (number, revision) in applied {
        let item = store.get(&format!("/{number}")).await.unwrap().item.unwrap();
        assert_eq!(item.revision, revision);
    }
}

/// Waits until a commit waits for a standby, and does this to its session.
async fn break_off(admin: &tokio_postgres::Client, how: &str) {
    let text = format!("SELECT {how}(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'");
    let broken = async { while admin.query(&*text, &[]).await.unwrap().is_empty() {} };
    tokio::time::timeout(Duration::from_secs(10), broken).await.expect("no commit waits");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_commit_whose_wait_for_a_standby_was_broken_off_is_not_called_applied() {
    let primary = Server::start(&[]);
    let standby = tokio::task::block_in_place(|| primary.start_standby("second"));
    let admin = primary.admin().await;
    admin.batch_execute("ALTER SYSTEM SET synchronous_standby_names = 'second'").await.unwrap();
    admin.batch_execute("SELECT pg_reload_conf()").await.unwrap();
    let keeps = |it: &Failover| matches!(it, Failover::Keeps(text) if text.contains("second has"));
    let store = open_until(&primary.url("failover"), keeps).await;
    drop(until_answered(&store, put(0)).await);
    for (number, how) in [(1, "pg_cancel_backend"), (2, "pg_terminate_backend")] {
        tokio::task::block_in_place(|| standby.down());
        let (answer, ()) = tokio::join!(store.commit(put(number)), break_off(&admin, how));
        assert!(matches!(answer, Err(StoreError::Unknown(_))), "{how}: {answer:?}");
        // It can be read, and still nobody calls it applied.
        assert!(store.get(&format!("/{number}")).await.unwrap().item.is_some(), "{how}");
        let again = store.commit(put(number)).await;
        assert!(again.is_err(), "{how}: {again:?}");
        let written = store.written(write_id(0, number)).await;
        assert!(written.is_err(), "{how}: {written:?}");
        tokio::task::block_in_place(|| standby.up());
        let Outcome::Applied(revision) = until_answered(&store, put(number)).await else {
            panic!("{how}: nobody else wrote")
        };
        assert_eq!(store.written(write_id(0, number)).await.unwrap(), Some(revision), "{how}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn an_asynchronous_standby_is_warned_of_and_its_losses_are_noticed() {
    let primary = Server::start(&[]);
    let standby = tokio::task::block_in_place(|| primary.start_standby("second"));
    let url = url_of(&primary, &standby);
    let store = open_until(&url, |it| matches!(it, Failover::Loses(_))).await;
    let told = "no commit waits for a standby (second): the last ones are lost if it takes over; \
                name it in synchronous_standby_names, or never promote it";
    assert_eq!(store.warnings(), [told]);
    assert!(store.about().is_durable, "it is, as long as its machine comes back");
    // Who may not look at standbys is told so.
    let admin = primary.admin().await;
    admin
        .batch_execute(
            "CREATE USER guest PASSWORD 'guest'; CREATE SCHEMA theirs AUTHORIZATION guest",
        )
        .await
        .unwrap();
    admin
        .batch_execute("ALTER SYSTEM SET synchronous_standby_names = 'ANY 1 (second, third)'")
        .await
        .unwrap();
    admin.batch_execute("SELECT pg_reload_conf()").await.unwrap();
    let guest = format!("postgres://guest:guest@{}/postgres?schema=theirs", primary.address());
    drop(
        open_until(
            &guest,
            |it| matches!(it, Failover::Unclear(text) if text.contains("GRANT pg_monitor")),
        )
        .await,
    );
    admin.batch_execute("GRANT pg_monitor TO guest").await.unwrap();
    drop(
        open_until(
            &guest,
            |it| matches!(it, Failover::Keeps(text) if text.contains("some of second")),
        )
        .await,
    );
    admin.batch_execute("ALTER SYSTEM RESET synchronous_standby_names").await.unwrap();
    admin.batch_execute("SELECT pg_reload_conf()").await.unwrap();

    drop(until_answered(&store, put(0)).await);
    tokio::task::block_in_place(|| standby.down());
    for number in 1..=5 {
        drop(until_answered(&store, put(number)).await);
    }
    tokio::task::block_in_place(|| {
        primary.kill();
        standby.up();
        standby.promote();
    });
    let mut number = 1_000;
    let told = loop {
        number += 1;
        match store.commit(put(number)).await {
            Err(StoreError::WentBack(fallen)) => break fallen,
            Err(StoreError::Unavailable(_) | StoreError::Unknown(_)) => {}
            other => panic!("it was believed: {other:?}"),
        }
    };
    assert!(told.found < told.seen);
}
