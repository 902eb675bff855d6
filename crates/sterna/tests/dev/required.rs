//! A worker that requires a tag is kept for work that names it.

use crate::{
    api::{Api, TASKS},
    place::{LONG, signal, wait_until},
    same_name::{sterna, worker_with},
};

/// A spec of one service.
fn spec(api: &Api, name: &str, fields: &str) -> String {
    let text = format!("version = 1\n[service.{name}]\nrun = [\"sleep\", \"1000\"]\n{fields}\n");
    let path = api.place.path.join(format!("{name}.toml"));
    std::fs::write(&path, text).expect("a file");
    path.display().to_string()
}

#[test]
fn only_work_that_names_a_required_tag_goes_to_its_worker() {
    let api = Api::start_with("required", &[]);
    let kept = worker_with(&api, "worker-3", "w3", &["--tag", "ssd", "--require-tag", "gpu"]);
    let healthy = |count: usize| {
        let page = api.ask("GET", "/v1/workers?phase=healthy", &[], None).body;
        page["items"].as_array().is_some_and(|items| items.len() == count)
    };
    wait_until("it is there", LONG, || healthy(1));
    let facts = api.ask("GET", "/v1/workers/worker-3", &[], None).body["facts"].clone();
    assert_eq!(facts["required_tags"], serde_json::json!(["gpu"]), "{facts}");
    let (_, listed) = sterna(&api, &["ls", "workers"]);
    assert!(listed.contains("takes only gpu"), "{listed}");
    // A task that names the tag runs there; one that names another of its tags alone waits.
    let (is_done, said) = sterna(&api, &["run", "--name", "asks", "--tag", "gpu", "--", "true"]);
    assert!(is_done, "{said}");
    for (name, tag) in [("plain", None), ("half", Some("ssd"))] {
        let tag = tag.map(|tag| ["--tag", tag]);
        let mut args = vec!["run", "--detach", "--name", name];
        args.extend(tag.iter().flatten());
        args.extend(["--", "true"]);
        let (is_done, said) = sterna(&api, &args);
        assert!(is_done, "{said}");
        let (_, why) = sterna(&api, &["why", name]);
        let expected = "no worker accepts it; worker-3 comes nearest, it accepts only work with the tag \
                        gpu; ask for gpu, or start a worker without --require-tag gpu";
        assert!(why.contains(expected), "{why}");
    }
    // A service is the same, and who applies it is warned.
    let (is_done, said) = sterna(&api, &["apply", &spec(&api, "idle", "")]);
    assert!(is_done && said.contains("it accepts only work with the tag gpu"), "{said}");
    let cards = spec(&api, "cards", "tags = [\"gpu\"]");
    let (is_done, said) = sterna(&api, &["apply", "--wait", &cards]);
    assert!(is_done && !said.contains("accepts only"), "{said}");
    // Another worker has what waited.
    let other = worker_with(&api, "other", "w0", &["--tag", "ssd"]);
    let worker_of = |name: &str| {
        let task = api.ask("GET", &format!("{TASKS}/{name}"), &[], None).body;
        (task["phase"] == "completed").then(|| task["worker"].as_str().map(str::to_owned))
    };
    for name in ["plain", "half"] {
        wait_until("it has run", LONG, || worker_of(name).is_some());
        assert_eq!(worker_of(name), Some(Some("other".to_owned())), "{name}");
    }
    assert_eq!(worker_of("asks"), Some(Some("worker-3".to_owned())));
    for mut worker in [kept, other] {
        signal(worker.id(), "TERM");
        assert!(worker.wait().expect("it ran").success());
    }
}
