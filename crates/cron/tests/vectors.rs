//! Every vector in `tests/vectors`: firings of items, and items that must be refused.

#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use serde::Deserialize;
use serde_json::Value;
use sterna_cron::{Database, Item, Time};

#[derive(Deserialize)]
struct Row {
    name: String,
    item: Value,
    timezone: String,
    from_epoch: i64,
    expected_epochs: Vec<i64>,
    #[serde(default)]
    exhausted: bool,
    #[serde(default)]
    expect_error: bool,
    #[serde(default)]
    expected_local: Vec<String>,
}

#[test]
fn every_row_fires_as_written() {
    let rows: Vec<Row> = serde_json::from_str(include_str!("vectors/cron_vectors.json")).unwrap();
    assert_eq!(rows.len(), 104);
    let database = Database::bundled();
    for row in rows {
        let item = Item::deserialize(row.item);
        if row.expect_error {
            assert!(item.is_err(), "{} must be refused", row.name);
            continue;
        }
        let item = item.unwrap_or_else(|error| panic!("{}: {error}", row.name));
        let zone = database.zone(&row.timezone).unwrap();
        let mut from = Time::from_epoch(row.from_epoch);
        for (i, expected) in row.expected_epochs.iter().enumerate() {
            let found = item.next(&zone, from).map(Time::epoch);
            assert_eq!(found, Some(*expected), "{}, firing {i}", row.name);
            from = Time::from_epoch(expected + 1);
            if let Some(local) = row.expected_local.get(i) {
                let shown = zone.format(Time::from_epoch(*expected));
                assert_eq!(shown.replace(':', ""), local[..24].replace(':', ""), "{}", row.name);
            }
        }
        if row.exhausted {
            assert_eq!(item.next(&zone, from), None, "{} must end", row.name);
        }
    }
}

#[test]
fn every_invalid_item_is_refused() {
    #[derive(Deserialize)]
    struct Invalid {
        name: String,
        item: Value,
    }
    let rows: Vec<Invalid> =
        serde_json::from_str(include_str!("vectors/cron_invalid_items.json")).unwrap();
    assert_eq!(rows.len(), 37);
    for row in rows {
        let refused = Item::deserialize(&row.item);
        assert!(refused.is_err(), "{}: {} must be refused", row.name, row.item);
    }
}
