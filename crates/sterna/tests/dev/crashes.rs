//! A service that crashes, as somebody finds it at night: how it ended, and what it wrote last, also when
//! it waits or has begun elsewhere.

use std::process::{Child, Stdio};

use crate::place::{Cluster, LONG, program, signal, wait_until};

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
    assert!(why.contains("it crashed: exited with 3; it waits before it restarts"), "{why}");
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

/// It showed nothing, and succeeded.
#[test]
fn the_logs_of_what_has_crashed_and_waits_are_those_of_its_last_run() {
    let cluster = Cluster::start("crash-logs", &[]);
    cluster.write("bad.toml", BAD);
    cluster.answer(&["apply", "bad.toml"]);
    crashed(&cluster, "bad");
    for args in [&["logs", "bad/0"][..], &["logs", "bad"], &["logs", "bad", "-n", "1"]] {
        assert_eq!(cluster.answer(args), "cannot reach the database\n", "{args:?}");
    }
    let said = cluster.sterna(&["logs", "bad/0"]).stderr;
    let said = String::from_utf8_lossy(&said).into_owned();
    assert!(said.contains("it has no run now; its last was "), "{said}");
    assert!(said.contains(", on worker-1, and this is what is kept there"), "{said}");
}

/// On which worker its lines are, was not to be found out.
#[test]
fn what_began_anew_elsewhere_shows_its_last_run_until_it_writes_and_when_that_is_asked_for() {
    let cluster = Cluster::start("crash-moves", &["--workers", "2"]);
    let spec = "version = 1\n[service.bad]\n\
        run = [\"sh\", \"-c\", \"[ -e $HERE/quiet ] && exec sleep 1000; \
            echo cannot reach the database; exit 3\"]\n\
        crash = { wait_from = 1, first_wait = \"10m\" }\n";
    let here = cluster.path.to_string_lossy().into_owned();
    cluster.write("bad.toml", &spec.replace("$HERE", &here));
    cluster.answer(&["apply", "bad.toml"]);
    crashed(&cluster, "bad");
    let instance = || cluster.json(&["ls", "instances"])["instances"][0].clone();
    let worker = instance()["last_crash"]["worker"].as_str().expect("a worker").to_owned();
    cluster.answer(&["drain", &worker]);
    cluster.write("quiet", "");
    cluster.answer(&["stop", "bad/0"]);
    wait_until("it runs elsewhere", LONG, || instance()["phase"] == "running");
    assert_ne!(instance()["worker"], *worker);
    for args in [&["logs", "bad/0"][..], &["logs", "bad/0", "-n", "1"]] {
        let logs = cluster.sterna(args);
        let said = String::from_utf8_lossy(&logs.stderr).into_owned();
        assert_eq!(String::from_utf8_lossy(&logs.stdout), "cannot reach the database\n", "{said}");
        let elsewhere = format!(", on {worker}, and this is what is kept there");
        assert!(said.contains("has nothing to show") && said.contains(&elsewhere), "{said}");
    }
    let logs = cluster.answer(&["logs", "bad/0", "--previous"]);
    assert_eq!(logs, "cannot reach the database\n");
    assert_eq!(cluster.answer(&["ls", "instances"]).matches("exited with 3").count(), 1);
}

/// Follows, into a file.
fn follow(cluster: &Cluster, args: &[&str]) -> Child {
    let file = std::fs::File::create(cluster.path.join("followed")).expect("a file");
    let mut follow = program();
    follow.args(args).current_dir(&cluster.path).stdin(Stdio::null()).stdout(file);
    follow.spawn().expect("sterna runs")
}

/// Those were followed that there were when it began.
#[test]
fn logs_that_are_followed_go_on_with_runs_and_instances_that_come_later() {
    let cluster = Cluster::start("crash-follow", &["--workers", "2"]);
    let spec = "version = 1\n[service.web]\ninstances = 1\n\
        run = [\"sh\", \"-c\", \"echo begins $STERNA_INSTANCE_INDEX; sleep 0.3; \
            echo goes $STERNA_INSTANCE_INDEX; exit 3\"]\n\
        crash = { wait_from = 3, first_wait = \"10m\" }\nupdate = { revert_after = \"never\", max_unavailable = 2 }\n";
    cluster.write("web.toml", &spec.replace("sleep 0.3", "sleep 1000"));
    cluster.answer(&["apply", "web.toml"]);
    wait_until("one runs", LONG, || cluster.answer(&["ls", "services"]).contains("1/1"));
    let mut follow = follow(&cluster, &["logs", "--follow", "web"]);
    let followed = || cluster.read("followed");
    let count = |line: &str| followed().lines().filter(|it| it.ends_with(line)).count();
    wait_until("it is followed", LONG, || count("begins 0") == 1);
    // Another version, and another instance: each begins three times, and its last words are shown.
    cluster.write("web.toml", &spec.replace("instances = 1", "instances = 2"));
    cluster.answer(&["apply", "web.toml"]);
    wait_until("all runs of both are shown", LONG, || {
        (count("begins 0"), count("goes 0"), count("begins 1"), count("goes 1")) == (4, 3, 3, 3)
    });
    assert!(followed().contains("[1] goes 1"), "{}", followed());
    cluster.answer(&["delete", "service/web"]);
    wait_until("it ends with its service", LONG, || follow.try_wait().expect("a child").is_some());
}

