//! The laws of the set hash, and of the order of versions.

use proptest::{
    prelude::*,
    test_runner::{TestCaseError, TestError},
};
use sterna_model::Incarnation;
use sterna_protocol::consensus::{SetHash, Version};

use super::{life, runner};

/// Anything that claims to be the hash of a set.
pub(crate) trait Hash: Clone + PartialEq + std::fmt::Debug + Default {
    fn add(&mut self, worker: &Incarnation);
    fn remove(&mut self, worker: &Incarnation);
}

impl Hash for SetHash {
    fn add(&mut self, worker: &Incarnation) {
        Self::add(self, worker);
    }

    fn remove(&mut self, worker: &Incarnation) {
        Self::remove(self, worker);
    }
}

fn raw(worker: &Incarnation) -> u128 {
    let directory = u128::from_be_bytes(*worker.lock.directory.as_bytes());
    let machine = u128::from_be_bytes(*worker.lock.machine.as_bytes());
    directory ^ machine ^ u128::from(worker.life)
}

fn mixed(worker: &Incarnation) -> [u64; 2] {
    let mut hash = SetHash::EMPTY;
    hash.add(worker);
    hash.lanes()
}

/// Planted: ids are exclusive-or'd as they are.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct XorOfRaw(u128);

impl Hash for XorOfRaw {
    fn add(&mut self, worker: &Incarnation) {
        self.0 ^= raw(worker);
    }

    fn remove(&mut self, worker: &Incarnation) {
        self.0 ^= raw(worker);
    }
}

/// Planted: ids are added up as they are, with a count.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct SumOfRaw(u128, u32);

impl Hash for SumOfRaw {
    fn add(&mut self, worker: &Incarnation) {
        self.0 = self.0.wrapping_add(raw(worker));
        self.1 = self.1.wrapping_add(1);
    }

    fn remove(&mut self, worker: &Incarnation) {
        self.0 = self.0.wrapping_sub(raw(worker));
        self.1 = self.1.wrapping_sub(1);
    }
}

/// Planted: depends on the order.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct InOrder(u64);

impl Hash for InOrder {
    fn add(&mut self, worker: &Incarnation) {
        self.0 = self.0.wrapping_mul(3).wrapping_add(mixed(worker)[0]);
    }

    fn remove(&mut self, worker: &Incarnation) {
        // The inverse of three, so that at least the last one added can be taken back.
        let undone = self.0.wrapping_sub(mixed(worker)[0]);
        self.0 = undone.wrapping_mul(0xaaaa_aaaa_aaaa_aaab);
    }
}

/// Planted: well mixed, but whoever is added twice is gone.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct XorOfMixed([u64; 2]);

impl Hash for XorOfMixed {
    fn add(&mut self, worker: &Incarnation) {
        let token = mixed(worker);
        self.0 = [self.0[0] ^ token[0], self.0[1] ^ token[1]];
    }

    fn remove(&mut self, worker: &Incarnation) {
        self.add(worker);
    }
}

fn hash<H: Hash>(workers: &[(u64, u64)]) -> H {
    let mut hash = H::default();
    for (number, of_life) in workers {
        hash.add(&life(*number, *of_life));
    }
    hash
}

/// Few numbers and lives, so that sets look alike as those of a real fleet do.
fn workers() -> impl Strategy<Value = Vec<(u64, u64)>> {
    prop::collection::vec((0..6_u64, 1..6_u64), 0..8)
}

/// The laws: order does not count, removing undoes adding, and what differs hashes otherwise.
pub(crate) fn is_lawful<H: Hash>() -> Result<(), TestError<impl std::fmt::Debug>> {
    let shuffled =
        workers().prop_flat_map(|workers| (Just(workers.clone()), Just(workers).prop_shuffle()));
    runner(4000).run(&(shuffled, workers(), 0..6_u64), |((one, same), other, extra)| {
        let hash_of_one = hash::<H>(&one);
        prop_assert_eq!(&hash::<H>(&same), &hash_of_one, "order counts");
        check_removing(&hash_of_one, &same, extra)?;
        let (mut one, mut other) = (one, other);
        one.sort_unstable();
        other.sort_unstable();
        if one != other {
            prop_assert_ne!(hash::<H>(&other), hash_of_one, "two sets look the same");
        }
        Ok(())
    })
}

fn check_removing<H: Hash>(
    hash: &H,
    workers: &[(u64, u64)],
    extra: u64,
) -> Result<(), TestCaseError> {
    let mut more = hash.clone();
    more.add(&life(extra, 9));
    more.remove(&life(extra, 9));
    prop_assert_eq!(&more, hash, "removing does not undo adding");
    for (number, of_life) in workers {
        more.remove(&life(*number, *of_life));
    }
    prop_assert_eq!(more, H::default(), "taking everybody out leaves something");
    Ok(())
}

#[test]
fn the_set_hash_is_lawful() {
    let found = is_lawful::<SetHash>();
    assert!(found.is_ok(), "{found:?}");
}

#[test]
fn the_order_of_versions_goes_round_the_circle() {
    runner(2000)
        .run(&(any::<u64>(), 1..i64::MAX.unsigned_abs()), |(one, apart)| {
            let (one, other) = (Version::new(one), Version::new(one.wrapping_add(apart)));
            prop_assert!(one.is_before(other) && !other.is_before(one));
            prop_assert_eq!(
                one.compare(other),
                other.compare(one).map(std::cmp::Ordering::reverse)
            );
            prop_assert_eq!((one.later(other), other.later(one)), (other, other));
            prop_assert_eq!((one.earlier(other), other.earlier(one)), (one, one));
            prop_assert!(!one.is_before(one) && one.is_before(one.next()));
            Ok(())
        })
        .unwrap();
}
