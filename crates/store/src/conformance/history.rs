//! Random histories, and the judgement whether they are linearizable.
//!
//! Every applied commit claims a place in one order by its revision, and every reading claims one
//! by the revision that it carries. So no search is needed: the claims are checked. They must agree
//! with one another, with what was expected and read, and with real time: what returned before
//! something else began has the earlier place.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use bytes::Bytes;
use sterna_model::Revision;

use super::{Rng, Subject};
use crate::{Commit, Expect, Key, Outcome, Scan, StoreError, Write};

const KEYS: [&str; 4] = ["a", "b", "c", "d"];

/// What a client did and what it was told. Times are ticks of one counter.
#[derive(Debug)]
struct Event {
    called: u64,
    /// `u64::MAX` if nobody was told.
    returned: u64,
    what: What,
}

#[derive(Debug)]
enum What {
    /// A commit that made a revision.
    Applied(Commit, Revision),
    /// A commit without writes whose expectations held at this revision.
    Checked(Commit, Revision),
    /// A commit that lost, with the keys that it was told.
    Conflict(Commit, Vec<Key>),
    /// All keys as they were read at a revision, with the revisions of their last writes.
    Read(State, Revision),
}

type State = BTreeMap<Key, (Revision, Bytes)>;

/// What all clients did.
#[derive(Debug)]
pub struct History {
    /// The state before the first of them began.
    start: (State, Revision),
    events: Vec<Event>,
}

/// Lets `clients` do `steps` random things each, at the same time.
///
/// # Panics
/// The store answers with an error that is not `Unavailable` or `Unknown`, or what it said of a
/// commit is not what it finally did.
pub async fn record(subject: &Subject, clients: usize, steps: usize) -> History {
    let clock = Arc::new(AtomicU64::new(0));
    let page = subject.store.scan(Scan::of(&*subject.prefix)).await.unwrap();
    let start = (state_of(&page.items), page.revision);
    let tasks: Vec<_> = (0..clients)
        .map(|client| {
            let seed = subject.write_id().as_bytes()[10..]
                .iter()
                .fold(0, |seed, byte| seed << 8 | u64::from(*byte));
            let client = Client {
                subject: subject.clone(),
                clock: Arc::clone(&clock),
                rng: Rng::new(seed),
                name: client,
                seen: BTreeMap::new(),
                unanswered: Vec::new(),
                events: Vec::new(),
            };
            tokio::spawn(client.live(steps))
        })
        .collect();
    let mut events = Vec::new();
    for task in tasks {
        events.extend(task.await.expect("a client lives"));
    }
    History { start, events }
}

/// As [`record`], for the sake of the commits alone.
///
/// # Panics
/// As [`record`].
pub async fn random_commits(subject: &Subject, clients: usize, steps: usize) {
    drop(record(subject, clients, steps).await);
}

struct Client {
    subject: Subject,
    clock: Arc<AtomicU64>,
    rng: Rng,
    name: usize,
    /// What this client last learned of each key.
    seen: State,
    unanswered: Vec<(u64, Commit)>,
    events: Vec<Event>,
}

impl Client {
    async fn live(mut self, steps: usize) -> Vec<Event> {
        for step in 0..steps {
            match self.rng.below(10) {
                0 => self.get().await,
                1 => self.scan().await,
                _ => self.commit(step).await,
            }
            if self.rng.one_in(4) {
                tokio::task::yield_now().await;
            }
        }
        self.settle().await;
        self.events
    }

    async fn get(&mut self) {
        let key = Key::from(self.subject.key(KEYS[self.rng.index(KEYS.len())]));
        let called = self.tick();
        let reading = self.subject.store.get(&key).await.unwrap();
        let returned = self.tick();
        match &reading.item {
            Some(item) => self.seen.insert(key.clone(), (item.revision, item.value.clone())),
            None => self.seen.remove(&key),
        };
        // One key's reading is a check that this one key is so.
        let expect = reading.item.map_or(Expect::Absent, |item| Expect::At(item.revision));
        let check = self.subject.commit().expect(key, expect);
        self.events.push(Event { called, returned, what: What::Checked(check, reading.revision) });
    }

