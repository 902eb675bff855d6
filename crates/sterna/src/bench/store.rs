//! `sterna bench store`: commits by 1, 64 and 512 committers, beside a floor: bare appends to a file,
//! or bare conditional updates on the same server.

use std::{
    fs,
    io::Write,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::{Context, bail};
use serde_json::json;
use sterna_model::{Revision, WriteId};
use sterna_store::{Commit, Expect, Key, Outcome, Store, StoreError};

use super::report::{Report, median, quantile, rounded};
use crate::{clock, out};

const COMMITTERS: [usize; 3] = [1, 64, 512];
/// How many committers run while a watch is measured.
const WATCHED: usize = 64;
pub(super) const VALUE_BYTES: usize = 256;
/// Each committer goes round over so many keys of its own.
pub(super) const KEYS_EACH: usize = 8;

/// Measure commits to a store, beside the bare work of its disk or its server
///
/// Each commit expects its key to be as the committer left it, and puts 256 bytes. The floor of a
/// file: store is an fdatasync'ed append of the same bytes; that of a postgres: store is a bare
/// conditional UPDATE by 64 updaters over as many connections as the store has. Rounds are
/// interleaved with the floor, and the figures are the medians of all rounds.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The store to measure, for example file:DIRECTORY; may be given more than once. Without it, an
    /// embedded store is made in the current directory and removed afterwards
    #[arg(long = "store", value_name = "URL")]
    stores: Vec<String>,
    /// How often everything is measured
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
    /// How long each measurement takes, in milliseconds
    #[arg(long, default_value_t = 700, value_parser = clap::value_parser!(u64).range(10..=60_000))]
    millis: u64,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: Args) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let (report, is_json) = runtime.block_on(async {
        let is_json = args.json;
        anyhow::Ok((measure(args).await?, is_json))
    })?;
    let text = if is_json { report.json("store").to_string() } else { table(&report) };
    Ok(out::answer(&text)?)
}

/// One store under measurement, with what was seen of it, round by round.
struct Subject {
    name: String,
    store: Arc<dyn Store>,
    floor: Floor,
    floors: Vec<f64>,
    rounds: Vec<[Seen; COMMITTERS.len()]>,
    watches: Vec<f64>,
}

/// What a store is measured beside.
enum Floor {
    /// Nothing: the store is in memory.
    None,
    /// Synced appends to a file at this path.
    Appends(PathBuf),
    /// Conditional updates on a server.
    #[cfg(feature = "postgres")]
    Updates(super::postgres::Updates),
}

impl Floor {
    async fn open(url: &str) -> anyhow::Result<Self> {
        match url.split_once(':') {
            Some(("file", rest)) => {
                // Beside the directory, which belongs to the store, and so on the same disk.
                let directory = rest.strip_prefix("//").unwrap_or(rest).trim_end_matches('/');
                let path = format!("{directory}.floor-{}", std::process::id());
                Ok(Self::Appends(PathBuf::from(path)))
            }
            #[cfg(feature = "postgres")]
            Some(("postgres" | "postgresql", _)) => {
                Ok(Self::Updates(super::postgres::Updates::prepare(url).await?))
            }
            Some(_) | None => Ok(Self::None),
        }
    }

    /// How often a second the bare work is done.
    async fn measure(&self, span: Duration) -> anyhow::Result<Option<f64>> {
        match self {
            Self::None => Ok(None),
            Self::Appends(path) => append(path, span).map(Some).with_context(|| {
                format!("cannot append to {}; make room for it, and try again", path.display())
            }),
            #[cfg(feature = "postgres")]
            Self::Updates(updates) => Ok(Some(updates.measure(span).await?)),
        }
    }

    const fn name(&self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Appends(_) => "fdatasync",
            #[cfg(feature = "postgres")]
            Self::Updates(_) => "update",
        }
    }

    async fn clean_up(&self) -> anyhow::Result<()> {
        match self {
            Self::None | Self::Appends(_) => Ok(()),
            #[cfg(feature = "postgres")]
            Self::Updates(updates) => updates.clean_up().await,
        }
    }
}

/// What one measurement saw.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    per_s: f64,
    p50_ms: f64,
    p99_ms: f64,
}

async fn measure(args: Args) -> anyhow::Result<Report> {
    let own = match args.stores.is_empty() {
        true => Some(OwnDirectory::make()?),
        false => None,
    };
    let urls = match &own {
        Some(own) => vec![format!("file:{}", own.path.join("store").display())],
        None => args.stores.clone(),
    };
    let mut subjects = Vec::new();
    for url in &urls {
        subjects.push(Subject::open(url, &subjects).await?);
    }
    let progress = out::Progress::new();
    let span = Duration::from_millis(args.millis);
    for round in 1..=args.rounds {
        for subject in &mut subjects {
            progress.say(&format!("{}: round {round} of {}", subject.name, args.rounds));
            subject.round(span).await?;
        }
    }
    drop(progress);
    let mut report = Report::default();
    for subject in &subjects {
        subject.report(&mut report);
        subject.clean_up().await?;
    }
    Ok(report)
}

