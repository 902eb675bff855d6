//! A real etcd cluster of a test's own, in a temporary folder and on free ports.

use std::{
    fs,
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{
        Mutex,
        atomic::{AtomicU32, Ordering},
    },
};

/// A cluster that runs until the test ends, however it ends.
pub(crate) struct Cluster {
    folder: PathBuf,
    members: Vec<Member>,
    scheme: &'static str,
    /// What every member is started with.
    settings: Vec<String>,
    /// Waits for the end of its input, which also comes when this process is killed; then it ends
    /// the members and removes the folder.
    undertaker: Child,
}

struct Member {
    client: u16,
    peer: u16,
    process: Mutex<Option<Child>>,
}

impl Cluster {
    /// Makes and starts so many members, each with these settings.
    pub(crate) fn start(members: usize, settings: &[&str]) -> Self {
        Self::start_with(members, settings, "http", |_| {})
    }

    /// The same, with connections of clients over this scheme, and after something was put into
    /// its folder; `FOLDER` in a setting stands for that.
    pub(crate) fn start_with(
        members: usize,
        settings: &[&str],
        scheme: &'static str,
        furnish: impl FnOnce(&Path),
    ) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("sterna-etcd-{}-{number}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        fs::create_dir(&folder).unwrap();
        furnish(&folder);
        // Members that are started anew have another process; each leaves its number in a file.
        let script = format!(
            "read end; for id in {0}/*.pid; do kill -9 $(cat $id); done >/dev/null 2>&1; rm -rf {0}",
            folder.display()
        );
        let mut undertaker = Command::new("sh");
        undertaker.args(["-c", &script]).stdin(Stdio::piped());
        undertaker.stdout(Stdio::null()).stderr(Stdio::null());
        // In a group of its own: it must outlive the test when that is killed with all of its.
        let undertaker = undertaker.process_group(0).spawn().unwrap();
        let member =
            || Member { client: free_port(), peer: free_port(), process: Mutex::new(None) };
        let members = (0..members).map(|_| member()).collect();
        let inside = |setting: &&str| setting.replace("FOLDER", folder.to_str().unwrap());
        let settings = settings.iter().map(inside).collect();
        let cluster = Self { folder, members, scheme, settings, undertaker };
        (0..cluster.members.len()).for_each(|member| cluster.launch(member));
        cluster.until_healthy();
        cluster
    }

    /// How many members there are.
    pub(crate) fn size(&self) -> usize {
        self.members.len()
    }

