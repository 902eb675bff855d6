//! The words of etcd's API (v3) that we say and hear, by its field numbers.
//!
//! Written by hand, so that no build needs a compiler of such definitions (ADR-9). What we never
//! look at is left out; prost passes over fields that it does not know.

use bytes::Bytes;
use prost::{Message, Oneof};

/// Which call.
pub(super) mod path {
    pub(in super::super) const RANGE: &str = "/etcdserverpb.KV/Range";
    pub(in super::super) const TXN: &str = "/etcdserverpb.KV/Txn";
    pub(in super::super) const COMPACT: &str = "/etcdserverpb.KV/Compact";
    pub(in super::super) const WATCH: &str = "/etcdserverpb.Watch/Watch";
    pub(in super::super) const STATUS: &str = "/etcdserverpb.Maintenance/Status";
    pub(in super::super) const AUTHENTICATE: &str = "/etcdserverpb.Auth/Authenticate";
}

/// Begins every answer.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Header {
    #[prost(uint64, tag = "2")]
    pub(super) member_id: u64,
    #[prost(int64, tag = "3")]
    pub(super) revision: i64,
}

/// A key as it stands.
#[derive(Clone, PartialEq, Message)]
pub(super) struct KeyValue {
    #[prost(bytes = "bytes", tag = "1")]
    pub(super) key: Bytes,
    #[prost(int64, tag = "3")]
    pub(super) mod_revision: i64,
    #[prost(bytes = "bytes", tag = "5")]
    pub(super) value: Bytes,
}

