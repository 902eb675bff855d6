//! What an open store says when the server is there and refuses.

use std::sync::Arc;

use sterna_model::Revision;
use sterna_store::{
    Commit, Outcome, Postgres, Scan, Store, StoreError, conformance::Rng, scan_all,
};

use crate::{assert_unavailable, server::Server, write_id};

fn put(number: u64) -> Commit {
    Commit::new(write_id(0, number)).put("/a", number.to_string())
}

/// Commits until it is refused; a server takes its time to hear of a new setting.
async fn until_refused(store: &Postgres, mut number: u64) -> StoreError {
    loop {
        number += 1;
        if let Err(error) = store.commit(put(number)).await {
            return error;
        }
    }
}

/// Commits until it applies.
async fn until_applied(store: &Postgres, mut number: u64) {
    loop {
        number += 1;
        if store.commit(put(number)).await.is_ok() {
            let item = store.get("/a").await.unwrap().item.unwrap();
            assert_eq!(item.value, number.to_string());
            return;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_server_that_became_read_only_says_so_and_is_used_again_later() {
    let server = Server::start(&[]);
    let store = Postgres::open(&server.url("refusals")).await.unwrap();
    let admin = server.admin().await;
    until_applied(&store, 0).await;

    let set = "ALTER SYSTEM SET default_transaction_read_only = on";
    admin.batch_execute(set).await.unwrap();
    admin.execute("SELECT pg_reload_conf()", &[]).await.unwrap();
    let says = "PostgreSQL is read-only; connect to the primary, or end its read-only mode";
    assert_unavailable(Err(until_refused(&store, 1_000).await), says);
    let reading = store.get("/a").await;
    assert!(reading.is_ok(), "nothing is wrong with reading: {reading:?}");
    let reset = "SET default_transaction_read_only = off; \
                 ALTER SYSTEM RESET default_transaction_read_only";
    for statement in reset.split(';') {
        admin.batch_execute(statement).await.unwrap();
    }
    admin.execute("SELECT pg_reload_conf()", &[]).await.unwrap();
    until_applied(&store, 2_000).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_server_in_recovery_says_so_and_is_used_again_when_promoted() {
    let server = Server::start(&[]);
    let store = Postgres::open(&server.url("refusals")).await.unwrap();
    until_applied(&store, 0).await;
    tokio::task::block_in_place(|| server.demote());
    let says = "PostgreSQL is read-only; connect to the primary, or end its read-only mode";
    assert_unavailable(Err(until_refused(&store, 1_000).await), says);
    let open = Postgres::open(&server.url("refusals")).await.unwrap_err();
    let expected = format!(
        "postgres://{}/postgres is read-only; connect to the primary, or end its read-only mode",
        server.address()
    );
    assert_eq!(open.to_string(), expected);
    let read = store.get("/a").await;
    assert!(matches!(read, Err(StoreError::Unavailable(_))), "a standby may lag: {read:?}");
    tokio::task::block_in_place(|| server.promote());
    until_applied(&store, 2_000).await;
    assert_eq!(store.written(write_id(0, 1_001)).await.unwrap(), None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_server_out_of_connections_says_so_and_is_used_again_later() {
    let server = Server::start(&["max_connections = 8", "superuser_reserved_connections = 0"]);
    let store = Postgres::open(&server.url("refusals")).await.unwrap();
    until_applied(&store, 0).await;
    let admin = server.admin().await;
    let mut others = Vec::new();
    for _ in 0..4 {
        others.push(server.admin().await);
    }
    // Its connections are ended, and others take their places before it can come back.
    let end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
               WHERE application_name = 'sterna'";
    let url = server.url("x").replace("?schema=x", "");
    loop {
        admin.execute(end, &[]).await.unwrap();
        match tokio_postgres::connect(&url, tokio_postgres::NoTls).await {
            Ok((client, connection)) => {
                tokio::spawn(connection);
                others.push(client);
            }
            Err(_) if others.len() >= 7 => break,
            Err(_) => {}
        }
    }
    let says = "PostgreSQL has no connection left; raise max_connections, or close other ones";
    assert_unavailable(store.commit(put(1_000)).await, says);
    let error = Postgres::open(&server.url("refusals")).await.unwrap_err();
    let told = crate::told(&error);
    assert!(told.contains("cannot serve now; see the cause, and try again: "), "{told}");
    drop(others);
    until_applied(&store, 2_000).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_server_with_a_full_disk_says_so_and_is_used_again_when_there_is_room() {
    let server = Server::start_with_small_disk(40);
    let admin = server.admin().await;
    let small = server.small();
    let space = format!("CREATE TABLESPACE small LOCATION '{}'", small.display());
    admin.batch_execute(&space).await.unwrap();
    admin.batch_execute("CREATE DATABASE tiny TABLESPACE small").await.unwrap();
    let ballast = "CREATE TABLE ballast TABLESPACE small AS \
                   SELECT sha256(n::text::bytea) FROM generate_series(1, 100000) n";
    admin.batch_execute(ballast).await.unwrap();
    let url = server.url("refusals").replace("/postgres?", "/tiny?");
    let store = Postgres::open(&url).await.unwrap();
    let mut rng = Rng::new(1);
    let mut put = |number: u64| {
        // Random, or the server would make it small.
        let value: Vec<u8> = (0..100_000).flat_map(|_| rng.next().to_le_bytes()).collect();
        Commit::new(write_id(0, number)).put(format!("/{number:03}"), value)
    };
    let mut number = 0;
    let refused = loop {
        number += 1;
        let answer = store.commit(put(number)).await;
        if answer.is_err() {
            break answer;
        }
    };
    assert_unavailable(refused, "the disk of PostgreSQL is full; free some space there");
    assert_eq!(store.written(write_id(0, number)).await.unwrap(), None);
    let (items, _) = scan_all(&store, "/").await.unwrap();
    assert_eq!(items.len() as u64, number - 1);

    admin.batch_execute("DROP TABLE ballast").await.unwrap();
    // A checkpoint gives the room back.
    admin.batch_execute("CHECKPOINT").await.unwrap();
    let outcome = store.commit(put(number)).await.unwrap();
    assert!(matches!(outcome, Outcome::Applied(_)), "{outcome:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_deadlock_is_tried_again_inside() {
    let server = Server::start(&[]);
    let store = Arc::new(Postgres::open(&server.url("refusals")).await.unwrap());
    until_applied(&store, 0).await;
    let (other, observer) = (server.admin().await, server.admin().await);
    // The other one holds the item and wants the counter, the store the other way round. The other
    // one never looks for a deadlock, so the store is the one who finds it, and is chosen.
    other.batch_execute("SET deadlock_timeout = '1h'").await.unwrap();
    other.batch_execute("BEGIN; SELECT FROM refusals.items FOR UPDATE").await.unwrap();
    let committing = tokio::spawn({
        let store = Arc::clone(&store);
        async move { store.commit(put(1_000)).await }
    });
    until_blocked(&observer).await;
    other.batch_execute("SELECT FROM refusals.counter FOR UPDATE; COMMIT").await.unwrap();
    let outcome = committing.await.unwrap().unwrap();
    assert!(matches!(outcome, Outcome::Applied(_)), "{outcome:?}");
    let deadlocks = "SELECT sum(deadlocks)::int8 FROM pg_stat_database";
    let count: i64 = observer.query_one(deadlocks, &[]).await.unwrap().get(0);
    assert_eq!(count, 1, "it was not put to the test");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_counter_that_somebody_else_holds_is_not_waited_for_for_ever() {
    let server = Server::start(&[]);
    let store = Postgres::open(&server.url("refusals")).await.unwrap();
    let other = server.admin().await;
    other.batch_execute("BEGIN; SELECT FROM refusals.counter FOR UPDATE").await.unwrap();
    let says = "another session holds the lock of the store's counter; see pg_locks for it";
    assert_unavailable(store.commit(put(1)).await, says);
    other.batch_execute("COMMIT").await.unwrap();
    until_applied(&store, 1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn history_beyond_its_bounds_is_forgotten_by_itself() {
    let server = Server::start(&[]);
    let store = Postgres::open(&server.url("refusals")).await.unwrap();
    until_applied(&store, 0).await;
    let admin = server.admin().await;
    let grow = "INSERT INTO refusals.commits
            SELECT n, gen_random_uuid(), n FROM generate_series(2, 150000) n;
        UPDATE refusals.counter SET revision = 150000, bytes = 150000";
    admin.batch_execute(grow).await.unwrap();
    let left = "SELECT count(*), min(revision) FROM refusals.commits";
    loop {
        let row = admin.query_one(left, &[]).await.unwrap();
        if row.get::<_, i64>(0) == 100_000 {
            assert_eq!(row.get::<_, i64>(1), 50_001);
            break;
        }
    }
    let old = store.scan(Scan::of("/").at(Revision::new(49_999))).await;
    let floor = Revision::new(50_000);
    assert!(matches!(old, Err(StoreError::Compacted { floor: at }) if at == floor), "{old:?}");
    until_applied(&store, 1).await;
}

/// Waits until a session of the store waits for a lock.
async fn until_blocked(observer: &tokio_postgres::Client) {
    let blocked = "SELECT count(*) FROM pg_stat_activity
        WHERE application_name = 'sterna' AND wait_event_type = 'Lock'";
    while observer.query_one(blocked, &[]).await.unwrap().get::<_, i64>(0) == 0 {}
}
