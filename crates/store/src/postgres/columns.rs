//! Our words as PostgreSQL's types, and back.

use sterna_model::Revision;
use tokio_postgres::{Error, Row, types::ToSql};
use uuid::Uuid;

use super::group::{Plan, Was};
use crate::{BoxError, StoreError};

/// A plan, column by column, as the statement that stores it takes it.
#[derive(Debug, Default)]
pub(super) struct Columns<'a> {
    revision: i64,
    bytes: i64,
    commit_revisions: Vec<i64>,
    commit_ids: Vec<Uuid>,
    commit_bytes: Vec<i64>,
    revisions: Vec<i64>,
    places: Vec<i16>,
    keys: Vec<&'a [u8]>,
    values: Vec<Option<&'a [u8]>>,
    are_stored: Vec<bool>,
    was_revisions: Vec<Option<i64>>,
    was_values: Vec<Option<&'a [u8]>>,
    are_last: Vec<bool>,
}

impl<'a> Columns<'a> {
    pub(super) fn of(plan: &'a Plan) -> Self {
        let mut columns = Self::default();
        for (revision, id, bytes) in &plan.commits {
            columns.revision = signed(*revision);
            columns.bytes = i64::try_from(*bytes).unwrap_or(i64::MAX);
            columns.commit_revisions.push(columns.revision);
            columns.commit_ids.push(Uuid::from_bytes(*id.as_bytes()));
            columns.commit_bytes.push(columns.bytes);
        }
        for row in &plan.rows {
            columns.revisions.push(signed(row.revision));
            columns.places.push(row.place);
            columns.keys.push(row.key.as_bytes());
            columns.values.push(row.value.as_deref());
            let (is_stored, revision, value) = match &row.was {
                Was::Absent => (false, None, None),
                Was::Stored => (true, None, None),
                Was::Staged(revision, value) => (false, Some(signed(*revision)), Some(&**value)),
            };
            columns.are_stored.push(is_stored);
            columns.was_revisions.push(revision);
            columns.was_values.push(value);
            columns.are_last.push(row.is_last);
        }
        columns
    }

    pub(super) fn params(&self) -> [&(dyn ToSql + Sync); 13] {
        [
            &self.revision,
            &self.bytes,
            &self.commit_revisions,
            &self.commit_ids,
            &self.commit_bytes,
            &self.revisions,
            &self.places,
            &self.keys,
            &self.values,
            &self.are_stored,
            &self.was_revisions,
            &self.was_values,
            &self.are_last,
        ]
    }
}

/// A revision as a bigint. One beyond that was never given out, and is still the future.
pub(super) fn signed(revision: Revision) -> i64 {
    i64::try_from(revision.get()).unwrap_or(i64::MAX)
}

/// A revision in a column.
pub(super) fn revision(row: &Row, column: usize) -> Result<Revision, Error> {
    number(row, column).map(Revision::new)
}

/// A count in a column; our tables hold no negative one.
pub(super) fn number(row: &Row, column: usize) -> Result<u64, Error> {
    row.try_get::<_, i64>(column).map(|number| number.max(0).unsigned_abs())
}

/// Which of what we sent a row is about; the server counts from one.
pub(super) fn place(row: &Row) -> Result<usize, Error> {
    let at = number(row, 0)?;
    Ok(usize::try_from(at).expect("it counts what this machine sent").saturating_sub(1))
}

/// The keys that begin with `prefix` and come after `after`: from the first to before the second.
pub(super) fn bounds(prefix: &str, after: Option<&str>) -> (Vec<u8>, Vec<u8>) {
    let mut first = prefix.as_bytes().to_vec();
    if let Some(after) = after {
        // The key right after one in the order of bytes is that one with a zero behind it.
        first = first.max([after.as_bytes(), &[0]].concat());
    }
    // No byte of UTF-8 is 255, so adding one never wraps, and 255 alone is after everything.
    let mut end = prefix.as_bytes().to_vec();
    match end.last_mut() {
        Some(last) => *last += 1,
        None => end.push(u8::MAX),
    }
    (first, end)
}

/// What to say of a column that holds what we never wrote.
pub(super) fn unreadable(error: Error) -> StoreError {
    StoreError::Corrupt {
        what: format!("a column is not of our making: {}", BoxError::from(error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_hold_exactly_what_begins_with_the_prefix() {
        for key in ["", "a", "a/", "a/b", "a0", "b", "\u{10ffff}"] {
            for prefix in ["", "a", "a/", "\u{10ffff}"] {
                let (first, end) = bounds(prefix, None);
                let is_inside = key.as_bytes() >= &first[..] && key.as_bytes() < &end[..];
                assert_eq!(is_inside, key.starts_with(prefix), "{key:?} under {prefix:?}");
            }
        }
    }

    #[test]
    fn after_leaves_out_the_key_itself_and_nothing_more() {
        let (first, _) = bounds("a", Some("ab"));
        assert!(first[..] > b"ab"[..] && first[..] <= b"ab\x01"[..]);
        let (first, _) = bounds("b", Some("a"));
        assert_eq!(first, b"b");
    }
}
