//! Why something is not where its spec wants it: the rule, since when, and what happens next.
//!
//! The same value goes into logs, answers and pages; nobody words it again.

mod outdated;
mod unplaced;

use std::fmt;

use sterna_model::{
    Contract, Incarnation, Lock, Name, Span, WallTime, WorkKey,
    record::{Instance, InstanceState, Placed, StopReason, TaskState, TwinReason},
};
use sterna_protocol::scheduler::Reach;

pub use self::unplaced::Unplaced;
use super::{Control, Now, ServiceRecord, payload, services};
use crate::auction::Prospect;

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
    /// A worker has just turned it down.
    TurnedDown,
    /// It is on its way.
    Starting {
        /// Where.
        worker: Option<Name>,
        /// Whether it counts as running only once its monitor succeeds.
        is_monitored: bool,
        /// That it crashed before, if it did.
        before: Option<Crashed>,
    },
    /// It is being ended.
    Stopping {
        /// Where.
        worker: Option<Name>,
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
        worker: Option<Name>,
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
    /// A second copy is there beside it.
    HasTwin {
        /// Where.
        worker: Option<Name>,
        /// What it does there.
        twin: TwinReason,
    },
    /// It is with a worker that is heard and whose checks fail: it runs on there.
    Sick {
        /// Which.
        worker: Option<Name>,
        /// Whether it is a task, which is not moved.
        is_task: bool,
    },
    /// It is with a worker that is not heard.
    OutOfReach {
        /// Which.
        worker: Option<Name>,
        /// What holds for it meanwhile.
        contract: Contract,
        /// Whether it is a task, which is not started again.
        is_task: bool,
    },
    /// It is over, and whoever asked for it is being told.
    Telling {
        /// How it ended, in words.
        end: String,
        /// How often that was not taken.
        tries: u32,
    },
    /// It is over, and nobody took that.
    Untold {
        /// How it ended, in words.
        end: String,
    },
    /// It is over.
    Over {
        /// How, in words.
        end: String,
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

/// What happens next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    /// It is tried at this moment.
    At(WallTime),
    /// It is over at this moment, unless its worker is heard again.
    OverAt(WallTime),
    /// It goes on when its worker says more.
    WhenTold,
    /// It goes on when more instances of the new version serve.
    WhenServing,
    /// It goes on when what the store has forgotten has certainly ended.
    WhenCertain,
    /// It is tried when a worker has more room, or another one comes.
    WhenThereIsRoom,
    /// It goes on when these workers are back, or somebody who must know speaks for them.
    WhenBack,
    /// It goes on when that copy is certainly gone.
    WhenGone,
    /// Nothing, until somebody changes a worker or the spec.
    WhenChanged,
    /// Nothing: it is as it stays.
    Nothing,
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let on = |worker: &Option<Name>| match worker {
            Some(worker) => worker.to_string(),
            None => "a worker that is not here".to_owned(),
        };
        match self {
            Self::Waiting => f.write_str(
                "the store was restored, and what it has forgotten may still run: nothing is started \
                 until that has certainly ended; `sterna status` says when, and what \
                 `sterna declare-complete` is for",
            ),
            Self::MayBeKept { missing, is_roster_complete } => {
                write_kept(f, missing, *is_roster_complete)
            }
            Self::Unplaced(unplaced) => unplaced.fmt(f),
            Self::TurnedDown => f.write_str("a worker has just turned it down"),
            Self::Starting { worker, is_monitored, before } => {
                write!(f, "{} starts it", on(worker))?;
                if *is_monitored {
                    f.write_str("; its monitor has not succeeded yet")?;
                }
                before.as_ref().map_or(Ok(()), |crashed| write!(f, "; before that {crashed}"))
            }
            Self::Stopping { worker, reason } => {
                write!(f, "{} ends it: {}", on(worker), stops_for(*reason))
            }
            Self::Crashed(crashed) => write!(f, "{crashed}; it waits"),
            Self::GivenUp(crashed) => write!(
                f,
                "{crashed}; it was given up: change its spec, or `sterna stop` it to let it begin again"
            ),
            Self::SlotTaken { worker, twin } => {
                let does = twin_does(*twin);
                write!(f, "a copy on {} {does}, and may still run", on(worker))?;
                write_twin_remedy(f, worker.as_ref(), *twin)
            }
            Self::Unwanted { stale } => write_unwanted(f, stale.as_ref()),
            Self::Outdated { others, awaits } => write_outdated(f, *others, awaits.as_ref()),
            Self::HasTwin { worker, twin } => {
                write!(f, "a second copy on {} {}", on(worker), twin_does(*twin))?;
                write_twin_remedy(f, worker.as_ref(), *twin)
            }
            Self::Sick { worker, is_task } => {
                write!(f, "{}, which has it, is heard, and its health checks fail: ", on(worker))?;
                write_sick(f, worker.as_ref(), *is_task)
            }
            Self::OutOfReach { worker, contract, is_task } => {
                write!(f, "{}, which has it, is silent; ", on(worker))?;
                write_silent(f, worker.as_ref(), *contract, *is_task)
            }
            Self::Telling { end, tries: 0 } => {
                write!(f, "it is over: {end}; its callback is on its way")
            }
            Self::Telling { end, tries } => {
                write!(f, "it is over: {end}; its callback was not taken, {tries} in a row")
            }
            Self::Untold { end } => {
                write!(f, "it is over: {end}; its callback was never taken, and was given up")
            }
            Self::Over { end } => write!(f, "it is over: {end}"),
        }
    }
}

