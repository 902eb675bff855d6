//! Who has a seat: a dense table, so that a heartbeat is one look and a pass one walk.

use super::{SetId, Version, set_id::Token};

/// Names a worker to the consensus, from [`join`](super::Consensus::join) to
/// [`leave`](super::Consensus::leave).
///
/// The registry keeps it beside the incarnation. It is an index with the number of the arrival
/// beside it: the index makes every question one look into a table, the number makes a seat that
/// was given up mean nobody, although its index is used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Seat {
    pub(super) index: usize,
    pub(super) arrival: u64,
}

/// What the consensus knows of one worker.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Member {
    arrival: u64,
    pub(super) token: Token,
    /// What it came with: the id from an earlier leader, if any.
    pub(super) initial: Option<SetId>,
    pub(super) place: Place,
}

/// Where a worker stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Place {
    /// Nobody sits here.
    Vacant,
    /// Waits outside, and counts for nothing.
    Queued,
    /// In the set.
    Inside(Inside),
}

/// A worker in the set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Inside {
    /// The version that its joining made: the first set with it inside.
    pub(super) first: Version,
    /// What it has echoed since; `None` until then.
    pub(super) heard: Option<Heard>,
    /// Whether a judgement has found that it may become healthy.
    pub(super) is_granted: bool,
}

/// What is known from a worker's echoes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Heard {
    /// The newest version that it has echoed. It requires every worker of that set.
    pub(super) last: Version,
    /// The newest version whose workers it is known to require, directly or through others.
    pub(super) indirect: Version,
}

/// All seats.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Members {
    rows: Vec<Member>,
    vacant: Vec<usize>,
    arrivals: u64,
}

impl Members {
    pub(super) const EMPTY: Self = Self { rows: Vec::new(), vacant: Vec::new(), arrivals: 0 };

    /// Gives a seat outside of the set.
    pub(super) fn seat(&mut self, token: Token, initial: Option<SetId>) -> Seat {
        let arrival = self.arrivals;
        self.arrivals += 1;
        let member = Member { arrival, token, initial, place: Place::Queued };
        let index = match self.vacant.pop() {
            Some(index) => {
                self.rows[index] = member;
                index
            }
            None => {
                self.rows.push(member);
                self.rows.len() - 1
            }
        };
        Seat { index, arrival }
    }

    pub(super) fn vacate(&mut self, seat: Seat) {
        if let Some(member) = self.get_mut(seat) {
            member.place = Place::Vacant;
            self.vacant.push(seat.index);
        }
    }

    /// The worker with this seat; `None` when it has left.
    pub(super) fn get(&self, seat: Seat) -> Option<&Member> {
        let member = self.rows.get(seat.index)?;
        (member.arrival == seat.arrival && member.place != Place::Vacant).then_some(member)
    }

    pub(super) fn get_mut(&mut self, seat: Seat) -> Option<&mut Member> {
        let member = self.rows.get_mut(seat.index)?;
        (member.arrival == seat.arrival && member.place != Place::Vacant).then_some(member)
    }

    pub(super) fn inside(&self, seat: Seat) -> Option<&Inside> {
        match &self.get(seat)?.place {
            Place::Inside(inside) => Some(inside),
            Place::Vacant | Place::Queued => None,
        }
    }

    pub(super) fn inside_mut(&mut self, seat: Seat) -> Option<&mut Inside> {
        match &mut self.get_mut(seat)?.place {
            Place::Inside(inside) => Some(inside),
            Place::Vacant | Place::Queued => None,
        }
    }

    pub(super) fn heap_bytes(&self) -> usize {
        self.rows.capacity() * size_of::<Member>() + self.vacant.capacity() * size_of::<usize>()
    }
}
