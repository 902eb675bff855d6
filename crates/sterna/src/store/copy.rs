//! `sterna store copy`: moves a cluster to another store.
//!
//! ```text
//!   nobody leads FROM ─▶ TO is empty ─▶ copy ─▶ compare ─▶ FROM is marked as moved ─▶ TO is named
//! ```
//!
//! The name comes last: a copy that was cut short is not a cluster, and no server takes it for one.
//! Its epoch is the next one, so whatever anybody has seen of the old store lies before it.

use std::{sync::Arc, time::Duration};

use anyhow::{Context, bail};
use serde_json::json;
use sterna_model::Span;
use sterna_store::{
    Commit, Expect, Item, Outcome, Scan, Store,
    cluster::{CLUSTER_KEY, Cluster, Stage},
    leader::{LEASE_KEY, LeaseState, Timing},
    scan_all,
};

use super::{lease, open, shown, write_id};
use crate::{clock, out};

/// Copies that are under way at a time.
const UNDER_WAY: usize = 16;

/// Move a cluster to another store, which must be empty
///
/// Stop all servers first. Workers may stay: they wait, and go on under the servers that are started
/// on the new store. The old store is marked as moved, so that no server uses it by mistake.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The store to copy
    from: String,
    /// The empty store to copy it to
    to: String,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(crate) async fn run(args: Args) -> anyhow::Result<()> {
    let progress = out::Progress::new();
    let from = open(&args.from).await.context("cannot open the store to copy")?;
    let to = open(&args.to).await.context("cannot open the store to copy to")?;
    check_empty(&*to).await?;
    check_unled(&*from, &progress).await?;
    let (items, _) = scan_all(&*from, "").await?;
    let (cluster, others): (Vec<Item>, Vec<Item>) =
        items.into_iter().partition(|item| *item.key == *CLUSTER_KEY);
    let found = cluster.first().map(|item| Cluster::from_bytes(&item.value)).transpose()?;
    copy(&to, &others, &progress).await?;
    compare(&*from, &*to, &others).await?;
    drop(progress);
    let epoch = match found {
        Some(found) => Some(name(&*from, &*to, found).await?),
        None => None,
    };
    let keys = others.len() + cluster.len();
    let text = if args.json {
        let epoch = epoch.map(|cluster| cluster.epoch.get());
        json!({ "from": shown(&args.from), "to": shown(&args.to), "keys": keys, "epoch": epoch })
            .to_string()
    } else {
        let then = match epoch {
            Some(cluster) => format!(
                "it goes on there in epoch {}; start the servers with --store {}",
                cluster.epoch.get(),
                shown(&args.to)
            ),
            None => "there was no cluster in it".to_owned(),
        };
        format!("copied {keys} keys; {then}")
    };
    out::answer(&text)?;
    Ok(())
}

async fn check_empty(to: &dyn Store) -> anyhow::Result<()> {
    let page = to.scan(Scan::of("").limit(1)).await?;
    if let Some(item) = page.items.first() {
        bail!(
            "the store to copy to is not empty, it holds {}; give the copy an empty one (what an \
             interrupted copy left may be removed)",
            item.key
        );
    }
    Ok(())
}

/// Watches for a whole lease whether somebody renews it.
async fn check_unled(from: &dyn Store, progress: &out::Progress) -> anyhow::Result<()> {
    let Some(held) = lease(from).await?.filter(|lease| lease.state == LeaseState::Held) else {
        return Ok(());
    };
    let patience = Timing::default().lease.plus(Span::from_secs(1)).as_duration();
    let first = from.get(LEASE_KEY).await?.item.map(|item| item.revision);
    let start = clock::instant();
    while start.elapsed() < patience {
        let left = (patience - start.elapsed()).as_secs();
        progress.say(&format!("{} may still lead; watching its lease for {left} s", held.holder));
        tokio::time::sleep(Duration::from_millis(500)).await;
        if from.get(LEASE_KEY).await?.item.map(|item| item.revision) != first {
            bail!("{} leads this cluster; stop all its servers and copy then", held.holder);
        }
    }
    Ok(())
}

