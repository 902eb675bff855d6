//! The binary: one file per command, and nothing else.
//!
//! A command's doc comment is its help. What a command answers goes to stdout, what it says about
//! its work to stderr; `--json` makes the answer parseable. `exit` has the exit codes.

mod bench;
mod clock;
mod cron;
mod exit;
mod out;
mod sim;
mod store;
mod worker;

use std::process::ExitCode;

use clap::{Parser, error::ErrorKind};

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
    Sim(sim::Args),
    Store(store::Args),
    Worker(worker::Args),
}

fn main() -> ExitCode {
    // The guardian of a worker is this same program under another name.
    if sterna_worker::guardian::is_called() {
        return sterna_worker::guardian::run();
    }
    let args = match Args::try_parse() {
        Ok(args) => args,
        Err(error) => return usage(&error),
    };
    let result = match args.command {
        Command::Bench(args) => bench::run(args),
        Command::Cron(args) => cron::run(args),
        Command::Sim(args) => sim::run(args),
        Command::Store(args) => store::run(args),
        Command::Worker(args) => worker::run(args),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            out::error(&error);
            ExitCode::from(exit::code(&error))
        }
    }
}

/// Help and version are answers; anything else is a mistake on the command line.
fn usage(error: &clap::Error) -> ExitCode {
    // Nothing is left to do if even this cannot be written.
    drop(error.print());
    let is_answer = matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion);
    if is_answer { ExitCode::SUCCESS } else { ExitCode::from(exit::USAGE) }
}
