//! Why something is not where its spec wants it: the rule, since when, and what happens next.
//!
//! The same value goes into logs, answers and pages; nobody words it again.

mod copies;
mod ends;
mod followed;
mod machine;
mod next;
mod outdated;
mod settling;
mod unplaced;
mod unready;
mod words;

use std::fmt;

use sterna_model::{
    Contract, Incarnation, InstanceKey, Lock, Name, ServiceKey, Span, TaskKey, WallTime, WorkKey,
    payload::{Facts, WorkOutline},
    record::{Instance, InstanceState, Placed, StopReason, TaskState, Twin, TwinReason},
};
use sterna_protocol::scheduler::Reach;

#[cfg(test)]
pub(in crate::control) use self::settling::LOOKS;
pub use self::{
    ends::KnownEnd,
    machine::Machine,
    next::Next,
    settling::{Settling, Then},
    unplaced::Unplaced,
    unready::{Late, Unready},
};
use super::{Control, Now, services, standing::Service};
use crate::auction::{Prospect, Stage};

/// How much is to be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Detail {
    /// Everything.
    Whole,
    /// Which rule it is: what only a look at all workers, at the work itself, or at the
    /// other instances of its service tells is left out.
    Rule,
}

/// Why one key is not where its spec wants it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Why {
    /// The rule that keeps it.
    pub rule: Rule,
    /// Since when, as far as records tell.
    pub since: Option<WallTime>,
    /// What happens next.
    pub next: Next,
}

/// What keeps work from being where it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rule {
    /// This leader does not start anything yet: somebody may be missing who runs it.
    Waiting,
    /// It is kept where it runs, and the store has lost where that is: a worker that is missing may have
    /// it (safety rule 25).
    MayBeKept {
        /// Who is on the roster and not back.
        missing: Vec<Name>,
        /// Whether somebody has said that nobody is missing from the roster.
        is_roster_complete: bool,
    },
    /// No worker got it: the nearest miss, and the smallest change that would help.
    Unplaced(Box<Unplaced>),
    /// Workers of the roster are on their way back to a leader that has just been elected, and nobody who
    /// is here has room; or what is spread over them waits for them.
    Returning {
        /// How many.
        workers: usize,
        /// Whether it waits to be spread.
        is_spread: bool,
    },
    /// Its worker is drained, and it is a task: it runs on until the drain is over.
    Draining {
        /// Who has it.
        worker: Option<Machine>,
    },
    /// A worker has just turned it down.
    TurnedDown,
    /// It is on its way.
    Starting {
        /// Where.
        worker: Option<Machine>,
        /// Whether it counts as running only once its monitor succeeds.
        is_monitored: bool,
        /// That it crashed before, if it did.
        before: Option<Crashed>,
        /// Whether an update waits for it.
        is_awaited: bool,
    },
    /// It is being ended.
    Stopping {
        /// Where.
        worker: Option<Machine>,
        /// Why.
        reason: StopReason,
    },
    /// It crashed, and waits.
    Crashed(Crashed),
    /// It crashed so often that it does not begin again.
    GivenUp(Crashed),
    /// A copy that may still run has the slot that the next one needs.
    SlotTaken {
        /// Where that copy is.
        worker: Option<Machine>,
        /// What it does there.
        twin: TwinReason,
    },
    /// No spec wants it, and it is not ended though nobody asked for that.
    Unwanted {
        /// Its domain, if that is stale; else the store was restored.
        stale: Option<Name>,
    },
    /// It runs, but of another version; an update is under way.
    Outdated {
        /// How many more there are.
        others: usize,
        /// What the update waits for; `None` if it is about to go on.
        awaits: Option<Awaited>,
    },
    /// It runs, of the version that is wanted, and an update waits until it has done so for long enough.
    Settling(Settling),
    /// It runs, and is not ready.
    Unready(Unready),
    /// A second copy is there beside it.
    HasTwin {
        /// Where.
        worker: Option<Machine>,
        /// What it does there.
        twin: TwinReason,
    },
    /// It is with a worker that is heard and whose checks fail: it runs on there.
    Sick {
        /// Which.
        worker: Option<Machine>,
        /// Whether it is a task, which is not moved.
        is_task: bool,
        /// Which check, and how, if its worker says so.
        check: Option<Box<str>>,
    },
    /// It is with a worker that is not heard.
    OutOfReach {
        /// Which.
        worker: Option<Machine>,
        /// What holds for it meanwhile.
        contract: Contract,
        /// Whether it is a task, which is not started again.
        is_task: bool,
    },
    /// It is over, and whoever asked for it is being told.
    Telling {
        /// How it ended.
        end: KnownEnd,
        /// How often that was not taken.
        tries: u32,
    },
    /// It is over, and nobody took that.
    Untold {
        /// How it ended.
        end: KnownEnd,
    },
    /// It is over, and what runs of it is being ended.
    Ending {
        /// How it ended.
        end: KnownEnd,
        /// Where it still runs.
        worker: Option<Machine>,
    },
    /// It is over.
    Over {
        /// How it ended.
        end: KnownEnd,
    },
}

