//! Commands as people type them.

use sterna_api::rest::{Code, ResultView};
use sterna_model::WallTime;

use crate::{
    place::{Cluster, LONG, program, signal, wait_until},
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
    // Standard input is not passed on.
    let mut reads = program();
    reads.args(["run", "--", "cat"]).current_dir(&cluster.path);
    let file = std::fs::File::open(cluster.path.join("dev.log")).expect("its log");
    let read = reads.stdin(file).output().expect("sterna runs");
    assert_eq!((read.status.code(), &read.stdout[..]), (Some(0), &b""[..]));
    // Bytes that are no text come out as they went in.
    let bytes = cluster.sterna(&["run", "--", "printf", r"\377\000\n"]);
    assert_eq!(bytes.stdout, b"\xff\x00\n");
}

/// What README promises: the toolchain, and nothing else.
#[test]
fn the_tour_runs_and_needs_nothing_but_a_shell() {
    let tour = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/tour.toml");
    let text = std::fs::read_to_string(tour).expect("the tour is there");
    let programs =
        text.lines().filter_map(|line| line.split_once("run = [\"")?.1.split('"').next());
    let programs: std::collections::BTreeSet<_> = programs.collect();
    assert_eq!(programs, ["sh", "test"].into(), "every Linux has these");
    let cluster = Cluster::start("tour", &[tour]);
    wait_until("two run", LONG, || cluster.answer(&["ls", "services"]).contains("2/2"));
    wait_until("the task is over", LONG, || {
        cluster.answer(&["ls", "tasks"]).contains("exited with 0")
    });
    assert_eq!(cluster.answer(&["logs", "last"]), "hello from worker-1\ndone\n");
    wait_until("it ticks", LONG, || cluster.answer(&["logs", "clock/1"]).lines().count() > 1);
}

