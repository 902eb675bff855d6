//! What holds of every auction, whatever the fleet and the batch.

use std::{collections::BTreeMap, sync::Arc};

use proptest::{collection::vec, option, prelude::*, sample};
use sterna_engine::auction::{
    Ask, BidderId, Change, Occupant, Offer, Outcome, Prospect, Registry, Rules, Stage, Standing,
    Waiting,
};
use sterna_model::{
    Amounts, Bytes, Constraints, Countables, Demand, Millicores, Name, Namespace, Wants, Work,
    WorkKey, Zones,
};

use crate::fleet::name;

const SERVICES: [&str; 4] = ["a", "b", "c", "d"];

fn subset(of: &'static [&'static str]) -> impl Strategy<Value = std::collections::BTreeSet<Name>> {
    sample::subsequence(of, 0..=of.len()).prop_map(|names| names.into_iter().map(name).collect())
}

fn amounts() -> impl Strategy<Value = Amounts> {
    (1..20_u64, 1..20_u64, 1..20_u64, 1..6_u64, 0..3_u64).prop_map(
        |(cpu, memory, disk, containers, gpu)| Amounts {
            cpu: Millicores::new(cpu),
            memory: Bytes::new(memory),
            disk: Bytes::new(disk),
            containers,
            countables: [(name("gpu"), gpu)].into_iter().collect(),
        },
    )
}

fn offer() -> impl Strategy<Value = Offer> {
    let zone = option::of(sample::select(vec!["x", "y", "z"]));
    let stack = option::of(sample::select(vec!["arm", "x86"]));
    let tags = (subset(&["r"]), subset(&["o", "p"]));
    let standing = prop_oneof![5 => Just(Standing::Taking), 1 => Just(Standing::Withheld)];
    (zone, stack, tags, amounts(), standing).prop_map(
        |(zone, stack, (required, optional), total, standing)| Offer {
            name: name("w"),
            zone: zone.map(name),
            stack: stack.map(name),
            required,
            optional,
            total,
            standing,
        },
    )
}

fn wants() -> impl Strategy<Value = Arc<Wants>> {
    let stack = option::weighted(0.2, sample::select(vec!["arm", "x86"]));
    let tags = prop_oneof![3 => Just([].into()), 1 => subset(&["r", "o", "p"])];
    let apart = prop_oneof![3 => Just([].into()), 1 => subset(&SERVICES)];
    let zones = sample::select(vec![Zones::Spread, Zones::Spread, Zones::Pinned]);
    let gpu = prop_oneof![4 => Just(0), 1 => Just(1_u64)];
    ((0..6_u64, 0..6_u64, 0..6_u64, gpu), stack, tags, apart, zones).prop_map(
        |((cpu, memory, disk, gpu), stack, tags, apart_from, zones)| {
            let countables: Countables = [(name("gpu"), gpu)].into_iter().collect();
            let demand =
                Demand::new(Millicores::new(cpu), Bytes::new(memory), Bytes::new(disk), countables);
            let stack = stack.map(name);
            Arc::new(Wants { demand, constraints: Constraints { stack, tags, apart_from, zones } })
        },
    )
}

/// Asks of few services, each of which has one spec; and of tasks.
fn asks(specs: [Arc<Wants>; 5], max: usize) -> impl Strategy<Value = Vec<Ask>> {
    vec((0..5_usize, 0..5_u32), 0..max).prop_map(move |picks| {
        let ask = |(service, number): (usize, u32)| {
            let work = match SERVICES.get(service) {
                Some(service) => Work::Instance { service: name(service), index: number },
                None => Work::Task(name(&format!("t{number}"))),
            };
            let key = work.within(&Namespace::default());
            Ask { key, wants: Arc::clone(&specs[service]) }
        };
        picks.into_iter().map(ask).collect()
    })
}

#[derive(Clone, Debug)]
enum Step {
    Set(u32, Box<Offer>),
    Remove(u32),
    Auction(Vec<Ask>),
    /// Of what is there, which has started or is gone.
    Start(sample::Index),
    Vacate(sample::Index),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    [wants(), wants(), wants(), wants(), wants()].prop_flat_map(|specs| {
        let step = prop_oneof![
            4 => (0..8_u32, offer()).prop_map(|(id, offer)| Step::Set(id, Box::new(offer))),
            1 => (0..8_u32).prop_map(Step::Remove),
            4 => asks(specs, 12).prop_map(Step::Auction),
            2 => any::<sample::Index>().prop_map(Step::Start),
            3 => any::<sample::Index>().prop_map(Step::Vacate),
        ];
        vec(step, 1..40)
    })
}

