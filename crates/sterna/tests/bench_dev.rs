//! `sterna bench dev`: its answer, and that nothing of its clusters is left.

use std::{
    process::{Command, Output, Stdio},
    thread::sleep,
    time::Duration,
};

use serde_json::Value;

/// As short as it can be, in a place of its own.
fn bench(name: &str, arguments: &[&str]) -> Output {
    let place = format!("sterna-bench-dev-{name}-{}", std::process::id());
    let place = std::env::temp_dir().join(place);
    let short =
        ["--rounds", "1", "--runs", "3", "--idle", "1", "--tasks", "10", "--json", "--data"];
    let output = Command::new(env!("CARGO_BIN_EXE_sterna"))
        .args(["bench", "dev"])
        .args(short)
        .arg(&place)
        .args(arguments)
        // Somebody else's cluster: it is not asked.
        .env("STERNA_SERVER", "127.0.0.1:9")
        .env("STERNA_TOKEN", "of somebody else")
        .output()
        .expect("it runs");
    assert!(!place.exists(), "everything is removed");
    output
}

#[test]
fn a_figure_over_its_limit_fails_the_check_and_is_named() {
    let lax = ["ready_ms", "run_ms", "idle_mib", "idle_cpu_percent"].map(|it| format!("{it}=1e9"));
    let mut arguments = vec!["--check", "--limit", "idle_after_tasks_mib=0.1"];
    for limit in &lax {
        arguments.extend(["--limit", limit]);
    }
    let output = bench("check", &arguments);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("idle_after_tasks_mib is"), "{said}");
    assert!(said.contains("and may be 0.1 at most") && !said.contains("ready_ms"), "{said}");
    assert!(!output.stdout.is_empty(), "the figures are told all the same");
}

#[test]
fn the_json_has_the_form_of_every_bench_and_nothing_is_left() {
    let output = bench("json", &[]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let json: Value = serde_json::from_slice(&output.stdout).expect("an answer in JSON");
    assert_eq!(json["bench"], "dev");
    let figures = json["figures"].as_object().expect("figures");
    let names: Vec<_> = figures.keys().map(String::as_str).collect();
    let mut promised =
        ["ready_ms", "run_ms", "idle_mib", "idle_after_tasks_mib", "idle_cpu_percent"];
    promised.sort_unstable();
    assert_eq!(names, promised, "{json}");
    assert!(figures.values().all(|it| it.as_f64() >= Some(0.0)), "{json}");
    assert!(json["floor"]["bare_ms"].as_f64() > Some(0.0), "{json}");
    assert!(json["ratios"]["run_over_bare"].as_f64() > Some(0.0), "{json}");
}

/// Its directory stayed, with its cluster in it.
#[test]
fn nothing_is_left_when_it_is_told_to_end() {
    let place = format!("sterna-bench-dev-ended-{}", std::process::id());
    let place = std::env::temp_dir().join(place);
    let mut command = Command::new(env!("CARGO_BIN_EXE_sterna"));
    command.args(["bench", "dev", "--idle", "3600", "--rounds", "1", "--runs", "1", "--data"]);
    let mut bench = command.arg(&place).stderr(Stdio::null()).spawn().expect("it runs");
    let begun = place.join("runs/.sterna/address");
    wait_until("its cluster is there", || begun.is_file());
    let told = Command::new("kill").arg("-TERM").arg(bench.id().to_string()).status();
    assert!(told.expect("kill is there").success());
    wait_until("it ends", || bench.try_wait().expect("a child").is_some());
    assert_eq!(bench.wait().expect("it has ended").code(), Some(130));
    assert!(!place.exists(), "everything is removed");
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

#[test]
fn a_place_is_named_from_where_one_is() {
    let name = format!("sterna-bench-dev-here-{}", std::process::id());
    let output = Command::new(env!("CARGO_BIN_EXE_sterna"))
        .args(["bench", "dev", "--rounds", "1", "--runs", "1", "--idle", "1", "--tasks", "1"])
        .args(["--data", &name])
        .current_dir(std::env::temp_dir())
        .output()
        .expect("it runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(!std::env::temp_dir().join(name).exists(), "everything is removed");
}
