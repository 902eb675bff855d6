//! `sterna sim`: the whole cluster in simulated time, with everything going wrong.

use std::{
    collections::BTreeMap,
    io::{self, Write},
    sync::{
        Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use anyhow::Context;
use serde::Serialize;
use sterna_sim::{Coverage, Options, Violation, plan::Planned, shrink};

use crate::{clock, out};

/// Simulate clusters under faults, and check every promise
///
/// Each seed is one cluster: servers, workers, guardians and containers run in simulated time, on a
/// network, a store and clocks that fail. The same seed gives the same history on any machine. A seed
/// that breaks a promise is made as short as it can be, and told with the command that replays it.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// How many seeds to play
    #[arg(long, value_name = "N", default_value_t = 200, conflicts_with = "seed", value_parser = clap::value_parser!(u64).range(1..))]
    seeds: u64,
    /// The first of them
    #[arg(long, value_name = "S", default_value_t = 0, conflicts_with = "seed")]
    from: u64,
    /// Play this seed alone
    #[arg(long, value_name = "S")]
    seed: Option<u64>,
    /// Tell everything that happens in it
    #[arg(long, requires = "seed")]
    trace: bool,
    /// Let only these of its faults happen, by their numbers, as a shortened plan names them; or none
    #[arg(long, value_name = "N,N", requires = "seed", value_parser = only)]
    only: Option<Only>,
    /// Draw what goes wrong in it, made as short as it can be if it breaks a promise
    #[arg(long, requires = "seed", conflicts_with_all = ["only", "trace"])]
    explain: bool,
    /// For how many simulated minutes things go wrong in each seed
    #[arg(long, value_name = "M", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=1_440))]
    minutes: u64,
    /// How many workers each cluster has
    #[arg(long, value_name = "W", default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=100))]
    workers: u64,
    /// Answer in JSON
    #[arg(long, conflicts_with_all = ["trace", "only", "explain"])]
    json: bool,
}

/// Which faults of a plan may happen, by their numbers.
#[derive(Clone, Debug)]
struct Only(Vec<usize>);

fn only(text: &str) -> Result<Only, String> {
    if text == "none" {
        return Ok(Only(Vec::new()));
    }
    let number = |word: &str| {
        word.parse().map_err(|_| format!("'{word}' is no number of a fault: write N,N or none"))
    };
    text.split(',').map(number).collect::<Result<_, _>>().map(Only)
}

#[derive(Debug, Serialize)]
struct Answer {
    seeds: u64,
    from: u64,
    minutes: u64,
    workers: usize,
    events: u64,
    starts: u64,
    /// The longest that any seed took to be well after its last fault.
    converged_ms_max: u64,
    faults: BTreeMap<&'static str, u64>,
    messages: BTreeMap<&'static str, u64>,
    turns: BTreeMap<&'static str, u64>,
    violations: BTreeMap<String, u64>,
    failed: Vec<Failed>,
}

#[derive(Debug, Serialize)]
struct Failed {
    seed: u64,
    promise: String,
    what: String,
    /// The command that plays it again.
    replay: String,
}

pub(crate) fn run(args: Args) -> anyhow::Result<()> {
    let workers = usize::try_from(args.workers).context("too many workers")?;
    let options = Options { minutes: args.minutes, workers };
    match args.seed {
        Some(seed) => {
            let plan = args.only.as_ref().map(|only| chosen(seed, &options, only)).transpose()?;
            match plan {
                plan if args.trace => trace(seed, &options, plan),
                Some(plan) => play_chosen(seed, &options, plan),
                None if args.explain => explain(seed, &options),
                None => many(&Args { seeds: 1, from: seed, ..args }, &options),
            }
        }
        None => {
            let last = args.from.checked_add(args.seeds - 1);
            last.context("there are not so many seeds: use a smaller --from or --seeds")?;
            many(&args, &options)
        }
    }
}

/// Says in which seed a panic was, when there is one.
struct Playing(u64);

impl Drop for Playing {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let seed = self.0;
            // Nobody listens, perhaps; the panic itself says more.
            drop(writeln!(
                io::stderr(),
                "in seed {seed}: see it by sterna sim --seed {seed} --trace"
            ));
        }
    }
}

