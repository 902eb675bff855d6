//! Logs from a time or a line on.

use serde_json::Value;
use sterna_api::rest::{Code, LogPage};

use crate::{
    place::{Cluster, LONG, wait_until},
    storm::block_on,
};

const LOGS: &str = "/v1/namespaces/default/tasks/t/logs";

fn page(cluster: &Cluster, path: &str) -> Result<LogPage, Option<Code>> {
    block_on(cluster.client().get::<LogPage>(path)).map_err(|error| error.code())
}

/// Every page from a place on, with so many lines each.
fn pages(cluster: &Cluster, query: &str) -> Vec<String> {
    let (mut after, mut texts) = (String::new(), Vec::new());
    loop {
        let path = format!("{LOGS}?stream=stdout&limit=3&{query}&after={after}");
        let page = page(cluster, &path).expect("a page");
        texts.extend(page.lines.iter().map(|line| line.text.clone()));
        if page.more != "now" {
            return texts;
        }
        after = page.next;
    }
}

#[test]
fn a_log_is_read_from_a_time_or_a_line_on_and_before_it() {
    let cluster = Cluster::start("since", &[]);
    let script = "for i in 1 2 3 4 5; do echo early-$i; done; until test -e go; do :; done; \
                  for i in 1 2 3 4 5; do echo late-$i; done";
    let script =
        script.replace("test -e go", &format!("test -e {}", cluster.path.join("go").display()));
    cluster.answer(&["run", "--detach", "--name", "t", "--", "sh", "-c", &script]);
    let lines = |cluster: &Cluster| -> Vec<Value> {
        let text = cluster.answer(&["logs", "t", "--json"]);
        text.lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect()
    };
    wait_until("it has begun", LONG, || lines(&cluster).len() == 5);
    let last = lines(&cluster)[4]["at"].as_str().expect("a time").to_owned();
    // The next ones are of a later millisecond.
    wait_until("time has passed", LONG, || jiff_now() > last);
    let between = jiff_now();
    cluster.write("go", "");
    wait_until("it is over", LONG, || lines(&cluster).len() == 10);
    let (early, late) = (texts("early", 1..=5), texts("late", 1..=5));
    let since = format!("since={between}");
    assert_eq!(pages(&cluster, &since), late);
    let back: Vec<_> = early.iter().rev().cloned().collect();
    assert_eq!(pages(&cluster, &format!("{since}&direction=backward")), back);
    let number = lines(&cluster)[6]["line"].as_u64().expect("a number");
    let from = format!("line={number}");
    assert_eq!(pages(&cluster, &from), late[1..]);
    let back: Vec<_> = early.iter().chain(&late[..1]).rev().cloned().collect();
    assert_eq!(pages(&cluster, &format!("{from}&direction=backward")), back);
    // By command, and followed.
    let number = number.to_string();
    let said = |args: &[&str]| -> Vec<String> {
        cluster.answer(&[&["logs", "t"], args].concat()).lines().map(str::to_owned).collect()
    };
    assert_eq!(said(&["--since", &between]), late);
    assert_eq!(said(&["--since", "1h"]), [early.clone(), late.clone()].concat());
    assert_eq!(said(&["--since", &between, "--last", "2"]), late[3..]);
    assert_eq!(said(&["--since", &between, "--last", "100"]), late);
    assert_eq!(said(&["--since", &between, "--follow"]), late);
    assert_eq!(said(&["--line", &number]), late[1..]);
    assert_eq!(said(&["--line", &number, "--follow"]), late[1..]);
    assert_eq!(said(&["--line", "100000"]), Vec::<String>::new());
}

