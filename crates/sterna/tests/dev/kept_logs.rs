//! Logs of what is there no more: they are read for as long as a worker keeps them.

use serde_json::Value;
use sterna_api::rest::LogPage;

use crate::{
    place::{Cluster, LONG, wait_until},
    storm::block_on,
};

fn spec(name: &str, instances: u32) -> String {
    format!(
        "version = 1\n[service.{name}]\ninstances = {instances}\n\
         run = [\"sh\", \"-c\", \"echo first; echo here-$STERNA_INSTANCE_INDEX; sleep 1000\"]\n"
    )
}

/// Applies a spec, and waits until all of it runs, has written, and nothing else does.
fn apply(cluster: &Cluster, name: &str, instances: u32) {
    cluster.write("service.toml", &spec(name, instances));
    cluster.answer(&["apply", "--wait", "service.toml"]);
    wait_until("all have written", LONG, || {
        let all = cluster.json(&["ls", "instances"])["instances"].clone();
        all.as_array().map(Vec::len) == Some(instances as usize)
            && (0..instances).all(|index| {
                cluster.answer(&["logs", &format!("{name}/{index}")]).contains("here-")
            })
    });
}

/// What a command answers and says; it must succeed.
fn shown(cluster: &Cluster, args: &[&str]) -> (String, String) {
    let output = cluster.sterna(args);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{args:?}: {said}\n{}", cluster.said());
    (String::from_utf8_lossy(&output.stdout).into_owned(), said)
}

/// The run of the instance that ended last, as `sterna events` shows it.
fn last_run(cluster: &Cluster) -> String {
    let told = cluster.answer(&["events", "--last", "50", "--json"]);
    let events = told.lines().map(|line| serde_json::from_str::<Value>(line).expect("an event"));
    let mut runs = events.filter(|event| event["kind"] == "instance-ended");
    let run = runs.next_back().expect("one has ended")["run"].clone();
    run.as_str().expect("a run").to_owned()
}

/// Every page of one line.
fn pages(cluster: &Cluster, path: &str) -> Vec<String> {
    let (mut after, mut texts) = (String::new(), Vec::new());
    loop {
        let path = format!("{path}?stream=output&limit=1&after={after}");
        let page = block_on(cluster.client().get::<LogPage>(&path)).expect("a page");
        texts.extend(page.lines.into_iter().map(|line| line.text));
        if page.more != "now" {
            assert_eq!(page.more, "never", "nobody adds to it");
            return texts;
        }
        after = page.next;
    }
}

#[test]
fn a_log_is_read_after_a_scale_down_and_by_its_run() {
    let cluster = Cluster::start("kept-scaled", &["--workers", "2"]);
    apply(&cluster, "web", 4);
    apply(&cluster, "web", 3);
    let (text, said) = shown(&cluster, &["logs", "web/3"]);
    assert_eq!(text, "first\nhere-3\n");
    assert!(said.contains("instance web/3 no longer exists; worker-"), "{said}");
    let (text, _) = shown(&cluster, &["logs", "-f", "web/3"]);
    assert_eq!(text, "first\nhere-3\n", "it ends, for nothing is added");
    let (text, _) = shown(&cluster, &["logs", "--last", "1", "web/3"]);
    assert_eq!(text, "here-3\n");
    let run = last_run(&cluster);
    for args in [vec!["logs", &run], vec!["logs", "-f", &run]] {
        assert_eq!(shown(&cluster, &args).0, "first\nhere-3\n");
    }
    let of_key = "/v1/namespaces/default/services/web/instances/3/logs";
    for path in [of_key, &format!("/v1/runs/{run}/logs")] {
        assert_eq!(pages(&cluster, path), ["first", "here-3"]);
    }
    // What runs is followed by its run, too, until it ends.
    let all = cluster.json(&["ls", "instances"])["instances"].clone();
    let running = all[0]["run_id"].as_str().expect("it runs").to_owned();
    assert_eq!(shown(&cluster, &["logs", &running]).0, "first\nhere-0\n");
    let unknown = cluster.sterna(&["logs", "run-0192f5e4a6c07bcd89abcdef01234567"]);
    let said = String::from_utf8_lossy(&unknown.stderr).into_owned();
    assert_eq!(unknown.status.code(), Some(1), "{said}");
    assert!(said.contains("no worker keeps a log of it"), "{said}");
    let other = cluster.sterna(&["logs", "web/9"]);
    assert_eq!(other.status.code(), Some(1));
}

#[test]
fn a_log_is_read_after_its_service_or_task_was_deleted() {
    let cluster = Cluster::start("kept-deleted", &["--workers", "2"]);
    apply(&cluster, "crashy", 2);
    cluster.answer(&["delete", "crashy"]);
    wait_until("its instances have ended", LONG, || {
        let left = cluster.json(&["ls", "instances"])["instances"].clone();
        left.as_array().is_some_and(Vec::is_empty)
    });
    let (text, said) = shown(&cluster, &["logs", "crashy"]);
    for line in ["[0] here-0", "[1] here-1"] {
        assert!(text.contains(line), "{text}");
    }
    assert!(said.contains("instance crashy/1 no longer exists"), "{said}");
    assert_eq!(shown(&cluster, &["logs", "crashy/1"]).0, "first\nhere-1\n");
    assert_eq!(shown(&cluster, &["logs", "service/crashy/0"]).0, "first\nhere-0\n");
    let (text, _) = shown(&cluster, &["logs", "-f", "crashy"]);
    assert!(text.contains("here-0") && text.contains("here-1"), "{text}");
    cluster.answer(&["run", "--name", "once", "--", "echo", "done once"]);
    cluster.answer(&["delete", "task/once"]);
    assert_eq!(shown(&cluster, &["logs", "once"]).0, "done once\n");
    // What never was is refused as before, with what comes near.
    let unknown = cluster.sterna(&["logs", "crushy"]);
    let said = String::from_utf8_lossy(&unknown.stderr).into_owned();
    assert_eq!(unknown.status.code(), Some(1), "{said}");
    assert!(said.contains("crushy"), "{said}");
}
