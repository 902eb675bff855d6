//! How a worker goes.

use std::{fs, process::Command, time::Duration};

use crate::{
    leader::{LONG_STOP, Leader, shell, sleeper},
    place::{LONG, Place, Worker, instant, is_alive, signal, wait_until},
};

#[test]
fn term_ends_what_must_end_and_tells_it_before_the_worker_goes() {
    for name in ["TERM", "INT", "QUIT", "HUP"] {
        let (place, leader) = (Place::new(), Leader::start());
        let worker = Worker::start(&place, leader.port);
        let who = leader.wait_for_healthy();
        let script = "trap 'echo bye; exit 7' TERM; echo up; while :; do sleep 0.05; done";
        let run = leader.dispatch(who, 1, LONG_STOP, &shell(&place, script));
        place.wait_for_output(run, &["up"]);
        let status = worker.end_by(name);
        assert_eq!(status.code(), Some(0), "{name}");
        let end = leader.end(run);
        assert_eq!((&end["cause"], &end["exit"]["code"]), (&"worker_exit".into(), &7.into()));
        place.wait_for_output(run, &["up", "bye"]);
        assert!(place.files("held").is_empty(), "{name}: its end was recorded");
        assert!(place.marked().is_empty());
        wait_until("the guardian has gone", LONG, || place.guardian().is_none());
    }
}

#[test]
fn a_second_term_leaves_the_rest_to_the_guardian() {
    let (place, leader) = (Place::new(), Leader::start());
    let mut worker = Worker::start(&place, leader.port);
    let who = leader.wait_for_healthy();
    let script = "trap '' TERM; echo up; while :; do sleep 0.05; done";
    let run = leader.dispatch(who, 1, LONG_STOP, &shell(&place, script));
    place.wait_for_output(run, &["up"]);
    signal(worker.pid(), "TERM");
    worker.wait_to_say("ending: first the runs that must end with this worker");
    let asked = instant();
    signal(worker.pid(), "TERM");
    assert_eq!(worker.wait().code(), Some(0));
    worker.wait_to_say("leaving at once");
    // Its own grace would be 10 s; the kill wait of the cluster is half a second.
    wait_until("nothing is left", Duration::from_secs(5), || place.marked().is_empty());
    assert!(asked.elapsed() < Duration::from_secs(9));
    // The next life tells it.
    let worker = Worker::start(&place, leader.port);
    assert_eq!(leader.end(run)["exit"]["signal"], 9);
    assert!(worker.end_by("TERM").success());
}

#[test]
fn what_nobody_hears_is_told_by_the_next_life() {
    let (place, mut leader) = (Place::new(), Leader::start());
    let worker = Worker::start(&place, leader.port);
    let who = leader.wait_for_healthy();
    let run = leader.dispatch(who, 1, LONG_STOP, &sleeper(&place, "starts"));
    place.pid_in("starts");
    leader.stop();
    worker.wait_to_say("no link:");
    signal(worker.pid(), "TERM");
    worker.wait_to_say("1 ends are not recorded yet: the next life reports them");
    drop(worker);
    let leader = leader.restart();
    let worker = Worker::start(&place, leader.port);
    assert_eq!(leader.end(run)["cause"], "worker_exit");
    wait_until("it is forgotten", LONG, || place.files("held").is_empty());
    assert_eq!(place.lines("starts").len(), 1);
    assert!(worker.end_by("TERM").success());
}

#[test]
fn ctrl_z_stops_the_worker_with_its_containers_and_the_foreground_lets_them_go_on() {
    let (place, leader) = (Place::new(), Leader::start());
    let worker = Worker::start(&place, leader.port);
    let who = leader.wait_for_healthy();
    let count = place.path.join("count");
    let script =
        format!("i=0; while :; do i=$((i+1)); echo $i > {}; sleep 0.02; done", count.display());
    let run = leader.dispatch(who, 1, LONG_STOP, &shell(&place, &script));
    let read = || fs::read_to_string(&count).unwrap_or_default();
    wait_until("it counts", LONG, || !read().is_empty());
    signal(worker.pid(), "TSTP");
    let stat = format!("/proc/{}/stat", worker.pid());
    wait_until("the worker is stopped", LONG, || {
        fs::read_to_string(&stat).unwrap().contains(") T ")
    });
    let mut last = read();
    wait_until("it counts no more", LONG, || {
        std::thread::sleep(Duration::from_millis(100)); // why: nothing is to happen
        std::mem::replace(&mut last, read()) == last
    });
    signal(worker.pid(), "CONT");
    wait_until("it counts on", LONG, || read() != last);
    leader.kill(run, sterna_protocol::message::Kill::Now);
    leader.end(run);
    assert!(worker.end_by("TERM").success());
}

#[test]
fn a_second_worker_in_the_same_directory_is_refused() {
    let (place, leader) = (Place::new(), Leader::start());
    let worker = Worker::start(&place, leader.port);
    let who = leader.wait_for_healthy();
    let run = leader.dispatch(who, 1, LONG_STOP, &sleeper(&place, "starts"));
    leader.wait_for_running(run);
    let second = Command::new(env!("CARGO_BIN_EXE_sterna"))
        .args(["worker", "--join", "127.0.0.1", "--name", "w2", "--data"])
        .arg(&place.path)
        .output()
        .unwrap();
    assert_eq!(second.status.code(), Some(75));
    let said = String::from_utf8_lossy(&second.stderr).into_owned();
    let path = fs::canonicalize(&place.path).unwrap();
    assert_eq!(
        said.trim(),
        format!(
            "error: {} is in use by another worker: stop that one, or use another directory",
            path.display()
        )
    );
    // The first is as before.
    assert!(is_alive(place.pid_in("starts")));
    let other = leader.dispatch(who, 2, LONG_STOP, &shell(&place, "exit 1"));
    assert_eq!(leader.end(other)["exit"]["code"], 1);
    assert!(worker.end_by("TERM").success());
}