/// A worker keeps what is long in pieces, and what has no end for a while.
#[test]
fn a_line_that_was_cut_is_shown_as_one() {
    let cluster = Cluster::start("cut", &["--workers", "2"]);
    let long = "x".repeat(200_000);
    let write = "head -c 200000 /dev/zero | tr '\\0' x; echo; echo warned >&2; echo over";
    assert_eq!(cluster.answer(&["run", "--name", "t", "--", "sh", "-c", write]).len(), 200_006);
    let only =
        |args: &[&str]| cluster.answer(&[&["logs", "t", "--stream", "stdout"], args].concat());
    assert_eq!(only(&[]), format!("{long}\nover\n"));
    assert_eq!(only(&["--follow"]), format!("{long}\nover\n"));
    assert_eq!(only(&["--last", "100"]), format!("{long}\nover\n"));
    let times = only(&["--times"]);
    assert_eq!((times.lines().count(), times.matches("Z ").count()), (2, 2));
    assert!(only(&["--json"]).lines().count() > 12, "for programs it is as it is kept");
    // What has no end gets one, and of what only matches nobody knows whether it is one line.
    cluster.answer(&["run", "--name", "open", "--", "printf", "no end"]);
    assert_eq!(cluster.answer(&["logs", "open"]), "no end\n");
    assert!(only(&["--matching", "x"]).lines().count() > 12);
    let text = format!(
        "version = 1\n[service.s]\ninstances = 2\nrun = ['sh', '-c', \"\"\"{write}; exec sleep 1000\"\"\"]\n"
    );
    cluster.write("s.toml", &text.replace("\\0", "\\\\0"));
    cluster.answer(&["apply", "s.toml"]);
    let over = || cluster.answer(&["logs", "s", "--matching", "^over$"]).lines().count() == 2;
    wait_until("both have written all", LONG, over);
    for args in [&["logs", "s"][..], &["logs", "s", "--last", "1000"]] {
        let said = cluster.answer(args);
        for index in [0, 1] {
            let whole = format!("[{index}] {long}");
            assert!(said.lines().any(|line| line == whole), "{} lines", said.lines().count());
        }
    }
}

fn texts(word: &str, numbers: std::ops::RangeInclusive<u32>) -> Vec<String> {
    numbers.map(|number| format!("{word}-{number}")).collect()
}

/// Now, as times are written.
fn jiff_now() -> String {
    let now = std::time::SystemTime::UNIX_EPOCH.elapsed().expect("a clock that was set");
    let now = i64::try_from(now.as_millis()).expect("not that late");
    sterna_model::WallTime::from_millis(now).expect("a time").to_string()
}

/// Lines are counted in each run: a number means one of the run of now.
#[test]
fn a_line_of_an_instance_is_one_of_the_run_that_it_has_now() {
    let cluster = Cluster::start("line-of-run", &[]);
    let run = "if test -e $0; then echo two-1; echo two-2; echo two-3; sleep 1000; \
               else touch $0; echo one-1; echo one-2; exit 1; fi";
    let been = cluster.path.join("been").display().to_string();
    cluster.write(
        "web.toml",
        &format!("version = 1\n[service.web]\nrun = [\"sh\", \"-c\", \"{run}\", \"{been}\"]\n"),
    );
    cluster.answer(&["apply", "web.toml"]);
    wait_until("it has crashed once, and runs", LONG, || {
        cluster.answer(&["logs", "web/0"]).lines().count() == 5
    });
    let lines: Vec<Value> = cluster
        .answer(&["logs", "web/0", "--json"])
        .lines()
        .map(|line| serde_json::from_str(line).expect("a line of JSON"))
        .collect();
    let second = lines.iter().find(|line| line["text"] == "two-2").expect("it is there");
    let number = second["line"].to_string();
    assert_eq!(cluster.answer(&["logs", "web/0", "--line", &number]), "two-2\ntwo-3\n");
    let whole = cluster.sterna(&["logs", "web", "--line", "2"]);
    let said = String::from_utf8_lossy(&whole.stderr).into_owned();
    assert_eq!(whole.status.code(), Some(64), "{said}");
    assert!(said.contains("name one, as web/0"), "{said}");
}

#[test]
fn what_names_no_time_and_no_line_is_refused() {
    let cluster = Cluster::start("bad-since", &[]);
    cluster.answer(&["run", "--name", "t", "--", "true"]);
    for (query, field) in [
        ("since=today", "since: "),
        ("since=", "since: "),
        ("line=0", "line: "),
        ("line=x", "line: "),
        ("line=2&since=2026-01-01T00:00:00Z", "since and line: "),
    ] {
        let error = block_on(cluster.client().get::<LogPage>(&format!("{LOGS}?{query}")));
        let error = error.expect_err(query);
        assert_eq!(error.code(), Some(Code::BadRequest), "{query}: {error}");
        assert!(error.to_string().starts_with(field), "{query}: {error}");
    }
    for (args, word) in [
        (&["--since", "yesterday"][..], "10m"),
        (&["--since", "10"], "10m"),
        (&["--line", "0"], "from 1 on"),
        (&["--line", "-3"], "from 1 on"),
        (&["--line", "2", "--since", "10m"], "cannot be used with"),
        (&["--line", "2", "--last", "3"], "cannot be used with"),
    ] {
        let output = cluster.sterna(&[&["logs", "t"], args].concat());
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(64), "{args:?}: {said}");
        assert!(said.contains(word), "{args:?}: {said}");
    }
}
