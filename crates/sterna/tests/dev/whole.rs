//! A service as a whole: what is wrong with any of its instances, and what all of them write.

use std::process::{Command, Stdio};

use crate::{
    place::{Cluster, LONG, program, wait_until},
    storm::block_on,
};

const TALKS: &str = "version = 1\n[service.web]\ninstances = 3\n\
    run = [\"sh\", \"-c\", \"echo I am $STERNA_INSTANCE_INDEX; exec sleep 1000\"]\n";

#[test]
fn the_logs_of_a_service_are_those_of_every_instance() {
    let cluster = Cluster::start("whole-logs", &[]);
    cluster.write("web.toml", TALKS);
    cluster.answer(&["apply", "web.toml"]);
    wait_until("three run", LONG, || cluster.answer(&["ls", "services"]).contains("3/3"));
    let all = ["[0] I am 0", "[1] I am 1", "[2] I am 2"];
    let said = || {
        let said = cluster.answer(&["logs", "web"]);
        let mut lines: Vec<_> = said.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    wait_until("all have written", LONG, || said() == all);
    assert_eq!(cluster.answer(&["logs", "web/2"]), "I am 2\n");
    assert_eq!(cluster.answer(&["logs", "web", "--tail", "2"]).lines().count(), 2);
    let json = cluster.answer(&["logs", "web", "--json"]);
    let lines = json.lines().map(|line| serde_json::from_str(line).expect("JSON"));
    let mut indices: Vec<_> =
        lines.map(|line: serde_json::Value| line["index"].as_u64().expect("an index")).collect();
    indices.sort_unstable();
    assert_eq!(indices, [0, 1, 2]);
    let path = cluster.path.join("followed");
    let file = std::fs::File::create(&path).expect("a file");
    let mut follow = program();
    follow.args(["logs", "--follow", "web"]).current_dir(&cluster.path);
    let mut follow = follow.stdin(Stdio::null()).stdout(file).spawn().expect("sterna runs");
    let followed = || std::fs::read_to_string(&path).unwrap_or_default();
    wait_until("all are followed", LONG, || all.iter().all(|line| followed().contains(line)));
    follow.kill().expect("it runs");
    follow.wait().expect("it was killed");
}

#[test]
fn why_of_a_service_tells_of_every_instance_that_is_not_well() {
    let cluster = Cluster::start("whole-why", &[]);
    cluster.write("web.toml", &TALKS.replace("\nrun", "\napart_from = [\"web\"]\nrun"));
    cluster.answer(&["apply", "web.toml"]);
    wait_until("one runs", LONG, || cluster.answer(&["ls", "services"]).contains("1/3"));
    let why = cluster.json(&["why", "web"]);
    assert_eq!(
        (&why["wanted"], &why["running"], &why["is_well"]),
        (&3.into(), &1.into(), &false.into())
    );
    assert_eq!(why["instances"].as_array().map(Vec::len), Some(2), "{why}");
    let said = cluster.answer(&["why", "web"]);
    assert!(said.starts_with("default/service/web: 1 of 3 instances run\n"), "{said}");
    assert_eq!(said.matches("its `apart_from` names that service").count(), 1, "{said}");
    let both = why["instances"].as_array().expect("a list").iter();
    let both: Vec<_> = both.map(|it| it["key"].as_str().expect("a key")).collect();
    let index = |key: &str| key.rsplit('/').next().expect("an index").to_owned();
    let both = format!("\ndefault/service/web/{},{}: ", index(both[0]), index(both[1]));
    assert!(said.contains(&both), "what holds of both is said once: {said}");
    cluster.write("web.toml", &TALKS.replace("instances = 3", "instances = 2"));
    cluster.answer(&["apply", "web.toml"]);
    wait_until("all is well", LONG, || cluster.json(&["why", "web"])["is_well"] == true);
    let said = cluster.answer(&["why", "web"]);
    assert!(said.contains("all 2 instances are as its spec wants them"), "{said}");
}

/// It asked about 20, and could not say of the others how they are.
#[test]
fn why_of_a_large_service_tells_of_all_of_it() {
    let cluster = Cluster::start("whole-many", &[]);
    // Those that may run, and those that wait for the only worker to be two.
    let many = "version = 1\n[service.many]\ninstances = 21\nrun = [\"sleep\", \"1000\"]\n\
                [service.apart]\ninstances = 25\nrun = [\"sleep\", \"1000\"]\napart_from = [\"apart\"]\n";
    cluster.write("many.toml", many);
    cluster.answer(&["apply", "many.toml"]);
    wait_until("all run that can", LONG, || {
        let listed = cluster.answer(&["ls", "services"]);
        listed.contains("21/21") && listed.contains("1/25")
    });
    let why = cluster.json(&["why", "many"]);
    assert_eq!((&why["is_well"], &why["well"]), (&true.into(), &21.into()), "{why}");
    let said = cluster.answer(&["why", "many"]);
    assert!(said.contains("all 21 instances are as its spec wants them"), "{said}");
    let why = cluster.json(&["why", "apart"]);
    assert_eq!((&why["is_well"], &why["well"]), (&false.into(), &1.into()), "{why}");
    assert_eq!(why["instances"].as_array().map(Vec::len), Some(24), "{why}");
    let said = cluster.answer(&["why", "apart"]);
    assert!(said.ends_with("\nthe other one is as its spec wants it\n"), "{said}");
    // The API says the same, by pages.
    let (mut paged, mut after) = (Vec::new(), String::new());
    loop {
        let path = format!("/v1/namespaces/default/services/apart/why?limit=10&after={after}");
        let page = block_on(cluster.client().get::<serde_json::Value>(&path)).expect("a page");
        paged.extend(page["instances"].as_array().expect("a list").clone());
        let Some(next) = page["next"].as_str() else { break };
        next.clone_into(&mut after);
    }
    assert_eq!(paged, *why["instances"].as_array().expect("a list"));
    // In the order of their indices, not of their letters.
    let listed = cluster.json(&["ls", "instances"])["instances"].clone();
    let listed = listed.as_array().expect("a list").iter();
    let many = listed.filter(|it| it["key"].as_str().is_some_and(|key| key.contains("/many/")));
    let indices: Vec<_> = many.map(|it| it["index"].as_u64().expect("an index")).collect();
    assert_eq!(indices, (0..21).collect::<Vec<_>>());
}

/// Both were told that they had made it.
#[test]
fn of_two_who_apply_the_same_at_once_one_has_made_it() {
    let cluster = Cluster::start("whole-twice", &[]);
    let mut spec = "version = 1\n".to_owned();
    for number in 0..20 {
        spec += &format!("[service.s{number}]\ninstances = 0\nrun = [\"true\"]\n");
    }
    cluster.write("all.toml", &spec);
    let apply = || {
        let mut command = program();
        command.args(["apply", "all.toml"]).current_dir(&cluster.path).stdin(Stdio::null());
        command.stdout(Stdio::piped()).spawn().expect("sterna runs")
    };
    let both = [apply(), apply(), apply()];
    let said = both.map(|child| {
        let said = child.wait_with_output().expect("it ends").stdout;
        String::from_utf8_lossy(&said).into_owned()
    });
    let made = said.iter().map(|said| said.matches("created").count()).sum::<usize>();
    let was = said.iter().map(|said| said.matches("unchanged").count()).sum::<usize>();
    assert_eq!((made, was), (20, 40), "{said:#?}");
}

/// A log that cannot be had took all the others away.
#[test]
fn one_silent_worker_does_not_take_the_logs_of_a_service_away() {
    let cluster = Cluster::start("whole-silent", &["--workers", "2"]);
    let apart = "\ninstances = 2\napart_from = [\"web\"]";
    cluster.write("web.toml", &TALKS.replace("\ninstances = 3", apart));
    cluster.answer(&["apply", "web.toml"]);
    wait_until("all have written", LONG, || {
        String::from_utf8_lossy(&cluster.sterna(&["logs", "web"]).stdout).lines().count() == 2
    });
    let worker = cluster.children("worker").into_iter().find(|pid| {
        let said = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&said).contains("worker-2")
    });
    crate::place::signal(worker.expect("it is there"), "STOP");
    let asks = |args: &[&str]| {
        let logs = cluster.sterna(args);
        let said = String::from_utf8_lossy(&logs.stderr).into_owned();
        assert_eq!(logs.status.code(), Some(75), "{args:?}: {said}");
        assert_eq!(String::from_utf8_lossy(&logs.stdout).lines().count(), 1, "{args:?}: {said}");
        assert_eq!(said.matches("warning: web/").count(), 1, "{args:?}: {said}");
    };
    // Each waits for ten seconds.
    std::thread::scope(|both| {
        both.spawn(|| asks(&["logs", "web"]));
        both.spawn(|| asks(&["logs", "web", "-n", "10"]));
    });
}

