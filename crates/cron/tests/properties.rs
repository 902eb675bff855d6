//! Random items in random zones, compared with an oracle that walks every second.
//!
//! `STERNA_LONG=1` runs many more rounds.

#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

mod support;

use serde_json::{Map, Value, json};
use sterna_cron::{Database, Item, Time, Why, Zone};
use support::{
    Random, oracle,
    world::{moment, rounds, zone},
};

fn selector(random: &mut Random, min: i64, max: i64) -> Value {
    match random.below(4) {
        0 => json!(random.between(min, max)),
        1 => json!([random.between(min, max), random.between(min, max)]),
        2 => json!({"period": random.between(1, max - min - 1)}),
        _ => {
            let start = random.between(min, max);
            json!({"start": start, "end": random.between(start, max)})
        }
    }
}

fn random_item(random: &mut Random) -> Value {
    let mut item = Map::new();
    item.insert("minute".to_owned(), selector(random, 0, 59));
    if random.one_in(12) {
        item.insert("second".to_owned(), selector(random, 0, 59));
    }
    if random.one_in(2) {
        let near_changes = if random.one_in(2) { (0, 4) } else { (0, 23) };
        item.insert("hour".to_owned(), selector(random, near_changes.0, near_changes.1));
    }
    match random.below(9) {
        0 => drop(item.insert("day_of_week".to_owned(), selector(random, 1, 7))),
        1 => drop(item.insert("day_of_month".to_owned(), selector(random, 1, 31))),
        2 => drop(item.insert("last_day_of_month".to_owned(), json!(true))),
        3 => {
            let nth = [1, 2, 3, 4, 5, -1, -2][random.below(7)];
            let rule = json!({"nth": nth, "weekday": random.between(1, 7)});
            item.insert("weekday_of_month".to_owned(), rule);
        }
        _ => {}
    }
    if random.one_in(8) {
        let unit = random.pick(&["days", "weeks", "months"]);
        let start = format!(
            "{}-{:02}-{:02}",
            random.between(1970, 2090),
            random.between(1, 12),
            random.between(1, 28)
        );
        let mut every = json!({unit: random.between(1, 9), "start": start});
        if random.one_in(3) {
            every["end"] = json!("2095-06-15");
        }
        item.insert("every".to_owned(), every);
    }
    if random.one_in(6) {
        item.insert("month".to_owned(), selector(random, 1, 12));
    }
    if random.one_in(10) {
        item.insert(
            "year".to_owned(),
            json!({"start": random.between(1969, 2060), "period": random.between(1, 3)}),
        );
    }
    let missing = random.pick(&["skip", "unskip"]);
    let repeated =
        random.pick(&["repeat_use_both", "repeat_use_only_early", "repeat_use_only_late"]);
    item.insert("dst_fixes".to_owned(), json!([missing, repeated]));
    Value::Object(item)
}

/// All answers of the crate on a window: the list of firings, and their constancy between.
fn check(source: &Value, item: &Item, zone: &Zone, from: i64, until: i64, expected: &[i64]) {
    let next = |at: i64| item.next(zone, Time::from_epoch(at)).map(Time::epoch);
    let context = || format!("{source} in {} from {from} to {until}", zone.name());
    let mut at = from;
    for firing in expected {
        assert_eq!(next(at), Some(*firing), "asked at {at}: {}", context());
        // Every instant between two firings gives the same answer: the ends, and some between.
        for between in [at + 1, at + (firing - at) / 2, at + (firing - at) / 3, firing - 1] {
            if at <= between && between <= *firing {
                assert_eq!(next(between), Some(*firing), "asked at {between}: {}", context());
            }
        }
        at = firing + 1;
    }
    if at < until {
        let after = next(at);
        assert!(
            after.is_none_or(|after| after >= until),
            "asked at {at}: {after:?}, {}",
            context()
        );
        assert_eq!(next(until - 1), after, "asked at {}: {}", until - 1, context());
    }
}

#[test]
fn items_fire_as_a_walk_over_every_second_finds() {
    let mut random = Random(20_261_115);
    let database = Database::bundled();
    let names = database.names();
    let mut fired = 0;
    let mut round = 0;
    while round < rounds(150, 5_000) {
        let source = random_item(&mut random);
        let Ok(item) = serde_json::from_value::<Item>(source.clone()) else { continue };
        round += 1;
        let (zone, rules) = zone(&mut random, &database, &names);
        let from = moment(&mut random, &rules);
        let until = from + 100_000;
        let expected = oracle::firings(&source, &rules, from, until);
        fired += expected.len();
        check(&source, &item, &zone, from, until, &expected);
    }
    assert!(fired > 1_000, "only {fired} firings were compared");
}

