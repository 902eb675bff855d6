//! Three real servers on one shared store, with a worker: any of them can be asked, and one of them is
//! killed again and again.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on says where")]

#[expect(dead_code, reason = "the tests of the store use the rest")]
#[path = "../../../store/tests/support/etcd.rs"]
mod etcd;
#[expect(dead_code, reason = "the tests of `dev` use the rest")]
#[path = "../dev/place.rs"]
mod place;
#[expect(dead_code, reason = "the tests of the store use the rest")]
#[path = "../../../store/tests/support/postgres.rs"]
mod postgres;

mod several;
mod waits;

use several::Servers;

#[test]
fn any_server_answers_for_the_one_that_leads() {
    let store = postgres::Server::start(&[]);
    let servers = Servers::start("asked", &store.url("asked"));
    let (leader, followers) = servers.ranks();
    assert_eq!(followers.len(), 2);
    for follower in followers {
        let ask = |args: &[&str]| servers.answer(follower, args);
        let status: serde_json::Value =
            serde_json::from_str(&ask(&["status", "--json"])).expect("JSON");
        assert_eq!(status["leader"], servers.address(leader), "{status}");
        // A write, a stream, a page and a refusal.
        assert_eq!(
            ask(&["run", "--", "sh", "-c", "echo hello; sleep 0.2; echo again"]),
            "hello\nagain\n"
        );
        assert_eq!(ask(&["logs", "last"]), "hello\nagain\n");
        assert!(ask(&["events", "--kind", "task-completed"]).contains("exited with 0"));
        let refused = servers.sterna(follower, &["cancel", "last"]);
        let said = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(!refused.status.success() && said.contains("is over: nothing to cancel"), "{said}");
        assert!(servers.ask(follower, "/readyz").contains("leads"), "it is ready");
        assert!(servers.ask(follower, "/metrics").contains("sterna_leading 0"), "its own counts");
    }
    let metrics = servers.ask(leader, "/metrics");
    assert!(metrics.contains("sterna_leading 1"), "{metrics}");
    assert!(metrics.contains("sterna_forwarded_total 0"), "{metrics}");
}

/// Whoever starts one waits for that word.
#[test]
fn a_server_that_follows_says_in_json_that_it_is_ready_and_whom_it_follows() {
    let store = postgres::Server::start(&[]);
    let mut servers = Servers::start("json", &store.url("json"));
    let (leader, _) = servers.ranks();
    let late = servers.add(&["--token-file", "token", "--json"]);
    let said = || servers.read(&format!("s{late}.out"));
    place::wait_until("it is ready", place::LONG, || said().contains("\"ready\""));
    assert!(servers.answer(late, &["status"]).contains(servers.address(leader)), "it answers");
    let ready: Vec<serde_json::Value> =
        said().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(ready[0]["event"], "listens");
    let api = format!("http://{}/v1", servers.address(late));
    let wanted =
        serde_json::json!({ "event": "ready", "api": api, "follows": servers.address(leader) });
    assert_eq!(ready[1..], [wanted]);
}

/// It needs a connection of its own for each call that it hands on.
#[test]
fn a_server_that_follows_with_few_files_refuses_what_it_cannot_hand_on_and_says_why() {
    const FILES: &str = "200";
    let store = postgres::Server::start(&[]);
    let mut servers = Servers::start("files", &store.url("files"));
    let few = servers.add_with_files(FILES, &["--token-file", "token"]);
    place::wait_until("it follows", place::LONG, || servers.ask(few, "/readyz").contains("leads"));
    let mut held: Vec<_> = Vec::new();
    let refused = loop {
        assert!(held.len() < 150, "nothing is refused");
        match servers.stream(few, "/v1/events") {
            Ok(stream) => held.push(stream),
            Err(refused) => break refused,
        }
    };
    assert!(held.len() >= 10, "{} are handed on", held.len());
    // Whoever only keeps a connection has a place beside those, up to the bound of connections.
    let idle: Vec<_> = (held.len()..150).map(|_| servers.stream(few, "/healthz")).collect();
    let full = servers.stream(few, "/v1/status").expect_err("there is no room");
    for refused in [refused, full] {
        let says = |text: &str| assert!(refused.contains(text), "{text:?} in {refused}");
        says("HTTP/1.1 429");
        says("\"code\":\"too-much\"");
        says("ulimit -n");
    }
    drop(idle);
    held.truncate(5);
    place::wait_until("there is room again", place::LONG, || {
        servers.stream(few, "/v1/status").is_ok()
    });
    let log = servers.read(&format!("s{few}.log"));
    assert!(!log.contains("open files"), "it had enough for its store: {log}");
}

#[test]
fn a_server_with_another_token_says_what_to_do() {
    let store = postgres::Server::start(&[]);
    let mut servers = Servers::start("tokens", &store.url("tokens"));
    let odd = servers.add(&[]);
    let own = servers.read(&format!("s{odd}/admin.token"));
    place::wait_until("it follows", place::LONG, || servers.ask(odd, "/readyz").contains("leads"));
    let refused = servers.sterna_with(odd, own.trim(), &["status"]);
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(77), "{said}");
    assert!(said.contains("start all servers with one --token-file"), "{said}");
    let (leader, _) = servers.ranks();
    let refused = servers.sterna_with(leader, own.trim(), &["status"]);
    assert_eq!(refused.status.code(), Some(77));
}

#[test]
fn killed_leaders_lose_nothing_and_start_nothing_twice_on_postgresql() {
    let store = postgres::Server::start(&[]);
    Servers::start("killed", &store.url("killed")).outlive_their_leaders();
}

#[test]
fn killed_leaders_lose_nothing_and_start_nothing_twice_on_etcd() {
    let store = etcd::Cluster::start(3, &[]);
    Servers::start("killed-etcd", &store.url("killed")).outlive_their_leaders();
}

#[test]
fn a_leader_that_stands_still_holds_nobody_up_who_asks_another() {
    let store = postgres::Server::start(&[]);
    let servers = Servers::start("still", &store.url("still"));
    let (leader, followers) = servers.ranks();
    let asked = followers[0];
    // Each begins under the one that will stand still.
    let mut events =
        servers.begin(asked, "events", &["events", "--follow", "--kind", "task-completed"]);
    let mut run =
        servers.begin(asked, "run", &["run", "--", "sh", "-c", "echo first; sleep 25; echo last"]);
    place::wait_until("it runs", place::LONG, || servers.read("run.out") == "first\n");
    servers.signal(leader, "STOP");
    let began = place::now();
    let late = servers.sterna(asked, &["run", "--", "echo", "hello"]);
    assert!(late.status.success(), "{}", String::from_utf8_lossy(&late.stderr));
    assert!(began.elapsed() < place::LONG / 2, "another one leads within its lease");
    assert!(run.wait().unwrap().success(), "{}", servers.read("run.err"));
    assert_eq!(servers.read("run.out"), "first\nlast\n");
    place::wait_until("both ends are told", place::LONG, || {
        servers.read("events.out").matches("exited with 0").count() == 2
    });
    events.kill().unwrap();
    events.wait().unwrap();
    servers.signal(leader, "CONT");
}
