//! P9: once faults stop, everything is well within the stated time. And crashes are counted until one
//! has run long enough: who forgets them begins again for ever, and comes to no rest.
//!
//! The stated time follows the marks that the store has of what was ever started: after a restore a
//! leader waits for the longest of them. A count begins anew with its service, with an index that
//! nobody wanted meanwhile, and where a leader goes on by what a store that was set back has lost.

use sterna_engine::control::{Record, RecordKey, ServiceKey};
use sterna_model::{Work, WorkKey};

use super::{Changed, Checker, Fact, Promise, Sight, unnoticed::Unnoticed};

#[derive(Debug, Default)]
pub(crate) struct Converged {
    unnoticed: Unnoticed,
}

impl Checker for Converged {
    const PROMISE: Promise = Promise::P9;

    fn see(&mut self, sight: &Sight<'_>, fact: &Fact<'_>) -> Option<String> {
        self.unnoticed.see(sight, fact);
        if let Fact::NotWell { unwell } = fact {
            return (!unwell.is_forgotten).then(|| unwell.text.clone());
        }
        let Fact::Committed { changes, .. } = fact else { return None };
        if self.unnoticed.is_so() {
            return None;
        }
        changes.iter().find_map(|changed| {
            let RecordKey::Instance(key) = &changed.key else { return None };
            let Some(Record::Instance(before)) = &changed.before else { return None };
            let after = sight.stored.instance(key)?.crashes().count;
            let before = before.crashes().count;
            // A service that went and came again within one commit begins anew.
            let service = RecordKey::Service(service_of(key)?);
            let is_its = |one: &Changed| one.key == service;
            // So does an index that nobody wants, and that somebody has.
            let is_anew = changes.iter().any(is_its) || !is_wanted(sight, key);
            // Whoever has run long enough and crashes begins with one.
            (after < before && after != 1 && !is_anew)
                .then(|| format!("{before} crashes of {key} are {after} without a reason"))
        })
    }
}

fn service_of(key: &WorkKey) -> Option<ServiceKey> {
    let Work::Instance { service, .. } = &key.work else { return None };
    Some(ServiceKey { namespace: key.namespace.clone(), name: service.clone() })
}

fn is_wanted(sight: &Sight<'_>, key: &WorkKey) -> bool {
    let Work::Instance { index, .. } = &key.work else { return false };
    let service = service_of(key).and_then(|service| sight.stored.service(&service));
    service.is_some_and(|record| *index < record.spec.instances)
}
