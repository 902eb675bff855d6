//! What is typed, and what is said to it.

use std::process::{Command, Output};

use crate::place::Place;

fn sterna(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_sterna")).arg("worker").args(arguments).output().unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn help_says_what_each_option_is() {
    let output = sterna(&["--help"]);
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).unwrap();
    for says in [
        "Run a worker: execute what the leader sends to this machine",
        "--join <ADDR>",
        "HOST or HOST:PORT",
        "--name <NAME>",
        "--zone <ZONE>",
        "--tag <TAG>",
        "--stack <STACK>",
        "--data <DIR>",
        "--drain <YES|NO>",
        "75 if another worker uses the",
    ] {
        assert!(text.contains(says), "{says:?} is not in: {text}");
    }
}

#[test]
fn what_is_mistyped_is_refused_with_what_to_write() {
    let cases: [(&[&str], &str); 9] = [
        (&[], "--join <ADDR>"),
        (&["--join", "http://a:1"], "is a URL: write only HOST:PORT, such as 127.0.0.1:7411"),
        (&["--join", "a:99999"], "the port in 'a:99999' is no number from 1 to 65535"),
        (&["--join", "10.0.0.1"], "10.0.0.1 is not on this machine: links have no TLS yet"),
        (&["--join", "localhost", "--name", "No Name"], "No Name"),
        (&["--join", "localhost", "--zone", ""], "--zone"),
        (&["--join", "localhost", "--tag", "a b"], "a b"),
        (&["--join", "localhost", "--containers", "0"], "--containers"),
        (&["--join", "localhost", "--drain", "maybe"], "write yes or no"),
    ];
    for (arguments, says) in cases {
        let output = sterna(arguments);
        assert_eq!(output.status.code(), Some(64), "{arguments:?}: {}", said(&output));
        assert!(said(&output).contains(says), "{says:?} is not in: {}", said(&output));
    }
}

#[test]
fn a_directory_that_cannot_be_used_is_named() {
    let place = Place::new();
    let file = place.path.join("file");
    std::fs::write(&file, "").unwrap();
    let output = sterna(&["--join", "localhost", "--name", "w1", "--data", file.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(1));
    let path = file.display().to_string();
    assert!(said(&output).starts_with(&format!("error: cannot use {path}")), "{}", said(&output));
    std::fs::create_dir(place.path.join("data")).unwrap();
    std::fs::write(place.path.join("data/seen.json"), "{").unwrap();
    let path = place.path.join("data");
    let output = sterna(&["--join", "localhost", "--name", "w1", "--data", path.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(1));
    let text = said(&output);
    assert!(text.contains("error: cannot use what is kept in"), "{text}");
    assert!(text.contains("because: "), "{text}");
}
