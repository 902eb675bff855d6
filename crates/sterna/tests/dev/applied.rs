//! `sterna apply --wait` and `--prune`.

use std::{io::Write as _, process::Stdio};

use crate::{
    place::{Cluster, LONG, program, wait_until},
    terminal::Terminal,
};

fn spec(names: &[&str]) -> String {
    let service = |name: &&str| format!("[service.{name}]\nrun = [\"sleep\", \"1000\"]\n");
    format!("version = 1\n{}", names.iter().map(service).collect::<String>())
}

fn services(cluster: &Cluster) -> Vec<String> {
    let all = cluster.json(&["ls", "services"])["services"].clone();
    let all = all.as_array().expect("a list").clone();
    all.iter().map(|it| it["name"].as_str().expect("a name").to_owned()).collect()
}

/// Its exit code, what it answers and what it says.
fn typed(cluster: &Cluster, args: &[&str]) -> (Option<i32>, String, String) {
    let output = cluster.sterna(args);
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

/// An instance is ready when there is a file.
fn slow(cluster: &Cluster, more: &str) -> String {
    let ready = cluster.path.join("ready").display().to_string();
    format!(
        "version = 1\n[service.web]\nrun = [\"sleep\", \"1000\"]\n\
         readiness = {{ run = [\"test\", \"-e\", \"{ready}\"], interval = \"100ms\" }}\n{more}"
    )
}

#[test]
fn an_apply_that_waits_is_over_when_all_is_where_its_spec_wants_it() {
    let cluster = Cluster::start("settled", &[]);
    let more = "[task.once]\nrun = [\"true\"]\nstart = true\n[task.later]\nrun = [\"true\"]\n";
    cluster.write("web.toml", &slow(&cluster, more));
    // Its instance runs, and is not ready: nothing is where it should be until it is.
    let (code, told, said) = typed(&cluster, &["apply", "--wait", "--timeout", "3s", "web.toml"]);
    assert_eq!(code, Some(75), "{said}");
    assert!(
        told.contains("service web: created, with 1 instance"),
        "what was done is told: {told}"
    );
    assert!(!told.contains("as its spec wants it"), "{told}");
    let lines: Vec<_> = said.lines().collect();
    assert!(
        lines[0].contains("1 of 2 are as their specs want them; default/service/web/0"),
        "{said}"
    );
    assert!(lines[1].starts_with("error: not as their specs want them within 3s: 1;"), "{said}");
    assert!(
        said.contains("default/service/web/0: it runs, but its readiness probe"),
        "why: {said}"
    );
    assert!(!said.contains(['\r', '\u{1b}']), "plain lines: {said:?}");
    let mut child = program();
    child.args(["apply", "--wait", "web.toml"]).current_dir(&cluster.path);
    child.stdin(Stdio::null()).stdout(Stdio::piped());
    let child = child.spawn().expect("sterna runs");
    cluster.write("ready", "");
    let output = child.wait_with_output().expect("it ends");
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{told}");
    assert!(told.ends_with("everything is as its spec wants it\n"), "{told}");
    // Programs get the same object as without it.
    let said = cluster.json(&["apply", "--wait", "web.toml"]);
    assert_eq!(said["services"][0]["name"], "web");
}

#[test]
fn an_apply_that_waits_fails_when_the_version_is_taken_back_or_a_task_cannot_begin() {
    let cluster = Cluster::start("settled-not", &[]);
    let web = |run: &str| {
        format!(
            "version = 1\n[service.web]\nrun = [\"sh\", \"-c\", \"{run}\"]\n\
             update = {{ revert_after = 1, healthy_for = \"1s\" }}\n"
        )
    };
    cluster.write("web.toml", &web("sleep 1000"));
    cluster.answer(&["apply", "--wait", "web.toml"]);
    cluster.write("bad.toml", &web("exit 3"));
    let (code, _, said) = typed(&cluster, &["apply", "--wait", "bad.toml"]);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("version 1 was rolled back") && said.contains("exited with 3"), "{said}");
    // That it was is no failure of what is applied after it.
    wait_until("it is as before", LONG, || cluster.answer(&["why", "web"]).contains("is as its"));
    cluster.answer(&["apply", "--wait", "web.toml"]);
    cluster.write(
        "task.toml",
        "version = 1\n[task.t]\nrun = [\"true\"]\nstart = true\nwhen_full = \"fail\"\ntags = [\"gpu\"]\n",
    );
    let (code, _, said) = typed(&cluster, &["apply", "--wait", "task.toml"]);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("did not start: no room"), "{said}");
    let (code, _, said) = typed(&cluster, &["apply", "--timeout", "3s", "web.toml"]);
    assert_eq!(code, Some(64), "a time without a wait is a mistake: {said}");
}

#[test]
fn an_apply_that_waits_fails_when_a_task_cannot_start_or_fails_at_once() {
    let cluster = Cluster::start("settled-tasks", &[]);
    let task = |more: &str| format!("version = 1\n[task.t]\nstart = true\n{more}\n");
    let fails = [
        ("nope", "run = [\"./nope\"]", "has failed: failed to start"),
        ("image", "run = [\"true\"]\nimage = { rootfs = \"/no/such/image\" }", "is missing"),
        ("exit", "run = [\"sh\", \"-c\", \"exit 3\"]", "has failed: exited with 3"),
    ];
    for (name, more, why) in fails {
        let file = format!("{name}.toml");
        cluster.write(&file, &task(more));
        let (code, told, said) = typed(&cluster, &["apply", "--wait", &file]);
        assert_eq!(code, Some(1), "{name}: {told} {said}");
        assert!(told.contains("task t: started as t."), "{name}: {told}");
        assert!(said.contains(why) && !told.contains("as its spec wants it"), "{name}: {said}");
        // It is not started again, and has failed all the same.
        let (code, told, said) = typed(&cluster, &["apply", "--wait", &file]);
        assert_eq!(code, Some(1), "{name}: {told} {said}");
        assert!(
            told.contains("was already started") && said.contains(why),
            "{name}: {told} {said}"
        );
    }
    cluster.write("long.toml", &task("run = [\"sleep\", \"1000\"]"));
    let (code, told, said) = typed(&cluster, &["apply", "--wait", "long.toml"]);
    assert_eq!(code, Some(0), "{told} {said}");
    assert!(cluster.answer(&["ls", "tasks"]).contains("running"), "it goes on");
}

