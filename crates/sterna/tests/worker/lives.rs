//! Leaders and workers that go and come back: what runs is found, and nothing runs twice.

use serde_json::{Value, json};
use sterna_model::{Contract, RunId};
use sterna_protocol::{
    message::{Held, Saying},
    scheduler::{GoneBy, Settlement},
};

use crate::{
    leader::{LONG_STOP, Leader, Seen, shell, sleeper},
    place::{LONG, Place, Worker, is_alive, wait_until},
    proxy::{Mode, Proxy},
};

/// What a worker said that it has, the first time in this reign.
fn running(leader: &Leader) -> Vec<Held> {
    leader.wait("what it runs", |seen| {
        if let Seen::Frame(frame) = seen
            && let Saying::Running(held) = &frame.saying
        {
            Some(held.clone())
        } else {
            None
        }
    })
}

fn kept(mut work: Value) -> Value {
    work["when_worker_exits"] = json!("keep");
    work
}

#[test]
fn a_leader_that_restarts_finds_what_runs_and_nothing_runs_twice() {
    let (place, leader) = (Place::new(), Leader::start());
    let worker = Worker::start(&place, leader.port);
    let who = leader.wait_for_healthy();
    let long = leader.dispatch(who, 1, LONG_STOP, &sleeper(&place, "long"));
    let go = place.path.join("go");
    let waits = format!("while [ ! -e {} ]; do sleep 0.02; done; exit 4", go.display());
    let short = leader.dispatch(who, 2, LONG_STOP, &shell(&place, &waits));
    leader.wait_for_running(long);
    leader.wait_for_running(short);
    let port = leader.port;
    let mut leader = leader;
    leader.stop();
    // One ends while nobody leads.
    std::fs::write(&go, "").unwrap();
    worker.wait_to_say(&format!("{short} is over: exited, Code(4)"));
    worker.wait_to_say("no link:");
    let leader = leader.restart();
    assert_eq!(leader.port, port);
    assert_eq!(leader.wait_for_healthy(), who, "the same life");
    let runs: Vec<RunId> = running(&leader).iter().map(|held| held.run).collect();
    assert_eq!(runs, [long, short]);
    assert_eq!(leader.end(short)["exit"]["code"], 4);
    assert_eq!(place.lines("long").len(), 1);
    assert!(is_alive(place.pid_in("long")));
    // And it takes work of the new leader.
    let third = leader.dispatch(who, 3, LONG_STOP, &shell(&place, "exit 6"));
    assert_eq!(leader.end(third)["exit"]["code"], 6);
    assert!(worker.end_by("TERM").success());
}

#[test]
fn a_worker_that_is_killed_adopts_what_was_kept_and_tells_what_ended() {
    let (place, leader) = (Place::new(), Leader::start());
    let worker = Worker::start(&place, leader.port);
    let who = leader.wait_for_healthy();
    leader.record(false);
    let over = leader.dispatch(who, 1, LONG_STOP, &shell(&place, "exit 9"));
    leader.end(over);
    let long = leader.dispatch(who, 2, LONG_STOP, &kept(sleeper(&place, "long")));
    let go = place.path.join("go");
    let waits = format!("while [ ! -e {} ]; do sleep 0.02; done; exit 4", go.display());
    let short = leader.dispatch(who, 3, LONG_STOP, &kept(shell(&place, &waits)));
    let mortal = leader.dispatch(who, 4, LONG_STOP, &sleeper(&place, "mortal"));
    leader.wait_for_running(short);
    let (long_pid, mortal_pid) = (place.pid_in("long"), place.pid_in("mortal"));
    worker.kill();
    // Two end while nobody is there.
    std::fs::write(&go, "").unwrap();
    wait_until("what is not kept is gone", LONG, || !is_alive(mortal_pid));
    assert!(is_alive(long_pid));
    leader.record(true);
    let worker = Worker::start(&place, leader.port);
    let next = leader.wait_for_later(who.life);
    assert_eq!(next.lock, who.lock);
    worker.wait_to_say(&format!("{long} of default/task/t2 continues from an earlier life"));
    assert_eq!(leader.end(over)["exit"]["code"], 9);
    assert_eq!(leader.end(short)["exit"]["code"], 4);
    assert_eq!(leader.end(mortal)["cause"], "worker_exit");
    wait_until("only one is left in the table", LONG, || {
        place.files("held") == [format!("{long}.json")]
    });
    assert!(is_alive(long_pid), "it was adopted");
    assert_eq!(place.lines("long").len(), 1, "and not begun again");
    // The key is still here.
    let again = leader.dispatch(next, 2, LONG_STOP, &sleeper(&place, "long"));
    assert_eq!(again, long);
    leader.kill(long, sterna_protocol::message::Kill::Now);
    assert_eq!(leader.end(long)["cause"], "request");
    assert!(worker.end_by("TERM").success());
    assert_eq!(place.lines("long").len(), 1);
}