fn many(args: &Args, options: &Options) -> anyhow::Result<()> {
    let progress = out::Progress::new();
    let next = AtomicU64::new(0);
    let total = Mutex::new((Coverage::default(), Vec::<(u64, Violation)>::new()));
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let began = clock::instant();
    std::thread::scope(|scope| {
        for _ in 0..cores {
            scope.spawn(|| {
                while let number = next.fetch_add(1, Ordering::Relaxed)
                    && number < args.seeds
                {
                    let seed = args.from.saturating_add(number);
                    let _playing = Playing(seed);
                    let report = sterna_sim::play(seed, options);
                    // A thread that panicked has said why; the counts of the others still hold.
                    let mut total = total.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                    total.0.add(&report.coverage);
                    total.1.extend(report.violation.map(|violation| (seed, violation)));
                    let failed = total.1.len();
                    drop(total);
                    let bar = progress.bar(number + 1, args.seeds);
                    progress.say(&(bar + &far(number + 1, args.seeds, failed, began.elapsed())));
                }
            });
        }
    });
    drop(progress);
    let (coverage, mut failed) =
        total.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    failed.sort_by_key(|(seed, _)| *seed);
    answer(args, options, &coverage, &failed, began.elapsed())
}

fn far(done: u64, seeds: u64, failed: usize, took: Duration) -> String {
    let left = took.as_secs_f64() / done.max(1) as f64 * seeds.saturating_sub(done) as f64;
    let failed = if failed == 0 { String::new() } else { format!(", {failed} broke a promise") };
    format!("{done} of {seeds} seeds, {left:.0} s left{failed}")
}

fn answer(
    args: &Args,
    options: &Options,
    coverage: &Coverage,
    failed: &[(u64, Violation)],
    took: Duration,
) -> anyhow::Result<()> {
    let mut violations = BTreeMap::new();
    for (_, violation) in failed {
        *violations.entry(violation.promise.to_string()).or_default() += 1;
    }
    let answer = Answer {
        seeds: args.seeds,
        from: args.from,
        minutes: options.minutes,
        workers: options.workers,
        events: coverage.events,
        starts: coverage.starts,
        converged_ms_max: coverage.converged_ms,
        faults: coverage.faults.clone(),
        messages: coverage.messages.clone(),
        turns: coverage.turns.clone(),
        violations,
        failed: failed
            .iter()
            .map(|(seed, violation)| Failed {
                seed: *seed,
                promise: violation.promise.to_string(),
                what: violation.to_string(),
                replay: format!(
                    "sterna sim --seed {seed} --minutes {} --workers {} --trace",
                    options.minutes, options.workers
                ),
            })
            .collect(),
    };
    if args.json {
        out::answer(&serde_json::to_string_pretty(&answer)?)?;
    } else {
        out::answer(&text(&answer, took))?;
        if let Some((seed, _)) = failed.first() {
            out::answer(&replay(*seed, options))?;
        }
    }
    if failed.is_empty() {
        return Ok(());
    }
    anyhow::bail!("{} of {} seeds broke a promise", failed.len(), args.seeds)
}

fn text(answer: &Answer, took: Duration) -> String {
    let Answer { seeds, from, events, starts, converged_ms_max, .. } = answer;
    let faults: u64 = answer.faults.values().sum();
    let mut text = format!(
        "{seeds} seeds from {from}, {} min each with {} workers, in {:.1} s\n\
         {events} events, {starts} containers started, {faults} faults of {} kinds\n\
         well again at most {:.1} s after the last fault",
        answer.minutes,
        answer.workers,
        took.as_secs_f64(),
        answer.faults.len(),
        Duration::from_millis(*converged_ms_max).as_secs_f64(),
    );
    for failed in &answer.failed {
        text += &format!("\nseed {}: {}", failed.seed, failed.what);
    }
    if answer.failed.is_empty() {
        text += "\nno promise was broken";
    }
    text
}

/// How many plans are tried to find a shorter one.
const TRIES: u32 = 600;

