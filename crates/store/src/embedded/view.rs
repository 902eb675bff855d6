//! What readers see and commits are judged by: the table, and everything since.

use std::{ops::Bound, sync::Arc};

use bytes::Bytes;
use sterna_model::Revision;

use super::{
    files::ReadError,
    frame::Record,
    recent::Recent,
    table::{Row, Table},
};
use crate::{
    Change, Commit, Item, Key, Limits, Outcome, Page, Reading, Scan, StoreError, Write,
    commit::{following, judge},
};

#[derive(Debug)]
pub(super) struct View {
    pub(super) recent: Recent,
    pub(super) table: Arc<Table>,
}

/// What became of a commit when it was judged.
#[derive(Debug)]
pub(super) enum Judged {
    /// It changes something: staged, and for the log to make durable.
    Staged(Record),
    /// It changes nothing.
    Idle(Outcome),
}

impl View {
    /// A key as it is published.
    pub(super) fn get(&self, key: &str) -> Result<Reading, StoreError> {
        let revision = self.recent.published();
        let found = match self.recent.version(key, revision) {
            Some((at, value)) => value.clone().map(|value| (*at, value)),
            None => self.table.get(key).map_err(unreadable)?,
        };
        let item = found.map(|(revision, value)| Item { key: Key::from(key), value, revision });
        Ok(Reading { item, revision })
    }

    /// A key as it will be when everything staged is published.
    fn staged(&self, key: &Key) -> Result<Option<(Revision, Bytes)>, StoreError> {
        match self.recent.newest(key) {
            Some((revision, value)) => Ok(value.clone().map(|value| (*revision, value))),
            None => self.table.get(key).map_err(unreadable),
        }
    }

    /// One page at a revision that is still remembered.
    pub(super) fn page(&self, scan: &Scan) -> Result<Page, StoreError> {
        let revision = Limits::PORTABLE.check_scan(scan, self.recent.published())?;
        self.recent.check_floor(revision)?;
        let start = match &scan.after {
            Some(after) if **after >= *scan.prefix => Bound::Excluded(&**after),
            Some(_) | None => Bound::Included(&*scan.prefix),
        };
        let mut page = Page { items: Vec::new(), revision, more: false };
        let mut bytes = 0;
        for item in self.items(start, &scan.prefix, revision) {
            if page.items.len() == scan.limit || bytes >= Limits::PORTABLE.page_bytes_max {
                page.more = true;
                break;
            }
            let item = item?;
            bytes += item.key.len() + item.value.len();
            page.items.push(item);
        }
        Ok(page)
    }

    /// The keys from `start` on that begin with `prefix`, as they were at a revision.
    fn items<'a>(
        &'a self,
        start: Bound<&'a str>,
        prefix: &'a str,
        at: Revision,
    ) -> impl Iterator<Item = Result<Item, StoreError>> + 'a {
        let is_under = move |row: &Result<Row, ReadError>| {
            row.as_ref().map_or(true, |(key, _, _)| key.starts_with(prefix))
        };
        let mut older = self.table.range(start).take_while(is_under).peekable();
        let newer = self.recent.range(start, at);
        let mut newer = newer.take_while(move |(key, _)| key.starts_with(prefix)).peekable();
        std::iter::from_fn(move || {
            loop {
                let takes_newer = match (newer.peek(), older.peek()) {
                    (None, None) => return None,
                    (Some(_), None) => true,
                    (None, Some(_)) | (Some(_), Some(Err(_))) => false,
                    (Some((new, _)), Some(Ok((old, _, _)))) => *new <= old,
                };
                if !takes_newer {
                    let row = older.next()?.map_err(unreadable);
                    return Some(row.map(|(key, revision, value)| Item { key, value, revision }));
                }
                let (key, (revision, value)) = newer.next()?;
                // Where both know a key, the newer one is right.
                older.next_if(|row| matches!(row, Ok((old, _, _)) if old == key));
                if let Some(value) = value.clone() {
                    return Some(Ok(Item { key: key.clone(), value, revision: *revision }));
                }
            }
        })
    }

    /// Judges one commit against everything before it, staged commits included.
    pub(super) fn judge(&self, commit: &Commit) -> Result<Judged, StoreError> {
        if let Some(revision) = self.recent.written(commit.write_id) {
            return Ok(Judged::Idle(Outcome::Applied(revision)));
        }
        let conflicts = judge(commit, |key| self.staged(key))?;
        if !conflicts.is_empty() {
            return Ok(Judged::Idle(Outcome::Conflict(conflicts)));
        }
        if commit.writes.is_empty() {
            return Ok(Judged::Idle(Outcome::Applied(self.recent.last())));
        }
        let changes = self.changes_of(commit)?;
        let revision = following(self.recent.last());
        Ok(Judged::Staged(Record { revision, write_id: commit.write_id, changes }))
    }

    fn changes_of(&self, commit: &Commit) -> Result<Vec<Change>, StoreError> {
        let mut changes = Vec::with_capacity(commit.writes.len());
        for (key, write) in &commit.writes {
            let value = match write {
                Write::Put(value) => Some(value.clone()),
                Write::Delete if self.staged(key)?.is_some() => None,
                // Removing what is not there is no change.
                Write::Delete => continue,
            };
            changes.push(Change { key: key.clone(), value });
        }
        changes.sort_by(|a, b| a.key.cmp(&b.key));
        Ok(changes)
    }
}

/// What a caller may do about something that could not be read.
pub(super) fn unreadable(error: ReadError) -> StoreError {
    match error {
        ReadError::Io(error) => StoreError::Unavailable(error.into()),
        ReadError::Corrupt(what) => StoreError::Corrupt { what },
        ReadError::Newer(_) => StoreError::Corrupt { what: error.to_string() },
    }
}
