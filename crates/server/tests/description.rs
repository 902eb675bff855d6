//! The description of the API that is committed is the one that the code gives.

use std::{collections::BTreeSet, env, fs, path::PathBuf};

use serde_json::Value;

/// Every call: its path, its method and what is said of it.
fn calls(described: &Value) -> Vec<(String, String, Value)> {
    let paths = described["paths"].as_object().expect("paths").iter();
    let of = |(path, item): (&String, &Value)| {
        let item = item.as_object().expect("an item").clone().into_iter();
        item.map(|(method, call)| (path.clone(), method, call)).collect::<Vec<_>>()
    };
    paths.flat_map(of).collect()
}

fn described() -> Value {
    serde_json::from_str(&sterna_server::description()).expect("JSON")
}

/// OpenAPI asks for it, and tools refuse a description without.
#[test]
fn every_answer_is_described_in_words() {
    for (path, method, call) in calls(&described()) {
        let answers = call["responses"].as_object().expect("responses");
        assert!(!answers.is_empty(), "{method} {path}");
        for (status, answer) in answers {
            let said = answer["description"].as_str().unwrap_or_default();
            assert!(!said.is_empty(), "{method} {path}: {status} is not described");
        }
    }
}

#[test]
fn every_call_has_a_name_of_its_own() {
    let mut names = BTreeSet::new();
    for (path, method, call) in calls(&described()) {
        let name = call["operationId"].as_str().unwrap_or_default().to_owned();
        assert!(!name.is_empty(), "{method} {path} has no operationId");
        assert!(names.insert(name.clone()), "{method} {path}: {name} is another call's, too");
    }
}

#[test]
fn every_part_of_a_path_that_has_a_name_is_declared() {
    for (path, method, call) in calls(&described()) {
        let parameters = call["parameters"].as_array().cloned().unwrap_or_default();
        let declared: BTreeSet<_> = parameters
            .iter()
            .filter(|it| it["in"] == "path")
            .filter_map(|it| it["name"].as_str())
            .collect();
        let parts = path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
        assert_eq!(declared, parts.collect::<BTreeSet<_>>(), "{method} {path}");
        assert!(parameters.iter().all(|it| it["in"] != "path" || it["required"] == true), "{path}");
    }
}

#[test]
fn how_long_a_page_may_be_is_said() {
    let mut count = 0;
    for (path, method, call) in calls(&described()) {
        for limit in call["parameters"].as_array().into_iter().flatten() {
            if limit["name"] == "limit" {
                count += 1;
                let schema = &limit["schema"];
                assert_eq!(
                    (&schema["minimum"], &schema["maximum"]),
                    (&1.into(), &1000.into()),
                    "{method} {path}"
                );
            }
        }
    }
    assert!(count >= 8, "{count} lists");
}

#[test]
fn what_is_answered_beside_the_calls_is_described_too() {
    let described = described();
    for path in ["/healthz", "/readyz", "/openapi.json", "/metrics"] {
        assert!(described["paths"][path]["get"].is_object(), "{path}");
    }
    // An empty requirement: nobody needs a token.
    for path in ["/healthz", "/readyz"] {
        assert_eq!(described["paths"][path]["get"]["security"], serde_json::json!([{}]), "{path}");
    }
}

#[test]
fn the_committed_description_is_what_the_code_says() {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/openapi.json");
    let said = sterna_server::description();
    if env::var_os("UPDATE").is_some() {
        fs::write(&path, &said).expect("docs can be written");
    }
    let kept = fs::read_to_string(&path).expect("docs/openapi.json is there");
    assert_eq!(said, kept, "UPDATE=1 writes docs/openapi.json anew");
}