#[test]
fn what_the_files_no_longer_name_is_deleted_only_if_somebody_agrees() {
    let cluster = Cluster::start("pruned", &[]);
    cluster.write("all.toml", &spec(&["one", "three", "two"]));
    cluster.write("one.toml", &spec(&["one"]));
    cluster.answer(&["apply", "--wait", "all.toml"]);
    cluster.answer(&["apply", "--namespace", "other", "all.toml"]);
    assert!(!cluster.answer(&["plan", "one.toml"]).contains("two"), "nothing goes by itself");
    let plan = cluster.answer(&["plan", "--prune", "one.toml"]);
    let wanted = "service one: no change\nservice three: would delete, and end 1 instance\nservice two: would \
                  delete, and end 1 instance\n";
    assert_eq!(plan, wanted);
    // Nobody can be asked here.
    let (code, told, said) = typed(&cluster, &["apply", "--prune", "one.toml"]);
    assert_eq!((code, told.as_str()), (Some(64), ""), "{said}");
    assert!(said.contains("three, two") && said.contains("--yes"), "{said}");
    assert_eq!(services(&cluster), ["one", "three", "two"], "nothing was changed");
    // A file that says nothing by mistake would delete everything.
    cluster.write("empty.toml", "version = 1\n");
    let (code, _, said) = typed(&cluster, &["apply", "--prune", "--yes", "empty.toml"]);
    assert_eq!(code, Some(65), "{said}");
    assert!(said.contains("name no service") && services(&cluster).len() == 3, "{said}");
    let told = cluster.answer(&["apply", "--prune", "--yes", "--wait", "one.toml"]);
    assert!(told.contains("service two: deleted; ending 1 instance"), "{told}");
    assert_eq!(services(&cluster), ["one"]);
    let left = cluster.json(&["ls", "instances"])["instances"].as_array().map(Vec::len);
    assert_eq!(left, Some(1), "what was deleted has ended by then");
    let other = cluster.json(&["ls", "services", "--namespace", "other"]);
    assert_eq!(other["services"].as_array().map(Vec::len), Some(3), "another's are not touched");
    // There is nothing more to agree to.
    cluster.answer(&["apply", "--prune", "one.toml"]);
}

#[test]
fn who_prunes_on_a_terminal_is_asked_and_only_a_yes_deletes() {
    let cluster = Cluster::start("pruned-asked", &[]);
    cluster.write("all.toml", &spec(&["one", "two"]));
    cluster.write("one.toml", &spec(&["one"]));
    cluster.answer(&["apply", "all.toml"]);
    let answered = |answer: &str| {
        let terminal = Terminal::new(80);
        let mut child = terminal.start(&cluster, &["apply", "--prune", "one.toml"], &[]);
        let mut typing = terminal.typing();
        let reading = terminal.read();
        typing.write_all(answer.as_bytes()).expect("somebody types");
        let code = child.wait().expect("it ends").code();
        drop(typing);
        (code, reading.join().expect("everything was read"))
    };
    let (code, shown) = answered("n\n");
    assert_eq!(code, Some(1), "{shown}");
    assert!(shown.contains("service two: would delete") && shown.contains("[y/N]"), "{shown}");
    assert!(shown.contains("nothing was changed"), "{shown}");
    assert_eq!(services(&cluster), ["one", "two"]);
    let (code, shown) = answered("y\n");
    assert_eq!(code, Some(0), "{shown}");
    assert_eq!(services(&cluster), ["one"]);
}

#[test]
fn only_what_was_shown_is_deleted_and_never_what_the_files_name() {
    let api = crate::api::Api::start("api-pruned");
    let path = |call: &str| format!("/v1/namespaces/default/{call}");
    let file = serde_json::json!([{ "name": "one.toml", "text": spec(&["one"]) }]);
    let ask = |call: &str, more: serde_json::Value| {
        let mut body = more;
        body["files"] = file.clone();
        api.ask("POST", &path(call), &[], Some(&body))
    };
    for name in ["two", "three"] {
        let body = serde_json::json!({ "spec": { "run": ["true"] } });
        api.ask("PUT", &path(&format!("services/{name}")), &[], Some(&body));
    }
    let plan = ask("plan", serde_json::json!({ "prune": true }));
    assert_eq!(plan.body["services"][2]["changes"][0]["kind"], "delete", "{}", plan.text);
    let named = ask("apply", serde_json::json!({ "delete": ["one"] }));
    assert_eq!((named.status, &named.body["code"]), (400, &"bad-request".into()), "{}", named.text);
    assert!(named.text.contains("the files name service one"), "{}", named.text);
    let done = ask("apply", serde_json::json!({ "delete": ["two", "gone"] }));
    assert_eq!(done.status, 200, "{}", done.text);
    let left = api.ask("GET", &path("services"), &[], None);
    let names: Vec<_> = left.body["items"].as_array().expect("a list").iter().collect();
    let names: Vec<_> = names.iter().map(|it| it["name"].as_str().expect("a name")).collect();
    assert_eq!(names, ["one", "three"], "three came after the plan, or was not agreed to");
}
