//! `sterna bench spawn`: its answer, and that isolation costs no more than it may.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on says where")]

use std::process::{Command, Output};

use serde_json::Value;

fn bench(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_sterna"))
        .args(["bench", "spawn"])
        .args(arguments)
        .output()
        .unwrap()
}

#[test]
fn the_json_has_the_form_of_every_bench() {
    let output = bench(&["--count", "200", "--rounds", "1", "--json"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert_eq!(said, "", "this machine lacks something");
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(json["bench"], "spawn");
    let figure = |name: &str| json["figures"][name].as_f64().unwrap();
    assert!(figure("bare_per_s") > 0.0);
    for step in ["guardian", "group", "cgroup", "isolated", "limited"] {
        assert!(figure(&format!("{step}_per_s")) > 0.0, "{json}");
        assert!(json["ratios"][format!("{step}_over_bare")].as_f64().unwrap() > 0.0, "{json}");
    }
}

#[test]
fn the_table_names_every_step_and_nothing_is_left() {
    let place = std::env::temp_dir().join(format!("sterna-bench-test-{}", std::process::id()));
    let place = place.to_str().unwrap();
    let output = bench(&["--count", "20", "--rounds", "1", "--data", place]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    for says in ["2 at a time", "bare", "guardian", "group", "cgroup", "isolated", "limited"] {
        assert!(text.contains(says), "{says:?} is not in: {text}");
    }
    assert!(!std::path::Path::new(place).exists());
}

#[test]
fn a_place_that_is_in_use_is_refused() {
    let output = bench(&["--data", "/"]);
    assert!(!output.status.success());
    assert!(String::from_utf8_lossy(&output.stderr).contains("/ is there already"));
}
