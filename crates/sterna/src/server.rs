//! `sterna server`.

use std::{
    fs,
    io::{self, Write},
    net::SocketAddr,
    path::PathBuf,
    sync::Arc,
};

use anyhow::Context;
use rustix::process::{Resource, getrlimit, setrlimit};
use serde_json::json;
use sterna_model::{Bytes, Name, Span};
use sterna_server::{Bounds, Config, Ready, Retention, Rules, Server, ServerError};
use tokio::signal::unix::{SignalKind, signal};

use crate::{clock, exit, out, remote, until_eof};

/// Run a server: serve the API, lead workers and keep all state in a store; it listens on this machine only,
/// until there is TLS
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Address to listen on; port 0 picks a free port
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:7411", value_parser = address)]
    listen: SocketAddr,
    /// Directory for this server's token and the newest store state that it has seen
    #[arg(long, value_name = "DIR")]
    data: PathBuf,
    /// File with the token that clients must send; all servers of a cluster need the same token [default:
    /// DATA/admin.token, created if missing]
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// The store: file:DIR, postgres://... or etcd://... [default: file:DATA/store]
    #[arg(long, value_name = "URL")]
    store: Option<String>,
    /// Create a new cluster if the store is empty and this server has never seen one
    #[arg(long)]
    make: bool,
    /// All zones, including those without a worker yet: where pinned instances run depends on their number.
    /// All servers of a cluster need the same list
    #[arg(long, value_name = "ZONE", value_delimiter = ',')]
    zones: Vec<Name>,
    /// How many containers may start at the same time in the whole cluster; the others wait
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..))]
    starts_max: Option<u32>,
    #[command(flatten)]
    keep: Keep,
    #[command(flatten)]
    most: Most,
    /// Print one JSON object per line for each event
    #[arg(long)]
    json: bool,
    /// Exit when standard input ends, and report on standard output when the API is ready
    #[arg(long, hide = true)]
    until_eof: bool,
}

/// Where to listen: an address, not the name of a host, which may have several.
pub(crate) fn address(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| {
        let port = text.rsplit(':').next().filter(|port| port.parse::<u16>().is_ok());
        format!("write an address and a port, as in 127.0.0.1:{}", port.unwrap_or("7411"))
    })
}

/// How long things are kept.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(crate) struct Keep {
    /// How long the record of a task stays after its end
    #[arg(long, value_name = "TIME", default_value = "7d")]
    keep_tasks: Span,
    /// How long its name stays taken after that; if too short, a late retry of its creation makes a second
    /// task
    #[arg(long, value_name = "TIME", default_value = "7d")]
    caution_keep_names: Span,
    /// How many events to keep
    #[arg(long, value_name = "COUNT", default_value_t = Bounds::default().events, value_parser = at_least_one)]
    keep_events: usize,
    /// How many records of finished tasks to keep; beyond that the oldest are deleted, and their names stay
    /// taken
    #[arg(long, value_name = "COUNT", default_value_t = Retention::default().tasks_max, value_parser = at_least_one)]
    keep_tasks_max: usize,
    /// How many names of deleted task records to keep; beyond that the oldest are freed, but none within ten
    /// minutes
    #[arg(long, value_name = "COUNT", default_value_t = Retention::default().names_max, value_parser = at_least_one)]
    keep_names_max: usize,
}

