//! Lives that were given up and struck from the roster: they are not confirmed again in this reign.
//!
//! So many are remembered and no more, or machines that come and go for ever would fill the memory. Of
//! those that are forgotten, one that was ever confirmed is known by the set that it holds, and is told to
//! die all the same (safety rule 9). One that never was has been sent nothing in this reign: it is
//! enrolled like anybody whom nobody knows, and asked what it runs.

use std::collections::{BTreeMap, VecDeque};

use sterna_model::{Incarnation, Lock};

use super::peers::tree_bytes;

/// How many are remembered.
const REMEMBERED: usize = 10_000;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct GivenUp {
    lives: BTreeMap<Lock, u64>,
    /// In the order in which they were struck; perhaps with some that came back since.
    order: VecDeque<Lock>,
}

impl GivenUp {
    pub(super) const EMPTY: Self = Self { lives: BTreeMap::new(), order: VecDeque::new() };

    pub(super) fn insert(&mut self, life: Incarnation) {
        if self.lives.insert(life.lock, life.life).is_none() {
            self.order.push_back(life.lock);
        }
        if self.order.len() > REMEMBERED
            && let Some(first) = self.order.pop_front()
        {
            self.lives.remove(&first);
        }
    }

    /// A later life has come.
    pub(super) fn forget(&mut self, lock: Lock) {
        if self.lives.remove(&lock).is_some() {
            self.order.retain(|other| *other != lock);
        }
    }

    /// Whether this life, or a later one under its lock, was given up.
    pub(super) fn contains(&self, life: Incarnation) -> bool {
        self.lives.get(&life.lock).is_some_and(|newest| life.life <= *newest)
    }

    pub(super) fn heap_bytes(&self) -> usize {
        tree_bytes::<Lock, u64>(self.lives.len()) + self.order.capacity() * size_of::<Lock>()
    }
}

#[cfg(test)]
mod tests {
    use sterna_model::{DirectoryId, MachineId, WallTime};

    use super::*;

    fn life(number: usize, life: u64) -> Incarnation {
        let mut random = [0; 10];
        random[2..].copy_from_slice(&(number as u64).to_be_bytes());
        let machine = MachineId::from_bytes([1; 16]).unwrap();
        Incarnation {
            lock: Lock { directory: DirectoryId::from_parts(WallTime::EPOCH, random), machine },
            life,
        }
    }

    #[test]
    fn so_many_are_remembered_and_the_first_is_forgotten() {
        let mut given_up = GivenUp::EMPTY;
        for number in 0..REMEMBERED {
            given_up.insert(life(number, 3));
        }
        assert!(given_up.contains(life(0, 3)) && !given_up.contains(life(0, 4)));
        given_up.insert(life(REMEMBERED, 1));
        assert!(!given_up.contains(life(0, 3)) && given_up.contains(life(1, 2)));
        assert_eq!((given_up.lives.len(), given_up.order.len()), (REMEMBERED, REMEMBERED));
        given_up.forget(life(1, 4).lock);
        given_up.insert(life(1, 5));
        given_up.insert(life(0, 1));
        assert!(given_up.contains(life(1, 5)) && !given_up.contains(life(2, 3)));
        assert_eq!((given_up.lives.len(), given_up.order.len()), (REMEMBERED, REMEMBERED));
    }
}
