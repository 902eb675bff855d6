//! A worker to be driven, and killed.

use std::{
    fs,
    io::{BufRead, BufReader, Write},
    os::unix::process::ExitStatusExt,
    path::{Path, PathBuf},
    process::{Child, ChildStdin, Command, ExitStatus, Stdio},
    sync::{
        atomic::{AtomicU64, Ordering},
        mpsc::{Receiver, channel},
    },
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use sterna_worker::{
    logs::{Entry, From, Line, More, Of, Reader, Request},
    sink::Stream,
};

/// The kill wait that workers have here, unless a test says another.
pub(crate) const KILL_WAIT: Duration = Duration::from_secs(1);

/// Longer than anything here takes on a busy machine.
pub(crate) const LONG: Duration = Duration::from_secs(30);

/// Now, for how long something takes.
pub(crate) fn instant() -> Instant {
    #[expect(clippy::disallowed_methods, reason = "this is the tests' clock")]
    Instant::now()
}

/// Waits until `is_so`, and fails with `what` if that takes longer than `within`.
pub(crate) fn wait_until(what: &str, within: Duration, mut is_so: impl FnMut() -> bool) {
    let begun = instant();
    while !is_so() {
        assert!(begun.elapsed() < within, "after {within:?} still not so: {what}");
        std::thread::sleep(Duration::from_millis(5)); // why: the kernel gives no event for it
    }
}

/// What runs are made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Runtime {
    /// Processes of the guardian's own making.
    Process,
    /// Processes in an image, made by runc.
    Oci,
}

impl Runtime {
    /// Everything by which such runs can be held.
    pub(crate) fn isolations(self) -> &'static [&'static str] {
        match self {
            Self::Process => &["cgroup2", "freezer", "tree"],
            Self::Oci => &["cgroup2", "freezer"],
        }
    }
}

/// A data directory that is removed at the end, with whatever was started in it.
pub(crate) struct Place {
    pub(crate) path: PathBuf,
    pub(crate) runtime: Runtime,
    /// Whether it is a file system of its own.
    is_mounted: bool,
}

impl Place {
    pub(crate) fn new() -> Self {
        Self::with(Runtime::Process)
    }

    /// One whose runs are made of this.
    pub(crate) fn with(runtime: Runtime) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("sterna-worker-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::create_dir_all(&path).unwrap();
        match runtime {
            Runtime::Process => {}
            Runtime::Oci => make_rootfs(&path.join("rootfs")),
        }
        Self { path, runtime, is_mounted: false }
    }

    /// One that has room for no more than this; `None` if this machine may not mount anything.
    pub(crate) fn small(size: &str) -> Option<Self> {
        let mut place = Self::new();
        let size = format!("size={size}");
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &size, "none"]).arg(&place.path);
        place.is_mounted = mount.status().is_ok_and(|it| it.success());
        place.is_mounted.then_some(place)
    }

    /// An image, as work asks for it; it finds this place where it is.
    pub(crate) fn image(&self) -> Value {
        let mount = json!({ "source": self.path, "target": self.path });
        json!({ "rootfs": self.path.join("rootfs"), "mounts": [mount] })
    }

    /// How many runs have a directory here.
    pub(crate) fn runs(&self) -> usize {
        let entries = fs::read_dir(self.path.join("runs")).unwrap().flatten();
        entries.filter(|entry| entry.file_name().to_string_lossy().starts_with("run-")).count()
    }

    /// The work directory of a run, as that sees it.
    pub(crate) fn work(&self, run: &str) -> PathBuf {
        match self.runtime {
            Runtime::Process => {
                fs::canonicalize(&self.path).unwrap().join("runs").join(run).join("work")
            }
            Runtime::Oci => PathBuf::from("/sterna"),
        }
    }

    /// The guardian of this place, if one lives.
    pub(crate) fn guardian(&self) -> Option<i32> {
        let path = fs::canonicalize(&self.path).unwrap();
        processes().into_iter().find(|pid| {
            let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
            let log = fs::read_link(format!("/proc/{pid}/fd/2")).unwrap_or_default();
            name.trim() == "guardian" && log == path.join("guardian.log")
        })
    }

    /// What a run has written.
    pub(crate) fn output(&self, run: &str, stream: &str) -> String {
        let stream = match stream {
            "stdout" => Stream::Stdout,
            "stderr" => Stream::Stderr,
            _ => Stream::Events,
        };
        let mut bytes = Vec::new();
        for line in self.lines(run).into_iter().filter(|line| line.stream == stream) {
            bytes.extend(line.bytes);
            bytes.extend((!line.is_cut).then_some(b'\n'));
        }
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// The log of a run, as far as it is on the disk.
    pub(crate) fn lines(&self, run: &str) -> Vec<Line> {
        let reader = Reader::open(&self.path);
        let mut request = Request::all(Of::Run(run.parse().unwrap()));
        let mut lines = Vec::new();
        while let Ok(page) = reader.read(&request) {
            lines.extend(page.entries.into_iter().filter_map(|entry| match entry {
                Entry::Line(line) => Some(line),
                Entry::Gap(_) => None,
            }));
            match page.more {
                More::Now => request.from = From::Cursor(page.next),
                More::Later | More::Never => break,
            }
        }
        lines
    }

    /// Everybody who carries the name of this place.
    pub(crate) fn marked(&self) -> Vec<i32> {
        let mark = format!("STERNA_TEST_MARK={}", self.path.display()).into_bytes();
        let is_marked = |pid: &i32| {
            let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            environment.split(|byte| *byte == 0).any(|word| word == mark)
        };
        processes().into_iter().filter(is_marked).collect()
    }

    /// Asserts that no group of this place is left.
    pub(crate) fn assert_no_groups(&self) {
        let left: Vec<_> = self.groups().iter().flat_map(|group| peopled(group)).collect();
        assert!(left.is_empty(), "these groups are left: {left:#?}");
    }

    /// The groups of this place that are there.
    pub(crate) fn groups(&self) -> Vec<PathBuf> {
        let id = fs::read_to_string(self.path.join("id")).unwrap();
        let name = format!("sterna-{}", &id.trim()[id.trim().len() - 12..]);
        let tops = fs::read_dir("/sys/fs/cgroup").unwrap().flatten().map(|entry| entry.path());
        let ours = tops.chain([PathBuf::from("/sys/fs/cgroup")]).map(|top| top.join(&name));
        ours.filter(|path| path.is_dir()).collect()
    }
}

