//! Links that are cut, stalled, pointed elsewhere, or never come about.

use std::time::{Duration, Instant};

use sterna_model::{Contract, Span};
use sterna_protocol::scheduler::{Alarm, GoneBy, Settlement};
use sterna_wire::{Leadership, Links, serve};

use crate::{
    leader::{Kind, LIMITS, LONG_STOP, Leader, Seen, shell, sleeper},
    place::{LONG, Place, Worker, instant, is_alive, signal, wait_until},
    proxy::{Mode, Proxy},
};

/// The shortest that a run may be stopped after, with these limits: 6.7 s.
const STOP_AFTER: Span = Span::from_millis(7_000);

/// Cuts a worker off, and gives when its run was gone after that.
fn gone_after(mode: Mode) -> Duration {
    let (place, leader) = (Place::new(), Leader::start());
    let proxy = Proxy::to(leader.port);
    let worker = Worker::start(&place, proxy.port);
    let who = leader.wait_for_healthy();
    assert!(STOP_AFTER >= LIMITS.stop_after_min());
    let stop = Contract::Stop { after: STOP_AFTER };
    // Deaf to TERM, so that the kill wait counts.
    let script = format!(
        "trap '' TERM; echo $$ >> {}; while :; do sleep 0.05; done",
        place.path.join("deaf").display()
    );
    let deaf = leader.dispatch(who, 1, stop, &shell(&place, &script));
    let mild = leader.dispatch(who, 2, stop, &sleeper(&place, "mild"));
    let lasting = leader.dispatch(who, 3, LONG_STOP, &sleeper(&place, "lasting"));
    leader.wait_for_running(deaf);
    leader.wait_for_running(mild);
    let pid = |file: &str| place.pid_in(file);
    let (deaf_pid, mild_pid, lasting_pid) = (pid("deaf"), pid("mild"), pid("lasting"));
    let cut: Instant = instant();
    proxy.set(mode);
    wait_until("both are gone", LONG, || !is_alive(deaf_pid) && !is_alive(mild_pid));
    let gone = cut.elapsed();
    assert!(is_alive(lasting_pid), "its time has not come");
    // The leader counts on it no earlier than it is so.
    for run in [deaf, mild] {
        assert_eq!(leader.settled(run), Settlement::Gone(GoneBy::Deadline));
    }
    assert!(cut.elapsed() > gone);
    proxy.set(Mode::Pass);
    leader.wait_for_later(who.life);
    // Late, and told all the same: nobody forgets how they ended.
    for run in [deaf, mild] {
        assert_eq!(leader.end(run)["cause"], "deadline");
    }
    assert!(is_alive(lasting_pid));
    assert_eq!(place.lines("lasting").len(), 1);
    leader.kill(lasting, sterna_protocol::message::Kill::Now);
    leader.end(lasting);
    assert!(worker.end_by("TERM").success());
    gone
}

/// The stamp of the last confirmed heartbeat is at most a heartbeat, and what a busy machine adds,
/// before the cut; from it on the stop begins after 4.486 s, and ends half a second later.
fn assert_on_time(gone: Duration) {
    let begins = LIMITS.stop_begins_after(STOP_AFTER).as_duration();
    let early = begins.saturating_sub(Duration::from_millis(1_500));
    let deadline = STOP_AFTER.as_duration();
    assert!(gone > early, "gone after {gone:?}: too early");
    assert!(gone < deadline, "gone after {gone:?}: the leader counts on {deadline:?}");
}

#[test]
fn runs_of_a_worker_that_is_cut_off_end_at_their_deadline() {
    assert_on_time(gone_after(Mode::Cut));
}

#[test]
fn runs_of_a_worker_whose_link_stalls_end_at_their_deadline() {
    assert_on_time(gone_after(Mode::Stall));
}

