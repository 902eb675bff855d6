//! What happens at each bound: 429 with the reason and the remedy, and nothing is done.

use std::{
    fs,
    io::{Read, Write},
    net::TcpStream,
    process::Stdio,
    sync::Arc,
    thread,
};

use serde_json::{Value, json};

use crate::{
    api::{Api, Said, TASKS},
    place::{Cluster, LONG, program, signal, wait_until},
    storm::Place,
};

fn task(name: &str, number: u32) -> Value {
    let incarnation = format!("ti-0123456789ab7def81234567{number:08x}");
    json!({ "name": name, "spec": { "run": ["true"] }, "incarnation": incarnation })
}

fn create(api: &Api, name: &str, number: u32) -> Said {
    api.ask("POST", TASKS, &[], Some(&task(name, number)))
}

/// What a refusal at a bound must be.
fn assert_too_much(said: &Said, reason: &str, remedy: &str) {
    assert_eq!((said.status, &said.body["code"]), (429, &json!("too-much")), "{}", said.text);
    let says = |field: &str, text: &str| {
        assert!(said.body[field].as_str().is_some_and(|it| it.contains(text)), "{}", said.text);
    };
    says("message", reason);
    says("remedy", remedy);
}

fn metric(api: &Api, name: &str) -> u64 {
    let metrics = api.ask("GET", "/metrics", &[], None).text;
    let line = metrics.lines().find_map(|line| line.strip_prefix(&format!("sterna_{name} ")));
    line.and_then(|count| count.parse().ok()).unwrap_or_else(|| panic!("{name} in {metrics}"))
}

/// Whoever looks after a server can, and only with the token where one is asked for.
fn assert_looked_at(api: &Api) {
    for path in ["/healthz", "/readyz", "/metrics"] {
        assert_eq!(api.ask("GET", path, &[], None).status, 200, "{path}");
    }
    let mut stranger = TcpStream::connect(&api.place.address).expect("the server listens");
    stranger.write_all(b"GET /metrics HTTP/1.1\r\nHost: sterna\r\n\r\n").expect("it reads");
    let mut head = [0; 12];
    stranger.read_exact(&mut head).expect("it answers");
    assert_eq!(String::from_utf8_lossy(&head), "HTTP/1.1 401");
}

/// A request that is not answered to its end: a stream, or one that waits.
fn hold(place: &Place, path: &str) -> TcpStream {
    let mut socket = TcpStream::connect(&place.address).expect("the server listens");
    socket.set_read_timeout(Some(LONG)).expect("a socket");
    let token = place.token();
    let request =
        format!("GET {path} HTTP/1.1\r\nHost: sterna\r\nAuthorization: Bearer {token}\r\n\r\n");
    socket.write_all(request.as_bytes()).expect("it reads");
    socket
}

/// A stream that has begun.
fn stream(place: &Place, path: &str) -> TcpStream {
    let mut socket = hold(place, path);
    let mut head = [0; 12];
    socket.read_exact(&mut head).expect("it answers");
    assert_eq!(String::from_utf8_lossy(&head), "HTTP/1.1 200");
    socket
}

