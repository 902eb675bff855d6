//! What must be remembered of how the set came to be: who joined in which order, and how far those
//! who have left had heard.
//!
//! A worker is in every set from the version of its joining to the one before its leaving, so the
//! history of all sets is one pair of numbers for each worker, never a list of lists.

use super::{Seat, Version, members::Members};

/// From the version that a worker's joining made to the newest one that it has echoed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Stretch {
    pub(super) first: Version,
    pub(super) last: Version,
}

/// How much of those who left is kept even when hardly anybody is inside.
const SPARE: usize = 64;

/// The order of joining, and what remains of those who left.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct History {
    /// Everybody inside, in the order of joining, which is the order of `Inside::first`. Who has
    /// left is taken out by the next pass.
    order: Vec<Seat>,
    /// The stretches of workers that have left, joined where they overlap; in order.
    departed: Vec<Stretch>,
}

impl History {
    pub(super) const EMPTY: Self = Self { order: Vec::new(), departed: Vec::new() };

    pub(super) fn order(&self) -> &[Seat] {
        &self.order
    }

    pub(super) fn departed(&self) -> &[Stretch] {
        &self.departed
    }

    pub(super) fn joined(&mut self, seat: Seat) {
        self.order.push(seat);
    }

    /// Notes how far a worker had heard that leaves. Whom it named is required through it still.
    pub(super) fn left(&mut self, mut stretch: Stretch) {
        // It never heard of a later set than its own first one: nobody is required through it.
        if stretch.first == stretch.last {
            return;
        }
        let begin = self.departed.partition_point(|other| other.last.is_before(stretch.first));
        let end = self.departed.partition_point(|other| !stretch.last.is_before(other.first));
        if let Some(touched) = self.departed.get(begin..end)
            && let (Some(lowest), Some(highest)) = (touched.first(), touched.last())
        {
            stretch.first = stretch.first.earlier(lowest.first);
            stretch.last = stretch.last.later(highest.last);
        }
        self.departed.splice(begin..end, [stretch]);
    }

    /// The oldest set that anybody inside still holds.
    pub(super) fn oldest(&self, members: &Members) -> Option<Version> {
        let inside = self.order.iter().filter_map(|seat| members.inside(*seat));
        let holds = inside.map(|inside| inside.heard.map_or(inside.first, |heard| heard.last));
        holds.reduce(Version::earlier)
    }

    /// Forgets what cannot matter any more: who has left, and of what they had heard everything up
    /// to the oldest set that anybody inside still holds.
    ///
    /// No more is kept of those who left than [`SPARE`] pieces and one for each worker inside.
    /// Beyond that the oldest goes, which can only make somebody wait for longer.
    pub(super) fn prune(&mut self, members: &Members) {
        self.order.retain(|seat| members.inside(*seat).is_some());
        let Some(oldest) = self.oldest(members) else {
            self.departed.clear();
            return;
        };
        let settled = self.departed.partition_point(|stretch| !oldest.is_before(stretch.last));
        let excess = self.departed.len().saturating_sub(self.order.len() + SPARE);
        self.departed.drain(..settled.max(excess));
    }

    pub(super) fn heap_bytes(&self) -> usize {
        self.order.capacity() * size_of::<Seat>() + self.departed.capacity() * size_of::<Stretch>()
    }
}