impl Subject {
    async fn open(url: &str, others: &[Self]) -> anyhow::Result<Self> {
        let store = sterna_store::open(url).await?;
        for warning in store.warnings() {
            out::warning(&warning);
        }
        let kind = match url.split_once(':') {
            Some(("file", _)) => "embedded",
            Some(("postgresql", _)) => "postgres",
            Some((scheme, _)) => scheme,
            None => url,
        };
        let same = others.iter().filter(|other| other.name.starts_with(kind)).count();
        let name = if same == 0 { kind.to_owned() } else { format!("{kind}-{}", same + 1) };
        let floor = Floor::open(url).await?;
        let (floors, rounds, watches) = (Vec::new(), Vec::new(), Vec::new());
        Ok(Self { name, store, floor, floors, rounds, watches })
    }

    /// The floor first, then each number of committers, then a watch beside them.
    async fn round(&mut self, span: Duration) -> anyhow::Result<()> {
        self.floors.extend(self.floor.measure(span).await?);
        let mut seen = [Seen::default(); COMMITTERS.len()];
        for (seen, &committers) in seen.iter_mut().zip(&COMMITTERS) {
            *seen = commit(&self.store, committers, span).await?;
        }
        self.rounds.push(seen);
        self.watches.push(watch(&self.store, span).await?);
        Ok(())
    }

    fn report(&self, report: &mut Report) {
        let floor = median(self.floors.iter().copied());
        if !self.floors.is_empty() {
            let key = format!("{}_per_s_{}", self.floor.name(), self.name);
            report.floor.insert(key, rounded(floor));
        }
        let name = &self.name;
        let mut put = |group: &str, key: String, value: f64| {
            let group = report.figures.entry(group.to_owned()).or_insert_with(|| json!({}));
            group[key] = rounded(value);
        };
        put("watch_ms_p99", name.clone(), median(self.watches.iter().copied()));
        for (index, committers) in COMMITTERS.iter().enumerate() {
            let of = |part: fn(&Seen) -> f64| median(self.rounds.iter().map(|r| part(&r[index])));
            let key = format!("{name}_{committers}");
            put("commits_per_s", key.clone(), of(|seen| seen.per_s));
            put("commit_ms_p50", key.clone(), of(|seen| seen.p50_ms));
            put("commit_ms_p99", key.clone(), of(|seen| seen.p99_ms));
            if !self.floors.is_empty() {
                // Round by round: the disk's mood of the moment is in both.
                let rounds = self.rounds.iter().zip(&self.floors);
                let ratio = median(rounds.map(|(seen, floor)| seen[index].per_s / floor));
                report.ratios.insert(key, rounded(ratio));
            }
        }
    }

    /// Takes out of the store what was put into it, which may be somebody's own.
    async fn clean_up(&self) -> anyhow::Result<()> {
        let (items, _) = sterna_store::scan_all(&*self.store, PREFIX).await?;
        for items in items.chunks(self.store.limits().operations_max) {
            let commit = items
                .iter()
                .fold(Commit::new(next_write_id()), |commit, item| commit.delete(item.key.clone()));
            drop(self.store.commit(commit).await?);
        }
        self.floor.clean_up().await
    }
}

const PREFIX: &str = "/bench/";

/// Appends the bytes of one commit and syncs, again and again; gives how often in a second.
fn append(path: &Path, span: Duration) -> std::io::Result<f64> {
    let payload = vec![b'x'; key(0, 0).len() + VALUE_BYTES];
    let mut file = fs::File::create(path)?;
    let (start, mut count) = (clock::instant(), 0_u32);
    while start.elapsed() < span {
        file.write_all(&payload)?;
        file.sync_data()?;
        count += 1;
    }
    let per_s = f64::from(count) / start.elapsed().as_secs_f64();
    fs::remove_file(path)?;
    Ok(per_s)
}

/// Commits with so many committers at a time.
async fn commit(store: &Arc<dyn Store>, committers: usize, span: Duration) -> anyhow::Result<Seen> {
    let start = clock::instant();
    let tasks: Vec<_> = (0..committers)
        .map(|committer| tokio::spawn(commit_loop(Arc::clone(store), committer, start, span)))
        .collect();
    let mut latencies = Vec::new();
    for task in tasks {
        latencies.extend(task.await??);
    }
    let per_s = latencies.len() as f64 / start.elapsed().as_secs_f64();
    let p50_ms = quantile(&mut latencies, 0.5);
    Ok(Seen { per_s, p50_ms, p99_ms: quantile(&mut latencies, 0.99) })
}

