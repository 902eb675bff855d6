//! `sterna dev`: a whole cluster in one command.
//!
//! ```text
//!   dev ──stdin──▶ server      each is a process of its own; whatever becomes of dev, its end closes
//!    └───stdin──▶ worker-1…   their standard input, and they end as TERM ends them
//! ```
//!
//! Workers share one pipe, which their guardians have, too: it is not closed when a worker dies alone, and
//! what that one keeps stays. When it is closed nothing is kept.

mod ending;
pub(crate) mod holding;

use std::{
    collections::BTreeMap,
    fs,
    io::{self, PipeReader, PipeWriter},
    net::SocketAddr,
    path::{Path, PathBuf},
    process::{ExitStatus, Stdio},
    time::Duration,
};

use anyhow::Context;
use serde_json::json;
use sterna_api::{
    client::Client,
    rest::{Applied, Apply, Status, WorkerView},
};
use tokio::{
    process::Child,
    time::{Instant, sleep, timeout},
};

use self::ending::{Ending, Signals};
use crate::{
    apply,
    child::{self, Began},
    out,
    patience::Patience,
    remote,
    server::{Keep, Most, address},
};

/// It says that it waits from then on.
const LATE: Duration = Duration::from_secs(1);
/// How long the server may take to say how a worker is.
const ASK_WITHIN: Duration = Duration::from_secs(1);
/// So often a server is started that somebody kills before it can be asked.
const STARTS: u32 = 3;
/// How long everything may take to be there.
const READY_WITHIN: Duration = Duration::from_secs(30);

/// Run a whole cluster on this machine, a server and workers, until Ctrl-C
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Address of the API; port 0 picks a free port
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:7411", value_parser = address)]
    listen: SocketAddr,
    /// Data directory
    #[arg(long, value_name = "DIR", default_value = remote::DEV)]
    data: PathBuf,
    /// How many workers; each offers all cores and all memory of this machine
    #[arg(long, value_name = "COUNT", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=64))]
    workers: u32,
    #[command(flatten)]
    keep: Keep,
    #[command(flatten)]
    most: Most,
    /// Print one JSON object per line for each event
    #[arg(long)]
    json: bool,
    /// Specs to apply once the cluster is ready
    #[arg(value_name = "SPEC")]
    specs: Vec<PathBuf>,
}

pub(crate) fn run(args: Args) -> anyhow::Result<()> {
    let is_told = args.json;
    let ran = begin(args);
    if is_told {
        if let Err(error) = &ran {
            let why: Vec<_> = error.chain().map(ToString::to_string).collect();
            out::event(&json!({ "event": "failed", "error": out::plain(why.join(": ")) }));
        }
        out::event(&json!({ "event": "stopped" }));
    }
    ran
}

fn begin(args: Args) -> anyhow::Result<()> {
    args.most.check_workers(args.workers)?;
    let specs = if args.specs.is_empty() { None } else { Some(apply::files(&args.specs)?.0) };
    remote::wait(Dev::run(args, specs))
}

/// Which child.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Server,
    Worker(u32),
}

impl std::fmt::Display for Role {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Server => f.write_str("the server"),
            Self::Worker(number) => write!(f, "worker-{number}"),
        }
    }
}

struct Dev {
    data: PathBuf,
    /// Where the server listens, or is to listen.
    address: SocketAddr,
    /// Whether a server of our own has ever been there: what it wrote is ours to remove.
    had_server: bool,
    keep: Keep,
    most: Most,
    /// How many workers there are to be.
    workers: u32,
    json: bool,
    children: Vec<(Role, Child)>,
    /// What workers read, and what they end by when it is closed.
    leash: (PipeReader, Option<PipeWriter>),
    /// Workers that were started again, since when, and are not heard yet.
    returning: Vec<(u32, Instant)>,
    /// How long the log of each worker was when it was first started.
    logs: BTreeMap<u32, usize>,
    /// Which life of each worker was there last.
    lives: BTreeMap<u32, u64>,
}

