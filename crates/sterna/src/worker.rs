//! `sterna worker`: runs what a leader sends to this machine.

use std::{
    env, fs,
    io::{self, Write},
    os::unix::fs::MetadataExt,
    path::PathBuf,
    sync::Arc,
};

use anyhow::Context;
use serde_json::json;
use sterna_model::{FEATURE_TAGS, Name, WallTime};
use sterna_wire::Address;
use sterna_worker::{
    Directory, DirectoryError, containers,
    interrupts::Interrupts,
    link::{self, Description, Options},
    logs::{self, Logs},
    machine::{Files, Given, Machine},
};

use crate::{clock, exit, out};

/// Run a worker: execute what the leader sends to this machine
///
/// The worker joins a cluster and stays in it: it dials the servers until one of them leads. It logs to
/// stderr, one line per event.
///
/// TERM, INT, QUIT and HUP end it, after everything that must end with it; a second signal leaves that to
/// its guardian. Ctrl-Z also stops its containers; deadlines keep running.
///
/// Exit codes: 0 after a signal to end, 64 for a wrong option, 75 if another worker uses the data directory,
/// 77 if it has no permission for that directory, 1 otherwise.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// A server of the cluster, HOST or HOST:PORT; may be given more than once
    #[arg(long, value_name = "ADDR", required = true, value_delimiter = ',')]
    join: Vec<Address>,
    /// Unique worker name [default: hostname]
    #[arg(long, value_parser = name)]
    name: Option<Name>,
    /// Failure domain of this worker; the leader spreads instances over zones
    #[arg(long, value_parser = name)]
    zone: Option<Name>,
    /// A tag that work may ask for; may be given more than once
    #[arg(long = "tag", value_name = "TAG", value_parser = tag, value_delimiter = ',')]
    tags: Vec<Name>,
    /// A tag that work must ask for to run here; other work goes to other workers. May be given more than once
    #[arg(long = "require-tag", value_name = "TAG", value_parser = tag, value_delimiter = ',')]
    required_tags: Vec<Name>,
    /// Kind of root file system on this machine
    #[arg(long, value_parser = name)]
    stack: Option<Name>,
    /// Data directory, for one worker at a time [default: /var/lib/sterna/worker as root, else a directory in
    /// your home]
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// A countable resource of this machine, as in license=3; may be given more than once. The worker finds
    /// some by itself, such as gpu
    #[arg(long = "has", value_name = "NAME=COUNT", value_parser = countable, value_delimiter = ',')]
    countables: Vec<(Name, u64)>,
    /// How many containers it runs at most
    #[arg(long, value_name = "COUNT", default_value_t = Given::default().containers,
        value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    containers: u64,
    /// Ask the leader to send no new work (yes), or to send work again (no)
    #[arg(long, value_name = "YES|NO", value_parser = yes_or_no)]
    drain: Option<bool>,
    /// Print one JSON object per line for each event
    #[arg(long)]
    json: bool,
    /// Exit when standard input ends
    #[arg(long, hide = true)]
    until_eof: bool,
}

fn name(text: &str) -> Result<Name, String> {
    Name::new(text).map_err(|error| error.to_string())
}

/// A tag that people may give: those of features are the worker's own word.
fn tag(text: &str) -> Result<Name, String> {
    let tag = name(text)?;
    if text.starts_with(FEATURE_TAGS) {
        return Err(format!(
            "{text} says that a worker has a feature, and workers say that themselves: leave it out"
        ));
    }
    Ok(tag)
}

fn countable(text: &str) -> Result<(Name, u64), String> {
    let (name_of, count) = text.split_once('=').ok_or("write NAME=COUNT, as in license=3")?;
    let count = count.parse().map_err(|_| format!("'{count}' is no count: write NAME=COUNT"))?;
    Ok((name(name_of)?, count))
}

fn yes_or_no(text: &str) -> Result<bool, String> {
    match text {
        "yes" => Ok(true),
        "no" => Ok(false),
        _ => Err("write yes or no".to_owned()),
    }
}

