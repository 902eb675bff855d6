//! A worker whose next guardian does not come, or does not answer.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use serde_json::json;

use crate::worker::{LONG, Place, Worker, assert_gone, processes, run, signal, wait_until};

/// Whoever opens this file waits for ever: nobody has its other end.
fn be_shut(path: &Path) {
    drop(fs::remove_file(path));
    assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
}

/// Processes of a run.
fn of(place: &Place, number: u32) -> Vec<i32> {
    let name = format!("STERNA_RUN={}", run(number));
    let is_of = |pid: &i32| {
        let environment = fs::read_to_string(format!("/proc/{pid}/environ")).unwrap_or_default();
        environment.contains(&name)
    };
    place.marked().into_iter().filter(is_of).collect()
}

/// The guardians that this worker has started, however far they came.
fn guardians(worker: &Worker) -> Vec<i32> {
    let is_one = |pid: &i32| {
        let words = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let parent = stat.rsplit_once(") ").and_then(|(_, after)| after.split(' ').nth(1));
        words == b"guardian\0" && parent == Some(&worker.pid().to_string())
    };
    processes().into_iter().filter(is_one).collect()
}

/// Kills the guardian; the next one waits at `file` until that is removed and it is given up.
fn what_is_due_is_done_while_the_next_guardian_waits_at(file: impl FnOnce(&Place) -> PathBuf) {
    let place = Place::new();
    let mut worker = Worker::start(&place);
    let limits = json!({ "timeout": "3s", "signals": { "grace": "100ms" } });
    worker.start_run(&place, 1, &["sleep", "1000"], limits);
    for number in 2..=4 {
        worker.start_run(&place, number, &["sleep", "1000"], json!({}));
    }
    for number in 1..=4 {
        worker.wait_for_state(number, "Running");
    }
    signal(worker.pid(), "STOP");
    signal(place.guardian().unwrap(), "KILL");
    wait_until("the guardian is gone", LONG, || place.guardian().is_none());
    let file = file(&place);
    be_shut(&file);
    assert_eq!(of(&place, 1).len(), 1, "its time is not over yet");
    signal(worker.pid(), "CONT");
    wait_until("another guardian is started", LONG, || !guardians(&worker).is_empty());
    worker.tell(&json!({ "kill": { "run": run(2) } }));
    worker.tell(&json!({ "stop": { "run": run(3), "grace": "1h" } }));
    worker.start_run(&place, 5, &["sh", "-c", "exit 7"], json!({}));
    worker.start_run(&place, 6, &["sleep", "1000"], json!({}));
    worker.tell(&json!({ "kill": { "run": run(6) } }));
    for number in 1..=2 {
        let what = format!("run {number} is gone without a guardian");
        wait_until(&what, Duration::from_secs(8), || of(&place, number).is_empty());
    }
    fs::remove_file(&file).unwrap();
    drop(file.parent().filter(|path| path.ends_with(run(9))).map(fs::remove_dir));
    worker.hear("that there is another guardian", |said| said.get("replaced").is_some());
    assert_eq!(worker.end(1)["completed"], "Timeout");
    assert_eq!(worker.end(2)["completed"], "Request");
    // What only a guardian can do was kept for it.
    let end = worker.end(3);
    assert_eq!((&end["completed"], &end["exit"]), (&json!("Request"), &json!("Signal(15)")));
    assert_eq!(worker.end(5)["exit"], "Code(7)");
    assert_eq!(worker.end(6)["completed"], "Request");
    assert_eq!(of(&place, 4).len(), 1, "what runs goes on");
    worker.end_by("TERM");
    assert_gone(&place, "after the end");
}

/// It never says that it listens.
#[test]
fn what_is_due_is_done_while_the_next_guardian_starts() {
    what_is_due_is_done_while_the_next_guardian_waits_at(|place| {
        let directory = place.path.join("runs").join(run(9));
        fs::create_dir(&directory).unwrap();
        directory.join("journal")
    });
}

/// It listens, and does not say what it holds.
#[test]
fn what_is_due_is_done_while_the_next_guardian_does_not_answer() {
    what_is_due_is_done_while_the_next_guardian_waits_at(|place| place.path.join("guardian.log"));
}

/// Of such a run no process is left, but a stranger has its output: it is read for a moment.
#[test]
fn the_log_of_a_run_that_is_over_does_not_tell_of_another_guardian() {
    let place = Place::new();
    let mut worker = Worker::start(&place);
    let up = place.path.join("up");
    let stranger = format!(
        "echo $$ >/sys/fs/cgroup/unified/cgroup.procs; echo $$ >{}; \
         while [ -e /proc/$1 ]; do sleep 0.01; done; sleep 0.1; kill -9 $2; exec sleep 1000",
        up.display()
    );
    let program = format!(
        "setsid sh -c \"$1\" sh $$ $PPID & while [ ! -s {} ]; do sleep 0.02; done; exit 7",
        up.display()
    );
    worker.start_run(&place, 1, &["sh", "-c", &program, "sh", &stranger], json!({}));
    worker.hear("that there is another guardian", |said| said.get("replaced").is_some());
    assert_eq!(worker.end(1)["exit"], "Code(7)");
    let events = place.output(&run(1), "events");
    assert!(events.contains("exited") && !events.contains("guardian_replaced"), "{events}");
    signal(fs::read_to_string(&up).unwrap().trim().parse().unwrap(), "KILL");
    worker.end_by("TERM");
}
