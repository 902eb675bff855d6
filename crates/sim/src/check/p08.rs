//! P8: when a container's worker is gone, the container is gone within kill wait and a second;
//! what outlives its worker is gone by its own deadline.
//!
//! A guardian that is stopped meanwhile does nothing; that time is added.

use std::collections::BTreeMap;

use sterna_executor::guardian::OnWorkerExit;
use sterna_model::{RunId, Span};

use super::{Checker, Fact, Promise};
use crate::{clock::Moment, words::Pace};

/// Beyond the kill wait.
const GRACE: u64 = 1_000;

#[derive(Debug)]
pub(crate) struct Orphans {
    /// The longest that limits may ask for.
    kill_wait: Span,
    /// Who is there, where, and until when at the latest.
    alive: BTreeMap<RunId, (usize, OnWorkerExit, Option<Moment>)>,
    /// Until when guardians do nothing.
    stopped: BTreeMap<usize, Moment>,
}

impl Orphans {
    pub(crate) fn new(pace: &Pace) -> Self {
        // Limits are changed by a tenth at most.
        let kill_wait = Span::from_millis(pace.limits.kill_wait.as_millis() * 11 / 10);
        Self { kill_wait, alive: BTreeMap::new(), stopped: BTreeMap::new() }
    }
}

impl Checker for Orphans {
    const PROMISE: Promise = Promise::P8;

    fn see(&mut self, now: Moment, fact: &Fact<'_>) -> Option<String> {
        let wait = self.kill_wait.as_millis() + GRACE;
        match fact {
            Fact::Began { run, container } => {
                let there = (container.machine, container.on_worker_exit, None);
                self.alive.insert(*run, there);
            }
            Fact::Gone { run } => {
                let (machine, _, by) = self.alive.remove(run)?;
                return by
                    .filter(|by| now > *by)
                    .map(|by| format!("{run:?} on m{machine} is gone {} ms too late", now - by));
            }
            Fact::WorkerGone { machine } => {
                let stopped = self.stopped.get(machine).map_or(now, |until| now.max(*until));
                for (on, what, by) in self.alive.values_mut().filter(|(on, ..)| on == machine) {
                    let _: &usize = on;
                    match what {
                        OnWorkerExit::Stop => {
                            by.get_or_insert(stopped + wait);
                        }
                        // Its own deadline is for P2 and P10 to look at.
                        OnWorkerExit::Keep => {}
                    }
                }
            }
            Fact::GuardianStopped { machine, until } => {
                self.stopped.insert(*machine, *until);
                for (_, _, by) in self.alive.values_mut().filter(|(on, ..)| on == machine) {
                    if let Some(by) = by {
                        *by = (*by).max(until + wait);
                    }
                }
            }
            // What is not gone by then never tells: somebody has to look.
            Fact::Sent { .. } | Fact::Committed { .. } | Fact::Calm | Fact::Well => {
                let late = |by: &Option<Moment>| by.is_some_and(|by| now > by);
                let (run, (machine, ..)) = self.alive.iter().find(|(_, (.., by))| late(by))?;
                return Some(format!("{run:?} on m{machine} outlives its worker"));
            }
            Fact::Restored
            | Fact::Enrolled { .. }
            | Fact::Confirmed { .. }
            | Fact::Acknowledged { .. }
            | Fact::Forgotten { .. }
            | Fact::NotWell { .. } => {}
        }
        None
    }
}
