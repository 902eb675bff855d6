//! Leadership: one process at a time may act, and what a deposed one sends changes nothing.
//!
//! ```text
//!              unchanged for a whole lease,            renewed in time
//!              resigned, or never held                 ┌──────────┐
//!   Follower ───────────────────▶ Claiming ──applied──▶│  Leader  │
//!      ▲                             │                 └──────────┘
//!      └──────── lost, deposed ──────┴──────────────────────┘  mute from (sent + lease - margin) on
//! ```
//!
//! Two keys hold it. The **lease** says who leads; each renewal writes it again, so that its
//! revision changes. The **reign** says by which term, nonce and fence counter; every commit of the
//! leader expects it, so one that arrives after the next takeover finds it changed.
//!
//! Invariant: no two processes hold a lease at the same instant. The holder counts from before it
//! sent its renewal, a challenger from after it has read the record, each on its own monotonic
//! clock, and the margin between the two covers how differently the clocks may run.
//!
//! [`Election`] decides; [`Candidate`] runs it on a store.
//!
//! Invariant: [`Election`] reads no clock and draws no randomness; both are arguments. It does not
//! know what a leader does.

mod driver;
mod election;

mod record;
mod settle;
#[cfg(test)]
mod tests;

pub use self::{
    driver::{Candidate, Follow},
    election::{Attempt, Effect, Election, Ended, Input, Timing},
    record::{
        LEASE_KEY, Lease, LeaseState, REIGN_KEY, RecordError, Reign, is_election_key, term_in,
        term_key,
    },
    settle::{Fate, Settled, Unanswered, settle},
};
