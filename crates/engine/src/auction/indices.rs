//! What the registry looks things up in: classes by what they offer, zones and services by name.

use std::collections::BTreeSet;

use sterna_model::{Constraints, Name, Namespace, ServiceKey, WorkKey};

use super::{
    class::{Class, Key},
    registry::Registry,
    service::Service,
};
use hashbrown::Equivalent;

#[derive(Clone, Debug)]
pub(super) struct Zone {
    pub(super) name: Option<Name>,
    pub(super) workers: u32,
    /// How many machines of it there are, here or not, as far as anybody keeps count of them.
    pub(super) machines: u32,
    /// How many of its workers take work.
    pub(super) takers: u32,
}

/// The classes that may have work of the same stack and tags, found once.
#[derive(Clone, Debug)]
pub(super) struct Profile {
    stack: Option<Name>,
    tags: BTreeSet<Name>,
    /// By zone.
    classes: Vec<Vec<u32>>,
}

/// Profiles are found again when they are asked for; more than this many at a time are forgotten.
const PROFILES_MAX: usize = 1024;

impl Profile {
    fn add(&mut self, number: u32, class: &Class) {
        if !class.key.may_have(self.stack.as_ref(), &self.tags) {
            return;
        }
        let zone = class.key.zone as usize;
        if self.classes.len() <= zone {
            self.classes.resize(zone + 1, Vec::new());
        }
        self.classes[zone].push(number);
    }
}

/// Classes, and who may have work of which stack and tags.
impl Registry {
    /// The classes that may have the work, by zone.
    pub(super) fn profile(&mut self, constraints: &Constraints) -> u32 {
        let Constraints { stack, tags, apart_from: _, zones: _ } = constraints;
        if let Some(profile) = self.profile_of.get(stack).and_then(|known| known.get(tags)) {
            return *profile;
        }
        self.ask_for(tags);
        let mut profile = Profile { stack: stack.clone(), tags: tags.clone(), classes: Vec::new() };
        for (number, class) in self.classes.iter() {
            profile.add(number, class);
        }
        let number = u32::try_from(self.profiles.len()).unwrap_or(u32::MAX);
        self.profiles.push(profile);
        self.profile_of.entry(stack.clone()).or_default().insert(tags.clone(), number);
        number
    }

    /// From now on these tags make a difference: who has one of them is in another class.
    fn ask_for(&mut self, tags: &BTreeSet<Name>) {
        for tag in tags {
            if !self.asked_tags.insert(tag.clone()) {
                continue;
            }
            for id in self.tagged.get(tag).cloned().unwrap_or_default() {
                self.move_class(id, |key| {
                    key.optional.insert(tag.clone());
                });
            }
        }
    }

    /// A worker that offers what it did belongs to another class.
    fn move_class(&mut self, id: u32, change: impl FnOnce(&mut Key)) {
        let Some(left) = self.bidder(id).map(|bidder| bidder.class) else { return };
        let mut key = self.classes[left].key.clone();
        change(&mut key);
        let class = self.enter_class(key);
        self.classes[left].members.remove(&id);
        self.classes[left].tree.remove(id);
        self.classes[class].members.insert(id);
        if let Some(bidder) = self.bidder_mut(id) {
            bidder.class = class;
        }
        self.refresh(id);
        self.leave_class(left);
    }

    /// Between two auctions, when no number of a profile is held. With the profiles go the tags that they
    /// asked for, and the classes that there were for those alone.
    pub(super) fn bound_profiles(&mut self) {
        if self.profiles.len() <= PROFILES_MAX {
            return;
        }
        self.profiles.clear();
        self.profile_of.clear();
        self.asked_tags.clear();
        let tagged: BTreeSet<u32> = self.tagged.values().flatten().copied().collect();
        for id in tagged {
            self.move_class(id, |key| key.optional.clear());
        }
    }

