//! Work that nobody got, parked until something changes that could help it.
//!
//! Asks that want the same lie in one group, in the order of work. A tree over the groups finds the
//! first one that fits into what a worker has free, so what a change costs depends on how much it
//! helps, not on how many wait.
//!
//! Invariant: once [`Waiting::wake`] yields nothing for each change, no auction would place anything
//! that is parked.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use sterna_model::{Amounts, Constraints, Name, Namespace, ServiceKey, WorkKey, Zones};

use super::{
    bidder::{BidderId, Standing},
    order::Turn,
    place::{Ask, ranking},
    reason::Reason,
    registry::Registry,
    tree::{Summary, Tree},
};
use crate::numbered::Numbered;

/// Everything that was left over and still wants a worker.
#[derive(Clone, Debug, Default)]
pub struct Waiting {
    parked: BTreeMap<WorkKey, Parked>,
    groups: Numbered<Group>,
    group_of: BTreeMap<GroupKey, u32>,
    /// The groups by the stack and tags that they ask for, then by their size.
    sets: BTreeMap<Kind, BTreeMap<Size, Tree<Front>>>,
    /// Those whose place depends on which zones there are.
    pinned: BTreeSet<WorkKey>,
    /// Those that wait for others to have started.
    limited: BTreeMap<Turn, WorkKey>,
    /// Those to be tried again whatever else happens, each once.
    due: BTreeSet<WorkKey>,
    /// Which zones the registry had when pinned work was last looked at.
    zones_seen: u64,
    /// Counts those that were parked.
    asked: u64,
}

/// Something happened after which work that waits may be placed.
#[derive(Clone, Copy, Debug)]
pub enum Change {
    /// A worker joined, offers something else or is gone; or something is gone from it.
    Worker(BidderId),
    /// A container has started, or one that was starting is gone.
    Started,
    /// Some were called again ([`Waiting::recall`]).
    Recalled,
}

/// What an ask waits for.
#[derive(Clone, Copy, Debug)]
enum Place {
    /// A worker with room.
    Group(u32),
    /// Others to have started.
    Limited,
}

#[derive(Clone, Debug)]
struct Parked {
    ask: Ask,
    turn: Turn,
    place: Place,
}

/// Stack and tags.
type Kind = (Option<Name>, BTreeSet<Name>);

/// How many binary digits cpu, memory and disk have. Groups of one size lack room alike, so that
/// one which asks for much of one thing does not hide behind one that asks for much of another.
type Size = [u32; 3];

/// Asks that want the same and may be on the same workers.
#[derive(Clone, Debug)]
struct Group {
    /// What it was found by when it was made: there may be other zones since.
    key: GroupKey,
    /// One of them.
    sample: Ask,
    kind: Kind,
    size: Size,
    queue: BTreeMap<Turn, WorkKey>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct GroupKey {
    namespace: Namespace,
    service: Option<Name>,
    /// Of work that is pinned: which zones it may have.
    ranking: Option<u32>,
    amounts: [u64; 3],
    countables: Vec<(Name, u64)>,
    constraints: Constraints,
}

/// Whose turn is first in some groups, and what they ask for at least.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Front {
    turn: Turn,
    least: [u64; 4],
}

impl Summary for Front {
    fn join(&mut self, other: &Self) {
        self.turn = self.turn.min(other.turn);
        for (least, other) in self.least.iter_mut().zip(other.least) {
            *least = (*least).min(other);
        }
    }
}

impl Waiting {
    /// How many asks one call wakes at most.
    pub const WOKEN_MAX: usize = 64;

    /// Nothing waits.
    pub fn new() -> Self {
        Self::default()
    }

    /// How many wait.
    pub fn len(&self) -> usize {
        self.parked.len()
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.parked.is_empty()
    }

    /// What waits, by key, with what it asks for.
    pub fn iter(&self) -> impl Iterator<Item = &Ask> {
        self.parked.values().map(|parked| &parked.ask)
    }

    /// What a key that waits asks for.
    pub fn get(&self, key: &WorkKey) -> Option<&Arc<sterna_model::Wants>> {
        self.parked.get(key).map(|parked| &parked.ask.wants)
    }

