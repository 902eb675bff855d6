//! A service that crashes, as somebody finds it at night: how it ended, and what it wrote last, also when
//! it waits or has begun elsewhere.

use crate::place::{Cluster, LONG, wait_until};

/// Writes why it goes, and goes; then it waits for a long time.
const BAD: &str = "version = 1\n[service.bad]\n\
    run = [\"sh\", \"-c\", \"echo cannot reach the database; exit 3\"]\n\
    crash = { wait_from = 1, first_wait = \"10m\" }\n";

fn crashed(cluster: &Cluster, name: &str) {
    wait_until("it has crashed", LONG, || {
        let instances = cluster.json(&["ls", "instances"]);
        let all = instances["instances"].as_array().cloned().unwrap_or_default();
        all.iter().any(|it| {
            it["phase"] == "crashed" && it["key"].as_str().is_some_and(|key| key.contains(name))
        })
    });
}

/// Nothing but its worker's own log said why.
#[test]
fn a_crash_says_how_it_ended_wherever_it_is_asked_about() {
    let cluster = Cluster::start("crash-end", &[]);
    cluster.write("bad.toml", BAD);
    cluster.answer(&["apply", "bad.toml"]);
    crashed(&cluster, "bad");
    let why = cluster.answer(&["why", "bad"]);
    assert!(why.contains("it crashed: exited with 3; it waits"), "{why}");
    let events = cluster.answer(&["events", "--kind", "instance-crashed"]);
    assert!(events.contains("(exited with 3)"), "{events}");
    let instance = cluster.json(&["ls", "instances"])["instances"][0].clone();
    let crash = &instance["last_crash"];
    let end = &crash["end"];
    assert_eq!((&end["exit_code"], &end["text"]), (&3.into(), &"exited with 3".into()));
    assert_eq!(crash["worker"], "worker-1", "{instance}");
    let event = cluster.answer(&["events", "--kind", "instance-crashed", "--json"]);
    let event: serde_json::Value = serde_json::from_str(event.trim()).expect("one event");
    assert_eq!(event["run"], crash["run_id"], "{event} {instance}");
    let listed = cluster.answer(&["ls", "instances"]);
    assert!(listed.contains("exited with 3"), "{listed}");
}