    pub(super) fn classes_in(&self, profile: u32, zone: u32) -> &[u32] {
        let zones = &self.profiles[profile as usize].classes;
        zones.get(zone as usize).map_or(&[], Vec::as_slice)
    }

    pub(super) fn enter_class(&mut self, key: Key) -> u32 {
        if let Some(class) = self.class_of.get(&key) {
            return *class;
        }
        let number = self.classes.add(Class::new(key.clone()));
        self.class_of.insert(key, number);
        for profile in &mut self.profiles {
            profile.add(number, &self.classes[number]);
        }
        number
    }

    pub(super) fn leave_class(&mut self, number: u32) {
        if !self.classes[number].members.is_empty() {
            return;
        }
        let Some(class) = self.classes.remove(number) else { return };
        self.class_of.remove(&class.key);
        for profile in &mut self.profiles {
            if let Some(classes) = profile.classes.get_mut(class.key.zone as usize) {
                classes.retain(|other| *other != number);
            }
        }
    }
}

/// Zones.
impl Registry {
    /// Another number whenever there are other zones than before.
    pub(super) const fn zones_changed(&self) -> u64 {
        self.zones_changed
    }

    /// How many there are.
    pub(super) fn zone_count(&self) -> u32 {
        u32::try_from(self.zone_order.len()).unwrap_or(u32::MAX)
    }

    pub(super) fn enter_zone(&mut self, name: Option<&Name>) -> u32 {
        let name = name.cloned();
        if let Some(zone) = self.zone_of.get(&name) {
            return *zone;
        }
        let number =
            self.zones.add(Zone { name: name.clone(), workers: 0, machines: 0, takers: 0 });
        self.zone_of.insert(name, number);
        self.order_zones();
        number
    }

    pub(super) fn leave_zone(&mut self, number: u32) {
        let zone = &self.zones[number];
        let is_named = zone.name.as_ref().is_some_and(|name| self.rules.zones.contains(name));
        if zone.workers == 0 && zone.machines == 0 && !is_named {
            self.zone_of.remove(&zone.name);
            self.zones.remove(number);
            self.order_zones();
        }
    }

    /// There is a machine in this zone, whether its worker is here or not: the zone of an index depends
    /// on how many zones there are, so one that has failed stays one.
    pub fn keep_zone(&mut self, name: Option<&Name>) {
        let zone = self.enter_zone(name);
        self.zones[zone].machines += 1;
    }

    /// There is one machine less in it.
    pub fn release_zone(&mut self, name: Option<&Name>) {
        let Some(zone) = self.zone_of.get(&name.cloned()).copied() else { return };
        let machines = &mut self.zones[zone].machines;
        *machines = machines.saturating_sub(1);
        self.leave_zone(zone);
    }

    pub(super) fn order_zones(&mut self) {
        if self.zone_order.len() != self.zone_of.len()
            || !self.zone_order.iter().eq(self.zone_of.values())
        {
            self.zone_order = self.zone_of.values().copied().collect();
            self.zones_changed += 1;
        }
    }
}

/// A service to be looked up by names that stand in other places.
#[derive(Hash)]
struct ServiceRef<'a> {
    namespace: &'a Namespace,
    name: &'a Name,
}

impl Equivalent<ServiceKey> for ServiceRef<'_> {
    fn equivalent(&self, key: &ServiceKey) -> bool {
        *self.name == key.name && *self.namespace == key.namespace
    }
}

/// Services.
impl Registry {
    pub(super) fn find_service(&self, namespace: &Namespace, name: &Name) -> Option<u32> {
        self.service_of.get(&ServiceRef { namespace, name }).copied()
    }

    /// The service of an instance, if its constraints are remembered or are now; none for work of
    /// other kinds.
    pub(super) fn service_of_key(
        &mut self,
        key: &WorkKey,
        constraints: &Constraints,
    ) -> Option<u32> {
        key.instance().map(|key| self.note_service(&key.service, constraints))
    }