#[test]
fn a_task_beyond_those_that_may_be_under_way_is_refused_and_one_that_is_known_is_not() {
    let mut api = Api::start_with("tasks-max", &["--tasks-max", "3"]);
    for number in 0..3 {
        assert_eq!(create(&api, &format!("t-{number}"), number).status, 201);
    }
    let refused = || {
        assert_too_much(&create(&api, "more", 9), "3 tasks are not over yet", "--tasks-max");
    };
    refused();
    // What was acknowledged is answered as it was, and what is taken as it would be.
    let again = create(&api, "t-1", 1);
    assert_eq!((again.status, &again.body["name"]), (200, &json!("t-1")), "{}", again.text);
    assert_eq!(create(&api, "t-1", 8).status, 409);
    let made = api.ask("GET", TASKS, &[], None).body["items"].as_array().map(Vec::len);
    assert_eq!(made, Some(3));
    let events = api.ask("GET", "/v1/events?after=0&until_now=true", &[], None).text;
    assert!(!events.contains("default/task/more"), "{events}");
    assert_eq!(metric(&api, "tasks_under_way"), 3);
    assert_eq!(metric(&api, "tasks_under_way_max"), 3);
    assert!(metric(&api, "too_much_total") >= 1);
    // By command, and by files, of which what stands before is done.
    let ask = |args: &[&str]| {
        let mut command = program();
        command.args(args).args(["--server", &api.place.address]).current_dir(&api.place.path);
        let said = command.env("STERNA_TOKEN", api.place.token()).output().expect("it runs");
        (said.status.code(), String::from_utf8_lossy(&said.stderr).into_owned())
    };
    let spec = "version = 1\n[service.web]\nrun = [\"true\"]\n[task.filed]\nrun = [\"true\"]\nstart = true\n";
    fs::write(api.place.path.join("s.toml"), spec).expect("a spec");
    let (code, said) = ask(&["apply", "s.toml"]);
    assert!(code == Some(75) && said.contains("task filed."), "{code:?}: {said}");
    assert!(said.contains("only these were: service web"), "{said}");
    assert_eq!(api.ask("GET", "/v1/namespaces/default/services/web", &[], None).status, 200);
    // The next server counts what the one before has made.
    api.server.kill().expect("it runs");
    api.server.wait().expect("it ran");
    api.server = api.place.server_with(&["--tasks-max", "3"]);
    wait_until("it leads again", LONG, || {
        TcpStream::connect(&api.place.address).is_ok()
            && api.ask("GET", "/readyz", &[], None).status == 200
    });
    assert_too_much(&create(&api, "more", 9), "3 tasks are not over yet", "--tasks-max");
    assert_eq!(api.ask("POST", &format!("{TASKS}/t-0/cancel"), &[], None).status, 200);
    assert_eq!(create(&api, "more", 9).status, 201, "one is over");
    assert_too_much(&create(&api, "most", 10), "3 tasks are not over yet", "--tasks-max");
}

/// A command says why it waits, and goes on when there is room.
#[test]
fn a_run_waits_for_room_and_says_so() {
    let api = Api::start_with("tasks-wait", &["--tasks-max", "1"]);
    assert_eq!(create(&api, "t", 1).status, 201);
    let said = api.place.path.join("run.log");
    let mut command = program();
    command.args([
        "run",
        "--detach",
        "--name",
        "next",
        "--server",
        &api.place.address,
        "--",
        "true",
    ]);
    command.env("STERNA_TOKEN", api.place.token()).current_dir(&api.place.path);
    command.stdout(Stdio::null()).stderr(fs::File::create(&said).expect("a log"));
    let mut run = command.spawn().expect("it starts");
    let text = || fs::read_to_string(&said).unwrap_or_default();
    wait_until("it says why it waits", LONG, || text().contains("1 task is not over yet"));
    assert_eq!(api.ask("POST", &format!("{TASKS}/t/cancel"), &[], None).status, 200);
    assert!(run.wait().expect("it ends").success(), "{}", text());
    assert_eq!(api.ask("GET", &format!("{TASKS}/next"), &[], None).status, 200);
}

/// What is on its way to the store counts, too: however many ask at once, no more than may be are made.
#[test]
fn many_who_ask_at_once_are_not_given_more_than_may_be() {
    let api = Arc::new(Api::start_with("tasks-at-once", &["--tasks-max", "10"]));
    let asking: Vec<_> = (0..64)
        .map(|number| {
            let api = Arc::clone(&api);
            thread::spawn(move || create(&api, &format!("t-{number}"), number).status)
        })
        .collect();
    let said: Vec<_> = asking.into_iter().map(|it| it.join().expect("it asks")).collect();
    let count = |status| said.iter().filter(|it| **it == status).count();
    assert_eq!((count(201), count(429)), (10, 54), "{said:?}");
    assert_eq!(metric(&api, "tasks_under_way"), 10);
}

