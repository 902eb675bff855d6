//! The language of specs: TOML or JSON in, typed values out, or everything that is wrong with it.
//!
//! ```text
//!   text ── toml, json ──▶ tree: values with their places
//!        ── fields, by the schema ──▶ service, task: typed, or refused with reason and remedy
//!        ── problem ──▶ file, line, column, caret
//!   typed ── written ──▶ JSON that is read as the same again
//! ```
//!
//! ```
//! use sterna_api::spec::{Source, read};
//!
//! let text = "version = 1\n[task.hello]\nrun = [\"echo\", \"hello\"]\nstart = true\n";
//! let specs = read(&[Source { name: "hello.toml", text }]).unwrap();
//! assert_eq!(specs.tasks.len(), 1);
//!
//! let text = "version = 1\n[task.hello]\nrunn = [\"echo\"]\n";
//! let problems = read(&[Source { name: "hello.toml", text }]).unwrap_err();
//! assert_eq!(problems.count(), 2); // 'run' is missing, and nobody knows 'runn'
//! ```
//!
//! Invariant: all files are read to their ends before anything is answered; what is answered is
//! either everything that they say or everything that is wrong with them.
//!
//! Invariant: no field is read that `schema` does not have, and none is passed over.
//!
//! Invariant: what is left out and what is said as it is by default give the same bytes of work, so
//! that nothing is started anew for a word that changes nothing.
//!
//! This room does not know what a cluster runs, has or allows: those who do check that again.

mod command;
mod fields;
mod file;
mod image;
mod json;
mod monitor;
mod placement;
mod policy;
mod problem;
mod schema;
mod service;
mod silence;
mod task;
mod toml;
mod tree;
mod written;

use std::{collections::BTreeMap, sync::Arc};

use sterna_model::{
    Name, Span, WallTime,
    spec::{Definition, ServiceSpec, TaskSpec},
};

pub use file::FILE_BYTES_MAX;
pub use problem::{Look, Problem, Problems};
pub use schema::{fields, reference};
pub use written::{of_definition, of_service, of_task};

/// The longest name of a task that is started: a dot and the eight digits of its version must still fit
/// behind it.
const STARTED_NAME_MAX: usize = Name::BYTES_MAX - 1 - 8;

/// What no service and no task is called.
pub const LAST: &str = "last";
/// Why not.
pub const LAST_MEANS: &str = "'last' means the task that was made last";

/// The text of one file.
#[derive(Clone, Copy, Debug)]
pub struct Source<'a> {
    /// What it is called; `.json` and `.toml` at its end say what it is in.
    pub name: &'a str,
    /// What it says.
    pub text: &'a str,
}

/// What a file is written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    Toml,
    Json,
}

impl Source<'_> {
    fn format(&self) -> Format {
        let lower = self.name.to_ascii_lowercase();
        if lower.ends_with(".json") {
            Format::Json
        } else if !lower.ends_with(".toml") && self.text.trim_start().starts_with('{') {
            // No line of TOML begins so.
            Format::Json
        } else {
            Format::Toml
        }
    }
}

/// Everything that the files want.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Specs {
    /// Services by name.
    pub services: BTreeMap<Name, ServiceSpec>,
    /// Tasks by name.
    pub tasks: BTreeMap<Name, TaskDefinition>,
}

/// A task as a file defines it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskDefinition {
    /// What it is, but for when it must have begun.
    pub spec: TaskSpec,
    /// It ends when it was not started so long after it was made.
    pub latest_start_after: Option<Span>,
    /// Whether it is run, once for each version that is applied.
    pub start: bool,
}

impl TaskDefinition {
    /// The task that is made of it now.
    pub fn made_at(&self, now: WallTime) -> TaskSpec {
        let latest_start = self.latest_start_after.map(|after| now.plus(after));
        TaskSpec { latest_start, ..self.spec.clone() }
    }

    /// What is stored of it where it is not started.
    pub fn stored(&self) -> Definition {
        let latest_start_after = self.latest_start_after;
        Definition { spec: Arc::new(self.spec.clone()), latest_start_after }
    }
}

/// Reads all that the files want.
///
/// # Errors
/// Everything that is wrong with any of them.
pub fn read(sources: &[Source<'_>]) -> Result<Specs, Problems> {
    let mut found = problem::Found::new(sources);
    let specs = file::read(sources, &mut found);
    found.judge(specs)
}
