//! `sterna cron next`: when a pattern fires.

use std::io::{self, BufRead};

use anyhow::{Context, anyhow};
use serde_json::{Value, json};
use sterna_cron::{Firing, Pattern, Time, Why, Zone};

use super::query::{Asked, COUNT_MAX, LINE_BYTES_MAX, LineQuery, Query, Zones};
use crate::{
    clock,
    out::{self, Heard},
};

/// Print the next firings of a pattern, with the reason where a clock change moves them
///
/// Each firing is a line: local time with its offset, weekday, seconds since 1970, and a reason
/// where a rule about jumping clocks had a part in it.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    asked: Asked,
    /// How many firings
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=COUNT_MAX))]
    count: u64,
    /// Print an array of seconds since 1970
    #[arg(long)]
    json: bool,
    /// Answer queries from stdin, one JSON object a line: item or line, timezone, from_epoch,
    /// count, and dst_fixes or policy
    #[arg(long, conflicts_with_all = ["item", "line", "tz", "from", "dst", "count", "json"])]
    jsonl: bool,
}

pub(crate) fn run(args: Args) -> anyhow::Result<()> {
    let mut zones = Zones::new(args.asked.system_zones)?;
    if args.jsonl {
        return answer_lines(&mut zones);
    }
    let query = args.asked.resolve(&mut zones)?;
    let text = if args.json {
        let (epochs, _) = epochs(&query.pattern, &query.zone, query.from, args.count);
        json!(epochs).to_string()
    } else {
        table(&query, args.count)
    };
    out::answer(&text)?;
    Ok(())
}

/// The first firings, and whether there were fewer than asked for.
fn epochs(pattern: &Pattern, zone: &Zone, from: Time, count: u64) -> (Vec<i64>, bool) {
    let mut firings = pattern.firings(zone, from);
    let epochs: Vec<_> = (0..count).map_while(|_| firings.next()).map(Time::epoch).collect();
    let exhausted = (epochs.len() as u64) < count;
    (epochs, exhausted)
}

fn table(query: &Query, count: u64) -> String {
    let Query { pattern, zone, from } = query;
    let mut lines = Vec::new();
    let skipped = |from, until| {
        let jump = pattern.skipped(zone, from, until)?;
        Some(format!("{}  the clock jumps here, over a match: skipped", zone.format(jump)))
    };
    let mut from = Some(*from);
    for _ in 0..count {
        let Some(start) = from else { break };
        let firing = pattern.next_firing(zone, start);
        let until = firing.map_or(Time::from_epoch(i64::MAX), |firing| firing.at);
        lines.extend(skipped(start, until));
        lines.extend(firing.map(|firing| row(zone, firing)));
        from = firing.and_then(|firing| firing.at.epoch().checked_add(1)).map(Time::from_epoch);
    }
    if from.and_then(|from| pattern.next(zone, from)).is_none() {
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

/// Answers each line on its own; a bad one gets an error and the next is read.
fn answer_lines(zones: &mut Zones) -> anyhow::Result<()> {
    let mut stdin = io::stdin().lock();
    let mut line = Vec::new();
    loop {
        line.clear();
        // One byte more than is allowed tells a line that is too long.
        let mut part = io::Read::take(&mut stdin, LINE_BYTES_MAX + 1);
        if part.read_until(b'\n', &mut line).context("standard input cannot be read")? == 0 {
            return Ok(());
        }
        if line.iter().all(u8::is_ascii_whitespace) {
            continue;
        }
        let answer = if line.len() as u64 > LINE_BYTES_MAX && !line.ends_with(b"\n") {
            stdin.skip_until(b'\n').context("standard input cannot be read")?;
            Err(anyhow!("the query is too long; at most {LINE_BYTES_MAX} bytes are read"))
        } else {
            zones.refresh(clock::instant());
            answer(&line, zones)
        };
        let answer = answer.unwrap_or_else(|error| json!({"error": format!("{error:#}")}));
        // Flushed each time: whoever asks one at a time waits for the answer.
        if out::answer(&answer.to_string())? == Heard::NoMore {
            return Ok(());
        }
    }
}

fn answer(line: &[u8], zones: &mut Zones) -> anyhow::Result<Value> {
    let line = std::str::from_utf8(line).context("the query is not UTF-8")?;
    let query = LineQuery::read(line)?;
    let (pattern, zone) = query.source.resolve(zones)?;
    let (epochs, exhausted) = epochs(&pattern, &zone, query.from, query.count);
    Ok(json!({"epochs": epochs, "exhausted": exhausted}))
}
