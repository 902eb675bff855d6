//! Descriptors that somebody waits for among other things.

use std::{io, os::fd::OwnedFd};

use tokio::io::{Interest, unix::AsyncFd};

/// Waits for something to be read from a descriptor; to be called by whoever the runtime runs.
///
/// # Errors
/// It cannot be waited for.
pub(crate) fn readable(fd: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: an owned descriptor stays the same and open until it is dropped.
    unsafe { AsyncFd::register_with_interest(fd, Interest::READABLE) }.map_err(io::Error::from)
}
