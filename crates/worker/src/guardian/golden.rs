//! The committed form of every word between a worker and its guardian, and of what a guardian keeps.
//!
//! `UPDATE=1` writes what is missing. What is there is never written again: a new worker takes over a
//! guardian of an earlier version, and reads what that kept. A form that is not said any more moves to
//! `earlier/`, where it must still be understood.

use std::{collections::BTreeSet, env, fmt::Debug, fs, path::PathBuf};

use serde::{Serialize, de::DeserializeOwned};
use sterna_model::{
    Incarnation, Lock, RunId,
    payload::{Exit, To},
};

use super::{
    kept::{Entry, StateLine},
    words::{
        Ask, ContractWord, FateWord, HeldWord, PhaseWord, Plan, RoleWord, RuntimeWord, Say,
        StreamWord, WhyWord,
    },
};
use crate::{cgroup::Hold, stop::StopSignal};

/// A word of any kind, with the name of its sample.
enum Sample {
    Ask(&'static str, Ask),
    Say(&'static str, Say),
    Entry(&'static str, Entry),
    State(&'static str, StateLine),
}

fn run() -> RunId {
    "run-00000000000170008000000000000001".parse().unwrap()
}

fn incarnation() -> Incarnation {
    let directory = "dir-00000000000270008000000000000002".parse().unwrap();
    let machine = "machine-00000000000000000000000000000003".parse().unwrap();
    Incarnation { lock: Lock { directory, machine }, life: 4 }
}

const STOP: StopSignal = StopSignal { signal: 15, to: To::Group };
const CONTRACT: ContractWord = ContractWord { stop_after_ms: Some(30_000), is_kept: true };

fn plan() -> Plan {
    let text = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    Plan {
        program: "/bin/sh".to_owned(),
        arguments: text(&["sh", "-c", "exit 3"]),
        environment: vec![("PATH".to_owned(), "/bin".to_owned())],
        directory: "/work".to_owned(),
        ids: Some((33, 34, vec![34, 40])),
        rlimits: vec![(7, 64, 128)],
        own_group: true,
        death_signal: Some(9),
        no_new_privileges: true,
        streams: vec![StreamWord::Stdout, StreamWord::Stderr, StreamWord::Status],
        hold: Hold::Cgroup2("/sys/fs/cgroup/ours/run".into()),
        doors: vec!["/sys/fs/cgroup/memory/ours/run/cgroup.procs".into()],
        stop: STOP,
        leaf: None,
        runtime: None,
        owner: None,
        timeout_ms: None,
    }
}

fn in_image() -> Plan {
    let (pid_file, log) = ("/run/0/pid".into(), "/run/0/log".into());
    Plan {
        ids: None,
        death_signal: None,
        hold: Hold::Freezer("/sys/fs/cgroup/freezer/ours/run".into()),
        leaf: Some("/sys/fs/cgroup/ours/run/main".into()),
        runtime: Some(RuntimeWord { pid_file, log }),
        ..plan()
    }
}

fn asks() -> Vec<Sample> {
    let run = run();
    let streams = vec![StreamWord::Stdout, StreamWord::Stderr];
    let spawn = |role, plan| Ask::Spawn { run, part: 1, role, contract: CONTRACT, plan };
    let tree = Plan { hold: Hold::Tree, ..plan() };
    let owned = Plan { owner: Some((33, 34)), ..in_image() };
    let timed = Plan { timeout_ms: Some(500), ..plan() };
    let all = [
        ("ask-adopt", Ask::Adopt { incarnation: incarnation(), process: 5, needs: None }),
        ("ask-adopt-needs", Ask::Adopt { incarnation: incarnation(), process: 5, needs: Some(2) }),
        ("ask-spawn", spawn(RoleWord::Main, Box::new(plan()))),
        ("ask-spawn-in-image", spawn(RoleWord::Setup, Box::new(in_image()))),
        ("ask-spawn-in-tree", spawn(RoleWord::Probe, Box::new(tree))),
        ("ask-spawn-owned", spawn(RoleWord::Main, Box::new(owned))),
        ("ask-spawn-timed", spawn(RoleWord::Probe, Box::new(timed))),
        ("ask-stop", Ask::Stop { run, grace_ms: 10_000 }),
        ("ask-confirmed", Ask::Confirmed { stamp_ms: 77 }),
        ("ask-kill-wait", Ask::KillWait { ms: 5_000 }),
        ("ask-forget", Ask::Forget { run }),
        ("ask-ping", Ask::Ping { number: 6 }),
        ("ask-pipes", Ask::Pipes { run, part: 2, streams }),
        ("ask-claims", Ask::Claims { run }),
        ("ask-freeze", Ask::Freeze { run, is_frozen: true }),
        ("ask-signal", Ask::Signal { run, signal: 10, to: To::All }),
        ("ask-signal-process", Ask::Signal { run, signal: 12, to: To::Process }),
    ];
    all.into_iter().map(|(name, ask)| Sample::Ask(name, ask)).collect()
}

fn says() -> Vec<Sample> {
    let run = run();
    let held = |phase, part| HeldWord { run, phase, part, last: None };
    let probed = vec![HeldWord { last: Some(7), ..held(PhaseWord::Live, Some(1)) }];
    let held = vec![
        held(PhaseWord::Cloning, None),
        held(PhaseWord::Live, Some(0)),
        held(PhaseWord::Stopping, Some(1)),
        held(PhaseWord::Empty, Some(2)),
    ];
    let exited = |exit| FateWord::Exited { part: 1, exit, cpu_us: 1_000, peak_bytes: 4_096 };
    let streams = vec![StreamWord::Stdout, StreamWord::Status];
    let fates = [
        ("say-started", FateWord::Started { part: 1, pid: 77, streams }),
        ("say-not-started", FateWord::NotStarted { part: 1, why: "no such file".to_owned() }),
        ("say-stopping-deadline", FateWord::Stopping { why: WhyWord::Deadline }),
        ("say-stopping-worker-gone", FateWord::Stopping { why: WhyWord::WorkerGone }),
        ("say-exited-code", exited(Exit::Code(3))),
        ("say-exited-signal", exited(Exit::Signal(9))),
        ("say-exited-out-of-memory", exited(Exit::OutOfMemory)),
        ("say-exited-unknown", exited(Exit::Unknown)),
        ("say-empty", FateWord::Empty),
    ];
    let fates = fates.into_iter().map(|(name, fate)| Sample::Say(name, Say::Fate { run, fate }));
    let adopted = Sample::Say("say-adopted", Say::Adopted { held, has_images: true, needs: None });
    let probed = Say::Adopted { held: probed, has_images: true, needs: None };
    let needs = Say::Adopted { held: Vec::new(), has_images: true, needs: Some(2) };
    let needs = Sample::Say("say-adopted-needs", needs);
    let refused = Sample::Say("say-refused", Say::Refused { why: "too old".to_owned() });
    let probed = Sample::Say("say-adopted-probed", probed);
    let pong = Sample::Say("say-pong", Say::Pong { number: 6 });
    [adopted, probed, needs, refused, pong].into_iter().chain(fates).collect()
}

fn kept() -> Vec<Sample> {
    let hold = Hold::Cgroup2("/sys/fs/cgroup/ours/run".into());
    let first = Entry::Run { boot: "b".to_owned(), contract: CONTRACT, hold, stop: STOP };
    let part =
        Entry::Part { part: 1, role: RoleWord::Main, pid: 77, began: None, is_runtime: false };
    let runtime =
        Entry::Part { part: 1, role: RoleWord::Main, pid: 77, began: None, is_runtime: true };
    let in_tree = Entry::Part {
        part: 1,
        role: RoleWord::Main,
        pid: 77,
        began: Some(4_711),
        is_runtime: false,
    };
    let state = |confirmed_ms, process| StateLine {
        boot: "b".to_owned(),
        confirmed_ms,
        process,
        kill_wait_ms: None,
    };
    let last = StateLine { kill_wait_ms: Some(5_000), ..state(Some(77), Some(5)) };
    vec![
        Sample::Entry("kept-run", first),
        Sample::Entry("kept-part", part),
        Sample::Entry("kept-part-runtime", runtime),
        Sample::Entry("kept-part-in-tree", in_tree),
        Sample::Entry("kept-made", Entry::Made { part: 1, pid: 78 }),
        Sample::Entry("kept-stopping", Entry::Stopping),
        Sample::Entry("kept-kill-at", Entry::KillAt { boot_ms: 77_000 }),
        Sample::Entry("kept-fate", Entry::Fate(FateWord::Empty)),
        Sample::State("kept-state", state(Some(77), Some(5))),
        Sample::State("kept-state-new", state(None, None)),
        Sample::State("kept-state-kill-wait", last),
    ]
}

fn all() -> Vec<Sample> {
    [asks(), says(), kept()].into_iter().flatten().collect()
}

/// What was said before, and what it must mean now.
fn earlier() -> Vec<Sample> {
    let part =
        Entry::Part { part: 1, role: RoleWord::Main, pid: 77, began: None, is_runtime: false };
    vec![
        Sample::Say(
            "say-adopted",
            Say::Adopted { held: Vec::new(), has_images: false, needs: None },
        ),
        Sample::Entry("kept-part", part),
    ]
}

impl Sample {
    const fn name(&self) -> &'static str {
        match self {
            Self::Ask(name, _)
            | Self::Say(name, _)
            | Self::Entry(name, _)
            | Self::State(name, _) => name,
        }
    }

    /// Its form, and what that is understood as, both for people.
    fn written(&self) -> String {
        match self {
            Self::Ask(_, word) => written(word),
            Self::Say(_, word) => written(word),
            Self::Entry(_, word) => written(word),
            Self::State(_, word) => written(word),
        }
    }

    fn assert_means(&self, text: &str) {
        match self {
            Self::Ask(name, word) => assert_means(name, text, word),
            Self::Say(name, word) => assert_means(name, text, word),
            Self::Entry(name, word) => assert_means(name, text, word),
            Self::State(name, word) => assert_means(name, text, word),
        }
    }

    /// Which word it is a sample of.
    fn word(&self) -> &'static str {
        match self {
            Self::Ask(_, ask) => match ask {
                Ask::Adopt { .. } => "adopt",
                Ask::Spawn { .. } => "spawn",
                Ask::Stop { .. } => "stop",
                Ask::Confirmed { .. } => "confirmed",
                Ask::KillWait { .. } => "kill wait",
                Ask::Forget { .. } => "forget",
                Ask::Ping { .. } => "ping",
                Ask::Pipes { .. } => "pipes",
                Ask::Claims { .. } => "claims",
                Ask::Freeze { .. } => "freeze",
                Ask::Signal { .. } => "signal",
                Ask::Unread { .. } => "never said",
            },
            Self::Say(_, say) => match say {
                Say::Adopted { .. } => "adopted",
                Say::Refused { .. } => "refused",
                Say::Fate { .. } => "fate",
                Say::Pong { .. } => "pong",
            },
            Self::Entry(_, entry) => match entry {
                Entry::Run { .. } => "run",
                Entry::Part { .. } => "part",
                Entry::Made { .. } => "made",
                Entry::Stopping => "stopping",
                Entry::KillAt { .. } => "kill at",
                Entry::Fate(_) => "kept fate",
            },
            Self::State(..) => "state",
        }
    }
}

fn written(word: &impl Serialize) -> String {
    serde_json::to_string_pretty(word).unwrap() + "\n"
}

fn assert_means<T: DeserializeOwned + Debug>(name: &str, text: &str, word: &T) {
    let read: T = serde_json::from_str(text).unwrap_or_else(|error| panic!("{name}: {error}"));
    assert_eq!(format!("{read:?}"), format!("{word:?}"), "{name} is understood as something else");
}

fn place() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden/guardian")
}

#[test]
fn every_word_is_said_in_exactly_this_form() {
    for sample in all() {
        let path = place().join(format!("{}.json", sample.name()));
        if env::var_os("UPDATE").is_some() && !path.exists() {
            fs::write(&path, sample.written()).unwrap();
        }
        let name = sample.name();
        let kept = fs::read_to_string(&path).unwrap_or_else(|_| panic!("no sample {name}.json"));
        assert_eq!(sample.written(), kept, "{name} is said in another form");
        sample.assert_means(&kept);
    }
}

#[test]
fn what_was_said_earlier_is_still_understood() {
    for sample in earlier() {
        let path = place().join("earlier").join(format!("{}.json", sample.name()));
        sample.assert_means(&fs::read_to_string(path).unwrap());
    }
}

#[test]
fn what_a_later_version_adds_is_passed_over() {
    for sample in all() {
        let mut value: serde_json::Value = serde_json::from_str(&sample.written()).unwrap();
        let fields = value.as_object_mut().and_then(|word| word.values_mut().next());
        if let Some(fields) = fields.and_then(serde_json::Value::as_object_mut) {
            fields.insert("of_a_later_version".to_owned(), serde_json::json!([1]));
            sample.assert_means(&value.to_string());
        }
    }
}

#[test]
fn every_word_has_a_sample_and_every_sample_its_word() {
    let words: BTreeSet<&str> = all().iter().map(Sample::word).collect();
    assert_eq!(words.len(), 11 + 4 + 6 + 1, "a word has no sample: {words:?}");
    let files = fs::read_dir(place()).unwrap().map(|entry| entry.unwrap().path());
    let files = files.filter(|path| path.is_file());
    let files: BTreeSet<String> =
        files.map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned()).collect();
    let names: BTreeSet<String> = all().iter().map(|sample| sample.name().to_owned()).collect();
    assert_eq!(files, names);
}
