//! The instances of all services, by service and index.
//!
//! There may be hundreds of thousands, and those of a service are numbered without gaps, mostly: so
//! they stand in pages of some dozen for each service, without a key of their own. A page is short enough
//! that one can be taken out of its middle: a service that is deleted goes from its first index on.

use std::{collections::BTreeMap, ops::Bound};

use sterna_model::{InstanceKey, ServiceKey, record::Instance};

use crate::by_service::ByService;

/// How many indices a page is for.
const PAGE: u32 = 64;

/// The instances of some indices in a row, in their order.
type Page = Vec<(u32, Instance)>;

/// The instances of one service, by page.
type Row = BTreeMap<u32, Page>;

#[derive(Clone, Debug, Default)]
pub(super) struct Instances {
    rows: ByService<Row>,
    count: usize,
}

impl Instances {
    pub(super) fn get(&self, key: &InstanceKey) -> Option<&Instance> {
        let page = self.rows.get(&key.service)?.get(&(key.index / PAGE))?;
        page.get(find(page, key.index).ok()?).map(|(_, instance)| instance)
    }

    pub(super) fn get_mut(&mut self, key: &InstanceKey) -> Option<&mut Instance> {
        let page = self.rows.get_mut(&key.service)?.get_mut(&(key.index / PAGE))?;
        let at = find(page, key.index).ok()?;
        page.get_mut(at).map(|(_, instance)| instance)
    }

    pub(super) fn contains(&self, key: &InstanceKey) -> bool {
        self.get(key).is_some()
    }

    /// Puts an instance there, in the place of one with its key.
    pub(super) fn insert(&mut self, key: &InstanceKey, instance: Instance) {
        let InstanceKey { service, index } = key;
        let index = *index;
        if !self.rows.contains(service) {
            self.rows.insert(service.clone(), Row::new());
        }
        let Some(row) = self.rows.get_mut(service) else { return };
        let page = row.entry(index / PAGE).or_default();
        match find(page, index) {
            Ok(at) => page[at].1 = instance,
            Err(at) => {
                self.count += 1;
                page.insert(at, (index, instance));
            }
        }
    }

    /// How many there are.
    pub(super) const fn len(&self) -> usize {
        self.count
    }

    pub(super) fn remove(&mut self, key: &InstanceKey) {
        let InstanceKey { service, index } = key;
        let index = *index;
        let Some(row) = self.rows.get_mut(service) else { return };
        let Some(page) = row.get_mut(&(index / PAGE)) else { return };
        if let Ok(at) = find(page, index) {
            #[cfg(test)]
            MOVED.set(MOVED.get() + page.len() - at);
            page.remove(at);
            self.count -= 1;
        }
        if page.is_empty() {
            row.remove(&(index / PAGE));
        }
        if row.is_empty() {
            self.rows.remove(service);
        }
    }

    /// Those of a service from this index on, in the order of their indices.
    fn row_from<'a>(
        &'a self,
        service: &ServiceKey,
        first: u32,
    ) -> impl Iterator<Item = (u32, &'a Instance)> + use<'a> {
        self.rows.get(service).into_iter().flat_map(move |row| walk(row, first))
    }

    /// Those of a service, in the order of their indices.
    pub(super) fn row<'a>(
        &'a self,
        service: &ServiceKey,
    ) -> impl Iterator<Item = (u32, &'a Instance)> + use<'a> {
        self.row_from(service, 0)
    }

    /// The keys of a service's instances, from this index on.
    pub(super) fn keys_from(&self, service: &ServiceKey, first: u32) -> Vec<InstanceKey> {
        self.row_from(service, first).map(|(index, _)| service.instance(index)).collect()
    }

    /// The next so many keys after this one, in their order.
    pub(super) fn keys_after(&self, after: Option<&InstanceKey>, count: usize) -> Vec<InstanceKey> {
        let from = after.map_or(Bound::Unbounded, |after| Bound::Included(after.service.clone()));
        let rows = self.rows.range((from, Bound::Unbounded));
        let keys = rows.flat_map(|(service, row)| {
            let last = after.filter(|after| after.service == *service).map(|after| after.index);
            let rest = walk(row, last.unwrap_or(0));
            let rest = rest.skip_while(move |(index, _)| last.is_some_and(|last| *index <= last));
            rest.map(|(index, _)| service.instance(index))
        });
        keys.take(count).collect()
    }

    /// All keys, in their order.
    pub(super) fn keys(&self) -> Vec<InstanceKey> {
        self.iter().map(|(key, _)| key).collect()
    }

    /// All of them, in the order of their keys.
    pub(super) fn iter(&self) -> impl Iterator<Item = (InstanceKey, &Instance)> {
        let rows = self.rows.iter();
        rows.flat_map(|(service, row)| {
            walk(row, 0).map(|(index, instance)| (service.instance(index), instance))
        })
    }
}

/// Those of a row from this index on.
fn walk(row: &Row, first: u32) -> impl Iterator<Item = (u32, &Instance)> {
    let pages = row.range(first / PAGE..).flat_map(|(_, page)| page);
    // Only the first page has any before it.
    pages.skip_while(move |(index, _)| *index < first).map(|(index, one)| (*index, one))
}

fn find(page: &[(u32, Instance)], index: u32) -> Result<usize, usize> {
    // Most pages have no gaps.
    let guess = (index % PAGE) as usize;
    if page.get(guess).is_some_and(|(found, _)| *found == index) {
        return Ok(guess);
    }
    page.binary_search_by_key(&index, |(found, _)| *found)
}

#[cfg(test)]
thread_local! {
    /// How many instances stood behind those that were taken out.
    static MOVED: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
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

    /// The rest of the row was moved for each: of 100,000 that took half a minute.
    #[test]
    fn to_take_out_the_first_costs_little_however_many_follow() {
        for many in [1_000, 4_000] {
            let mut instances = Instances::default();
            let web = service("web");
            for index in 0..many {
                instances.insert(&web.instance(index), Instance::new(WallTime::EPOCH));
            }
            MOVED.set(0);
            for index in 0..many {
                assert_eq!(instances.len(), (many - index) as usize);
                instances.remove(&web.instance(index));
            }
            assert!(MOVED.get() <= (many * PAGE) as usize, "{} moved", MOVED.get());
            assert_eq!((instances.rows.len(), instances.len()), (0, 0));
        }
    }

    #[test]
    fn they_are_told_in_order_from_any_index_across_pages() {
        let mut instances = Instances::default();
        let web = service("web");
        let all = [0, 63, 64, 65, 127, 200, u32::MAX];
        for index in all.into_iter().rev() {
            instances.insert(&web.instance(index), Instance::new(WallTime::EPOCH));
        }
        for first in all.into_iter().chain([1, 66, 128, 201]) {
            let told: Vec<u32> = instances.row_from(&web, first).map(|(index, _)| index).collect();
            let expected: Vec<u32> = all.into_iter().filter(|index| *index >= first).collect();
            assert_eq!(told, expected, "from {first}");
            let key = web.instance(first);
            let after = expected.into_iter().filter(|index| *index > first);
            let after: Vec<_> = after.map(|index| web.instance(index)).collect();
            assert_eq!(instances.keys_after(Some(&key), 9), after, "after {first}");
        }
    }
}
