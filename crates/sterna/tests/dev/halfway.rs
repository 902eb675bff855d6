//! Files that are applied only in part, and what is planned that changes little.

use serde_json::{Value, json};

use crate::api::{Api, Said};

fn ask(api: &Api, verb: &str, text: &str) -> Said {
    let files = json!({ "files": [{ "name": "s.toml", "text": text }] });
    api.ask("POST", &format!("/v1/namespaces/default/{verb}"), &[], Some(&files))
}

fn service(name: &str, instances: u32) -> String {
    format!("[service.{name}]\nrun = [\"true\"]\ninstances = {instances}\n")
}

#[test]
fn an_apply_that_comes_to_a_bound_says_how_far_it_was_done_and_plan_warns_of_it() {
    let api = Api::start_with("halfway", &["--instances-max", "10"]);
    let services = service("aaa", 1) + &service("bbb", 100) + &service("ccc", 1);
    let text = format!("version = 1\n{services}[task.t]\nrun = [\"true\"]\nstart = true\n");
    let plan = ask(&api, "plan", &text);
    assert_eq!(plan.status, 200, "{}", plan.text);
    let warns = |text: &str| {
        let all = plan.body["warnings"].as_array().into_iter().flatten();
        all.filter_map(Value::as_str).any(|warning| warning.contains(text))
    };
    assert!(warns("102 more would exceed the limit of 10"), "{}", plan.text);
    assert!(warns("--instances-max"), "{}", plan.text);
    let said = ask(&api, "apply", &text);
    assert_eq!((said.status, &said.body["code"]), (429, &json!("too-much")), "{}", said.text);
    let message = said.body["message"].as_str().unwrap_or_default();
    assert!(message.starts_with("service bbb was not created or changed, "), "{message}");
    assert!(
        message.contains("only these were: service aaa; not done: service ccc, task t."),
        "{message}"
    );
    assert!(message.contains("100 more would exceed the limit of 10"), "{message}");
    let is_there = |path: &str| {
        api.ask("GET", &format!("/v1/namespaces/default/{path}"), &[], None).status == 200
    };
    assert!(is_there("services/aaa") && !is_there("services/bbb") && !is_there("services/ccc"));
    let plan = ask(&api, "plan", &format!("version = 1\n{}", service("bbb", 9)));
    assert!(!plan.text.contains("--instances-max"), "just so many: {}", plan.text);
}

/// It said that it ends 0 instances.
#[test]
fn what_ends_nothing_says_so() {
    let api = Api::start_with("ends-nothing", &[]);
    let text = |instances| format!("version = 1\n{}", service("web", instances));
    assert_eq!(ask(&api, "apply", &text(3)).status, 200);
    let plan = ask(&api, "plan", &text(1));
    let said = &plan.body["services"][0]["changes"][0];
    assert_eq!(said["kind"], "stop", "{}", plan.text);
    assert_eq!(
        said["text"], "would lower the number of instances; no running instance ends",
        "{}",
        plan.text
    );
}
