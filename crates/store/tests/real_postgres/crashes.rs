//! The server is killed and restarted while committers commit and a watch watches.

use std::sync::Arc;

use sterna_store::Postgres;

use crate::{ledger, server::Server};

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn answers_are_true_and_watches_whole_however_often_the_server_is_killed() {
    let rounds = if std::env::var_os("STERNA_LONG").is_some() { 100 } else { 8 };
    let server = Server::start(&[]);
    let url = server.url("crashes");
    let store = Arc::new(Postgres::open(&url).await.unwrap());
    // A process of its own, as it were: it hears of commits only from the server.
    let observer = Arc::new(Postgres::open(&url).await.unwrap());
    let harm = |round| {
        if round % 2 == 0 {
            server.crash();
        } else {
            server.kill();
        }
        server.up();
    };
    ledger::keep(store, observer, rounds, harm).await;
}
