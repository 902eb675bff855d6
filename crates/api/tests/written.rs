//! A spec that was understood is written as one that is understood the same.

use serde_json::{Value, json};
use sterna_api::spec::{Source, Specs, fields, of_service, of_task, read};
use sterna_model::WallTime;

fn specs(name: &str, text: &str) -> Specs {
    read(&[Source { name, text }]).unwrap_or_else(|problems| panic!("{problems}"))
}

const COMMON: &str = r#"
run = ["./x", "${PORT_HTTP}"]
setup = [["a", "b"], ["c"]]
env = { LANG = "C" }
directory = "/srv"
user = 33
group = "www-data"
cpu = "500m"
memory = "64MiB"
disk = "1GiB"
uses = { gpu = 1 }
limits = { pids = 100, rlimits = { nofile = 4096, core = 0 } }
ports = ["http", "admin"]
stack = "debian"
tags = ["ssd"]
apart_from = ["db"]
when_worker_exits = "keep"
logs = { rate = "1MiB", when_over = "drop" }
"#;
const SIGNALS: &str = r#"signals = { stop = "INT", grace = "30s", linger = "2s", to = "all", group = "shared", death = "KILL" }"#;

/// Specs that together say everything that can be said, and some of it in each way.
fn samples() -> Vec<String> {
    let service = format!(
        r#"[service.x]
        {COMMON}
        {SIGNALS}
        instances = 3
        zones = "pinned"
        on_silence = {{ replace_after = "30s" }}
        monitor = {{ http = "/up", port = "http", interval = "200ms", timeout = "1s", failures = 2, start_timeout = "never" }}
        readiness = {{ tcp = "admin" }}
        crash = {{ wait_from = 2, first_wait = "1s", longest_wait = "2s", give_up_at = "never", forgiven_after = "1m" }}
        update = {{ max_unavailable = 2, healthy_for = "0s", revert_after = "never" }}
        domain = "shop"
        routes = {{ http = ["shop.example"], weight = 2 }}
        annotation = "ours"
        metadata = {{ team = "shop" }}"#
    );
    let task = format!(
        r#"[task.x]
        {COMMON}
        {SIGNALS}
        on_silence = {{ stop_after = "5m" }}
        start = true
        timeout = "30m"
        when_full = "fail"
        latest_start_after = "1h"
        callback = "https://shop.example/done""#
    );
    let image = r#"[service.x]
        tags = ["ssd"]
        image = { bundle = "/b", read_only = true, network = "host", mounts = [{ source = "/a", target = "/b", read_only = true }] }
        monitor = { run = ["./check"], interval = "30s" }
        signals = { grace = "never" }
        on_silence = "keep"
        instances = 0
        crash = { give_up_at = 7 }
        update = { revert_after = 9 }"#;
    let plain = [
        "[service.x]\nrun = ['./x']",
        "[service.x]\nrun = ['./x']\non_silence = 'stop'\nlogs = { when_over = 'wait' }",
        "[service.x]\nrun = ['./x']\nimage = { rootfs = '/r' }\nports = ['a']\nmonitor = { http = '/' }",
        "[task.x]\nrun = ['./x']",
        "[task.x]\nrun = ['./x']\non_silence = 'keep'\nlatest_start_after = '10ms'",
    ];
    let all = [service, task, image.to_owned()].into_iter();
    all.chain(plain.map(str::to_owned)).map(|text| format!("version = 1\n{text}\n")).collect()
}

fn written(specs: &Specs) -> Value {
    let service = specs.services.values().next().map(of_service);
    let task = specs.tasks.values().next();
    let task = task.map(|task| of_task(&task.made_at(WallTime::EPOCH), WallTime::EPOCH));
    service.or(task).expect("one of them")
}

#[test]
fn what_was_understood_is_written_so_that_it_is_understood_the_same() {
    for text in samples() {
        let first = specs("a.toml", &text);
        let kind = if first.services.is_empty() { "task" } else { "service" };
        let again = json!({ "version": 1, kind: { "x": written(&first) } }).to_string();
        let mut second = specs("a.json", &again);
        // That a task which is only made was not started by a file is not known of it.
        for task in second.tasks.values_mut() {
            task.start = first.tasks.values().any(|task| task.start);
        }
        assert_eq!(first, second, "{again}");
    }
}

#[test]
fn every_field_that_there_is_is_written() {
    fn names(value: &Value, into: &mut Vec<String>) {
        match value {
            Value::Object(fields) => {
                for (name, value) in fields {
                    into.push(name.clone());
                    names(value, into);
                }
            }
            Value::Array(items) => items.iter().for_each(|item| names(item, into)),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
    let mut all = Vec::new();
    for text in samples() {
        names(&written(&specs("a.toml", &text)), &mut all);
    }
    for (form, field) in fields().filter(|(form, _)| *form != "The file") {
        assert!(all.iter().any(|name| name == field), "{field} of {form} is never written");
    }
}

#[test]
fn what_is_as_it_is_by_default_is_left_out() {
    let spec =
        specs("a.toml", "version = 1\n[service.x]\nrun = ['./x']\nsignals = { grace = '10s' }\n");
    assert_eq!(written(&spec), json!({ "run": ["./x"], "instances": 1 }));
}
