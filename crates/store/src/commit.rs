//! What a caller asks of the store, and how it ended.

use std::{borrow::Borrow, fmt, ops::Deref, sync::Arc};

use bytes::Bytes;
use sterna_model::{Revision, WriteId};

/// The name of one value: UTF-8, ordered by its bytes, cheap to clone.
///
/// Any text makes a key; whether a store takes it is said by its
/// [`Limits`](crate::Limits) when it is used.
///
/// ```
/// use sterna_store::Key;
///
/// let key = Key::from("/v1/default/task/build");
/// assert!(key.starts_with("/v1/default/"));
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(Arc<str>);

impl Deref for Key {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

// Ordered maps of keys are searched by plain text; `str` and `Key` order alike.
impl Borrow<str> for Key {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl From<&str> for Key {
    fn from(text: &str) -> Self {
        Self(text.into())
    }
}

impl From<String> for Key {
    fn from(text: String) -> Self {
        Self(text.into())
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

// As Display: keys stand in every log line and test table.
impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What must hold of a key for a commit to apply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expect {
    /// The key is not there.
    Absent,
    /// The key is there, whatever its value.
    Present,
    /// The key was last written by the commit of this revision.
    At(Revision),
    /// The key is there and its value is this, byte for byte.
    Value(Bytes),
}

/// What a commit does to a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Write {
    /// Sets it.
    Put(Bytes),
    /// Removes it; removing what is not there is no error.
    Delete,
}

/// All of it or none of it.
///
/// ```
/// use sterna_model::{WallTime, WriteId};
/// use sterna_store::{Commit, Expect};
///
/// let commit = Commit::new(WriteId::from_parts(WallTime::EPOCH, [7; 10]))
///     .expect("/task/a", Expect::Absent)
///     .put("/task/a", "pending")
///     .delete("/draft/a");
/// assert_eq!(commit.writes.len(), 2);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Commit {
    /// Names this commit for good. Sent again under the same id it is not applied again, and
    /// whoever got no answer asks [`Store::written`](crate::Store::written) for it.
    pub write_id: WriteId,
    /// The conditions. A key may have several; all must hold.
    pub expects: Vec<(Key, Expect)>,
    /// The writes, at most one for a key.
    pub writes: Vec<(Key, Write)>,
}

impl Commit {
    /// A commit that expects nothing and writes nothing.
    pub const fn new(write_id: WriteId) -> Self {
        Self { write_id, expects: Vec::new(), writes: Vec::new() }
    }

    /// Adds a condition.
    #[must_use]
    pub fn expect(mut self, key: impl Into<Key>, expect: Expect) -> Self {
        self.expects.push((key.into(), expect));
        self
    }

    /// Sets a key.
    #[must_use]
    pub fn put(mut self, key: impl Into<Key>, value: impl Into<Bytes>) -> Self {
        self.writes.push((key.into(), Write::Put(value.into())));
        self
    }

    /// Removes a key.
    #[must_use]
    pub fn delete(mut self, key: impl Into<Key>) -> Self {
        self.writes.push((key.into(), Write::Delete));
        self
    }
}

/// How a commit ended. Losing a race is an outcome, not an error.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub enum Outcome {
    /// It applied, at this revision. A commit without writes makes no revision of its own: this
    /// is then one at which its expectations held.
    Applied(Revision),
    /// Nothing was written; these keys were not as expected, in order and once each.
    Conflict(Vec<Key>),
}

/// The keys of `commit` that are not as it expects, in order and once each.
///
/// `current` tells the revision and value of a key at the moment of judgement.
pub(crate) fn judge<E>(
    commit: &Commit,
    mut current: impl FnMut(&Key) -> Result<Option<(Revision, Bytes)>, E>,
) -> Result<Vec<Key>, E> {
    let mut conflicts = Vec::new();
    for (key, expect) in &commit.expects {
        let found = current(key)?;
        let holds = match (expect, &found) {
            (Expect::Absent, None) | (Expect::Present, Some(_)) => true,
            (Expect::Absent, Some(_)) => false,
            (Expect::Present | Expect::At(_) | Expect::Value(_), None) => false,
            (Expect::At(wanted), Some((revision, _))) => wanted == revision,
            (Expect::Value(wanted), Some((_, value))) => wanted == value,
        };
        if !holds {
            conflicts.push(key.clone());
        }
    }
    conflicts.sort();
    conflicts.dedup();
    Ok(conflicts)
}

/// The revision after this one.
pub(crate) fn following(revision: Revision) -> Revision {
    revision
        .next()
        .expect("a million commits a second would take half a million years to get there")
}
