//! The clock that measures how long something takes, read here and nowhere else.

use std::time::Instant;

/// Now, for measuring.
pub(crate) fn instant() -> Instant {
    #[expect(clippy::disallowed_methods, reason = "this is the driver's clock")]
    Instant::now()
}