/// The shortest plan of a failing seed, and how to see it.
fn replay(seed: u64, options: &Options) -> String {
    let progress = out::Progress::new();
    progress.say(&format!("looking for the shortest plan that breaks seed {seed}"));
    let shrunk = shrink::shrink(seed, options, TRIES);
    drop(progress);
    let Some(shrunk) = shrunk else { return String::new() };
    let plan: Vec<String> = shrunk.plan.iter().map(Planned::to_string).collect();
    let all = sterna_sim::plan_of(seed, options);
    let is_kept = |(_, fault): &(usize, &Planned)| shrunk.plan.contains(fault);
    let only = all.iter().enumerate().filter(is_kept).map(|(number, _)| number.to_string());
    let only = only.collect::<Vec<_>>().join(",");
    let only = if only.is_empty() { "none".to_owned() } else { only };
    let Options { minutes, workers } = options;
    format!(
        "\nThis much is enough to break seed {seed} ({} plans were tried):\n{}\n{}\n\nReplay it:  \
         sterna sim --seed {seed} --minutes {minutes} --workers {workers} --only {only} --trace",
        shrunk.tried,
        plan.join("\n"),
        shrunk.violation
    )
}

fn trace(seed: u64, options: &Options, plan: Option<Vec<Planned>>) -> anyhow::Result<()> {
    let (lines, violation) = sterna_sim::trace(seed, options, plan);
    for line in lines {
        if out::answer(&line)? == out::Heard::NoMore {
            return Ok(());
        }
    }
    match violation {
        Some(violation) => {
            out::answer(&violation.to_string())?;
            anyhow::bail!("seed {seed} broke a promise")
        }
        None => Ok(()),
    }
}

/// Plays a seed with some of its faults alone, and says how it ended.
fn play_chosen(seed: u64, options: &Options, plan: Vec<Planned>) -> anyhow::Result<()> {
    let report = sterna_sim::play_plan(seed, options, Some(plan));
    match report.violation {
        Some(violation) => {
            out::answer(&violation.to_string())?;
            anyhow::bail!("seed {seed} broke a promise")
        }
        None => out::answer("no promise was broken").map(|_| ()),
    }
}

fn chosen(seed: u64, options: &Options, only: &Only) -> anyhow::Result<Vec<Planned>> {
    let all = sterna_sim::plan_of(seed, options);
    let count = all.len();
    if let Some(unknown) = only.0.iter().find(|number| **number >= count) {
        anyhow::bail!(
            "seed {seed} has {count} faults, counted from 0: there is no fault {unknown}"
        );
    }
    let is_chosen = |(at, _): &(usize, Planned)| only.0.contains(at);
    Ok(all.into_iter().enumerate().filter(is_chosen).map(|(_, one)| one).collect())
}

/// Columns of the diagram.
const COLUMNS: usize = 72;

fn explain(seed: u64, options: &Options) -> anyhow::Result<()> {
    let shrunk = shrink::shrink(seed, options, TRIES);
    let (plan, violation) = match shrunk {
        Some(shrunk) => (shrunk.plan, Some(shrunk.violation)),
        None => (sterna_sim::plan_of(seed, options), None),
    };
    out::answer(&diagram(&plan, violation.as_ref(), options.minutes * 60_000))?;
    match violation {
        Some(violation) => {
            out::answer(&format!("\n{violation}"))?;
            anyhow::bail!("seed {seed} broke a promise")
        }
        None => {
            out::answer("\nno promise was broken")?;
            Ok(())
        }
    }
}

/// One row for each machine, server and part of the world; time goes to the right.
fn diagram(plan: &[Planned], violation: Option<&Violation>, until: u64) -> String {
    let until = until.max(violation.map_or(0, |violation| violation.at)).max(1);
    let column =
        |at: u64| usize::try_from(at.min(until) * (COLUMNS as u64 - 1) / until).unwrap_or(0);
    let mut rows: BTreeMap<String, Vec<char>> = BTreeMap::new();
    for Planned { at, fault } in plan {
        let row = rows.entry(fault.whose()).or_insert_with(|| vec!['─'; COLUMNS]);
        let end = column(at + fault.lasts().unwrap_or(0));
        for cell in &mut row[column(*at)..=end] {
            *cell = '▒';
        }
        row[column(*at)] = '▌';
    }
    let mut lines: Vec<String> = rows
        .iter()
        .map(|(whose, row)| format!("{whose:>6} {}", row.iter().collect::<String>()))
        .collect();
    if let Some(violation) = violation {
        lines.push(format!(
            "{:>6} {}▲ {}",
            "",
            " ".repeat(column(violation.at)),
            violation.promise
        ));
    }
    lines.push(format!(
        "{:>6} 0 s{:>width$}",
        "",
        format!("{} s", until / 1_000),
        width = COLUMNS - 3
    ));
    lines.push(String::new());
    lines.extend(plan.iter().map(ToString::to_string));
    lines.join("\n")
}
