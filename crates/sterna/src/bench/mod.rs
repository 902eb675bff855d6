//! `sterna bench`: measures this machine and Sterna on it, side by side in one run.
//!
//! Every bench answers in one form: `figures` are what was measured, `floor` is the bare work of the
//! machine in the same run, `ratios` are figures over floor. Only ratios compare across machines.

#[cfg(any(feature = "etcd", feature = "postgres"))]
mod bare;
mod check;
mod consensus;
mod control;
mod converge;
mod cron;
mod dev;
mod ended;
#[cfg(feature = "etcd")]
mod etcd;
mod placement;
#[cfg(feature = "postgres")]
mod postgres;
mod report;
mod spawn;
mod store;

pub(crate) use report::median;

/// Measure Sterna on this machine, beside what the machine itself can do
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    bench: Bench,
}

#[derive(Debug, clap::Subcommand)]
enum Bench {
    Consensus(consensus::Args),
    Control(control::Args),
    Converge(converge::Args),
    Cron(cron::Args),
    Dev(dev::Args),
    Placement(placement::Args),
    Spawn(spawn::Args),
    Store(store::Args),
}

pub(crate) fn run(args: Args) -> anyhow::Result<()> {
    match args.bench {
        Bench::Consensus(args) => consensus::run(args),
        Bench::Control(args) => control::run(args),
        Bench::Converge(args) => converge::run(args),
        Bench::Cron(args) => cron::run(args),
        Bench::Dev(args) => dev::run(args),
        Bench::Placement(args) => placement::run(args),
        Bench::Spawn(args) => spawn::run(args),
        Bench::Store(args) => store::run(args),
    }
}