fn write_kept(f: &mut fmt::Formatter<'_>, missing: &[Name], is_complete: bool) -> fmt::Result {
    f.write_str("the store was restored, and a missing worker may keep it: it waits")?;
    let names: Vec<_> = missing.iter().map(Name::as_str).collect();
    if !names.is_empty() {
        write!(f, " for {}, or `sterna declare-dead`", names.join(", "))?;
    }
    match (names.is_empty(), is_complete) {
        (true | false, true) => Ok(()),
        (true, false) => {
            f.write_str(" until `sterna declare-complete` says that nobody is missing")
        }
        (false, false) => {
            f.write_str("; and until `sterna declare-complete` says that nobody else is missing")
        }
    }
}

/// Why what no spec wants is not ended.
fn write_unwanted(f: &mut fmt::Formatter<'_>, stale: Option<&Name>) -> fmt::Result {
    match stale {
        None => f.write_str(
            "no spec wants it, but the store was restored, and its spec may be lost: it is ended only \
             by name; apply its spec again, or stop it",
        ),
        Some(domain) => write!(
            f,
            "no spec wants it, but what its domain {domain} wants is not known to be all: it is ended \
             when the domain is said to be fresh, or by name"
        ),
    }
}

/// What becomes of work on a worker that is heard and not well.
fn write_sick(f: &mut fmt::Formatter<'_>, worker: Option<&Name>, is_task: bool) -> fmt::Result {
    let worker = worker.map_or("WORKER", Name::as_str);
    f.write_str("it gets no new work, and this runs on there; ")?;
    match is_task {
        true => write!(f, "see the log of {worker} for the check that fails"),
        false => write!(f, "`sterna drain {worker}` moves it"),
    }
}

/// What a contract does while a worker is silent, and the remedy.
fn write_silent(
    f: &mut fmt::Formatter<'_>,
    worker: Option<&Name>,
    contract: Contract,
    is_task: bool,
) -> fmt::Result {
    let worker = worker.map_or("WORKER", Name::as_str);
    f.write_str(while_silent(contract, is_task))?;
    write_gone_for_good(f, worker)
}

fn write_gone_for_good(f: &mut fmt::Formatter<'_>, worker: &str) -> fmt::Result {
    write!(f, "; if that machine is gone for good: `sterna declare-dead {worker}`")?;
    write!(f, ", and `sterna forget {worker}` once it has nothing")
}

/// What helps if a second copy stays: only a silent one does not go by itself.
fn write_twin_remedy(
    f: &mut fmt::Formatter<'_>,
    worker: Option<&Name>,
    twin: TwinReason,
) -> fmt::Result {
    match twin {
        TwinReason::Silent => write_gone_for_good(f, worker.map_or("WORKER", Name::as_str)),
        TwinReason::Evacuating | TwinReason::Surplus => Ok(()),
    }
}