/// What an update waits for before it ends another instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Awaited {
    /// That one has run for long enough.
    Settling {
        /// Whose.
        service: Name,
        /// Which.
        index: u32,
        /// How long it must have run.
        healthy_for: Span,
        /// When it will have.
        at: WallTime,
    },
    /// That more are there.
    Missing {
        /// So many are not.
        count: usize,
        /// So many may be missing.
        at_most: u32,
    },
    /// That there is room for those that find none: to end another one makes none.
    Room {
        /// So many find none.
        count: usize,
        /// So many may be missing.
        at_most: u32,
    },
}

/// How often an instance crashed, and how the last time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Crashed {
    /// How often, since it last ran long enough.
    pub count: u32,
    /// How it ended the last time, in words; `None` if a record of before says nothing of it.
    pub end: Option<String>,
}

impl fmt::Display for Crashed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("it crashed")?;
        if self.count > 1 {
            write!(f, " {} times in a row", self.count)?;
        }
        let Some(end) = &self.end else { return Ok(()) };
        if self.count > 1 { write!(f, ", last: {end}") } else { write!(f, ": {end}") }
    }
}

impl Rule {
    /// Its name, for programs.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::MayBeKept { .. } => "may-be-kept",
            Self::Unplaced(_) => "unplaced",
            Self::Returning { .. } => "returning",
            Self::Draining { .. } => "draining",
            Self::TurnedDown => "turned-down",
            Self::Starting { .. } => "starting",
            Self::Stopping { .. } => "stopping",
            Self::Crashed(_) => "crashed",
            Self::GivenUp(_) => "given-up",
            Self::SlotTaken { .. } => "slot-taken",
            Self::Unwanted { .. } => "unwanted",
            Self::Outdated { .. } => "outdated",
            Self::Settling(_) => "settling",
            Self::Unready(_) => "not-ready",
            Self::HasTwin { .. } => "has-twin",
            Self::Sick { .. } => "sick",
            Self::OutOfReach { .. } => "out-of-reach",
            Self::Telling { .. } => "telling",
            Self::Untold { .. } => "untold",
            Self::Ending { .. } => "ending",
            Self::Over { .. } => "over",
        }
    }
}

/// Of an instance that a worker starts, by its service if that is the version that is started.
fn starting(
    worker: Option<Machine>,
    service: Option<&Service>,
    instance: &Instance,
    detail: Detail,
) -> Rule {
    let record = service.map(|known| &known.record).filter(|_| detail == Detail::Whole);
    let is_monitored =
        record.is_some_and(|record| WorkOutline::read(&record.spec.work).is_monitored);
    let before = (instance.crashes().count > 0).then(|| crashed(instance));
    let is_awaited = service.is_some_and(|known| known.is_updating());
    Rule::Starting { worker, is_monitored, before, is_awaited }
}

fn crashed(instance: &Instance) -> Crashed {
    let end = instance.last_crash().map(|crash| crash.end.to_string());
    Crashed { count: instance.crashes().count, end }
}

impl Control {
    /// Why a key is not where its spec wants it; `None` if it is, or if there is no such key. `reach`
    /// tells how far a machine is within reach.
    pub fn why(&mut self, now: Now, key: &WorkKey, reach: impl Fn(Lock) -> Reach) -> Option<Why> {
        self.look_again(key);
        self.why_of(now, key, Detail::Whole, reach)
    }

