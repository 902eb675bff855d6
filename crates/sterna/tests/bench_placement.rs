//! `sterna bench placement`: its answer, and that a placement looks at few workers of many.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on says where")]

use std::process::{Command, Output};

use serde_json::Value;

fn bench(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_sterna"))
        .args(["bench", "placement"])
        .args(arguments)
        .output()
        .unwrap()
}

#[test]
fn the_json_has_the_form_of_every_bench() {
    let output = bench(&["--rounds", "3", "--json"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(json["bench"], "placement");
    let figure = |name: &str| json["figures"][name].as_f64().unwrap();
    for state in ["empty", "full", "constrained"] {
        assert!(figure(&format!("{state}_s")) > 0.0, "{json}");
        assert!(json["ratios"][format!("{state}_over_sort")].as_f64().unwrap() > 0.0, "{json}");
    }
    assert!(json["floor"]["sort_s"].as_f64().unwrap() > 0.0, "{json}");
    let bytes = figure("bytes_per_worker");
    assert!(bytes > 0.0 && bytes < 2048.0, "{json}");
    // Ten times the workers: a little more, and room for what no longer fits into a cache and for a
    // busy machine. A walk over all workers would take ten times as long.
    assert!(figure("us_per_placement_10000") < 5.0 * figure("us_per_placement_1000"), "{json}");
}

#[test]
fn the_table_names_every_figure() {
    let output = bench(&["--rounds", "1"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    for says in ["empty", "full", "constrained", "sorted by key", "10000 workers", "bytes per"] {
        assert!(text.contains(says), "{says:?} is not in: {text}");
    }
}

#[test]
fn a_figure_over_its_limit_fails_the_check_and_is_named() {
    let growth = ["--limit", "us_10000_over_1000=0.01", "--limit", "empty_s=1000"];
    let output = bench(&[&["--rounds", "1", "--check"][..], &growth].concat());
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("us_10000_over_1000 is") && !said.contains("empty_s"), "{said}");
    assert!(!output.stdout.is_empty(), "the figures are told all the same");
}

#[test]
fn wrong_usage_has_its_own_exit_code() {
    let output = bench(&["--rounds", "0"]);
    assert_eq!(output.status.code(), Some(64));
    assert!(output.stdout.is_empty());
    assert!(String::from_utf8_lossy(&output.stderr).contains("--rounds"));
}
