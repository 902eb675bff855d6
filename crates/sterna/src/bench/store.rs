//! `sterna bench store`: commits by 1, 64 and 512 committers, beside bare appends to a file.

use std::{
    collections::BTreeMap,
    fs,
    io::{Seek, Write},
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context, anyhow, bail};
use serde_json::json;
use sterna_model::Revision;
use sterna_store::{Commit, Embedded, Expect, Key, Outcome, Store, StoreError};
use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    task::JoinHandle,
};

use super::report::{Report, median, quantile, rounded};
use crate::{clock, out};

const COMMITTERS: [usize; 3] = [1, 64, 512];
/// How many committers run while a watch is measured.
const WATCHED: usize = 64;
pub(super) const VALUE_BYTES: usize = 256;
/// Each committer goes round over so many keys of its own.
pub(super) const KEYS_EACH: usize = 8;

/// Measure commits to a store, beside bare fdatasync'ed appends of the same bytes
///
/// Each commit expects its key to be as the committer left it, and puts 256 bytes. Rounds are
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
    let is_json = args.json;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    // Heard from now on, before there is anything to be left behind.
    let interrupts = runtime.block_on(async { signal(SignalKind::interrupt()) })?;
    let own = if args.stores.is_empty() { Some(OwnDirectory::make()?) } else { None };
    let places = match &own {
        Some(own) => vec![Place::Directory(own.path.join("store"))],
        None => args.stores.iter().cloned().map(Place::Url).collect(),
    };
    let result = runtime.block_on(measure(&args, &places, interrupts));
    // In this order: the directory goes when nothing writes to it any more.
    drop(runtime);
    drop(own);
    let report = result?;
    let text = if is_json { report.json("store").to_string() } else { table(&report) };
    out::answer(&text)?;
    Ok(())
}

/// Where a store is.
enum Place {
    /// In a directory, whose name need not be text.
    Directory(PathBuf),
    /// Where a URL says.
    Url(String),
}

/// One store under measurement, with what was seen of it, round by round.
struct Subject {
    name: String,
    store: Arc<dyn Store>,
    /// Begins all keys of this run, so that nobody else's are touched.
    prefix: String,
    floor: Floor,
    floors: Vec<Bare>,
    rounds: Vec<[Seen; COMMITTERS.len()]>,
    watches: Vec<Delivery>,
}

/// What a store is measured beside.
enum Floor {
    /// Nothing: the store is in memory.
    None,
    /// Synced appends to a file in this directory.
    Appends(PathBuf),
    /// Conditional updates on a server.
    #[cfg(feature = "postgres")]
    Updates(super::postgres::Updates),
    /// Conditional puts on a cluster.
    #[cfg(feature = "etcd")]
    Puts(super::etcd::Puts),
}

impl Floor {
    async fn open(place: &Place) -> anyhow::Result<Self> {
        let url = match place {
            Place::Directory(path) => return Ok(Self::Appends(path.clone())),
            Place::Url(url) => url,
        };
        match url.split_once(':') {
            Some(("file", path)) => {
                Ok(Self::Appends(PathBuf::from(path.strip_prefix("//").unwrap_or(path))))
            }
            #[cfg(feature = "postgres")]
            Some(("postgres" | "postgresql", _)) => {
                Ok(Self::Updates(super::postgres::Updates::prepare(url).await?))
            }
            #[cfg(feature = "etcd")]
            Some(("etcd", _)) => Ok(Self::Puts(super::etcd::Puts::prepare(url).await?)),
            Some(_) | None => Ok(Self::None),
        }
    }

    /// How often a second the bare work is done.
    async fn measure(&self, span: Duration) -> anyhow::Result<Option<Bare>> {
        match self {
            Self::None => Ok(None),
            Self::Appends(directory) => append(directory, span)
                .map(Some)
                .with_context(|| format!("cannot append to a file in {}", directory.display())),
            #[cfg(feature = "postgres")]
            Self::Updates(updates) => Ok(Some(Bare::of(updates.measure(span).await?))),
            #[cfg(feature = "etcd")]
            Self::Puts(puts) => Ok(Some(Bare::of(puts.measure(span).await?))),
        }
    }

