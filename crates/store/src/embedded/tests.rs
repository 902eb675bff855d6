//! The embedded store on a disk that fails to order: what was acknowledged is there, nothing is
//! half there, and what no crash explains is noticed.
//!
//! Everything runs in one thread, so a seed that fails fails again.

use std::{collections::BTreeMap, path::Path, sync::Arc};

use bytes::Bytes;
use sterna_model::{Revision, WallTime, WriteId};

use super::{
    engine::{Engine, Sizes},
    frame::{self, Frame, Record, Seal},
    log,
    open::recover,
    writer::Writer,
};
use crate::{
    Change, Commit, Key, OpenError, Outcome, Scan, StoreError, Write,
    conformance::{
        Rng,
        disk::{Disk, Trouble},
    },
};

/// Small, so that segments are closed and merged all the time.
const SIZES: Sizes = Sizes {
    segment_bytes: 1_500,
    history_bytes: 3_000,
    history_segments: 4,
    backlog_bytes: 1 << 20,
};

fn rounds(plain: u64) -> u64 {
    if std::env::var_os("STERNA_LONG").is_some() { plain * 20 } else { plain }
}

/// One life of the store after another on one disk, and what it must remember.
struct World {
    disk: Disk,
    rng: Rng,
    /// What was submitted, one for each revision; some of the last may not have applied.
    submitted: Vec<Commit>,
    /// The last revision that was acknowledged.
    acknowledged: u64,
    /// Write ids of commits of which the store said that nothing was written.
    unwritten: Vec<WriteId>,
    written: u64,
}

impl World {
    fn new(seed: u64) -> Self {
        Self {
            disk: Disk::new(seed),
            rng: Rng::new(!seed),
            submitted: Vec::new(),
            acknowledged: 0,
            unwritten: Vec::new(),
            written: 0,
        }
    }

    fn open(&self) -> Result<(Arc<Engine>, Writer), OpenError> {
        let path = Path::new("disk");
        let engine = Arc::new(recover(Arc::new(self.disk.clone()), SIZES, path)?);
        let writer =
            Writer::new(Arc::clone(&engine)).map_err(|error| OpenError::of_io(path, error))?;
        Ok((engine, writer))
    }

    /// Opens the store, checks it, and works on it until trouble stops it or it has worked enough.
    fn live(&mut self, groups: u64) -> Result<(), String> {
        let (engine, mut writer) = match self.open() {
            Ok(opened) => opened,
            // Trouble in the middle of opening; nothing was promised since.
            Err(OpenError::Io { .. } | OpenError::Full { .. }) => return Ok(()),
            Err(error) => return Err(format!("cannot open: {error}")),
        };
        self.check(&engine)?;
        for _ in 0..groups {
            self.commit_group(&mut writer)?;
            if self.disk.is_down() || engine.check().is_err() {
                break;
            }
            self.send_again(&engine, &mut writer)?;
            match self.rng.below(6) {
                0 | 1 => drop(engine.merge_due()),
                2 => drop(engine.compact(self.some_revision(&engine))),
                3 => self.disk.make_room(),
                4 => drop(engine.prepare()),
                _ => {}
            }
        }
        if self.rng.one_in(2) {
            writer.close();
        }
        Ok(())
    }

    fn commit_group(&mut self, writer: &mut Writer) -> Result<(), String> {
        let group: Vec<_> = (0..=self.rng.below(5)).map(|_| self.random_commit()).collect();
        let answers = writer.commit_group(&group);
        let before = self.submitted.len() as u64;
        for (commit, answer) in group.into_iter().zip(answers) {
            match answer {
                Ok(Outcome::Applied(revision)) => {
                    self.submitted.push(commit);
                    if revision.get() != self.submitted.len() as u64 {
                        return Err(format!("{revision} after {}", self.submitted.len() - 1));
                    }
                    self.acknowledged = revision.get();
                }
                Ok(Outcome::Conflict(keys)) => return Err(format!("conflict on {keys:?}")),
                Err(StoreError::Unknown(_)) => self.submitted.push(commit),
                Err(StoreError::Unavailable(_)) => self.unwritten.push(commit.write_id),
                Err(StoreError::Poisoned) => self.unwritten.push(commit.write_id),
                Err(other) => return Err(format!("{other} after {before} commits")),
            }
        }
        Ok(())
    }

