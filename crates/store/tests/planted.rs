//! Stores with one mistake each: the rule that forbids it must notice.

use std::{
    panic::AssertUnwindSafe,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use futures_util::{FutureExt, future::BoxFuture};
use sterna_model::{Revision, WallTime, WriteId};
use sterna_store::{
    About, Commit, Limits, Memory, Outcome, Page, Reading, Scan, Store, StoreError, Watch,
    conformance::{Subject, rules},
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mistake {
    /// Looks first and writes then, without holding anything in between.
    ChecksBeforeWriting,
    /// Applies the writes of a commit one by one.
    WritesOneByOne,
    /// Reads what was there a moment ago.
    ReadsOldState,
    /// Gives every page the state of now.
    ForgetsThePin,
    /// Loses a change now and then.
    WatchSkips,
    /// Delivers a change twice now and then.
    WatchRepeats,
    /// Applies a commit again that it had applied before.
    ForgetsWriteIds,
    /// Says that a commit was lost which in truth was applied.
    LiesAboutConflicts,
    /// Takes what exceeds the limits, cut to size.
    HasNoLimits,
    /// Looks whether it knows a write id, and applies then.
    ChecksWriteIdsFirst,
    /// Reads the right revision with another value.
    ReadsWrongValues,
    /// Takes bytes for text.
    ReadsText,
    /// Tells of an empty value as if it had been removed.
    TakesEmptyForNothing,
    /// Calls the floor itself compacted.
    CompactsOneMore,
    /// Loses what comes when a watch lags by more than 300.
    WatchJumps,
}

struct Planted {
    store: Memory,
    mistake: Mistake,
    counter: AtomicU64,
}

impl Planted {
    fn store(mistake: Mistake) -> Arc<dyn Store> {
        Arc::new(Self { store: Memory::new(), mistake, counter: AtomicU64::new(0) })
    }

    fn count(&self) -> u64 {
        self.counter.fetch_add(1, Ordering::Relaxed)
    }

    fn new_id(&self) -> WriteId {
        let mut unique = [0; 10];
        unique[3..].copy_from_slice(&self.count().to_be_bytes()[1..]);
        WriteId::from_parts(WallTime::MAX, unique)
    }

    async fn commit_wrongly(&self, mut commit: Commit) -> Result<Outcome, StoreError> {
        match self.mistake {
            Mistake::ChecksBeforeWriting => {
                let mut check = commit.clone();
                check.writes.clear();
                if let Outcome::Conflict(keys) = self.store.commit(check).await? {
                    return Ok(Outcome::Conflict(keys));
                }
                tokio::task::yield_now().await;
                commit.expects.clear();
                self.store.commit(commit).await
            }
            Mistake::WritesOneByOne => {
                let writes = std::mem::take(&mut commit.writes);
                let mut outcome = self.store.commit(commit).await?;
                if let Outcome::Conflict(_) = outcome {
                    return Ok(outcome);
                }
                for write in writes {
                    let mut part = Commit::new(self.new_id());
                    part.writes.push(write);
                    outcome = self.store.commit(part).await?;
                    tokio::task::yield_now().await;
                }
                Ok(outcome)
            }
            Mistake::ForgetsWriteIds => {
                commit.write_id = self.new_id();
                self.store.commit(commit).await
            }
            Mistake::LiesAboutConflicts if self.count() % 7 == 6 => {
                let keys = commit.expects.iter().map(|(key, _)| key.clone()).collect();
                match self.store.commit(commit).await? {
                    Outcome::Applied(_) => Ok(Outcome::Conflict(keys)),
                    conflict @ Outcome::Conflict(_) => Ok(conflict),
                }
            }
            Mistake::HasNoLimits => {
                let limits = self.limits();
                commit.writes.retain(|(key, _)| limits.check_key(key).is_ok());
                commit.writes.truncate(limits.operations_max / 2);
                self.store.commit(commit).await
            }
            Mistake::ChecksWriteIdsFirst => {
                if let Some(revision) = self.store.written(commit.write_id).await? {
                    return Ok(Outcome::Applied(revision));
                }
                tokio::task::yield_now().await;
                commit.write_id = self.new_id();
                self.store.commit(commit).await
            }
            Mistake::ReadsWrongValues
            | Mistake::ReadsText
            | Mistake::TakesEmptyForNothing
            | Mistake::CompactsOneMore
            | Mistake::WatchJumps
            | Mistake::LiesAboutConflicts
            | Mistake::ReadsOldState
            | Mistake::ForgetsThePin
            | Mistake::WatchSkips
            | Mistake::WatchRepeats => self.store.commit(commit).await,
        }
    }
}

impl Store for Planted {
    fn about(&self) -> About {
        self.store.about()
    }

    fn limits(&self) -> Limits {
        self.store.limits()
    }

    fn commit(&self, commit: Commit) -> BoxFuture<'_, Result<Outcome, StoreError>> {
        self.commit_wrongly(commit).boxed()
    }

    fn get<'a>(&'a self, key: &'a str) -> BoxFuture<'a, Result<Reading, StoreError>> {
        async move {
            let mut reading = self.store.get(key).await?;
            if let Some(item) = &mut reading.item {
                if self.mistake == Mistake::ReadsWrongValues {
                    item.value = "wrong".into();
                } else if self.mistake == Mistake::ReadsText {
                    item.value = String::from_utf8_lossy(&item.value).into_owned().into();
                }
            }
            if self.mistake == Mistake::ReadsOldState {
                // By the time it is answered, others have gone on.
                for _ in 0..20 {
                    tokio::task::yield_now().await;
                }
                let revision = self.store.get(key).await?.revision;
                return Ok(Reading { item: reading.item, revision });
            }
            Ok(reading)
        }
        .boxed()
    }

    fn scan(&self, mut scan: Scan) -> BoxFuture<'_, Result<Page, StoreError>> {
        if self.mistake == Mistake::ForgetsThePin {
            scan.at = None;
        }
        let floor = Revision::new(self.counter.load(Ordering::Relaxed));
        if self.mistake == Mistake::CompactsOneMore && scan.at == Some(floor) {
            return async move { Err(StoreError::Compacted { floor }) }.boxed();
        }
        self.store.scan(scan)
    }

    fn watch<'a>(
        &'a self,
        prefix: &'a str,
        after: Revision,
    ) -> BoxFuture<'a, Result<Watch, StoreError>> {
        async move {
            let watch = self.store.watch(prefix, after).await?;
            let mistake = self.mistake;
            let start = (watch, 0_u64, None);
            Ok(Watch::new(futures_util::stream::try_unfold(start, move |state| async move {
                let (mut watch, count, again) = state;
                if let Some(again) = again {
                    return Ok(Some((again, (watch, count, None))));
                }
                let mut changes = watch.next().await?;
                let is_skipped = mistake == Mistake::WatchSkips && count == 5
                    || mistake == Mistake::WatchJumps && count == 300;
                if is_skipped {
                    changes = watch.next().await?;
                }
                if mistake == Mistake::TakesEmptyForNothing {
                    for change in &mut changes.changes {
                        change.value = change.value.take().filter(|value| !value.is_empty());
                    }
                }
                let is_repeated = mistake == Mistake::WatchRepeats && count == 5;
                let again = is_repeated.then(|| changes.clone());
                Ok(Some((changes, (watch, count + 1, again))))
            })))
        }
        .boxed()
    }

    fn written(&self, id: WriteId) -> BoxFuture<'_, Result<Option<Revision>, StoreError>> {
        self.store.written(id)
    }

    fn compact(&self, up_to: Revision) -> BoxFuture<'_, Result<(), StoreError>> {
        self.counter.store(up_to.get(), Ordering::Relaxed);
        self.store.compact(up_to)
    }
}

