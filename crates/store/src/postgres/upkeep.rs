//! The task that looks after the store: it polls, for hints that were lost, and keeps the history
//! within its bounds.

use std::time::Duration;

use sterna_model::Revision;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep};
use tokio_postgres::Statement;

use super::{
    columns::{number, revision, signed, unreadable},
    link::Link,
    session::{Hints, Statements, hint},
};
use crate::{Limits, StoreError};

/// How often the store is asked how far it is. A lost notification delays a watch by no more.
const POLL_EVERY: Duration = Duration::from_secs(1);
/// Revisions of history that are kept; older ones go.
pub(super) const KEPT_REVISIONS: u64 = 100_000;
/// Bytes of keys and values of history that are kept; older ones go.
pub(super) const KEPT_BYTES: u64 = 256 << 20;

/// How far the store is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Extent {
    revision: Revision,
    floor: Revision,
    /// Bytes of the history after the floor.
    bytes: u64,
}

/// What is to be forgotten.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Due {
    Nothing,
    /// Everything up to this revision.
    UpTo(Revision),
    /// As much as it takes for so many bytes to stay.
    AllButBytes(u64),
}

impl Extent {
    /// A tenth more than the bounds is let be, so that forgetting is worth its while.
    fn due(&self) -> Due {
        let kept = self.revision.get().saturating_sub(self.floor.get());
        if self.bytes > KEPT_BYTES + KEPT_BYTES / 10 {
            Due::AllButBytes(KEPT_BYTES)
        } else if kept > KEPT_REVISIONS + KEPT_REVISIONS / 10 {
            Due::UpTo(Revision::new(self.revision.get() - KEPT_REVISIONS))
        } else {
            Due::Nothing
        }
    }
}

/// Polls and forgets until its store is closed.
///
/// It polls over `listen`, so that a poll also shows that this connection is alive, and forgets
/// over `read`.
pub(super) async fn run(listen: Link, read: Link, hints: Hints) {
    let mut ticks = interval(POLL_EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut cleaned = Revision::ZERO;
    loop {
        ticks.tick().await;
        let extent = match poll(&listen).await {
            Ok(extent) => extent,
            Err(StoreError::WentBack(_)) => {
                // Wakes all watches, wherever they are, and they say so.
                hints.send_replace(Revision::new(u64::MAX));
                continue;
            }
            // A failure is met again by whoever calls the store, and told there.
            Err(_) => continue,
        };
        hint(&hints, extent.revision);
        if let Ok(floor) = tend(&read, extent).await
            && floor > cleaned
            && forget(&read, floor).await.is_ok()
        {
            cleaned = floor;
        }
    }
}

/// Raises the floor if that is due, and gives it.
async fn tend(link: &Link, extent: Extent) -> Result<Revision, StoreError> {
    let up_to = match extent.due() {
        Due::Nothing => return Ok(extent.floor),
        Due::UpTo(revision) => revision,
        Due::AllButBytes(bytes) => {
            let bytes = i64::try_from(bytes).unwrap_or(i64::MAX);
            let rows = link.ask(|it| &it.oldest, &[&bytes]).await?;
            let row = rows.first().map(|row| revision(row, 1));
            row.transpose().map_err(unreadable)?.unwrap_or(extent.floor)
        }
    };
    link.tell(|it| &it.raise, &[&signed(up_to)]).await?;
    Ok(up_to)
}

/// Forgets the history up to and including `up_to`.
pub(super) async fn compact(link: &Link, up_to: Revision) -> Result<(), StoreError> {
    if link.tell(|it| &it.raise, &[&signed(up_to)]).await? == 0 {
        // It was there already, or it cannot be reached.
        Limits::check_reached(up_to, poll(link).await?.revision)?;
    }
    // What lies below the floor is as good as gone; the upkeep removes it.
    Ok(())
}

/// Removes what lies below the floor, little by little, and works no more than it rests: nobody
/// waits for it, and it must not be in anybody's way.
async fn forget(link: &Link, floor: Revision) -> Result<(), StoreError> {
    let floor = signed(floor);
    let parts: [fn(&Statements) -> &Statement; 2] =
        [|it| &it.forget_changes, |it| &it.forget_commits];
    for part in parts {
        loop {
            let begun = Instant::now();
            if link.tell(part, &[&floor]).await? == 0 {
                break;
            }
            sleep(begun.elapsed()).await;
        }
    }
    Ok(())
}

async fn poll(link: &Link) -> Result<Extent, StoreError> {
    let rows = link.ask(|it| &it.poll, &[]).await?;
    let missing = || StoreError::Corrupt { what: "the counter's row is missing".into() };
    let row = rows.first().ok_or_else(missing)?;
    let read = || {
        let (revision, floor) = (revision(row, 0)?, revision(row, 1)?);
        Ok(Extent { revision, floor, bytes: number(row, 2)? })
    };
    read().map_err(unreadable)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn extent(revision: u64, floor: u64, bytes: u64) -> Extent {
        Extent { revision: Revision::new(revision), floor: Revision::new(floor), bytes }
    }

    #[test]
    fn what_is_within_the_bounds_stays() {
        assert_eq!(extent(110_000, 0, KEPT_BYTES).due(), Due::Nothing);
        assert_eq!(extent(1_000_000, 900_000, 0).due(), Due::Nothing);
    }

    #[test]
    fn too_many_revisions_go() {
        assert_eq!(extent(310_001, 200_000, 0).due(), Due::UpTo(Revision::new(210_001)));
    }

    #[test]
    fn too_many_bytes_go_first() {
        let due = extent(310_001, 200_000, 2 * KEPT_BYTES).due();
        assert_eq!(due, Due::AllButBytes(KEPT_BYTES));
    }
}
