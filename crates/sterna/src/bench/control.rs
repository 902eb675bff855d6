//! `sterna bench control`: a whole server under tasks, with workers that only say that they run them.
//!
//! ```text
//!   clients ──REST──▶ server (its own process, embedded store) ◀══links══ workers without containers
//!   └──────────────── all in this process: a task's way is timed by one clock ────────────────┘
//! ```

use std::{
    collections::HashMap,
    fs,
    net::SocketAddr,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};

use anyhow::Context;
use http::Method;
use serde_json::json;
use sterna_api::{
    client::Client,
    rest::{CreateTask, Status, TaskView},
};
use sterna_model::{
    Amounts, Bytes, Countables, DirectoryId, Incarnation, Lock, MachineId, Millicores, Name,
    WallTime, WorkKey,
};
use sterna_worker::link::{
    Description,
    rehearsal::{Audience, rehearse},
};
use tokio::{
    task::JoinSet,
    time::{sleep, sleep_until},
};

use super::{
    check::{Bound, Check, judge},
    ended::{Signals, ended},
    report::{Report, quantile, rounded},
};
use crate::{child, clock, out, remote};

/// What must hold.
const LIMITS: [Bound; 2] = [("tasks_per_s", 4_000.0), ("submit_to_started_ms_p99", 25.0)];
/// What a bare write writes: about a commit of one task.
const BARE_BYTES: usize = 1_024;
/// Into a file that is as large before as after, like a segment of the store.
const BARE_FILE_BYTES: usize = 256 << 10;
/// Between two of them: seldom enough to be no burden.
const BARE_EVERY: Duration = Duration::from_millis(20);

/// Measure how many tasks a server takes, starts and ends in a second
///
/// A server as a process of its own on an embedded store, every commit durable; workers on real links
/// over loopback that say of every run that it began and ended well. First as many tasks as the
/// clients can make, until the end of each is recorded; then tasks at an even pace, and how long each
/// takes until its worker has it, and until its maker is answered. Beside it, how many requests the same
/// clients get answered that touch nothing, and, while tasks come at an even pace, how long bare synced
/// writes take on the same disk, and how late a thread that sleeps is woken: a machine that is busy
/// with something else is known by that.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// How many tasks are made as fast as they can be
    #[arg(long, default_value_t = 40_000, value_parser = clap::value_parser!(u32).range(100..=10_000_000))]
    tasks: u32,
    /// How many clients make them, each with a connection of its own
    #[arg(long, default_value_t = 128, value_parser = clap::value_parser!(u32).range(1..=4_096))]
    clients: u32,
    /// How many workers
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    workers: u32,
    /// How many tasks a second are made at an even pace
    #[arg(long, default_value_t = 500, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    rate: u32,
    /// For how many seconds
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=3_600))]
    seconds: u32,
    /// Where the server keeps its files; removed at the end
    #[arg(long)]
    data: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    check: Check,
}

pub(crate) fn run(args: Args) -> anyhow::Result<()> {
    let bounds = args.check.bounds(&LIMITS)?;
    let name = format!("sterna-bench-control-{}", std::process::id());
    let path = args.data.clone().unwrap_or_else(|| std::env::temp_dir().join(name));
    anyhow::ensure!(!path.exists(), "{} is there already: name another place", path.display());
    remote::directory(&path)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let measured = runtime.context("cannot wait for anything")?.block_on(measure(&args, &path));
    let removed = fs::remove_dir_all(&path);
    let report = measured?;
    removed.with_context(|| format!("cannot remove {}", path.display()))?;
    let text = if args.json { report.json("control").to_string() } else { report.table() };
    out::answer(&text)?;
    judge(&report, &bounds)
}

/// What the workers have seen so far.
#[derive(Debug, Default)]
struct Seen {
    /// When each task was begun, by its name.
    begun: Mutex<HashMap<String, Instant>>,
    recorded: AtomicUsize,
}

struct Watcher(Arc<Seen>);

impl Audience for Watcher {
    fn begins(&mut self, key: &WorkKey) {
        let key = key.to_string();
        let name = key.rsplit('/').next().unwrap_or_default().to_owned();
        let mut begun = self.0.begun.lock().unwrap_or_else(PoisonError::into_inner);
        begun.insert(name, clock::instant());
    }

