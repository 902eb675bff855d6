//! A directory with a cluster of its own, and everything that a test asks of it.

use std::{
    fs,
    io::Read,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    thread::sleep,
    time::{Duration, Instant},
};

use sterna_api::client::Client;

pub(crate) const LONG: Duration = Duration::from_secs(60);

/// A cluster that ends with its test.
pub(crate) struct Cluster {
    pub(crate) path: PathBuf,
    dev: Child,
}

/// The program, with no word of a cluster that is not the test's own.
pub(crate) fn program() -> Command {
    let mut program = Command::new(env!("CARGO_BIN_EXE_sterna"));
    for name in ["STERNA_SERVER", "STERNA_TOKEN", "STERNA_TOKEN_FILE"] {
        program.env_remove(name);
    }
    // Nor of a file of whoever runs the tests.
    program.env("XDG_CONFIG_HOME", "/nonexistent");
    program
}

/// Waits until something is so.
pub(crate) fn wait_until(what: &str, within: Duration, mut is_so: impl FnMut() -> bool) {
    let began = now();
    while !is_so() {
        assert!(began.elapsed() < within, "not within {within:?}: {what}");
        sleep(Duration::from_millis(20)); // why: what is waited for happens in other processes, and nothing tells of it
    }
}

pub(crate) fn now() -> Instant {
    #[expect(clippy::disallowed_methods, reason = "a test that waits for other processes")]
    Instant::now()
}

pub(crate) fn signal(pid: u32, name: &str) {
    let status = Command::new("kill").arg(format!("-{name}")).arg(pid.to_string()).status();
    assert!(status.expect("kill is there").success(), "signal {name} to {pid}");
}

/// Whether a text names a path, or something in it: not another one that only begins or ends so.
fn names(text: &[u8], path: &[u8]) -> bool {
    let is_of_name = |byte: &u8| byte.is_ascii_alphanumeric() || b"._-".contains(byte);
    text.windows(path.len()).enumerate().any(|(at, window)| {
        let before = at.checked_sub(1).and_then(|before| text.get(before));
        let after = text.get(at + path.len());
        window == path && !before.is_some_and(is_of_name) && !after.is_some_and(is_of_name)
    })
}

#[test]
fn a_path_is_not_named_by_one_that_begins_or_ends_with_it() {
    let is_named = |text: &str| names(text.as_bytes(), b"/tmp/sterna-dev-7-run");
    assert!(["/tmp/sterna-dev-7-run", "a\0PWD=/tmp/sterna-dev-7-run\0b"].into_iter().all(is_named));
    assert!(is_named("worker\0--data\0/tmp/sterna-dev-7-run/.sterna/worker-1\0"));
    assert!(is_named("/tmp/sterna-dev-7-runs:/tmp/sterna-dev-7-run"), "the second one");
    let others =
        ["/tmp/sterna-dev-7-runs", "/tmp/sterna-dev-7-run.old/x", "/a/tmp/sterna-dev-7-run"];
    assert!(!others.into_iter().any(is_named));
}

/// All processes whose environment or command line says that they belong to this directory.
pub(crate) fn of_directory(path: &Path) -> Vec<u32> {
    let needle = path.as_os_str().as_encoded_bytes();
    let entries = fs::read_dir("/proc").expect("there is /proc").flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let belongs = |pid: &u32| {
        ["cmdline", "environ"].iter().any(|file| {
            let said = fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default();
            names(&said, needle)
        })
    };
    pids.filter(|pid| *pid != std::process::id()).filter(belongs).collect()
}

impl Cluster {
    pub(crate) fn start(name: &str, args: &[&str]) -> Self {
        let cluster = Self::begin(name, args);
        cluster.ready();
        cluster
    }

    /// One whose `dev` is started in another way.
    pub(crate) fn start_so(name: &str, args: &[&str], so: impl FnOnce(&mut Command)) -> Self {
        let cluster = Self::begin_so(name, args, so);
        cluster.ready();
        cluster
    }

    /// One that may not be ready.
    pub(crate) fn begin(name: &str, args: &[&str]) -> Self {
        Self::begin_so(name, args, |_| {})
    }

    pub(crate) fn begin_so(name: &str, args: &[&str], so: impl FnOnce(&mut Command)) -> Self {
        let path = std::env::temp_dir().join(format!("sterna-dev-{}-{name}", std::process::id()));
        drop(fs::remove_dir_all(&path));
        fs::create_dir_all(&path).expect("a directory for the test");
        let path = fs::canonicalize(&path).expect("it is there");
        // Whoever it is started as keeps its data here.
        let open = fs::Permissions::from_mode(0o777);
        fs::set_permissions(&path, open).expect("a directory of the test");
        let dev = Self::dev(&path, args, so);
        Self { path, dev }
    }

