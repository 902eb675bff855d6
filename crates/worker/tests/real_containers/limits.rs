//! Limits that hold, and how much a thousand runs cost.

use std::fs;

use serde_json::json;

use crate::worker::{LONG, Place, Runtime, Worker, run, wait_until};

fn a_memory_limit_kills_and_says_so_and_the_worker_lives(runtime: Runtime) {
    let place = Place::with(runtime);
    let mut worker = Worker::start(&place);
    assert_eq!(worker.missing, [] as [String; 0], "this machine cannot limit everything");
    let hungry = "x=a; while :; do x=$x$x$x$x; done";
    let limits = json!({ "limits": { "memory": "32MiB" } });
    worker.start_run(&place, 1, &["sh", "-c", hungry], limits.clone());
    worker.start_run(&place, 2, &["sh", "-c", &format!("sh -c '{hungry}'; exit 9")], limits);
    for number in [1, 2] {
        let end = worker.end(number);
        assert_eq!((&end["completed"], &end["exit"]), (&json!("Exited"), &json!("OutOfMemory")));
        let peak = end["usage"]["memory_peak_bytes"].as_u64().unwrap();
        assert!(peak > 16 << 20 && peak <= 36 << 20, "{end}");
    }
    worker.start_run(&place, 3, &["true"], json!({}));
    assert_eq!(worker.end(3)["exit"], "Code(0)");
    worker.end_by("TERM");
}

fn a_child_that_ran_out_of_memory_long_ago_is_not_what_a_run_ended_for(runtime: Runtime) {
    let place = Place::with(runtime);
    let mut worker = Worker::start(&place);
    let hungry = "sh -c 'x=a; while :; do x=$x$x$x$x; done'";
    let limits = json!({ "limits": { "memory": "32MiB" } });
    // The worker looks five times a second.
    worker.start_run(
        &place,
        1,
        &["sh", "-c", &format!("{hungry}; sleep 1.5; exit 3")],
        limits.clone(),
    );
    worker.start_run(&place, 2, &["sh", "-c", &format!("{hungry}; echo up; sleep 1000")], limits);
    wait_until("it is up", LONG, || place.output(&run(2), "stdout").contains("up"));
    worker.tell(&json!({ "kill": { "run": run(2) } }));
    let end = worker.end(2);
    assert_eq!((&end["completed"], &end["exit"]), (&json!("Request"), &json!("Signal(9)")));
    assert_eq!(worker.end(1)["exit"], "Code(3)");
    worker.end_by("TERM");
}

fn a_fork_bomb_is_held(runtime: Runtime) {
    let place = Place::with(runtime);
    let mut worker = Worker::start(&place);
    // A shell that may not fork any more gives up; what it has forked, and the first one, stay. One that
    // nobody holds goes on until it has said so.
    let bomb = "sh -c 'i=0; while [ $i -lt 400 ]; do sleep 1000 & i=$((i+1)); done; echo not held' \
                2>/dev/null || echo held; exec sleep 1000";
    worker.start_run(&place, 1, &["sh", "-c", bomb], json!({ "limits": { "pids": 50 } }));
    wait_until("it has met its limit, or none", LONG, || {
        place.output(&run(1), "stdout").contains("held")
    });
    assert_eq!(place.output(&run(1), "stdout"), "held\n");
    let count = place.marked().len();
    assert!((40..=50).contains(&count), "{count}");
    worker.tell(&json!({ "kill": { "run": run(1) } }));
    assert_eq!(worker.end(1)["completed"], "Request");
    assert!(place.marked().is_empty());
    worker.end_by("TERM");
}

fn a_cpu_limit_holds_and_usage_is_told(runtime: Runtime) {
    let place = Place::with(runtime);
    let mut worker = Worker::start(&place);
    let busy = "end=$(($(date +%s) + 2)); while [ $(date +%s) -lt $end ]; do :; done";
    worker.start_run(&place, 1, &["sh", "-c", busy], json!({ "limits": { "cpu": "200m" } }));
    let end = worker.end(1);
    assert_eq!(end["exit"], "Code(0)");
    let used = end["usage"]["cpu_us"].as_u64().unwrap();
    assert!(used > 50_000 && used < 1_200_000, "a fifth of two or three seconds: {end}");
    worker.end_by("TERM");
}

fn a_work_directory_that_grows_too_large_ends_the_run(runtime: Runtime) {
    let place = Place::with(runtime);
    let mut worker = Worker::start(&place);
    let program = "dd if=/dev/zero of=big bs=1M count=8 2>/dev/null; sleep 1000";
    worker.start_run(&place, 1, &["sh", "-c", program], json!({ "limits": { "disk": "4MiB" } }));
    assert_eq!(worker.end(1)["completed"], "DiskLimit");
    worker.end_by("TERM");
}

/// No path leads to what lies so deep.
fn a_work_directory_cannot_hide_what_it_holds(runtime: Runtime) {
    let place = Place::with(runtime);
    let mut worker = Worker::start(&place);
    let hides = "d=$(printf %0250d 0); i=0; while [ $i -lt 20 ]; do mkdir $d; cd -P $d; i=$((i+1)); \
                 done; dd if=/dev/zero of=big bs=1M count=20 2>/dev/null; sleep 1000";
    worker.start_run(&place, 1, &["sh", "-c", hides], json!({ "limits": { "disk": "1MiB" } }));
    assert_eq!(worker.end(1)["completed"], "DiskLimit");
    worker.end_by("TERM");
}

/// The memory of a process that is its own, in KiB.
pub(crate) fn own_memory(pid: i32) -> u64 {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let field = |name: &str| -> u64 {
        let line = text.lines().find(|line| line.starts_with(name)).unwrap();
        line.split_whitespace().nth(1).unwrap().parse().unwrap()
    };
    field("VmRSS:")
}

#[test]
fn a_thousand_sleeping_runs_cost_little_and_no_end_is_missed() {
    let place = Place::new();
    let mut worker = Worker::start(&place);
    for number in 1..=1000 {
        worker.start_run(&place, number, &["sleep", "1000"], json!({}));
    }
    for number in 1..=1000 {
        worker.wait_for_state(number, "Running");
    }
    let both = own_memory(worker.pid()) + own_memory(place.guardian().unwrap());
    assert!(both < 150 * 1024, "worker and guardian have {both} KiB");
    for number in 1..=1000 {
        worker.tell(&json!({ "stop": { "run": run(number) } }));
    }
    for number in 1..=1000 {
        assert_eq!(worker.end(number)["exit"], "Signal(15)");
    }
    assert!(place.marked().is_empty());
    worker.end_by("TERM");
}

for_each_runtime!(
    a_memory_limit_kills_and_says_so_and_the_worker_lives,
    a_child_that_ran_out_of_memory_long_ago_is_not_what_a_run_ended_for,
    a_fork_bomb_is_held,
    a_cpu_limit_holds_and_usage_is_told,
    a_work_directory_that_grows_too_large_ends_the_run,
    a_work_directory_cannot_hide_what_it_holds,
);
