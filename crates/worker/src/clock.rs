//! The worker's clocks, read here and nowhere else.

use std::time::SystemTime;

use rustix::time::{ClockId, clock_gettime};
use sterna_model::{BootTime, WallTime};

/// Now, for deadlines.
pub(crate) fn boot_time() -> BootTime {
    let now = clock_gettime(ClockId::Boottime);
    BootTime::from_millis(
        now.tv_sec.unsigned_abs() * 1_000 + now.tv_nsec.unsigned_abs() / 1_000_000,
    )
}

/// Now, for people. A clock that is out of all bounds counts as the epoch.
pub(crate) fn wall_time() -> WallTime {
    #[expect(clippy::disallowed_methods, reason = "this is the driver's clock")]
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let millis = i64::try_from(since.as_millis()).ok();
    millis.and_then(|millis| WallTime::from_millis(millis).ok()).unwrap_or(WallTime::EPOCH)
}

/// Names this boot of the machine; a machine that does not tell counts as one long boot.
pub(crate) fn boot_id() -> String {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    text.trim().to_owned()
}