#[test]
fn so_many_last_lines_are_shown_as_were_asked_for() {
    let cluster = Cluster::start("whole-last", &[]);
    cluster.answer(&["run", "--name", "much", "--", "seq", "1", "2600"]);
    let last = cluster.answer(&["logs", "much", "-n", "2500"]);
    let lines: Vec<_> = last.lines().collect();
    assert_eq!((lines.len(), lines[0], lines[2499]), (2_500, "101", "2600"));
    assert_eq!(cluster.answer(&["logs", "much", "-n", "9999"]).lines().count(), 2_600);
}

#[test]
fn a_status_of_one_namespace_counts_that_one() {
    let cluster = Cluster::start("whole-status", &[]);
    cluster.answer(&["run", "--namespace", "other", "--", "true"]);
    assert_eq!(cluster.json(&["status"])["tasks"]["completed"], 1);
    assert_eq!(cluster.json(&["status", "--namespace", "other"])["tasks"]["completed"], 1);
    assert!(cluster.json(&["status", "--namespace", "default"])["tasks"]["completed"].is_null());
    // So do events; those of the cluster itself are in none.
    assert!(cluster.answer(&["events"]).contains("worker-joined"));
    for key in [&[][..], &["--key", "task/"], &["--key", "other/task/"]] {
        let events = cluster.answer(&[&["events", "--namespace", "other"], key].concat());
        let is_there = |line: &str| line.contains(" other/task/");
        assert!(events.lines().count() > 1 && events.lines().all(is_there), "{key:?}: {events}");
    }
    assert_eq!(cluster.answer(&["events", "--namespace", "default"]), "");
}

