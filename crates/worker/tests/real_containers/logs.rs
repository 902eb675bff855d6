//! Logs of real processes: floods, workers that are killed, and who reads them.

use std::time::Duration;

use serde_json::{Value, json};

use crate::{
    limits::own_memory,
    worker::{LONG, Place, Runtime, Worker, instant, run, wait_until},
};

/// The numbered lines of an answer to `tail`.
fn tail(worker: &mut Worker, number: u32, lines: usize, what: &str) -> Vec<(u64, String)> {
    worker.tell(&json!({ "tail": { "run": run(number), "lines": lines } }));
    let said =
        worker.hear_next(what, |said| said["run"] == *run(number) && said["tail"].is_array());
    let entries = said["tail"].as_array().unwrap().clone();
    let line = |entry: &Value| Some((entry[0].as_u64()?, entry[1].as_str()?.to_owned()));
    entries.iter().filter_map(line).collect()
}

#[test]
fn a_gibibyte_of_lines_takes_no_memory_and_the_newest_are_read() {
    let place = Place::new();
    let mut worker = Worker::start(&place);
    worker.start_run(&place, 2, &["sh", "-c", "echo beside; sleep 1000"], json!({}));
    wait_until("it is up", LONG, || place.output(&run(2), "stdout").contains("beside"));
    let before = own_memory(worker.pid());
    let flood = "i=$(printf '%090d' 0); yes $i | head -c 1073741824; echo; echo last";
    let seen = std::thread::spawn({
        let pid = worker.pid();
        let is_over = place.path.join("over");
        move || {
            let mut most = 0;
            while !is_over.exists() {
                most = most.max(own_memory(pid));
                std::thread::sleep(Duration::from_millis(20)); // why: memory is sampled
            }
            most
        }
    });
    worker.start_run(&place, 1, &["sh", "-c", flood], json!({}));
    // While it lasts, its newest lines are read, and nobody else is held up.
    // 1 GiB in lines of 91 bytes, the last of them cut short.
    let whole = (1 << 30) / 91;
    let mut newest = Vec::new();
    wait_until("it floods", LONG, || {
        let number = tail(&mut worker, 1, 1, "a flood").first().map_or(0, |(number, _)| *number);
        newest.extend(
            (number > newest.last().map_or(100_000, |last| last + 100_000)).then_some(number),
        );
        newest.len() == 5
    });
    assert!(newest.iter().all(|number| *number < whole), "read when it was over: {newest:?}");
    worker.start_run(&place, 3, &["echo", "quick"], json!({}));
    assert_eq!(worker.end(3)["exit"], "Code(0)");
    worker.patience = 10 * LONG;
    assert_eq!(worker.end(1)["exit"], "Code(0)");
    std::fs::write(place.path.join("over"), "").unwrap();
    let grown = seen.join().unwrap().saturating_sub(before);
    assert!(grown < 64 * 1024, "the worker's memory grew by {grown} KiB");
    let lines = tail(&mut worker, 1, 4, "the end");
    // And what the worker says of it.
    let numbers: Vec<u64> = lines.iter().map(|(number, _)| *number).collect();
    let first = numbers[0];
    assert_eq!(numbers, [first, first + 1, first + 2, first + 3], "{lines:?}");
    // A writer that is held up in the middle of a line has that shown in two pieces, each with a number.
    assert!((whole + 1..whole + 100).contains(&first), "{lines:?}");
    assert_eq!(lines[2].1, "last");
    let kept: u64 = std::fs::read_dir(place.path.join("logs"))
        .unwrap()
        .flatten()
        .flat_map(|directory| std::fs::read_dir(directory.path()).unwrap().flatten())
        .map(|file| file.metadata().unwrap().len())
        .sum();
    assert!(kept < 70 << 20, "{kept} bytes are kept");
    eprintln!("the worker's memory grew by {grown} KiB");
    worker.end_by("TERM");
}

fn a_log_goes_on_under_the_next_worker_with_the_next_number(runtime: Runtime) {
    let place = Place::with(runtime);
    let mut worker = Worker::start(&place);
    let go = place.path.join("go");
    let program = format!(
        "i=0; while [ ! -e {} ]; do i=$((i+1)); echo line $i; sleep 0.01; done; echo over",
        go.display()
    );
    let kept = json!({ "when_worker_exits": "keep" });
    worker.start_run(&place, 1, &["sh", "-c", &program], kept);
    let count = || place.lines(&run(1)).len();
    for round in 1..=4 {
        let before = count();
        wait_until("it writes on", LONG, || count() > before + 5);
        worker.kill();
        worker = Worker::start(&place);
        worker.wait_for_state(1, "Running");
        assert_eq!(worker.life, round + 1);
    }
    std::fs::write(&go, "").unwrap();
    assert_eq!(worker.end(1)["exit"], "Code(0)");
    let lines = place.lines(&run(1));
    let numbers: Vec<u64> = lines.iter().map(|line| line.number).collect();
    assert_eq!(numbers, (1..=lines.len() as u64).collect::<Vec<_>>());
    // What was said of it is said again by each worker; what it wrote stands there once, and whole
    // but for what a worker had in its hands when it was killed.
    let text = place.output(&run(1), "stdout");
    let written: Vec<u64> =
        text.lines().filter_map(|line| line.strip_prefix("line ")?.parse().ok()).collect();
    assert!(written.is_sorted_by(|one, other| one < other), "{written:?}");
    let missing = written.last().unwrap() - written.len() as u64;
    assert!(missing <= 4, "{missing} lines are missing after four kills");
    assert!(text.ends_with("over\n"), "{text}");
    worker.end_by("TERM");
}