/// A root file system with a shell and whatever else is in busybox.
fn make_rootfs(root: &Path) {
    let bin = root.join("bin");
    fs::create_dir_all(&bin).unwrap();
    fs::create_dir_all(root.join("etc")).unwrap();
    fs::write(root.join("etc/passwd"), "nobody:x:65534:65534:nobody:/:/bin/sh\n").unwrap();
    let listed = Command::new("busybox").arg("--list").output();
    let listed = listed.expect("these tests need busybox-static");
    let found = ["/bin/busybox", "/usr/bin/busybox"].into_iter().find(|at| Path::new(at).exists());
    fs::copy(found.unwrap(), bin.join("busybox")).unwrap();
    for name in String::from_utf8_lossy(&listed.stdout).lines().filter(|name| *name != "busybox") {
        std::os::unix::fs::symlink("busybox", bin.join(name)).unwrap();
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // A test that failed may have left something: what it started goes with it.
        if let Some(guardian) = self.guardian() {
            signal(guardian, "KILL");
        }
        for pid in self.marked() {
            signal(pid, "KILL");
        }
        if self.path.join("id").exists() {
            self.groups().iter().for_each(|group| remove_groups(group));
        }
        if self.is_mounted {
            drop(Command::new("umount").arg("--lazy").arg(&self.path).status());
        }
        drop(fs::remove_dir_all(&self.path));
    }
}

/// A group and those below it, each with who is in it.
fn peopled(group: &Path) -> Vec<(PathBuf, String)> {
    let below = fs::read_dir(group).into_iter().flatten().flatten().map(|entry| entry.path());
    let people = fs::read_to_string(group.join("cgroup.procs")).unwrap_or_default();
    let all = below.filter(|path| path.is_dir()).flat_map(|path| peopled(&path));
    all.chain([(group.to_owned(), people)]).collect()
}

/// Removes groups from the leaves up; the last processes in them may take a moment.
fn remove_groups(group: &Path) {
    for entry in fs::read_dir(group).into_iter().flatten().flatten() {
        if entry.path().is_dir() {
            remove_groups(&entry.path());
        }
    }
    drop(fs::remove_dir(group));
}

/// The numbers of all processes that have not ended.
pub(crate) fn processes() -> Vec<i32> {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter(|pid| is_alive(*pid)).collect()
}

/// Whether a process has not ended.
pub(crate) fn is_alive(pid: i32) -> bool {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = text.rsplit_once(") ").and_then(|(_, after)| after.split(' ').next());
    state.is_some_and(|state| state != "Z")
}

pub(crate) fn signal(pid: i32, name: &str) {
    drop(Command::new("kill").args([&format!("-{name}"), &pid.to_string()]).status());
}

/// A run id of this test.
pub(crate) fn run(number: u32) -> String {
    format!("run-0000000000017000800000000000{number:04x}")
}

/// A worker.
pub(crate) struct Worker {
    child: Child,
    input: Option<ChildStdin>,
    said: Receiver<Value>,
    heard: Vec<Value>,
    /// As long it is waited for what it says.
    pub(crate) patience: Duration,
    pub(crate) life: u64,
    pub(crate) missing: Vec<String>,
}

