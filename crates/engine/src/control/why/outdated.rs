//! Why an instance is still of another version.

use super::{Awaited, Detail, Next, Rule, Why};
use sterna_model::ServiceKey;

use crate::control::{Control, standing::Service};

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
            Some(Awaited::Room { .. }) => Next::WhenThereIsRoom,
        };
        let others = known.outdated.len().saturating_sub(1);
        Why { rule: Rule::Outdated { others, awaits }, since: known.since, next }
    }

    /// What keeps an update from ending one more, by what [`Control::roll`] goes by: as many as may be
    /// missing are. It goes on when so many of these have run for long enough that one more may be. What
    /// finds no room is one of them only where to end another one makes none for it.
    fn awaits(&self, key: &ServiceKey, known: &Service) -> Option<Awaited> {
        let (missing, unplaced) = (known.missing.len(), known.unplaced.len());
        if self.ends_more(key, known, missing) {
            return None;
        }
        let makes_room = self.would_make_room(key, known);
        let count = if makes_room { missing.saturating_sub(unplaced) } else { missing };
        let at_most = known.at_most();
        let surplus = count.checked_sub(at_most as usize)?;
        let mut settling: Vec<_> = self.settling(key, known).collect();
        if surplus < settling.len() {
            let (_, &mut (at, index), _) = settling.select_nth_unstable(surplus);
            let healthy_for = known.record.spec.update.healthy_for;
            return Some(Awaited::Settling { service: key.name.clone(), index, healthy_for, at });
        }
        match !makes_room && unplaced >= at_most as usize {
            true => Some(Awaited::Room { count: unplaced, at_most }),
            false => Some(Awaited::Missing { count, at_most }),
        }
    }
}
