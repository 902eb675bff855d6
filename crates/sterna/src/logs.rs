//! `sterna logs`: what a task, an instance, or every instance of a service wrote.

use std::{
    collections::VecDeque,
    io::{self, Write},
};

use anyhow::Context;
use sterna_api::{
    client::Client,
    rest::{InstanceView, LogLine, LogPage},
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
/// it. With --follow those are followed that there are when it begins.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// [KIND/]NAME[/INDEX], or last
    selector: String,
    /// Go on as more comes, until the run is over
    #[arg(long, short)]
    follow: bool,
    /// Only the last so many lines
    #[arg(long, short = 'n', value_name = "COUNT", visible_alias = "tail")]
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
        if let Some(count) = args.last {
            last(&mut client, &args, &mut sources, count).await?;
            if !args.follow {
                return Ok(());
            }
        }
        if args.follow {
            return follow(&args, sources).await;
        }
        while let Some((index, line)) = next(&mut client, &args, &mut sources).await? {
            print(&args, index, &line)?;
        }
        Ok(())
    })
}

/// One log, as far as it was read.
#[derive(Debug)]
struct Source {
    /// Which instance, where several are shown.
    index: Option<u32>,
    path: String,
    /// Read and not shown yet.
    lines: VecDeque<LogLine>,
    after: String,
    is_read: bool,
}

/// The logs that are meant: one, or one for each instance.
async fn sources(client: &mut Client, args: &Args, target: &Target) -> anyhow::Result<Vec<Source>> {
    let source = |index, path| Source {
        index,
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
    let of = |it: &InstanceView| {
        source((!is_one).then_some(it.index), format!("{path}/{}/logs", it.index))
    };
    Ok(instances.iter().map(of).collect())
}

/// The oldest line of all that were not shown. Only a page of each log is held.
async fn next(
    client: &mut Client,
    args: &Args,
    sources: &mut [Source],
) -> anyhow::Result<Option<(Option<u32>, LogLine)>> {
    let query = args.query();
    for source in sources.iter_mut() {
        while source.lines.is_empty() && !source.is_read {
            let path = format!("{}?after={}{query}", source.path, source.after);
            let page: LogPage = client.get(&path).await.map_err(failed)?;
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
) -> anyhow::Result<()> {
    let query = args.query();
    let mut lines = Vec::new();
    for source in sources.iter_mut() {
        let limit = count.clamp(1, 1_000);
        let path = format!("{}?direction=backward&limit={limit}{query}", source.path);
        let page: LogPage = client.get(&path).await.map_err(failed)?;
        // From there on, forward.
        if let Some(line) = page.lines.first() {
            source.after = after(line);
        }
        lines.extend(page.lines.into_iter().rev().map(|line| (source.index, line)));
    }
    // Stable: lines of one moment stay in their order.
    lines.sort_by(|(_, one), (_, two)| one.at.cmp(&two.at));
    for (index, line) in lines.iter().skip(lines.len().saturating_sub(count)) {
        print(args, *index, line)?;
    }
    Ok(())
}

/// Shows lines of all logs as they come, until no more will.
async fn follow(args: &Args, sources: Vec<Source>) -> anyhow::Result<()> {
    let query = args.query();
    let (sender, mut lines) = mpsc::channel(1_024);
    for source in sources {
        let client = args.remote.client()?;
        let path = format!("{}?follow=true{query}", source.path);
        tokio::spawn(follow_one(client, source.index, path, source.after, sender.clone()));
    }
    drop(sender);
    while let Some(line) = lines.recv().await {
        let (index, line) = line?;
        print(args, index, &line)?;
    }
    Ok(())
}

type Told = anyhow::Result<(Option<u32>, LogLine)>;

/// Reads one log until no more will come; goes on where it was when the server is back.
async fn follow_one(
    mut client: Client,
    index: Option<u32>,
    path: String,
    mut place: String,
    told: mpsc::Sender<Told>,
) {
    let mut patience = Patience::default();
    loop {
        let error = match client.lines(&format!("{path}&after={place}")).await {
            Ok(mut lines) => loop {
                patience.heard();
                match lines.next().await {
                    Ok(Some(line)) => match serde_json::from_slice::<LogLine>(&line) {
                        Ok(line) => {
                            place = after(&line);
                            if told.send(Ok((index, line))).await.is_err() {
                                return;
                            }
                        }
                        Err(_) => out::warning(&String::from_utf8_lossy(&line)),
                    },
                    Ok(None) => return,
                    Err(error) => break error,
                }
            },
            Err(error) => error,
        };
        if let Err(error) = patience.bear(error).await {
            // Whoever listened has gone.
            drop(told.send(Err(error)).await);
            return;
        }
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
