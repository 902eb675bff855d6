//! Nothing of a run is left, whatever it did, however it ended.

use std::{fs, time::Duration};

use serde_json::json;

use crate::{
    program::{ESCAPES, that_ends},
    worker::{
        KILL_WAIT, LONG, Place, Runtime, Worker, assert_gone, is_alive, run, signal, wait_until,
    },
};

/// Starts every program that tries to get away, and waits until each is what it is to be.
fn start_all(place: &Place, worker: &mut Worker, more: serde_json::Value) {
    for (number, (_, program)) in (1..).zip(ESCAPES) {
        worker.start_run(place, number, &["sh", "-c", program], more.clone());
    }
    for (number, (name, _)) in (1..).zip(ESCAPES) {
        wait_until(name, LONG, || place.output(&run(number), "stdout").contains("up"));
    }
    assert!(place.marked().len() > 200, "they are not all there: {}", place.marked().len());
}

/// Asserts that the one program that runs does what its name says, where that can be seen.
fn assert_is_what_it_says(place: &Place, name: &str) {
    let has_output =
        |pid: i32| (1..=2).any(|fd| fs::exists(format!("/proc/{pid}/fd/{fd}")).unwrap());
    let is_first = |pid: i32| {
        let words = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&words).contains("echo up")
    };
    let is_so: &dyn Fn(i32) -> bool = match name {
        "closes its pipes" => &|pid| !has_output(pid),
        "execs" => &|pid| !is_first(pid),
        _ => return,
    };
    // What has said that it is up does the next thing a moment later.
    wait_until(name, LONG, || place.marked().into_iter().all(is_so));
}

fn every_isolation(runtime: Runtime, test: impl Fn(&Place, &str)) {
    for isolation in runtime.isolations() {
        test(&Place::with(runtime), isolation);
    }
}

fn after_its_end_nothing_is_left_of_a_run(runtime: Runtime) {
    every_isolation(runtime, |place, isolation| {
        let mut worker = Worker::start_with(place, isolation);
        for (number, (name, program)) in (1..).zip(ESCAPES) {
            let go = place.path.join(format!("go-{number}"));
            let program = that_ends(name, program);
            worker.start_run(
                place,
                number,
                &["sh", "-c", &program],
                json!({
                    "env": { "GO": go, "STERNA_TEST_MARK": place.path },
                }),
            );
            wait_until(name, LONG, || place.output(&run(number), "stdout").contains("up"));
            assert_is_what_it_says(place, name);
            fs::write(&go, "").unwrap();
            assert_gone(place, &format!("{isolation}: {name}"));
            let end = worker.end(number);
            assert_eq!((&end["completed"], &end["exit"]), (&json!("Exited"), &json!("Code(7)")));
            assert!(place.marked().is_empty(), "{isolation}: {name} left {:?}", place.marked());
        }
        worker.end_by("TERM");
    });
}

/// Without cgroups a process of ours stands above each command, and work may kill it.
#[test]
fn who_kills_what_stands_above_it_does_not_get_away() {
    let place = Place::new();
    let mut worker = Worker::start_with(&place, "tree");
    let programs = [
        "kill -9 $PPID; exec sleep 1000",
        "(setsid sleep 1000 &); (setsid sh -c 'sleep 1000 & sleep 1000' &); kill -9 $PPID; sleep 1000",
        "(setsid sleep 1000 &); kill -9 $PPID",
        "house=$PPID; (setsid sh -c \"sleep 0.2; kill -9 $house; while :; do sleep 0.01; done\" &); \
         sleep 1000",
    ];
    worker.start_run(&place, 9, &["sleep", "1000"], json!({}));
    worker.wait_for_state(9, "Running");
    for (number, program) in (1..).zip(programs) {
        worker.start_run(&place, number, &["sh", "-c", program], json!({}));
        assert_eq!(worker.end(number)["completed"], "Exited", "{program}");
        assert_eq!(place.marked().len(), 1, "{program}: only the other run is there");
    }
    worker.tell(&json!({ "kill": { "run": run(9) } }));
    assert_eq!(worker.end(9)["completed"], "Request");
    worker.end_by("TERM");
}

