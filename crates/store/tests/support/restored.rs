//! A server that is restored from a backup under a store that is open.

use std::{sync::Arc, time::Duration};

use sterna_model::{ClusterId, Epoch, Position, Revision, WallTime};
use sterna_store::{
    Commit, Outcome, Scan, Store, StoreError, WentBack,
    cluster::{self, Verdict},
};

use crate::{ledger::until_answered, write_id};

/// How long a watch may take to find out.
const NOTICED_BY: Duration = Duration::from_secs(30);

fn put(number: u64) -> Commit {
    Commit::new(write_id(0, number)).put("/a", number.to_string())
}

/// `back_up` is called when the store has some history, `restore` when it has more. The store that
/// is open must not pass for whole, however far the restored one counts on; opened anew it lags.
pub(crate) async fn assert_noticed<S: Store, F: Future<Output = S>>(
    open: impl Fn() -> F,
    back_up: impl FnOnce(),
    restore: impl FnOnce(),
) {
    let store = Arc::new(open().await);
    let id = ClusterId::from_parts(WallTime::EPOCH, [7; 10]);
    let cluster = cluster::make(&*store, id, write_id(1, 1)).await.unwrap();
    tokio::task::block_in_place(back_up);
    let mut seen = Revision::ZERO;
    for number in 1..=5 {
        let outcome = until_answered(&*store, put(number)).await;
        let Outcome::Applied(revision) = outcome else { panic!("no conflict") };
        seen = revision;
    }
    let remembered = cluster::see(&*store, &cluster).await.unwrap();
    assert_eq!(remembered.position, Position { epoch: Epoch::new(1), revision: seen });
    let mut watch = store.watch("/", seen).await.unwrap();
    let watching = tokio::spawn(async move { watch.next().await });
    tokio::task::block_in_place(restore);

    let WentBack { seen: before, found } = until_noticed(&*store).await;
    assert_eq!(before, seen);
    assert!(found < seen, "{found} {seen}");
    let told = tokio::time::timeout(NOTICED_BY, watching).await.expect("the watch waits for ever");
    assert!(matches!(told.unwrap(), Err(StoreError::WentBack(_))));

    // Opened anew it can be used, and who remembers what was there knows that it lags.
    let anew = open().await;
    let judged =
        cluster::judge(&cluster::read(&anew, Some(&remembered)).await.unwrap(), Some(&remembered));
    assert_eq!(judged, Verdict::Lags(Epoch::new(2)));
    for number in 11..=20 {
        drop(until_answered(&anew, put(number)).await);
    }
    // It counts further now than what was seen, and is still not the store that was.
    assert!(anew.get("/a").await.unwrap().revision > seen);
    let (commit, get, scan, watch, written, compact) = tokio::join!(
        store.commit(put(99)),
        store.get("/a"),
        store.scan(Scan::of("/")),
        store.watch("/", Revision::ZERO),
        store.written(write_id(0, 1)),
        store.compact(Revision::new(1)),
    );
    let answers = [
        commit.map(drop),
        get.map(drop),
        scan.map(drop),
        watch.map(drop),
        written.map(drop),
        compact,
    ];
    for answer in answers {
        assert!(matches!(answer, Err(StoreError::WentBack(_))), "{answer:?}");
    }
    assert_eq!(anew.get("/a").await.unwrap().item.unwrap().value, "20");
}

/// Commits until the store says that it has gone back.
async fn until_noticed(store: &impl Store) -> WentBack {
    for number in 1_000.. {
        match store.commit(put(number)).await {
            Err(StoreError::WentBack(fallen)) => return fallen,
            // It is not up again yet.
            Err(StoreError::Unavailable(_) | StoreError::Unknown(_)) => {}
            other => panic!("it was believed: {other:?}"),
        }
    }
    unreachable!("there are numbers enough")
}
