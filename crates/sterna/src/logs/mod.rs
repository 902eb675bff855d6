//! `sterna logs`: what a task, an instance, or every instance of a service wrote. `follow` goes on as more
//! comes.
//!
//! Invariant: only a page of each log is held.

mod follow;
mod sheet;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use sterna_api::{
    client::{Client, ClientError},
    rest::{Code, InstanceView, KeptLog, LogLine, LogPage, Page},
};
use sterna_model::{Kind, Name, RunId, Selector, Span, Target, WallTime, WorkKey};

use self::{follow::Following, sheet::Sheet};
use crate::{
    clock, exit, out,
    remote::{Remote, all, failed, named, resolve, wait},
    run::after,
    show::{escaped, path_of},
};

/// Show the logs of a task, an instance, or every instance of a service
///
/// For a service, lines of all instances are ordered by time and prefixed with the index. With --follow it
/// includes later runs and instances, until the service is deleted. If a worker does not answer, it shows
/// the lines of the others and exits with 75.
///
/// If an instance has crashed, or restarted elsewhere without output yet, it shows the lines of the previous
/// run, with a note. --previous shows only that run.
///
/// After a deletion or a scale-down it shows the logs that workers still keep. It also reads the log of one
/// run by its id, as `sterna events` shows it.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// [KIND/]NAME[/INDEX], a run id, or last
    selector: String,
    /// Keep printing new lines until the run is over
    #[arg(long, short)]
    follow: bool,
    /// Only the last completed run of an instance
    #[arg(long, short, conflicts_with = "follow")]
    previous: bool,
    /// Only the last COUNT lines
    #[arg(long, short = 'n', value_name = "COUNT", visible_alias = "tail", allow_negative_numbers = true, value_parser = count)]
    last: Option<usize>,
    /// Only lines since this time, as in 10m or 2026-01-01T00:00:00Z
    #[arg(long, value_name = "TIME", value_parser = since)]
    since: Option<WallTime>,
    /// Only lines from this number on; for an instance, of its current or last run
    #[arg(long, value_name = "NUMBER", allow_negative_numbers = true, value_parser = line, conflicts_with_all = ["since", "last"])]
    line: Option<u64>,
    /// Only lines that match this regular expression
    #[arg(long, value_name = "REGEX", value_parser = pattern)]
    matching: Option<String>,
    /// Only lines of one stream
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

pub(crate) fn since(text: &str) -> Result<WallTime, String> {
    if let Ok(span) = text.parse::<Span>() {
        return Ok(clock::wall_time().minus(span));
    }
    let read = text.parse::<WallTime>();
    read.map_err(|_| {
        "write how long ago, as in 10m, or when, as in 2026-01-01T00:00:00Z".to_owned()
    })
}

/// Told before anybody is asked: a server does not say where a pattern is wrong.
fn pattern(text: &str) -> Result<String, String> {
    let told = |error: regex::Error| {
        let error = error.to_string();
        let why = error.lines().last().unwrap_or_default();
        let why = why.strip_prefix("error: ").unwrap_or(why);
        format!("{why}; put a backslash before a literal sign, as in \\( or \\.")
    };
    regex::bytes::Regex::new(text).map(|_| text.to_owned()).map_err(told)
}

fn line(text: &str) -> Result<u64, String> {
    let number = text.parse().ok().filter(|number| *number > 0);
    number.ok_or_else(|| "write the number of a line: a whole number from 1 on".to_owned())
}

impl Args {
    /// Where it is to begin, for who reads on from there.
    fn begin(&self) -> String {
        let since = self.since.map(|since| format!("&since={}", escaped(&since.to_string())));
        let line = self.line.map(|line| format!("&line={line}"));
        since.or(line).unwrap_or_default()
    }

    /// What is said of every question.
    fn query(&self) -> String {
        let mut query =
            if self.stream.is_some() { String::new() } else { "&stream=output".to_owned() };
        for (name, value) in [("matching", &self.matching), ("stream", &self.stream)] {
            if let Some(value) = value {
                query += &format!("&{name}={}", escaped(value));
            }
        }
        if self.previous {
            query += "&previous=true";
        }
        query
    }
}

pub(crate) fn run(args: Args) -> anyhow::Result<()> {
    wait(async {
        let mut client = args.remote.client()?;
        let meant = Meant::find(&mut client, &args).await?;
        meant.check(&args)?;
        let Meant { target, mut sources } = meant;
        let (mut missing, mut sheet) = (Missing::default(), Sheet::new(&args));
        if let Some(count) = args.last {
            for (index, line) in last(&mut client, &args, &mut sources, count, &mut missing).await?
            {
                sheet.write(index, &line)?;
            }
        }
        if args.follow {
            let following = Following::new(&args, target.as_ref(), &mut sheet)?;
            following.go_on(&mut client, sources, &mut missing).await?;
        } else if args.last.is_none() {
            show(&mut client, &mut sources, &mut sheet, &mut missing).await?;
        }
        sheet.close()?;
        missing.tell()
    })
}

