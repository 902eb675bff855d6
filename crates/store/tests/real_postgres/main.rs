//! The store on a real PostgreSQL server: it keeps the contract, also when the server is killed,
//! cut off, silent, out of connections or read-only.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on says where")]

mod contract;
mod crashes;
#[path = "../support/ledger.rs"]
mod ledger;
mod messages;
mod network;
#[path = "../support/proxy.rs"]
mod proxy;
mod refusals;
#[path = "../support/postgres.rs"]
mod server;
#[path = "../support/two.rs"]
mod two;

use std::time::Duration;

use sterna_model::{WallTime, WriteId};
use sterna_store::{Outcome, StoreError};

/// By when every call must have been answered: its own bound, and some for a busy machine.
const ANSWERED_BY: Duration = Duration::from_secs(14);

/// A write id that is like no other of its test.
fn write_id(writer: u16, number: u64) -> WriteId {
    let mut unique = [0; 10];
    unique[..2].copy_from_slice(&writer.to_be_bytes());
    unique[2..].copy_from_slice(&number.to_be_bytes());
    WriteId::from_parts(WallTime::EPOCH, unique)
}

/// An error with all its causes, as a user sees it.
fn told(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

/// It was answered `Unavailable`, with these words.
#[track_caller]
fn assert_unavailable(answer: Result<Outcome, StoreError>, says: &str) {
    match answer {
        Err(error @ StoreError::Unavailable(_)) => {
            assert!(told(&error).contains(says), "{says:?} is not said in: {}", told(&error));
        }
        other => panic!("expected to hear {says:?}, got {other:?}"),
    }
}
