//! Cron with a memory: what was fired stays fired when the clocks misbehave.
//!
//! Three things disturb a schedule that only asks for the next firing: the system clock is set,
//! the time zone (or its rules) is changed, the process is stopped for a while. None can be seen
//! without remembering; together they may cancel out. So a [`Clockwork`] remembers how far it has
//! come, and at each step moves from there to the present:
//!
//! ```text
//!     done ──────────────────────▶ now        time went forward: what lies between is due,
//!                                             on time or late ("skipped")
//!     now ◀────────────────────── done        time went back: what lies between was emitted
//!                                             before ("already fired"), and comes again
//! ```
//!
//! `done` lives on the local clock for patterns that depend on a zone: when the offset of the
//! last moment, computed anew, has changed, `done` moves to where the local clock shows what it
//! showed, and how far that is is judged by the local clock too; `travel` says how, and why.
//! Suspension, clock step and zone change thus add up before anything is decided.
//!
//! The [`Timekeeper`] on top decides what to fire, by one number for each item:
//! `max_shift_seconds_for_unskip_and_do_not_repeat`.
//!
//! Invariant: no clock is read here; the caller brings a [`Reading`] each time.
//! Invariant: without disturbances every firing is emitted exactly once.
//! Invariant: the work of a step does not depend on how far a clock jumped.

mod clockwork;
mod keeper;
mod kept;
#[cfg(feature = "runner")]
mod runner;
mod state;
mod travel;

pub use clockwork::{Clockwork, Event, Label, Listing, Movement};
pub use keeper::{Decision, Timekeeper, Verdict};
pub use kept::StatefulItem;
#[cfg(feature = "runner")]
pub use runner::{Due, Runner, Stopped};
pub use state::{Follows, Reading, Saved, Uptime};
