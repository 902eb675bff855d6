//! The gate: everything that must hold before a change may stay, in one command.
//!
//! ```text
//!   setup ─ fmt ─ clippy ─ features ─ build ─ tests ─ doctests ─ docs ─ tidy ─ examples ─ deny
//!                                       │       ▲        ▲        ▲              ▲
//!                                       └───────┴────────┴────────┴──────────────┘
//!                                        skipped when the build failed
//! ```
//!
//! A failed step hides no other: the run goes on, so that one run says everything that is wrong.
//!
//! Invariant: the last line is `N passed, N failed`, alone and in this form. It counts tests and
//! steps, so a step that fails without a failed test still shows there.
//!
//! This file does not know what a step looks for; that stands in `steps.rs`.

mod counts;
mod deny;
mod examples;
mod features;
mod report;
mod rotation;
mod steps;
mod turn;

use anyhow::Result;

use crate::{
    args::Options,
    clock,
    gate::{
        report::{Entry, Report},
        turn::{Outcome, Turn, Verdict},
    },
    screen::Screen,
    workspace::Workspace,
};

/// One thing that must hold.
struct Step {
    /// The word for it in `--only` and in the report.
    name: &'static str,
    /// What is being done, for whoever waits.
    about: &'static str,
    /// Whether it can say anything when the build failed.
    needs: Needs,
    run: Run,
}

type Run = fn(&Turn<'_>) -> Result<Outcome>;

/// What a step needs of the steps before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Needs {
    Nothing,
    Build,
}

const BUILD: &str = "build";

/// The steps, in the order in which they run: the quick ones that fail most often come first.
const STEPS: &[Step] = &[
    Step::new("setup", "system packages", steps::setup),
    Step::new("fmt", "formatting", steps::fmt),
    Step::new("clippy", "lints, all targets and features", steps::clippy),
    Step::new("features", "lints with no and with each feature", steps::features),
    Step::new(BUILD, "everything, without protoc", steps::build),
    Step::new("tests", "tests of the whole workspace", steps::tests).after_build(),
    Step::new("doctests", "examples in documentation", steps::doctests).after_build(),
    Step::new("docs", "documentation and its links", steps::docs).after_build(),
    Step::new("tidy", "walls, words, sizes, documents", steps::tidy),
    Step::new("examples", "every example is run", examples::run).after_build(),
    Step::new("deny", "licences, bans, sources, advisories", deny::run),
];

impl Step {
    const fn new(name: &'static str, about: &'static str, run: Run) -> Self {
        Self { name, about, needs: Needs::Nothing, run }
    }

    const fn after_build(mut self) -> Self {
        self.needs = Needs::Build;
        self
    }
}

/// The names of the steps, in order.
pub(crate) fn step_names() -> Vec<&'static str> {
    STEPS.iter().map(|step| step.name).collect()
}

/// Runs the gate, reports, and says whether everything held.
pub(crate) fn run(options: &Options) -> Result<bool> {
    let screen = Screen::detect();
    let workspace = Workspace::load()?;
    // Only an earlier gate leaves the documentation there, so before this one builds anything
    // its absence tells a cold run from a warm one.
    let warmth = report::Warmth::of(workspace.target.join("doc").exists());
    let started = clock::now();
    let mut entries = Vec::new();
    for step in STEPS.iter().filter(|step| is_wanted(step, &options.only)) {
        let turn = Turn { name: step.name, workspace: &workspace, screen, rounds: options.rounds };
        entries.push(take(step, &turn, &entries));
    }
    let report = Report { entries, total: started.elapsed(), warmth };
    report.print(screen);
    Ok(report.is_clean())
}

fn is_wanted(step: &Step, only: &[String]) -> bool {
    only.is_empty() || only.iter().any(|name| name == step.name)
}

/// Takes one step, given those before it.
fn take(step: &Step, turn: &Turn<'_>, before: &[Entry]) -> Entry {
    let started = clock::now();
    turn.screen.begin(step.name, step.about);
    let outcome = if is_pointless(step.needs, before) {
        Outcome::skipped()
    } else {
        (step.run)(turn).unwrap_or_else(|error| {
            turn.screen.quote(&format!("{error:#}"));
            Outcome::of(false)
        })
    };
    let time = started.elapsed();
    let (paint, word) = outcome.verdict.shown();
    turn.screen.end(step.name, paint, word, &clock::spoken(time));
    Entry { name: step.name, outcome, time }
}

fn is_pointless(needs: Needs, before: &[Entry]) -> bool {
    needs == Needs::Build
        && before
            .iter()
            .any(|entry| entry.name == BUILD && entry.outcome.verdict == Verdict::Failed)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn build_that(outcome: Outcome) -> [Entry; 1] {
        [Entry { name: BUILD, outcome, time: Duration::ZERO }]
    }

    #[test]
    fn a_failed_build_makes_only_what_needs_it_pointless() {
        let failed = build_that(Outcome::of(false));
        assert!(is_pointless(Needs::Build, &failed));
        assert!(!is_pointless(Needs::Nothing, &failed));
        assert!(!is_pointless(Needs::Build, &build_that(Outcome::of(true))));
        // `--only tests` runs no build step; the tests then build what they need.
        assert!(!is_pointless(Needs::Build, &[]));
    }

    #[test]
    fn only_selects_by_name() {
        let wanted = |only: &[&str]| -> Vec<_> {
            let only: Vec<_> = only.iter().map(|name| (*name).to_owned()).collect();
            STEPS.iter().filter(|step| is_wanted(step, &only)).map(|step| step.name).collect()
        };
        assert_eq!(wanted(&[]), step_names());
        assert_eq!(wanted(&["tidy", "fmt"]), ["fmt", "tidy"]);
    }

    #[test]
    fn the_build_comes_before_what_needs_it() {
        let build = STEPS.iter().position(|step| step.name == BUILD).unwrap();
        let first_in_need = STEPS.iter().position(|step| step.needs == Needs::Build).unwrap();
        assert!(build < first_in_need);
    }
}