impl Dev {
    async fn run(args: Args, specs: Option<Apply>) -> anyhow::Result<()> {
        let began = Instant::now();
        let mut signals = Signals::watch().context("cannot take signals")?;
        remote::directory(&args.data)?;
        let data = fs::canonicalize(&args.data).context("the data directory cannot be found")?;
        let held = holding::take(&data)?;
        // It may be that of one that was killed, and somebody else may have that address by now.
        drop(fs::remove_file(data.join(remote::ADDRESS)));
        let Args { listen: address, keep, most, workers, json, .. } = args;
        let lost = holding::lost(data.clone(), held);
        let (reader, writer) = io::pipe().context("there is no pipe for the workers")?;
        let mut dev = Self {
            data,
            address,
            had_server: false,
            keep,
            most,
            workers,
            json,
            children: Vec::new(),
            leash: (reader, Some(writer)),
            returning: Vec::new(),
            logs: BTreeMap::new(),
            lives: BTreeMap::new(),
        };
        let work = async {
            dev.start(specs, began).await?;
            dev.watch().await
        };
        let worked = tokio::select! {
            worked = work => worked,
            () = signals.next() => Ok(()),
            lost = lost => {
                // What is there now is not its own.
                dev.had_server = false;
                dev.workers = 0;
                Err(lost)
            }
        };
        dev.end(&mut signals).await;
        worked
    }

    /// Tells whoever wants to know it in JSON.
    fn tell(&self, happened: &serde_json::Value) {
        if self.json {
            out::event(happened);
        }
    }

    async fn start(&mut self, specs: Option<Apply>, began: Instant) -> anyhow::Result<()> {
        self.start_server().await?;
        for number in 1..=self.workers {
            let log = self.data.join(format!("worker-{number}.log"));
            self.logs.insert(number, child::length(&log));
            let worker = self.start_worker(number)?;
            self.children.push((Role::Worker(number), worker));
        }
        let mut client = self.client();
        let status = self.ready(&mut client).await?;
        // Before anybody is told that they are there, and may kill one.
        for number in 1..=self.workers {
            if let Some(life) = self.life(number).await {
                self.lives.insert(number, life);
            }
        }
        self.welcome(began.elapsed());
        for warning in status.warnings.iter().chain(&status.starts_nothing) {
            out::warning(warning);
        }
        if let Some(specs) = specs {
            let applied = self.apply(&mut client, &specs).await?;
            self.tell(&json!({ "event": "applied", "applied": applied }));
            if !self.json {
                out::note(&apply::told(&applied));
                apply::warn(&applied.warnings);
            }
        }
        Ok(())
    }

    /// Applies the specs, also if a child dies meanwhile: to apply the same again is harmless.
    async fn apply(&mut self, client: &mut Client, specs: &Apply) -> anyhow::Result<Applied> {
        let mut patience = Patience::default();
        loop {
            let path = "/v1/namespaces/default/apply";
            match client.call(http::Method::POST, path, Some(specs)).await {
                Ok(applied) => return Ok(applied),
                Err(error) => patience.bear(error).await?,
            }
            self.revive().await?;
        }
    }

    /// Starts a child again that died before all was ready.
    async fn revive(&mut self) -> anyhow::Result<()> {
        let Some((role, how)) = self.dead() else { return Ok(()) };
        self.check_worker(role, how)?;
        self.tell_death(role, &format!("died ({how})"));
        self.start_again(role).await
    }

    fn client(&self) -> Client {
        let token = fs::read_to_string(self.data.join(sterna_server::TOKEN_FILE));
        Client::new(self.address.to_string(), token.unwrap_or_default().trim())
    }

    /// Waits until all workers take work.
    async fn ready(&mut self, client: &mut Client) -> anyhow::Result<Status> {
        let until = Instant::now() + READY_WITHIN;
        let progress = out::Progress::new();
        loop {
            // Usually it is there before anybody could read this.
            if until - Instant::now() < READY_WITHIN - LATE {
                progress.spin("waits for the workers");
            }
            if let Ok(status) = client.get::<Status>("/v1/status").await {
                let healthy = status.workers.get("healthy").copied().unwrap_or(0);
                // After a restore nothing may be started for long: then that is what there is to say.
                let is_ready = status.takes_work || status.starts_nothing.is_some();
                if is_ready && healthy >= self.workers as usize {
                    return Ok(status);
                }
            }
            self.revive().await?;
            if Instant::now() > until {
                let log = self.data.join("worker-1.log");
                anyhow::bail!("no worker came within 30 s; see {}", log.display());
            }
            sleep(Duration::from_millis(5)).await;
        }
    }