/// What is meant, and the logs of it.
struct Meant {
    /// `None` where one run is meant, or what is there no more.
    target: Option<Target>,
    sources: Vec<Source>,
}

impl Meant {
    async fn find(client: &mut Client, args: &Args) -> anyhow::Result<Self> {
        if let Ok(run) = args.selector.parse::<RunId>() {
            let path = format!("/v1/runs/{run}/logs");
            return Ok(Self { target: None, sources: vec![Source { path, ..Source::default() }] });
        }
        match resolve(client, &args.remote, &args.selector).await {
            Ok(target) => {
                let sources = sources(client, args, &target).await?;
                Ok(Self { target: Some(target), sources })
            }
            // It may have been there, and then a worker keeps what it wrote.
            Err(error) => match kept(client, args).await? {
                Some(sources) => Ok(Self { target: None, sources }),
                None => Err(error),
            },
        }
    }

    /// Whether what is asked for makes sense of it.
    fn check(&self, args: &Args) -> anyhow::Result<()> {
        let usage = |text: String| Err(exit::coded(exit::USAGE)(anyhow::anyhow!(text)));
        if let (Some(_), Some(Target::Whole { kind: Kind::Service, name })) =
            (args.line, &self.target)
        {
            return usage(format!(
                "--line: the lines of each instance are counted by themselves; name one, as {name}/0"
            ));
        }
        if let (true, Some(Target::Whole { kind: Kind::Task, name })) =
            (args.previous, &self.target)
        {
            return usage(format!(
                "--previous: a task has one run, and this is for instances, as web/0; leave it out, as in \
                 sterna logs {name}"
            ));
        }
        Ok(())
    }
}

/// The logs that workers keep of something of which there is no record any more; `None` if they keep none.
async fn kept(client: &mut Client, args: &Args) -> anyhow::Result<Option<Vec<Source>>> {
    let Some(name) = named(&args.selector) else { return Ok(None) };
    let path = args.remote.path(&format!("logs?name={name}"));
    let logs: Page<KeptLog> = match client.get(&path).await {
        Ok(logs) => logs,
        // A server of before does not know that call.
        Err(ClientError::Refused(_)) => return Ok(None),
        Err(error) => return Err(failed(error)),
    };
    let keys: Vec<WorkKey> = logs.items.iter().filter_map(|log| log.key.parse().ok()).collect();
    let kinds: BTreeSet<Kind> = keys.iter().map(WorkKey::kind).collect();
    let Ok(selector) = args.selector.parse::<Selector>() else { return Ok(None) };
    let names = kinds.iter().map(|kind| (*kind, &name));
    let Ok(target) = selector.resolve(&args.remote.namespace()?, None, names) else {
        return Ok(None);
    };
    let Target::Whole { kind: Kind::Service, .. } = target else {
        let path = path_of(&args.remote, &target, "/logs")?;
        return Ok(Some(vec![Source { path, ..Source::default() }]));
    };
    let indices: Vec<u32> =
        keys.iter().filter_map(WorkKey::instance).map(|key| key.index).collect();
    let is_one = indices.len() == 1;
    let of = |index: u32| Source {
        index: (!is_one).then_some(index),
        ..Source::instance(&args.remote, &name, index)
    };
    Ok(Some(indices.into_iter().map(of).collect()))
}

/// One log, as far as it was read.
#[derive(Debug, Default)]
struct Source {
    /// Which instance, where several are shown.
    index: Option<u32>,
    /// Which instance, where a service is meant.
    number: Option<u32>,
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
    /// Whose lines those are, as was said last.
    note: Option<String>,
}

impl Source {
    /// One instance of a service.
    fn instance(remote: &Remote, service: &Name, index: u32) -> Self {
        Self {
            number: Some(index),
            name: Some(format!("{service}/{index}")),
            path: remote.path(&format!("services/{service}/instances/{index}/logs")),
            ..Self::default()
        }
    }

