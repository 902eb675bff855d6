//! Workers as people and Prometheus see them: which check of one fails, and how many are how.

use std::{env, fs, os::unix::fs::PermissionsExt as _};

use sterna_api::rest::WorkerView;

use crate::{
    place::{Cluster, LONG, signal, wait_until},
    storm::block_on,
};

fn worker(cluster: &Cluster) -> WorkerView {
    block_on(cluster.client().get("/v1/workers/worker-1")).expect("it is known")
}

/// Whether this is one of the metrics now.
fn counts(cluster: &Cluster, metric: &str) -> bool {
    block_on(async {
        let mut client = cluster.client();
        let mut lines = client.lines("/metrics").await.expect("they are told");
        while let Ok(Some(line)) = lines.next().await {
            if line == metric.as_bytes() {
                return true;
            }
        }
        false
    })
}

/// Only its own log said why a worker takes no work.
#[test]
fn a_worker_whose_health_checks_fail_says_which_and_how_wherever_it_is_seen() {
    let bin = env::temp_dir().join(format!("sterna-sick-{}", std::process::id()));
    fs::create_dir_all(&bin).expect("a directory for programs");
    let path = format!("{}:{}", bin.display(), env::var("PATH").expect("there is a path"));
    let cluster = Cluster::start_so("sick", &[], |dev| {
        dev.env("PATH", path);
    });
    assert_eq!(worker(&cluster).trouble, None);
    // What its checks run ends badly from now on.
    let bad = bin.join("true");
    fs::write(&bad, "#!/bin/sh\nexit 7\n").expect("a program");
    fs::set_permissions(&bad, fs::Permissions::from_mode(0o755)).expect("it can be run");
    wait_until("it is unhealthy", LONG, || worker(&cluster).health == "unhealthy");
    let words = "its health check failed: true ended with exit status: 7";
    assert_eq!(worker(&cluster).trouble.as_deref(), Some(words));
    assert!(worker(&cluster).facts.get("failed_check").is_none(), "it is said once");
    let listed = cluster.answer(&["ls", "workers"]);
    assert!(listed.contains("TROUBLE") && listed.contains(words), "{listed}");
    cluster.answer(&["run", "--detach", "--name", "waits", "--", "true"]);
    let why = cluster.answer(&["why", "waits"]);
    assert!(why.contains("fails its health check: true ended with exit status: 7"), "{why}");
    let unhealthy = r#"sterna_workers_by_health{health="unhealthy"} 1"#;
    wait_until("it is counted", LONG, || counts(&cluster, unhealthy));
    assert!(counts(&cluster, "sterna_workers_taking_work 0"));
    fs::remove_file(&bad).expect("it was there");
    wait_until("it is well again", LONG, || worker(&cluster).health == "healthy");
    assert_eq!(worker(&cluster).trouble, None);
    wait_until("it takes work", LONG, || cluster.answer(&["ls", "tasks"]).contains("succeeded"));
    fs::remove_dir_all(&bin).expect("it was there");
}

