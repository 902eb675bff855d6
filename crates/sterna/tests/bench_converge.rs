//! `sterna bench converge`: its answer, and that a step costs little more with a larger fleet.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on says where")]

use std::process::{Command, Output};

use serde_json::Value;

fn bench(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_sterna"))
        .args(["bench", "converge"])
        .args(arguments)
        .output()
        .unwrap()
}

fn figures(workers: &str) -> Value {
    let output = bench(&["--workers", workers, "--json"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(json["bench"], "converge");
    json["figures"].clone()
}

#[test]
fn a_step_does_not_walk_over_the_fleet() {
    let (few, many) = (figures("100"), figures("1000"));
    for figure in [
        "step_us_p50",
        "step_us_p99",
        "sweep_s",
        "sweep_slice_ms",
        "forecast_ms",
        "why_ms",
        "lost_s",
        "update_ms",
        "bytes_per_instance",
    ] {
        assert!(many[figure].as_f64().unwrap() > 0.0, "{figure}: {many}");
    }
    // Ten times the fleet. A walk over it would take ten times as long.
    let step = |json: &Value| json["step_us_p50"].as_f64().unwrap();
    assert!(step(&many) < 5.0 * step(&few), "{few} {many}");
}

#[test]
fn the_table_names_every_figure() {
    let output = bench(&["--workers", "100"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    for says in ["one event", "a sweep", "a forecast", "lost workers", "an update", "an instance"] {
        assert!(text.contains(says), "{says:?} is not in: {text}");
    }
}

#[test]
fn a_figure_over_its_limit_fails_the_check_and_is_named() {
    let limits = ["--check", "--limit", "sweep_s=0.000001", "--limit", "lost_s=1000"];
    let output = bench(&[&["--workers", "100", "--json"][..], &limits].concat());
    assert_eq!(output.status.code(), Some(1));
    let (said, json) = (String::from_utf8_lossy(&output.stderr), output.stdout);
    assert!(said.contains("sweep_s is") && !said.contains("lost_s"), "{said}");
    assert!(serde_json::from_slice::<Value>(&json).is_ok(), "the figures are told all the same");
}

#[test]
fn wrong_usage_has_its_own_exit_code() {
    let output = bench(&["--check", "--limit", "sleep_s=1"]);
    assert_eq!(output.status.code(), Some(64));
    assert!(
        String::from_utf8_lossy(&output.stderr).contains("sweep_s, "),
        "it names those there are"
    );
    let output = bench(&["--workers", "1"]);
    assert_eq!(output.status.code(), Some(64));
    assert!(String::from_utf8_lossy(&output.stderr).contains("--workers"));
}