/// Worker and guardian each hold runs to their deadlines; without a word of the guardian the worker
/// sends no heartbeat, and so the leader counts on the deadline too.
#[test]
fn runs_end_at_their_deadline_while_the_guardian_is_stopped() {
    let (place, leader) = (Place::new(), Leader::start());
    let worker = Worker::start(&place, leader.port);
    let who = leader.wait_for_healthy();
    let stop = Contract::Stop { after: STOP_AFTER };
    let run = leader.dispatch(who, 1, stop, &sleeper(&place, "starts"));
    let lasting = leader.dispatch(who, 2, LONG_STOP, &sleeper(&place, "lasting"));
    let (pid, lasting_pid) = (place.pid_in("starts"), place.pid_in("lasting"));
    leader.wait_for_running(run);
    let guardian = place.guardian().unwrap();
    let stopped = instant();
    signal(guardian, "STOP");
    wait_until("it is gone", LONG, || !is_alive(pid));
    assert_on_time(stopped.elapsed());
    assert_eq!(leader.settled(run), Settlement::Gone(GoneBy::Deadline));
    assert!(is_alive(lasting_pid));
    signal(guardian, "CONT");
    leader.wait_for_later(who.life);
    assert_eq!(leader.end(run)["cause"], "deadline");
    leader.kill(lasting, sterna_protocol::message::Kill::Now);
    leader.end(lasting);
    assert!(worker.end_by("TERM").success());
}

/// And the other way round.
#[test]
fn runs_end_at_their_deadline_while_the_worker_is_stopped() {
    let (place, leader) = (Place::new(), Leader::start());
    let worker = Worker::start(&place, leader.port);
    let who = leader.wait_for_healthy();
    let stop = Contract::Stop { after: STOP_AFTER };
    let run = leader.dispatch(who, 1, stop, &sleeper(&place, "starts"));
    let pid = place.pid_in("starts");
    leader.wait_for_running(run);
    let stopped = instant();
    signal(worker.pid(), "STOP");
    wait_until("it is gone", LONG, || !is_alive(pid));
    assert_on_time(stopped.elapsed());
    assert_eq!(leader.settled(run), Settlement::Gone(GoneBy::Deadline));
    signal(worker.pid(), "CONT");
    leader.wait_for_later(who.life);
    assert_eq!(leader.end(run)["cause"], "deadline");
    assert!(worker.end_by("TERM").success());
}

#[test]
fn a_short_interruption_ends_nothing() {
    let (place, leader) = (Place::new(), Leader::start());
    let proxy = Proxy::to(leader.port);
    let worker = Worker::start(&place, proxy.port);
    let who = leader.wait_for_healthy();
    let run = leader.dispatch(who, 1, LONG_STOP, &sleeper(&place, "starts"));
    leader.wait_for_running(run);
    place.pid_in("starts");
    for round in 1..=3 {
        proxy.set(Mode::Cut);
        wait_until("the worker has noticed", LONG, || worker.count("closed: the stream") >= round);
        proxy.set(Mode::Pass);
        wait_until("it is back", LONG, || worker.count("is open") > round);
    }
    leader.wait_for_contact();
    let other = leader.dispatch(who, 2, LONG_STOP, &shell(&place, "exit 8"));
    assert_eq!(leader.end(other)["exit"]["code"], 8);
    assert_eq!(place.lines("starts").len(), 1);
    assert_eq!(place.marked().len(), 1);
    assert!(worker.end_by("TERM").success());
}

#[test]
fn a_server_that_is_not_there_is_told_once_and_waited_for() {
    let place = Place::new();
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = free.local_addr().unwrap().port();
    drop(free);
    let worker = Worker::start(&place, port);
    worker.wait_to_say(&format!("no link: 127.0.0.1:{port} cannot be reached: Connection refused"));
    // More attempts than lines about them.
    std::thread::sleep(Duration::from_secs(3)); // why: nothing is to be said for a while
    assert_eq!(worker.count("no link:"), 1, "{:#?}", worker.said());
    let leader = Leader::at(port, Kind::Leader);
    leader.wait_for_healthy();
    worker.wait_to_say(&format!("link to 127.0.0.1:{port} is open"));
    worker.wait_to_say("confirmed as life 1 by the leader of term1, epoch1");
    worker.wait_to_say("the leader calls this worker healthy");
    assert!(worker.end_by("TERM").success());
}

