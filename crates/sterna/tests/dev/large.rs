//! Work that says much: what is written at once fits into commits.

use std::fs;

use crate::place::{Cluster, LONG, wait_until};

/// Claims of six large tasks were one commit that the store refuses, for ever, whoever led.
#[test]
fn large_tasks_that_get_their_worker_at_the_same_time_run() {
    let cluster = Cluster::start("large-tasks", &[]);
    cluster.answer(&["drain", "worker-1"]);
    let long = "x".repeat(120_000);
    for _ in 0..12 {
        let (one, other) = (format!("A={long}"), format!("B={long}"));
        cluster.answer(&["run", "--detach", "-e", &one, "-e", &other, "--", "true"]);
    }
    cluster.answer(&["undrain", "worker-1"]);
    let done = || cluster.answer(&["ls", "tasks"]).matches("exited with 0").count();
    wait_until("all have run", LONG, || done() == 12);
    let log = fs::read_to_string(cluster.path.join(".sterna/server.log")).expect("its log");
    assert!(!log.contains("leads no longer"), "{log}");
}

/// So were their ends.
#[test]
fn long_results_that_come_at_the_same_time_are_recorded() {
    const TASKS: usize = 60;
    let cluster = Cluster::start("large-results", &[]);
    let go = cluster.path.join("go");
    let run = "while ! [ -e \"$GO\" ]; do sleep 0.05; done; \
               head -c 50000 /dev/zero | tr '\\0' x > \"$STERNA_RESULT\"";
    let go_is = format!("GO={}", go.display());
    for _ in 0..TASKS {
        cluster.answer(&["run", "--detach", "-e", &go_is, "--", "sh", "-c", run]);
    }
    let phases = |phase: &str| cluster.answer(&["ls", "tasks"]).matches(phase).count();
    wait_until("all run", LONG, || phases("running") == TASKS);
    fs::write(&go, "").expect("a file");
    wait_until("all have ended", LONG, || phases("exited with 0") == TASKS);
    let log = fs::read_to_string(cluster.path.join(".sterna/server.log")).expect("its log");
    assert!(!log.contains("leads no longer"), "{log}");
}
