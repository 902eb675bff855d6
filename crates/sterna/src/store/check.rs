//! `sterna store check`: whether a store can be used, and what may be expected of it.

use std::time::Duration;

use anyhow::{Context, bail};
use serde_json::{Value, json};
use sterna_store::{
    About, Commit, Failover, Outcome, Store,
    cluster::{self, Cluster, Floor, Stage},
    leader::{Lease, LeaseState},
    shown,
};

use super::{lease, open_existing};
use crate::{bench::median, clock, out};

/// How often each call is timed.
const CALLS: usize = 20;

/// Check whether a store is usable, how fast it is, and which promises hold on it
///
/// Opens the store as a server would, which initializes a new one; it does not create a missing directory.
/// It commits, but leaves no key behind. Exits with 1 if a promise cannot hold.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The store: file:DIRECTORY, postgres://USER:PASSWORD@HOST/DATABASE or etcd://HOST,HOST,HOST
    url: String,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// A promise that rests on the store.
struct Promise {
    name: &'static str,
    what: &'static str,
    /// Why it does not hold.
    void: Option<&'static str>,
    /// Whether it still does if another machine takes over for the store's; `None` if none could,
    /// or that cannot be told.
    on_failover: Option<bool>,
}

pub(crate) async fn run(args: Args) -> anyhow::Result<()> {
    let store = open_existing(&args.url).await?;
    let (commit_ms, read_ms) = latency(&*store).await?;
    let cluster::Found { cluster, revision, .. } = cluster::read(&*store, None).await?;
    let lease = lease(&*store).await?;
    let about = store.about();
    let promises = promises(&about);
    let is_void = promises.iter().any(|promise| promise.void.is_some());
    let text = if args.json {
        let promises: Vec<Value> = promises.iter().map(promise_json).collect();
        json!({
            "store": shown(&args.url),
            "engine": about.engine,
            "is_durable": about.is_durable,
            "is_shared": about.is_shared,
            "failover": failover(&about),
            "settings": about.settings.iter().map(|(name, value)| json!([name, value])).collect::<Vec<_>>(),
            "warnings": store.warnings(),
            "revision": revision.get(),
            "cluster": cluster.map(|cluster| cluster.id.to_string()),
            "epoch": cluster.map(|cluster| cluster.epoch.get()),
            "stage": cluster.map(|cluster| cluster.stage.to_string()),
            "leader": lease.as_ref().filter(|lease| lease.state == LeaseState::Held).map(|lease| &lease.holder),
            "commit_ms": commit_ms,
            "read_ms": read_ms,
            "promises": promises,
        })
        .to_string()
    } else {
        let latency = format!("commit {commit_ms:.2} ms, read {read_ms:.2} ms (median of {CALLS})");
        table(&shown(&args.url), &about, cluster.as_ref(), lease.as_ref(), &latency, &promises)
    };
    out::answer(&text)?;
    if is_void {
        bail!("not every promise can hold on this store; the warnings say what to change");
    }
    Ok(())
}

/// Medians of the milliseconds of a commit and of a read.
async fn latency(store: &dyn Store) -> anyhow::Result<(f64, f64)> {
    let (mut commits, mut reads) = (Vec::new(), Vec::new());
    for _ in 0..CALLS {
        let start = clock::instant();
        // Removing what is not there is a commit like any other, and leaves nothing, whenever this
        // process is killed.
        let commit = Commit::new(clock::write_id()).delete("/v1/-/check");
        let id = commit.write_id;
        let outcome = store.commit(commit).await.context("the store does not take a commit")?;
        commits.push(ms(start.elapsed()));
        let Outcome::Applied(made) = outcome else { bail!("a commit that expects nothing lost") };
        let start = clock::instant();
        let reading = store.get("/v1/-/check").await?;
        reads.push(ms(start.elapsed()));
        if reading.revision < made || store.written(id).await? != Some(made) {
            bail!("the store answered a commit and then did not know it; do not use it");
        }
    }
    Ok((median(commits), median(reads)))
}

