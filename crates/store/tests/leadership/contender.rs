//! One of the competing processes, and what it says.

use std::{
    collections::BTreeMap,
    io::Read,
    process::{Child, Command, Stdio},
    thread::JoinHandle,
};

pub(crate) struct Contender {
    child: Child,
    said: Option<JoinHandle<String>>,
}

/// When a term's holder held its lease, by its own clock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Holding {
    pub(crate) from: u64,
    pub(crate) until: u64,
}

impl Contender {
    pub(crate) fn start(url: &str, number: usize, lease_ms: u64) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_lead-loop"))
            .args([url, &format!("contender-{number}"), &lease_ms.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut output = child.stdout.take().unwrap();
        // Read all the time, so that it never waits for us.
        let said = std::thread::spawn(move || {
            let mut text = String::new();
            output.read_to_string(&mut text).unwrap();
            text
        });
        Self { child, said: Some(said) }
    }

    pub(crate) fn stop(&self) {
        self.signal("STOP");
    }

    pub(crate) fn wake(&self) {
        self.signal("CONT");
    }

    /// Kills it, stopped or not.
    pub(crate) fn kill(&mut self) -> Vec<String> {
        self.child.kill().unwrap();
        self.end()
    }

    /// Lets it resign.
    pub(crate) fn ask_to_go(&mut self) -> Vec<String> {
        drop(self.child.stdin.take());
        self.end()
    }

    fn end(&mut self) -> Vec<String> {
        self.child.wait().unwrap();
        let said = self.said.take().unwrap().join().unwrap();
        // A kill may fall into the middle of the last line.
        let whole = said.rsplit_once('\n').map_or("", |(whole, _)| whole);
        whole.lines().map(str::to_owned).collect()
    }

    fn signal(&self, signal: &str) {
        let pid = self.child.id().to_string();
        let status = Command::new("kill").args([&format!("-{signal}"), &pid]).status().unwrap();
        assert!(status.success());
    }
}

impl Drop for Contender {
    fn drop(&mut self) {
        // It may be gone already.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// Adds what a line says of a lease.
pub(crate) fn note(line: &str, holdings: &mut BTreeMap<u64, Holding>) {
    let words: Vec<&str> = line.split(' ').collect();
    let number = |index: usize| words[index].parse::<u64>().unwrap();
    match words[0] {
        "lead" => {
            let (term, from, until) = (number(1), number(2), number(3));
            let holding = holdings.entry(term).or_insert(Holding { from, until });
            // A renewal after the end, which nobody has used, begins it anew; the gap is not held,
            // but it is simpler and stricter to count it.
            holding.from = holding.from.min(from);
            holding.until = holding.until.max(until);
        }
        "mute" => {
            let at = number(2);
            if let Some(holding) = holdings.get_mut(&number(1)) {
                holding.until = holding.until.min(at);
            }
        }
        "stale" => {}
        other => panic!("it said {other}"),
    }
}
