//! Cron patterns that say what happens when the clock jumps.
//!
//! ```
//! use sterna_cron::{Item, Time, Zone};
//!
//! // At 10:00 and 20:00 every Tuesday, with both daylight-saving decisions made.
//! let item: Item = serde_json::from_str(
//!     r#"{"day_of_week": "Tue", "hour": [10, 20], "minute": 0,
//!         "dst_fixes": ["skip", "repeat_use_only_early"]}"#,
//! )?;
//! let zone: Zone = "America/Los_Angeles".parse()?;
//! match item.next(&zone, Time::from_epoch(1_362_729_600)) {
//!     Some(at) => assert_eq!(zone.format(at), "2013-03-12T10:00:00-07:00"),
//!     None => unreachable!("there is always another Tuesday"),
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! | room | what it is |
//! | --- | --- |
//! | [`Item`] | a pattern as data (JSON or any serde format), with mandatory `dst_fixes` |
//! | [`Line`] | a classic crontab line, with cron's own habits or with `dst_fixes` |
//! | [`Pattern`] | what both compile to: [`Pattern::next`] is the least firing from a moment on |
//! | [`Zone`], [`Database`] | the rules of local time: bundled, of the system, POSIX, or fixed |
//! | [`Clockwork`], [`Timekeeper`] | cron with a memory, for clocks that are set and processes that stop |
//!
//! Invariant: nothing here reads a clock, a random source or a map in random order; the optional
//! `runner` is the one exception, and it decides nothing.
//!
//! This crate does not know what is fired, or by whom.

mod civil;
mod item;
mod line;
mod names;
mod pattern;
mod stateful;
mod time;
mod zone;

pub use item::{Item, ItemError};
pub use line::{Line, LineError, Policy};
pub use pattern::{DstFixes, Firing, Firings, FixesError, Missing, Pattern, Repeated, Why};
pub use stateful::{
    Clockwork, Decision, Event, Follows, Label, Listing, Movement, Reading, Saved, StatefulItem,
    Timekeeper, Uptime, Verdict,
};
#[cfg(feature = "runner")]
pub use stateful::{Due, Runner, Stopped};
pub use time::Time;
pub use zone::{Database, Zone, ZoneError};
