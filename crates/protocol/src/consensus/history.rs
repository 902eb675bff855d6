//! What must be remembered of how the set came to be: who joined in which order, and how far those
//! who have left had heard.
//!
//! A worker is in every set from the version of its joining to the one before its leaving, so the
//! history of all sets is one pair of numbers for each worker, never a list of lists.

use super::{Seat, Version, members::Members};

/// From the version that a worker's joining made to the newest one that it has echoed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Span {
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
    /// The spans of workers that have left, joined where they overlap; in order.
    departed: Vec<Span>,
}

impl History {
    pub(super) const EMPTY: Self = Self { order: Vec::new(), departed: Vec::new() };

    pub(super) fn order(&self) -> &[Seat] {
        &self.order
    }

    pub(super) fn departed(&self) -> &[Span] {
        &self.departed
    }

    pub(super) fn joined(&mut self, seat: Seat) {
        self.order.push(seat);
    }

    /// Notes how far a worker had heard that leaves. Whom it named is required through it still.
    pub(super) fn left(&mut self, mut span: Span) {
        // It never heard of a later set than its own first one: nobody is required through it.
        if span.first == span.last {
            return;
        }
        let begin = self.departed.partition_point(|other| other.last.is_before(span.first));
        let end = self.departed.partition_point(|other| !span.last.is_before(other.first));
        if let Some(touched) = self.departed.get(begin..end)
            && let (Some(lowest), Some(highest)) = (touched.first(), touched.last())
        {
            span.first = span.first.earlier(lowest.first);
            span.last = span.last.later(highest.last);
        }
        self.departed.splice(begin..end, [span]);
    }

    /// Forgets what cannot matter any more: who has left, and of what they had heard everything up
    /// to the oldest set that anybody inside still holds.
    ///
    /// No more is kept of those who left than [`SPARE`] pieces and one for each worker inside.
    /// Beyond that the oldest goes, which can only make somebody wait for longer.
    pub(super) fn prune(&mut self, members: &Members) {
        let mut oldest: Option<Version> = None;
        self.order.retain(|seat| {
            let Some(inside) = members.inside(*seat) else { return false };
            let holds = inside.heard.map_or(inside.first, |heard| heard.last);
            oldest = Some(oldest.map_or(holds, |oldest| oldest.earlier(holds)));
            true
        });
        let Some(oldest) = oldest else {
            self.departed.clear();
            return;
        };
        let settled = self.departed.partition_point(|span| !oldest.is_before(span.last));
        let excess = self.departed.len().saturating_sub(self.order.len() + SPARE);
        self.departed.drain(..settled.max(excess));
    }

    pub(super) fn heap_bytes(&self) -> usize {
        self.order.capacity() * size_of::<Seat>() + self.departed.capacity() * size_of::<Span>()
    }
}
