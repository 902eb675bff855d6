//! A worker and a guardian of different versions: what they do not understand ends in a reason, and
//! what runs lives on.

use std::{
    fs,
    io::{Read, Write},
    os::unix::net::{UnixListener, UnixStream},
    process::Command,
    time::Duration,
};

use serde_json::{Value, json};

use crate::worker::{LONG, Place, Worker, instant, run};

fn send(stream: &mut UnixStream, word: &Value) {
    let body = word.to_string();
    let length = u32::try_from(body.len()).unwrap().to_le_bytes();
    stream.write_all(&[&length, &[0][..], body.as_bytes()].concat()).unwrap();
}

/// The next word; `None` at the end of the line.
fn receive(stream: &mut UnixStream) -> Option<Value> {
    let mut head = [0; 5];
    stream.read_exact(&mut head).ok()?;
    let length = u32::from_le_bytes([head[0], head[1], head[2], head[3]]);
    let mut body = vec![0; usize::try_from(length).unwrap()];
    stream.read_exact(&mut body).unwrap();
    Some(serde_json::from_slice(&body).unwrap())
}

fn connect(place: &Place) -> UnixStream {
    let stream = UnixStream::connect(place.path.join("guardian.sock")).unwrap();
    stream.set_read_timeout(Some(LONG)).unwrap();
    stream
}

/// What a later worker would say first.
fn adopt(needs: Option<u32>) -> Value {
    let lock = "dir-00000000000270008000000000000002.machine-00000000000000000000000000000003";
    json!({ "adopt": {
        "incarnation": format!("{lock}.99"), "process": 99, "needs": needs,
        "of_a_later_version": [1],
    } })
}

#[test]
fn a_guardian_refuses_a_worker_that_needs_more_than_it_understands_and_goes_on() {
    let place = Place::new();
    let mut worker = Worker::start(&place);
    worker.start_run(&place, 1, &["sleep", "1000"], json!({}));
    worker.wait_for_state(1, "Running");
    let mut later = connect(&place);
    send(&mut later, &adopt(Some(99)));
    let why = receive(&mut later).unwrap()["refused"]["why"].as_str().unwrap().to_owned();
    assert!(why.contains("version 1 ") && why.contains("version 99"), "{why}");
    assert!(why.contains("start the worker's earlier program again"), "{why}");
    assert_eq!(receive(&mut later), None, "the line is over");
    worker.tell(&json!({ "ping": { "number": 7 } }));
    worker.hear("that the guardian is well", |said| said["pong"] == 7);
    assert_eq!(place.marked().len(), 1, "its own worker and what runs are none the worse");
    worker.end_by("TERM");
}

#[test]
fn words_that_a_guardian_does_not_understand_are_passed_over_and_commands_are_told_as_not_begun() {
    let place = Place::new();
    let mut worker = Worker::start(&place);
    worker.start_run(&place, 1, &["sleep", "1000"], json!({ "when_worker_exits": "keep" }));
    worker.wait_for_state(1, "Running");
    worker.kill();
    let mut later = connect(&place);
    send(&mut later, &json!({ "of_a_later_version": { "run": run(1) } }));
    send(&mut later, &adopt(Some(1)));
    send(&mut later, &json!({ "stop": { "of": "a later version" } }));
    let spawn = json!({ "run": run(2), "part": 0, "way": "of a later version" });
    send(&mut later, &json!({ "spawn": spawn }));
    let mut said = Vec::new();
    while !said.iter().any(|word: &Value| word["fate"]["fate"] == "empty") {
        said.push(receive(&mut later).unwrap());
    }
    let fates: Vec<_> = said.iter().filter(|word| word["fate"]["run"] == run(2)).collect();
    let why = fates[0]["fate"]["fate"]["not_started"]["why"].as_str().unwrap();
    assert!(why.contains("of an earlier version than its worker"), "{said:?}");
    assert_eq!(place.marked().len(), 1, "what runs goes on");
}

/// It is a program of a later version that keeps something and lives on.
#[test]
fn a_worker_says_that_it_does_not_understand_its_guardian_and_kills_nothing() {
    let place = Place::new();
    let lock = fs::File::create(place.path.join("guardian.lock")).unwrap();
    lock.lock().unwrap();
    let listener = UnixListener::bind(place.path.join("guardian.sock")).unwrap();
    let later = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        assert!(receive(&mut stream).unwrap().get("adopt").is_some());
        send(&mut stream, &json!({ "of_a_later_version": {} }));
        let adopted = json!({ "held": [], "has_images": true, "needs": 99 });
        send(&mut stream, &json!({ "adopted": adopted }));
        let asked: Vec<Value> = std::iter::from_fn(|| receive(&mut stream)).collect();
        asked.iter().any(|ask| ask.get("stop").is_some() || ask.get("spawn").is_some())
    });
    let begun = instant();
    let worker = Command::new(env!("CARGO_BIN_EXE_worker-loop")).arg(&place.path).output().unwrap();
    assert!(begun.elapsed() < Duration::from_secs(5), "it took {:?}", begun.elapsed());
    assert!(!worker.status.success());
    let said = String::from_utf8_lossy(&worker.stdout);
    assert!(said.contains("version 99") && said.contains("understands version 1"), "{said}");
    assert!(said.contains("start the worker's earlier program again"), "{said}");
    assert!(!later.join().unwrap(), "it has asked for something all the same");
}