    fn why_of(
        &self,
        now: Now,
        key: &WorkKey,
        detail: Detail,
        reach: impl Fn(Lock) -> Reach,
    ) -> Option<Why> {
        match key {
            WorkKey::Instance(key) => self.why_instance(now, key, detail, reach),
            WorkKey::Task(key) => self.why_task(now, key, detail, reach),
            // Batches are driven beside this core.
            WorkKey::Node(_) => None,
        }
    }

    fn why_task(
        &self,
        now: Now,
        key: &TaskKey,
        detail: Detail,
        reach: impl Fn(Lock) -> Reach,
    ) -> Option<Why> {
        let (task, spec) = self.tasks.get(key)?;
        match task.state() {
            TaskState::Pending => {
                let mut why = self.why_unplaced(now, &key.to_work(), task.made(), detail);
                if let Some(at) = spec.latest_start {
                    why.next = why.next.unless_over(at);
                }
                Some(why)
            }
            TaskState::Running { placed, .. } => {
                let lock = placed.on.lock;
                let asked = || self.asked_at(placed.run).filter(|at| *at > now.wall);
                let far = self.why_out_of_reach(now, placed, true, reach(lock));
                let far = far.map(|why| match detail {
                    Detail::Whole => match asked() {
                        Some(at) => Why { next: why.next.unless_drained(at), ..why },
                        None => why,
                    },
                    Detail::Rule => why,
                });
                far.or_else(|| self.why_task_starts(placed, detail)).or_else(|| {
                    let drain = self.drains.get(&lock)?;
                    let (rule, since) = (Rule::Draining { worker: self.machine(lock) }, None);
                    let next = match detail {
                        Detail::Whole => asked().map_or(Next::WhenTold, Next::AskedAt),
                        Detail::Rule => Next::KilledAt(drain.deadline),
                    };
                    Some(Why { rule, since, next })
                })
            }
            TaskState::Completed { end, at } => {
                let (end, since) = (KnownEnd::of(end), Some(*at));
                if let Some(placed) = task.placed() {
                    let reach = reach(placed.on.lock);
                    let next = self.until_killed(now, (placed, true), detail, reach);
                    let rule = Rule::Ending { end, worker: self.machine(placed.on.lock) };
                    return Some(Why { rule, since, next: next.unwrap_or(Next::WhenTold) });
                }
                let rule =
                    if task.is_given_up() { Rule::Untold { end } } else { Rule::Over { end } };
                Some(Why { rule, since, next: Next::Nothing })
            }
            TaskState::Resolving { end, since, .. } => {
                let telling = self.tasks.callback(key).copied().unwrap_or_default();
                let next = telling.next.map_or(Next::WhenAnswered, Next::At);
                let rule = Rule::Telling { end: KnownEnd::of(end), tries: telling.tries };
                Some(Why { rule, since: Some(*since), next })
            }
        }
    }

    /// A task that its worker has not reported as running: it may load an image, or fail to start. The log
    /// does not mention it, for nearly every task is in this state for a moment.
    fn why_task_starts(&self, placed: &Placed, detail: Detail) -> Option<Why> {
        let seat = self.seats.get(placed.run)?;
        if detail == Detail::Rule || seat.stage == Stage::Started {
            return None;
        }
        let worker = self.machine(placed.on.lock);
        let (is_monitored, is_awaited) = (false, false);
        let rule = Rule::Starting { worker, is_monitored, before: None, is_awaited };
        Some(Why { rule, since: None, next: Next::WhenTold })
    }

