//! The workers that bid, kept current one change at a time.

use std::collections::{BTreeMap, BTreeSet};

use sterna_model::{Amounts, Constraints, Name, ServiceKey, Surplus, WorkKey, Zones};

use super::{
    bidder::{Bidder, BidderId, Occupant, Offer, Stage, Standing},
    class::{Class, Key},
    indices::{Profile, Zone},
    place::Ask,
    score::Rules,
    service::Service,
};
use crate::{by_service::ByService, numbered::Numbered};

/// Every worker that may get work, and what is taken of it.
///
/// It is a function of the offers, the occupants and the zones that are kept alone: in which order they came and what was
/// there before makes no difference to any auction.
#[derive(Clone, Debug, Default)]
pub struct Registry {
    pub(super) rules: Rules,
    bidders: Vec<Option<Bidder>>,
    pub(super) workers: usize,
    /// How many containers are starting on workers that take work: of others nobody knows when they go on.
    pub(super) starting: u32,
    pub(super) classes: Numbered<Class>,
    pub(super) class_of: BTreeMap<Key, u32>,
    /// The tags that anybody has asked for. Others make no difference, and no class.
    pub(super) asked_tags: BTreeSet<Name>,
    /// Who has which optional tag.
    pub(super) tagged: BTreeMap<Name, BTreeSet<u32>>,
    pub(super) zones: Numbered<Zone>,
    pub(super) zone_of: BTreeMap<Option<Name>, u32>,
    /// The zones that there are, by name.
    pub(super) zone_order: Vec<u32>,
    /// Counts the changes of the line above.
    pub(super) zones_changed: u64,
    pub(super) services: Numbered<Service>,
    pub(super) service_of: ByService<u32>,
    /// Services of which there may be nothing left to remember.
    pub(super) maybe_idle: Vec<u32>,
    pub(super) profiles: Vec<Profile>,
    pub(super) profile_of: BTreeMap<Option<Name>, BTreeMap<BTreeSet<Name>, u32>>,
}

/// Why the registry did not change: the caller's model of a worker and this one are not the same.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RegistryError {
    /// There is no such worker; set its offer first.
    #[error("{bidder} is not in the registry: set its offer first")]
    Absent {
        /// Who.
        bidder: BidderId,
    },
    /// There was no such occupant; the worker keeps what it has, and the caller has made a mistake.
    #[error("{key} was not on {bidder}")]
    NotThere {
        /// Who.
        bidder: BidderId,
        /// What.
        key: Box<WorkKey>,
        /// What would have been given back too much, where it was that.
        source: Option<Surplus>,
    },
}

impl Registry {
    /// Without workers.
    pub fn new(rules: Rules) -> Self {
        let mut registry = Self::default();
        for zone in &rules.zones {
            registry.enter_zone(Some(zone));
        }
        registry.rules = rules;
        registry
    }

    /// A worker joined, or offers something else now. What it holds stays.
    pub fn set(&mut self, id: BidderId, offer: Offer) {
        let Offer { name, zone, stack, required, optional, total, standing } = offer;
        let zone = self.enter_zone(zone.as_ref());
        let asked = optional.intersection(&self.asked_tags).cloned().collect();
        let class = self.enter_class(Key::new(zone, stack, (required, asked), &total));
        let (bidder, left) = match self.detach(id.get()) {
            Some(mut bidder) => {
                let left = bidder.class;
                (bidder.name, bidder.class, bidder.standing) = (name, class, standing);
                bidder.optional = optional;
                bidder.resize(total);
                (bidder, Some(left))
            }
            None => (Bidder::new((name, optional), class, standing, total), None),
        };
        self.attach(id.get(), bidder);
        // Only now: what it left and what it entered may be the same.
        if let Some(left) = left {
            self.leave(left);
        }
    }

    /// A worker is gone, and so is what it held. Says whether it was there.
    pub fn remove(&mut self, id: BidderId) -> bool {
        let Some(bidder) = self.detach(id.get()) else { return false };
        self.leave(bidder.class);
        for (service, count) in bidder.holds() {
            self.services[*service].instances -= count;
            self.maybe_idle.push(*service);
        }
        self.drop_idle();
        true
    }

