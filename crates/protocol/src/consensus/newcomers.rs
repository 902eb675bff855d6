//! The door for newcomers: open, until too many have come in without an agreement.
//!
//! Every change of the set sends everybody back to learn the new one. A crowd of workers that join,
//! sicken and die for ever would thus keep the others from ever agreeing. So after a number of
//! newcomers without an agreement the door is shut; who comes then waits outside and counts for
//! nothing. Those inside can only become fewer, therefore they agree in the end: each of them
//! echoes, or is lost. Then all who wait come in together, and the count begins again.
//!
//! Leaving is never put off: the set would wait for somebody who will not come.

use super::Seat;

/// How many newcomers come in without an agreement before the door is shut.
///
/// A crash-looping crowd is in the way all the time once it is as large as the time to lose a
/// worker (60 s) over the time to agree (two heartbeats, 2 s): about 30. Half of that leaves room
/// for a fleet that grows in the ordinary way.
pub const NEWCOMERS_MAX: u32 = 16;

/// Counts who comes in, and holds who waits.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Newcomers {
    max: u32,
    /// How many have come in since everybody inside was last agreed upon.
    count: u32,
    /// In the order of arrival. Who has left is taken out by the next pass.
    waiting: Vec<Seat>,
}

impl Newcomers {
    pub(super) const fn new(max: u32) -> Self {
        Self { max, count: 0, waiting: Vec::new() }
    }

    /// Whether this newcomer comes in at once; otherwise it waits.
    pub(super) fn arrive(&mut self, seat: Seat) -> bool {
        let is_open = self.count < self.max;
        if is_open {
            self.count += 1;
        } else {
            self.waiting.push(seat);
        }
        is_open
    }

    /// Everybody inside is agreed upon: counts anew, and answers with those who now come in.
    /// They count, so that a large crowd shuts the door behind itself.
    pub(super) fn agreed(&mut self) -> Vec<Seat> {
        self.count = u32::try_from(self.waiting.len()).unwrap_or(u32::MAX);
        std::mem::take(&mut self.waiting)
    }

    /// Forgets those who left while they waited.
    pub(super) fn prune(&mut self, is_here: impl Fn(Seat) -> bool) {
        self.waiting.retain(|seat| is_here(*seat));
    }

    pub(super) const fn waiting(&self) -> usize {
        self.waiting.len()
    }

    pub(super) fn heap_bytes(&self) -> usize {
        self.waiting.capacity() * size_of::<Seat>()
    }
}
