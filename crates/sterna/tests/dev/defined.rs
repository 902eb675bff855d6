//! A task without `start` is a definition: stored, counted, listed, and there until somebody deletes it.

use sterna_store::{Embedded, Store as _, cluster::CLUSTER_KEY};

use crate::place::{Cluster, LONG, signal, wait_until};

fn text(run: &str) -> String {
    format!("version = 1\n[task.build]\nrun = [\"{run}\"]\nlatest_start_after = \"1500ms\"\n")
}

/// The kinds of all events about definitions so far.
fn told(cluster: &Cluster) -> Vec<String> {
    let all = cluster.answer(&["events", "--json"]);
    let all = all.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
    let kinds = all.filter_map(|event| Some(event["kind"].as_str()?.to_owned()));
    kinds.filter(|kind| kind.starts_with("definition-")).collect()
}

#[test]
fn a_definition_is_still_there_after_its_server_was_killed_and_goes_when_somebody_says_so() {
    let cluster = Cluster::start("defined", &[]);
    assert!(!cluster.sterna(&["ls", "definitions"]).stdout.starts_with(b"DEFINITION"));
    cluster.write("a.toml", &text("one"));
    assert_eq!(cluster.answer(&["plan", "a.toml"]), "task build: would create its definition\n");
    let said = cluster.answer(&["apply", "a.toml"]);
    assert_eq!(
        said,
        "task build: definition created; to start it, set `start = true` in its spec\n"
    );

    let server = cluster.child("server");
    signal(server, "KILL");
    wait_until("another one leads", LONG, || {
        let is_other = cluster.children("server").first().is_some_and(|pid| *pid != server);
        is_other && cluster.sterna(&["status"]).status.success()
    });
    let listed = cluster.answer(&["ls", "definitions"]);
    let words: Vec<_> = listed.split_whitespace().collect();
    assert_eq!(words, ["DEFINITION", "VERSION", "COMMAND", "build", "1", "one"]);
    // What is read may be applied again, and changes nothing.
    let one = cluster.json(&["ls", "definition", "build"])["definitions"][0].clone();
    assert_eq!(
        (&one["version"], &one["spec"]["latest_start_after"]),
        (&1.into(), &"1s500ms".into())
    );
    let again = serde_json::json!({ "version": 1, "task": { "build": one["spec"] } });
    cluster.write("again.json", &again.to_string());
    let same = "task build: definition unchanged; to start it, set `start = true` in its spec\n";
    assert_eq!(cluster.answer(&["apply", "again.json"]), same);
    assert_eq!(cluster.answer(&["plan", "a.toml"]), "task build: no change\n");
    assert_eq!(cluster.answer(&["apply", "a.toml"]), same);

    cluster.write("a.toml", &text("two"));
    assert_eq!(cluster.answer(&["plan", "a.toml"]), "task build: would change its definition\n");
    let applied = cluster.json(&["apply", "a.toml"]);
    assert_eq!(applied["tasks"][0]["definition"], "changed", "{applied}");
    // With nothing else there, that is what there is.
    let listed = cluster.answer(&["ls"]);
    let words: Vec<_> = listed.split_whitespace().collect();
    assert_eq!(words, ["DEFINITION", "VERSION", "COMMAND", "build", "2", "two"]);

    // By its bare name it is not meant: a task may have the same one.
    let bare = cluster.sterna(&["delete", "build"]);
    let said = String::from_utf8_lossy(&bare.stderr).into_owned();
    assert!(said.contains("build is a definition") && said.contains("definition/build"), "{said}");
    assert_eq!(cluster.answer(&["delete", "definition/build"]), "definition/build is forgotten\n");
    assert!(!cluster.answer(&["ls", "--json"]).contains("two"));
    let gone = cluster.sterna(&["delete", "definition/build"]);
    assert_eq!(gone.status.code(), Some(1), "{}", String::from_utf8_lossy(&gone.stderr));
    let kinds = ["definition-created", "definition-changed", "definition-deleted"];
    assert_eq!(told(&cluster), kinds);
}

/// A sterna from before there were definitions must not lead with one: it would forget it.
#[tokio::test]
async fn a_store_that_had_a_definition_says_which_version_may_lead() {
    let mut cluster = Cluster::start("floor", &[]);
    cluster.write("a.toml", &text("one"));
    cluster.answer(&["apply", "a.toml"]);
    signal(cluster.pid(), "INT");
    cluster.ended();
    let store = Embedded::open(cluster.path.join(".sterna/store")).expect("nobody else has it");
    let record = store.get(CLUSTER_KEY).await.expect("it is read").item.expect("it is there");
    let record = String::from_utf8_lossy(&record.value).into_owned();
    assert!(record.ends_with(" used floor:0.2.0"), "{record}");
}

#[test]
fn one_definition_more_than_may_be_is_refused_and_what_is_there_may_change() {
    let cluster = Cluster::start("most-defined", &["--definitions-max", "1"]);
    cluster.write("a.toml", &text("one"));
    cluster.answer(&["apply", "a.toml"]);
    cluster.write("a.toml", &text("two"));
    cluster.answer(&["apply", "a.toml"]);
    cluster.write("b.toml", "version = 1\n[task.b]\nrun = [\"b\"]\n");
    let planned = cluster.sterna(&["plan", "b.toml"]);
    let said = String::from_utf8_lossy(&planned.stderr).into_owned();
    assert!(
        said.contains("applying this would be refused") && said.contains("--definitions-max"),
        "{said}"
    );
    let refused = cluster.sterna(&["apply", "b.toml"]);
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success());
    assert!(said.contains("definition b was not created or changed"), "{said}");
    assert!(
        said.contains("there are 1 definitions") && said.contains("--definitions-max"),
        "{said}"
    );
}
