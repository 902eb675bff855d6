//! What people see on a terminal, and what programs see that read the same commands: colours and lines
//! that overwrite themselves are for terminals alone, and nothing is wider than they are.

use std::{
    fs::{File, OpenOptions},
    io::Read,
    os::fd::OwnedFd,
    process::{Child, Stdio},
    thread,
    time::Duration,
};

use rustix::{
    pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt},
    termios::{Winsize, tcsetwinsize},
};

use crate::place::{Cluster, LONG, now, program, wait_until};

const ESCAPE: char = '\u{1b}';

/// A terminal of some width, of which somebody takes down everything.
pub(crate) struct Terminal {
    master: OwnedFd,
    slave: File,
}

impl Terminal {
    pub(crate) fn new(columns: u16) -> Self {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a terminal");
        grantpt(&master).and_then(|()| unlockpt(&master)).expect("it is ours");
        let name = ptsname(&master, Vec::new()).expect("it has a name");
        let path = name.to_str().expect("a path");
        let slave = OpenOptions::new().read(true).write(true).open(path).expect("its other side");
        let size = Winsize { ws_row: 40, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&slave, size).expect("it has a size");
        Self { master, slave }
    }

    pub(crate) fn start(&self, cluster: &Cluster, args: &[&str], env: &[(&str, &str)]) -> Child {
        let side = || Stdio::from(self.slave.try_clone().expect("one more of it"));
        let mut command = program();
        command.args(args).current_dir(&cluster.path).env("TERM", "xterm-256color");
        command.env_remove("NO_COLOR").envs(env.iter().copied());
        command.stdin(side()).stdout(side()).stderr(side()).spawn().expect("sterna runs")
    }

    /// What is written to it is typed.
    pub(crate) fn typing(&self) -> File {
        File::from(self.master.try_clone().expect("one more of it"))
    }

    /// Everything that is shown until nobody has it open any more.
    pub(crate) fn read(self) -> thread::JoinHandle<String> {
        drop(self.slave);
        let mut master = File::from(self.master);
        thread::spawn(move || {
            let (mut all, mut part) = (Vec::new(), [0; 4096]);
            // It ends with an error when the other side is closed.
            while let Ok(count @ 1..) = master.read(&mut part) {
                all.extend_from_slice(&part[..count]);
            }
            String::from_utf8_lossy(&all).into_owned()
        })
    }
}

/// What a command shows on a terminal that is so wide.
fn shown(cluster: &Cluster, columns: u16, args: &[&str], env: &[(&str, &str)]) -> String {
    let terminal = Terminal::new(columns);
    let mut child = terminal.start(cluster, args, env);
    let reading = terminal.read();
    child.wait().expect("it ends");
    reading.join().expect("everything was read")
}

/// Without what paints it.
fn plain(text: &str) -> String {
    let mut plain = String::new();
    let mut signs = text.chars();
    while let Some(sign) = signs.next() {
        if sign == ESCAPE {
            signs.by_ref().find(char::is_ascii_alphabetic);
        } else {
            plain.push(sign);
        }
    }
    plain
}

fn width(text: &str) -> usize {
    plain(text).lines().map(|line| line.trim_end().chars().count()).max().unwrap_or(0)
}

#[test]
fn tables_fit_the_terminal_and_are_whole_elsewhere() {
    let cluster = Cluster::start("wide", &[]);
    let long = "echo a long command that says much and does little, again and again and again \
                and once more for good measure, so that nobody has so wide a terminal as this wants";
    cluster.answer(&["run", "--name", "a-task-with-a-rather-long-name", "--", "sh", "-c", long]);
    let whole = cluster.answer(&["ls"]);
    assert!(whole.contains("wants") && width(&whole) > 200, "{whole}");
    assert!(!whole.contains(ESCAPE), "{whole}");
    for columns in [80, 200] {
        let shown = shown(&cluster, columns, &["ls"], &[]);
        assert!(width(&shown) <= usize::from(columns), "{columns}: {shown}");
        // Every column is still there, and what gave way is marked.
        for word in ["TASK", "STATE", "WORKER", "END", "COMMAND", "succeeded", "worker-1", "…"] {
            assert!(shown.contains(word), "{columns}: {word}: {shown}");
        }
        assert!(shown.contains(ESCAPE), "headings are painted: {shown:?}");
    }
    let narrow = shown(&cluster, 20, &["ls"], &[]);
    assert!(width(&narrow) <= 20, "{narrow}");
}

