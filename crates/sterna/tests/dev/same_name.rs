//! Machines with one name: all of them are listed, and what is advised can be followed.

use std::process::{Child, Stdio};

use serde_json::Value;

use crate::{
    api::{Api, TASKS},
    place::{LONG, program, signal, wait_until},
};

/// A worker of this name in a directory of its own: a machine by itself.
fn worker(api: &Api, name: &str, data: &str) -> Child {
    worker_with(api, name, data, &[])
}

/// The same, with these options.
pub(crate) fn worker_with(api: &Api, name: &str, data: &str, options: &[&str]) -> Child {
    let mut command = program();
    command.args(["worker", "--name", name, "--data", data, "--join", &api.place.address]);
    command.args(options);
    // By this it is found and ended, however the test ends.
    command.current_dir(&api.place.path).env("PWD", &api.place.path);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().expect("it starts")
}

pub(crate) fn sterna(api: &Api, args: &[&str]) -> (bool, String) {
    let mut command = program();
    // Behind `--` it would be a word of what is run.
    command.arg(args[0]).args(["--server", &api.place.address]).args(&args[1..]);
    command.current_dir(&api.place.path);
    let said = command.env("STERNA_TOKEN", api.place.token()).output().expect("it runs");
    let text = [said.stdout, said.stderr].map(|all| String::from_utf8_lossy(&all).into_owned());
    (said.status.success(), text.concat())
}

fn locks(workers: &Value) -> Vec<String> {
    let items = workers["items"].as_array().expect("a page").iter();
    items.map(|it| it["lock"].as_str().expect("a lock").to_owned()).collect()
}

/// The name of a machine that was declared dead is free for the next one, and the dead one stays on the
/// list until it is forgotten.
#[test]
fn machines_of_one_name_are_all_listed_and_told_apart() {
    let api = Api::start_with("same-name", &[]);
    let healthy = |count: usize| {
        let page = api.ask("GET", "/v1/workers?phase=healthy", &[], None).body;
        page["items"].as_array().is_some_and(|items| items.len() == count)
    };
    let kill = |mut worker: Child| {
        signal(worker.id(), "KILL");
        worker.wait().expect("it ran");
    };
    let (_other, first) = (worker(&api, "other", "w0"), worker(&api, "twin", "w1"));
    wait_until("both are there", LONG, || healthy(2));
    let (_, said) = sterna(&api, &["ls", "workers"]);
    assert!(!said.contains("LOCK"), "names are enough: {said}");
    let dead = locks(&api.ask("GET", "/v1/workers", &[], None).body)[1].clone();
    kill(first);
    wait_until("it is dead", LONG, || sterna(&api, &["declare-dead", "twin"]).0);
    let next = worker(&api, "twin", "w2");
    wait_until("the next one is there", LONG, || healthy(2));
    // One at a time, by what each page gives.
    let (mut seen, mut path) = (Vec::new(), "/v1/workers?limit=1".to_owned());
    loop {
        let page = api.ask("GET", &path, &[], None);
        assert_eq!(page.status, 200, "{}", page.text);
        seen.extend(locks(&page.body));
        let Some(next) = page.body["next"].as_str() else { break };
        path = format!("/v1/workers?limit=1&after={next}");
    }
    assert_eq!(seen, locks(&api.ask("GET", "/v1/workers", &[], None).body));
    assert_eq!(seen.len(), 3);
    let alive = seen[1..].iter().find(|lock| **lock != dead).expect("another lock").clone();
    let (_, said) = sterna(&api, &["ls", "workers"]);
    assert!(said.contains("LOCK") && seen.iter().all(|lock| said.contains(lock)), "{said}");
    let (is_done, said) = sterna(&api, &["drain", "twin"]);
    assert!(!is_done && said.contains("several machines have the name twin"), "{said}");
    assert!(said.contains(&format!("{alive} (healthy)")) && said.contains(&dead), "{said}");
    assert!(!said.contains(&seen[0]), "{said}");
    let (is_done, said) = sterna(&api, &["undrain", &alive]);
    assert!(is_done, "its lock names it: {said}");
    // Whatever runs on one of them names that one when it is silent.
    assert!(sterna(&api, &["drain", "other"]).0);
    let run = [
        "run",
        "--detach",
        "--name",
        "held",
        "--server",
        &api.place.address,
        "--",
        "sleep",
        "1000",
    ];
    let started = program().args(run).env("STERNA_TOKEN", api.place.token()).output();
    assert!(started.expect("it runs").status.success());
    let task = || api.ask("GET", &format!("{TASKS}/held"), &[], None).body;
    wait_until("it runs", LONG, || task()["phase"] == "running");
    kill(next);
    let why = || api.ask("GET", &format!("{TASKS}/held/why"), &[], None).body["text"].to_string();
    wait_until("it is silent", LONG, || why().contains("sterna declare-dead"));
    let advice = format!("`sterna declare-dead {alive}`, and `sterna forget {alive}`");
    assert!(why().contains(&advice), "{} has no {advice}", why());
    let (_, said) = sterna(&api, &["forget", &alive]);
    assert!(said.contains(&format!("`sterna forget {alive}`")), "what is advised works: {said}");
    wait_until("it can be declared dead", LONG, || sterna(&api, &["declare-dead", &alive]).0);
}
