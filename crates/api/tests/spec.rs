//! Specs that people write: good ones are read, and bad ones are told all that is wrong with them.

use std::{
    env, fs,
    path::{Path, PathBuf},
};

use proptest::{
    prelude::any,
    sample::Index,
    strategy::{Strategy as _, ValueTree as _},
    test_runner::TestRunner,
};
use sterna_api::spec::{Look, Problems, Source, Specs, fields, read, reference};
use sterna_model::{
    Bytes, Contract, Millicores, Name, Span, WallTime, Zones,
    record::CrashPolicy,
    spec::{UpdatePolicy, WhenFull},
};

fn here(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// The specs of a folder by file name, in order.
fn specs(folder: &str) -> Vec<(String, String)> {
    let entries = fs::read_dir(here(folder)).expect(folder);
    let paths = entries.map(|entry| entry.expect(folder).path());
    let is_spec = |path: &PathBuf| path.extension().is_some_and(|end| end != "txt");
    let mut paths: Vec<_> = paths.filter(is_spec).collect();
    paths.sort();
    let name = |path: &PathBuf| path.file_name().expect(folder).to_string_lossy().into_owned();
    paths.iter().map(|path| (name(path), fs::read_to_string(path).expect(folder))).collect()
}

fn one(name: &str, text: &str) -> Result<Specs, Problems> {
    read(&[Source { name, text }])
}

/// Compares with what is committed, or writes it anew when `UPDATE` is set.
fn assert_committed(path: &Path, text: &str) {
    if env::var_os("UPDATE").is_some() {
        fs::write(path, text).expect("the folder can be written to");
    }
    let committed = fs::read_to_string(path).unwrap_or_default();
    assert_eq!(text, committed, "{}: UPDATE=1 writes it anew", path.display());
}

#[test]
fn every_bad_spec_is_told_where_why_and_what_to_do() {
    let all = specs("tests/bad");
    assert!(all.len() >= 30, "{} kinds of bad specs", all.len());
    let files = fs::read_dir(here("tests/bad")).unwrap().count();
    let is_new = env::var_os("UPDATE").is_some();
    assert!(is_new || files == 2 * all.len(), "a spec without a message, or the other way round");
    for (name, text) in all {
        let problems = one(&name, &text).expect_err(&name);
        for problem in problems.iter() {
            assert!(!problem.reason.is_empty() && !problem.remedy.is_empty(), "{problem:?}");
            let line = text.lines().nth(problem.line - 1).unwrap_or_default();
            let rest: String = line.chars().skip(problem.column - 1).collect();
            assert!(rest.starts_with(&problem.text), "{name}: {problem:?}");
        }
        assert_committed(&here("tests/bad").join(format!("{name}.txt")), &format!("{problems}\n"));
    }
}

#[test]
fn examples_are_read_without_a_problem() {
    let all = specs("../../examples");
    assert!(!all.is_empty());
    for (name, text) in all {
        if let Err(problems) = one(&name, &text) {
            panic!("{problems}");
        }
    }
}

#[test]
fn the_reference_is_what_the_code_knows() {
    const BEGIN: &str = "<!-- fields: written by the tests of crates/api -->\n\n";
    let path = here("../../docs/spec.md");
    let text = fs::read_to_string(&path).unwrap();
    let (before, rest) = text.split_once(BEGIN).unwrap();
    let (_, after) = rest.split_once("<!-- end of fields -->").unwrap();
    let whole = format!("{before}{BEGIN}{}<!-- end of fields -->{after}", reference());
    assert_committed(&path, &whole);
}

/// Nothing takes a date: who reads a field refuses it.
#[test]
fn every_field_of_the_reference_is_read() {
    for (form, field) in fields() {
        let (table, line) = match form {
            "The file" if field == "version" => continue,
            "The file" => ("", format!("{field} = 1979-05-27")),
            "Services and tasks" | "Tasks only" => ("[task.x]", format!("{field} = 1979-05-27")),
            "Services only" => ("[service.x]", format!("{field} = 1979-05-27")),
            "`monitor` and `readiness`" if field == "port" => {
                ("[service.x]", "readiness = { http = \"/\", port = 1979-05-27 }".to_owned())
            }
            "`image.mounts`: each" => {
                let mount = format!("mounts = [{{ {field} = 1979-05-27 }}]");
                ("[service.x]", format!("image = {{ rootfs = \"/i\", {mount} }}"))
            }
            inner => {
                let name = inner.split('`').nth(1).unwrap();
                ("[service.x]", format!("{name} = {{ {field} = 1979-05-27 }}"))
            }
        };
        let problems = one("x.toml", &format!("version = 1\n{table}\n{line}\n")).unwrap_err();
        let is_told = problems.iter().any(|problem| {
            problem.line == 3 && problem.place.ends_with(field) && !problem.reason.contains("such")
        });
        assert!(is_told, "{form}: {field}: {problems}");
    }
}

#[test]
fn what_stands_in_two_files_is_told_in_the_second() {
    let text = "version = 1\n[task.x]\nrun = [\"true\"]\n";
    let twice = [Source { name: "a.toml", text }, Source { name: "b.toml", text }];
    let problems = read(&twice).unwrap_err();
    let told: Vec<_> = problems.iter().map(|problem| (&*problem.file, &*problem.reason)).collect();
    assert_eq!(told, [("b.toml", "this task is there already, at a.toml:2:7")]);
}

/// Fields that change nothing must not start anything anew.
#[test]
fn to_write_down_a_default_changes_nothing() {
    let service = |lines: &str| {
        let text = format!("version = 1\n[service.web]\nrun = [\"./web\"]\n{lines}");
        one("web.toml", &text).unwrap()
    };
    let defaults = "instances = 1
        setup = []
        env = {}
        ports = []
        uses = {}
        limits = { rlimits = {} }
        tags = []
        zones = 'spread'
        on_silence = { replace_after = '15s' }
        signals = { stop = 'TERM', grace = '10s', to = 'group', group = 'own' }
        when_worker_exits = 'stop'
        logs = { when_over = 'wait' }
        crash = { wait_from = 3, first_wait = '30s', longest_wait = '16m', give_up_at = 200, forgiven_after = '5m' }
        update = { max_unavailable = 1, healthy_for = '10s', revert_after = 3 }
        domain = 'default'\n";
    assert_eq!(service(defaults), service(""));
    assert_eq!(service("on_silence = 'replace'\n"), service(""));
    assert_ne!(service("when_worker_exits = 'keep'\n"), service(""));
    let at_once = "update = { healthy_for = '0s' }\n";
    assert_ne!(service(at_once), service(""), "no gate is possible, and not the default");
}

#[test]
fn both_languages_say_the_same() {
    let toml = "version = 1\n[service.web]\nrun = ['./web']\nports = ['http']\ncpu = 0.5\n\
                monitor = { http = '/', interval = '2s' }\nroutes = { http = ['a', 1.5] }\n";
    let json = r#"{"version": 1, "service": {"web": {"run": ["./web"], "ports": ["http"], "cpu": 0.5,
        "monitor": {"http": "/", "interval": "2s"}, "routes": {"http": ["a", 1.5]}}}}"#;
    assert_eq!(one("web.toml", toml).unwrap(), one("web.json", json).unwrap());
    // What is in a file without an ending is seen by its first sign.
    assert_eq!(one("web", toml).unwrap(), one("-", json).unwrap());
}