fn write_outdated(
    f: &mut fmt::Formatter<'_>,
    others: usize,
    awaits: Option<&Awaited>,
) -> fmt::Result {
    match others {
        0 => f.write_str("it is the last of an older version")?,
        1 => f.write_str("it is of an older version, and another one is too")?,
        _ => write!(f, "it is of an older version, and {others} others are too")?,
    }
    match awaits {
        None => Ok(()),
        Some(Awaited::Settling { service, index, healthy_for, .. }) => {
            write!(f, "; it waits for {service}/{index} to have run for {healthy_for}")
        }
        Some(Awaited::Missing { count, at_most }) => {
            let (are, may) = (if *count == 1 { "is" } else { "are" }, at_most);
            write!(f, "; {count} {are} not there yet, and at most {may} may be missing")
        }
    }
}

const fn while_silent(contract: Contract, is_task: bool) -> &'static str {
    match (contract, is_task) {
        (Contract::Replace { .. }, true | false) => {
            "if it stays silent, another copy is started beside it (`replace`)"
        }
        (Contract::Stop { .. }, false) => {
            "if it stays silent, it starts elsewhere when it has certainly ended there (`stop`)"
        }
        (Contract::Stop { .. }, true) => {
            "if it stays silent, it has failed when it has certainly ended there (`stop`)"
        }
        (Contract::Keep, true | false) => "it is kept for that worker (`keep`)",
    }
}

const fn stops_for(reason: StopReason) -> &'static str {
    match reason {
        StopReason::Unwanted => "its spec no longer wants it",
        StopReason::Asked => "somebody asked for it",
        StopReason::Update => "its spec has a newer version",
        StopReason::Elsewhere => "another copy has its place",
        StopReason::Drain => "its worker is drained",
    }
}

const fn twin_does(twin: TwinReason) -> &'static str {
    match twin {
        TwinReason::Silent => "is silent",
        TwinReason::Evacuating => "is being moved",
        TwinReason::Surplus => "is being ended",
    }
}

