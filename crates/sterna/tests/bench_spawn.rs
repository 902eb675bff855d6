//! `sterna bench spawn`: its answer, and that isolation costs no more than it may.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on says where")]

use std::process::{Command, Output};

use serde_json::Value;

/// Each step of isolation, with all before it.
const STEPS: [&str; 5] = ["guardian", "group", "cgroup", "isolated", "limited"];

fn bench(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_sterna"))
        .args(["bench", "spawn"])
        .args(arguments)
        .output()
        .unwrap()
}

#[test]
fn the_json_has_the_form_of_every_bench() {
    let output = bench(&["--count", "200", "--rounds", "3", "--json"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert_eq!(said, "", "this machine lacks something");
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(json["bench"], "spawn");
    let names = |part: &str| json[part].as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    let all = |end: &str| STEPS.map(|step| format!("{step}_{end}"));
    let promised = [all("per_s").to_vec(), vec!["bare_per_s".to_owned()]].concat();
    assert_eq!(sorted(names("figures")), sorted(promised), "{json}");
    assert_eq!(sorted(names("ratios")), sorted(all("over_bare").to_vec()), "{json}");
    let number = |part: &str, name: &str| json[part][name].as_f64().unwrap();
    let bare = number("figures", "bare_per_s");
    assert_eq!(number("floor", "bare_per_s"), bare, "{json}");
    for step in STEPS {
        let figure = number("figures", &format!("{step}_per_s"));
        let ratio = number("ratios", &format!("{step}_over_bare"));
        assert!(figure > 0.0 && ratio > 0.0, "{step}: {json}");
        assert!((ratio - figure / bare).abs() < 0.01 * ratio.max(1.0), "{step}: {json}");
        // Others on this machine slow down the one and not the other; but what does more than the bare
        // loop is not twice as fast.
        assert!(ratio < 2.0, "{step} cannot be faster than the bare loop: {json}");
    }
    let [isolated, limited] =
        ["isolated_over_bare", "limited_over_bare"].map(|name| number("ratios", name));
    assert!(isolated <= 1.5, "a container costs something: {json}");
    assert!(limited <= 2.0 * isolated, "limits cost something more: {json}");
    assert!(limited >= 0.01, "nothing costs as much as a hundred processes: {json}");
}

fn sorted(mut names: Vec<String>) -> Vec<String> {
    names.sort();
    names
}

#[test]
fn the_table_names_every_step_and_nothing_is_left() {
    let place = std::env::temp_dir().join(format!("sterna-bench-test-{}", std::process::id()));
    let place = place.to_str().unwrap();
    let output = bench(&["--count", "20", "--rounds", "1", "--data", place]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("2 at a time"), "{text}");
    let named: Vec<_> = text.lines().filter_map(|line| line.split_whitespace().next()).collect();
    for step in STEPS.into_iter().chain(["bare"]) {
        assert!(named.contains(&step), "{step:?} has no line: {text}");
    }
    assert!(!std::path::Path::new(place).exists());
}

#[test]
fn a_place_that_is_in_use_is_refused() {
    let output = bench(&["--data", "/"]);
    assert!(!output.status.success());
    assert!(String::from_utf8_lossy(&output.stderr).contains("/ is there already"));
}