    async fn scan(&mut self) {
        let called = self.tick();
        let page = self.subject.store.scan(Scan::of(&*self.subject.prefix)).await.unwrap();
        let returned = self.tick();
        self.seen = state_of(&page.items);
        let what = What::Read(self.seen.clone(), page.revision);
        self.events.push(Event { called, returned, what });
    }

    async fn commit(&mut self, step: usize) {
        let commit = self.random_commit(step);
        let called = self.tick();
        let answer = self.subject.store.commit(commit.clone()).await;
        let returned = self.tick();
        let what = match answer {
            Ok(Outcome::Applied(revision)) if commit.writes.is_empty() => {
                What::Checked(commit, revision)
            }
            Ok(Outcome::Applied(revision)) => {
                self.learn(&commit, revision);
                What::Applied(commit, revision)
            }
            Ok(Outcome::Conflict(keys)) => What::Conflict(commit, keys),
            Err(StoreError::Unknown(_)) => return self.unanswered.push((called, commit)),
            Err(StoreError::Unavailable(_)) => {
                let written = self.subject.store.written(commit.write_id).await.unwrap();
                return assert_eq!(written, None, "unavailable, and yet {commit:?} was written");
            }
            Err(other) => panic!("{other:?}"),
        };
        self.events.push(Event { called, returned, what });
    }

    /// What was never answered has its place if it applied, and none if it did not.
    async fn settle(&mut self) {
        for (called, commit) in std::mem::take(&mut self.unanswered) {
            if let Some(revision) = self.subject.store.written(commit.write_id).await.unwrap() {
                let what = What::Applied(commit, revision);
                self.events.push(Event { called, returned: u64::MAX, what });
            }
        }
    }

    fn random_commit(&mut self, step: usize) -> Commit {
        let mut names = KEYS.to_vec();
        let mut commit = self.subject.commit();
        for part in 0..=self.rng.below(3) {
            let name = names.swap_remove(self.rng.index(names.len()));
            let key = Key::from(self.subject.key(name));
            let known = self.seen.get(&key);
            let chance = self.rng.below(5);
            let expect = match known {
                Some((revision, _)) if chance < 2 => Some(Expect::At(*revision)),
                Some((_, value)) if chance == 2 => Some(Expect::Value(value.clone())),
                None if chance < 3 => Some(Expect::Absent),
                Some(_) | None => (chance == 3).then_some(Expect::Present),
            };
            if let Some(expect) = expect {
                commit = commit.expect(key.clone(), expect);
            }
            commit = match self.rng.below(8) {
                0 => commit.delete(key),
                1 => commit,
                _ => commit.put(key, format!("{}-{step}-{part}", self.name)),
            };
        }
        commit
    }

    fn learn(&mut self, commit: &Commit, revision: Revision) {
        for (key, write) in &commit.writes {
            match write {
                Write::Put(value) => self.seen.insert(key.clone(), (revision, value.clone())),
                Write::Delete => self.seen.remove(key),
            };
        }
    }

    fn tick(&self) -> u64 {
        self.clock.fetch_add(1, Ordering::SeqCst)
    }
}

fn state_of(items: &[crate::Item]) -> State {
    items.iter().map(|item| (item.key.clone(), (item.revision, item.value.clone()))).collect()
}

