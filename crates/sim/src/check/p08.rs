//! P8: when a container's worker is gone, the container is gone within kill wait and a second; what
//! outlives its worker under `stop` is gone by its own deadline, counted from the last confirmation.
//!
//! A guardian that is stopped meanwhile does nothing: what is due then has the kill wait and a second from
//! when it goes on.

use std::collections::BTreeMap;

use sterna_executor::guardian::OnWorkerExit;
use sterna_model::{Contract, RunId, Span};

use super::{Checker, Fact, Promise, Sight};
use crate::{clock::Moment, words::Pace};

/// Beyond the kill wait.
const GRACE: u64 = 1_000;

#[derive(Debug)]
struct Orphan {
    machine: usize,
    on_worker_exit: OnWorkerExit,
    /// How long after the last confirmation it is gone, whoever lives.
    stop_after: Option<Span>,
    began: Moment,
    /// Until when it may be there, since its worker is gone.
    by: Option<Moment>,
}

#[derive(Debug)]
pub(crate) struct Orphans {
    /// The longest that limits may ask for.
    kill_wait: Span,
    alive: BTreeMap<RunId, Orphan>,
    /// When each machine was confirmed last.
    confirmed: BTreeMap<usize, Moment>,
    /// Until when guardians do nothing.
    stopped: BTreeMap<usize, Moment>,
}

impl Orphans {
    pub(crate) fn new(pace: &Pace) -> Self {
        // Limits are changed by a tenth at most.
        let kill_wait = Span::from_millis(pace.limits.kill_wait.as_millis() * 11 / 10);
        Self {
            kill_wait,
            alive: BTreeMap::new(),
            confirmed: BTreeMap::new(),
            stopped: BTreeMap::new(),
        }
    }

    /// By when an orphan is gone at the latest.
    fn due(&self, orphan: &Orphan) -> Option<Moment> {
        let own = orphan.stop_after.map(|after| {
            let confirmed = self.confirmed.get(&orphan.machine).copied().unwrap_or(0);
            let stopped = self.stopped.get(&orphan.machine).copied().unwrap_or(0);
            // Clocks differ by a thousandth, on both sides.
            let after = after.as_millis() + after.as_millis() / 400 + GRACE;
            // A guardian that goes on ends at once what is due.
            let woken = stopped + self.kill_wait.as_millis() + GRACE;
            (orphan.began.max(confirmed) + after).max(woken)
        });
        orphan.by.into_iter().chain(own).min()
    }
}

impl Checker for Orphans {
    const PROMISE: Promise = Promise::P8;

    fn see(&mut self, sight: &Sight<'_>, fact: &Fact<'_>) -> Option<String> {
        let now = sight.now;
        let wait = self.kill_wait.as_millis() + GRACE;
        if let Fact::Began { run, container } = fact {
            let orphan = Orphan {
                machine: container.machine,
                on_worker_exit: container.on_worker_exit,
                stop_after: match container.contract {
                    Contract::Stop { after } => Some(after),
                    Contract::Replace { .. } | Contract::Keep => None,
                },
                began: now,
                by: None,
            };
            self.alive.insert(*run, orphan);
        }
        if let Fact::Gone { run } = fact {
            let orphan = self.alive.remove(run)?;
            let (machine, by) = (orphan.machine, self.due(&orphan)?);
            return (now > by)
                .then(|| format!("{run:?} on m{machine} is gone {} ms too late", now - by));
        }
        if let Fact::Confirmed { machine, .. } = fact {
            self.confirmed.insert(*machine, now);
        }
        if let Fact::WorkerGone { machine } = fact {
            let stopped = self.stopped.get(machine).map_or(now, |until| now.max(*until));
            for orphan in self.alive.values_mut().filter(|one| one.machine == *machine) {
                match orphan.on_worker_exit {
                    OnWorkerExit::Stop => {
                        orphan.by.get_or_insert(stopped + wait);
                    }
                    OnWorkerExit::Keep => {}
                }
            }
        }
        if let Fact::GuardianStopped { machine, until } = fact {
            self.stopped.insert(*machine, *until);
            for orphan in self.alive.values_mut().filter(|one| one.machine == *machine) {
                if let Some(by) = &mut orphan.by {
                    *by = (*by).max(until + wait);
                }
            }
        }
        // What is not gone by then never tells: somebody has to look.
        if let Fact::Looked = fact {
            let late = |orphan: &Orphan| self.due(orphan).is_some_and(|by| now > by);
            let (run, orphan) = self.alive.iter().find(|(_, orphan)| late(orphan))?;
            return Some(format!("{run:?} on m{} outlives its time", orphan.machine));
        }
        None
    }
}
