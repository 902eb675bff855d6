//! `sterna bench cron`: the next firing, beside the other cron crates in the same run.

use std::{collections::BTreeMap, hint::black_box};

use anyhow::Context;
use serde_json::{Value, json};
use sterna_cron::{Item, Line, Pattern, Reading, StatefulItem, Time, Timekeeper, Uptime, Zone};

use super::report::{Report, rounded};
use crate::{clock, out};

mod hard;
#[cfg(feature = "bench-peers")]
mod peers;

const ZONE: &str = "America/Los_Angeles";
const PATTERNS: [&str; 4] = ["0 10 * * 2", "*/5 * * * *", "0 0 29 2 *", "30 2 10 3 *"];
/// From 2020 on, over twenty years.
const FIRST: i64 = 1_577_836_800;
const SPAN: i64 = 20 * 365 * 86_400;

/// Measure how long the next firing of a pattern takes to find
///
/// Four patterns in America/Los_Angeles, from random moments over twenty years; in nanoseconds, the
/// best of all rounds. With the feature bench-peers the crates croner and cron are measured in
/// turn with ours.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// How often everything is measured
    #[arg(long, default_value_t = 15, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
    /// From how many moments
    #[arg(long, default_value_t = 20_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    starts: u32,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: Args) -> anyhow::Result<()> {
    let report = measure(&args)?;
    let text = if args.json { report.json("cron").to_string() } else { table(&report) };
    out::answer(&text)?;
    Ok(())
}

/// Nanoseconds by name of the crate, then by pattern; the best of all rounds.
type Best = BTreeMap<&'static str, BTreeMap<&'static str, f64>>;

fn measure(args: &Args) -> anyhow::Result<Report> {
    let zone: Zone = ZONE.parse()?;
    let starts = starts(args.starts);
    let lines: Vec<Line> = PATTERNS.iter().map(|line| line.parse()).collect::<Result<_, _>>()?;
    let mut best = Best::new();
    #[cfg(feature = "bench-peers")]
    let peers = peers::Peers::new(&PATTERNS, &starts)?;
    for _ in 0..args.rounds {
        for (name, line) in PATTERNS.iter().zip(&lines) {
            let taken = mean(&starts, |from| line.pattern().next(&zone, from));
            note(&mut best, "sterna", name, taken);
        }
        #[cfg(feature = "bench-peers")]
        peers.round(&mut best);
    }
    let beside = beside_changes(&zone, args.starts);
    let mut transition = f64::INFINITY;
    for _ in 0..args.rounds {
        let slowest = lines
            .iter()
            .map(|line| mean(&beside, |from| line.pattern().next(&zone, from)))
            .fold(0.0, f64::max);
        transition = transition.min(slowest);
    }
    let few = |moments: &[Time]| moments[..moments.len().min(500)].to_vec();
    let worst = worst(&zone, &lines, &few(&starts), &few(&beside))?;
    let mut report = report(&best, transition, worst);
    report.figures.insert("year_jump_ns".to_owned(), rounded(year_jump(&zone, args.rounds)?));
    Ok(report)
}

fn report(best: &Best, transition: f64, worst: f64) -> Report {
    let mut report = Report::default();
    for (name, by_pattern) in best {
        let figures: BTreeMap<_, _> =
            by_pattern.iter().map(|(pattern, ns)| (*pattern, rounded(*ns))).collect();
        report.figures.insert((*name).to_owned(), json!(figures));
    }
    report.figures.insert("transition_ns".to_owned(), rounded(transition));
    report.figures.insert("worst_ns".to_owned(), rounded(worst));
    let ratios: BTreeMap<&str, _> = PATTERNS
        .iter()
        .filter_map(|pattern| {
            let peers = best.iter().filter(|(name, _)| **name != "sterna");
            let peer = peers.filter_map(|(_, by)| by.get(pattern)).copied().reduce(f64::min)?;
            Some((*pattern, rounded(peer / best.get("sterna")?.get(pattern)?)))
        })
        .collect();
    report.ratios.insert("vs_best_peer".to_owned(), json!(ratios));
    report
}

fn note(best: &mut Best, name: &'static str, pattern: &'static str, taken: f64) {
    let slot = best.entry(name).or_default().entry(pattern).or_insert(f64::INFINITY);
    *slot = slot.min(taken);
}

/// Nanoseconds of one call, over all starts.
fn mean<S: Copy, T>(starts: &[S], mut next: impl FnMut(S) -> T) -> f64 {
    let begun = clock::instant();
    for from in starts {
        black_box(next(black_box(*from)));
    }
    begun.elapsed().as_secs_f64() * 1e9 / starts.len() as f64
}