    /// Work whose worker is silent, or not well: what its contract does, and when at the latest.
    fn why_out_of_reach(
        &self,
        now: Now,
        placed: &Placed,
        is_task: bool,
        reach: Reach,
    ) -> Option<Why> {
        let worker = self.machine(placed.on.lock);
        let (rule, since, otherwise) = match reach {
            Reach::Near => return None,
            Reach::Sick { since } => {
                let facts = self.workers.get(&placed.on.lock).map(|worker| &worker.facts);
                let check = facts.and_then(|facts| Facts::read(facts).failed_check);
                (Rule::Sick { worker, is_task, check }, since, Next::WhenChanged)
            }
            Reach::Silent { heard, .. } => {
                let rule = Rule::OutOfReach { worker, contract: placed.contract, is_task };
                (rule, heard, Next::WhenBack)
            }
        };
        let at = reach.acts_at(placed.contract).map(|at| now.wall_at(at));
        let next = match (at, is_task) {
            (Some(at), true) => Next::OverAt(at),
            (Some(at), false) => Next::At(at),
            (None, true | false) => otherwise,
        };
        Some(Why { rule, since: since.map(|since| now.wall_at(since)), next })
    }

    /// Work that waits for a worker.
    fn why_unplaced(&self, now: Now, key: &WorkKey, since: WallTime, detail: Detail) -> Why {
        let since = Some(since);
        // It is shut only after a restore.
        if !self.queue.is_open() && !self.has_kept_claims() {
            return Why { rule: Rule::Waiting, since, next: Next::WhenCertain };
        }
        if !self.queue.is_open() || self.queue.is_kept_back(key) {
            let missing = match detail {
                Detail::Whole => self.missing(),
                Detail::Rule => Vec::new(),
            };
            let rule = Rule::MayBeKept { missing, is_roster_complete: !self.is_recovered };
            return Why { rule, since, next: Next::WhenBack };
        }
        if let Some(until) = self.queue.resting_until(key).filter(|until| *until > now.wall) {
            return Why { rule: Rule::TurnedDown, since, next: Next::At(until) };
        }
        if self.is_gathered(key) {
            let rule = Rule::Returning { workers: self.coming.len(), is_spread: true };
            let next = self.gathers_until().map_or(Next::WhenThereIsRoom, |until| {
                Next::At(now.wall.plus(until.since(now.boot)))
            });
            return Why { rule, since, next };
        }
        let Some(reason) = self.queue.reason(key) else {
            let (is_monitored, is_awaited) = (false, false);
            let rule = Rule::Starting { worker: None, is_monitored, before: None, is_awaited };
            return Why { rule, since, next: Next::WhenTold };
        };
        if self.may_have_room_soon(now) {
            let rule = Rule::Returning { workers: self.coming.len(), is_spread: false };
            let is_to_fail = key.task().is_some_and(|key| self.queue.is_undecided(key));
            let decided = self.decides_at().filter(|_| is_to_fail);
            let next = decided.map_or(Next::WhenThereIsRoom, |at| {
                Next::EndsAt(now.wall.plus(at.since(now.boot)))
            });
            return Why { rule, since, next };
        }
        let unplaced = match detail {
            Detail::Whole => self.unplaced(key, reason),
            Detail::Rule => Unplaced::plain(reason),
        };
        let next = match unplaced.reason.prospect() {
            Prospect::Wait => Next::WhenThereIsRoom,
            Prospect::Never => Next::WhenChanged,
        };
        Why { rule: Rule::Unplaced(Box::new(unplaced)), since, next }
    }

    /// When a copy is killed that is being ended: when its own time to end is over, or at the end of the
    /// drain of its worker. `None` if nobody here knows since when it is being ended, or whether its worker
    /// has heard of it.
    fn until_killed(
        &self,
        now: Now,
        (placed, is_stopping): (&Placed, bool),
        detail: Detail,
        reach: Reach,
    ) -> Option<Next> {
        let Placed { run, on, .. } = *placed;
        let is_near = matches!(reach, Reach::Near | Reach::Sick { .. });
        if detail == Detail::Rule || !is_near || is_stopping && !self.knows_ending(run) {
            return None;
        }
        let own = self.killed_at(run);
        let drained = self.drains.get(&on.lock).map(|drain| drain.deadline);
        let at = own.into_iter().chain(drained).min()?;
        // It was killed, and its worker says so next.
        Some(if at > now.wall { Next::KilledAt(at) } else { Next::WhenTold })
    }

