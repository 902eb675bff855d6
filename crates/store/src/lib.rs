//! A store of keys with an atomic, conditional, many-key commit, a resumable watch and pinned
//! paging, on more than one engine.
//!
//! ```text
//!   caller ── Commit { write id, expects, writes } ──▶ Store ──▶ Applied(revision)
//!                                                        │  └──▶ Conflict(keys)
//!             Watch ◀── Changes, one commit at a time ───┘
//! ```
//!
//! | room | what it is |
//! | --- | --- |
//! | [`Store`] | the contract: commit, get, scan, watch, written, compact |
//! | [`Embedded`] | the default: one directory, one process, crash-safe, group commit |
//! | [`cluster`] | whose store this is, and whether it has lost something |
//! | [`leader`] | one process at a time, and fences against the others |
//! | `Postgres` | a PostgreSQL server that several processes share; behind the feature `postgres` |
//! | `Etcd` | an etcd cluster that several processes share; behind the feature `etcd` |
//! | [`Memory`] | the reference, with faults to order; also the simulator's store |
//! | `conformance` | the suite that every backend passes, and the disk that fails to order |
//!
//! Invariant: an answer is never a guess. `Applied` is durable; `Conflict` and every error but one
//! wrote nothing and never will; [`StoreError::Unknown`] is the one, to be settled by the commit's
//! write id.
//!
//! This crate does not know what its keys and values mean.

#[cfg(any(feature = "postgres", feature = "etcd"))]
mod backoff;
#[cfg(any(feature = "postgres", feature = "etcd"))]
mod bound;
pub mod cluster;
mod commit;
#[cfg(any(test, feature = "conformance"))]
pub mod conformance;
pub mod embedded;
mod error;
#[cfg(feature = "etcd")]
pub mod etcd;
mod follow;
pub mod leader;
mod limits;
pub mod machine;
pub mod memory;
#[cfg(any(feature = "postgres", feature = "etcd"))]
mod own;
#[cfg(feature = "postgres")]
pub mod postgres;
#[cfg(any(feature = "postgres", feature = "etcd"))]
mod reached;
mod store;
#[cfg(any(feature = "postgres", feature = "etcd"))]
mod tls;
mod url;

#[cfg(feature = "etcd")]
pub use self::etcd::Etcd;
#[cfg(feature = "postgres")]
pub use self::postgres::Postgres;
pub use self::{
    commit::{Commit, Expect, Key, Outcome, Write},
    embedded::Embedded,
    error::{BoxError, OpenError, StoreError, WentBack},
    limits::{Limits, Refusal},
    memory::Memory,
    store::{About, Change, Changes, Failover, Item, Page, Reading, Scan, Store, Watch, scan_all},
    url::{open, shown},
};
