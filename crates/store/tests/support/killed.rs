//! What a test leaves behind that is killed with its whole process group, as a runner of tests does
//! with one that takes too long.

use std::{
    fs,
    io::{BufRead, BufReader, Write},
    os::unix::process::CommandExt,
    path::Path,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

/// Tells the killed process from the one that looks on.
const ROLE: &str = "STERNA_TEST_TO_BE_KILLED";
/// How long servers may take to end.
const GONE_BY: Duration = Duration::from_secs(60);
/// Begins the line that names the folder.
const MARK: &str = "the folder is ";

/// Runs the test of this name once more in a group of its own. There `start` starts servers with
/// all their files in one folder, and the group is killed; then all of that must go.
pub(crate) fn assert_nothing_is_left<S>(test: &str, start: fn() -> S, folder: fn(&S) -> &Path) {
    if std::env::var_os(ROLE).is_some() {
        let servers = start();
        let line = format!("\n{MARK}{}\n", folder(&servers).display());
        std::io::stdout().write_all(line.as_bytes()).unwrap();
        loop {
            std::thread::park();
        }
    }
    let mut victim = Command::new(std::env::current_exe().unwrap());
    victim.args(["--exact", test, "--nocapture"]).env(ROLE, "1").process_group(0);
    let mut victim = victim.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
    let mut said = BufReader::new(victim.stdout.take().unwrap()).lines().map(Result::unwrap);
    let named = said.find_map(|line| line.strip_prefix(MARK).map(str::to_owned));
    let folder = named.expect("it ended before it had started anything");
    assert!(!processes_of(&folder).is_empty(), "nothing was started that could be left");
    let group = format!("-{}", victim.id());
    assert!(Command::new("kill").args(["-9", "--", &group]).status().unwrap().success());
    victim.wait().unwrap();
    let begun = now();
    while Path::new(&folder).exists() || !processes_of(&folder).is_empty() {
        let left = processes_of(&folder);
        assert!(begun.elapsed() < GONE_BY, "{left:?} and perhaps {folder} are left");
        std::thread::yield_now();
    }
}

/// The command lines of all processes that name the folder.
fn processes_of(folder: &str) -> Vec<String> {
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let line = |process: fs::DirEntry| fs::read(process.path().join("cmdline")).ok();
    let lines = processes.filter_map(line).map(|line| String::from_utf8_lossy(&line).into_owned());
    lines.filter(|line| line.contains(folder)).collect()
}

#[expect(clippy::disallowed_methods, reason = "the test's own clock")]
fn now() -> Instant {
    Instant::now()
}
