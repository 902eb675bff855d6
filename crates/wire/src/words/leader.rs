//! What a leader says.

use prost::{Message, Oneof};

use super::{Contract, Incarnation, Key, Limits, Mandate, Nothing, SetId};

/// A frame of a leader.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct FromLeader {
    #[prost(uint32, tag = "1")]
    pub(crate) version: u32,
    #[prost(message, optional, tag = "2")]
    pub(crate) mandate: Option<Mandate>,
    #[prost(message, optional, tag = "3")]
    pub(crate) incarnation: Option<Incarnation>,
    #[prost(oneof = "OrderWord", tags = "4, 5, 6, 7, 8, 9, 10, 11, 12")]
    pub(crate) order: Option<OrderWord>,
}

#[derive(Clone, PartialEq, Oneof)]
pub(crate) enum OrderWord {
    #[prost(message, tag = "4")]
    Welcome(Nothing),
    #[prost(message, tag = "5")]
    Confirmed(Box<Confirmation>),
    #[prost(message, tag = "6")]
    Refused(Refused),
    #[prost(message, tag = "7")]
    Statuses(StatusAnswers),
    #[prost(message, tag = "8")]
    GetRunning(Nothing),
    #[prost(message, tag = "9")]
    Run(Runs),
    #[prost(message, tag = "10")]
    NotifyIfNotRunning(Notify),
    #[prost(message, tag = "11")]
    Kill(KillOrder),
    #[prost(message, tag = "12")]
    Die(Nothing),
}

#[derive(Clone, Copy, PartialEq, Message)]
pub(crate) struct Confirmation {
    #[prost(uint64, tag = "1")]
    pub(crate) stamp_ms: u64,
    #[prost(message, optional, tag = "2")]
    pub(crate) limits: Option<Limits>,
    #[prost(enumeration = "Verdict", tag = "3")]
    pub(crate) verdict: i32,
    #[prost(message, optional, tag = "4")]
    pub(crate) set: Option<SetId>,
    #[prost(uint64, tag = "5")]
    pub(crate) revision: u64,
    #[prost(bool, tag = "6")]
    pub(crate) is_draining: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, prost::Enumeration)]
#[repr(i32)]
pub(crate) enum Verdict {
    Unsaid = 0,
    New = 1,
    Unhealthy = 2,
    Healthy = 3,
    MustDie = 4,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub(crate) struct Refused {
    #[prost(oneof = "RefusedHow", tags = "1, 2, 3, 4, 5, 6")]
    pub(crate) why: Option<RefusedHow>,
}

/// Why a heartbeat was refused.
#[derive(Clone, Copy, PartialEq, Oneof)]
pub(crate) enum RefusedHow {
    #[prost(message, tag = "1")]
    Die(Nothing),
    #[prost(message, tag = "2")]
    NameTaken(Nothing),
    #[prost(uint32, tag = "3")]
    WrongVersion(u32),
    #[prost(message, tag = "4")]
    WrongCluster(Nothing),
    /// The life that is known.
    #[prost(uint64, tag = "5")]
    WentBack(u64),
    #[prost(message, tag = "6")]
    RosterFull(Nothing),
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct StatusAnswers {
    #[prost(message, repeated, tag = "1")]
    pub(crate) answers: Vec<StatusReply>,
    #[prost(uint64, tag = "2")]
    pub(crate) revision: u64,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct StatusReply {
    #[prost(bytes = "vec", tag = "1")]
    pub(crate) run: Vec<u8>,
    #[prost(uint64, tag = "2")]
    pub(crate) number: u64,
    #[prost(enumeration = "StatusHow", tag = "3")]
    pub(crate) answer: i32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, prost::Enumeration)]
#[repr(i32)]
pub(crate) enum StatusHow {
    Unsaid = 0,
    Recorded = 1,
    Ignored = 2,
    Retry = 3,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Runs {
    #[prost(message, repeated, tag = "1")]
    pub(crate) runs: Vec<Run>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Run {
    #[prost(uint64, tag = "1")]
    pub(crate) sequence: u64,
    #[prost(uint64, tag = "2")]
    pub(crate) notify: u64,
    #[prost(bytes = "vec", tag = "3")]
    pub(crate) run: Vec<u8>,
    #[prost(message, optional, tag = "4")]
    pub(crate) key: Option<Key>,
    /// 16 bytes, or none for what is no task.
    #[prost(bytes = "vec", optional, tag = "5")]
    pub(crate) task: Option<Vec<u8>>,
    #[prost(message, optional, tag = "6")]
    pub(crate) contract: Option<Contract>,
    #[prost(bytes = "vec", tag = "7")]
    pub(crate) work: Vec<u8>,
    /// 0 if nobody has said.
    #[prost(uint64, tag = "8")]
    pub(crate) number: u64,
    /// 0 if nobody has said.
    #[prost(uint32, tag = "9")]
    pub(crate) attempt: u32,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Notify {
    #[prost(uint64, tag = "1")]
    pub(crate) number: u64,
    #[prost(bytes = "vec", repeated, tag = "2")]
    pub(crate) runs: Vec<Vec<u8>>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct KillOrder {
    #[prost(bytes = "vec", tag = "1")]
    pub(crate) run: Vec<u8>,
    #[prost(enumeration = "KillHow", tag = "2")]
    pub(crate) how: i32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, prost::Enumeration)]
#[repr(i32)]
pub(crate) enum KillHow {
    Unsaid = 0,
    Gracefully = 1,
    Now = 2,
}
