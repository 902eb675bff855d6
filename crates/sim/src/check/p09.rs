//! P9: once faults stop, everything is well within the stated time. And crashes are counted until one
//! has run long enough: who forgets them begins again for ever, and comes to no rest.

use sterna_engine::control::{Record, RecordKey, ServiceKey};
use sterna_model::{Work, WorkKey};

use super::{Changed, Checker, Fact, Promise, Sight};

#[derive(Debug)]
pub(crate) struct Converged;

impl Checker for Converged {
    const PROMISE: Promise = Promise::P9;

    fn see(&mut self, sight: &Sight<'_>, fact: &Fact<'_>) -> Option<String> {
        if let Fact::NotWell { unwell } = fact {
            return (!unwell.is_forgotten).then(|| unwell.text.clone());
        }
        let Fact::Committed { changes, .. } = fact else { return None };
        changes.iter().find_map(|changed| {
            let RecordKey::Instance(key) = &changed.key else { return None };
            let Some(Record::Instance(before)) = &changed.before else { return None };
            let after = sight.stored.instance(key)?.crashes().count;
            let before = before.crashes().count;
            // A service that went and came again within one commit begins anew.
            let service = |one: &Changed| matches!(one.key, RecordKey::Service(_));
            // So does an index that nobody wants, and that somebody has.
            let is_anew = changes.iter().any(service) || !is_wanted(sight, key);
            // Whoever has run long enough and crashes begins with one.
            (after < before && after != 1 && !is_anew)
                .then(|| format!("{before} crashes of {key} are {after} without a reason"))
        })
    }
}

fn is_wanted(sight: &Sight<'_>, key: &WorkKey) -> bool {
    let Work::Instance { service, index } = &key.work else { return false };
    let service = ServiceKey { namespace: key.namespace.clone(), name: service.clone() };
    sight.stored.service(&service).is_some_and(|record| *index < record.spec.instances)
}