/// How much there may be at a time.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(crate) struct Most {
    /// How many tasks may be unfinished at a time; the server refuses more
    #[arg(long, value_name = "COUNT", default_value_t = Bounds::default().tasks, value_parser = at_least_one)]
    tasks_max: usize,
    /// How many streams of events, logs and endpoints may be open
    #[arg(long, value_name = "COUNT", default_value_t = Bounds::default().streams as usize, value_parser = at_least_one)]
    streams_max: usize,
    /// How many requests may be answered at a time
    #[arg(long, value_name = "COUNT", default_value_t = Bounds::default().requests as usize, value_parser = at_least_one)]
    requests_max: usize,
    /// How many services there may be; the server refuses more
    #[arg(long, value_name = "COUNT", default_value_t = Bounds::default().services, value_parser = at_least_one)]
    services_max: usize,
    /// How many instances all services may have together
    #[arg(long, value_name = "COUNT", default_value_t = Bounds::default().instances, value_parser = at_least_one)]
    instances_max: usize,
    /// How many domains there may be
    #[arg(long, value_name = "COUNT", default_value_t = Bounds::default().domains, value_parser = at_least_one)]
    domains_max: usize,
    /// How many definitions there may be; the server refuses more
    #[arg(long, value_name = "COUNT", default_value_t = Bounds::default().definitions, value_parser = at_least_one)]
    definitions_max: usize,
    /// How many machines may be on the roster; the server refuses more until you forget one
    #[arg(long, value_name = "COUNT", default_value_t = Bounds::default().workers, value_parser = at_least_one)]
    workers_max: usize,
    /// Total size of the specs of services, definitions and unfinished tasks, as in 1GiB
    #[arg(long, value_name = "SIZE", default_value_t = Bytes::new(Bounds::default().specs_bytes))]
    specs_max: Bytes,
}

fn at_least_one(text: &str) -> Result<usize, String> {
    let count = text.parse().ok().filter(|count| *count > 0);
    count.ok_or_else(|| "write how many: a whole number from 1 on".to_owned())
}

impl Keep {
    /// The same, for the server that this process starts.
    pub(crate) fn args(self) -> Vec<String> {
        let Self { keep_tasks, caution_keep_names, keep_events, keep_tasks_max, keep_names_max } =
            self;
        options([
            ("--keep-tasks", keep_tasks.to_string()),
            ("--caution-keep-names", caution_keep_names.to_string()),
            ("--keep-events", keep_events.to_string()),
            ("--keep-tasks-max", keep_tasks_max.to_string()),
            ("--keep-names-max", keep_names_max.to_string()),
        ])
    }

    fn retention(self) -> Retention {
        Retention {
            tasks: self.keep_tasks,
            tasks_max: self.keep_tasks_max,
            names: self.caution_keep_names,
            names_max: self.keep_names_max,
            ..Retention::default()
        }
    }
}

impl Most {
    /// Whether so many workers may be there.
    pub(crate) fn check_workers(self, workers: u32) -> anyhow::Result<()> {
        let Self { workers_max, .. } = self;
        let is_right = workers as usize <= workers_max;
        let wrong =
            || anyhow::anyhow!("--workers {workers} is more than --workers-max {workers_max}");
        if is_right { Ok(()) } else { Err(exit::coded(exit::USAGE)(wrong())) }
    }

    /// The same, for the server that this process starts.
    pub(crate) fn args(self) -> Vec<String> {
        let Self { tasks_max, streams_max, requests_max, definitions_max, .. } = self;
        let Self { services_max, instances_max, domains_max, workers_max, specs_max, .. } = self;
        options([
            ("--tasks-max", tasks_max.to_string()),
            ("--streams-max", streams_max.to_string()),
            ("--requests-max", requests_max.to_string()),
            ("--services-max", services_max.to_string()),
            ("--instances-max", instances_max.to_string()),
            ("--domains-max", domains_max.to_string()),
            ("--definitions-max", definitions_max.to_string()),
            ("--workers-max", workers_max.to_string()),
            ("--specs-max", specs_max.to_string()),
        ])
    }
}

fn options<const N: usize>(all: [(&str, String); N]) -> Vec<String> {
    all.into_iter().flat_map(|(name, value)| [name.to_owned(), value]).collect()
}

/// What these options bound.
fn bounds(keep: Keep, most: Most) -> Bounds {
    Bounds {
        tasks: most.tasks_max,
        streams: most.streams_max as u64,
        requests: most.requests_max as u64,
        events: keep.keep_events,
        services: most.services_max,
        instances: most.instances_max,
        domains: most.domains_max,
        definitions: most.definitions_max,
        workers: most.workers_max,
        specs_bytes: most.specs_max.get(),
    }
}

