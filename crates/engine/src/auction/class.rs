//! Workers that differ in nothing but what is free: their order by score is the same for all work.

use std::collections::BTreeSet;

use sterna_model::{Amounts, Name};

use super::{
    bidder::Bidder,
    score::{Rules, Score, nominal, share},
    tree::{Summary, Tree},
};

/// What the workers of a class have in common.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key {
    pub(super) zone: u32,
    pub(super) stack: Option<Name>,
    pub(super) required: BTreeSet<Name>,
    /// Those that anybody asks for.
    pub(super) optional: BTreeSet<Name>,
    /// Nominal totals: memory, disk, containers.
    totals: [u64; 3],
    /// The countables of which they have any.
    countables: Vec<Name>,
}

impl Key {
    pub(super) fn new(
        zone: u32,
        stack: Option<Name>,
        (required, optional): (BTreeSet<Name>, BTreeSet<Name>),
        total: &Amounts,
    ) -> Self {
        let totals = [total.memory.get(), total.disk.get(), total.containers].map(nominal);
        let countables = total.countables.iter().map(|(name, _)| name.clone()).collect();
        Self { zone, stack, required, optional, totals, countables }
    }

    /// What is asked for and not offered, and what is required and not asked for.
    pub(super) fn differences(&self, tags: &BTreeSet<Name>) -> (BTreeSet<Name>, BTreeSet<Name>) {
        let offers = |tag: &&Name| self.required.contains(*tag) || self.optional.contains(*tag);
        let missing = tags.iter().filter(|tag| !offers(tag)).cloned().collect();
        let unasked = self.required.difference(tags).cloned().collect();
        (missing, unasked)
    }

    pub(super) fn has_stack(&self, stack: Option<&Name>) -> bool {
        stack.is_none() || self.stack.as_ref() == stack
    }

    /// Whether its workers may have work that asks for this stack and these tags.
    pub(super) fn may_have(&self, stack: Option<&Name>, tags: &BTreeSet<Name>) -> bool {
        let offers = |tag| self.required.contains(tag) || self.optional.contains(tag);
        self.has_stack(stack) && tags.iter().all(offers) && self.required.is_subset(tags)
    }
}

/// The resources that a [`Room`] knows: the four that everybody has, and the first two countables
/// of its class. What is asked for of others is found out at the worker itself.
const KINDS: usize = 6;

/// Amounts of the resources that a [`Room`] knows.
pub(super) type Flat = [u64; KINDS];

/// What a worker has free, and how it scores before anything is asked; of several, the best of each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Room {
    /// Its score for an instance.
    pub(super) load: Score,
    /// Its score for a task.
    pub(super) task_load: Score,
    pub(super) free: Flat,
}

impl Summary for Room {
    fn join(&mut self, other: &Self) {
        self.load = self.load.min(other.load);
        self.task_load = self.task_load.min(other.task_load);
        for (free, other) in self.free.iter_mut().zip(other.free) {
            *free = (*free).max(other);
        }
    }
}

impl Room {
    pub(super) fn holds(&self, need: &Flat) -> bool {
        // Without a way out in between it is one comparison for the machine.
        need.iter().zip(&self.free).fold(true, |fits, (need, free)| fits & (need <= free))
    }
}

/// The workers of a class.
#[derive(Clone, Debug)]
pub(super) struct Class {
    pub(super) key: Key,
    /// All of them.
    pub(super) members: BTreeSet<u32>,
    /// Those that take work.
    pub(super) tree: Tree<Room>,
}

impl Class {
    pub(super) fn new(key: Key) -> Self {
        Self { key, members: BTreeSet::new(), tree: Tree::default() }
    }

    /// How one of its workers stands.
    pub(super) fn room(&self, rules: &Rules, bidder: &Bidder) -> Room {
        let (total, free) = (bidder.pool().total(), bidder.pool().free());
        let used = [
            total.memory.get() - free.memory.get(),
            total.disk.get() - free.disk.get(),
            total.containers - free.containers,
        ];
        let used = self.shares(used);
        let load = used.plus(Score::of(rules.starting_weight).times(bidder.starting));
        let rank = Score::of(rules.first_fit_weight).times(bidder.rank);
        let task_load = load.plus(Score::SAME.times(bidder.tasks));
        Room { load: load.plus(rank), task_load, free: self.flat(free) }
    }

    /// What the demand itself adds to a score.
    pub(super) fn added(&self, demand: &Amounts) -> Score {
        self.shares([demand.memory.get(), demand.disk.get(), demand.containers])
    }

    /// As a room counts them.
    pub(super) fn flat(&self, amounts: &Amounts) -> Flat {
        let count =
            |at: usize| self.key.countables.get(at).map_or(0, |name| amounts.countables.get(name));
        let (cpu, memory, disk) = (amounts.cpu.get(), amounts.memory.get(), amounts.disk.get());
        [cpu, memory, disk, amounts.containers, count(0), count(1)]
    }

    fn shares(&self, amounts: [u64; 3]) -> Score {
        let shares = amounts.into_iter().zip(self.key.totals);
        shares.fold(Score::ZERO, |sum, (amount, total)| sum.plus(share(amount, total)))
    }
}
