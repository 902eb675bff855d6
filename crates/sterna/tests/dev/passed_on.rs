//! What `sterna run` passes on of how its command ended.

use crate::place::Cluster;

/// A command that is told to end by its timeout may well exit with 0: it has not done what it was to do.
#[test]
fn a_run_that_was_ended_fails_and_says_why_whatever_its_code() {
    let cluster = Cluster::start("passed-on", &[]);
    let run = |timeout: &str, script: &str| {
        let said = cluster.sterna(&["run", "--timeout", timeout, "--", "sh", "-c", script]);
        (said.status.code(), String::from_utf8_lossy(&said.stderr).into_owned())
    };
    for (own, passed_on) in [(0, 1), (7, 7)] {
        let script = format!("trap 'exit {own}' TERM; sleep 100 & wait");
        let (code, said) = run("1s", &script);
        assert_eq!(code, Some(passed_on), "{own}: {said}");
        assert!(said.contains("its timeout passed"), "{own}: {said}");
    }
    // What it ended with by itself it has said itself.
    assert_eq!(run("1m", "exit 7"), (Some(7), String::new()));
    assert_eq!(run("1m", "exit 0"), (Some(0), String::new()));
}
