//! `sterna run`.

use std::{
    collections::BTreeMap,
    io::{self, IsTerminal, Write},
};

use anyhow::Context;
use serde_json::{Value, json};
use sterna_api::{
    client::{Client, ClientError},
    rest::{Code, CreateTask, LogLine, TaskView},
};
use sterna_model::{TaskIncarnation, WallTime};
use sterna_store::machine::random;

use crate::{
    clock, exit, out,
    remote::{Remote, failed, wait},
};

/// Run a command once, somewhere: streams its output and exits with its code
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Do not wait for it
    #[arg(long, short)]
    detach: bool,
    /// What to call it; a name is made if none is given
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// A variable for its environment; may be repeated
    #[arg(long, short, value_name = "NAME=VALUE", value_parser = variable)]
    env: Vec<(String, String)>,
    /// Processor time that is set aside for it, and the most that it gets: 500m, 2
    #[arg(long, value_name = "CORES")]
    cpu: Option<String>,
    /// Memory that is set aside for it, and the most that it gets: 64MiB
    #[arg(long, value_name = "SIZE")]
    memory: Option<String>,
    /// It ends when it runs longer: 30m
    #[arg(long, value_name = "TIME")]
    timeout: Option<String>,
    /// A tag that its worker must have; may be repeated
    #[arg(long = "tag", value_name = "TAG")]
    tags: Vec<String>,
    /// Fail at once if no worker has room
    #[arg(long)]
    fail_when_full: bool,
    /// Print what is known of it as JSON, when it is over or, with --detach, at once
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    remote: Remote,
    /// The command and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<String>,
}

fn variable(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("write NAME=VALUE")?;
    Ok((name.to_owned(), value.to_owned()))
}

impl Args {
    fn spec(&self) -> Value {
        let mut spec = json!({ "run": self.command });
        let mut set = |name: &str, value: Option<Value>| {
            if let Some(value) = value {
                spec[name] = value;
            }
        };
        let text = |given: &Option<String>| given.as_ref().map(|text| json!(text));
        set("cpu", text(&self.cpu));
        set("memory", text(&self.memory));
        set("timeout", text(&self.timeout));
        let env: BTreeMap<_, _> = self.env.iter().cloned().collect();
        set("env", (!env.is_empty()).then(|| json!(env)));
        set("tags", (!self.tags.is_empty()).then(|| json!(self.tags)));
        set("when_full", self.fail_when_full.then(|| json!("fail")));
        spec
    }
}

pub(crate) fn run(args: Args) -> anyhow::Result<()> {
    wait(async {
        let mut client = args.remote.client()?;
        let name = args.name.clone().unwrap_or_else(fresh_name);
        let incarnation = TaskIncarnation::from_parts(clock::wall_time(), random());
        let asked = CreateTask {
            name: name.clone(),
            spec: args.spec(),
            incarnation: Some(incarnation.to_string()),
        };
        let made = create(&mut client, &args.remote, &asked).await?;
        if args.detach {
            let answer = if args.json { pretty(&made)? } else { name };
            out::answer(&answer)?;
            return Ok(());
        }
        let stays_quiet = args.json;
        if made.phase == "pending" && io::stderr().is_terminal() {
            out::note(&format!("{name} waits for a worker; see `sterna why {name}`"));
        }
        follow(&mut client, &args.remote, &name, stays_quiet).await?;
        let task = ended(&mut client, &args.remote, &name).await?;
        if args.json {
            out::answer(&pretty(&task)?)?;
        }
        finish(&name, &task)
    })
}

/// Makes the task. If the answer is lost, the same is asked for again: it is the same task.
async fn create(
    client: &mut Client,
    remote: &Remote,
    asked: &CreateTask,
) -> anyhow::Result<TaskView> {
    let path = remote.path("tasks");
    for _ in 0..3 {
        match client.call(http::Method::POST, &path, Some(asked)).await {
            Err(ClientError::Broken { .. }) => {}
            other => return other.map_err(failed),
        }
    }
    client.call(http::Method::POST, &path, Some(asked)).await.map_err(failed)
}

