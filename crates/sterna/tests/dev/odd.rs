//! What is given that is no text, has no end, or goes away.

use std::{
    ffi::OsStr,
    fs,
    io::Read,
    os::unix::ffi::OsStrExt,
    process::{Output, Stdio},
};

use crate::place::{Cluster, LONG, program, wait_until};

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// All three ended with a panic, when the store was made.
#[test]
fn a_data_directory_whose_name_is_no_text_is_taken_as_any_other() {
    let cluster = Cluster::begin_so("odd-name", &["--json"], |dev| {
        let told = dev.get_current_dir().expect("it has one").join("told");
        dev.arg("--data").arg(OsStr::from_bytes(b"bad\xff"));
        dev.stdout(fs::File::create(told).expect("a file"));
    });
    let is_ready = || cluster.read("told").contains(r#""event":"ready""#);
    wait_until("it is ready", LONG, || is_ready() || cluster.said().contains("error"));
    assert!(is_ready(), "{}", cluster.said());
    let told = cluster.read("told");
    let ready = told.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    let ready = ready.clone().find(|told| told["event"] == "ready").expect("it was told");
    assert!(ready["data"].as_str().is_some_and(|data| data.ends_with("bad\u{fffd}")), "{ready}");
}

/// It went on reading what it could show to nobody.
#[test]
fn a_run_whose_output_nobody_reads_any_more_ends_and_its_task_goes_on() {
    let cluster = Cluster::start("odd-pipe", &[]);
    let mut run = program();
    run.args(["run", "--name", "chatty", "--", "yes"]).current_dir(&cluster.path);
    run.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut run = run.spawn().expect("sterna runs");
    let mut pipe = run.stdout.take().expect("a pipe");
    let mut first = [0; 2];
    pipe.read_exact(&mut first).expect("its first line");
    assert_eq!(&first, b"y\n");
    drop(pipe);
    wait_until("it ends", LONG, || run.try_wait().expect("a child").is_some());
    let ended = run.wait_with_output().expect("it has ended");
    assert_eq!(ended.status.code(), Some(141), "{}", said(&ended));
    assert_eq!(said(&ended), "chatty keeps running; `sterna cancel chatty` ends it\n");
    assert!(cluster.answer(&["ls", "tasks"]).contains("running"));
    cluster.answer(&["cancel", "chatty"]);
}

/// Memory was filled with it.
#[test]
fn a_spec_without_end_is_refused_and_so_is_one_that_is_no_text() {
    let cluster = Cluster::start("odd-spec", &[]);
    let refused = |spec: &str| {
        let refused = cluster.sterna(&["plan", spec]);
        assert_eq!(refused.status.code(), Some(65), "{}", said(&refused));
        said(&refused)
    };
    let endless = refused("/dev/zero");
    assert!(endless.contains("the file has more than 1048576 bytes"), "{endless}");
    fs::write(cluster.path.join("bin.toml"), b"version = 1\nx = \"\xff\"\n").expect("a file");
    let binary = refused("bin.toml");
    assert!(binary.contains("bin.toml:2:6: the byte 0xff is no UTF-8: save the file"), "{binary}");
    let nowhere = refused("nowhere.toml");
    assert!(nowhere.contains("cannot read nowhere.toml: name a file with a spec"), "{nowhere}");
    // Some editors put a mark before the text.
    cluster
        .write("mark.json", "\u{feff}{\"version\": 1, \"task\": {\"t\": {\"run\": [\"true\"]}}}");
    assert!(cluster.answer(&["plan", "mark.json"]).contains("task t"));
}

/// It was said that the connection broke, and that what was asked for may have been done.
#[test]
fn a_token_that_cannot_be_sent_is_refused_before_anybody_is_asked() {
    let cluster = Cluster::start("odd-token", &[]);
    let file = cluster.path.join("two-lines");
    fs::write(&file, "a\nb\n").expect("a file");
    for (name, value) in [
        ("STERNA_TOKEN", OsStr::new("a\nb")),
        ("STERNA_TOKEN", OsStr::from_bytes(b"a\xff")),
        ("STERNA_TOKEN_FILE", file.as_os_str()),
        ("STERNA_TOKEN_FILE", OsStr::new("/dev/zero")),
    ] {
        let mut command = program();
        let asked = command.args(["ls"]).env(name, value).current_dir(&cluster.path).output();
        let asked = asked.expect("sterna runs");
        assert_eq!(asked.status.code(), Some(77), "{name} {value:?}: {}", said(&asked));
        let said = said(&asked);
        assert!(said.contains(name) && said.contains("this is no token"), "{said}");
    }
}

/// It went on, and no command found it; another one could take its directory.
#[test]
fn a_dev_whose_directory_is_emptied_ends_what_runs_and_says_why() {
    let mut cluster = Cluster::start("odd-empty", &[]);
    let data = cluster.path.join(".sterna");
    fs::rename(&data, cluster.path.join("elsewhere")).expect("it is there");
    fs::create_dir(&data).expect("an empty one");
    cluster.ended();
    assert!(cluster.said().contains("was emptied or replaced while `sterna dev` ran in it"));
    cluster.assert_gone();
}
