//! What one call may carry.

use sterna_model::Revision;

use crate::{Commit, Expect, Key, Scan, Write};

/// The largest things that a store takes. Every backend states its own; what exceeds them is
/// refused before anything is sent or written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of one key.
    pub key_bytes_max: usize,
    /// Bytes of one value.
    pub value_bytes_max: usize,
    /// Expectations and writes of one commit, counted together.
    pub operations_max: usize,
    /// Bytes of all keys and values of one commit, expected values included.
    pub commit_bytes_max: usize,
    /// Items of one page of a scan.
    pub page_items_max: usize,
    /// Bytes after which a page of a scan ends early; it may exceed them by one item.
    pub page_bytes_max: usize,
}

impl Limits {
    /// What every backend of this crate takes, so that work written for one runs on all of them.
    /// etcd sets the bounds: 1.5 MiB a request and 128 operations a transaction by default.
    pub const PORTABLE: Self = Self {
        key_bytes_max: 1_024,
        value_bytes_max: 1_000_000,
        operations_max: 100,
        commit_bytes_max: 1_200_000,
        page_items_max: 1_000,
        page_bytes_max: 2_000_000,
    };

    /// Says why `commit` can never be taken, if so.
    ///
    /// # Errors
    /// The first rule it breaks.
    pub fn check(&self, commit: &Commit) -> Result<(), Refusal> {
        let operations = commit.expects.len() + commit.writes.len();
        if operations > self.operations_max {
            return Err(Refusal::Operations { count: operations, max: self.operations_max });
        }
        let mut bytes = 0;
        for (key, expect) in &commit.expects {
            self.check_key(key)?;
            bytes += key.len();
            if let Expect::Value(value) = expect {
                bytes += self.check_value(key, value.len())?;
            }
        }
        for (key, write) in &commit.writes {
            self.check_key(key)?;
            bytes += key.len();
            if let Write::Put(value) = write {
                bytes += self.check_value(key, value.len())?;
            }
        }
        if bytes > self.commit_bytes_max {
            return Err(Refusal::CommitBytes { bytes, max: self.commit_bytes_max });
        }
        check_once_each(commit)
    }

    /// Says why `key` can never be a key here, if so.
    ///
    /// # Errors
    /// The rule it breaks.
    pub fn check_key(&self, key: &str) -> Result<(), Refusal> {
        if key.is_empty() {
            return Err(Refusal::EmptyKey);
        }
        if key.len() > self.key_bytes_max {
            let start = key.chars().take(40).collect();
            return Err(Refusal::KeyBytes { start, bytes: key.len(), max: self.key_bytes_max });
        }
        if let Some(at) = key.find('\0') {
            return Err(Refusal::NulInKey { key: key.replace('\0', "\\0"), at });
        }
        Ok(())
    }

    /// Which revision `scan` reads, on a store that is at `now`.
    ///
    /// # Errors
    /// It asks for no items, for too many, or for the future.
    pub fn check_scan(&self, scan: &Scan, now: Revision) -> Result<Revision, Refusal> {
        if scan.limit == 0 || scan.limit > self.page_items_max {
            return Err(Refusal::PageItems { limit: scan.limit, max: self.page_items_max });
        }
        let at = scan.at.unwrap_or(now);
        Self::check_reached(at, now)?;
        Ok(at)
    }

    /// A revision that was never given out is a mistake of the caller, or of another store.
    ///
    /// # Errors
    /// `asked` is greater than `now`.
    pub fn check_reached(asked: Revision, now: Revision) -> Result<(), Refusal> {
        if asked > now { Err(Refusal::FutureRevision { asked, now }) } else { Ok(()) }
    }

    fn check_value(&self, key: &Key, bytes: usize) -> Result<usize, Refusal> {
        if bytes > self.value_bytes_max {
            return Err(Refusal::ValueBytes { key: key.clone(), bytes, max: self.value_bytes_max });
        }
        Ok(bytes)
    }
}

/// Two writes to one key in one commit have no order, so neither could be right.
fn check_once_each(commit: &Commit) -> Result<(), Refusal> {
    let mut keys: Vec<&Key> = commit.writes.iter().map(|(key, _)| key).collect();
    keys.sort_unstable();
    match keys.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => Err(Refusal::WrittenTwice { key: pair[0].clone() }),
        None => Ok(()),
    }
}

/// Why a call can never succeed as it is.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// A key without a single byte.
    #[error("a key is empty; name what is to be stored, for example /v1/default/task/build")]
    EmptyKey,
    /// A key over the limit.
    #[error("the key {start}... has {bytes} bytes, the limit is {max}; shorten the key")]
    KeyBytes {
        /// How it begins.
        start: String,
        /// Its length.
        bytes: usize,
        /// The limit.
        max: usize,
    },
    /// A NUL byte, which PostgreSQL cannot hold.
    #[error("the key {key} has a NUL byte at position {at}; escape it")]
    NulInKey {
        /// The key, with the NUL made visible.
        key: String,
        /// Where, in bytes.
        at: usize,
    },
    /// A value over the limit.
    #[error("the value of {key} has {bytes} bytes, the limit is {max}; split it over several keys")]
    ValueBytes {
        /// Whose value.
        key: Key,
        /// Its length.
        bytes: usize,
        /// The limit.
        max: usize,
    },
    /// Too many expectations and writes.
    #[error("the commit has {count} operations, the limit is {max}; split it into several commits")]
    Operations {
        /// How many.
        count: usize,
        /// The limit.
        max: usize,
    },
    /// Too large as a whole.
    #[error("the commit has {bytes} bytes, the limit is {max}; split it into several commits")]
    CommitBytes {
        /// How large.
        bytes: usize,
        /// The limit.
        max: usize,
    },
    /// Two writes to one key.
    #[error("the commit writes {key} twice; keep the write that is meant")]
    WrittenTwice {
        /// The key.
        key: Key,
    },
    /// A page of no items would never end.
    #[error("a scan asks for {limit} items a page; ask for 1 to {max}")]
    PageItems {
        /// What was asked.
        limit: usize,
        /// The limit.
        max: usize,
    },
    /// A revision that the store has not reached.
    #[error(
        "{asked} lies in the future, the store is at {now}; ask for a revision that it gave out"
    )]
    FutureRevision {
        /// What was asked.
        asked: Revision,
        /// Where the store is.
        now: Revision,
    },
}
