//! What a worker says.

use prost::{Message, Oneof};

use super::{Contract, Incarnation, Key, Mandate, Nothing, SetId, Status};

/// A frame of a worker.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct FromWorker {
    #[prost(uint32, tag = "1")]
    pub(crate) version: u32,
    #[prost(message, optional, tag = "2")]
    pub(crate) incarnation: Option<Incarnation>,
    #[prost(message, optional, tag = "3")]
    pub(crate) mandate: Option<Mandate>,
    #[prost(oneof = "SayingWord", tags = "4, 5, 6, 7, 8")]
    pub(crate) saying: Option<SayingWord>,
}

#[derive(Clone, PartialEq, Oneof)]
pub(crate) enum SayingWord {
    #[prost(message, tag = "4")]
    Heartbeat(Box<Heartbeat>),
    #[prost(message, tag = "5")]
    Statuses(Statuses),
    #[prost(message, tag = "6")]
    Running(Running),
    #[prost(message, tag = "7")]
    Answers(Answers),
    #[prost(message, tag = "8")]
    Noted(Noted),
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Heartbeat {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
    #[prost(uint64, tag = "2")]
    pub(crate) stamp_ms: u64,
    #[prost(uint64, optional, tag = "3")]
    pub(crate) checked_ms: Option<u64>,
    /// 16 bytes.
    #[prost(bytes = "vec", tag = "4")]
    pub(crate) boot: Vec<u8>,
    #[prost(message, optional, tag = "5")]
    pub(crate) seen: Option<Seen>,
    #[prost(uint64, tag = "6")]
    pub(crate) limits: u64,
    #[prost(message, optional, tag = "7")]
    pub(crate) set: Option<SetId>,
    #[prost(bool, optional, tag = "8")]
    pub(crate) wants_drain: Option<bool>,
    #[prost(bytes = "vec", tag = "9")]
    pub(crate) facts: Vec<u8>,
    #[prost(fixed64, tag = "10")]
    pub(crate) birth: u64,
    #[prost(bool, tag = "11")]
    pub(crate) is_leaving: bool,
}

/// The highest that a worker has seen of the store.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Seen {
    #[prost(message, optional, tag = "1")]
    pub(crate) mandate: Option<Mandate>,
    #[prost(uint64, tag = "2")]
    pub(crate) revision: u64,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Statuses {
    #[prost(message, repeated, tag = "1")]
    pub(crate) statuses: Vec<Status>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Running {
    #[prost(message, repeated, tag = "1")]
    pub(crate) held: Vec<Held>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Held {
    #[prost(bytes = "vec", tag = "1")]
    pub(crate) run: Vec<u8>,
    #[prost(message, optional, tag = "2")]
    pub(crate) key: Option<Key>,
    /// 16 bytes, or none for what is no task.
    #[prost(bytes = "vec", optional, tag = "3")]
    pub(crate) task: Option<Vec<u8>>,
    #[prost(message, optional, tag = "4")]
    pub(crate) contract: Option<Contract>,
    #[prost(message, optional, tag = "5")]
    pub(crate) status: Option<Status>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Answers {
    #[prost(message, repeated, tag = "1")]
    pub(crate) answers: Vec<Answer>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Answer {
    #[prost(bytes = "vec", tag = "1")]
    pub(crate) run: Vec<u8>,
    #[prost(oneof = "Started", tags = "2, 3")]
    pub(crate) answer: Option<Started>,
}

#[derive(Clone, PartialEq, Oneof)]
pub(crate) enum Started {
    #[prost(message, tag = "2")]
    Started(Nothing),
    #[prost(message, tag = "3")]
    Refused(RunRefused),
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct RunRefused {
    #[prost(enumeration = "RefusalHow", tag = "1")]
    pub(crate) why: i32,
    /// The run of the key that is here, when that is why.
    #[prost(bytes = "vec", tag = "2")]
    pub(crate) here: Vec<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, prost::Enumeration)]
#[repr(i32)]
pub(crate) enum RefusalHow {
    Unsaid = 0,
    NotHealthy = 1,
    Draining = 2,
    Overtaken = 3,
    KeyIsHere = 4,
    TooLate = 5,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub(crate) struct Noted {
    #[prost(uint64, tag = "1")]
    pub(crate) number: u64,
}