pub(crate) fn run(args: Args) -> anyhow::Result<()> {
    // What it may have open is for its containers, too; they get what held before.
    let files = Files::raise();
    // Before any thread is made.
    let interrupts = Interrupts::watch().context("cannot take signals")?;
    // Its guardian ends everything with whoever started it so, too.
    let owner = if args.until_eof { Some(Arc::new(crate::until_eof::watch()?)) } else { None };
    let name = match args.name {
        Some(name) => name,
        None => host_name()?,
    };
    let path = match args.data {
        Some(path) => path,
        None => default_directory()?,
    };
    let directory = Directory::open(&path).map_err(of_directory)?;
    let life = directory.incarnation().life;
    let given =
        Given { containers: args.containers, countables: args.countables.into_iter().collect() };
    let machine = Machine::discover(&path, &given, &env::var_os("PATH").unwrap_or_default());
    let description = Description {
        zone: args.zone,
        tags: args.tags.into_iter().collect(),
        required_tags: args.required_tags.into_iter().collect(),
        stack: args.stack,
        amounts: machine.amounts,
        gpus: machine.gpus,
        runtime: machine.runtime.as_ref().map(|runtime| runtime.name.to_owned()),
        missing: machine.missing,
    };
    let is_json = args.json;
    let tell = |happened: &serde_json::Value| {
        if is_json {
            out::event(happened);
        }
    };
    let mut say = |at: WallTime, text: &str| {
        say(at, text);
        tell(&json!({ "event": "says", "at": at.to_string(), "text": text }));
    };
    let data = path.to_string_lossy();
    tell(&json!({ "event": "begins", "worker": name.as_str(), "life": life, "data": data }));
    say(clock::wall_time(), &format!("worker {name} begins life {life} in {}", path.display()));
    if let Some(runtime) = &machine.runtime {
        let text = format!("images are run by {} ({})", runtime.name, runtime.program.display());
        say(clock::wall_time(), &text);
    }
    let logs = Logs::open(&path, logs::Limits::default(), clock::wall_time())
        .with_context(|| format!("cannot keep logs in {}", path.display()))?;
    let options = Options {
        servers: args.join,
        name,
        description,
        wants_drain: args.drain,
        containers: containers::Options {
            runtime: machine.runtime,
            files,
            owner,
            ..containers::Options::default()
        },
    };
    let reader = logs.reader();
    link::run(directory, interrupts, (Box::new(logs), reader), options, &mut say)?;
    tell(&json!({ "event": "stopped" }));
    Ok(())
}

/// A line about what the worker does.
fn say(at: WallTime, text: &str) {
    // Nobody listens, perhaps; the work goes on.
    drop(writeln!(io::stderr(), "{at} {text}"));
}

fn of_directory(error: DirectoryError) -> anyhow::Error {
    if let DirectoryError::InUse { .. } = &error {
        return exit::coded(exit::TRY_AGAIN)(error.into());
    }
    if let DirectoryError::Io { error: of, .. } = &error
        && of.kind() == io::ErrorKind::PermissionDenied
    {
        return exit::coded(exit::DENIED)(error.into());
    }
    error.into()
}

fn host_name() -> anyhow::Result<Name> {
    let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let host = host.trim().to_lowercase();
    let named = Name::new(&host).with_context(|| {
        format!("this host's name, '{host}', cannot be a worker's: say another by --name")
    });
    named.map_err(exit::coded(exit::USAGE))
}

/// Where a worker keeps its files if nobody says otherwise.
fn default_directory() -> anyhow::Result<PathBuf> {
    if fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0) {
        return Ok(PathBuf::from("/var/lib/sterna/worker"));
    }
    let given = env::var_os("XDG_DATA_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    let home = || env::var_os("HOME").map(|home| PathBuf::from(home).join(".local/share"));
    let place = given
        .or_else(home)
        .context("there is no home directory for the data directory: use --data");
    Ok(place.map_err(exit::coded(exit::USAGE))?.join("sterna/worker"))
}
