//! What a spec says is what a worker reads: the work that one writes, read with the other's type.

use std::collections::BTreeMap;

use sterna_api::spec::{Source, Specs, read};
use sterna_model::payload::{
    Limits, Logging, Monitor, Probe, ProcessGroup, Signal, Signals, To, WhenOver, WhenWorkerExits,
    Work,
};
use sterna_model::{Bytes, Millicores, Name, Span};

fn specs(text: &str) -> Specs {
    let text = format!("version = 1\n{text}");
    read(&[Source { name: "test.toml", text: &text }])
        .unwrap_or_else(|problems| panic!("{problems}"))
}

fn service(text: &str) -> Work {
    let specs = specs(&format!("[service.x]\nrun = [\"./x\"]\n{text}"));
    let spec = specs.services.values().next().expect("one was written");
    serde_json::from_slice(&spec.work).expect("a worker reads it")
}

fn plain() -> Work {
    Work { run: vec!["./x".to_owned()], ..Work::default() }
}

#[test]
fn work_that_says_nothing_more_is_as_the_worker_takes_it_for_granted() {
    assert_eq!(service(""), plain());
}

#[test]
fn every_field_of_the_work_arrives() {
    let written = service(
        "setup = [['a', 'b'], ['c']]
        env = { LANG = 'C' }
        directory = '/srv'
        user = 33
        group = 'www-data'
        cpu = '500m'
        memory = '64MiB'
        disk = '1GiB'
        limits = { pids = 100, rlimits = { nofile = 4096, core = 0 } }
        ports = ['http', 'admin']
        signals = { stop = 'INT', grace = '30s', linger = '2s', to = 'all', group = 'shared', death = 'KILL' }
        when_worker_exits = 'keep'
        logs = { rate = '1MiB', when_over = 'drop' }
        monitor = { http = '/up', port = 'http', interval = '200ms', timeout = '1s', failures = 2, start_timeout = 'never' }
        readiness = { tcp = 'admin' }\n",
    );
    let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    let expected = Work {
        setup: vec![words(&["a", "b"]), words(&["c"])],
        env: BTreeMap::from([("LANG".to_owned(), "C".to_owned())]),
        directory: Some("/srv".into()),
        user: Some("33".to_owned()),
        group: Some("www-data".to_owned()),
        limits: Limits {
            cpu: Some(Millicores::new(500)),
            memory: Some(Bytes::new(64 << 20)),
            pids: Some(100),
            disk: Some(Bytes::new(1 << 30)),
        },
        rlimits: BTreeMap::from([("core".to_owned(), 0), ("nofile".to_owned(), 4096)]),
        ports: words(&["http", "admin"]),
        signals: Signals {
            death: Some(Signal::Kill),
            group: ProcessGroup::Shared,
            stop: Signal::Int,
            grace: Some(Span::from_secs(30)),
            linger: Some(Span::from_secs(2)),
            to: To::All,
        },
        when_worker_exits: WhenWorkerExits::Keep,
        logs: Logging { rate: Some(Bytes::new(1 << 20)), when_over: WhenOver::Drop },
        monitor: Some(Monitor {
            probe: Probe::Http("http".to_owned(), "/up".to_owned()),
            starting_every: Span::from_millis(200),
            healthy_every: Span::from_millis(200),
            timeout: Span::from_secs(1),
            failures_max: 2,
            start_timeout: None,
        }),
        readiness: Some(Monitor {
            probe: Probe::Tcp("admin".to_owned()),
            starting_every: Span::from_millis(500),
            healthy_every: Span::from_secs(30),
            timeout: Span::from_secs(5),
            failures_max: 3,
            start_timeout: Some(Span::from_secs(60)),
        }),
        ..plain()
    };
    assert_eq!(written, expected);
}

#[test]
fn every_word_that_a_spec_takes_is_one_of_the_workers() {
    for (name, signal) in [
        ("TERM", Signal::Term),
        ("INT", Signal::Int),
        ("QUIT", Signal::Quit),
        ("HUP", Signal::Hup),
        ("USR1", Signal::Usr1),
        ("USR2", Signal::Usr2),
        ("KILL", Signal::Kill),
    ] {
        let written = service(&format!("signals = {{ stop = '{name}', grace = 'never' }}\n"));
        let signals = Signals { stop: signal, grace: None, ..Signals::default() };
        assert_eq!(written.signals, signals);
    }
    for (name, to) in [("group", To::Group), ("process", To::Process), ("all", To::All)] {
        assert_eq!(service(&format!("signals = {{ to = '{name}' }}\n")).signals.to, to);
    }
    let asked =
        service("monitor = { run = ['./check', '-q'] }\n").monitor.map(|monitor| monitor.probe);
    assert_eq!(asked, Some(Probe::Command(vec!["./check".to_owned(), "-q".to_owned()])));
}

#[test]
fn a_task_brings_its_timeout() {
    let specs = specs("[task.build]\nrun = ['make']\ntimeout = '30m'\n");
    let task = &specs.tasks[&Name::new("build").unwrap()];
    let work: Work = serde_json::from_slice(&task.spec.work).unwrap();
    assert_eq!(work.timeout, Some(Span::from_secs(1_800)));
    assert_eq!(work.run, ["make"]);
}
