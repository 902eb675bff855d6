//! Numbers that one holder raises and never reuses.

use serde::{Deserialize, Serialize};
use std::fmt;

/// Declares counters. There is no `From<u64>`: a raw number becomes one by name.
macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident => $prefix:literal;)+) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(u64);

        impl $name {
            /// Before the first one; nothing real carries it.
            pub const ZERO: Self = Self(0);

            /// Wraps a raw number, as read from the wire or the store.
            pub const fn new(raw: u64) -> Self {
                Self(raw)
            }

            /// The raw number, for the wire or the store.
            pub const fn get(self) -> u64 {
                self.0
            }

            /// The one after this; `None` at the end of the counter, where the only safe step is
            /// to stop, because going on would use a number twice.
            #[must_use]
            pub const fn next(self) -> Option<Self> {
                match self.0.checked_add(1) {
                    Some(raw) => Some(Self(raw)),
                    None => None,
                }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!($prefix, "{}"), self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }
    )+};
}

counters! {
    /// The store's version: every applied commit raises it. It means nothing without the
    /// [`Epoch`] that it was counted in, since a restored store counts some numbers again.
    Revision => "rev";
    /// One reign of one leader process. Every start of a process takes a new one.
    Term => "term";
    /// One unbroken life of the store. A store that turns out to lag behind what a server or a
    /// worker has seen of it opens the next.
    Epoch => "epoch";
    /// Numbers the runs that a leader sends to one incarnation of a worker. Starts over only with
    /// the term or the incarnation, so the worker can drop whatever is not above the highest it
    /// has decided: a run that the network delivers twice is never started twice.
    RunSequence => "run#";
    /// Counts how often a leader has asked one incarnation of a worker which runs, of those it is
    /// unsure of, are not running. Every run carries the count; the worker never starts a run
    /// that was sent before the last question it has received, so "was not running" stays true.
    /// Starts over as [`RunSequence`] does.
    NotifySequence => "notify#";
    /// Stands in the leader's record and is expected by all its commits. The leader raises it to
    /// settle a commit whose answer was lost: what is not in the store then never will be. Not
    /// to be confused with a [`Fence`](crate::Fence), which is for the use of runs.
    FenceCounter => "counter";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counter_grows_and_is_never_reused() {
        let first = Revision::ZERO.next().unwrap();
        assert_eq!(first, Revision::new(1));
        assert!(first > Revision::ZERO);
        assert_eq!(Revision::new(u64::MAX).next(), None);
    }

    #[test]
    fn a_counter_is_shown_with_what_it_counts() {
        let shown = format!(
            "{} {:?} {} {} {} {}",
            Revision::new(42),
            Term::new(3),
            Epoch::new(1),
            RunSequence::new(9),
            NotifySequence::new(5),
            FenceCounter::new(2),
        );
        assert_eq!(shown, "rev42 term3 epoch1 run#9 notify#5 counter2");
    }

    #[test]
    fn json_holds_the_number() {
        assert_eq!(serde_json::to_string(&Term::new(3)).unwrap(), "3");
        assert_eq!(serde_json::from_str::<Term>("3").unwrap(), Term::new(3));
    }
}
