//! Three servers on one store, and a worker that may join any of them.

use std::{
    collections::BTreeMap,
    fs,
    io::{Read as _, Write as _},
    net::{TcpListener, TcpStream},
    path::PathBuf,
    process::{Child, Command, Output, Stdio},
    sync::{
        Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use serde_json::json;
use sterna_api::{
    client::Client,
    rest::{CreateTask, TaskView},
};
use sterna_model::{TaskIncarnation, WallTime};

use crate::place::{LONG, of_directory, program, signal, wait_until};

/// How many leaders are killed, one after the other.
const KILLED: usize = 3;
const TOKEN: &str = "the-token-of-all";

pub(crate) struct Servers {
    path: PathBuf,
    store: String,
    servers: Vec<(String, Child)>,
    worker: Child,
}

impl Servers {
    /// Starts three servers and a worker, and waits until each of them can be asked.
    pub(crate) fn start(name: &str, store: &str) -> Self {
        let path = std::env::temp_dir().join(format!("sterna-{name}-{}", std::process::id()));
        drop(fs::remove_dir_all(&path));
        fs::create_dir_all(&path).unwrap();
        let path = fs::canonicalize(&path).unwrap();
        fs::write(path.join("token"), format!("{TOKEN}\n")).unwrap();
        // Held until all are there, so that none has the port of another.
        let ports: Vec<_> = (0..3).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
        let addresses: Vec<_> =
            ports.iter().map(|port| port.local_addr().unwrap().to_string()).collect();
        drop(ports);
        let mut args = vec!["worker", "--name", "w", "--data", "w"];
        args.extend(addresses.iter().flat_map(|address| ["--join", address]));
        let worker = begin(&path, "w", program(), &args);
        let mut servers = Self { path, store: store.to_owned(), servers: Vec::new(), worker };
        for (number, address) in addresses.into_iter().enumerate() {
            let server = servers.server(number, &address, &["--token-file", "token"]);
            servers.servers.push((address, server));
        }
        for server in 0..3 {
            wait_until("work can be given", LONG, || {
                servers.sterna(server, &["status"]).status.success()
            });
        }
        servers
    }

    fn server(&self, number: usize, address: &str, more: &[&str]) -> Child {
        self.server_by(program(), number, address, more)
    }

    fn server_by(&self, program: Command, number: usize, address: &str, more: &[&str]) -> Child {
        let data = format!("s{number}");
        let store = &self.store;
        let usual = ["server", "--make", "--data", &data, "--listen", address, "--store", store];
        begin(&self.path, &data, program, &[&usual, more].concat())
    }

    /// One more server, started with these options.
    pub(crate) fn add(&mut self, more: &[&str]) -> usize {
        self.add_by(program(), more)
    }

    /// The same, which may open so many files.
    pub(crate) fn add_with_files(&mut self, files: &str, more: &[&str]) -> usize {
        let mut shell = Command::new("sh");
        shell.args(["-c", "ulimit -n $1 && shift && exec \"$@\"", "sh", files]);
        shell.arg(program().get_program());
        self.add_by(shell, more)
    }

    fn add_by(&mut self, program: Command, more: &[&str]) -> usize {
        let port = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = port.local_addr().unwrap().to_string();
        drop(port);
        let number = self.servers.len();
        let server = self.server_by(program, number, &address, more);
        self.servers.push((address, server));
        wait_until("it listens", LONG, || !self.ask(number, "/healthz").is_empty());
        number
    }

    pub(crate) fn address(&self, server: usize) -> &str {
        &self.servers[server].0
    }

    pub(crate) fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path.join(name)).unwrap()
    }

    /// Who leads, and who does not.
    pub(crate) fn ranks(&self) -> (usize, Vec<usize>) {
        let leads = |server: &usize| self.ask(*server, "/metrics").contains("sterna_leading 1");
        let (leaders, followers): (Vec<usize>, _) = (0..self.servers.len()).partition(leads);
        assert_eq!(leaders.len(), 1, "{}", self.logs());
        (leaders[0], followers)
    }

    /// What a server answers, however that is; nothing if it does not.
    pub(crate) fn ask(&self, server: usize, path: &str) -> String {
        let url = format!("http://{}{path}", self.address(server));
        let mut curl = Command::new("curl");
        curl.args(["-s", "-m", "5", "-H", &format!("Authorization: Bearer {TOKEN}"), &url]);
        String::from_utf8(curl.output().unwrap().stdout).unwrap()
    }

    /// An answer that has begun and is not read on; or all of one that refuses.
    pub(crate) fn stream(&self, server: usize, path: &str) -> Result<TcpStream, String> {
        let mut socket = TcpStream::connect(self.address(server)).unwrap();
        socket.set_read_timeout(Some(LONG)).unwrap();
        let request =
            format!("GET {path} HTTP/1.1\r\nHost: sterna\r\nAuthorization: Bearer {TOKEN}\r\n\r\n");
        socket.write_all(request.as_bytes()).unwrap();
        let mut head = [0; 12];
        socket.read_exact(&mut head).unwrap();
        if head == *b"HTTP/1.1 200" {
            return Ok(socket);
        }
        let mut answer = head.to_vec();
        // Every refusal is one object, and the connection stays open after it.
        while !answer.ends_with(b"}") {
            let mut some = [0; 1_024];
            let count = socket.read(&mut some).unwrap();
            assert!(count > 0, "{}", String::from_utf8_lossy(&answer));
            answer.extend_from_slice(&some[..count]);
        }
        Err(String::from_utf8(answer).unwrap())
    }

    pub(crate) fn sterna(&self, server: usize, args: &[&str]) -> Output {
        self.sterna_with(server, TOKEN, args)
    }

    pub(crate) fn sterna_with(&self, server: usize, token: &str, args: &[&str]) -> Output {
        let mut command = program();
        let (verb, rest) = args.split_first().unwrap();
        command.arg(verb).args(["--server", self.address(server)]).args(rest);
        command.env("STERNA_TOKEN", token).current_dir(&self.path).stdin(Stdio::null());
        command.output().unwrap()
    }

    /// A command that goes on; what it says is in files of its name.
    pub(crate) fn begin(&self, server: usize, name: &str, args: &[&str]) -> Child {
        let file = |end: &str| fs::File::create(self.path.join(format!("{name}.{end}"))).unwrap();
        let (verb, rest) = args.split_first().unwrap();
        let mut command = program();
        command.arg(verb).args(["--server", self.address(server)]).args(rest);
        command.env("STERNA_TOKEN", TOKEN).current_dir(&self.path).stdin(Stdio::null());
        command.stdout(file("out")).stderr(file("err")).spawn().unwrap()
    }

    pub(crate) fn signal(&self, server: usize, name: &str) {
        signal(self.servers[server].1.id(), name);
    }

    /// What a command prints that succeeds.
    pub(crate) fn answer(&self, server: usize, args: &[&str]) -> String {
        let output = self.sterna(server, args);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{args:?}: {said}\n{}", self.logs());
        String::from_utf8(output.stdout).unwrap()
    }

    fn logs(&self) -> String {
        let of = |number| self.read(&format!("s{number}.log"));
        (0..self.servers.len()).map(|number| format!("s{number}:\n{}\n", of(number))).collect()
    }

    /// Kills who leads, again and again, while clients ask any server for tasks: what was acknowledged
    /// ran, once, and a service's process goes on.
    pub(crate) fn outlive_their_leaders(mut self) {
        let spec = "version = 1\n[service.steady]\nrun = [\"sh\", \"-c\", \"echo $$ >> steady.pids; exec sleep 1000\"]\n";
        let steady = self.path.join("steady.pids");
        let spec = spec.replace("steady.pids", steady.to_str().unwrap());
        fs::write(self.path.join("steady.toml"), spec).unwrap();
        self.answer(0, &["apply", "steady.toml"]);
        wait_until("the service runs", LONG, || steady.exists());
        let (is_over, acked) = (AtomicBool::new(false), Mutex::new(Vec::new()));
        let addresses: Vec<_> = self.servers.iter().map(|(address, _)| address.clone()).collect();
        let ran = self.path.join("ran");
        let count = || acked.lock().unwrap().len();
        thread::scope(|scope| {
            let clients: Vec<_> = (1..=3_u8)
                .map(|number| {
                    let (ran, is_over, acked) = (ran.to_str().unwrap(), &is_over, &acked);
                    let addresses = &addresses;
                    scope.spawn(move || block_on(submit(addresses, number, ran, is_over, acked)))
                })
                .collect();
            for _ in 0..KILLED {
                let (leader, followers) = self.ranks();
                signal(self.servers[leader].1.id(), "KILL");
                drop(self.servers[leader].1.wait());
                let before = count();
                let is_led =
                    |server: &usize| self.ask(*server, "/metrics").contains("sterna_leading 1");
                wait_until("another one leads", LONG, || followers.iter().any(is_led));
                wait_until("more is acknowledged", LONG, || count() > before + 3);
                let address = self.servers[leader].0.clone();
                self.servers[leader].1 = self.server(leader, &address, &["--token-file", "token"]);
                wait_until("it follows", LONG, || self.ask(leader, "/readyz").contains("leads"));
            }
            is_over.store(true, Ordering::Relaxed);
            for client in clients {
                client.join().unwrap();
            }
        });
        let acked = acked.into_inner().unwrap();
        for name in &acked {
            let path = format!("/v1/namespaces/default/tasks/{name}");
            wait_until(&format!("{name} is over"), LONG, || {
                let mut client = Client::new(self.address(0), TOKEN);
                let task = block_on(client.get::<TaskView>(&path));
                task.is_ok_and(|task| task.end.is_some_and(|end| end.is_success))
            });
        }
        let mut times = BTreeMap::new();
        for line in fs::read_to_string(&ran).unwrap().lines() {
            *times.entry(line.to_owned()).or_insert(0) += 1;
        }
        assert!(acked.iter().all(|name| times.get(name) == Some(&1)), "{times:?}");
        assert!(times.values().all(|times| *times == 1), "{times:?}");
        let pids = fs::read_to_string(&steady).unwrap();
        let pid: u32 = pids.trim().parse().expect("it was begun once");
        assert!(fs::exists(format!("/proc/{pid}")).unwrap(), "it runs on");
    }
}

