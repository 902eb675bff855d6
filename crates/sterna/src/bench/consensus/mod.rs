//! `sterna bench consensus`: the worker set of a leader, judged in states that are hard to judge.

mod fleet;

use std::hint::black_box;

use anyhow::Context;
use serde_json::Value;
use sterna_model::{
    ClusterId, DirectoryId, Epoch, Incarnation, Lock, MachineId, Nonce, Term, WallTime,
};
use sterna_protocol::{
    consensus::{Consensus, Held, Seat, SetId, Version},
    message::Mandate,
};

use self::fleet::Played;
use super::report::{Report, rounded};
use crate::{clock, out};

const SIZES: [u64; 2] = [10_000, 100_000];

/// Measure how long a leader takes to judge its whole worker set
///
/// One pass finds out who requires whom, who may become healthy, and whether those who came back
/// agree; with 10,000 and 100,000 workers, in milliseconds, the slowest of four states: settled, one
/// long chain, nobody aware of anybody later, and churn. Beside it a bare walk over the same bytes, and
/// a pass of the whole leader's side: as it is when nothing is due, and when everybody is looked at.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// How often everything is measured; the quickest counts, for anything else only adds to it
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: Args) -> anyhow::Result<()> {
    let report = measure(args.rounds)?;
    let text = if args.json { report.json("consensus").to_string() } else { table(&report) };
    out::answer(&text)?;
    Ok(())
}

/// What the workers have echoed.
#[derive(Clone, Copy, Debug)]
enum State {
    /// Everybody the newest set, and everybody came with the same id.
    Settled,
    /// Everybody the set that the next one's joining made: all hang together by their ends.
    Chain,
    /// Everybody only the set that its own joining made: nobody hangs together.
    Islands,
    /// Everybody something else; a third has left at random, and others sit where they sat.
    Churn,
}

const STATES: [(State, &str); 4] = [
    (State::Settled, "settled"),
    (State::Chain, "chain"),
    (State::Islands, "islands"),
    (State::Churn, "churn"),
];

fn measure(rounds: u32) -> anyhow::Result<Report> {
    let mut report = Report::default();
    let (mut heartbeat, mut bytes, mut fleet_bytes): (f64, f64, f64) = (0.0, 0.0, 0.0);
    for size in SIZES {
        let mut slowest: f64 = 0.0;
        for (state, name) in STATES {
            let (leader, seats) = worker_set(state, size)?;
            let pass = least((0..rounds).map(|_| pass_ms(&leader)));
            report.figures.insert(format!("pass_ms_{size}_{name}"), rounded(pass));
            slowest = slowest.max(pass);
            heartbeat = heartbeat.max(least((0..rounds).map(|_| heartbeat_ns(&leader, &seats))));
            bytes = bytes.max(leader.heap_bytes() as f64 / size as f64);
        }
        let whole = whole(size, rounds)?;
        fleet_bytes = fleet_bytes.max(whole.bytes);
        report.figures.insert(format!("fleet_pass_ms_{size}"), rounded(whole.pass_ms));
        report.figures.insert(format!("fleet_pass_ms_{size}_all"), rounded(whole.pass_all_ms));
        report.figures.insert(format!("fleet_heartbeat_ns_{size}"), rounded(whole.heartbeat_ns));
        let floor = least((0..rounds).map(|_| walk_ms(bytes * size as f64)));
        report.figures.insert(format!("pass_ms_{size}"), rounded(slowest));
        report.floor.insert(format!("walk_ms_{size}"), rounded(floor));
        let walk_ns = floor * 1e6 / size as f64;
        for (name, times) in [
            (format!("pass_{size}"), slowest / floor),
            (format!("fleet_pass_{size}"), whole.pass_ms / floor),
            (format!("fleet_pass_{size}_all"), whole.pass_all_ms / floor),
            (format!("fleet_heartbeat_{size}"), whole.heartbeat_ns / walk_ns),
        ] {
            report.ratios.insert(name, rounded(times));
        }
    }
    report.figures.insert("heartbeat_ns".to_owned(), rounded(heartbeat));
    report.figures.insert("bytes_per_worker".to_owned(), rounded(bytes));
    report.figures.insert("fleet_bytes_per_worker".to_owned(), rounded(fleet_bytes));
    Ok(report)
}

/// What the whole leader's side costs.
struct Whole {
    pass_ms: f64,
    pass_all_ms: f64,
    heartbeat_ns: f64,
    bytes: f64,
}

fn whole(size: u64, rounds: u32) -> anyhow::Result<Whole> {
    let (term, nonce) = (Term::new(2), Nonce::new(2));
    let mut earlier = Consensus::starting_at(Term::new(1), nonce, Version::ZERO, u32::MAX);
    for number in 0..size {
        earlier.join(&worker(number)?, None);
    }
    let mandate = Mandate {
        cluster: ClusterId::from_parts(WallTime::EPOCH, [1; 10]),
        epoch: Epoch::new(1),
        term,
        nonce,
    };
    let mut played = Played::new(size, mandate, *earlier.newest())?;
    let mut beats = Vec::new();
    let passes = (0..rounds).map(|_| {
        beats.push(played.heartbeat_ns());
        played.pass_ms()
    });
    let pass_ms = least(passes);
    let bytes = played.bytes_per_worker();
    let pass_all_ms = least((0..rounds).map(|_| played.pass_all_ms()));
    Ok(Whole { pass_ms, pass_all_ms, heartbeat_ns: least(beats), bytes })
}

/// The quickest of several rounds.
fn least(rounds: impl IntoIterator<Item = f64>) -> f64 {
    rounds.into_iter().fold(f64::INFINITY, f64::min)
}