    const fn name(&self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Appends(_) => "fdatasync",
            #[cfg(feature = "postgres")]
            Self::Updates(_) => "update",
            #[cfg(feature = "etcd")]
            Self::Puts(_) => "put",
        }
    }

    async fn clean_up(&self) -> anyhow::Result<()> {
        match self {
            Self::None | Self::Appends(_) => Ok(()),
            #[cfg(feature = "postgres")]
            Self::Updates(updates) => updates.clean_up().await,
            #[cfg(feature = "etcd")]
            Self::Puts(puts) => puts.clean_up().await,
        }
    }
}

/// What the bare work came to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bare {
    pub(super) per_s: f64,
    /// Where each of them is timed by itself.
    pub(super) p99_ms: Option<f64>,
}

impl Bare {
    #[cfg(any(feature = "postgres", feature = "etcd"))]
    const fn of(per_s: f64) -> Self {
        Self { per_s, p99_ms: None }
    }
}

/// How late a watch delivered, at the 99th percentile.
#[derive(Clone, Copy, Debug)]
struct Delivery {
    /// After the commit was acknowledged. Before that it may not be delivered, nor need it be.
    acknowledged_ms: f64,
    /// After the commit was sent, and so with the time that making it durable took.
    sent_ms: f64,
}

/// One commit, by whoever made it.
#[derive(Clone, Copy, Debug)]
struct Made {
    revision: Revision,
    sent: Duration,
    acknowledged: Duration,
}

impl Made {
    fn ms(&self) -> f64 {
        ms(self.acknowledged - self.sent)
    }
}

/// What one measurement saw.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    per_s: f64,
    p50_ms: f64,
    p99_ms: f64,
}

async fn measure(args: &Args, places: &[Place], mut interrupts: Signal) -> anyhow::Result<Report> {
    let mut subjects = Vec::new();
    for place in places {
        subjects.push(Subject::open(place, &subjects).await?);
    }
    let span = Duration::from_millis(args.millis);
    let measured = tokio::select! {
        measured = rounds(&mut subjects, args.rounds, span) => measured,
        _ = interrupts.recv() => Err(anyhow!("interrupted; what was measured so far is dropped")),
    };
    if measured.is_err() {
        // Committers that were left alone end by themselves after their span.
        tokio::time::sleep(span).await;
    }
    let mut report = Report::default();
    let mut cleaned = Ok(());
    for subject in &subjects {
        subject.report(&mut report);
        cleaned = cleaned.and(subject.clean_up().await);
    }
    // Why measuring failed matters more than what cleaning up then met.
    measured.and(cleaned)?;
    Ok(report)
}

async fn rounds(subjects: &mut [Subject], rounds: u32, span: Duration) -> anyhow::Result<()> {
    let progress = out::Progress::new();
    for round in 1..=rounds {
        for subject in subjects.iter_mut() {
            progress.say(&format!("{}: round {round} of {rounds}", subject.name));
            subject.round(span).await?;
        }
    }
    Ok(())
}

impl Subject {
    async fn open(place: &Place, others: &[Self]) -> anyhow::Result<Self> {
        let (kind, store): (_, Arc<dyn Store>) = match place {
            Place::Directory(path) => ("embedded", Arc::new(Embedded::open(path)?)),
            Place::Url(url) => {
                let kind = match url.split_once(':') {
                    Some(("file", _)) => "embedded",
                    Some(("postgresql", _)) => "postgres",
                    Some((scheme, _)) => scheme,
                    None => url,
                };
                (kind, sterna_store::open(url).await?)
            }
        };
        for warning in store.warnings() {
            out::warning(&warning);
        }
        let floor = Floor::open(place).await?;
        let same = others.iter().filter(|other| other.name.starts_with(kind)).count();
        let name = if same == 0 { kind.to_owned() } else { format!("{kind}-{}", same + 1) };
        let prefix = format!("/bench/{}/", clock::write_id());
        let (floors, rounds, watches) = (Vec::new(), Vec::new(), Vec::new());
        Ok(Self { name, store, prefix, floor, floors, rounds, watches })
    }

    /// The floor first, then each number of committers, then a watch beside them.
    async fn round(&mut self, span: Duration) -> anyhow::Result<()> {
        self.floors.extend(self.floor.measure(span).await?);
        let mut seen = [Seen::default(); COMMITTERS.len()];
        for (seen, &committers) in seen.iter_mut().zip(&COMMITTERS) {
            *seen = self.commit(committers, span).await?;
        }
        self.rounds.push(seen);
        self.watches.push(self.watch(span).await?);
        Ok(())
    }

