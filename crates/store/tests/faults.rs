//! Faults to order in the memory store: each does what its name says, and histories under faults
//! stay linearizable once they are settled.

use std::sync::Arc;

use sterna_store::{
    Memory, Outcome, Store, StoreError,
    conformance::{Rng, Subject, history},
    memory::Fault,
};

fn subject(store: &Memory, seed: u64) -> Subject {
    Subject::new(Arc::new(store.clone()), seed)
}

#[tokio::test]
async fn unavailable_writes_nothing() {
    let store = Memory::new();
    let subject = subject(&store, 1);
    store.order(Fault::Unavailable);
    let commit = subject.commit().put(subject.key("a"), "1");
    let answer = store.commit(commit.clone()).await;
    assert!(matches!(answer, Err(StoreError::Unavailable(_))), "{answer:?}");
    assert_eq!(store.written(commit.write_id).await.unwrap(), None);
    subject.apply(commit).await;
}

#[tokio::test]
async fn unknown_may_have_applied_or_not() {
    for (fault, value) in [(Fault::UnknownApplied, Some("1")), (Fault::UnknownLost, None)] {
        let store = Memory::new();
        let subject = subject(&store, 2);
        store.order(fault);
        let answer = store.commit(subject.commit().put(subject.key("a"), "1")).await;
        assert!(matches!(answer, Err(StoreError::Unknown(_))), "{answer:?}");
        assert_eq!(subject.value("a").await.as_deref(), value, "{fault:?}");
    }
}

#[tokio::test]
async fn applied_late_comes_after_what_was_committed_meanwhile() {
    let store = Memory::new();
    let subject = subject(&store, 3);
    store.order(Fault::AppliedLate);
    let late = subject.commit().put(subject.key("a"), "late");
    let answer = store.commit(late.clone()).await;
    assert!(matches!(answer, Err(StoreError::Unknown(_))), "{answer:?}");
    let first = subject.put("a", "first").await;
    store.release();
    assert_eq!(subject.value("a").await.as_deref(), Some("late"));
    assert!(store.written(late.write_id).await.unwrap() > Some(first));
}

#[tokio::test]
async fn slow_is_answered_when_it_is_released() {
    let store = Memory::new();
    let subject = subject(&store, 4);
    store.order(Fault::Slow);
    let slow = {
        let (store, commit) = (store.clone(), subject.commit().put(subject.key("a"), "slow"));
        tokio::spawn(async move { store.commit(commit).await })
    };
    // On one thread the other task runs until it waits for its answer.
    tokio::task::yield_now().await;
    assert_eq!(subject.value("a").await, None);
    store.release();
    assert!(matches!(slow.await.unwrap(), Ok(Outcome::Applied(_))));
    assert_eq!(subject.value("a").await.as_deref(), Some("slow"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn histories_under_faults_are_linearizable_once_settled() {
    for seed in 0..30 {
        let store = Memory::new();
        let mut rng = Rng::new(seed);
        for _ in 0..100 {
            store.order(match rng.below(3) {
                0 => Fault::Unavailable,
                1 => Fault::UnknownApplied,
                _ => Fault::UnknownLost,
            });
        }
        let history = history::record(&subject(&store, seed), 8, 40).await;
        history.check().unwrap_or_else(|why| panic!("seed {seed}: {why}"));
    }
}
