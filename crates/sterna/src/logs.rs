//! `sterna logs`: what a task, an instance, or every instance of a service wrote.

use std::{
    collections::{BTreeSet, VecDeque},
    io::{self, Write},
};

use anyhow::Context;
use sterna_api::{
    client::{Client, ClientError},
    rest::{Code, InstanceView, LogLine, LogPage, Refused},
};
use sterna_model::{Kind, Target};
use tokio::sync::mpsc;

use crate::{
    exit, out,
    patience::Patience,
    remote::{Remote, all, failed, resolve, wait},
    run::{after, unhex},
    show::{escaped, path_of},
};

/// Show what a task, an instance, or every instance of a service wrote
///
/// Of a service the lines of all instances come in the order of their times, each with its index before
/// it. With --follow those are followed that there are when it begins. If a worker does not answer, the
/// others' lines are shown, and the exit code is 75.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// [KIND/]NAME[/INDEX], or last
    selector: String,
    /// Go on as more comes, until the run is over
    #[arg(long, short)]
    follow: bool,
    /// Only the last so many lines
    #[arg(long, short = 'n', value_name = "COUNT", visible_alias = "tail", allow_negative_numbers = true, value_parser = count)]
    last: Option<usize>,
    /// Only lines that match this regular expression
    #[arg(long, value_name = "REGEX")]
    matching: Option<String>,
    /// Only what was written to one stream
    #[arg(long, value_name = "STREAM", value_parser = ["stdout", "stderr", "events"])]
    stream: Option<String>,
    /// Show the time before each line
    #[arg(long, short)]
    times: bool,
    /// Print each line as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    remote: Remote,
}

fn count(text: &str) -> Result<usize, String> {
    text.parse().map_err(|_| "write how many lines: a whole number from 0 on".to_owned())
}

impl Args {
    /// What is said of every question.
    fn query(&self) -> String {
        let mut query =
            if self.stream.is_some() { String::new() } else { "&stream=output".to_owned() };
        for (name, value) in [("matching", &self.matching), ("stream", &self.stream)] {
            if let Some(value) = value {
                query += &format!("&{name}={}", escaped(value));
            }
        }
        query
    }
}

pub(crate) fn run(args: Args) -> anyhow::Result<()> {
    wait(async {
        let mut client = args.remote.client()?;
        let kinds = [Kind::Task, Kind::Service];
        let target = resolve(&mut client, &args.remote, &args.selector, &kinds).await?;
        let mut sources = sources(&mut client, &args, &target).await?;
        let mut missing = Missing::default();
        if let Some(count) = args.last {
            last(&mut client, &args, &mut sources, count, &mut missing).await?;
        }
        if args.follow {
            follow(&args, sources, &mut missing).await?;
        } else if args.last.is_none() {
            show(&mut client, &args, &mut sources, &mut missing).await?;
        }
        missing.tell()
    })
}

/// One log, as far as it was read.
#[derive(Debug)]
struct Source {
    /// Which instance, where several are shown.
    index: Option<u32>,
    /// What it is called where a service is meant: the others are shown without it.
    name: Option<String>,
    /// Who keeps it.
    worker: Option<String>,
    path: String,
    /// Read and not shown yet.
    lines: VecDeque<LogLine>,
    after: String,
    /// Whether nothing more is read of it.
    is_read: bool,
}

/// Of several logs, those that cannot be had now.
#[derive(Debug, Default)]
struct Missing {
    count: u32,
    /// Who does not answer is not waited for again.
    silent: BTreeSet<String>,
}

impl Missing {
    /// A page of a log; nothing if it cannot be had, and there are others to show.
    async fn page(
        &mut self,
        client: &mut Client,
        source: &mut Source,
        query: &str,
    ) -> anyhow::Result<Option<LogPage>> {
        if source.worker.as_ref().is_some_and(|worker| self.silent.contains(worker)) {
            self.note(source, "its worker does not answer");
            source.is_read = true;
            return Ok(None);
        }
        match client.get::<LogPage>(&format!("{}?{query}", source.path)).await {
            Ok(page) => Ok(Some(page)),
            Err(error) if is_of_one(source, &error) => {
                self.heard(source, &error);
                source.is_read = true;
                Ok(None)
            }
            Err(error) => Err(failed(error)),
        }
    }

