//! The instances of all services, by service and index.
//!
//! There may be hundreds of thousands, and those of a service are numbered without gaps, mostly: so
//! they stand in one row for each service, without a key of their own.

use std::collections::BTreeMap;

use sterna_model::{Name, Namespace, Work, WorkKey, record::Instance};

use super::ServiceKey;

/// The instances of one service, in the order of their indices.
type Row = Vec<(u32, Instance)>;

#[derive(Clone, Debug, Default)]
pub(super) struct Instances {
    rows: BTreeMap<Namespace, BTreeMap<Name, Row>>,
}

impl Instances {
    pub(super) fn get(&self, key: &WorkKey) -> Option<&Instance> {
        let (name, index) = parts(key)?;
        let row = self.rows.get(&key.namespace)?.get(name)?;
        row.get(find(row, index).ok()?).map(|(_, instance)| instance)
    }

    pub(super) fn get_mut(&mut self, key: &WorkKey) -> Option<&mut Instance> {
        let (name, index) = parts(key)?;
        let row = self.rows.get_mut(&key.namespace)?.get_mut(name)?;
        let at = find(row, index).ok()?;
        row.get_mut(at).map(|(_, instance)| instance)
    }

    pub(super) fn contains(&self, key: &WorkKey) -> bool {
        self.get(key).is_some()
    }

    /// Puts an instance there, in the place of one with its key. What is no instance has no place.
    pub(super) fn insert(&mut self, key: &WorkKey, instance: Instance) {
        let Some((name, index)) = parts(key) else { return };
        let services = self.rows.entry(key.namespace.clone()).or_default();
        let row = services.entry(name.clone()).or_default();
        match find(row, index) {
            Ok(at) => row[at].1 = instance,
            Err(at) => row.insert(at, (index, instance)),
        }
    }

    pub(super) fn remove(&mut self, key: &WorkKey) {
        let Some((name, index)) = parts(key) else { return };
        let Some(services) = self.rows.get_mut(&key.namespace) else { return };
        let Some(row) = services.get_mut(name) else { return };
        if let Ok(at) = find(row, index) {
            row.remove(at);
        }
        if row.is_empty() {
            services.remove(name);
        }
        if services.is_empty() {
            self.rows.remove(&key.namespace);
        }
    }

    /// Those of a service, in the order of their indices.
    pub(super) fn row(&self, service: &ServiceKey) -> &[(u32, Instance)] {
        let row = self.rows.get(&service.namespace).and_then(|all| all.get(&service.name));
        row.map_or(&[][..], Vec::as_slice)
    }

    /// The keys of a service's instances, from this index on.
    pub(super) fn keys_from(&self, service: &ServiceKey, first: u32) -> Vec<WorkKey> {
        let row = self.row(service);
        let at = row.partition_point(|(index, _)| *index < first);
        row.iter().skip(at).map(|(index, _)| service.instance(*index)).collect()
    }

    /// The next so many keys after this one, in their order.
    pub(super) fn keys_after(&self, after: Option<&WorkKey>, count: usize) -> Vec<WorkKey> {
        let spaces = match after {
            Some(key) => self.rows.range(key.namespace.clone()..),
            None => self.rows.range::<Namespace, _>(..),
        };
        let mut keys = Vec::new();
        for (namespace, services) in spaces {
            let last = after.filter(|key| key.namespace == *namespace).and_then(parts);
            let services = match last {
                Some((name, _)) => services.range(name.clone()..),
                None => services.range::<Name, _>(..),
            };
            for (name, row) in services {
                let last = last.filter(|(last, _)| *last == name).map(|(_, index)| index);
                let at = last.map_or(0, |last| row.partition_point(|(index, _)| *index <= last));
                for (index, _) in row.iter().skip(at) {
                    if keys.len() == count {
                        return keys;
                    }
                    let work = Work::Instance { service: name.clone(), index: *index };
                    keys.push(WorkKey { namespace: namespace.clone(), work });
                }
            }
        }
        keys
    }

    /// All keys, in their order.
    pub(super) fn keys(&self) -> Vec<WorkKey> {
        self.iter().map(|(key, _)| key).collect()
    }

    /// All of them, in the order of their keys.
    pub(super) fn iter(&self) -> impl Iterator<Item = (WorkKey, &Instance)> {
        self.rows.iter().flat_map(|(namespace, services)| {
            services.iter().flat_map(move |(name, row)| {
                row.iter().map(move |(index, instance)| {
                    let work = Work::Instance { service: name.clone(), index: *index };
                    (WorkKey { namespace: namespace.clone(), work }, instance)
                })
            })
        })
    }
}

fn parts(key: &WorkKey) -> Option<(&Name, u32)> {
    match &key.work {
        Work::Instance { service, index } => Some((service, *index)),
        Work::Task(_) | Work::Node { .. } => None,
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
    use super::*;
    use sterna_model::WallTime;

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
        assert_eq!(instances.keys().len(), 5);
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
        assert!(instances.rows.is_empty());
    }

    #[test]
    fn other_work_has_no_place_here() {
        let mut instances = Instances::default();
        let task: WorkKey = "default/task/build".parse().unwrap();
        instances.insert(&task, Instance::new(WallTime::EPOCH));
        assert!(instances.keys().is_empty() && instances.get(&task).is_none());
    }
}
