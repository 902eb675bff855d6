//! Everything that only reads; each call is one statement, and so one snapshot.

use bytes::Bytes;
use sterna_model::{Revision, WriteId};
use tokio_postgres::{Error, Row};
use uuid::Uuid;

use super::{
    columns::{bounds, number, revision, signed, unreadable},
    link::Link,
};
use crate::{Change, Changes, Item, Key, Limits, Page, Reading, Scan, StoreError};

/// Rows that one look at the history is for; more than any commit has changes. One row more is
/// brought if there is one, which shows that there are more.
const ROWS_MAX: u32 = 1_000;

/// One key as it is now.
pub(super) async fn get(link: &Link, key: &str) -> Result<Reading, StoreError> {
    let rows = link.ask(|it| &it.get, &[&key.as_bytes()]).await?;
    let row = one(&rows)?;
    let read = || {
        let item = match row.try_get::<_, Option<i64>>(1)? {
            Some(_) => Some(Item {
                key: key.into(),
                revision: revision(row, 1)?,
                value: Bytes::copy_from_slice(row.try_get(2)?),
            }),
            None => None,
        };
        Ok(Reading { item, revision: revision(row, 0)? })
    };
    read().map_err(unreadable)
}

/// One page of keys.
pub(super) async fn scan(link: &Link, limits: &Limits, scan: &Scan) -> Result<Page, StoreError> {
    // What cannot be right at any revision is refused before anything is sent.
    limits.check_scan(&Scan { at: None, ..scan.clone() }, Revision::ZERO)?;
    let (first, end) = bounds(&scan.prefix, scan.after.as_deref());
    let limit = i64::try_from(scan.limit).unwrap_or(i64::MAX - 1);
    let bytes_max = i64::try_from(limits.page_bytes_max).unwrap_or(i64::MAX);
    let at = scan.at.map(signed);
    let rows = link.ask(|it| &it.scan, &[&first, &end, &limit, &at, &bytes_max]).await?;
    let (now, floor) = now_and_floor(one(&rows)?)?;
    let revision = limits.check_scan(scan, now)?;
    if revision < floor {
        return Err(StoreError::Compacted { floor });
    }
    let mut items = Vec::new();
    let mut found = 0;
    for row in &rows {
        items.extend(item(row, &mut found).map_err(unreadable)?);
    }
    items.truncate(scan.limit);
    let more = found > items.len() as u64;
    Ok(Page { items, revision, more })
}

/// The revision that this write made, if it is remembered.
pub(super) async fn written(link: &Link, id: WriteId) -> Result<Option<Revision>, StoreError> {
    let rows = link.ask(|it| &it.written, &[&Uuid::from_bytes(*id.as_bytes())]).await?;
    let row = one(&rows)?;
    match row.try_get::<_, Option<i64>>(1).map_err(unreadable)? {
        Some(_) => {
            let found = revision(row, 1).map_err(unreadable)?;
            // It may be on this server alone; whoever hears of it counts on more.
            drop(link.ask(|it| &it.touch, &[]).await?);
            Ok(Some(found))
        }
        None => Ok(None),
    }
}

/// What one look at the history brought.
#[derive(Debug)]
pub(super) struct Look {
    /// Whole commits, in order.
    pub(super) found: Vec<Changes>,
    /// Nothing else that matches is there up to this revision.
    pub(super) up_to: Revision,
    /// Whether that was all there was.
    pub(super) is_whole: bool,
}

/// The commits after `after` that changed keys under `prefix`, as many as fit into one look.
pub(super) async fn look(
    link: &Link,
    limits: &Limits,
    prefix: &str,
    after: Revision,
) -> Result<Look, StoreError> {
    let (first, end) = bounds(prefix, None);
    let bytes_max = i64::try_from(limits.page_bytes_max).unwrap_or(i64::MAX);
    let params: [&(dyn tokio_postgres::types::ToSql + Sync); 5] =
        [&signed(after), &first, &end, &i64::from(ROWS_MAX), &bytes_max];
    let rows = link.ask(|it| &it.changes, &params).await?;
    let (now, floor) = now_and_floor(one(&rows)?)?;
    Limits::check_reached(after, now)?;
    if after < floor {
        return Err(StoreError::Compacted { floor });
    }
    let mut found: Vec<Changes> = Vec::new();
    let (mut seen, mut there) = (0, 0);
    for row in &rows {
        let Some((revision, change)) = change(row, &mut there).map_err(unreadable)? else { break };
        seen += 1;
        match found.last_mut() {
            Some(last) if last.revision == revision => last.changes.push(change),
            Some(_) | None => found.push(Changes { revision, changes: vec![change] }),
        }
    }
    if seen == there && there <= u64::from(ROWS_MAX) {
        return Ok(Look { found, up_to: now, is_whole: true });
    }
    // The last commit may have been cut in two. It is not the only one: a commit has fewer
    // changes and fewer bytes than one look brings.
    found.pop();
    let up_to = found.last().map_or(after, |last| last.revision);
    Ok(Look { found, up_to, is_whole: false })
}

fn now_and_floor(row: &Row) -> Result<(Revision, Revision), StoreError> {
    let read = || Ok((revision(row, 0)?, revision(row, 1)?));
    read().map_err(unreadable)
}

fn item(row: &Row, found: &mut u64) -> Result<Option<Item>, Error> {
    let Some(key) = row.try_get::<_, Option<&[u8]>>(2)? else { return Ok(None) };
    *found = number(row, 5)?;
    Ok(Some(Item {
        key: text(key),
        revision: revision(row, 3)?,
        value: Bytes::copy_from_slice(row.try_get(4)?),
    }))
}

fn change(row: &Row, found: &mut u64) -> Result<Option<(Revision, Change)>, Error> {
    let Some(key) = row.try_get::<_, Option<&[u8]>>(3)? else { return Ok(None) };
    *found = number(row, 5)?;
    let value = row.try_get::<_, Option<&[u8]>>(4)?.map(Bytes::copy_from_slice);
    Ok(Some((revision(row, 2)?, Change { key: text(key), value })))
}

/// Only what was UTF-8 is ever written; somebody else's bytes are shown as they are, as far as
/// that goes.
fn text(key: &[u8]) -> Key {
    Key::from(&*String::from_utf8_lossy(key))
}

/// The counter is one row, whatever else is there.
fn one(rows: &[Row]) -> Result<&Row, StoreError> {
    let missing = || StoreError::Corrupt { what: "the counter's row is missing".into() };
    rows.first().ok_or_else(missing)
}