#[test]
fn what_has_ended_is_neither_cancelled_nor_killed() {
    let cluster = Cluster::start("whole-ended", &[]);
    cluster.answer(&["run", "--name", "short", "--", "true"]);
    for verb in ["cancel", "kill"] {
        assert_eq!(cluster.sterna(&[verb, "short"]).status.code(), Some(1), "{verb}");
    }
}

#[test]
fn words_that_people_try_are_understood_or_answered_with_ours() {
    let cluster = Cluster::start("whole-kinds", &[]);
    cluster.answer(&["run", "--name", "short", "--", "true"]);
    assert!(cluster.answer(&["ls", "task"]).contains("short"));
    assert!(cluster.answer(&["ls", "worker"]).contains("worker-1"));
    let none = cluster.sterna(&["ls", "instances"]);
    let said = String::from_utf8_lossy(&none.stderr).into_owned();
    assert!(said.contains("there is no instance"), "{said}");
    let other = cluster.sterna(&["describe", "short"]);
    let said = String::from_utf8_lossy(&other.stderr).into_owned();
    assert_eq!(other.status.code(), Some(64), "{said}");
    assert!(said.contains("tip: Sterna calls that `sterna why NAME`"), "{said}");
    let ended = cluster.sterna(&["cancel", "short"]);
    let said = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert!(said.contains("is over") && said.contains("`sterna why task/short`"), "{said}");
}

/// Every line that a program prints in JSON, until it has ended.
fn lines(command: &mut Command) -> Vec<serde_json::Value> {
    let output = command.stdin(Stdio::null()).output().expect("it runs");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    said.lines().map(|line| serde_json::from_str(line).expect(line)).collect()
}

