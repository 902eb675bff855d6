//! The choices about signals: (a) at the parent's death, (b) process groups, (c) what a stop is,
//! (d) to whom it goes, (e) what the worker's end means; and a terminal's Ctrl-C and Ctrl-Z.

use std::fs;

use serde_json::json;

use crate::worker::{LONG, Place, Runtime, Worker, is_alive, run, signal, wait_until};

/// A command that says who got a TERM: itself, a child in its group, a child in a session of its own.
const WHO: &str = "trap 'echo main; exit 0' TERM
    sh -c 'trap \"echo child; exit 0\" TERM; echo up; while :; do sleep 0.05; done' &
    setsid sh -c 'trap \"echo far; exit 0\" TERM; echo up; while :; do sleep 0.05; done' &
    while :; do sleep 0.05; done";

fn who_is_told(runtime: Runtime, to: &str) -> Vec<String> {
    let place = Place::with(runtime);
    let mut worker = Worker::start(&place);
    // The main one waits until the others have spoken, or it would take them with it.
    let program = WHO.replace("echo main; exit 0", "echo main; sleep 0.5; exit 0");
    worker.start_run(&place, 1, &["sh", "-c", &program], json!({ "signals": { "to": to } }));
    wait_until("both are up", LONG, || place.output(&run(1), "stdout").matches("up").count() == 2);
    worker.tell(&json!({ "stop": { "run": run(1) } }));
    worker.end(1);
    let said = place.output(&run(1), "stdout");
    let mut told: Vec<String> =
        said.lines().filter(|line| *line != "up").map(str::to_owned).collect();
    told.sort();
    worker.end_by("TERM");
    told
}

fn d_a_stop_goes_to_whom_the_workload_says(runtime: Runtime) {
    assert_eq!(who_is_told(runtime, "process"), ["main"]);
    assert_eq!(who_is_told(runtime, "group"), ["child", "main"]);
    assert_eq!(who_is_told(runtime, "all"), ["child", "far", "main"]);
}

fn c_term_wait_kill(runtime: Runtime) {
    let place = Place::with(runtime);
    let mut worker = Worker::start(&place);
    let stubborn = ["sh", "-c", "trap 'echo heard' TERM; echo up; while :; do sleep 0.05; done"];
    for (number, grace) in [(1, json!("300ms")), (2, json!("0s"))] {
        worker.start_run(&place, number, &stubborn, json!({ "signals": { "grace": grace } }));
        wait_until("it is up", LONG, || place.output(&run(number), "stdout").contains("up"));
        worker.tell(&json!({ "stop": { "run": run(number) } }));
        assert_eq!(worker.end(number)["exit"], "Signal(9)");
    }
    assert!(place.output(&run(1), "stdout").contains("heard"));
    assert!(!place.output(&run(2), "stdout").contains("heard"), "no time at all is KILL at once");
    // Without a grace, TERM alone; a kill is still a kill.
    worker.start_run(&place, 3, &stubborn, json!({ "signals": { "grace": null } }));
    wait_until("it is up", LONG, || place.output(&run(3), "stdout").contains("up"));
    worker.tell(&json!({ "stop": { "run": run(3) } }));
    wait_until("it has heard", LONG, || place.output(&run(3), "stdout").contains("heard"));
    worker.tell(&json!({ "kill": { "run": run(3) } }));
    assert_eq!(worker.end(3)["exit"], "Signal(9)");
    // Another signal than TERM.
    let polite = ["sh", "-c", "trap 'echo bye; exit 0' INT; echo up; while :; do sleep 0.05; done"];
    worker.start_run(&place, 4, &polite, json!({ "signals": { "stop": "INT" } }));
    wait_until("it is up", LONG, || place.output(&run(4), "stdout").contains("up"));
    worker.tell(&json!({ "stop": { "run": run(4) } }));
    let end = worker.end(4);
    assert_eq!((&end["completed"], &end["exit"]), (&json!("Request"), &json!("Code(0)")));
    worker.end_by("TERM");
}

