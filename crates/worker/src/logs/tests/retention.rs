//! What goes, and in which order.

use proptest::prelude::*;

use super::{
    super::{
        names::KeyHash,
        shelf::{Place, Segment, Shelf, must_rotate},
    },
    *,
};

#[test]
fn a_segment_ends_when_it_is_full_or_old() {
    let limits = small();
    let segment =
        |bytes, first| Segment { first: 1, first_at: at(first), last_at: at(first), bytes };
    let cases = [
        ("room for more", segment(2_000, 0), 48, 0, false),
        ("no room", segment(2_000, 0), 49, 0, true),
        ("still young", segment(10, 0), 1, 450_000, false),
        ("as old as an eighth of what is kept", segment(10, 0), 1, 450_001, true),
        ("the clock was set back", segment(10, 500_000), 1, 0, false),
    ];
    for (what, segment, adding, now, expected) in cases {
        assert_eq!(must_rotate(&limits, &segment, adding, at(now)), expected, "{what}");
    }
}

#[test]
fn old_lines_go_and_live_ones_stay() {
    let mut world = World::new(small());
    let mut live = world.open(1, "k");
    out(&mut *live, 0, "old, and still written to\n");
    let mut over = world.open(2, "k");
    out(&mut *over, 0, "old\n");
    over.end(at(0));
    let mut quiet = world.open(3, "k");
    assert_eq!(quiet.write(at(0), Stream::Events, b"quiet\n"), Flow::More);
    quiet.end(at(0));
    let hour = 3_600_000;
    world.logs.tend(at(hour));
    assert_eq!(all(&world.reader(), of_key("k")).len(), 3);
    // The quiet segment is closed by the next one.
    let mut quiet = world.open(4, "k");
    assert_eq!(quiet.write(at(hour), Stream::Events, b"new\n"), Flow::More);
    quiet.end(at(hour));
    world.logs.tend(at(hour + 1));
    let left = short(&all(&world.reader(), of_key("k")));
    assert_eq!(left, ["1 old, and still written to", "1 new"]);
    assert_eq!(world.files().len(), 2);
    assert!(world.reader().read(&of_run(2)).is_err());
    live.end(at(hour + 2));
}

/// Whoever drives containers may end a log, and has no time for what else is to go.
#[test]
fn who_cannot_wait_removes_nothing() {
    let mut world = World::new(small());
    let mut old = world.open(1, "k");
    out(&mut *old, 0, "old\n");
    old.end(at(0));
    let hour = 3_600_001;
    let mut quiet = world.open(2, "k");
    assert_eq!(quiet.write(at(hour), Stream::Events, b"quiet\n"), Flow::More);
    quiet.end_soon(at(hour));
    assert_eq!(short(&all(&world.reader(), of_key("k"))), ["1 old", "1 quiet"]);
    world.logs.tend(at(hour));
    assert_eq!(short(&all(&world.reader(), of_key("k"))), ["1 quiet"]);
}

#[test]
fn whoever_stood_in_a_run_that_went_is_told() {
    let mut world = World::new(small());
    let mut one = world.open(1, "k");
    out(&mut *one, 0, "a\nb\nc\n");
    one.end(at(0));
    let mut two = world.open(2, "k");
    out(&mut *two, 3_600_000, "d\n");
    let request = Request { entries_max: 2, ..of_key("k") };
    let page = world.reader().read(&request).unwrap();
    assert_eq!(short(&page.entries), ["1 a", "2 b"]);
    world.logs.tend(at(3_600_001));
    let request = Request { from: From::Cursor(page.next), ..request };
    assert_eq!(short(&all(&world.reader(), request)), ["gap 3-", "1 d"]);
    two.end(at(3_600_002));
}

#[test]
fn the_total_holds_over_many_runs() {
    let limits = Limits { total: Bytes::new(64 * 1024), ..small() };
    let mut world = World::new(limits);
    for number in 1..=100 {
        let mut sink = world.open(number, "k");
        out(&mut *sink, i64::from(number), &"some line\n".repeat(30));
        sink.end(at(i64::from(number)));
    }
    // A file of less than a block takes two with its directory.
    assert_eq!(world.files().len(), 8);
    let entries = all(&world.reader(), of_key("k"));
    let Some(Entry::Line(first)) = entries.first() else { panic!() };
    assert_eq!(first.run, run(93));
    world.reopen(200);
    assert_eq!(all(&world.reader(), of_key("k")), entries);
}

#[test]
fn the_quiet_have_a_bound_of_their_own() {
    let mut world = World::new(Limits { quiet: Bytes::new(20 * 1024), ..small() });
    let mut talker = world.open(0, "k");
    out(&mut *talker, 0, "kept\n");
    talker.end(at(0));
    for number in 1..=250 {
        let mut sink = world.open(number, "k");
        assert_eq!(sink.write(at(1), Stream::Events, b"said\n"), Flow::More);
        sink.end(at(1));
    }
    assert!(world.files().len() <= 5, "{:?}", world.files());
    assert_eq!(short(&all(&world.reader(), of_run(0))), ["1 kept"]);
    assert_eq!(short(&all(&world.reader(), of_run(250))), ["1 said"]);
    assert!(world.reader().read(&of_run(1)).is_err());
}

proptest! {
    #[test]
    fn only_closed_segments_go_the_oldest_first_and_no_more_than_must(
        steps in proptest::collection::vec((0..6_u8, 0..5_u8, 0..4_000_u64), 1..200),
        total in 10_000..80_000_u64,
    ) {
        let limits = Limits { total: Bytes::new(total), ..small() };
        let (mut shelf, mut first) = (Shelf::default(), 1);
        let mut live: std::collections::BTreeMap<u8, u64> = std::collections::BTreeMap::new();
        for (millis, (number, what, bytes)) in (0..).step_by(30_000).zip(steps) {
            let (now, id, key) = (at(millis), run(number), KeyHash::of("k"));
            match what {
                0 => drop(live.remove(&number).map(|_| shelf.over(id))),
                1 | 2 => {
                    if live.contains_key(&number) {
                        shelf.grown(id, bytes, now, first);
                    }
                }
                _ => {
                    if !live.contains_key(&number) {
                        let _ = shelf.open(id, key, "k");
                    }
                    first += 1;
                    shelf.begun(id, Segment { first, first_at: now, last_at: now, bytes });
                    live.insert(number, first);
                }
            }
            let mut gone = Vec::new();
            while let Some((place, segment)) = shelf.overdue(&limits, now, None) {
                let Place::Own(id, _, first) = place else { panic!("{place:?}") };
                let is_live = live.iter().any(|(number, open)| run(*number) == id && *open == first);
                prop_assert!(!is_live, "{place:?} is written to");
                gone.push(segment.last_at);
            }
            prop_assert!(gone.is_sorted());
            let left = shelf.closed_first();
            prop_assert!(left.is_none_or(|left| gone.iter().all(|gone| *gone <= left)));
            prop_assert!(left.is_none() || shelf.bytes() <= total);
            prop_assert!(left.is_none_or(|left| left >= now.minus(limits.keep_for)));
        }
    }
}
