//! The instances of all services, by service and index.
//!
//! There may be hundreds of thousands, and those of a service are numbered without gaps, mostly: so
//! they stand in one row for each service, without a key of their own.

use std::ops::Bound;

use sterna_model::{WorkKey, record::Instance};

use super::ServiceKey;
use crate::by_service::{ByService, ServiceRef};

/// The instances of one service, in the order of their indices.
type Row = Vec<(u32, Instance)>;

#[derive(Clone, Debug, Default)]
pub(super) struct Instances {
    rows: ByService<Row>,
    count: usize,
}

impl Instances {
    pub(super) fn get(&self, key: &WorkKey) -> Option<&Instance> {
        let (service, index) = ServiceRef::of(key)?;
        let row = self.rows.get(&service)?;
        row.get(find(row, index).ok()?).map(|(_, instance)| instance)
    }

    pub(super) fn get_mut(&mut self, key: &WorkKey) -> Option<&mut Instance> {
        let (service, index) = ServiceRef::of(key)?;
        let row = self.rows.get_mut(&service)?;
        let at = find(row, index).ok()?;
        row.get_mut(at).map(|(_, instance)| instance)
    }

    pub(super) fn contains(&self, key: &WorkKey) -> bool {
        self.get(key).is_some()
    }

    /// Puts an instance there, in the place of one with its key. What is no instance has no place.
    pub(super) fn insert(&mut self, key: &WorkKey, instance: Instance) {
        let Some((service, index)) = ServiceRef::of(key) else { return };
        let Some(row) = self.rows.get_mut(&service) else {
            self.count += 1;
            return self.rows.insert(service.to_key(), vec![(index, instance)]);
        };
        match find(row, index) {
            Ok(at) => row[at].1 = instance,
            Err(at) => {
                self.count += 1;
                row.insert(at, (index, instance));
            }
        }
    }

    /// How many there are.
    pub(super) const fn len(&self) -> usize {
        self.count
    }

    pub(super) fn remove(&mut self, key: &WorkKey) {
        let Some((service, index)) = ServiceRef::of(key) else { return };
        let Some(row) = self.rows.get_mut(&service) else { return };
        if let Ok(at) = find(row, index) {
            row.remove(at);
            self.count -= 1;
        }
        if row.is_empty() {
            self.rows.remove(&service);
        }
    }

    /// Those of a service, in the order of their indices.
    pub(super) fn row(&self, service: &ServiceKey) -> &[(u32, Instance)] {
        self.rows.get(service).map_or(&[][..], Vec::as_slice)
    }

    /// The keys of a service's instances, from this index on.
    pub(super) fn keys_from(&self, service: &ServiceKey, first: u32) -> Vec<WorkKey> {
        let row = self.row(service);
        let at = row.partition_point(|(index, _)| *index < first);
        row.iter().skip(at).map(|(index, _)| service.instance(*index)).collect()
    }

    /// The next so many keys after this one, in their order.
    pub(super) fn keys_after(&self, after: Option<&WorkKey>, count: usize) -> Vec<WorkKey> {
        let last = after.and_then(ServiceRef::of).map(|(service, index)| (service.to_key(), index));
        let from = last.as_ref().map_or(Bound::Unbounded, |(key, _)| Bound::Included(key.clone()));
        let rows = self.rows.range((from, Bound::Unbounded));
        let keys = rows.flat_map(|(service, row)| {
            let last = last.as_ref().filter(|(last, _)| last == service).map(|(_, index)| *index);
            let at = last.map_or(0, |last| row.partition_point(|(index, _)| *index <= last));
            row.iter().skip(at).map(|(index, _)| service.instance(*index))
        });
        keys.take(count).collect()
    }

    /// All keys, in their order.
    pub(super) fn keys(&self) -> Vec<WorkKey> {
        self.iter().map(|(key, _)| key).collect()
    }

    /// All of them, in the order of their keys.
    pub(super) fn iter(&self) -> impl Iterator<Item = (WorkKey, &Instance)> {
        let rows = self.rows.iter();
        rows.flat_map(|(service, row)| {
            row.iter().map(|(index, instance)| (service.instance(*index), instance))
        })
    }
}

fn find(row: &[(u32, Instance)], index: u32) -> Result<usize, usize> {
    // Most rows have no gaps.
    let guess = index as usize;
    if row.get(guess).is_some_and(|(found, _)| *found == index) {
        return Ok(guess);
    }
    row.binary_search_by_key(&index, |(found, _)| *found)
}

#[cfg(test)]
mod tests {
    use sterna_model::{Name, Namespace, WallTime};

    use super::*;

    fn service(name: &str) -> ServiceKey {
        ServiceKey { namespace: Namespace::default(), name: Name::new(name).unwrap() }
    }

    fn indices(instances: &Instances, service: &ServiceKey, first: u32) -> Vec<String> {
        instances.keys_from(service, first).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn they_are_found_by_service_and_index_with_gaps_and_without() {
        let mut instances = Instances::default();
        let (web, api) = (service("web"), service("api"));
        for index in [3, 0, 7, 1] {
            instances.insert(&web.instance(index), Instance::new(WallTime::EPOCH));
        }
        instances.insert(&api.instance(3), Instance::new(WallTime::EPOCH));
        let found = (0..9).filter(|index| instances.contains(&web.instance(*index)));
        assert_eq!(found.collect::<Vec<_>>(), [0, 1, 3, 7]);
        let expected = ["default/service/web/3", "default/service/web/7"];
        assert_eq!(indices(&instances, &web, 2), expected);
        assert_eq!((instances.keys().len(), instances.len()), (5, 5));
        instances.insert(&web.instance(7), Instance::new(WallTime::EPOCH));
        assert_eq!(instances.len(), 5, "in the place of one");
        assert_eq!(instances.keys()[0], api.instance(3), "in the order of keys");
        let (mut after, mut sliced) = (None, Vec::new());
        loop {
            let slice = instances.keys_after(after.as_ref(), 2);
            let is_over = slice.len() < 2;
            sliced.extend(slice);
            if is_over {
                break;
            }
            after = sliced.last().cloned();
        }
        assert_eq!(sliced, instances.keys(), "some at a time");
    }

    #[test]
    fn what_is_removed_is_gone_and_leaves_nothing() {
        let mut instances = Instances::default();
        let web = service("web");
        instances.insert(&web.instance(0), Instance::new(WallTime::EPOCH));
        instances.insert(&web.instance(1), Instance::new(WallTime::EPOCH));
        instances.remove(&web.instance(0));
        instances.remove(&web.instance(9));
        assert!(!instances.contains(&web.instance(0)));
        assert!(instances.get_mut(&web.instance(1)).is_some());
        instances.remove(&web.instance(1));
        assert_eq!((instances.rows.len(), instances.len()), (0, 0));
    }

    #[test]
    fn other_work_has_no_place_here() {
        let mut instances = Instances::default();
        let task: WorkKey = "default/task/build".parse().unwrap();
        instances.insert(&task, Instance::new(WallTime::EPOCH));
        assert!(instances.keys().is_empty() && instances.get(&task).is_none());
    }
}