fn rules() -> impl Strategy<Value = Rules> {
    (any::<bool>(), option::weighted(0.3, 1..6_u32)).prop_map(|(packs, start_limit)| Rules {
        first_fit_weight: if packs { 0.5 } else { 0.0 },
        start_limit,
        zones: [name("x")].into(),
        ..Rules::default()
    })
}

/// What a caller knows: the offers, and who is where.
struct World {
    rules: Rules,
    registry: Registry,
    offers: BTreeMap<u32, Offer>,
    there: Vec<(u32, Ask, Stage)>,
}

impl World {
    fn new(rules: Rules) -> Self {
        let registry = Registry::new(rules.clone());
        Self { rules, registry, offers: BTreeMap::new(), there: Vec::new() }
    }

    /// Does a step; an auction's outcome, and the worker that it changed.
    fn play(&mut self, step: Step) -> (Option<(Vec<Ask>, Outcome)>, Option<u32>) {
        match step {
            Step::Set(id, offer) => {
                self.registry.set(BidderId::new(id), (*offer).clone());
                self.offers.insert(id, *offer);
                (None, Some(id))
            }
            Step::Remove(id) => {
                let was_there = self.offers.remove(&id).is_some();
                assert_eq!(self.registry.remove(BidderId::new(id)), was_there);
                self.there.retain(|(on, ..)| *on != id);
                (None, Some(id))
            }
            Step::Auction(mut asks) => {
                // A key that is somewhere asks for nothing.
                asks.retain(|ask| self.there.iter().all(|(_, other, _)| other.key != ask.key));
                let outcome = self.auction(&asks);
                (Some((asks, outcome)), None)
            }
            Step::Start(pick) => {
                let starting = self.there.iter_mut().filter(|(.., s)| *s == Stage::Starting);
                let mut starting: Vec<_> = starting.collect();
                if starting.is_empty() {
                    return (None, None);
                }
                let at = pick.index(starting.len());
                let (id, ask, stage) = &mut *starting[at];
                *stage = Stage::Started;
                self.registry.started(BidderId::new(*id), &ask.key).unwrap();
                (None, Some(*id))
            }
            Step::Vacate(pick) => {
                if self.there.is_empty() {
                    return (None, None);
                }
                let (id, ask, stage) = self.there.remove(pick.index(self.there.len()));
                let occupant = Occupant { key: &ask.key, wants: &ask.wants, stage };
                self.registry.vacate(BidderId::new(id), occupant).unwrap();
                (None, Some(id))
            }
        }
    }

    fn auction(&mut self, asks: &[Ask]) -> Outcome {
        let outcome = self.registry.auction(asks);
        for placed in &outcome.placed {
            let ask = asks[placed.ask].clone();
            self.there.push((placed.bidder.get(), ask, Stage::Starting));
        }
        outcome
    }

    /// The same, from what is now alone, told in another order.
    fn rebuilt(&self) -> Registry {
        let mut registry = Registry::new(self.rules.clone());
        for (id, offer) in self.offers.iter().rev() {
            registry.set(BidderId::new(*id), offer.clone());
        }
        for (id, ask, stage) in self.there.iter().rev() {
            let occupant = Occupant { key: &ask.key, wants: &ask.wants, stage: *stage };
            registry.occupy(BidderId::new(*id), occupant).unwrap();
        }
        registry
    }

    fn used(&self, id: u32) -> Amounts {
        let there = self.there.iter().filter(|(on, ..)| *on == id);
        there.fold(Amounts::default(), |sum, (_, ask, _)| sum.plus(ask.wants.demand.amounts()))
    }

    fn may_have(&self, id: u32, constraints: &Constraints) -> bool {
        let offer = &self.offers[&id];
        let has = |tag: &Name| offer.required.contains(tag) || offer.optional.contains(tag);
        (constraints.stack.is_none() || constraints.stack == offer.stack)
            && constraints.tags.iter().all(has)
            && offer.required.iter().all(|tag| constraints.tags.contains(tag))
    }

    /// Whether a worker could get the work now.
    fn is_eligible(&self, id: u32, ask: &Ask) -> bool {
        let (offer, constraints) = (&self.offers[&id], &ask.wants.constraints);
        let free = offer.total.less(&self.used(id));
        let is_apart = self.services_on(id).iter().all(|(service, theirs)| {
            let own = ask.key.instance();
            let own = own.is_some_and(|own| theirs.apart_from.contains(&own.service.name));
            !own && !constraints.apart_from.contains(service)
        });
        offer.standing == Standing::Taking
            && self.may_have(id, constraints)
            && ask.wants.demand.amounts().fits(&free)
            && is_apart
    }