fn a_guardian_that_is_stopped_does_not_hold_up_an_end(runtime: Runtime) {
    every_isolation(runtime, |place, isolation| {
        let mut worker = Worker::start_with(place, isolation);
        start_all(place, &mut worker, json!({}));
        let guardian = place.guardian().unwrap();
        signal(guardian, "STOP");
        for (number, _) in (1..).zip(ESCAPES) {
            worker.tell(&json!({ "stop": { "run": run(number), "grace": "1s" } }));
        }
        let within = Duration::from_secs(1) + KILL_WAIT + Duration::from_secs(1);
        wait_until("nothing is left", within, || place.marked().is_empty());
        // What became of them is told when there is somebody to tell it.
        signal(guardian, "CONT");
        for (number, _) in (1..).zip(ESCAPES) {
            assert_eq!(worker.end(number)["completed"], "Request", "{isolation}");
        }
        worker.end_by("TERM");
    });
}

fn after_a_kill_nothing_is_left(runtime: Runtime) {
    every_isolation(runtime, |place, isolation| {
        let mut worker = Worker::start_with(place, isolation);
        start_all(place, &mut worker, json!({}));
        for (number, _) in (1..).zip(ESCAPES) {
            worker.tell(&json!({ "kill": { "run": run(number) } }));
        }
        assert_gone(place, isolation);
        for (number, _) in (1..).zip(ESCAPES) {
            let end = worker.end(number);
            assert_eq!((&end["completed"], &end["exit"]), (&json!("Request"), &json!("Signal(9)")));
        }
        worker.end_by("TERM");
    });
}

fn the_next_guardian_holds_all_of_what_the_one_before_it_has_left(runtime: Runtime) {
    every_isolation(runtime, |place, isolation| {
        let mut worker = Worker::start_with(place, isolation);
        start_all(place, &mut worker, json!({}));
        let (before, alive) = (place.guardian().unwrap(), place.marked());
        signal(before, "KILL");
        wait_until("there is another guardian", LONG, || {
            place.guardian().is_some_and(|guardian| guardian != before)
        });
        let ended: Vec<_> = alive.iter().filter(|pid| !is_alive(**pid)).collect();
        assert!(ended.is_empty(), "{isolation}: runs must live on: {ended:?}");
        worker.kill();
        assert_gone(place, isolation);
        let mut next = Worker::start_with(place, isolation);
        for (number, (name, _)) in (1..).zip(ESCAPES) {
            assert_eq!(next.end(number)["completed"], "WorkerExit", "{isolation}: {name}");
        }
        next.end_by("TERM");
    });
}

fn after_the_workers_term_nothing_is_left_and_its_guardian_goes_last(runtime: Runtime) {
    every_isolation(runtime, |place, isolation| {
        let mut worker = Worker::start_with(place, isolation);
        // Their own grace is longer than the kill wait.
        start_all(place, &mut worker, json!({}));
        let guardian = place.guardian().unwrap();
        signal(worker.pid(), "TERM");
        assert_gone(place, isolation);
        let status = worker.ended();
        assert!(status.success(), "{status}");
        assert!(place.marked().is_empty(), "{isolation}: {:?}", place.marked());
        wait_until("the guardian has gone", LONG, || !is_alive(guardian));
        place.assert_no_groups();
    });
}

fn after_the_workers_kill_nothing_is_left_within_the_kill_wait_and_a_second(runtime: Runtime) {
    every_isolation(runtime, |place, isolation| {
        let mut worker = Worker::start_with(place, isolation);
        start_all(place, &mut worker, json!({}));
        let guardian = place.guardian().unwrap();
        worker.kill();
        assert_gone(place, isolation);
        wait_until("the guardian has gone", LONG, || !is_alive(guardian));
    });
}

fn a_worker_that_is_stopped_past_the_deadline_leaves_nothing_running(runtime: Runtime) {
    every_isolation(runtime, |place, isolation| {
        let mut worker = Worker::start_with(place, isolation);
        worker.start_run(place, 20, &["sleep", "1000"], json!({ "stop_after": "1h" }));
        // Two seconds after the last confirmation they begin to be stopped.
        let short = json!({ "stop_after": "2s" });
        for (number, (name, program)) in (1..).zip(ESCAPES) {
            worker.start_run(place, number, &["sh", "-c", program], short.clone());
            wait_until(name, LONG, || {
                worker.tell(&json!("confirm"));
                place.output(&run(number), "stdout").contains("up")
            });
        }
        assert!(place.marked().len() > 200, "they are not all there: {}", place.marked().len());
        signal(worker.pid(), "STOP");
        let within = Duration::from_secs(2) + KILL_WAIT + Duration::from_secs(1);
        wait_until("nothing of them is left", within, || place.marked().len() == 1);
        signal(worker.pid(), "CONT");
        for (number, (name, _)) in (1..).zip(ESCAPES) {
            assert_eq!(worker.end(number)["completed"], "Deadline", "{isolation}: {name}");
        }
        assert_eq!(place.marked().len(), 1, "the other one is not at its deadline");
        worker.kill();
        assert_gone(place, isolation);
    });
}

