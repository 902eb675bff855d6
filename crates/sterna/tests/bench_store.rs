//! `sterna bench store`: its answer, and what it says when a store cannot be used.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on says where")]

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
    sync::atomic::{AtomicU32, Ordering},
};

use serde_json::Value;
use sterna_model::{WallTime, WriteId};
use sterna_store::{Commit, Embedded, Store};

/// A directory that goes when the test ends.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("bench-store-{}-{number}", std::process::id());
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        drop(fs::remove_dir_all(&self.0));
    }
}

/// Runs the bench as briefly as it can be run, in a directory of its own.
fn bench(folder: &Folder, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_sterna"))
        .current_dir(&folder.0)
        .args(["bench", "store", "--rounds", "1", "--millis", "20"])
        .args(arguments)
        .output()
        .unwrap()
}

/// Runs it inside a small file system of its own, mounted at `here` in the folder.
fn bench_on_small_disk(folder: &Folder, options: &str, store: &str) -> Output {
    let script = format!(
        "mkdir here && mount -t tmpfs -o {options} tmpfs here \
         && exec {} bench store --rounds 1000 --millis 200 --store file:{store}",
        env!("CARGO_BIN_EXE_sterna")
    );
    Command::new("unshare")
        .args(["--map-root-user", "--mount", "sh", "-c", &script])
        .current_dir(&folder.0)
        .output()
        .unwrap()
}

/// It failed, printed nothing on stdout, and said one error with its remedy.
#[track_caller]
fn assert_error(output: &Output, code: i32, says: &[&str]) {
    let talk = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{talk}");
    assert!(output.stdout.is_empty(), "{talk}");
    assert!(talk.starts_with("error: "), "{talk}");
    assert!(!talk.contains("panicked"), "{talk}");
    for says in says {
        assert!(talk.contains(says), "{says:?} is not said in: {talk}");
    }
}