#[test]
fn rare_dates_are_found_as_a_walk_over_every_day_finds() {
    let mut random = Random(7);
    let zone = Zone::utc();
    let mut round = 0;
    while round < rounds(150, 5_000) {
        let mut source = random_item(&mut random);
        for key in ["minute", "hour"] {
            source[key] = json!(0);
        }
        source.as_object_mut().unwrap().remove("second");
        let parsed = serde_json::from_value::<Item>(source.clone());
        let from = random.between(0, 47_000);
        let found = (from..from + 15_000)
            .map(|day| day * 86_400)
            .find(|label| oracle::matches_date(&source, oracle::civil(*label)));
        round += 1;
        match parsed {
            Ok(item) => {
                let next = item.next(&zone, Time::from_epoch(from * 86_400)).map(Time::epoch);
                let is_beyond = next.is_none_or(|next| next >= (from + 15_000) * 86_400);
                assert!(
                    next == found || (found.is_none() && is_beyond),
                    "{source} from day {from}: {next:?}, not {found:?}"
                );
            }
            Err(error) => assert_eq!(found, None, "{source} was refused: {error}"),
        }
    }
}

#[test]
fn far_years_repeat_the_near_ones() {
    // The calendar repeats every 400 years, and so do rules that name no year.
    let cycle = 146_097 * 86_400;
    let mut random = Random(3);
    let database = Database::bundled();
    let names = database.names();
    for _ in 0..rounds(300, 20_000) {
        let mut source = random_item(&mut random);
        for key in ["year", "every"] {
            source.as_object_mut().unwrap().remove(key);
        }
        let Ok(item) = serde_json::from_value::<Item>(source.clone()) else { continue };
        let (zone, _) = zone(&mut random, &database, &names);
        let from = random.between(4_102_444_800, 16_000_000_000);
        let next = |from: i64| item.next(&zone, Time::from_epoch(from)).map(Time::epoch);
        let near = next(from);
        for cycles in [1, 7, 15] {
            let far = next(from + cycles * cycle).map(|far| far - cycles * cycle);
            assert_eq!(far, near, "{source} in {} from {from}, {cycles} cycles on", zone.name());
        }
    }
}

/// An item whose dates are mostly those on which some zone below moves its clocks.
fn rare_item(random: &mut Random, missing: &str) -> String {
    let days = [
        r#""day_of_month": 1, "#,
        r#""day_of_month": 31, "#,
        r#""last_day_of_month": true, "#,
        r#""day_of_week": 1, "#,
        r#""weekday_of_month": {"nth": 2, "weekday": 1}, "#,
        "",
    ];
    let (days, month) = (random.pick(&days), [1, 3, 3, 12][random.below(4)]);
    let month = if random.one_in(3) { String::new() } else { format!(r#""month": {month}, "#) };
    let unit = random.pick(&["days", "weeks", "months"]);
    let period = match random.below(4) {
        0 => random.between(1, 30),
        1 => 12 * random.between(1, 20),
        2 => [52, 261, 313, 365, 1461][random.below(5)],
        _ => random.between(1, 10_000),
    };
    let (year, day) = (random.between(1969, 2030), random.between(1, 28));
    let start = format!("{year}-{:02}-{day:02}", [1, 3, 3, 12][random.below(4)]);
    let every = match random.one_in(4) {
        true => String::new(),
        false => format!(r#""every": {{"{unit}": {period}, "start": "{start}"}}, "#),
    };
    let repeated = random.pick(&["repeat_use_both", "repeat_use_only_late"]);
    format!(
        r#"{{"hour": 2, "minute": 30, {days}{month}{every}"dst_fixes": ["{missing}", "{repeated}"]}}"#
    )
}

/// The search that knows of years without a firing finds what one that visits them all finds.
#[test]
fn deserts_are_crossed_where_a_walk_ends() {
    let zones: Vec<Zone> = [
        "America/Los_Angeles",
        "AAA0BBB,J60/2,J300/2",
        "AAA0BBB,0/2,59/2",
        "AAA0BBB-24,J364/20,J2/3",
        "AAA0BBB,M3.2.0/2,M3.3.0/2",
        "AAA-16BBB15,M10.1.5/0,J60/2",
    ]
    .iter()
    .map(|name| name.parse().unwrap())
    .collect();
    let mut random = Random(8);
    for _ in 0..rounds(400, 40_000) {
        let seed = random.number();
        let [skip, unskip] = ["skip", "unskip"].map(|missing| {
            serde_json::from_str::<Item>(&rare_item(&mut Random(seed), missing)).ok()
        });
        let (Some(skip), Some(unskip)) = (skip, unskip) else { continue };
        let zone = &zones[random.below(zones.len())];
        let from = Time::from_epoch(random.between(0, 20_000_000_000));
        let mut at = Some(from);
        let walked = loop {
            match at.and_then(|at| unskip.pattern().next_firing(zone, at)) {
                Some(firing) if firing.why == Why::BeforeGap => {
                    at = Some(firing.at.plus_seconds(1));
                }
                other => break other.map(|firing| firing.at),
            }
        };
        let text = serde_json::to_string(&skip).unwrap();
        assert_eq!(skip.next(zone, from), walked, "{text} in {} from {from}", zone.name());
    }
}
