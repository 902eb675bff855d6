//! What the auction remembers of a service: where its instances are, and whom it avoids.

use sterna_model::{Name, Namespace};

/// A service of which there are instances, or that is asked for.
#[derive(Clone, Debug)]
pub(super) struct Service {
    pub(super) namespace: Namespace,
    pub(super) name: Name,
    /// Its instances on workers that take work, by zone.
    zones: Vec<Tally>,
    /// All its instances, wherever.
    pub(super) instances: u32,
    /// The services from which it must be apart, by its own word.
    pub(super) apart_from: Vec<u32>,
    /// The services that must be apart from it, by theirs.
    pub(super) shunned_by: Vec<u32>,
}

/// The instances of a service in one zone.
#[derive(Clone, Debug, Default)]
struct Tally {
    instances: u32,
    /// How many workers have one instance, two, and so on.
    workers: Vec<u32>,
}

impl Service {
    pub(super) const fn new(namespace: Namespace, name: Name) -> Self {
        Self {
            namespace,
            name,
            zones: Vec::new(),
            instances: 0,
            apart_from: Vec::new(),
            shunned_by: Vec::new(),
        }
    }

    /// How many instances are in a zone.
    pub(super) fn in_zone(&self, zone: u32) -> u32 {
        self.zones.get(zone as usize).map_or(0, |tally| tally.instances)
    }

    /// How many instances each of the `takers` of a zone has at least.
    pub(super) fn least_in(&self, zone: u32, takers: u32) -> u32 {
        let Some(tally) = self.zones.get(zone as usize) else { return 0 };
        if tally.workers.iter().sum::<u32>() < takers {
            return 0;
        }
        let least = tally.workers.iter().position(|workers| *workers > 0);
        least.map_or(0, |at| u32::try_from(at).unwrap_or(u32::MAX).saturating_add(1))
    }

    /// A worker of a zone that had so many instances has another number of them now.
    pub(super) fn recount(&mut self, zone: u32, before: u32, after: u32) {
        let zone = zone as usize;
        if self.zones.len() <= zone {
            self.zones.resize(zone + 1, Tally::default());
        }
        let tally = &mut self.zones[zone];
        tally.instances = (tally.instances + after).saturating_sub(before);
        if before > 0 {
            tally.workers[before as usize - 1] -= 1;
        }
        if after > 0 {
            let at = after as usize - 1;
            if tally.workers.len() <= at {
                tally.workers.resize(at + 1, 0);
            }
            tally.workers[at] += 1;
        }
    }

    /// A number that is this service's for good, whatever else there is.
    pub(super) fn home(namespace: &Namespace, name: &Name) -> u64 {
        // FNV-1a. Changing it moves every pinned service to another zone.
        let text = namespace.as_str().bytes().chain([b'/']).chain(name.as_str().bytes());
        text.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn web() -> Service {
        Service::new(Namespace::default(), Name::new("web").unwrap())
    }

    #[test]
    fn every_worker_has_at_least_so_many() {
        let mut web = web();
        assert_eq!(web.least_in(2, 0), 0);
        for (before, after) in [(0, 1), (0, 1), (1, 2)] {
            web.recount(2, before, after);
        }
        assert_eq!((web.in_zone(2), web.in_zone(0)), (3, 0));
        assert_eq!([web.least_in(2, 3), web.least_in(2, 2), web.least_in(0, 2)], [0, 1, 0]);
        web.recount(2, 1, 3);
        assert_eq!(web.least_in(2, 2), 2);
        web.recount(2, 3, 0);
        assert_eq!((web.in_zone(2), web.least_in(2, 2)), (2, 0));
    }

    #[test]
    fn the_home_of_a_service_is_the_same_for_ever() {
        assert_eq!(Service::home(&Namespace::default(), &web().name), 0x9d2b_a508_24d6_34bb);
    }
}
