//! P6: no worker is given more than it has, stopping containers included.

use std::collections::BTreeMap;

use sterna_model::{RunId, WorkKey};

use super::{Checker, Fact, Promise};
use crate::{
    clock::Moment,
    words::{self, CAPACITY},
};

#[derive(Debug, Default)]
pub(crate) struct Room {
    alive: BTreeMap<RunId, (WorkKey, usize)>,
}

impl Checker for Room {
    const PROMISE: Promise = Promise::P6;

    fn see(&mut self, _now: Moment, fact: &Fact<'_>) -> Option<String> {
        match fact {
            Fact::Began { run, container } => {
                let machine = container.machine;
                self.alive.insert(*run, (container.key.clone(), machine));
                let there = self.alive.values().filter(|(_, on)| *on == machine);
                let used: u64 = there.map(|(key, _)| words::size(key)).sum();
                (used > CAPACITY).then(|| format!("m{machine} has {CAPACITY}, and {used} is used"))
            }
            Fact::Gone { run } => {
                self.alive.remove(run);
                None
            }
            Fact::Sent { .. }
            | Fact::WorkerGone { .. }
            | Fact::GuardianStopped { .. }
            | Fact::Committed { .. }
            | Fact::Restored
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
