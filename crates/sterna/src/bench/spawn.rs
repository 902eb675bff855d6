//! `sterna bench spawn`: what a process costs, bare and with every step of isolation.

use std::{io, path::PathBuf};

use anyhow::Context;
use serde_json::Value;
use sterna_worker::bench::{AT_A_TIME, Ground, Step, bare};

use super::report::{Report, median, rounded};
use crate::{clock, out};

/// Measure how many processes a worker starts and ends in a second
///
/// Two at a time, /bin/true: as a bare loop of posix_spawn and wait, and under a guardian with one
/// step of isolation after the other: the guardian itself, a process group, a cgroup, a whole
/// container with pipes and captured output (isolated), and one with limits of processor time,
/// memory and processes (limited). Best run as root; what the machine lacks is named.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// How many processes a round has
    #[arg(long, default_value_t = 2_000, value_parser = clap::value_parser!(u32).range(10..=1_000_000))]
    count: u32,
    /// How often everything is measured, in turn; the middle one counts
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
    /// Where the worker of the bench keeps its files; removed at the end
    #[arg(long)]
    data: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: Args) -> anyhow::Result<()> {
    let name = format!("sterna-bench-spawn-{}", std::process::id());
    let path = args.data.unwrap_or_else(|| std::env::temp_dir().join(name));
    anyhow::ensure!(!path.exists(), "{} is there already: name another place", path.display());
    let mut ground = Ground::new(&path).context("cannot begin the bench")?;
    for missing in ground.missing() {
        out::warning(&missing);
    }
    let report = measure(&mut ground, args.count, args.rounds)?;
    let text = if args.json { report.json("spawn").to_string() } else { table(&report) };
    out::answer(&text)?;
    Ok(())
}

fn measure(ground: &mut Ground, count: u32, rounds: u32) -> anyhow::Result<Report> {
    let mut bares = Vec::new();
    let mut steps = vec![Vec::new(); Step::ALL.len()];
    let progress = out::Progress::new();
    for round in 1..=rounds {
        progress.say(&format!("round {round} of {rounds}"));
        bares.push(per_second(count, &mut || bare(count))?);
        for (step, found) in Step::ALL.into_iter().zip(&mut steps) {
            let measured = ground.run(step, count, |play| per_second(count, play));
            found.push(measured.context(step.name())??);
        }
    }
    let mut report = Report::default();
    let floor = median(bares);
    report.figures.insert("bare_per_s".to_owned(), rounded(floor));
    report.floor.insert("bare_per_s".to_owned(), rounded(floor));
    for (step, found) in Step::ALL.into_iter().zip(steps) {
        let figure = median(found);
        report.figures.insert(format!("{}_per_s", step.name()), rounded(figure));
        report.ratios.insert(format!("{}_over_bare", step.name()), rounded(figure / floor));
    }
    Ok(report)
}

fn per_second(count: u32, play: &mut dyn FnMut() -> io::Result<()>) -> anyhow::Result<f64> {
    let begun = clock::instant();
    play()?;
    Ok(f64::from(count) / begun.elapsed().as_secs_f64())
}

fn table(report: &Report) -> String {
    let shown = |value: Option<&Value>| {
        value.and_then(Value::as_f64).map_or("-".to_owned(), |figure| format!("{figure}"))
    };
    let mut text =
        format!("{:<12}{:>12}{:>12}", format!("{AT_A_TIME} at a time"), "per s", "of bare");
    let bare = shown(report.figures.get("bare_per_s"));
    text += &format!("\n{:<12}{bare:>12}{:>12}", "bare", 1);
    for step in Step::ALL {
        let figure = shown(report.figures.get(&format!("{}_per_s", step.name())));
        let ratio = shown(report.ratios.get(&format!("{}_over_bare", step.name())));
        text += &format!("\n{:<12}{figure:>12}{ratio:>12}", step.name());
    }
    text
}
