//! Copies of an instance that are out of reach, or that nobody wants.

use sterna_model::{InstanceKey, Lock, record::Instance};
use sterna_protocol::scheduler::Reach;

use super::{Control, Detail, Next, Now, Rule, Why};

impl Control {
    /// The copy that has the place of an instance is on a worker that is silent, or not well.
    pub(super) fn why_copy_is_out_of_reach(
        &self,
        now: Now,
        instance: &Instance,
        detail: Detail,
        reach: impl Fn(Lock) -> Reach,
    ) -> Option<Why> {
        let placed = &instance.copy()?.placed;
        let reached = reach(placed.on.lock);
        let Some(twin) = instance.twin() else {
            return self.why_out_of_reach(now, placed, false, reached);
        };
        if !matches!(reached, Reach::Silent { .. }) {
            return None;
        }
        // Both slots are taken: no third is started, whatever the contract says.
        let why = self.why_out_of_reach(now, placed, false, reached)?;
        Some(Why { next: self.until_twin_is_gone(now, twin, detail, reach), ..why })
    }

    /// An index that no spec wants, and what still runs of it is not its own, or is not being ended.
    pub(super) fn why_unwanted(
        &self,
        now: Now,
        key: &InstanceKey,
        detail: Detail,
        reach: impl Fn(Lock) -> Reach,
    ) -> Option<Why> {
        let instance = self.instances.get(key).filter(|_| !self.is_wanted(key))?;
        if instance.copies().any(|copy| copy.stopping.is_none()) {
            let stale = self.service_having(key).filter(|_| !self.is_recovered);
            let stale = stale.map(|known| known.record.spec.domain.clone());
            let rule = Rule::Unwanted { stale };
            let staying = instance.copies().filter(|copy| copy.stopping.is_none());
            let asked = || staying.filter_map(|copy| self.asked_at(copy.placed.run)).min();
            let asked = match detail {
                Detail::Whole => asked().filter(|at| *at > now.wall),
                Detail::Rule => None,
            };
            let next = asked.map_or(Next::WhenChanged, Next::AskedAt);
            return Some(Why { rule, since: None, next });
        }
        // Nothing else comes in its place.
        let twin = instance.twin().filter(|_| instance.copy().is_none())?;
        let rule = Rule::Stopping {
            worker: self.machine(twin.copy.placed.on.lock),
            reason: twin.copy.stopping?,
        };
        let next = self.until_twin_is_gone(now, twin, detail, reach);
        Some(Why { rule, since: None, next })
    }
}
