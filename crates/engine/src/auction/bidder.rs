//! A worker as the auction sees it: what it offers, and what is taken of it.

use std::{collections::BTreeSet, fmt};

use sterna_model::{Amounts, Name, Pool, Surplus, Wants, WorkKey};

/// How the auction knows a worker: a small number that the caller gives it. Of two workers that
/// bid the same, the one with the smaller number gets the work.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BidderId(u32);

impl BidderId {
    /// The bidder of this number. Numbers are places in a table: give the smallest that is free.
    pub const fn new(number: u32) -> Self {
        Self(number)
    }

    /// The number.
    pub const fn get(self) -> u32 {
        self.0
    }
}

impl fmt::Display for BidderId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "b{}", self.0)
    }
}

impl fmt::Debug for BidderId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// What a worker is and has, and whether it takes work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offer {
    /// What people call it.
    pub name: Name,
    /// Its failure domain. Those without one are in one together.
    pub zone: Option<Name>,
    /// What kind of root file system work finds there.
    pub stack: Option<Name>,
    /// The tags that work must ask for to come here.
    pub required: BTreeSet<Name>,
    /// The tags that work may ask for besides.
    pub optional: BTreeSet<Name>,
    /// All that it has.
    pub total: Amounts,
    /// Whether it takes work.
    pub standing: Standing,
}

/// Whether a worker takes work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It is healthy, and nobody drains it.
    Taking,
    /// It drains, or it is not healthy. What runs there counts for no zone.
    Withheld,
}

/// Something on a worker that takes of what it has, from the moment it is placed until it is gone;
/// one that is stopping takes as much as one that runs (safety rule 23).
#[derive(Clone, Copy, Debug)]
pub struct Occupant<'a> {
    /// Whose run it is.
    pub key: &'a WorkKey,
    /// What it takes, as it was placed.
    pub wants: &'a Wants,
    /// How far it is.
    pub stage: Stage,
}

/// How far an occupant is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// From its placement until it runs: this is when it burdens its worker most.
    Starting,
    /// Running, stopping or about to be removed.
    Started,
}

/// A worker in the registry.
#[derive(Clone, Debug)]
pub(super) struct Bidder {
    pub(super) name: Name,
    /// All its optional tags; its class knows only those that anybody asks for.
    pub(super) optional: BTreeSet<Name>,
    pub(super) class: u32,
    pub(super) standing: Standing,
    pool: Pool,
    /// What is taken beyond the total: a worker may have less today than when it took its work.
    over: Option<Box<Amounts>>,
    pub(super) starting: u32,
    pub(super) tasks: u32,
    /// How many workers that take work stand before it in its zone; counted only if it matters.
    pub(super) rank: u32,
    /// How many instances it has of which service, by the service's number.
    holds: Vec<(u32, u32)>,
}

impl Bidder {
    pub(super) fn new(
        (name, optional): (Name, BTreeSet<Name>),
        class: u32,
        standing: Standing,
        total: Amounts,
    ) -> Self {
        Self {
            name,
            optional,
            class,
            standing,
            pool: Pool::new(total),
            over: None,
            starting: 0,
            tasks: 0,
            rank: 0,
            holds: Vec::new(),
        }
    }

    pub(super) const fn pool(&self) -> &Pool {
        &self.pool
    }

    /// How many instances of a service it has.
    pub(super) fn count(&self, service: u32) -> u32 {
        match self.holds.binary_search_by_key(&service, |(held, _)| *held) {
            Ok(at) => self.holds[at].1,
            Err(_) => 0,
        }
    }

    /// The services of which it has instances, and how many.
    pub(super) fn holds(&self) -> &[(u32, u32)] {
        &self.holds
    }

    pub(super) fn set_count(&mut self, service: u32, count: u32) {
        match self.holds.binary_search_by_key(&service, |(held, _)| *held) {
            Ok(at) if count == 0 => drop(self.holds.remove(at)),
            Ok(at) => self.holds[at].1 = count,
            Err(_) if count == 0 => {}
            Err(at) => self.holds.insert(at, (service, count)),
        }
    }

    /// Takes what something has that is there already, whether or not there is enough.
    pub(super) fn take(&mut self, taken: &Amounts) {
        if self.pool.take(taken).is_ok() {
            return;
        }
        let there = taken.at_most(self.pool.free());
        let beyond = taken.less(&there);
        let over = self.over.take().unwrap_or_default();
        self.over = Some(Box::new(over.plus(&beyond)));
        // What is at most free can be taken.
        drop(self.pool.take(&there));
    }

    /// Gives back what was taken; what was taken beyond the total goes first.
    pub(super) fn give_back(&mut self, taken: &Amounts) -> Result<(), Surplus> {
        let Some(over) = self.over.take() else { return self.pool.give_back(taken) };
        let paid = taken.at_most(&over);
        let given = self.pool.give_back(&taken.less(&paid));
        let left = if given.is_ok() { over.less(&paid) } else { *over };
        self.over = (left != Amounts::default()).then(|| Box::new(left));
        given
    }

    /// Has another total from now on, with everything taken that was.
    pub(super) fn resize(&mut self, total: Amounts) {
        if *self.pool.total() == total {
            return;
        }
        let mut taken = self.pool.total().less(self.pool.free());
        if let Some(over) = self.over.take() {
            taken = taken.plus(&over);
        }
        self.pool = Pool::new(total);
        self.take(&taken);
    }

    /// Bytes on the heap, as far as they grow with what it holds.
    pub(super) fn heap_bytes(&self) -> usize {
        self.name.as_str().len()
            + self.holds.capacity() * size_of::<(u32, u32)>()
            + self.over.as_ref().map_or(0, |_| size_of::<Amounts>())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sterna_model::Bytes;

    fn memory(bytes: u64) -> Amounts {
        Amounts { memory: Bytes::new(bytes), ..Amounts::default() }
    }

    fn bidder(total: u64) -> Bidder {
        let name = Name::new("w").unwrap();
        Bidder::new((name, BTreeSet::new()), 0, Standing::Taking, memory(total))
    }

    #[test]
    fn a_worker_that_has_less_than_it_took_has_nothing_free_until_that_is_gone() {
        let mut bidder = bidder(100);
        bidder.take(&memory(60));
        bidder.take(&memory(30));
        bidder.resize(memory(50));
        assert_eq!(bidder.pool().free(), &memory(0));
        bidder.give_back(&memory(30)).unwrap();
        assert_eq!(bidder.pool().free(), &memory(0), "60 are taken of 50");
        bidder.give_back(&memory(60)).unwrap();
        assert_eq!(bidder.pool().free(), &memory(50));
        assert!(bidder.give_back(&memory(1)).is_err(), "given back twice");
        assert_eq!(bidder.pool().free(), &memory(50));
    }

    #[test]
    fn counts_of_services_come_and_go() {
        let mut bidder = bidder(1);
        for (service, count) in [(7, 1), (3, 2), (7, 2), (3, 0), (4, 0)] {
            bidder.set_count(service, count);
        }
        assert_eq!(bidder.holds(), [(7, 2)]);
        assert_eq!((bidder.count(7), bidder.count(3)), (2, 0));
    }
}