impl History {
    /// Says why the history is not linearizable, if so.
    ///
    /// # Errors
    /// The first event that has no place in the order.
    pub fn check(&self) -> Result<(), String> {
        let states = self.replay()?;
        let at = |revision: Revision| states.range(..=revision).next_back().map(|(_, state)| state);
        for event in &self.events {
            let (lowest, highest) = self.window(event);
            match &event.what {
                What::Applied(_, revision) => check_window(event, *revision, lowest, highest)?,
                What::Checked(commit, revision) => {
                    check_window(event, *revision, lowest, highest)?;
                    let state = at(*revision).ok_or_else(|| format!("too early: {event:?}"))?;
                    if !conflicts(state, commit).is_empty() {
                        return Err(format!("the state was not so: {event:?}"));
                    }
                }
                What::Read(read, revision) => {
                    check_window(event, *revision, lowest, highest)?;
                    if at(*revision) != Some(read) {
                        return Err(format!("the state was not so: {event:?}"));
                    }
                }
                What::Conflict(commit, keys) => {
                    let told: BTreeSet<_> = keys.iter().collect();
                    let mut possible = at(lowest)
                        .into_iter()
                        .chain(states.range(lowest..=highest).map(|(_, state)| state));
                    if !possible.any(|state| conflicts(state, commit) == told) {
                        return Err(format!("there was no such conflict: {event:?}"));
                    }
                }
            }
        }
        Ok(())
    }

    /// The state after each revision, if every applied commit was rightly applied.
    fn replay(&self) -> Result<BTreeMap<Revision, State>, String> {
        let mut applied = BTreeMap::new();
        for event in &self.events {
            if let What::Applied(commit, revision) = &event.what
                && applied.insert(*revision, commit).is_some()
            {
                return Err(format!("{revision} was given out twice: {event:?}"));
            }
        }
        let (mut state, start) = self.start.clone();
        let mut states = BTreeMap::from([(start, state.clone())]);
        for (revision, commit) in applied {
            let conflicts = conflicts(&state, commit);
            if revision <= start || !conflicts.is_empty() {
                return Err(format!("applied at {revision} in spite of {conflicts:?}: {commit:?}"));
            }
            for (key, write) in &commit.writes {
                match write {
                    Write::Put(value) => state.insert(key.clone(), (revision, value.clone())),
                    Write::Delete => state.remove(key),
                };
            }
            states.insert(revision, state.clone());
        }
        Ok(states)
    }

    /// Between which revisions an event has its place by real time, both included.
    fn window(&self, event: &Event) -> (Revision, Revision) {
        let (mut lowest, mut highest) = (self.start.1, Revision::new(u64::MAX));
        for other in &self.events {
            let revision = match &other.what {
                What::Applied(_, revision) | What::Checked(_, revision) => *revision,
                What::Read(_, revision) => *revision,
                What::Conflict(..) => continue,
            };
            let is_commit = matches!(other.what, What::Applied(..));
            if other.returned < event.called {
                lowest = lowest.max(revision);
            } else if other.called > event.returned {
                // A reading after it may have the same place, a commit may not.
                let before = revision.get() - u64::from(is_commit);
                highest = highest.min(Revision::new(before));
            }
        }
        (lowest, highest)
    }
}

fn check_window(
    event: &Event,
    revision: Revision,
    lowest: Revision,
    highest: Revision,
) -> Result<(), String> {
    let is_commit = matches!(event.what, What::Applied(..));
    let is_late_enough = if is_commit { revision > lowest } else { revision >= lowest };
    if is_late_enough && revision <= highest {
        return Ok(());
    }
    Err(format!("real time puts it between {lowest} and {highest}: {event:?}"))
}

/// The keys that are not as `commit` expects, judged by code that no backend uses.
fn conflicts<'a>(state: &State, commit: &'a Commit) -> BTreeSet<&'a Key> {
    let holds = |(key, expect): &&(Key, Expect)| match expect {
        Expect::Absent => !state.contains_key(key),
        Expect::Present => state.contains_key(key),
        Expect::At(revision) => state.get(key).is_some_and(|(at, _)| at == revision),
        Expect::Value(value) => state.get(key).is_some_and(|(_, is)| is == value),
    };
    commit.expects.iter().filter(|expect| !holds(expect)).map(|(key, _)| key).collect()
}
