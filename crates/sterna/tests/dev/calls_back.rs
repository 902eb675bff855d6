//! Receivers of callbacks that do not answer: what waits for them is bounded, and keeps nobody else's.

use std::{
    io::{Read as _, Write as _},
    net::TcpListener,
    sync::mpsc,
    thread,
    time::Duration,
};

use serde_json::{Value, json};

use crate::api::{Api, Said, TASKS};

fn create(api: &Api, name: &str, receiver: &TcpListener) -> Said {
    let url = format!("http://{}/over", receiver.local_addr().expect("it listens"));
    let task = json!({ "name": name, "spec": { "run": ["true"], "callback": url } });
    api.ask("POST", TASKS, &[], Some(&task))
}

/// Nothing runs here: a task is over because it is cancelled, and then its callback is tried.
fn over(api: &Api, name: &str, receiver: &TcpListener) {
    assert_eq!(create(api, name, receiver).status, 201, "{name}");
    assert_eq!(api.ask("POST", &format!("{TASKS}/{name}/cancel"), &[], None).status, 200, "{name}");
}

/// Takes connections, and says nothing.
fn silent() -> TcpListener {
    TcpListener::bind("127.0.0.1:0").expect("a port")
}

#[test]
fn what_waits_for_a_receiver_that_hangs_is_bounded_and_keeps_no_other_task_away() {
    let api = Api::start_with("resolving", &["--tasks-max", "3"]);
    let receiver = silent();
    for number in 0..3 {
        over(&api, &format!("t-{number}"), &receiver);
    }
    let said = create(&api, "more", &receiver);
    assert_eq!((said.status, &said.body["code"]), (429, &json!("too-much")), "{}", said.text);
    let message = said.body["message"].as_str().unwrap_or_default();
    assert!(
        message.contains("3 tasks are over, and their callbacks are not delivered yet"),
        "{message}"
    );
    let other = json!({ "name": "other", "spec": { "run": ["true"] } });
    assert_eq!(api.ask("POST", TASKS, &[], Some(&other)).status, 201, "nobody is to be told of it");
    let why = api.ask("GET", &format!("{TASKS}/t-0/why"), &[], None);
    assert_eq!(why.body["rule"], "telling", "{}", why.text);
    let metrics = api.ask("GET", "/metrics", &[], None).text;
    assert!(metrics.contains("\nsterna_tasks_telling 3\n"), "{metrics}");
}

/// Before, everybody waited for a receiver that hangs.
#[test]
fn a_receiver_that_hangs_keeps_nobody_else_from_being_told() {
    let api = Api::start_with("hanging", &[]);
    let (hanging, healthy) = (silent(), silent());
    for number in 0..100 {
        over(&api, &format!("hung-{number}"), &hanging);
    }
    let well = TcpListener::try_clone(&healthy).expect("it listens");
    let (tell, told) = mpsc::channel();
    thread::spawn(move || {
        for socket in well.incoming() {
            let mut socket = socket.expect("somebody calls");
            let mut said = vec![0; 4096];
            let count = socket.read(&mut said).expect("it is asked");
            said.truncate(count);
            socket
                .write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")
                .expect("it is answered");
            // The test may be over.
            drop(tell.send(String::from_utf8_lossy(&said).into_owned()));
        }
    });
    over(&api, "well", &healthy);
    // Those that hang are given up after 10 s each.
    let said = told.recv_timeout(Duration::from_secs(6)).expect("it is told soon");
    let body: Value = said.split("\r\n\r\n").nth(1).map(serde_json::from_str).unwrap().unwrap();
    assert_eq!(body["key"], "default/task/well");
}
