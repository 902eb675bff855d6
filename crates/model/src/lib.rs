//! The words of Sterna, as values that cannot be wrong: ids, times, amounts, names, selectors.
//!
//! | room | words |
//! | --- | --- |
//! | `ids` | what machines name: runs, revisions, terms, epochs, fences, locks, incarnations |
//! | `time` | [`BootTime`] for deadlines, [`WallTime`] for people, [`Span`] between two moments |
//! | `resources` | [`Amounts`] that work asks for, and the [`Pool`] that is never oversold |
//! | `name` | what people name, and the [`WorkKey`] of work that must not run twice |
//! | `placement` | what work asks of the worker that runs it: [`Demand`] and [`Constraints`] |
//! | `contract` | what happens to a run when its worker falls silent |
//! | `marks` | how long anything that was ever started may last without a word |
//! | [`record`] | what the store keeps of tasks and instances, and the tables by which it changes |
//! | [`payload`] | what servers and workers tell each other: work, progress, reports, facts |
//! | [`spec`] | what people want, as far as decisions depend on it |
//! | `selector` | how people say which of it they mean |
//! | [`planted`] | mistakes on purpose, under the feature of that name |
//!
//! Invariant: a value that exists is valid. Text and bytes from outside become words in a
//! constructor or are refused there, with the place, the reason and the remedy.
//!
//! Invariant: where a word can be read from text, `FromStr` reads back what `Display` writes as the
//! same value; where `Debug` is written by hand it prints the same.
//!
//! Invariant: no arithmetic wraps, and everything has one fixed order.
//!
//! It does no I/O, reads no clock and draws no randomness, and it knows none of the crates that
//! use it: not the store, not the protocol, and not what is decided about the things named here.

mod contract;
mod ids;
mod marks;
mod name;
mod number;
pub mod payload;
mod placement;
pub mod planted;
pub mod record;
mod resources;
mod selector;
pub mod spec;
mod text;
mod time;

pub use contract::Contract;
pub use ids::{
    ClusterId, DirectoryId, Epoch, EventId, Fence, FenceCounter, IdError, Incarnation, Lock,
    MachineId, Nonce, NotifySequence, Position, Revision, RunId, RunSequence, Succession,
    TaskIncarnation, Term, WriteId,
};
pub use marks::Marks;
pub use name::{
    BatchKey, DefinitionKey, FiredError, InstanceKey, KeyError, Kind, Name, NameError, Namespace,
    Near, NodeError, NodeKey, NodeName, ScheduleKey, ServiceKey, TaskKey, Work, WorkKey,
    record_path, record_prefix,
};
pub use placement::{
    Constraints, Demand, FEATURE_TAGS, IMAGES_TAG, Wants, Zones, ZonesError, feature_tag,
};
pub use resources::{
    AmountError, Amounts, Bytes, Countables, Lack, Millicores, Pool, Resource, Shortage, Surplus,
};
pub use selector::{SelectError, Selector, Target, nearest_word};
pub use text::quoted;
pub use time::{BootTime, Span, SpanError, WallTime, WallTimeError};
