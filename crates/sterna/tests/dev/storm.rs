//! A server that is killed again and again under load: what was acknowledged is there, and nothing was
//! started twice. The tasks themselves tell: each appends its name to a file.

use std::{
    collections::BTreeMap,
    env, fs,
    io::{self, Write as _},
    net::TcpListener,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, sleep},
    time::Duration,
};

use serde_json::json;
use sterna_api::{
    client::Client,
    rest::{CreateTask, TaskView},
};
use sterna_model::{TaskIncarnation, WallTime};

use crate::place::{LONG, now, of_directory, program, wait_until};

/// How often it is killed.
const ROUNDS: u32 = 100;

/// A directory with a server of its own.
pub(crate) struct Place {
    pub(crate) path: PathBuf,
    pub(crate) address: String,
}

impl Place {
    pub(crate) fn new(name: &str) -> Self {
        let path = env::temp_dir().join(format!("sterna-{name}-{}", std::process::id()));
        drop(fs::remove_dir_all(&path));
        fs::create_dir_all(&path).expect("a directory for the test");
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address").to_string();
        Self { path, address }
    }

    fn start(&self, log: &str, args: &[&str]) -> Child {
        let log = fs::OpenOptions::new().create(true).append(true).open(self.path.join(log));
        let mut command = program();
        // By this it is found and ended, however the test ends.
        command.args(args).current_dir(&self.path).env("PWD", &self.path);
        command.stdin(Stdio::null()).stdout(Stdio::null());
        command.stderr(log.expect("a log")).spawn().expect("it starts")
    }

    pub(crate) fn server(&self) -> Child {
        self.server_with(&[])
    }

    pub(crate) fn server_with(&self, options: &[&str]) -> Child {
        let usual = ["server", "--make", "--data", "server", "--listen", &self.address];
        self.start("server.log", &[&usual, options].concat())
    }

    pub(crate) fn client(&self) -> Client {
        Client::new(self.address.clone(), self.token())
    }

    pub(crate) fn token(&self) -> String {
        let token = fs::read_to_string(self.path.join("server/admin.token")).unwrap_or_default();
        token.trim().to_owned()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if thread::panicking() {
            for log in ["server.log", "worker.log"] {
                let text = fs::read_to_string(self.path.join(log)).unwrap_or_default();
                let lines: Vec<_> = text.lines().collect();
                let from = lines.len().saturating_sub(60);
                let end = lines[from..].join("\n");
                drop(writeln!(io::stderr(), "the end of {log}:\n{end}"));
            }
        }
        for pid in of_directory(&self.path) {
            let kill = Command::new("kill")
                .arg("-KILL")
                .arg(pid.to_string())
                .stderr(Stdio::null())
                .status();
            drop(kill);
        }
        drop(fs::remove_dir_all(&self.path));
    }
}

/// Asks for one task after the other, each until it is acknowledged.
async fn submit(place: &Place, number: u8, is_over: &AtomicBool, acked: &Mutex<Vec<String>>) {
    let ran = place.path.join("ran");
    for count in 0_u32.. {
        let name = format!("t{number}-{count}");
        let unique = [[number; 6].as_slice(), &count.to_be_bytes()].concat();
        let unique = unique.try_into().expect("ten bytes");
        let asked = CreateTask {
            name: name.clone(),
            spec: json!({ "run": ["sh", "-c", format!("echo {name} >> {}", ran.display())] }),
            incarnation: Some(TaskIncarnation::from_parts(WallTime::EPOCH, unique).to_string()),
        };
        let mut client = place.client();
        let path = "/v1/namespaces/default/tasks";
        while client.call::<TaskView>(http::Method::POST, path, Some(&asked)).await.is_err() {
            if is_over.load(Ordering::Relaxed) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(5)).await; // why: the server is being started
            client = place.client();
        }
        acked.lock().expect("no thread panicked").push(name);
        if is_over.load(Ordering::Relaxed) {
            return;
        }
    }
}

/// Waits until something is so, as long as other tasks run meanwhile: what is left to do when the clients
/// have ended takes a busy machine a while.
fn while_it_goes_on(place: &Place, what: &str, mut is_so: impl FnMut() -> bool) {
    let ran = || fs::metadata(place.path.join("ran")).map_or(0, |file| file.len());
    let (mut so_far, mut since) = (ran(), now());
    while !is_so() {
        if ran() > so_far {
            (so_far, since) = (ran(), now());
        }
        assert!(since.elapsed() < LONG, "nothing ran for {LONG:?}: {what}");
        sleep(Duration::from_millis(20)); // why: what is waited for happens in other processes, and nothing tells of it
    }
}

fn names(path: &Path) -> BTreeMap<String, u32> {
    let mut names = BTreeMap::new();
    for line in fs::read_to_string(path).unwrap_or_default().lines() {
        *names.entry(line.to_owned()).or_insert(0) += 1;
    }
    names
}

pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(future)
}

#[test]
fn nothing_acknowledged_is_lost_and_nothing_runs_twice_when_the_server_is_killed() {
    let place = Arc::new(Place::new("storm"));
    let mut server = place.server();
    let join = place.address.clone();
    let mut worker =
        place.start("worker.log", &["worker", "--join", &join, "--name", "w", "--data", "worker"]);
    let (is_over, acked) = (Arc::new(AtomicBool::new(false)), Arc::new(Mutex::new(Vec::new())));
    let clients: Vec<_> = (1..=3)
        .map(|number| {
            let (place, is_over, acked) =
                (Arc::clone(&place), Arc::clone(&is_over), Arc::clone(&acked));
            thread::spawn(move || block_on(submit(&place, number, &is_over, &acked)))
        })
        .collect();
    let count = || acked.lock().expect("no thread panicked").len();
    for round in 0..ROUNDS {
        let before = count();
        wait_until("more is acknowledged", LONG, || count() > before + 3);
        sleep(Duration::from_millis(u64::from(round) * 37 % 200)); // why: at another moment of its work each time
        server.kill().expect("it runs");
        server.wait().expect("it ran");
        server = place.server();
    }
    let before = count();
    wait_until("more is acknowledged", LONG, || count() > before + 3);
    is_over.store(true, Ordering::Relaxed);
    for client in clients {
        client.join().expect("no client panics");
    }
    let acked = acked.lock().expect("no thread panicked").clone();
    for name in &acked {
        let path = format!("/v1/namespaces/default/tasks/{name}");
        while_it_goes_on(&place, &format!("{name} is over"), || {
            let task = block_on(place.client().get::<TaskView>(&path));
            let end = task.ok().and_then(|task| task.end);
            assert!(end.as_ref().is_none_or(|end| end.is_success), "{name}: {end:?}");
            end.is_some()
        });
    }
    let ran = names(&place.path.join("ran"));
    for name in &acked {
        assert_eq!(ran.get(name), Some(&1), "{name} of {}", acked.len());
    }
    assert!(ran.values().all(|times| *times == 1), "{ran:?}");
    worker.kill().expect("it runs");
    server.kill().expect("it runs");
    drop((worker.wait(), server.wait()));
}