#[test]
fn everything_that_a_service_wants_is_in_its_spec() {
    let text = "version = 1
        [service.web]
        run = ['./web']
        instances = 3
        cpu = '500m'
        memory = '64MiB'
        uses = { gpu = 2 }
        stack = 'debian'
        tags = ['ssd']
        apart_from = ['web']
        zones = 'pinned'
        on_silence = { stop_after = '5m' }
        crash = { wait_from = 1, first_wait = '1s', longest_wait = '2s', give_up_at = 'never', forgiven_after = '1m' }
        update = { max_unavailable = 2, healthy_for = '10s', revert_after = 'never' }
        domain = 'shop'
        annotation = 'note'
        metadata = { team = 'shop' }\n";
    let specs = one("web.toml", text).unwrap();
    let spec = &specs.services[&Name::new("web").unwrap()];
    let amounts = spec.wants.demand.amounts();
    assert_eq!((amounts.cpu, amounts.memory), (Millicores::new(500), Bytes::new(64 << 20)));
    assert_eq!(amounts.countables.get(&Name::new("gpu").unwrap()), 2);
    let constraints = &spec.wants.constraints;
    assert_eq!(constraints.stack, Some(Name::new("debian").unwrap()));
    assert!(constraints.tags.contains(&Name::new("ssd").unwrap()));
    assert!(constraints.apart_from.contains(&Name::new("web").unwrap()));
    assert_eq!(constraints.zones, Zones::Pinned);
    assert_eq!(spec.contract, Contract::Stop { after: Span::from_secs(300) });
    let crash = CrashPolicy {
        wait_from: 1,
        first_wait: Span::from_secs(1),
        longest_wait: Span::from_secs(2),
        give_up_at: u32::MAX,
        forgiven_after: Span::from_secs(60),
    };
    assert_eq!(spec.crash, crash);
    let healthy_for = Span::from_secs(10);
    assert_eq!(spec.update, UpdatePolicy { max_unavailable: 2, healthy_for, revert_after: None });
    assert_eq!((spec.instances, spec.domain.as_str()), (3, "shop"));
    assert_eq!(&*spec.notes, r#"{"annotation":"note","metadata":{"team":"shop"}}"#);
}

#[test]
fn a_task_begins_to_count_when_it_is_made() {
    let text = "version = 1
        [task.build]
        run = ['make']
        when_full = 'fail'
        latest_start_after = '1h'
        callback = 'https://shop.example/done?a=b'
        start = true\n";
    let specs = one("build.toml", text).unwrap();
    let task = &specs.tasks[&Name::new("build").unwrap()];
    assert!(task.start);
    let made = task.made_at(WallTime::EPOCH);
    assert_eq!(made.latest_start, Some(WallTime::EPOCH.plus(Span::from_secs(3_600))));
    assert_eq!(made.when_full, WhenFull::Fail);
    assert_eq!(made.callback.as_deref(), Some("https://shop.example/done?a=b"));
    assert_eq!(made.contract, Contract::Stop { after: Span::from_secs(600) });
}

/// What a person does to a spec by mistake: cuts, doubles, and puts in what does not belong.
#[test]
fn whatever_is_written_is_answered() {
    let seeds: Vec<_> = specs("tests/bad").into_iter().chain(specs("../../examples")).collect();
    let change = (any::<Index>(), any::<Index>(), 0_usize..40, "[\\PC\\n]{0,3}");
    for text in ["", "\n\n", "\u{feff}", "\r\n", "{", "\0"] {
        for name in ["x.toml", "x.json"] {
            assert!(one(name, text).unwrap_err().to_string().contains(" --> x."), "{text:?}");
        }
    }
    let mut runner = TestRunner::deterministic();
    let rounds = if env::var_os("STERNA_LONG").is_some() { 100_000 } else { 3_000 };
    for _ in 0..rounds {
        let (seed, at, length, put) = change.new_tree(&mut runner).unwrap().current();
        let (name, text) = seed.get(&seeds);
        let mut signs: Vec<char> = text.chars().collect();
        let at = at.index(signs.len());
        let end = (at + length).min(signs.len());
        signs.splice(at..end, put.chars());
        let text: String = signs.into_iter().collect();
        let Err(problems) = one(name, &text) else { continue };
        assert!(!problems.draw(Look::Coloured).is_empty());
    }
}

#[test]
fn more_problems_than_anybody_reads_are_counted() {
    let lines: String = (0..500).map(|number| format!("x{number} = 1\n")).collect();
    let problems = one("x.toml", &format!("version = 1\n{lines}")).unwrap_err();
    assert_eq!((problems.count(), problems.iter().count()), (500, 100));
    let text = problems.to_string();
    assert!(text.ends_with("... and 400 more\n\n500 problems; nothing was changed"), "{text}");
}
