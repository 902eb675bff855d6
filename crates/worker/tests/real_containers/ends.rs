//! How runs end, and what is told of each.

use serde_json::json;

use crate::worker::{LONG, Place, Runtime, Worker, run, wait_until};

fn every_end_is_told_apart(runtime: Runtime) {
    let place = Place::with(runtime);
    let mut worker = Worker::start(&place);
    let cases = [
        (1, "exit 0", json!({}), ("Exited", json!("Code(0)"))),
        (2, "exit 3", json!({}), ("Exited", json!("Code(3)"))),
        (3, "kill -9 $$", json!({}), ("Exited", json!("Signal(9)"))),
        (4, "sleep 1000", json!({ "timeout": "1500ms" }), ("Timeout", json!("Signal(15)"))),
        (5, "sleep 1000", json!({ "stop_after": "2s" }), ("Deadline", json!("Signal(15)"))),
        (
            6,
            "true",
            json!({ "setup": [["true"], ["false"]] }),
            ("SetupFailed(1)", json!("Code(1)")),
        ),
    ];
    for (number, program, more, _) in &cases {
        worker.start_run(&place, *number, &["sh", "-c", program], more.clone());
    }
    for (number, program, _, (cause, exit)) in cases {
        let end = worker.end(number);
        assert_eq!((&end["completed"], &end["exit"]), (&json!(cause), &exit), "{program}");
    }
    worker.end_by("TERM");
}

fn setup_steps_come_first_in_the_same_place(runtime: Runtime) {
    let place = Place::with(runtime);
    let mut worker = Worker::start(&place);
    worker.start_run(
        &place,
        1,
        &["sh", "-c", "cat file; pwd; ls -A"],
        json!({
            "setup": [["sh", "-c", "echo one > file"], ["sh", "-c", "echo two >> file; echo said"]],
        }),
    );
    assert_eq!(worker.end(1)["exit"], "Code(0)");
    let expected = format!("said\none\ntwo\n{}\nfile\n", place.work(&run(1)).display());
    assert_eq!(place.output(&run(1), "stdout"), expected);
    worker.tell(&json!({ "acknowledge": { "run": run(1) } }));
    let directory = place.path.join("runs").join(run(1));
    wait_until("its directory is gone", LONG, || !directory.exists());
    worker.end_by("TERM");
}

fn scenario_32_a_batch_run_gets_its_arguments_and_reports_its_status(runtime: Runtime) {
    let place = Place::with(runtime);
    let mut worker = Worker::start(&place);
    let program = "echo \"$1|$3|$STERNA_NODE\"; echo incomplete > $2; echo done > $2";
    worker.start_run(
        &place,
        1,
        &["sh", "-c", program, "sh"],
        json!({
            "node": { "name": "db 7", "json": "{\"id\":\"reindex\"}" },
        }),
    );
    let end = worker.end(1);
    assert_eq!((&end["status"], &end["exit"]), (&json!("done"), &json!("Code(0)")));
    assert_eq!(place.output(&run(1), "stdout"), "db 7|{\"id\":\"reindex\"}|db 7\n");
    // Nothing said is nothing known.
    worker.start_run(&place, 2, &["true"], json!({ "node": { "name": "n", "json": "{}" } }));
    assert_eq!(worker.end(2)["status"], json!(null));
    if runtime == Runtime::Process {
        // Another user may open the pipe, too.
        let work = json!({ "user": "nobody", "node": { "name": "n", "json": "{}" } });
        worker.start_run(&place, 3, &["sh", "-c", program, "sh"], work);
        let end = worker.end(3);
        assert_eq!((&end["status"], &end["exit"]), (&json!("done"), &json!("Code(0)")));
    }
    worker.end_by("TERM");
}

fn a_run_knows_who_it_is_and_inherits_nothing(runtime: Runtime) {
    let place = Place::with(runtime);
    let mut worker = Worker::start(&place);
    worker.start_run(&place, 1, &["sh", "-c", "env | sort; echo fds; ls /proc/self/fd; grep NoNewPrivs /proc/self/status; id -u; ulimit -n; echo port ${PORT_WEB_API} $1", "sh", "${PORT_WEB_API}"], json!({
        "about": { "key": "default/task/build", "fence": "1.2.3", "worker": "w1", "attempt": 2, "index": 4, "previous_status": "lost" },
        "user": "nobody",
        "rlimits": { "nofile": 64 },
        "ports": ["web-api"],
    }));
    assert_eq!(worker.end(1)["exit"], "Code(0)");
    let said = place.output(&run(1), "stdout");
    for line in [
        "STERNA_KEY=default/task/build",
        "STERNA_FENCE=1.2.3",
        "STERNA_RESULT=/",
        "STERNA_WORKER=w1",
        "STERNA_ATTEMPT=2",
        "STERNA_INSTANCE_INDEX=4",
        "STERNA_PREVIOUS_STATUS=lost",
        &format!("STERNA_RUN={}", run(1)),
        &format!("STERNA_DIRECTORY={}", place.work(&run(1)).display()),
        "fds\n0\n1\n2\n3\n",
        "NoNewPrivs:\t1",
        "65534",
        "64",
    ] {
        assert!(said.contains(line), "{line:?} is not in {said}");
    }
    let port = said.lines().find_map(|line| line.strip_prefix("PORT_WEB_API=")).unwrap();
    assert!((20_000..30_000).contains(&port.parse::<u16>().unwrap()), "{port}");
    assert!(said.ends_with(&format!("port {port} {port}\n")), "{said}");
    assert!(!said.contains("CARGO"), "the worker's own environment is nobody's: {said}");
    worker.end_by("TERM");
}

