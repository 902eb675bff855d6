use std::sync::Arc;

use sterna_model::{FenceCounter, Nonce, Span, Term, WallTime};

use super::*;
use crate::{
    Memory,
    leader::{Candidate, REIGN_KEY, Timing},
};

fn id(number: u8) -> ClusterId {
    ClusterId::from_parts(WallTime::EPOCH, [number; 10])
}

fn write(number: u8) -> WriteId {
    WriteId::from_parts(WallTime::EPOCH, [number; 10])
}

fn stored(number: u8, epoch: u64) -> Cluster {
    let (epoch, floor) = (Epoch::new(epoch), Floor::FIRST);
    Cluster { id: id(number), epoch, stage: Stage::Used, floor }
}

fn seen(number: u8, position: &str) -> Seen {
    let position = position.parse().unwrap();
    Seen { cluster: id(number), position, reign: None, marks: Marks::NONE }
}

fn marks(batch: u64, any: u64, has_kept_batches: bool) -> Marks {
    let (batch_stop_after_max, stop_after_max) = (Span::from_secs(batch), Span::from_secs(any));
    let has_kept_claims = false;
    Marks { batch_stop_after_max, stop_after_max, has_kept_batches, has_kept_claims }
}

#[test]
fn a_store_behind_what_was_seen_opens_the_next_epoch() {
    let at = Revision::new(10);
    let table = [
        (None, None, Verdict::Blank),
        // The store has lost its very name.
        (None, Some(seen(1, "3.1")), Verdict::Lags(Epoch::new(4))),
        (Some(stored(1, 1)), None, Verdict::Whole),
        (Some(stored(1, 1)), Some(seen(1, "1.10")), Verdict::Whole),
        (Some(stored(1, 1)), Some(seen(1, "1.11")), Verdict::Lags(Epoch::new(2))),
        // Somebody has recovered it already.
        (Some(stored(1, 2)), Some(seen(1, "1.99")), Verdict::Whole),
        // A backup from before an earlier recovery: past both.
        (Some(stored(1, 1)), Some(seen(1, "3.2")), Verdict::Lags(Epoch::new(4))),
        (Some(Cluster { stage: Stage::Moved, ..stored(1, 1) }), None, Verdict::Moved),
        (Some(stored(2, 9)), Some(seen(1, "1.1")), Verdict::Foreign(id(2))),
        (Some(stored(1, 1)), Some(seen(1, "18446744073709551615.1")), Verdict::Exhausted),
    ];
    for (row, (stored, seen, verdict)) in table.into_iter().enumerate() {
        let found = Found { cluster: stored, revision: at, nonce: None, next_began: None };
        assert_eq!(judge(&found, seen.as_ref()), verdict, "row {row}");
    }
}

/// Restored to 10, and counted past what was seen since: another leader reigns in what looks like
/// the same time.
#[test]
fn a_store_that_was_lived_otherwise_lags_though_it_counts_further() {
    let followed =
        |nonce| Seen { reign: Some((Term::new(7), Nonce::new(nonce))), ..seen(1, "1.20") };
    let found = |nonce: Option<u64>| Found {
        cluster: Some(stored(1, 1)),
        revision: Revision::new(30),
        nonce: nonce.map(Nonce::new),
        next_began: None,
    };
    assert_eq!(judge(&found(Some(5)), Some(&followed(5))), Verdict::Whole);
    assert_eq!(judge(&found(Some(6)), Some(&followed(5))), Verdict::Lags(Epoch::new(2)));
    assert_eq!(judge(&found(None), Some(&followed(5))), Verdict::Lags(Epoch::new(2)));
}

/// Restored to 10, and another leader took over at 11: at 20, of which this server knows, term 7 had
/// not ended.
#[test]
fn a_reign_that_ended_before_it_was_seen_to_last_shows_a_store_that_lags() {
    let seen = Seen { reign: Some((Term::new(7), Nonce::new(5))), ..seen(1, "1.20") };
    for (next_began, verdict) in [
        (Some(11), Verdict::Lags(Epoch::new(2))),
        (Some(20), Verdict::Lags(Epoch::new(2))),
        (Some(21), Verdict::Whole),
        (None, Verdict::Whole),
    ] {
        let found = Found {
            cluster: Some(stored(1, 1)),
            revision: Revision::new(30),
            nonce: Some(Nonce::new(5)),
            next_began: next_began.map(Revision::new),
        };
        assert_eq!(judge(&found, Some(&seen)), verdict, "{next_began:?}");
    }
}

