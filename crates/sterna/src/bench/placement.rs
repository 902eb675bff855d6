//! `sterna bench placement`: the auction, with a fleet that is empty, full or full of conditions.

use std::{hint::black_box, sync::Arc};

use anyhow::Context;
use serde_json::Value;
use sterna_engine::auction::{Ask, BidderId, Occupant, Offer, Registry, Rules, Stage, Standing};
use sterna_model::{
    Amounts, Bytes, Constraints, Countables, Demand, Millicores, Name, Namespace, Wants, Work,
    WorkKey,
};

use super::{
    check::{Bound, Check, judge},
    report::{Report, median, rounded},
};
use crate::{clock, out};

/// Measure how long the auction takes to place many instances on many workers
///
/// 100,000 instances of 1,000 services on 10,000 workers in three zones, as one batch on one core:
/// when all workers are empty, when they are 80 % full, and when half of the services ask for tags
/// and a third must not share a worker with themselves or with others. Beside it the same batch
/// sorted by key, and what a placement costs with 1,000 workers and with 10,000.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// How often everything is measured; the middle one counts
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
    #[command(flatten)]
    check: Check,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// What it may take at most; of the ratio, what a placement may cost with ten times the workers.
const LIMITS: [Bound; 4] =
    [("empty_s", 0.5), ("full_s", 1.0), ("constrained_s", 1.5), ("us_10000_over_1000", 2.0)];

pub(crate) fn run(args: Args) -> anyhow::Result<()> {
    let bounds = args.check.bounds(&LIMITS)?;
    let report = measure(args.rounds)?;
    let text = if args.json { report.json("placement").to_string() } else { table(&report) };
    out::answer(&text)?;
    judge(&report, &bounds)
}

/// How the fleet is when the batch comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Nothing runs.
    Empty,
    /// Four fifths of everything are taken, not the same everywhere.
    Full,
    /// Nothing runs, and half of the services ask for tags, a third for distance.
    Constrained,
}

const STATES: [(State, &str); 3] =
    [(State::Empty, "empty"), (State::Full, "full"), (State::Constrained, "constrained")];

const SERVICES: u32 = 1_000;
const WORKERS: [u32; 2] = [1_000, 10_000];
const INSTANCES: u32 = 100_000;

fn measure(rounds: u32) -> anyhow::Result<Report> {
    let mut report = Report::default();
    let progress = out::Progress::new();
    let plain = batch(State::Empty, INSTANCES)?;
    let floor = median((0..rounds).map(|_| sort_s(&plain)));
    report.floor.insert("sort_s".to_owned(), rounded(floor));
    for (state, name) in STATES {
        progress.say(name);
        let fleet = fleet(state, WORKERS[1])?;
        let batch = batch(state, INSTANCES)?;
        let seconds = (0..rounds).map(|_| auction_s(&fleet, &batch));
        let seconds = median(seconds.collect::<anyhow::Result<Vec<f64>>>()?);
        report.figures.insert(format!("{name}_s"), rounded(seconds));
        report.ratios.insert(format!("{name}_over_sort"), rounded(seconds / floor));
    }
    progress.say("few workers and many");
    let [few, many] = growth(rounds, &mut report)?;
    for (workers, each) in WORKERS.into_iter().zip([few, many]) {
        report.figures.insert(format!("us_per_placement_{workers}"), rounded(each));
    }
    report.ratios.insert("us_10000_over_1000".to_owned(), rounded(many / few));
    Ok(report)
}

/// Microseconds for a placement with few workers and with many, ten for each, so that both fill up
/// alike. They are measured in turn, as many placements of either, so that whatever else the machine
/// does concerns both.
fn growth(rounds: u32, report: &mut Report) -> anyhow::Result<[f64; 2]> {
    let mut fleets = Vec::new();
    for workers in WORKERS {
        let fleet = fleet(State::Full, workers)?;
        let bytes = fleet.heap_bytes() as f64 / f64::from(workers);
        report.figures.insert("bytes_per_worker".to_owned(), rounded(bytes));
        fleets.push((fleet, batch(State::Full, workers * 10)?, WORKERS[1] / workers));
    }
    let mut found = [Vec::new(), Vec::new()];
    for _ in 0..rounds {
        for ((fleet, batch, times), found) in fleets.iter().zip(&mut found) {
            let seconds = (0..*times).map(|_| auction_s(fleet, batch));
            let seconds: f64 = seconds.sum::<anyhow::Result<f64>>()?;
            found.push(seconds * 1e6 / f64::from(*times) / batch.len() as f64);
        }
    }
    Ok(found.map(median))
}

fn auction_s(fleet: &Registry, batch: &[Ask]) -> anyhow::Result<f64> {
    let mut fleet = fleet.clone();
    let begun = clock::instant();
    let outcome = fleet.auction(black_box(batch));
    let taken = begun.elapsed().as_secs_f64();
    // What is refused is cheap: a figure with refusals in it would mean nothing.
    if let Some(left) = outcome.left.first() {
        anyhow::bail!("{} of the bench was not placed: {:?}", batch[left.ask].key, left.reason);
    }
    Ok(taken)
}

