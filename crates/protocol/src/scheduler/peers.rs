//! All machines that the leader knows: found by lock or stream, kept in slots, and looked at when due.
//!
//! A pass over a hundred thousand machines has nothing to do for nearly all of them. So beside each
//! stands the first moment at which time alone may change something about it; a pass reads these
//! moments, and visits the few that have come.
//!
//! Invariant: a machine is never due later than something may change. Whoever changes one through
//! [`Peers::get_mut`] makes it due at once; only a judgement puts it off.

use std::{
    collections::BTreeMap,
    hash::{Hash, Hasher},
    num::NonZeroU32,
};

use sterna_model::{BootTime, Lock};

use super::{
    index::{Index, mix},
    peer::Peer,
};
use crate::message::StreamId;

/// Due at the next pass.
const AT_ONCE: BootTime = BootTime::from_millis(0);

/// Where a machine is kept, for as long as it is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Slot(NonZeroU32);

impl Slot {
    /// Before all others.
    pub(super) const FIRST: Self = Self(NonZeroU32::MIN);

    /// The one with this place in the table.
    pub(super) const fn new(at: u32) -> Self {
        Self(NonZeroU32::MIN.saturating_add(at))
    }

    const fn at(self) -> usize {
        self.0.get() as usize - 1
    }
}

#[derive(Clone, Debug)]
pub(super) struct Peers {
    rows: Vec<Option<Box<Peer>>>,
    due: Vec<BootTime>,
    vacant: Vec<Slot>,
    locks: Index,
    streams: Index,
}

impl Peers {
    pub(super) const EMPTY: Self = Self {
        rows: Vec::new(),
        due: Vec::new(),
        vacant: Vec::new(),
        locks: Index::EMPTY,
        streams: Index::EMPTY,
    };

    /// How many there are.
    pub(super) const fn len(&self) -> usize {
        self.rows.len() - self.vacant.len()
    }

    pub(super) fn find(&self, lock: &Lock) -> Option<Slot> {
        self.locks.find(of_lock(lock), |slot| self.is_of(slot, lock))
    }

    /// Who has this stream.
    pub(super) fn on(&self, stream: StreamId) -> Option<Slot> {
        let is_it = |slot| self.at(slot).is_some_and(|peer| peer.stream() == Some(stream));
        self.streams.find(of_stream(stream), is_it)
    }

    /// Gives a machine another stream, or none; gives the one that it had.
    pub(super) fn connect(&mut self, slot: Slot, stream: Option<StreamId>) -> Option<StreamId> {
        let peer = self.at_mut(slot)?;
        let old = peer.connect(stream);
        if old == stream {
            return old;
        }
        if let Some(old) = old {
            self.streams.remove(of_stream(old), |it| it == slot);
        }
        if let Some(stream) = stream {
            self.streams.insert(of_stream(stream), slot);
        }
        old
    }

    fn is_of(&self, slot: Slot, lock: &Lock) -> bool {
        self.at(slot).is_some_and(|peer| peer.incarnation.lock == *lock)
    }

    pub(super) fn get(&self, lock: &Lock) -> Option<&Peer> {
        self.at(self.find(lock)?)
    }

    /// To be changed, and so to be looked at.
    pub(super) fn get_mut(&mut self, lock: &Lock) -> Option<&mut Peer> {
        let slot = self.find(lock)?;
        self.wake(slot);
        self.at_mut(slot)
    }

    pub(super) fn at(&self, slot: Slot) -> Option<&Peer> {
        self.rows.get(slot.at())?.as_deref()
    }

    /// To be changed by who says afterwards when it is due.
    pub(super) fn at_mut(&mut self, slot: Slot) -> Option<&mut Peer> {
        self.rows.get_mut(slot.at())?.as_deref_mut()
    }

    /// It is to be looked at then.
    pub(super) fn put_off(&mut self, slot: Slot, until: BootTime) {
        if let Some(due) = self.due.get_mut(slot.at()) {
            *due = until;
        }
    }

    /// It is to be looked at with the next pass.
    pub(super) fn wake(&mut self, slot: Slot) {
        self.put_off(slot, AT_ONCE);
    }

