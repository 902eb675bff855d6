//! Unknown commits are settled for good: what is said not to have applied never does.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on says where")]

use std::sync::Arc;

use sterna_model::{FenceCounter, Nonce, Term, WriteId};
use sterna_store::{
    Memory, Store, StoreError,
    conformance::Subject,
    leader::{Fate, REIGN_KEY, Reign, Settled, Unanswered, settle},
    memory::Fault,
};

const REIGN: Reign =
    Reign { term: Term::new(1), nonce: Nonce::new(7), counter: FenceCounter::ZERO };

async fn reigning(seed: u64) -> (Memory, Subject) {
    let store = Memory::new();
    let subject = Subject::new(Arc::new(store.clone()), seed);
    subject.apply(subject.commit().put(REIGN_KEY, REIGN.to_string())).await;
    (store, subject)
}

/// About a commit that is about to be sent.
async fn unanswered(store: &Memory, write_id: WriteId) -> Unanswered {
    Unanswered { write_id, after: store.get(REIGN_KEY).await.unwrap().revision }
}

#[tokio::test]
async fn what_is_forgotten_is_not_called_undone() {
    for is_compacted in [false, true] {
        let (store, subject) = reigning(5).await;
        store.order(Fault::UnknownApplied);
        let commit = REIGN.fenced(subject.commit().put(subject.key("a"), "1"));
        let unanswered = unanswered(&store, commit.write_id).await;
        store.commit(commit).await.unwrap_err();
        let applied = store.get(REIGN_KEY).await.unwrap().revision;
        subject.apply(subject.commit().put(subject.key("b"), "1")).await;
        if is_compacted {
            store.compact(applied).await.unwrap();
        }
        let settled = settle(&store, REIGN, subject.write_id(), &[unanswered]).await.unwrap();
        let expected = if is_compacted { Fate::Forgotten } else { Fate::Applied(applied) };
        assert_eq!(settled.fates, [expected]);
    }
}

#[tokio::test]
async fn each_fate_is_told_and_stays() {
    for fault in [Fault::UnknownApplied, Fault::UnknownLost, Fault::AppliedLate] {
        let (store, subject) = reigning(1).await;
        store.order(fault);
        let commit = REIGN.fenced(subject.commit().put(subject.key("a"), "1"));
        let unanswered = unanswered(&store, commit.write_id).await;
        let answer = store.commit(commit).await;
        assert!(matches!(answer, Err(StoreError::Unknown(_))), "{answer:?}");

        let settled = settle(&store, REIGN, subject.write_id(), &[unanswered]).await.unwrap();
        assert_eq!(settled.reign, REIGN.raised());
        // What was late arrives now, and finds the door closed.
        store.release();
        let value = subject.value("a").await;
        let has_applied = matches!(settled.fates[0], Fate::Applied(_));
        assert_eq!(has_applied, value.is_some(), "{fault:?}");
        assert_eq!(value.is_some(), fault == Fault::UnknownApplied);
    }
}

#[tokio::test]
async fn looking_without_raising_the_counter_is_a_guess() {
    let (store, subject) = reigning(2).await;
    store.order(Fault::AppliedLate);
    let commit = REIGN.fenced(subject.commit().put(subject.key("a"), "1"));
    let id = commit.write_id;
    store.commit(commit).await.unwrap_err();
    assert_eq!(store.written(id).await.unwrap(), None);
    store.release();
    assert!(store.written(id).await.unwrap().is_some(), "it came after all");
}

#[tokio::test]
async fn a_settling_without_an_answer_is_called_again() {
    for fault in [Fault::UnknownApplied, Fault::UnknownLost, Fault::Unavailable] {
        let (store, subject) = reigning(3).await;
        let raise = subject.write_id();
        store.order(fault);
        settle(&store, REIGN, raise, &[]).await.unwrap_err();
        let settled = settle(&store, REIGN, raise, &[]).await.unwrap();
        assert_eq!(settled, Settled { reign: REIGN.raised(), fates: vec![] });
    }
}

#[tokio::test]
async fn a_deposed_leader_settles_too_and_learns_of_it() {
    let (store, subject) = reigning(4).await;
    let next = Reign { term: Term::new(2), nonce: Nonce::new(8), counter: FenceCounter::ZERO };
    subject.apply(subject.commit().put(REIGN_KEY, next.to_string())).await;
    let unknown = unanswered(&store, subject.write_id()).await;
    let settled = settle(&store, REIGN, subject.write_id(), &[unknown]).await.unwrap();
    assert_eq!(settled, Settled { reign: None, fates: vec![Fate::Never] });
}