fn what_a_run_leaves_as_its_result_is_told_with_its_end(runtime: Runtime) {
    let place = Place::with(runtime);
    let mut worker = Worker::start(&place);
    let said = |end: &serde_json::Value| {
        let text = end["result"]["text"].as_str().map(|text| (text.len(), text.to_owned()));
        (text, end["result"]["is_cut"].clone())
    };
    worker.start_run(&place, 1, &["sh", "-c", "echo 42 >$STERNA_RESULT; exit 3"], json!({}));
    let end = worker.end(1);
    assert_eq!(end["exit"], "Code(3)", "it is kept however the run ended");
    assert_eq!(said(&end), (Some((3, "42\n".to_owned())), json!(false)));
    let large = "head -c 60000 /dev/zero | tr '\\0' x >$STERNA_RESULT";
    // Whatever directory it begins in, its result is its own; and another user may write it.
    let elsewhere = json!({ "directory": "/tmp", "user": "nobody" });
    worker.start_run(&place, 2, &["sh", "-c", large], elsewhere);
    let (text, is_cut) = said(&worker.end(2));
    assert_eq!((text.unwrap().0, is_cut), (50 * 1024, json!(true)));
    worker.start_run(&place, 3, &["sh", "-c", "ln -s /etc/passwd $STERNA_RESULT"], json!({}));
    assert_eq!(worker.end(3)["result"], json!(null), "a link is no result");
    worker.start_run(&place, 4, &["true"], json!({}));
    assert_eq!(worker.end(4)["result"], json!(null));
    worker.end_by("TERM");
}

fn scenario_35_a_pipe_in_other_hands_does_not_hold_up_the_end_for_ever(runtime: Runtime) {
    // Somebody else on this machine got the pipe from the run, and keeps it.
    let place = Place::with(runtime);
    let mut worker = Worker::start(&place);
    let ours = place.path.join("pipe");
    worker.start_run(
        &place,
        1,
        &["sh", "-c", &format!("ln -s /proc/$$/fd/1 {}; echo up; sleep 1000", ours.display())],
        json!({}),
    );
    wait_until("it is up", LONG, || place.output(&run(1), "stdout").contains("up"));
    let _pipe = std::fs::OpenOptions::new().write(true).open(&ours).unwrap();
    worker.tell(&json!({ "kill": { "run": run(1) } }));
    assert_eq!(worker.end(1)["exit"], "Signal(9)");
    worker.end_by("TERM");
}

#[test]
fn an_end_that_cannot_be_kept_is_told_by_the_next_worker_all_the_same() {
    // With another run the guardian stays for that; without, it stays for the end.
    for has_other in [true, false] {
        let Some(place) = Place::small("2m") else { return };
        let mut worker = Worker::start(&place);
        let kept = json!({ "when_worker_exits": "keep" });
        let go = std::env::temp_dir().join(format!("sterna-go-{}", std::process::id()));
        let waits = format!("while [ ! -e {} ]; do sleep 0.02; done; exit 3", go.display());
        worker.start_run(&place, 1, &["sh", "-c", &waits], kept.clone());
        worker.wait_for_state(1, "Running");
        if has_other {
            worker.start_run(&place, 2, &["sleep", "1000"], kept);
            worker.wait_for_state(2, "Running");
        }
        let filler = place.path.join("filler");
        assert!(std::fs::write(&filler, vec![0; 4 << 20]).is_err(), "the disk is not full");
        std::fs::write(&go, "").unwrap();
        assert_eq!(worker.end(1)["exit"], "Code(3)");
        worker.kill();
        std::fs::remove_file(&go).unwrap();
        std::fs::remove_file(&filler).unwrap();
        let mut next = Worker::start(&place);
        assert_eq!(next.end(1)["exit"], "Code(3)", "with another: {has_other}");
        if has_other {
            next.tell(&json!({ "kill": { "run": run(2) } }));
            next.end(2);
        }
        next.end_by("TERM");
    }
}

