//! Many readers of events while tasks come and go: no event is lost, none comes twice, and all come in
//! their order. A reader that stops reading costs nothing.

use std::{fs, sync::Arc, time::Duration};

use rustix::process::{Resource, getrlimit, setrlimit};
use serde_json::json;
use sterna_api::rest::{CreateTask, Status, TaskView};
use sterna_model::{
    Amounts, Bytes, Countables, DirectoryId, Incarnation, Lock, MachineId, Millicores, Name,
    WallTime, WorkKey,
};
use sterna_worker::link::{
    Description,
    rehearsal::{Audience, rehearse},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    sync::Semaphore,
    task::JoinSet,
    time::{sleep, timeout},
};

use crate::{place::LONG, storm::Place};

/// How many read at once.
const READERS: usize = 1_000;
/// How many tasks come and go meanwhile: what is lost or doubled rarely is found only among many.
const TASKS: usize = 10_000;

/// How many readers stop reading at once.
const STALLED: usize = 20;

struct Nobody;

impl Audience for Nobody {
    fn begins(&mut self, _: &WorkKey) {}
    fn is_recorded(&mut self) {}
    fn says(&mut self, _: &str) {}
}

/// A worker that only says that it runs what it is given.
pub(crate) async fn worker(address: String) {
    let lock = Lock {
        directory: DirectoryId::from_parts(WallTime::EPOCH, [9; 10]),
        machine: MachineId::from_bytes([9; 16]).expect("a machine"),
    };
    let amounts = Amounts {
        cpu: Millicores::new(1_000_000),
        memory: Bytes::new(1 << 40),
        disk: Bytes::new(1 << 40),
        containers: 100_000,
        countables: Countables::default(),
    };
    let description = Description { amounts, ..Description::default() };
    let (address, name) = (address.parse().expect("an address"), Name::new("w").expect("a name"));
    rehearse(address, name, Incarnation { lock, life: 1 }, description, &mut Nobody).await;
}

/// A reader of events, from the first.
struct Reader {
    socket: TcpStream,
    rest: Vec<u8>,
    /// The number of the last event; they have no holes.
    last: u64,
    ended: usize,
}

impl Reader {
    async fn open(place: &Place) -> Self {
        let mut socket = TcpStream::connect(&place.address).await.expect("the server listens");
        let token = place.token();
        let request = format!(
            "GET /v1/events?after=0 HTTP/1.1\r\nHost: sterna\r\nAuthorization: Bearer {token}\r\n\r\n"
        );
        socket.write_all(request.as_bytes()).await.expect("it reads");
        Self { socket, rest: Vec::new(), last: 0, ended: 0 }
    }

    /// Reads on until so many tasks have ended.
    async fn read_until(&mut self, tasks: usize) {
        let mut buffer = vec![0; 64 << 10];
        while self.ended < tasks {
            let read = timeout(LONG * 5, self.socket.read(&mut buffer)).await;
            let count = read.expect("events come").expect("the stream goes on");
            assert!(count > 0, "it was hung up on after event {}", self.last);
            self.rest.extend_from_slice(&buffer[..count]);
            self.take_lines();
        }
    }

    fn take_lines(&mut self) {
        let mut from = 0;
        while let Some(length) = self.rest[from..].iter().position(|byte| *byte == b'\n') {
            let line = &self.rest[from..from + length];
            from += length + 1;
            if let Some(id) = line.strip_prefix(b"id: ") {
                let id = String::from_utf8_lossy(id);
                let number = id.rsplit('.').next().and_then(|number| number.trim().parse().ok());
                let number: u64 = number.expect("the number of an event");
                assert_eq!(number, self.last + 1, "none is lost, none comes twice");
                self.last = number;
            }
            self.ended += usize::from(line.starts_with(b"event: task-completed"));
        }
        self.rest.drain(..from);
    }
}

pub(crate) async fn create(place: &Place, number: usize) {
    let asked = CreateTask {
        name: format!("t-{number}"),
        spec: json!({ "run": ["true"], "memory": "1MiB", "cpu": 0.01 }),
        incarnation: None,
    };
    let path = "/v1/namespaces/default/tasks";
    let made = place.client().call::<TaskView>(http::Method::POST, path, Some(&asked)).await;
    made.expect("it is made");
}

/// Waits until the server answers so.
pub(crate) async fn until(place: &Place, is_so: impl Fn(&Status) -> bool) {
    let there = async {
        loop {
            let status = place.client().get::<Status>("/v1/status").await;
            if status.is_ok_and(|status| is_so(&status)) {
                return;
            }
            sleep(Duration::from_millis(20)).await; // why: another process starts, and nothing tells of it
        }
    };
    timeout(LONG, there).await.expect("the server answers");
}

/// The memory of a process, in KiB.
pub(crate) fn memory(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap_or_default();
    line.split_whitespace().nth(1).and_then(|count| count.parse().ok()).expect("its memory")
}

#[test]
fn many_readers_see_every_event_once_and_in_order() {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    setrlimit(Resource::Nofile, limit).expect("as many files as there may be");
    let (readers, tasks) = (READERS, TASKS);
    let place = Arc::new(Place::new("crowd"));
    let mut server = place.server();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    runtime.expect("a runtime").block_on(async {
        until(&place, |_| true).await;
        let worker = tokio::spawn(worker(place.address.clone()));
        until(&place, |status| status.takes_work).await;
        let mut all = JoinSet::new();
        for _ in 0..readers {
            let mut reader = Reader::open(&place).await;
            all.spawn(async move {
                reader.read_until(tasks).await;
                reader.last
            });
        }
        let mut stalled = Vec::new();
        for _ in 0..STALLED {
            stalled.push(Reader::open(&place).await);
        }
        let (mut made, at_once) = (JoinSet::new(), Arc::new(Semaphore::new(64)));
        for number in 0..tasks {
            let place = Arc::clone(&place);
            let turn = Arc::clone(&at_once).acquire_owned().await.expect("it stays open");
            made.spawn(async move {
                create(&place, number).await;
                drop(turn);
            });
        }
        made.join_all().await;
        let last = all.join_all().await;
        // That it was made, that it runs, and that it is over.
        assert!(last.iter().all(|number| *number >= 3 * tasks as u64), "all of them: {last:?}");
        // What they cost meanwhile is looked at in `slow`: here all fits into the system's own buffers.
        for reader in &mut stalled {
            reader.read_until(tasks).await;
        }
        worker.abort();
    });
    server.kill().expect("it runs");
    server.wait().expect("it ran");
}
