//! What is printed for people moves nothing on their terminals, and what is refused is told to programs.

use serde_json::Value;

use crate::place::{Cluster, LONG, wait_until};

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn what_a_spec_holds_reaches_no_terminal_as_it_is() {
    let cluster = Cluster::start("escapes", &[]);
    let spec = "version = 1\n[task.red]\nrun = [\"./a\\u001b[31mRED\\nNEXT\"]\nstart = true\n";
    cluster.write("red.toml", spec);
    cluster.answer(&["apply", "red.toml"]);
    wait_until("it is over", LONG, || cluster.answer(&["ls", "tasks"]).contains("failed"));
    for command in [&["why", "last"][..], &["events"], &["ls"]] {
        let said = cluster.answer(command);
        assert!(said.contains("RED NEXT"), "{said}");
        assert!(!said.contains('\u{1b}'), "{said}");
    }
    // For programs it is as it was.
    assert!(
        cluster.json(&["why", "last"])["text"].as_str().is_some_and(|it| it.contains("\u{1b}"))
    );
}

#[test]
fn what_is_refused_is_an_object_for_who_wants_json() {
    let cluster = Cluster::start("refused-json", &[]);
    cluster.write("bad.toml", "version = 1\n[task.a]\nrunn = ['x']\n");
    let refused = |args: &[&str]| {
        let output = cluster.sterna(args);
        assert!(output.stdout.is_empty(), "{}", text(&output.stdout));
        let said = text(&output.stderr);
        let last = said.lines().last().unwrap_or_default();
        let object: Value = serde_json::from_str(last).unwrap_or_else(|_| panic!("{said}"));
        assert_eq!(object["exit"].as_i64(), output.status.code().map(i64::from), "{said}");
        assert!(object["message"].is_string(), "{said}");
        object
    };
    assert_eq!(refused(&["delete", "task/none", "--json"])["code"], "failed");
    let gone = refused(&["events", "--after", "9.9.9", "--json"]);
    assert_eq!((&gone["code"], gone["resume"].is_string()), (&"events-gone".into(), true));
    assert!(gone["remedy"].is_string(), "{gone}");
    let bad = refused(&["apply", "bad.toml", "--json"]);
    assert_eq!((&bad["code"], &bad["exit"]), (&"bad-spec".into(), &65.into()));
    let problem = &bad["problems"][1];
    assert_eq!((&problem["file"], &problem["line"]), (&"bad.toml".into(), &3.into()), "{bad}");
    assert_eq!(refused(&["ls", "--json", "--no-such-option"])["code"], "usage");
    assert_eq!(refused(&["ls", "--json", "--server", "127.0.0.1:9"])["code"], "unreachable");
    // People read it as ever, and where to go on.
    let said = text(&cluster.sterna(&["events", "--after", "9.9.9"]).stderr);
    let newest = gone["resume"].as_str().expect("an event");
    assert!(said.starts_with("error:") && said.contains(&format!("event: {newest}")), "{said}");
}

#[test]
fn the_last_events_are_shown_with_their_ids() {
    let cluster = Cluster::start("last-events", &[]);
    cluster.answer(&["run", "--", "true"]);
    let all = cluster.answer(&["events", "--ids"]);
    let last = cluster.answer(&["events", "--ids", "--last", "2"]);
    let lines: Vec<_> = all.lines().collect();
    assert_eq!(last.lines().collect::<Vec<_>>(), lines[lines.len() - 2..]);
    let before = lines[lines.len() - 3].split_whitespace().next().expect("an id");
    assert_eq!(cluster.answer(&["events", "--ids", "--after", before]), last);
    assert_eq!(cluster.answer(&["events", "--since", "10m", "--ids"]), all);
    assert_eq!(cluster.answer(&["events", "--since", "2099-01-01T00:00:00Z"]), "");
}

#[test]
fn a_drain_tells_programs_what_it_will_do() {
    let cluster = Cluster::start("forecast", &["--workers", "2"]);
    cluster.answer(&["run", "--detach", "--name", "t", "--", "sleep", "1000"]);
    wait_until("it runs", LONG, || cluster.answer(&["ls", "tasks"]).contains("running"));
    let worker = cluster.json(&["ls", "tasks", "t"])["tasks"][0]["worker"].clone();
    let said = cluster.json(&["drain", worker.as_str().expect("a worker")]);
    assert_eq!(
        (&said["changed"], &said["forecast"][0]["key"]),
        (&true.into(), &"default/task/t".into())
    );
    assert_eq!(said["forecast"][0]["fate"], "runs-on", "{said}");
}

#[test]
fn one_thing_is_listed_by_its_name_and_with_its_spec() {
    let cluster = Cluster::start("by-name", &[]);
    cluster.write("a.toml", "version = 1\n[service.a]\nrun = ['sleep', '9']\nports = ['p']\n[service.b]\nrun = ['sleep', '9']\n[task.c]\nrun = ['x']\n");
    let applied = cluster.answer(&["apply", "a.toml"]);
    assert!(applied.contains("task c: definition created; "), "{applied}");
    let said = cluster.answer(&["ls", "services", "a"]);
    assert!(said.contains("\na ") && !said.contains("\nb "), "{said}");
    let json = cluster.json(&["ls", "services", "a"]);
    assert_eq!(json["services"][0]["spec"]["ports"][0], "p", "{json}");
    assert!(cluster.answer(&["ls", "instances", "b"]).contains("b/0"));
    assert_eq!(cluster.sterna(&["ls", "tasks", "none"]).status.code(), Some(1));
    // Who mistypes is told what to type.
    cluster.answer(&["run", "--name", "hello", "--", "true"]);
    cluster.write("clock.toml", "version = 1\n[service.clock]\nrun = ['sleep', '9']\n");
    cluster.answer(&["apply", "clock.toml"]);
    for (typed, code, remedy) in [
        (&["ls", "services", "clck"][..], 1, "there is no service clck: did you mean clock?"),
        (&["ls", "instances", "clck"], 1, "there is no service clck: did you mean clock?"),
        (&["ls", "tasks", "helo"], 1, "there is no task helo: did you mean hello?"),
        (&["ls", "domains", "nope"], 1, "there is no domain nope; `sterna ls domains` lists"),
        (&["ls", "namespaces", "nope"], 1, "nope; `sterna ls namespaces` lists what there is"),
        (
            &["why", "worker-1"],
            1,
            "worker-1 is a worker, and no task or service; `sterna ls workers",
        ),
        (&["logs", "hello", "--previous"], 64, "--previous: a task has one run"),
        (&["logs", "hello", "--matching", "("], 64, "unclosed group; put a backslash"),
        (&["events", "--after", "x"], 64, "write the id of an event, as 1.3.42"),
    ] {
        let said = cluster.sterna(typed);
        let text = text(&said.stderr);
        assert_eq!(said.status.code(), Some(code), "{typed:?}: {text}");
        assert!(text.contains(remedy), "{typed:?}: {text}");
    }
}
