//! `sterna bench dev`: what people feel first.

use std::{
    fs,
    net::SocketAddr,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::Context;
use http::Method;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use sterna_api::{
    client::Client,
    rest::{CreateTask, Status, TaskView},
};

use super::{
    check::{Bound, Check, judge},
    ended::Ended,
    report::{Report, median, rounded},
};
use crate::{clock, out, remote};

/// What must hold.
const LIMITS: [Bound; 5] = [
    ("ready_ms", 500.0),
    ("run_ms", 30.0),
    ("idle_mib", 60.0),
    ("idle_after_tasks_mib", 60.0),
    ("idle_cpu_percent", 1.0),
];
/// What it has just done is not idleness.
const SETTLES: Duration = Duration::from_secs(2);
/// So many tasks are under way at most.
const AT_A_TIME: u32 = 64;
/// Tasks that are not over by then never will be.
const TASKS_WITHIN: Duration = Duration::from_secs(120);

/// Measure how soon `sterna dev` is there, how long `sterna run` takes, and what it costs to be idle
///
/// Starts a cluster of its own and waits until a worker takes work; then runs /bin/true in it, again and
/// again, beside the same as a bare process; then lets it be, and looks at the memory of all its
/// processes together (a page that they share counts once) and at their processor time; then makes many
/// tasks, and looks at the memory again when they are over.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// How often a cluster is started; the middle one counts
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: u32,
    /// How often a command is run
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    runs: u32,
    /// For how many seconds it is idle
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=3_600))]
    idle: u32,
    /// How many tasks there are before its memory is looked at again
    #[arg(long, default_value_t = 2_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    tasks: u32,
    /// Where the cluster keeps its files; removed at the end
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
    let name = format!("sterna-bench-dev-{}", std::process::id());
    let path = args.data.clone().unwrap_or_else(|| std::env::temp_dir().join(name));
    // What it starts works in places of its own.
    let path = std::path::absolute(path).context("where files are to be kept is no path")?;
    anyhow::ensure!(!path.exists(), "{} is there already: name another place", path.display());
    remote::directory(&path)?;
    let measured = measure(&args, &path);
    let removed = fs::remove_dir_all(&path);
    let report = measured?;
    removed.with_context(|| format!("cannot remove {}", path.display()))?;
    let text = if args.json { report.json("dev").to_string() } else { report.table() };
    out::answer(&text)?;
    judge(&report, &bounds)
}

fn measure(args: &Args, path: &Path) -> anyhow::Result<Report> {
    let ended = Ended::watch()?;
    let progress = out::Progress::new();
    let mut ready = Vec::new();
    for round in 1..args.rounds {
        progress.say(&format!("start {round} of {}", args.rounds));
        let place = path.join(format!("start-{round}"));
        ready.push(Dev::start(&place, &ended)?.0);
    }
    progress.say(&format!("start {} of {}", args.rounds, args.rounds));
    let (took, dev) = Dev::start(&path.join("runs"), &ended)?;
    ready.push(took);
    let (mut runs, mut bare) = (Vec::new(), Vec::new());
    // What is run first finds nothing warm.
    for run in 0..=args.runs {
        ended.check()?;
        progress.say(&format!("run {run} of {}", args.runs));
        let floor = timed(Command::new("/bin/true"))?;
        let mut command = dev.command();
        command.args(["run", "--", "/bin/true"]);
        let took = timed(command)?;
        if run > 0 {
            bare.push(floor);
            runs.push(took);
        }
    }
    progress.say("lets it be");
    ended.pause(SETTLES)?;
    let before = dev.processor_time()?;
    ended.pause(Duration::from_secs(u64::from(args.idle)))?;
    let busy = dev.processor_time()?.saturating_sub(before).as_secs_f64();
    let fresh = dev.memory()?;
    progress.say(&format!("makes {} tasks", args.tasks));
    dev.tasks(args.tasks, &ended)?;
    ended.pause(SETTLES)?;
    let mut report = Report::default();
    let mut figure = |name: &str, value: f64| {
        report.figures.insert(name.to_owned(), rounded(value));
    };
    let (run_ms, bare_ms) = (median(runs), median(bare));
    figure("ready_ms", median(ready));
    figure("run_ms", run_ms);
    figure("idle_mib", fresh);
    figure("idle_after_tasks_mib", dev.memory()?);
    figure("idle_cpu_percent", busy / f64::from(args.idle) * 100.0);
    report.floor.insert("bare_ms".to_owned(), rounded(bare_ms));
    report.ratios.insert("run_over_bare".to_owned(), rounded(run_ms / bare_ms));
    Ok(report)
}

async fn completed(client: &mut Client) -> anyhow::Result<usize> {
    let status = client.get::<Status>("/v1/status").await?;
    Ok(status.tasks.get("completed").copied().unwrap_or(0))
}