    fn is_recorded(&mut self) {
        self.0.recorded.fetch_add(1, Ordering::Relaxed);
    }

    fn says(&mut self, _: &str) {}
}

/// A server and its workers; they end with it.
struct Ground {
    address: SocketAddr,
    token: String,
    seen: Arc<Seen>,
    /// They work for as long as they are here.
    _workers: JoinSet<()>,
    /// It ends when its standard input is closed.
    server: tokio::process::Child,
}

async fn measure(args: &Args, data: &Path) -> anyhow::Result<Report> {
    let mut signals = Signals::watch()?;
    let progress = out::Progress::new();
    progress.say("starts a server");
    let mut ground = Ground::new(data, args.workers).await?;
    let measured = tokio::select! {
        measured = ground.measure(args, data, &progress) => measured,
        () = signals.next() => Err(ended()),
    };
    // Nothing of it is needed any more, however it ends.
    drop(ground.server.kill().await);
    measured
}

impl Ground {
    async fn measure(
        &self,
        args: &Args,
        data: &Path,
        progress: &out::Progress,
    ) -> anyhow::Result<Report> {
        progress.say("asks for nothing");
        let requests = self.requests(args.clients, args.tasks).await?;
        progress.say(&format!("makes {} tasks", args.tasks));
        let before = self.decided().await?;
        let took = self.storm(args.clients, args.tasks).await?;
        let decided = self.decided().await? - before;
        progress.say(&format!("makes {} tasks a second for {} s", args.rate, args.seconds));
        let bare = Bare::begin(data)?;
        let ways = self.pace(args.rate, args.seconds).await;
        let (mut bare, mut wakes) = bare.end()?;
        let ways = ways?;
        let tasks = f64::from(args.tasks);
        let mut report = Report::default();
        let mut figure = |name: &str, value: f64| {
            report.figures.insert(name.to_owned(), rounded(value));
        };
        figure("tasks_per_s", tasks / took.as_secs_f64());
        figure("leader_us_per_task", decided / tasks);
        let of = |stage: fn(&Way) -> f64| ways.iter().map(stage).collect::<Vec<_>>();
        let mut started = of(|way| way.started_ms);
        figure("submit_to_started_ms_p50", quantile(&mut started, 0.5));
        let started_p99 = quantile(&mut started, 0.99);
        figure("submit_to_started_ms_p99", started_p99);
        figure("submit_to_started_ms_max", quantile(&mut started, 1.0));
        figure("submit_to_answered_ms_p99", quantile(&mut of(|way| way.answered_ms), 0.99));
        figure("submit_late_ms_p99", quantile(&mut of(|way| way.late_ms), 0.99));
        let bare_p99 = quantile(&mut bare, 0.99);
        let ratio = tasks / took.as_secs_f64() / requests;
        for (name, value) in [
            ("requests_per_s", requests),
            ("bare_sync_ms_p99", bare_p99),
            ("bare_sync_ms_max", quantile(&mut bare, 1.0)),
            ("bare_wake_ms_p99", quantile(&mut wakes, 0.99)),
        ] {
            report.floor.insert(name.to_owned(), rounded(value));
        }
        for (name, value) in
            [("tasks_over_requests", ratio), ("started_p99_over_bare_sync", started_p99 / bare_p99)]
        {
            report.ratios.insert(name.to_owned(), rounded(value));
        }
        Ok(report)
    }

    async fn new(data: &Path, workers: u32) -> anyhow::Result<Self> {
        let began = child::server(data, SocketAddr::from(([127, 0, 0, 1], 0)), &[]).await?;
        let (server, address) = match began {
            child::Began::There(server, address) => (*server, address),
            child::Began::Killed(how) => anyhow::bail!("the server died ({how})"),
        };
        let token = fs::read_to_string(data.join(sterna_server::TOKEN_FILE));
        let token = token.context("the server has no token")?.trim().to_owned();
        let seen = Arc::new(Seen::default());
        let mut joined = JoinSet::new();
        for number in 1..=workers {
            let name = Name::new(&format!("bench-{number}"))?;
            let server = address.to_string().parse()?;
            let lock = Lock {
                directory: DirectoryId::from_parts(WallTime::EPOCH, tail(number)),
                machine: MachineId::from_bytes([7; 16])?,
            };
            let life = Incarnation { lock, life: 1 };
            let mut watcher = Watcher(Arc::clone(&seen));
            let description = Description { amounts: plenty(), ..Description::default() };
            joined.spawn(async move {
                rehearse(server, name, life, description, &mut watcher).await;
            });
        }
        let ground = Self { address, token, seen, _workers: joined, server };
        ground.wait_for(workers as usize).await?;
        Ok(ground)
    }