/// The same with records as leaders write them.
#[tokio::test]
async fn what_a_server_sees_is_one_moment_of_the_store() {
    use crate::leader::{Candidate, Timing};

    let store = Arc::new(Memory::new());
    let made = make(&*store, id(1), write(1)).await.unwrap();
    assert_eq!(see(&*store, &made).await.unwrap().reign, None);
    let mut leader = Candidate::start(store.clone(), Timing::default(), "one");
    let reign = leader.elected().await;
    let seen = see(&*store, &made).await.unwrap();
    assert_eq!(seen.reign, Some((reign.term, reign.nonce)));
    leader.resign().await;
    Candidate::start(store.clone(), Timing::default(), "two").elected().await;
    let found = read(&*store, Some(&seen)).await.unwrap();
    assert!(found.next_began > Some(seen.position.revision), "{found:?} {seen:?}");
    assert_eq!(judge(&found, Some(&seen)), Verdict::Whole);
    // Had it been seen to last for longer, this could not be.
    let later = Position { revision: found.revision, ..seen.position };
    assert_eq!(
        judge(&found, Some(&Seen { position: later, ..seen })),
        Verdict::Lags(Epoch::new(2))
    );
}

#[test]
fn records_come_back_as_they_were_written() {
    for stage in Stage::ALL {
        let cluster = Cluster { stage, ..stored(1, 7) };
        assert_eq!(cluster.to_string().parse::<Cluster>().unwrap(), cluster);
    }
    for reign in [None, Some((Term::new(3), Nonce::new(99)))] {
        let kept_claims = Marks { has_kept_claims: true, ..Marks::NONE };
        let all = [Marks::NONE, marks(120, 600, false), marks(0, 0, true), kept_claims];
        for marks in all {
            let seen = Seen { reign, marks, ..seen(1, "2.30") };
            assert_eq!(seen.to_string().parse::<Seen>().unwrap(), seen);
        }
    }
    let seen = Seen { marks: marks(120, 600, true), ..seen(1, "2.30") }.to_string();
    assert!(seen.ends_with(" 2.30 marks:120000,600000,kept"), "{seen}");
    for (from, to) in [("kept", "sold"), (",kept", ""), ("marks:", "marks:1,"), ("120000", "x")] {
        let text = seen.replace(from, to);
        assert!(text.parse::<Seen>().is_err(), "{text}");
    }
    // As a build writes it that knows of tasks and instances that were kept; others end before.
    let more = format!("{seen},claims-kept").parse::<Seen>().unwrap();
    assert_eq!(more.marks, Marks { has_kept_claims: true, ..marks(120, 600, true) });
    assert!(format!("{seen},claims-sold").parse::<Seen>().is_err());
    for text in ["", "1", "2 cluster-1 1 used", "1 x 1 used", "1 1 1 1 1"] {
        let error = text.parse::<Cluster>().unwrap_err().to_string();
        assert!(error.contains("damaged or of a newer sterna"), "{error}");
    }
}

/// The store is set back, and the limits in it with it: what was started under them is not.
#[test]
fn rule_25_what_a_server_has_seen_never_falls() {
    let before = Seen { marks: marks(120, 3_600, true), ..seen(1, "1.99") };
    let restored = Seen { marks: marks(240, 600, false), ..seen(1, "1.10") };
    let after = restored.after(Some(&before));
    assert_eq!(after, Seen { marks: marks(240, 3_600, true), ..before });
    let recovered = Seen { marks: Marks::NONE, ..seen(1, "2.11") }.after(Some(&after));
    assert_eq!(recovered, Seen { marks: after.marks, ..seen(1, "2.11") });
    // Another cluster's are nothing to this one.
    assert_eq!(recovered.after(Some(&Seen { ..seen(2, "9.9") })), recovered);
    assert_eq!(seen(2, "1.1").after(Some(&recovered)), seen(2, "1.1"));
    assert_eq!(recovered.after(None), recovered);
}

#[tokio::test]
async fn a_cluster_is_made_once_and_only_in_an_empty_store() {
    let store = Memory::new();
    let made = make(&store, id(1), write(1)).await.unwrap();
    assert_eq!(made.stage, Stage::Virgin);
    assert_eq!(read(&store, None).await.unwrap().cluster, Some(made));
    let error = make(&store, id(2), write(2)).await.unwrap_err().to_string();
    assert_eq!(
        error,
        "the store is not empty, it holds /v1/-/cluster; give the cluster a store of its own"
    );
}

