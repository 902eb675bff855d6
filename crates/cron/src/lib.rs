//! Cron patterns that say what happens when the clock jumps.
#![doc = ""]

mod civil;
mod item;
mod line;
mod names;
mod pattern;
mod time;
mod zone;

pub use item::{Item, ItemError};
pub use line::{Line, LineError, Policy};
pub use pattern::{DstFixes, Firing, Firings, FixesError, Missing, Pattern, Repeated, Why};
pub use time::Time;
pub use zone::{Database, Zone, ZoneError};
