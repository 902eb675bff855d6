//! Child processes: started, followed line by line, and never waited for without end.

use std::{
    io::{self, BufRead, BufReader, PipeReader},
    process::{Command, Stdio},
    sync::mpsc::{self, Receiver, RecvTimeoutError},
    thread,
    time::Duration,
};

use anyhow::{Context, Result, bail};

use crate::clock;

/// How a child ended.
#[derive(Debug)]
pub(crate) struct Finished {
    /// It exited with zero, within its limit.
    pub(crate) is_success: bool,
    /// Everything it said on both streams, in the order in which it said it.
    pub(crate) output: String,
}

/// Runs `command` to its end, or kills it once `limit` has passed, and calls `on_line` with each
/// line as it comes.
pub(crate) fn follow(
    mut command: Command,
    limit: Duration,
    mut on_line: impl FnMut(&str),
) -> Result<Finished> {
    let name = name_of(&command);
    let (reader, writer) = io::pipe().context("cannot open a pipe")?;
    command.stdin(Stdio::null()).stdout(writer.try_clone()?).stderr(writer);
    let mut child = command.spawn().with_context(|| format!("cannot start `{name}`"))?;
    // The command holds the writing ends; while they are open the reader sees no end.
    drop(command);

    let started = clock::now();
    let lines = lines_of(reader);
    let mut output = String::new();
    let mut is_in_time = true;
    loop {
        match lines.recv_timeout(limit.saturating_sub(started.elapsed())) {
            Ok(line) => {
                on_line(&line);
                output.push_str(&line);
                output.push('\n');
            }
            Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) => {
                is_in_time = false;
                output.push_str(&format!("killed after {}\n", clock::spoken(limit)));
                child.kill().with_context(|| format!("cannot kill `{name}`"))?;
                break;
            }
        }
    }
    let status = child.wait().with_context(|| format!("cannot wait for `{name}`"))?;
    Ok(Finished { is_success: status.success() && is_in_time, output })
}

/// Runs `command` and returns its standard output; a non-zero exit is an error.
pub(crate) fn capture(mut command: Command) -> Result<String> {
    let name = name_of(&command);
    let output =
        command.stdin(Stdio::null()).output().with_context(|| format!("cannot start `{name}`"))?;
    if !output.status.success() {
        bail!("`{name}` ended with {}: {}", output.status, String::from_utf8_lossy(&output.stderr));
    }
    String::from_utf8(output.stdout).with_context(|| format!("`{name}` does not speak UTF-8"))
}

/// Reads on a thread of its own, so that a silent child cannot hold up the clock. The thread ends
/// with the stream; after a kill that may be later, when a grandchild still holds it open.
fn lines_of(reader: PipeReader) -> Receiver<String> {
    // A full channel slows the child down; nothing is lost and memory stays bounded.
    let (sender, receiver) = mpsc::sync_channel(1024);
    thread::spawn(move || {
        for line in BufReader::new(reader).split(b'\n').map_while(Result::ok) {
            let line = String::from_utf8_lossy(&line).trim_end_matches('\r').to_owned();
            if sender.send(line).is_err() {
                break;
            }
        }
    });
    receiver
}

fn name_of(command: &Command) -> String {
    let words = [command.get_program()].into_iter().chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn both_streams_arrive_in_order() {
        let mut seen = Vec::new();
        let finished = follow(shell("echo one; echo two >&2; printf three"), LONG, |l| {
            seen.push(l.to_owned());
        })
        .unwrap();
        assert!(finished.is_success);
        assert_eq!(seen, ["one", "two", "three"]);
        assert_eq!(finished.output, "one\ntwo\nthree\n");
    }

    #[test]
    fn a_bad_exit_is_no_success() {
        assert!(!follow(shell("exit 3"), LONG, |_| {}).unwrap().is_success);
        let refusal = capture(shell("echo why >&2; exit 3")).expect_err("exit 3").to_string();
        assert!(refusal.contains("why"), "{refusal}");
    }

    #[test]
    fn a_child_that_hangs_is_killed() {
        let finished = follow(shell("exec sleep 1000"), Duration::from_millis(20), |_| {}).unwrap();
        assert!(!finished.is_success);
        assert!(finished.output.contains("killed after"), "{}", finished.output);
    }

    #[test]
    fn a_program_that_is_not_there_is_named() {
        let refusal = capture(Command::new("no-such-program")).expect_err("absent").to_string();
        assert!(refusal.contains("no-such-program"), "{refusal}");
    }
}
