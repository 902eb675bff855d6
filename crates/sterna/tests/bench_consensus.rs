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
        // Held against a bare walk over the bytes of the consensus, measured in the same run: several
        // times what a machine shows that is busy with other things, too, in any profile. One look at
        // each pair would be more than a hundred walks with 10,000 workers, and more than a thousand
        // with 100,000.
        for (name, most) in [
            (format!("pass_{size}"), 40.0),
            (format!("fleet_pass_{size}"), 60.0),
            (format!("fleet_pass_{size}_all"), 120.0),
            (format!("fleet_heartbeat_{size}"), 500.0),
        ] {
            let times = json["ratios"][&name].as_f64().unwrap();
            assert!(times > 0.0 && times < most, "{name}: {times} walks in {json}");
        }
    }
    assert!(figure("heartbeat_ns") > 0.0, "{json}");
    let (bytes, whole) = (figure("bytes_per_worker"), figure("fleet_bytes_per_worker"));
    assert!(bytes > 0.0 && bytes < whole && whole < 1024.0, "{json}");
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