    /// Everybody is to be looked at: what all are judged by has changed.
    pub(super) fn wake_all(&mut self) {
        self.due.fill(AT_ONCE);
    }

    /// Whether it is among those that the next pass visits.
    pub(super) fn is_due(&self, lock: &Lock, now: BootTime) -> bool {
        self.find(lock).and_then(|slot| self.due.get(slot.at())).is_some_and(|due| *due <= now)
    }

    /// Those to whom something may be due.
    pub(super) fn due(&self, now: BootTime) -> Vec<Slot> {
        let is_due = |(_, due): &(u32, &BootTime)| **due <= now;
        (0..).zip(&self.due).filter(is_due).map(|(at, _)| Slot::new(at)).collect()
    }

    /// A machine that was not known.
    pub(super) fn insert(&mut self, lock: Lock, peer: Peer) -> Slot {
        let slot = self.vacant.pop().unwrap_or_else(|| {
            self.rows.push(None);
            self.due.push(AT_ONCE);
            Slot::new(u32::try_from(self.rows.len() - 1).unwrap_or(u32::MAX))
        });
        self.rows[slot.at()] = Some(Box::new(peer));
        self.wake(slot);
        self.locks.insert(of_lock(&lock), slot);
        slot
    }

    pub(super) fn remove(&mut self, lock: &Lock) {
        let Some(slot) = self.find(lock) else { return };
        self.connect(slot, None);
        self.locks.remove(of_lock(lock), |it| it == slot);
        self.rows[slot.at()] = None;
        self.put_off(slot, BootTime::from_millis(u64::MAX));
        self.vacant.push(slot);
    }

    /// In the order in which they were given their slots.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Peer> {
        self.rows.iter().filter_map(Option::as_deref)
    }

    pub(super) fn locks(&self) -> Vec<Lock> {
        self.iter().map(|peer| peer.incarnation.lock).collect()
    }

    /// To be changed by who makes all due.
    pub(super) fn all_mut(&mut self) -> impl Iterator<Item = &mut Peer> {
        self.rows.iter_mut().filter_map(|row| row.as_deref_mut())
    }

    pub(super) fn heap_bytes(&self) -> usize {
        let dense = self.rows.capacity() * size_of::<Option<Box<Peer>>>()
            + self.due.capacity() * size_of::<BootTime>()
            + self.vacant.capacity() * size_of::<Slot>();
        let peers = self.iter().map(|peer| size_of::<Peer>() + peer.heap_bytes());
        dense + self.locks.heap_bytes() + self.streams.heap_bytes() + peers.sum::<usize>()
    }

    fn sorted(&self) -> BTreeMap<Lock, &Peer> {
        self.iter().map(|peer| (peer.incarnation.lock, peer)).collect()
    }
}

/// When each is due follows from what it is, and where it is kept means nothing.
impl PartialEq for Peers {
    fn eq(&self, other: &Self) -> bool {
        self.sorted() == other.sorted()
    }
}

impl Eq for Peers {}

impl Hash for Peers {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.sorted().hash(state);
    }
}

/// Locks are drawn at random; what is in them is mixed all the same, for those that are not.
fn of_lock(lock: &Lock) -> u64 {
    let halves = [lock.directory.as_bytes(), lock.machine.as_bytes()].map(|bytes| {
        let whole = u128::from_le_bytes(*bytes);
        #[expect(clippy::cast_possible_truncation, reason = "the two halves are what is wanted")]
        mix((whole >> 64) as u64 ^ mix(whole as u64))
    });
    mix(halves[0] ^ halves[1].rotate_left(32))
}

const fn of_stream(stream: StreamId) -> u64 {
    mix(stream.get())
}

/// What a tree map of so many holds at most. Its nodes have room for eleven and hold five at least;
/// each has a parent and two counts beside them, and one in six has twelve children.
pub(super) const fn tree_bytes<K, V>(count: usize) -> usize {
    let node = 11 * (size_of::<K>() + size_of::<V>()) + 16;
    let nodes = count.div_ceil(5);
    nodes * node + nodes.div_ceil(6) * (node + 96)
}