    /// Parks what an auction has left, for the reason that it gave; in the place of an earlier ask
    /// of the same key.
    pub fn park(&mut self, registry: &Registry, ask: Ask, reason: &Reason) {
        self.forget(&ask.key);
        self.asked += 1;
        let memory = ask.wants.demand.amounts().memory.get();
        let turn = Turn::new(&ask.key, memory, self.asked);
        let place = match reason {
            Reason::StartLimit { .. } => {
                self.limited.insert(turn, ask.key.clone());
                Place::Limited
            }
            Reason::NoWorker
            | Reason::NoStack { .. }
            | Reason::NoTags { .. }
            | Reason::NoZone { .. }
            | Reason::TooLarge { .. }
            | Reason::Withheld { .. }
            | Reason::Short { .. }
            | Reason::Apart { .. } => Place::Group(self.enter(registry, &ask, turn)),
        };
        if ask.wants.constraints.zones == Zones::Pinned {
            self.pinned.insert(ask.key.clone());
        }
        self.parked.insert(ask.key.clone(), Parked { ask, turn, place });
    }

    /// No longer waits: it was cancelled, or something else is asked for it.
    pub fn forget(&mut self, key: &WorkKey) -> Option<Ask> {
        let Parked { ask, turn, place } = self.parked.remove(key)?;
        self.due.remove(key);
        self.pinned.remove(key);
        match place {
            Place::Limited => drop(self.limited.remove(&turn)),
            Place::Group(group) => self.leave(group, turn),
        }
        Some(ask)
    }

    /// A service no longer has to be apart from this one: whoever of this one waits is tried again, each
    /// once.
    pub fn recall(&mut self, namespace: &Namespace, name: &Name) {
        let keys = service_keys(&self.parked, namespace, name).cloned();
        self.due.extend(keys);
    }

    /// Takes out what the change could help, in the order of work, and adds it to `woken`; at most
    /// [`Waiting::WOKEN_MAX`] asks, and of a worker no more than it has room for. Says how many.
    ///
    /// The caller holds an auction for them, parks anew what is left, and calls again with the same
    /// change until nothing is woken: what was woken for one worker may have gone to another.
    pub fn wake(&mut self, registry: &Registry, change: Change, woken: &mut Vec<Ask>) -> usize {
        let before = woken.len();
        if self.zones_seen != registry.zones_changed() {
            self.zones_seen = registry.zones_changed();
            self.due.extend(self.pinned.iter().cloned());
        }
        while woken.len() < before + Self::WOKEN_MAX
            && let Some(key) = self.due.pop_first()
        {
            woken.extend(self.forget(&key));
        }
        let left = before + Self::WOKEN_MAX - woken.len();
        match change {
            Change::Worker(id) => self.wake_for(registry, id, left, woken),
            Change::Started => self.wake_limited(registry, left, woken),
            Change::Recalled => {}
        }
        woken.len() - before
    }

    /// Whether something waits for others to have started while it may start: nobody said that they had.
    pub fn waits_in_vain(&self, registry: &Registry) -> bool {
        !self.limited.is_empty() && registry.start_room() != Some(0)
    }

    fn wake_limited(&mut self, registry: &Registry, left: usize, woken: &mut Vec<Ask>) {
        let room = registry.start_room().map_or(left, |room| left.min(room as usize));
        for _ in 0..room {
            let Some((_, key)) = self.limited.first_key_value() else { return };
            let key = key.clone();
            woken.extend(self.forget(&key));
        }
    }

    fn wake_for(&mut self, registry: &Registry, id: BidderId, left: usize, woken: &mut Vec<Ask>) {
        let Some(bidder) = registry.bidder(id.get()) else { return };
        if bidder.standing == Standing::Withheld {
            return;
        }
        let mut free = bidder.pool().free().clone();
        let kinds = self.sets.keys().filter(|(stack, tags)| registry.offers(bidder, stack, tags));
        let kinds: Vec<Kind> = kinds.cloned().collect();
        for _ in 0..left {
            let Some(group) = self.first_for(registry, (id, &free), &kinds) else { return };
            let group = &self.groups[group];
            let Some((_, key)) = group.queue.first_key_value() else { return };
            free = free.less(group.sample.wants.demand.amounts());
            let key = key.clone();
            woken.extend(self.forget(&key));
        }
    }

