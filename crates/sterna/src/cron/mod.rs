//! `sterna cron`: asks patterns when they fire, and what they mean.

mod explain;
mod next;
mod query;

/// Show when a cron pattern fires, and what it means
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    Next(next::Args),
    Explain(explain::Args),
}

pub(crate) fn run(args: Args) -> anyhow::Result<()> {
    match args.command {
        Command::Next(args) => next::run(args),
        Command::Explain(args) => explain::run(args),
    }
}
