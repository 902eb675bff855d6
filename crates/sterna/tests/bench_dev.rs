//! `sterna bench dev`: its answer, and that nothing of its clusters is left.

use std::process::Command;

use serde_json::Value;

#[test]
fn the_json_has_the_form_of_every_bench_and_nothing_is_left() {
    let place = std::env::temp_dir().join(format!("sterna-bench-dev-test-{}", std::process::id()));
    let output = Command::new(env!("CARGO_BIN_EXE_sterna"))
        .args(["bench", "dev", "--rounds", "1", "--runs", "3", "--idle", "1", "--json", "--data"])
        .arg(&place)
        .output()
        .expect("it runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let json: Value = serde_json::from_slice(&output.stdout).expect("an answer in JSON");
    assert_eq!(json["bench"], "dev");
    let figures = json["figures"].as_object().expect("figures");
    assert!(!figures.is_empty() && figures.values().all(|it| it.as_f64() >= Some(0.0)), "{json}");
    assert!(!place.exists(), "everything is removed");
}
