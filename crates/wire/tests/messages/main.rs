//! Every message of a link in bytes: golden samples, whatever else can be said, and what is refused.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on says where")]

mod coverage;
mod golden;
mod refusals;
mod round_trip;
mod samples;
mod sizes;
