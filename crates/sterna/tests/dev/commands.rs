//! Commands as people type them.

use sterna_api::rest::{Code, ResultView};

use crate::{
    place::{Cluster, LONG, wait_until},
    storm::block_on,
};

#[test]
fn a_run_passes_on_what_was_written_and_how_it_ended() {
    let cluster = Cluster::start("run", &[]);
    assert_eq!(cluster.answer(&["run", "--", "echo", "hello"]), "hello\n");
    let failed = cluster.sterna(&["run", "--", "sh", "-c", "echo out; echo err >&2; exit 3"]);
    assert_eq!(failed.status.code(), Some(3));
    assert_eq!((&failed.stdout[..], &failed.stderr[..]), (&b"out\n"[..], &b"err\n"[..]));
    let killed = cluster.sterna(&["run", "--", "sh", "-c", "kill -9 $$"]);
    assert_eq!(killed.status.code(), Some(137));
    let missing = cluster.sterna(&["run", "--", "no-such-program"]);
    assert_eq!(missing.status.code(), Some(1));
    let said = String::from_utf8_lossy(&missing.stderr).into_owned();
    assert!(said.contains("failed to start") && said.contains("no-such-program"), "{said}");
    // Bytes that are no text come out as they went in.
    let bytes = cluster.sterna(&["run", "--", "printf", r"\377\000\n"]);
    assert_eq!(bytes.stdout, b"\xff\x00\n");
}

#[test]
fn a_task_is_listed_explained_and_forgotten() {
    let cluster = Cluster::start("task", &[]);
    cluster.answer(&["run", "--detach", "--name", "long", "--", "sleep", "1000"]);
    wait_until("it runs", LONG, || cluster.answer(&["ls", "tasks"]).contains("running"));
    let why = cluster.json(&["why", "long"]);
    assert_eq!(why["is_well"], true);
    let early = cluster.sterna(&["delete", "long"]);
    let said = String::from_utf8_lossy(&early.stderr).into_owned();
    assert!(!early.status.success() && said.contains("delete is not for running"), "{said}");
    assert!(cluster.answer(&["cancel", "long"]).contains("is cancelled"));
    let again = cluster.sterna(&["cancel", "long"]);
    assert!(!again.status.success(), "cancelling what has ended is refused");
    let why = cluster.answer(&["why", "last"]);
    assert!(why.contains("it was cancelled"), "{why}");
    wait_until("it is forgotten", LONG, || cluster.sterna(&["delete", "long"]).status.success());
    let taken = cluster.sterna(&["run", "--name", "long", "--", "true"]);
    let said = String::from_utf8_lossy(&taken.stderr).into_owned();
    assert!(said.contains("7 days"), "{said}");
    let near = cluster.sterna(&["why", "lonk"]);
    assert!(!near.status.success());
    let events = cluster.answer(&["events", "--key", "default/task/long"]);
    for kind in ["task-running", "task-completed", "task-deleted"] {
        assert!(events.contains(kind), "{events}");
    }
}

#[test]
fn a_file_is_planned_applied_changed_and_taken_back() {
    let cluster = Cluster::start("apply", &[]);
    let spec = |count: u32| {
        format!(
            "version = 1\n[service.web]\nrun = [\"sleep\", \"1000\"]\nports = [\"http\"]\n\
             instances = {count}\n[task.once]\nrun = [\"echo\", \"once\"]\nstart = true\n"
        )
    };
    cluster.write("a.toml", &spec(2));
    assert!(cluster.answer(&["plan", "a.toml"]).contains("service web: is made, with 2 instances"));
    assert!(cluster.answer(&["ls"]).is_empty(), "a plan changes nothing");
    let applied = cluster.answer(&["apply", "a.toml"]);
    assert!(applied.contains("task once: started as once."), "{applied}");
    wait_until("two run", LONG, || cluster.answer(&["ls"]).contains("2/2"));
    let again = cluster.answer(&["apply", "a.toml"]);
    assert!(again.contains("web: as it was") && again.contains("once: as it was"), "{again}");
    cluster.write("a.toml", &spec(3));
    assert!(cluster.answer(&["plan", "a.toml"]).contains("starts 1 more, from 2 on"));
    cluster.answer(&["apply", "a.toml"]);
    wait_until("three run", LONG, || cluster.answer(&["ls"]).contains("3/3"));
    let before = cluster.json(&["ls", "instances"]);
    cluster.answer(&["stop", "web/0"]);
    wait_until("it came back", LONG, || {
        let after = cluster.json(&["ls", "instances"]);
        let run = |all: &serde_json::Value| all["instances"][0]["run_id"].clone();
        after["instances"][0]["phase"] == "running" && run(&after) != run(&before)
    });
    cluster.answer(&["delete", "web"]);
    wait_until("it is gone", LONG, || !cluster.answer(&["ls"]).contains("web"));
}

#[test]
fn what_is_wrong_is_said_with_its_place_and_its_exit_code() {
    let cluster = Cluster::start("wrong", &[]);
    cluster.write("bad.toml", "version = 1\n[task.a]\nrunn = [\"true\"]\n");
    let bad = cluster.sterna(&["apply", "bad.toml"]);
    let said = String::from_utf8_lossy(&bad.stderr).into_owned();
    assert_eq!(bad.status.code(), Some(65), "{said}");
    assert!(said.contains("bad.toml:3:1") && said.contains("run"), "{said}");
    let size = cluster.sterna(&["run", "--memory", "lots", "--", "true"]);
    assert_eq!(size.status.code(), Some(65), "{}", String::from_utf8_lossy(&size.stderr));
    let nobody = cluster.sterna(&["status", "--server", "127.0.0.1:1"]);
    assert_eq!(nobody.status.code(), Some(69));
    let mut stranger = std::process::Command::new(env!("CARGO_BIN_EXE_sterna"));
    let stranger = stranger.arg("status").env("STERNA_TOKEN", "x").current_dir(&cluster.path);
    let stranger = stranger.output().expect("sterna runs");
    assert_eq!(stranger.status.code(), Some(77), "{}", String::from_utf8_lossy(&stranger.stderr));
}

#[test]
fn a_task_leaves_a_result() {
    let cluster = Cluster::start("result", &[]);
    let ask = |name: &str| {
        let path = format!("/v1/namespaces/default/tasks/{name}/result");
        block_on(cluster.client().get::<ResultView>(&path))
    };
    let said =
        cluster.answer(&["run", "--name", "good", "--", "sh", "-c", "echo 42 > $STERNA_RESULT"]);
    assert_eq!(said, "", "its result is not its output");
    let result = ask("good").expect("a result");
    assert_eq!((&*result.text, result.is_cut), ("42\n", false));
    // As much as may be kept, of one that failed.
    let much = "head -c 100000 /dev/zero | tr '\\0' x > $STERNA_RESULT; exit 3";
    assert_eq!(
        cluster.sterna(&["run", "--name", "much", "--", "sh", "-c", much]).status.code(),
        Some(3)
    );
    let result = ask("much").expect("a result");
    assert_eq!((result.text.len(), result.is_cut), (50 << 10, true));
    cluster.answer(&["run", "--name", "none", "--", "true"]);
    assert_eq!(ask("none").expect_err("there is none").code(), Some(Code::NotFound));
    cluster.answer(&["run", "--detach", "--name", "long", "--", "sleep", "1000"]);
    assert_eq!(ask("long").expect_err("it is not over").code(), Some(Code::WrongPhase));
    assert_eq!(ask("other").expect_err("no such task").code(), Some(Code::NotFound));
}
