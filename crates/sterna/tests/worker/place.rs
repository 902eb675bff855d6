//! A worker's data directory, the worker in it, and what it has started.

use std::{
    fs,
    io::{BufRead, BufReader, Write},
    path::PathBuf,
    process::{Child, Command, ExitStatus, Stdio},
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use sterna_model::RunId;
use sterna_worker::{
    logs::{Entry, Of, Reader, Request},
    sink::Stream,
};

/// Longer than anything here takes on a busy machine.
pub(crate) const LONG: Duration = Duration::from_secs(60);

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
        std::thread::sleep(Duration::from_millis(5)); // why: nothing tells when it becomes so
    }
}

/// A data directory that is removed at the end, with whatever was started in it.
pub(crate) struct Place {
    pub(crate) path: PathBuf,
}

impl Place {
    pub(crate) fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("sterna-link-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::create_dir_all(&path).unwrap();
        Self { path }
    }

    /// The variable by which everything is found that was started here.
    pub(crate) fn mark(&self) -> (&'static str, String) {
        ("STERNA_TEST_MARK", self.path.display().to_string())
    }

    /// The processes of runs that live.
    pub(crate) fn marked(&self) -> Vec<i32> {
        let (name, value) = self.mark();
        let mark = format!("{name}={value}").into_bytes();
        let is_marked = |pid: &i32| {
            let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            environment.split(|byte| *byte == 0).any(|word| word == mark)
        };
        processes().into_iter().filter(is_marked).collect()
    }

    pub(crate) fn guardian(&self) -> Option<i32> {
        let path = fs::canonicalize(&self.path).unwrap();
        processes().into_iter().find(|pid| {
            let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
            let log = fs::read_link(format!("/proc/{pid}/fd/2")).unwrap_or_default();
            name.trim() == "guardian" && log == path.join("guardian.log")
        })
    }

    /// What a run has written to a stream, as far as it is on the disk.
    pub(crate) fn output(&self, run: RunId, stream: Stream) -> Vec<String> {
        let page = Reader::open(&self.path).read(&Request::all(Of::Run(run)));
        let entries = page.map(|page| page.entries).unwrap_or_default();
        let lines = entries.into_iter().filter_map(|entry| match entry {
            Entry::Line(line) if line.stream == stream => {
                Some(String::from_utf8_lossy(&line.bytes).into_owned())
            }
            Entry::Line(_) | Entry::Gap(_) => None,
        });
        lines.collect()
    }

    /// Waits until a run says this, and nothing else, on its standard output.
    pub(crate) fn wait_for_output(&self, run: RunId, lines: &[&str]) {
        wait_until("it says so", LONG, || self.output(run, Stream::Stdout) == lines);
    }

    /// The lines of a file in this place; none if it is not there.
    pub(crate) fn lines(&self, name: &str) -> Vec<String> {
        let text = fs::read_to_string(self.path.join(name)).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    /// Waits until a run has written its process number into a file of this place.
    pub(crate) fn pid_in(&self, name: &str) -> i32 {
        wait_until("it has begun", LONG, || !self.lines(name).is_empty());
        self.lines(name)[0].parse().unwrap()
    }

    /// The runs that have a directory.
    pub(crate) fn runs(&self) -> Vec<String> {
        self.files("runs").into_iter().filter(|name| name.starts_with("run-")).collect()
    }

    /// The names of the files in a folder of this place; a check may just look there whether one more
    /// has room.
    pub(crate) fn files(&self, folder: &str) -> Vec<String> {
        let entries = fs::read_dir(self.path.join(folder)).into_iter().flatten().flatten();
        let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
        names.filter(|name| name != ".probe").collect()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // A test that failed may have left something: what it started goes with it.
        self.guardian().into_iter().for_each(|pid| signal(pid, "KILL"));
        self.marked().into_iter().for_each(|pid| signal(pid, "KILL"));
        if let Ok(id) = fs::read_to_string(self.path.join("id")) {
            let name = format!("sterna-{}", &id.trim()[id.trim().len() - 12..]);
            let tops = fs::read_dir("/sys/fs/cgroup").into_iter().flatten().flatten();
            let tops = tops.map(|entry| entry.path()).chain([PathBuf::from("/sys/fs/cgroup")]);
            tops.map(|top| top.join(&name)).for_each(|group| {
                let runs = fs::read_dir(&group).into_iter().flatten().flatten();
                runs.for_each(|run| drop(fs::remove_dir(run.path())));
                drop(fs::remove_dir(&group));
            });
        }
        drop(fs::remove_dir_all(&self.path));
    }
}

/// The numbers of all processes that have not ended.
pub(crate) fn processes() -> Vec<i32> {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter(|pid| is_alive(*pid)).collect()
}

pub(crate) fn is_alive(pid: i32) -> bool {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = text.rsplit_once(") ").and_then(|(_, after)| after.split(' ').next());
    state.is_some_and(|state| state != "Z")
}

pub(crate) fn signal(pid: i32, name: &str) {
    drop(Command::new("kill").args([&format!("-{name}"), &pid.to_string()]).status());
}

/// The worker.
pub(crate) struct Worker {
    child: Child,
    said: Arc<Mutex<Vec<String>>>,
}

impl Worker {
    /// Starts one that joins the server at this port.
    pub(crate) fn start(place: &Place, port: u16) -> Self {
        Self::start_with(place, &["--join", &format!("127.0.0.1:{port}"), "--name", "w1"])
    }

    pub(crate) fn start_with(place: &Place, arguments: &[&str]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_sterna"))
            .arg("worker")
            .args(arguments)
            .arg("--data")
            .arg(&place.path)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let said = Arc::new(Mutex::new(Vec::new()));
        let (lines, kept) =
            (BufReader::new(child.stderr.take().unwrap()).lines(), Arc::clone(&said));
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                kept.lock().unwrap().push(line);
            }
        });
        Self { child, said }
    }

    pub(crate) fn pid(&self) -> i32 {
        i32::try_from(self.child.id()).unwrap()
    }

    pub(crate) fn said(&self) -> Vec<String> {
        self.said.lock().unwrap().clone()
    }

    /// How many of its lines have this in them.
    pub(crate) fn count(&self, text: &str) -> usize {
        self.said().iter().filter(|line| line.contains(text)).count()
    }

    pub(crate) fn wait_to_say(&self, text: &str) {
        let begun = instant();
        while self.count(text) == 0 {
            assert!(begun.elapsed() < LONG, "{text:?} is not said, but: {:#?}", self.said());
            std::thread::sleep(Duration::from_millis(5)); // why: its lines come when they come
        }
    }

    /// Kills it, and waits for its end.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Sends it a signal, and waits for its end.
    pub(crate) fn end_by(mut self, name: &str) -> ExitStatus {
        signal(self.pid(), name);
        self.wait()
    }

    /// Waits for its end.
    pub(crate) fn wait(&mut self) -> ExitStatus {
        let mut status = None;
        wait_until("the worker has ended", LONG, || {
            status = self.child.try_wait().unwrap();
            status.is_some()
        });
        status.unwrap()
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
        if std::thread::panicking() {
            drop(writeln!(std::io::stderr(), "the worker said: {:#?}", self.said()));
        }
    }
}
