//! Domains: until when what no spec wants may be ended though nobody asked for that.

use sterna_model::{
    Name, ServiceKey, Span, WallTime,
    planted::{Mistake, is_planted},
    spec::DEFAULT_DOMAIN,
};

use super::{Control, Now, Row, Timer};

/// How long a domain that is over is shown as that, before it is forgotten; and the drain of a machine
/// that is gone.
pub(super) const SHOWN: Span = Span::from_secs(24 * 3_600);

impl Control {
    /// A domain is fresh until then, or for always: what its services do not want ends.
    pub(super) fn set_domain(&mut self, now: Now, name: &Name, until: Option<WallTime>) {
        let was_fresh = self.is_fresh(name, now.wall);
        self.domains.insert(name.clone(), until);
        self.mind_domain(name, until);
        self.outbox.write(Row::Domain(name.clone(), Some(until)));
        // Then nothing is there that nobody wants: to be called again and again costs little.
        if was_fresh {
            return;
        }
        let of_it = |service: &&ServiceKey| {
            let known = self.services.get(*service);
            known.is_some_and(|known| known.record.spec.domain == *name)
        };
        let services: Vec<_> = self.services.keys().filter(of_it).cloned().collect();
        for service in services {
            let wanted = self.services.get(&service).map_or(0, |known| known.record.spec.instances);
            for key in self.instances.keys_from(&service, wanted) {
                self.converge_index(now, &key);
            }
        }
    }

    /// Sets when a domain is forgotten; gives whether that was not set.
    pub(super) fn mind_domain(&mut self, name: &Name, until: Option<WallTime>) -> bool {
        let timer = Timer::Domain(name.clone());
        let Some(until) = until else {
            self.timers.cancel(&timer);
            return false;
        };
        self.timers.set(until.plus(SHOWN), timer)
    }

    /// A domain is fresh no longer. Gives whether it was there.
    pub(super) fn remove_domain(&mut self, name: &Name) -> bool {
        if self.domains.remove(name).is_none() {
            return false;
        }
        self.timers.cancel(&Timer::Domain(name.clone()));
        self.outbox.write(Row::Domain(name.clone(), None));
        true
    }

    /// A domain may have been over for long enough.
    pub(super) fn domain_is_due(&mut self, now: Now, name: &Name) {
        let until = self.domains.get(name).copied().flatten();
        if until.is_some_and(|until| until.plus(SHOWN) <= now.wall) {
            self.remove_domain(name);
        }
    }

    pub(super) fn is_fresh(&self, domain: &Name, now: WallTime) -> bool {
        domain.as_str() == DEFAULT_DOMAIN
            || is_planted(Mistake::DestroysStale)
            || self.domains.get(domain).is_some_and(|until| until.is_none_or(|until| now < until))
    }
}