#[test]
fn dev_tells_in_json_what_happens() {
    let cluster = Cluster::start("whole-json", &[]);
    let place = cluster.path.join("inner");
    std::fs::create_dir_all(&place).expect("a directory");
    let path = cluster.path.join("told");
    let file = std::fs::File::create(&path).expect("a file");
    let mut dev = program();
    dev.args(["dev", "--json", "--listen", "127.0.0.1:0"]).current_dir(&place);
    let mut dev = dev.stdin(Stdio::null()).stdout(file).spawn().expect("dev starts");
    let told = || -> Vec<serde_json::Value> {
        let said = std::fs::read_to_string(&path).unwrap_or_default();
        said.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    };
    wait_until("it is ready", LONG, || !told().is_empty());
    let ready = told().remove(0);
    assert_eq!(ready["event"], "ready");
    let token = std::path::PathBuf::from(ready["token_file"].as_str().expect("a path"));
    assert!(token.is_file() && ready["api"].as_str().is_some_and(|it| it.starts_with("http://")));
    let worker = crate::place::of_directory(&place.join(".sterna")).into_iter().find(|pid| {
        let said = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        said.split(|byte| *byte == 0).nth(1) == Some(b"worker")
    });
    crate::place::signal(worker.expect("a worker"), "KILL");
    wait_until("its death is told", LONG, || told().len() > 1);
    let died = told().remove(1);
    assert_eq!((&died["event"], &died["child"]), (&"child-died".into(), &"worker-1".into()));
    wait_until("its return is told", LONG, || told().len() > 2);
    let back = told().remove(2);
    assert_eq!((&back["event"], &back["child"]), (&"child-back".into(), &"worker-1".into()));
    let mut listed = program();
    let listed = listed.args(["ls", "workers"]).current_dir(&place).output().expect("it runs");
    let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
    assert!(listed.contains("worker-1  healthy"), "{listed}");
    crate::place::signal(dev.id(), "TERM");
    dev.wait().expect("it ends");
    assert_eq!(told().last().expect("a line")["event"], "stopped");
}

#[test]
fn dev_that_fails_tells_in_json_why() {
    let mut dev = program();
    let told = lines(dev.args(["dev", "--json", "/none/such.toml"]));
    assert_eq!((&told[0]["event"], told.len()), (&"failed".into(), 2), "{told:?}");
    assert!(told[0]["error"].as_str().is_some_and(|why| why.contains("/none/such.toml")));
    assert_eq!(told[1]["event"], "stopped");
}

/// Its server was started, found the store taken, and said so in the log of the one that runs.
#[test]
fn a_second_dev_is_refused_before_it_writes_anything() {
    let cluster = Cluster::start("whole-second", &[]);
    let before = cluster.read(".sterna/server.log");
    let second = cluster.sterna(&["dev", "--listen", "127.0.0.1:0"]);
    let said = String::from_utf8_lossy(&second.stderr).into_owned();
    assert_eq!(second.status.code(), Some(75), "{said}");
    let who = format!("is in use by another `sterna dev`, process {}", cluster.pid());
    assert!(said.contains(&who) && said.contains("--data"), "{said}");
    assert_eq!(cluster.read(".sterna/server.log"), before);
    cluster.answer(&["status"]);
}

/// A usage line showed --server as needed wherever the environment names one.
#[test]
fn what_the_environment_says_is_not_asked_for_on_the_command_line() {
    let mut command = program();
    let command = command.args(["why"]).env("STERNA_SERVER", "127.0.0.1:9");
    let said = command.output().expect("sterna runs").stderr;
    let said = String::from_utf8_lossy(&said).into_owned();
    assert!(said.contains("Usage: sterna why <SELECTOR>\n"), "{said}");
    let mut command = program();
    let command = command.args(["status"]).env("STERNA_SERVER", "127.0.0.1:9");
    let asked = command.output().expect("sterna runs");
    assert_eq!(asked.status.code(), Some(69), "it is heeded all the same");
}