    /// Says whose lines come, once.
    fn note(&mut self, note: Option<String>) {
        if let Some(note) = note
            && self.note.as_ref() != Some(&note)
        {
            let name = self.name.as_ref().map(|name| format!("{name}: ")).unwrap_or_default();
            out::note(&format!("{name}{note}"));
            self.note = Some(note);
        }
    }
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
            Ok(mut page) => {
                source.note(page.note.take());
                Ok(Some(page))
            }
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
    let Target::Whole { kind: Kind::Service, name } = target else {
        let path = path_of(&args.remote, target, "/logs")?;
        return Ok(vec![Source { path, ..Source::default() }]);
    };
    let path = args.remote.path(&format!("services/{name}/instances"));
    let instances: Vec<InstanceView> = all(client, &path).await?;
    let is_one = instances.len() == 1;
    let of = |it: &InstanceView| Source {
        index: (!is_one).then_some(it.index),
        worker: it.worker.clone(),
        ..Source::instance(&args.remote, name, it.index)
    };
    Ok(instances.iter().map(of).collect())
}

/// Shows all lines that there are.
async fn show(
    client: &mut Client,
    sources: &mut [Source],
    sheet: &mut Sheet<'_>,
    missing: &mut Missing,
) -> anyhow::Result<()> {
    while let Some((index, line)) = next(client, sources, sheet, missing).await? {
        sheet.write(index, &line)?;
    }
    Ok(())
}

/// What goes on with the line that was shown last, or the oldest line of all that were not shown. Only a
/// page of each log is held.
async fn next(
    client: &mut Client,
    sources: &mut [Source],
    sheet: &Sheet<'_>,
    missing: &mut Missing,
) -> anyhow::Result<Option<(Option<u32>, LogLine)>> {
    let query = sheet.args.query() + &sheet.args.begin();
    for source in sources.iter_mut() {
        while source.lines.is_empty() && !source.is_read {
            let query = format!("after={}{query}", source.after);
            let Some(page) = missing.page(client, source, &query).await? else { break };
            source.lines.extend(page.lines);
            source.after = page.next;
            source.is_read = page.more != "now";
        }
    }
    let is_later = |source: &Source| {
        !source.lines.front().is_some_and(|line| sheet.goes_on_in(source.index, line))
    };
    let oldest = sources
        .iter_mut()
        .filter(|source| !source.lines.is_empty())
        .min_by(|one, two| (is_later(one), at(one)).cmp(&(is_later(two), at(two))));
    Ok(oldest.and_then(|source| Some((source.index, source.lines.pop_front()?))))
}

/// By when, and then by which instance: all times are written alike.
fn at(source: &Source) -> (Option<&str>, Option<u32>) {
    (source.lines.front().map(|line| line.at.as_str()), source.index)
}

/// The last lines of all; leaves each log where it is to go on.
async fn last(
    client: &mut Client,
    args: &Args,
    sources: &mut [Source],
    count: usize,
    missing: &mut Missing,
) -> anyhow::Result<Vec<(Option<u32>, LogLine)>> {
    let query = args.query();
    let mut lines = Vec::new();
    for source in sources.iter_mut() {
        let (mut found, mut at) = (Vec::new(), String::new());
        // A page has a thousand at most, and fewer if they are long or hard to find.
        while !source.is_read {
            let limit = count.saturating_sub(found.len()).clamp(1, 1_000);
            let query = format!("direction=backward&limit={limit}&after={at}{query}");
            let Some(page) = missing.page(client, source, &query).await? else { break };
            let before = found.len();
            let (read, is_early) = (page.lines.len(), |line: &LogLine| is_before(args, line));
            found.extend(page.lines.into_iter().take_while(|line| !is_early(line)));
            let is_cut = found.len() < before + read;
            at = page.next;
            if page.more != "now" || found.len() >= count || is_cut {
                break;
            }
        }
        // From there on, forward.
        if let Some(line) = found.first() {
            source.after = after(line);
        }
        let begun = begun(found.into_iter().rev());
        lines.extend(begun.into_iter().map(|(at, line)| (at, source.index, line)));
    }
    // Stable: lines of one moment stay in their order, and pieces behind each other.
    lines.sort_by(|(one, index, _), (two, other, _)| (one, index).cmp(&(two, other)));
    let before = lines.len().saturating_sub(count);
    Ok(lines.into_iter().skip(before).map(|(_, index, line)| (index, line)).collect())
}

/// Each with the time at which its line began, of which it may be a later piece.
fn begun(lines: impl Iterator<Item = LogLine>) -> Vec<(String, LogLine)> {
    let mut open: BTreeMap<(String, String), String> = BTreeMap::new();
    let begun = lines.map(|line| {
        let key = (line.run.clone(), line.stream.clone());
        let at = open.remove(&key).unwrap_or_else(|| line.at.clone());
        if line.is_cut {
            open.insert(key, at.clone());
        }
        (at, line)
    });
    begun.collect()
}

/// Whether a line is older than those that are asked for. What is missing has no time.
fn is_before(args: &Args, line: &LogLine) -> bool {
    let at = line.at.parse::<WallTime>().ok();
    line.missing.is_none() && args.since.zip(at).is_some_and(|(since, at)| at < since)
}
