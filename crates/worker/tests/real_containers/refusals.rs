//! Work that cannot be: each ends with a reason that names it, and nothing stays reserved.

use serde_json::{Value, json};

use crate::{
    images::groups_of_runs,
    worker::{LONG, Place, Worker, run, wait_until},
};

/// The first of two ports that nobody else has: others may play this on the same machine.
fn first_port(test: u32) -> u32 {
    29_000 + std::process::id() % 250 * 4 + test * 2
}

#[test]
fn what_cannot_be_started_says_why_and_leaves_nothing() {
    let place = Place::new();
    // Two ports are all that there are, and each of them wants both: who kept one would be seen.
    let first = first_port(0);
    let mut worker = Worker::start_so(&place, "cgroup2", &[&first.to_string()]);
    let not_executable = place.path.join("plain-file");
    std::fs::write(&not_executable, "echo no").unwrap();
    let no_interpreter = place.path.join("script");
    std::fs::write(&no_interpreter, "#!/no/such/shell\n").unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&no_interpreter, mode).unwrap();
    let not_executable = not_executable.to_str().unwrap();
    let no_interpreter = no_interpreter.to_str().unwrap();
    let cases: Vec<(&[&str], Value, &str)> = vec![
        (&["no-such-command"], json!({}), "command not found: no 'no-such-command' in"),
        (&["/no/such/command"], json!({}), "command not found: /no/such/command does not exist"),
        (std::slice::from_ref(&not_executable), json!({}), "not executable: "),
        (std::slice::from_ref(&no_interpreter), json!({}), "cannot run the command: No such file"),
        (
            &["true"],
            json!({ "directory": "/no/such/place" }),
            "the work directory /no/such/place is missing",
        ),
        (&["true"], json!({ "user": "no-such-user" }), "user unknown: no 'no-such-user'"),
        (&["true"], json!({ "group": "no-such-group" }), "group unknown: no 'no-such-group'"),
        (&["true"], json!({ "limits": { "memory": "1KiB" } }), "cannot limit memory to 1KiB"),
        (&["true"], json!({ "limits": { "cpu": "1m" } }), "cannot limit cpu to 0.001: the least"),
        (&["true"], json!({ "limits": { "pids": 0 } }), "cannot limit pids to 0"),
        (&["true"], json!({ "rlimits": { "speed": 1 } }), "no resource limit is called 'speed'"),
        (&[], json!({}), "the command is empty"),
        (&["true"], json!({ "env": { "A=B": "c" } }), "the name 'A=B'"),
        (&["true"], json!({ "ports": ["http", "http"] }), "both become PORT_HTTP"),
        (
            &["true"],
            json!({ "limits": { "cpu": "99999999999" } }),
            "no machine has so many processors",
        ),
        (
            &["true"],
            json!({ "rlimits": { "nofile": 99_999_999_999_u64 } }),
            "ask in rlimits for no more",
        ),
        (&["true"], json!({ "user": "nobody", "directory": "/root" }), "let its user enter it"),
        (&["true"], json!({ "setup": [["no-such-setup"]] }), "no 'no-such-setup'"),
    ];
    for (number, (command, more, reason)) in (1..).zip(&cases) {
        let mut more = more.clone();
        if more["ports"].is_null() {
            more["ports"] = json!(["a", "b"]);
        }
        worker.start_run(&place, number, command, more.clone());
        let end = worker.end(number);
        let cause = end["completed"].as_str().unwrap();
        let is_named = cause.starts_with("FailedToStart") && cause.contains(reason);
        assert!(is_named, "{command:?} {more}: {reason:?} is not in {cause}");
        worker.tell(&json!({ "acknowledge": { "run": run(number) } }));
    }
    wait_until("nothing of them is left", LONG, || {
        place.runs() == 0 && groups_of_runs(&place) == 0
    });
    worker.start_run(&place, 100, &["true"], json!({ "ports": ["a", "b"] }));
    assert_eq!(worker.end(100)["exit"], "Code(0)");
    worker.end_by("TERM");
}