    /// What is wrong with one of them. What has gone since it was listed is not missing.
    fn heard(&mut self, source: &Source, error: &ClientError) {
        if error.code() != Some(Code::NotFound) {
            self.note(source, &error.to_string());
            self.silent.extend(source.worker.clone());
        }
    }

    fn note(&mut self, source: &Source, why: &str) {
        self.count += 1;
        let name = source.name.as_deref().unwrap_or_default();
        out::warning(&format!("{name}: its log cannot be read: {why}"));
    }

    /// What was shown is not all.
    fn tell(&self) -> anyhow::Result<()> {
        let logs = match self.count {
            0 => return Ok(()),
            1 => "one log".to_owned(),
            count => format!("{count} logs"),
        };
        let error =
            anyhow::anyhow!("{logs} could not be read; see `sterna ls workers`, and try again");
        Err(exit::coded(exit::TRY_AGAIN)(error))
    }
}

/// Whether an error concerns this log alone, and there may be others to show.
fn is_of_one(source: &Source, error: &ClientError) -> bool {
    source.name.is_some() && matches!(error.code(), Some(Code::WorkerSilent | Code::NotFound))
}

/// The logs that are meant: one, or one for each instance.
async fn sources(client: &mut Client, args: &Args, target: &Target) -> anyhow::Result<Vec<Source>> {
    let source = |index, path| Source {
        index,
        name: None,
        worker: None,
        path,
        lines: VecDeque::new(),
        after: String::new(),
        is_read: false,
    };
    let Target::Whole { kind: Kind::Service, name } = target else {
        return Ok(vec![source(None, path_of(&args.remote, target, "/logs")?)]);
    };
    let path = args.remote.path(&format!("services/{name}/instances"));
    let instances: Vec<InstanceView> = all(client, &path).await?;
    let is_one = instances.len() == 1;
    let of = |it: &InstanceView| Source {
        name: Some(format!("{name}/{}", it.index)),
        worker: it.worker.clone(),
        ..source((!is_one).then_some(it.index), format!("{path}/{}/logs", it.index))
    };
    Ok(instances.iter().map(of).collect())
}

/// Shows all lines that there are.
async fn show(
    client: &mut Client,
    args: &Args,
    sources: &mut [Source],
    missing: &mut Missing,
) -> anyhow::Result<()> {
    while let Some((index, line)) = next(client, args, sources, missing).await? {
        print(args, index, &line)?;
    }
    Ok(())
}

/// The oldest line of all that were not shown. Only a page of each log is held.
async fn next(
    client: &mut Client,
    args: &Args,
    sources: &mut [Source],
    missing: &mut Missing,
) -> anyhow::Result<Option<(Option<u32>, LogLine)>> {
    let query = args.query();
    for source in sources.iter_mut() {
        while source.lines.is_empty() && !source.is_read {
            let query = format!("after={}{query}", source.after);
            let Some(page) = missing.page(client, source, &query).await? else { break };
            source.lines.extend(page.lines);
            source.after = page.next;
            source.is_read = page.more != "now";
        }
    }
    let oldest = sources
        .iter_mut()
        .filter(|source| !source.lines.is_empty())
        .min_by(|one, two| at(one).cmp(&at(two)));
    Ok(oldest.and_then(|source| Some((source.index, source.lines.pop_front()?))))
}

/// By when, and then by which instance: all times are written alike.
fn at(source: &Source) -> (Option<&str>, Option<u32>) {
    (source.lines.front().map(|line| line.at.as_str()), source.index)
}