/// Reads keys; linearizable, because `serializable` is never set.
#[derive(Clone, PartialEq, Message)]
pub(super) struct RangeRequest {
    #[prost(bytes = "bytes", tag = "1")]
    pub(super) key: Bytes,
    #[prost(bytes = "bytes", tag = "2")]
    pub(super) range_end: Bytes,
    #[prost(int64, tag = "3")]
    pub(super) limit: i64,
    #[prost(int64, tag = "4")]
    pub(super) revision: i64,
    #[prost(bool, tag = "8")]
    pub(super) keys_only: bool,
    #[prost(bool, tag = "9")]
    pub(super) count_only: bool,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct RangeResponse {
    #[prost(message, optional, tag = "1")]
    pub(super) header: Option<Header>,
    #[prost(message, repeated, tag = "2")]
    pub(super) kvs: Vec<KeyValue>,
    #[prost(bool, tag = "3")]
    pub(super) more: bool,
    #[prost(int64, tag = "4")]
    pub(super) count: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct PutRequest {
    #[prost(bytes = "bytes", tag = "1")]
    pub(super) key: Bytes,
    #[prost(bytes = "bytes", tag = "2")]
    pub(super) value: Bytes,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct DeleteRangeRequest {
    #[prost(bytes = "bytes", tag = "1")]
    pub(super) key: Bytes,
    #[prost(bytes = "bytes", tag = "2")]
    pub(super) range_end: Bytes,
}

/// One step of a transaction.
#[derive(Clone, PartialEq, Message)]
pub(super) struct RequestOp {
    #[prost(oneof = "Request", tags = "1, 2, 3")]
    pub(super) request: Option<Request>,
}

#[derive(Clone, PartialEq, Oneof)]
pub(super) enum Request {
    #[prost(message, tag = "1")]
    Range(RangeRequest),
    #[prost(message, tag = "2")]
    Put(PutRequest),
    #[prost(message, tag = "3")]
    DeleteRange(DeleteRangeRequest),
}

impl From<Request> for RequestOp {
    fn from(request: Request) -> Self {
        Self { request: Some(request) }
    }
}

/// What a step of a transaction brought; a put brings nothing that we ask for.
#[derive(Clone, PartialEq, Message)]
pub(super) struct ResponseOp {
    #[prost(message, optional, tag = "1")]
    pub(super) range: Option<RangeResponse>,
    #[prost(message, optional, tag = "3")]
    pub(super) delete_range: Option<DeleteRangeResponse>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct DeleteRangeResponse {
    /// How many keys were there to be removed.
    #[prost(int64, tag = "2")]
    pub(super) deleted: i64,
}

/// How a key is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, prost::Enumeration)]
#[repr(i32)]
pub(super) enum Ordering {
    Equal = 0,
    Greater = 1,
    Less = 2,
}

/// By what a key is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, prost::Enumeration)]
#[repr(i32)]
pub(super) enum Target {
    Version = 0,
    Mod = 2,
    Value = 3,
}

/// One condition of a transaction.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Compare {
    #[prost(enumeration = "Ordering", tag = "1")]
    pub(super) result: i32,
    #[prost(enumeration = "Target", tag = "2")]
    pub(super) target: i32,
    #[prost(bytes = "bytes", tag = "3")]
    pub(super) key: Bytes,
    #[prost(oneof = "Against", tags = "4, 6, 7")]
    pub(super) against: Option<Against>,
}

#[derive(Clone, PartialEq, Oneof)]
pub(super) enum Against {
    /// How often the key was put since it was made; 0 of a key that is not there.
    #[prost(int64, tag = "4")]
    Version(i64),
    /// The revision of its last put; 0 of a key that is not there.
    #[prost(int64, tag = "6")]
    ModRevision(i64),
    /// Never holds of a key that is not there.
    #[prost(bytes = "bytes", tag = "7")]
    Value(Bytes),
}

impl Compare {
    pub(super) fn is_absent(key: Bytes) -> Self {
        Self::new(key, Ordering::Equal, Target::Version, Against::Version(0))
    }

    pub(super) fn is_present(key: Bytes) -> Self {
        Self::new(key, Ordering::Greater, Target::Version, Against::Version(0))
    }

    pub(super) fn was_put_at(key: Bytes, revision: i64) -> Self {
        Self::new(key, Ordering::Equal, Target::Mod, Against::ModRevision(revision))
    }

    pub(super) fn has_value(key: Bytes, value: Bytes) -> Self {
        Self::new(key, Ordering::Equal, Target::Value, Against::Value(value))
    }

    fn new(key: Bytes, ordering: Ordering, target: Target, against: Against) -> Self {
        Self { result: ordering.into(), target: target.into(), key, against: Some(against) }
    }
}

/// If all of `compare` hold, does `success`, otherwise `failure`; all of it at one revision.
#[derive(Clone, PartialEq, Message)]
pub(super) struct TxnRequest {
    #[prost(message, repeated, tag = "1")]
    pub(super) compare: Vec<Compare>,
    #[prost(message, repeated, tag = "2")]
    pub(super) success: Vec<RequestOp>,
    #[prost(message, repeated, tag = "3")]
    pub(super) failure: Vec<RequestOp>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct TxnResponse {
    #[prost(message, optional, tag = "1")]
    pub(super) header: Option<Header>,
    #[prost(bool, tag = "2")]
    pub(super) succeeded: bool,
    #[prost(message, repeated, tag = "3")]
    pub(super) responses: Vec<ResponseOp>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct CompactionRequest {
    #[prost(int64, tag = "1")]
    pub(super) revision: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct CompactionResponse {}

#[derive(Clone, PartialEq, Message)]
pub(super) struct WatchRequest {
    #[prost(message, optional, tag = "1")]
    pub(super) create: Option<WatchCreate>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct WatchCreate {
    #[prost(bytes = "bytes", tag = "1")]
    pub(super) key: Bytes,
    #[prost(bytes = "bytes", tag = "2")]
    pub(super) range_end: Bytes,
    #[prost(int64, tag = "3")]
    pub(super) start_revision: i64,
    /// Whether large answers may come in parts.
    #[prost(bool, tag = "8")]
    pub(super) fragment: bool,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct WatchResponse {
    #[prost(bool, tag = "3")]
    pub(super) created: bool,
    #[prost(bool, tag = "4")]
    pub(super) canceled: bool,
    /// Not 0 if the watch asked for what is compacted.
    #[prost(int64, tag = "5")]
    pub(super) compact_revision: i64,
    #[prost(string, tag = "6")]
    pub(super) cancel_reason: String,
    /// Whether the next answer goes on with this one.
    #[prost(bool, tag = "7")]
    pub(super) fragment: bool,
    #[prost(message, repeated, tag = "11")]
    pub(super) events: Vec<Event>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Event {
    #[prost(enumeration = "EventKind", tag = "1")]
    pub(super) kind: i32,
    #[prost(message, optional, tag = "2")]
    pub(super) kv: Option<KeyValue>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, prost::Enumeration)]
#[repr(i32)]
pub(super) enum EventKind {
    Put = 0,
    Delete = 1,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct StatusRequest {}

#[derive(Clone, PartialEq, Message)]
pub(super) struct StatusResponse {
    #[prost(message, optional, tag = "1")]
    pub(super) header: Option<Header>,
    #[prost(string, tag = "2")]
    pub(super) version: String,
    /// The member that leads; 0 if none is known.
    #[prost(uint64, tag = "4")]
    pub(super) leader: u64,
    #[prost(int64, tag = "9")]
    pub(super) db_size_in_use: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct AuthenticateRequest {
    #[prost(string, tag = "1")]
    pub(super) name: String,
    #[prost(string, tag = "2")]
    pub(super) password: String,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct AuthenticateResponse {
    #[prost(string, tag = "2")]
    pub(super) token: String,
}
