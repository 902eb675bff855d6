//! What people read of a rule.

use std::fmt;

use sterna_model::{
    Contract, Name,
    record::{StopReason, TwinReason},
};

use super::{Awaited, Machine, Rule};

const RESTORED: &str = "the store was restored, and work that it has forgotten may still run; the leader starts nothing until \
     that work has certainly ended; `sterna status` shows when, and what `sterna declare-complete` is for";

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let on = |worker: &Option<Machine>| match worker {
            Some(worker) => worker.to_string(),
            None => "an absent worker".to_owned(),
        };
        match self {
            Self::Waiting => f.write_str(RESTORED),
            Self::MayBeKept { missing, is_roster_complete } => {
                write_kept(f, missing, *is_roster_complete)
            }
            Self::Unplaced(unplaced) => unplaced.fmt(f),
            Self::TurnedDown => f.write_str("a worker has just refused it"),
            Self::Starting { worker, is_monitored, before, is_awaited } => {
                match worker {
                    Some(worker) => write!(f, "{worker} is starting it")?,
                    None => f.write_str("it is about to start")?,
                }
                if *is_monitored {
                    f.write_str("; its monitor has not succeeded yet")?;
                }
                if *is_awaited {
                    f.write_str("; an update waits for it")?;
                }
                before.as_ref().map_or(Ok(()), |crashed| write!(f, "; before that {crashed}"))
            }
            Self::Stopping { worker, reason } => {
                write!(f, "{} is ending it: {}", on(worker), stops_for(*reason))
            }
            Self::Crashed(crashed) => write!(f, "{crashed}; it waits before it restarts"),
            Self::GivenUp(crashed) => write!(f, "{crashed}; {GIVEN_UP}"),
            Self::SlotTaken { worker, twin } => {
                let does = twin_does(*twin);
                write!(f, "a copy on {} {does}, and may still run", on(worker))?;
                write_twin_remedy(f, worker.as_ref(), *twin)
            }
            Self::Unwanted { stale } => write_unwanted(f, stale.as_ref()),
            Self::Outdated { others, awaits } => write_outdated(f, *others, awaits.as_ref()),
            Self::Settling(settling) => settling.fmt(f),
            Self::Unready(unready) => unready.fmt(f),
            Self::HasTwin { worker, twin } => {
                write!(f, "a second copy on {} {}", on(worker), twin_does(*twin))?;
                write_twin_remedy(f, worker.as_ref(), *twin)
            }
            Self::Sick { worker, is_task, check } => {
                write!(f, "{} has it and answers, but its health checks fail", on(worker))?;
                write_sick(f, worker.as_ref(), *is_task, check.as_deref())
            }
            Self::OutOfReach { worker, contract, is_task } => {
                write!(f, "{} has it and does not answer; ", on(worker))?;
                write_silent(f, worker.as_ref(), *contract, *is_task)
            }
            Self::Draining { worker } => write!(
                f,
                "{} has it and is being drained; a task keeps running there until it ends or the drain does",
                on(worker)
            ),
            Self::Returning { workers, is_spread } => write_returning(f, *workers, *is_spread),
            Self::Telling { end, tries: 0 } => {
                write!(f, "{end}; the leader is sending its callback")
            }
            Self::Telling { end, tries } => {
                write!(f, "{end}; its callback failed, {tries} in a row; the leader retries it")
            }
            Self::Untold { end } => {
                write!(f, "{end}; its callback failed, and the leader gave it up")
            }
            Self::Ending { end, worker } => {
                write!(f, "{end}; {} is still ending it", on(worker))
            }
            Self::Over { end } => end.fmt(f),
        }
    }
}

const GIVEN_UP: &str =
    "the leader gave up restarting it: change its spec, or restart it with `sterna stop`";

fn write_returning(f: &mut fmt::Formatter<'_>, workers: usize, is_spread: bool) -> fmt::Result {
    let are = if workers == 1 { "worker is" } else { "workers are" };
    // tidy: not a table
    match (workers, is_spread) {
        (0, true) => f.write_str("this leader is new and waits a moment for more workers"),
        (_, true) => {
            write!(f, "this leader is new and waits a moment for {workers} of its workers")
        }
        (_, false) => {
            write!(f, "no connected worker has room; {workers} {are} not back with this leader yet")
        }
    }
}

fn write_kept(f: &mut fmt::Formatter<'_>, missing: &[Name], is_complete: bool) -> fmt::Result {
    f.write_str("the store was restored, and a missing worker may still run it: it waits")?;
    let names: Vec<_> = missing.iter().map(Name::as_str).collect();
    if !names.is_empty() {
        write!(f, " for {} to return, or for `sterna declare-dead`", names.join(", "))?;
    }
    match (names.is_empty(), is_complete) {
        (true | false, true) => Ok(()),
        (true, false) => {
            f.write_str(" until `sterna declare-complete` says that no worker is missing")
        }
        (false, false) => f.write_str(
            "; and until `sterna declare-complete` says that no other worker is missing",
        ),
    }
}

