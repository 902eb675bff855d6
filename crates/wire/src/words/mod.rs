//! The words of a link as they are on the wire, by field number.
//!
//! Written by hand, as those of etcd are (ADR-9), so that no build needs a compiler of definitions.
//!
//! Rules for whoever changes them: a number is given once and never to another meaning; a field is
//! added, never changed; what a reader does not know it passes over. An enumeration begins with 0
//! for "nothing was said", so that a field that is missing is never taken for one of its values.
//!
//! Invariant: nothing here is checked. Bytes become valid in `convert`, or are refused there.

mod leader;
mod worker;

use prost::{Message, Oneof};

pub(crate) use self::{
    leader::{
        Confirmation, FromLeader, KillHow, KillOrder, Notify, OrderWord, Refused, RefusedHow, Run,
        Runs, StatusAnswers, StatusHow, StatusReply, Verdict,
    },
    worker::{
        Answer, Answers, FromWorker, Heartbeat, Held, Noted, RefusalHow, RunRefused, Running,
        SayingWord, Seen, Started, Statuses,
    },
};

/// Says only that it is there.
#[derive(Clone, Copy, PartialEq, Message)]
pub struct Nothing {}

/// One life of a worker.
#[derive(Clone, PartialEq, Message)]
pub struct Incarnation {
    /// 16 bytes.
    #[prost(bytes = "vec", tag = "1")]
    pub(crate) directory: Vec<u8>,
    /// 16 bytes.
    #[prost(bytes = "vec", tag = "2")]
    pub(crate) machine: Vec<u8>,
    #[prost(uint64, tag = "3")]
    pub(crate) life: u64,
}

/// Under what a leader speaks.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Mandate {
    #[prost(uint64, tag = "1")]
    pub(crate) epoch: u64,
    #[prost(uint64, tag = "2")]
    pub(crate) term: u64,
    #[prost(fixed64, tag = "3")]
    pub(crate) nonce: u64,
    /// 16 bytes.
    #[prost(bytes = "vec", tag = "4")]
    pub(crate) cluster: Vec<u8>,
}

/// Names a set of workers.
#[derive(Clone, Copy, PartialEq, Message)]
pub(crate) struct SetId {
    #[prost(uint64, tag = "1")]
    pub(crate) term: u64,
    #[prost(fixed64, tag = "2")]
    pub(crate) nonce: u64,
    #[prost(uint64, tag = "3")]
    pub(crate) version: u64,
    #[prost(fixed64, tag = "4")]
    pub(crate) first_lane: u64,
    #[prost(fixed64, tag = "5")]
    pub(crate) second_lane: u64,
    #[prost(uint32, tag = "6")]
    pub(crate) count: u32,
}

/// The limits of a cluster; times in milliseconds.
#[derive(Clone, Copy, PartialEq, Message)]
pub struct Limits {
    #[prost(uint64, tag = "1")]
    pub(crate) version: u64,
    #[prost(uint64, tag = "2")]
    pub(crate) heartbeat_every_ms: u64,
    #[prost(uint64, tag = "3")]
    pub(crate) heartbeat_grace_ms: u64,
    #[prost(uint64, tag = "4")]
    pub(crate) check_every_ms: u64,
    #[prost(uint64, tag = "5")]
    pub(crate) check_grace_ms: u64,
    #[prost(uint64, tag = "6")]
    pub(crate) judge_every_ms: u64,
    #[prost(uint64, tag = "7")]
    pub(crate) lose_after_ms: u64,
    #[prost(uint64, tag = "8")]
    pub(crate) kill_wait_ms: u64,
    #[prost(uint64, tag = "9")]
    pub(crate) batch_stop_after_max_ms: u64,
    #[prost(uint64, tag = "10")]
    pub(crate) stop_after_max_ms: u64,
    #[prost(bool, tag = "11")]
    pub(crate) has_kept_batches: bool,
    #[prost(bool, tag = "12")]
    pub(crate) has_kept_claims: bool,
}

/// What holds for a run when its link is silent.
#[derive(Clone, Copy, PartialEq, Message)]
pub struct Contract {
    #[prost(oneof = "ContractWord", tags = "1, 2, 3")]
    pub(crate) word: Option<ContractWord>,
}

#[derive(Clone, Copy, PartialEq, Oneof)]
pub(crate) enum ContractWord {
    #[prost(uint64, tag = "1")]
    ReplaceAfterMs(u64),
    #[prost(uint64, tag = "2")]
    StopAfterMs(u64),
    #[prost(message, tag = "3")]
    Keep(Nothing),
}

/// What a run is a run of.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Key {
    #[prost(string, tag = "1")]
    pub(crate) namespace: String,
    #[prost(oneof = "WorkWord", tags = "2, 3, 4")]
    pub(crate) work: Option<WorkWord>,
}

#[derive(Clone, PartialEq, Oneof)]
pub(crate) enum WorkWord {
    #[prost(message, tag = "2")]
    Instance(Instance),
    #[prost(string, tag = "3")]
    Task(String),
    #[prost(message, tag = "4")]
    Node(Node),
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Instance {
    #[prost(string, tag = "1")]
    pub(crate) service: String,
    #[prost(uint32, tag = "2")]
    pub(crate) index: u32,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Node {
    #[prost(string, tag = "1")]
    pub(crate) batch: String,
    /// As it is, not escaped.
    #[prost(string, tag = "2")]
    pub(crate) node: String,
}

/// What became of a run.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Status {
    #[prost(uint64, tag = "1")]
    pub(crate) number: u64,
    #[prost(bytes = "vec", tag = "2")]
    pub(crate) run: Vec<u8>,
    #[prost(oneof = "NewsWord", tags = "3, 4, 5")]
    pub(crate) news: Option<NewsWord>,
}

#[derive(Clone, PartialEq, Oneof)]
pub(crate) enum NewsWord {
    #[prost(bytes, tag = "3")]
    Progress(Vec<u8>),
    #[prost(bytes, tag = "4")]
    Ended(Vec<u8>),
    #[prost(message, tag = "5")]
    WasNotRunning(Nothing),
}
