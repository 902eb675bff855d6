//! The task that looks after the store: it finds connections that have died unseen, and keeps the
//! history within its bounds.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use sterna_model::Revision;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep};

use super::{
    keys::{Keys, signed},
    known::Known,
    link::Link,
    plan::Floor,
    reader,
    trouble::Topic,
    wire::{
        CompactionRequest, CompactionResponse, Compare, DeleteRangeRequest, KeyValue, PutRequest,
        RangeRequest, RangeResponse, Request, StatusRequest, StatusResponse, TxnRequest,
        TxnResponse, path,
    },
};
use crate::{Limits, StoreError};

/// How often the store is asked how far it is, over the connection of the watches.
const POLL_EVERY: Duration = Duration::from_secs(1);
/// How long that may take before the connection is taken for dead.
const POLL_MAX: Duration = Duration::from_secs(2);
/// Revisions of history that are kept; older ones go.
pub(super) const KEPT_REVISIONS: u64 = 100_000;
/// Bytes by which etcd's database may grow before half of the history goes.
const GROWN_BYTES_MAX: u64 = 256 << 20;
/// Polls between two looks at the size of the database. It also gives etcd the time to forget.
const POLLS_BETWEEN_SIZES: u32 = 15;
/// Records of commits that are looked at in one go.
const RECORDS_EACH: i64 = 1_000;
/// Records that are removed by one transaction; each needs a condition too.
const REMOVED_EACH: usize = 100;
/// How often another process may be quicker to raise the floor.
const RAISES_MAX: usize = 5;

/// How large the history is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Extent {
    revision: Revision,
    floor: Revision,
    /// Bytes of the database that are in use.
    size: u64,
    /// The same, after history was last forgotten.
    size_then: u64,
}

impl Extent {
    /// What is to be forgotten. A tenth more than the bounds is let be, so that forgetting is
    /// worth its while.
    fn due(&self) -> Option<Revision> {
        let kept = self.revision.get().saturating_sub(self.floor.get());
        if kept > KEPT_REVISIONS + KEPT_REVISIONS / 10 {
            Some(Revision::new(self.revision.get() - KEPT_REVISIONS))
        } else if self.size > self.size_then.saturating_add(GROWN_BYTES_MAX) {
            Some(Revision::new(self.revision.get() - kept / 2))
        } else {
            None
        }
    }
}

