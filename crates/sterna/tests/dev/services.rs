//! Services through `sterna dev`: they answer while workers are drained and the server is away, and
//! those that crash follow the ladder.

use std::{
    io::{Read, Write},
    net::TcpStream,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    thread::{self, sleep},
    time::Duration,
};

use sterna_api::{
    client::Client,
    rest::{EndpointView, Page},
};

use crate::{
    place::{Cluster, LONG, signal, wait_until},
    storm::block_on,
};

/// A server of HTTP on the port that it is given, which ends at once when it is told to.
const WEB: &str = r#"version = 1
[service.web]
run = ["/usr/bin/python3", "-m", "http.server", "--bind", "127.0.0.1", "${PORT_HTTP}"]
ports = ["http"]
instances = 2
monitor = { http = "/", interval = "100ms" }
"#;

/// Asks for an endpoint before each request, and for the endpoint's page.
fn ask(client: &mut Client, turn: usize) -> Result<(), String> {
    let path = "/v1/namespaces/default/services/web/endpoints";
    let endpoints: Page<EndpointView> =
        block_on(client.get(path)).map_err(|error| error.to_string())?;
    let count = endpoints.items.len().max(1);
    let endpoint = endpoints.items.get(turn % count).ok_or("there is no endpoint")?;
    sleep(Duration::from_millis(50)); // why: so long a client may take to make up its mind
    fetch(&format!("{}:{}", endpoint.address, endpoint.ports["http"]))
}

fn fetch(address: &str) -> Result<(), String> {
    let told = |error: std::io::Error| format!("{address}: {error}");
    let mut socket = TcpStream::connect(address).map_err(told)?;
    socket.set_read_timeout(Some(LONG)).map_err(told)?;
    socket.write_all(b"GET / HTTP/1.0\r\n\r\n").map_err(told)?;
    let mut answer = String::new();
    socket.read_to_string(&mut answer).map_err(told)?;
    if answer.contains(" 200 OK") { Ok(()) } else { Err(format!("{address}: {answer:?}")) }
}

/// Somebody who asks all the time.
struct Asking {
    is_over: Arc<AtomicBool>,
    asked: Arc<AtomicU32>,
    thread: thread::JoinHandle<Vec<String>>,
}

impl Asking {
    fn begin(mut ask: impl FnMut(usize) -> Result<(), String> + Send + 'static) -> Self {
        let (is_over, asked) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU32::new(0)));
        let (over, count) = (Arc::clone(&is_over), Arc::clone(&asked));
        let thread = thread::spawn(move || {
            let mut failed = Vec::new();
            for turn in 0.. {
                failed.extend(ask(turn).err());
                count.fetch_add(1, Ordering::Relaxed);
                if over.load(Ordering::Relaxed) {
                    break;
                }
            }
            failed
        });
        Self { is_over, asked, thread }
    }

    /// Waits until it has asked some more.
    fn some_more(&self) {
        let before = self.asked.load(Ordering::Relaxed);
        wait_until("it asks", LONG, || self.asked.load(Ordering::Relaxed) > before + 20);
    }

    fn assert_answered(self) {
        self.is_over.store(true, Ordering::Relaxed);
        let failed = self.thread.join().expect("it does not panic");
        assert_eq!(failed, Vec::<String>::new());
    }
}

fn start(name: &str, args: &[&str]) -> Cluster {
    let cluster = Cluster::start(name, args);
    cluster.write("web.toml", WEB);
    cluster.answer(&["apply", "web.toml"]);
    wait_until("it runs", LONG, || cluster.answer(&["ls", "services"]).contains("2/2"));
    cluster
}

fn on(cluster: &Cluster, worker: &str) -> usize {
    let instances = cluster.json(&["ls", "instances"]);
    let instances = instances["instances"].as_array().expect("a list").clone();
    let is_there = |instance: &&serde_json::Value| {
        instance["worker"] == worker || instance["twin"]["worker"] == worker
    };
    instances.iter().filter(is_there).count()
}

#[test]
fn a_service_answers_while_its_workers_are_drained_one_after_the_other() {
    let cluster = start("drained", &["--workers", "2"]);
    let mut client = cluster.client();
    let asking = Asking::begin(move |turn| ask(&mut client, turn));
    for worker in ["worker-1", "worker-2", "worker-1"] {
        cluster.answer(&["drain", worker]);
        wait_until("nothing is left there", LONG, || on(&cluster, worker) == 0);
        asking.some_more();
        cluster.answer(&["undrain", worker]);
        asking.some_more();
    }
    asking.assert_answered();
}

