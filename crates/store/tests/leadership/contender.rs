//! One of the competing processes, and what it says.

use std::{
    collections::BTreeMap,
    io::Read,
    os::unix::process::ExitStatusExt,
    process::{Child, Command, ExitStatus, Stdio},
    thread::JoinHandle,
    time::Duration,
};

use crate::until;

/// How long it may take to end: one call of the store, and some for a busy machine.
const ENDED_BY: Duration = Duration::from_secs(60);

pub(crate) struct Contender {
    name: String,
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
        let name = format!("contender-{number}");
        let mut child = Command::new(env!("CARGO_BIN_EXE_lead-loop"))
            .args([url, &name, &lease_ms.to_string()])
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
        Self { name, child, said: Some(said) }
    }

    pub(crate) fn stop(&self) {
        self.signal("STOP");
    }

    pub(crate) fn wake(&self) {
        self.signal("CONT");
    }

    /// Kills it, stopped or not.
    pub(crate) async fn kill(&mut self) -> Vec<String> {
        self.child.kill().unwrap();
        let (status, said) = self.end("it was killed").await;
        assert_eq!(status.signal(), Some(9), "{} had ended by itself: {status}", self.name);
        said
    }

    /// Lets it resign.
    pub(crate) async fn ask_to_go(&mut self) -> Vec<String> {
        drop(self.child.stdin.take());
        let (status, said) = self.end("it was asked to go").await;
        assert!(status.success(), "{} ended with {status}", self.name);
        said
    }

    async fn end(&mut self, why: &str) -> (ExitStatus, Vec<String>) {
        let (name, id) = (self.name.clone(), self.child.id());
        let what = || {
            let state = std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
            format!("{name} to end after {why}; the system says of it: {state}")
        };
        let status = until(ENDED_BY, what, async || self.child.try_wait().unwrap()).await;
        let what = || format!("the end of what {name} said; somebody holds its output open");
        let said = &mut self.said;
        let said = until(ENDED_BY, what, async || said.take_if(|said| said.is_finished())).await;
        let said = said.join().unwrap();
        // A kill may fall into the middle of the last line.
        let whole = said.rsplit_once('\n').map_or("", |(whole, _)| whole);
        (status, whole.lines().map(str::to_owned).collect())
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
        // Not the smaller of the two: a last renewal may not have been told of.
        "mute" => {
            if let Some(holding) = holdings.get_mut(&number(1)) {
                holding.until = number(2);
            }
        }
        "stale" => assert_ne!(words[2], "applied", "a deposed leader wrote: {line}"),
        other => panic!("it said {other}"),
    }
}