    /// A commit that is remembered is not applied again.
    fn send_again(&mut self, engine: &Engine, writer: &mut Writer) -> Result<(), String> {
        let revision = self.some_revision(engine);
        let Some(index) = revision.get().checked_sub(1) else { return Ok(()) };
        let commit = self.submitted[usize::try_from(index).unwrap()].clone();
        if engine.written(commit.write_id).map_err(text)?.is_none() {
            return Ok(());
        }
        match writer.commit_group(&[commit]).pop() {
            Some(Ok(Outcome::Applied(again))) if again == revision => Ok(()),
            // Trouble may come at any moment, and then nothing is said about it.
            Some(Err(_)) => Ok(()),
            answer => Err(format!("{revision} was sent again and answered {answer:?}")),
        }
    }

    /// Two keys get the same number, so that half a commit shows; now and then one is removed.
    fn random_commit(&mut self) -> Commit {
        self.written += 1;
        let number = self.written.to_be_bytes();
        let mut random = [0; 10];
        random[2..].copy_from_slice(&number);
        let value: Bytes = number.repeat(1 + self.rng.index(40)).into();
        let pair = self.rng.below(6);
        let commit = Commit::new(WriteId::from_parts(WallTime::EPOCH, random));
        let commit = commit.put(format!("/pair/{pair}/a"), value.clone());
        let commit = commit.put(format!("/pair/{pair}/b"), value);
        match self.rng.below(4) {
            0 => commit.delete(format!("/other/{}", self.rng.below(8))),
            _ => commit.put(format!("/other/{}", self.rng.below(8)), number.to_vec()),
        }
    }

    fn some_revision(&mut self, engine: &Engine) -> Revision {
        Revision::new(self.rng.below(engine.revision().get() + 1))
    }

    /// The state is that after a whole number of commits, and no acknowledged one is missing.
    fn check(&mut self, engine: &Engine) -> Result<(), String> {
        let revision = engine.revision().get();
        if revision < self.acknowledged {
            let lost = self.acknowledged;
            return Err(format!("{lost} commits were acknowledged, {revision} are there"));
        }
        self.check_whole(engine)?;
        // What was not acknowledged and is not there never will be.
        self.submitted.truncate(usize::try_from(revision).unwrap());
        self.acknowledged = revision;
        Ok(())
    }

    fn check_whole(&self, engine: &Engine) -> Result<(), String> {
        let revision = engine.revision();
        let state = state(engine, None)?;
        let expected = self.state_at(revision).ok_or_else(|| format!("{revision} never was"))?;
        if state != expected {
            return Err(format!("not the state at {revision}: {state:?}"));
        }
        for id in &self.unwritten {
            if engine.written(*id).map_err(text)?.is_some() {
                return Err(format!("{id} was called unwritten, and yet it is there"));
            }
        }
        self.check_history(engine, revision)
    }

    /// Every state since the floor can be read, and the changes lead from one to the next.
    fn check_history(&self, engine: &Engine, last: Revision) -> Result<(), String> {
        let mut at = match engine.next_changes("", Revision::ZERO, 1) {
            Err(StoreError::Compacted { floor }) => floor,
            Ok(_) => Revision::ZERO,
            Err(error) => return Err(text(error)),
        };
        let mut replayed = state(engine, Some(at))?;
        while at < last {
            let next = engine.next_changes("", at, 1).map_err(text)?;
            at = next.up_to;
            for change in next.found.into_iter().flat_map(|changes| changes.changes) {
                match change.value {
                    Some(value) => replayed.insert(change.key, (at, value)),
                    None => replayed.remove(&change.key),
                };
            }
            let commit = &self.submitted[usize::try_from(at.get() - 1).unwrap()];
            if engine.written(commit.write_id).map_err(text)? != Some(at) {
                return Err(format!("the write of {at} is forgotten"));
            }
            let is_right = Some(&replayed) == self.state_at(at).as_ref();
            if !is_right || replayed != state(engine, Some(at))? {
                return Err(format!("the history does not lead to the state at {at}"));
            }
        }
        Ok(())
    }