    /// Where it keeps its files.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Starts a member, and does not wait for it.
    pub(crate) fn launch(&self, member: usize) {
        let Member { client, peer, process } = &self.members[member];
        let peers = self.members.iter().enumerate();
        let peers: Vec<_> =
            peers.map(|(index, it)| format!("m{index}=http://127.0.0.1:{}", it.peer)).collect();
        let log = fs::File::options().create(true).append(true).open(self.folder.join("log"));
        let address = format!("{}://127.0.0.1:{client}", self.scheme);
        let started = Command::new("etcd")
            .args(["--name", &format!("m{member}")])
            .args(["--initial-cluster", &peers.join(",")])
            .args(["--initial-advertise-peer-urls", &format!("http://127.0.0.1:{peer}")])
            .args(["--listen-peer-urls", &format!("http://127.0.0.1:{peer}")])
            .args(["--listen-client-urls", &address, "--advertise-client-urls", &address])
            .args(["--logger", "zap", "--log-level", "error"])
            .arg("--data-dir")
            .arg(self.folder.join(format!("m{member}")))
            .args(&self.settings)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log.unwrap())
            .spawn()
            .expect("etcd is not installed; on Debian: apt-get install etcd-server etcd-client");
        fs::write(self.pid_file(member), started.id().to_string()).unwrap();
        *process.lock().unwrap() = Some(started);
    }

    /// Kills a member, and waits until it is gone.
    pub(crate) fn kill(&self, member: usize) {
        if let Some(mut process) = self.members[member].process.lock().unwrap().take() {
            fs::remove_file(self.pid_file(member)).unwrap();
            process.kill().unwrap();
            process.wait().unwrap();
        }
    }

    /// Keeps a copy of all files of the only member.
    pub(crate) fn back_up(&self) {
        self.replace(&["m0", "backup"]);
    }

    /// Puts that copy in the place of what it has.
    pub(crate) fn restore(&self) {
        self.replace(&["backup", "m0"]);
    }

    fn replace(&self, files: &[&str; 2]) {
        self.kill(0);
        let [from, to] = files.map(|name| self.folder.join(name));
        if to.exists() {
            fs::remove_dir_all(&to).unwrap();
        }
        assert!(Command::new("cp").arg("-a").args([from, to]).status().unwrap().success());
        self.launch(0);
        self.until_healthy();
    }

    /// Sends a signal to a member, by name.
    pub(crate) fn signal(&self, member: usize, signal: &str) {
        let process = self.members[member].process.lock().unwrap();
        let id = process.as_ref().expect("it runs").id().to_string();
        assert!(Command::new("kill").args([signal, &id]).status().unwrap().success());
    }

    /// Waits until a majority agrees.
    pub(crate) fn until_healthy(&self) {
        for member in 0..self.members.len() {
            while !self.ctl(&["endpoint", "health", "--endpoints", &self.address(member)]).0 {}
        }
    }

    /// Which member leads; waits until there is one.
    pub(crate) fn leader(&self) -> usize {
        self.leader_of(&(0..self.members.len()).collect::<Vec<_>>())
    }

    /// Which of these leads; waits until one does.
    pub(crate) fn leader_of(&self, members: &[usize]) -> usize {
        loop {
            for &member in members {
                let (is_good, text) =
                    self.ctl(&["endpoint", "status", "--endpoints", &self.address(member)]);
                if is_good && text.split(", ").nth(4) == Some("true") {
                    return member;
                }
            }
        }
    }

    /// Runs etcdctl; gives whether it went well, and what it said.
    pub(crate) fn ctl(&self, arguments: &[&str]) -> (bool, String) {
        let mut command = Command::new("etcdctl");
        command.env("ETCDCTL_API", "3").args(arguments).stdin(Stdio::null());
        if self.scheme == "https" {
            command.args(["--insecure-skip-tls-verify", "--insecure-transport=false"]);
            let [certificate, key] = ["client.crt", "client.key"].map(|it| self.folder.join(it));
            if certificate.exists() {
                command.arg("--cert").arg(certificate).arg("--key").arg(key);
            }
        }
        let output = command
            .output()
            .expect("etcdctl is not installed; on Debian: apt-get install etcd-client");
        (output.status.success(), String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Runs etcdctl on the first member, as root once there are users.
    pub(crate) fn tell(&self, arguments: &str) {
        let mut arguments: Vec<_> = arguments.split(' ').collect();
        let address = self.address(0);
        arguments.extend(["--endpoints", &address]);
        let (is_good, text) = self.ctl(&arguments);
        assert!(is_good, "{arguments:?}: {text}");
    }

    /// Where a member listens.
    pub(crate) fn address(&self, member: usize) -> String {
        format!("127.0.0.1:{}", self.members[member].client)
    }

    /// Where all members listen.
    pub(crate) fn addresses(&self) -> String {
        let all: Vec<_> = (0..self.members.len()).map(|member| self.address(member)).collect();
        all.join(",")
    }

    /// The URL of a store under a prefix of its own.
    pub(crate) fn url(&self, prefix: &str) -> String {
        format!("etcd://{}/{prefix}", self.addresses())
    }

    /// A count that a member keeps, by its name among its metrics.
    pub(crate) fn count(&self, member: usize, name: &str) -> u64 {
        let mut stream = TcpStream::connect(self.address(member)).unwrap();
        stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n").unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        let number = |line: &str| line.strip_prefix(name)?.strip_prefix(' ')?.parse::<f64>().ok();
        let number = text.lines().find_map(number).unwrap();
        // Written as a fraction, and with an exponent when it is large.
        format!("{number:.0}").parse().unwrap()
    }

    /// How many bytes a member has sent to clients since it was started.
    pub(crate) fn bytes_sent(&self, member: usize) -> u64 {
        self.count(member, "etcd_network_client_grpc_sent_bytes_total")
    }

    fn pid_file(&self, member: usize) -> PathBuf {
        self.folder.join(format!("m{member}.pid"))
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for member in 0..self.members.len() {
            self.kill(member);
        }
        drop(self.undertaker.stdin.take());
        drop(self.undertaker.wait());
    }
}

/// A port that nobody has. Not one of those that the system gives to outgoing connections: a member
/// that is started anew must find its own free.
fn free_port() -> u16 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    loop {
        let number = NEXT.fetch_add(1, Ordering::Relaxed).wrapping_add(std::process::id() * 61);
        let port = 10_000 + u16::try_from(number % 20_000).unwrap();
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}
