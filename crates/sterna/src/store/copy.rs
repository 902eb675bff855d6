//! `sterna store copy`: moves a cluster to another store.
//!
//! ```text
//!   lead FROM ─▶ mark TO as being copied into ─▶ copy ─▶ compare ─▶ mark FROM as moved ─▶ name TO
//! ```
//!
//! The copy leads the old cluster while it works, so no server writes to it, and what a deposed one
//! sends does not apply. The name comes last, and in the next epoch: half a copy is no cluster, and
//! whatever anybody has seen of the old store lies before the new one. A copy that was cut short
//! between the last two steps is finished by the same command, and by no other.

use std::{sync::Arc, time::Duration};

use anyhow::{Context, anyhow, bail};
use serde_json::json;
use sterna_model::Epoch;
use sterna_store::{
    Commit, Expect, Item, Outcome, Scan, Store,
    cluster::{CLUSTER_KEY, COPYING_KEY, Cluster, Stage},
    leader::{Candidate, LEASE_KEY, Lease, LeaseState, REIGN_KEY, Reign, Timing},
    scan_all, shown,
};

use super::{lease, open, open_existing};
use crate::{clock, exit, out};

/// Copies that are under way at a time.
const UNDER_WAY: usize = 16;
/// Where FROM says what it was, and by which copy it was moved.
const MOVED_KEY: &str = "/v1/-/moved";
/// What the copy calls itself in the lease.
const HOLDER: &str = "sterna store copy";

/// Move a cluster to another store, which must be empty
///
/// Stop all servers first. Workers may keep running: they wait, and continue under the servers that you start
/// on the new store. The command marks the old store as moved, so that no server uses it by mistake.
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
    let from = open_existing(&args.from).await.context("cannot open the store to copy")?;
    let found = from.get(CLUSTER_KEY).await?.item;
    let Some(found) = found.map(|item| Cluster::from_bytes(&item.value)).transpose()? else {
        let error = anyhow!("there is no cluster in {}; look at the URL", shown(&args.from));
        return Err(exit::coded(exit::USAGE)(error));
    };
    let to = open(&args.to).await.context("cannot open the store to copy to")?;
    let (keys, named) = match found.stage {
        Stage::Moved => (0, finish(&*from, &*to, found).await?),
        Stage::Virgin | Stage::Used | Stage::Recovered => {
            check_empty(&*to).await?;
            let candidate = lead(&from, &progress).await?;
            let moved = move_all(&from, &to, found, &candidate, &progress).await;
            candidate.resign().await;
            moved?
        }
    };
    drop(progress);
    let epoch = named.epoch.get();
    let text = if args.json {
        json!({ "from": shown(&args.from), "to": shown(&args.to), "keys": keys, "epoch": epoch })
            .to_string()
    } else {
        let done =
            if keys == 0 { "finished the copy".to_owned() } else { format!("copied {keys} keys") };
        let to = shown(&args.to);
        format!(
            "{done}; the cluster continues in epoch {epoch}: start its servers with --store {to}"
        )
    };
    out::answer(&text)?;
    Ok(())
}

async fn check_empty(to: &dyn Store) -> anyhow::Result<()> {
    let page = to.scan(Scan::of("").limit(1)).await?;
    if let Some(item) = page.items.first() {
        bail!(
            "the store to copy to is not empty, it holds {}; give the copy an empty one. What an \
             interrupted copy left goes with the directory of a file store, the schema of a \
             PostgreSQL one (DROP SCHEMA ... CASCADE), the prefix of an etcd one (etcdctl del \
             --prefix)",
            item.key
        );
    }
    Ok(())
}

/// Leads the old cluster, when nobody else does.
async fn lead(from: &Arc<dyn Store>, progress: &out::Progress) -> anyhow::Result<Candidate> {
    let timing = Timing::default();
    // A lease that was not given up must be seen unchanged for its whole length.
    let patience = timing.lease.plus(timing.margin()).as_duration();
    let holder = lease(&**from).await?.map_or("nobody".to_owned(), |lease| lease.holder);
    let mut candidate = Candidate::start(Arc::clone(from), timing, HOLDER);
    let start = clock::instant();
    while candidate.leading().is_none() {
        if start.elapsed() >= patience {
            let trouble = candidate.trouble();
            candidate.resign().await;
            match trouble {
                Some(trouble) => bail!("the old cluster cannot be taken over: {trouble}"),
                None => bail!("{holder} leads this cluster; stop all its servers and copy then"),
            }
        }
        let left = patience.saturating_sub(start.elapsed()).as_secs();
        progress.say(&format!("{holder} may still lead; watching its lease for {left} s"));
        // Woken by every change, and to say how long it may take.
        drop(tokio::time::timeout(Duration::from_millis(500), candidate.changed()).await);
    }
    Ok(candidate)
}

