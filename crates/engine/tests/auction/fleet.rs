//! Workers and asks, briefly.

use std::{collections::BTreeMap, sync::Arc};

use sterna_engine::auction::{
    Ask, BidderId, Occupant, Offer, Outcome, Reason, Registry, Rules, Stage, Standing,
};
use sterna_model::{
    Amounts, Bytes, Constraints, Countables, Demand, Millicores, Name, Namespace, ServiceKey,
    Wants, Work,
};

pub(crate) fn name(text: &str) -> Name {
    Name::new(text).unwrap()
}

/// Memory, and one each of the others.
pub(crate) fn wants(memory: u64) -> Arc<Wants> {
    constrained(memory, Constraints::default())
}

pub(crate) fn constrained(memory: u64, constraints: Constraints) -> Arc<Wants> {
    let one = Bytes::new(1);
    let demand = Demand::new(Millicores::new(1), Bytes::new(memory), one, Countables::default());
    Arc::new(Wants { demand, constraints })
}

pub(crate) fn instance(service: &str, index: u32, wants: &Arc<Wants>) -> Ask {
    let service = ServiceKey { namespace: Namespace::default(), name: name(service) };
    let key = service.instance(index).into();
    Ask { key, wants: Arc::clone(wants) }
}

/// Instances `0..count` of one service.
pub(crate) fn service(name: &str, count: u32, wants: &Arc<Wants>) -> Vec<Ask> {
    (0..count).map(|index| instance(name, index, wants)).collect()
}

/// As many services, each asked for with another index.
pub(crate) fn unique(prefix: &str, count: u32, wants: &Arc<Wants>) -> Vec<Ask> {
    (0..count).map(|index| instance(&format!("{prefix}-{index}"), index, wants)).collect()
}

pub(crate) fn task(id: &str, wants: &Arc<Wants>) -> Ask {
    let key = Work::Task(name(id)).within(&Namespace::default());
    Ask { key, wants: Arc::clone(wants) }
}

pub(crate) fn total(each: u64) -> Amounts {
    Amounts {
        cpu: Millicores::new(each),
        memory: Bytes::new(each),
        disk: Bytes::new(each),
        containers: each,
        countables: Countables::default(),
    }
}

pub(crate) fn offer(number: u32, zone: &str) -> Offer {
    Offer {
        name: name(&format!("w{number}")),
        zone: (!zone.is_empty()).then(|| name(zone)),
        stack: None,
        required: [].into(),
        optional: [].into(),
        total: total(100),
        standing: Standing::Taking,
    }
}

/// A registry, and what it was told, for counting.
pub(crate) struct Fleet {
    pub(crate) registry: Registry,
    pub(crate) placed: BTreeMap<BidderId, Vec<Ask>>,
    pub(crate) left: Vec<(Ask, Arc<Reason>)>,
}

impl Fleet {
    pub(crate) fn empty(rules: Rules) -> Self {
        Self { registry: Registry::new(rules), placed: BTreeMap::new(), left: Vec::new() }
    }

    /// So many workers of 100 each, in two zones alternating.
    pub(crate) fn new(count: u32) -> Self {
        Self::with_rules(count, Rules::default())
    }

    pub(crate) fn with_rules(count: u32, rules: Rules) -> Self {
        let mut fleet = Self::empty(rules);
        for number in 0..count {
            fleet.add(offer(number, ["z0", "z1"][number as usize % 2]));
        }
        fleet
    }

    /// A worker with the next number.
    pub(crate) fn add(&mut self, offer: Offer) -> BidderId {
        let id = BidderId::new(u32::try_from(self.placed.len()).unwrap());
        self.registry.set(id, offer);
        self.placed.insert(id, Vec::new());
        id
    }

    /// What has been running on a worker for a while.
    pub(crate) fn hold(&mut self, number: u32, asks: &[Ask]) {
        for Ask { key, wants } in asks {
            let occupant = Occupant { key, wants, stage: Stage::Started };
            self.registry.occupy(BidderId::new(number), occupant).unwrap();
        }
    }

    pub(crate) fn auction(&mut self, asks: &[Ask]) -> Outcome {
        let outcome = self.registry.auction(asks);
        for placement in &outcome.placed {
            self.placed.get_mut(&placement.bidder).unwrap().push(asks[placement.ask].clone());
        }
        let left = outcome.left.iter().map(|left| (asks[left.ask].clone(), left.reason.clone()));
        self.left.extend(left);
        outcome
    }

    /// How many each worker got.
    pub(crate) fn counts(&self) -> Vec<usize> {
        self.placed.values().map(Vec::len).collect()
    }

    /// How many the workers of each of two alternating zones got.
    pub(crate) fn zone_counts(&self) -> [Vec<usize>; 2] {
        let of = |zone: usize| self.counts().into_iter().skip(zone).step_by(2).collect();
        [of(0), of(1)]
    }

    /// The keys on a worker, without their namespace and kind.
    pub(crate) fn on(&self, number: u32) -> Vec<String> {
        let placed = self.placed[&BidderId::new(number)].iter();
        let short = |ask: &Ask| ask.key.to_string().splitn(3, '/').nth(2).unwrap().to_owned();
        let mut keys: Vec<String> = placed.map(short).collect();
        keys.sort();
        keys
    }

    pub(crate) fn reason(&self) -> &Reason {
        let [(_, reason)] = self.left.as_slice() else { panic!("{:?} are left", self.left) };
        reason
    }
}

/// That all of these are within `tolerance` of their mean.
pub(crate) fn assert_even(counts: &[usize], tolerance: f64) {
    let mean = counts.iter().sum::<usize>() as f64 / counts.len() as f64;
    for count in counts {
        let off = (*count as f64 - mean).abs();
        assert!(off <= tolerance, "{count} is {off} off the mean of {mean}: {counts:?}");
    }
}

/// The same numbers in every run.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 1) % bound
    }

    pub(crate) fn shuffle<T>(&mut self, items: &mut [T]) {
        for at in (1..items.len()).rev() {
            let other = usize::try_from(self.below(at as u64 + 1)).unwrap();
            items.swap(at, other);
        }
    }
}