fn a_bystander_is_never_harmed(runtime: Runtime) {
    // In our own process group and session, and as a sibling of everything.
    let mut bystander = std::process::Command::new("sleep").arg("1000").spawn().unwrap();
    let place = Place::with(runtime);
    let mut worker = Worker::start(&place);
    start_all(&place, &mut worker, json!({ "signals": { "to": "all" } }));
    worker.kill();
    assert_gone(&place, "everything");
    assert!(bystander.try_wait().unwrap().is_none());
    bystander.kill().unwrap();
    bystander.wait().unwrap();
}

fn many_workers_are_killed_among_many_runs_and_nothing_is_left(runtime: Runtime) {
    let is_long = std::env::var_os("STERNA_LONG").is_some();
    // A runtime takes a hundred times as long to begin as a process.
    let (rounds, runs) = match (runtime, is_long) {
        (Runtime::Process, false) => (50, 100),
        (Runtime::Process, true) => (500, 100),
        (Runtime::Oci, false) => (6, 20),
        (Runtime::Oci, true) => (50, 100),
    };
    let mut bystander = std::process::Command::new("sleep").arg("1000").spawn().unwrap();
    let place = Place::with(runtime);
    for round in 0..rounds {
        let mut worker = Worker::start(&place);
        worker.tell(&json!({ "kill_wait": { "span": "100ms" } }));
        worker.tell(&json!("acknowledge_all"));
        for number in 1..=runs {
            worker.start_run(&place, round * 100 + number, &["sleep", "1000"], json!({}));
        }
        // Sometimes all are up, sometimes they are on their way.
        if round % 2 == 0 {
            worker.wait_for_state(round * 100 + runs, "Running");
        } else {
            worker.wait_for_state(round * 100 + runs / 2, "Created");
        }
        worker.kill();
        if round % 5 == 0 {
            assert_gone(&place, "a round");
        }
    }
    assert_gone(&place, "all rounds");
    wait_until("the guardian has gone", LONG, || place.guardian().is_none());
    assert!(bystander.try_wait().unwrap().is_none());
    bystander.kill().unwrap();
    bystander.wait().unwrap();
    // The next worker cleans up after all of them.
    let worker = Worker::start(&place);
    worker.end_by("TERM");
    place.assert_no_groups();
}

fn groups_of_a_run_whose_end_was_told_are_removed_by_the_next_worker(runtime: Runtime) {
    let place = Place::with(runtime);
    let mut worker = Worker::start(&place);
    worker.start_run(&place, 1, &["true"], json!({}));
    worker.end(1);
    let ours = place.groups();
    worker.kill();
    // As if it had been killed before it came to that.
    for group in ours {
        fs::create_dir_all(group.join(run(1)).join("oci")).unwrap();
    }
    let mut next = Worker::start(&place);
    assert_eq!(next.end(1)["exit"], "Code(0)");
    next.end_by("TERM");
    place.assert_no_groups();
}

for_each_runtime!(
    after_its_end_nothing_is_left_of_a_run,
    a_guardian_that_is_stopped_does_not_hold_up_an_end,
    after_a_kill_nothing_is_left,
    the_next_guardian_holds_all_of_what_the_one_before_it_has_left,
    after_the_workers_term_nothing_is_left_and_its_guardian_goes_last,
    after_the_workers_kill_nothing_is_left_within_the_kill_wait_and_a_second,
    a_worker_that_is_stopped_past_the_deadline_leaves_nothing_running,
    a_bystander_is_never_harmed,
    groups_of_a_run_whose_end_was_told_are_removed_by_the_next_worker,
    many_workers_are_killed_among_many_runs_and_nothing_is_left,
);
