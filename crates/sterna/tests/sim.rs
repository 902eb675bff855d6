//! `sterna sim`, as people type it.

use std::process::{Command, Output};

use serde_json::Value;

fn sim(arguments: &[&str]) -> Output {
    let program = env!("CARGO_BIN_EXE_sterna");
    Command::new(program).arg("sim").args(arguments).output().expect("it cannot be started")
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&[&*output.stdout, &*output.stderr].concat()).into_owned()
}

#[test]
fn seeds_are_counted_in_json() {
    let output =
        sim(&["--seeds", "3", "--from", "7", "--minutes", "1", "--workers", "3", "--json"]);
    assert!(output.status.success(), "{}", said(&output));
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&json["seeds"], &json["from"]), (&3.into(), &7.into()));
    assert!(json["starts"].as_u64().unwrap() > 10, "{json}");
    assert!(json["events"].as_u64().unwrap() > 1_000, "{json}");
    assert!(json["faults"].as_object().is_some_and(|faults| !faults.is_empty()), "{json}");
    assert_eq!(json["violations"], serde_json::json!({}));
}

#[test]
fn a_seed_is_told_the_same_every_time_and_drawn() {
    let trace = || sim(&["--seed", "3", "--minutes", "1", "--trace"]);
    let (one, other) = (trace(), trace());
    assert!(one.status.success() && one.stdout.len() > 1_000);
    assert_eq!(one.stdout, other.stdout);
    let drawn = said(&sim(&["--seed", "3", "--minutes", "1", "--explain"]));
    assert!(drawn.contains('▌') && drawn.contains("no promise was broken"), "{drawn}");
}

#[test]
fn faults_are_chosen_by_number_or_none_of_them() {
    for only in ["none", "0", "0,1"] {
        let output = sim(&["--seed", "3", "--minutes", "1", "--only", only]);
        assert!(output.status.success(), "{only}: {}", said(&output));
        assert_eq!(String::from_utf8_lossy(&output.stdout), "no promise was broken\n");
    }
}

#[test]
fn what_makes_no_sense_is_refused_with_the_reason() {
    for (arguments, reason) in [
        (&["--seeds", "0"][..], "0 is not in 1.."),
        (&["--seeds", "3", "--from", "18446744073709551615"], "there are not so many seeds"),
        (&["--seed", "3", "--only", "99999"], "there is no fault 99999"),
        (&["--seed", "3", "--only", "x"], "write N,N or none"),
        (&["--seed", "3", "--only", "0", "--json"], "cannot be used with"),
        (&["--seed", "3", "--only", "0", "--explain"], "cannot be used with"),
        (&["--trace"], "--seed"),
        (&["--workers", "0"], "0 is not in 1..=100"),
    ] {
        let output = sim(arguments);
        assert!(!output.status.success(), "{arguments:?}");
        assert!(said(&output).contains(reason), "{arguments:?}: {}", said(&output));
    }
}
