//! Whatever the pages, the same lines.

use proptest::prelude::*;

use super::*;

/// One thing that happens to a run.
#[derive(Clone, Debug)]
enum Act {
    Write(u8, bool, Vec<u8>),
    Say(u8, String),
    Settle(u8),
    End(u8),
    Reopen,
}

fn act() -> impl Strategy<Value = Act> {
    let text = prop_oneof![
        8 => "[ab\n]{0,40}".prop_map(String::into_bytes),
        1 => proptest::collection::vec(any::<u8>(), 0..200),
        1 => (0..60_usize).prop_map(|count| b"xyz\n".repeat(count)),
    ];
    prop_oneof![
        20 => (1..4_u8, any::<bool>(), text).prop_map(|(run, is_err, text)| Act::Write(run, is_err, text)),
        4 => (1..4_u8, "[a-c]{1,9}").prop_map(|(run, text)| Act::Say(run, text)),
        2 => (1..4_u8).prop_map(Act::Settle),
        2 => (1..4_u8).prop_map(Act::End),
        1 => Just(Act::Reopen),
    ]
}

/// Plays it. All runs are of one key, and are open at the end of a half of all cases.
fn play(limits: Limits, acts: &[Act]) -> World {
    let mut world = World::new(limits);
    let mut sinks: [Option<Box<dyn Sink>>; 4] = [const { None }; 4];
    for (millis, act) in (0..).step_by(10).zip(acts) {
        let mut sink = |number: u8, sinks: &mut [Option<Box<dyn Sink>>; 4]| {
            let place = &mut sinks[usize::from(number)];
            place.take().unwrap_or_else(|| world.open(number, "k"))
        };
        match act {
            Act::Write(number, is_err, text) => {
                let stream = if *is_err { Stream::Stderr } else { Stream::Stdout };
                let mut open = sink(*number, &mut sinks);
                assert_eq!(open.write(at(millis), stream, text), Flow::More);
                sinks[usize::from(*number)] = Some(open);
            }
            Act::Say(number, text) => {
                let mut open = sink(*number, &mut sinks);
                let line = format!("{text}\n");
                assert_eq!(open.write(at(millis), Stream::Events, line.as_bytes()), Flow::More);
                sinks[usize::from(*number)] = Some(open);
            }
            Act::Settle(number) => {
                if let Some(open) = &mut sinks[usize::from(*number)] {
                    open.settle(at(millis));
                }
            }
            Act::End(number) => {
                if let Some(open) = sinks[usize::from(*number)].take() {
                    open.end(at(millis));
                }
            }
            Act::Reopen => {
                sinks = [const { None }; 4];
                world.reopen(millis);
            }
        }
    }
    world
}

fn backward(request: Request) -> Request {
    Request { from: From::End, direction: Direction::Backward, ..request }
}

fn is_wanted(entry: &Entry, streams: &[Stream], pattern: &regex::bytes::Regex) -> bool {
    match entry {
        Entry::Line(line) => streams.contains(&line.stream) && pattern.is_match(&line.bytes),
        Entry::Gap(_) => true,
    }
}

