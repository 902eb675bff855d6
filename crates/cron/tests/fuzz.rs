//! Mutations of good items and lines: nothing panics, nothing runs on.
//!
//! The inputs are the same every time. `STERNA_LONG=1` tries 100,000 of them instead of
//! 20,000, and then also holds each to its time.

#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

mod support;

use std::time::{Duration, Instant};

use serde_json::Value;
use sterna_cron::{Database, Item, Line, Pattern, Time, Zone};
use support::Random;

const LINES: [&str; 16] = [
    "0 10 * * 2",
    "*/5 * * * *",
    "0 0 29 2 *",
    "30 2 10 3 *",
    "CRON_TZ=Europe/Berlin 0 9-17/2 * jan-mar MON-FRI",
    "15 30 2 * * ?",
    "0 0 L * *",
    "0 0 L-3W 2,4 *",
    "0 0 15W * *",
    "0 0 * * 5L",
    "0 0 * * fri#2",
    "@daily",
    "@reboot",
    "59 23 31 12 7",
    "5,10-20/3,*/7 22-2 * * sat-sun",
    "0 0 31 2 *",
];

/// Pieces that mean something to a parser, to be set in anywhere.
const PIECES: [&str; 24] = [
    "*",
    "/",
    "-",
    ",",
    "#",
    "L",
    "W",
    "?",
    "@",
    " ",
    "0",
    "99999999999999999999",
    "-1",
    "{}",
    "[]",
    "null",
    "\"",
    "{",
    "}",
    "[",
    "]",
    ":",
    "\u{e9}",
    "1e999",
];

fn is_long() -> bool {
    std::env::var_os("STERNA_LONG").is_some()
}

fn mutate(random: &mut Random, seed: &str) -> String {
    let mut text: Vec<char> = seed.chars().collect();
    for _ in 0..=random.below(3) {
        let at = random.below(text.len() + 1);
        match random.below(5) {
            0 if at < text.len() => drop(text.remove(at)),
            1 => text.splice(at..at, random.pick(&PIECES).chars()).for_each(drop),
            2 if at < text.len() => {
                text[at] = char::from(b' ' + u8::try_from(random.below(95)).unwrap());
            }
            3 if at < text.len() => {
                // A digit becomes another: numbers at the edges of what is allowed.
                if text[at].is_ascii_digit() {
                    text[at] = char::from(b'0' + u8::try_from(random.below(10)).unwrap());
                }
            }
            _ => {
                let end = (at + random.below(8)).min(text.len());
                let copied: Vec<char> = text[at.min(end)..end].to_vec();
                text.splice(at..at, copied).for_each(drop);
            }
        }
    }
    text.into_iter().collect()
}

/// Sets in something very long: a list, a string, a nest, or a piece over and over.
fn lengthen(random: &mut Random, text: &str) -> String {
    let count = 1 << random.between(4, 18);
    let long = match random.below(5) {
        0 => format!("[{}0]", "0,".repeat(count)),
        1 => format!("\"{}\"", random.pick(&["x", "\u{e9}", "5", " "]).repeat(count)),
        2 => format!("{}0{}", "[".repeat(count), "]".repeat(count)),
        3 => format!("{}0{}", "{\"end\":".repeat(count), "}".repeat(count)),
        _ => random.pick(&PIECES).repeat(count),
    };
    // In place of a number or a star, so that some of it is well formed.
    let places: Vec<usize> =
        text.char_indices().filter(|(_, c)| c.is_ascii_digit() || *c == '*').map(|p| p.0).collect();
    match places.is_empty() {
        true => text.to_owned() + &long,
        false => {
            let at = places[random.below(places.len())];
            format!("{}{long}{}", &text[..at], &text[at + 1..])
        }
    }
}

/// Asks everything of a pattern that can be asked.
fn exercise(random: &mut Random, pattern: &Pattern, zones: &[Zone]) {
    let zone = &zones[random.below(zones.len())];
    let extremes = [i64::MIN, -1, 0, 253_402_300_799, i64::MAX];
    for from in extremes.into_iter().chain((0..3).map(|_| random.between(0, 8_000_000_000))) {
        let from = Time::from_epoch(from);
        if let Some(next) = pattern.next(zone, from) {
            assert!(next >= from);
            assert_eq!(pattern.next(zone, next), Some(next));
            assert_eq!(pattern.next_firing(zone, from).map(|firing| firing.at), Some(next));
        }
    }
    assert!(!pattern.describe().is_empty());
}

/// Reads an input and asks all of it; says whether it was well formed.
fn try_out(text: &str, is_line: bool, random: &mut Random, zones: &[Zone]) -> bool {
    let pattern = if is_line {
        text.parse::<Line>().ok().map(|line| line.pattern().clone())
    } else {
        serde_json::from_str::<Item>(text).ok().map(|item| item.pattern().clone())
    };
    match pattern {
        Some(pattern) => {
            exercise(random, &pattern, zones);
            true
        }
        None => false,
    }
}

