//! Why an instance that runs is not taken for there: an update waits until it has run for long enough.

use std::fmt;

use sterna_model::{Span, WallTime, record::InstanceState};

use super::{Next, Rule, Why};
use crate::control::{Control, ServiceKey, services::Service};

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
    /// It replaces another one of these of the older version.
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
}

impl fmt::Display for Settling {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { healthy_for, then, crashes_left } = self;
        write!(
            f,
            "it is of the new version, and the update waits until it has run for {healthy_for}; "
        )?;
        match then {
            Then::Replaces { outdated: 1 } => {
                f.write_str("then the last of the older version is replaced")?;
            }
            Then::Replaces { outdated } => {
                write!(f, "then the next of {outdated} of the older version is replaced")?;
            }
            Then::Completes => f.write_str("then the update is complete")?,
            Then::WaitsOn { missing: 1 } => f.write_str("then it waits for 1 other")?,
            Then::WaitsOn { missing } => write!(f, "then it waits for {missing} others")?,
        }
        match crashes_left {
            None => Ok(()),
            Some(1) => f.write_str("; with one more crash before that the version is taken back"),
            Some(left) => write!(f, "; with {left} crashes before that the version is taken back"),
        }
    }
}

impl Control {
    /// An instance of the version that is wanted, while that comes about.
    pub(super) fn why_settling(
        &self,
        key: &ServiceKey,
        known: &Service,
        index: u32,
        since: WallTime,
    ) -> Option<Why> {
        if !known.missing.contains(&index) {
            return None;
        }
        let settling = self.settling(key, known);
        let (at, _) = settling.iter().find(|(_, one)| *one == index)?;
        let by_then = settling.iter().filter(|(one, _)| one <= at);
        let by_then: Vec<u32> = by_then.map(|(_, index)| *index).collect();
        let rest = known.missing.iter().filter(|index| !by_then.contains(index));
        let rest: Vec<u32> = rest.copied().collect();
        let update = known.record.spec.update;
        let then = if !known.outdated.is_empty()
            && rest.len() < update.max_unavailable.max(1) as usize
        {
            Then::Replaces { outdated: known.outdated.len() }
        } else if known.outdated.is_empty() && rest.iter().all(|it| self.is_unplaced(key, *it)) {
            Then::Completes
        } else {
            Then::WaitsOn { missing: rest.len() }
        };
        let limit = update.revert_after.filter(|_| known.record.before.is_some());
        let crashes_left = limit.map(|limit| limit.saturating_sub(known.record.crashes).max(1));
        let rule = Rule::Settling(Settling { healthy_for: update.healthy_for, then, crashes_left });
        Some(Why { rule, since: Some(since), next: Next::ServesAt(*at) })
    }

    /// Those of the version that is wanted that run and are not taken for there yet, and when each is.
    pub(super) fn settling(&self, key: &ServiceKey, known: &Service) -> Vec<(WallTime, u32)> {
        let healthy_for = known.record.spec.update.healthy_for;
        let settles = |index: &u32| match self.instances.get(&key.instance(*index))?.state() {
            InstanceState::Running { copy, since } => {
                let is_its = copy.stopping.is_none() && copy.version == known.record.version;
                is_its.then(|| (since.plus(healthy_for), *index))
            }
            InstanceState::Unclaimed { .. }
            | InstanceState::Claimed { .. }
            | InstanceState::Crashed { .. } => None,
        };
        known.missing.iter().filter_map(settles).collect()
    }
}