async fn move_all(
    from: &Arc<dyn Store>,
    to: &Arc<dyn Store>,
    found: Cluster,
    candidate: &Candidate,
    progress: &out::Progress,
) -> anyhow::Result<(usize, Cluster)> {
    let Some(epoch) = found.epoch.next() else { bail!("this cluster has no epoch left to count") };
    let copy = clock::write_id().to_string();
    let begin = Commit::new(clock::write_id())
        .expect(COPYING_KEY, Expect::Absent)
        .put(COPYING_KEY, copy.clone());
    applied(to.commit(begin).await?).context("another process copies into the same store")?;
    let items = copied(&**from).await?;
    copy_all(to, &items, progress).await?;
    if bare(copied(&**to).await?) != bare(items.clone()) {
        bail!("what was copied does not read back as it was; do not use the copy");
    }
    let Some(reign) = candidate.leading() else {
        bail!(
            "the old cluster was taken over while it was copied; stop all its servers, empty the \
               copy, and try again"
        );
    };
    let moved = Cluster { stage: Stage::Moved, ..found };
    let mark = reign
        .fenced(Commit::new(clock::write_id()))
        .expect(CLUSTER_KEY, Expect::Value(found.to_string().into()))
        .put(CLUSTER_KEY, moved.to_string())
        .put(MOVED_KEY, Moved { copy, stage: found.stage, epoch, reign }.to_string());
    applied(from.commit(mark).await?).context("the old cluster changed while it was copied")?;
    Ok((items.len() + 1, finish(&**from, &**to, moved).await?))
}

/// What moves: everything but the name, and what says who leads.
async fn copied(store: &dyn Store) -> anyhow::Result<Vec<Item>> {
    let own = [CLUSTER_KEY, COPYING_KEY, MOVED_KEY, LEASE_KEY, REIGN_KEY];
    let (mut items, _) = scan_all(store, "").await?;
    items.retain(|item| !own.contains(&&*item.key));
    Ok(items)
}

fn bare(items: Vec<Item>) -> Vec<(sterna_store::Key, Vec<u8>)> {
    items.into_iter().map(|item| (item.key, item.value.to_vec())).collect()
}

fn applied(outcome: Outcome) -> anyhow::Result<()> {
    match outcome {
        Outcome::Applied(_) => Ok(()),
        Outcome::Conflict(keys) => bail!("{} is not as expected", keys[0]),
    }
}

async fn copy_all(
    to: &Arc<dyn Store>,
    items: &[Item],
    progress: &out::Progress,
) -> anyhow::Result<()> {
    let limits = to.limits();
    let mut tasks = tokio::task::JoinSet::new();
    let mut commit = Commit::new(clock::write_id());
    let mut done = 0;
    for item in items {
        let next = commit.clone().put(item.key.clone(), item.value.clone());
        if limits.check(&next).is_ok() {
            commit = next;
            continue;
        }
        let full = std::mem::replace(&mut commit, Commit::new(clock::write_id()));
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
    tasks.spawn(async move { applied(to.commit(commit).await?) });
    Ok(())
}

/// What FROM says of its move.
struct Moved {
    /// Names the copy; TO was marked by it.
    copy: String,
    /// What the cluster was.
    stage: Stage,
    /// In which epoch it goes on.
    epoch: Epoch,
    /// Who led it last: the copy.
    reign: Reign,
}

impl std::fmt::Display for Moved {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { copy, stage, epoch, reign } = self;
        write!(f, "1 {copy} {stage} {} {reign}", epoch.get())
    }
}

impl Moved {
    fn read(text: &str) -> Option<Self> {
        let mut words = text.splitn(5, ' ');
        let is_ours = words.next()? == "1";
        let (copy, stage) = (words.next()?.to_owned(), words.next()?.parse().ok()?);
        let epoch = Epoch::new(words.next()?.parse().ok()?);
        let reign = words.next()?.parse().ok()?;
        is_ours.then_some(Self { copy, stage, epoch, reign })
    }
}

/// Gives the new store its name, if it was copied by the copy that moved the old one.
async fn finish(from: &dyn Store, to: &dyn Store, moved: Cluster) -> anyhow::Result<Cluster> {
    let record = from.get(MOVED_KEY).await?.item;
    let record = record.and_then(|item| Moved::read(std::str::from_utf8(&item.value).ok()?));
    let Some(record) = record else { bail!("the old store does not say how it was moved") };
    let marked = to.get(COPYING_KEY).await?.item;
    if marked.is_none_or(|item| item.value != record.copy.as_bytes()) {
        bail!("this cluster was moved to another store already; use that one");
    }
    let Moved { copy, stage, epoch, reign } = record;
    let (term, nonce) = (reign.term, reign.nonce);
    let lease = Lease { term, nonce, state: LeaseState::Resigned, holder: HOLDER.to_owned() };
    let named = Cluster { epoch, stage, ..moved };
    let commit = Commit::new(clock::write_id())
        .expect(COPYING_KEY, Expect::Value(copy.into()))
        .expect(CLUSTER_KEY, Expect::Absent)
        .delete(COPYING_KEY)
        .put(LEASE_KEY, lease.to_string())
        .put(REIGN_KEY, reign.to_string())
        .put(CLUSTER_KEY, named.to_string());
    applied(to.commit(commit).await?)?;
    Ok(named)
}