    /// A worker's bid, plainly computed.
    fn bid(&self, id: u32, ask: &Ask) -> f64 {
        let (total, used) = (&self.offers[&id].total, self.used(id));
        let need = ask.wants.demand.amounts();
        let share =
            |used: u64, need: u64, total: u64| (used.min(total) + need) as f64 / total as f64 / 3.0;
        let resource = share(used.memory.get(), need.memory.get(), total.memory.get())
            + share(used.disk.get(), need.disk.get(), total.disk.get())
            + share(used.containers, need.containers, total.containers);
        let there: Vec<_> = self.there.iter().filter(|(on, ..)| *on == id).collect();
        let starting = there.iter().filter(|(.., stage)| *stage == Stage::Starting).count();
        let same = there.iter().filter(|(_, other, _)| is_alike(ask, other));
        let is_before = |(other, offer): &(&u32, &Offer)| {
            **other < id
                && offer.standing == Standing::Taking
                && offer.zone == self.offers[&id].zone
        };
        let ranked = ask.key.instance().map(|_| self.offers.iter().filter(is_before).count());
        let rank = ranked.unwrap_or(0);
        resource
            + starting as f64 * self.rules.starting_weight
            + same.count() as f64 * 1000.0
            + rank as f64 * self.rules.first_fit_weight
    }

    /// How many instances of the work's service the takers of a zone have.
    fn in_zone(&self, zone: Option<&Name>, ask: &Ask) -> usize {
        let is_there = |id: &u32| {
            let offer = &self.offers[id];
            offer.zone.as_ref() == zone && offer.standing == Standing::Taking
        };
        let is_same = |other: &Ask| ask.key.instance().is_some() && is_alike(ask, other);
        self.there.iter().filter(|(id, other, _)| is_there(id) && is_same(other)).count()
    }

    fn services_on(&self, id: u32) -> Vec<(&Name, &Constraints)> {
        let there = self.there.iter().filter(|(on, ..)| *on == id);
        there
            .filter_map(|(_, ask, _)| Some((ask.key.instance()?, &ask.wants.constraints)))
            .map(|(key, constraints)| (&key.service.name, constraints))
            .collect()
    }
}

