//! Commands that ask how a run is: they outlive no timeout, cost nothing for good, and end no run.

use std::{
    fs,
    io::Write,
    net::{Ipv4Addr, TcpListener},
    os::unix::fs::PermissionsExt,
    path::Path,
    time::Duration,
};

use serde_json::{Value, json};

use crate::worker::{LONG, Place, Runtime, Worker, instant, run, wait_until};

/// A monitor that asks often, by what a shell runs.
fn often(command: &str, timeout: &str) -> Value {
    json!({
        "probe": { "command": ["sh", "-c", command] }, "starting_every": "20ms",
        "healthy_every": "20ms", "timeout": timeout, "failures_max": 3, "start_timeout": null,
    })
}

fn lines(path: &Path) -> usize {
    fs::read_to_string(path).unwrap_or_default().lines().count()
}

fn wait_for_more(path: &Path, count: usize) {
    let before = lines(path);
    wait_until("it is asked on", LONG, || lines(path) >= before + count);
}

fn a_kept_run_that_is_asked_by_a_command_lives_on_under_the_next_worker(runtime: Runtime) {
    for isolation in runtime.isolations() {
        let place = Place::with(runtime);
        let asked = place.path.join("asked");
        let mut worker = Worker::start_with(&place, isolation);
        let monitor = often(&format!("echo x >> {}", asked.display()), "10s");
        let kept = json!({ "when_worker_exits": "keep", "monitor": monitor });
        worker.start_run(&place, 1, &["sleep", "1000"], kept);
        worker.wait_for_state(1, "Running");
        wait_for_more(&asked, 5);
        worker.kill();
        let mut next = Worker::start_with(&place, isolation);
        // More than would be taken for too many bad answers.
        wait_for_more(&asked, 8);
        next.tell(&json!({ "kill": { "run": run(1) } }));
        assert_eq!(next.end(1)["completed"], "Request", "{isolation}");
        next.end_by("TERM");
    }
}

#[test]
fn probes_leave_nothing_with_the_guardian() {
    for isolation in Runtime::Process.isolations() {
        let place = Place::new();
        let asked = place.path.join("asked");
        let mut worker = Worker::start_with(&place, isolation);
        let command = format!("echo x >> {}; echo secret >&2", asked.display());
        worker.start_run(
            &place,
            1,
            &["sleep", "1000"],
            json!({ "monitor": often(&command, "10s") }),
        );
        worker.wait_for_state(1, "Running");
        let fds = format!("/proc/{}/fd", place.guardian().unwrap());
        let journal = place.path.join("runs").join(run(1)).join("journal");
        let held = || fs::read_dir(&fds).unwrap().count();
        wait_for_more(&asked, 5);
        let before = held();
        wait_for_more(&asked, 100);
        assert!(held() <= before + 5, "{isolation}: {before} descriptors became {}", held());
        let length = fs::metadata(journal).unwrap().len();
        assert!(length < 6_000, "{isolation}: the journal has {length} bytes");
        let log = fs::metadata(place.path.join("guardian.log")).unwrap();
        assert_eq!((log.len(), log.permissions().mode() & 0o777), (0, 0o600), "{isolation}");
        worker.end_by("TERM");
    }
}

fn a_probe_that_hangs_is_killed(runtime: Runtime) {
    for isolation in runtime.isolations() {
        let place = Place::with(runtime);
        let asked = place.path.join("asked");
        let mut worker = Worker::start_with(&place, isolation);
        let hangs =
            often(&format!("echo x >> {}; sleep 1000 & sleep 1000", asked.display()), "300ms");
        worker.start_run(&place, 1, &["sleep", "1000"], json!({ "readiness": hangs }));
        worker.wait_for_state(1, "Running");
        wait_for_more(&asked, 8);
        // The work, and what one probe or two consist of; a runtime may be one more for each.
        let left = place.marked().len();
        assert!(left <= 9, "{isolation}: {left} processes are there");
        worker.tell(&json!({ "kill": { "run": run(1) } }));
        assert_eq!(worker.end(1)["completed"], "Request", "{isolation}");
        worker.end_by("TERM");
    }
}

/// Gives a byte now and then to everybody who asks at this port, and never a line.
fn drip(port: u16) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).unwrap();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            std::thread::spawn(move || {
                while stream.write_all(b"x").is_ok() {
                    std::thread::sleep(Duration::from_millis(100)); // why: it is to be slow
                }
            });
        }
    });
}

#[test]
fn who_answers_a_byte_at_a_time_does_not_answer_in_time() {
    let place = Place::new();
    let mut worker = Worker::start(&place);
    let mut readiness = often("", "300ms");
    readiness["probe"] = json!({ "http": ["web", "/"] });
    let more = json!({ "ports": ["web"], "readiness": readiness });
    worker.start_run(&place, 1, &["sh", "-c", "echo $PORT_WEB; exec sleep 1000"], more);
    wait_until("it is up", LONG, || !place.output(&run(1), "stdout").is_empty());
    drip(place.output(&run(1), "stdout").trim().parse().unwrap());
    let threads = || fs::read_dir(format!("/proc/{}/task", worker.pid())).unwrap().count();
    let (begun, mut most) = (instant(), 0);
    while begun.elapsed() < Duration::from_secs(4) {
        most = most.max(threads());
        std::thread::sleep(Duration::from_millis(20)); // why: threads that are few tell nobody
    }
    assert!(most <= 10, "the worker has {most} threads");
    worker.tell(&json!({ "kill": { "run": run(1) } }));
    worker.end(1);
    worker.end_by("TERM");
}

for_each_runtime!(
    a_kept_run_that_is_asked_by_a_command_lives_on_under_the_next_worker,
    a_probe_that_hangs_is_killed,
);