/// Polls and forgets until its store is closed.
pub(super) async fn run(watches: Link, reads: Link, known: Arc<Known>) {
    let mut ticks = interval(POLL_EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let (mut polls, mut size_then) = (0_u32, None);
    loop {
        ticks.tick().await;
        // A failure is met again by whoever calls the store, and told there.
        let Ok((revision, floor)) = poll(&watches, &known).await else { continue };
        polls += 1;
        let mut size = 0;
        if polls.is_multiple_of(POLLS_BETWEEN_SIZES) {
            let Ok(status) = reads.ask::<_, StatusResponse>(path::STATUS, StatusRequest {}).await
            else {
                continue;
            };
            size = u64::try_from(status.db_size_in_use).unwrap_or(0);
            size_then = Some(size_then.unwrap_or(size).min(size));
        }
        let size_then_or = size_then.unwrap_or(u64::MAX);
        let extent = Extent { revision, floor: floor.up_to, size, size_then: size_then_or };
        if let Some(up_to) = extent.due()
            && compact(&reads, &known, up_to).await.is_ok()
        {
            size_then = None;
        }
        if known.take_cleaning() && clean(&reads, &known).await.is_err() {
            known.ask_for_cleaning();
        }
    }
}

/// Looks how far the store is; a connection over which that cannot be seen is discarded.
async fn poll(link: &Link, known: &Known) -> Result<(Revision, Floor), StoreError> {
    let session = link.session(Instant::now() + POLL_MAX).await.map_err(reader::unavailable)?;
    let request = RangeRequest { key: known.keys.floor(), ..RangeRequest::default() };
    let asked = async {
        let mark = known.reached.mark()?;
        let answer = session.ask_within(POLL_MAX, path::RANGE, request).await;
        reader::noted(known, mark, &answer.map_err(reader::unavailable)?)
    };
    let told = asked.await;
    if let Err(StoreError::WentBack(_)) = told {
        // Also that of a watch which waits for a future that is none of ours: it is to say so.
        session.discard();
    }
    told
}

/// Forgets the history up to and including `up_to`.
pub(super) async fn compact(link: &Link, known: &Known, up_to: Revision) -> Result<(), StoreError> {
    for _ in 0..RAISES_MAX {
        let (now, floor) = reader::extent(link, known).await?;
        Limits::check_reached(up_to, now)?;
        // Our own record first: whoever reads it knows that commits may be forgotten from then on.
        if floor.up_to >= up_to || raise(link, &known.keys, floor, up_to).await? {
            break;
        }
    }
    known.ask_for_cleaning();
    let request = CompactionRequest { revision: signed(up_to) };
    match link.ask::<_, CompactionResponse>(path::COMPACT, request).await {
        Ok(_) => Ok(()),
        // By us earlier, or by somebody else.
        Err(trouble) if trouble.topic() == Topic::Compacted => Ok(()),
        Err(trouble) => Err(reader::unavailable(trouble)),
    }
}

/// Raises the floor, if it is still what it was.
async fn raise(
    link: &Link,
    keys: &Keys,
    floor: Floor,
    up_to: Revision,
) -> Result<bool, StoreError> {
    let value = Bytes::from(up_to.get().to_string());
    let request = TxnRequest {
        compare: vec![Compare::was_put_at(keys.floor(), floor.put_at)],
        success: vec![Request::Put(PutRequest { key: keys.floor(), value }).into()],
        failure: Vec::new(),
    };
    // Sent a second time it changes nothing: the floor is then no longer what it was.
    let answer: TxnResponse = link.ask(path::TXN, request).await.map_err(reader::unavailable)?;
    Ok(answer.succeeded)
}

/// Removes the records of commits at or below the floor, little by little, and works no more than
/// it rests: nobody waits for it, and it must not be in anybody's way.
async fn clean(link: &Link, known: &Known) -> Result<(), StoreError> {
    let (_, floor) = reader::extent(link, known).await?;
    let floor = signed(floor.up_to);
    let mut after: Option<Bytes> = None;
    loop {
        let begun = Instant::now();
        let bounds = known.keys.writes(after.as_deref());
        let request = RangeRequest {
            key: bounds.first,
            range_end: bounds.end,
            limit: RECORDS_EACH,
            keys_only: true,
            ..RangeRequest::default()
        };
        let page: RangeResponse =
            link.ask(path::RANGE, request).await.map_err(reader::unavailable)?;
        // Whatever else lies there is not ours to remove.
        let is_old = |kv: &&KeyValue| kv.mod_revision <= floor && known.keys.is_write(&kv.key);
        let old: Vec<_> = page.kvs.iter().filter(is_old).collect();
        for records in old.chunks(REMOVED_EACH) {
            let removed = link.ask::<_, TxnResponse>(path::TXN, removal(records)).await;
            drop(removed.map_err(reader::unavailable)?);
        }
        let Some(last) = page.kvs.last().filter(|_| page.more) else { return Ok(()) };
        after = Some(last.key.clone());
        sleep(begun.elapsed()).await;
    }
}

/// Removes these records if they are still those that were read.
fn removal(records: &[&KeyValue]) -> TxnRequest {
    let is_same = |kv: &&KeyValue| Compare::was_put_at(kv.key.clone(), kv.mod_revision);
    let remove = |kv: &&KeyValue| {
        let (key, range_end) = (kv.key.clone(), Bytes::new());
        Request::DeleteRange(DeleteRangeRequest { key, range_end }).into()
    };
    TxnRequest {
        compare: records.iter().map(is_same).collect(),
        success: records.iter().map(remove).collect(),
        failure: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn due(revision: u64, floor: u64, size: u64) -> Option<u64> {
        let (revision, floor) = (Revision::new(revision), Revision::new(floor));
        Extent { revision, floor, size, size_then: 1_000 }.due().map(Revision::get)
    }

    #[test]
    fn what_is_within_the_bounds_stays() {
        assert_eq!(due(110_000, 0, 0), None);
        assert_eq!(due(1_000_000, 900_000, 1_000 + GROWN_BYTES_MAX), None);
    }

    #[test]
    fn too_many_revisions_go() {
        assert_eq!(due(310_001, 200_000, 0), Some(210_001));
    }

    #[test]
    fn of_a_history_that_grew_too_large_half_goes() {
        assert_eq!(due(200_100, 200_000, 1_001 + GROWN_BYTES_MAX), Some(200_050));
    }
}
