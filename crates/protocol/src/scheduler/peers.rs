//! All machines that the leader knows: found by lock, kept in slots, and looked at when due.
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
};

use sterna_model::{BootTime, Lock};

use super::peer::Peer;

/// Due at the next pass.
const AT_ONCE: BootTime = BootTime::from_millis(0);

/// Where a machine is kept, for as long as it is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Slot(u32);

impl Slot {
    const fn at(self) -> usize {
        self.0 as usize
    }
}

#[derive(Clone, Debug)]
pub(super) struct Peers {
    rows: Vec<Option<Box<Peer>>>,
    due: Vec<BootTime>,
    vacant: Vec<Slot>,
    index: BTreeMap<Lock, Slot>,
}

impl Peers {
    pub(super) const EMPTY: Self =
        Self { rows: Vec::new(), due: Vec::new(), vacant: Vec::new(), index: BTreeMap::new() };

    pub(super) fn find(&self, lock: &Lock) -> Option<Slot> {
        self.index.get(lock).copied()
    }

    pub(super) fn get(&self, lock: &Lock) -> Option<&Peer> {
        self.at(self.find(lock)?)
    }

    /// To be changed, and so to be looked at.
    pub(super) fn get_mut(&mut self, lock: &Lock) -> Option<&mut Peer> {
        let slot = self.find(lock)?;
        self.put_off(slot, AT_ONCE);
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
        (0..).zip(&self.due).filter(is_due).map(|(slot, _)| Slot(slot)).collect()
    }

    /// A machine that was not known.
    pub(super) fn insert(&mut self, lock: Lock, peer: Peer) -> Slot {
        let slot = self.vacant.pop().unwrap_or_else(|| {
            self.rows.push(None);
            self.due.push(AT_ONCE);
            Slot(u32::try_from(self.rows.len() - 1).unwrap_or(u32::MAX))
        });
        self.rows[slot.at()] = Some(Box::new(peer));
        self.put_off(slot, AT_ONCE);
        self.index.insert(lock, slot);
        slot
    }

    pub(super) fn remove(&mut self, lock: &Lock) {
        if let Some(slot) = self.index.remove(lock) {
            self.rows[slot.at()] = None;
            self.put_off(slot, BootTime::from_millis(u64::MAX));
            self.vacant.push(slot);
        }
    }

    /// In the order of their locks.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&Lock, &Peer)> {
        self.index.iter().filter_map(|(lock, slot)| Some((lock, self.at(*slot)?)))
    }

    pub(super) fn locks(&self) -> Vec<Lock> {
        self.index.keys().copied().collect()
    }

    /// In no particular order, to be changed by who makes all due.
    pub(super) fn all_mut(&mut self) -> impl Iterator<Item = &mut Peer> {
        self.rows.iter_mut().filter_map(|row| row.as_deref_mut())
    }

    pub(super) fn len(&self) -> usize {
        self.index.len()
    }

    pub(super) fn heap_bytes(&self) -> usize {
        let dense = self.rows.capacity() * size_of::<Option<Box<Peer>>>()
            + self.due.capacity() * size_of::<BootTime>()
            + self.vacant.capacity() * size_of::<Slot>();
        let peers = self.iter().map(|(_, peer)| size_of::<Peer>() + peer.heap_bytes());
        dense + tree_bytes::<Lock, Slot>(self.len()) + peers.sum::<usize>()
    }
}

/// When each is due follows from what it is, and where it is kept means nothing.
impl PartialEq for Peers {
    fn eq(&self, other: &Self) -> bool {
        self.len() == other.len() && self.iter().eq(other.iter())
    }
}

impl Eq for Peers {}

impl Hash for Peers {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_usize(self.len());
        self.iter().for_each(|pair| pair.hash(state));
    }
}

/// What a tree map of so many holds at most. Its nodes have room for eleven and hold five at least;
/// each has a parent and two counts beside them, and one in six has twelve children.
pub(super) const fn tree_bytes<K, V>(count: usize) -> usize {
    let node = 11 * (size_of::<K>() + size_of::<V>()) + 16;
    let nodes = count.div_ceil(5);
    nodes * node + nodes.div_ceil(6) * (node + 96)
}
