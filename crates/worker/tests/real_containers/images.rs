//! What images alone can do, and images that cannot be used.

use serde_json::{Value, json};

use crate::worker::{LONG, Place, Runtime, Worker, run, signal, wait_until};

/// How many groups there are below ours, in any hierarchy.
pub(crate) fn groups_of_runs(place: &Place) -> usize {
    let below = |group| std::fs::read_dir(group).unwrap().flatten();
    let groups = place.groups().into_iter().flat_map(below);
    groups.filter(|entry| entry.path().is_dir()).count()
}

/// Asserts that each of these ends for its reason, and that nothing of them is left.
fn assert_refused(place: &Place, worker: &mut Worker, cases: &[(&[&str], Value, &str)]) {
    for (number, (command, more, _)) in (1..).zip(cases) {
        worker.start_run(place, number, command, more.clone());
    }
    for (number, (command, more, reason)) in (1..).zip(cases) {
        let end = worker.end(number);
        let cause = end["completed"].as_str().unwrap();
        let is_named = cause.starts_with("FailedToStart") && cause.contains(reason);
        assert!(is_named, "{command:?} {more}: {reason:?} is not in {cause}");
        worker.tell(&json!({ "acknowledge": { "run": run(number) } }));
    }
    wait_until("nothing of them is left", LONG, || {
        let runs = place.runs();
        runs == 0 && groups_of_runs(place) == 0
    });
}

#[test]
fn an_image_that_cannot_be_used_says_why_and_leaves_nothing() {
    let place = Place::with(Runtime::Oci);
    let mut worker = Worker::start(&place);
    let bundle = |name: &str, config: Option<&str>| {
        let path = place.path.join(name);
        std::fs::create_dir(&path).unwrap();
        if let Some(config) = config {
            std::fs::write(path.join("config.json"), config).unwrap();
        }
        json!({ "image": { "bundle": path } })
    };
    let with = |name: &str, value: Value| {
        let mut image = place.image();
        image[name] = value;
        json!({ "image": image })
    };
    let absent = json!([{ "source": "/no/such/source", "target": "/data" }]);
    let cases: Vec<(&[&str], Value, &str)> = vec![
        (
            &["true"],
            json!({ "image": { "rootfs": "/no/such/image" } }),
            "/no/such/image is missing",
        ),
        (&["true"], json!({ "image": { "rootfs": "rootfs" } }), "rootfs is no whole path"),
        (
            &["true"],
            json!({ "image": { "bundle": "/no/such/bundle" } }),
            "/no/such/bundle is missing",
        ),
        (&["true"], bundle("bare", None), "bare has no config.json"),
        (&["true"], bundle("torn", Some("{ \"root")), "torn cannot be read"),
        (&["true"], bundle("rootless", Some("{}")), "rootless names no root.path"),
        (&["true"], with("mounts", absent), "/no/such/source, is missing"),
        (
            &["no-such-command"],
            json!({}),
            "exec: \\\"no-such-command\\\": executable file not found",
        ),
        (&["/etc/passwd"], json!({}), "exec: \\\"/etc/passwd\\\": permission denied"),
        (
            &["true"],
            json!({ "directory": "/no/such/place" }),
            "/no/such/place is missing in the image",
        ),
        (&["true"], json!({ "user": "no-such-user" }), "user unknown: no 'no-such-user'"),
        (&["true"], json!({ "group": "no-such-group" }), "group unknown: no 'no-such-group'"),
        (&["true"], json!({ "limits": { "memory": "1KiB" } }), "cannot limit memory to 1KiB"),
        (&["true"], json!({ "limits": { "cpu": "1m" } }), "cannot limit cpu to 0.001: the least"),
        (&["true"], json!({ "limits": { "pids": 0 } }), "cannot limit pids to 0"),
        (&["true"], json!({ "rlimits": { "speed": 1 } }), "no resource limit is called 'speed'"),
        (&[], json!({}), "the command is empty"),
        (&["true"], json!({ "setup": [["no-such-setup"]] }), "no-such-setup"),
        (&["true"], json!({ "signals": { "group": "shared" } }), "leave signals.group as it is"),
        (&["true"], json!({ "signals": { "death": "KILL" } }), "leave out signals.death"),
    ];
    assert_refused(&place, &mut worker, &cases);
    worker.end_by("TERM");
    place.assert_no_groups();
}

