//! The steps that are little more than a command, one function each, in the order in which they run.
//!
//! All of them build with the same profile, the same flags and (but for `features`) the same
//! features, so that each finds what the one before it has built. `-D warnings` goes to clippy
//! and rustdoc alone: as `RUSTFLAGS` it would build every dependency again.

use anyhow::Result;

use crate::{
    args::Rounds,
    cargo::has_subcommand,
    gate::{
        counts::{Counts, Runner},
        features::selections,
        rotation,
        turn::{Outcome, Turn},
    },
    run::Finished,
    setup::{self, Plan},
    tidy::{self as scan, Finding},
};

pub(super) fn setup(turn: &Turn<'_>) -> Result<Outcome> {
    let plan = setup::plan(setup::PACKAGES, setup::authority(), setup::is_present);
    let absent = match plan {
        Plan::Nothing => return Ok(Outcome::of(true)),
        Plan::Ask(absent) => absent,
        Plan::Install(absent) => {
            // A mirror that is out of reach shows in the installation that follows.
            turn.quietly(setup::update_command())?;
            turn.quietly(setup::install_command(&absent))?;
            // Believe the proof, not apt's exit code: it is the proof that tests rely on.
            absent.into_iter().filter(|package| !setup::is_present(package)).collect()
        }
    };
    if absent.is_empty() {
        return Ok(Outcome::of(true));
    }
    turn.quote(&setup::request(&absent).join("\n"));
    Ok(Outcome::of(false))
}

pub(super) fn fmt(turn: &Turn<'_>) -> Result<Outcome> {
    // rustfmt does not listen to cargo about colours.
    passes(turn, &["fmt", "--all", "--check", "--", "--color", turn.screen.cargo_color()])
}

pub(super) fn clippy(turn: &Turn<'_>) -> Result<Outcome> {
    let args = ["clippy", "--workspace", "--all-targets", "--all-features", "--locked"];
    passes(turn, &[&args[..], &["--", "-D", "warnings"]].concat())
}

pub(super) fn features(turn: &Turn<'_>) -> Result<Outcome> {
    let mut is_success = true;
    for selection in selections(&turn.workspace.packages) {
        let mut command = turn.cargo(["clippy", "--locked"]);
        command.args(selection).args(["--", "-D", "warnings"]);
        is_success &= turn.quietly(command)?.is_success;
    }
    Ok(Outcome::of(is_success))
}

pub(super) fn build(turn: &Turn<'_>) -> Result<Outcome> {
    // All targets: what follows then only runs, and its time is the time of the tests.
    passes(turn, &["build", "--workspace", "--all-targets", "--all-features", "--locked"])
}

pub(super) fn tests(turn: &Turn<'_>) -> Result<Outcome> {
    let selection = ["--workspace", "--all-features", "--locked", "--no-fail-fast"];
    if has_subcommand(&turn.workspace.root, "nextest") {
        let mut command = turn.cargo(["nextest", "run", "--cargo-quiet", "--status-level", "slow"]);
        command.args(["--profile", profile(turn.rounds)]).args(selection);
        let left_out = match turn.rounds {
            Rounds::Short => rotation::left_out(&turn.workspace.root, &turn.workspace.packages),
            Rounds::Long => None,
        };
        if let Some(filter) = left_out {
            turn.screen.quote(&format!("unchanged, and not their turn: {filter}"));
            command.args(["-E", &filter]);
        }
        return Ok(tested(Runner::Nextest, &turn.aloud(command)?));
    }
    // `--tests` leaves out the documentation, which is the next step's.
    let mut command = turn.cargo(["test", "--tests"]);
    command.args(selection);
    Ok(tested(Runner::Libtest, &turn.quietly(command)?))
}

pub(super) fn doctests(turn: &Turn<'_>) -> Result<Outcome> {
    let args = ["test", "--doc", "--workspace", "--all-features", "--locked", "--no-fail-fast"];
    Ok(tested(Runner::Libtest, &turn.quietly(turn.cargo(args))?))
}

pub(super) fn docs(turn: &Turn<'_>) -> Result<Outcome> {
    let args = ["doc", "--workspace", "--all-features", "--no-deps", "--locked"];
    let mut command = turn.cargo(args);
    // Most doors belong to private modules; their links must hold as well.
    command.arg("--document-private-items").env("RUSTDOCFLAGS", "-D warnings");
    Ok(Outcome::of(turn.quietly(command)?.is_success))
}

pub(super) fn tidy(turn: &Turn<'_>) -> Result<Outcome> {
    let findings = scan::findings(turn.workspace)?;
    findings.iter().for_each(|finding| turn.screen.quote(&finding.to_string()));
    Ok(Outcome::of(!findings.iter().any(Finding::is_error)))
}

/// The limits of `.config/nextest.toml` that go with `rounds`.
const fn profile(rounds: Rounds) -> &'static str {
    match rounds {
        Rounds::Short => "default",
        Rounds::Long => "long",
    }
}

fn tested(runner: Runner, finished: &Finished) -> Outcome {
    Outcome::with(finished.is_success, Counts::in_output(runner, &finished.output))
}

fn passes(turn: &Turn<'_>, args: &[&str]) -> Result<Outcome> {
    Ok(Outcome::of(turn.quietly(turn.cargo(args))?.is_success))
}