fn ms(span: Duration) -> f64 {
    span.as_secs_f64() * 1e3
}

fn promises(about: &About) -> Vec<Promise> {
    let undurable =
        (!about.is_durable).then_some("what was acknowledged may be lost; the warnings say why");
    let is_kept = match about.failover {
        Failover::Never | Failover::Unclear(_) => None,
        Failover::Keeps(_) => Some(true),
        Failover::Loses(_) => Some(false),
    };
    // What was acknowledged and is lost may be done again, or never.
    let kept = |name, what| Promise { name, what, void: undurable, on_failover: is_kept };
    vec![
        kept("P1", "a task is started at most once, ever"),
        kept("P4", "every due moment is fired exactly once"),
        kept("P5", "what was acknowledged is never lost"),
        // Its fence holds also where a crash loses something, but not where a whole reign is lost.
        Promise { void: None, ..kept("P7", "a deposed leader changes nothing") },
    ]
}

/// What becomes of the store if another machine takes over; empty if none could.
fn failover(about: &About) -> &str {
    match &about.failover {
        Failover::Never => "",
        Failover::Keeps(text) | Failover::Loses(text) | Failover::Unclear(text) => text,
    }
}

fn promise_json(promise: &Promise) -> Value {
    let Promise { name, void, on_failover, .. } = promise;
    json!({
        "promise": name,
        "holds": void.is_none(),
        "because": void,
        "holds_on_failover": on_failover.map(|holds| holds && void.is_none()),
    })
}

fn table(
    url: &str,
    about: &About,
    cluster: Option<&Cluster>,
    lease: Option<&Lease>,
    latency: &str,
    promises: &[Promise],
) -> String {
    let sharing = if about.is_shared { "several servers may share it" } else { "for one server" };
    let settings: Vec<String> =
        about.settings.iter().map(|(name, value)| format!("{name}: {value}")).collect();
    let cluster = match cluster {
        None => "none yet; the first server makes one".to_owned(),
        Some(Cluster { id, epoch, stage, floor }) => {
            let stage = match stage {
                Stage::Virgin => "never had a worker",
                Stage::Used => "in use",
                Stage::Recovered => "recovered: it had lost something",
                Stage::Moved => "moved to another store",
            };
            let floor = match *floor {
                Floor::FIRST => String::new(),
                floor => format!(", for sterna {floor} or later"),
            };
            format!("{id}, epoch {}, {stage}{floor}", epoch.get())
        }
    };
    let leader = match lease {
        None => "never had one".to_owned(),
        Some(Lease { term, state: LeaseState::Held, holder, .. }) => {
            format!("{holder}, term {}, unless its lease has run out", term.get())
        }
        Some(Lease { term, state: LeaseState::Resigned, holder, .. }) => {
            format!("none; {holder} resigned after term {}", term.get())
        }
    };
    let mut rows = vec![
        ("store", url.to_owned()),
        ("engine", format!("{}; {sharing}", about.engine)),
        ("settings", settings.join("; ")),
        ("failover", failover(about).to_owned()),
        ("cluster", cluster),
        ("leader", leader),
        ("latency", latency.to_owned()),
    ];
    rows.retain(|(_, value)| !value.is_empty());
    let mut text: String =
        rows.iter().map(|(name, value)| format!("{name:<10}{value}\n")).collect();
    for (index, promise) in promises.iter().enumerate() {
        let title = if index == 0 { "promises" } else { "" };
        let holds = match (promise.void, promise.on_failover) {
            (Some(why), Some(_) | None) => format!("VOID: {why}"),
            (None, Some(false)) => "can hold, but NOT over a failover".to_owned(),
            (None, Some(true) | None) => "can hold".to_owned(),
        };
        text += &format!("{title:<10}{} {}: {holds}\n", promise.name, promise.what);
    }
    text.trim_end().to_owned()
}