/// What takes its time until it listens: who is told of it before has nobody to ask.
const SLOW: &str = r#"version = 1
[service.web]
run = ["sh", "-c", "sleep 2; exec /usr/bin/python3 -m http.server --bind 127.0.0.1 $PORT_HTTP"]
ports = ["http"]
readiness = { http = "/", interval = "100ms", start_timeout = "60s" }
"#;

#[test]
fn a_service_that_is_ready_late_answers_while_its_worker_is_drained() {
    let cluster = Cluster::start("drained-late", &["--workers", "2"]);
    cluster.write("web.toml", SLOW);
    cluster.answer(&["apply", "--wait", "web.toml"]);
    let mut client = cluster.client();
    let asking = Asking::begin(move |turn| ask(&mut client, turn));
    asking.some_more();
    for _ in 0..2 {
        let instance = cluster.json(&["ls", "instances"])["instances"][0].clone();
        let worker = instance["worker"].as_str().expect("it is somewhere").to_owned();
        cluster.answer(&["drain", &worker]);
        // There are two copies for a while, of which the new one is not ready.
        wait_until("the next one begins", LONG, || {
            let now = cluster.json(&["ls", "instances"])["instances"][0].clone();
            now["twin"]["reason"] == "evacuating" && now["is_ready"] == false
        });
        asking.some_more();
        wait_until("nothing is left there", LONG, || on(&cluster, &worker) == 0);
        asking.some_more();
        cluster.answer(&["undrain", &worker]);
    }
    asking.assert_answered();
}

/// How long the server is away: nothing but time is spent meanwhile.
const AWAY: Duration = Duration::from_secs(120);

#[test]
fn services_answer_while_the_server_stands_still_and_everything_is_found_again() {
    let cluster = start("away", &[]);
    let runs = |cluster: &Cluster| {
        let instances = cluster.json(&["ls", "instances"])["instances"].clone();
        let instances = instances.as_array().expect("a list").clone();
        instances.iter().map(|one| one["run_id"].to_string()).collect::<Vec<_>>()
    };
    let before = runs(&cluster);
    let page = block_on(
        cluster.client().get::<Page<EndpointView>>("/v1/namespaces/default/services/web/endpoints"),
    );
    let page = page.expect("the endpoints").items;
    let addresses: Vec<_> =
        page.iter().map(|one| format!("{}:{}", one.address, one.ports["http"])).collect();
    assert_eq!(addresses.len(), 2);
    let asking = Asking::begin(move |turn| fetch(&addresses[turn % addresses.len()]));
    let server = cluster.child("server");
    signal(server, "STOP");
    sleep(AWAY); // why: this long nobody leads
    asking.some_more();
    // They are asked for before it wakes up. Nobody answered its worker for so long that it began anew:
    // what was asked for must not be given to what that was before.
    let hellos: Vec<_> = thread::scope(|scope| {
        let ask = || cluster.sterna(&["run", "--", "echo", "hello"]);
        let asking: Vec<_> = (0..8).map(|_| scope.spawn(ask)).collect();
        sleep(Duration::from_secs(2)); // why: until they have asked
        signal(server, "CONT");
        asking.into_iter().map(|one| one.join().expect("it was asked")).collect()
    });
    for hello in hellos {
        let said = String::from_utf8_lossy(&hello.stderr);
        assert_eq!(&*hello.stdout, b"hello\n", "{:?}: {said}", hello.status);
    }
    assert_eq!(runs(&cluster), before, "they are the same ones, and none was started beside them");
    asking.assert_answered();
}

#[test]
fn a_service_that_crashes_follows_the_ladder() {
    let cluster = Cluster::start("ladder", &[]);
    cluster.write("bad.toml", "version = 1\n[service.bad]\nrun = [\"sh\", \"-c\", \"exit 3\"]\n");
    cluster.answer(&["apply", "bad.toml"]);
    let instance = || cluster.json(&["ls", "instances"])["instances"][0].clone();
    // Three times at once, then after half a minute.
    wait_until("it has crashed three times", LONG, || {
        let instance = instance();
        instance["crashes"] == 3 && instance["phase"] == "crashed"
    });
    let instance = instance();
    let moment = |field: &str| {
        let text = instance[field].as_str().expect("a moment").to_owned();
        text.parse::<jiff::Timestamp>().expect("it is one").as_millisecond()
    };
    let waits = moment("again_at") - moment("since");
    assert!((29_000..=31_000).contains(&waits), "{waits} ms: {instance}");
    let why = cluster.answer(&["why", "bad/0"]);
    assert!(why.contains("crashed") && why.contains("3"), "{why}");
    let events = cluster.answer(&["events", "--key", "default/service/bad"]);
    assert_eq!(events.matches("instance-crashed").count(), 3, "{events}");
}

