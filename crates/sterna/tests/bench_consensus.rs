//! `sterna bench consensus`: its answer, and that a pass costs no more than a walk should.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on says where")]

use std::process::{Command, Output};

use serde_json::Value;

fn bench(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_sterna"))
        .args(["bench", "consensus"])
        .args(arguments)
        .output()
        .unwrap()
}

#[test]
fn the_json_has_the_form_of_every_bench() {
    let output = bench(&["--rounds", "7", "--json"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(json["bench"], "consensus");
    let figure = |name: &str| json["figures"][name].as_f64().unwrap();
    for size in ["10000", "100000"] {
        for state in ["settled", "chain", "islands", "churn"] {
            let of_state = figure(&format!("pass_ms_{size}_{state}"));
            assert!(of_state > 0.0 && of_state <= figure(&format!("pass_ms_{size}")), "{json}");
        }
        assert!(json["floor"][format!("walk_ms_{size}")].as_f64().unwrap() > 0.0, "{json}");
        assert!(json["ratios"][format!("pass_{size}")].as_f64().unwrap() > 0.0, "{json}");
    }
    assert!(figure("heartbeat_ns") > 0.0, "{json}");
    let bytes = figure("bytes_per_worker");
    assert!(bytes > 0.0 && bytes < 1024.0, "{json}");
    // Ten times the workers: ten times the time, and room for what no longer fits into a cache and
    // for a busy machine. A walk over pairs would take a hundred times.
    assert!(figure("pass_ms_100000") < 60.0 * figure("pass_ms_10000"), "{json}");
}

#[test]
fn the_table_names_every_figure() {
    let output = bench(&["--rounds", "1"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    for says in ["ms per pass", "settled", "chain", "islands", "churn", "bare walk", "a heartbeat"]
    {
        assert!(text.contains(says), "{says:?} is not in: {text}");
    }
}

#[test]
fn wrong_usage_has_its_own_exit_code() {
    let output = bench(&["--rounds", "0"]);
    assert_eq!(output.status.code(), Some(64));
    assert!(output.stdout.is_empty());
    assert!(String::from_utf8_lossy(&output.stderr).contains("--rounds"));
}
