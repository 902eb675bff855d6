//! `sterna bench control`: its answer, and that nothing is left of it.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on says where")]

use std::{
    process::{Command, Output, Stdio},
    thread::sleep,
    time::Duration,
};

use serde_json::Value;

fn bench(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_sterna"))
        .args(["bench", "control"])
        .args(arguments)
        .output()
        .unwrap()
}

#[test]
fn every_task_comes_to_its_end_and_the_json_has_the_form_of_every_bench() {
    let place = std::env::temp_dir().join(format!("sterna-bench-control-{}", std::process::id()));
    let data = place.to_str().unwrap();
    let short = ["--tasks", "1000", "--rate", "100", "--seconds", "1", "--workers", "3"];
    let output = bench(&[&short[..], &["--data", data, "--json"]].concat());
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert_eq!(said, "");
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(json["bench"], "control");
    let figure = |name: &str| json["figures"][name].as_f64().unwrap();
    assert!(figure("tasks_per_s") > 0.0, "{json}");
    assert!(figure("leader_us_per_task") > 0.0, "{json}");
    let (middle, most) = (figure("submit_to_started_ms_p50"), figure("submit_to_started_ms_p99"));
    assert!(0.0 < middle && middle <= most, "{json}");
    assert!(figure("submit_to_started_ms_max") >= most, "{json}");
    assert!(figure("submit_to_answered_ms_p99") > 0.0, "{json}");
    assert!(json["floor"]["bare_sync_ms_p99"].as_f64().unwrap() > 0.0, "{json}");
    assert!(json["floor"]["requests_per_s"].as_f64().unwrap() > 0.0, "{json}");
    // Beside whatever else runs: a task costs a hundred bare requests at most.
    assert!(json["ratios"]["tasks_over_requests"].as_f64().unwrap() > 0.01, "{json}");
    assert!(!place.exists(), "its files are gone");
}

#[test]
fn a_place_that_is_in_use_is_refused() {
    let output = bench(&["--data", "/"]);
    assert!(!output.status.success());
    assert!(String::from_utf8_lossy(&output.stderr).contains("/ is there already"));
}

#[test]
fn too_few_tasks_or_too_long_a_way_fail_the_check_and_are_named() {
    let short = ["--tasks", "200", "--rate", "50", "--seconds", "1", "--workers", "2", "--json"];
    let limits = ["--limit", "tasks_per_s=1e9", "--limit", "submit_to_started_ms_p99=1e9"];
    let output = bench(&[&short[..], &["--check"], &limits].concat());
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("and must be 1000000000 at least"), "{said}");
    assert!(!said.contains("submit_to_started"), "{said}");
    assert!(!output.stdout.is_empty(), "the figures are told all the same");
}

/// Its directory stayed.
#[test]
fn nothing_is_left_when_it_is_told_to_end() {
    let place = std::env::temp_dir().join(format!("sterna-bench-ended-{}", std::process::id()));
    let mut command = Command::new(env!("CARGO_BIN_EXE_sterna"));
    command.args(["bench", "control", "--tasks", "1000", "--seconds", "600", "--data"]);
    let mut bench = command.arg(&place).stderr(Stdio::null()).spawn().unwrap();
    // By then it heeds signals: its server was started after that.
    wait_until("its server is there", || place.join("admin.token").is_file());
    let told = Command::new("kill").arg("-TERM").arg(bench.id().to_string()).status();
    assert!(told.unwrap().success());
    wait_until("it ends", || bench.try_wait().unwrap().is_some());
    assert_eq!(bench.wait().unwrap().code(), Some(130));
    assert!(!place.exists(), "its files are gone");
}

fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    for _ in 0..3_000 {
        if is_so() {
            return;
        }
        sleep(Duration::from_millis(20)); // why: it happens in other processes, and nothing tells of it
    }
    panic!("not within a minute: {what}");
}