#[test]
#[expect(clippy::disallowed_methods, reason = "the long run holds each input to its time")]
fn mutated_items_and_lines_neither_panic_nor_run_on() {
    let rows: Vec<Value> = serde_json::from_str(include_str!("vectors/cron_vectors.json")).unwrap();
    let mut seeds: Vec<String> = rows.iter().map(|row| row["item"].to_string()).collect();
    seeds.extend([
        r#"{"minute":0,"weekday_of_month":{"nth":-1,"weekday":"Fri"},"dst_fixes":["skip","repeat_use_both"]}"#.to_owned(),
        r#"{"minute":0,"second":{"period":7},"last_day_of_month":true,"dst_fixes":["skip","repeat_use_both"]}"#.to_owned(),
        r#"{"minute":0,"hour":2,"every":{"weeks":2,"start":"2024-02-29","end":"2050-12-31"},"day_of_week":[1,3],"dst_fixes":["unskip","repeat_use_only_late"]}"#.to_owned(),
        r#"{"minute":30,"hour":2,"month":3,"weekday_of_month":{"nth":2,"weekday":1},"every":{"months":12,"start":"2008-03-01"},"dst_fixes":["skip","repeat_use_both"]}"#.to_owned(),
    ]);
    let database = Database::bundled();
    let names = [
        "America/Los_Angeles",
        "Australia/Lord_Howe",
        "Pacific/Apia",
        "UTC",
        "AAA0BBB1,J60/2,J60/5",
    ];
    let zones: Vec<Zone> = names.iter().map(|name| database.zone(name).unwrap()).collect();
    let mut random = Random(1);
    let (mut accepted, mut slowest) = (0, Duration::ZERO);
    for _ in 0..if is_long() { 100_000 } else { 20_000 } {
        let is_line = random.one_in(2);
        let seed = if is_line { random.pick(&LINES) } else { &seeds[random.below(seeds.len())] };
        let text = match random.one_in(20) {
            true => lengthen(&mut random, seed),
            false => mutate(&mut random, seed),
        };
        let number = random.number();
        let mut taken = Duration::MAX;
        // A pause of the machine is not held against an input: it may try again.
        for _ in 0..5 {
            let begun = Instant::now();
            let is_accepted = try_out(&text, is_line, &mut Random(number), &zones);
            if taken == Duration::MAX {
                accepted += u32::from(is_accepted);
            }
            taken = taken.min(begun.elapsed());
            if taken < Duration::from_millis(10) {
                break;
            }
        }
        // Generous where machines are shared and nothing is optimised; the long run is strict.
        let shown: String = text.chars().take(200).collect();
        assert!(taken < Duration::from_secs(2), "{shown} took {taken:?}");
        slowest = slowest.max(taken);
    }
    assert!(accepted > 1_000, "only {accepted} mutations were well formed");
    if is_long() && !cfg!(debug_assertions) {
        assert!(slowest < Duration::from_millis(10), "the slowest input took {slowest:?}");
    }
    println!("{accepted} accepted, the slowest input took {slowest:?}");
}

#[test]
fn saved_states_may_hold_anything() {
    use sterna_cron::{Clockwork, Follows, Listing, Reading, Saved, Uptime};
    let golden = include_str!("golden/saved_v1.json");
    let mut random = Random(5);
    let line: Line = "*/5 * * * *".parse().unwrap();
    let zone: Zone = "America/Los_Angeles".parse().unwrap();
    let listing = Listing { on_time_seconds: 60, listed_seconds: 600 };
    let numbers = ["-9223372036854775808", "9223372036854775807", "0", "-1", "1717404901"];
    for _ in 0..if is_long() { 100_000 } else { 2_000 } {
        let mut text = golden.to_owned();
        for old in ["1717404900", "7260", "7200", "1717405200", "300", "1717398000"] {
            if random.one_in(2) {
                text = text.replacen(old, random.pick(&numbers), 1 + random.below(2));
            }
        }
        let Ok(saved) = serde_json::from_str::<Saved>(&text) else { continue };
        let reading = |system| Reading {
            system: Time::from_epoch(system),
            monotonic: Uptime::from_seconds(random.0.cast_signed()),
        };
        let mut work = Clockwork::load(
            line.pattern().clone(),
            zone.clone(),
            Follows::System,
            listing,
            saved,
            reading(1_717_405_000),
        );
        let mut events = Vec::new();
        for system in [1_717_405_000, 1_717_404_000, i64::MAX, i64::MIN, 1_717_405_600] {
            work.step(reading(system), &mut events);
            work.deadline();
        }
    }
}