    fn dev(path: &Path, args: &[&str], so: impl FnOnce(&mut Command)) -> Child {
        let log = fs::OpenOptions::new().create(true).append(true).open(path.join("dev.log"));
        let mut dev = program();
        dev.args(["dev", "--listen", "127.0.0.1:0"]).args(args).current_dir(path);
        dev.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log.expect("a log"));
        so(&mut dev);
        dev.spawn().expect("dev starts")
    }

    /// Waits until work can be given.
    pub(crate) fn ready(&self) {
        wait_until("work can be given", LONG, || self.sterna(&["status"]).status.success());
    }

    /// Takes its store away and kills its server, which opens a recovered epoch. Not while it runs: dev
    /// starts it again at once, so its next start must find nothing.
    pub(crate) fn empty_store(&self) {
        signal(self.child("server"), "STOP");
        fs::rename(self.path.join(".sterna/store"), self.path.join("before"))
            .expect("the store is there");
        signal(self.child("server"), "KILL");
        wait_until("it leads again", LONG, || {
            let status = self.sterna(&["status", "--json"]);
            let status: serde_json::Value =
                serde_json::from_slice(&status.stdout).unwrap_or_default();
            status["epoch"] == 2 && status["workers"]["healthy"] == 1
        });
    }

    /// Starts it again after it ended.
    pub(crate) fn restart(&mut self, args: &[&str]) {
        self.dev = Self::dev(&self.path, args, |_| {});
        self.ready();
    }

    /// The same, if work may not be given then.
    pub(crate) fn again(&mut self) {
        self.dev = Self::dev(&self.path, &[], |_| {});
    }

    /// What `dev` said so far.
    pub(crate) fn said(&self) -> String {
        fs::read_to_string(self.path.join("dev.log")).unwrap_or_default()
    }

    /// Runs a command in this directory.
    pub(crate) fn sterna(&self, args: &[&str]) -> Output {
        let mut command = program();
        command.args(args).current_dir(&self.path).stdin(Stdio::null());
        command.output().expect("sterna runs")
    }

    /// Its answer, if it succeeds.
    pub(crate) fn answer(&self, args: &[&str]) -> String {
        let output = self.sterna(args);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{args:?}: {said}\n{}", self.said());
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    pub(crate) fn json(&self, args: &[&str]) -> serde_json::Value {
        let mut all = args.to_vec();
        all.push("--json");
        serde_json::from_str(&self.answer(&all)).expect("an answer in JSON")
    }

    /// A connection to its server.
    pub(crate) fn client(&self) -> Client {
        let of_dev = |file: &str| self.read(&format!(".sterna/{file}")).trim().to_owned();
        Client::new(of_dev("address"), of_dev("admin.token"))
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        fs::write(self.path.join(name), text).expect("a file of the test");
    }

    pub(crate) fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path.join(name)).unwrap_or_default()
    }

    /// The process of a child of `dev`, by what is said on its command line.
    pub(crate) fn child(&self, command: &str) -> u32 {
        let found = self.children(command).first().copied();
        found.unwrap_or_else(|| panic!("no {command} runs: {}", self.said()))
    }

    pub(crate) fn children(&self, command: &str) -> Vec<u32> {
        let data = self.path.join(".sterna");
        let is_it = |pid: &u32| {
            let said = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            said.split(|byte| *byte == 0).nth(1) == Some(command.as_bytes())
        };
        of_directory(&data).into_iter().filter(is_it).collect()
    }

    pub(crate) fn pid(&self) -> u32 {
        self.dev.id()
    }

    /// Waits until `dev` has ended.
    pub(crate) fn ended(&mut self) {
        let dev = &mut self.dev;
        wait_until("dev has ended", LONG, || dev.try_wait().expect("a child").is_some());
    }

    /// Asserts that nothing of it is left.
    pub(crate) fn assert_gone(&self) {
        wait_until("everything is gone", LONG, || of_directory(&self.path).is_empty());
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        drop(self.dev.kill());
        drop(self.dev.wait());
        for pid in of_directory(&self.path) {
            drop(
                Command::new("kill")
                    .arg("-KILL")
                    .arg(pid.to_string())
                    .stderr(Stdio::null())
                    .status(),
            );
        }
        drop(fs::remove_dir_all(&self.path));
        let mut rest = String::new();
        if let Some(mut stderr) = self.dev.stderr.take() {
            drop(stderr.read_to_string(&mut rest));
        }
    }
}