#[test]
fn a_machine_that_cannot_run_images_says_so() {
    let place = Place::with(Runtime::Oci);
    let mut worker = Worker::start_so(&place, "cgroup2", &["without-runtime"]);
    let reason = "this machine has no container runtime that can be used";
    assert_refused(&place, &mut worker, &[(&["true"], json!({}), reason)]);
    worker.end_by("TERM");
    let mut worker = Worker::start_with(&place, "tree");
    let reason = "a run with an image must be held by cgroups";
    assert_refused(&place, &mut worker, &[(&["true"], json!({}), reason)]);
    worker.end_by("TERM");
}

#[test]
fn a_run_finds_its_image_and_nothing_else_of_the_machine() {
    let place = Place::with(Runtime::Oci);
    let mut worker = Worker::start(&place);
    let mut image = place.image();
    let given = place.path.join("given");
    std::fs::create_dir(&given).unwrap();
    std::fs::write(given.join("file"), "given\n").unwrap();
    image["read_only"] = json!(true);
    image["network"] = json!("none");
    image["mounts"] = json!([{ "source": given, "target": "/given", "read_only": true }]);
    let program = "cat /given/file; echo no > /given/file || echo kept
        echo no > /etc/passwd || echo closed; echo yes > here && cat here
        ls /root 2>/dev/null || echo not the machine; grep -c : /proc/net/dev; pwd";
    worker.start_run(&place, 1, &["sh", "-c", program], json!({ "image": image }));
    assert_eq!(worker.end(1)["exit"], "Code(0)");
    let said = place.output(&run(1), "stdout");
    // Of networks, its own loopback alone.
    assert_eq!(said, "given\nkept\nclosed\nyes\nnot the machine\n1\n/sterna\n");
    worker.end_by("TERM");
}

/// A file system of its own on a directory, taken off at the end.
struct Mount(std::path::PathBuf);

impl Mount {
    fn new(at: std::path::PathBuf) -> Self {
        let mut command = std::process::Command::new("mount");
        let status = command.args(["-t", "tmpfs", "tmpfs"]).arg(&at).status().unwrap();
        assert!(status.success(), "mount {}", at.display());
        Self(at)
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        drop(std::process::Command::new("umount").arg("--lazy").arg(&self.0).status());
    }
}

#[test]
fn what_is_mounted_below_a_mount_may_be_written_to_only_if_that_may_be() {
    let place = Place::with(Runtime::Oci);
    let mut worker = Worker::start(&place);
    let mut image = place.image();
    let given = place.path.join("given");
    std::fs::create_dir_all(given.join("below")).unwrap();
    let below = Mount::new(given.join("below"));
    std::fs::write(below.0.join("file"), "given\n").unwrap();
    image["mounts"] = json!([
        { "source": given, "target": "/closed", "read_only": true },
        { "source": given, "target": "/open" },
    ]);
    let program = "cat /closed/below/file; echo no > /closed/below/file || echo kept
        echo yes > /open/below/file && cat /closed/below/file";
    worker.start_run(&place, 1, &["sh", "-c", program], json!({ "image": image }));
    assert_eq!(worker.end(1)["exit"], "Code(0)");
    assert_eq!(place.output(&run(1), "stdout"), "given\nkept\nyes\n");
    worker.end_by("TERM");
}

