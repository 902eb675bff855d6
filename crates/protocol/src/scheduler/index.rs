//! Finds a slot by a number that is as good as random.
//!
//! One look for nearly every question, and 16 to 32 bytes for each machine; a tree takes six looks and
//! three times as much. Nobody walks over it, so its order is nobody's concern.

use super::peers::Slot;

/// A row without a slot.
const EMPTY: Row = Row { tag: 0, slot: None };

/// No more than half of the rows are taken, so that the next empty one is near.
#[derive(Clone, Debug)]
pub(super) struct Index {
    rows: Vec<Row>,
    count: usize,
}

#[derive(Clone, Copy, Debug)]
struct Row {
    /// Of the number, so that hardly ever a slot is looked at for nothing.
    tag: u32,
    slot: Option<Slot>,
}

impl Index {
    pub(super) const EMPTY: Self = Self { rows: Vec::new(), count: 0 };

    /// The slot under this number for which `is_it` holds.
    pub(super) fn find(&self, number: u64, is_it: impl Fn(Slot) -> bool) -> Option<Slot> {
        self.rows[self.position(number, is_it)?].slot
    }

    /// Puts in a slot that is not there.
    pub(super) fn insert(&mut self, number: u64, slot: Slot) {
        if self.rows.len() < 2 * (self.count + 1) {
            let taken: Vec<Row> =
                self.rows.iter().filter(|row| row.slot.is_some()).copied().collect();
            self.rows = vec![EMPTY; (2 * (self.count + 1)).next_power_of_two()];
            taken.into_iter().for_each(|row| self.put(row));
        }
        self.count += 1;
        self.put(Row { tag: tag(number), slot: Some(slot) });
    }

    pub(super) fn remove(&mut self, number: u64, is_it: impl Fn(Slot) -> bool) -> Option<Slot> {
        let mut hole = self.position(number, is_it)?;
        let slot = self.rows[hole].slot.take();
        self.count -= 1;
        // Whoever was pushed past the hole moves up, or it would not be found.
        let mut at = self.after(hole);
        while self.rows[at].slot.is_some() {
            if self.distance(self.home(self.rows[at].tag), at) >= self.distance(hole, at) {
                self.rows[hole] = std::mem::replace(&mut self.rows[at], EMPTY);
                hole = at;
            }
            at = self.after(at);
        }
        slot
    }

    pub(super) const fn heap_bytes(&self) -> usize {
        self.rows.capacity() * size_of::<Row>()
    }

    fn position(&self, number: u64, is_it: impl Fn(Slot) -> bool) -> Option<usize> {
        if self.rows.is_empty() {
            return None;
        }
        let tag = tag(number);
        let mut at = self.home(tag);
        while let Some(slot) = self.rows[at].slot {
            if self.rows[at].tag == tag && is_it(slot) {
                return Some(at);
            }
            at = self.after(at);
        }
        None
    }

    fn put(&mut self, row: Row) {
        let mut at = self.home(row.tag);
        while self.rows[at].slot.is_some() {
            at = self.after(at);
        }
        self.rows[at] = row;
    }

    const fn home(&self, tag: u32) -> usize {
        tag as usize & (self.rows.len() - 1)
    }

    const fn after(&self, at: usize) -> usize {
        (at + 1) & (self.rows.len() - 1)
    }

    const fn distance(&self, from: usize, to: usize) -> usize {
        to.wrapping_sub(from) & (self.rows.len() - 1)
    }
}

/// Half of a number whose bits are mixed.
const fn tag(number: u64) -> u32 {
    (number >> 32) as u32
}

/// Mixes a number so that every bit of it moves about half of all bits.
pub(super) const fn mix(number: u64) -> u64 {
    let mixed = (number ^ (number >> 32)).wrapping_mul(0xe703_7ed1_a0b4_28db);
    (mixed ^ (mixed >> 29)).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// A number for bytes: two that differ have the same once in a very long while.
pub(super) fn digest(bytes: &[u8]) -> u64 {
    let take = |number: u64, chunk: &[u8]| {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        (number ^ u64::from_le_bytes(word)).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29)
    };
    mix(bytes.chunks(8).fold(bytes.len() as u64, take))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Few numbers, so that they meet and push each other on.
        #[test]
        fn an_index_finds_what_a_map_finds(changes in prop::collection::vec((0_u32..40, any::<bool>()), 0..200)) {
            let mut index = Index::EMPTY;
            let mut map = BTreeMap::new();
            // Four of them share one number each.
            let number = |key: u32| u64::from(key / 4) << 32;
            for (key, is_there) in changes {
                let slot = Slot::new(key);
                if !is_there {
                    prop_assert_eq!(index.remove(number(key), |it| it == slot), map.remove(&key));
                } else if map.insert(key, slot).is_none() {
                    index.insert(number(key), slot);
                }
                prop_assert_eq!(index.count, map.len());
                for key in 0..40 {
                    let found = index.find(number(key), |it| it == Slot::new(key));
                    prop_assert_eq!(found, map.get(&key).copied());
                }
            }
        }
    }

    #[test]
    fn bytes_that_differ_anywhere_have_another_number() {
        let facts = *br#"{"cpu_millicores":16000,"memory_bytes":67430000000,"zone":"z1"}"#;
        let mut seen = vec![digest(&facts), digest(&facts[1..]), digest(&[]), digest(&[0])];
        for at in 0..facts.len() {
            let mut other = facts;
            other[at] ^= 1;
            seen.push(digest(&other));
        }
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen.len(), facts.len() + 4);
    }
}