    fn state_at(&self, revision: Revision) -> Option<BTreeMap<Key, (Revision, Bytes)>> {
        let mut state = BTreeMap::new();
        let commits = self.submitted.get(..usize::try_from(revision.get()).ok()?)?;
        for (number, commit) in (1..).zip(commits) {
            for (key, write) in &commit.writes {
                match write {
                    Write::Put(value) => {
                        state.insert(key.clone(), (Revision::new(number), value.clone()))
                    }
                    Write::Delete => state.remove(key),
                };
            }
        }
        Some(state)
    }
}

fn state(
    engine: &Engine,
    at: Option<Revision>,
) -> Result<BTreeMap<Key, (Revision, Bytes)>, String> {
    let mut state = BTreeMap::new();
    let mut question = Some(Scan { at, ..Scan::of("").limit(3) });
    while let Some(scan) = question {
        let page = engine.scan(&scan).map_err(text)?;
        state
            .extend(page.items.iter().cloned().map(|item| (item.key, (item.revision, item.value))));
        question = scan.following(&page);
    }
    Ok(state)
}

fn text(error: StoreError) -> String {
    format!("{error:?}")
}

/// Lives through `lives` of which each meets a trouble, with a loss of power after each.
fn survive(seed: u64, lives: u64, troubles: &[Trouble]) -> Result<World, String> {
    let mut world = World::new(seed);
    for _ in 0..lives {
        let trouble = troubles[world.rng.index(troubles.len())];
        let after = world.rng.below(250);
        world.disk.plan(after, trouble);
        world.live(60)?;
        world.disk = match world.rng.below(4) {
            // The process dies and the system lives on: what was written can be read.
            0 if !world.disk.is_down() => world.disk.clone(),
            _ => world.disk.after_power_loss(),
        };
    }
    // And at last a life without trouble.
    world.disk = world.disk.after_power_loss();
    world.live(3)?;
    Ok(world)
}

fn survive_all(seeds: u64, lives: u64, troubles: &[Trouble]) {
    for seed in 0..rounds(seeds) {
        match survive(seed, lives, troubles) {
            Ok(world) => assert!(world.acknowledged > 0, "seed {seed} did nothing"),
            Err(why) => panic!("seed {seed}, {troubles:?}: {why}"),
        }
    }
}

#[test]
fn torn_and_reordered_writes_lose_nothing_acknowledged() {
    survive_all(150, 2, &[Trouble::PowerLoss]);
}

#[test]
fn one_crash_after_another_loses_nothing_acknowledged() {
    survive_all(40, 8, &[Trouble::PowerLoss]);
}

#[test]
fn failed_syncs_lose_nothing_acknowledged() {
    survive_all(80, 4, &[Trouble::SyncFails, Trouble::PowerLoss]);
}

#[test]
fn a_full_disk_loses_nothing_acknowledged() {
    survive_all(60, 4, &[Trouble::Full, Trouble::PowerLoss]);
}

/// What becomes of a store under damage that no crash explains.
#[derive(Debug, Default)]
struct Fates {
    noticed: u64,
    older: u64,
    unharmed: u64,
}

impl Fates {
    /// The store must say that it is corrupt, or hold a whole state, be it an older one.
    fn add(&mut self, world: &World, what: &str) {
        match world.open() {
            Err(OpenError::Corrupt { .. } | OpenError::Newer { .. }) => self.noticed += 1,
            Err(error) => panic!("{what}: {error:?}"),
            Ok((engine, _)) => {
                world.check_whole(&engine).unwrap_or_else(|why| panic!("{what}: {why}"));
                if engine.revision().get() < world.acknowledged {
                    self.older += 1;
                } else {
                    self.unharmed += 1;
                }
            }
        }
    }
}

#[test]
fn lost_syncs_are_noticed_or_leave_an_older_whole_state() {
    let mut fates = Fates::default();
    for seed in 0..rounds(150) {
        let mut world = World::new(seed);
        world.live(20).unwrap();
        let after = world.rng.below(40);
        world.disk.plan(after, Trouble::SyncsLie);
        world.live(1 + seed % 20).unwrap();
        world.disk = world.disk.after_power_loss();
        fates.add(&world, &format!("seed {seed}"));
    }
    assert!(fates.noticed > 0 && fates.older > 0, "the disk did not lie: {fates:?}");
}

