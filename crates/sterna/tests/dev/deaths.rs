//! What becomes of everything when something is killed.

use std::{
    collections::BTreeSet,
    fs,
    process::{Command, Stdio},
    thread::sleep,
    time::Duration,
};

use sterna_model::Fence;

use crate::place::{Cluster, LONG, now, of_directory, program, signal, wait_until};

const SERVICE: &str = "version = 1\n[service.web]\nrun = [\"sh\", \"-c\", \"echo $$ >> $HERE/pids; exec sleep 1000\"]\n";

/// A service that writes down its processes, and the newest of them.
fn service(cluster: &Cluster) -> String {
    service_of(cluster, SERVICE)
}

fn service_of(cluster: &Cluster, spec: &str) -> String {
    let here = cluster.path.display().to_string();
    cluster.write("web.toml", &spec.replace("$HERE", &here));
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

/// Two workers with instances that heed no TERM and are never killed for it; and who has some.
fn stubborn(name: &str) -> (Cluster, BTreeSet<String>) {
    let cluster = Cluster::start(name, &["--workers", "2"]);
    let here = cluster.path.display();
    let run = format!("trap '' TERM; echo $$ >> {here}/pids; while :; do sleep 1; done");
    cluster.write(
        "web.toml",
        &format!(
            "version = 1\n[service.web]\nrun = [\"sh\", \"-c\", \"{run}\"]\ninstances = 4\n\
             signals = {{ grace = \"never\" }}\n"
        ),
    );
    cluster.answer(&["apply", "web.toml"]);
    wait_until("all run", LONG, || cluster.answer(&["ls", "services"]).contains("4/4"));
    let instances = cluster.json(&["ls", "instances"])["instances"].clone();
    let on = |one: &serde_json::Value| one["worker"].as_str().expect("a worker").to_owned();
    let workers = instances.as_array().expect("a list").iter().map(on).collect();
    (cluster, workers)
}

/// Its instances were given to it again and again, each time with a commit, for as long as it took.
#[test]
fn who_is_told_to_end_is_given_nothing_more() {
    let cluster = Cluster::start("told-to-end", &[]);
    let here = cluster.path.display();
    let slow =
        format!("trap 'sleep 2; exit' TERM; echo $$ >> {here}/slow; while :; do sleep 0.1; done");
    cluster.write(
        "web.toml",
        &format!(
            "version = 1\n[service.slow]\nrun = [\"sh\", \"-c\", \"{slow}\"]\n\
             [service.quick]\nrun = [\"sleep\", \"1000\"]\n"
        ),
    );
    cluster.answer(&["apply", "web.toml"]);
    let both_run = || cluster.answer(&["ls", "services"]).matches("1/1").count() == 2;
    wait_until("both run", LONG, both_run);
    let before = cluster.json(&["status"])["revision"].as_u64().expect("a revision");
    signal(cluster.child("worker"), "TERM");
    wait_until("dev starts it again", LONG, || cluster.read("slow").lines().count() == 2);
    wait_until("both run again", LONG, both_run);
    let after = cluster.json(&["status"])["revision"].as_u64().expect("a revision");
    assert!(after - before < 100, "{} commits for one restart", after - before);
}

#[test]
fn who_does_not_end_is_named_and_killed_when_ctrl_c_comes_again() {
    let (mut cluster, workers) = stubborn("again-c");
    signal(cluster.pid(), "INT");
    wait_until("it says for whom it waits", LONG, || cluster.said().contains("Ctrl-C again"));
    let said = cluster.said();
    for worker in workers {
        let has = format!("{worker}, which still has default/service/web/");
        assert!(said.contains(&has), "{said}");
    }
    signal(cluster.pid(), "INT");
    cluster.ended();
    assert!(of_directory(&cluster.path).is_empty(), "{}", cluster.said());
    assert!(!cluster.said().contains("does not end by itself"), "{}", cluster.said());
}

#[test]
fn children_that_do_not_end_are_killed_at_the_same_time_and_nothing_is_left() {
    let (mut cluster, workers) = stubborn("stubborn");
    // However stubborn what it runs is, a worker ends; not one that stands still.
    cluster.children("worker").into_iter().for_each(|pid| signal(pid, "STOP"));
    let began = now();
    signal(cluster.pid(), "INT");
    cluster.ended();
    assert!(of_directory(&cluster.path).is_empty(), "{}", cluster.said());
    // One after the other they would have 15 s each.
    assert!(began.elapsed() < Duration::from_secs(28), "{:?}", began.elapsed());
    for worker in workers {
        let killed = format!("{worker} does not end by itself");
        assert!(cluster.said().contains(&killed), "{}", cluster.said());
    }
}

#[test]
fn how_long_tasks_are_kept_is_said_to_dev() {
    let cluster = Cluster::start("kept", &["--keep-tasks", "1s", "--caution-keep-names", "1s"]);
    cluster.answer(&["run", "--name", "t", "--", "true"]);
    wait_until("it is kept no longer", LONG, || {
        cluster.json(&["ls", "tasks"])["tasks"].as_array().is_some_and(Vec::is_empty)
    });
}

#[test]
fn a_worker_that_is_heard_is_not_declared_dead_by_mistake() {
    let cluster = Cluster::start("heard", &[]);
    let refused = cluster.sterna(&["declare-dead", "worker-1"]);
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(1), "{said}");
    assert!(
        said.contains(
            "worker worker-1 is not dead: the server hears it (healthy), and it has nothing"
        ),
        "{said}"
    );
    assert!(said.contains("`sterna drain worker-1`"), "{said}");
    assert_eq!(cluster.json(&["ls", "workers"])["workers"][0]["is_declared_dead"], false);
    // One that is stopped is not heard any more, and then it is taken.
    signal(cluster.child("worker"), "STOP");
    let dead = || cluster.sterna(&["declare-dead", "worker-1"]).status.success();
    wait_until("it is not heard", LONG, dead);
    assert_eq!(cluster.json(&["ls", "workers"])["workers"][0]["is_declared_dead"], true);
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

/// `keep` is for the next worker, and after `dev` there is none.
#[test]
fn what_is_kept_for_the_next_worker_ends_with_dev() {
    let spec = SERVICE.to_owned() + "when_worker_exits = \"keep\"\non_silence = \"keep\"\n";
    for name in ["INT", "KILL"] {
        let mut cluster = Cluster::start(&format!("kept-{name}"), &[]);
        let pid = service_of(&cluster, &spec);
        signal(cluster.child("worker"), "KILL");
        wait_until("the worker is back", LONG, || cluster.said().contains("worker-1 is back"));
        assert!(is_alive(&pid), "the next worker has it");
        assert_eq!(newest(&cluster), pid);
        signal(cluster.pid(), name);
        cluster.ended();
        cluster.assert_gone();
        assert!(!is_alive(&pid), "{name}");
    }
    // Its worker is killed and does not come back.
    let mut cluster = Cluster::start("kept-both", &[]);
    let pid = service_of(&cluster, &spec);
    signal(cluster.pid(), "STOP");
    signal(cluster.child("worker"), "KILL");
    assert!(is_alive(&pid));
    signal(cluster.pid(), "KILL");
    cluster.ended();
    cluster.assert_gone();
    assert!(!is_alive(&pid));
}

/// A leader waits for whoever is missing before it starts batches, which there are not yet.
#[test]
fn nobody_is_said_to_be_waited_for_who_holds_up_nothing() {
    let mut cluster = Cluster::start("fewer", &["--workers", "3"]);
    wait_until("all are there", LONG, || cluster.json(&["status"])["workers"]["healthy"] == 3);
    signal(cluster.pid(), "STOP");
    // So that no end is told.
    signal(cluster.child("server"), "KILL");
    cluster.children("worker").into_iter().for_each(|worker| signal(worker, "KILL"));
    signal(cluster.pid(), "KILL");
    cluster.ended();
    cluster.assert_gone();
    cluster.restart(&["--workers", "2"]);
    // Work can be given as soon as one of them is well.
    wait_until("both are there", LONG, || {
        let status = cluster.json(&["status"]);
        assert_eq!(status["waits_for"], serde_json::json!([]), "{status}");
        status["workers"] == serde_json::json!({ "absent": 1, "healthy": 2 })
    });
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
    let mut cluster = Cluster::start("emptied", &[]);
    let pid = service(&cluster);
    assert_eq!(cluster.json(&["status"])["epoch"], 1);
    cluster.empty_store();
    assert!(is_alive(&pid), "what runs goes on");
    assert_eq!(newest(&cluster), pid);
    // Nothing is started, and everybody says so.
    let status = cluster.sterna(&["status"]);
    let said = String::from_utf8_lossy(&status.stderr).into_owned();
    assert_eq!(status.status.code(), Some(75), "{said}");
    assert!(said.contains("the leader starts nothing for"), "{said}");
    assert!(said.contains("`sterna declare-complete`"), "{said}");
    cluster.answer(&["run", "--detach", "--name", "t", "--", "true"]);
    let why = cluster.answer(&["why", "t"]);
    assert!(why.contains("the leader starts nothing") && why.contains("declare-complete"), "{why}");
    signal(cluster.pid(), "INT");
    cluster.ended();
    cluster.again();
    let told = || cluster.said().split("sterna is here").nth(2).map(str::to_owned);
    wait_until("dev is there", LONG, || {
        told().is_some_and(|said| said.contains("starts nothing for"))
    });
}

#[test]
fn who_follows_something_waits_for_a_server_that_is_killed() {
    let cluster = Cluster::start("followed", &[]);
    let follow = |file: &str, args: &[&str]| {
        let create = |file: &str| fs::File::create(cluster.path.join(file)).expect("a file");
        let mut command = program();
        command.args(args).current_dir(&cluster.path).stdin(Stdio::null());
        command.stdout(create(file)).stderr(create(&format!("{file}.err")));
        command.spawn().expect("sterna runs")
    };
    let go = cluster.path.join("go");
    let script = format!(
        "echo before; while [ ! -e {} ]; do sleep 0.1; done; echo after; exit 3",
        go.display()
    );
    let mut run = follow("run", &["run", "--name", "t", "--", "sh", "-c", &script]);
    wait_until("it runs", LONG, || cluster.read("run") == "before\n");
    let mut logs = follow("logs", &["logs", "-f", "t"]);
    let mut events = follow("events", &["events", "--follow", "--key", "default/task/"]);
    wait_until("all follow", LONG, || {
        cluster.read("logs") == "before\n" && cluster.read("events").contains("task-running")
    });
    signal(cluster.child("server"), "KILL");
    wait_until("all wait", LONG, || {
        ["run", "logs", "events"]
            .iter()
            .all(|file| cluster.read(&format!("{file}.err")).contains("waiting for it"))
    });
    cluster.write("go", "");
    assert_eq!(run.wait().expect("it ends").code(), Some(3), "{}", cluster.read("run.err"));
    assert!(logs.wait().expect("it ends").success(), "{}", cluster.read("logs.err"));
    assert_eq!(cluster.read("run"), "before\nafter\n");
    assert_eq!(cluster.read("logs"), "before\nafter\n");
    wait_until("its end is told", LONG, || cluster.read("events").contains("task-completed"));
    events.kill().expect("it still follows");
    events.wait().expect("it has ended");
    for kind in ["task-created", "task-running", "task-completed"] {
        assert_eq!(cluster.read("events").matches(kind).count(), 1, "{}", cluster.read("events"));
    }
}

/// It was waited for until `dev` gave up: only who had once been ready was started again.
#[test]
fn a_server_that_dies_while_dev_starts_is_started_again() {
    let cluster = Cluster::begin("dies-early", &[]);
    wait_until("a worker begins", LONG, || !cluster.children("worker").is_empty());
    // So that it is not ready yet.
    let worker = cluster.child("worker");
    signal(worker, "STOP");
    signal(cluster.child("server"), "KILL");
    wait_until("its death is told", LONG, || cluster.said().contains("the server died"));
    signal(worker, "CONT");
    cluster.ready();
    assert_eq!(cluster.answer(&["run", "--", "echo", "hello"]), "hello\n");
}

/// It was asked once to apply them, and a server that died then ended `dev`.
#[test]
fn a_server_that_dies_while_specs_are_applied_is_started_again() {
    let many: String = (0..200)
        .map(|n| format!("[service.s{n}]\nrun = [\"sleep\", \"1000\"]\ninstances = 0\n"))
        .collect();
    let spec = std::env::temp_dir().join(format!("sterna-many-{}.toml", std::process::id()));
    fs::write(&spec, format!("version = 1\n{many}")).expect("a file of the test");
    let cluster = Cluster::begin("dies-applying", &[spec.to_str().expect("a path")]);
    wait_until("it is here", LONG, || cluster.said().contains("sterna is here"));
    signal(cluster.child("server"), "KILL");
    wait_until("all is applied", LONG, || cluster.said().contains("service s199:"));
    cluster.ready();
    assert_eq!(cluster.json(&["ls", "services"])["services"].as_array().map(Vec::len), Some(200));
    drop(fs::remove_file(&spec));
}

/// The same is asked for again, and is the same task.
#[test]
fn a_run_waits_for_a_named_server_that_is_started_again() {
    let cluster = Cluster::start("begins-again", &[]);
    let address = cluster.read(".sterna/address").trim().to_owned();
    signal(cluster.pid(), "STOP");
    signal(cluster.child("server"), "KILL");
    wait_until("nobody listens", LONG, || std::net::TcpStream::connect(&address).is_err());
    let said = fs::File::create(cluster.path.join("run.err")).expect("a file");
    let mut run = program();
    run.args(["run", "--server", &address, "--", "echo", "hello"]).current_dir(&cluster.path);
    run.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(said);
    let mut run = run.spawn().expect("sterna runs");
    wait_until("it waits, or gave up", LONG, || {
        cluster.read("run.err").contains("waiting for it")
            || run.try_wait().is_ok_and(|it| it.is_some())
    });
    signal(cluster.pid(), "CONT");
    let ended = run.wait_with_output().expect("it ends");
    assert!(ended.status.success(), "{}\n{}", cluster.read("run.err"), cluster.said());
    assert_eq!(ended.stdout, b"hello\n");
}

#[test]
fn a_run_that_is_interrupted_says_that_its_task_goes_on() {
    let cluster = Cluster::start("interrupted", &[]);
    let mut run = program();
    run.args(["run", "--name", "long", "--", "sleep", "1000"]).current_dir(&cluster.path);
    let run = run.stdin(Stdio::null()).stderr(Stdio::piped()).spawn().expect("sterna runs");
    wait_until("it runs", LONG, || cluster.answer(&["ls", "tasks"]).contains("running"));
    signal(run.id(), "INT");
    let ended = run.wait_with_output().expect("it ends");
    let said = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert_eq!(ended.status.code(), Some(130), "{said}");
    assert_eq!(said, "long keeps running; `sterna cancel long` ends it\n");
    assert!(cluster.answer(&["ls", "tasks"]).contains("running"), "it goes on");
}

/// What the server remembers of the store goes back with it, and the store has counted past what was lost
/// before anybody looks. The worker has been told that the end stands.
#[test]
fn a_task_whose_end_was_lost_with_everything_of_the_server_is_not_started_again() {
    let cluster = Cluster::start("set-back", &[]);
    let here = cluster.path.display().to_string();
    let work = "echo begins >> $HERE/runs; until [ -e $HERE/go ]; do sleep 0.05; done";
    let work = work.replace("$HERE", &here);
    cluster.answer(&["run", "--detach", "--name", "once", "--", "sh", "-c", &work]);
    let phase = |cluster: &Cluster| {
        let tasks = cluster.sterna(&["ls", "tasks", "--json"]);
        let tasks: serde_json::Value = serde_json::from_slice(&tasks.stdout).unwrap_or_default();
        tasks["tasks"][0]["phase"].as_str().unwrap_or_default().to_owned()
    };
    wait_until("it runs", LONG, || phase(&cluster) == "running");
    let copy = |from: &str, to: &str| {
        let copied = Command::new("cp").arg("-a").args([from, to]).status();
        assert!(copied.is_ok_and(|status| status.success()), "{from} to {to}");
    };
    let (data, backup) = (format!("{here}/.sterna"), format!("{here}/backup"));
    fs::create_dir(&backup).expect("a directory");
    let server = cluster.child("server");
    signal(server, "STOP");
    copy(&format!("{data}/store"), &backup);
    copy(&format!("{data}/seen"), &backup);
    signal(server, "CONT");
    cluster.write("go", "");
    wait_until("it is over", LONG, || phase(&cluster) == "completed");
    let server = cluster.child("server");
    signal(server, "STOP");
    fs::rename(format!("{data}/store"), format!("{here}/lost")).expect("the store is there");
    copy(&format!("{backup}/store"), &data);
    copy(&format!("{backup}/seen"), &data);
    signal(server, "KILL");
    wait_until("a recovered epoch is open", LONG, || {
        let status = cluster.sterna(&["status", "--json"]);
        let status: serde_json::Value = serde_json::from_slice(&status.stdout).unwrap_or_default();
        status["epoch"] == 2
    });
    wait_until("it is over again", LONG, || phase(&cluster) == "completed");
    assert_eq!(cluster.read("runs"), "begins\n", "{}", cluster.said());
}

/// Kills the newest process of the service, and waits for what the next one writes.
fn crash(cluster: &Cluster) {
    let before = cluster.read("pids").lines().count();
    signal(newest(cluster).parse().expect("a process"), "KILL");
    wait_until("another one runs", LONG, || cluster.read("pids").lines().count() > before);
}

#[test]
fn a_later_run_of_a_key_has_a_greater_fence_whoever_leads() {
    let cluster = Cluster::start("fences", &[]);
    let told = "echo $STERNA_FENCE $STERNA_ATTEMPT $STERNA_INSTANCE_INDEX >> $HERE/told; echo $$";
    service_of(&cluster, &SERVICE.replace("echo $$", told));
    crash(&cluster);
    signal(cluster.child("server"), "KILL");
    wait_until("it leads again", LONG, || cluster.sterna(&["status"]).status.success());
    crash(&cluster);
    let told = cluster.read("told");
    let words: Vec<Vec<&str>> = told.lines().map(|line| line.split(' ').collect()).collect();
    let fences: Vec<Fence> = words.iter().map(|words| words[0].parse().expect("a fence")).collect();
    assert!(fences.is_sorted_by(|one, next| one < next), "{told}");
    let terms: Vec<u64> = fences.iter().map(|fence| fence.term.get()).collect();
    assert!(terms[0] == terms[1] && terms[1] < terms[2], "the third is of another leader: {told}");
    let others: Vec<&[&str]> = words.iter().map(|words| &words[1..]).collect();
    assert_eq!(others, [["1", "0"], ["2", "0"], ["3", "0"]], "attempt and index");
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
