//! `sterna store`: looks at a store, and moves a cluster to another one.

mod check;
mod copy;

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use sterna_model::WriteId;
use sterna_store::{
    Store, StoreError,
    leader::{LEASE_KEY, Lease},
};

use crate::{clock, out};

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

/// A URL as it may be shown: without a password.
fn shown(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return url.to_owned() };
    let authority = rest.split(['/', '?']).next().unwrap_or(rest);
    match authority.rsplit_once('@').and_then(|(login, _)| login.split_once(':')) {
        Some((user, password)) => {
            let rest = rest.replacen(&format!("{user}:{password}@"), &format!("{user}@"), 1);
            format!("{scheme}://{rest}")
        }
        None => url.to_owned(),
    }
}

/// Who leads, if that can be read.
async fn lease(store: &dyn Store) -> Result<Option<Lease>, StoreError> {
    let item = store.get(LEASE_KEY).await?.item;
    Ok(item.and_then(|item| std::str::from_utf8(&item.value).ok()?.parse().ok()))
}

/// Unique by the process, the moment and a count; this needs no secret.
fn write_id() -> WriteId {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let count = NEXT.fetch_add(1, Ordering::Relaxed);
    let mut unique = [0; 10];
    unique[..4].copy_from_slice(&std::process::id().to_be_bytes());
    unique[4..].copy_from_slice(&count.to_be_bytes()[2..]);
    WriteId::from_parts(clock::wall_time(), unique)
}

#[cfg(test)]
mod tests {
    use super::shown;

    #[test]
    fn a_password_is_never_shown() {
        for (url, expected) in [
            ("file:data", "file:data"),
            ("postgres://db/x", "postgres://db/x"),
            ("postgres://me@db/x", "postgres://me@db/x"),
            ("postgres://me:p%40ss@db:5432/x?schema=y", "postgres://me@db:5432/x?schema=y"),
            ("etcd://me:secret@one,two/work", "etcd://me@one,two/work"),
            ("etcd://one:2379,two:2379", "etcd://one:2379,two:2379"),
        ] {
            assert_eq!(shown(url), expected);
        }
    }
}
