//! The shell of the control plane: it reads clocks, stores, sockets and streams, and does what the engine
//! decides.
//!
//! ```text
//!   clients ── http ──▶ desk ──▶ ┌───────────────┐ ── one commit at a time ──▶ store
//!   workers ── links ─▶ desk ──▶ │ reign: Leader │ ── frames ──▶ workers
//!                                └───────┬───────┘ ── callbacks
//!                      what stands ──▶ mirror, events ──▶ http ──▶ clients
//! ```
//!
//! | room | what it does |
//! | --- | --- |
//! | `server` | listens, takes part in the election, leads again and again |
//! | `reign` | one reign: reads the store, drives the leader, commits |
//! | `desk` | where everybody puts what they want of the leader |
//! | `records` | records in bytes, and where they stand |
//! | `mirror`, `counts`, `events`, `views`, `alarms` | what stands, what happened, and how it is shown; pure |
//! | `http` | REST, events and logs |
//! | `links`, `callbacks` | the streams of workers; who is told that a task is over |
//! | `connection` | one connection of a client or a worker |
//! | `bounds`, `weight`, `load` | how much there may be at a time, what a spec takes of it, and what is on its way |
//! | `seen`, `token` | two small files |
//!
//! Invariant: it decides nothing. What is to be done comes out of the leader; what is shown stands in the
//! store.

mod alarms;
mod bounds;
mod callbacks;
mod clock;
mod connection;
mod counts;
mod desk;
mod events;
mod http;
mod links;
mod load;
mod mirror;
mod records;
mod reign;
mod seen;
mod server;
mod shared;
mod token;
mod views;
mod weight;

pub use self::{
    bounds::Bounds,
    http::description,
    records::RecordError,
    reign::ReignError,
    seen::SeenError,
    server::{Config, Ready, Say, Server, ServerError},
    token::{TOKEN_FILE, TokenError},
};

pub use sterna_engine::{auction::Rules, control::Retention};

/// Everything that an error says, cause after cause.
fn because(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}