    /// Commits with so many committers at a time.
    async fn commit(&self, committers: usize, span: Duration) -> anyhow::Result<Seen> {
        let known = self.known().await?;
        let start = clock::instant();
        let mut latencies = Vec::new();
        for task in self.committers(&known, committers, start, span) {
            latencies.extend(task.await??.iter().map(Made::ms));
        }
        let per_s = latencies.len() as f64 / start.elapsed().as_secs_f64();
        let p50_ms = quantile(&mut latencies, 0.5);
        Ok(Seen { per_s, p50_ms, p99_ms: quantile(&mut latencies, 0.99) })
    }

    /// The revisions of all keys of this run, which the first commits expect.
    async fn known(&self) -> anyhow::Result<BTreeMap<Key, Revision>> {
        let (items, _) = sterna_store::scan_all(&*self.store, &self.prefix).await?;
        Ok(items.into_iter().map(|item| (item.key, item.revision)).collect())
    }

    fn committers(
        &self,
        known: &BTreeMap<Key, Revision>,
        count: usize,
        start: Instant,
        span: Duration,
    ) -> Vec<JoinHandle<anyhow::Result<Vec<Made>>>> {
        let spawn = |committer| {
            let expected = |key: Key| {
                let expect = known.get(&key).copied().map_or(Expect::Absent, Expect::At);
                (key, expect)
            };
            let keys = (0..KEYS_EACH).map(|index| key(&self.prefix, committer, index));
            let keys = keys.map(expected).collect();
            tokio::spawn(commit_loop(Arc::clone(&self.store), keys, start, span))
        };
        (0..count).map(spawn).collect()
    }

    /// How late a watch delivers while others commit.
    async fn watch(&self, span: Duration) -> anyhow::Result<Delivery> {
        let last = format!("{}last", self.prefix);
        let (_, now) = sterna_store::scan_all(&*self.store, &self.prefix).await?;
        let mut watch = self.store.watch(&self.prefix, now).await?;
        let known = self.known().await?;
        let start = clock::instant();
        let committers = self.committers(&known, WATCHED, start, span);
        let watcher = {
            let last = last.clone();
            tokio::spawn(async move {
                let mut arrivals = BTreeMap::new();
                loop {
                    let changes = watch.next().await?;
                    if changes.changes.iter().any(|change| *change.key == *last) {
                        return Ok::<_, StoreError>(arrivals);
                    }
                    arrivals.insert(changes.revision, start.elapsed());
                }
            })
        };
        let mut commits = Vec::new();
        for committer in committers {
            commits.extend(committer.await??);
        }
        // Tells the watch that nothing more comes.
        drop(self.store.commit(Commit::new(clock::write_id()).put(last, "")).await?);
        let arrivals = watcher.await??;
        let since = |moment: fn(&Made) -> Duration| {
            let late =
                |made: &Made| Some(ms(arrivals.get(&made.revision)?.saturating_sub(moment(made))));
            let mut late: Vec<f64> = commits.iter().filter_map(late).collect();
            (late.len(), quantile(&mut late, 0.99))
        };
        let (delivered, acknowledged_ms) = since(|made| made.acknowledged);
        if delivered != commits.len() || arrivals.len() != commits.len() {
            let made = commits.len();
            bail!("{made} commits were made, but the watch delivered {}", arrivals.len());
        }
        let (_, sent_ms) = since(|made| made.sent);
        Ok(Delivery { acknowledged_ms, sent_ms })
    }

    fn report(&self, report: &mut Report) {
        if !self.floors.is_empty() {
            let of = |part: &str| format!("{}_{part}_{}", self.floor.name(), self.name);
            let per_s = median(self.floors.iter().map(|bare| bare.per_s));
            report.floor.insert(of("per_s"), rounded(per_s));
            let timed: Vec<f64> = self.floors.iter().filter_map(|bare| bare.p99_ms).collect();
            if !timed.is_empty() {
                report.floor.insert(of("ms_p99"), rounded(median(timed)));
            }
        }
        let name = &self.name;
        let mut put = |group: &str, key: String, value: f64| {
            let group = report.figures.entry(group.to_owned()).or_insert_with(|| json!({}));
            group[key] = rounded(value);
        };
        let late = |part: fn(&Delivery) -> f64| median(self.watches.iter().map(part));
        put("watch_ms_p99", name.clone(), late(|watch| watch.acknowledged_ms));
        put("watch_since_sent_ms_p99", name.clone(), late(|watch| watch.sent_ms));
        for (index, committers) in COMMITTERS.iter().enumerate() {
            let of = |part: fn(&Seen) -> f64| median(self.rounds.iter().map(|r| part(&r[index])));
            let key = format!("{name}_{committers}");
            put("commits_per_s", key.clone(), of(|seen| seen.per_s));
            put("commit_ms_p50", key.clone(), of(|seen| seen.p50_ms));
            put("commit_ms_p99", key.clone(), of(|seen| seen.p99_ms));
            if !self.floors.is_empty() {
                // Round by round: the disk's mood of the moment is in both.
                let rounds = self.rounds.iter().zip(&self.floors);
                let ratio = median(rounds.map(|(seen, floor)| seen[index].per_s / floor.per_s));
                report.ratios.insert(key, rounded(ratio));
            }
        }
    }

