//! What the world's things are called, and by which limits it goes.

use std::sync::Arc;

use sterna_model::{
    Contract, DirectoryId, Lock, MachineId, Name, Namespace, NodeName, RunId, Span,
    TaskIncarnation, WallTime, Work, WorkKey,
};
use sterna_protocol::{limits::Limits, message::Payload};

/// What kind of work a key names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Claimed before it is sent, and started once.
    Task,
    /// Started again and again, without a claim.
    Batch,
    /// Claimed in one of two slots.
    Service,
}

pub(crate) const STOP: Contract = Contract::Stop { after: Span::from_secs(20) };
pub(crate) const STOP_TASK: Contract = Contract::Stop { after: Span::from_secs(25) };
pub(crate) const REPLACE: Contract = Contract::Replace { after: Span::from_secs(4) };

/// Short ones, so that much happens in little time.
pub(crate) fn limits(has_kept_batches: bool) -> Limits {
    let limits = Limits {
        heartbeat_every: Span::from_secs(1),
        heartbeat_grace: Span::from_secs(2),
        check_every: Span::from_secs(3),
        check_grace: Span::from_secs(3),
        judge_every: Span::from_millis(500),
        lose_after: Span::from_secs(6),
        kill_wait: Span::from_secs(1),
        batch_stop_after_max: Span::from_secs(20),
        stop_after_max: Span::from_secs(25),
        has_kept_batches,
        ..Limits::default()
    };
    assert!(limits.stop_after_min() <= Span::from_secs(20));
    limits
}

fn bytes(number: u64) -> [u8; 10] {
    let mut bytes = [0; 10];
    bytes[2..].copy_from_slice(&number.to_be_bytes());
    bytes
}

pub(crate) fn lock(number: u64) -> Lock {
    let mut machine = [7; 16];
    machine[8..].copy_from_slice(&number.to_be_bytes());
    let machine = MachineId::from_bytes(machine).unwrap();
    Lock { directory: DirectoryId::from_parts(WallTime::EPOCH, bytes(number)), machine }
}

pub(crate) fn run(number: u64) -> RunId {
    RunId::from_parts(WallTime::EPOCH, bytes(number))
}

pub(crate) fn task_incarnation(number: u64) -> TaskIncarnation {
    TaskIncarnation::from_parts(WallTime::EPOCH, bytes(number))
}

pub(crate) fn name(text: &str) -> Name {
    Name::new(text).unwrap()
}

pub(crate) fn key(kind: Kind, number: u64) -> WorkKey {
    let work = match kind {
        Kind::Task => Work::Task(name(&format!("t{number}"))),
        Kind::Batch => {
            Work::Node { batch: name("b"), node: NodeName::new(&format!("n{number}")).unwrap() }
        }
        Kind::Service => {
            Work::Instance { service: name("s"), index: u32::try_from(number).unwrap() }
        }
    };
    WorkKey { namespace: Namespace::new("default").unwrap(), work }
}

pub(crate) fn nothing() -> Payload {
    Arc::from([])
}