impl Worker {
    pub(crate) fn start(place: &Place) -> Self {
        Self::start_with(place, "cgroup2")
    }

    pub(crate) fn start_with(place: &Place, isolation: &str) -> Self {
        Self::start_so(place, isolation, &[])
    }

    /// `more` is what a worker can be told beside that when it starts.
    pub(crate) fn start_so(place: &Place, isolation: &str, more: &[&str]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_worker-loop"))
            .args([place.path.as_os_str(), isolation.as_ref()])
            .args(more)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let input = child.stdin.take();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let (sender, said) = channel();
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                let value = serde_json::from_str(&line).unwrap();
                if sender.send(value).is_err() {
                    return;
                }
            }
        });
        let mut worker = Self {
            child,
            input,
            said,
            heard: Vec::new(),
            patience: LONG,
            life: 0,
            missing: Vec::new(),
        };
        let ready =
            worker.hear("ready", |said| said.get("ready").is_some() || said.get("error").is_some());
        assert_eq!(ready["ready"], isolation, "this machine lacks it: {ready}");
        worker.life = ready["life"].as_u64().unwrap();
        worker.missing = serde_json::from_value(ready["missing"].clone()).unwrap();
        worker.tell(&json!({ "kill_wait": { "span": "1s" } }));
        worker.tell(&json!("confirm"));
        worker
    }

    pub(crate) fn pid(&self) -> i32 {
        i32::try_from(self.child.id()).unwrap()
    }

    pub(crate) fn tell(&mut self, order: &Value) {
        let line = format!("{order}\n");
        self.input.as_mut().unwrap().write_all(line.as_bytes()).unwrap();
    }

    /// The first thing said, now or later, that `is_it`.
    pub(crate) fn hear(&mut self, what: &str, is_it: impl Fn(&Value) -> bool) -> Value {
        if let Some(said) = self.heard.iter().find(|said| is_it(said)) {
            return said.clone();
        }
        self.hear_next(what, is_it)
    }

    /// The next thing said that `is_it`.
    pub(crate) fn hear_next(&mut self, what: &str, is_it: impl Fn(&Value) -> bool) -> Value {
        let begun = instant();
        loop {
            let left = self.patience.saturating_sub(begun.elapsed());
            let Ok(said) = self.said.recv_timeout(left) else {
                panic!("the worker has not said {what}, but: {:#?}", self.heard);
            };
            self.heard.push(said.clone());
            if is_it(&said) {
                return said;
            }
        }
    }

    /// Starts a run of `command` with the mark of the place; `more` is added to the work.
    pub(crate) fn start_run(&mut self, place: &Place, number: u32, command: &[&str], more: Value) {
        let mut work = json!({
            "run": command,
            "env": { "STERNA_TEST_MARK": place.path.to_str().unwrap() },
        });
        match place.runtime {
            Runtime::Process => {}
            Runtime::Oci => work["image"] = place.image(),
        }
        for (name, value) in more.as_object().unwrap() {
            work[name] = value.clone();
        }
        self.tell(&json!({ "start": { "run": run(number), "work": work } }));
    }

    pub(crate) fn wait_for_state(&mut self, number: u32, state: &str) {
        let run = run(number);
        self.hear(state, |said| said["run"] == *run && said["became"] == state);
    }

    /// Waits for the end of a run.
    pub(crate) fn end(&mut self, number: u32) -> Value {
        let run = run(number);
        self.hear("an end", |said| said["run"] == *run && said.get("completed").is_some())
    }

    /// Kills it, and waits for its end.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Sends it a signal, and waits for its end.
    pub(crate) fn end_by(self, name: &str) -> ExitStatus {
        signal(self.pid(), name);
        self.ended()
    }

    /// Waits for its end.
    pub(crate) fn ended(mut self) -> ExitStatus {
        self.input = None;
        let mut status = None;
        wait_until("the worker has ended", LONG, || {
            status = self.child.try_wait().unwrap();
            status.is_some()
        });
        status.unwrap_or_else(|| ExitStatus::from_raw(0))
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// Asserts that nothing of a place is left within the kill wait and a second.
pub(crate) fn assert_gone(place: &Place, what: &str) {
    let within = KILL_WAIT + Duration::from_secs(1);
    let begun = instant();
    while !place.marked().is_empty() {
        if begun.elapsed() > within {
            let left: Vec<String> = place.marked().into_iter().map(described).collect();
            panic!("{what}: after {:?} this is left: {left:#?}", begun.elapsed());
        }
        std::thread::sleep(Duration::from_millis(5)); // why: the kernel gives no event for it
    }
}

fn described(pid: i32) -> String {
    let words = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    format!("{pid}: {}", String::from_utf8_lossy(&words).replace('\0', " "))
}
