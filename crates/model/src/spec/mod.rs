//! What people want, as far as decisions depend on it. What a command is made of is bytes here: only
//! workers read them.
//!
//! | word | what it wants |
//! | --- | --- |
//! | [`TaskSpec`] | one command, once |
//! | [`Definition`] | a command that may be started later |
//! | [`ServiceSpec`] | so many instances kept running |
//!
//! Invariant: what may change without a restart is told apart from what may not by one function,
//! [`ServiceSpec::needs_restart`].

use std::sync::Arc;

use crate::{Contract, Name, Span, WallTime, placement::Wants, record::CrashPolicy};

/// The domain that is always fresh.
pub const DEFAULT_DOMAIN: &str = "default";

/// One command, once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskSpec {
    /// What it takes, and who may have it.
    pub wants: Arc<Wants>,
    /// What holds when its worker is silent.
    pub contract: Contract,
    /// What its worker does, in the worker's words.
    pub work: Arc<[u8]>,
    /// What becomes of it when no worker has room.
    pub when_full: WhenFull,
    /// It ends when it was not started by then.
    pub latest_start: Option<WallTime>,
    /// Whom to tell that it is over.
    pub callback: Option<Box<str>>,
    /// Whether its name stays taken until somebody deletes that, too: it stands for a version of a
    /// definition, which is started once, however late it is applied again.
    pub keeps_name: bool,
}

/// A command that may be started later, as often as somebody asks for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Definition {
    /// The task that is made of it, but for when it must have begun.
    pub spec: Arc<TaskSpec>,
    /// A task of it ends when it was not started so long after it was made.
    pub latest_start_after: Option<Span>,
}

/// What becomes of a task when no worker has room.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WhenFull {
    /// It waits.
    #[default]
    Wait,
    /// It ends.
    Fail,
}

/// So many instances, kept running.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceSpec {
    /// How many.
    pub instances: u32,
    /// What each takes, and who may have it.
    pub wants: Arc<Wants>,
    /// What holds when the worker of one is silent.
    pub contract: Contract,
    /// What its workers do, in the worker's words.
    pub work: Arc<[u8]>,
    /// How crashes are answered.
    pub crash: CrashPolicy,
    /// How a new version comes about.
    pub update: UpdatePolicy,
    /// The domain that must be fresh for anything to be stopped that nobody asked to stop.
    pub domain: Name,
    /// Routes, annotation and metadata, for whoever asked for them.
    pub notes: Arc<str>,
}

/// How a new version comes about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UpdatePolicy {
    /// How many instances may be missing for it at a time; at least one.
    pub max_unavailable: u32,
    /// How long an instance of the new version must have run before it counts as there; the version is
    /// taken back as long as its last one has not.
    pub healthy_for: Span,
    /// After so many crashes of instances of the new version it is taken back; `None` for never.
    pub revert_after: Option<u32>,
}

impl Default for UpdatePolicy {
    fn default() -> Self {
        Self { max_unavailable: 1, healthy_for: Span::from_secs(10), revert_after: Some(3) }
    }
}

impl ServiceSpec {
    /// Whether running instances must be started anew for `next`. How many there are, how crashes
    /// and updates are answered, the domain and the notes change in place.
    pub fn needs_restart(&self, next: &Self) -> bool {
        self.wants != next.wants || self.contract != next.contract || self.work != next.work
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Bytes, Millicores,
        placement::{Constraints, Demand},
    };

    fn spec() -> ServiceSpec {
        let demand = Demand::new(
            Millicores::new(1),
            Bytes::new(1),
            Bytes::new(0),
            crate::Countables::default(),
        );
        ServiceSpec {
            instances: 3,
            wants: Arc::new(Wants { demand, constraints: Constraints::default() }),
            contract: Contract::Replace { after: Span::from_secs(15) },
            work: Arc::from(*b"work"),
            crash: CrashPolicy::default(),
            update: UpdatePolicy::default(),
            domain: Name::new(DEFAULT_DOMAIN).unwrap(),
            notes: "".into(),
        }
    }

    #[test]
    fn what_is_no_part_of_a_run_changes_in_place() {
        let now = spec();
        let crash = CrashPolicy { give_up_at: 5, ..now.crash };
        let update = UpdatePolicy { max_unavailable: 9, ..now.update };
        let next = ServiceSpec { instances: 7, crash, update, notes: "note".into(), ..now.clone() };
        assert!(!now.needs_restart(&next));
    }

    #[test]
    fn what_is_part_of_a_run_needs_a_restart() {
        let now = spec();
        let work = ServiceSpec { work: Arc::from(*b"other"), ..now.clone() };
        let contract = ServiceSpec { contract: Contract::Keep, ..now.clone() };
        let mut wants = now.wants.as_ref().clone();
        wants.constraints.stack = Some(Name::new("debian").unwrap());
        let wants = ServiceSpec { wants: Arc::new(wants), ..now.clone() };
        for next in [work, contract, wants] {
            assert!(now.needs_restart(&next));
        }
    }
}
