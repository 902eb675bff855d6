//! P7: a deposed leader changes nothing.
//!
//! No commit of a term applies when the store names another. No machine begins what an older term
//! sent after it has begun what a newer one sent.

use std::collections::BTreeMap;

use sterna_model::Term;

use super::{Checker, Fact, Promise};
use crate::clock::Moment;

#[derive(Debug, Default)]
pub(crate) struct Deposed {
    newest: BTreeMap<usize, Term>,
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
                let newest = self.newest.entry(container.machine).or_insert(Term::ZERO);
                let (term, before) = (container.term, *newest);
                *newest = before.max(term);
                (term < before).then(|| {
                    format!("{run:?} of {term:?} begins on a machine that has heard of {before:?}")
                })
            }
            Fact::Restored => {
                // Terms are counted anew from there, in the next epoch.
                self.newest.clear();
                None
            }
            Fact::Sent { .. }
            | Fact::Gone { .. }
            | Fact::WorkerGone { .. }
            | Fact::GuardianStopped { .. }
            | Fact::Acknowledged { .. }
            | Fact::Forgotten { .. }
            | Fact::Calm
            | Fact::Well
            | Fact::NotWell { .. } => None,
        }
    }
}