    fn client(&self) -> Client {
        Client::new(self.address.to_string(), self.token.clone())
    }

    async fn wait_for(&self, workers: usize) -> anyhow::Result<()> {
        let mut client = self.client();
        let until = clock::instant() + Duration::from_secs(30);
        while clock::instant() < until {
            let status: Status = client.get("/v1/status").await?;
            if status.takes_work && status.workers.get("healthy") == Some(&workers) {
                return Ok(());
            }
            sleep(Duration::from_millis(20)).await;
        }
        anyhow::bail!("the workers were not all healthy within 30 s");
    }

    /// How long the leader has taken to decide so far, in microseconds.
    async fn decided(&self) -> anyhow::Result<f64> {
        let mut lines = self.client().lines("/metrics").await?;
        while let Some(line) = lines.next().await? {
            let line = String::from_utf8_lossy(&line);
            if let Some(value) = line.strip_prefix("sterna_decide_microseconds_total ") {
                return value.trim().parse().context("the metrics cannot be read");
            }
        }
        anyhow::bail!("the server does not tell how long its leader decides");
    }

    /// Requests per second that touch nothing.
    async fn requests(&self, clients: u32, count: u32) -> anyhow::Result<f64> {
        let began = clock::instant();
        self.crowd(clients, count, |mut client, _| async move {
            drop(client.lines("/healthz").await?.next().await?);
            Ok(client)
        })
        .await?;
        Ok(f64::from(count) / began.elapsed().as_secs_f64())
    }

    /// Makes tasks as fast as it can, and waits until the end of each is recorded.
    async fn storm(&self, clients: u32, count: u32) -> anyhow::Result<Duration> {
        let began = clock::instant();
        self.crowd(clients, count, |mut client, number| async move {
            create(&mut client, format!("storm-{number}")).await?;
            Ok(client)
        })
        .await?;
        self.until_recorded(count as usize).await?;
        Ok(began.elapsed())
    }

    /// So many clients, which share so many calls.
    async fn crowd<F: Future<Output = anyhow::Result<Client>> + Send + 'static>(
        &self,
        clients: u32,
        count: u32,
        call: impl Fn(Client, u32) -> F + Copy + Send + 'static,
    ) -> anyhow::Result<()> {
        let mut crowd = JoinSet::new();
        for first in 0..clients {
            let mut client = self.client();
            crowd.spawn(async move {
                for number in (first..count).step_by(clients as usize) {
                    client = call(client, number).await?;
                }
                anyhow::Ok(())
            });
        }
        while let Some(done) = crowd.join_next().await {
            done??;
        }
        Ok(())
    }

    async fn until_recorded(&self, count: usize) -> anyhow::Result<()> {
        let mut before = (0, clock::instant());
        loop {
            let recorded = self.seen.recorded.load(Ordering::Relaxed);
            if recorded >= count {
                return Ok(());
            }
            if recorded != before.0 {
                before = (recorded, clock::instant());
            }
            let is_stuck = before.1.elapsed() > Duration::from_secs(30);
            anyhow::ensure!(!is_stuck, "of {count} tasks only {recorded} came to their end");
            sleep(Duration::from_millis(1)).await;
        }
    }

    /// Makes tasks at an even pace; gives what became of each.
    async fn pace(&self, rate: u32, seconds: u32) -> anyhow::Result<Vec<Way>> {
        let count = rate * seconds;
        let done = self.seen.recorded.load(Ordering::Relaxed);
        let began = clock::instant();
        let mut idle = Vec::new();
        let mut calls = JoinSet::new();
        let mut answered = Vec::new();
        for number in 0..count {
            let due = began + Duration::from_secs(1) * number / rate;
            sleep_until(due.into()).await;
            while let Some(done) = calls.try_join_next() {
                let (client, call) = done??;
                idle.push(client);
                answered.push(call);
            }
            let mut client = idle.pop().unwrap_or_else(|| self.client());
            let name = format!("pace-{number}");
            let sent = clock::instant();
            calls.spawn(async move {
                create(&mut client, name.clone()).await?;
                anyhow::Ok((client, Call { name, due, sent, answered: clock::instant() }))
            });
        }
        while let Some(done) = calls.join_next().await {
            answered.push(done??.1);
        }
        self.until_recorded(done + count as usize).await?;
        let begun = self.seen.begun.lock().unwrap_or_else(PoisonError::into_inner);
        let way = |call: Call| {
            let Call { name, due, sent, answered } = call;
            let begun = begun.get(&name).with_context(|| format!("{name} never began"))?;
            let ms = |from: Instant, to: Instant| to.duration_since(from).as_secs_f64() * 1_000.0;
            let (late_ms, answered_ms) = (ms(due, sent), ms(sent, answered));
            Ok(Way { late_ms, answered_ms, started_ms: ms(sent, *begun) })
        };
        answered.into_iter().map(way).collect()
    }
}