#[test]
fn what_is_no_table_is_folded_to_the_terminal_and_whole_elsewhere() {
    let cluster = Cluster::start("folded", &[]);
    cluster.answer(&["run", "--detach", "--name", "never", "--tag", "gpu", "--", "true"]);
    let commands: [&[&str]; 3] = [&["status"], &["why", "never"], &["events"]];
    for args in commands {
        let whole = cluster.answer(args);
        assert!(width(&whole) > 60, "{args:?}: {whole}");
        for columns in [40, 80, 120] {
            let shown = plain(&shown(&cluster, columns, args, &[]));
            // Nothing is lost; an id that is longer than a line stays whole.
            let words: Vec<_> = shown.split_whitespace().collect();
            let steady = |words: &[&str]| words.len();
            assert_eq!(steady(&words), whole.split_whitespace().count(), "{args:?}: {shown}");
            let is_fit = |line: &str| {
                line.chars().count() <= usize::from(columns) || !line.trim().contains(' ')
            };
            let first = |line: &str| line.starts_with("cluster ");
            let too_long = shown.lines().map(str::trim_end).find(|it| !is_fit(it) && !first(it));
            assert_eq!(too_long, None, "{args:?} {columns}: {shown}");
        }
    }
}

#[test]
fn colours_are_for_terminals_that_want_them() {
    let cluster = Cluster::start("colours", &[]);
    cluster.write("bad.toml", "version = 1\n[task.a]\nrunn = [\"true\"]\n");
    cluster.answer(&["run", "--name", "a", "--", "true"]);
    let commands: [&[&str]; 5] =
        [&["ls"], &["apply", "bad.toml"], &["why", "nothing"], &["ls", "taks"], &["run", "x"]];
    for args in commands {
        let painted = shown(&cluster, 80, args, &[]);
        assert!(painted.contains(ESCAPE), "{args:?}: {painted:?}");
        // Some libraries paint in continuous integration whatever the terminal is.
        for unwanted in [("NO_COLOR", "1"), ("TERM", "dumb")] {
            let shown = shown(&cluster, 80, args, &[unwanted, ("CI", "true")]);
            assert!(!shown.contains(ESCAPE), "{args:?} with {unwanted:?}: {shown:?}");
        }
        let output = cluster.sterna(args);
        let said = [output.stdout, output.stderr].concat();
        assert!(!String::from_utf8_lossy(&said).contains(ESCAPE), "{args:?}");
    }
}

#[test]
fn who_waits_on_a_terminal_sees_for_what_and_the_line_goes_again() {
    let cluster = Cluster::start("waits", &[]);
    let terminal = Terminal::new(80);
    let args = ["run", "--name", "waits", "--tag", "gpu", "--", "true"];
    let mut child = terminal.start(&cluster, &args, &[]);
    let reading = terminal.read();
    wait_until("it waits", LONG, || cluster.answer(&["ls", "tasks"]).contains("waiting"));
    // Two questions of what it waits for.
    let began = now();
    wait_until("it was shown for a while", LONG, || began.elapsed() > Duration::from_secs(2));
    cluster.answer(&["cancel", "waits"]);
    let ended = child.wait().expect("it ends");
    assert_eq!(ended.code(), Some(1));
    let shown = reading.join().expect("everything was read");
    assert!(shown.contains("waits: no worker has the right tags"), "{shown:?}");
    let drawn = shown.split("\r\u{1b}[2K");
    assert!(drawn.clone().all(|line| width(line) <= 80), "{shown:?}");
    let last = drawn.last().expect("something was drawn");
    assert!(last.contains("it was cancelled") && !last.contains("waits: no worker"), "{shown:?}");
}

