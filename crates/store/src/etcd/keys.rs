//! Where in etcd's one space of keys everything of a store lies. Pure.
//!
//! ```text
//!   PREFIX/format         the version of this layout; where it lies never changes
//!   PREFIX//floor         up to where history is forgotten
//!   PREFIX//k/<key>       what callers store
//!   PREFIX//w/<write id>  one for each commit that applied; its revision is the commit's
//!   PREFIX//b/<key>       what is measured beside the store
//! ```
//!
//! Invariant: no key of one store lies in a room of another. No prefix holds two slashes in a row
//! or ends with one (`target` sees to it), so what stands before the first pair of them in a key is
//! the prefix of the one store that it belongs to.

use bytes::Bytes;
use sterna_model::{Revision, WriteId};

use crate::Key;

/// The names of one store.
#[derive(Clone, Debug)]
pub(super) struct Keys {
    prefix: String,
}

/// Ends the prefix in every key but the format's.
const END: &str = "//";
/// What callers store.
const CALLERS: &str = "k/";
/// Records of commits.
const WRITES: &str = "w/";
/// What is put beside the store.
const BESIDE: &str = "b/";

/// From the first key to before the second.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Bounds {
    pub(super) first: Bytes,
    pub(super) end: Bytes,
}

impl Keys {
    /// Of the store under this prefix.
    pub(super) fn under(prefix: &str) -> Self {
        Self { prefix: prefix.to_owned() }
    }

    /// A caller's key.
    pub(super) fn of(&self, key: &str) -> Bytes {
        self.name(CALLERS, key.as_bytes())
    }

    /// The record of a commit.
    pub(super) fn write(&self, id: WriteId) -> Bytes {
        let digit = |nibble: u8| char::from_digit(nibble.into(), 16).unwrap_or('0');
        let hex: String =
            id.as_bytes().iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect();
        self.name(WRITES, hex.as_bytes())
    }

    /// Whether this is the record of a commit.
    pub(super) fn is_write(&self, key: &[u8]) -> bool {
        let id = key.strip_prefix(&*self.name(WRITES, b""));
        let is_digit = |byte: &u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        id.is_some_and(|id| id.len() == 2 * size_of::<WriteId>() && id.iter().all(is_digit))
    }

    /// The record of the floor.
    pub(super) fn floor(&self) -> Bytes {
        self.name("floor", b"")
    }

    /// The record of the layout's version.
    pub(super) fn format(&self) -> Bytes {
        format!("{}/format", self.prefix).into()
    }

    /// A place of its own for measuring beside the store.
    pub(super) fn beside(&self, key: &str) -> Bytes {
        self.name(BESIDE, key.as_bytes())
    }

    /// The callers' keys that begin with `prefix` and come after `after`.
    pub(super) fn bounds(&self, prefix: &str, after: Option<&str>) -> Bounds {
        let (mut first, end) = (self.of(prefix), following(&self.of(prefix)));
        if let Some(after) = after {
            // The key right after one in the order of bytes is that one with a zero behind it.
            first = first.max([&*self.of(after), &[0]].concat().into());
        }
        Bounds { first, end }
    }

    /// All records of commits, after this one.
    pub(super) fn writes(&self, after: Option<&[u8]>) -> Bounds {
        let all = self.name(WRITES, b"");
        let end = following(&all);
        let first = after.map_or(all, |after| [after, &[0]].concat().into());
        Bounds { first, end }
    }

    /// Everything that was put beside the store.
    pub(super) fn all_beside(&self) -> Bounds {
        let first = self.name(BESIDE, b"");
        let end = following(&first);
        Bounds { first, end }
    }

    /// Everything of the store but its format.
    pub(super) fn all(&self) -> Bounds {
        let first = self.name("", b"");
        let end = following(&first);
        Bounds { first, end }
    }

