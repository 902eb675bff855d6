//! The pure parts: what is asked of etcd, what its answers mean, and how a watch is put together.

use bytes::Bytes;
use sterna_model::{Revision, WallTime, WriteId};

use super::{
    gather::Gather,
    keys::Keys,
    plan::{Floor, Verdict, changes, question, transaction},
    wire::{
        DeleteRangeResponse, Event, EventKind, Header, KeyValue, RangeResponse, Request,
        ResponseOp, TxnResponse,
    },
};
use crate::{Commit, Expect, Limits, Outcome};

fn keys() -> Keys {
    Keys::under("sterna")
}

fn commit() -> Commit {
    Commit::new(WriteId::from_parts(WallTime::EPOCH, [7; 10]))
}

fn floor(up_to: u64, put_at: i64) -> Floor {
    Floor { up_to: Revision::new(up_to), put_at }
}

fn kv(key: &str, mod_revision: i64, value: &str) -> KeyValue {
    let (key, value) =
        (Bytes::copy_from_slice(key.as_bytes()), Bytes::copy_from_slice(value.as_bytes()));
    KeyValue { key, mod_revision, value }
}

/// What the answer at revision 30 to the question why means.
fn verdict(floor: Floor, commit: &Commit, answer: &TxnResponse) -> Verdict {
    super::plan::verdict(floor, Revision::new(30), commit, answer)
}

/// An answer to the question why: each reading brings one of these.
fn lost(readings: &[Option<KeyValue>]) -> TxnResponse {
    let header = Some(Header { member_id: 1, revision: 99 });
    let responses = readings.iter().map(|reading| ResponseOp {
        range: Some(RangeResponse { kvs: reading.iter().cloned().collect(), ..Default::default() }),
        delete_range: None,
    });
    TxnResponse { header, succeeded: true, responses: responses.collect() }
}

#[test]
fn a_commit_leaves_its_write_id_and_expects_none_and_the_floor() {
    let commit = commit().expect("/a", Expect::Present).put("/a", "1").delete("/b");
    let request = transaction(&keys(), floor(5, 9), &commit);
    assert_eq!((request.compare.len(), request.success.len(), request.failure.len()), (3, 3, 0));
    assert_eq!(request.compare[0].key, keys().write(commit.write_id));
    assert_eq!(request.compare[1].key, keys().floor());
    let Some(Request::Put(put)) = &request.success[0].request else { panic!("no record") };
    assert_eq!(put.key, keys().write(commit.write_id));
}

#[test]
fn what_a_commit_changed_is_what_its_answer_says() {
    let commit = commit().put("/b", "1").delete("/a").delete("/c");
    let removed =
        |deleted| ResponseOp { range: None, delete_range: Some(DeleteRangeResponse { deleted }) };
    let put = ResponseOp { range: None, delete_range: None };
    let answer = |steps: &[&ResponseOp]| TxnResponse {
        header: None,
        succeeded: true,
        responses: steps.iter().copied().cloned().collect(),
    };
    let told = changes(&commit, &answer(&[&put, &put, &removed(1), &removed(0)])).unwrap();
    let told: Vec<_> = told.iter().map(|change| (&*change.key, change.value.is_some())).collect();
    assert_eq!(told, [("/b", true), ("/a", false)], "/c was not there");
    assert!(changes(&commit, &answer(&[&put, &put, &removed(1)])).is_none(), "a step is missing");
    assert!(changes(&commit, &answer(&[&put, &put, &put, &put])).is_none(), "nothing was removed");
}

#[test]
fn a_commit_without_writes_leaves_nothing_and_still_asks_the_leader() {
    let request = transaction(&keys(), floor(5, 9), &commit().expect("/a", Expect::Present));
    assert_eq!(request.compare.len(), 1);
    let Some(Request::Range(_)) = &request.success[0].request else { panic!("reads nothing") };
    assert_eq!(request.success.len(), 1);
}

#[test]
fn the_largest_commit_is_within_what_etcd_takes() {
    let limits = Limits::PORTABLE;
    let keys = Keys::under(&"p".repeat(128));
    let name = |index: usize| format!("{index:0>width$}", width = limits.key_bytes_max);
    let expects = (0..limits.operations_max - 1)
        .fold(commit(), |commit, index| commit.expect(name(index), Expect::Present));
    let rest = limits.commit_bytes_max - expects.bytes() - limits.key_bytes_max;
    let large = expects.put(name(999), vec![0; rest.min(limits.value_bytes_max)]);
    assert_eq!(limits.check(&large), Ok(()));
    let value = Bytes::from(vec![0; limits.commit_bytes_max / 2 - limits.key_bytes_max]);
    let twice = commit().expect(name(0), Expect::Value(value.clone())).put(name(1), value);
    assert_eq!(limits.check(&twice), Ok(()));
    for commit in [large, twice] {
        let request = transaction(&keys, floor(1, 1), &commit);
        let bytes = prost::Message::encoded_len(&request);
        assert!(bytes < 1_400_000, "{bytes} bytes");
        let question = question(&keys, Revision::new(1), &commit);
        for part in [request.compare.len(), request.success.len(), question.success.len()] {
            assert!(part <= 128, "{part} operations");
        }
    }
}

