//! Groups are judged as if each commit had come alone.

use bytes::Bytes;
use sterna_model::{Revision, WallTime, WriteId};

use super::group::{self, Doubt, Found, Needs, Was, decide};
use crate::{Commit, Expect, Key, Outcome, conformance::Rng, memory::Model};

fn commit(number: u8) -> Commit {
    Commit::new(WriteId::from_parts(WallTime::EPOCH, [number; 10]))
}

fn found_at(revision: u64) -> Found {
    Found::at(Revision::new(revision), Revision::ZERO, 0)
}

#[test]
fn a_value_is_asked_for_only_where_it_matters() {
    let commits = [
        commit(1).expect("/a", Expect::Present).put("/b", "1"),
        commit(2).expect("/a", Expect::Value("1".into())).expect("/c", Expect::Absent),
    ];
    let needs = Needs::of(&commits);
    assert_eq!(needs.keys, [("/a".into(), true), ("/b".into(), false), ("/c".into(), false)]);
    assert_eq!(needs.ids, commits.map(|commit| commit.write_id));
}

#[test]
fn a_later_commit_sees_an_earlier_one_of_its_group() {
    let create = |number| commit(number).expect("/a", Expect::Absent).put("/a", "1");
    let verdict = decide(&[create(1), create(2)], found_at(7));
    let outcomes = [Outcome::Applied(Revision::new(8)), Outcome::Conflict(vec!["/a".into()])];
    assert_eq!(verdict.outcomes, outcomes);
    assert_eq!(verdict.is_staged, [true, false]);
}

#[test]
fn a_commit_sent_twice_in_one_group_applies_once() {
    let twice = commit(1).put("/a", "1");
    let verdict = decide(&[twice.clone(), commit(2).put("/a", "2"), twice], found_at(0));
    let revisions = [1, 2, 1].map(|revision| Outcome::Applied(Revision::new(revision)));
    assert_eq!(verdict.outcomes, revisions);
}

#[test]
fn a_compacted_write_id_is_forgotten_even_if_its_row_is_there() {
    let sent = commit(1).put("/a", "1");
    for (floor, revision) in [(3, 9), (2, 3)] {
        let mut found = found_at(8);
        found.floor = Revision::new(floor);
        found.written.insert(sent.write_id, Revision::new(3));
        let verdict = decide(std::slice::from_ref(&sent), found);
        assert_eq!(verdict.outcomes, [Outcome::Applied(Revision::new(revision))]);
    }
}

#[test]
fn history_says_what_each_change_replaced_and_the_last_one_is_the_state() {
    let mut found = found_at(4);
    found.items.insert("/a".into(), (Revision::new(2), Bytes::new()));
    let group = [
        commit(1).put("/a", "1").delete("/never"),
        commit(2).put("/a", "2").put("/b", "2"),
        commit(3).delete("/a"),
    ];
    let rows = decide(&group, found).plan.rows;
    let seen: Vec<_> =
        rows.iter().map(|row| (row.revision.get(), row.place, &*row.key, row.is_last)).collect();
    let expected =
        [(5, 0, "/a", false), (6, 0, "/a", false), (6, 1, "/b", true), (7, 0, "/a", true)];
    assert_eq!(seen, expected);
    let was = [
        Was::Stored,
        Was::Staged(Revision::new(5), "1".into()),
        Was::Absent,
        Was::Staged(Revision::new(6), "2".into()),
    ];
    assert_eq!(rows.into_iter().map(|row| row.was).collect::<Vec<_>>(), was);
}

#[test]
fn a_group_ends_by_count_or_by_bytes_and_is_never_empty() {
    let small = commit(1).put("/a", "1");
    let large = commit(2).put("/a", vec![0; group::BYTES_MAX]);
    assert_eq!(group::cut(&vec![small.clone(); 1_000]), group::COMMITS_MAX);
    assert_eq!(group::cut([&large, &small]), 1);
    assert_eq!(group::cut([&small, &large, &small]), 2);
    assert_eq!(group::cut([]), 0);
}

#[test]
fn random_groups_end_as_in_the_reference() {
    let keys = ["/a", "/b", "/c"];
    for seed in 0..200 {
        let mut rng = Rng::new(seed);
        let mut model = Model::default();
        let mut number = 0;
        for _ in 0..5 {
            let mut commits = Vec::new();
            for _ in 0..rng.below(8) {
                number += 1;
                let mut next = commit(number);
                for _ in 0..rng.below(3) {
                    let key = keys[rng.index(3)];
                    next = match rng.below(3) {
                        0 => next.expect(key, Expect::Absent),
                        1 => next.expect(key, Expect::Present),
                        _ => next.expect(key, Expect::At(Revision::new(rng.below(9)))),
                    };
                }
                let key = keys[rng.index(3)];
                commits.push(if rng.one_in(4) { next.delete(key) } else { next.put(key, "1") });
            }
            let mut found = Found::at(model.revision(), Revision::ZERO, 0);
            for key in keys {
                if let Some(item) = model.get(key).item {
                    found.items.insert(Key::from(key), (item.revision, item.value));
                }
            }
            let expected: Vec<_> = commits.iter().map(|it| model.commit(it).unwrap()).collect();
            assert_eq!(decide(&commits, found).outcomes, expected, "seed {seed}");
        }
    }
}

#[test]
fn doubt_covers_what_was_sent_and_ends_when_history_no_longer_tells() {
    let group = [commit(1).put("/a", "1"), commit(2).expect("/b", Expect::Present)];
    let verdict = decide(&group, found_at(5));
    let mut doubt = Doubt::default();
    assert!(!doubt.is_some() && doubt.can_be_settled(Revision::new(99)));
    let earlier = doubt.copy();
    doubt.begin(Revision::new(5), &verdict);
    assert!(doubt.covers(0), "it may have been written");
    assert!(!doubt.covers(1), "a conflict never is");
    assert!(doubt.can_be_settled(Revision::new(5)));
    assert!(!doubt.can_be_settled(Revision::new(6)), "its write id may have been compacted");
    doubt.undo(earlier);
    assert!(!doubt.is_some() && !doubt.covers(0));
}