#[test]
fn a_directory_serves_the_next_run_and_none_outlives_its_worker() {
    let place = Place::new();
    let mut worker = Worker::start(&place);
    let spares = || {
        let all = std::fs::read_dir(place.path.join("runs")).unwrap().flatten();
        all.filter(|entry| entry.file_name().to_string_lossy().starts_with(".spare-")).count()
    };
    for number in 1..=2 {
        worker.start_run(&place, number, &["sh", "-c", "ls -A; stat -c %i ."], json!({}));
        assert_eq!(worker.end(number)["exit"], "Code(0)");
        worker.tell(&json!({ "acknowledge": { "run": run(number) } }));
        wait_until("its directory is kept", LONG, || spares() == 1);
    }
    let first = place.output(&run(1), "stdout");
    assert_eq!(first.lines().count(), 1, "it is empty but for its number: {first}");
    assert_eq!(place.output(&run(2), "stdout"), first, "another run was given another one");
    worker.kill();
    assert_eq!(spares(), 1);
    let next = Worker::start(&place);
    wait_until("it is removed", LONG, || spares() == 0);
    next.end_by("TERM");
}

/// No file that the guardian writes may be longer than this.
fn bound_files(place: &Place, bytes: &str) {
    let guardian = place.guardian().unwrap().to_string();
    let limit = format!("--fsize={bytes}:");
    let bound = std::process::Command::new("prlimit").args(["--pid", &guardian, &limit]).status();
    assert!(bound.unwrap().success());
}

#[test]
fn a_guardian_stays_until_the_end_of_its_last_run_stands() {
    let place = Place::new();
    let mut worker = Worker::start(&place);
    let go = place.path.join("go");
    let waits = format!("while [ ! -e {} ]; do sleep 0.02; done; exit 3", go.display());
    let kept = json!({ "when_worker_exits": "keep" });
    worker.start_run(&place, 1, &["sh", "-c", &waits], kept);
    worker.wait_for_state(1, "Running");
    worker.kill();
    bound_files(&place, "16");
    std::fs::write(&go, "").unwrap();
    let proc = |pid: &i32| std::path::PathBuf::from(format!("/proc/{pid}"));
    let places: Vec<_> = place.marked().iter().map(proc).collect();
    wait_until("its end was taken", LONG, || places.iter().all(|place| !place.exists()));
    bound_files(&place, "unlimited");
    wait_until("the guardian has gone", LONG, || place.guardian().is_none());
    let mut next = Worker::start(&place);
    assert_eq!(next.end(1)["exit"], "Code(3)");
    next.end_by("TERM");
}

#[test]
fn an_end_that_could_not_be_kept_at_first_is_kept_when_there_is_room() {
    let Some(place) = Place::small("2m") else { return };
    let mut worker = Worker::start(&place);
    worker.start_run(&place, 1, &["sleep", "1000"], json!({}));
    worker.wait_for_state(1, "Running");
    let filler = place.path.join("filler");
    assert!(std::fs::write(&filler, vec![0; 4 << 20]).is_err(), "the disk is not full");
    worker.tell(&json!({ "kill": { "run": run(1) } }));
    worker.end(1);
    std::fs::remove_file(&filler).unwrap();
    let end = place.path.join("runs").join(run(1)).join("end.json");
    wait_until("its end stands", LONG, || std::fs::metadata(&end).is_ok_and(|it| it.len() > 0));
    worker.tell(&json!({ "acknowledge": { "run": run(1) } }));
    worker.end_by("TERM");
}

fn monitors_decide_when_it_is_up_and_when_it_has_failed(runtime: Runtime) {
    let place = Place::with(runtime);
    let mut worker = Worker::start(&place);
    // What this test does decides, and no time: on a busy machine one look takes seconds.
    let (asked, ready) = (place.path.join("asked"), place.path.join("ready"));
    let look = format!("echo x >> {}; test -e {}", asked.display(), ready.display());
    let monitor = json!({
        "probe": { "command": ["sh", "-c", look] }, "starting_every": "50ms",
        "healthy_every": "50ms", "timeout": "30s", "failures_max": 2, "start_timeout": null,
    });
    worker.start_run(&place, 1, &["sleep", "1000"], json!({ "monitor": monitor }));
    wait_until("it is asked", LONG, || asked.exists());
    std::fs::write(&ready, "").unwrap();
    worker.wait_for_state(1, "Running");
    std::fs::remove_file(&ready).unwrap();
    assert_eq!(worker.end(1)["completed"], "Monitor(Unhealthy)");
    let never = json!({
        "probe": { "tcp": "web" }, "starting_every": "50ms", "healthy_every": "50ms",
        "timeout": "1s", "failures_max": 2, "start_timeout": "300ms",
    });
    worker.start_run(&place, 2, &["sleep", "1000"], json!({ "ports": ["web"], "monitor": never }));
    assert_eq!(worker.end(2)["completed"], "Monitor(NeverHealthy)");
    worker.end_by("TERM");
}

for_each_runtime!(
    every_end_is_told_apart,
    setup_steps_come_first_in_the_same_place,
    scenario_32_a_batch_run_gets_its_arguments_and_reports_its_status,
    a_run_knows_who_it_is_and_inherits_nothing,
    what_a_run_leaves_as_its_result_is_told_with_its_end,
    scenario_35_a_pipe_in_other_hands_does_not_hold_up_the_end_for_ever,
    monitors_decide_when_it_is_up_and_when_it_has_failed,
);
