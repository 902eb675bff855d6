//! The embedded store keeps the contract, whether its log is cut seldom or all the time.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on says where")]

mod support;

use std::sync::Arc;

use futures_util::future::BoxFuture;
use sterna_model::{Revision, WriteId};
use sterna_store::{
    About, Commit, Embedded, Limits, Outcome, Page, Reading, Scan, Store, StoreError, Watch,
    conformance::{
        Subject,
        disk::{Disk, Trouble},
    },
    embedded::Sizes,
};
use support::Folder;

/// A store whose directory goes with it.
struct Kept {
    store: Embedded,
    _folder: Folder,
}

impl Kept {
    fn open(sizes: Sizes) -> Arc<dyn Store> {
        let folder = Folder::new("embedded");
        let store = Embedded::open_with(folder.path(), sizes).unwrap();
        Arc::new(Self { store, _folder: folder })
    }
}

impl Store for Kept {
    fn about(&self) -> About {
        self.store.about()
    }

    fn limits(&self) -> Limits {
        self.store.limits()
    }

    fn commit(&self, commit: Commit) -> BoxFuture<'_, Result<Outcome, StoreError>> {
        self.store.commit(commit)
    }

    fn get<'a>(&'a self, key: &'a str) -> BoxFuture<'a, Result<Reading, StoreError>> {
        self.store.get(key)
    }

    fn scan(&self, scan: Scan) -> BoxFuture<'_, Result<Page, StoreError>> {
        self.store.scan(scan)
    }

    fn watch<'a>(
        &'a self,
        prefix: &'a str,
        after: Revision,
    ) -> BoxFuture<'a, Result<Watch, StoreError>> {
        self.store.watch(prefix, after)
    }

    fn written(&self, id: WriteId) -> BoxFuture<'_, Result<Option<Revision>, StoreError>> {
        self.store.written(id)
    }

    fn compact(&self, up_to: Revision) -> BoxFuture<'_, Result<(), StoreError>> {
        self.store.compact(up_to)
    }
}

mod as_it_comes {
    use super::*;

    async fn open() -> Arc<dyn Store> {
        Kept::open(Sizes::default())
    }

    sterna_store::conformance!(open());
}

/// History is kept long enough for the rules, and yet segments are closed and merged under them.
mod cut_all_the_time {
    use super::*;

    async fn open() -> Arc<dyn Store> {
        Kept::open(Sizes {
            segment_bytes: 2_000,
            history_bytes: 16 << 20,
            history_segments: 40,
            backlog_bytes: 64 << 20,
        })
    }

    sterna_store::conformance!(open());
}

#[tokio::test]
async fn a_watch_of_a_poisoned_store_is_told_so() {
    let disk = Disk::new(1);
    let store = Embedded::open_on(Arc::new(disk.clone()), Sizes::default()).unwrap();
    let subject = Subject::new(Arc::new(store), 1);
    let start = subject.put("a", "1").await;
    let mut watch = subject.store.watch(&subject.prefix, start).await.unwrap();
    let waiting = tokio::spawn(async move { watch.next().await });
    tokio::task::yield_now().await;
    // The next sync may be one of the merger, who prepares a segment in the background.
    let answer = loop {
        disk.plan(0, Trouble::SyncFails);
        match subject.store.commit(subject.commit().put("/elsewhere", "2")).await {
            Ok(Outcome::Applied(_)) => {}
            other => break other,
        }
    };
    assert!(matches!(answer, Err(StoreError::Unknown(_))), "{answer:?}");
    let told = waiting.await.unwrap();
    assert!(matches!(told, Err(StoreError::Poisoned)), "{told:?}");
}

/// What is at the path of a store is not always the store.
mod in_its_place {
    use std::fs;

    use super::*;
    use sterna_store::OpenError;

    #[tokio::test]
    async fn a_store_that_was_moved_away_leaves_its_successor_alone() {
        let folder = Folder::new("moved");
        let (path, elsewhere) = (folder.path().join("store"), folder.path().join("old"));
        let sizes = Sizes { segment_bytes: 2_000, ..Sizes::default() };
        let first = Subject::new(Arc::new(Embedded::open_with(&path, sizes).unwrap()), 1);
        fs::rename(&path, &elsewhere).unwrap();
        let second = Subject::new(Arc::new(Embedded::open_with(&path, sizes).unwrap()), 2);
        for round in 0..100 {
            first.put(&format!("{round}"), "first").await;
            second.put(&format!("{round}"), "second").await;
        }
        first.store.compact(first.put("end", "").await).await.unwrap();
        drop((first, second));
        for (path, seed) in [(elsewhere, 1), (path, 2)] {
            let subject = Subject::new(Arc::new(Embedded::open(path).unwrap()), seed);
            let all = sterna_store::scan_all(&*subject.store, "").await.unwrap().0;
            assert!(all.iter().all(|item| item.key.starts_with(&subject.prefix)));
            assert!(all.len() >= 100, "{}", all.len());
        }
    }

    #[test]
    fn nothing_is_touched_in_a_directory_that_is_not_a_store() {
        let folder = Folder::new("foreign");
        fs::create_dir_all(folder.path()).unwrap();
        fs::write(folder.path().join("thesis.draft"), "precious").unwrap();
        let refused = Embedded::open(folder.path());
        assert!(matches!(refused, Err(OpenError::Foreign { .. })), "{refused:?}");
        let left: Vec<_> =
            fs::read_dir(folder.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
        assert_eq!(left, ["thesis.draft"]);
    }

    #[test]
    fn a_lock_file_of_somebody_else_is_left_alone() {
        let folder = Folder::new("lock");
        fs::create_dir_all(folder.path().join("store")).unwrap();
        let lock = folder.path().join("store/LOCK");
        fs::write(&lock, "not yours").unwrap();
        let refused = Embedded::open(folder.path().join("store"));
        assert!(matches!(refused, Err(OpenError::Foreign { .. })), "{refused:?}");
        assert_eq!(fs::read_to_string(&lock).unwrap(), "not yours");

        let victim = folder.path().join("victim");
        fs::write(&victim, "").unwrap();
        fs::remove_file(&lock).unwrap();
        std::os::unix::fs::symlink(&victim, &lock).unwrap();
        let refused = Embedded::open(folder.path().join("store"));
        assert!(matches!(refused, Err(OpenError::Foreign { .. })), "{refused:?}");
        assert_eq!(fs::read_to_string(&victim).unwrap(), "");
    }
}
