//! More output than may be kept.

use super::*;
use sterna_model::payload::WhenOver;

fn rated(when_over: WhenOver) -> Logging {
    Logging { rate: Some(Bytes::new(1_000)), when_over }
}

#[test]
fn a_flood_keeps_the_newest_lines_and_counts_the_others() {
    let mut world = World::new(small());
    let mut sink = world.open(1, "k");
    let mut reader = of_run(1);
    out(&mut *sink, 0, "line 1\nline 2\n");
    assert_eq!(short(&follow(&world.reader(), &mut reader).0), ["1 line 1", "2 line 2"]);
    for number in 3..=20_000 {
        out(&mut *sink, number, &format!("line {number}\n"));
    }
    let bytes: u64 = world.files().iter().map(|file| file.metadata().unwrap().len()).sum();
    assert!(bytes <= 18 * 1024, "{bytes}");
    // Whoever had read to the second line is told what is missing.
    let (entries, _) = follow(&world.reader(), &mut reader);
    let [Entry::Gap(gap), Entry::Line(first), .., Entry::Line(end)] = &entries[..] else {
        panic!("{:?}", short(&entries));
    };
    assert_eq!((gap.first, gap.last), (3, Some(first.number - 1)));
    assert_eq!((end.number, &end.bytes[..]), (20_000, &b"line 20000"[..]));
    assert_eq!(entries.len() as u64 - 1, 20_000 - first.number + 1);
    let page = world.reader().read(&last(1, 1)).unwrap();
    assert_eq!(short(&page.entries), ["20000 line 20000"]);
    sink.end(at(30_000));
}

#[test]
fn a_run_over_its_rate_waits_and_loses_nothing() {
    let mut world = World::new(wide());
    let mut sink = world.open_with(1, rated(WhenOver::Wait));
    let (mut now, mut waited) = (0, 0);
    for _ in 0..100 {
        match sink.write(at(now), Stream::Stdout, &b"0123456789\n".repeat(10)) {
            Flow::More => {}
            Flow::Wait(span) => {
                let span = i64::try_from(span.as_millis()).unwrap();
                (now, waited) = (now + span, waited + span);
            }
        }
    }
    sink.end(at(now));
    assert_eq!(all(&world.reader(), of_run(1)).len(), 1_000);
    assert!((9_900..=10_200).contains(&waited), "11000 bytes, 1000 of them at once: {waited} ms");
}

#[test]
fn a_run_that_may_not_wait_loses_lines_which_are_counted_and_keeps_the_newest() {
    let mut world = World::new(wide());
    let mut sink = world.open_with(1, rated(WhenOver::Drop));
    for number in 1..=10_000 {
        out(&mut *sink, 0, &format!("line {number}\n"));
    }
    assert!(!sink.is_settled());
    sink.settle(at(200));
    assert!(sink.is_settled());
    let entries = all(&world.reader(), of_run(1));
    let lines: Vec<&Line> = entries
        .iter()
        .filter_map(|entry| match entry {
            Entry::Line(line) => Some(line),
            Entry::Gap(_) => None,
        })
        .collect();
    let [.., newest, dropped] = lines[..] else { panic!("{lines:?}") };
    assert_eq!((newest.number, &newest.bytes[..]), (10_000, &b"line 10000"[..]));
    assert_eq!((dropped.number, dropped.stream), (10_001, Stream::Events));
    let told: serde_json::Value = serde_json::from_slice(&dropped.bytes).unwrap();
    assert_eq!(told["lines"].as_u64().unwrap() + lines.len() as u64 - 1, 10_000);
    assert_eq!(told["why"], "more than 1kB a second");
    // When it is slow again, everything is kept again.
    out(&mut *sink, 60_000, "calm\n");
    sink.end(at(60_001));
    let page = world.reader().read(&last(1, 1)).unwrap();
    assert_eq!(short(&page.entries), ["10002 calm"]);
}

#[test]
fn a_line_without_its_end_is_seen_after_a_moment() {
    let mut world = World::new(wide());
    let mut sink = world.open(1, "k");
    out(&mut *sink, 0, "Password: ");
    assert!(!sink.is_settled());
    sink.settle(at(200));
    assert_eq!(short(&all(&world.reader(), of_run(1))), ["1 Password: +"]);
    out(&mut *sink, 300, "secret\n");
    drop(sink);
    assert_eq!(short(&all(&world.reader(), of_run(1))), ["1 Password: +", "2 secret"]);
}

/// Who looks at a log of a machine that is full wants to know what happened last.
#[test]
fn on_a_full_disk_the_oldest_lines_go() {
    let command = |program: &str, arguments: &[&str], at: &std::path::Path| {
        let run = std::process::Command::new(program).args(arguments).arg(at).status();
        run.is_ok_and(|status| status.success())
    };
    let mut world = World::new(wide());
    if !command("mount", &["-t", "tmpfs", "-o", "size=64k", "tmpfs"], &world.path) {
        // It needs to be root, and a disk that is small.
        return;
    }
    world.reopen(0);
    let mut sink = world.open(1, "k");
    for number in 1..=2_000 {
        out(&mut *sink, number, &format!("{number:0100}\n"));
    }
    let entries = all(&world.reader(), of_run(1));
    let newest = Request { direction: Direction::Backward, from: From::End, ..of_run(1) };
    let newest = world.reader().read(&Request { entries_max: 1, ..newest }).unwrap().entries;
    sink.end(at(3_000));
    assert!(command("umount", &["-l"], &world.path));
    let [Entry::Gap(gap), Entry::Line(first), .., Entry::Line(last)] = &entries[..] else {
        panic!("{:?}", short(&entries));
    };
    assert_eq!((gap.first, gap.last), (1, Some(first.number - 1)));
    assert_eq!((last.number, &newest[..]), (2_000, &entries[entries.len() - 1..]));
}
