//! The two records of leadership, as they stand in the store: one line of text each.

use std::{fmt, str::FromStr};

use sterna_model::{
    FenceCounter, Nonce, Revision, Term,
    planted::{Mistake, is_planted},
};

use crate::{Commit, Expect, Item};

/// Who leads. Records of the whole cluster stand under `-`, which no namespace is called.
pub const LEASE_KEY: &str = "/v1/-/leader/lease";
/// By what right.
pub const REIGN_KEY: &str = "/v1/-/leader/reign";

/// Where the nonce of a term stands for good: whoever has followed that term finds out by it whether
/// this store has lived through the same one (safety rule 25).
pub fn term_key(term: Term) -> String {
    format!("{TERMS}{:016x}", term.get())
}

/// Under what the nonces of all terms stand.
const TERMS: &str = "/v1/-/leader/term/";

/// Whether an election owns this key.
pub fn is_election_key(key: &str) -> bool {
    [LEASE_KEY, REIGN_KEY].contains(&key) || key.starts_with(TERMS)
}

/// The term whose nonce stands in an item of the store, and when that term began; `None` if it is
/// something else.
pub fn term_in(item: &Item) -> Option<(Term, (Nonce, Revision))> {
    let term = u64::from_str_radix(item.key.strip_prefix(TERMS)?, 16).ok()?;
    let nonce = u64::from_str_radix(std::str::from_utf8(&item.value).ok()?, 16).ok()?;
    Some((Term::new(term), (Nonce::new(nonce), item.revision)))
}

/// What every commit of a leader expects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reign {
    /// Counts the reigns.
    pub term: Term,
    /// Drawn with the term; tells two holders of one term apart after a restore.
    pub nonce: Nonce,
    /// Raised by the leader to settle commits that it got no answer to.
    pub counter: FenceCounter,
}

impl Reign {
    /// Makes `commit` apply only while this reign lasts and its counter has not been raised.
    #[must_use]
    pub fn fenced(&self, commit: Commit) -> Commit {
        if is_planted(Mistake::CommitsUnfenced) {
            return commit;
        }
        commit.expect(REIGN_KEY, Expect::Value(self.to_string().into()))
    }

    /// The same reign after one settling. What was fenced before can no longer apply.
    ///
    /// `None` at the end of the counter: the leader must resign.
    pub const fn raised(&self) -> Option<Self> {
        match self.counter.next() {
            Some(counter) => Some(Self { counter, ..*self }),
            None => None,
        }
    }
}

impl fmt::Display for Reign {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { term, nonce, counter } = self;
        write!(f, "1 {} {:016x} {}", term.get(), nonce.get(), counter.get())
    }
}

impl FromStr for Reign {
    type Err = RecordError;

    fn from_str(text: &str) -> Result<Self, RecordError> {
        let damaged = || RecordError { text: text.to_owned() };
        let mut words = words(text).ok_or_else(damaged)?;
        let term = words.next().and_then(|word| word.parse().ok()).map(Term::new);
        let nonce = words.next().and_then(nonce);
        let counter = words.next().and_then(|word| word.parse().ok()).map(FenceCounter::new);
        match (term, nonce, counter, words.next()) {
            (Some(term), Some(nonce), Some(counter), None) => Ok(Self { term, nonce, counter }),
            (Some(_) | None, Some(_) | None, Some(_) | None, Some(_) | None) => Err(damaged()),
        }
    }
}

/// Who leads, until when nobody else may.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    /// The holder's term.
    pub term: Term,
    /// The holder's nonce.
    pub nonce: Nonce,
    /// Whether it is held.
    pub state: LeaseState,
    /// What the holder calls itself, for people.
    pub holder: String,
}

/// Whether a lease is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaseState {
    /// Its holder may be alive.
    Held,
    /// Its holder has given it up: anybody may take over at once.
    Resigned,
}

impl Lease {
    /// Reads what stands in the store.
    ///
    /// # Errors
    /// It is damaged, or of a newer sterna.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, RecordError> {
        String::from_utf8_lossy(bytes).parse()
    }
}

impl fmt::Display for Lease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = match self.state {
            LeaseState::Held => "held",
            LeaseState::Resigned => "resigned",
        };
        let Self { term, nonce, holder, .. } = self;
        write!(f, "1 {} {:016x} {state} {holder}", term.get(), nonce.get())
    }
}

impl FromStr for Lease {
    type Err = RecordError;

    fn from_str(text: &str) -> Result<Self, RecordError> {
        let damaged = || RecordError { text: text.to_owned() };
        let mut words = words(text).ok_or_else(damaged)?;
        let term = words.next().and_then(|word| word.parse().ok()).map(Term::new);
        let nonce = words.next().and_then(nonce);
        let state = words.next().and_then(|word| match word {
            "held" => Some(LeaseState::Held),
            "resigned" => Some(LeaseState::Resigned),
            _ => None,
        });
        // A name may hold spaces, and may be empty.
        let holder = words.collect::<Vec<_>>().join(" ");
        match (term, nonce, state) {
            (Some(term), Some(nonce), Some(state)) => Ok(Self { term, nonce, state, holder }),
            (Some(_) | None, Some(_) | None, Some(_) | None) => Err(damaged()),
        }
    }
}

/// The words after the version, which is 1.
fn words(text: &str) -> Option<impl Iterator<Item = &str>> {
    let mut words = text.split(' ');
    (words.next() == Some("1")).then_some(words)
}

fn nonce(word: &str) -> Option<Nonce> {
    u64::from_str_radix(word, 16).ok().filter(|_| word.len() == 16).map(Nonce::new)
}

/// A record of leadership that this build cannot read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the leader record {text:?} is damaged or of a newer sterna; run one version everywhere")]
pub struct RecordError {
    /// What stands there.
    pub text: String,
}