    /// Something is on a worker: it was reported, or placed by somebody else. That it is more than
    /// the worker has is no reason not to believe it.
    ///
    /// # Errors
    /// When there is no such worker.
    pub fn occupy(&mut self, id: BidderId, occupant: Occupant<'_>) -> Result<(), RegistryError> {
        if self.bidder(id.get()).is_none() {
            return Err(RegistryError::Absent { bidder: id });
        }
        let Occupant { key, wants, stage } = occupant;
        let service = self.service_of_key(key, &wants.constraints);
        self.hold(id.get(), service, wants.demand.amounts(), stage);
        self.drop_idle();
        Ok(())
    }

    /// A container that was starting on a worker has started.
    ///
    /// # Errors
    /// When there is no such worker, or nothing was starting there.
    pub fn started(&mut self, id: BidderId, key: &WorkKey) -> Result<(), RegistryError> {
        let Some(bidder) = self.bidder_mut(id.get()) else {
            return Err(RegistryError::Absent { bidder: id });
        };
        if bidder.starting == 0 {
            let key = Box::new(key.clone());
            return Err(RegistryError::NotThere { bidder: id, key, source: None });
        }
        bidder.starting -= 1;
        let is_counted = bidder.standing == Standing::Taking;
        self.starting -= u32::from(is_counted);
        self.refresh(id.get());
        Ok(())
    }

    /// Something is gone from a worker, and with it what it took; not before it is gone
    /// (safety rule 23).
    ///
    /// # Errors
    /// When there is no such worker, or it held nothing of the kind; nothing changes then.
    pub fn vacate(&mut self, id: BidderId, occupant: Occupant<'_>) -> Result<(), RegistryError> {
        let Occupant { key, wants, stage } = occupant;
        let service = self.find_service_of(key);
        let is_instance = key.instance().is_some();
        let Some(bidder) = self.bidder_mut(id.get()) else {
            return Err(RegistryError::Absent { bidder: id });
        };
        let not_there = |source| {
            let key = Box::new(key.clone());
            RegistryError::NotThere { bidder: id, key, source }
        };
        let count = service.map_or(0, |service| bidder.count(service));
        let held = if is_instance { count } else { bidder.tasks };
        if held == 0 || (stage == Stage::Starting && bidder.starting == 0) {
            return Err(not_there(None));
        }
        bidder.give_back(wants.demand.amounts()).map_err(|surplus| not_there(Some(surplus)))?;
        if stage == Stage::Starting {
            bidder.starting -= 1;
            let is_counted = bidder.standing == Standing::Taking;
            self.starting -= u32::from(is_counted);
        }
        match service {
            Some(service) => {
                self.count(id.get(), service, count - 1);
                self.maybe_idle.push(service);
                self.drop_idle();
            }
            None => self.task_gone(id.get()),
        }
        self.refresh(id.get());
        Ok(())
    }

    /// Whether a worker that takes work would hold this if it did not have that occupant. Nothing is
    /// changed.
    pub fn would_hold(&self, id: BidderId, without: Occupant<'_>, ask: &Ask) -> bool {
        let Some(mut bidder) = self.bidder(id.get()).cloned() else { return false };
        if let Some(service) = self.find_service_of(without.key) {
            bidder.set_count(service, bidder.count(service).saturating_sub(1));
        }
        bidder.give_back(without.wants.demand.amounts()).is_ok()
            && bidder.standing == Standing::Taking
            && self.has_room(&bidder, ask)
    }

    /// Whether a worker would hold this if it took work.
    pub fn could_hold(&self, id: BidderId, ask: &Ask) -> bool {
        self.bidder(id.get()).is_some_and(|bidder| self.has_room(bidder, ask))
    }

    fn has_room(&self, bidder: &Bidder, ask: &Ask) -> bool {
        let Constraints { stack, tags, .. } = &ask.wants.constraints;
        self.offers(bidder, stack, tags)
            && ask.wants.demand.amounts().fits(bidder.pool().free())
            && self.is_admitted(bidder, ask)
    }

    /// From now on a service stays apart from others as these constraints say, wherever its instances
    /// run: its spec counts, whatever those that run were started with.
    pub fn set_word(&mut self, service: &ServiceKey, constraints: &Constraints) {
        let number = self.note_service(service, constraints);
        self.maybe_idle.push(number);
        self.drop_idle();
    }