/// Its last lines were lost, or a worker that never had them was asked for them.
#[test]
fn an_instance_that_is_followed_is_followed_to_another_worker() {
    let cluster = Cluster::start("crash-elsewhere", &["--workers", "2"]);
    let spec = "version = 1\n[service.web]\n\
        run = [\"sh\", \"-c\", \"echo begins; while [ ! -e $HERE/go ]; do sleep 0.02; done; \
            mv $HERE/go $HERE/gone; echo goes; exit 3\"]\n\
        crash = { wait_from = 1, first_wait = \"3s\" }\n";
    let here = cluster.path.to_string_lossy().into_owned();
    cluster.write("web.toml", &spec.replace("$HERE", &here));
    cluster.answer(&["apply", "web.toml"]);
    wait_until("it runs", LONG, || cluster.answer(&["ls", "services"]).contains("1/1"));
    let mut follow = follow(&cluster, &["logs", "--follow", "web/0"]);
    wait_until("it is followed", LONG, || cluster.read("followed") == "begins\n");
    cluster.write("go", "");
    crashed(&cluster, "web");
    let worker = cluster.json(&["ls", "instances"])["instances"][0]["last_crash"]["worker"].clone();
    cluster.answer(&["drain", worker.as_str().expect("a worker")]);
    wait_until("it runs again", LONG, || cluster.answer(&["ls", "services"]).contains("1/1"));
    assert_ne!(cluster.json(&["ls", "instances"])["instances"][0]["worker"], worker);
    wait_until("it has written there", LONG, || cluster.read("followed").lines().count() > 2);
    assert_eq!(cluster.read("followed"), "begins\ngoes\nbegins\n");
    follow.kill().expect("it runs");
    follow.wait().expect("it was killed");
}

/// What it writes when it is told to end was lost.
#[test]
fn an_instance_that_is_followed_and_drained_is_read_to_its_end_and_then_elsewhere() {
    let cluster = Cluster::start("crash-drained", &["--workers", "2"]);
    let spec = "version = 1\n[service.web]\n\
        run = [\"sh\", \"-c\", \"trap 'echo goodbye; exit 0' TERM; echo begins; \
            while :; do sleep 0.02; done\"]\n";
    cluster.write("web.toml", spec);
    cluster.answer(&["apply", "web.toml"]);
    wait_until("it runs", LONG, || cluster.answer(&["ls", "services"]).contains("1/1"));
    let mut follow = follow(&cluster, &["logs", "--follow", "--stream", "stdout", "web/0"]);
    wait_until("it is followed", LONG, || cluster.read("followed") == "begins\n");
    let worker = cluster.json(&["ls", "instances"])["instances"][0]["worker"].clone();
    cluster.answer(&["drain", "--wait", worker.as_str().expect("a worker")]);
    wait_until("it has written there", LONG, || cluster.read("followed").lines().count() > 2);
    assert_eq!(cluster.read("followed"), "begins\ngoodbye\nbegins\n");
    follow.kill().expect("it runs");
    follow.wait().expect("it was killed");
}

/// At night the machine is often gone, too.
#[test]
fn who_has_the_lines_of_the_last_run_is_said_if_it_does_not_answer() {
    let cluster = Cluster::start("crash-silent", &[]);
    cluster.write("bad.toml", BAD);
    cluster.answer(&["apply", "bad.toml"]);
    crashed(&cluster, "bad");
    signal(cluster.child("worker"), "STOP");
    let logs = cluster.sterna(&["logs", "bad/0"]);
    let said = String::from_utf8_lossy(&logs.stderr).into_owned();
    assert_eq!(logs.status.code(), Some(75), "{said}");
    assert!(said.contains("wrote is on worker-1, which does not answer"), "{said}");
}