/// The machine itself: the batch put in order by key, which any placement has to do with it.
fn sort_s(batch: &[Ask]) -> f64 {
    let mut keys: Vec<&WorkKey> = batch.iter().rev().map(|ask| &ask.key).collect();
    let begun = clock::instant();
    keys.sort_unstable();
    black_box(&keys);
    begun.elapsed().as_secs_f64()
}

const ZONES: [&str; 3] = ["a", "b", "c"];

/// Workers of 16 cores and 64 GiB, of which every fourth has a fast disk and every fifth, which
/// requires that it is asked for, a graphics card.
fn fleet(state: State, workers: u32) -> anyhow::Result<Registry> {
    let mut registry = Registry::new(Rules::default());
    let mut seed = 7;
    for number in 0..workers {
        let tags = |tag: &str, every: u32| -> anyhow::Result<_> {
            let has_it = state == State::Constrained && number % every == 1;
            has_it.then(|| name(tag)).into_iter().collect::<anyhow::Result<_>>()
        };
        let offer = Offer {
            name: name(&format!("w{number}"))?,
            zone: Some(name(ZONES[number as usize % ZONES.len()])?),
            stack: None,
            required: tags("gpu", 5)?,
            optional: tags("ssd", 4)?,
            total: Amounts {
                cpu: Millicores::new(16_000),
                memory: Bytes::new(64 << 30),
                disk: Bytes::new(1 << 40),
                containers: 250,
                countables: Countables::default(),
            },
            standing: Standing::Taking,
        };
        registry.set(BidderId::new(number), offer);
        if state == State::Full {
            fill(&mut registry, number, &mut seed)?;
        }
    }
    Ok(registry)
}

/// Ten tenants, of 70 to 90 % of the worker.
fn fill(registry: &mut Registry, number: u32, seed: &mut u64) -> anyhow::Result<()> {
    for slot in 0..10_u64 {
        let percent = 70 + below(seed, 21);
        let wants = Wants {
            demand: Demand::new(
                Millicores::new(16_000 * percent / 1_000),
                Bytes::new((64 << 30) * percent / 1_000),
                Bytes::new((1 << 40) * percent / 1_000),
                Countables::default(),
            ),
            constraints: Constraints::default(),
        };
        let service = u64::from(number).wrapping_mul(31) + slot * 97;
        let key = instance(&format!("old-{}", service % 500), number)?;
        let occupant = Occupant { key: &key, wants: &wants, stage: Stage::Started };
        registry.occupy(BidderId::new(number), occupant)?;
    }
    Ok(())
}

/// The services have different sizes, and as many instances each.
fn batch(state: State, instances: u32) -> anyhow::Result<Vec<Ask>> {
    let mut asks = Vec::new();
    for service in 0..SERVICES {
        let own = format!("s{service}");
        let mut constraints = Constraints::default();
        if state == State::Constrained {
            let tags: &[&str] = match service % 4 {
                0 => &["ssd"],
                1 => &["gpu"],
                _ => &[],
            };
            constraints.tags = tags.iter().map(|tag| name(tag)).collect::<anyhow::Result<_>>()?;
            let apart = match service % 6 {
                0 => vec![own.clone()],
                1 => vec![own.clone(), format!("s{}", (service + 7) % SERVICES)],
                _ => vec![],
            };
            constraints.apart_from =
                apart.iter().map(|other| name(other)).collect::<anyhow::Result<_>>()?;
        }
        let size = u64::from(service % 8 + 1);
        let demand = Demand::new(
            Millicores::new(25 * size),
            Bytes::new((32 << 20) * size),
            Bytes::new((256 << 20) * size),
            Countables::default(),
        );
        let wants = Arc::new(Wants { demand, constraints });
        for index in 0..instances / SERVICES {
            asks.push(Ask { key: instance(&own, index)?, wants: Arc::clone(&wants) });
        }
    }
    Ok(asks)
}

fn instance(service: &str, index: u32) -> anyhow::Result<WorkKey> {
    let work = Work::Instance { service: name(service)?, index };
    Ok(work.within(&Namespace::default()))
}

fn name(text: &str) -> anyhow::Result<Name> {
    Name::new(text).context("a name of the bench is refused")
}

/// The same numbers in every run: two runs measure the same work.
const fn below(seed: &mut u64, bound: u64) -> u64 {
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    (*seed >> 1) % bound
}

fn table(report: &Report) -> String {
    let shown = |group: &std::collections::BTreeMap<String, Value>, name: &str| {
        group.get(name).and_then(Value::as_f64).map_or("-".to_owned(), |figure| format!("{figure}"))
    };
    let mut text = format!("{:<16}{:>12}{:>12}", "a batch", "s", "of a sort");
    for (_, name) in STATES {
        let seconds = shown(&report.figures, &format!("{name}_s"));
        let ratio = shown(&report.ratios, &format!("{name}_over_sort"));
        text += &format!("\n{name:<16}{seconds:>12}{ratio:>12}");
    }
    let sort = shown(&report.floor, "sort_s");
    text += &format!("\n{:<16}{sort:>12}{:>12}", "sorted by key", 1);
    text += "\n\na placement, us";
    for workers in WORKERS {
        let each = shown(&report.figures, &format!("us_per_placement_{workers}"));
        text += &format!("\n{:<16}{each:>12}", format!("{workers} workers"));
    }
    let bytes = shown(&report.figures, "bytes_per_worker");
    text += &format!("\n\nbytes per worker: {bytes}");
    text
}