    /// The number of a service; remembers from which others it stays apart.
    pub(super) fn note_service(&mut self, key: &ServiceKey, constraints: &Constraints) -> u32 {
        let number = self.enter_service(&key.namespace, &key.name);
        let known = &self.services[number].apart_from;
        if known.len() == constraints.apart_from.len()
            && known
                .iter()
                .all(|other| constraints.apart_from.contains(&self.services[*other].name))
        {
            return number;
        }
        self.set_apart(number, Vec::new());
        let others = constraints.apart_from.iter();
        let others = others.map(|other| self.enter_service(&key.namespace, other)).collect();
        self.set_apart(number, others);
        number
    }

    pub(super) fn enter_service(&mut self, namespace: &Namespace, name: &Name) -> u32 {
        if let Some(service) = self.find_service(namespace, name) {
            return service;
        }
        let number = self.services.add(Service::new(namespace.clone(), name.clone()));
        let key = ServiceKey { namespace: namespace.clone(), name: name.clone() };
        self.service_of.insert(key, number);
        number
    }

    pub(super) fn set_apart(&mut self, service: u32, others: Vec<u32>) {
        let before = std::mem::replace(&mut self.services[service].apart_from, others.clone());
        for other in before {
            self.services[other].shunned_by.retain(|shunning| *shunning != service);
            self.maybe_idle.push(other);
        }
        for other in others {
            self.services[other].shunned_by.push(service);
        }
    }

    /// Whether there is nothing to remember of a service: it has no instances, nor has anybody who
    /// shuns it.
    fn is_idle(&self, service: u32) -> bool {
        let has_none =
            |service: u32| self.services.get(service).is_some_and(|it| it.instances == 0);
        let known = self.services.get(service);
        has_none(service) && known.is_some_and(|it| it.shunned_by.iter().all(|one| has_none(*one)))
    }

