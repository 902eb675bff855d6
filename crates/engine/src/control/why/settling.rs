//! Why an instance that runs is not taken for there: an update waits until it has run for long enough.

use std::fmt;

use sterna_model::{
    ServiceKey, Span, WallTime,
    record::{Instance, InstanceState},
};

use super::{Detail, Next, Rule, Why};
use crate::control::{Control, standing::Service};

/// An instance that an update waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settling {
    /// How long it must have run.
    pub healthy_for: Span,
    /// What follows when it has.
    pub then: Then,
    /// So many more crashes, and the version is taken back; `None` if it is not.
    pub crashes_left: Option<u32>,
}

/// What an update does when an instance has run for long enough.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Then {
    /// It replaces another one of these of another version.
    Replaces {
        /// How many there are.
        outdated: usize,
    },
    /// It is complete.
    Completes,
    /// It waits for others.
    WaitsOn {
        /// How many are missing.
        missing: usize,
    },
    /// It waits for room for those that find none.
    WaitsForRoom {
        /// How many.
        unplaced: usize,
    },
}

impl fmt::Display for Settling {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { healthy_for, then, crashes_left } = self;
        write!(
            f,
            "it runs the wanted version, and the update waits until it has run for {healthy_for}; "
        )?;
        match then {
            Then::Replaces { outdated: 1 } => {
                f.write_str("then the update replaces the last instance of another version")?;
            }
            Then::Replaces { outdated } => {
                write!(
                    f,
                    "then the update replaces the next of {outdated} instances of another version"
                )?;
            }
            Then::Completes => f.write_str("then the update is complete")?,
            Then::WaitsOn { missing: 1 } => f.write_str("then it waits for 1 other instance")?,
            Then::WaitsOn { missing } => write!(f, "then it waits for {missing} other instances")?,
            Then::WaitsForRoom { unplaced: 1 } => {
                f.write_str("then it waits for room for 1 other instance")?;
            }
            Then::WaitsForRoom { unplaced } => {
                write!(f, "then it waits for room for {unplaced} other instances")?;
            }
        }
        match crashes_left {
            None => Ok(()),
            Some(1) => f.write_str("; one more crash before that rolls the version back"),
            Some(left) => write!(f, "; {left} crashes before that roll the version back"),
        }
    }
}

#[cfg(test)]
thread_local! {
    /// How many instances were looked at.
    pub(in crate::control) static LOOKS: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

impl Control {
    /// An instance of the version that is wanted, while that comes about.
    pub(super) fn why_settling(
        &self,
        key: &ServiceKey,
        known: &Service,
        (index, instance): (u32, &Instance),
        detail: Detail,
    ) -> Option<Why> {
        // One that comes after a version was taken back settles, too, and nothing waits for it.
        if !known.is_updating() || !known.missing.contains(&index) {
            return None;
        }
        let (at, since) = settles(known, instance)?;
        let update = known.record.spec.update;
        let then = match detail {
            Detail::Whole => self.then(key, known, at),
            Detail::Rule => Then::WaitsOn { missing: known.missing.len() - 1 },
        };
        let crashes_left = crashes_left(known);
        let rule = Rule::Settling(Settling { healthy_for: update.healthy_for, then, crashes_left });
        Some(Why { rule, since: Some(since), next: Next::ServesAt(at) })
    }

    /// What an update does at this moment, if nothing changes until then.
    fn then(&self, key: &ServiceKey, known: &Service, at: WallTime) -> Then {
        let by_then = self.settling(key, known).filter(|(one, _)| *one <= at).count();
        let missing = known.missing.len() - by_then;
        let awaited = missing.saturating_sub(known.unplaced.len());
        let outdated = known.outdated.len();
        if outdated > 0 && self.ends_more(key, known, missing) {
            return Then::Replaces { outdated };
        }
        // tidy: not a table
        match (awaited, outdated) {
            (0, 0) => Then::Completes,
            (0, 1..) => Then::WaitsForRoom { unplaced: known.unplaced.len() },
            (1.., 0..) => Then::WaitsOn { missing: awaited },
        }
    }

    /// Those of the version that is wanted that run and are not taken for there yet, and when each is.
    pub(super) fn settling<'a>(
        &'a self,
        key: &ServiceKey,
        known: &'a Service,
    ) -> impl Iterator<Item = (WallTime, u32)> + use<'a> {
        // Both are in the order of their indices.
        let mut missing = known.missing.iter().peekable();
        self.instances.row(key).filter_map(move |(index, instance)| {
            while missing.next_if(|one| **one < index).is_some() {}
            missing.next_if_eq(&&index)?;
            settles(known, instance).map(|(at, _)| (at, index))
        })
    }
}

/// How many more crashes of a version that comes about take it back; `None` if none do.
pub(super) fn crashes_left(known: &Service) -> Option<u32> {
    let record = &known.record;
    let limit = record.spec.update.revert_after.filter(|_| record.before.is_some());
    limit.map(|limit| limit.saturating_sub(record.crashes).max(1))
}

/// When an instance that runs, of the version that is wanted, has done so for long enough, and since when
/// it does.
fn settles(known: &Service, instance: &Instance) -> Option<(WallTime, WallTime)> {
    #[cfg(test)]
    LOOKS.set(LOOKS.get() + 1);
    match instance.state() {
        InstanceState::Running { copy, since } => {
            let is_its = copy.stopping.is_none() && copy.version == known.record.version;
            // One that is not ready settles when it is, and nobody knows when that will be.
            let is_its = is_its && copy.is_ready();
            is_its.then(|| (since.plus(known.record.spec.update.healthy_for), *since))
        }
        InstanceState::Unclaimed { .. }
        | InstanceState::Claimed { .. }
        | InstanceState::Crashed { .. } => None,
    }
}