async fn copy(to: &Arc<dyn Store>, items: &[Item], progress: &out::Progress) -> anyhow::Result<()> {
    let limits = to.limits();
    let mut tasks = tokio::task::JoinSet::new();
    let mut commit = Commit::new(write_id());
    let mut done = 0;
    for item in items {
        let next = commit.clone().put(item.key.clone(), item.value.clone());
        if limits.check(&next).is_ok() {
            commit = next;
            continue;
        }
        let full = std::mem::replace(&mut commit, Commit::new(write_id()));
        done += full.writes.len();
        send(to, full, &mut tasks).await?;
        progress.say(&format!("copied {done} of {} keys", items.len()));
        commit = commit.put(item.key.clone(), item.value.clone());
        limits.check(&commit).context("the other store does not take so large a value")?;
    }
    if !commit.writes.is_empty() {
        send(to, commit, &mut tasks).await?;
    }
    while let Some(sent) = tasks.join_next().await {
        sent??;
    }
    Ok(())
}

async fn send(
    to: &Arc<dyn Store>,
    commit: Commit,
    tasks: &mut tokio::task::JoinSet<anyhow::Result<()>>,
) -> anyhow::Result<()> {
    while tasks.len() >= UNDER_WAY {
        if let Some(sent) = tasks.join_next().await {
            sent??;
        }
    }
    let to = Arc::clone(to);
    tasks.spawn(async move {
        // The same commit again does no harm: it carries its write id.
        match to.commit(commit).await? {
            Outcome::Applied(_) => Ok(()),
            Outcome::Conflict(_) => bail!("a commit that expects nothing lost"),
        }
    });
    Ok(())
}

/// Reads everything back, from both: what was read first must still be so.
async fn compare(from: &dyn Store, to: &dyn Store, copied: &[Item]) -> anyhow::Result<()> {
    let bare = |items: Vec<Item>| -> Vec<_> {
        let others = items.into_iter().filter(|item| *item.key != *CLUSTER_KEY);
        others.map(|item| (item.key, item.value)).collect()
    };
    let wanted = bare(copied.to_vec());
    if bare(scan_all(to, "").await?.0) != wanted {
        bail!("what was copied does not read back as it was; do not use the copy");
    }
    if bare(scan_all(from, "").await?.0) != wanted {
        bail!(
            "the store changed while it was copied; stop all servers, empty the copy, and try again"
        );
    }
    Ok(())
}

/// Marks the old store as moved, and then gives the new one its name.
async fn name(from: &dyn Store, to: &dyn Store, found: Cluster) -> anyhow::Result<Cluster> {
    let Some(epoch) = found.epoch.next() else { bail!("this cluster has no epoch left to count") };
    match found.stage {
        // An earlier copy came this far, and was lost.
        Stage::Moved => {}
        Stage::Virgin | Stage::Used | Stage::Recovered => {
            let moved = Cluster { stage: Stage::Moved, ..found };
            let commit = Commit::new(write_id())
                .expect(CLUSTER_KEY, Expect::Value(found.to_string().into()))
                .put(CLUSTER_KEY, moved.to_string());
            if let Outcome::Conflict(_) = from.commit(commit).await? {
                bail!("the store changed while it was copied; stop all servers and try again");
            }
        }
    }
    let stage = match found.stage {
        Stage::Virgin => Stage::Virgin,
        Stage::Recovered => Stage::Recovered,
        Stage::Used | Stage::Moved => Stage::Used,
    };
    let named = Cluster { epoch, stage, ..found };
    let commit = Commit::new(write_id())
        .expect(CLUSTER_KEY, Expect::Absent)
        .put(CLUSTER_KEY, named.to_string());
    match to.commit(commit).await? {
        Outcome::Applied(_) => Ok(named),
        Outcome::Conflict(_) => bail!("somebody else made a cluster in the store to copy to"),
    }
}
