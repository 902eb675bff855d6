//! An auction that is held and taken back: what would come of it.

use std::collections::BTreeMap;

use sterna_model::{Constraints, ServiceKey};

use super::{
    bidder::{Occupant, Stage},
    place::{Ask, Outcome},
    registry::Registry,
};

impl Registry {
    /// What would come of an auction, if it takes as long as it takes: how many may be starting at a time
    /// does not count. Nothing is different afterwards, though who asks may ask with other constraints than
    /// stand: a plan does.
    pub fn rehearse(&mut self, asks: &[Ask]) -> Outcome {
        let words = self.words_of(asks);
        let limit = self.rules.start_limit.take();
        let outcome = self.auction(asks);
        self.rules.start_limit = limit;
        for placement in &outcome.placed {
            let Ask { key, wants } = &asks[placement.ask];
            let occupant = Occupant { key, wants, stage: Stage::Starting };
            // It was put there just now.
            let taken = self.vacate(placement.bidder, occupant);
            debug_assert!(taken.is_ok(), "{taken:?}");
        }
        for (key, constraints) in words {
            self.set_word(&key, &constraints);
        }
        outcome
    }

    /// From which others the services that ask stay apart, by what stands.
    fn words_of(&self, asks: &[Ask]) -> BTreeMap<ServiceKey, Constraints> {
        let mut words = BTreeMap::new();
        for Ask { key, .. } in asks {
            let Some(service) = key.instance().map(|key| &key.service) else { continue };
            words.entry(service.clone()).or_insert_with(|| {
                let number = self.find_service(&service.namespace, &service.name);
                let others = number.map(|number| self.services[number].apart_from.iter());
                let others = others.into_iter().flatten();
                let apart_from = others.map(|other| self.services[*other].name.clone()).collect();
                Constraints { apart_from, ..Constraints::default() }
            });
        }
        words
    }
}
