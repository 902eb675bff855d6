//! How many events are kept, whatever made them.

use serde_json::json;

use crate::{
    api::Api,
    place::{LONG, wait_until},
};

/// The old commits have one event each, the new ones many: more were kept with each of those.
#[test]
fn no_more_events_are_kept_than_may_be_once_nothing_happens() {
    let api = Api::start_with("kept-events", &["--keep-events", "100"]);
    let domain = json!({ "for_s": 60 });
    for number in 0..150 {
        let path = format!("/v1/domains/d-{number}");
        assert_eq!(api.ask("PUT", &path, &[], Some(&domain)).status, 200);
    }
    let service = json!({ "spec": { "run": ["true"], "instances": 1_000 } });
    let web = "/v1/namespaces/default/services/web";
    assert_eq!(api.ask("PUT", web, &[], Some(&service)).status, 200);
    let numbers = || {
        let text = api.ask("GET", "/v1/events?after=0&until_now=true", &[], None).text;
        let ids = text.lines().filter_map(|line| line.strip_prefix("id: "));
        let numbers = ids.filter_map(|id| id.trim().rsplit('.').next()?.parse::<u64>().ok());
        numbers.collect::<Vec<_>>()
    };
    wait_until("all instances are made, and the oldest events gone", LONG, || {
        let numbers = numbers();
        numbers.last().is_some_and(|newest| *newest > 1_150) && numbers.len() <= 100
    });
    let numbers = numbers();
    assert!(!numbers.is_empty() && numbers.is_sorted_by(|a, b| a + 1 == *b), "{numbers:?}");
}
