//! What must stand in the store, and what waits for that.
//!
//! ```text
//!   a decision ──▶ writes, in the open parcel ──▶ committed, one parcel after the other
//!                  what follows from it ───────────────▶ released then, in order
//! ```
//!
//! The leader alone writes what is decided here, and its commits are fenced: a parcel applies, or this
//! reign is over. So decisions go on at once, by what the store is going to say; but nothing is sent,
//! and nobody is told, before everything stands there that was decided until then (safety rules 6
//! and 18).
//!
//! Invariant: parcels are committed in the order in which they were decided, one at a time, and none
//! has more writes, nor more bytes, than fit into one commit. So a leader may end between any two writes, and whoever
//! follows must be able to go on from there: a few that make sense only together are kept so
//! ([`Outbox::keep_together`]); of a change to many records what its spec says is written last, so that
//! it is asked for again as long as it is not done.

use std::{
    collections::{BTreeMap, VecDeque},
    fmt,
};

/// Names a parcel; later ones are greater.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ParcelId(u64);

/// Writes in one parcel at most: commits stay below a hundred operations, fences included.
const WRITES_MAX: usize = 80;

/// Bytes of these in one parcel at most, unless one write alone has more: a commit takes more than twice as
/// many, and what happened is told in the same one.
const BYTES_MAX: usize = 500_000;

/// What a write may have at most that is kept together with others.
const SMALL: usize = 4_096;

/// One write of a commit: a key, and what is to stand under it.
pub(super) trait Write: Clone + fmt::Debug {
    /// Names what is written. Of two writes under one key the later counts.
    type Key: Ord + Clone + fmt::Debug;

    /// Under which key it stands.
    fn key(&self) -> Self::Key;

    /// How many bytes it has in the store, at least about; none if nothing is to stand there.
    fn bytes(&self) -> usize;
}

/// Everything that is decided and not committed.
#[derive(Clone, Debug)]
pub(super) struct Outbox<W: Write, A> {
    /// The last is open.
    parcels: VecDeque<Parcel<W, A>>,
    /// How many parcels are committed.
    done: u64,
    /// Whether the first is on its way.
    is_sent: bool,
    /// How many writes there are.
    writes: usize,
    /// What may be said now.
    ready: Vec<A>,
}

#[derive(Clone, Debug)]
struct Parcel<W: Write, A> {
    writes: BTreeMap<W::Key, W>,
    /// How much they weigh.
    bytes: usize,
    after: Vec<A>,
}

impl<W: Write, A> Default for Parcel<W, A> {
    fn default() -> Self {
        Self { writes: BTreeMap::new(), bytes: 0, after: Vec::new() }
    }
}

impl<W: Write, A> Default for Outbox<W, A> {
    fn default() -> Self {
        let (parcels, ready) = (VecDeque::new(), Vec::new());
        Self { parcels, done: 0, is_sent: false, writes: 0, ready }
    }
}

impl<W: Write, A> Outbox<W, A> {
    /// Says what is to stand there, or that nothing is.
    pub(super) fn write(&mut self, write: W) {
        let bytes = write.bytes();
        let first_is_sent = self.is_sent && self.parcels.len() == 1;
        let is_full = self.parcels.back().is_none_or(|open| {
            let is_heavy = open.bytes + bytes > BYTES_MAX && !open.writes.is_empty();
            open.writes.len() >= WRITES_MAX || is_heavy
        });
        if first_is_sent || is_full {
            self.parcels.push_back(Parcel::default());
        }
        if let Some(open) = self.parcels.back_mut() {
            open.bytes += bytes;
            let before = open.writes.insert(write.key(), write);
            self.writes += usize::from(before.is_none());
            open.bytes -= before.as_ref().map_or(0, Write::bytes);
        }
    }

    /// The next so many writes, none of which is large, go into one commit.
    pub(super) fn keep_together(&mut self, count: usize) {
        let has_no_room = |open: &Parcel<W, A>| {
            open.writes.len() + count > WRITES_MAX || open.bytes + SMALL * count > BYTES_MAX
        };
        if self.parcels.back().is_some_and(has_no_room) {
            self.parcels.push_back(Parcel::default());
        }
    }

    /// What is written from now on goes into a later commit than what was written so far: of two words on
    /// one key both are told. Something must be written after it.
    pub(super) fn part(&mut self) {
        self.parcels.push_back(Parcel::default());
    }

    /// Says something once everything stands that was decided so far; at once, if all does.
    pub(super) fn say(&mut self, what: A) {
        match self.parcels.back_mut() {
            Some(last) => last.after.push(what),
            None => self.ready.push(what),
        }
    }

    /// Says something now: it waited for its parcel, or a mistake is planted that does not wait.
    pub(super) fn say_at_once(&mut self, what: A) {
        self.ready.push(what);
    }

    /// Gives everything that may be said, in order.
    pub(super) fn take_ready(&mut self, all: &mut Vec<A>) {
        all.append(&mut self.ready);
    }

    /// What is to be committed now, if nothing is on its way.
    pub(super) fn send(&mut self) -> Option<(ParcelId, Vec<W>)> {
        if self.is_sent {
            return None;
        }
        let first = self.parcels.front()?;
        self.is_sent = true;
        Some((ParcelId(self.done), first.writes.values().cloned().collect()))
    }

    /// A parcel stands: what waited for it is released, in order. Of another parcel it is no news.
    pub(super) fn committed(&mut self, parcel: ParcelId) -> Vec<A> {
        if !self.is_sent || parcel.0 != self.done {
            return Vec::new();
        }
        self.is_sent = false;
        self.done += 1;
        let Some(parcel) = self.parcels.pop_front() else { return Vec::new() };
        self.writes -= parcel.writes.len();
        parcel.after
    }

