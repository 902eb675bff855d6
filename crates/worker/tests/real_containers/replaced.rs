//! A worker whose next guardian does not come, or does not answer.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use crate::worker::{
    LONG, Place, Runtime, Worker, assert_gone, instant, is_alive, processes, run, signal,
    wait_until,
};

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

/// Kills the guardian; the next one waits at the file that is given until that is removed and it is
/// given up.
fn hold_up_the_next_guardian(place: &Place, worker: &Worker) -> PathBuf {
    signal(worker.pid(), "STOP");
    signal(place.guardian().unwrap(), "KILL");
    wait_until("the guardian is gone", LONG, || place.guardian().is_none());
    let directory = place.path.join("runs").join(run(9));
    fs::create_dir(&directory).unwrap();
    let file = directory.join("journal");
    be_shut(&file);
    signal(worker.pid(), "CONT");
    wait_until("another guardian is started", LONG, || !guardians(worker).is_empty());
    file
}

/// Lets the next guardian come.
fn let_come(worker: &mut Worker, file: &Path) {
    fs::remove_file(file).unwrap();
    drop(file.parent().filter(|path| path.ends_with(run(9))).map(fs::remove_dir));
    worker.hear("that there is another guardian", |said| said.get("replaced").is_some());
}

/// The next guardian waits at `file`.
fn what_is_due_is_done_while_the_next_guardian_waits_at(
    runtime: Runtime,
    file: impl FnOnce(&Place) -> PathBuf,
) {
    let place = Place::with(runtime);
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
    let_come(&mut worker, &file);
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
fn what_is_due_is_done_while_the_next_guardian_starts(runtime: Runtime) {
    what_is_due_is_done_while_the_next_guardian_waits_at(runtime, |place| {
        let directory = place.path.join("runs").join(run(9));
        fs::create_dir(&directory).unwrap();
        directory.join("journal")
    });
}

/// It listens, and does not say what it holds.
fn what_is_due_is_done_while_the_next_guardian_does_not_answer(runtime: Runtime) {
    what_is_due_is_done_while_the_next_guardian_waits_at(runtime, |place| {
        place.path.join("guardian.log")
    });
}

/// The stop lies in the line to a guardian that never reads it, and without a grace no KILL follows.
fn a_stop_that_its_guardian_never_heard_is_asked_of_the_next(runtime: Runtime) {
    for isolation in runtime.isolations() {
        let place = Place::with(runtime);
        let mut worker = Worker::start_with(&place, isolation);
        let program = "trap 'echo heard; exit 7' TERM; echo up; while :; do sleep 0.02; done";
        let patient = json!({ "signals": { "grace": null } });
        worker.start_run(&place, 1, &["sh", "-c", program], patient);
        wait_until("it is up", LONG, || place.output(&run(1), "stdout").contains("up"));
        let guardian = place.guardian().unwrap();
        signal(guardian, "STOP");
        worker.tell(&json!({ "stop": { "run": run(1) } }));
        let asked = place.path.join("runs").join(run(1)).join("asked.json");
        wait_until("it is asked for", LONG, || asked.exists());
        signal(guardian, "KILL");
        let end = worker.end(1);
        let expected = (&json!("Request"), &json!("Code(7)"));
        if *isolation == "tree" {
            assert_eq!(end["completed"], "Request");
        } else {
            assert_eq!((&end["completed"], &end["exit"]), expected, "{isolation}");
        }
        assert_eq!(place.output(&run(1), "stdout"), "up\nheard\n", "{isolation}");
        worker.end_by("TERM");
        assert_gone(&place, isolation);
    }
}

/// One bad answer would end it, and so would none.
fn nobody_answers_for_a_guardian_that_is_not_there(runtime: Runtime) {
    let place = Place::with(runtime);
    let mut worker = Worker::start(&place);
    let asked = place.path.join("asked");
    let monitor = json!({
        "probe": { "command": ["sh", "-c", format!("echo x >> {}; sleep 0.1", asked.display())] },
        "starting_every": "20ms", "healthy_every": "20ms", "timeout": "2s", "failures_max": 1,
        "start_timeout": "20s",
    });
    worker.start_run(&place, 1, &["sleep", "1000"], json!({ "monitor": monitor }));
    worker.wait_for_state(1, "Running");
    let file = hold_up_the_next_guardian(&place, &worker);
    // Longer than any probe may take.
    std::thread::sleep(Duration::from_secs(3)); // why: nothing is to happen
    let count = || fs::read_to_string(&asked).unwrap_or_default().len();
    let before = count();
    let_come(&mut worker, &file);
    wait_until("it is asked on", LONG, || count() > before + 4);
    worker.tell(&json!({ "kill": { "run": run(1) } }));
    assert_eq!(worker.end(1)["completed"], "Request");
    worker.end_by("TERM");
}

/// Ctrl-Z stops the worker next, and nobody is left who could tell a guardian.
fn ctrl_z_freezes_what_has_no_guardian_and_the_last_order_holds_under_the_next(runtime: Runtime) {
    for isolation in runtime.isolations() {
        let place = Place::with(runtime);
        let mut worker = Worker::start_with(&place, isolation);
        let beats = place.path.join("beats");
        let program = format!("while :; do echo x >> {}; sleep 0.02; done", beats.display());
        worker.start_run(&place, 1, &["sh", "-c", &program], json!({}));
        worker.wait_for_state(1, "Running");
        let count = || fs::read_to_string(&beats).unwrap_or_default().len();
        let stands_still = |what: &str| {
            let mut last = count();
            wait_until(what, LONG, || {
                std::thread::sleep(Duration::from_millis(200)); // why: nothing is to happen
                std::mem::replace(&mut last, count()) == last
            });
        };
        let goes_on = |what: &str| {
            let before = count();
            wait_until(what, LONG, || count() > before + 4);
        };
        goes_on("it beats");
        let file = hold_up_the_next_guardian(&place, &worker);
        signal(worker.pid(), "TSTP");
        stands_still("it is frozen though it has no guardian");
        signal(worker.pid(), "CONT");
        goes_on("it is thawed though it has no guardian");
        worker.tell(&json!({ "freeze": { "is_frozen": false } }));
        worker.tell(&json!({ "freeze": { "is_frozen": true } }));
        stands_still("the last order holds");
        let_come(&mut worker, &file);
        worker.tell(&json!({ "ping": { "number": 7 } }));
        worker.hear("that the guardian is well", |said| said["pong"] == 7);
        let frozen = count();
        stands_still("the last order holds under the next guardian");
        assert_eq!(count(), frozen, "{isolation}: it was thawed for a while");
        worker.tell(&json!({ "freeze": { "is_frozen": false } }));
        goes_on("the next guardian thaws it");
        worker.end_by("TERM");
        assert_gone(&place, isolation);
    }
}

/// A guardian that is killed before it has read the order.
fn what_froze_or_thawed_a_run_is_told_to_the_next_guardian(runtime: Runtime) {
    for (isolation, is_frozen) in
        runtime.isolations().iter().flat_map(|one| [(*one, false), (*one, true)])
    {
        let place = Place::with(runtime);
        let mut worker = Worker::start_with(&place, isolation);
        let beats = place.path.join("beats");
        let program = format!("while :; do echo x >> {}; sleep 0.02; done", beats.display());
        worker.start_run(&place, 1, &["sh", "-c", &program], json!({}));
        worker.wait_for_state(1, "Running");
        let count = || fs::read_to_string(&beats).unwrap_or_default().len();
        wait_until("it beats", LONG, || count() > 4);
        worker.tell(&json!({ "freeze": { "is_frozen": !is_frozen } }));
        worker.tell(&json!({ "ping": { "number": 1 } }));
        worker.hear("that the guardian has heard", |said| said["pong"] == 1);
        let guardian = place.guardian().unwrap();
        signal(guardian, "STOP");
        worker.tell(&json!({ "freeze": { "is_frozen": is_frozen } }));
        // It is answered by the worker alone, and after that.
        worker.tell(&json!({ "tail": { "run": run(1), "lines": 1 } }));
        worker.hear("that it has heard", |said| said.get("tail").is_some());
        signal(guardian, "KILL");
        worker.hear("that there is another guardian", |said| said.get("replaced").is_some());
        worker.tell(&json!({ "ping": { "number": 2 } }));
        worker.hear("that the guardian has heard", |said| said["pong"] == 2);
        let before = count();
        if is_frozen {
            std::thread::sleep(Duration::from_millis(300)); // why: nothing is to happen
            assert_eq!(count(), before, "{isolation}: it is not frozen");
        } else {
            wait_until("it goes on", LONG, || count() > before + 4);
        }
        worker.end_by("TERM");
        assert_gone(&place, isolation);
    }
}

/// Kills the guardian, and stops its worker as soon as that has started the next one: so that it does
/// not say a word to it.
fn stop_before_the_next_guardian_is_greeted(place: &Place, worker: &Worker) -> i32 {
    let tasks = format!("/proc/{}/task", worker.pid());
    let children = || -> Vec<i32> {
        let tasks = fs::read_dir(&tasks).unwrap().flatten();
        let lists = tasks.filter_map(|task| fs::read_to_string(task.path().join("children")).ok());
        lists
            .flat_map(|list| list.split(' ').filter_map(|pid| pid.parse().ok()).collect::<Vec<_>>())
            .collect()
    };
    let before = place.guardian().unwrap();
    signal(before, "KILL");
    let begun = instant();
    loop {
        assert!(begun.elapsed() < LONG, "there is no other guardian");
        if let Some(next) = children().into_iter().find(|pid| *pid != before) {
            // At once: a program that sends it would take longer than a guardian takes to begin.
            let worker = Pid::from_raw(worker.pid()).unwrap();
            kill_process(worker, Signal::STOP).unwrap();
            return next;
        }
    }
}

/// Its worker has started it, and is killed before it could say a word to it.
fn a_guardian_that_is_alone_from_the_first_ends_what_it_finds_within_the_kill_wait(
    runtime: Runtime,
) {
    for isolation in runtime.isolations() {
        let place = Place::with(runtime);
        let mut worker = Worker::start_with(&place, isolation);
        let program = "trap '' TERM; setsid sleep 1000 & while :; do sleep 0.02; done";
        worker.start_run(&place, 1, &["sh", "-c", program], json!({}));
        worker.wait_for_state(1, "Running");
        wait_until("all of it is there", LONG, || place.marked().len() >= 2);
        let next = stop_before_the_next_guardian_is_greeted(&place, &worker);
        assert!(place.marked().len() >= 2, "{isolation}: nothing of it has ended by itself");
        worker.kill();
        assert_gone(&place, isolation);
        wait_until("the guardian has gone", LONG, || !is_alive(next));
        let mut next = Worker::start_with(&place, isolation);
        assert_eq!(next.end(1)["completed"], "WorkerExit", "{isolation}");
        next.end_by("TERM");
    }
}

/// As by Ctrl-Z: it comes when it goes on.
#[test]
fn a_worker_that_stands_still_is_waited_for_by_the_guardian_that_it_has_started() {
    let place = Place::new();
    let mut worker = Worker::start(&place);
    worker.start_run(&place, 1, &["sleep", "1000"], json!({}));
    worker.wait_for_state(1, "Running");
    stop_before_the_next_guardian_is_greeted(&place, &worker);
    wait_until("the next guardian is there", LONG, || place.guardian().is_some());
    std::thread::sleep(Duration::from_secs(12)); // why: longer than a guardian waits for others
    assert_eq!(of(&place, 1).len(), 1, "what runs goes on");
    signal(worker.pid(), "CONT");
    worker.hear("that there is another guardian", |said| said.get("replaced").is_some());
    assert_eq!(of(&place, 1).len(), 1, "what runs goes on");
    worker.end_by("TERM");
    assert_gone(&place, "after the end");
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

for_each_runtime!(
    what_is_due_is_done_while_the_next_guardian_starts,
    what_is_due_is_done_while_the_next_guardian_does_not_answer,
    a_stop_that_its_guardian_never_heard_is_asked_of_the_next,
    a_guardian_that_is_alone_from_the_first_ends_what_it_finds_within_the_kill_wait,
    nobody_answers_for_a_guardian_that_is_not_there,
    ctrl_z_freezes_what_has_no_guardian_and_the_last_order_holds_under_the_next,
    what_froze_or_thawed_a_run_is_told_to_the_next_guardian,
);
