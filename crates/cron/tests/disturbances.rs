//! Random disturbances below the limit: every firing is fired once, and none is forgotten.

#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

mod support;

use std::{collections::BTreeMap, ops::Range};

use sterna_cron::{Reading, StatefulItem, Time, Timekeeper, Uptime, Zone};
use support::Random;

/// Drives one item through random steps; each moves time by less than the limit, either way.
/// Gives back how often each label fired, and the labels between which it ran.
fn drive(
    random: &mut Random,
    selectors: &str,
    zones: &[&str],
    start: i64,
) -> (BTreeMap<i64, u32>, Range<i64>) {
    let item: StatefulItem = serde_json::from_str(&format!(
        r#"{{{selectors}, "max_shift_seconds_for_unskip_and_do_not_repeat": 20000}}"#
    ))
    .unwrap();
    let is_local = item.item.is_timezone_dependent();
    let (mut system, mut up) = (start, 500);
    let mut zone: Zone = zones[0].parse().unwrap();
    let start = Reading { system: Time::from_epoch(system), monotonic: Uptime::from_seconds(up) };
    let mut keeper = Timekeeper::new(item.clone(), zone.clone(), 60, start);
    // Firings are the same when the local clock showed the same, so they are counted by label.
    let label = |zone: &Zone, at: i64| {
        at + if is_local { zone.offset_seconds(Time::from_epoch(at)) } else { 0 }
    };
    let first = label(&zone, system);
    let mut furthest = first;
    let mut fired: BTreeMap<i64, u32> = BTreeMap::new();
    for _ in 0..300 {
        let (passed, step) = match random.below(4) {
            0 => (random.between(0, 60), 0),
            1 => (random.between(0, 3_000), 0),
            2 => (random.between(0, 600), random.between(-3_000, 3_000)),
            _ => (random.between(0, 60), random.between(-5, 5)),
        };
        system += passed + step;
        up += passed;
        if random.one_in(10) {
            zone = random.pick(zones).parse().unwrap();
            keeper.set_timezone(zone.clone());
        }
        let reading =
            Reading { system: Time::from_epoch(system), monotonic: Uptime::from_seconds(up) };
        if random.one_in(20) {
            up = 3;
            let reading =
                Reading { system: Time::from_epoch(system), monotonic: Uptime::from_seconds(up) };
            let saved = keeper.saved().clone();
            keeper = Timekeeper::load(item.clone(), zone.clone(), 60, saved, reading);
        }
        let reading = Reading { monotonic: Uptime::from_seconds(up), ..reading };
        let mut decisions = Vec::new();
        let movement = keeper.step(reading, &mut decisions);
        assert_eq!(movement.unlisted, None, "no jump is beyond the limit");
        for decision in decisions.iter().filter(|decision| decision.verdict.fires()) {
            *fired.entry(label(&zone, decision.event.due.epoch())).or_default() += 1;
        }
        furthest = furthest.max(label(&zone, system));
    }
    (fired, first + 1..furthest + 1)
}

/// Every five minutes that the local clock went by something fired, and once only.
fn fired_once((mut fired, labels): (BTreeMap<i64, u32>, Range<i64>)) {
    for label in labels.filter(|label| label % 300 == 0) {
        assert_eq!(fired.remove(&label), Some(1), "firings at label {label}");
    }
    assert_eq!(fired, BTreeMap::new(), "nothing else fired");
}

#[test]
fn small_disturbances_neither_lose_nor_repeat() {
    let local = r#""minute": {"period": 5}, "dst_fixes": ["skip", "repeat_use_both"]"#;
    for seed in 0..60 {
        let mut random = Random(seed);
        let start = 1_717_400_000;
        fired_once(drive(&mut random, r#""epoch": {"period": 300}"#, &["UTC", "+09:00"], start));
        fired_once(drive(&mut random, local, &["+02:00", "+02:30", "+01:45"], start));
    }
}

const NIGHT_ZONES: [&str; 6] =
    ["America/Los_Angeles", "-07:00", "-08:00", "America/Denver", "-09:00", "America/Anchorage"];

/// Spends the night in which clocks are set back in some zones, moving after so many minutes each;
/// each label that the clock went by must fire, and as often as allowed at most.
fn spend_night(zones: &[Zone; 6], fold: &str, first: usize, moves: &[(i64, usize)]) {
    let item: StatefulItem = serde_json::from_str(&format!(
        r#"{{"minute": {{"period": 5}}, "dst_fixes": ["skip", "{fold}"],
             "max_shift_seconds_for_unskip_and_do_not_repeat": 10800}}"#
    ))
    .unwrap();
    let reading =
        |at| Reading { system: Time::from_epoch(at), monotonic: Uptime::from_seconds(at) };
    let label = |zone: &Zone, at: Time| at.epoch() + zone.offset_seconds(at);
    // From two hours before the clocks of Denver are set back.
    let (start, minutes) = (1_383_458_400, 460);
    let mut zone = &zones[first];
    let begun = label(zone, Time::from_epoch(start));
    let mut keeper = Timekeeper::new(item, zone.clone(), 60, reading(start));
    let mut fired: BTreeMap<i64, u32> = BTreeMap::new();
    for minute in 1..=minutes {
        for (_, to) in moves.iter().filter(|(at, _)| *at == minute) {
            zone = &zones[*to];
            keeper.set_timezone(zone.clone());
        }
        let mut decisions = Vec::new();
        keeper.step(reading(start + minute * 60), &mut decisions);
        for decision in decisions.iter().filter(|decision| decision.verdict.fires()) {
            *fired.entry(label(zone, decision.event.due)).or_default() += 1;
        }
    }
    let ended = label(zone, Time::from_epoch(start + minutes * 60));
    let allowed = if fold == "repeat_use_both" { 1..=9 } else { 1..=1 };
    for label in (begun + 1..=ended).filter(|label| label % 300 == 0) {
        let times = fired.remove(&label).unwrap_or(0);
        assert!(allowed.contains(&times), "{fold}, {first}, {moves:?}: {times} at {label}");
    }
    assert_eq!(fired, BTreeMap::new(), "nothing else fired");
}