fn pass_ms(leader: &Consensus) -> f64 {
    // A judgement leaves less to do for the next one.
    let mut leader = leader.clone();
    let begun = clock::instant();
    leader.judge();
    black_box(leader.agreement());
    let taken = begun.elapsed().as_secs_f64() * 1e3;
    black_box(leader);
    taken
}

/// An echo heard, the answer made, and the question whether the worker may become healthy; in an
/// order that no cache foresees.
fn heartbeat_ns(leader: &Consensus, seats: &[Seat]) -> f64 {
    let mut leader = leader.clone();
    let mut held = Held::default();
    let mut seed = 42;
    let order: Vec<Seat> = seats.iter().map(|_| seats[below(&mut seed, seats.len())]).collect();
    let begun = clock::instant();
    for seat in &order {
        black_box(leader.hear(*seat, held.echo().as_ref()));
        if let Some(answer) = leader.answer(*seat) {
            held.take(answer);
        }
        black_box(leader.permits_becoming_healthy(*seat));
    }
    begun.elapsed().as_secs_f64() * 1e9 / order.len() as f64
}

/// The machine itself: as many bytes, read once.
fn walk_ms(bytes: f64) -> f64 {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a count of words")]
    let words = vec![1_u64; (bytes / 8.0) as usize];
    let begun = clock::instant();
    black_box(black_box(&words).iter().fold(0_u64, |sum, word| sum.wrapping_add(*word)));
    begun.elapsed().as_secs_f64() * 1e3
}

fn worker_set(state: State, size: u64) -> anyhow::Result<(Consensus, Vec<Seat>)> {
    let (term, nonce) = (Term::new(2), Nonce::new(2));
    let mut leader = Consensus::starting_at(term, nonce, Version::ZERO, u32::MAX);
    // What an earlier leader gave: the whole set, so that no comparison ends early.
    let mut earlier = Consensus::starting_at(Term::new(1), nonce, Version::ZERO, u32::MAX);
    for number in 0..size {
        earlier.join(&worker(number)?, None);
    }
    let initial = Some(*earlier.newest());
    let mut seats: Vec<Seat> = Vec::new();
    let mut issued: Vec<SetId> = Vec::new();
    for number in 0..size {
        seats.push(leader.join(&worker(number)?, initial));
        issued.push(*leader.newest());
    }
    let mut seed = 7;
    if let State::Churn = state {
        for gone in 0..size / 3 {
            let at = below(&mut seed, seats.len());
            // It had heard of some that came after it.
            let heard = issued.get(at + below(&mut seed, 5)).or(issued.get(at));
            leader.hear(seats[at], heard);
            leader.leave(seats[at]);
            seats[at] = leader.join(&worker(size + gone)?, initial);
            issued.push(*leader.newest());
        }
    }
    let newest = *leader.newest();
    for (at, seat) in seats.iter().enumerate() {
        let echo = match state {
            State::Settled => Some(&newest),
            State::Chain => issued.get(at + 1).or(issued.last()),
            State::Islands => issued.get(at),
            State::Churn => issued.get(at + below(&mut seed, 9)).or(Some(&newest)),
        };
        leader.hear(*seat, echo);
        // Whoever sits where another sat has not heard that one's sets.
        if leader.last(*seat).is_none() {
            leader.hear(*seat, Some(&newest));
        }
    }
    Ok((leader, seats))
}

fn worker(number: u64) -> anyhow::Result<Incarnation> {
    let mut random = [0; 10];
    random[2..].copy_from_slice(&number.to_be_bytes());
    let directory = DirectoryId::from_parts(WallTime::EPOCH, random);
    let machine = MachineId::from_bytes([1; 16]).context("a machine of the bench is refused")?;
    Ok(Incarnation { lock: Lock { directory, machine }, life: 1 })
}

/// The same numbers in every run: two runs measure the same work.
fn below(seed: &mut u64, bound: usize) -> usize {
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    usize::try_from(*seed >> 1).map_or(0, |random| random % bound)
}

fn table(report: &Report) -> String {
    let shown = |group: &std::collections::BTreeMap<String, Value>, name: &str| {
        group.get(name).and_then(Value::as_f64).map_or("-".to_owned(), |figure| format!("{figure}"))
    };
    let mut text = format!("{:<16}", "ms per pass");
    for size in SIZES {
        text += &format!("{size:>12}");
    }
    for (_, name) in STATES {
        text += &format!("\n{name:<16}");
        for size in SIZES {
            text += &format!("{:>12}", shown(&report.figures, &format!("pass_ms_{size}_{name}")));
        }
    }
    text += &format!("\n{:<16}", "whole leader");
    for size in SIZES {
        text += &format!("{:>12}", shown(&report.figures, &format!("fleet_pass_ms_{size}")));
    }
    text += &format!("\n{:<16}", "  all looked at");
    for size in SIZES {
        text += &format!("{:>12}", shown(&report.figures, &format!("fleet_pass_ms_{size}_all")));
    }
    text += &format!("\n{:<16}", "bare walk");
    for size in SIZES {
        text += &format!("{:>12}", shown(&report.floor, &format!("walk_ms_{size}")));
    }
    text += &format!("\n\n{:<16}", "a heartbeat, ns");
    for size in SIZES {
        let whole = shown(&report.figures, &format!("fleet_heartbeat_ns_{size}"));
        text += &format!("{whole:>12}");
    }
    let bare = shown(&report.figures, "heartbeat_ns");
    text += &format!("\nof the consensus alone: {bare}");
    let whole = shown(&report.figures, "fleet_bytes_per_worker");
    let bare = shown(&report.figures, "bytes_per_worker");
    text += &format!("\n\nbytes per worker: {whole}, of them {bare} the consensus");
    text
}