/// Writes what it writes, until it is over.
async fn follow(
    client: &mut Client,
    remote: &Remote,
    name: &str,
    stays_quiet: bool,
) -> anyhow::Result<()> {
    let path = remote.path(&format!("tasks/{name}/logs?follow=true"));
    let mut lines = client.lines(&path).await.map_err(failed)?;
    while let Some(line) = lines.next().await.map_err(failed)? {
        let Ok(line) = serde_json::from_slice::<LogLine>(&line) else {
            let said: Value = serde_json::from_slice(&line).unwrap_or_default();
            if let Some(why) = said["error"]["message"].as_str() {
                out::warning(&format!("its output cannot be read: {why}"));
            }
            continue;
        };
        if !stays_quiet {
            write(&line)?;
        }
    }
    Ok(())
}

/// Writes a line where its run wrote it to.
fn write(line: &LogLine) -> anyhow::Result<()> {
    let mut bytes = match &line.bytes {
        Some(digits) => unhex(digits),
        None => line.text.clone().into_bytes(),
    };
    if !line.is_cut {
        bytes.push(b'\n');
    }
    let written = match line.stream.as_str() {
        "stdout" => io::stdout().write_all(&bytes).and_then(|()| io::stdout().flush()),
        "stderr" => io::stderr().write_all(&bytes),
        _ => Ok(()),
    };
    match written {
        // Who closed it has seen enough; the task goes on.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => written.context("cannot write to standard output"),
    }
}

pub(crate) fn unhex(digits: &str) -> Vec<u8> {
    let pairs = digits.as_bytes().chunks(2);
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    pairs.filter_map(byte).collect()
}

/// Waits for the record of its end.
async fn ended(client: &mut Client, remote: &Remote, name: &str) -> anyhow::Result<TaskView> {
    let path = remote.path(&format!("tasks/{name}?wait_s=60"));
    loop {
        match client.get::<TaskView>(&path).await {
            Ok(task) if task.end.is_some() => return Ok(task),
            Ok(_) => {}
            // The server was away for a moment; the task was not.
            Err(ClientError::Broken { .. }) => {}
            Err(error) if error.code() == Some(Code::NotReady) => {
                tokio::time::sleep(std::time::Duration::from_millis(200)).await;
            }
            Err(error) => return Err(failed(error)),
        }
    }
}

/// Exits as the task did.
fn finish(name: &str, task: &TaskView) -> anyhow::Result<()> {
    let Some(end) = &task.end else { return Ok(()) };
    if end.is_success {
        return Ok(());
    }
    // tidy: not a table
    let code = match (end.exit_code, end.signal) {
        (Some(code), _) => u8::try_from(code).unwrap_or(1),
        (None, Some(signal)) => u8::try_from(128 + signal).unwrap_or(1),
        (None, None) => 1,
    };
    if end.exit_code.is_some() {
        // It said itself what there was to say.
        return Err(exit::silent(code));
    }
    Err(exit::coded(code)(anyhow::anyhow!("{name}: {}", end.text)))
}

/// A name that nobody has: letters and digits that are not easily mistaken.
fn fresh_name() -> String {
    const LETTERS: &[u8; 32] = b"abcdefghijkmnpqrstuvwxyz23456789";
    let letters = random::<10>().map(|byte| char::from(LETTERS[usize::from(byte) % 32]));
    format!("run-{}", letters.iter().collect::<String>())
}

/// For people and programs.
pub(crate) fn pretty(value: &impl serde::Serialize) -> anyhow::Result<String> {
    serde_json::to_string_pretty(value).context("the answer cannot be written")
}

/// How long ago something was, in a few letters.
pub(crate) fn age(at: &str) -> String {
    let Ok(at) = at.parse::<WallTime>() else { return String::new() };
    let seconds = clock::wall_time().since(at).as_millis() / 1_000;
    match seconds {
        0..=119 => format!("{seconds}s"),
        120..=7_199 => format!("{}m", seconds / 60),
        7_200..=172_799 => format!("{}h", seconds / 3_600),
        _ => format!("{}d", seconds / 86_400),
    }
}
