//! What every command says, for people and as JSON, as it is committed under `tests/said`: a session
//! with one cluster, in order. What is different every time is replaced. `UPDATE=1` writes it anew.

use std::{
    collections::{BTreeMap, BTreeSet},
    env, fs,
    path::Path,
    process::{Child, Output, Stdio},
};

use regex::Regex;

use crate::place::{Cluster, LONG, program, wait_until};

/// What is different every time, and what stands for it.
const DIFFERENT: [(&str, &str); 22] = [
    (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", "2026-01-01T00:00:00.000Z"),
    (r"\b(run|ti|cluster|dir|machine)-[0-9a-f]{32}\b", "$1-0123456789abcdef"),
    (r"\brun-[a-z2-9]{10}\b", "run-abcdefghij"),
    (r"127\.0\.0\.1:\d{2,5}\b", "127.0.0.1:7411"),
    (r#"("(?:cpu_us|memory_peak_bytes|memory_bytes|revision)": ?)\d+"#, "${1}1"),
    // Whether an instance or a task is first is different every time.
    (r#"("id":"1\.1\.)\d+"#, "${1}7"),
    // Its own events stand between the lines of a run.
    (r#"("line": ?)\d+"#, "${1}1"),
    // What a worker has and can do is different on every machine.
    (r#"(?s)"facts": \{.*?\n {6}\}"#, r#""facts": { … }"#),
    (r"(?m)(MEMORY) +(ZONE)$", "$1    $2"),
    (r"(?m)\d+\.\d +\d+\.\d GiB$", "4.0    16.0 GiB"),
    // In a column, and at the end of a line.
    (r"\b\d\ds ago  ", "0s ago   "),
    (r"\b\d{1,2}s ago", "0s ago"),
    (r"\b\d\.\ds ", "0.1s "),
    (r" \ds ", " 0s "),
    (r" \d\ds  ", " 0s   "),
    (r"revision \d+", "revision 9"),
    (r"is here after \d+ ms", "is here after 100 ms"),
    (r"\d+KiB (free|missing)", "1KiB $1"),
    (r"\d+\.\d+ ms", "1.00 ms"),
    (r#"(_ms": ?)\d+(\.\d+)?"#, "${1}1"),
    (r"\bprocess \d+", "process 4711"),
    (r"in \d+\.\d s", "in 1.0 s"),
];

/// A session, and what was said in it by command.
struct Session {
    cluster: Cluster,
    different: Vec<(Regex, &'static str)>,
    said: BTreeMap<String, String>,
}

impl Session {
    fn start() -> Self {
        let cluster = Cluster::start("said", &[]);
        let compile = |(from, to): &(&str, &'static str)| (Regex::new(from).expect(from), *to);
        Self { cluster, different: DIFFERENT.iter().map(compile).collect(), said: BTreeMap::new() }
    }

    /// Without what is different every time.
    fn steady(&self, text: &str) -> String {
        let text = text.replace(&self.cluster.path.display().to_string(), "/here");
        self.different.iter().fold(text, |text, (from, to)| from.replace_all(&text, *to).into())
    }

    fn write(&mut self, command: &str, typed: &str, said: &str) {
        let page = self.said.entry(command.replace(' ', "-")).or_default();
        if !page.is_empty() {
            page.push('\n');
        }
        *page += &format!("$ {typed}\n{said}");
    }

    /// Types a command, and takes down what it says. Its first words, up to `|`, are its name.
    fn types(&mut self, line: &str) -> Output {
        let words = line.replace("| ", "");
        // Only here: what is between quotes is one word.
        let mut arguments = Vec::new();
        for (at, part) in words.split('\'').enumerate() {
            if at % 2 == 1 {
                arguments.push(part);
            } else {
                arguments.extend(part.split_whitespace());
            }
        }
        let output = self.cluster.sterna(&arguments);
        let mut said = String::from_utf8_lossy(&output.stdout).into_owned();
        for line in String::from_utf8_lossy(&output.stderr).lines() {
            said += &format!("! {line}");
            said.truncate(said.trim_end().len());
            said.push('\n');
        }
        match output.status.code() {
            Some(0) => {}
            code => said += &format!("[exits with {}]\n", code.expect("it was not killed")),
        }
        let name = line
            .split(" |")
            .next()
            .and_then(|name| if line.contains('|') { Some(name) } else { name.split(' ').next() });
        let (said, typed) = (self.steady(&said), self.steady(&words));
        self.write(
            &format!("sterna {}", name.expect("a command")),
            &format!("sterna {typed}"),
            &said,
        );
        output
    }

    /// For people, and for programs.
    fn types_both(&mut self, line: &str) {
        self.types(line);
        self.types(&format!("{line} --json"));
    }

    fn types_all(&mut self, lines: &[&str]) {
        for line in lines {
            self.types(line);
        }
    }

    fn until(&self, what: &str, args: &[&str], says: &str) {
        // Whether it succeeds does not matter: a status says how it is even if no worker takes work.
        let answer = || String::from_utf8_lossy(&self.cluster.sterna(args).stdout).into_owned();
        wait_until(what, LONG, || answer().contains(says));
    }

    /// The run of the only instance, and its phase.
    fn run(&self) -> (serde_json::Value, serde_json::Value) {
        let instance = self.cluster.json(&["ls", "instances"])["instances"][0].clone();
        (instance["run_id"].clone(), instance["phase"].clone())
    }

    /// Compares with what is committed, or writes it anew.
    fn assert_committed(self) {
        let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/said"));
        let mut names = BTreeSet::new();
        for (command, said) in &self.said {
            let path = folder.join(format!("{command}.txt"));
            if env::var_os("UPDATE").is_some() {
                fs::write(&path, said).expect("the folder can be written to");
            }
            let committed = fs::read_to_string(&path).unwrap_or_default();
            assert_eq!(*said, committed, "{}: UPDATE=1 writes it anew", path.display());
            names.insert(format!("{command}.txt"));
        }
        let found = fs::read_dir(folder).expect("the folder is there");
        let found: BTreeSet<_> = found
            .map(|entry| entry.expect("a file").file_name().to_string_lossy().into_owned())
            .collect();
        assert_eq!(found, names, "what no command says");
    }
}

const SPEC: &str = r#"version = 1

[service.web]
run = ["sleep", "1000"]
ports = ["http"]

[task.once]
run = ["sh", "-c", "echo out; echo err >&2; exit 3"]
start = true
"#;

const BAD: &str = "version = 1\n\n[service.web]\nrunn = [\"sleep\", \"1000\"]\ncpu = \"lots\"\n";

fn work(session: &mut Session) {
    session.cluster.write("web.toml", SPEC);
    session.cluster.write("bad.toml", BAD);
    session.types("ls");
    session.types_both("plan web.toml");
    session.cluster.write("empty.toml", "version = 1\n");
    session.types_all(&["plan bad.toml", "plan none.toml", "plan empty.toml"]);
    session.types("apply web.toml");
    session.until("it runs", &["ls", "services"], "1/1");
    session.until("it is over", &["ls", "tasks"], "exited with 3");
    session.types_both("apply web.toml");
    session.types_all(&["apply bad.toml", "apply empty.toml", "apply"]);
    session.cluster.write("web.toml", &SPEC.replace("1000", "2000"));
    session.types_both("plan web.toml");
    session.types_both("ls");
    session.types_both("ls instances");
    session.types_both("ls workers");
    session.types_all(&["ls taks", "ls --server 127.0.0.1:9"]);
    session.types_both("status");
    session.types_all(&["status --server 127.0.0.1:9", "status --namespace Bad"]);
    session.types_both("why last");
    session.types_both("why web/0");
    session.types_both("why web");
    session.types_all(&["why wbe", "why web/7", "why"]);
    session.types_both("logs last");
    session.types_all(&["logs last --times", "logs last --stream stderr", "logs last -n 1"]);
    session.types_all(&["logs last --matching 'o.t'", "logs last --matching '('", "logs web/7"]);
    session.types_all(&["logs last -n -1", "logs last --last many"]);
    session.types_both("events --kind task-running,task-completed");
    session.types_all(&["events --after x", "events --kind nonsense"]);
}

fn runs(session: &mut Session) {
    session.types_all(&["run -- echo hello", "run -- sh -c 'echo working; exit 3'"]);
    session.types("run --json --name told -- echo hello");
    session.types_all(&["run -- sh -c 'kill -9 $$'", "run -- no-such-program"]);
    session.types_all(&["run --name told -- true", "run --memory lots --timeout 5 -- true"]);
    session.types_all(&["run --env A -- true", "run echo hello", "run --name 'A b' -- true"]);
    session.types("run --fail-when-full --tag gpu -- true");
    session.types("run --detach --name long -- sleep 1000");
    session.types("run --detach --json --name longer -- sleep 1000");
    session.types("run --detach --name never --tag gpu -- true");
    session.types_both("why never");
    session.until("both run", &["status"], "2 running");
    session.types_all(&["delete long", "cancel long", "cancel long", "cancel longer --json"]);
    session.types_all(&["cancel web", "cancel lonk"]);
    // What was cancelled keeps its name until it is gone; the service's instance stays.
    wait_until("they may be forgotten", LONG, || {
        session.cluster.json(&["ls", "workers"])["workers"][0]["runs"] == 1
    });
    session.types_all(&["delete long", "delete longer --json", "delete long"]);
    session.cluster.answer(&["run", "--detach", "--name", "killed", "--", "sleep", "1000"]);
    session.until("it runs", &["status"], "1 running");
    session.types_all(&["kill killed", "kill web", "kill lonk"]);
    for ends in ["kill web/0 --json", "stop web/0", "stop web/0 --json"] {
        let before = session.run();
        session.types(ends);
        wait_until("it is back", LONG, || session.run() != before && session.run().1 == "running");
    }
    session.types_all(&["stop web", "stop last"]);
}

fn fleet(session: &mut Session) {
    session.types_both("drain worker-1 --within 1h");
    session.types_all(&["drain worker-9", "drain worker-1 --within 5", "ls workers"]);
    session.types_both("undrain worker-1");
    session.types_all(&["undrain worker-9", "forget worker-1", "forget worker-9"]);
    session.types_all(&["delete web", "delete wbe"]);
    session.until("it is gone", &["status"], "services  0");
    wait_until("nothing runs", LONG, || {
        session.cluster.json(&["ls", "workers"])["workers"][0]["runs"] == 0
    });
    session.types_both("declare-complete");
    session.types("declare-dead worker-9");
    session.types_both("declare-dead worker-1");
    session.types_both("declare-dead worker-1 --caution-though-heard");
}

fn alone(session: &mut Session) {
    let said = session.steady(&session.cluster.said());
    session.write("sterna dev", "sterna dev", &said);
    session.types_all(&["dev bad.toml", "dev --workers 0", "dev --listen nowhere", "dev"]);
    session.types_all(&["completions", "completions tcsh", "completions fish"]);
    session.types_all(&["server", "server --data fresh --listen 127.0.0.1:0"]);
    session.types_all(&["server --data fresh --store nonsense:x", "worker"]);
    session.types_all(&["worker --join 127.0.0.1:9 --name 'A b'", "worker --join : --name w"]);
    let berlin = "--tz Europe/Berlin --from 1774650000";
    session.types_both(&format!("cron next | --line '30 2 * * *' {berlin} --count 3"));
    session.types("cron next | --line '0 25 * * *'");
    session.types_both(&format!("cron explain | --line '30 2 * * 1' {berlin}"));
    session.types("cron explain | --line '30 2 * * 1' --tz Nowhere/Land");
    session.types_both("store check | file:fresh/store");
    session.types_all(&["store check | nonsense:x", "store copy | file:fresh/store file:other"]);
    session.types_all(&[
        "store copy | file:.sterna/store file:other",
        "sim --seeds 2 --minutes 1 --workers 2",
        "sim --seed 3 --minutes 1 --workers 2 --only none",
        "sim --seeds 0",
    ]);
}

#[test]
fn what_every_command_says() {
    let mut session = Session::start();
    work(&mut session);
    runs(&mut session);
    fleet(&mut session);
    alone(&mut session);
    session.assert_committed();
}

fn completions(shell: &str, stdout: Stdio) -> Child {
    let mut command = program();
    command.args(["completions", shell]).stdout(stdout).stderr(Stdio::piped());
    command.spawn().expect("it runs")
}

/// Who reads no further, and a disk that is full, are no reason to panic.
#[test]
fn completions_that_cannot_be_written_are_said_so() {
    let ended = |child: Child| {
        let output = child.wait_with_output().expect("it ends");
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let mut closed = completions("bash", Stdio::piped());
    drop(closed.stdout.take());
    assert_eq!(ended(closed), (Some(0), String::new()));
    let full = fs::OpenOptions::new().write(true).open("/dev/full").expect("it is there");
    let (code, said) = ended(completions("bash", full.into()));
    assert_eq!(code, Some(1), "{said}");
    assert!(said.starts_with("error: cannot write to standard output"), "{said}");
}

/// The scripts are for shells to read; all that can be said of them is that they know every command.
#[test]
fn completions_know_every_command() {
    let help = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/help"));
    let names: Vec<_> = fs::read_dir(help)
        .expect("the help is committed")
        .filter_map(|entry| {
            let name = entry.expect("a file").file_name().to_string_lossy().into_owned();
            name.strip_prefix("sterna-")?.strip_suffix(".txt").map(str::to_owned)
        })
        .collect();
    assert!(names.len() > 20);
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = completions(shell, Stdio::piped()).wait_with_output().expect("it ends");
        let script = String::from_utf8_lossy(&script.stdout).into_owned();
        for name in names.iter().flat_map(|name| [name.rsplit_once('-').map_or(&**name, |it| it.1)])
        {
            assert!(script.contains(name), "{shell}: {name}");
        }
    }
}