    /// A worker that ends by itself before it ever worked lacks something, and says what.
    fn check_worker(&self, role: Role, how: ExitStatus) -> anyhow::Result<()> {
        let Role::Worker(number) = role else { return Ok(()) };
        // Who was told to end, or killed, lacks nothing.
        if how.success() || how.code().is_none() {
            return Ok(());
        }
        let log = self.data.join(format!("{role}.log"));
        let why = child::last_words(&log, self.logs.get(&number).copied().unwrap_or(0));
        anyhow::bail!("{role} ended at once ({how}); {} ends with\n  {why}", log.display())
    }

    fn welcome(&self, took: Duration) {
        let (data, token) = (self.data.display(), self.data.join(sterna_server::TOKEN_FILE));
        if self.json {
            return self.tell(&json!({
                "event": "ready",
                "api": format!("http://{}/v1", self.address),
                "address": self.address,
                "data": self.data.to_string_lossy(),
                "token_file": token.to_string_lossy(),
                "workers": self.workers,
                "took_ms": u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
            }));
        }
        let named = self.named(&token);
        out::note(&format!(
            "sterna is here after {} ms\n\
             \n\
             \x20 API    http://{}/v1\n\
             \x20 data   {data}\n\
             \x20 token  {}\n\
             \n\
             Try, in another terminal in this directory:\n\
             \n\
             {named}\
             \x20 sterna run -- echo hello\n\
             \x20 sterna ls\n\
             \x20 sterna events --follow\n\
             \n\
             Ctrl-C ends everything that runs here.\n",
            took.as_millis(),
            self.address,
            token.display(),
        ));
    }

    /// What names this server to commands that are typed here and would not find it.
    fn named(&self, token: &Path) -> String {
        let found = remote::dev().and_then(|found| fs::canonicalize(found).ok());
        let asked = remote::Remote::default().choose().ok();
        let is_asked = asked.is_some_and(|asked| asked.server == self.address.to_string());
        if is_asked && found.as_ref() == Some(&self.data) {
            return String::new();
        }
        let token = token.display().to_string().replace('\'', r"'\''");
        format!("  export STERNA_SERVER={} STERNA_TOKEN_FILE='{token}'\n", self.address)
    }

    async fn start_server(&mut self) -> anyhow::Result<()> {
        let options = [self.keep.args(), self.most.args()].concat();
        for _ in 0..STARTS {
            match child::server(&self.data, self.address, &options).await? {
                Began::There(server, address) => {
                    self.address = address;
                    self.had_server = true;
                    self.children.push((Role::Server, *server));
                    return Ok(());
                }
                Began::Killed(how) => self.tell_death(Role::Server, &format!("died ({how})")),
            }
        }
        anyhow::bail!("the server was killed {STARTS} times before it could be asked")
    }

    fn start_worker(&self, number: u32) -> anyhow::Result<Child> {
        let name = format!("worker-{number}");
        let mut command = child::command(&self.data, &format!("{name}.log"))?;
        command.arg("worker").arg("--join").arg(self.address.to_string());
        command.arg("--name").arg(&name).arg("--data").arg(self.data.join(&name));
        let leash = self.leash.0.try_clone().context("there is no pipe for a worker")?;
        command.arg("--until-eof").stdin(leash).stdout(Stdio::null());
        command.spawn().with_context(|| format!("cannot start {name}"))
    }

    /// Starts again what dies.
    async fn watch(&mut self) -> anyhow::Result<()> {
        let mut pause = Duration::from_millis(100);
        loop {
            let (role, how, lived) = self.death().await;
            self.tell_death(role, &how);
            pause = if lived > Duration::from_secs(30) {
                Duration::from_millis(100)
            } else {
                (pause * 2).min(Duration::from_secs(5))
            };
            sleep(pause).await;
            // The others go on; this one is tried again.
            if let Err(error) = self.start_again(role).await {
                out::error(&error);
            }
        }
    }