pub(crate) fn run(args: Args) -> anyhow::Result<()> {
    if args.until_eof {
        drop(until_eof::watch()?);
    }
    // Every worker, client and reader is an open file. What is not given is found out by who needs it.
    let mut files = getrlimit(Resource::Nofile);
    files.current = files.maximum;
    let _: Result<(), _> = setrlimit(Resource::Nofile, files);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    runtime.context("cannot wait for anything")?.block_on(serve(args))
}

async fn serve(args: Args) -> anyhow::Result<()> {
    let mut ended = signal(SignalKind::terminate()).context("cannot take signals")?;
    let mut interrupted = signal(SignalKind::interrupt()).context("cannot take signals")?;
    remote::directory(&args.data)?;
    let url = args.store.unwrap_or_else(|| format!("file:{}", args.data.join("store").display()));
    let store = sterna_store::open(&url).await?;
    for warning in store.warnings() {
        say(&format!("warning: {warning}"));
    }
    let data = args.data.clone();
    let retention = args.keep.retention();
    let (listen, makes_cluster, bounds) = (args.listen, args.make, bounds(args.keep, args.most));
    let token_file = args.token_file.clone();
    let zones = args.zones.iter().cloned().collect();
    let rules = Rules { zones, start_limit: args.starts_max, ..Rules::default() };
    let config =
        Config { store, listen, data, token_file, makes_cluster, retention, bounds, rules };
    let server = Server::start(config, Arc::new(say)).await;
    let mut server = server.map_err(|error| exit::coded(code(&error))(error.into()))?;
    let address = server.address();
    let file = args.data.join(remote::ADDRESS);
    let told = fs::write(&file, format!("{address}\n"));
    told.with_context(|| format!("cannot write {}", file.display()))?;
    say(&format!("listens on {address}"));
    let tell = |happened: &serde_json::Value| {
        if args.json {
            out::event(happened);
        }
    };
    let token = args.token_file.unwrap_or_else(|| args.data.join(sterna_server::TOKEN_FILE));
    // Not every path is a text.
    let (data, token) = (args.data.to_string_lossy(), token.to_string_lossy());
    tell(&json!({ "event": "listens", "address": address, "data": data, "token_file": token }));
    let mut is_told = false;
    loop {
        tokio::select! {
            _ = ended.recv() => break,
            _ = interrupted.recv() => break,
            ready = server.ready(), if !is_told => {
                is_told = true;
                let mut told = json!({ "event": "ready", "api": format!("http://{address}/v1") });
                if let Ready::Follows(leader) = ready {
                    told["follows"] = leader.into();
                }
                tell(&told);
                if args.until_eof {
                    // Nobody listens, perhaps; it goes on.
                    drop(writeln!(io::stdout(), "{address}"));
                    drop(io::stdout().flush());
                }
            }
            ended = server.ended() => return Ok(ended?),
        }
    }
    say("ends");
    server.stop().await?;
    tell(&json!({ "event": "stopped" }));
    Ok(())
}

/// What to look at: the command line, permissions, or the message.
fn code(error: &ServerError) -> u8 {
    if let ServerError::Remote { .. } = error {
        return exit::USAGE;
    }
    let ServerError::Listen { source, .. } = error else { return 1 };
    let kind = source.kind();
    if kind == io::ErrorKind::PermissionDenied {
        exit::DENIED
    } else if kind == io::ErrorKind::AddrInUse {
        // Somebody else may end.
        exit::TRY_AGAIN
    } else {
        exit::USAGE
    }
}

/// A line about what the server does.
fn say(text: &str) {
    // Nobody listens, perhaps; it goes on.
    drop(writeln!(io::stderr(), "{} server {text}", clock::wall_time()));
}
