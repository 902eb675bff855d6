//! The binary: one file per command, and nothing else.
//!
//! A command's doc comment is its help. What a command answers goes to stdout, what it says about
//! its work to stderr; `--json` makes the answer parseable. Exit codes: 0 done, 64 wrong usage, 75
//! try again, 77 denied, 1 anything else.

mod bench;
mod clock;
mod cron;
mod out;

use std::process::ExitCode;

use clap::{Parser, error::ErrorKind};
use sterna_store::OpenError;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Runs work on a fleet of machines: nothing runs twice, and nothing is forgotten.
#[derive(Debug, Parser)]
#[command(name = "sterna", version, arg_required_else_help = true)]
struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    Bench(bench::Args),
    Cron(cron::Args),
}

fn main() -> ExitCode {
    let args = match Args::try_parse() {
        Ok(args) => args,
        Err(error) => return usage(&error),
    };
    let result = match args.command {
        Command::Bench(args) => bench::run(args),
        Command::Cron(args) => cron::run(args),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            out::error(&error);
            ExitCode::from(code(&error))
        }
    }
}

/// What the exit code says about the next step: 64 look at the command, 75 try again later, 77 ask
/// for permission, 1 read the message.
fn code(error: &anyhow::Error) -> u8 {
    match error.downcast_ref::<OpenError>() {
        Some(OpenError::Url { .. }) => 64,
        Some(OpenError::InUse { .. }) => 75,
        Some(OpenError::Permission { .. } | OpenError::ReadOnly { .. }) => 77,
        Some(_) | None => 1,
    }
}

/// Help and version are answers; anything else is a mistake on the command line.
fn usage(error: &clap::Error) -> ExitCode {
    // Nothing is left to do if even this cannot be written.
    drop(error.print());
    let is_answer = matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion);
    if is_answer { ExitCode::SUCCESS } else { ExitCode::from(64) }
}
