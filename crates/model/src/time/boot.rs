//! The monotonic clock of one machine.

use super::Span;
use std::fmt;

/// A moment on the monotonic clock of one machine (`CLOCK_BOOTTIME`): milliseconds since that
/// machine booted, suspend included.
///
/// Comparing moments of two machines, or of two boots of one machine, is meaningless. That is why
/// a moment travels only to be echoed to the machine that took it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BootTime(u64);

impl BootTime {
    /// Wraps a count of milliseconds since the boot.
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis)
    }

    /// The count of milliseconds since the boot.
    pub const fn as_millis(self) -> u64 {
        self.0
    }

    /// The moment `span` later, or the last there is.
    #[must_use]
    pub const fn plus(self, span: Span) -> Self {
        Self(self.0.saturating_add(span.as_millis()))
    }

    /// The time that has passed since `earlier`; none when that lies ahead.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Span {
        Span::from_millis(self.0.saturating_sub(earlier.0))
    }
}

impl fmt::Display for BootTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "boot+{}", Span::from_millis(self.0))
    }
}

impl fmt::Debug for BootTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_moment_is_shown_as_the_time_since_the_boot() {
        assert_eq!(BootTime::from_millis(61_500).to_string(), "boot+1m1s500ms");
    }

    proptest! {
        #[test]
        fn a_deadline_is_never_in_the_past(now: u64, span: u64) {
            let now = BootTime::from_millis(now);
            prop_assert!(now.plus(Span::from_millis(span)) >= now);
        }

        #[test]
        fn the_time_since_a_later_moment_is_none(now: u64, span: u64) {
            let now = BootTime::from_millis(now);
            prop_assert_eq!(now.since(now.plus(Span::from_millis(span))), Span::ZERO);
        }
    }
}
