//! Committers that commit and a watch that watches while a server suffers, and who then compare
//! what they were told with what is there.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use sterna_model::{Revision, WriteId};
use sterna_store::{Commit, Expect, Outcome, Store, StoreError};
use tokio::sync::watch;

use crate::write_id;

const COMMITTERS: u16 = 8;
/// So many more commits must be answered before the server suffers again.
const COMMITS_BETWEEN: u64 = 60;

/// What applied, by revision: who committed, and which number.
type Ledger = BTreeMap<Revision, (u16, u64)>;

/// Commits to `store` and watches `observer`, which is on the same place, as another process would
/// have it; `harm` is called so often, in between. Every answer must be true and the watch whole.
pub(crate) async fn keep<S: Store>(
    store: Arc<S>,
    observer: Arc<S>,
    rounds: u64,
    mut harm: impl FnMut(u64),
) {
    let watcher = tokio::spawn(follow(observer));
    let (answered, mut progress) = watch::channel(0_u64);
    let answered = Arc::new(answered);
    let is_over = Arc::new(AtomicBool::new(false));
    let committers: Vec<_> = (0..COMMITTERS)
        .map(|name| {
            let committer = Committer {
                store: Arc::clone(&store),
                name,
                number: 0,
                fence: 0,
                ids: 0,
                ledger: Ledger::new(),
                never: BTreeSet::new(),
            };
            tokio::spawn(committer.live(Arc::clone(&answered), Arc::clone(&is_over)))
        })
        .collect();
    for round in 1..=rounds {
        progress.wait_for(|count| *count >= round * COMMITS_BETWEEN).await.unwrap();
        tokio::task::block_in_place(|| harm(round));
    }
    is_over.store(true, Ordering::SeqCst);
    let (mut told, mut never) = (Ledger::new(), BTreeSet::new());
    for committer in committers {
        let (ledger, lost) = committer.await.unwrap();
        told.extend(ledger);
        never.extend(lost);
    }
    let end = Commit::new(write_id(u16::MAX, 0)).put("/end", "");
    let Outcome::Applied(end) = until_answered(&*store, end).await else { panic!("no conflict") };
    let seen = watcher.await.unwrap();
    assert!(*seen.keys().next_back().unwrap() < end);
    assert_eq!(seen, told, "the watch saw the left, committers were told the right");
    for (name, number) in never {
        assert!(seen.values().all(|applied| *applied != (name, number)), "{name} {number}");
    }
    check_state(&*store, &told).await;
}

/// Sends a commit, under one write id, until it is answered.
pub(crate) async fn until_answered(store: &impl Store, commit: Commit) -> Outcome {
    loop {
        match store.commit(commit.clone()).await {
            Ok(outcome) => return outcome,
            Err(StoreError::Unavailable(_) | StoreError::Unknown(_)) => {}
            Err(other) => panic!("{other:?}"),
        }
    }
}

/// The last number of each committer is its state, in both of its keys.
async fn check_state(store: &impl Store, ledger: &Ledger) {
    let last: BTreeMap<_, _> = ledger.values().copied().collect();
    assert_eq!(last.len(), usize::from(COMMITTERS), "somebody never came to commit");
    for (name, number) in last {
        for key in [key(name, "a"), key(name, "b")] {
            let item = store.get(&key).await.unwrap().item.unwrap();
            assert_eq!(item.value, number.to_string(), "{key}");
        }
    }
}

/// Watches until the end, and begins anew where it was whenever the watch ends.
async fn follow(store: Arc<impl Store>) -> Ledger {
    let mut seen = Ledger::new();
    let mut after = Revision::ZERO;
    loop {
        let mut watch = match store.watch("/", after).await {
            Ok(watch) => watch,
            Err(StoreError::Unavailable(_)) => continue,
            Err(other) => panic!("{other:?}"),
        };
        while let Ok(changes) = watch.next().await {
            assert!(changes.revision > after, "{} after {after}", changes.revision);
            after = changes.revision;
            if &*changes.changes[0].key == "/end" {
                return seen;
            }
            let both: Vec<_> =
                changes.changes.iter().filter(|change| change.key.starts_with("/c/")).collect();
            let [a, b] = both[..] else { continue };
            assert_eq!(a.value, b.value, "half a commit");
            let name = a.key.split('/').nth(2).unwrap().parse().unwrap();
            let number = std::str::from_utf8(a.value.as_ref().unwrap()).unwrap().parse().unwrap();
            seen.insert(changes.revision, (name, number));
        }
    }
}

fn key(name: u16, part: &str) -> String {
    format!("/c/{name}/{part}")
}

struct Committer<S> {
    store: Arc<S>,
    name: u16,
    /// What both of its keys hold.
    number: u64,
    /// What its fence holds; every commit expects it.
    fence: u64,
    ids: u64,
    ledger: Ledger,
    /// What was settled as not applied.
    never: BTreeSet<(u16, u64)>,
}

impl<S: Store> Committer<S> {
    async fn live(
        mut self,
        answered: Arc<watch::Sender<u64>>,
        is_over: Arc<AtomicBool>,
    ) -> (Ledger, BTreeSet<(u16, u64)>) {
        self.raise_fence().await;
        let mut next = 0;
        while !is_over.load(Ordering::SeqCst) {
            next += 1;
            let (id, commit) = self.next_commit(next);
            match self.store.commit(commit).await {
                Ok(Outcome::Applied(revision)) => self.learn(next, Some(revision)),
                // Nothing of its own is in doubt, and nobody else writes its keys.
                Ok(Outcome::Conflict(keys)) => panic!("{keys:?} were not as left"),
                Err(StoreError::Unavailable(_)) => self.learn(next, None),
                Err(StoreError::Unknown(_)) => {
                    self.raise_fence().await;
                    let written = self.written(id).await;
                    self.learn(next, written);
                }
                Err(other) => panic!("{other:?}"),
            }
            answered.send_modify(|count| *count += 1);
        }
        (self.ledger, self.never)
    }

    fn next_commit(&mut self, number: u64) -> (WriteId, Commit) {
        let id = self.next_id();
        let mut commit = Commit::new(id)
            .expect(format!("/f/{}", self.name), Expect::Value(self.fence.to_string().into()));
        for part in ["a", "b"] {
            let key = key(self.name, part);
            let expect = match self.number {
                0 => Expect::Absent,
                number => Expect::Value(number.to_string().into()),
            };
            commit = commit.expect(key.clone(), expect).put(key, number.to_string());
        }
        (id, commit)
    }

    fn learn(&mut self, number: u64, revision: Option<Revision>) {
        match revision {
            Some(revision) => {
                self.number = number;
                assert_eq!(self.ledger.insert(revision, (self.name, number)), None, "given twice");
            }
            None => drop(self.never.insert((self.name, number))),
        }
    }

    /// What expected the old fence and is not there when this returns never will be.
    async fn raise_fence(&mut self) {
        self.fence += 1;
        let commit =
            Commit::new(self.next_id()).put(format!("/f/{}", self.name), self.fence.to_string());
        while self.store.commit(commit.clone()).await.is_err() {}
    }

    async fn written(&self, id: WriteId) -> Option<Revision> {
        loop {
            if let Ok(written) = self.store.written(id).await {
                return written;
            }
        }
    }

    fn next_id(&mut self) -> WriteId {
        self.ids += 1;
        write_id(self.name, self.ids)
    }
}
