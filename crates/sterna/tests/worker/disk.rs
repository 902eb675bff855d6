//! A data directory that takes nothing any more: what comes is refused, and not used up.

use std::{fs, io::Write, path::Path, process::Command};

use sterna_model::RunId;
use sterna_protocol::{health::Health, message::RunRefusal, scheduler::Settlement};

use crate::{
    leader::{LONG_STOP, Leader, Seen, shell},
    place::{LONG, Place, Worker, wait_until},
};

/// A file system of its own on a directory, taken off at the end.
struct Mount<'a>(&'a Path);

impl<'a> Mount<'a> {
    fn new(at: &'a Path, arguments: &[&str]) -> Self {
        mount(at, arguments);
        Self(at)
    }
}

impl Drop for Mount<'_> {
    fn drop(&mut self) {
        drop(Command::new("umount").arg("--lazy").arg(self.0).status());
    }
}

fn mount(at: &Path, arguments: &[&str]) {
    let status = Command::new("mount").args(arguments).arg(at).status().unwrap();
    assert!(status.success(), "mount {arguments:?} {}", at.display());
}

/// Fills a file system to the last byte.
fn fill(at: &Path) {
    let mut file = fs::File::create(at).unwrap();
    for size in [1 << 16, 1 << 12, 1] {
        while file.write_all(&vec![1; size]).is_ok() {}
    }
}

/// Refused, with the reason in the worker's own words; nothing is left of it.
fn is_refused(place: &Place, leader: &Leader, worker: &Worker, run: RunId, why: &str) {
    assert_eq!(leader.settled(run), Settlement::Refused(RunRefusal::NotHealthy));
    worker.wait_to_say(&format!("{run} is refused: no run can be kept in the data directory"));
    let said = worker.said();
    assert!(said.iter().any(|line| line.contains(&run.to_string()) && line.contains(why)), "{why}");
    assert_eq!(worker.count(&format!("{run} of ")), 0, "it begins: {said:#?}");
    assert!(!place.files("held").contains(&format!("{run}.json")));
    assert_eq!((place.runs(), place.marked()), (Vec::new(), Vec::new()));
    // Nothing more is sent before it is well again: a task is returned a few times only.
    leader.wait("that it is not healthy", |seen| {
        if let Seen::Health(_, Health::Unhealthy) = seen { Some(()) } else { None }
    });
}

/// What comes when there is room again is run.
fn is_run(place: &Place, leader: &Leader, number: u8) {
    leader.wait_for_contact();
    let run = leader.dispatch(leader.newest().unwrap(), number, LONG_STOP, &shell(place, "exit 4"));
    assert_eq!(leader.end(run)["exit"]["code"], 4);
    wait_until("it is forgotten", LONG, || place.files("held").is_empty());
}

#[test]
fn what_comes_to_a_full_disk_is_refused_and_runs_when_there_is_room() {
    let (place, leader) = (Place::new(), Leader::start());
    let _disk = Mount::new(&place.path, &["-t", "tmpfs", "-o", "size=8m", "tmpfs"]);
    let worker = Worker::start(&place, leader.port);
    let who = leader.wait_for_healthy();
    let blocker = place.path.join("blocker");
    fill(&blocker);
    let run = leader.dispatch(who, 1, LONG_STOP, &shell(&place, "exit 4"));
    is_refused(&place, &leader, &worker, run, "No space left on device (os error 28); make room");
    fs::remove_file(&blocker).unwrap();
    is_run(&place, &leader, 2);
    assert!(worker.end_by("TERM").success());
}

#[test]
fn what_comes_to_a_table_that_cannot_be_written_to_is_refused() {
    let (place, leader) = (Place::new(), Leader::start());
    let worker = Worker::start(&place, leader.port);
    let who = leader.wait_for_healthy();
    let held = place.path.join("held");
    let bound = Mount::new(&held, &["--bind", &held.display().to_string()]);
    mount(&held, &["-o", "remount,bind,ro"]);
    let run = leader.dispatch(who, 1, LONG_STOP, &shell(&place, "exit 4"));
    is_refused(&place, &leader, &worker, run, "(os error 30); make its file system writable");
    drop(bound);
    is_run(&place, &leader, 2);
    assert!(worker.end_by("TERM").success());
}
