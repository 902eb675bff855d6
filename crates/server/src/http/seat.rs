//! A place for a stream, for as long as somebody reads it.

use std::sync::{Arc, atomic::Ordering};

use sterna_api::rest::{Code, Refused};

use crate::shared::Shared;

/// A stream that is open; it gives its place back when it is dropped.
pub(super) struct Seat(Arc<Shared>);

impl Seat {
    /// Takes a place.
    ///
    /// # Errors
    /// None is free.
    pub(super) fn take(shared: &Arc<Shared>) -> Result<Self, Refused> {
        let max = shared.bounds.streams;
        let before = shared.counters.open_streams.fetch_add(1, Ordering::Relaxed);
        // Dropped, it gives back what was just taken.
        let seat = Self(Arc::clone(shared));
        if before < max {
            return Ok(seat);
        }
        let message = format!("{max} streams of events, logs and endpoints are open already");
        let remedy = "close one, or retry later; `sterna server --streams-max` sets the limit";
        Err(Refused { remedy: remedy.into(), ..Refused::new(Code::TooMuch, message) })
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.0.counters.open_streams.fetch_sub(1, Ordering::Relaxed);
    }
}