/// Whether the rule fails on a store with the mistake.
async fn is_noticed(mistake: Mistake, name: &str) -> bool {
    let (_, rule) = rules::ALL.iter().find(|(rule, _)| *rule == name).expect("the rule exists");
    let subject = Subject::new(Planted::store(mistake), 42);
    AssertUnwindSafe(rule(subject)).catch_unwind().await.is_err()
}

macro_rules! planted {
    ($($mistake:ident is noticed by $rule:ident as $name:ident;)+) => {$(
        #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
        async fn $name() {
            assert!(is_noticed(Mistake::$mistake, stringify!($rule)).await);
        }
    )+};
}

planted! {
    ChecksBeforeWriting is noticed by random_histories_are_linearizable as a_store_that_is_not_atomic_fails;
    WritesOneByOne is noticed by a_commit_applies_as_a_whole as a_store_that_tears_commits_fails;
    WritesOneByOne is noticed by random_histories_are_linearizable as torn_commits_are_not_linearizable;
    ReadsOldState is noticed by random_histories_are_linearizable as a_store_that_reads_old_state_fails;
    ForgetsThePin is noticed by a_scan_is_pinned_to_its_revision as a_store_that_forgets_the_pin_fails;
    WatchSkips is noticed by a_watch_delivers_every_change_once_in_order as a_watch_that_skips_fails;
    WatchRepeats is noticed by a_watch_delivers_every_change_once_in_order as a_watch_that_repeats_fails;
    ForgetsWriteIds is noticed by a_write_id_applies_once as a_store_that_forgets_write_ids_fails;
    ForgetsWriteIds is noticed by written_tells_what_applied as a_store_without_write_ids_fails;
    LiesAboutConflicts is noticed by random_histories_are_linearizable as a_store_that_lies_about_conflicts_fails;
    ChecksWriteIdsFirst is noticed by a_write_id_applies_once_even_at_the_same_time as a_store_that_checks_write_ids_first_fails;
    ReadsWrongValues is noticed by random_histories_are_linearizable as a_store_that_reads_wrong_values_fails;
    ReadsText is noticed by values_are_bytes as a_store_that_takes_bytes_for_text_fails;
    TakesEmptyForNothing is noticed by values_are_bytes as a_watch_that_takes_empty_for_nothing_fails;
    CompactsOneMore is noticed by compaction_keeps_the_state_and_says_what_is_gone as a_store_that_compacts_one_more_fails;
    WatchJumps is noticed by a_watch_far_behind_misses_nothing as a_watch_that_jumps_fails;
    WatchRepeats is noticed by a_watch_replayed_is_the_state as a_watch_that_repeats_beside_committers_fails;
    HasNoLimits is noticed by what_exceeds_a_limit_is_refused as a_store_without_limits_fails;
}