#[test]
fn a_and_b_the_death_signal_and_the_group_are_as_asked() {
    let place = Place::new();
    let mut worker = Worker::start(&place);
    // The fifth field is the process group; a leader's is its own number.
    let show = [
        "sh",
        "-c",
        "set -- $(cat /proc/$$/stat); [ $5 = $$ ] && echo own || echo shared; sleep 1000",
    ];
    worker.start_run(&place, 1, &show, json!({}));
    worker.start_run(
        &place,
        2,
        &show,
        json!({ "signals": { "group": "shared", "death": "KILL" } }),
    );
    wait_until("both have said", LONG, || {
        !place.output(&run(1), "stdout").is_empty() && !place.output(&run(2), "stdout").is_empty()
    });
    assert_eq!(place.output(&run(1), "stdout"), "own\n");
    assert_eq!(place.output(&run(2), "stdout"), "shared\n");
    let before = place.guardian().unwrap();
    signal(before, "KILL");
    // The second dies with its parent; the first does not.
    assert_eq!(worker.end(2)["completed"], "Exited");
    wait_until("there is another guardian", LONG, || {
        place.guardian().is_some_and(|guardian| guardian != before)
    });
    assert!(!place.marked().is_empty());
    worker.end_by("TERM");
}

fn e_int_quit_and_hup_end_the_worker_as_term_does(runtime: Runtime) {
    for name in ["INT", "QUIT", "HUP"] {
        let place = Place::with(runtime);
        let mut worker = Worker::start(&place);
        let program = "trap 'echo bye; exit 0' TERM; echo up; while :; do sleep 0.05; done";
        worker.start_run(&place, 1, &["sh", "-c", program], json!({}));
        wait_until("it is up", LONG, || place.output(&run(1), "stdout").contains("up"));
        assert!(worker.end_by(name).success());
        assert_eq!(place.output(&run(1), "stdout"), "up\nbye\n", "{name}");
        assert!(place.marked().is_empty());
    }
}

fn ctrl_z_freezes_containers_and_the_foreground_thaws_them(runtime: Runtime) {
    for isolation in runtime.isolations() {
        let place = Place::with(runtime);
        let mut worker = Worker::start_with(&place, isolation);
        let program = "i=0; while :; do i=$((i+1)); echo $i > count; sleep 0.02; done";
        worker.start_run(&place, 1, &["sh", "-c", program], json!({}));
        let count = place.path.join("runs").join(run(1)).join("work/count");
        let read = || fs::read_to_string(&count).unwrap_or_default();
        wait_until("it counts", LONG, || !read().is_empty());
        signal(worker.pid(), "TSTP");
        let stat = format!("/proc/{}/stat", worker.pid());
        wait_until("the worker is stopped", LONG, || {
            fs::read_to_string(&stat).unwrap().contains(") T ")
        });
        let mut last = read();
        wait_until("it counts no more", LONG, || {
            std::thread::sleep(std::time::Duration::from_millis(100)); // why: nothing is to happen
            std::mem::replace(&mut last, read()) == last
        });
        signal(worker.pid(), "CONT");
        wait_until("it counts on", LONG, || read() != last);
        worker.end_by("TERM");
    }
}

fn scenario_34_a_trap_may_still_say_how_it_went(runtime: Runtime) {
    let place = Place::with(runtime);
    let mut worker = Worker::start(&place);
    let program = "trap 'echo done > $2; exit 0' TERM; echo up; while :; do sleep 0.05; done";
    worker.start_run(
        &place,
        1,
        &["sh", "-c", program, "sh"],
        json!({
            "node": { "name": "db7", "json": "{}" },
        }),
    );
    wait_until("it is up", LONG, || place.output(&run(1), "stdout").contains("up"));
    worker.tell(&json!({ "stop": { "run": run(1) } }));
    let end = worker.end(1);
    assert_eq!((&end["completed"], &end["status"]), (&json!("Request"), &json!("done")));
    worker.end_by("TERM");
}

fn a_frozen_run_is_still_held_to_its_deadline(runtime: Runtime) {
    for isolation in runtime.isolations() {
        let place = Place::with(runtime);
        let mut worker = Worker::start_with(&place, isolation);
        worker.start_run(&place, 1, &["sleep", "1000"], json!({ "stop_after": "1s" }));
        worker.wait_for_state(1, "Running");
        worker.tell(&json!({ "freeze": { "is_frozen": true } }));
        assert_eq!(worker.end(1)["completed"], "Deadline", "{isolation}");
        assert!(is_alive(worker.pid()));
        worker.end_by("TERM");
    }
}

for_each_runtime!(
    d_a_stop_goes_to_whom_the_workload_says,
    c_term_wait_kill,
    e_int_quit_and_hup_end_the_worker_as_term_does,
    ctrl_z_freezes_containers_and_the_foreground_thaws_them,
    scenario_34_a_trap_may_still_say_how_it_went,
    a_frozen_run_is_still_held_to_its_deadline,
);