/// The slowest single question: of the lines here, of items known to be hard, and of random ones.
fn worst(zone: &Zone, lines: &[Line], starts: &[Time], beside: &[Time]) -> anyhow::Result<f64> {
    let mut worst: f64 = 0.0;
    for line in lines {
        worst = worst.max(slowest(line.pattern(), zone, starts.iter().chain(beside)));
    }
    for (name, item) in hard::KNOWN {
        let item: Item = serde_json::from_str(item).context("an item of the bench is refused")?;
        let moments = starts.iter().chain(beside);
        worst = worst.max(slowest(item.pattern(), &name.parse()?, moments));
    }
    let zones: Vec<Zone> = hard::ZONES.iter().map(|name| name.parse()).collect::<Result<_, _>>()?;
    let mut seed = 11;
    for from in starts {
        // Some of what is made up can never fire, and is refused.
        let Ok(item) = serde_json::from_str::<Item>(&hard::item(&mut seed)) else { continue };
        for zone in &zones {
            worst = worst.max(slowest(item.pattern(), zone, [from]));
        }
    }
    Ok(worst)
}

/// Each question is asked several times, to leave the machine's own pauses out.
fn slowest<'a>(pattern: &Pattern, zone: &Zone, from: impl IntoIterator<Item = &'a Time>) -> f64 {
    let fastest = |from: &Time| {
        let ask = |_| mean(&[*from], |from| pattern.next(zone, from));
        (0..7).map(ask).fold(f64::INFINITY, f64::min)
    };
    from.into_iter().map(fastest).fold(0.0, f64::max)
}

/// The clock of a minutely item with a limit of two hours is set forward by a year.
fn year_jump(zone: &Zone, rounds: u32) -> anyhow::Result<f64> {
    let item: StatefulItem = serde_json::from_str(
        r#"{"minute": {}, "dst_fixes": ["skip", "repeat_use_both"],
            "max_shift_seconds_for_unskip_and_do_not_repeat": 7200}"#,
    )?;
    let at =
        |epoch| Reading { system: Time::from_epoch(epoch), monotonic: Uptime::from_seconds(0) };
    let mut best = f64::INFINITY;
    for _ in 0..rounds {
        let mut keeper = Timekeeper::new(item.clone(), zone.clone(), 60, at(FIRST));
        let mut decisions = Vec::new();
        let taken = mean(&[FIRST + 365 * 86_400], |later| keeper.step(at(later), &mut decisions));
        best = best.min(taken);
    }
    Ok(best)
}

/// The same numbers in every run: two runs measure the same work.
fn random(seed: &mut u64) -> i64 {
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    (*seed >> 1).cast_signed()
}

fn starts(count: u32) -> Vec<Time> {
    let mut seed = 42;
    (0..count).map(|_| Time::from_epoch(FIRST + random(&mut seed) % SPAN)).collect()
}

/// Moments within a day of a change of the clock.
fn beside_changes(zone: &Zone, count: u32) -> Vec<Time> {
    let offset = |at: i64| zone.offset_seconds(Time::from_epoch(at));
    let hours = (FIRST..FIRST + SPAN).step_by(3600);
    let changes: Vec<i64> = hours.filter(|at| offset(*at) != offset(at - 3600)).collect();
    let mut seed = 7;
    (0..count)
        .map(|i| {
            let change = changes[i as usize % changes.len()];
            Time::from_epoch(change + random(&mut seed) % 172_800 - 86_400)
        })
        .collect()
}

fn table(report: &Report) -> String {
    let shown = |value: &Value| match value.as_f64() {
        Some(number) => format!("{number}"),
        None => "-".to_owned(),
    };
    let crates: Vec<_> = ["sterna", "cron", "croner"]
        .into_iter()
        .filter(|name| report.figures.contains_key(*name))
        .collect();
    let mut text = format!("{:<16}", "ns per question");
    for name in &crates {
        text += &format!("{name:>10}");
    }
    text += &format!("{:>14}\n", "x best peer");
    for pattern in PATTERNS {
        text += &format!("{pattern:<16}");
        for name in &crates {
            text += &format!("{:>10}", shown(&report.figures[*name][pattern]));
        }
        text += &format!("{:>14}\n", shown(&report.ratios["vs_best_peer"][pattern]));
    }
    let figure = |name: &str| shown(report.figures.get(name).unwrap_or(&Value::Null));
    text += &format!("beside a change of the clock: {} ns\n", figure("transition_ns"));
    text += &format!("the slowest question of all: {} ns\n", figure("worst_ns"));
    text += &format!("a year's jump, minutely, with a memory: {} ns", figure("year_jump_ns"));
    if crates.len() == 1 {
        text +=
            "\nbuild with --features bench-peers to measure the crates cron and croner beside it";
    }
    text
}
