//! The binary: one file per command, and nothing else.
//!
//! A command's doc comment is its help. What a command answers goes to stdout, what it says about
//! its work to stderr; `--json` makes the answer parseable. `exit` has the exit codes.

mod apply;
mod bench;
mod child;
mod clock;
mod config;
mod cron;
mod dev;
mod elsewhere;
mod events;
mod exit;
#[cfg(all(test, feature = "etcd", feature = "postgres"))]
mod help;
mod logs;
mod out;
mod patience;
mod prune;
mod refusal;
mod remote;
mod rotate;
mod run;
mod server;
mod settle;
mod show;
mod sim;
mod store;
mod table;
mod until_eof;
mod verbs;
mod why;
mod worker;

use std::process::ExitCode;

use clap::{CommandFactory, Parser, error::ErrorKind};

use self::verbs::{Verb, WorkerVerb};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Runs work on a fleet of machines: nothing runs twice, and nothing is forgotten.
#[derive(Debug, Parser)]
#[command(name = "sterna", version, arg_required_else_help = true, after_help = exit::TABLE)]
struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    Dev(dev::Args),
    Run(run::Args),
    Apply(apply::Args),
    Plan(apply::PlanArgs),
    Ls(show::LsArgs),
    Status(show::StatusArgs),
    Why(why::Args),
    Logs(logs::Args),
    Events(events::Args),
    /// Cancel a task: do not start it, or end it
    Cancel(verbs::Args),
    /// Restart one instance of a service: end it gracefully, then start it again
    Stop(verbs::Args),
    /// Kill a task or one instance at once
    Kill(verbs::Args),
    /// Delete the record of a finished task, or a service with all its instances
    Delete(verbs::DeleteArgs),
    Drain(verbs::DrainArgs),
    /// Let a drained worker take work again
    Undrain(verbs::WorkerArgs),
    DeclareDead(verbs::DeadArgs),
    DeclareComplete(verbs::CompleteArgs),
    /// Remove a worker that is gone and has no work from the list
    Forget(verbs::WorkerArgs),
    Server(server::Args),
    Worker(worker::Args),
    Cron(cron::Args),
    Store(store::Args),
    Sim(sim::Args),
    Bench(bench::Args),
    Completions(CompletionsArgs),
}

/// Print a completion script for a shell
#[derive(Debug, clap::Args)]
struct CompletionsArgs {
    /// The shell
    shell: clap_complete::Shell,
    /// Print the script as a JSON string
    #[arg(long)]
    json: bool,
}

fn main() -> ExitCode {
    // The guardian of a worker is this same program under another name.
    if sterna_worker::guardian::is_called() {
        return sterna_worker::guardian::run();
    }
    let args = match Args::try_parse() {
        Ok(args) => args,
        Err(error) => return usage(error),
    };
    let result = match args.command {
        Command::Dev(args) => dev::run(args),
        Command::Run(args) => run::run(args),
        Command::Apply(args) => apply::run(args),
        Command::Plan(args) => apply::plan(args),
        Command::Ls(args) => show::ls(args),
        Command::Status(args) => show::status(args),
        Command::Why(args) => why::run(args),
        Command::Logs(args) => logs::run(args),
        Command::Events(args) => events::run(args),
        Command::Cancel(args) => verbs::run(args, Verb::Cancel),
        Command::Stop(args) => verbs::run(args, Verb::Stop),
        Command::Kill(args) => verbs::run(args, Verb::Kill),
        Command::Delete(args) => verbs::delete(args),
        Command::Drain(args) => verbs::drain(args),
        Command::Undrain(args) => verbs::of_worker(args, WorkerVerb::Undrain),
        Command::DeclareDead(args) => verbs::declare_dead(args),
        Command::DeclareComplete(args) => verbs::declare_complete(args),
        Command::Forget(args) => verbs::of_worker(args, WorkerVerb::Forget),
        Command::Server(args) => server::run(args),
        Command::Worker(args) => worker::run(args),
        Command::Cron(args) => cron::run(args),
        Command::Store(args) => store::run(args),
        Command::Sim(args) => sim::run(args),
        Command::Bench(args) => bench::run(args),
        Command::Completions(args) => completions(&args),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            refusal::tell(&error);
            ExitCode::from(exit::code(&error))
        }
    }
}

/// The whole script first, then its writing: who reads only its beginning has seen enough.
fn completions(args: &CompletionsArgs) -> anyhow::Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Args::command(), "sterna", &mut script);
    let script = String::from_utf8_lossy(&script);
    let script = script.trim_end();
    if args.json {
        let shell = args.shell.to_string();
        out::answer(&serde_json::json!({ "shell": shell, "script": script }).to_string())?;
    } else {
        out::answer(script)?;
    }
    Ok(())
}

/// Help and version are answers; anything else is a mistake on the command line.
fn usage(mut error: clap::Error) -> ExitCode {
    elsewhere::answer(&mut error);
    if error.use_stderr() && refusal::is_json() {
        refusal::tell_usage(&error);
        return ExitCode::from(exit::USAGE);
    }
    // Nothing is left to do if even this cannot be written.
    drop(out::usage(&error));
    let is_run = std::env::args_os().nth(1).is_some_and(|command| command == "run");
    if error.kind() == ErrorKind::UnknownArgument && is_run {
        out::note("\nThe command comes after two dashes: sterna run -- echo hello");
    }
    let is_answer = matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion);
    if is_answer { ExitCode::SUCCESS } else { ExitCode::from(exit::USAGE) }
}