/// When it began was forgotten as soon as it was over, also by a server that reads it from the store.
#[test]
fn a_task_that_is_over_says_when_it_began_and_how_long_it_took() {
    let cluster = Cluster::start("began", &[]);
    cluster.answer(&["run", "--name", "short", "--", "sleep", "0.3"]);
    let task = || cluster.json(&["ls", "tasks", "short"])["tasks"][0].clone();
    let told = task();
    let at = |field: &str| -> WallTime {
        let at = told[field].as_str().unwrap_or_else(|| panic!("no {field}: {told}"));
        at.parse().expect("a moment")
    };
    assert!(at("made") <= at("started") && at("started") < at("ended"), "{told}");
    let took = told["took_ms"].as_u64().expect("how long it took");
    assert!(took >= 300 && took == at("ended").since(at("started")).as_millis(), "{told}");
    let listed = cluster.answer(&["ls", "tasks"]);
    assert!(listed.contains("STARTED") && listed.contains("RAN"), "{listed}");
    assert!(listed.contains("exited with 0, "), "when it ended: {listed}");
    signal(cluster.child("server"), "KILL");
    cluster.ready();
    assert_eq!(task()["started"], told["started"]);
    // What no worker ever had did not begin.
    cluster.sterna(&["run", "--name", "never", "--fail-when-full", "--tag", "gpu", "--", "true"]);
    let never = cluster.json(&["ls", "tasks", "never"])["tasks"][0].clone();
    assert_eq!(never["end"]["why"], "no-room", "{never}");
    assert!(never["started"].is_null() && never["took_ms"].is_null(), "{never}");
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
    assert!(
        !early.status.success() && said.contains("long is running: it does not allow delete"),
        "{said}"
    );
    assert!(cluster.answer(&["cancel", "long"]).contains("is cancelled"));
    let again = cluster.sterna(&["cancel", "long"]);
    assert!(!again.status.success(), "cancelling what has ended is refused");
    let why = cluster.answer(&["why", "last"]);
    assert!(why.contains("task/long: cancelled"), "{why}");
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
    assert!(
        cluster.answer(&["plan", "a.toml"]).contains("service web: would create, with 2 instances")
    );
    assert!(cluster.answer(&["ls"]).is_empty(), "a plan changes nothing");
    let applied = cluster.answer(&["apply", "a.toml"]);
    assert!(applied.contains("task once: started as once."), "{applied}");
    wait_until("two run", LONG, || cluster.answer(&["ls"]).contains("2/2"));
    let again = cluster.answer(&["apply", "a.toml"]);
    assert!(again.contains("web: unchanged") && again.contains("once: unchanged"), "{again}");
    cluster.write("a.toml", &spec(3));
    assert!(
        cluster
            .answer(&["plan", "a.toml"])
            .contains("would start 1 more instance, from index 2 on")
    );
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
    // What is started is called by its version, too; what is only defined may have any name.
    let long = |start: bool| {
        let name = "x".repeat(63);
        format!("version = 1\n[task.{name}]\nrun = [\"true\"]\nstart = {start}\n")
    };
    cluster.write("long.toml", &long(true));
    for command in ["plan", "apply"] {
        let bad = cluster.sterna(&[command, "long.toml"]);
        let said = String::from_utf8_lossy(&bad.stderr).into_owned();
        assert_eq!(bad.status.code(), Some(65), "{said}");
        assert!(said.contains("long.toml:2:7") && said.contains("may have 54"), "{said}");
    }
    cluster.write("long.toml", &long(false));
    assert!(cluster.answer(&["plan", "long.toml"]).contains("would create its definition"));
    assert!(cluster.answer(&["apply", "long.toml"]).contains(": definition created; "));
    // More than a server takes is not sent.
    let file = format!("version = 1\n# {}\n", "x".repeat(1_000_000));
    let names: Vec<_> = (0..5).map(|number| format!("large-{number}.toml")).collect();
    for (number, name) in names.iter().enumerate() {
        cluster.write(name, &format!("{file}[task.t{number}]\nrun = ['true']\n"));
    }
    for command in ["plan", "apply"] {
        let all: Vec<_> = [command].into_iter().chain(names.iter().map(String::as_str)).collect();
        let large = cluster.sterna(&all);
        let said = String::from_utf8_lossy(&large.stderr).into_owned();
        assert_eq!(large.status.code(), Some(65), "{said}");
        assert!(said.contains("a server takes 4194304") && said.contains("fewer files"), "{said}");
    }
    // No option is at fault where it is all of them.
    let long = |name: &str| format!("{name}={}", "y".repeat(100_000));
    let run = ["run", "-e", &long("A"), "-e", &long("B"), "-e", &long("C"), "--", "true"];
    let long = cluster.sterna(&run);
    let said = String::from_utf8_lossy(&long.stderr).into_owned();
    assert_eq!(long.status.code(), Some(65), "{said}");
    assert!(said.starts_with("error: this task: what its workers must know of it"), "{said}");
    let size = cluster.sterna(&["run", "--memory", "lots", "--", "true"]);
    assert_eq!(size.status.code(), Some(65), "{}", String::from_utf8_lossy(&size.stderr));
    let nobody = cluster.sterna(&["status", "--server", "127.0.0.1:1"]);
    assert_eq!(nobody.status.code(), Some(69));
    let mut stranger = program();
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

#[test]
fn a_second_dev_in_a_directory_leaves_the_first_one_alone() {
    let cluster = Cluster::start("second", &[]);
    let second = cluster.sterna(&["dev", "--listen", "127.0.0.1:0"]);
    let said = String::from_utf8_lossy(&second.stderr).into_owned();
    assert_eq!(second.status.code(), Some(75), "{said}");
    assert!(said.contains("in use"), "{said}");
    assert_eq!(cluster.answer(&["run", "--", "echo", "hello"]), "hello\n");
}

#[test]
fn what_would_be_asked_wrongly_is_not_asked() {
    let cluster = Cluster::start("asked", &[]);
    let address = cluster.read(".sterna/address").trim().to_owned();
    let url = format!("http://{address}/");
    cluster.answer(&["status", "--server", &url]);
    let asks = |args: &[&str], (name, value): (&str, &str)| {
        let mut command = program();
        let command = command.args(args).env(name, value).current_dir(&cluster.path);
        let output = command.output().expect("sterna runs");
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let plain = ("STERNA_TOKEN", "x");
    for (args, word) in [
        (&["status", "--server", &format!("https://{address}")][..], "TLS"),
        (&["status", "--server", "nowhere"], "HOST:PORT"),
        (&["status", "--server", "127.0.0.1:1/v1"], "HOST:PORT"),
        (&["ls", "--namespace", "a/b"], "--namespace"),
        (&["undrain", "worker-1?x=y"], "neither the name of a worker nor a lock"),
        (&["drain", "../status"], "neither the name of a worker nor a lock"),
    ] {
        let (code, said) = asks(args, plain);
        assert_eq!(code, Some(64), "{args:?}: {said}");
        assert!(said.contains(word), "{args:?}: {said}");
    }
    let refused = cluster.sterna(&["drain", "worker-1", "--within", "9999d"]);
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(!refused.status.success() && said.contains("(30 days) at most"), "{said}");
    let (code, said) = asks(&["status"], ("STERNA_TOKEN_FILE", "/none/such"));
    assert_eq!(code, Some(77), "{said}");
    assert!(said.contains("STERNA_TOKEN_FILE: cannot read /none/such"), "{said}");
    // Somebody else's server does not learn the token of this `dev`.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let other = listener.local_addr().expect("an address").to_string();
    let heard = std::thread::spawn(move || {
        let (mut socket, _) = listener.accept().expect("somebody asks");
        let (mut heard, mut some) = (Vec::new(), [0; 1_024]);
        while !heard.windows(4).any(|end| end == b"\r\n\r\n") {
            let count = std::io::Read::read(&mut socket, &mut some).expect("it is sent");
            heard.extend_from_slice(&some[..count]);
        }
        String::from_utf8_lossy(&heard).into_owned()
    });
    cluster.sterna(&["status", "--server", &other]);
    let heard = heard.join().expect("it was heard");
    assert!(!heard.contains(cluster.read(".sterna/admin.token").trim()), "{heard}");
    assert!(heard.contains("authorization: Bearer"), "{heard}");
}

#[test]
fn where_nobody_can_listen_is_said_by_the_exit_code() {
    let cluster = Cluster::start("listens", &[]);
    let taken = cluster.read(".sterna/address").trim().to_owned();
    for (listen, code) in [("192.0.2.1:7411", 64), (&*taken, 75)] {
        for command in ["server", "dev"] {
            let data = format!("{command}-{code}");
            let said = cluster.sterna(&[command, "--listen", listen, "--data", &data]);
            let (said, got) = (String::from_utf8_lossy(&said.stderr), said.status.code());
            assert_eq!(got, Some(code), "{command} --listen {listen}: {said}");
            assert!(said.contains(listen), "{said}");
        }
    }
}

/// After a delete it would be another task.
#[test]
fn the_last_task_is_deleted_by_its_name() {
    let cluster = Cluster::start("delete-last", &[]);
    cluster.answer(&["run", "--name", "first", "--", "true"]);
    cluster.answer(&["run", "--name", "second", "--", "true"]);
    let refused = cluster.sterna(&["delete", "last"]);
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(64), "{said}");
    assert!(said.contains("sterna delete task/second"), "{said}");
    let named = cluster.sterna(&["run", "--name", "last", "--", "true"]);
    let said = String::from_utf8_lossy(&named.stderr).into_owned();
    assert_eq!(named.status.code(), Some(64), "{said}");
    assert!(
        said.contains("--name: 'last' means the task that was made last: give it another"),
        "{said}"
    );
    cluster.answer(&["delete", "task/second"]);
    let left = cluster.answer(&["ls", "tasks"]);
    assert!(left.contains("first") && !left.contains("second"), "{left}");
}
