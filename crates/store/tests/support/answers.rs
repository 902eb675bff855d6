//! Commits that can be told apart, and what was answered to them.

use sterna_model::{WallTime, WriteId};
use sterna_store::{Outcome, StoreError};

/// A write id that is like no other of its test.
pub(crate) fn write_id(writer: u16, number: u64) -> WriteId {
    let mut unique = [0; 10];
    unique[..2].copy_from_slice(&writer.to_be_bytes());
    unique[2..].copy_from_slice(&number.to_be_bytes());
    WriteId::from_parts(WallTime::EPOCH, unique)
}

/// An error with all its causes, as a user sees it.
pub(crate) fn told(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

/// It was answered `Unavailable`, with these words.
#[track_caller]
pub(crate) fn assert_unavailable(answer: Result<Outcome, StoreError>, says: &str) {
    match answer {
        Err(error @ StoreError::Unavailable(_)) => {
            assert!(told(&error).contains(says), "{says:?} is not said in: {}", told(&error));
        }
        other => panic!("expected to hear {says:?}, got {other:?}"),
    }
}
