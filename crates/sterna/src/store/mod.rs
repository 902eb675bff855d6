//! `sterna store`: looks at a store, and moves a cluster to another one.

mod check;
mod copy;

use std::sync::Arc;

use sterna_store::{
    Store,
    leader::{LEASE_KEY, Lease},
};

use crate::out;

/// Look at a store, or move a cluster to another one
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    Check(check::Args),
    Copy(copy::Args),
}

pub(crate) fn run(args: Args) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        match args.command {
            Command::Check(args) => check::run(args).await,
            Command::Copy(args) => copy::run(args).await,
        }
    })
}

/// Opens a store and says what about it voids a promise.
async fn open(url: &str) -> anyhow::Result<Arc<dyn Store>> {
    let store = sterna_store::open(url).await?;
    for warning in store.warnings() {
        out::warning(&warning);
    }
    Ok(store)
}

/// Who leads.
async fn lease(store: &dyn Store) -> anyhow::Result<Option<Lease>> {
    let item = store.get(LEASE_KEY).await?.item;
    Ok(item.map(|item| Lease::from_bytes(&item.value)).transpose()?)
}
