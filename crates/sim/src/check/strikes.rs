//! How often a version may have been counted against because an instance of it was not ready.
//!
//! A leader counts one crash for each time that an instance is not ready for as long as its work says,
//! from when it hears that it runs: at most so often as that fits into the time since it was claimed.
//! When a clock of a server was set meanwhile, it may have come at once, and no number is held against
//! it.

use std::collections::BTreeMap;

use sterna_model::{RunId, ServiceKey, Span, WallTime, record::Instance};

use crate::clock::Moment;

#[derive(Debug, Default)]
pub(super) struct Strikes {
    /// By their services and versions: since when each run has been claimed, and until when.
    runs: BTreeMap<(ServiceKey, u64), BTreeMap<RunId, Claimed>>,
    /// What the clocks of servers showed, by the world's own, and since when.
    clocks: Option<(Clocks, Moment)>,
}

/// The least and the latest that the clock of any server shows, less the time of the world.
type Clocks = (i64, i64);

#[derive(Clone, Copy, Debug)]
struct Claimed {
    since: Moment,
    until: Option<Moment>,
}

impl Strikes {
    /// Looks whether a clock was set.
    pub(super) fn look(&mut self, now: Moment, wall: WallTime, latest: WallTime) {
        let passed = i64::try_from(now).unwrap_or(i64::MAX);
        let shown = |wall: WallTime| wall.as_millis().saturating_sub(passed);
        let clocks = (shown(wall), shown(latest));
        if self.clocks.is_none_or(|(before, _)| before != clocks) {
            self.clocks = Some((clocks, now));
        }
    }

    /// The store is as it was: what had gone may be there again.
    pub(super) fn restored(&mut self) {
        for one in self.runs.values_mut().flat_map(BTreeMap::values_mut) {
            one.until = None;
        }
    }

    /// A service is gone, and its versions are counted anew.
    pub(super) fn forget(&mut self, service: &ServiceKey) {
        self.runs.retain(|(known, _), _| known != service);
    }

    /// An index of a service was this, and is that now.
    pub(super) fn note(
        &mut self,
        now: Moment,
        service: &ServiceKey,
        (before, after): (Option<&Instance>, Option<&Instance>),
    ) {
        let copies = |it: Option<&Instance>| -> Vec<(RunId, u64)> {
            let copies = it.into_iter().flat_map(Instance::copies);
            copies.map(|copy| (copy.placed.run, copy.version)).collect()
        };
        let (before, after) = (copies(before), copies(after));
        for (run, version) in &after {
            let runs = self.runs.entry((service.clone(), *version)).or_default();
            runs.entry(*run).or_insert(Claimed { since: now, until: None });
        }
        for (run, version) in before.iter().filter(|one| !after.contains(one)) {
            let runs = self.runs.entry((service.clone(), *version)).or_default();
            runs.entry(*run).and_modify(|one| one.until = Some(now));
        }
    }

    /// How many there may have been of a version whose work is to be ready within this; `None` if a clock
    /// was set since its first run was claimed.
    pub(super) fn at_most(
        &self,
        now: Moment,
        version: (&ServiceKey, u64),
        within: Option<Span>,
    ) -> Option<u32> {
        let Some(within) = within.map(Span::as_millis).filter(|within| *within > 0) else {
            return Some(0);
        };
        let Some(runs) = self.runs.get(&(version.0.clone(), version.1)) else { return Some(0) };
        let first = runs.values().map(|one| one.since).min()?;
        if self.clocks.is_some_and(|(_, set)| set > first) {
            return None;
        }
        let each = runs.values().map(|one| one.until.unwrap_or(now).saturating_sub(one.since));
        u32::try_from(each.map(|lasted| lasted / within).sum::<u64>()).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::words;

    /// A version of which one run was claimed at 1 s and has gone at 14 s, and another since 10 s.
    fn two() -> (Strikes, ServiceKey) {
        let (mut strikes, web) = (Strikes::default(), words::service("web"));
        strikes.look(0, WallTime::EPOCH, WallTime::EPOCH);
        let run = |number: u8| RunId::from_parts(WallTime::EPOCH, [number; 10]);
        let all = [
            (run(1), Claimed { since: 1_000, until: Some(14_000) }),
            (run(2), Claimed { since: 10_000, until: None }),
        ];
        strikes.runs.insert((web.clone(), 3), BTreeMap::from(all));
        (strikes, web)
    }

    #[test]
    fn so_often_as_it_fits_into_the_time_of_each_run() {
        let (strikes, web) = two();
        let within = Some(Span::from_secs(6));
        assert_eq!(strikes.at_most(15_999, (&web, 3), within), Some(2));
        assert_eq!(strikes.at_most(16_000, (&web, 3), within), Some(3));
        assert_eq!(strikes.at_most(16_000, (&web, 4), within), Some(0), "of another version");
        assert_eq!(strikes.at_most(16_000, (&web, 3), None), Some(0), "nobody asks it");
    }

    #[test]
    fn any_number_when_a_clock_was_set_since_the_first_was_claimed() {
        let (mut strikes, web) = two();
        let (within, hour) = (Some(Span::from_secs(6)), Span::from_secs(3_600));
        let shown = |now| WallTime::EPOCH.plus(Span::from_millis(now));
        strikes.look(12_000, shown(12_000), shown(12_000));
        assert_eq!(strikes.at_most(16_000, (&web, 3), within), Some(3));
        strikes.look(13_000, shown(13_000), shown(13_000).plus(hour));
        assert_eq!(strikes.at_most(16_000, (&web, 3), within), None);
    }
}