    fn find_service_of(&self, key: &WorkKey) -> Option<u32> {
        let ServiceKey { namespace, name } = &key.instance()?.service;
        self.find_service(namespace, name)
    }

    /// Whether nobody bids.
    pub const fn is_empty(&self) -> bool {
        self.workers == 0
    }

    /// How many workers there are.
    pub const fn len(&self) -> usize {
        self.workers
    }

    /// What people call a worker.
    pub fn name(&self, id: BidderId) -> Option<&Name> {
        self.bidder(id.get()).map(|bidder| &bidder.name)
    }

    /// What a worker has, and what of it is free.
    pub fn pool(&self, id: BidderId) -> Option<&sterna_model::Pool> {
        self.bidder(id.get()).map(Bidder::pool)
    }

    /// How many containers are starting on all workers that take work.
    pub const fn starting(&self) -> u32 {
        self.starting
    }

    /// About how many bytes it takes, all in all.
    pub fn heap_bytes(&self) -> usize {
        let bidders = self.bidders.capacity() * size_of::<Option<Bidder>>();
        let held: usize = self.bidders.iter().flatten().map(Bidder::heap_bytes).sum();
        let classes = self.classes.iter();
        // A number in an ordered set takes about three times its own size.
        let rooms = classes.map(|(_, class)| class.tree.heap_bytes() + class.members.len() * 12);
        bidders + held + rooms.sum::<usize>()
    }
}

/// What the rest of the auction asks of it.
impl Registry {
    pub(super) fn bidder(&self, id: u32) -> Option<&Bidder> {
        self.bidders.get(id as usize)?.as_ref()
    }

    pub(super) fn bidder_mut(&mut self, id: u32) -> Option<&mut Bidder> {
        self.bidders.get_mut(id as usize)?.as_mut()
    }

    /// How many containers more may be starting, if there is a limit.
    pub(super) fn start_room(&self) -> Option<u32> {
        Some(self.rules.start_limit?.saturating_sub(self.starting))
    }

    /// Whether a worker has this stack and these tags, and requires no others.
    pub(super) fn offers(
        &self,
        bidder: &Bidder,
        stack: &Option<Name>,
        tags: &BTreeSet<Name>,
    ) -> bool {
        let key = &self.classes[bidder.class].key;
        let has = |tag| key.required.contains(tag) || bidder.optional.contains(tag);
        key.has_stack(stack.as_ref()) && tags.iter().all(has) && key.required.is_subset(tags)
    }

    /// Whether a worker's zone and those who are on it admit the work.
    pub(super) fn admits(&self, id: u32, ask: &Ask) -> bool {
        self.bidder(id).is_some_and(|bidder| self.is_admitted(bidder, ask))
    }

    fn is_admitted(&self, bidder: &Bidder, ask: &Ask) -> bool {
        let zone = self.classes[bidder.class].key.zone;
        let Constraints { apart_from, zones, .. } = &ask.wants.constraints;
        let service = ask.key.instance().map(|key| &key.service);
        let is_home = match zones {
            Zones::Pinned if service.is_some() => {
                self.pinned_zones(ask).any(|pinned| pinned == zone)
            }
            Zones::Pinned | Zones::Spread => true,
        };
        let find = |name: &Name| self.find_service(ask.key.namespace(), name);
        let shunned = service
            .and_then(|own| find(&own.name))
            .map(|own| self.services[own].shunned_by.as_slice());
        let shunned = shunned.unwrap_or_default().iter().copied();
        let mut avoid = apart_from.iter().filter_map(find).chain(shunned);
        is_home && !avoid.any(|service| bidder.count(service) > 0)
    }

    /// Puts something on a worker that is there.
    pub(super) fn hold(&mut self, id: u32, service: Option<u32>, demand: &Amounts, stage: Stage) {
        let Some(bidder) = self.bidder_mut(id) else { return };
        bidder.take(demand);
        if stage == Stage::Starting {
            bidder.starting += 1;
            let is_counted = bidder.standing == Standing::Taking;
            self.starting += u32::from(is_counted);
        }
        match service {
            Some(service) => {
                let count = self.bidders[id as usize].as_ref().map_or(0, |b| b.count(service));
                self.count(id, service, count + 1);
            }
            None => {
                if let Some(bidder) = self.bidder_mut(id) {
                    bidder.tasks += 1;
                }
            }
        }
        self.refresh(id);
    }

