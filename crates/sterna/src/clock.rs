//! The binary's clocks, read here and nowhere else.

use std::time::{Instant, SystemTime};

use sterna_model::WallTime;

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