#[test]
fn damaged_files_are_noticed_or_leave_an_older_whole_state() {
    let mut fates = Fates::default();
    for seed in 0..rounds(300) {
        let mut world = World::new(seed);
        world.live(1 + seed % 50).unwrap();
        world.disk = world.disk.after_sync();
        // What is merely prepared holds nothing that damage could harm.
        let numbers = log::list(&world.disk).unwrap();
        let is_prepared = |number: &u64| log::read(&world.disk, *number).unwrap().is_none();
        let prepared: Vec<u64> = numbers.into_iter().filter(is_prepared).collect();
        let is_in_use = |name: &str| log::number_of(name).is_none_or(|n| !prepared.contains(&n));
        let what = world.disk.damage(is_in_use);
        fates.add(&world, &format!("seed {seed}, {what}"));
    }
    assert!(fates.noticed > fates.unharmed, "damage is hardly noticed: {fates:?}");
}

/// Disks that lie break the promise, and so show that its checker can tell.
#[test]
fn the_checker_notices_commits_that_are_gone() {
    let failures = (0..20).filter(|&seed| survive(seed, 3, &[Trouble::SyncsLie]).is_err()).count();
    assert!(failures > 10, "{failures} of 20 lying disks were noticed");
}

#[test]
fn the_checker_notices_half_a_commit() {
    let mut world = World::new(1);
    world.live(10).unwrap();
    let (engine, _) = world.open().unwrap();
    world.check_whole(&engine).unwrap();
    world.submitted.last_mut().unwrap().writes.pop();
    world.check_whole(&engine).unwrap_err();
}

#[test]
fn a_failed_sync_poisons_the_store_and_answers_unknown() {
    let mut world = World::new(7);
    let (engine, mut writer) = world.open().unwrap();
    let commits = [world.random_commit(), world.random_commit()];
    let answer = writer.commit_group(&commits[..1]).pop().unwrap();
    assert!(matches!(answer, Ok(Outcome::Applied(_))), "{answer:?}");
    world.disk.plan(0, Trouble::SyncFails);
    let answer = writer.commit_group(&commits[1..]).pop().unwrap();
    assert!(matches!(answer, Err(StoreError::Unknown(_))), "{answer:?}");
    let after = writer.commit_group(&[world.random_commit()]).pop().unwrap();
    assert!(matches!(after, Err(StoreError::Poisoned)), "{after:?}");
    assert!(matches!(engine.get("/pair/0/a"), Err(StoreError::Poisoned)));
}

#[test]
fn a_full_disk_writes_nothing_and_works_again_when_there_is_room() {
    let mut world = World::new(7);
    let (engine, mut writer) = world.open().unwrap();
    world.disk.plan(0, Trouble::Full);
    let refused = loop {
        let before = engine.revision();
        let answer = writer.commit_group(&[world.random_commit()]).pop().unwrap();
        if answer.is_err() {
            assert_eq!(engine.revision(), before);
            break answer;
        }
    };
    let Err(StoreError::Unavailable(reason)) = refused else { panic!("{refused:?}") };
    assert_eq!(
        reason.to_string(),
        "the disk is full; free some space: the log grows by 1500B at a time"
    );
    world.disk.make_room();
    let answer = writer.commit_group(&[world.random_commit()]).pop().unwrap();
    assert!(matches!(answer, Ok(Outcome::Applied(_))), "{answer:?}");
}

#[test]
fn a_log_that_cannot_be_merged_holds_commits_up_and_lets_them_go_on() {
    let mut world = World::new(3);
    let sizes = Sizes { backlog_bytes: 6_000, ..SIZES };
    let engine = recover(Arc::new(world.disk.clone()), sizes, Path::new("disk")).unwrap();
    let engine = Arc::new(engine);
    let mut writer = Writer::new(Arc::clone(&engine)).unwrap();
    let mut refused = 0;
    for round in 0..200 {
        let answer = writer.commit_group(&[world.random_commit()]).pop().unwrap();
        refused += u32::from(matches!(answer, Err(StoreError::Unavailable(_))));
        if engine.is_merge_due() && round < 100 {
            world.disk.plan(0, Trouble::SyncFails);
            engine.merge_due().unwrap_err();
        } else if engine.is_merge_due() {
            engine.merge_due().unwrap();
        }
    }
    assert!((1..150).contains(&refused), "{refused} of 200 commits were held up");
    let last = writer.commit_group(&[world.random_commit()]).pop().unwrap();
    assert!(matches!(last, Ok(Outcome::Applied(_))), "{last:?}");
}