#[test]
fn the_json_has_the_form_of_every_bench() {
    let folder = Folder::new();
    let output = bench(&folder, &["--json"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(json["bench"], "store");
    for key in ["embedded_1", "embedded_64", "embedded_512"] {
        assert!(json["ratios"][key].as_f64().unwrap() > 0.0, "{json}");
        for figure in ["commits_per_s", "commit_ms_p50", "commit_ms_p99"] {
            assert!(json["figures"][figure][key].as_f64().unwrap() > 0.0, "{json}");
        }
    }
    assert!(
        json["figures"]["watch_since_sent_ms_p99"]["embedded"].as_f64().unwrap() > 0.0,
        "{json}"
    );
    assert!(json["floor"]["fdatasync_per_s_embedded"].as_f64().unwrap() > 0.0, "{json}");
    let left: Vec<_> = fs::read_dir(&folder.0).unwrap().collect();
    assert!(left.is_empty(), "it left {left:?} behind");
}

#[test]
fn the_table_names_every_figure() {
    let folder = Folder::new();
    let output = bench(&folder, &["--store", "file:here", "--store", "memory:"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    for says in ["commits/s", "x floor", "embedded_512", "memory_64", "a watch delivers", "floor"] {
        assert!(text.contains(says), "{says:?} is not in: {text}");
    }
}

#[test]
fn what_others_keep_in_the_store_is_left_alone() {
    let folder = Folder::new();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let id = WriteId::from_parts(WallTime::EPOCH, [1; 10]);
    let store = Embedded::open(folder.0.join("store")).unwrap();
    drop(runtime.block_on(store.commit(Commit::new(id).put("/bench/mine", "1"))).unwrap());
    drop(store);
    assert!(bench(&folder, &["--store", "file:store"]).status.success());
    let store = Embedded::open(folder.0.join("store")).unwrap();
    let (items, _) = runtime.block_on(sterna_store::scan_all(&store, "")).unwrap();
    let left: Vec<_> = items.iter().map(|item| &*item.key).collect();
    assert_eq!(left, ["/bench/mine"]);
}

#[test]
fn a_reader_that_has_seen_enough_is_no_error() {
    let folder = Folder::new();
    let script = format!(
        "{} bench store --rounds 1 --millis 20 --store file:here | true; exit ${{PIPESTATUS[0]}}",
        env!("CARGO_BIN_EXE_sterna")
    );
    let output =
        Command::new("bash").args(["-c", &script]).current_dir(&folder.0).output().unwrap();
    let talk = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && talk.is_empty(), "{talk}");
}

#[test]
fn an_unknown_scheme_is_refused() {
    let output = bench(&Folder::new(), &["--store", "mysql://db"]);
    assert_error(&output, 64, &["mysql://db is not the URL of a store", "write file:DIRECTORY"]);
    let output = bench(&Folder::new(), &["--store", "file:"]);
    assert_error(&output, 64, &["name a directory"]);
    let output = bench(&Folder::new(), &["--store", "somewhere"]);
    assert_error(&output, 64, &["write file:DIRECTORY"]);
    let output = bench(&Folder::new(), &["--store", "file://somewhere/else"]);
    assert_error(&output, 64, &["never on another host"]);
}

#[test]
fn wrong_usage_has_its_own_exit_code() {
    let output = bench(&Folder::new(), &["--no-such-flag"]);
    assert_error(&output, 64, &["--no-such-flag"]);
    let output = bench(&Folder::new(), &["--store"]);
    assert_error(&output, 64, &["a value is required for '--store <URL>'"]);
}

#[test]
fn a_file_in_the_way_is_named() {
    let folder = Folder::new();
    fs::write(folder.0.join("file"), "").unwrap();
    let output = bench(&folder, &["--store", "file:file"]);
    assert_error(&output, 1, &["file is not a directory", "a directory of its own"]);
}

#[test]
fn a_directory_of_something_else_is_left_alone() {
    let folder = Folder::new();
    fs::create_dir(folder.0.join("home")).unwrap();
    fs::write(folder.0.join("home/letter.txt"), "dear").unwrap();
    let output = bench(&folder, &["--store", "file:home"]);
    assert_error(&output, 1, &["home holds letter.txt", "a directory of its own"]);
    assert!(!folder.0.join("home/FORMAT").exists());
}

#[test]
fn a_directory_without_permission_is_named() {
    // Not even root may make a directory there.
    let output = bench(&Folder::new(), &["--store", "file:/sys/kernel/sterna"]);
    assert_error(
        &output,
        77,
        &["no permission to read and write /sys/kernel/sterna", "owner or mode"],
    );
}

#[test]
fn a_read_only_file_system_is_named() {
    let output = bench_on_small_disk(&Folder::new(), "ro", "here/store");
    assert_error(&output, 77, &["here/store is on a read-only file system", "remount it"]);
}

#[test]
fn a_disk_that_is_full_at_the_start_is_named() {
    let output = bench_on_small_disk(&Folder::new(), "size=8k", "here/store");
    assert_error(&output, 1, &["the disk of here/store is full", "free some space"]);
}

#[test]
fn a_disk_that_fills_up_is_named() {
    let output = bench_on_small_disk(&Folder::new(), "size=12m", "here");
    assert_error(&output, 1, &["nothing was written", "the disk is full; free some space"]);
}

#[test]
fn a_newer_format_is_refused() {
    let folder = Folder::new();
    drop(Embedded::open(folder.0.join("store")).unwrap());
    fs::write(folder.0.join("store/FORMAT"), "sterna-store 7\n").unwrap();
    let output = bench(&folder, &["--store", "file:store"]);
    assert_error(&output, 1, &["has format 7, this build reads up to 1", "use the newer sterna"]);
}

#[test]
fn a_corrupt_store_is_refused() {
    let folder = Folder::new();
    drop(Embedded::open(folder.0.join("store")).unwrap());
    fs::write(folder.0.join("store/FORMAT"), "something else").unwrap();
    let output = bench(&folder, &["--store", "file:store"]);
    assert_error(&output, 1, &["store is corrupt", "FORMAT", "from a backup"]);
}

#[test]
fn a_second_process_is_told_who_has_it() {
    let folder = Folder::new();
    let store = Embedded::open(folder.0.join("store")).unwrap();
    let output = bench(&folder, &["--store", "file:store"]);
    let holder = format!("in use by process {}", std::process::id());
    assert_error(&output, 75, &[&holder, "choose another directory"]);
    drop(store);
    assert!(bench(&folder, &["--store", "file:store"]).status.success());
}

#[test]
fn an_interrupted_bench_leaves_nothing_behind() {
    let folder = Folder::new();
    let store = Embedded::open(folder.0.join("mine")).unwrap();
    drop(store);
    for arguments in [&[][..], &["--store", "file:mine"]] {
        let mut bench = Command::new(env!("CARGO_BIN_EXE_sterna"))
            .current_dir(&folder.0)
            .args(["bench", "store", "--rounds", "1000", "--millis", "50"])
            .args(arguments)
            .stderr(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let status = format!("/proc/{}/status", bench.id());
        let hears = || {
            let status = fs::read_to_string(&status).unwrap();
            let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap();
            u64::from_str_radix(caught.trim(), 16).unwrap() & 1 << (2 - 1) != 0
        };
        while !hears() {
            std::thread::yield_now();
        }
        let id = bench.id().to_string();
        assert!(Command::new("kill").args(["-INT", &id]).status().unwrap().success());
        assert_eq!(bench.wait().unwrap().code(), Some(1));
    }
    let left: Vec<_> = fs::read_dir(&folder.0).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(left, ["mine"]);
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let store = Embedded::open(folder.0.join("mine")).unwrap();
    let (items, _) = runtime.block_on(sterna_store::scan_all(&store, "")).unwrap();
    assert_eq!(items, []);
}