#[test]
fn what_was_said_of_a_run_that_wrote_nothing_has_its_own_time_and_not_that_of_its_end() {
    let mut world = World::new(wide());
    let mut sink = world.open(3, "k");
    assert_eq!(sink.write(at(20), Stream::Events, b"begun\n"), Flow::More);
    sink.end(at(40));
    let reader = world.reader();
    for of in [Of::Run(run(3)), Of::Key("k".to_owned())] {
        let later = Request { from: From::Time(at(25)), ..Request::all(of) };
        assert_eq!(short(&all(&reader, later.clone())), [""; 0]);
        let earlier = Request { direction: Direction::Backward, ..later };
        assert_eq!(short(&all(&reader, earlier)), ["1 begun"]);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn pages_of_any_size_and_direction_give_the_same(
        acts in proptest::collection::vec(act(), 1..120),
        is_bounded: bool,
        (entries_max, bytes_max, look_max) in (1..20_usize, 1..500_usize, 1..900_u64),
        pattern in proptest::sample::select(vec!["", "a", "b|x", "a+b", "^$", "c$", "(?i)XY", "zzz"]),
        streams in proptest::sample::subsequence(
            vec![Stream::Stdout, Stream::Stderr, Stream::Events], 1..=3),
    ) {
        let limits = if is_bounded { Limits { run: Bytes::new(4 << 10), ..small() } } else { wide() };
        let world = play(limits, &acts);
        let reader = world.reader();
        let expression = regex::bytes::Regex::new(pattern).unwrap();
        for of in [Of::Run(run(1)), Of::Key("k".to_owned())] {
            let Ok(whole) = reader.read(&Request {
                entries_max: usize::MAX, bytes_max: usize::MAX, look_max: u64::MAX,
                ..Request::all(of.clone())
            }) else { continue };
            prop_assert_ne!(whole.more, More::Now);
            let wanted: Vec<Entry> = whole.entries.iter()
                .filter(|entry| is_wanted(entry, &streams, &expression)).cloned().collect();
            let request = Request {
                streams: streams.clone(), matching: Some(pattern.to_owned()),
                entries_max, bytes_max, look_max, ..Request::all(of)
            };
            prop_assert_eq!(&all(&reader, request.clone()), &wanted);
            let mut reversed = all(&reader, backward(request));
            reversed.reverse();
            prop_assert_eq!(&reversed, &wanted);
        }
    }

    #[test]
    fn nothing_is_lost_and_numbers_have_no_holes(
        acts in proptest::collection::vec(act(), 1..120),
    ) {
        let world = play(wide(), &acts);
        for number in 1..4 {
            for stream in [Stream::Stdout, Stream::Stderr] {
                let is_kept = |act: &&Act| matches!(act, Act::Write(run, is_err, _)
                    if *run == number && *is_err == (stream == Stream::Stderr));
                let mut written: Vec<u8> = acts.iter().filter(is_kept).flat_map(|act| match act {
                    Act::Write(_, _, text) => text.clone(),
                    Act::Say(..) | Act::Settle(_) | Act::End(_) | Act::Reopen => Vec::new(),
                }).collect();
                let Ok(_) = world.reader().read(&of_run(number)) else { continue };
                let entries = all(&world.reader(), of_run(number));
                let mut found = Vec::new();
                for (expected, entry) in (1..).zip(&entries) {
                    let Entry::Line(line) = entry else { panic!("{entry:?}") };
                    prop_assert_eq!(line.number, expected);
                    if line.stream == stream {
                        found.extend_from_slice(&line.bytes);
                        found.extend((!line.is_cut).then_some(b'\n'));
                    }
                }
                // The end of a line that was not settled is still in memory.
                let tail = written.len() - found.len();
                prop_assert!(!written[found.len()..].contains(&b'\n'), "{tail} bytes are missing");
                written.truncate(found.len());
                prop_assert_eq!(found, written);
            }
        }
    }

    #[test]
    fn a_reader_may_turn_round_anywhere(
        acts in proptest::collection::vec(act(), 1..60),
        pages in 0..20_usize,
        entries_max in 1..7_usize,
    ) {
        let world = play(Limits { run: Bytes::new(4 << 10), ..small() }, &acts);
        let reader = world.reader();
        let mut request = Request { entries_max, ..of_run(1) };
        let Ok(mut page) = reader.read(&request) else { return Ok(()) };
        let mut seen = page.entries.clone();
        for _ in 0..pages {
            request.from = From::Cursor(page.next.clone());
            page = reader.read(&request).unwrap();
            seen.extend(page.entries.iter().cloned());
        }
        let back = Request {
            from: From::Cursor(page.next.clone()), direction: Direction::Backward, ..request
        };
        let mut again = all(&reader, back);
        again.reverse();
        prop_assert_eq!(again, seen);
    }

    #[test]
    fn from_a_time_on_is_everything_from_that_time_on(
        acts in proptest::collection::vec(act(), 1..120),
        tens in 0..130_i64,
    ) {
        let world = play(wide(), &acts);
        let reader = world.reader();
        let from = at(tens * 10 - 5);
        for of in [Of::Run(run(2)), Of::Key("k".to_owned())] {
            let request = Request::all(of);
            let Ok(_) = reader.read(&request) else { continue };
            let is_late = |entry: &Entry| match entry {
                Entry::Line(line) => line.at >= from,
                Entry::Gap(_) => panic!("{entry:?}"),
            };
            let (late, early): (Vec<_>, Vec<_>) =
                all(&reader, request.clone()).into_iter().partition(is_late);
            let request = Request { from: From::Time(from), entries_max: 3, ..request };
            prop_assert_eq!(all(&reader, request.clone()), late);
            let mut before = all(&reader, Request { direction: Direction::Backward, ..request });
            before.reverse();
            prop_assert_eq!(before, early);
        }
    }
}

#[test]
fn a_page_that_found_nothing_says_where_to_look_on() {
    let mut world = World::new(wide());
    let mut sink = world.open(1, "k");
    for number in 1..=2_000 {
        out(&mut *sink, number, &format!("line {number}\n"));
    }
    let needle = Some("line 1999".to_owned());
    let mut request = Request { matching: needle, look_max: 1_000, ..of_run(1) };
    let page = world.reader().read(&request).unwrap();
    assert_eq!((page.entries.len(), page.more), (0, More::Now));
    let (found, page) = follow(&world.reader(), &mut request);
    assert_eq!(short(&found), ["1999 line 1999"]);
    // The run is live: what comes later is found from there.
    assert_eq!(page.more, More::Later);
    out(&mut *sink, 3_000, "line 1999 again\n");
    assert_eq!(short(&follow(&world.reader(), &mut request).0), ["2001 line 1999 again"]);
    sink.end(at(4_000));
}

#[test]
fn the_last_lines_are_found_without_reading_the_others() {
    let mut world = World::new(wide());
    let mut sink = world.open(1, "k");
    for number in 1..=5_000 {
        out(&mut *sink, number, &format!("line {number}\n"));
    }
    sink.end(at(9_000));
    let files = world.files();
    for file in &files[..files.len() - 1] {
        std::fs::remove_file(file).unwrap();
    }
    let page = world.reader().read(&last(1, 3)).unwrap();
    assert_eq!(short(&page.entries), ["5000 line 5000", "4999 line 4999", "4998 line 4998"]);
    let request = Request { from: From::Line(4_999), ..of_run(1) };
    assert_eq!(short(&all(&world.reader(), request)), ["4999 line 4999", "5000 line 5000"]);
    let request = Request { from: From::Time(at(5_000)), ..of_run(1) };
    assert_eq!(short(&all(&world.reader(), request)), ["5000 line 5000"]);
}
