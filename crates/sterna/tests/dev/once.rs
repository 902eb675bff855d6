//! A version of a definition is started once, however late its file is applied again.

use crate::place::{Cluster, LONG, wait_until};

/// When the record and the name of its task had gone, the same file started it a second time.
#[test]
fn a_version_is_not_started_again_when_nothing_is_kept_of_its_task() {
    let cluster = Cluster::start("once", &["--keep-tasks", "1s", "--caution-keep-names", "1s"]);
    let spec = "version = 1\n[task.build]\nstart = true\nrun = [\"sh\", \"-c\", \"echo built >> $HERE/log\"]\n";
    let here = cluster.path.to_string_lossy().into_owned();
    cluster.write("build.toml", &spec.replace("$HERE", &here));
    let applied = cluster.json(&["apply", "build.toml"]);
    assert!(applied.to_string().contains("\"started\":true"), "{applied}");
    let is_empty = || cluster.json(&["ls", "tasks"])["tasks"].as_array().is_some_and(Vec::is_empty);
    wait_until("it ran", LONG, || cluster.read("log") == "built\n");
    wait_until("its record has gone", LONG, is_empty);
    // Of a task that nobody defined the name is free by now, too.
    cluster.answer(&["run", "--name", "t", "--", "true"]);
    wait_until("a name is free again", LONG, || {
        cluster.sterna(&["run", "--name", "t", "--", "true"]).status.success()
    });
    let planned = cluster.json(&["plan", "build.toml"]);
    assert!(planned.to_string().contains("\"starts\":false"), "{planned}");
    let applied = cluster.json(&["apply", "build.toml"]);
    assert!(applied.to_string().contains("\"started\":false"), "{applied}");
    // Another version is another task.
    cluster.write("build.toml", &spec.replace("$HERE", &here).replace("built", "again"));
    cluster.answer(&["apply", "build.toml"]);
    wait_until("it ran", LONG, || cluster.read("log").ends_with("again\n"));
    assert_eq!(cluster.read("log"), "built\nagain\n");
    wait_until("its record has gone", LONG, is_empty);
    // Its record has gone: to delete it again is no more than that.
    let name = applied["tasks"][0]["task"].as_str().expect("what it was started as").to_owned();
    let said = cluster.sterna(&["delete", &name]);
    assert_eq!(said.status.code(), Some(1), "{said:?}");
    let planned = cluster.json(&["plan", "build.toml"]);
    assert!(planned.to_string().contains("\"starts\":false"), "{planned}");
    // Whoever wants it to be started again deletes the name, which is free a moment later.
    let said = cluster.answer(&["delete", "--name", &name]);
    assert_eq!(said, format!("the name of task/{name} is forgotten\n"));
    cluster.write("build.toml", &spec.replace("$HERE", &here));
    wait_until("it is started again", LONG, || {
        cluster.json(&["apply", "build.toml"]).to_string().contains("\"started\":true")
    });
    for no_such in [&["delete", "nothing-like-it"][..], &["delete", "--name", "nothing-like-it"]] {
        let said = cluster.sterna(no_such);
        assert_eq!(said.status.code(), Some(1), "{said:?}");
    }
}
