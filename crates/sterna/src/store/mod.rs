//! `sterna store`: looks at a store, and moves a cluster to another one.

mod check;
mod copy;

use std::{path::Path, sync::Arc};

use sterna_store::{
    Store,
    leader::{LEASE_KEY, Lease},
};

use crate::{exit, out};

/// Check a store, or move a cluster to another store
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

/// The same, but what is only looked at is not made: a directory must be there.
async fn open_existing(url: &str) -> anyhow::Result<Arc<dyn Store>> {
    let path = url.strip_prefix("file:").map(|path| match path.strip_prefix("//") {
        Some(absolute) if absolute.starts_with('/') => absolute,
        // One that names a host is refused when it is opened.
        Some(_) => "",
        None => path,
    });
    if let Some(path) = path.filter(|path| !path.is_empty() && !Path::new(path).exists()) {
        let error =
            anyhow::anyhow!("there is no store at {path}; the first server there makes one");
        return Err(exit::coded(exit::UNREACHABLE)(error));
    }
    open(url).await
}

/// Who leads.
async fn lease(store: &dyn Store) -> anyhow::Result<Option<Lease>> {
    let item = store.get(LEASE_KEY).await?.item;
    Ok(item.map(|item| Lease::from_bytes(&item.value)).transpose()?)
}
