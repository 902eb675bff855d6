//! Work that is to run as somebody else.

use std::os::unix::process::CommandExt as _;

use crate::place::{Cluster, LONG, wait_until};

/// Nobody's: any number but root's will do.
const NOBODY: u32 = 65_534;

#[test]
fn a_worker_that_is_not_root_says_that_it_cannot_run_work_as_another_user() {
    let cluster = Cluster::start_so("not-root", &[], |dev| {
        dev.uid(NOBODY).gid(NOBODY);
    });
    // What it cannot hold work to is said at its start, and as long as it is so.
    let lacks = "memory is not limited";
    wait_until("it says what it lacks", LONG, || cluster.said().contains(lacks));
    let status = cluster.answer(&["status"]);
    assert!(status.contains("warning   worker-1: ") && status.contains(lacks), "{status}");
    for (field, value, named) in [
        ("user", "daemon", "user = \"daemon\": only a worker that is root"),
        ("group", "daemon", "group = \"daemon\": only a worker that is root"),
        // Its own directory it may have, and no other groups than it has.
        ("user", "65534", "user, group: only a worker that is root"),
    ] {
        let name = format!("as-{field}-{value}");
        let spec = format!(
            "version = 1\n[task.{name}]\nstart = true\nrun = [\"true\"]\n{field} = \"{value}\"\n"
        );
        cluster.write("users.toml", &spec);
        cluster.answer(&["apply", "users.toml"]);
        let mut end = String::new();
        wait_until("it is over", LONG, || {
            let tasks = cluster.json(&["ls", "tasks"]);
            let tasks = tasks["tasks"].as_array().cloned().unwrap_or_default();
            let of =
                |it: &serde_json::Value| it["key"].as_str().is_some_and(|it| it.contains(&name));
            let task = tasks.into_iter().find(of).unwrap_or_default();
            end = task["end"]["text"].as_str().unwrap_or_default().to_owned();
            !end.is_empty()
        });
        assert!(end.contains("failed to start") && end.contains(named), "{end}");
        assert!(end.contains("leave it out, or start the worker as root"), "{end}");
    }
}