    fn tell_death(&mut self, role: Role, how: &str) {
        self.returning.retain(|(number, _)| Role::Worker(*number) != role);
        out::warning(&format!("{role} {how}; it is started again"));
        let child = role.to_string();
        self.tell(&json!({ "event": "child-died", "child": child, "how": how }));
    }

    async fn start_again(&mut self, role: Role) -> anyhow::Result<()> {
        let began = Instant::now();
        match role {
            Role::Server => {
                self.start_server().await?;
                self.is_back(role, began);
            }
            Role::Worker(number) => {
                // It may have begun anew since it was looked at, and its last life is still shown.
                if let Some(last) = self.worker(number).await {
                    self.lives.insert(number, last.life);
                }
                let worker = self.start_worker(number)?;
                self.children.push((role, worker));
                self.returning.push((number, began));
            }
        }
        Ok(())
    }

    /// Says that a child does again what it is there for.
    fn is_back(&self, role: Role, began: Instant) {
        let (child, took) = (role.to_string(), began.elapsed().as_millis());
        out::note(&format!("{child} is back after {took} ms"));
        let took_ms = u64::try_from(took).unwrap_or(u64::MAX);
        self.tell(&json!({ "event": "child-back", "child": child, "took_ms": took_ms }));
    }

    /// Looks whether one of those that were started again is heard.
    async fn look_for_returned(&mut self) {
        let Some((number, began)) = self.returning.pop() else { return };
        let (role, before) = (Role::Worker(number), self.lives.get(&number).copied());
        match self.life(number).await {
            // Of the life before it may not be known yet that it is over.
            Some(life) if before != Some(life) => {
                self.lives.insert(number, life);
                self.is_back(role, began);
            }
            Some(_) | None => self.returning.insert(0, (number, began)),
        }
    }

    /// Which life of a worker is heard, if one is.
    async fn life(&self, number: u32) -> Option<u64> {
        let worker = self.worker(number).await?;
        (worker.health == "healthy").then_some(worker.life)
    }

    /// A worker as the server has it.
    async fn worker(&self, number: u32) -> Option<WorkerView> {
        let (mut client, path) = (self.client(), format!("/v1/workers/worker-{number}"));
        // A server that hangs must not keep its own death from being noticed.
        let asked = timeout(ASK_WITHIN, client.get::<WorkerView>(&path)).await;
        asked.ok()?.ok()
    }

    /// A child that has died, of which nobody was told.
    fn dead(&mut self) -> Option<(Role, ExitStatus)> {
        let (at, how) = self.children.iter_mut().enumerate().find_map(|(at, (_, child))| {
            let how = child.try_wait().ok().flatten()?;
            Some((at, how))
        })?;
        let (role, _) = self.children.remove(at);
        Some((role, how))
    }

    /// Waits for the death of a child.
    async fn death(&mut self) -> (Role, String, Duration) {
        let began = Instant::now();
        loop {
            if let Some((role, how)) = self.dead() {
                return (role, format!("died ({how})"), began.elapsed());
            }
            // What could not be started again is tried again.
            let all = (1..=self.workers).map(Role::Worker).chain([Role::Server]);
            let is_missing = |role: &Role| !self.children.iter().any(|(here, _)| here == role);
            if let Some(role) = all.into_iter().find(is_missing) {
                return (role, "is not there".to_owned(), began.elapsed());
            }
            self.look_for_returned().await;
            sleep(Duration::from_millis(50)).await;
        }
    }

    /// Ends everything.
    async fn end(&mut self, signals: &mut Signals) {
        let children = std::mem::take(&mut self.children);
        let leash = self.leash.1.take();
        let workers = (1..=self.workers).map(Role::Worker).collect();
        let ending = Ending { data: &self.data, client: self.client(), signals };
        ending.run(children, leash, workers).await;
        // Another `dev` may have this directory, and its server wrote it then.
        if self.had_server {
            drop(fs::remove_file(self.data.join(remote::ADDRESS)));
        }
    }
}
