//! The contract, one function for each rule.

use std::{collections::BTreeMap, pin::Pin, sync::Arc, time::Duration};

use bytes::Bytes;
use sterna_model::Revision;

use super::{Subject, history};
use crate::{Change, Changes, Commit, Expect, Outcome, Scan, StoreError, Watch, scan_all};

/// How long a watch may take to tell of what is there: much longer than any does.
const TOLD_BY: Duration = Duration::from_secs(60);

/// A rule, to be run by name.
pub type Rule = fn(Subject) -> Pin<Box<dyn Future<Output = ()> + Send>>;

/// Declares the rules once: as functions, as [`ALL`], and for the `conformance!` macro.
macro_rules! rules {
    ($($(#[$doc:meta])* async fn $name:ident($subject:ident: Subject) $body:block)+) => {
        $($(#[$doc])*
        ///
        /// # Panics
        /// The store breaks the rule.
        pub async fn $name($subject: Subject) $body)+

        /// Every rule with its name.
        pub const ALL: &[(&str, Rule)] =
            &[$((stringify!($name), |subject| Box::pin($name(subject)))),+];
    };
}

rules! {
    /// All writes of a commit apply at one revision, and are seen together.
    async fn a_commit_applies_as_a_whole(subject: Subject) {
        subject.put("old", "1").await;
        let commit = subject.commit().put(subject.key("a"), "1").put(subject.key("b"), "2");
        let revision = subject.apply(commit.delete(subject.key("old"))).await;
        let (items, _) = scan_all(&*subject.store, &subject.prefix).await.unwrap();
        let seen: Vec<_> = items.iter().map(|item| (&*item.key, item.revision)).collect();
        let (a, b) = (subject.key("a"), subject.key("b"));
        assert_eq!(seen, [(&*a, revision), (&*b, revision)]);
    }

    /// `Absent` holds of a key that is not there or was removed, and of no other.
    async fn absent_holds_only_of_a_missing_key(subject: Subject) {
        let create = || subject.commit().expect(subject.key("a"), Expect::Absent);
        subject.apply(create().put(subject.key("a"), "1")).await;
        assert_conflict(&subject, create().put(subject.key("a"), "2"), &["a"]).await;
        subject.apply(subject.commit().delete(subject.key("a"))).await;
        subject.apply(create().put(subject.key("a"), "3")).await;
        assert_eq!(subject.value("a").await.as_deref(), Some("3"));
    }

    /// `Present` holds of a key with any value, even an empty one.
    async fn present_holds_only_of_a_key_that_is_there(subject: Subject) {
        let update = || subject.commit().expect(subject.key("a"), Expect::Present);
        assert_conflict(&subject, update().put(subject.key("a"), "1"), &["a"]).await;
        subject.put("a", "").await;
        subject.apply(update().put(subject.key("a"), "2")).await;
    }

    /// `At` holds of the revision that last wrote the key, and of none before or after.
    async fn at_holds_only_of_the_last_write(subject: Subject) {
        let first = subject.put("a", "1").await;
        let second = subject.put("a", "1").await;
        let other = subject.put("b", "1").await;
        for wrong in [first, other, Revision::ZERO] {
            let commit = subject.commit().expect(subject.key("a"), Expect::At(wrong));
            assert_conflict(&subject, commit.put(subject.key("a"), "2"), &["a"]).await;
        }
        let commit = subject.commit().expect(subject.key("a"), Expect::At(second));
        subject.apply(commit.put(subject.key("a"), "2")).await;
        let gone = subject.commit().expect(subject.key("never"), Expect::At(Revision::ZERO));
        assert_conflict(&subject, gone.put(subject.key("a"), "3"), &["never"]).await;
    }

    /// `Value` compares every byte, and does not hold of a missing key.
    async fn value_compares_every_byte(subject: Subject) {
        let bytes = Bytes::from_static(b"\x00\xff\x00");
        subject.apply(subject.commit().put(subject.key("a"), bytes.clone())).await;
        for wrong in [&b"\x00\xff"[..], b"\x00\xff\x00\x00", b""] {
            let expect = Expect::Value(Bytes::copy_from_slice(wrong));
            let commit = subject.commit().expect(subject.key("a"), expect);
            assert_conflict(&subject, commit.delete(subject.key("a")), &["a"]).await;
        }
        let empty = subject.commit().expect(subject.key("none"), Expect::Value(Bytes::new()));
        assert_conflict(&subject, empty.delete(subject.key("a")), &["none"]).await;
        let commit = subject.commit().expect(subject.key("a"), Expect::Value(bytes));
        subject.apply(commit.delete(subject.key("a"))).await;
    }

    /// A conflict names each key that was not as expected, once, in order, and writes nothing.
    async fn a_conflict_names_its_keys_and_writes_nothing(subject: Subject) {
        subject.put("b", "1").await;
        let before = scan_all(&*subject.store, &subject.prefix).await.unwrap();
        let commit = subject
            .commit()
            .expect(subject.key("c"), Expect::Present)
            .expect(subject.key("b"), Expect::Present)
            .expect(subject.key("a"), Expect::Present)
            .expect(subject.key("a"), Expect::At(Revision::ZERO))
            .put(subject.key("b"), "2")
            .put(subject.key("d"), "2");
        assert_conflict(&subject, commit, &["a", "c"]).await;
        let after = scan_all(&*subject.store, &subject.prefix).await.unwrap();
        assert_eq!(after.0, before.0);
    }

    /// Every applied commit makes a revision greater than all before it.
    async fn revisions_grow_and_are_never_reused(subject: Subject) {
        let mut last = Revision::ZERO;
        for round in 0..20 {
            let commit = match round % 3 {
                0 => subject.commit().put(subject.key("a"), "same"),
                1 => subject.commit().delete(subject.key("a")),
                _ => subject.commit().delete(subject.key("never")),
            };
            let revision = subject.apply(commit).await;
            assert!(revision > last, "{revision} after {last}");
            last = revision;
            let lost = subject.commit().expect(subject.key("no"), Expect::Present);
            assert_conflict(&subject, lost.put(subject.key("a"), "2"), &["no"]).await;
        }
    }

    /// A commit without writes tells whether its expectations hold, and leaves no trace.
    async fn a_commit_without_writes_only_checks(subject: Subject) {
        let revision = subject.put("a", "1").await;
        let check = subject.commit().expect(subject.key("a"), Expect::At(revision));
        assert!(subject.apply(check.clone()).await >= revision);
        assert_eq!(subject.store.written(check.write_id).await.unwrap(), None);
        let check = subject.commit().expect(subject.key("a"), Expect::Absent);
        assert_conflict(&subject, check, &["a"]).await;
    }

    /// A commit sent again under its write id is not applied again, even if it would not apply now.
    async fn a_write_id_applies_once(subject: Subject) {
        let commit = subject.commit().expect(subject.key("a"), Expect::Absent);
        let commit = commit.put(subject.key("a"), "1");
        let revision = subject.apply(commit.clone()).await;
        subject.put("a", "2").await;
        assert_eq!(subject.apply(commit).await, revision);
        assert_eq!(subject.value("a").await.as_deref(), Some("2"));
    }

    /// `written` knows what applied, removals included, and nothing else.
    async fn written_tells_what_applied(subject: Subject) {
        let put = subject.commit().put(subject.key("a"), "1");
        let delete = subject.commit().delete(subject.key("a"));
        let lost = subject.commit().expect(subject.key("a"), Expect::Present).put("/x", "1");
        for commit in [put, delete] {
            let id = commit.write_id;
            assert_eq!(subject.store.written(id).await.unwrap(), None);
            let revision = subject.apply(commit).await;
            assert_eq!(subject.store.written(id).await.unwrap(), Some(revision));
        }
        assert_conflict(&subject, lost.clone(), &["a"]).await;
        assert_eq!(subject.store.written(lost.write_id).await.unwrap(), None);
    }

    /// Removing what is not there applies and changes nothing.
    async fn removing_what_is_not_there_is_no_change(subject: Subject) {
        let start = subject.put("a", "1").await;
        let mut watch = subject.store.watch(&subject.prefix, start).await.unwrap();
        subject.apply(subject.commit().delete(subject.key("never"))).await;
        let mixed = subject.commit().delete(subject.key("never")).put(subject.key("b"), "1");
        let revision = subject.apply(mixed).await;
        let changes = next(&mut watch).await.unwrap();
        assert_eq!((changes.revision, changes.changes.len()), (revision, 1));
    }

    /// What exceeds a limit is refused with its reason, and nothing of it is written.
    async fn what_exceeds_a_limit_is_refused(subject: Subject) {
        let limits = subject.store.limits();
        let long = "k".repeat(limits.key_bytes_max + 1);
        let large = vec![0_u8; limits.value_bytes_max + 1];
        let half = vec![0_u8; limits.commit_bytes_max / 2 + 1];
        let start = || subject.commit().put(subject.key("a"), "1");
        let many = (0..limits.operations_max)
            .fold(start(), |commit, index| commit.delete(subject.key(&index.to_string())));
        let commits = [
            (start().put("", "1"), "a key is empty"),
            (start().expect("", Expect::Absent), "a key is empty"),
            (start().put(long.clone(), "1"), "shorten the key"),
            (start().expect(long, Expect::Absent), "shorten the key"),
            (start().delete(subject.key("a\0b")), "NUL byte"),
            (start().put(subject.key("b"), large.clone()), "split it over several keys"),
            (start().expect(subject.key("b"), Expect::Value(large.into())), "split it over several keys"),
            (
                start().put(subject.key("b"), half.clone()).put(subject.key("c"), half),
                "split it into several commits",
            ),
            (many, "split it into several commits"),
            (start().delete(subject.key("a")), "twice"),
        ];
        for (commit, reason) in commits {
            match subject.store.commit(commit).await {
                Err(StoreError::Refused(refusal)) => {
                    assert!(refusal.to_string().contains(reason), "{refusal}");
                }
                other => panic!("expected a refusal for {reason:?}, got {other:?}"),
            }
        }
        for (key, reason) in [("", "is empty"), (&*"k".repeat(limits.key_bytes_max + 1), "shorten"), ("\0", "NUL")] {
            match subject.store.get(key).await {
                Err(StoreError::Refused(refusal)) => {
                    assert!(refusal.to_string().contains(reason), "{refusal}");
                }
                other => panic!("expected a refusal for {reason:?}, got {other:?}"),
            }
        }
        assert_eq!(subject.value("a").await, None);
    }

    /// What just meets every limit is taken, and read back as it was.
    async fn what_meets_the_limits_is_taken(subject: Subject) {
        let limits = subject.store.limits();
        let long = format!("{}{}", subject.prefix, "k".repeat(limits.key_bytes_max - subject.prefix.len()));
        let large = Bytes::from(vec![7_u8; limits.value_bytes_max]);
        subject.apply(subject.commit().put(long.clone(), large.clone())).await;
        let item = subject.store.get(&long).await.unwrap().item.unwrap();
        assert_eq!(item.value, large);
        let many = (0..limits.operations_max)
            .fold(subject.commit(), |commit, index| commit.put(subject.key(&index.to_string()), "1"));
        subject.apply(many).await;
        let (items, _) = scan_all(&*subject.store, &subject.prefix).await.unwrap();
        assert_eq!(items.len(), limits.operations_max + 1);
    }

    /// A reading carries the store's revision, also when the key is not there.
    async fn a_reading_carries_its_revision(subject: Subject) {
        let first = subject.put("a", "1").await;
        let second = subject.put("b", "1").await;
        let reading = subject.store.get(&subject.key("a")).await.unwrap();
        assert!(reading.revision >= second);
        assert_eq!(reading.item.unwrap().revision, first);
        let missing = subject.store.get(&subject.key("c")).await.unwrap();
        assert!(missing.item.is_none() && missing.revision >= second);
    }

    /// Pages come in the order of the keys' bytes, only under the prefix, and end.
    async fn a_scan_pages_in_key_order(subject: Subject) {
        let names = ["", "a", "a/", "a/b", "a0", "b", "é", "z", "Z", "\u{10ffff}", "~"];
        for name in names.iter().filter(|name| !name.is_empty()) {
            subject.put(name, name).await;
        }
        subject.apply(subject.commit().put(subject.prefix.trim_end_matches('/'), "outside")).await;
        subject.apply(subject.commit().put(format!("{}0", subject.prefix.trim_end_matches('/')), "1")).await;
        let mut sorted: Vec<_> = names.iter().skip(1).map(|name| subject.key(name)).collect();
        sorted.sort();
        for limit in 1..=names.len() {
            let mut question = Some(Scan::of(&*subject.prefix).limit(limit));
            let mut seen = Vec::new();
            while let Some(scan) = question {
                let page = subject.store.scan(scan.clone()).await.unwrap();
                assert!(page.items.len() <= limit);
                seen.extend(page.items.iter().map(|item| item.key.to_string()));
                question = scan.following(&page);
            }
            assert_eq!(seen, sorted, "with {limit} a page");
        }
        let after = Scan { after: Some(subject.key("a").into()), ..Scan::of(subject.key("a")) };
        let page = subject.store.scan(after).await.unwrap();
        let seen: Vec<_> = page.items.iter().map(|item| item.key.to_string()).collect();
        assert_eq!(seen, [subject.key("a/"), subject.key("a/b"), subject.key("a0")]);
        assert!(!page.more);
    }

    /// Pages pinned to a revision are its state, whatever is written between them.
    async fn a_scan_is_pinned_to_its_revision(subject: Subject) {
        for index in 0..10 {
            subject.put(&format!("{index}"), "before").await;
        }
        let (before, revision) = scan_all(&*subject.store, &subject.prefix).await.unwrap();
        let first = Scan::of(&*subject.prefix).limit(3);
        let page = subject.store.scan(first.clone()).await.unwrap();
        for index in 0..10 {
            subject.put(&format!("{index}"), "after").await;
            subject.put(&format!("{index}-new"), "after").await;
        }
        subject.apply(subject.commit().delete(subject.key("5"))).await;
        let mut seen = page.items.clone();
        let mut question = first.following(&page);
        while let Some(scan) = question {
            let page = subject.store.scan(scan.clone()).await.unwrap();
            assert_eq!(page.revision, revision);
            seen.extend(page.items.iter().cloned());
            question = scan.following(&page);
        }
        assert_eq!(seen, before);
    }

    /// A page of large values is short, but never empty, and the scan still ends with all of them.
    async fn a_page_of_large_values_is_short(subject: Subject) {
        let value = vec![1_u8; subject.store.limits().value_bytes_max];
        for index in 0..8 {
            subject.apply(subject.commit().put(subject.key(&index.to_string()), value.clone())).await;
        }
        let mut question = Some(Scan::of(&*subject.prefix));
        let (mut pages, mut items) = (0, 0);
        while let Some(scan) = question {
            let page = subject.store.scan(scan.clone()).await.unwrap();
            assert!(!page.items.is_empty() || !page.more);
            pages += 1;
            items += page.items.len();
            question = scan.following(&page);
        }
        assert_eq!(items, 8);
        assert!(pages > 1, "8 MB came in one page");
    }

    /// A page of no items, of too many, or of the future is refused.
    async fn an_impossible_page_is_refused(subject: Subject) {
        let now = subject.put("a", "1").await;
        let scan = Scan::of(&*subject.prefix);
        let future = Revision::new(now.get() + 1_000_000);
        let impossible = [
            scan.clone().limit(0),
            scan.clone().limit(subject.store.limits().page_items_max + 1),
            scan.at(future),
        ];
        for scan in impossible {
            let answer = subject.store.scan(scan).await;
            assert!(matches!(answer, Err(StoreError::Refused(_))), "{answer:?}");
        }
    }

    /// Every change is delivered once, in order, and the changes of one commit together.
    async fn a_watch_delivers_every_change_once_in_order(subject: Subject) {
        let start = subject.put("zero", "0").await;
        let mut early = subject.store.watch(&subject.prefix, start).await.unwrap();
        let mut expected = Vec::new();
        for round in 0..50 {
            let commit = match round % 3 {
                0 => subject.commit().put(subject.key("b"), format!("{round}")).put(subject.key("a"), "1"),
                1 => subject.commit().put(subject.key("b"), format!("{round}")),
                _ => subject.commit().delete(subject.key("a")),
            };
            let mut keys: Vec<_> = commit.writes.iter().map(|(key, _)| key.to_string()).collect();
            keys.sort();
            expected.push((subject.apply(commit).await, keys));
        }
        let mut late = subject.store.watch(&subject.prefix, start).await.unwrap();
        for (revision, keys) in expected {
            let (one, two) = (next(&mut early).await.unwrap(), next(&mut late).await.unwrap());
            assert_eq!(one, two);
            let seen: Vec<_> = one.changes.iter().map(|change| change.key.to_string()).collect();
            assert_eq!((one.revision, seen), (revision, keys));
        }
    }

    /// A watch tells the value that each commit put, not a later one.
    async fn a_watch_tells_each_value(subject: Subject) {
        let start = subject.put("a", "0").await;
        subject.put("a", "1").await;
        subject.apply(subject.commit().delete(subject.key("a"))).await;
        subject.put("a", "2").await;
        let mut watch = subject.store.watch(&subject.prefix, start).await.unwrap();
        for value in [Some("1"), None, Some("2")] {
            let changes = next(&mut watch).await.unwrap().changes;
            let value = value.map(|text: &'static str| Bytes::from_static(text.as_bytes()));
            assert_eq!(changes, [Change { key: subject.key("a").into(), value }]);
        }
    }

    /// A watch tells of no key outside its prefix.
    async fn a_watch_keeps_to_its_prefix(subject: Subject) {
        let start = subject.put("in/a", "0").await;
        let mut watch = subject.store.watch(&subject.key("in/"), start).await.unwrap();
        subject.put("out", "1").await;
        subject.put("in", "1").await;
        let both = subject.commit().put(subject.key("in/b"), "1").put(subject.key("out"), "2");
        let revision = subject.apply(both).await;
        let changes = next(&mut watch).await.unwrap();
        assert_eq!(changes.revision, revision);
        assert_eq!(changes.changes.len(), 1);
        assert_eq!(*changes.changes[0].key, *subject.key("in/b"));
    }

    /// A watch resumed from any revision that it told of goes on without loss or doubling.
    async fn a_watch_resumes_anywhere(subject: Subject) {
        let mut revisions = vec![subject.put("a", "0").await];
        for round in 1..10 {
            revisions.push(subject.put("a", &round.to_string()).await);
        }
        for (index, &revision) in revisions.iter().enumerate().take(9) {
            let mut watch = subject.store.watch(&subject.prefix, revision).await.unwrap();
            for &later in &revisions[index + 1..] {
                assert_eq!(next(&mut watch).await.unwrap().revision, later);
            }
        }
    }

    /// A watch wakes up for what is committed after it began to wait.
    async fn a_watch_waits_for_what_comes(subject: Subject) {
        let start = subject.put("a", "0").await;
        let mut watch = subject.store.watch(&subject.prefix, start).await.unwrap();
        let waiting = tokio::spawn(async move { next(&mut watch).await });
        tokio::task::yield_now().await;
        let revision = subject.put("a", "1").await;
        assert_eq!(waiting.await.unwrap().unwrap().revision, revision);
    }

    /// A watch from the future is refused.
    async fn a_watch_from_the_future_is_refused(subject: Subject) {
        let now = subject.put("a", "0").await;
        let future = Revision::new(now.get() + 1_000_000);
        let answer = match subject.store.watch(&subject.prefix, future).await {
            Ok(mut watch) => next(&mut watch).await.map(drop),
            Err(error) => Err(error),
        };
        assert!(matches!(answer, Err(StoreError::Refused(_))), "{answer:?}");
    }

    /// After compaction the state is as before, and what lies before it says so.
    async fn compaction_keeps_the_state_and_says_what_is_gone(subject: Subject) {
        let first = subject.put("a", "1").await;
        let second = subject.put("a", "2").await;
        let id = subject.write_id();
        subject.apply(Commit::new(id).put(subject.key("b"), "1").delete(subject.key("c"))).await;
        let (before, now) = scan_all(&*subject.store, &subject.prefix).await.unwrap();
        subject.store.compact(second).await.unwrap();
        assert_eq!(scan_all(&*subject.store, &subject.prefix).await.unwrap().0, before);
        assert!(subject.store.written(id).await.unwrap().is_some());

        let old = subject.store.scan(Scan::of(&*subject.prefix).at(first)).await;
        assert!(matches!(old, Err(StoreError::Compacted { floor }) if floor >= second), "{old:?}");
        let old = match subject.store.watch(&subject.prefix, first).await {
            Ok(mut watch) => next(&mut watch).await.map(drop),
            Err(error) => Err(error),
        };
        assert!(matches!(old, Err(StoreError::Compacted { .. })), "{old:?}");

        let pinned = subject.store.scan(Scan::of(&*subject.prefix).at(now)).await.unwrap();
        assert_eq!(pinned.items, before);
        // The floor itself can still be read, and watched from.
        let floor = subject.store.scan(Scan::of(&*subject.prefix).at(second)).await.unwrap();
        assert_eq!(floor.items.len(), 1);
        let mut watch = subject.store.watch(&subject.prefix, second).await.unwrap();
        assert!(next(&mut watch).await.unwrap().revision > second);
        let mut watch = subject.store.watch(&subject.prefix, now).await.unwrap();
        let revision = subject.put("a", "3").await;
        assert_eq!(next(&mut watch).await.unwrap().revision, revision);
    }

    /// A watch that has not kept up with compaction says so instead of skipping.
    async fn a_watch_that_falls_behind_is_told_so(subject: Subject) {
        let start = subject.put("a", "0").await;
        let mut watch = subject.store.watch(&subject.prefix, start).await.unwrap();
        let mut revisions = Vec::new();
        for round in 0..10 {
            revisions.push(subject.put("a", &round.to_string()).await);
        }
        subject.store.compact(revisions[9]).await.unwrap();
        // What it had read ahead it may still deliver, in order; then it must say so.
        for &revision in &revisions {
            match next(&mut watch).await {
                Ok(changes) => assert_eq!(changes.revision, revision),
                Err(StoreError::Compacted { .. }) => return,
                Err(other) => panic!("{other:?}"),
            }
        }
    }

    /// Compacting the future is refused, and compacting again what is gone changes nothing.
    async fn compaction_is_of_the_past(subject: Subject) {
        let first = subject.put("a", "1").await;
        let second = subject.put("a", "2").await;
        let future = Revision::new(second.get() + 1_000_000);
        let answer = subject.store.compact(future).await;
        assert!(matches!(answer, Err(StoreError::Refused(_))), "{answer:?}");
        subject.store.compact(second).await.unwrap();
        subject.store.compact(first).await.unwrap();
        assert_eq!(subject.value("a").await.as_deref(), Some("2"));
    }

    /// Of many that create one key at the same time exactly one does.
    async fn one_of_many_creators_wins(subject: Subject) {
        for round in 0..10 {
            let name = format!("lock-{round}");
            let creators: Vec<_> = (0..16)
                .map(|creator: u32| {
                    let subject = subject.clone();
                    let key = subject.key(&name);
                    tokio::spawn(async move {
                        let commit = subject.commit().expect(key.clone(), Expect::Absent);
                        subject.store.commit(commit.put(key, creator.to_string())).await.unwrap()
                    })
                })
                .collect();
            let mut winners = 0;
            for creator in creators {
                winners += u32::from(matches!(creator.await.unwrap(), Outcome::Applied(_)));
            }
            assert_eq!(winners, 1, "{name}");
        }
    }

    /// A watch that runs beside many committers tells of every commit once, in order, and what it
    /// tells, replayed, is the state that a scan reads.
    async fn a_watch_replayed_is_the_state(subject: Subject) {
        let start = subject.put("start", "1").await;
        let mut watch = subject.store.watch(&subject.prefix, start).await.unwrap();
        let recording = {
            let subject = subject.clone();
            tokio::spawn(async move { history::record(&subject, 8, 60).await })
        };
        // More watches, begun in the middle of it.
        let mut late = Vec::new();
        for _ in 0..20 {
            tokio::task::yield_now().await;
            late.push(subject.store.watch(&subject.prefix, start).await.unwrap());
        }
        let history = recording.await.unwrap();
        let (items, revision) = scan_all(&*subject.store, &subject.prefix).await.unwrap();
        let end = subject.put("end", "1").await;
        let mut state = BTreeMap::from([(subject.key("start"), Bytes::from_static(b"1"))]);
        let mut told = Vec::new();
        loop {
            let changes = next(&mut watch).await.unwrap();
            if changes.revision == end {
                break;
            }
            assert!(changes.revision <= revision);
            told.push(changes.clone());
            for Change { key, value } in changes.changes {
                match value {
                    Some(value) => state.insert(key.to_string(), value),
                    None => state.remove(&*key),
                };
            }
        }
        let items: BTreeMap<_, _> =
            items.into_iter().map(|item| (item.key.to_string(), item.value)).collect();
        assert_eq!(state, items);
        assert!(told.is_sorted_by(|one, next| one.revision < next.revision));
        // A commit that only removed what was not there is told by nobody.
        let revisions = history.revisions();
        assert!(told.iter().all(|changes| revisions.contains(&changes.revision)));
        for mut watch in late {
            for changes in &told {
                assert_eq!(next(&mut watch).await.unwrap(), *changes);
            }
        }
    }

    /// A watch that lags far behind is told everything all the same, while it is remembered.
    async fn a_watch_far_behind_misses_nothing(subject: Subject) {
        let start = subject.put("a", "start").await;
        let mut early = subject.store.watch(&subject.prefix, start).await.unwrap();
        let mut revisions = Vec::new();
        // More changes, too, than any backend reads at once.
        for round in 0..600 {
            let put = |commit: Commit, key| commit.put(subject.key(key), round.to_string());
            revisions.push(subject.apply(["a", "b", "c", "d"].into_iter().fold(subject.commit(), put)).await);
        }
        let mut late = subject.store.watch(&subject.prefix, start).await.unwrap();
        for watch in [&mut early, &mut late] {
            for (round, revision) in revisions.iter().enumerate() {
                let changes = next(watch).await.unwrap();
                assert_eq!(changes.revision, *revision);
                assert_eq!(changes.changes.len(), 4);
                assert_eq!(changes.changes[3].value, Some(Bytes::from(round.to_string())));
            }
        }
    }

    /// Any bytes are kept as they are, and an empty value is a value.
    async fn values_are_bytes(subject: Subject) {
        let start = subject.put("start", "1").await;
        let values: [&'static [u8]; 4] = [b"", b"\xff\xfe\x00\x80", b"\0", "\u{e9}\u{10ffff}".as_bytes()];
        let mut watch = subject.store.watch(&subject.key("v"), start).await.unwrap();
        for value in values {
            let value = Bytes::from_static(value);
            subject.apply(subject.commit().put(subject.key("v"), value.clone())).await;
            let item = subject.store.get(&subject.key("v")).await.unwrap().item;
            assert_eq!(item.map(|item| item.value), Some(value.clone()));
            let page = subject.store.scan(Scan::of(subject.key("v"))).await.unwrap();
            assert_eq!(page.items[0].value, value);
            assert_eq!(next(&mut watch).await.unwrap().changes[0].value, Some(value));
        }
    }

    /// A prefix is text, not a pattern, and the empty one is of all keys.
    async fn a_prefix_is_not_a_pattern(subject: Subject) {
        let start = subject.put("start", "1").await;
        for name in ["a_b", "axb", "a%b", "a\\b", "A_B", "a*b", "a?b"] {
            subject.put(name, "1").await;
        }
        for prefix in ["a_", "a%", "a\\", "a*", "a?"] {
            let page = subject.store.scan(Scan::of(subject.key(prefix))).await.unwrap();
            let seen: Vec<_> = page.items.iter().map(|item| item.key.to_string()).collect();
            assert_eq!(seen, [subject.key(&format!("{prefix}b"))]);
            let mut watch = subject.store.watch(&subject.key(prefix), start).await.unwrap();
            assert_eq!(*next(&mut watch).await.unwrap().changes[0].key, *seen[0]);
        }
        let all = scan_all(&*subject.store, "").await.unwrap().0;
        assert!(all.iter().any(|item| *item.key == *subject.key("a?b")));
        let mut watch = subject.store.watch("", start).await.unwrap();
        assert_eq!(*next(&mut watch).await.unwrap().changes[0].key, *subject.key("a_b"));
    }

    /// Of many that send one commit at the same time all are told of the one time it applied.
    async fn a_write_id_applies_once_even_at_the_same_time(subject: Subject) {
        for round in 0..20 {
            let commit = subject.commit().put(subject.key("a"), round.to_string());
            let senders: Vec<_> = (0..8)
                .map(|_| {
                    let (subject, commit) = (subject.clone(), commit.clone());
                    tokio::spawn(async move { subject.apply(commit).await })
                })
                .collect();
            let mut told = Vec::new();
            for sender in senders {
                told.push(sender.await.unwrap());
            }
            told.dedup();
            assert_eq!(told.len(), 1, "{told:?}");
        }
    }

    /// Random histories of many committers on few keys are linearizable.
    async fn random_histories_are_linearizable(subject: Subject) {
        let rounds = if std::env::var_os("STERNA_LONG").is_some() { 400 } else { 25 };
        let mut clients = (8..=12).cycle();
        for round in 0..rounds {
            let store = Arc::clone(&subject.store);
            let seed = u64::from(subject.write_id().as_bytes()[15]);
            let part = Subject::new(store, round * 256 + seed);
            let history = history::record(&part, clients.next().unwrap_or(8), 40).await;
            if let Err(why) = history.check() {
                panic!("round {round}: {why}");
            }
            let (applied, lost) = history.outcomes();
            assert!(applied > 20 && lost > 20, "{applied} applied and {lost} lost: too few to judge");
        }
    }
}

/// What a watch tells next. One that tells nothing has lost it, and is not waited for for ever.
async fn next(watch: &mut Watch) -> Result<Changes, StoreError> {
    let told = tokio::time::timeout(TOLD_BY, watch.next()).await;
    told.unwrap_or_else(|_| panic!("the watch told nothing for {TOLD_BY:?}"))
}

async fn assert_conflict(subject: &Subject, commit: Commit, names: &[&str]) {
    let outcome = subject.store.commit(commit).await.expect("the store answers");
    let keys: Vec<crate::Key> = names.iter().map(|name| subject.key(name).into()).collect();
    assert_eq!(outcome, Outcome::Conflict(keys));
}