/// A task that was asked for, and when.
struct Call {
    name: String,
    due: Instant,
    sent: Instant,
    answered: Instant,
}

/// How long a task was on its way.
struct Way {
    /// How much later than due it was asked for: this process had no turn.
    late_ms: f64,
    /// Until whoever asked for it was answered.
    answered_ms: f64,
    /// Until its worker had it.
    started_ms: f64,
}

/// Bare synced writes to a file beside the store, at an even pace: what of a wait is the disk's, and
/// what the processors'.
struct Bare {
    is_over: Arc<AtomicBool>,
    thread: JoinHandle<anyhow::Result<Took>>,
}

/// How long each write took, and how late its thread was woken after it, in milliseconds.
type Took = (Vec<f64>, Vec<f64>);

impl Bare {
    fn begin(data: &Path) -> anyhow::Result<Self> {
        let file = fs::File::create(data.join("bare")).context("no file beside the store")?;
        file.write_all_at(&vec![b'x'; BARE_FILE_BYTES], 0).and_then(|()| file.sync_all())?;
        let is_over = Arc::new(AtomicBool::new(false));
        let ends = Arc::clone(&is_over);
        let thread = std::thread::spawn(move || {
            let (mut syncs, mut wakes) = Took::default();
            let ms = |span: Duration| span.as_secs_f64() * 1_000.0;
            for offset in (0..BARE_FILE_BYTES as u64).step_by(BARE_BYTES).cycle() {
                if ends.load(Ordering::Relaxed) {
                    break;
                }
                let began = clock::instant();
                file.write_all_at(&[b'y'; BARE_BYTES], offset).and_then(|()| file.sync_data())?;
                syncs.push(ms(began.elapsed()));
                let sleeps = clock::instant();
                std::thread::sleep(BARE_EVERY);
                wakes.push(ms(sleeps.elapsed().saturating_sub(BARE_EVERY)));
            }
            Ok((syncs, wakes))
        });
        Ok(Self { is_over, thread })
    }

    fn end(self) -> anyhow::Result<Took> {
        self.is_over.store(true, Ordering::Relaxed);
        self.thread.join().map_err(|_| anyhow::anyhow!("the bare writes came to no end"))?
    }
}

async fn create(client: &mut Client, name: String) -> anyhow::Result<()> {
    let spec = json!({ "run": ["true"], "memory": "1MiB", "cpu": 0.01 });
    let asked = CreateTask { name, spec, incarnation: None };
    let path = "/v1/namespaces/default/tasks";
    client.call::<TaskView>(Method::POST, path, Some(&asked)).await?;
    Ok(())
}

/// What tells one worker from the others.
fn tail(number: u32) -> [u8; 10] {
    let mut bytes = [0; 10];
    bytes[6..].copy_from_slice(&number.to_be_bytes());
    bytes
}

/// More than any bench takes.
fn plenty() -> Amounts {
    Amounts {
        cpu: Millicores::new(1_000_000),
        memory: Bytes::new(1 << 40),
        disk: Bytes::new(1 << 50),
        containers: 1_000_000,
        countables: Countables::default(),
    }
}
