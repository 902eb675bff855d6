//! Moments and spans, in milliseconds.
//!
//! | type | what it is | fit for |
//! | --- | --- | --- |
//! | [`BootTime`] | a machine's own monotonic clock, which runs through suspend | every deadline |
//! | [`WallTime`] | what people call the time, in UTC | schedules, records, display |
//! | [`Span`] | the time between two moments | limits, time-outs, back-off |
//!
//! Invariant: arithmetic stops at the ends of a type and never wraps, so that a deadline which is
//! too far off stays far off and does not turn up in the past.
//!
//! This room reads no clock: moments are given to it.

mod boot;
mod civil;
mod span;
mod wall;

pub use boot::BootTime;
pub use span::{Span, SpanError};
pub use wall::{WallTime, WallTimeError};
