//! What becomes of everything when something is killed.

use std::{fs, thread::sleep, time::Duration};

use crate::place::{Cluster, LONG, signal, wait_until};

const SERVICE: &str = "version = 1\n[service.web]\nrun = [\"sh\", \"-c\", \"echo $$ >> $HERE/pids; exec sleep 1000\"]\n";

/// A service that writes down its processes, and the newest of them.
fn service(cluster: &Cluster) -> String {
    let here = cluster.path.display().to_string();
    cluster.write("web.toml", &SERVICE.replace("$HERE", &here));
    cluster.answer(&["apply", "web.toml"]);
    wait_until("it runs", LONG, || cluster.answer(&["ls", "services"]).contains("1/1"));
    newest(cluster)
}

fn newest(cluster: &Cluster) -> String {
    cluster.read("pids").lines().last().unwrap_or_default().to_owned()
}

fn is_alive(pid: &str) -> bool {
    fs::metadata(format!("/proc/{pid}")).is_ok()
}

#[test]
fn ctrl_c_ends_everything() {
    let mut cluster = Cluster::start("ctrl-c", &["--workers", "2"]);
    let pid = service(&cluster);
    signal(cluster.pid(), "INT");
    cluster.ended();
    cluster.assert_gone();
    assert!(!is_alive(&pid));
}

#[test]
fn what_is_told_to_end_while_it_starts_ends() {
    for wait in [20, 100, 200] {
        let mut cluster = Cluster::begin("early", &[]);
        sleep(Duration::from_millis(wait)); // why: at another moment of its start each time
        signal(cluster.pid(), "TERM");
        cluster.ended();
        cluster.assert_gone();
    }
}

#[test]
fn nothing_is_left_when_dev_is_killed() {
    let mut cluster = Cluster::start("killed", &[]);
    let pid = service(&cluster);
    signal(cluster.pid(), "KILL");
    cluster.ended();
    cluster.assert_gone();
    assert!(!is_alive(&pid));
}

#[test]
fn services_outlive_a_server_that_is_killed_and_everything_is_found_again() {
    let cluster = Cluster::start("server", &[]);
    let pid = service(&cluster);
    cluster.answer(&["run", "--detach", "--name", "t", "--", "sleep", "1000"]);
    for _ in 0..3 {
        signal(cluster.child("server"), "KILL");
        wait_until("it is started again", LONG, || cluster.sterna(&["status"]).status.success());
        assert_eq!(newest(&cluster), pid, "it was never started again");
        assert!(is_alive(&pid));
    }
    assert!(cluster.said().contains("the server died"), "{}", cluster.said());
    let tasks = cluster.json(&["ls", "tasks"]);
    assert_eq!(tasks["tasks"][0]["phase"], "running", "{tasks}");
}

#[test]
fn a_worker_that_is_killed_loses_its_task_and_gets_its_service_back() {
    let cluster = Cluster::start("worker", &[]);
    let pid = service(&cluster);
    cluster.answer(&["run", "--detach", "--name", "t", "--", "sleep", "1000"]);
    wait_until("it runs", LONG, || cluster.answer(&["ls", "tasks"]).contains("running"));
    signal(cluster.child("worker"), "KILL");
    wait_until("the task is over, with a reason", LONG, || {
        let tasks = cluster.sterna(&["ls", "tasks", "--json"]);
        let tasks: serde_json::Value = serde_json::from_slice(&tasks.stdout).unwrap_or_default();
        tasks["tasks"][0]["end"]["text"].is_string()
    });
    wait_until("another one runs", LONG, || {
        newest(&cluster) != pid && cluster.answer(&["ls", "services"]).contains("1/1")
    });
    assert!(!is_alive(&pid));
    let task = &cluster.json(&["ls", "tasks"])["tasks"][0];
    assert_eq!(task["end"]["is_success"], false, "{task}");
}

#[test]
fn an_emptied_store_opens_a_recovered_epoch_and_stops_nothing() {
    let cluster = Cluster::start("emptied", &[]);
    let pid = service(&cluster);
    let epoch = |cluster: &Cluster| cluster.json(&["status"])["epoch"].as_u64();
    assert_eq!(epoch(&cluster), Some(1));
    // Not while it runs: dev starts it again at once, so its next start must find nothing.
    let store = cluster.path.join(".sterna/store");
    signal(cluster.child("server"), "STOP");
    fs::rename(&store, cluster.path.join("before")).expect("the store is there");
    signal(cluster.child("server"), "KILL");
    wait_until("it leads again", LONG, || cluster.sterna(&["status"]).status.success());
    assert_eq!(epoch(&cluster), Some(2));
    assert!(is_alive(&pid), "what runs goes on");
    assert_eq!(newest(&cluster), pid);
}

#[test]
fn a_cluster_that_was_ended_goes_on_where_it_was() {
    let mut cluster = Cluster::start("again", &[]);
    let pid = service(&cluster);
    cluster.answer(&["run", "--name", "t", "--", "true"]);
    signal(cluster.pid(), "TERM");
    cluster.ended();
    cluster.assert_gone();
    cluster.restart(&[]);
    wait_until("it runs again", LONG, || newest(&cluster) != pid);
    wait_until("it is told", LONG, || cluster.answer(&["ls", "services"]).contains("1/1"));
    assert_eq!(cluster.json(&["ls", "tasks"])["tasks"][0]["end"]["is_success"], true);
}