fn a_run_may_wait_or_lose_lines_when_it_writes_too_fast(runtime: Runtime) {
    let place = Place::with(runtime);
    let mut worker = Worker::start(&place);
    let logs = |when_over: &str| json!({ "logs": { "rate": "20kB", "when_over": when_over } });
    let begun = instant();
    let waits = "yes one of many | head -n 16000";
    worker.start_run(&place, 1, &["sh", "-c", waits], logs("wait"));
    let loses = "yes one of many | head -n 999999; echo the last";
    worker.start_run(&place, 2, &["sh", "-c", loses], logs("drop"));
    assert_eq!(worker.end(1)["exit"], "Code(0)");
    assert!(
        begun.elapsed() > Duration::from_secs(1),
        "192 kB at 20 kB a second: 20 kB and a read at once, 64 kB in the pipe"
    );
    assert_eq!(worker.end(2)["exit"], "Code(0)");
    assert_eq!(place.output(&run(1), "stdout").lines().count(), 16_000);
    let kept = place.output(&run(2), "stdout");
    let count = kept.lines().count() as u64;
    assert!(count < 500_000 && kept.ends_with("the last\n"), "{count} lines are kept");
    let told = place.output(&run(2), "events");
    let dropped: u64 = told
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .filter(|event| event["event"] == "dropped")
        .map(|event| event["lines"].as_u64().unwrap())
        .sum();
    assert_eq!(dropped + count, 1_000_000, "{told}");
    worker.end_by("TERM");
}

fn what_was_said_of_a_run_is_kept_though_it_wrote_nothing(runtime: Runtime) {
    let place = Place::with(runtime);
    let mut worker = Worker::start(&place);
    worker.start_run(&place, 1, &["true"], json!({}));
    worker.start_run(&place, 2, &["/no/such/command"], json!({}));
    // Of this one nothing was ever made.
    worker.start_run(&place, 3, &["true"], json!({ "rlimits": { "nonsense": 1 } }));
    for number in [1, 2, 3] {
        worker.end(number);
        worker.tell(&json!({ "acknowledge": { "run": run(number) } }));
    }
    worker.end_by("TERM");
    let said = place.output(&run(1), "events");
    assert!(said.contains("\"started\"") && said.contains("\"exited\""), "{said}");
    assert!(place.output(&run(2), "events").contains("not_started"));
    assert!(place.output(&run(3), "events").contains("nonsense"));
}

#[test]
fn neither_a_rate_nor_a_stranger_that_writes_on_holds_up_an_end() {
    let place = Place::new();
    let mut worker = Worker::start(&place);
    worker.patience = Duration::from_secs(8);
    let slow = json!({ "logs": { "rate": "4KiB" } });
    worker.start_run(&place, 1, &["sh", "-c", "echo up; yes"], slow);
    wait_until("it is up", LONG, || place.output(&run(1), "stdout").contains("up"));
    worker.tell(&json!({ "kill": { "run": run(1) } }));
    assert_eq!(worker.end(1)["completed"], "Request");
    // Whoever got its pipe and is none of it may write for ever.
    let ours = place.path.join("pipe");
    let program = format!("ln -s /proc/$$/fd/1 {}; echo up; sleep 1000", ours.display());
    worker.start_run(&place, 2, &["sh", "-c", &program], json!({}));
    wait_until("it is up", LONG, || place.output(&run(2), "stdout").contains("up"));
    let pipe = std::fs::OpenOptions::new().write(true).open(&ours).unwrap();
    let mut stranger = std::process::Command::new("yes").stdout(pipe).spawn().unwrap();
    worker.tell(&json!({ "kill": { "run": run(2) } }));
    assert_eq!(worker.end(2)["exit"], "Signal(9)");
    stranger.kill().unwrap();
    stranger.wait().unwrap();
    worker.end_by("TERM");
}

/// What the stranger writes is more than the rate lets through for a long time.
#[test]
fn a_stranger_at_a_slow_log_does_not_hold_up_an_end_either() {
    let place = Place::new();
    let mut worker = Worker::start(&place);
    worker.patience = Duration::from_secs(8);
    let ours = place.path.join("pipe");
    let program = format!("ln -s /proc/$$/fd/1 {}; echo up; sleep 1000", ours.display());
    let slow = json!({ "logs": { "rate": "1KiB" } });
    worker.start_run(&place, 1, &["sh", "-c", &program], slow);
    wait_until("it is up", LONG, || place.output(&run(1), "stdout").contains("up"));
    let pipe = std::fs::OpenOptions::new().write(true).open(&ours).unwrap();
    let mut stranger = std::process::Command::new("yes").stdout(pipe).spawn().unwrap();
    worker.tell(&json!({ "kill": { "run": run(1) } }));
    assert_eq!(worker.end(1)["exit"], "Signal(9)");
    stranger.kill().unwrap();
    stranger.wait().unwrap();
    worker.end_by("TERM");
}

for_each_runtime!(
    a_log_goes_on_under_the_next_worker_with_the_next_number,
    a_run_may_wait_or_lose_lines_when_it_writes_too_fast,
    what_was_said_of_a_run_is_kept_though_it_wrote_nothing,
);