/// Why what no spec wants is not ended.
fn write_unwanted(f: &mut fmt::Formatter<'_>, stale: Option<&Name>) -> fmt::Result {
    match stale {
        None => f.write_str(
            "no spec asks for it, but the store was restored and may have lost its spec; the leader ends it only \
             if you stop it by name; otherwise apply its spec again",
        ),
        Some(domain) => write!(
            f,
            "no spec asks for it, but its domain {domain} is stale and may lack specs; the leader ends it once \
             the domain is fresh, or if you stop it by name"
        ),
    }
}

/// What becomes of work on a worker that is heard and not well.
fn write_sick(
    f: &mut fmt::Formatter<'_>,
    worker: Option<&Machine>,
    is_task: bool,
    check: Option<&str>,
) -> fmt::Result {
    let whom = whom(worker);
    if let Some(check) = check {
        write!(f, " ({check})")?;
    }
    f.write_str(": that worker gets no new work, and this keeps running there; ")?;
    match (is_task, check.is_some()) {
        (true, false) => write!(f, "the log of {whom} names the failing check"),
        (true, true) => write!(f, "fix that on {whom}"),
        (false, true | false) => write!(f, "`sterna drain {whom}` moves it"),
    }
}

/// What a contract does while a worker is silent, and the remedy.
fn write_silent(
    f: &mut fmt::Formatter<'_>,
    worker: Option<&Machine>,
    contract: Contract,
    is_task: bool,
) -> fmt::Result {
    f.write_str(while_silent(contract, is_task))?;
    write_gone_for_good(f, worker)
}

/// By what a command finds a worker, or where to write it.
fn whom(worker: Option<&Machine>) -> String {
    worker.map_or_else(|| "WORKER".to_owned(), Machine::whom)
}

fn write_gone_for_good(f: &mut fmt::Formatter<'_>, worker: Option<&Machine>) -> fmt::Result {
    let whom = whom(worker);
    write!(f, "; if that machine is gone for good, run `sterna declare-dead {whom}`")?;
    write!(f, ", and `sterna forget {whom}` once it has no work")
}

/// What helps if a second copy stays: only a silent one does not go by itself.
fn write_twin_remedy(
    f: &mut fmt::Formatter<'_>,
    worker: Option<&Machine>,
    twin: TwinReason,
) -> fmt::Result {
    match twin {
        TwinReason::Silent => write_gone_for_good(f, worker),
        TwinReason::Evacuating | TwinReason::Surplus => Ok(()),
    }
}

fn write_outdated(
    f: &mut fmt::Formatter<'_>,
    others: usize,
    awaits: Option<&Awaited>,
) -> fmt::Result {
    match others {
        0 => f.write_str("it is the last instance that runs another version")?,
        1 => f.write_str("it runs another version, like 1 other instance")?,
        _ => write!(f, "it runs another version, like {others} other instances")?,
    }
    match awaits {
        None => Ok(()),
        Some(Awaited::Settling { service, index, healthy_for, .. }) => {
            write!(f, "; the update waits until {service}/{index} has run for {healthy_for}")
        }
        Some(Awaited::Missing { count, at_most }) => {
            let (are, may) = (if *count == 1 { "is" } else { "are" }, at_most);
            write!(f, "; {count} {are} not available yet, and at most {may} may be unavailable")
        }
        Some(Awaited::Room { count, at_most }) => {
            let (find, them) = if *count == 1 { ("finds", "it") } else { ("find", "them") };
            write!(f, "; {count} {find} no room, at most {at_most} may be unavailable, ")?;
            write!(f, "and ending another one makes no room for {them}")
        }
    }
}

const fn while_silent(contract: Contract, is_task: bool) -> &'static str {
    match (contract, is_task) {
        (Contract::Replace { .. }, true | false) => {
            "if the worker stays silent, the leader starts another copy beside it (`replace`)"
        }
        (Contract::Stop { .. }, false) => {
            "if the worker stays silent, the leader starts it elsewhere once it has certainly ended there (`stop`)"
        }
        (Contract::Stop { .. }, true) => {
            "if the worker stays silent, the task fails once it has certainly ended there (`stop`)"
        }
        (Contract::Keep, true | false) => "the leader keeps it for that worker (`keep`)",
    }
}

const fn stops_for(reason: StopReason) -> &'static str {
    match reason {
        StopReason::Unwanted => "its spec no longer asks for it",
        StopReason::Asked => "a client asked for it",
        StopReason::Update => "the update replaces it",
        StopReason::Elsewhere => "another copy replaces it",
        StopReason::Drain => "its worker is being drained",
    }
}

const fn twin_does(twin: TwinReason) -> &'static str {
    match twin {
        TwinReason::Silent => "is out of reach",
        TwinReason::Evacuating => "is being moved",
        TwinReason::Surplus => "is being ended",
    }
}
