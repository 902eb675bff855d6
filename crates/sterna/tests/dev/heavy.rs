//! What is under way is bounded by how much it is, and not only by how many there are.

use serde_json::{Value, json};

use crate::api::{Api, Said, TASKS};

fn spec(kib: usize) -> Value {
    json!({ "run": ["true"], "env": { "HEAVY": "x".repeat(kib << 10) } })
}

fn create(api: &Api, name: &str, kib: usize) -> Said {
    api.ask("POST", TASKS, &[], Some(&json!({ "name": name, "spec": spec(kib) })))
}

fn put(api: &Api, name: &str, kib: usize) -> Said {
    let path = format!("/v1/namespaces/default/services/{name}");
    api.ask("PUT", &path, &[], Some(&json!({ "spec": spec(kib) })))
}

fn assert_too_much(said: &Said) {
    assert_eq!((said.status, &said.body["code"]), (429, &json!("too-much")), "{}", said.text);
    let says = |field: &str, text: &str| {
        assert!(said.body[field].as_str().is_some_and(|it| it.contains(text)), "{}", said.text);
    };
    says("message", "specs of services, definitions and unfinished tasks");
    says("message", "1MiB");
    says("remedy", "--specs-max");
}

fn metric(api: &Api, name: &str) -> u64 {
    let metrics = api.ask("GET", "/metrics", &[], None).text;
    let line = metrics.lines().find_map(|line| line.strip_prefix(&format!("sterna_{name} ")));
    line.and_then(|count| count.parse().ok()).unwrap_or_else(|| panic!("{name} in {metrics}"))
}

#[test]
fn specs_beyond_what_they_may_take_together_are_refused_until_there_is_room() {
    let api = Api::start_with("specs-max", &["--specs-max", "1MiB"]);
    for number in 0..4 {
        assert_eq!(create(&api, &format!("t-{number}"), 200).status, 201);
    }
    assert_too_much(&create(&api, "more", 240));
    assert_too_much(&put(&api, "web", 240));
    let there = metric(&api, "specs_bytes");
    assert!((800 << 10..900 << 10).contains(&there), "{there}");
    assert_eq!(metric(&api, "specs_bytes_max"), 1 << 20);
    assert_eq!(create(&api, "little", 10).status, 201, "there is room for a little");
    // What is over takes none of it.
    assert_eq!(api.ask("POST", &format!("{TASKS}/t-0/cancel"), &[], None).status, 200);
    assert_eq!(put(&api, "web", 200).status, 200);
    assert_eq!(put(&api, "web", 200).status, 200, "it is the same");
    assert_too_much(&create(&api, "more", 240));
    assert_eq!(put(&api, "web", 1).status, 200, "less is always taken");
    let gone = api.ask("DELETE", "/v1/namespaces/default/services/web", &[], None);
    assert_eq!(gone.status, 200, "{}", gone.text);
    assert_eq!(create(&api, "more", 240).status, 201);
}