    /// How a worker stands now goes into the tree of its class, if it takes work.
    pub(super) fn refresh(&mut self, id: u32) {
        let Some(bidder) = self.bidders.get(id as usize).and_then(Option::as_ref) else { return };
        let class = &mut self.classes[bidder.class];
        match bidder.standing {
            Standing::Taking => {
                let room = class.room(&self.rules, bidder);
                class.tree.put(id, room);
            }
            Standing::Withheld => {
                class.tree.remove(id);
            }
        }
    }
}

/// Coming and going.
impl Registry {
    fn attach(&mut self, id: u32, bidder: Bidder) {
        for tag in &bidder.optional {
            self.tagged.entry(tag.clone()).or_default().insert(id);
        }
        let class = &mut self.classes[bidder.class];
        class.members.insert(id);
        let zone = class.key.zone;
        self.workers += 1;
        self.zones[zone].workers += 1;
        if bidder.standing == Standing::Taking {
            self.zones[zone].takers += 1;
            self.starting += bidder.starting;
            for (service, count) in bidder.holds() {
                self.services[*service].recount(zone, 0, *count);
            }
        }
        let place = id as usize;
        if self.bidders.len() <= place {
            self.bidders.resize_with(place + 1, || None);
        }
        self.bidders[place] = Some(bidder);
        self.refresh(id);
        self.rank(zone);
    }

    /// Takes a worker out; its class and its zone are not left yet.
    fn detach(&mut self, id: u32) -> Option<Bidder> {
        let bidder = self.bidders.get_mut(id as usize)?.take()?;
        for tag in &bidder.optional {
            if let Some(tagged) = self.tagged.get_mut(tag) {
                tagged.remove(&id);
                if tagged.is_empty() {
                    self.tagged.remove(tag);
                }
            }
        }
        let class = &mut self.classes[bidder.class];
        class.members.remove(&id);
        class.tree.remove(id);
        let zone = class.key.zone;
        self.workers -= 1;
        self.zones[zone].workers -= 1;
        if bidder.standing == Standing::Taking {
            self.zones[zone].takers -= 1;
            self.starting -= bidder.starting;
            for (service, count) in bidder.holds() {
                self.services[*service].recount(zone, *count, 0);
            }
        }
        Some(bidder)
    }

    /// A worker is no longer in a class, nor perhaps in its zone.
    fn leave(&mut self, class: u32) {
        let zone = self.classes[class].key.zone;
        self.rank(zone);
        self.leave_class(class);
        self.leave_zone(zone);
    }

    /// Counts the ranks of a zone anew, where they matter: a worker that comes or goes moves all
    /// that stand after it.
    fn rank(&mut self, zone: u32) {
        if self.rules.first_fit_weight <= 0.0 {
            return;
        }
        let of_zone = |class: &Class| class.key.zone == zone;
        let classes = self.classes.iter().filter(|(_, class)| of_zone(class));
        let mut takers: Vec<u32> = classes.flat_map(|(_, class)| class.tree.numbers()).collect();
        takers.sort_unstable();
        for (rank, id) in (0..).zip(takers) {
            if let Some(bidder) = self.bidder_mut(id)
                && bidder.rank != rank
            {
                bidder.rank = rank;
                self.refresh(id);
            }
        }
    }

    fn count(&mut self, id: u32, service: u32, count: u32) {
        let Some(bidder) = self.bidders.get_mut(id as usize).and_then(Option::as_mut) else {
            return;
        };
        let before = bidder.count(service);
        bidder.set_count(service, count);
        let (class, standing) = (bidder.class, bidder.standing);
        let zone = self.classes[class].key.zone;
        let known = &mut self.services[service];
        known.instances = (known.instances + count).saturating_sub(before);
        if standing == Standing::Taking {
            known.recount(zone, before, count);
        }
    }

    fn task_gone(&mut self, id: u32) {
        if let Some(bidder) = self.bidder_mut(id) {
            bidder.tasks = bidder.tasks.saturating_sub(1);
        }
    }
}
