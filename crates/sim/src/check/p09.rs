//! P9: once faults stop, everything is well within the stated time. And crashes are counted until one
//! has run long enough: who forgets them begins again for ever, and comes to no rest.
//!
//! The stated time follows the marks that the store has of what was ever started: after a restore a
//! leader waits for the longest of them. A count begins anew with a version of its service, and with
//! no other change of it; with an index that nobody wanted meanwhile; when somebody asks for that; and
//! where a leader goes on by what a store that was set back has lost.

use std::collections::{BTreeMap, BTreeSet};

use sterna_engine::control::{Call, Row, RowKey};
use sterna_model::{
    InstanceKey, ServiceKey,
    record::{InstanceCopy, StopReason},
};

use super::{Changed, Checker, Fact, Promise, Sight, unnoticed::Unnoticed};

#[derive(Debug, Default)]
pub(crate) struct Converged {
    unnoticed: Unnoticed,
    /// Instances whose service has another version than they had, and that have not begun with it.
    anew: BTreeSet<InstanceKey>,
    /// What somebody asks to begin again, or to go, by the calls: it may go and come in one commit.
    asked: BTreeMap<u64, Call>,
}

impl Converged {
    /// What a commit did to an instance.
    fn counted(&mut self, sight: &Sight<'_>, changed: &Changed) -> Option<String> {
        let RowKey::Instance(key) = &changed.key else { return None };
        let Some(Row::Instance(_, Some(before))) = &changed.before else { return None };
        let instance = sight.stored.instance(key)?;
        let after = instance.crashes().count;
        let unwanted = |copy: &InstanceCopy| copy.stopping == Some(StopReason::Unwanted);
        let was_unwanted = before.copies().any(unwanted);
        let before = before.crashes().count;
        let is_anew = self.anew.contains(key)
            || was_unwanted
            || self.asked.values().any(|asked| begins(asked, key))
            || !is_wanted(sight, key);
        let service = sight.stored.service(&key.service);
        let version = service.map(|record| record.version);
        let is_current = |copy: &InstanceCopy| Some(copy.version) == version;
        if !instance.copies().all(is_current) {
            // It begins anew when the older copy has ended.
            self.anew.insert(key.clone());
        } else if instance.copy().is_some() {
            self.anew.remove(key);
        }
        // Whoever has run long enough and crashes begins with one.
        (after < before && after != 1 && !is_anew)
            .then(|| format!("{before} crashes of {key} are {after} without a reason"))
    }

    /// A service whose version is another one begins anew, with all its instances; so does an index that
    /// was not wanted before, though it may come in the commit in which it went.
    fn note_version(&mut self, sight: &Sight<'_>, changed: &Changed) {
        let RowKey::Service(service) = &changed.key else { return };
        let (before, instances) = match &changed.before {
            Some(Row::Service(_, Some(record))) => (Some(record.version), record.spec.instances),
            Some(_) | None => (None, 0),
        };
        let after = sight.stored.service(service).map(|record| record.version);
        let is_anew = before != after;
        let of_it = instances_of(sight).filter(|key| key.service == *service);
        let is_new = |key: &&InstanceKey| is_anew || key.index >= instances;
        self.anew.extend(of_it.filter(is_new).cloned());
    }
}

impl Checker for Converged {
    const PROMISE: Promise = Promise::P9;

    fn see(&mut self, sight: &Sight<'_>, fact: &Fact<'_>) -> Option<String> {
        self.unnoticed.see(sight, fact);
        if let Fact::NotWell { unwell } = fact {
            return (!unwell.is_forgotten).then(|| unwell.text.clone());
        }
        if let Fact::Asked { id, call, .. } = fact {
            self.asked.insert(*id, (*call).clone());
        }
        if let Fact::Answered { id, .. } = fact {
            self.asked.remove(id);
        }
        if let Fact::Restored = fact {
            // Versions and copies are as they were.
            self.anew.extend(instances_of(sight).cloned());
        }
        let Fact::Committed { changes, .. } = fact else { return None };
        for changed in *changes {
            self.note_version(sight, changed);
        }
        let broken: Vec<_> =
            changes.iter().filter_map(|changed| self.counted(sight, changed)).collect();
        broken.into_iter().next().filter(|_| !self.unnoticed.is_so())
    }
}

/// Whether an instance may begin anew by this call.
fn begins(call: &Call, key: &InstanceKey) -> bool {
    let of = |service: &ServiceKey| key.service == *service;
    if let Call::PutService(service, spec) = call {
        return of(service) && key.index >= spec.instances;
    }
    if let Call::DeleteService(service) = call {
        return of(service);
    }
    matches!(call, Call::StopInstance(asked) if asked == key)
}

/// All instances that stand in the store.
fn instances_of<'a>(sight: &Sight<'a>) -> impl Iterator<Item = &'a InstanceKey> {
    let keys = sight.stored.all().map(|(key, _)| key);
    keys.filter_map(|key| if let RowKey::Instance(key) = key { Some(key) } else { None })
}

fn is_wanted(sight: &Sight<'_>, key: &InstanceKey) -> bool {
    let service = sight.stored.service(&key.service);
    service.is_some_and(|record| key.index < record.spec.instances)
}
