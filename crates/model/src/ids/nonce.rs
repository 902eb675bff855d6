//! The random mark of a reign.

use std::fmt;

/// Drawn by a leader together with its term. Two leaders that hold the same term, as can happen
/// only after the store was set back, differ in it. It has no order.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Nonce(u64);

impl Nonce {
    /// Wraps 64 random bits, as drawn, or as read from the wire or the store.
    pub const fn new(bits: u64) -> Self {
        Self(bits)
    }

    /// The bits, for the wire or the store.
    pub const fn get(self) -> u64 {
        self.0
    }
}

impl fmt::Display for Nonce {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "nonce-{:016x}", self.0)
    }
}

impl fmt::Debug for Nonce {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
