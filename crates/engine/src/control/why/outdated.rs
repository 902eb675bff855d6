//! Why an instance is still of another version.

use super::{Awaited, Detail, Next, Rule, Why};
use crate::control::{Control, ServiceKey, standing::Service};

impl Control {
    /// An instance that its service's update has not come to yet.
    pub(super) fn why_outdated(&self, key: &ServiceKey, known: &Service, detail: Detail) -> Why {
        let awaits = match detail {
            Detail::Whole => self.awaits(key, known),
            Detail::Rule => None,
        };
        let next = match &awaits {
            None => Next::WhenTold,
            Some(Awaited::Settling { at, .. }) => Next::At(*at),
            Some(Awaited::Missing { .. }) => Next::WhenServing,
        };
        let others = known.outdated.len().saturating_sub(1);
        Why { rule: Rule::Outdated { others, awaits }, since: known.since, next }
    }

    /// What keeps an update from ending one more: as many as may be missing are. It goes on when so
    /// many of these have run for long enough that one more may be.
    fn awaits(&self, key: &ServiceKey, known: &Service) -> Option<Awaited> {
        let policy = known.record.spec.update;
        let (at_most, healthy_for) = (policy.max_unavailable.max(1), policy.healthy_for);
        let count = known.missing.len();
        let surplus = count.checked_sub(at_most as usize)?;
        let mut settling: Vec<_> = self.settling(key, known).collect();
        if surplus >= settling.len() {
            return Some(Awaited::Missing { count, at_most });
        }
        let (_, &mut (at, index), _) = settling.select_nth_unstable(surplus);
        Some(Awaited::Settling { service: key.name.clone(), index, healthy_for, at })
    }
}
