//! `sterna run`.

use std::{
    collections::BTreeMap,
    io::{self, Write},
    time::Duration,
};

use anyhow::Context;
use serde_json::{Value, json};
use sterna_api::{
    client::{Client, ClientError},
    rest::{CreateTask, Explained, LogLine, TaskView},
    spec::{LAST, LAST_MEANS, Problem, Source, read},
};
use sterna_model::{Name, TaskIncarnation, WallTime, quoted};
use sterna_store::machine::random;
use tokio::signal::unix::{SignalKind, signal};

use crate::{
    clock, exit, out,
    patience::Patience,
    remote::{Remote, wait},
};

/// Run a command once on some worker: stream its output and exit with its exit code
///
/// Ctrl-C stops the waiting, not the task; `sterna cancel NAME` ends the task. Standard input is not passed
/// on: the command reads end-of-file at once.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Do not wait for the task
    #[arg(long, short)]
    detach: bool,
    /// Name of the task [default: a random name]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// An environment variable; may be repeated
    #[arg(long, short, value_name = "NAME=VALUE", value_parser = variable)]
    env: Vec<(String, String)>,
    /// CPU to reserve, and its limit: 500m, 2
    #[arg(long, value_name = "CORES")]
    cpu: Option<String>,
    /// Memory to reserve, and its limit: 64MiB
    #[arg(long, value_name = "SIZE")]
    memory: Option<String>,
    /// Timeout: end the task if it runs longer, as in 30m
    #[arg(long, value_name = "TIME")]
    timeout: Option<String>,
    /// A tag that its worker must have; may be repeated
    #[arg(long = "tag", value_name = "TAG")]
    tags: Vec<String>,
    /// Fail at once if no worker has room
    #[arg(long)]
    fail_when_full: bool,
    /// Print the task as JSON: when it is over or, with --detach, at once
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

/// What somebody typed that stands at this place of a spec; a problem of all of it is none of an option.
fn typed_as(place: &str, name: &str) -> String {
    let place = place.strip_prefix("task.").unwrap_or(place);
    let quoted = quoted(name);
    let inside = place.strip_prefix(name).or_else(|| place.strip_prefix(&quoted));
    let Some(place) = inside.and_then(|rest| rest.strip_prefix('.')) else {
        return "this task".to_owned();
    };
    match place.split(['.', '[']).next().unwrap_or(place) {
        "run" => "COMMAND".to_owned(),
        "tags" => "--tag".to_owned(),
        "env" => format!("--{}", place.replacen('.', " ", 1)),
        other => format!("--{other}"),
    }
}

impl Args {
    /// What is wrong with its options, by their names: what is sent has no line that anybody wrote.
    fn check(&self, name: &str) -> anyhow::Result<()> {
        let named = Name::new(name).map_err(|error| anyhow::anyhow!("--name: {error}"));
        named.map_err(exit::coded(exit::USAGE))?;
        if name == LAST {
            let error = anyhow::anyhow!("--name: {LAST_MEANS}: give it another name");
            return Err(exit::coded(exit::USAGE)(error));
        }
        let text = json!({ "version": 1, "task": { name: self.spec() } }).to_string();
        let Err(problems) = read(&[Source { name: "request.json", text: &text }]) else {
            return Ok(());
        };
        let line = |problem: &Problem| {
            let place = typed_as(&problem.place, name);
            format!("{place}: {}: {}", problem.reason, problem.remedy)
        };
        let lines: Vec<_> = problems.iter().map(line).collect();
        Err(exit::coded(exit::SPEC)(anyhow::anyhow!("{}", lines.join("\n       "))))
    }

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
        args.check(&name)?;
        let incarnation = TaskIncarnation::from_parts(clock::wall_time(), random());
        let asked = CreateTask {
            name: name.clone(),
            spec: args.spec(),
            incarnation: Some(incarnation.to_string()),
        };
        let mut interrupts = signal(SignalKind::interrupt()).context("cannot take signals")?;
        let made = tokio::select! {
            made = create(&mut client, &args.remote, &asked) => made?,
            _ = interrupts.recv() => return Err(left(&args, &name, "may have been made")),
        };
        if args.detach {
            let answer = if args.json { pretty(&made)? } else { name };
            out::answer(&answer)?;
            return Ok(());
        }
        let task = tokio::select! {
            task = watch(&mut client, &args, &made) => task?,
            _ = interrupts.recv() => return Err(left(&args, &name, "keeps running")),
        };
        if args.json {
            out::answer(&pretty(&task)?)?;
        }
        finish(&name, &task)
    })
}