#[test]
fn an_environment_that_cannot_be_given_is_refused() {
    let place = Place::new();
    let mut worker = Worker::start(&place);
    worker.start_run(&place, 1, &["echo", "zero\0byte"], json!({}));
    assert!(worker.end(1)["completed"].as_str().unwrap().contains("zero byte"));
    worker.end_by("TERM");
}

#[test]
fn what_is_too_long_for_a_command_is_refused_by_name_and_nothing_hangs() {
    let place = Place::new();
    let mut worker = Worker::start(&place);
    let long = |length: usize| "x".repeat(length);
    worker.start_run(&place, 1, &["true"], json!({ "env": { "LONG": long(9 << 20) } }));
    worker.start_run(&place, 2, &["echo", &long(9 << 20)], json!({}));
    worker.start_run(&place, 3, &["echo", &long(200 << 10)], json!({}));
    let zero = format!("\0{}", long(200 << 10));
    worker.start_run(&place, 4, &["echo", &zero], json!({}));
    for (number, reason) in [
        (1, "the environment's LONG has 9.0 MiB"),
        (2, "word 1 of the command has 9.0 MiB"),
        (3, "put what is long into a file"),
        (4, "has a zero byte in it"),
    ] {
        let end = worker.end(number);
        let cause = end["completed"].as_str().unwrap();
        assert!(
            cause.contains(reason) && cause.len() < 1_000,
            "{reason:?} is not in {cause:.1000}"
        );
    }
    worker.start_run(&place, 5, &["true"], json!({}));
    assert_eq!(worker.end(5)["exit"], "Code(0)");
    worker.end_by("TERM");
}

#[test]
fn a_run_for_which_no_port_is_free_says_so_and_takes_none() {
    let place = Place::new();
    let first = first_port(1);
    let two = |place: &Place| Worker::start_so(place, "cgroup2", &[&first.to_string()]);
    let mut worker = two(&place);
    let ports = |names: &[&str]| json!({ "ports": names, "when_worker_exits": "keep" });
    let is_refused = |end: &Value| {
        let cause = end["completed"].as_str().unwrap().to_owned();
        let reason = format!("all of {first}-{} are in use", first + 1);
        cause.starts_with("FailedToStart(\"no port is free") && cause.contains(&reason)
    };
    let end = {
        worker.start_run(&place, 1, &["true"], ports(&["a", "b", "c"]));
        worker.end(1)
    };
    assert!(is_refused(&end), "{end}");
    // None of the two that it might have had is kept.
    worker.start_run(&place, 2, &["sleep", "1000"], ports(&["a", "b"]));
    worker.wait_for_state(2, "Running");
    // Another worker of this machine has no more of them, whether their own one lives or not.
    let other = Place::new();
    let mut another = two(&other);
    another.start_run(&other, 1, &["true"], ports(&["a"]));
    let end = another.end(1);
    assert!(is_refused(&end), "{end}");
    worker.kill();
    another.start_run(&other, 2, &["true"], ports(&["a"]));
    let end = another.end(2);
    assert!(is_refused(&end), "its guardian keeps them: {end}");
    let mut next = two(&place);
    next.tell(&json!({ "kill": { "run": run(2) } }));
    next.end(2);
    wait_until("they are free", LONG, || {
        let number = 3 + u32::try_from(other.runs()).unwrap();
        another.start_run(&other, number, &["true"], ports(&["a"]));
        another.end(number)["exit"] == "Code(0)"
    });
    next.end_by("TERM");
    another.end_by("TERM");
}

#[test]
fn a_run_id_is_used_once() {
    let place = Place::new();
    let mut worker = Worker::start(&place);
    worker.start_run(&place, 1, &["sh", "-c", "echo once"], json!({}));
    worker.start_run(&place, 1, &["sh", "-c", "echo twice"], json!({}));
    worker.end(1);
    worker.start_run(&place, 1, &["sh", "-c", "echo thrice"], json!({}));
    worker.start_run(&place, 2, &["true"], json!({}));
    worker.end(2);
    assert_eq!(place.output(&run(1), "stdout"), "once\n");
    worker.end_by("TERM");
}
