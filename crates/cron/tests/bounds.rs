//! What a question costs: no allocation, and no item that is out of all proportion.

#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]
#![allow(unsafe_code, reason = "an allocator that counts cannot be written without it")]

use std::{
    alloc::{GlobalAlloc, Layout, System},
    cell::Cell,
    hint::black_box,
    time::{Duration, Instant},
};

use sterna_cron::{Item, Line, Pattern, Time, Zone};

/// The system's allocator, which also counts what the current thread asks of it.
struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: every call is passed on as it came; counting touches no memory of the allocator's.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.with(|count| count.set(count.get() + 1));
        // SAFETY: the caller keeps the promises that the system's allocator asks for.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: the block came from the system's allocator, with this layout.
        unsafe { System.dealloc(block, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Ordinary, beside gaps and folds, rare, far away, or never.
const ITEMS: [&str; 12] = [
    r#"{"minute":{"period":5},"dst_fixes":["skip","repeat_use_both"]}"#,
    r#"{"minute":30,"hour":2,"dst_fixes":["unskip","repeat_use_only_early"]}"#,
    r#"{"minute":30,"hour":1,"dst_fixes":["skip","repeat_use_only_late"]}"#,
    r#"{"minute":30,"hour":2,"month":3,"weekday_of_month":{"nth":2,"weekday":"Sun"},"dst_fixes":["skip","repeat_use_both"]}"#,
    r#"{"minute":30,"hour":2,"month":3,"weekday_of_month":{"nth":2,"weekday":"Sun"},"every":{"months":12,"start":"2008-03-01"},"dst_fixes":["skip","repeat_use_both"]}"#,
    r#"{"minute":30,"hour":2,"month":2,"weekday_of_month":{"nth":5,"weekday":"Sun"},"dst_fixes":["skip","repeat_use_both"]}"#,
    r#"{"minute":30,"hour":2,"every":{"days":9999,"start":"2008-03-09"},"dst_fixes":["skip","repeat_use_both"]}"#,
    r#"{"minute":59,"hour":23,"day_of_month":31,"month":12,"year":9999,"dst_fixes":["skip","repeat_use_both"]}"#,
    r#"{"minute":30,"hour":2,"day_of_month":1,"month":3,"dst_fixes":["skip","repeat_use_both"]}"#,
    r#"{"minute":30,"hour":2,"day_of_month":31,"month":12,"dst_fixes":["skip","repeat_use_both"]}"#,
    r#"{"minute":30,"hour":2,"every":{"months":12,"start":"1969-03-01"},"dst_fixes":["skip","repeat_use_both"]}"#,
    r#"{"epoch":{"period":300}}"#,
];
/// The last two move their clocks on 1 March, and by a day at the end of the year, so that some of
/// the items above never fire.
const ZONES: [&str; 6] = [
    "America/Los_Angeles",
    "Australia/Lord_Howe",
    "Pacific/Apia",
    "UTC",
    "AAA0BBB,J60/2,J300/2",
    "AAA0BBB-24,J364/20,J2/3",
];

fn patterns() -> Vec<Pattern> {
    let items = ITEMS.iter().map(|item| serde_json::from_str::<Item>(item).unwrap());
    let lines =
        ["0 10 * * 2", "0 0 29 2 *", "30 2 * * *"].map(|line| line.parse::<Line>().unwrap());
    items
        .map(|item| item.pattern().clone())
        .chain(lines.map(|line| line.pattern().clone()))
        .collect()
}

fn starts() -> impl Iterator<Item = Time> {
    (0..400).map(|step| Time::from_epoch(step * 20_123_457))
}

#[test]
fn the_next_firing_allocates_nothing() {
    let patterns = patterns();
    let zones = ZONES.map(|name| name.parse::<Zone>().unwrap());
    let before = ALLOCATIONS.with(Cell::get);
    for pattern in &patterns {
        for zone in &zones {
            for from in starts() {
                black_box(pattern.next(zone, from));
            }
        }
    }
    assert_eq!(ALLOCATIONS.with(Cell::get), before);
    // The count is not blind.
    drop(black_box(Box::new(5)));
    assert_eq!(ALLOCATIONS.with(Cell::get), before + 1);
}

/// In proportion, since machines differ and tests are not optimised: the slowest question takes
/// some hundred times as long as an ordinary one, not a hundred thousand.
#[test]
#[expect(clippy::disallowed_methods, reason = "two durations of one run are compared")]
fn no_item_is_out_of_proportion() {
    let best = |pattern: &Pattern, zone: &Zone, from: Time| {
        let ask = |_| {
            let begun = Instant::now();
            black_box(pattern.next(zone, from));
            begun.elapsed()
        };
        (0..5).map(ask).min().unwrap_or(Duration::MAX)
    };
    let patterns = patterns();
    let zones = ZONES.map(|name| name.parse::<Zone>().unwrap());
    let mut ordinary: Vec<Duration> =
        starts().map(|from| best(&patterns[0], &zones[0], from)).collect();
    ordinary.sort_unstable();
    let ordinary = ordinary[ordinary.len() / 2].max(Duration::from_nanos(50));
    for (at, pattern) in patterns.iter().enumerate() {
        for zone in &zones {
            for from in starts().step_by(7) {
                let taken = best(pattern, zone, from);
                let limit = ordinary * 1_000;
                assert!(taken < limit, "pattern {at} in {} from {from}: {taken:?}", zone.name());
            }
        }
    }
}