#[test]
fn a_record_tells_that_it_applied_before() {
    let commit = commit().expect("/a", Expect::Absent).put("/a", "1");
    let answer = lost(&[Some(kv("w", 20, "")), Some(kv("f", 9, "5")), Some(kv("/a", 20, ""))]);
    assert_eq!(verdict(floor(5, 9), &commit, &answer), Verdict::Applied(Revision::new(20)));
}

#[test]
fn another_floor_is_told_before_any_conflict() {
    let commit = commit().expect("/a", Expect::Absent).put("/a", "1");
    let answer = lost(&[None, Some(kv("f", 25, "24")), Some(kv("/a", 20, ""))]);
    assert_eq!(verdict(floor(5, 9), &commit, &answer), Verdict::FloorMoved(floor(24, 25)));
}

#[test]
fn a_conflict_names_its_keys_once_values_are_known() {
    let commit = commit()
        .expect("/c", Expect::Present)
        .expect("/b", Expect::Value("1".into()))
        .expect("/a", Expect::Value("1".into()))
        .put("/d", "");
    let found = [Some(kv("/a", 20, "")), Some(kv("/b", 21, "")), None];
    let answer = lost(&[&[None, Some(kv("f", 9, "5"))][..], &found].concat());
    let Verdict::Lost(mut lost) = verdict(floor(5, 9), &commit, &answer) else {
        panic!("not lost")
    };
    assert_eq!(lost.at, Revision::new(30));
    assert_eq!(lost.unread(&commit), ["/a".into(), "/b".into()]);
    lost.note(&"/a".into(), "1".into());
    lost.note(&"/b".into(), "2".into());
    assert_eq!(lost.unread(&commit), []);
    let conflict = Outcome::Conflict(vec!["/b".into(), "/c".into()]);
    assert_eq!(lost.outcome(&commit), Some(conflict));
}

#[test]
fn an_answer_to_something_else_is_nonsense() {
    let commit = commit().expect("/a", Expect::Absent).put("/a", "1");
    assert_eq!(verdict(floor(0, 0), &commit, &lost(&[None, None])), Verdict::Nonsense);
    assert_eq!(verdict(floor(0, 0), &commit, &TxnResponse::default()), Verdict::Nonsense);
    let strange = lost(&[None, Some(kv("f", 9, "many")), None]);
    assert_eq!(verdict(floor(0, 0), &commit, &strange), Verdict::Nonsense);
}

fn event(kind: EventKind, key: &str, revision: i64) -> Event {
    let mut kv = kv("", revision, "v");
    kv.key = keys().of(key);
    Event { kind: kind.into(), kv: Some(kv) }
}

/// Hands these to `gather`; gives what comes out as revisions with their keys.
fn take(gather: &mut Gather, events: &[(&str, i64)], goes_on: bool) -> Vec<(u64, String)> {
    let events = events.iter().map(|(key, revision)| event(EventKind::Put, key, *revision));
    let whole = gather.take(&keys(), events.collect(), goes_on);
    let told = |changes: crate::Changes| {
        let names: Vec<_> = changes.changes.iter().map(|change| change.key.to_string()).collect();
        (changes.revision.get(), names.join(" "))
    };
    whole.into_iter().map(told).collect()
}

#[test]
fn a_commit_is_handed_on_whole_and_in_key_order() {
    let mut gather = Gather::after(Revision::new(10));
    let told = take(&mut gather, &[("b", 11), ("a", 11), ("c", 12)], false);
    assert_eq!(told, [(11, "a b".to_owned()), (12, "c".to_owned())]);
    assert_eq!(gather.position(), Revision::new(12));
}

#[test]
fn a_commit_that_comes_in_parts_waits_for_its_end() {
    let mut gather = Gather::after(Revision::new(10));
    assert_eq!(take(&mut gather, &[("b", 11), ("b", 12)], true), [(11, "b".to_owned())]);
    assert_eq!(take(&mut gather, &[("a", 12)], true), []);
    assert_eq!(gather.position(), Revision::new(11), "a new stream must tell 12 anew");
    assert_eq!(take(&mut gather, &[("c", 12)], false), [(12, "a b c".to_owned())]);
}

#[test]
fn a_stream_that_broke_loses_and_doubles_nothing() {
    let mut gather = Gather::after(Revision::new(10));
    assert_eq!(take(&mut gather, &[("a", 11), ("b", 12)], true), [(11, "a".to_owned())]);
    gather.begin_anew();
    // It begins at the position itself, so that what was handed on is told again.
    let told = take(&mut gather, &[("a", 11), ("b", 12), ("c", 12)], false);
    assert_eq!(told, [(12, "b c".to_owned())]);
}

#[test]
fn a_removal_has_no_value() {
    let mut gather = Gather::after(Revision::ZERO);
    let whole = gather.take(&keys(), vec![event(EventKind::Delete, "a", 1)], false);
    assert_eq!(whole[0].changes[0].value, None);
}
