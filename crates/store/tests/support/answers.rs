//! Commits that can be told apart, and what was answered to them.

use sterna_model::{Revision, WallTime, WriteId};
use sterna_store::{Outcome, Scan, Store, StoreError};

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

/// Every call of a store whose server says nothing is answered, and says so.
pub(crate) async fn assert_silent(store: &impl Store) {
    let (get, scan, watch, written, compact) = tokio::join!(
        store.get("/a"),
        store.scan(Scan::of("/")),
        store.watch("/", Revision::ZERO),
        store.written(write_id(0, 1)),
        store.compact(Revision::new(1)),
    );
    let answers =
        [get.map(drop), scan.map(drop), watch.map(drop), written.map(drop)].map(Result::unwrap_err);
    for answer in answers {
        assert!(matches!(answer, StoreError::Unavailable(_)), "{answer:?}");
    }
    let answer = compact.unwrap_err();
    assert!(matches!(answer, StoreError::Unavailable(_) | StoreError::Unknown(_)), "{answer:?}");
}
