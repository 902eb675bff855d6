//! The store on a real PostgreSQL server: it keeps the contract, also when the server is killed,
//! cut off, silent, out of connections or read-only.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on says where")]

#[path = "../support/answers.rs"]
mod answers;
mod contract;
mod crashes;
#[path = "../support/killed.rs"]
mod killed;
#[path = "../support/ledger.rs"]
mod ledger;
mod messages;
mod network;
#[path = "../support/papers.rs"]
mod papers;
#[path = "../support/proxy.rs"]
mod proxy;
mod refusals;
#[path = "../support/restored.rs"]
mod restored;
#[path = "../support/postgres.rs"]
mod server;
mod standbys;
#[path = "../support/two.rs"]
mod two;

use std::time::Duration;

use self::answers::{assert_silent, assert_unavailable, told, write_id};

/// By when every call must have been answered: the bound of all calls, and some for a busy machine.
const ANSWERED_BY: Duration = Duration::from_secs(18);

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn an_older_backup_under_an_open_store_is_noticed() {
    let server = server::Server::start(&[]);
    let open = || async { sterna_store::Postgres::open(&server.url("restored")).await.unwrap() };
    restored::assert_noticed(open, || server.back_up(), || server.restore()).await;
}

#[test]
fn a_killed_test_leaves_no_server() {
    let start = || server::Server::start(&[]);
    killed::assert_nothing_is_left("a_killed_test_leaves_no_server", start, server::Server::folder);
}
