//! Logs of real files in a directory of their own.

mod damage;
mod floods;
mod paging;
mod retention;

use std::{
    path::PathBuf,
    sync::atomic::{AtomicU64, Ordering},
};

use sterna_model::{Bytes, RunId, Span, WallTime, payload::Logging};

use super::{Cursor, Direction, Entry, From, Limits, Line, Logs, More, Of, Page, Reader, Request};
use crate::sink::{Flow, Origin, Sink, Sinks, Stream};

/// Bounds that a test comes to.
fn small() -> Limits {
    Limits {
        total: Bytes::new(1 << 30),
        keep_for: Span::from_secs(3600),
        run: Bytes::new(16 * 1024),
        quiet: Bytes::new(64 * 1024),
        segment: Bytes::new(2 * 1024),
    }
}

/// Bounds that no test comes to, with files as small.
fn wide() -> Limits {
    Limits { run: Bytes::new(1 << 30), quiet: Bytes::new(1 << 30), ..small() }
}

fn at(millis: i64) -> WallTime {
    WallTime::from_millis(1_700_000_000_000 + millis).unwrap()
}

fn run(number: u8) -> RunId {
    RunId::from_parts(at(i64::from(number)), [number; 10])
}

fn origin(key: &str) -> Origin {
    Origin { key: key.to_owned(), ..Origin::default() }
}

/// A data directory, removed at the end.
struct World {
    path: PathBuf,
    limits: Limits,
    logs: Logs,
}

impl World {
    fn new(limits: Limits) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("sterna-logs-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let logs = Logs::open(&path, limits, at(0)).unwrap();
        Self { path, limits, logs }
    }

    /// The next worker.
    fn reopen(&mut self, millis: i64) {
        self.logs = Logs::open(&self.path, self.limits, at(millis)).unwrap();
    }

    fn open(&mut self, number: u8, key: &str) -> Box<dyn Sink> {
        self.logs.open(run(number), &origin(key))
    }

    fn open_with(&mut self, number: u8, logs: Logging) -> Box<dyn Sink> {
        self.logs.open(run(number), &Origin { key: "k".to_owned(), logs })
    }

    fn reader(&self) -> Reader {
        self.logs.reader()
    }

    /// Every file below the logs.
    fn files(&self) -> Vec<PathBuf> {
        let directories = std::fs::read_dir(self.path.join("logs")).unwrap().flatten();
        let files = directories
            .flat_map(|entry| std::fs::read_dir(entry.path()).unwrap().flatten())
            .map(|entry| entry.path());
        let mut files: Vec<_> = files.collect();
        files.sort();
        files
    }
}

impl Drop for World {
    fn drop(&mut self) {
        drop(std::fs::remove_dir_all(&self.path));
    }
}

fn out(sink: &mut dyn Sink, millis: i64, text: &str) {
    assert_eq!(sink.write(at(millis), Stream::Stdout, text.as_bytes()), Flow::More);
}

fn of_run(number: u8) -> Request {
    Request::all(Of::Run(run(number)))
}

fn of_key(key: &str) -> Request {
    Request::all(Of::Key(key.to_owned()))
}

/// Everything that a request gives, page by page.
fn all(reader: &Reader, mut request: Request) -> Vec<Entry> {
    let (entries, _) = follow(reader, &mut request);
    entries
}

/// The same, and where the last page ended; the request is left there.
fn follow(reader: &Reader, request: &mut Request) -> (Vec<Entry>, Page) {
    let mut entries = Vec::new();
    for _ in 0..100_000 {
        let page = reader.read(request).unwrap();
        entries.extend(page.entries.iter().cloned());
        request.from = From::Cursor(page.next.clone());
        match page.more {
            More::Now => {}
            More::Later | More::Never => return (entries, page),
        }
    }
    panic!("there is always more");
}