/// Ctrl-C ends the waiting, and not the task: says how to end that.
fn left(args: &Args, name: &str, how: &str) -> anyhow::Error {
    tell_left(args, name, how);
    exit::silent(exit::INTERRUPTED)
}

fn tell_left(args: &Args, name: &str, how: &str) {
    let space = args.remote.asked().map(|space| format!(" --namespace {space}"));
    out::note(&format!(
        "{name} {how}; `sterna cancel {name}{}` ends it",
        space.unwrap_or_default()
    ));
}

/// Makes the task. If nobody is there for a moment, or the answer is lost, the same is asked for again: it
/// is the same task.
async fn create(
    client: &mut Client,
    remote: &Remote,
    asked: &CreateTask,
) -> anyhow::Result<TaskView> {
    let (path, mut patience) = (remote.path("tasks"), Patience::default());
    loop {
        match client.call(http::Method::POST, &path, Some(asked)).await {
            Ok(made) => return Ok(made),
            Err(error) => patience.bear(error).await?,
        }
    }
}

/// Follows a task to its end, however often the server is away meanwhile.
async fn watch(client: &mut Client, args: &Args, made: &TaskView) -> anyhow::Result<TaskView> {
    let (progress, mut patience) = (out::Progress::waiting(), Patience::default());
    let mut output = Output { after: String::new(), stays_quiet: args.json };
    let path = args.remote.path(&format!("tasks/{}", made.name));
    let pending = pending(&args.remote, made, &progress);
    let work = async {
        loop {
            let followed = output.follow(client, &path, &progress, &mut patience).await;
            // What it writes can be shown to nobody.
            let followed =
                followed.inspect_err(|_| tell_left(args, &made.name, "keeps running"))?;
            let task = match followed {
                Ok(()) => ended(client, &path, &mut patience).await,
                Err(error) => Err(error),
            };
            match task {
                Ok(task) => return Ok(task),
                // The server was away for a moment; the task was not.
                Err(error) => {
                    progress.clear();
                    patience.bear(error).await?;
                }
            }
        }
    };
    tokio::pin!(work);
    tokio::select! {
        task = &mut work => task,
        // It has begun, and says itself how it goes.
        () = pending => work.await,
    }
}

/// How often it is asked what a task waits for.
const ASK_EVERY: Duration = Duration::from_secs(1);

/// Shows what a task waits for, as long as no worker has it.
async fn pending(remote: &Remote, made: &TaskView, progress: &out::Progress) {
    if made.phase != "pending" {
        return;
    }
    let Ok(mut client) = remote.client() else { return };
    let path = remote.path(&format!("tasks/{}/why", made.name));
    let (mut text, mut asked) = ("no worker has it yet".to_owned(), None);
    loop {
        if asked.is_none_or(|at: std::time::Instant| at.elapsed() >= ASK_EVERY) {
            asked = Some(clock::instant());
            match client.get::<Explained>(&path).await {
                Ok(why) if why.is_well || why.rule == "over" => break,
                Ok(why) => text = why.text,
                // Whoever follows its output says what is wrong.
                Err(_) => {}
            }
        }
        progress.spin(&format!("{} waits: {text}", made.name));
        tokio::time::sleep(out::TURN).await;
    }
    progress.clear();
}

/// What a task writes, as far as it was shown.
struct Output {
    /// Where to go on.
    after: String,
    stays_quiet: bool,
}