    /// Takes out of the store what was put into it, which may be somebody's own.
    async fn clean_up(&self) -> anyhow::Result<()> {
        // Commits are taken in order: when this one is answered, none of a committer that was left
        // alone is still on its way.
        let last = Commit::new(clock::write_id()).put(format!("{}last", self.prefix), "");
        drop(self.store.commit(last).await?);
        let (items, _) = sterna_store::scan_all(&*self.store, &self.prefix).await?;
        for items in items.chunks(self.store.limits().operations_max) {
            let commit = items.iter().fold(Commit::new(clock::write_id()), |commit, item| {
                commit.delete(item.key.clone())
            });
            drop(self.store.commit(commit).await?);
        }
        self.floor.clean_up().await
    }
}

/// Appends the bytes of one commit and syncs, again and again.
///
/// The file lies in the store's own directory, and so on its disk, whatever is mounted where.
fn append(directory: &Path, span: Duration) -> std::io::Result<Bare> {
    let payload = vec![b'x'; key("/bench/", 0, 0).len() + VALUE_BYTES];
    let path = directory.join(format!("bench-floor-{}", std::process::id()));
    let mut file = fs::File::create_new(&path)?;
    // Without its name it goes by itself, whatever happens.
    fs::remove_file(&path)?;
    let (start, mut times) = (clock::instant(), Vec::new());
    let mut begun = Duration::ZERO;
    while begun < span {
        file.write_all(&payload)?;
        file.sync_data()?;
        let ended = start.elapsed();
        times.push(ms(ended - begun));
        begun = ended;
        if times.len().is_multiple_of(4_000) {
            // A fast disk must not be filled by the mere measuring.
            file.set_len(0)?;
            file.rewind()?;
        }
    }
    let per_s = times.len() as f64 / begun.as_secs_f64();
    Ok(Bare { per_s, p99_ms: Some(quantile(&mut times, 0.99)) })
}

/// One committer: goes round over its keys and gives each commit that it made.
async fn commit_loop(
    store: Arc<dyn Store>,
    mut keys: Vec<(Key, Expect)>,
    start: Instant,
    span: Duration,
) -> anyhow::Result<Vec<Made>> {
    let mut commits = Vec::new();
    for index in 0.. {
        let sent = start.elapsed();
        if sent >= span {
            break;
        }
        let (key, expect) = &mut keys[index % KEYS_EACH];
        let commit = Commit::new(clock::write_id())
            .expect(key.clone(), expect.clone())
            .put(key.clone(), vec![b'x'; VALUE_BYTES]);
        match store.commit(commit).await? {
            Outcome::Applied(revision) => {
                *expect = Expect::At(revision);
                commits.push(Made { revision, sent, acknowledged: start.elapsed() });
            }
            Outcome::Conflict(keys) => bail!("{} is written by somebody else too", keys[0]),
        }
    }
    Ok(commits)
}

fn ms(span: Duration) -> f64 {
    span.as_secs_f64() * 1e3
}

pub(super) fn key(prefix: &str, committer: usize, index: usize) -> Key {
    format!("{prefix}{committer:04}/{index:04}").into()
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
        let sent = number("watch_since_sent_ms_p99", name);
        text += &format!(
            "{name}: a watch delivers 99 % of commits within {p99} ms of their answer, {sent} ms of \
             sending\n"
        );
    }
    for (name, per_s) in json["floor"].as_object().into_iter().flatten() {
        text += &format!("floor: {name} {per_s}\n");
    }
    text.trim_end().to_owned()
}
