//! How long the updates take that are under way when faults are over: P9 waits for them, and for none
//! that does not go on.
//!
//! An update replaces as many instances at a time as may be missing. Each must end, begin, and have run
//! for as long as its spec says, so that it takes as long as all of them one after the other, by so many
//! at a time, and one more for those that do not come out even. That is counted when a version is first
//! seen to come about, and does not grow while it stands still. One that is never ready is taken back when
//! that has counted as a crash so often as its spec says; what comes about then is another.

use std::collections::BTreeMap;

use sterna_engine::control::ServiceRecord;
use sterna_model::{InstanceKey, ServiceKey, Span, spec::UpdatePolicy};

use super::Stored;
use crate::manners;

/// The updates that were seen since faults are over.
#[derive(Debug, Default)]
pub(crate) struct Rolling {
    /// By their services and versions: how long each takes.
    seen: BTreeMap<(ServiceKey, u64), Span>,
}

impl Rolling {
    /// Notes what comes about now. `replaced_within` says within what an instance ends and another one
    /// begins in its place.
    pub(crate) fn look(&mut self, stored: &Stored, replaced_within: impl Fn(&InstanceKey) -> Span) {
        for (service, record) in stored.services() {
            let outdated = outdated(stored, service, record);
            let takes = takes(outdated.iter().map(&replaced_within), record.spec.update);
            // What is never ready is taken back before it is there.
            let back = record.before.as_ref().and(manners::ready_within(&record.spec.work));
            let back = back.zip(record.spec.update.revert_after);
            let back = back.map_or(Span::ZERO, |(within, times)| within.times(times.into()));
            let takes = takes.plus(back);
            if takes > Span::ZERO {
                let known =
                    self.seen.entry((service.clone(), record.version)).or_insert(Span::ZERO);
                *known = takes.max(*known);
            }
        }
    }

    /// How long the longest of them takes: services do not wait for each other, versions of one do.
    pub(crate) fn longest(&self) -> Span {
        let mut by_service: BTreeMap<&ServiceKey, Span> = BTreeMap::new();
        for ((service, _), takes) in &self.seen {
            let all = by_service.entry(service).or_insert(Span::ZERO);
            *all = all.plus(*takes);
        }
        by_service.into_values().max().unwrap_or(Span::ZERO)
    }
}

/// What of a service is of another version than is wanted.
fn outdated(stored: &Stored, service: &ServiceKey, record: &ServiceRecord) -> Vec<InstanceKey> {
    let all = (0..record.spec.instances).map(|index| service.instance(index));
    let is_outdated = |key: &InstanceKey| {
        let copy = stored.instance(key).and_then(|instance| instance.copy());
        copy.is_some_and(|copy| copy.version != record.version)
    };
    all.filter(is_outdated).collect()
}

/// How long it takes to replace those of which each is replaced within this.
fn takes(replaced_within: impl Iterator<Item = Span>, update: UpdatePolicy) -> Span {
    let each = replaced_within.map(|within| within.plus(update.healthy_for).as_millis());
    let each: Vec<u64> = each.collect();
    let at_a_time = u64::from(update.max_unavailable.max(1));
    let longest = each.iter().max().copied().unwrap_or(0);
    Span::from_millis(each.iter().sum::<u64>() / at_a_time + longest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::words;

    fn seconds(all: &[u64], max_unavailable: u32, healthy_for: u64) -> u64 {
        let healthy_for = Span::from_secs(healthy_for);
        let update = UpdatePolicy { max_unavailable, healthy_for, ..UpdatePolicy::default() };
        takes(all.iter().map(|one| Span::from_secs(*one)), update).as_millis() / 1_000
    }

    #[test]
    fn an_update_takes_as_long_as_all_of_it_by_so_many_at_a_time_and_one_more() {
        assert_eq!(seconds(&[], 1, 10), 0, "what is of its version takes nothing");
        assert_eq!(seconds(&[3; 90], 1, 0), 273);
        assert_eq!(seconds(&[3; 90], 2, 0), 138);
        assert_eq!(seconds(&[3; 90], 0, 0), 273, "one at least may be missing");
        assert_eq!(seconds(&[2, 3, 5], 1, 10), 55, "each must have run for so long");
    }

    #[test]
    fn versions_of_one_service_come_one_after_the_other_and_services_do_not_wait() {
        let mut rolling = Rolling::default();
        assert_eq!(rolling.longest(), Span::ZERO);
        let (web, log) = (words::service("web"), words::service("log"));
        rolling.seen.insert((web.clone(), 1), Span::from_secs(20));
        rolling.seen.insert((web, 2), Span::from_secs(30));
        rolling.seen.insert((log, 7), Span::from_secs(45));
        assert_eq!(rolling.longest(), Span::from_secs(50));
    }
}