    /// The group whose turn is first, of those that fit.
    fn first_for(
        &self,
        registry: &Registry,
        (id, free): (BidderId, &Amounts),
        kinds: &[Kind],
    ) -> Option<u32> {
        let flat = flat(free);
        let fits = |front: &Front| front.least.iter().zip(flat).all(|(least, free)| *least <= free);
        let mut best: Option<(Turn, u32)> = None;
        let sets = kinds.iter().filter_map(|kind| self.sets.get(kind));
        for tree in sets.flat_map(BTreeMap::values) {
            let bound = |front: &Front| fits(front).then_some(front.turn);
            let mut judge = |group, front: &Front| {
                let sample = &self.groups[group].sample;
                let fits = sample.wants.demand.amounts().fits(free);
                (fits && registry.admits(id.get(), sample)).then_some(front.turn)
            };
            tree.best(&bound, &mut judge, &mut best);
        }
        best.map(|(_, group)| group)
    }

    fn enter(&mut self, registry: &Registry, ask: &Ask, turn: Turn) -> u32 {
        let key = GroupKey::of(ask, registry.zone_count());
        let number = match self.group_of.get(&key) {
            Some(number) => *number,
            None => {
                let Constraints { stack, tags, .. } = &ask.wants.constraints;
                let kind = (stack.clone(), tags.clone());
                let [cpu, memory, disk, _] = flat(ask.wants.demand.amounts());
                let size = [cpu, memory, disk].map(|amount| u64::BITS - amount.leading_zeros());
                let (sample, queue) = (ask.clone(), BTreeMap::new());
                let number = self.groups.add(Group { key: key.clone(), sample, kind, size, queue });
                self.group_of.insert(key, number);
                number
            }
        };
        self.groups[number].queue.insert(turn, ask.key.clone());
        self.tell(number);
        number
    }

    fn leave(&mut self, number: u32, turn: Turn) {
        self.groups[number].queue.remove(&turn);
        self.tell(number);
        if self.groups[number].queue.is_empty()
            && let Some(group) = self.groups.remove(number)
        {
            self.group_of.remove(&group.key);
        }
    }

    /// Whose turn is first in a group goes into the tree of its kind.
    fn tell(&mut self, number: u32) {
        let Group { sample, kind, size, queue, .. } = &self.groups[number];
        if let Some((turn, _)) = queue.first_key_value() {
            let front = Front { turn: *turn, least: flat(sample.wants.demand.amounts()) };
            match self.sets.get_mut(kind) {
                Some(sizes) => sizes.entry(*size).or_default().put(number, front),
                None => {
                    let sizes = self.sets.entry(kind.clone()).or_default();
                    sizes.entry(*size).or_default().put(number, front);
                }
            }
            return;
        }
        let Some(sizes) = self.sets.get_mut(kind) else { return };
        if let Some(tree) = sizes.get_mut(size) {
            tree.remove(number);
            if tree.len() == 0 {
                sizes.remove(size);
            }
        }
        if sizes.is_empty() {
            self.sets.remove(kind);
        }
    }
}

impl GroupKey {
    fn of(ask: &Ask, zones: u32) -> Self {
        let Ask { key, wants } = ask;
        let amounts = wants.demand.amounts();
        let service = key.instance().map(|key| key.service.name.clone());
        let countables = amounts.countables.iter().map(|(name, count)| (name.clone(), count));
        Self {
            namespace: key.namespace().clone(),
            service,
            ranking: ranking(ask, zones),
            amounts: [amounts.cpu.get(), amounts.memory.get(), amounts.disk.get()],
            countables: countables.collect(),
            constraints: wants.constraints.clone(),
        }
    }
}

fn flat(amounts: &Amounts) -> [u64; 4] {
    [amounts.cpu.get(), amounts.memory.get(), amounts.disk.get(), amounts.containers]
}

/// The keys of a service's instances that wait.
fn service_keys<'a>(
    parked: &'a BTreeMap<WorkKey, Parked>,
    namespace: &Namespace,
    name: &Name,
) -> impl Iterator<Item = &'a WorkKey> {
    let service = ServiceKey { namespace: namespace.clone(), name: name.clone() };
    let key = |index| service.instance(index).to_work();
    parked.range(key(0)..=key(u32::MAX)).map(|(key, _)| key)
}