#[test]
fn a_server_of_another_version_is_told_clearly() {
    let (place, leader) = (Place::new(), Leader::of(Kind::OfVersion(3)));
    let worker = Worker::start(&place, leader.port);
    worker.wait_to_say(
        "the server speaks version 3 of the protocol, and this worker 2: \
         upgrade the older of the two",
    );
    assert!(worker.end_by("TERM").success());
}

/// And neither is it obeyed, nor does it take the worker for one of its own.
#[test]
fn a_leader_of_another_cluster_is_told_clearly() {
    let (place, mut leader) = (Place::new(), Leader::start());
    let worker = Worker::start(&place, leader.port);
    let who = leader.wait_for_healthy();
    let run = leader.dispatch(who, 1, LONG_STOP, &sleeper(&place, "starts"));
    let pid = place.pid_in("starts");
    leader.wait_for_running(run);
    leader.stop();
    let mut other = Leader::at(leader.port, Kind::OfAnotherCluster);
    worker.wait_to_say("the server leads cluster-00000000000072028202020202020202");
    other.wait("it is refused", |seen| {
        matches!(seen, Seen::Refused(Alarm::Foreign(_))).then_some(())
    });
    assert!(other.newest().is_none());
    other.stop();
    let leader = leader.restart();
    leader.wait_for_healthy();
    assert!(is_alive(pid));
    leader.kill(run, sterna_protocol::message::Kill::Now);
    leader.end(run);
    assert!(worker.end_by("TERM").success());
}

#[test]
fn whoever_is_no_server_is_told_from_nobody() {
    let place = Place::new();
    let web = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = web.local_addr().unwrap().port();
    std::thread::spawn(move || {
        use std::io::{Read, Write};
        for mut socket in web.incoming().flatten() {
            drop(socket.read(&mut [0; 1_000]));
            drop(socket.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n"));
            // As web servers do, so that the answer is not lost with the connection.
            while socket.read(&mut [0; 1_000]).is_ok_and(|count| count > 0) {}
        }
    });
    let worker = Worker::start(&place, port);
    worker.wait_to_say(&format!("127.0.0.1:{port} answers, but not as a server of Sterna does"));
    assert!(worker.end_by("TERM").success());
}

#[test]
fn a_worker_goes_where_a_follower_points() {
    let (place, leader) = (Place::new(), Leader::start());
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let follower = listener.local_addr().unwrap().port();
    let leads: sterna_wire::Address = format!("127.0.0.1:{}", leader.port).parse().unwrap();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let listener = tokio::net::TcpListener::from_std(listener).unwrap();
            let (opened, _none) = tokio::sync::mpsc::channel(1);
            let links = Links::new(move || Leadership::Elsewhere(Some(leads.clone())), opened);
            let mut served = tokio::task::JoinSet::new();
            while let Ok((socket, _)) = listener.accept().await {
                let links = links.clone();
                served.spawn(async move { drop(serve(socket, links).await) });
            }
        });
    });
    let worker = Worker::start(&place, follower);
    leader.wait_for_healthy();
    worker.wait_to_say(&format!("link to 127.0.0.1:{} is open", leader.port));
    assert!(worker.end_by("TERM").success());
}

#[test]
fn a_name_that_is_taken_is_told_and_the_worker_waits() {
    let (one, two, leader) = (Place::new(), Place::new(), Leader::start());
    let first = Worker::start(&one, leader.port);
    let who = leader.wait_for_healthy();
    let second = Worker::start(&two, leader.port);
    second.wait_to_say("the name w1 belongs to another machine that is alive");
    assert!(first.end_by("TERM").success());
    // When the first is given up, the name is free.
    leader.wait("that the second is let in", |seen| {
        if let Seen::Health(other, sterna_protocol::health::Health::Healthy) = seen {
            (other.lock != who.lock).then_some(())
        } else {
            None
        }
    });
    assert!(second.end_by("TERM").success());
}