impl Output {
    /// Writes what it writes, until it is over; or says why no more of it comes.
    ///
    /// # Errors
    /// It cannot be written.
    async fn follow(
        &mut self,
        client: &mut Client,
        task: &str,
        progress: &out::Progress,
        patience: &mut Patience,
    ) -> anyhow::Result<Result<(), ClientError>> {
        let path = format!("{task}/logs?follow=true&after={}", self.after);
        let mut lines = match client.lines(&path).await {
            Ok(lines) => lines,
            Err(error) => return Ok(Err(error)),
        };
        patience.heard();
        loop {
            let line = match lines.next().await {
                Ok(Some(line)) => line,
                Ok(None) => return Ok(Ok(())),
                Err(error) => return Ok(Err(error)),
            };
            let Ok(line) = serde_json::from_slice::<LogLine>(&line) else {
                let said: Value = serde_json::from_slice(&line).unwrap_or_default();
                if let Some(why) = said["error"]["message"].as_str() {
                    out::warning(&format!("its output cannot be read: {why}"));
                }
                continue;
            };
            if !self.stays_quiet {
                progress.clear();
                write(&line)?;
            }
            self.after = after(&line);
        }
    }
}

/// The place after a line.
pub(crate) fn after(line: &LogLine) -> String {
    format!("{}:{}", line.run, line.line + 1)
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
        // Who closed it has seen enough.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Err(exit::silent(exit::UNREAD)),
        written => written.context("cannot write to standard output"),
    }
}

pub(crate) fn unhex(digits: &str) -> Vec<u8> {
    let pairs = digits.as_bytes().chunks(2);
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    pairs.filter_map(byte).collect()
}

/// Waits for the record of its end.
async fn ended(
    client: &mut Client,
    task: &str,
    patience: &mut Patience,
) -> Result<TaskView, ClientError> {
    let path = format!("{task}?wait_s=20");
    loop {
        let task = client.get::<TaskView>(&path).await?;
        patience.heard();
        if task.end.is_some() {
            return Ok(task);
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
        // A command that is ended may well exit with 0: it has failed all the same.
        (Some(code), _) => u8::try_from(code).ok().filter(|code| *code != 0).unwrap_or(1),
        (None, Some(signal)) => u8::try_from(128 + signal).unwrap_or(1),
        (None, None) => 1,
    };
    if end.exit_code.is_some() && end.report["cause"] == "exited" {
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
    rough(clock::wall_time().since(at).as_millis() / 1_000)
}

/// How long something took; what is short to the tenth of a second.
pub(crate) fn long(ms: u64) -> String {
    match ms {
        0..=9_949 => format!("{}.{}s", (ms + 50) / 1_000, (ms + 50) % 1_000 / 100),
        _ => rough((ms + 500) / 1_000),
    }
}

fn rough(seconds: u64) -> String {
    match seconds {
        0..=119 => format!("{seconds}s"),
        120..=7_199 => format!("{}m", seconds / 60),
        7_200..=172_799 => format!("{}h", seconds / 3_600),
        _ => format!("{}d", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::{long, typed_as};

    #[test]
    fn a_problem_of_the_whole_task_is_none_of_an_option_that_there_is_not() {
        let typed = |place: &str, name: &str| typed_as(place, name);
        assert_eq!(typed("task.t", "t"), "this task");
        assert_eq!(typed("task.'a.b'", "a.b"), "this task");
        assert_eq!(typed("", "t"), "this task");
        assert_eq!(typed("task.t.memory", "t"), "--memory");
        assert_eq!(typed("task.'a.b'.memory", "a.b"), "--memory");
        assert_eq!(typed("task.t.tags[1]", "t"), "--tag");
        assert_eq!(typed("task.t.env.A", "t"), "--env A");
        assert_eq!(typed("task.t.run[0]", "t"), "COMMAND");
    }

    #[test]
    fn what_is_short_is_said_to_the_tenth_and_what_is_long_roughly() {
        let said = [0, 49, 50, 949, 950, 9_949, 9_950, 10_499, 119_400, 125_000, 7_200_000];
        let said: Vec<_> = said.into_iter().map(long).collect();
        let all =
            ["0.0s", "0.0s", "0.1s", "0.9s", "1.0s", "9.9s", "10s", "10s", "119s", "2m", "2h"];
        assert_eq!(said, all);
    }
}
