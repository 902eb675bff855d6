//! What a drain would do to each run of a worker, before anybody asks for it.

use std::{collections::BTreeMap, fmt};

use sterna_model::{
    Lock, Name, RunId, Span, WallTime, WorkKey,
    record::{Instance, InstancePhase},
};

use super::{Control, Drain, Now, Unplaced, drains, services};
use crate::auction::Ask;

/// What would become of one run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Forecast {
    /// What runs.
    pub key: WorkKey,
    /// By which run.
    pub run: RunId,
    /// What becomes of it.
    pub fate: Fate,
}

/// What a drain does to a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fate {
    /// Another copy of the instance starts on this worker.
    Moves {
        /// On which.
        to: Name,
        /// Whether it must end here before.
        ends_first: bool,
    },
    /// Nobody could have the instance.
    Nowhere {
        /// Why not.
        why: Box<Unplaced>,
        /// Whether it ends at once all the same.
        ends_first: bool,
        /// If not: how long before the deadline it is asked to end.
        asked: Span,
    },
    /// A second copy of the instance is in the way of a third.
    Blocked {
        /// How long before the deadline it is asked to end, if that stays.
        asked: Span,
    },
    /// It does not move: a task, or what no spec wants and nobody may end unasked.
    RunsOn {
        /// How long before the deadline it is asked to end.
        asked: Span,
    },
    /// It ends at once: no spec asks for it, and nothing may run beside it.
    Ends,
    /// It is already ending.
    Ending,
}

impl fmt::Display for Fate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Moves { to, ends_first: false } => {
                write!(f, "moves to {to}, and ends here when it is ready there")
            }
            Self::Moves { to, ends_first: true } => write!(f, "ends here, then starts on {to}"),
            Self::Nowhere { why, ends_first: false, asked } => {
                write!(
                    f,
                    "has nowhere to go; its worker asks it to end {asked} before the deadline: {why}"
                )
            }
            Self::Nowhere { why, ends_first: true, .. } => {
                write!(f, "ends here, and has nowhere to restart: {why}")
            }
            Self::Blocked { asked } => {
                f.write_str("moves once its second copy is gone; its worker asks it to end ")?;
                write!(f, "{asked} before the deadline if that copy stays")
            }
            Self::RunsOn { asked } => {
                write!(f, "keeps running; its worker asks it to end {asked} before the deadline")
            }
            Self::Ends => f.write_str("ends at once: no spec asks for it"),
            Self::Ending => f.write_str("is already ending"),
        }
    }
}

/// What is known of a run before the auction is held.
enum Before {
    Decided(Fate),
    Asks { ends_first: bool },
}

impl Control {
    /// What would become of each run on this machine if it were drained now, until this deadline. The
    /// auction is held, and taken back: nothing is changed.
    ///
    /// Copies that move while they run go exactly there. Those that must end first are placed as if
    /// they had ended at once: by then it may be otherwise.
    pub fn forecast(&mut self, now: Now, lock: Lock, deadline: WallTime) -> Vec<Forecast> {
        let drain = &self.drain_until(now, lock, deadline);
        let mut forecasts = Vec::new();
        let mut asking = BTreeMap::new();
        for run in self.runs_on(lock) {
            let Some(key) = self.seats.key_of(run).cloned() else { continue };
            match self.before_auction((lock, drain), &key, run) {
                Before::Decided(fate) => forecasts.push(Forecast { key, run, fate }),
                Before::Asks { ends_first } => drop(asking.insert(key, (run, ends_first))),
            }
        }
        let ask = |key: &WorkKey| Ask { key: key.clone(), wants: self.wants_of(key) };
        let asks: Vec<_> = asking.keys().map(ask).collect();
        let outcome = self.auction_without(lock, &asks);
        let mut fates = BTreeMap::new();
        for placement in outcome.placed {
            if let Some(to) = self.registry.name(placement.bidder) {
                fates.insert(placement.ask, Ok(to.clone()));
            }
        }
        fates.extend(outcome.left.into_iter().map(|left| (left.ask, Err(left.reason))));
        for (at, (key, (run, ends_first))) in asking.into_iter().enumerate() {
            let fate = match fates.remove(&at) {
                Some(Ok(to)) => Fate::Moves { to, ends_first },
                Some(Err(reason)) => {
                    let why = Box::new(self.unplaced_without(&asks[at], &reason, lock));
                    Fate::Nowhere { why, ends_first, asked: self.asked_before(drain, &key, run) }
                }
                None => continue,
            };
            forecasts.push(Forecast { key, run, fate });
        }
        forecasts.sort_by(|one, two| (&one.key, one.run).cmp(&(&two.key, two.run)));
        forecasts
    }

    fn before_auction(&self, (lock, drain): (Lock, &Drain), key: &WorkKey, run: RunId) -> Before {
        let index = match key {
            WorkKey::Instance(index) => index,
            WorkKey::Task(task) => {
                let is_over = self.tasks.get(task).is_none_or(|(task, _)| task.end().is_some());
                let is_ending = is_over || !self.is_run_of_task(task, run);
                let asked = self.asked_before(drain, key, run);
                let fate = if is_ending { Fate::Ending } else { Fate::RunsOn { asked } };
                return Before::Decided(fate);
            }
            // Nodes run on until the deadline.
            WorkKey::Node(_) => {
                let asked = self.asked_before(drain, key, run);
                return Before::Decided(Fate::RunsOn { asked });
            }
        };
        // What has no record is being ended.
        let Some(instance) = self.instances.get(index) else {
            return Before::Decided(Fate::Ending);
        };
        let Some(copy) = instance.copies().find(|copy| copy.placed.run == run) else {
            return Before::Decided(Fate::Ending);
        };
        if copy.stopping.is_some() {
            return Before::Decided(Fate::Ending);
        }
        if instance.is_twins(run) {
            return Before::Decided(self.fate_of_twin((lock, drain), (key, run), instance));
        }
        if services::may_overlap(copy.placed.contract) && instance.twin().is_some() {
            return Before::Decided(Fate::Blocked { asked: self.asked_before(drain, key, run) });
        }
        let may_overlap = drains::may_overlap(copy, self.contract_of(key));
        if !self.is_wanted(index) {
            let asked = self.asked_before(drain, key, run);
            return Before::Decided(if may_overlap { Fate::RunsOn { asked } } else { Fate::Ends });
        }
        let is_running = instance.phase() == InstancePhase::Running;
        Before::Asks { ends_first: !(may_overlap && is_running) }
    }

    /// A copy beside which another starts already, or is to.
    fn fate_of_twin(
        &self,
        (lock, drain): (Lock, &Drain),
        (key, run): (&WorkKey, RunId),
        instance: &Instance,
    ) -> Fate {
        let worker = instance.copy().and_then(|copy| self.workers.get(&copy.placed.on.lock));
        if let Some(worker) = worker {
            return Fate::Moves { to: worker.name.clone(), ends_first: false };
        }
        let asked = self.asked_before(drain, key, run);
        match self.queue.reason(key) {
            Some(reason) => {
                let why = Box::new(self.unplaced_without(&self.ask_of(key), reason, lock));
                Fate::Nowhere { why, ends_first: false, asked }
            }
            None => Fate::RunsOn { asked },
        }
    }
}