#[test]
fn a_bundle_brings_its_own_command_and_the_work_has_the_last_word() {
    let place = Place::with(Runtime::Oci);
    let mut worker = Worker::start(&place);
    let program = "echo $FROM $LANG $PATH $HOME in $(pwd) as $(id -u) $1; echo it $(cat /proc/self/stat | wc -w)";
    let config = json!({
        "ociVersion": "1.0.2",
        "process": {
            "terminal": true, "user": { "uid": 7, "gid": 7 }, "cwd": "/etc",
            "args": ["sh", "-c", program, "sh", "its own"],
            "env": ["PATH=/bin", "HOME=/its", "FROM=bundle", "LANG=C"],
        },
        "root": { "path": "rootfs" },
        "mounts": [{ "destination": "/proc", "type": "proc", "source": "proc" }],
        "linux": { "namespaces": [{ "type": "pid" }, { "type": "mount" }] },
    });
    std::fs::write(place.path.join("config.json"), config.to_string()).unwrap();
    let image = json!({ "bundle": place.path });
    worker.start_run(&place, 1, &[], json!({ "image": image }));
    assert_eq!(worker.end(1)["exit"], "Code(0)");
    assert!(
        place.output(&run(1), "stdout").starts_with("bundle C /bin /its in /etc as 7 its own\n")
    );
    let mark = place.path.to_str().unwrap();
    worker.start_run(
        &place,
        2,
        &["sh", "-c", "echo $FROM $LANG in $(pwd) as $(id -u); echo $$"],
        json!({
            "image": image, "user": "nobody", "directory": "/bin",
            "env": { "FROM": "work", "STERNA_TEST_MARK": mark },
        }),
    );
    assert_eq!(worker.end(2)["exit"], "Code(0)");
    // The first process of its own, because the bundle says so.
    assert_eq!(place.output(&run(2), "stdout"), "work C in /bin as 65534\n1\n");
    worker.end_by("TERM");
}

#[test]
fn a_guardian_that_is_killed_while_an_image_is_started_leaves_nothing_running() {
    let place = Place::with(Runtime::Oci);
    for round in 0..8 {
        let mut worker = Worker::start(&place);
        for number in 1..=4 {
            worker.start_run(&place, round * 10 + number, &["sleep", "1000"], json!({}));
        }
        worker.wait_for_state(round * 10 + 1, "Created");
        signal(place.guardian().unwrap(), "KILL");
        // Each goes on under the next guardian, or is over; nothing is in between.
        for number in 1..=4 {
            worker.tell(&json!({ "stop": { "run": run(round * 10 + number), "grace": "1s" } }));
        }
        for number in 1..=4 {
            let end = worker.end(round * 10 + number);
            assert_ne!(end["exit"], "Code(0)", "{end}");
            worker.tell(&json!({ "acknowledge": { "run": run(round * 10 + number) } }));
        }
        assert!(place.marked().is_empty(), "{:?}", place.marked());
        worker.end_by("TERM");
    }
    place.assert_no_groups();
}

/// Whoever a user was when the run began, that it is.
#[test]
fn a_run_whose_user_is_gone_meanwhile_is_taken_over() {
    let place = Place::with(Runtime::Oci);
    let passwd = place.path.join("rootfs/etc/passwd");
    std::fs::write(&passwd, "bob:x:4711:4711:bob:/:/bin/sh\n").unwrap();
    let mut worker = Worker::start(&place);
    let go = place.path.join("go");
    let waits = format!("while [ ! -e {} ]; do sleep 0.05; done; exit 4", go.display());
    let kept = json!({ "when_worker_exits": "keep", "user": "bob" });
    worker.start_run(&place, 1, &["sh", "-c", &waits], kept);
    worker.wait_for_state(1, "Running");
    worker.kill();
    std::fs::write(&passwd, "").unwrap();
    let mut next = Worker::start(&place);
    next.wait_for_state(1, "Running");
    std::fs::write(&go, "").unwrap();
    assert_eq!(next.end(1)["exit"], "Code(4)");
    next.end_by("TERM");
}

#[test]
fn another_user_of_an_image_may_open_its_status_pipe() {
    let place = Place::with(Runtime::Oci);
    let mut worker = Worker::start(&place);
    let node = json!({ "name": "n", "json": "{}" });
    let more = json!({ "user": "nobody", "node": node });
    worker.start_run(&place, 1, &["sh", "-c", "echo done > \"$2\"", "x"], more);
    let end = worker.end(1);
    assert_eq!((&end["exit"], &end["status"]), (&json!("Code(0)"), &json!("done")));
    worker.end_by("TERM");
}
