//! How many bytes are on their way at a time, in one direction.
//!
//! Invariant: what was taken is given back when its weight is dropped, and not before.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

/// Bytes that are on their way, of which there may be so many.
#[derive(Debug)]
pub(crate) struct Load {
    bytes: AtomicU64,
    pub(crate) max: u64,
}

impl Load {
    pub(crate) fn new(max: u64) -> Arc<Self> {
        Arc::new(Self { bytes: AtomicU64::new(0), max })
    }

    /// How many there are.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Whether there is no room for one more.
    pub(crate) fn is_full(&self) -> bool {
        self.bytes() >= self.max
    }
}

/// Some of those bytes; given back when it is dropped.
#[derive(Debug)]
pub(crate) struct Weight {
    of: Arc<Load>,
    bytes: u64,
}

impl Weight {
    /// Nothing yet.
    pub(crate) fn none(load: &Arc<Load>) -> Self {
        Self { of: Arc::clone(load), bytes: 0 }
    }

    /// So many more, if there is room; gives whether there was.
    pub(crate) fn add(&mut self, bytes: u64) -> bool {
        self.add_anyway(bytes);
        let fits = self.of.bytes() <= self.of.max;
        if !fits {
            self.bytes -= bytes;
            self.of.bytes.fetch_sub(bytes, Ordering::Relaxed);
        }
        fits
    }

    /// So many more, whether there is room or not: for what was done must be said.
    pub(crate) fn add_anyway(&mut self, bytes: u64) {
        self.bytes += bytes;
        self.of.bytes.fetch_add(bytes, Ordering::Relaxed);
    }
}

impl Drop for Weight {
    fn drop(&mut self) {
        self.of.bytes.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_takes_nothing_and_what_is_dropped_makes_room() {
        let load = Load::new(10);
        let (mut one, mut other) = (Weight::none(&load), Weight::none(&load));
        assert!(one.add(4) && one.add(3) && !other.add(4) && other.add(3));
        assert!(load.is_full() && !one.add(1));
        other.add_anyway(5);
        assert_eq!(load.bytes(), 15);
        drop(one);
        assert_eq!(load.bytes(), 8);
        drop(other);
        assert_eq!(load.bytes(), 0);
    }
}
