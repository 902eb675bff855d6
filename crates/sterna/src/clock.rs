//! The binary's clocks, read here and nowhere else.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::{Instant, SystemTime},
};

use sterna_model::{WallTime, WriteId};

/// Now, for measuring how long something takes.
pub(crate) fn instant() -> Instant {
    #[expect(clippy::disallowed_methods, reason = "this is the driver's clock")]
    Instant::now()
}

/// Now, for people and for ids. A clock that is out of all bounds counts as the epoch.
pub(crate) fn wall_time() -> WallTime {
    #[expect(clippy::disallowed_methods, reason = "this is the driver's clock")]
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let millis = i64::try_from(since.as_millis()).ok();
    millis.and_then(|millis| WallTime::from_millis(millis).ok()).unwrap_or(WallTime::EPOCH)
}

/// An id for a commit: unique by the process, the moment and a count; this needs no secret.
pub(crate) fn write_id() -> WriteId {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let count = NEXT.fetch_add(1, Ordering::Relaxed);
    let mut unique = [0; 10];
    unique[..4].copy_from_slice(&std::process::id().to_be_bytes());
    unique[4..].copy_from_slice(&count.to_be_bytes()[2..]);
    WriteId::from_parts(wall_time(), unique)
}