#[test]
fn a_run_that_was_accepted_and_never_begun_is_told_as_such() {
    let (place, leader) = (Place::new(), Leader::start());
    let worker = Worker::start(&place, leader.port);
    let who = leader.wait_for_healthy();
    let run = leader.dispatch(who, 1, LONG_STOP, &kept(sleeper(&place, "starts")));
    leader.wait_for_running(run);
    worker.kill();
    // As if it had been killed between its table and its guardian.
    let held = place.path.join("held");
    let text = std::fs::read_to_string(held.join(format!("{run}.json"))).unwrap();
    let lost = crate::leader::run_id(2);
    let text = text.replace(&run.to_string(), &lost.to_string()).replace("t1", "t2");
    std::fs::write(held.join(format!("{lost}.json")), text).unwrap();
    let worker = Worker::start(&place, leader.port);
    leader.wait_for_later(who.life);
    let why = leader.end(lost)["cause"]["failed_to_start"].to_string();
    assert!(why.contains("its worker ended before it began"), "{why}");
    assert!(worker.end_by("TERM").success());
}

#[test]
fn what_runs_and_stands_in_no_table_is_ended_before_anybody_is_told_what_runs() {
    let (place, leader) = (Place::new(), Leader::start());
    let worker = Worker::start(&place, leader.port);
    let who = leader.wait_for_healthy();
    let run = leader.dispatch(who, 1, LONG_STOP, &kept(sleeper(&place, "starts")));
    leader.wait_for_running(run);
    worker.kill();
    std::fs::remove_dir_all(place.path.join("held")).unwrap();
    let pid: i32 = place.pid_in("starts");
    assert!(is_alive(pid));
    let worker = Worker::start(&place, leader.port);
    // It is absent from the first answer, so the leader frees its key: it must be gone by then.
    let how = leader.settled(run);
    assert_eq!(how, Settlement::Gone(GoneBy::Absence));
    assert!(!is_alive(pid), "its key is free while it runs");
    assert_eq!(worker.count("belongs to no known work: the worker ends it first"), 1);
    assert!(worker.end_by("TERM").success());
}

#[test]
fn a_worker_that_was_given_up_comes_back_as_its_next_life_with_what_it_runs() {
    let (place, leader) = (Place::new(), Leader::start());
    let proxy = Proxy::to(leader.port);
    let worker = Worker::start(&place, proxy.port);
    let who = leader.wait_for_healthy();
    let run = leader.dispatch(who, 1, Contract::Keep, &sleeper(&place, "starts"));
    leader.wait_for_running(run);
    let pid: i32 = place.pid_in("starts");
    proxy.set(Mode::Cut);
    leader.wait("that it is given up", |seen| {
        if let Seen::Health(_, sterna_protocol::health::Health::MustDie) = seen {
            Some(())
        } else {
            None
        }
    });
    worker.wait_to_say("its runs continue");
    proxy.set(Mode::Pass);
    let next = leader.wait_for_later(who.life);
    assert_eq!(next.lock, who.lock);
    assert!(is_alive(pid), "a life was given up, and nothing that runs");
    assert_eq!(place.lines("starts").len(), 1);
    let other = leader.dispatch(next, 2, LONG_STOP, &shell(&place, "exit 2"));
    assert_eq!(leader.end(other)["exit"]["code"], 2);
    assert!(worker.end_by("TERM").success());
}