#[test]
fn moves_within_a_fold_neither_lose_nor_repeat() {
    let zones = NIGHT_ZONES.map(|name| name.parse::<Zone>().unwrap());
    let mut random = Random(3);
    for fold in ["repeat_use_only_early", "repeat_use_only_late", "repeat_use_both"] {
        for (from, to) in (0..36).map(|pair| (pair / 6, pair % 6)) {
            for moved in (1..300).step_by(59) {
                spend_night(&zones, fold, from, &[(moved, to)]);
            }
        }
        for _ in 0..200 {
            let count = 2 + random.below(2);
            let moves: Vec<_> =
                (0..count).map(|_| (random.between(1, 300), random.below(6))).collect();
            spend_night(&zones, fold, random.below(6), &moves);
        }
    }
}

#[test]
fn nothing_is_emitted_twice_without_disturbance() {
    let item: StatefulItem = serde_json::from_str(
        r#"{"minute": {"period": 7}, "second": [0, 30],
                     "dst_fixes": ["unskip", "repeat_use_both"],
            "max_shift_seconds_for_unskip_and_do_not_repeat": 0}"#,
    )
    .unwrap();
    let zone: Zone = "America/St_Johns".parse().unwrap();
    let mut random = Random(9);
    let mut now = 1_268_450_000;
    let reading = |now| Reading {
        system: Time::from_epoch(now),
        monotonic: Uptime::from_seconds(now - 1_000_000_000),
    };
    let pattern = item.item.pattern().clone();
    let mut expected = pattern.firings(&zone, Time::from_epoch(now + 1));
    let mut keeper = Timekeeper::new(item, zone.clone(), 60, reading(now));
    for _ in 0..5_000 {
        now += random.between(0, 60);
        let mut decisions = Vec::new();
        keeper.step(reading(now), &mut decisions);
        for decision in decisions {
            assert_eq!(Some(decision.event.due), expected.next());
        }
    }
    assert!(expected.next().unwrap() > Time::from_epoch(now));
}

/// Not a matter of time: the number of answers is bounded by the limit, not by the jump.
#[test]
fn a_year_on_a_minutely_item_emits_only_the_window() {
    let item: StatefulItem = serde_json::from_str(
        r#"{"minute": {}, "dst_fixes": ["skip", "repeat_use_both"],
            "max_shift_seconds_for_unskip_and_do_not_repeat": 300}"#,
    )
    .unwrap();
    let reading =
        |now| Reading { system: Time::from_epoch(now), monotonic: Uptime::from_seconds(0) };
    let mut keeper =
        Timekeeper::new(item, "America/Los_Angeles".parse().unwrap(), 60, reading(1_700_000_000));
    for years in [1, 10, 100, -100, 200] {
        let mut decisions = Vec::new();
        keeper.step(reading(1_700_000_000 + years * 31_556_952), &mut decisions);
        assert!(decisions.len() <= 6, "{} answers after {years} years", decisions.len());
    }
}

#[test]
fn a_flood_comes_in_portions() {
    let item: StatefulItem = serde_json::from_str(
        r#"{"epoch": {}, "max_shift_seconds_for_unskip_and_do_not_repeat": 100000}"#,
    )
    .unwrap();
    let reading =
        |now| Reading { system: Time::from_epoch(now), monotonic: Uptime::from_seconds(now) };
    let mut keeper = Timekeeper::new(item, Zone::utc(), 1, reading(0));
    let mut decisions = Vec::new();
    let mut steps = 1;
    while keeper.step(reading(5_500), &mut decisions).has_more {
        steps += 1;
    }
    let fired: Vec<i64> = decisions.iter().map(|decision| decision.event.due.epoch()).collect();
    assert_eq!(fired, (1..=5_500).collect::<Vec<i64>>());
    assert_eq!(steps, 6);
}