    /// Whether what is written next is committed soon.
    pub(super) fn is_short(&self) -> bool {
        self.parcels.len() <= 1
    }

    /// How many writes wait.
    pub(super) const fn len(&self) -> usize {
        self.writes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Pair = (u32, Option<&'static str>);
    type Box = Outbox<Pair, &'static str>;

    impl Write for Pair {
        type Key = u32;

        fn key(&self) -> u32 {
            self.0
        }

        fn bytes(&self) -> usize {
            self.1.map_or(0, str::len)
        }
    }

    fn ready(outbox: &mut Box) -> Vec<&'static str> {
        let mut all = Vec::new();
        outbox.take_ready(&mut all);
        all
    }

    #[test]
    fn parcels_are_bounded_by_bytes_and_what_is_too_large_by_itself_goes_alone() {
        let text: &'static str = "x".repeat(BYTES_MAX * 2).leak();
        let mut outbox = Box::default();
        for key in 0..30 {
            outbox.write((key, Some(&text[..BYTES_MAX / 10])));
        }
        outbox.write((30, Some(text)));
        outbox.write((31, None));
        // The last word on a key weighs, not those before it.
        for _ in 0..100 {
            outbox.write((32, Some(&text[..BYTES_MAX / 10])));
        }
        outbox.write((33, None));
        let mut sizes = Vec::new();
        while let Some((parcel, writes)) = outbox.send() {
            let bytes: usize = writes.iter().filter_map(|(_, value)| value.map(str::len)).sum();
            assert!(bytes <= BYTES_MAX || writes.len() == 1, "{bytes} in {} writes", writes.len());
            sizes.push(writes.len());
            outbox.committed(parcel);
        }
        assert_eq!(sizes, [10, 10, 10, 1, 3]);
    }

    #[test]
    fn what_makes_sense_only_together_is_one_commit_however_much_was_written_before() {
        let text: &'static str = "x".repeat(BYTES_MAX).leak();
        for before in (0..=BYTES_MAX).step_by(1_000) {
            let mut outbox = Box::default();
            outbox.write((0, Some(&text[..before])));
            outbox.keep_together(2);
            outbox.write((1, Some(&text[..SMALL])));
            outbox.write((2, Some(&text[..SMALL])));
            while let Some((parcel, writes)) = outbox.send() {
                let has = |key: u32| writes.iter().any(|(one, _)| *one == key);
                assert_eq!(has(1), has(2), "after {before}");
                outbox.committed(parcel);
            }
        }
    }

    #[test]
    fn what_follows_waits_for_the_commit() {
        let mut outbox = Box::default();
        outbox.say("at once");
        assert_eq!(ready(&mut outbox), ["at once"]);
        outbox.write((1, Some("a")));
        outbox.say("sent");
        assert!(ready(&mut outbox).is_empty());
        let (parcel, writes) = outbox.send().unwrap();
        assert_eq!(writes, [(1, Some("a"))]);
        assert_eq!(outbox.committed(parcel), ["sent"]);
        assert_eq!(outbox.len(), 0);
        outbox.say("at once again");
        assert_eq!(ready(&mut outbox), ["at once again"]);
    }

    #[test]
    fn what_is_decided_while_a_parcel_is_on_its_way_goes_with_the_next() {
        let mut outbox = Box::default();
        outbox.write((1, Some("a")));
        outbox.say("one");
        assert!(ready(&mut outbox).is_empty());
        let (first, _) = outbox.send().unwrap();
        // Without writes of its own it still waits for what was decided before.
        outbox.say("one too");
        assert!(ready(&mut outbox).is_empty());
        outbox.write((1, None));
        outbox.say("two");
        assert!(ready(&mut outbox).is_empty());
        assert!(outbox.send().is_none(), "one at a time");
        assert_eq!(outbox.committed(first), ["one", "one too"]);
        assert_eq!(outbox.committed(first), [""; 0], "it was told already");
        let (second, writes) = outbox.send().unwrap();
        assert_eq!(writes, [(1, None)]);
        assert_eq!(outbox.committed(second), ["two"]);
    }

    #[test]
    fn what_makes_sense_only_together_is_one_commit() {
        for before in 0..200 {
            let mut outbox = Box::default();
            (0..before).for_each(|key| outbox.write((key, Some("a"))));
            outbox.keep_together(2);
            outbox.write((1_000, None));
            outbox.write((1_001, Some("b")));
            while let Some((parcel, writes)) = outbox.send() {
                let has = |key: u32| writes.iter().any(|(one, _)| *one == key);
                assert_eq!(has(1_000), has(1_001), "after {before}");
                assert!((1..=WRITES_MAX).contains(&writes.len()));
                outbox.committed(parcel);
            }
        }
    }

    #[test]
    fn the_last_word_on_a_key_is_written_and_parcels_are_bounded() {
        let mut outbox = Box::default();
        outbox.write((1, Some("a")));
        outbox.write((1, Some("b")));
        assert_eq!(outbox.len(), 1);
        for key in 0..200 {
            outbox.write((key, Some("c")));
        }
        let mut sizes = Vec::new();
        while let Some((parcel, writes)) = outbox.send() {
            let before = outbox.len();
            sizes.push(writes.len());
            outbox.committed(parcel);
            assert_eq!(before - outbox.len(), writes.len());
        }
        assert_eq!(outbox.len(), 0);
        assert_eq!(sizes.iter().max(), Some(&WRITES_MAX));
        assert!(sizes.iter().sum::<usize>() >= 200);
    }
}
