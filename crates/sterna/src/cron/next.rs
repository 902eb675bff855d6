//! `sterna cron next`: when a pattern fires.

use std::io::{self, BufRead, Write};

use anyhow::{Context, bail};
use serde::Deserialize;
use serde_json::{Value, json};
use sterna_cron::{Firing, Pattern, Time, Why, Zone};

use super::query::{Asked, COUNT_MAX, Query, Source, Zones};
use crate::out;

/// Print the next firings of a pattern, and why they are where they are when clocks jump
///
/// Each firing is a line: local time with its offset, weekday, seconds since 1970, and a reason
/// where a rule about jumping clocks had a part in it.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    asked: Asked,
    /// How many firings
    #[arg(long, default_value_t = 5)]
    count: usize,
    /// Print an array of seconds since 1970
    #[arg(long)]
    json: bool,
    /// Answer queries from stdin, one JSON object a line: item or line, timezone, from_epoch,
    /// count, and dst_fixes or policy
    #[arg(long, conflicts_with_all = ["item", "line", "tz", "from", "dst", "json"])]
    jsonl: bool,
}

pub(crate) fn run(args: Args) -> anyhow::Result<()> {
    let mut zones = Zones::new(args.asked.system_zones)?;
    if args.jsonl {
        return answer_lines(&mut zones);
    }
    if args.asked.is_empty() {
        bail!("a pattern is missing: give --item JSON or --line LINE");
    }
    if args.count > COUNT_MAX {
        bail!("--count {} is too much; at most {COUNT_MAX}", args.count);
    }
    let query = args.asked.resolve(&mut zones)?;
    let text = if args.json {
        let (epochs, _) = epochs(&query.pattern, &query.zone, query.from, args.count);
        json!(epochs).to_string()
    } else {
        table(&query, args.count)
    };
    Ok(out::answer(&text)?)
}

/// The first firings, and whether there are no more.
fn epochs(pattern: &Pattern, zone: &Zone, from: Time, count: usize) -> (Vec<i64>, bool) {
    let mut firings = pattern.firings(zone, from);
    let epochs = firings.by_ref().take(count).map(Time::epoch).collect();
    (epochs, firings.next().is_none())
}

fn table(query: &Query, count: usize) -> String {
    let Query { pattern, zone, from } = query;
    let mut lines = Vec::new();
    let mut from = *from;
    for _ in 0..count {
        let Some(firing) = pattern.next_firing(zone, from) else { break };
        if let Some(jump) = pattern.skipped(zone, from, firing.at) {
            lines.push(format!(
                "{}  the clock jumps here, over a match: skipped",
                zone.format(jump)
            ));
        }
        lines.push(row(zone, firing));
        from = firing.at.plus_seconds(1);
    }
    if lines.is_empty() {
        lines.push("no more firings".to_owned());
    }
    lines.join("\n")
}

fn row(zone: &Zone, firing: Firing) -> String {
    let why = match firing.why {
        Why::Plain => "",
        Why::RepeatedEarly => "  the clock shows this time twice: the first",
        Why::RepeatedLate => "  the clock shows this time twice: the second",
        Why::BeforeGap => "  the clock jumps over the time asked for: the last second before",
        Why::AfterGap => "  the clock jumps over the time asked for: the first second after",
    };
    let local = zone.format(firing.at);
    let offset = zone.offset_seconds(firing.at);
    let day = (firing.at.epoch().saturating_add(offset)).div_euclid(86_400);
    let weekday = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"]
        [usize::try_from((day + 4).rem_euclid(7)).unwrap_or(0)];
    format!("{local}  {weekday}  {:>11}{why}", firing.at.epoch())
}

/// One query of many.
#[derive(Debug, Deserialize)]
struct LineQuery {
    #[serde(flatten)]
    source: Source,
    from_epoch: i64,
    #[serde(default = "one")]
    count: usize,
}

const fn one() -> usize {
    1
}

/// Answers each line on its own; a bad one gets an error and the next is read.
fn answer_lines(zones: &mut Zones) -> anyhow::Result<()> {
    let mut stdout = io::stdout().lock();
    for line in io::stdin().lock().lines() {
        let line = line.context("standard input cannot be read")?;
        if line.trim().is_empty() {
            continue;
        }
        let answer =
            answer(&line, zones).unwrap_or_else(|error| json!({"error": format!("{error:#}")}));
        writeln!(stdout, "{answer}")?;
        // Whoever asks one at a time waits for the answer.
        stdout.flush()?;
    }
    Ok(())
}

fn answer(line: &str, zones: &mut Zones) -> anyhow::Result<Value> {
    let query: LineQuery = serde_json::from_str(line)?;
    if query.count > COUNT_MAX {
        bail!("count: {} is too much; at most {COUNT_MAX}", query.count);
    }
    let (pattern, zone) = query.source.resolve(zones)?;
    let (epochs, exhausted) =
        epochs(&pattern, &zone, Time::from_epoch(query.from_epoch), query.count);
    Ok(json!({"epochs": epochs, "exhausted": exhausted}))
}