#[test]
fn a_stream_beyond_those_that_may_be_open_is_refused_until_one_is_closed() {
    let api = Api::start_with("streams-max", &["--streams-max", "2"]);
    assert_eq!(create(&api, "t", 1).status, 201);
    let logs = format!("{TASKS}/t/logs?follow=true");
    let (events, followed) = (stream(&api.place, "/v1/events"), stream(&api.place, &logs));
    assert_eq!((metric(&api, "open_streams"), metric(&api, "open_streams_max")), (2, 2));
    let service = json!({ "spec": { "run": ["true"] } });
    let web = "/v1/namespaces/default/services/web";
    assert_eq!(api.ask("PUT", web, &[], Some(&service)).status, 200);
    let endpoints = format!("{web}/endpoints?follow=true");
    for path in ["/v1/events", "/v1/events?until_now=true", &logs, &endpoints] {
        let said = api.ask("GET", path, &[], None);
        assert_too_much(&said, "2 streams of events, logs and endpoints are open", "--streams-max");
    }
    assert_eq!(api.ask("GET", &format!("{TASKS}/t/logs"), &[], None).status, 200, "no stream");
    assert_eq!(api.ask("GET", &format!("{web}/endpoints"), &[], None).status, 200, "no stream");
    for (closed, path) in [(events, "/v1/events?until_now=true"), (followed, "/v1/events")] {
        drop(closed);
        // That somebody has hung up is noticed when there is something to say.
        wait_until("there is room again", LONG, || {
            let domain = json!({ "for_s": 60 });
            assert_eq!(api.ask("PUT", "/v1/domains/d", &[], Some(&domain)).status, 200);
            metric(&api, "open_streams") < 2
        });
        drop(stream(&api.place, path));
    }
}

#[test]
fn a_request_beyond_those_that_may_be_answered_is_refused_until_one_is() {
    let api = Api::start_with("requests-max", &["--requests-max", "3"]);
    assert_eq!(create(&api, "t", 1).status, 201);
    let path = format!("{TASKS}/t?wait_s=60");
    let _held = [hold(&api.place, &path), hold(&api.place, &path)];
    wait_until("both wait", LONG, || metric(&api, "requests") == 2);
    let third = hold(&api.place, &path);
    // Who asks before that may have its place.
    wait_until("the third waits", LONG, || metric(&api, "requests") == 3);
    let refused = || api.ask("GET", TASKS, &[], None);
    for _ in 0..2 {
        assert_too_much(&refused(), "3 requests are being answered already", "--requests-max");
    }
    assert_eq!(metric(&api, "requests"), 3, "who looks after it sees why");
    assert_looked_at(&api);
    drop(third);
    wait_until("there is a place again", LONG, || refused().status == 200);
    assert!(metric(&api, "too_much_total") >= 2);
}

#[test]
fn a_connection_beyond_those_that_may_be_open_is_told_so() {
    let place = Place::new("connections-max");
    // Three quarters of the files that may be open are for connections.
    let line = "ulimit -n 200 && exec \"$0\" \"$@\"";
    let sterna = env!("CARGO_BIN_EXE_sterna");
    let mut command = std::process::Command::new("sh");
    command.args(["-c", line, sterna, "server", "--make", "--data", "server"]);
    command.args(["--listen", &place.address]).current_dir(&place.path).env("PWD", &place.path);
    let server = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    let api = Api::ready(place, server.expect("it starts"));
    let mut held: Vec<_> = (0..150).map(|_| stream(&api.place, "/v1/events")).collect();
    let refused = || api.ask("GET", "/v1/status", &[], None);
    assert_too_much(&refused(), "150 connections are open already", "ulimit -n");
    assert_eq!(metric(&api, "open_streams"), 150, "who looks after it sees why");
    assert_looked_at(&api);
    // They are only told, and keep nobody else's place.
    for _ in 0..100 {
        assert_eq!(refused().status, 429);
    }
    held.truncate(140);
    wait_until("there is room again", LONG, || {
        let domain = json!({ "for_s": 60 });
        api.ask("PUT", "/v1/domains/d", &[], Some(&domain)).status == 200
    });
    wait_until("they are gone", LONG, || metric(&api, "connections") < 145);
    assert!(metric(&api, "too_much_total") >= 101);
}

