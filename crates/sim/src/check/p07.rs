//! P7: a deposed leader changes nothing.
//!
//! No commit of a term applies when the store names another. No machine begins what an older term
//! sent after it has begun what a newer one sent.

use std::collections::BTreeMap;

use sterna_model::{Epoch, Term};

use super::{Checker, Fact, Promise};
use crate::clock::Moment;

#[derive(Debug, Default)]
pub(crate) struct Deposed {
    newest: BTreeMap<usize, (Epoch, Term)>,
}

impl Checker for Deposed {
    const PROMISE: Promise = Promise::P7;

    fn see(&mut self, _now: Moment, fact: &Fact<'_>) -> Option<String> {
        match fact {
            Fact::Committed { applied, .. } => {
                let (said, stood) = (applied.term?, applied.reign?.term);
                let revision = applied.revision;
                (said != stood).then(|| {
                    format!("a commit of {said:?} applied at {revision:?}, when {stood:?} stood")
                })
            }
            Fact::Began { run, container } => {
                let newest = self.newest.entry(container.machine).or_insert(container.reign);
                let (reign, before) = (container.reign, *newest);
                *newest = before.max(reign);
                (reign < before).then(|| {
                    format!("{run:?} of {reign:?} begins on a machine that has begun {before:?}")
                })
            }
            Fact::Sent { .. }
            | Fact::Gone { .. }
            | Fact::Restored
            | Fact::WorkerGone { .. }
            | Fact::GuardianStopped { .. }
            | Fact::Acknowledged { .. }
            | Fact::Forgotten { .. }
            | Fact::Enrolled { .. }
            | Fact::Confirmed { .. }
            | Fact::Calm
            | Fact::Well
            | Fact::NotWell { .. } => None,
        }
    }
}