/// One committer: goes round over its keys and gives the milliseconds of each commit.
async fn commit_loop(
    store: Arc<dyn Store>,
    committer: usize,
    start: Instant,
    span: Duration,
) -> anyhow::Result<Vec<f64>> {
    let mut keys = Vec::new();
    for index in 0..KEYS_EACH {
        let key = Key::from(key(committer, index));
        let item = store.get(&key).await?.item;
        keys.push((key, item.map_or(Expect::Absent, |item| Expect::At(item.revision))));
    }
    let mut latencies = Vec::new();
    for index in 0.. {
        let begun = start.elapsed();
        if begun >= span {
            break;
        }
        let (key, expect) = &mut keys[index % KEYS_EACH];
        // The moment it was sent, for whoever watches.
        let mut value = vec![b'x'; VALUE_BYTES];
        value[..8].copy_from_slice(&begun.as_secs_f64().to_le_bytes());
        let commit = Commit::new(next_write_id())
            .expect(key.clone(), expect.clone())
            .put(key.clone(), value);
        match store.commit(commit).await? {
            Outcome::Applied(revision) => *expect = Expect::At(revision),
            Outcome::Conflict(keys) => bail!("{} is written by somebody else too", keys[0]),
        }
        latencies.push((start.elapsed() - begun).as_secs_f64() * 1e3);
    }
    Ok(latencies)
}

/// The 99th percentile of the milliseconds from sending a commit to its delivery by a watch.
async fn watch(store: &Arc<dyn Store>, span: Duration) -> anyhow::Result<f64> {
    let (_, now) = sterna_store::scan_all(&**store, PREFIX).await?;
    let mut watch = store.watch(PREFIX, now).await?;
    let start = clock::instant();
    let committers: Vec<_> = (0..WATCHED)
        .map(|committer| tokio::spawn(commit_loop(Arc::clone(store), committer, start, span)))
        .collect();
    let watcher = tokio::spawn(async move {
        let mut latencies = Vec::new();
        let mut last = now;
        loop {
            let changes = match tokio::time::timeout(Duration::from_secs(1), watch.next()).await {
                Ok(changes) => changes?,
                // Nothing for a second: the committers have ended.
                Err(_) => return Ok::<(Vec<f64>, Revision), StoreError>((latencies, last)),
            };
            last = changes.revision;
            let arrived = start.elapsed().as_secs_f64();
            for change in changes.changes {
                let sent = change.value.and_then(|value| value.get(..8)?.try_into().ok());
                latencies.extend(sent.map(|sent| (arrived - f64::from_le_bytes(sent)) * 1e3));
            }
        }
    });
    let mut commits = 0;
    for committer in committers {
        commits += committer.await??.len();
    }
    let (mut latencies, _) = watcher.await??;
    if latencies.len() != commits {
        bail!("{commits} commits were made, but the watch delivered {}", latencies.len());
    }
    Ok(quantile(&mut latencies, 0.99))
}

pub(super) fn key(committer: usize, index: usize) -> String {
    format!("{PREFIX}{committer:04}/{index:04}")
}

/// Unique by the process, the moment and a count; this needs no secret.
fn next_write_id() -> WriteId {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let count = NEXT.fetch_add(1, Ordering::Relaxed);
    let mut unique = [0; 10];
    unique[..4].copy_from_slice(&std::process::id().to_be_bytes());
    unique[4..].copy_from_slice(&count.to_be_bytes()[2..]);
    WriteId::from_parts(clock::wall_time(), unique)
}

/// A directory made for this run and removed with everything in it.
struct OwnDirectory {
    path: PathBuf,
}

impl OwnDirectory {
    fn make() -> anyhow::Result<Self> {
        let path = std::env::current_dir()?.join(format!(".sterna-bench-{}", std::process::id()));
        fs::create_dir(&path).with_context(|| {
            format!("cannot make {}; run this where you may write", path.display())
        })?;
        Ok(Self { path })
    }
}

impl Drop for OwnDirectory {
    fn drop(&mut self) {
        // What cannot be removed is left to the user, who sees it where the bench was run.
        drop(fs::remove_dir_all(&self.path));
    }
}

fn table(report: &Report) -> String {
    let json = report.json("store");
    let number = |group: &str, key: &str| json["figures"][group][key].as_f64().unwrap_or(f64::NAN);
    let mut text = format!(
        "{:<16}{:>12}{:>12}{:>12}{:>10}\n",
        "committers", "commits/s", "p50 ms", "p99 ms", "x floor"
    );
    let keys = json["figures"]["commits_per_s"].as_object().into_iter().flatten();
    let mut keys: Vec<&String> = keys.map(|(key, _)| key).collect();
    keys.sort_by_key(|key| {
        let (name, committers) = key.rsplit_once('_').unwrap_or((key, ""));
        (name.to_owned(), committers.parse::<usize>().unwrap_or(0))
    });
    for key in keys {
        let ratio = json["ratios"][key].as_f64();
        text += &format!(
            "{key:<16}{:>12.0}{:>12.3}{:>12.3}{:>10}\n",
            number("commits_per_s", key),
            number("commit_ms_p50", key),
            number("commit_ms_p99", key),
            ratio.map_or("-".to_owned(), |ratio| format!("{ratio:.2}")),
        );
    }
    for (name, p99) in json["figures"]["watch_ms_p99"].as_object().into_iter().flatten() {
        text += &format!("{name}: a watch delivers 99 % of commits within {p99} ms of sending\n");
    }
    for (name, per_s) in json["floor"].as_object().into_iter().flatten() {
        text += &format!("floor: {name} {per_s}\n");
    }
    text.trim_end().to_owned()
}