/// Entries in short: numbers and texts, gaps with their bounds.
fn short(entries: &[Entry]) -> Vec<String> {
    let each = entries.iter().map(|entry| match entry {
        Entry::Line(Line { number, bytes, is_cut, .. }) => {
            let cut = if *is_cut { "+" } else { "" };
            format!("{number} {}{cut}", String::from_utf8_lossy(bytes))
        }
        Entry::Gap(gap) => match gap.last {
            Some(last) => format!("gap {}-{last}", gap.first),
            None => format!("gap {}-", gap.first),
        },
    });
    each.collect()
}

fn last(number: u8, count: usize) -> Request {
    let direction = Direction::Backward;
    Request { from: From::End, direction, entries_max: count, ..of_run(number) }
}

#[test]
fn what_is_written_is_read_by_run_and_by_key() {
    let mut world = World::new(Limits::default());
    let mut one = world.open(1, "default/task/a");
    assert_eq!(one.write(at(0), Stream::Events, b"{\"event\":\"started\"}\n"), Flow::More);
    out(&mut *one, 1, "hello\nwor");
    assert_eq!(one.write(at(2), Stream::Stderr, b"\xff bad\n"), Flow::More);
    out(&mut *one, 3, "ld\nno newline");
    one.end(at(4));
    let entries = all(&world.reader(), of_run(1));
    let expected =
        ["1 {\"event\":\"started\"}", "2 hello", "3 \u{fffd} bad", "4 world", "5 no newline+"];
    assert_eq!(short(&entries), expected);
    let Entry::Line(third) = &entries[2] else { panic!() };
    assert_eq!(
        (third.stream, third.at, &third.bytes[..]),
        (Stream::Stderr, at(2), &b"\xff bad"[..])
    );
    assert_eq!(all(&world.reader(), of_key("default/task/a")), entries);
    assert_eq!(all(&world.reader(), of_key("default/task/b")), []);
    // The next worker, and whoever opens the directory, find the same.
    world.reopen(5);
    assert_eq!(all(&world.reader(), of_run(1)), entries);
    assert_eq!(all(&Reader::open(&world.path), of_key("default/task/a")), entries);
}

#[test]
fn a_run_that_writes_nothing_has_no_file_and_is_read_all_the_same() {
    let mut world = World::new(Limits::default());
    for number in 1..=50 {
        let mut sink = world.open(number, "k");
        assert_eq!(sink.write(at(1), Stream::Events, b"started\n"), Flow::More);
        // It can be read while it is in no file at all.
        assert_eq!(short(&all(&world.reader(), of_run(number))), ["1 started"]);
        assert_eq!(sink.write(at(2), Stream::Events, b"exited\n"), Flow::More);
        sink.end(at(3));
        assert_eq!(short(&all(&world.reader(), of_run(number))), ["1 started", "2 exited"]);
    }
    assert_eq!(world.files().len(), 1, "{:?}", world.files());
    let entries = all(&world.reader(), of_key("k"));
    assert_eq!(entries.len(), 100);
    world.reopen(9);
    assert_eq!(all(&world.reader(), of_key("k")), entries);
}

#[test]
fn what_is_said_of_a_run_after_its_end_follows_what_was_said_before() {
    let mut world = World::new(Limits::default());
    for (number, text) in [(1, ""), (2, "hello\n")] {
        let mut sink = world.open(number, "k");
        assert_eq!(sink.write(at(1), Stream::Events, b"started\n"), Flow::More);
        out(&mut *sink, 2, text);
        sink.end(at(3));
    }
    // At once, and by the next worker; of one of them nobody knows the key any more.
    for (round, key) in [(4, "k"), (5, "")] {
        for number in [1, 2] {
            let mut sink = world.open(number, key);
            let said = format!("said {round}\n");
            assert_eq!(sink.write(at(round), Stream::Events, said.as_bytes()), Flow::More);
            sink.end(at(round));
        }
        world.reopen(6);
    }
    let said = |number| short(&all(&world.reader(), of_run(number)));
    assert_eq!(said(1), ["1 started", "2 said 4", "3 said 5"]);
    assert_eq!(said(2), ["1 started", "2 hello", "3 said 4", "4 said 5"]);
    assert_eq!(all(&world.reader(), of_key("k")).len(), 7);
}

