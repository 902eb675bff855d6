//! What only reads, but for scans; each call is linearizable.

use std::time::Duration;

use bytes::Bytes;
use futures_util::{StreamExt, stream};
use sterna_model::{Revision, WriteId};
use tokio::time::{Instant, timeout_at};

use super::{
    keys::{revision, signed},
    known::Known,
    link::Link,
    plan::Floor,
    trouble::{Topic, Trouble},
    wire::{KeyValue, RangeRequest, RangeResponse, WatchCreate, WatchRequest, path},
};
use crate::{Item, Key, Limits, Reading, StoreError, reached::Mark};

/// How long etcd may take to say how far it is compacted; it looks ten times a second.
const FLOOR_WITHIN: Duration = Duration::from_secs(2);

/// One key as it is now.
pub(super) async fn get(link: &Link, known: &Known, key: &str) -> Result<Reading, StoreError> {
    let mark = known.reached.mark()?;
    let request = RangeRequest { key: known.keys.of(key), ..RangeRequest::default() };
    let answer: RangeResponse = link.ask(path::RANGE, request).await.map_err(unavailable)?;
    let now = reached(known, mark, &answer)?;
    Ok(Reading { item: answer.kvs.into_iter().next().map(|kv| item(known, kv)), revision: now })
}

/// The value of one key at a revision.
pub(super) async fn at(
    link: &Link,
    known: &Known,
    key: &Key,
    at: Revision,
) -> Result<Option<Bytes>, Trouble> {
    let key = known.keys.of(key);
    let request = RangeRequest { key, revision: signed(at), ..RangeRequest::default() };
    let answer: RangeResponse = link.ask(path::RANGE, request).await?;
    Ok(answer.kvs.into_iter().next().map(|kv| kv.value))
}

/// The revision that this write made, if it is remembered.
pub(super) async fn written(
    link: &Link,
    known: &Known,
    id: WriteId,
) -> Result<Option<Revision>, StoreError> {
    let mark = known.reached.mark()?;
    let answer = record(link, known, id).await.map_err(unavailable)?;
    reached(known, mark, &answer)?;
    Ok(put_at(&answer))
}

/// The record of a write, for those who hold it against others of their own.
pub(super) async fn record(
    link: &Link,
    known: &Known,
    id: WriteId,
) -> Result<RangeResponse, Trouble> {
    let request = RangeRequest { key: known.keys.write(id), ..RangeRequest::default() };
    link.ask(path::RANGE, request).await
}

/// When the record that was read was put, if it is there.
pub(super) fn put_at(record: &RangeResponse) -> Option<Revision> {
    record.kvs.first().map(|kv| revision(kv.mod_revision))
}

/// The store's revision, and its floor as our own record has it.
pub(super) async fn extent(link: &Link, known: &Known) -> Result<(Revision, Floor), StoreError> {
    let mark = known.reached.mark()?;
    let request = RangeRequest { key: known.keys.floor(), ..RangeRequest::default() };
    let answer: RangeResponse = link.ask(path::RANGE, request).await.map_err(unavailable)?;
    noted(known, mark, &answer)
}

/// The floor, for those who need to know no more.
pub(super) async fn floor(link: &Link, known: &Known) -> Result<Floor, Trouble> {
    let request = RangeRequest { key: known.keys.floor(), ..RangeRequest::default() };
    let answer: RangeResponse = link.ask(path::RANGE, request).await?;
    Floor::read(&answer).ok_or(Trouble::Nonsense)
}

/// What a reading of the floor's record says; also notes it.
pub(super) fn noted(
    known: &Known,
    mark: Mark,
    answer: &RangeResponse,
) -> Result<(Revision, Floor), StoreError> {
    let now = reached(known, mark, answer)?;
    let unreadable =
        || StoreError::Corrupt { what: "the floor's record is not of our making".into() };
    let floor = Floor::read(answer).ok_or_else(unreadable)?;
    known.note_floor(floor);
    Ok((now, floor))
}

/// Whether the history after `after` is there, for a watch to begin.
pub(super) async fn check_after(
    link: &Link,
    known: &Known,
    after: Revision,
) -> Result<(), StoreError> {
    let mark = known.reached.mark()?;
    let (key, revision) = (known.keys.floor(), first_of(after));
    let request = RangeRequest { key, revision, count_only: true, ..RangeRequest::default() };
    match link.ask::<_, RangeResponse>(path::RANGE, request).await {
        Ok(answer) => reached(known, mark, &answer).map(drop),
        Err(trouble) => Err(pinned(link, known, Some(after), trouble).await),
    }
}

/// The revision to ask etcd for. It counts from 1, where nothing has been written yet, and takes 0
/// for "now".
pub(super) fn first_of(revision: Revision) -> i64 {
    signed(revision).max(1)
}

/// What to say of a call at a revision that failed.
pub(super) async fn pinned(
    link: &Link,
    known: &Known,
    at: Option<Revision>,
    trouble: Trouble,
) -> StoreError {
    let asked = at.unwrap_or(Revision::ZERO);
    match trouble.topic() {
        Topic::Compacted => StoreError::Compacted { floor: floor_above(link, known, asked).await },
        Topic::Future => match extent(link, known).await {
            Ok((now, _)) => match Limits::check_reached(asked, now) {
                Err(refusal) => refusal.into(),
                // It was reached meanwhile.
                Ok(()) => unavailable(trouble),
            },
            Err(error) => error,
        },
        Topic::Leader
        | Topic::Login
        | Topic::Permission
        | Topic::NoAuthentication
        | Topic::TooLarge
        | Topic::Full
        | Topic::Other => unavailable(trouble),
    }
}

/// How far etcd is compacted, which is beyond `asked`. Anybody may have compacted it, and it says
/// so only to a watch that begins too early.
async fn floor_above(link: &Link, known: &Known, asked: Revision) -> Revision {
    let until = Instant::now() + FLOOR_WITHIN;
    let told = async {
        let session = link.session(until).await.ok()?;
        let (key, start_revision) = (known.keys.floor(), first_of(asked));
        let create = WatchCreate { key, start_revision, ..WatchCreate::default() };
        let request = WatchRequest { create: Some(create) };
        let requests = stream::iter([request]).chain(stream::pending());
        let mut answers = session.watch(requests).await.ok()?;
        loop {
            let answer = answers.message().await.ok()??;
            if answer.compact_revision > 0 {
                return Some(revision(answer.compact_revision));
            }
        }
    };
    let told = timeout_at(until, told).await.ok().flatten();
    // Without an answer, what is certain: it lies beyond what was asked for.
    told.unwrap_or(known.floor().up_to).max(crate::commit::following(asked))
}

/// Notes and gives the revision that an answer carries.
pub(super) fn reached(
    known: &Known,
    mark: Mark,
    answer: &RangeResponse,
) -> Result<Revision, StoreError> {
    let header = answer.header.as_ref().ok_or_else(|| unavailable(Trouble::Nonsense))?;
    let now = revision(header.revision);
    known.reached.note(mark, now)?;
    Ok(now)
}

/// An item as callers know it.
pub(super) fn item(known: &Known, kv: KeyValue) -> Item {
    let key = known.keys.name_of(&kv.key);
    Item { key, value: kv.value, revision: revision(kv.mod_revision) }
}

pub(super) fn unavailable(trouble: Trouble) -> StoreError {
    StoreError::Unavailable(trouble.into())
}
