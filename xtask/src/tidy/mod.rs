//! What neither the compiler nor clippy can see: the walls between crates, and the house style.
//!
//! | file | what it holds to |
//! | --- | --- |
//! | `floors.rs` | crates depend only downward |
//! | `purity.rs` | cores draw in no runtime, clock or random source |
//! | `crate_count.rs` | the binary does not grow other people's crates unnoticed |
//! | `sizes.rs` | files stay readable |
//! | `tables.rs` | a decision over two things writes out every pair |
//! | `by_name.rs` | every row, transition and duty has a test that is called after it |
//! | `doors.rs` | every room says at its door what it is |
//! | `names.rs`, `words.rs`, `waits.rs` | names that say nothing, work left undone, tests that sleep |
//! | `decisions.rs`, `documents.rs`, `links.rs` | the documents are there, whole, and lead somewhere |
//! | `pages.rs` | what users read has short pages, paragraphs and cells |
//!
//! Each check is a function from the project to findings, without I/O; what it looks at is read
//! once by `tree.rs` (our files) and `graph.rs` (other people's crates).
//!
//! Invariant: every check has a test in which a planted fault is found, and one in which good
//! input passes. A check that cannot fail is not there.

mod by_name;
mod crate_count;
mod decisions;
mod documents;
mod doors;
mod floors;
mod graph;
mod links;
mod names;
mod pages;
mod purity;
mod sizes;
mod source;
mod tables;
mod tree;
mod waits;
mod words;

use std::fmt;

use anyhow::Result;

use crate::{screen::Screen, workspace::Workspace};
use graph::Graph;
use tree::Tree;

/// Something that is not as it should be. It prints as `path:line: what is wrong; what to do`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Finding {
    path: String,
    /// 1-based; 1 when the whole file is meant.
    line: usize,
    /// What is wrong; what to do.
    text: String,
    weight: Weight,
}

/// What a finding means for the gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Weight {
    /// It fails.
    Error,
    /// It says so and goes on.
    Warning,
}

impl Finding {
    fn error(path: &str, line: usize, text: impl Into<String>) -> Self {
        Self { path: path.to_owned(), line, text: text.into(), weight: Weight::Error }
    }

    fn warning(path: &str, line: usize, text: impl Into<String>) -> Self {
        Self { path: path.to_owned(), line, text: text.into(), weight: Weight::Warning }
    }

    /// Whether it fails the gate.
    pub(crate) fn is_error(&self) -> bool {
        self.weight == Weight::Error
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, line, text, weight } = self;
        match weight {
            Weight::Error => write!(f, "{path}:{line}: {text}"),
            Weight::Warning => write!(f, "{path}:{line}: warning: {text}"),
        }
    }
}

/// Prints all findings and says whether none of them is an error.
pub(crate) fn run(workspace: &Workspace, screen: Screen) -> Result<bool> {
    let findings = findings(workspace)?;
    findings.iter().for_each(|finding| screen.line(&finding.to_string()));
    let errors = findings.iter().filter(|finding| finding.is_error()).count();
    screen.line(&format!("tidy: {errors} errors, {} warnings", findings.len() - errors));
    Ok(errors == 0)
}

/// Reads the project and runs every check.
pub(crate) fn findings(workspace: &Workspace) -> Result<Vec<Finding>> {
    let tree = Tree::load(&workspace.root)?;
    let graph = Graph::load(workspace)?;
    let checks = [
        floors::check(workspace, &tree),
        purity::check(workspace, &graph),
        crate_count::check(&graph),
        sizes::check(&tree),
        tables::check(&tree),
        by_name::check(&tree),
        doors::check(&tree),
        names::check(&tree),
        words::check(&tree),
        waits::check(&tree),
        decisions::check(&tree),
        documents::check(&tree),
        links::check(&tree),
        pages::check(&tree),
    ];
    Ok(checks.into_iter().flatten().collect())
}

/// Fails unless `found` is exactly on these places, `path:line`.
#[cfg(test)]
#[track_caller]
fn assert_places(found: &[Finding], places: &[&str]) {
    let seen: Vec<_> = found.iter().map(|f| format!("{}:{}", f.path, f.line)).collect();
    assert_eq!(seen, places, "{found:#?}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finding_prints_so_that_editors_find_it() {
        let error = Finding::error("crates/a/src/lib.rs", 7, "bad; mend it");
        assert_eq!(error.to_string(), "crates/a/src/lib.rs:7: bad; mend it");
        let warning = Finding::warning("a.rs", 1, "long; think");
        assert_eq!(warning.to_string(), "a.rs:1: warning: long; think");
        assert!(error.is_error() && !warning.is_error());
    }
}