/// Whether both are of one service, or neither is of any.
fn is_alike(one: &Ask, other: &Ask) -> bool {
    let service = |ask: &Ask| ask.key.instance().map(|key| key.service.clone());
    service(one) == service(other)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn nothing_is_placed_over_capacity(rules in rules(), steps in steps()) {
        let mut world = World::new(rules);
        for step in steps {
            let (auction, _) = world.play(step);
            if let Some((asks, outcome)) = &auction {
                for placed in &outcome.placed {
                    // A worker may have less than it took; of that nothing more is taken.
                    let id = placed.bidder.get();
                    let over = world.used(id).less(&world.offers[&id].total);
                    let taken = asks[placed.ask].wants.demand.amounts();
                    prop_assert_eq!(taken.at_most(&over), Amounts::default());
                }
            }
            for (id, offer) in &world.offers {
                let pool = world.registry.pool(BidderId::new(*id)).unwrap();
                prop_assert_eq!(pool.free(), &offer.total.less(&world.used(*id)));
            }
        }
    }

    #[test]
    fn what_is_placed_satisfies_all_constraints(rules in rules(), steps in steps()) {
        let mut world = World::new(rules);
        for step in steps {
            let before = world.there.len();
            let (Some((asks, outcome)), _) = world.play(step) else { continue };
            for (at, placed) in outcome.placed.iter().enumerate() {
                let (id, ask) = (placed.bidder.get(), &asks[placed.ask]);
                let constraints = &ask.wants.constraints;
                prop_assert!(world.may_have(id, constraints));
                prop_assert_eq!(world.offers[&id].standing, Standing::Taking);
                // Who was there when it came.
                let later = world.there.split_off(before + at);
                for (service, theirs) in world.services_on(id) {
                    prop_assert!(!constraints.apart_from.contains(service));
                    if let Some(own) = ask.key.instance() {
                        prop_assert!(!theirs.apart_from.contains(&own.service.name));
                    }
                }
                world.there.extend(later);
            }
            if let Some(limit) = world.rules.start_limit
                && !outcome.placed.is_empty()
            {
                prop_assert!(world.registry.starting() <= limit);
            }
        }
    }

    #[test]
    fn the_winner_bids_least_of_all_that_could_have_it(rules in rules(), steps in steps()) {
        let mut world = World::new(rules);
        for step in steps {
            let before = world.there.len();
            let (Some((asks, outcome)), _) = world.play(step) else { continue };
            let placed = world.there.split_off(before);
            for (winner, entry) in outcome.placed.iter().zip(placed) {
                let ask = &asks[winner.ask];
                let zone = |id: u32| world.in_zone(world.offers[&id].zone.as_ref(), ask);
                let mut could: Vec<u32> = world.offers.keys().copied().collect();
                could.retain(|id| world.is_eligible(*id, ask));
                match (ask.wants.constraints.zones, ask.key.instance()) {
                    (Zones::Spread, Some(_)) => {
                        let fewest = could.iter().map(|id| zone(*id)).min();
                        could.retain(|id| Some(zone(*id)) == fewest);
                    }
                    (Zones::Pinned, Some(_)) => {
                        let home = &world.offers[&winner.bidder.get()].zone;
                        could.retain(|id| &world.offers[id].zone == home);
                    }
                    (_, None) => {}
                }
                let score = winner.score.workers();
                let own = world.bid(winner.bidder.get(), ask);
                prop_assert!((own - score).abs() < 1e-6, "{own} is not {score}");
                prop_assert!(could.contains(&winner.bidder.get()));
                for id in could {
                    let theirs = world.bid(id, ask);
                    prop_assert!(score < theirs + 1e-6, "{theirs} of {id} is below {score}");
                }
                world.there.push(entry);
            }
        }
    }

    #[test]
    fn every_key_of_a_batch_is_placed_or_left_once(rules in rules(), steps in steps()) {
        let mut world = World::new(rules);
        for step in steps {
            let (Some((asks, outcome)), _) = world.play(step) else { continue };
            let placed = outcome.placed.iter().map(|placed| placed.ask);
            let told = placed.chain(outcome.left.iter().map(|left| left.ask));
            let mut keys: Vec<&WorkKey> = told.map(|ask| &asks[ask].key).collect();
            keys.sort();
            let mut expected: Vec<&WorkKey> = asks.iter().map(|ask| &ask.key).collect();
            expected.sort();
            expected.dedup();
            prop_assert_eq!(keys, expected);
        }
    }

    #[test]
    fn what_was_kept_current_decides_as_what_is_built_anew(rules in rules(), steps in steps()) {
        let mut world = World::new(rules);
        for step in steps {
            let mut rebuilt = world.rebuilt();
            let (Some((asks, outcome)), _) = world.play(step) else { continue };
            let again = rebuilt.auction(&asks);
            prop_assert_eq!(&outcome, &again);
            prop_assert_eq!(rebuilt.starting(), world.registry.starting());
        }
    }

    #[test]
    fn who_must_wait_could_be_held_by_an_empty_worker_and_nobody_else(
        rules in rules(),
        steps in steps(),
    ) {
        let mut world = World::new(rules);
        for step in steps {
            let (Some((asks, outcome)), _) = world.play(step) else { continue };
            for left in &outcome.left {
                let ask = &asks[left.ask];
                let is_pinned = ask.wants.constraints.zones == Zones::Pinned;
                if is_pinned && ask.key.instance().is_some_and(|key| key.index >= 2) {
                    continue;
                }
                let could = world.offers.iter().any(|(id, offer)| {
                    world.may_have(*id, &ask.wants.constraints)
                        && ask.wants.demand.amounts().fits(&offer.total)
                });
                prop_assert_eq!(left.reason.prospect() == Prospect::Wait, could);
            }
        }
    }

    #[test]
    fn nothing_that_could_be_placed_stays_parked(rules in rules(), steps in steps()) {
        let mut world = World::new(rules);
        let mut waiting = Waiting::new();
        for step in steps {
            let (auction, changed) = world.play(step);
            if let Some((asks, outcome)) = auction {
                for ask in &asks {
                    waiting.forget(&ask.key);
                }
                for left in &outcome.left {
                    waiting.park(&world.registry, asks[left.ask].clone(), &left.reason);
                }
            }
            let worker = changed.map(|id| Change::Worker(BidderId::new(id)));
            for change in worker.into_iter().chain([Change::Started]) {
                let mut rounds = 0;
                loop {
                    let mut woken = Vec::new();
                    if waiting.wake(&world.registry, change, &mut woken) == 0 {
                        break;
                    }
                    rounds += 1;
                    prop_assert!(rounds < 100, "it goes round in circles");
                    let outcome = world.auction(&woken);
                    for left in outcome.left {
                        waiting.park(&world.registry, woken[left.ask].clone(), &left.reason);
                    }
                }
            }
            let parked: Vec<Ask> = waiting.iter().cloned().collect();
            let missed = world.registry.clone().auction(&parked).placed;
            let missed: Vec<_> = missed.iter().map(|placed| &parked[placed.ask]).collect();
            prop_assert!(missed.is_empty(), "{missed:?}");
        }
    }
}
