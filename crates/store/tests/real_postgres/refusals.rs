//! What an open store says when the server is there and refuses.

use sterna_store::{Commit, Outcome, Postgres, Store, StoreError, conformance::Rng, scan_all};

use crate::{assert_unavailable, server::Server, write_id};

fn put(number: u64) -> Commit {
    Commit::new(write_id(0, number)).put("/a", number.to_string())
}

/// Commits until it is refused; a server takes its time to hear of a new setting.
async fn until_refused(store: &Postgres, mut number: u64) -> Result<Outcome, StoreError> {
    loop {
        number += 1;
        let answer = store.commit(put(number)).await;
        if answer.is_err() {
            assert_eq!(store.written(write_id(0, number)).await.unwrap(), None);
            return answer;
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
    assert_unavailable(until_refused(&store, 1_000).await, says);
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
    assert_unavailable(until_refused(&store, 1_000).await, says);
    let open = Postgres::open(&server.url("refusals")).await.unwrap_err();
    let expected = format!(
        "postgres://{}/postgres is read-only; connect to the primary, or end its read-only mode",
        server.address()
    );
    assert_eq!(open.to_string(), expected);
    tokio::task::block_in_place(|| server.promote());
    until_applied(&store, 2_000).await;
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