#[test]
fn metrics_count_tasks_by_phase_and_workers_by_how_they_are() {
    let cluster = Cluster::start("counted", &["--workers", "2"]);
    let says = |what: &str, line: &str| {
        wait_until(what, LONG, || counts(&cluster, line));
    };
    cluster.answer(&["run", "--", "true"]);
    cluster.answer(&["run", "--detach", "--", "sleep", "1000"]);
    cluster.answer(&["run", "--detach", "--tag", "gpu", "--", "true"]);
    cluster.answer(&["run", "--detach", "--namespace", "other", "--tag", "gpu", "--", "true"]);
    says("one is over", r#"sterna_tasks_by_phase{phase="completed"} 1"#);
    says("one runs", r#"sterna_tasks_by_phase{phase="running"} 1"#);
    says("two wait, of all namespaces", r#"sterna_tasks_by_phase{phase="pending"} 2"#);
    says("none is being told", r#"sterna_tasks_by_phase{phase="resolving"} 0"#);
    says("three are not over", "sterna_tasks_under_way 3");
    says("both are well", r#"sterna_workers_by_health{health="healthy"} 2"#);
    says("both take work", "sterna_workers_taking_work 2");
    says("nobody is drained", "sterna_workers_draining 0");
    cluster.answer(&["drain", "worker-2"]);
    says("one is drained", "sterna_workers_draining 1");
    says("one takes work", "sterna_workers_taking_work 1");
    says("nobody is silent", "sterna_workers_silent 0");
    let data = cluster.path.join(".sterna/worker-1").display().to_string();
    let is_first = |pid: &u32| {
        let said = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&said).split('\0').any(|word| word.starts_with(&data))
    };
    let first = cluster.children("worker").into_iter().find(is_first).expect("it runs");
    signal(first, "STOP");
    says("one is silent", "sterna_workers_silent 1");
    signal(first, "CONT");
    says("it is heard again", "sterna_workers_silent 0");
}

#[test]
fn namespaces_are_listed_with_what_they_hold() {
    let cluster = Cluster::start("spaces", &[]);
    let names = |cluster: &Cluster| {
        let all = cluster.json(&["ls", "namespaces"])["namespaces"].clone();
        let all = all.as_array().expect("a list").clone();
        all.iter().map(|it| it["name"].as_str().expect("a name").to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(names(&cluster), ["default"], "it is always there");
    cluster.write("web.toml", "version = 1\n[service.web]\nrun = [\"sleep\", \"1000\"]\n");
    cluster.answer(&["apply", "--wait", "--namespace", "team-b", "web.toml"]);
    cluster.answer(&["run", "--namespace", "team-a", "--name", "t", "--", "true"]);
    assert_eq!(names(&cluster), ["default", "team-a", "team-b"]);
    let one = cluster.json(&["ls", "namespaces", "team-b"])["namespaces"][0].clone();
    let services = serde_json::json!({ "services": 1, "wanted": 1, "running": 1 });
    assert_eq!((&one["services"], &one["tasks"]), (&services, &serde_json::json!({})));
    let listed = cluster.answer(&["ls", "namespaces"]);
    let row = |name: &str| {
        let line = listed.lines().find(|line| line.starts_with(name)).expect("it is listed");
        line.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    assert_eq!(row("team-a"), "team-a 0 0/0 1 succeeded");
    assert_eq!(row("team-b"), "team-b 1 1/1 none");
    // Page by page.
    let page: sterna_api::rest::Page<sterna_api::rest::NamespaceView> =
        block_on(cluster.client().get("/v1/namespaces?limit=1&after=default")).expect("a page");
    assert_eq!((page.items[0].name.as_str(), page.next.as_deref()), ("team-a", Some("team-a")));
    let last = cluster.json(&["ls", "tasks", "last", "--namespace", "team-a"])["tasks"].clone();
    assert_eq!(last.as_array().map(Vec::len), Some(1), "{last}");
    let none = cluster.sterna(&["ls", "namespaces", "team-c"]);
    let said = String::from_utf8_lossy(&none.stderr).into_owned();
    assert!(said.contains("did you mean team-") && none.status.code() == Some(1), "{said}");
    // With the last name in it, it is gone.
    cluster.answer(&["delete", "--namespace", "team-a", "task/t"]);
    assert_eq!(names(&cluster), ["default", "team-b"]);
}

#[test]
fn domains_are_listed_with_how_long_they_are_fresh() {
    let cluster = Cluster::start("domains-listed", &[]);
    let said = cluster.sterna(&["ls", "domains"]);
    assert!(String::from_utf8_lossy(&said.stderr).contains("always fresh"), "{said:?}");
    let forever = serde_json::json!({});
    let put = block_on(cluster.client().call::<serde_json::Value>(
        http::Method::PUT,
        "/v1/domains/depot",
        Some(&forever),
    ));
    put.expect("it is put");
    let listed = cluster.answer(&["ls", "domains"]);
    assert!(listed.contains("depot") && listed.contains("always"), "{listed}");
    let one = cluster.json(&["ls", "domains", "depot"])["domains"].clone();
    assert_eq!(one, serde_json::json!([{ "name": "depot", "is_fresh": true }]));
    let none = cluster.sterna(&["ls", "domains", "depto"]);
    let said = String::from_utf8_lossy(&none.stderr);
    assert!(said.contains("there is no domain depto: did you mean depot?"), "{said}");
}

/// It was killed without a word.
#[test]
fn a_task_on_a_drained_worker_has_its_grace_before_the_drain_is_over() {
    let cluster = Cluster::start("grace", &[]);
    let tidy = "trap 'echo tidied; exit 0' TERM; echo up; while :; do sleep 0.05; done";
    cluster.answer(&["run", "--detach", "--name", "tidy", "--", "sh", "-c", tidy]);
    wait_until("it runs", LONG, || cluster.answer(&["logs", "tidy"]).contains("up"));
    cluster.answer(&["drain", "worker-1", "--within", "5s", "--wait"]);
    wait_until("it has tidied", LONG, || cluster.answer(&["logs", "tidy"]).contains("tidied"));
    let why = cluster.answer(&["why", "tidy"]);
    assert!(why.contains("ended: its worker was drained and the deadline passed"), "{why}");
}
