//! What most steps leave alone: shared by all states that have it, and hashed once.

use std::{
    hash::{Hash, Hasher},
    ops::Deref,
    sync::Arc,
};

/// A part of a state. Two are the same when their hashes are.
#[derive(Clone, Debug)]
pub(crate) struct Shared<T> {
    part: Arc<T>,
    hash: u64,
}

impl<T: Hash> Shared<T> {
    pub(crate) fn new(part: T) -> Self {
        let hash = hash_of(&part);
        Self { part: Arc::new(part), hash }
    }
}

impl<T: Clone> Shared<T> {
    /// To be changed; [`Shared::seal`] must follow before two are compared.
    pub(crate) fn change(&mut self) -> &mut T {
        self.hash = 0;
        Arc::make_mut(&mut self.part)
    }
}

impl<T: Hash> Shared<T> {
    /// Hashes what was changed.
    pub(crate) fn seal(&mut self) {
        if self.hash == 0 {
            self.hash = hash_of(&*self.part);
        }
    }

    pub(crate) const fn hash(&self) -> u64 {
        self.hash
    }
}

fn hash_of(part: &impl Hash) -> u64 {
    let mut mixer = Mixer(0x243f_6a88_85a3_08d3);
    part.hash(&mut mixer);
    mixer.finish() | 1
}

/// Several times as quick as the usual hasher, which withstands whoever chooses what is hashed; here
/// nobody does.
struct Mixer(u64);

impl Hasher for Mixer {
    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.write_u64(u64::from_le_bytes(word));
        }
    }

    fn write_u8(&mut self, number: u8) {
        self.write_u64(number.into());
    }

    fn write_u32(&mut self, number: u32) {
        self.write_u64(number.into());
    }

    fn write_u64(&mut self, number: u64) {
        // Both halves of the product, so that every bit counts; and what was there before, so that
        // nothing is multiplied away.
        let (mixed, odd) = (self.0 ^ number, 0x9e37_79b9_7f4a_7c15);
        let high = (u128::from(mixed) * u128::from(odd)) >> 64;
        let folded = high as u64 ^ mixed.wrapping_mul(odd);
        self.0 = folded.wrapping_add(self.0.rotate_left(23));
    }

    fn write_usize(&mut self, number: usize) {
        self.write_u64(number as u64);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

impl<T> Deref for Shared<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.part
    }
}

impl<T> PartialEq for Shared<T> {
    fn eq(&self, other: &Self) -> bool {
        self.hash == other.hash
    }
}

impl<T> Eq for Shared<T> {}

impl<T> Hash for Shared<T> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.hash);
    }
}
