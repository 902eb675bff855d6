//! What names a set of workers: its hash, its version, and the leader that counted it.

use std::cmp::Ordering;

use sterna_model::{Incarnation, Nonce, Term};

/// The hash of a set of workers: the same for the same workers, in whatever order they came.
///
/// Adding and removing cost the same for any size of set. Each worker is first mixed into 128 bits
/// that look random, and these are added up, with a count beside them. Adding up the raw ids would
/// not do: 1 and 4 make what 2 and 3 make. And a sum, unlike an exclusive or, notices a worker that
/// was added twice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct SetHash {
    lanes: [u64; 2],
    count: u32,
}

impl SetHash {
    /// The hash of the set without workers.
    pub const EMPTY: Self = Self { lanes: [0; 2], count: 0 };

    /// Takes its parts, as read from the wire.
    pub const fn from_parts(lanes: [u64; 2], count: u32) -> Self {
        Self { lanes, count }
    }

    /// The two sums, for the wire.
    pub const fn lanes(&self) -> [u64; 2] {
        self.lanes
    }

    /// How many workers are in the set.
    pub const fn count(&self) -> u32 {
        self.count
    }

    /// Adds a worker.
    pub fn add(&mut self, worker: &Incarnation) {
        self.add_token(Token::of(worker));
    }

    /// Takes a worker out that was added.
    pub fn remove(&mut self, worker: &Incarnation) {
        self.remove_token(Token::of(worker));
    }

    pub(super) const fn add_token(&mut self, Token(token): Token) {
        self.lanes[0] = self.lanes[0].wrapping_add(token[0]);
        self.lanes[1] = self.lanes[1].wrapping_add(token[1]);
        self.count = self.count.wrapping_add(1);
    }

    pub(super) const fn remove_token(&mut self, Token(token): Token) {
        self.lanes[0] = self.lanes[0].wrapping_sub(token[0]);
        self.lanes[1] = self.lanes[1].wrapping_sub(token[1]);
        self.count = self.count.wrapping_sub(1);
    }
}

/// One worker's share of a [`SetHash`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Token([u64; 2]);

impl Token {
    pub(super) fn of(worker: &Incarnation) -> Self {
        let (directory, machine) = (worker.lock.directory, worker.lock.machine);
        let [d0, d1] = halves(directory.as_bytes());
        let [m0, m1] = halves(machine.as_bytes());
        let words = [d0, d1, m0, m1, worker.life];
        // The numbers are on the wire in effect: leaders of two builds must agree on them.
        Self([
            lane(0x243f_6a88_85a3_08d3, 0x9e37_79b9_7f4a_7c15, words),
            lane(0x1319_8a2e_0370_7344, 0xd1b5_4a32_d192_ed03, words),
        ])
    }
}

fn halves(bytes: &[u8; 16]) -> [u64; 2] {
    let whole = u128::from_be_bytes(*bytes);
    #[expect(clippy::cast_possible_truncation, reason = "the two halves are what is wanted")]
    [(whole >> 64) as u64, whole as u64]
}

/// Mixes the words, one after the other, so that every bit of them moves about half of all bits.
fn lane(seed: u64, odd: u64, words: [u64; 5]) -> u64 {
    words.into_iter().fold(seed, |state, word| {
        let mut mixed = (state ^ word).wrapping_mul(odd);
        mixed ^= mixed >> 32;
        mixed = mixed.wrapping_mul(0xe703_7ed1_a0b4_28db);
        mixed ^= mixed >> 29;
        mixed = mixed.wrapping_mul(odd);
        mixed ^ (mixed >> 32)
    })
}

/// Counts the changes of one leader's worker set: one up for each worker that joins or leaves.
///
/// It wraps round. Of two versions that are less than half the circle apart, one is before the
/// other; no two that one leader holds at a time are further apart. Hence no `Ord`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Version(u64);

impl Version {
    /// Before the first change: the set without workers.
    pub const ZERO: Self = Self(0);

    /// Wraps a raw number, as read from the wire.
    pub const fn new(raw: u64) -> Self {
        Self(raw)
    }

    /// The raw number, for the wire.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The one after this.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0.wrapping_add(1))
    }

    /// How this stands to `other`; `None` when they are exactly half the circle apart, which no
    /// leader ever counts.
    pub const fn compare(self, other: Self) -> Option<Ordering> {
        match self.0.wrapping_sub(other.0).cast_signed() {
            i64::MIN => None,
            0 => Some(Ordering::Equal),
            apart if apart < 0 => Some(Ordering::Less),
            _ => Some(Ordering::Greater),
        }
    }

    /// Whether this comes before `other`.
    pub const fn is_before(self, other: Self) -> bool {
        matches!(self.compare(other), Some(Ordering::Less))
    }

    /// The later one of the two.
    #[must_use]
    pub const fn later(self, other: Self) -> Self {
        if self.is_before(other) { other } else { self }
    }

    /// The earlier one of the two.
    #[must_use]
    pub const fn earlier(self, other: Self) -> Self {
        if other.is_before(self) { other } else { self }
    }
}

/// Names one set of workers, as one leader saw it.
///
/// Two ids are the same set only when all parts are equal. Versions compare only within a reign.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SetId {
    /// The term of the leader that counted it.
    pub term: Term,
    /// The nonce drawn with the term.
    pub nonce: Nonce,
    /// How many changes that leader had counted.
    pub version: Version,
    /// Who was in it.
    pub hash: SetHash,
}

impl SetId {
    /// Whether the same leader, in the same reign, counted both.
    pub fn is_same_reign(&self, other: &Self) -> bool {
        self.term == other.term && self.nonce == other.nonce
    }
}