fn timed(mut command: Command) -> anyhow::Result<f64> {
    let began = clock::instant();
    let output = command.output().with_context(|| format!("cannot run {command:?}"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    anyhow::ensure!(output.status.success(), "{command:?} failed: {said}");
    Ok(millis(began))
}

/// Whatever cluster this program was pointed to, what it measures is its own.
fn alone(mut command: Command) -> Command {
    for name in remote::NAMED_BY {
        command.env_remove(name);
    }
    command
}

fn millis(since: Instant) -> f64 {
    since.elapsed().as_secs_f64() * 1_000.0
}

/// A cluster of `sterna dev`; it ends with this value.
struct Dev {
    place: PathBuf,
    dev: Child,
}

impl Dev {
    /// Starts one; gives after how many milliseconds it takes work.
    fn start(place: &Path, ended: &Ended) -> anyhow::Result<(f64, Self)> {
        fs::create_dir_all(place)?;
        let program = std::env::current_exe().context("this program cannot be found")?;
        let began = clock::instant();
        let mut command = alone(Command::new(program));
        command.args(["dev", "--listen", "127.0.0.1:0"]).current_dir(place);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let dev = command.spawn().context("cannot start `sterna dev`")?;
        let dev = Self { place: place.to_owned(), dev };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        while !runtime.block_on(dev.takes_work()) {
            let is_late = began.elapsed() > Duration::from_secs(30);
            anyhow::ensure!(!is_late, "`sterna dev` was not ready within 30 s");
            ended.pause(Duration::from_millis(1))?;
        }
        Ok((millis(began), dev))
    }

    fn client(&self) -> Option<Client> {
        let read = |file: &str| fs::read_to_string(self.place.join(remote::DEV).join(file)).ok();
        let (address, token) = (read(remote::ADDRESS)?, read(sterna_server::TOKEN_FILE)?);
        let address = address.trim().parse::<SocketAddr>().ok()?;
        Some(Client::new(address.to_string(), token.trim()))
    }

    async fn takes_work(&self) -> bool {
        let Some(mut client) = self.client() else { return false };
        client.get::<Status>("/v1/status").await.is_ok_and(|status| status.takes_work)
    }

    /// Makes so many tasks, a few at a time, and waits until all of them are over.
    fn tasks(&self, count: u32, ended: &Ended) -> anyhow::Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let mut client = self.client().context("`sterna dev` is gone")?;
        let until = clock::instant() + TASKS_WITHIN;
        let path = "/v1/namespaces/default/tasks";
        runtime.block_on(async {
            let before = completed(&mut client).await?;
            for number in 0..count {
                ended.check()?;
                let spec = json!({ "run": ["/bin/true"] });
                let asked = CreateTask { name: format!("idle-{number}"), spec, incarnation: None };
                client.call::<TaskView>(Method::POST, path, Some(&asked)).await?;
                let is_pause = number % AT_A_TIME == AT_A_TIME - 1 || number + 1 == count;
                while is_pause && completed(&mut client).await? < before + number as usize + 1 {
                    anyhow::ensure!(
                        clock::instant() < until,
                        "the tasks did not come to their end"
                    );
                    ended.check()?;
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
            }
            Ok(())
        })
    }

    fn command(&self) -> Command {
        let mut command = alone(Command::new("/proc/self/exe"));
        command.current_dir(&self.place).stdin(Stdio::null());
        // Whatever server a file of this user names.
        let data = self.place.join(remote::DEV);
        if let Ok(address) = fs::read_to_string(data.join(remote::ADDRESS)) {
            command.env("STERNA_SERVER", address.trim());
            command.env("STERNA_TOKEN_FILE", data.join(sterna_server::TOKEN_FILE));
        }
        command
    }

    /// Everything that it has started, and itself.
    fn processes(&self) -> Vec<u32> {
        let mut all = vec![self.dev.id()];
        let mut at = 0;
        while let Some(pid) = all.get(at).copied() {
            at += 1;
            let Ok(threads) = fs::read_dir(format!("/proc/{pid}/task")) else { continue };
            for thread in threads.flatten() {
                let children = fs::read_to_string(thread.path().join("children"));
                let children = children.unwrap_or_default();
                all.extend(children.split_whitespace().filter_map(|pid| pid.parse::<u32>().ok()));
            }
        }
        all
    }

    /// What all of them hold, in MiB; what they share counts once.
    fn memory(&self) -> anyhow::Result<f64> {
        let mut all = 0;
        for pid in self.processes() {
            let text = fs::read_to_string(format!("/proc/{pid}/smaps_rollup"))?;
            let line = text.lines().find_map(|line| line.strip_prefix("Pss:"));
            let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
            all += kib.context("the system does not tell the memory of a process")?;
        }
        Ok(all as f64 / 1_024.0)
    }

    fn processor_time(&self) -> anyhow::Result<Duration> {
        let mut all = Duration::ZERO;
        for pid in self.processes() {
            for thread in fs::read_dir(format!("/proc/{pid}/task"))? {
                let text = fs::read_to_string(thread?.path().join("schedstat"))?;
                let nanos = text.split_whitespace().next().and_then(|nanos| nanos.parse().ok());
                let nanos = nanos.context("the system does not tell processor time")?;
                all += Duration::from_nanos(nanos);
            }
        }
        Ok(all)
    }
}

impl Drop for Dev {
    fn drop(&mut self) {
        // It ends everything that it has started, and then itself.
        let dev = i32::try_from(self.dev.id()).ok().and_then(Pid::from_raw);
        let told = dev.map(|dev| kill_process(dev, Signal::TERM));
        if told != Some(Ok(())) {
            drop(self.dev.kill());
        }
        drop(self.dev.wait());
    }
}