/// Nothing runs here: tasks are over because they are cancelled.
#[test]
fn beyond_those_that_are_kept_the_oldest_records_go_and_their_names_stay_taken() {
    let api = Api::start_with("keep-max", &["--keep-tasks-max", "3", "--keep-names-max", "4"]);
    let over = |number: u32| {
        let name = format!("t-{number}");
        assert_eq!(create(&api, &name, number).status, 201);
        assert_eq!(api.ask("POST", &format!("{TASKS}/{name}/cancel"), &[], None).status, 200);
    };
    (0..5).for_each(over);
    let names = || {
        let page = api.ask("GET", TASKS, &[], None).body;
        let items = page["items"].as_array().expect("a page").iter();
        items.map(|task| task["name"].as_str().expect("a name").to_owned()).collect::<Vec<_>>()
    };
    wait_until("the oldest are gone", LONG, || names() == ["t-2", "t-3", "t-4"]);
    assert_eq!(create(&api, "t-0", 0).status, 409, "its name stays taken");
    assert_eq!((metric(&api, "tasks"), metric(&api, "names")), (3, 2));
    // Names that somebody may still ask for again are not forgotten for others.
    (5..7).for_each(over);
    wait_until("four names are kept", LONG, || metric(&api, "names") == 4);
    assert_too_much(&create(&api, "more", 9), "the limit of kept names", "--keep-names-max");
}

#[test]
fn services_instances_and_domains_beyond_their_bounds_are_refused() {
    let most = ["--services-max", "2", "--instances-max", "5", "--domains-max", "1"];
    let api = Api::start_with("services-max", &most);
    let put = |name: &str, instances: u32| {
        let text =
            format!("version = 1\n[service.{name}]\nrun = [\"true\"]\ninstances = {instances}\n");
        let files = json!({ "files": [{ "name": "s.toml", "text": text }] });
        api.ask("POST", "/v1/namespaces/default/apply", &[], Some(&files))
    };
    assert_eq!(put("one", 2).status, 200);
    assert_eq!(put("two", 2).status, 200);
    assert_too_much(&put("three", 1), "there are 2 services", "--services-max");
    assert_too_much(&put("two", 4), "there are 4 instances", "--instances-max");
    assert_eq!(put("two", 3).status, 200, "just so many");
    assert_eq!(put("two", 1).status, 200, "fewer are always taken");
    let domain = |name: &str| {
        api.ask("PUT", &format!("/v1/domains/{name}"), &[], Some(&json!({ "for_s": 60 })))
    };
    assert_eq!(domain("shop").status, 200);
    assert_eq!(domain("shop").status, 200, "it is there");
    assert_too_much(&domain("blog"), "there are 1 domains", "--domains-max");
}

/// Nobody is added in silence beyond the bound, and whoever is there stays.
#[test]
fn a_worker_beyond_those_that_may_be_there_is_told_to_ask_later() {
    let cluster = Cluster::start("workers-max", &["--workers-max", "1"]);
    let refused = program().args(["dev", "--workers", "2", "--workers-max", "1"]).output();
    let refused = refused.expect("it runs");
    let said = String::from_utf8_lossy(&refused.stderr);
    assert_eq!(refused.status.code(), Some(64), "{said}");
    assert!(said.contains("--workers 2 is more than --workers-max 1"), "{said}");
    let address = cluster.read(".sterna/address");
    let log = fs::File::create(cluster.path.join("second.log")).expect("a log");
    let data = cluster.path.join("second");
    let mut second = program();
    second.args(["worker", "--join", address.trim(), "--name", "second", "--data"]).arg(&data);
    let mut second = second.stderr(log).spawn().expect("a worker starts");
    wait_until("it says why it is not let in", LONG, || {
        cluster.read("second.log").contains("has reached its limit of workers")
    });
    let workers = cluster.json(&["ls", "workers"]);
    assert_eq!(workers["workers"].as_array().map(Vec::len), Some(1), "{workers}");
    assert!(cluster.sterna(&["run", "--", "true"]).status.success());
    signal(second.id(), "TERM");
    drop(second.wait());
}
