//! Saved states of all versions can be read for ever: files here are added to, never edited.

#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use sterna_cron::{Clockwork, Follows, Item, Listing, Reading, Saved, Time, Uptime, Zone};

fn reading(system: i64, up: i64) -> Reading {
    Reading { system: Time::from_epoch(system), monotonic: Uptime::from_seconds(up) }
}

#[test]
fn version_1_is_written_and_read() {
    let golden = include_str!("golden/saved_v1.json");
    let item: Item =
        serde_json::from_str(r#"{"minute": 0, "dst_fixes": ["skip", "repeat_use_both"]}"#).unwrap();
    let zone: Zone = "Europe/Berlin".parse().unwrap();
    let listing = Listing { on_time_seconds: 60, listed_seconds: 600 };
    let pattern = item.pattern().clone();
    let mut work =
        Clockwork::new(pattern, zone, Follows::System, listing, reading(1_717_398_000, 50));
    // Two hours pass at once, so that 08:00 is not listed; then the clock is set back a little.
    work.step(reading(1_717_405_200, 7_250), &mut Vec::new());
    work.step(reading(1_717_404_900, 7_260), &mut Vec::new());
    assert_eq!(serde_json::to_string_pretty(work.saved()).unwrap() + "\n", golden);
    let read: Saved = serde_json::from_str(golden).unwrap();
    assert_eq!(&read, work.saved());
}

#[test]
fn a_move_that_is_not_caught_up_with_is_written_and_read() {
    let golden = include_str!("golden/saved_v1_moved.json");
    let item: Item = serde_json::from_str(
        r#"{"minute": {}, "second": {}, "dst_fixes": ["skip", "repeat_use_only_early"]}"#,
    )
    .unwrap();
    let listing = Listing { on_time_seconds: 60, listed_seconds: 7200 };
    let pattern = item.pattern().clone();
    let zone: Zone = "+01:00".parse().unwrap();
    let mut work =
        Clockwork::new(pattern, zone, Follows::System, listing, reading(1_717_398_000, 50));
    // An hour further east, with a firing each second: more than one step lists.
    work.set_timezone("+02:00".parse().unwrap());
    assert!(work.step(reading(1_717_398_000, 50), &mut Vec::new()).has_more);
    assert_eq!(serde_json::to_string_pretty(work.saved()).unwrap() + "\n", golden);
    let read: Saved = serde_json::from_str(golden).unwrap();
    assert_eq!(&read, work.saved());
}