/// Whoever can put a value must not be able to write history with it: not even with a frame that
/// would be valid but for the salt, at every place at which a reader may look for one.
#[test]
fn a_value_cannot_be_taken_for_a_frame() {
    for seed in 0..30 {
        let mut world = World::new(seed);
        let (engine, mut writer) = world.open().unwrap();
        let mut forged = Vec::new();
        for number in 1..20 {
            for revision in 1..40 {
                let seal = Seal { number, salt: 0 };
                let revision = Revision::new(revision);
                let record = Record {
                    revision,
                    write_id: world.random_commit().write_id,
                    changes: vec![Change { key: "/forged".into(), value: Some(Bytes::new()) }],
                };
                frame::encode_commit(seal, u64::MAX, &record, &mut forged);
                frame::encode(seal, &Frame::End { synced: u64::MAX, revision }, &mut forged);
            }
        }
        for _ in 0..30 {
            let mut commit = world.random_commit();
            commit = commit.put("/evil", forged.clone());
            let answer = writer.commit_group(std::slice::from_ref(&commit)).pop().unwrap();
            assert!(matches!(answer, Ok(Outcome::Applied(_))), "{answer:?}");
            world.submitted.push(commit);
            engine.merge_due().unwrap();
            engine.prepare().unwrap();
        }
        world.acknowledged = engine.revision().get();
        // Killed: the log ends where it ends, in segments that were used before.
        drop(writer);
        let (engine, _) = world.open().unwrap();
        world.check(&engine).unwrap_or_else(|why| panic!("seed {seed}: {why}"));
        assert_eq!(engine.get("/forged").unwrap().item, None);
    }
}

#[test]
fn a_segment_that_is_merged_before_it_is_retired_is_dropped() {
    let mut world = World::new(5);
    let (engine, mut writer) = world.open().unwrap();
    while engine.closed.lock().len() < 3 {
        let answer = writer.commit_group(&[world.random_commit()]).pop().unwrap();
        assert!(answer.is_ok(), "{answer:?}");
    }
    // As if the merger had come between the publishing of a group and the retiring of its segment.
    let retired: Vec<_> = engine.closed.lock().drain(..).collect();
    engine.compact(engine.revision()).unwrap();
    engine.closed.lock().extend(retired);
    for _ in 0..200 {
        let answer = writer.commit_group(&[world.random_commit()]).pop().unwrap();
        assert!(answer.is_ok(), "{answer:?}");
        engine.merge_due().unwrap();
    }
    assert!(engine.closed.lock().len() <= 10);
}

#[test]
fn a_write_id_used_again_after_it_was_forgotten_is_remembered_again() {
    let mut world = World::new(6);
    let (engine, mut writer) = world.open().unwrap();
    let commit = world.random_commit();
    let mut send = |commit: &Commit| match writer.commit_group(std::slice::from_ref(commit)).pop() {
        Some(Ok(Outcome::Applied(revision))) => revision,
        other => panic!("{other:?}"),
    };
    let first = send(&commit);
    engine.view.write().recent.raise_floor(first);
    let second = send(&commit);
    assert!(second > first);
    while engine.view.write().recent.trim(1) {}
    assert_eq!(send(&commit), second);
}

/// A merge writes the whole table, so it must not come with every segment.
#[test]
fn merging_costs_a_bounded_multiple_of_what_is_committed() {
    let mut world = World::new(8);
    let (engine, mut writer) = world.open().unwrap();
    let value = vec![7_u8; 900];
    let mut put = |key: u64| {
        let commit = world.random_commit().put(format!("/large/{key:08}"), value.clone());
        let answer = writer.commit_group(&[commit]).pop().unwrap();
        assert!(answer.is_ok(), "{answer:?}");
    };
    (0..400).for_each(&mut put);
    engine.merge_due().unwrap();
    let (mut merges, mut log_bytes) = (0, 0);
    let table_bytes = engine.view.read().table.bytes();
    for key in 0..2_000 {
        put(key % 400);
        log_bytes += 1_000;
        merges += u64::from(engine.is_merge_due());
        engine.merge_due().unwrap();
    }
    let amplification = merges * table_bytes / log_bytes;
    assert!((1..=12).contains(&amplification), "{amplification} times");
}