#[test]
fn a_run_that_never_was_is_told() {
    let world = World::new(Limits::default());
    let error = world.reader().read(&of_run(1)).unwrap_err();
    assert!(error.to_string().contains(&run(1).to_string()), "{error}");
    let request = Request { matching: Some("(".to_owned()), ..of_key("k") };
    assert!(world.reader().read(&request).is_err());
}

#[test]
fn two_keys_that_share_a_hash_are_told_apart() {
    let mut world = World::new(Limits::default());
    let mut sink = world.open(1, "mine");
    out(&mut *sink, 0, "secret\n");
    sink.end(at(1));
    // As if another key had the same hash: the directory is found by it, the key in the file is not.
    let theirs = super::names::KeyHash::of("theirs");
    let ours = world.files()[0].parent().unwrap().to_owned();
    std::fs::rename(&ours, ours.with_file_name(super::names::of_run(run(1), theirs))).unwrap();
    world.reopen(2);
    assert_eq!(all(&world.reader(), of_key("theirs")), []);
    assert_eq!(short(&all(&world.reader(), of_run(1))), ["1 secret"]);
}

#[test]
fn who_follows_is_woken_and_misses_nothing() {
    let mut world = World::new(small());
    let mut sink = world.open(1, "k");
    out(&mut *sink, 0, "line 1\n");
    let reader = world.reader();
    let follower = std::thread::spawn(move || {
        let (mut seen, mut request) = (Vec::new(), of_run(1));
        loop {
            let (entries, page) = follow(&reader, &mut request);
            seen.extend(entries);
            match page.more {
                More::Never => return seen,
                More::Now | More::Later => {
                    assert!(reader.wait(&request.of, &page.next, Span::from_secs(60)));
                }
            }
        }
    });
    for number in 2..=200 {
        out(&mut *sink, number, &format!("line {number}\n"));
    }
    sink.end(at(300));
    let seen = follower.join().unwrap();
    // It may have been too slow for the run's bound; then it was told.
    let lines = seen.iter().filter(|entry| matches!(entry, Entry::Line(_))).count() as u64;
    let gaps = seen.iter().map(|entry| match entry {
        Entry::Line(_) => 0,
        Entry::Gap(gap) => gap.last.unwrap() - gap.first + 1,
    });
    assert_eq!(lines + gaps.sum::<u64>(), 200);
    let nothing =
        Cursor { positions: vec![super::Position { run: run(1), line: 201 }], time: None };
    assert!(!world.reader().wait(&Of::Key("k".to_owned()), &nothing, Span::from_millis(1)));
}

#[test]
fn a_key_is_followed_into_its_next_run_while_the_last_still_lives() {
    let mut world = World::new(Limits::default());
    let mut one = world.open(1, "k");
    out(&mut *one, 0, "a1\n");
    let mut request = of_key("k");
    assert_eq!(short(&follow(&world.reader(), &mut request).0), ["1 a1"]);
    let mut two = world.open(2, "k");
    out(&mut *two, 1, "b1\n");
    out(&mut *one, 2, "a2\n");
    assert_eq!(short(&follow(&world.reader(), &mut request).0), ["2 a2", "1 b1"]);
    out(&mut *one, 3, "a3\n");
    one.end(at(4));
    assert_eq!(short(&follow(&world.reader(), &mut request).0), ["3 a3"]);
    two.end(at(5));
    let mut three = world.open(3, "k");
    out(&mut *three, 6, "c1\n");
    let (entries, page) = follow(&world.reader(), &mut request);
    assert_eq!(short(&entries), ["1 c1"]);
    assert_eq!((page.more, page.next.positions.len()), (More::Later, 1));
    three.end(at(7));
}