impl Drop for Servers {
    fn drop(&mut self) {
        if thread::panicking() {
            drop(std::io::Write::write_all(&mut std::io::stderr(), self.logs().as_bytes()));
        }
        drop(self.worker.kill());
        drop(self.worker.wait());
        for (_, server) in &mut self.servers {
            drop((server.kill(), server.wait()));
        }
        for pid in of_directory(&self.path) {
            let mut kill = Command::new("kill");
            drop(kill.arg("-KILL").arg(pid.to_string()).stderr(Stdio::null()).status());
        }
        drop(fs::remove_dir_all(&self.path));
    }
}

fn begin(path: &PathBuf, name: &str, mut command: Command, args: &[&str]) -> Child {
    let file = |end: &str| {
        let path = path.join(format!("{name}.{end}"));
        fs::OpenOptions::new().create(true).append(true).open(path).unwrap()
    };
    // By this it is found and ended, however the test ends.
    command.args(args).current_dir(path).env("PWD", path);
    command.stdin(Stdio::null()).stdout(file("out")).stderr(file("log")).spawn().unwrap()
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.unwrap().block_on(future)
}

/// Asks for one task after the other, each until some server has acknowledged it.
async fn submit(
    servers: &[String],
    number: u8,
    ran: &str,
    is_over: &AtomicBool,
    acked: &Mutex<Vec<String>>,
) {
    let mut servers = servers.iter().cycle().skip(usize::from(number));
    for count in 0_u32.. {
        let name = format!("t{number}-{count}");
        let unique = [[number; 6].as_slice(), &count.to_be_bytes()].concat();
        let unique = unique.try_into().expect("ten bytes");
        let asked = CreateTask {
            name: name.clone(),
            spec: json!({ "run": ["sh", "-c", format!("echo {name} >> {ran}")] }),
            incarnation: Some(TaskIncarnation::from_parts(WallTime::EPOCH, unique).to_string()),
        };
        let path = "/v1/namespaces/default/tasks";
        loop {
            if is_over.load(Ordering::Relaxed) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await; // why: a steady pace, and nothing tells when somebody leads
            let mut client = Client::new(servers.next().expect("they go round"), TOKEN);
            let made = client.call::<TaskView>(http::Method::POST, path, Some(&asked)).await;
            if made.is_ok() {
                acked.lock().unwrap().push(name);
                break;
            }
        }
    }
}