#[test]
fn who_waits_elsewhere_reads_plain_lines() {
    let cluster = Cluster::start("lines", &[]);
    let mut command = program();
    command.args(["run", "--name", "waits", "--tag", "gpu", "--", "true"]);
    command.current_dir(&cluster.path).stdin(Stdio::null()).stderr(Stdio::piped());
    let child = command.spawn().expect("sterna runs");
    wait_until("it waits", LONG, || cluster.answer(&["ls", "tasks"]).contains("waiting"));
    let began = now();
    // The first line comes after a second: silence looks as if nothing were done.
    wait_until("a line was due", LONG, || began.elapsed() > Duration::from_secs(4));
    cluster.answer(&["cancel", "waits"]);
    let said = child.wait_with_output().expect("it ends").stderr;
    let said = String::from_utf8_lossy(&said).into_owned();
    let lines: Vec<_> = said.lines().collect();
    assert_eq!(lines.len(), 2, "{said}");
    assert!(lines[0].starts_with("waits waits: no worker has the right tags"), "{said}");
    assert!(lines[1].starts_with("error: waits: it was cancelled"), "{said}");
    assert!(!said.contains([ESCAPE, '\r']), "{said:?}");
}

/// Elsewhere than on a terminal: what runs there takes its time to end.
#[test]
fn who_waits_for_a_drain_elsewhere_reads_plain_lines() {
    let cluster = Cluster::start("emptied-lines", &["--workers", "2"]);
    let run = "trap 'sleep 3; exit' TERM; while :; do sleep 0.1; done";
    let spec = format!("version = 1\n[service.web]\nrun = [\"sh\", \"-c\", \"{run}\"]\n");
    cluster.write("web.toml", &spec);
    cluster.answer(&["apply", "--wait", "web.toml"]);
    let worker = cluster.json(&["ls", "instances"])["instances"][0]["worker"].clone();
    let worker = worker.as_str().expect("it is somewhere").to_owned();
    let output = cluster.sterna(&["drain", &worker, "--wait"]);
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (told, said) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{said}");
    let lines: Vec<_> = said.lines().collect();
    assert_eq!(lines.len(), 1, "the first after a second, the next after ten more: {said}");
    let first = lines[0].strip_prefix(&format!("1 of 1 runs left on {worker} (")).expect(&said);
    assert!(first.ends_with(" s)"), "{said}");
    assert!(!(told.clone() + &said).contains([ESCAPE, '\r', '█']), "{told:?} {said:?}");
    assert!(told.starts_with(&format!("plan for the run on {worker}:\n")), "{told}");
    assert!(told.ends_with(&format!("worker {worker} is empty\n")), "{told}");
}

#[test]
fn a_drain_that_is_waited_for_is_over_when_the_worker_is_empty() {
    let cluster = Cluster::start("emptied-worker", &["--workers", "2"]);
    cluster.write("web.toml", "version = 1\n[service.web]\nrun = [\"sleep\", \"1000\"]\n");
    cluster.answer(&["apply", "web.toml"]);
    wait_until("it runs", LONG, || cluster.answer(&["ls", "services"]).contains("1/1"));
    let on = |cluster: &Cluster| {
        let worker = cluster.json(&["ls", "instances"])["instances"][0]["worker"].clone();
        worker.as_str().expect("it is somewhere").to_owned()
    };
    let worker = on(&cluster);
    let shown = shown(&cluster, 80, &["drain", &worker, "--wait"], &[]);
    assert!(shown.contains(&format!("1 of 1 runs left on {worker}")), "{shown:?}");
    assert!(plain(&shown).trim_end().ends_with(&format!("worker {worker} is empty")), "{shown:?}");
    assert_ne!(on(&cluster), worker);
}