    /// When the slot of a second copy is free again.
    fn until_twin_is_gone(
        &self,
        now: Now,
        twin: &Twin,
        detail: Detail,
        reach: impl Fn(Lock) -> Reach,
    ) -> Next {
        match twin.reason {
            // Whoever is silent does not hear that it is to end.
            TwinReason::Silent => Next::WhenGone,
            TwinReason::Evacuating | TwinReason::Surplus => {
                let ends = (&twin.copy.placed, twin.copy.stopping.is_some());
                let reach = reach(twin.copy.placed.on.lock);
                self.until_killed(now, ends, detail, reach).unwrap_or(Next::WhenGone)
            }
        }
    }

    fn why_instance(
        &self,
        now: Now,
        key: &InstanceKey,
        detail: Detail,
        reach: impl Fn(Lock) -> Reach,
    ) -> Option<Why> {
        let instance = self.instances.get(key)?;
        let InstanceKey { service, index } = key;
        let known = self.services.get(service);
        let told = |rule, since| Some(Why { rule, since, next: Next::WhenTold });
        let name = |on: Incarnation| self.machine(on.lock);
        if let Some(why) = self.why_copy_is_out_of_reach(now, instance, detail, &reach) {
            return Some(why);
        }
        if let Some(why) = self.why_unwanted(now, key, detail, &reach) {
            return Some(why);
        }
        match instance.state() {
            InstanceState::Unclaimed { since } => {
                let contract = known.map(|known| known.record.spec.contract);
                let is_blocked =
                    contract.is_some_and(|contract| !services::may_start(instance, contract));
                if let (true, Some(twin)) = (is_blocked, instance.twin()) {
                    let worker = name(twin.copy.placed.on);
                    let rule = Rule::SlotTaken { worker, twin: twin.reason };
                    let next = self.until_twin_is_gone(now, twin, detail, &reach);
                    return Some(Why { rule, since: Some(*since), next });
                }
                Some(self.why_unplaced(now, &key.to_work(), *since, detail))
            }
            InstanceState::Claimed { copy, .. } | InstanceState::Running { copy, .. }
                if copy.stopping.is_some() =>
            {
                let (worker, reason) = (name(copy.placed.on), copy.stopping?);
                // The record has the moment at which it began, and not that of its stop.
                let ends = (&copy.placed, true);
                let next = self.until_killed(now, ends, detail, reach(copy.placed.on.lock));
                let next = next.unwrap_or(Next::WhenTold);
                Some(Why { rule: Rule::Stopping { worker, reason }, since: None, next })
            }
            InstanceState::Claimed { copy, since } => {
                let its = known.filter(|known| known.record.version == copy.version);
                told(starting(name(copy.placed.on), its, instance, detail), Some(*since))
            }
            InstanceState::Running { since, .. } => match instance.twin() {
                None => self.why_alone((service, *index), known, instance, detail),
                Some(twin) => {
                    let is_moved = twin.reason == TwinReason::Evacuating;
                    let unready = self.why_unready(known, (service, *index), instance);
                    if let Some(why) = unready.filter(|_| is_moved) {
                        return Some(why);
                    }
                    let next = self.until_twin_is_gone(now, twin, detail, &reach);
                    let (worker, twin) = (name(twin.copy.placed.on), twin.reason);
                    let rule = Rule::HasTwin { worker, twin };
                    Some(Why { rule, since: Some(*since), next })
                }
            },
            InstanceState::Crashed { until } => {
                let crashed = crashed(instance);
                let (rule, next) = match until {
                    Some(until) => (Rule::Crashed(crashed), Next::At(*until)),
                    None => (Rule::GivenUp(crashed), Next::WhenChanged),
                };
                Some(Why { rule, since: instance.crashes().last, next })
            }
        }
    }

    /// An instance that runs, with no second copy beside it.
    fn why_alone(
        &self,
        (service, index): (&ServiceKey, u32),
        known: Option<&Service>,
        instance: &Instance,
        detail: Detail,
    ) -> Option<Why> {
        if let Some(known) = known.filter(|known| known.outdated.contains(&index)) {
            return Some(self.why_outdated(service, known, detail));
        }
        let unready = self.why_unready(known, (service, index), instance);
        unready.or_else(|| self.why_settling(service, known?, (index, instance), detail))
    }
}