#[test]
fn what_was_given_up_begins_again_when_it_is_stopped_or_changed_and_that_is_said() {
    let cluster = Cluster::start("given-up", &["--workers", "1"]);
    let spec = |end: &str| {
        cluster.write(
            "s.toml",
            &format!(
                "version = 1\n[service.web]\nrun = [\"sh\", \"-c\", \"sleep 0.2; exit {end}\"]\n\
                 crash = {{ give_up_at = 1 }}\n"
            ),
        );
    };
    let given_up = || {
        wait_until("it is given up", LONG, || {
            cluster.json(&["why", "web/0"])["rule"] == "given-up"
        });
    };
    spec("1");
    cluster.answer(&["apply", "s.toml"]);
    given_up();
    let said = cluster.answer(&["stop", "web/0"]);
    assert!(said.contains("had crashed, and restarts at once"), "{said}");
    given_up();
    let killed = cluster.sterna(&["kill", "web/0"]);
    let said = String::from_utf8_lossy(&killed.stderr).into_owned();
    assert!(said.contains("has no run to kill; `sterna why service/web/0`"), "{said}");
    assert_eq!(killed.status.code(), Some(1), "what was asked for was not done");
    assert_eq!(cluster.json(&["stop", "web/0"])["begins_again"], true);
    given_up();
    spec("2");
    let planned = cluster.answer(&["plan", "s.toml"]);
    assert!(planned.contains("would restart 1 crashed instance"), "{planned}");
    let applied = cluster.json(&["apply", "s.toml"]);
    assert_eq!(applied["services"][0]["changes"][0]["kind"], "begin-again", "{applied}");
}

/// It ends for as long as its grace is, and somebody may want to know for what it waits.
#[test]
fn what_still_ends_of_a_service_that_was_deleted_is_found() {
    let cluster = Cluster::start("deleted", &[]);
    let spec = "version = 1\n[service.deaf]\nsignals = { grace = \"10m\" }\n\
        run = [\"sh\", \"-c\", \"trap '' TERM; echo here; while :; do sleep 0.1; done\"]\n";
    cluster.write("deaf.toml", spec);
    cluster.answer(&["apply", "deaf.toml"]);
    wait_until("it runs", LONG, || {
        cluster.sterna(&["logs", "deaf/0"]).stdout.starts_with(b"here\n")
    });
    cluster.answer(&["delete", "deaf"]);
    let listed = cluster.json(&["ls", "instances"]);
    assert_eq!(listed["instances"][0]["key"], "default/service/deaf/0", "{listed}");
    assert!(cluster.answer(&["ls", "instances"]).contains("deaf/0"));
    let why = cluster.answer(&["why", "deaf"]);
    assert!(
        why.contains("default/service/deaf: it was deleted, and 1 instance still ends"),
        "{why}"
    );
    assert!(why.contains("default/service/deaf/0: worker-1 is ending it"), "{why}");
    assert_eq!(cluster.json(&["why", "deaf/0"])["key"], "default/service/deaf/0");
    for selector in ["deaf/0", "deaf", "service/deaf/0"] {
        assert_eq!(cluster.answer(&["logs", selector]), "here\n", "{selector}");
    }
    // It is not there to be deleted again, and what still ends can be killed.
    let again = cluster.sterna(&["delete", "deaf"]);
    let said = String::from_utf8_lossy(&again.stderr).into_owned();
    assert!(again.status.code() == Some(1) && said.contains("there is no service deaf"), "{said}");
    cluster.answer(&["kill", "deaf/0"]);
    wait_until("nothing is left", LONG, || {
        cluster.json(&["ls", "instances"])["instances"] == serde_json::json!([])
    });
    assert_eq!(cluster.sterna(&["why", "deaf"]).status.code(), Some(1));
}

/// It said so half a second before: who drained another worker then moved nothing here.
#[test]
fn who_undrains_a_worker_can_count_on_it_at_once() {
    let cluster = Cluster::start("undrained", &[]);
    for _ in 0..3 {
        cluster.answer(&["drain", "worker-1"]);
        let said = cluster.answer(&["undrain", "worker-1"]);
        assert_eq!(said, "worker worker-1 takes work again\n");
        let workers = cluster.json(&["ls", "workers"]);
        assert_eq!(workers["workers"][0]["takes_work"], true, "{workers}");
    }
}