/// Of an instance that a worker starts, by its service if that is the version that is started.
fn starting(worker: Option<Name>, record: Option<&ServiceRecord>, instance: &Instance) -> Rule {
    let is_monitored = record.is_some_and(|record| payload::is_monitored(&record.spec.work));
    let before = (instance.crashes().count > 0).then(|| crashed(instance));
    Rule::Starting { worker, is_monitored, before }
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
        if services::service_of(key).is_some() {
            self.why_instance(now, key, reach)
        } else {
            self.why_task(now, key, reach)
        }
    }

    fn why_task(&self, now: Now, key: &WorkKey, reach: impl Fn(Lock) -> Reach) -> Option<Why> {
        let (task, spec) = self.tasks.get(key)?;
        match task.state() {
            TaskState::Pending => {
                let mut why = self.why_unplaced(now, key, task.made());
                if let (Next::WhenThereIsRoom | Next::WhenChanged | Next::WhenBack, Some(at)) =
                    (&why.next, spec.latest_start)
                {
                    why.next = Next::At(at);
                }
                Some(why)
            }
            TaskState::Running { placed, .. } => {
                self.why_out_of_reach(now, placed, true, reach(placed.on.lock))
            }
            TaskState::Completed { end, at } => {
                let (end, since) = (end.to_string(), Some(*at));
                let rule =
                    if task.is_given_up() { Rule::Untold { end } } else { Rule::Over { end } };
                Some(Why { rule, since, next: Next::Nothing })
            }
            TaskState::Resolving { end, since, .. } => {
                let telling = self.callbacks.get(key).copied().unwrap_or_default();
                let next = telling.next.map_or(Next::WhenTold, Next::At);
                let rule = Rule::Telling { end: end.to_string(), tries: telling.tries };
                Some(Why { rule, since: Some(*since), next })
            }
        }
    }

    /// Work whose worker is silent, or not well: what its contract does, and when at the latest.
    fn why_out_of_reach(
        &self,
        now: Now,
        placed: &Placed,
        is_task: bool,
        reach: Reach,
    ) -> Option<Why> {
        let worker = self.name_of(placed.on.lock);
        let (rule, since, otherwise) = match reach {
            Reach::Near => return None,
            Reach::Sick { since } => (Rule::Sick { worker, is_task }, since, Next::WhenChanged),
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
    fn why_unplaced(&self, now: Now, key: &WorkKey, since: WallTime) -> Why {
        let since = Some(since);
        // It is shut only after a restore.
        if !self.doors.unclaimed && !self.has_kept_claims() {
            return Why { rule: Rule::Waiting, since, next: Next::WhenCertain };
        }
        if !self.doors.unclaimed || self.kept_back.contains_key(key) {
            let rule =
                Rule::MayBeKept { missing: self.missing(), is_roster_complete: !self.is_recovered };
            return Why { rule, since, next: Next::WhenBack };
        }
        if let Some(until) = self.resting.get(key).filter(|until| **until > now.wall) {
            return Why { rule: Rule::TurnedDown, since, next: Next::At(*until) };
        }
        let Some(reason) = self.left.get(key) else {
            let rule = Rule::Starting { worker: None, is_monitored: false, before: None };
            return Why { rule, since, next: Next::WhenTold };
        };
        let unplaced = self.unplaced(key, reason);
        let next = match unplaced.reason.prospect() {
            Prospect::Wait => Next::WhenThereIsRoom,
            Prospect::Never => Next::WhenChanged,
        };
        Why { rule: Rule::Unplaced(Box::new(unplaced)), since, next }
    }

    fn why_instance(&self, now: Now, key: &WorkKey, reach: impl Fn(Lock) -> Reach) -> Option<Why> {
        let instance = self.instances.get(key)?;
        let (service, index) = services::index_of(key)?;
        let known = self.services.get(&service);
        let told = |rule, since| Some(Why { rule, since, next: Next::WhenTold });
        let name = |on: Incarnation| self.name_of(on.lock);
        if let Some(placed) = instance.copy().map(|copy| &copy.placed)
            && instance.twin().is_none()
            && let Some(why) = self.why_out_of_reach(now, placed, false, reach(placed.on.lock))
        {
            return Some(why);
        }
        let runs = instance.copy().filter(|copy| copy.stopping.is_none());
        if runs.is_some() && !self.is_wanted(key) {
            let stale = known.filter(|_| !self.is_recovered);
            let stale = stale.map(|known| known.record.spec.domain.clone());
            let rule = Rule::Unwanted { stale };
            return Some(Why { rule, since: None, next: Next::WhenChanged });
        }
        match instance.state() {
            InstanceState::Unclaimed { since } => {
                let contract = known.map(|known| known.record.spec.contract);
                let is_blocked =
                    contract.is_some_and(|contract| !services::may_start(instance, contract));
                if let (true, Some(twin)) = (is_blocked, instance.twin()) {
                    let worker = name(twin.copy.placed.on);
                    let rule = Rule::SlotTaken { worker, twin: twin.reason };
                    return Some(Why { rule, since: Some(*since), next: Next::WhenGone });
                }
                Some(self.why_unplaced(now, key, *since))
            }
            InstanceState::Claimed { copy, .. } | InstanceState::Running { copy, .. }
                if copy.stopping.is_some() =>
            {
                let (worker, reason) = (name(copy.placed.on), copy.stopping?);
                // The record has the moment at which it began, and not that of its stop.
                told(Rule::Stopping { worker, reason }, None)
            }
            InstanceState::Claimed { copy, since } => {
                let record = known.map(|known| &*known.record);
                let record = record.filter(|record| record.version == copy.version);
                told(starting(name(copy.placed.on), record, instance), Some(*since))
            }
            InstanceState::Running { since, .. } => {
                if let Some(twin) = instance.twin() {
                    let (worker, twin) = (name(twin.copy.placed.on), twin.reason);
                    return Some(Why {
                        rule: Rule::HasTwin { worker, twin },
                        since: Some(*since),
                        next: Next::WhenGone,
                    });
                }
                known
                    .filter(|it| it.outdated.contains(&index))
                    .map(|it| self.why_outdated(&service, it))
            }
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
}
