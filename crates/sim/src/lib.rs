//! The whole cluster in one thread under one seed, with one checker for each promise.
//!
//! ```text
//!   seed ──▶ plan of faults ──▶ world: clocks, network, store, process table
//!                                 │    servers  (election, settling, epochs, leader: the real cores)
//!                                 │    workers  (link: the real core)
//!                                 │    guardians (decisions: the real core)
//!                                 └──▶ facts ──▶ checkers P1 to P10
//! ```
//!
//! | room | what it is |
//! | --- | --- |
//! | [`plan`] | what goes wrong, and when |
//! | `world`, `queue`, `clock`, `rng` | time, and what happens in it |
//! | `net`, `streams`, `store`, `desk` | what is between processes: it loses, delays and doubles |
//! | `server`, `machine`, `table`, `manners` | processes, what they run, and how that behaves |
//! | `clients`, `operate` | what people ask for, and what they say of machines |
//! | `faults`, `turns` | what breaks, and what comes to pass |
//! | `check` | one file for each promise; they see facts, never a core |
//! | [`shrink`] | the shortest plan that still breaks a promise |
//! | [`planted`] | mistakes on purpose, which the checkers must find |
//!
//! Invariant: the same seed gives the same history, byte for byte, on any machine.
//!
//! The engine has no batches yet: nodes that are always wanted are sent through its fleet.

mod check;
mod clients;
mod clock;
mod coverage;
mod desk;
mod faults;
mod machine;
mod manners;
mod net;
mod operate;
pub mod plan;
pub mod planted;
mod queue;
mod record;
mod rng;
mod server;
pub mod shrink;
mod store;
mod streams;
mod table;
mod trace;
mod turns;
mod words;
mod world;

pub use self::{
    check::{Promise, Violation},
    coverage::Coverage,
};
use self::{plan::Planned, world::World};

/// How large a world is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// For how many minutes things go wrong.
    pub minutes: u64,
    /// How many workers there are.
    pub workers: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self { minutes: 10, workers: 5 }
    }
}

/// What came of one seed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// What occurred.
    pub coverage: Coverage,
    /// The first promise that was broken.
    pub violation: Option<Violation>,
}

/// Plays one seed to its end.
///
/// ```
/// let report = sterna_sim::play(7, &sterna_sim::Options { minutes: 1, workers: 2 });
/// assert_eq!(report.violation, None);
/// assert!(report.coverage.starts > 0);
/// ```
pub fn play(seed: u64, options: &Options) -> Report {
    play_plan(seed, options, None)
}

/// Plays one seed with another plan of faults than its own.
pub fn play_plan(seed: u64, options: &Options, plan: Option<Vec<Planned>>) -> Report {
    let mut world = World::new(seed, options, plan, false);
    let violation = world.play();
    Report { coverage: world.coverage, violation }
}

/// What goes wrong in a seed.
pub fn plan_of(seed: u64, options: &Options) -> Vec<Planned> {
    World::new(seed, options, None, false).plan
}

/// Plays one seed and tells what happened, a line each.
pub fn trace(
    seed: u64,
    options: &Options,
    plan: Option<Vec<Planned>>,
) -> (Vec<String>, Option<Violation>) {
    let mut world = World::new(seed, options, plan, true);
    let violation = world.play();
    (world.take_trace(), violation)
}