    /// The caller's name of a key.
    pub(super) fn name_of(&self, key: &[u8]) -> Key {
        let own = key.get(self.prefix.len() + END.len() + CALLERS.len()..).unwrap_or_default();
        Key::from(&*String::from_utf8_lossy(own))
    }

    fn name(&self, room: &str, rest: &[u8]) -> Bytes {
        [self.prefix.as_bytes(), END.as_bytes(), room.as_bytes(), rest].concat().into()
    }
}

/// The first key after all that begin with `prefix`.
fn following(prefix: &[u8]) -> Bytes {
    let mut end = prefix.to_vec();
    // Never empty, and no byte of UTF-8 is 255: adding one never wraps.
    if let Some(last) = end.last_mut() {
        *last = last.saturating_add(1);
    }
    end.into()
}

/// A revision as etcd counts.
pub(super) fn signed(revision: Revision) -> i64 {
    i64::try_from(revision.get()).unwrap_or(i64::MAX)
}

/// A revision as we count.
pub(super) fn revision(number: i64) -> Revision {
    Revision::new(u64::try_from(number).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use sterna_model::WallTime;

    use super::*;

    #[test]
    fn bounds_hold_exactly_what_begins_with_the_prefix() {
        let keys = Keys::under("sterna");
        for key in ["", "a", "a/", "a/b", "a0", "b", "\u{10ffff}"] {
            for prefix in ["", "a", "a/", "\u{10ffff}"] {
                let Bounds { first, end } = keys.bounds(prefix, None);
                let is_inside = keys.of(key) >= first && keys.of(key) < end;
                assert_eq!(is_inside, key.starts_with(prefix), "{key:?} under {prefix:?}");
            }
        }
    }

    #[test]
    fn after_leaves_out_the_key_itself_and_nothing_more() {
        let keys = Keys::under("sterna");
        let first = keys.bounds("a", Some("ab")).first;
        assert!(first > keys.of("ab") && first <= keys.of("ab\x01"));
        assert_eq!(keys.bounds("b", Some("a")).first, keys.of("b"));
    }

    #[test]
    fn what_is_ours_is_outside_of_what_is_the_callers() {
        let keys = Keys::under("sterna");
        let all = keys.bounds("", None);
        let id = WriteId::from_parts(WallTime::EPOCH, [0xab; 10]);
        for own in [keys.write(id), keys.floor(), keys.format(), keys.beside("x")] {
            assert!(own < all.first || own >= all.end, "{own:?}");
        }
        assert!(keys.write(id).ends_with(b"abababababab"));
        let writes = keys.writes(None);
        assert!(keys.write(id) > writes.first && keys.write(id) < writes.end);
    }

    #[test]
    fn no_room_of_a_store_holds_a_key_of_another() {
        let id = WriteId::from_parts(WallTime::EPOCH, [0xab; 10]);
        let prefixes = ["a", "a/b", "a/k", "a/w", "a/bench", "a/format", "/a", "a.", "ab"];
        for (prefix, other) in prefixes.iter().flat_map(|it| prefixes.map(|other| (*it, other))) {
            let (keys, theirs) = (Keys::under(prefix), Keys::under(other));
            let rooms = [keys.bounds("", None), keys.writes(None), keys.all_beside(), keys.all()];
            let own = [theirs.write(id), theirs.floor(), theirs.format(), theirs.beside("x")];
            for key in own.into_iter().chain(["", "/w", "//k/x", "x"].map(|key| theirs.of(key))) {
                let is_in = |bounds: &Bounds| key >= bounds.first && key < bounds.end;
                let is_in = rooms.iter().any(is_in) || keys.format() == key;
                assert_eq!(is_in, prefix == other, "{key:?} in a room of {prefix}");
                assert_eq!(keys.is_write(&key), key == keys.write(id), "{key:?} to {prefix}");
            }
        }
    }

    #[test]
    fn a_name_comes_back_as_it_was() {
        let keys = Keys::under("a/b");
        assert_eq!(&*keys.name_of(&keys.of("/v1/é")), "/v1/é");
    }
}
