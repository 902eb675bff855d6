//! This machine's clocks and randomness, for shells that drive cores. In this crate they are read here
//! and nowhere else.

use rustix::time::{ClockId, clock_gettime};
use sterna_model::{BootTime, Nonce, WallTime, WriteId};

/// Now, on the clock that runs through suspend and that nobody sets.
pub fn boot_time() -> BootTime {
    let now = clock_gettime(ClockId::Boottime);
    let millis = now.tv_sec.saturating_mul(1_000).saturating_add(now.tv_nsec / 1_000_000);
    BootTime::from_millis(millis.unsigned_abs())
}

/// Now, for records and people. A clock that is out of all bounds counts as the epoch.
pub fn wall_time() -> WallTime {
    let now = clock_gettime(ClockId::Realtime);
    let millis = now.tv_sec.saturating_mul(1_000).saturating_add(now.tv_nsec / 1_000_000);
    WallTime::from_millis(millis).unwrap_or(WallTime::EPOCH)
}

/// A number that nobody else has.
pub fn nonce() -> Nonce {
    Nonce::new(u64::from_le_bytes(random()))
}

/// An id that no commit had before.
pub fn write_id() -> WriteId {
    WriteId::from_parts(wall_time(), random())
}

/// Bytes that nobody can guess.
///
/// # Panics
/// The system gives none.
pub fn random<const N: usize>() -> [u8; N] {
    use rustix::rand::{GetRandomFlags, getrandom};
    let mut bytes = [0; N];
    let mut filled = 0;
    while filled < N {
        match getrandom(&mut bytes[filled..], GetRandomFlags::empty()) {
            Ok(count) => filled += count,
            Err(rustix::io::Errno::INTR) => {}
            // Linux has had it for longer than we support; a guess here would be two leaders.
            Err(error) => panic!("this system gives no randomness: {error}"),
        }
    }
    bytes
}
