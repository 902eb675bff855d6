//! What people read of a rule.

use std::fmt;

use sterna_model::{
    Contract, Name,
    record::{StopReason, TwinReason},
};

use super::{Awaited, Machine, Rule};

const RESTORED: &str = "the store was restored, and what it has forgotten may still run: nothing is started until that has \
     certainly ended; `sterna status` says when, and what `sterna declare-complete` is for";

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let on = |worker: &Option<Machine>| match worker {
            Some(worker) => worker.to_string(),
            None => "a worker that is not here".to_owned(),
        };
        match self {
            Self::Waiting => f.write_str(RESTORED),
            Self::MayBeKept { missing, is_roster_complete } => {
                write_kept(f, missing, *is_roster_complete)
            }
            Self::Unplaced(unplaced) => unplaced.fmt(f),
            Self::TurnedDown => f.write_str("a worker has just turned it down"),
            Self::Starting { worker, is_monitored, before, is_awaited } => {
                write!(f, "{} starts it", on(worker))?;
                if *is_monitored {
                    f.write_str("; its monitor has not succeeded yet")?;
                }
                if *is_awaited {
                    f.write_str("; an update waits for it")?;
                }
                before.as_ref().map_or(Ok(()), |crashed| write!(f, "; before that {crashed}"))
            }
            Self::Stopping { worker, reason } => {
                write!(f, "{} ends it: {}", on(worker), stops_for(*reason))
            }
            Self::Crashed(crashed) => write!(f, "{crashed}; it waits"),
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
                write!(f, "{}, which has it, is heard, and its health checks fail", on(worker))?;
                write_sick(f, worker.as_ref(), *is_task, check.as_deref())
            }
            Self::OutOfReach { worker, contract, is_task } => {
                write!(f, "{}, which has it, is silent; ", on(worker))?;
                write_silent(f, worker.as_ref(), *contract, *is_task)
            }
            Self::Draining { worker } => write!(
                f,
                "{}, which has it, is drained; a task runs on there until it ends, or the drain does",
                on(worker)
            ),
            Self::Returning { workers, is_spread } => write_returning(f, *workers, *is_spread),
            Self::Telling { end, tries: 0 } => {
                write!(f, "it is over: {end}; its callback is on its way")
            }
            Self::Telling { end, tries } => {
                write!(f, "it is over: {end}; its callback was not taken, {tries} in a row")
            }
            Self::Untold { end } => {
                write!(f, "it is over: {end}; its callback was never taken, and was given up")
            }
            Self::Ending { end, worker } => {
                write!(f, "it is over: {end}; {} still ends it", on(worker))
            }
            Self::Over { end } => write!(f, "it is over: {end}"),
        }
    }
}

const GIVEN_UP: &str =
    "it was given up: change its spec, or `sterna stop` it to let it begin again";

fn write_returning(f: &mut fmt::Formatter<'_>, workers: usize, is_spread: bool) -> fmt::Result {
    let are = if workers == 1 { "worker is" } else { "workers are" };
    // tidy: not a table
    match (workers, is_spread) {
        (0, true) => f.write_str("this leader has just begun, and waits a moment for more workers"),
        (_, true) => {
            write!(f, "this leader has just begun, and waits a moment for {workers} of its workers")
        }
        (_, false) => {
            write!(f, "nobody who is here has room; {workers} {are} not back with this leader yet")
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
    f.write_str(": it gets no new work, and this runs on there; ")?;
    match (is_task, check.is_some()) {
        (true, false) => write!(f, "see the log of {whom} for the check that fails"),
        (true, true) => write!(f, "mend that on {whom}"),
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
    write!(f, "; if that machine is gone for good: `sterna declare-dead {whom}`")?;
    write!(f, ", and `sterna forget {whom}` once it has nothing")
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
        0 => f.write_str("it is the last of another version")?,
        1 => f.write_str("it is of another version, and one more is too")?,
        _ => write!(f, "it is of another version, and {others} others are too")?,
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
        Some(Awaited::Room { count, at_most }) => {
            let (find, them) = if *count == 1 { ("finds", "it") } else { ("find", "them") };
            write!(f, "; {count} {find} no room, at most {at_most} may be missing, ")?;
            write!(f, "and to end another one makes no room for {them}")
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
        StopReason::Update => "its spec has another version",
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
