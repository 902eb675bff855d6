//! A worker's link: one stream to the leader, and everything that follows from what is said on it.
//!
//! ```text
//!   leader ═══ stream ═══ driver ── Input ──▶ keeper (pure): protocol core, dialer, run table
//!                           │  ▲  ◀─ Effect ──┘
//!            signals ───────┘  │
//!            checks  ──────────┤
//!            containers ── mailbox
//! ```
//!
//! | file | what it is |
//! | --- | --- |
//! | `keeper/` | decides everything |
//! | `dial.rs` | whom to dial, and when |
//! | `remark.rs` | what people are told, and how often |
//! | `payload.rs` | work, ends, progress and facts, as they stand in messages |
//! | `table.rs` | what the next life must know, on the disk |
//! | `rehearsal.rs` | a worker whose containers are only said to be there |
//! | `mailbox.rs`, `check.rs`, `asides.rs`, `driver.rs` | what acts |
//!
//! Invariant: the link's thread never makes the thread of the containers wait.
//!
//! It listens to nobody: it dials, and only this machine, since there is no TLS yet.

mod asides;
mod check;
mod dial;
mod driver;
mod keeper;
mod mailbox;
mod payload;
pub mod rehearsal;
mod remark;
mod table;

use std::{io, path::PathBuf};

use sterna_model::{Name, WallTime};
use sterna_wire::Address;

use self::{asides::Asides, driver::Driver};
pub use self::{
    dial::{Dialer, pause},
    keeper::{Begin, Broken, Effect, Input, Keeper},
    mailbox::{RunNews, Tidings},
    payload::Description,
    remark::Remark,
    table::{Kept, Memory},
};
use self::{mailbox::Mailbox, table::Table};
use crate::{
    clock::{boot_id, boot_time, wall_time},
    containers::{self, Containers},
    directory::{Directory, random},
    guardian,
    interrupts::Interrupts,
    logs::Reader,
    sink::Sinks,
};

/// How a worker joins a cluster.
#[derive(Clone, Debug)]
pub struct Options {
    /// Whom to dial; one of them leads, or knows who does.
    pub servers: Vec<Address>,
    /// What this worker is called.
    pub name: Name,
    /// What it is and has.
    pub description: Description,
    /// Whether it asks to be drained, or to be drained no longer.
    pub wants_drain: Option<bool>,
    /// How it holds its containers; the kill wait is the cluster's.
    pub containers: containers::Options,
}

/// Why a worker cannot work.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LinkError {
    /// What earlier lives have left cannot be read, or nothing can be written there.
    #[error("cannot use what is kept in {}: mend it, or use another directory", .path.display())]
    Table {
        /// The data directory.
        path: PathBuf,
        /// Why.
        #[source]
        error: io::Error,
    },
    /// There is no guardian.
    #[error("cannot hold containers")]
    Containers(#[source] io::Error),
    /// The system gives no timers, sockets or signals.
    #[error("cannot wait for anything")]
    System(#[source] io::Error),
}

/// Tells people something.
pub type Say<'a> = &'a mut dyn FnMut(WallTime, &str);

/// Is a worker until it is told to end: joins, runs what it is given, and goes as it should. What runs
/// write goes to the sinks; asked for it, it is read by the reader.
///
/// # Errors
/// It cannot begin. Once it has begun, every trouble is told, and outlived.
pub fn run(
    directory: Directory,
    interrupts: Interrupts,
    (sinks, reader): (Box<dyn Sinks>, Reader),
    options: Options,
    say: Say<'_>,
) -> Result<(), LinkError> {
    let layout = directory.layout();
    let boot = boot_id();
    let of_table = |error| LinkError::Table { path: layout.path.clone(), error };
    let (table, memory, kept) = Table::open(&layout.path, boot.clone()).map_err(of_table)?;
    let mailbox = Mailbox::default();
    let kill_wait = memory.limits.unwrap_or_default().kill_wait;
    let of_containers = containers::Options { kill_wait, ..options.containers };
    let letters = mailbox.clone();
    let listener = Box::new(move |event| letters.put(event));
    let opened = Containers::open(&directory, of_containers, sinks, listener);
    let containers = opened.map_err(LinkError::Containers)?;
    for missing in payload::lacks(containers.missing(), &options.description.missing) {
        say(wall_time(), missing);
    }
    let mut effects = Vec::new();
    let begin = Begin {
        servers: options.servers,
        name: options.name,
        incarnation: directory.incarnation(),
        boot_number: payload::boot_number(&boot),
        birth: u64::from_ne_bytes(random().map_err(LinkError::System)?),
        facts: payload::facts(&options.description, containers.isolation(), containers.missing()),
        memory,
        confirmed: guardian::confirmed(&layout.path, &boot),
        boot,
        kept,
        tidings: mailbox.take(),
        wants_drain: options.wants_drain,
    };
    let keeper = Keeper::new(boot_time(), begin, &mut effects);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(LinkError::System)?;
    runtime.block_on(async {
        let from = (mailbox, Asides::new(reader));
        let driver = Driver::new(keeper, directory, containers, table, from, interrupts, say);
        driver.map_err(LinkError::System)?.work(effects).await;
        Ok(())
    })
}
