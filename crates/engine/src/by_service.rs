//! What is kept of each service: found by name at once, walked through in the order of names.
//!
//! A step asks for the same service a dozen times, and to find a name among thousands in an ordered map
//! is to compare texts: that was half of a step (ADR 19). So names are found by a hash, which depends on
//! nothing but the name, and nothing ever walks through that map.

use std::{collections::BTreeMap, hash::Hash, ops::RangeBounds};

use hashbrown::{Equivalent, HashMap};
use rustc_hash::FxBuildHasher;
use sterna_model::ServiceKey;

use crate::numbered::Numbered;

/// See the door of this file.
#[derive(Clone, Debug)]
pub(crate) struct ByService<V> {
    places: HashMap<ServiceKey, u32, FxBuildHasher>,
    order: BTreeMap<ServiceKey, u32>,
    values: Numbered<V>,
}

impl<V> Default for ByService<V> {
    fn default() -> Self {
        let places = HashMap::with_hasher(FxBuildHasher);
        Self { places, order: BTreeMap::new(), values: Numbered::default() }
    }
}

impl<V> ByService<V> {
    pub(crate) fn get<Q: Hash + Equivalent<ServiceKey>>(&self, key: &Q) -> Option<&V> {
        self.places.get(key).map(|place| &self.values[*place])
    }

    pub(crate) fn get_mut<Q: Hash + Equivalent<ServiceKey>>(&mut self, key: &Q) -> Option<&mut V> {
        self.places.get(key).map(|place| &mut self.values[*place])
    }

    pub(crate) fn contains<Q: Hash + Equivalent<ServiceKey>>(&self, key: &Q) -> bool {
        self.places.contains_key(key)
    }

    /// Puts it there, in the place of what was.
    pub(crate) fn insert(&mut self, key: ServiceKey, value: V) {
        if let Some(known) = self.get_mut(&key) {
            *known = value;
            return;
        }
        let place = self.values.add(value);
        self.places.insert(key.clone(), place);
        self.order.insert(key, place);
    }

    pub(crate) fn remove<Q: Hash + Equivalent<ServiceKey>>(&mut self, key: &Q) -> Option<V> {
        let (key, place) = self.places.remove_entry(key)?;
        self.order.remove(&key);
        self.values.remove(place)
    }

    pub(crate) fn len(&self) -> usize {
        self.order.len()
    }

    /// All of them, in the order of their names.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&ServiceKey, &V)> {
        self.range(..)
    }

    /// The names, in their order.
    pub(crate) fn keys(&self) -> impl Iterator<Item = &ServiceKey> {
        self.order.keys()
    }

    /// Those with names within bounds, in their order.
    pub(crate) fn range(
        &self,
        bounds: impl RangeBounds<ServiceKey>,
    ) -> impl Iterator<Item = (&ServiceKey, &V)> {
        self.order.range(bounds).map(|(key, place)| (key, &self.values[*place]))
    }
}

#[cfg(test)]
mod tests {
    use sterna_model::{Name, Namespace};

    use super::*;

    fn key(text: &str) -> ServiceKey {
        let (namespace, name) = text.split_once('/').unwrap();
        ServiceKey { namespace: Namespace::new(namespace).unwrap(), name: Name::new(name).unwrap() }
    }

    #[test]
    fn what_was_put_there_is_found_by_either_name_and_told_in_order() {
        let mut all = ByService::default();
        for (name, value) in [("b/web", 1), ("a/web", 2), ("a/api", 3), ("b/web", 4)] {
            all.insert(key(name), value);
        }
        assert_eq!(all.len(), 3);
        assert_eq!(all.get(&key("b/web")), Some(&4), "the last word");
        assert_eq!(all.get(&key("a/web").instance(7).service), Some(&2));
        let names = |all: &ByService<i32>| {
            all.iter().map(|(key, _)| format!("{}/{}", key.namespace, key.name)).collect::<Vec<_>>()
        };
        assert_eq!(names(&all), ["a/api", "a/web", "b/web"]);
        assert_eq!(all.range(key("a/web")..).count(), 2);
        assert_eq!((all.remove(&key("a/web")), all.remove(&key("a/web"))), (Some(2), None));
        all.insert(key("c/web"), 5);
        assert_eq!(names(&all), ["a/api", "b/web", "c/web"], "its place is used again");
        assert_eq!(all.get(&key("c/web")), Some(&5));
    }
}