/// What it said to try found nobody.
#[test]
fn what_dev_says_to_try_works_wherever_its_data_is() {
    let cluster = Cluster::start("whole-try", &[]);
    let place = std::env::temp_dir().join(format!("sterna-dev-{}-try", std::process::id()));
    std::fs::create_dir_all(&place).expect("a directory");
    let said = place.join("said");
    let mut dev = program();
    dev.args(["dev", "--listen", "127.0.0.1:0", "--data", "it's here"]).current_dir(&place);
    let file = std::fs::File::create(&said).expect("a file");
    let mut dev = dev.stdin(Stdio::null()).stderr(file).spawn().expect("dev starts");
    let said = || std::fs::read_to_string(&said).unwrap_or_default();
    wait_until("it is there", LONG, || said().contains("Ctrl-C ends everything"));
    let is_to_try = |line: &&str| line.starts_with("  export") || line.starts_with("  sterna run");
    let script: Vec<_> = said().lines().filter(is_to_try).map(str::to_owned).collect();
    let script = script.join("\n").replace("sterna run", "$STERNA run");
    let mut shell = Command::new("sh");
    shell.args(["-c", &script]).env("STERNA", program().get_program()).current_dir(&place);
    shell.env_remove("STERNA_TOKEN");
    let tried = shell.stdin(Stdio::null()).output().expect("a shell");
    crate::place::signal(dev.id(), "TERM");
    dev.wait().expect("it ends");
    drop(std::fs::remove_dir_all(&place));
    assert_eq!(tried.stdout, b"hello\n", "{script}: {}", String::from_utf8_lossy(&tried.stderr));
    assert!(!cluster.said().contains("export"), "where it is found, nothing is to be named");
}

#[test]
fn a_script_of_completions_is_a_text_in_json() {
    let mut command = program();
    let said = lines(command.args(["completions", "bash", "--json"]));
    assert_eq!((said.len(), &said[0]["shell"]), (1, &"bash".into()));
    assert!(said[0]["script"].as_str().is_some_and(|script| script.contains("_sterna")));
}

/// It waited for 30 s, and then said only that nobody came.
#[test]
fn a_worker_that_cannot_begin_ends_dev_with_what_it_lacks() {
    let place = std::env::temp_dir().join(format!("sterna-dev-{}-lacks", std::process::id()));
    std::fs::create_dir_all(place.join(".sterna")).expect("a directory");
    // What an earlier one said is not why this one ends.
    let log = place.join(".sterna/worker-1.log");
    std::fs::write(&log, "error: an earlier mishap\n").expect("a log");
    // Its data directory cannot be made.
    std::fs::write(place.join(".sterna/worker-1"), "").expect("a file in its way");
    let mut dev = program();
    dev.args(["dev", "--listen", "127.0.0.1:0"]).current_dir(&place).stdin(Stdio::null());
    let began = crate::place::now();
    let output = dev.output().expect("dev runs");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("worker-1 ended at once") && said.contains("worker-1.log"), "{said}");
    assert!(!said.contains("an earlier mishap"), "{said}");
    assert!(began.elapsed().as_secs() < 20, "at once: {said}");
    drop(std::fs::remove_dir_all(&place));
}

#[test]
fn what_runs_on_a_drained_worker_is_counted_and_the_drain_is_named() {
    let cluster = Cluster::start("whole-drain", &[]);
    cluster.write("web.toml", "version = 1\n[service.web]\nrun = [\"sleep\", \"1000\"]\n");
    cluster.answer(&["apply", "web.toml"]);
    wait_until("it runs", LONG, || cluster.answer(&["ls", "services"]).contains("1/1"));
    cluster.answer(&["drain", "worker-1"]);
    let moves = || cluster.answer(&["ls", "instances"]).contains("worker-1 (moves)");
    wait_until("it is to move", LONG, moves);
    let services = cluster.answer(&["ls", "services"]);
    assert!(services.contains("1/1"), "it runs there all the same: {services}");
    let status = cluster.sterna(&["status"]);
    let said = String::from_utf8_lossy(&status.stderr).into_owned();
    assert_eq!(status.status.code(), Some(75), "{said}");
    assert!(said.contains("every worker is drained; `sterna undrain worker-1`"), "{said}");
    let counted = String::from_utf8_lossy(&status.stdout).into_owned();
    assert!(counted.contains("1 of 1 instances running"), "{counted}");
}