    /// Forgets what there is nothing to remember of. Not within an auction, which holds numbers.
    pub(super) fn drop_idle(&mut self) {
        while let Some(service) = self.maybe_idle.pop() {
            if !self.is_idle(service) {
                continue;
            }
            self.set_apart(service, Vec::new());
            // Whoever shuns it has no instances, and says so again when it asks for some.
            for shunning in std::mem::take(&mut self.services[service].shunned_by) {
                self.services[shunning].apart_from.retain(|shunned| *shunned != service);
                self.maybe_idle.push(shunning);
            }
            let Some(Service { namespace, name, .. }) = self.services.remove(service) else {
                continue;
            };
            self.service_of.remove(&ServiceRef { namespace: &namespace, name: &name });
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use sterna_model::{Amounts, Bytes, Countables, Demand, Millicores, Wants, Work};

    use super::*;
    use crate::auction::{Ask, BidderId, Offer, Rules, Standing};

    fn name(text: &str) -> Name {
        Name::new(text).unwrap()
    }

    /// Workers that each have an optional tag of their own.
    fn tagged(workers: u32) -> Registry {
        let mut registry = Registry::new(Rules::default());
        for number in 0..workers {
            let offer = Offer {
                name: name(&format!("w{number}")),
                zone: None,
                stack: None,
                required: [].into(),
                optional: [name(&format!("t{number}"))].into(),
                total: Amounts { containers: 9, ..Amounts::default() },
                standing: Standing::Taking,
            };
            registry.set(BidderId::new(number), offer);
        }
        registry
    }

    fn ask(service: &str, tags: &[&str]) -> Ask {
        let (cpu, bytes) = (Millicores::new(0), Bytes::new(0));
        let demand = Demand::new(cpu, bytes, bytes, Countables::default());
        let tags = tags.iter().map(|tag| name(tag)).collect();
        let constraints = Constraints { tags, ..Constraints::default() };
        let work = Work::Instance { service: name(service), index: 0 };
        let key = work.within(&Namespace::default());
        Ask { key, wants: Arc::new(Wants { demand, constraints }) }
    }

    #[test]
    fn tags_make_classes_only_when_they_are_asked_for() {
        let mut registry = tagged(100);
        assert_eq!(registry.classes.iter().count(), 1);
        let outcome = registry.auction(&[ask("a", &[]), ask("b", &["t7"]), ask("c", &["t7"])]);
        let bidders: Vec<u32> = outcome.placed.iter().map(|placed| placed.bidder.get()).collect();
        assert_eq!(bidders, [0, 7, 7]);
        assert_eq!(registry.classes.iter().count(), 2);
        // Whoever comes later is put where it belongs at once.
        assert!(registry.remove(BidderId::new(7)));
        assert_eq!(registry.classes.iter().count(), 1);
        assert_eq!(registry.auction(&[ask("d", &["t7"])]).placed, []);
    }

    #[test]
    fn nothing_is_remembered_of_services_without_instances() {
        let mut registry = tagged(1);
        let mut shy = ask("a", &[]);
        let wants = Arc::make_mut(&mut shy.wants);
        wants.constraints.apart_from = [name("a"), name("b")].into();
        let full = ask("full", &["nobody"]);
        registry.auction(&[shy.clone(), full]);
        assert_eq!(registry.services.iter().count(), 2, "a, and b which it shuns");
        let stage = crate::auction::Stage::Starting;
        let occupant = crate::auction::Occupant { key: &shy.key, wants: &shy.wants, stage };
        registry.vacate(BidderId::new(0), occupant).unwrap();
        assert_eq!(registry.services.iter().count(), 0);
        assert_eq!(registry.service_of.len(), 0);
    }

    #[test]
    fn nothing_is_remembered_of_services_that_shun_each_other() {
        let mut registry = tagged(2);
        let apart = |one: &str, other: &str| {
            let mut shy = ask(one, &[]);
            Arc::make_mut(&mut shy.wants).constraints.apart_from = [name(other)].into();
            shy
        };
        let both = [apart("a", "b"), apart("b", "a")];
        let placed = registry.auction(&both).placed;
        assert_eq!(placed.len(), 2);
        let stage = crate::auction::Stage::Starting;
        for (one, counted) in placed.iter().zip([2, 0]) {
            let ask = &both[one.ask];
            let occupant = crate::auction::Occupant { key: &ask.key, wants: &ask.wants, stage };
            registry.vacate(one.bidder, occupant).unwrap();
            assert_eq!(registry.services.iter().count(), counted);
        }
        // They still shun each other when they come again.
        let placed = registry.auction(&both).placed;
        assert_ne!(placed[0].bidder, placed[1].bidder);
    }

    #[test]
    fn profiles_are_bounded() {
        let mut registry = tagged(1);
        for number in 0..PROFILES_MAX * 2 {
            registry.auction(&[ask("a", &[&format!("x{number}")])]);
        }
        assert!(registry.profiles.len() <= PROFILES_MAX + 1);
        assert!(registry.asked_tags.len() <= PROFILES_MAX + 1, "nor more tags than those ask for");
        assert_eq!(registry.auction(&[ask("a", &["t0"])]).placed.len(), 1);
    }

    #[test]
    fn tags_that_nobody_asks_for_any_more_make_no_classes() {
        let mut registry = tagged(3);
        let classes = |registry: &Registry| registry.classes.iter().count();
        assert_eq!(classes(&registry), 1);
        registry.auction(&[ask("a", &["t0"]), ask("b", &["t1"]), ask("c", &["t2"])]);
        assert_eq!(classes(&registry), 3);
        for number in 0..=PROFILES_MAX {
            registry.auction(&[ask("a", &[&format!("x{number}")])]);
        }
        assert_eq!(classes(&registry), 1);
        // Whoever has them is found again, and so is who comes later.
        assert_eq!(registry.auction(&[ask("d", &["t1"])]).placed.len(), 1);
        assert_eq!(classes(&registry), 2);
    }
}
