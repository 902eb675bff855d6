//! The machines of both sides over time, as scripts that a reviewer can read without Rust.
//!
//! A line is `SECONDS INPUT => EFFECTS`. Between two lines time passes in steps of the machine's own
//! deadline; what it does then stands before the effects of the line, with its time. Answers are
//! rewritten with `UPDATE=1`; the diff is the review.

#![expect(
    clippy::unwrap_used,
    clippy::too_many_lines,
    reason = "a script that cannot be read fails its test, and a table of words is long"
)]

mod consensus;
mod health;
mod leader;
mod words;
mod worker;

use std::{env, fs, path::PathBuf};

/// One side, or a part of one, played.
trait Player {
    /// Takes a line's input, at a moment in milliseconds, and says what came of it.
    fn play(&mut self, at_ms: u64, words: &[&str]) -> Vec<String>;
}

fn play_all(folder: &str, player: impl Fn() -> Box<dyn Player>) {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/scripts").join(folder);
    let mut paths: Vec<_> =
        fs::read_dir(folder).unwrap().map(|file| file.unwrap().path()).collect();
    paths.sort();
    assert!(!paths.is_empty());
    let mut wrong = Vec::new();
    for path in paths {
        let script = fs::read_to_string(&path).unwrap();
        let played = play(&script, &mut *player());
        if played == script {
            continue;
        }
        if env::var_os("UPDATE").is_some() {
            fs::write(&path, played).unwrap();
        } else {
            wrong.push(format!("{}:\n{}", path.display(), difference(&script, &played)));
        }
    }
    assert!(wrong.is_empty(), "{}\nUPDATE=1 rewrites the answers", wrong.join("\n"));
}

fn play(script: &str, player: &mut dyn Player) -> String {
    let mut played = String::new();
    for line in script.lines() {
        let input = line.split("=>").next().unwrap_or_default().trim_end();
        if input.is_empty() || input.starts_with('#') {
            played += line;
            played += "\n";
            continue;
        }
        let mut words = input.split_whitespace();
        let moment = words::seconds(words.next().unwrap());
        let words: Vec<&str> = words.collect();
        let effects = player.play(moment.as_millis(), &words);
        played += format!("{input:<50} => {}", effects.join("; ")).trim_end();
        played += "\n";
    }
    played
}

fn difference(script: &str, played: &str) -> String {
    let lines = script.lines().zip(played.lines()).filter(|(old, new)| old != new);
    lines.map(|(old, new)| format!("  was  {old}\n  now  {new}\n")).collect()
}

#[test]
fn leader_scripts() {
    play_all("leader", || Box::new(leader::Leader::default()));
}

#[test]
fn worker_scripts() {
    play_all("worker", || Box::new(worker::Played::new()));
}

#[test]
fn consensus_scripts() {
    play_all("consensus", || Box::new(consensus::Played::new()));
}

#[test]
fn health_scripts() {
    play_all("health", || Box::new(health::Played::new()));
}