#[tokio::test]
async fn only_the_leader_opens_an_epoch_and_only_once() {
    let reign =
        |term| Reign { term: Term::new(term), nonce: Nonce::new(1), counter: FenceCounter::ZERO };
    let store = Memory::new();
    let made = make(&store, id(1), write(1)).await.unwrap();
    let begin = Commit::new(write(2)).put(REIGN_KEY, reign(2).to_string());
    assert!(matches!(store.commit(begin).await.unwrap(), Outcome::Applied(_)));
    let next = Cluster { epoch: Epoch::new(2), ..made };
    let deposed = recover(&store, reign(1), Some(&made), next, write(3)).await;
    assert!(matches!(deposed, Err(ClusterError::Overtaken)), "{deposed:?}");
    let opened = recover(&store, reign(2), Some(&made), next, write(4)).await.unwrap();
    assert_eq!(opened.stage, Stage::Recovered);
    let again = recover(&store, reign(2), Some(&made), next, write(5)).await;
    assert!(matches!(again, Err(ClusterError::Overtaken)), "{again:?}");
}

#[tokio::test]
async fn half_a_copy_is_nobodys_store() {
    let store = Memory::new();
    let begun = Commit::new(write(1)).put(COPYING_KEY, "1 x").put("/v1/x", "1");
    drop(store.commit(begun).await.unwrap());
    let answer = read(&store, Some(&seen(1, "1.1"))).await;
    assert!(matches!(answer, Err(ClusterError::HalfCopied)), "{answer:?}");
}

/// A server that was started too early took part in an election, and left what that writes.
#[tokio::test]
async fn a_store_in_which_only_an_election_was_held_is_empty() {
    let store = Arc::new(Memory::new());
    for name in ["first", "second"] {
        let mut candidate = Candidate::start(store.clone(), Timing::default(), name);
        candidate.elected().await;
        candidate.resign().await;
    }
    let made = make(&*store, id(1), write(1)).await.unwrap();
    assert_eq!(read(&*store, None).await.unwrap().cluster, Some(made));
    let put = Commit::new(write(2)).put("/v1/-/leader/other", "");
    let other = Memory::new();
    assert!(matches!(other.commit(put).await, Ok(Outcome::Applied(_))));
    let error = make(&other, id(2), write(3)).await.unwrap_err().to_string();
    assert!(error.contains("/v1/-/leader/other"), "{error}");
}

/// A server that led with it would lose what it does not know.
#[tokio::test]
async fn a_store_with_a_floor_above_ours_is_refused_with_the_version_that_may_lead() {
    let store = Memory::new();
    let made = make(&store, id(1), write(1)).await.unwrap();
    assert_eq!(made.floor, Floor::FIRST);
    let golden = |floor: &str| format!("1 {} 1 used floor:{floor}", id(1));
    let put = async |number, text: String| {
        drop(store.commit(Commit::new(write(number)).put(CLUSTER_KEY, text)).await.unwrap());
    };
    put(2, golden("0.2.0")).await;
    let cluster = read(&store, None).await.unwrap().cluster.unwrap();
    assert_eq!((cluster.floor, cluster.to_string()), (Floor::DEFINITIONS, golden("0.2.0")));
    for (number, above) in (3..).zip(["0.2.1", "0.10.0", "1.0.0"]) {
        put(number, golden(above)).await;
        let refused = read(&store, None).await.unwrap_err();
        let message = format!(
            "this sterna leads with stores up to format 0.2.0, and the store has format {above}: let \
             sterna {above} or later lead, or restore a backup from before it"
        );
        assert_eq!(refused.to_string(), message);
    }
}

#[test]
fn a_floor_has_one_text_and_anything_else_is_refused() {
    let text = |last: &str| format!("1 {} 1 used{last}", id(1));
    assert_eq!(text("").parse::<Cluster>().unwrap().floor, Floor::FIRST);
    let words =
        [" floor:", " floor:0.2", " floor:0.02.0", " floor:0.2.0.1", " 0.2.0", " floor:0.2.0 x"];
    for word in words {
        let refused = text(word).parse::<Cluster>().unwrap_err();
        assert!(matches!(refused, ClusterError::Unreadable { .. }), "{word}: {refused}");
    }
}