/// Shows the last lines of all, and leaves each log where it is to go on.
async fn last(
    client: &mut Client,
    args: &Args,
    sources: &mut [Source],
    count: usize,
    missing: &mut Missing,
) -> anyhow::Result<()> {
    let query = args.query();
    let mut lines = Vec::new();
    for source in sources.iter_mut() {
        let (mut found, mut at) = (Vec::new(), String::new());
        // A page has a thousand at most, and fewer if they are long or hard to find.
        while !source.is_read {
            let limit = count.saturating_sub(found.len()).clamp(1, 1_000);
            let query = format!("direction=backward&limit={limit}&after={at}{query}");
            let Some(page) = missing.page(client, source, &query).await? else { break };
            found.extend(page.lines);
            at = page.next;
            if page.more != "now" || found.len() >= count {
                break;
            }
        }
        // From there on, forward.
        if let Some(line) = found.first() {
            source.after = after(line);
        }
        lines.extend(found.into_iter().rev().map(|line| (source.index, line)));
    }
    // Stable: lines of one moment stay in their order.
    lines.sort_by(|(_, one), (_, two)| one.at.cmp(&two.at));
    for (index, line) in lines.iter().skip(lines.len().saturating_sub(count)) {
        print(args, *index, line)?;
    }
    Ok(())
}

/// Shows lines of all logs as they come, until no more will.
async fn follow(args: &Args, sources: Vec<Source>, missing: &mut Missing) -> anyhow::Result<()> {
    let query = args.query();
    let (sender, mut told) = mpsc::channel(1_024);
    for source in sources.into_iter().filter(|source| !source.is_read) {
        let client = args.remote.client()?;
        let path = format!("{}?follow=true{query}", source.path);
        tokio::spawn(follow_one(client, source, path, sender.clone()));
    }
    drop(sender);
    while let Some(told) = told.recv().await {
        match told {
            Told::Line(index, line) => print(args, index, &line)?,
            Told::Missing(source, error) => missing.heard(&source, &error),
            Told::Failed(error) => return Err(error),
        }
    }
    Ok(())
}

/// What is heard of a log that is followed.
enum Told {
    Line(Option<u32>, LogLine),
    /// It cannot be had, and others may be.
    Missing(Source, ClientError),
    Failed(anyhow::Error),
}

/// How a server says that it cannot go on with a log.
#[derive(serde::Deserialize)]
struct Ended {
    error: Refused,
}

/// Reads one log until no more will come; goes on where it was when the server is back.
async fn follow_one(
    mut client: Client,
    mut source: Source,
    path: String,
    told: mpsc::Sender<Told>,
) {
    let mut patience = Patience::default();
    loop {
        let error = match client.lines(&format!("{path}&after={}", source.after)).await {
            Ok(mut lines) => loop {
                patience.heard();
                match lines.next().await {
                    Ok(Some(line)) => match serde_json::from_slice::<LogLine>(&line) {
                        Ok(line) => {
                            source.after = after(&line);
                            if told.send(Told::Line(source.index, line)).await.is_err() {
                                return;
                            }
                        }
                        Err(_) => match serde_json::from_slice::<Ended>(&line) {
                            Ok(Ended { error }) => break error.into(),
                            Err(_) => out::warning(&String::from_utf8_lossy(&line)),
                        },
                    },
                    Ok(None) => return,
                    Err(error) => break error,
                }
            },
            Err(error) => error,
        };
        let ended = if is_of_one(&source, &error) {
            Told::Missing(source, error)
        } else if let Err(error) = patience.bear(error).await {
            Told::Failed(error)
        } else {
            continue;
        };
        // Whoever listened may have gone.
        drop(told.send(ended).await);
        return;
    }
}

/// A line, and of which instance it is.
#[derive(serde::Serialize)]
struct Indexed<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    index: Option<u32>,
    #[serde(flatten)]
    line: &'a LogLine,
}

fn print(args: &Args, index: Option<u32>, line: &LogLine) -> anyhow::Result<()> {
    let mut text = if args.json {
        serde_json::to_vec(&Indexed { index, line })?
    } else {
        let mut text = index.map(|index| format!("[{index}] ")).unwrap_or_default().into_bytes();
        if let Some(count) = line.missing {
            text.extend(format!("… {count} lines are missing here").bytes());
        } else {
            if args.times {
                text.extend(format!("{} ", line.at).bytes());
            }
            match &line.bytes {
                Some(digits) => text.extend(unhex(digits)),
                None => text.extend_from_slice(line.text.as_bytes()),
            }
        }
        text
    };
    text.push(b'\n');
    let mut stdout = io::stdout().lock();
    match stdout.write_all(&text).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Err(exit::silent(0)),
        written => written.context("cannot write to standard output"),
    }
}
