//! What a worker that was killed leaves, and what a disk loses.

use super::*;

/// A log of two writes; gives its file, and the bytes after the first of them.
fn broken(world: &mut World) -> (PathBuf, usize) {
    let mut sink = world.open(1, "k");
    out(&mut *sink, 1, "one\ntwo\n");
    let before = std::fs::read(&world.files()[0]).unwrap().len();
    out(&mut *sink, 2, "three\nfour\n");
    // Nothing is held back: dropping it adds nothing.
    drop(sink);
    (world.files()[0].clone(), before)
}

#[test]
fn a_torn_tail_is_cut_and_the_log_goes_on_with_the_next_number() {
    let mut world = World::new(wide());
    let (file, before) = broken(&mut world);
    let whole = std::fs::read(&file).unwrap();
    for length in before..=whole.len() {
        std::fs::write(&file, &whole[..length]).unwrap();
        world.reopen(3);
        let mut sink = world.open(1, "k");
        out(&mut *sink, 4, "five\n");
        sink.end(at(5));
        let mut expected = vec!["1 one", "2 two"];
        if length == whole.len() {
            expected.extend(["3 three", "4 four", "5 five"]);
        } else {
            expected.push("3 five");
        }
        assert_eq!(short(&all(&world.reader(), of_run(1))), expected, "cut at {length}");
        assert_eq!(world.files().len(), 1);
    }
}

#[test]
fn a_head_that_is_torn_is_written_again() {
    let mut world = World::new(wide());
    let (file, _) = broken(&mut world);
    let whole = std::fs::read(&file).unwrap();
    for length in 0..20 {
        std::fs::write(&file, &whole[..length]).unwrap();
        world.reopen(3);
        let mut sink = world.open(1, "k");
        out(&mut *sink, 4, "again\n");
        sink.end(at(5));
        assert_eq!(short(&all(&world.reader(), of_key("k"))), ["1 again"]);
    }
}

#[test]
fn a_damaged_file_costs_its_own_lines_and_they_are_counted() {
    let mut world = World::new(wide());
    let mut sink = world.open(1, "k");
    for number in 1..=300 {
        out(&mut *sink, number, &format!("line {number}\n"));
    }
    sink.end(at(400));
    let files = world.files();
    assert!(files.len() > 3, "{files:?}");
    let mut bytes = std::fs::read(&files[1]).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&files[1], &bytes).unwrap();
    let entries = all(&world.reader(), of_run(1));
    let gaps: Vec<_> = entries.iter().filter(|entry| matches!(entry, Entry::Gap(_))).collect();
    let [Entry::Gap(gap)] = gaps[..] else { panic!("{gaps:?}") };
    let missing = gap.last.unwrap() - gap.first + 1;
    assert_eq!(entries.len() as u64 - 1 + missing, 300);
    let request = Request { from: From::End, direction: Direction::Backward, ..of_run(1) };
    let mut back = all(&world.reader(), request);
    back.reverse();
    assert_eq!(back, entries);
}

#[test]
fn a_log_whose_end_is_damaged_says_so() {
    let mut world = World::new(wide());
    let (file, before) = broken(&mut world);
    let whole = std::fs::read(&file).unwrap();
    std::fs::write(&file, &whole[..before + 20]).unwrap();
    world.reopen(3);
    let entries = all(&world.reader(), of_run(1));
    assert_eq!(short(&entries), ["1 one", "2 two", "gap 3-"]);
}

#[test]
fn no_cut_or_changed_byte_of_the_quiet_is_taken_for_a_log() {
    let mut world = World::new(wide());
    for number in [1, 2] {
        let mut sink = world.open(number, "k");
        assert_eq!(sink.write(at(1), Stream::Events, b"said\n"), Flow::More);
        sink.end(at(2));
    }
    let file = world.files()[0].clone();
    let whole = std::fs::read(&file).unwrap();
    let half = whole.len() / 2;
    for length in half..whole.len() {
        std::fs::write(&file, &whole[..length]).unwrap();
        world.reopen(3);
        assert_eq!(short(&all(&world.reader(), of_key("k"))), ["1 said"], "cut at {length}");
    }
    for place in 0..half {
        let mut changed = whole.clone();
        changed[place] ^= 4;
        std::fs::write(&file, &changed).unwrap();
        world.reopen(3);
        assert_eq!(all(&world.reader(), of_key("k")), [], "changed at {place}");
    }
}

#[test]
fn a_file_that_cannot_be_made_costs_lines_and_no_number_twice() {
    let mut world = World::new(wide());
    let mut sink = world.open(1, "k");
    let place = world
        .path
        .join("logs")
        .join(super::super::names::of_run(run(1), super::super::names::KeyHash::of("k")));
    std::fs::write(&place, "in the way").unwrap();
    assert_eq!(sink.write(at(0), Stream::Events, b"started\n"), Flow::More);
    out(&mut *sink, 1, "lost\nlost, too\n");
    std::fs::remove_file(&place).unwrap();
    out(&mut *sink, 2, "kept\n");
    sink.end(at(3));
    let entries = short(&all(&world.reader(), of_run(1)));
    assert_eq!(
        (&entries[..2], &entries[3..]),
        (&["1 started".to_owned(), "gap 2-3".to_owned()][..], &["5 kept".to_owned()][..],)
    );
    assert!(entries[2].contains("\"lines\":2"), "{entries:?}");
}
