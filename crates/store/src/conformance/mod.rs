//! The suite that every backend passes: each rule of the contract by name, and random histories
//! that must be linearizable.
//!
//! A backend's test file says [`conformance!`](crate::conformance!) with a way to open a store;
//! every rule then becomes a test of its own name. [`all`] runs them one after another, for
//! backends whose stores are too dear to be opened thirty times.
//!
//! Rules share nothing: each keeps to the keys under its own prefix, and assumes nothing about the
//! revision at which it begins.

#![expect(clippy::unwrap_used, reason = "these are tests, kept where other crates can run them")]

pub mod disk;
pub mod history;
mod rng;
pub mod rules;

use std::sync::Arc;

use sterna_model::{Revision, WallTime, WriteId};

pub use self::rng::Rng;
use crate::{Commit, Outcome, Store};

/// A store under test, and the part of it that one rule may use.
#[derive(Clone)]
pub struct Subject {
    /// The store.
    pub store: Arc<dyn Store>,
    /// Begins every key of the rule.
    pub prefix: String,
    ids: Arc<parking_lot::Mutex<Rng>>,
}

impl std::fmt::Debug for Subject {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Subject").field("prefix", &self.prefix).finish_non_exhaustive()
    }
}

impl Subject {
    /// A subject with keys of its own; `seed` must differ between rules on one store.
    pub fn new(store: Arc<dyn Store>, seed: u64) -> Self {
        let prefix = format!("/conformance/{seed:016x}/");
        Self { store, prefix, ids: Arc::new(parking_lot::Mutex::new(Rng::new(seed))) }
    }

    /// The full name of a key of this rule.
    pub fn key(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }

    /// A commit with a new write id.
    pub fn commit(&self) -> Commit {
        Commit::new(self.write_id())
    }

    /// A write id that was never used.
    pub fn write_id(&self) -> WriteId {
        let mut ids = self.ids.lock();
        let mut random = [0; 10];
        random[..8].copy_from_slice(&ids.next().to_le_bytes());
        random[8..].copy_from_slice(&ids.next().to_le_bytes()[..2]);
        WriteId::from_parts(WallTime::EPOCH, random)
    }

    /// Commits what must apply.
    ///
    /// # Panics
    /// It did not.
    pub async fn apply(&self, commit: Commit) -> Revision {
        match self.store.commit(commit).await.expect("the store answers") {
            Outcome::Applied(revision) => revision,
            Outcome::Conflict(keys) => panic!("{keys:?} were not as expected"),
        }
    }

    /// Sets a key, whatever it was.
    pub async fn put(&self, name: &str, value: &str) -> Revision {
        self.apply(self.commit().put(self.key(name), value.to_owned())).await
    }

    /// The value of a key, as text.
    pub async fn value(&self, name: &str) -> Option<String> {
        let reading = self.store.get(&self.key(name)).await.expect("the store answers");
        reading.item.map(|item| String::from_utf8_lossy(&item.value).into_owned())
    }
}

/// Runs every rule, one after another, each on what `open` gives.
///
/// # Panics
/// A rule is broken; the panic's message names it.
pub async fn all<F: Future<Output = Arc<dyn Store>>>(seed: u64, mut open: impl FnMut() -> F) {
    for (index, (name, rule)) in rules::ALL.iter().enumerate() {
        let subject = Subject::new(open().await, seed.wrapping_add(index as u64));
        if let Err(failure) = tokio::spawn(rule(subject)).await {
            panic!("the store breaks the rule {name}: {failure}");
        }
    }
}

/// A seed for a rule, from its name.
pub fn seed_of(name: &str) -> u64 {
    name.bytes().fold(0, |seed, byte| Rng::new(seed ^ u64::from(byte)).next())
}

/// Makes one test of every rule for a backend: `conformance!(open())`, where `open()` gives a future
/// of an `Arc<dyn Store>` and is called anew for every rule. The caller needs tokio with its macros.
#[macro_export]
macro_rules! conformance {
    ($open:expr) => {
        $crate::conformance! { $open =>
            a_commit_applies_as_a_whole
            absent_holds_only_of_a_missing_key
            present_holds_only_of_a_key_that_is_there
            at_holds_only_of_the_last_write
            value_compares_every_byte
            a_conflict_names_its_keys_and_writes_nothing
            revisions_grow_and_are_never_reused
            a_commit_without_writes_only_checks
            a_write_id_applies_once
            written_tells_what_applied
            removing_what_is_not_there_is_no_change
            what_exceeds_a_limit_is_refused
            what_meets_the_limits_is_taken
            a_reading_carries_its_revision
            a_scan_pages_in_key_order
            a_scan_is_pinned_to_its_revision
            a_page_of_large_values_is_short
            an_impossible_page_is_refused
            a_watch_delivers_every_change_once_in_order
            a_watch_tells_each_value
            a_watch_keeps_to_its_prefix
            a_watch_resumes_anywhere
            a_watch_waits_for_what_comes
            a_watch_from_the_future_is_refused
            compaction_keeps_the_state_and_says_what_is_gone
            a_watch_that_falls_behind_is_told_so
            compaction_is_of_the_past
            one_of_many_creators_wins
            a_watch_replayed_is_the_state
            random_histories_are_linearizable
        }
    };
    ($open:expr => $($rule:ident)+) => {
        $(#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
        async fn $rule() {
            let seed = $crate::conformance::seed_of(stringify!($rule));
            let subject = $crate::conformance::Subject::new($open.await, seed);
            $crate::conformance::rules::$rule(subject).await;
        })+

        #[test]
        fn every_rule_has_a_test() {
            let all = $crate::conformance::rules::ALL.iter().map(|(name, _)| *name);
            assert_eq!(all.collect::<Vec<_>>(), [$(stringify!($rule)),+]);
        }
    };
}
