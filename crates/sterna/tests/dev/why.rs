//! Why something is not where it should be, as a person at night reads it: in the log of the server, and
//! with the moment at which something happens.

use std::{path::Path, time::SystemTime};

use sterna_model::WallTime;

use crate::place::{Cluster, LONG, wait_until};

/// The lines of `why` in the log of the server.
fn logged(cluster: &Cluster) -> Vec<String> {
    let log = cluster.read(".sterna/server.log");
    log.lines().filter(|line| line.contains(" server why ")).map(str::to_owned).collect()
}

fn wall_time() -> WallTime {
    #[expect(clippy::disallowed_methods, reason = "a test that waits for other processes")]
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("after 1970");
    let millis = i64::try_from(since.as_millis()).expect("a moment of this age");
    WallTime::from_millis(millis).expect("a moment of this age")
}

/// The log said nothing of work that waits.
#[test]
fn the_log_of_the_server_says_why_once_and_in_the_words_of_the_api() {
    let cluster = Cluster::start("why-logged", &[]);
    let spec =
        "version = 1\n[service.huge]\ninstances = 3\nmemory = \"4000TiB\"\nrun = [\"true\"]\n";
    cluster.write("huge.toml", spec);
    cluster.answer(&["apply", "huge.toml"]);
    wait_until("the log says why", LONG, || !logged(&cluster).is_empty());
    let why = cluster.json(&["why", "huge/0"]);
    let word = |name: &str| why[name].as_str().expect("it is said").to_owned();
    let [line] = &logged(&cluster)[..] else { panic!("{:?}", logged(&cluster)) };
    let expected = format!(
        " server why default/service/huge/0 and 2 others: {}: {}; next: {}",
        word("rule"),
        word("text"),
        word("next")
    );
    assert!(line.ends_with(&expected), "{line} is not {expected}");
    assert!(line.contains(": unplaced: "), "{line}");
    // Another rule for something else: it is told, and what holds is not told again.
    let bad = "version = 1\n[service.bad]\nrun = [\"sh\", \"-c\", \"exit 3\"]\n\
        crash = { wait_from = 1, first_wait = \"10m\" }\n";
    cluster.write("bad.toml", bad);
    cluster.answer(&["apply", "bad.toml"]);
    wait_until("the log says why", LONG, || logged(&cluster).len() == 2);
    let line = logged(&cluster)[1].clone();
    let crashed = "why default/service/bad/0: crashed: it crashed: exited with 3; it waits before it restarts; next: ";
    assert!(line.contains(crashed), "{line}");
}

/// It said that its worker will say more.
#[test]
fn what_is_being_ended_is_killed_at_the_moment_that_why_names_and_not_before() {
    let cluster = Cluster::start("why-killed", &[]);
    let spec = "version = 1\n[service.deaf]\nsignals = { grace = \"4s\" }\n\
        run = [\"sh\", \"-c\", \"trap '' TERM; echo $$ > $HERE/pid; while :; do sleep 0.1; done\"]\n";
    let here = cluster.path.to_string_lossy().into_owned();
    cluster.write("deaf.toml", &spec.replace("$HERE", &here));
    cluster.answer(&["apply", "deaf.toml"]);
    wait_until("it runs", LONG, || cluster.read("pid").ends_with('\n'));
    let pid = cluster.read("pid").trim().to_owned();
    cluster.answer(&["stop", "deaf/0"]);
    let why = cluster.json(&["why", "deaf/0"]);
    assert_eq!(why["rule"], "stopping", "{why}");
    let at: WallTime = why["at"].as_str().expect("a moment").parse().expect("a moment");
    wait_until("it is killed", LONG, || {
        let is_there = Path::new(&format!("/proc/{pid}")).exists();
        assert!(!is_there || cluster.read("pid").trim() == pid, "another one runs beside it");
        !is_there
    });
    let gone = wall_time();
    assert!(gone >= at, "it is gone at {gone}, before {at}");
    let late = gone.since(at);
    assert!(late.as_millis() < 20_000, "it was killed {late} after that");
}

/// Nothing said so before `why`.
#[test]
fn who_applies_what_no_worker_could_ever_have_is_warned() {
    let cluster = Cluster::start("why-in-vain", &[]);
    let spec = "version = 1\n[service.big]\nrun = [\"sleep\", \"9\"]\nmemory = \"900TiB\"\n\
        [service.small]\nrun = [\"sleep\", \"9\"]\nmemory = \"1MiB\"\n\
        [service.none]\nrun = [\"sleep\", \"9\"]\nmemory = \"900TiB\"\ninstances = 0\n";
    cluster.write("big.toml", spec);
    for command in ["plan", "apply"] {
        let output = cluster.sterna(&[command, "big.toml"]);
        assert!(output.status.success());
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(
            said.contains("service big: it is too large for every worker; worker-1 "),
            "{said}"
        );
        assert!(!said.contains("small") && !said.contains("none"), "{said}");
        let warnings = &cluster.json(&[command, "big.toml"])["warnings"];
        assert_eq!(warnings.as_array().map(Vec::len), Some(1), "{warnings}");
    }
    // What holds of many is said once.
    let table = "run = [\"sleep\", \"9\"]\nmemory = \"900TiB\"";
    let tables: String = (1..=9).map(|number| format!("[service.s{number}]\n{table}\n")).collect();
    cluster.write("many.toml", &format!("version = 1\n{tables}"));
    for command in ["plan", "apply"] {
        let said =
            String::from_utf8_lossy(&cluster.sterna(&[command, "many.toml"]).stderr).into_owned();
        assert_eq!(said.matches("warning: ").count(), 1, "{said}");
        assert!(said.contains("service s5 and 4 more: it is too large for every worker"), "{said}");
    }
}
