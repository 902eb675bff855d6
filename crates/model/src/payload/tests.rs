//! The samples, and what is made of payloads that nobody should have said.

use super::*;
use crate::{name::Name, resources::Amounts, time::Span};

fn name(text: &str) -> Name {
    Name::new(text).unwrap()
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

macro_rules! sample {
    ($name:literal) => {
        include_str!(concat!("../../tests/golden/payload/", $name, ".json")).trim_end()
    };
}

#[test]
fn work_reads_and_writes_as_it_always_did() {
    let all = [
        sample!("work"),
        sample!("work-whole"),
        sample!("work-service"),
        sample!("work-rootfs"),
        sample!("work-bundle"),
    ];
    for sample in all {
        let work: Work = serde_json::from_str(sample).unwrap();
        assert_eq!(text(&work.to_bytes()), sample);
    }
    let whole: Work = serde_json::from_str(sample!("work-whole")).unwrap();
    assert_eq!(whole.signals.grace, None);
    assert_eq!(whole.monitor.unwrap().probe, Probe::Http("http".to_owned(), "/healthz".to_owned()));
    let bundle: Work = serde_json::from_str(sample!("work-bundle")).unwrap();
    assert_eq!(bundle.image.unwrap().network, Some(Network::Host), "said, though it is usual");
    assert_eq!(text(&Work::default().to_bytes()), "{}");
}

#[test]
fn progress_reads_and_writes_as_it_always_did() {
    for sample in [sample!("progress"), sample!("progress-reserved")] {
        assert_eq!(text(&Progress::read(sample.as_bytes()).to_bytes()), sample);
    }
    let said = sample!("progress").as_bytes();
    assert_eq!(Progress::state_in(said), RunState::Running);
    let endpoint = Progress::read(said).endpoint.unwrap();
    assert_eq!((&*endpoint.address, endpoint.ports["http"]), ("127.0.0.1", 20_000));
    let reserved = sample!("progress-reserved").as_bytes();
    assert_eq!(Progress::state_in(reserved), RunState::Reserved);
    assert!(!Progress::is_ready_in(reserved));
}

#[test]
fn reports_read_and_write_as_they_always_did() {
    let all =
        [sample!("report-result"), sample!("report-not-started"), sample!("report-unhealthy")];
    for sample in all {
        let report: RunReport = serde_json::from_str(sample).unwrap();
        assert_eq!(text(&report.to_bytes()), sample);
        let words = ReportWords::read(sample.as_bytes()).unwrap();
        assert_eq!((words.cause(), words.exit()), (Some(report.end.cause), report.end.exit));
    }
}

#[test]
fn facts_read_and_write_as_they_always_did() {
    for sample in [sample!("facts"), sample!("facts-required-tags")] {
        assert_eq!(text(&Facts::read(sample.as_bytes()).to_bytes()), sample);
    }
    let facts = Facts::read(sample!("facts-required-tags").as_bytes());
    assert_eq!(facts.required_tags, [name("gpu")].into());
    assert_eq!(facts.failed_check.as_deref(), Some("true ended with 7"));
    let facts = sample!("facts").as_bytes();
    assert_eq!(Facts::zone_in(facts), Some(name("z1")));
    assert_eq!(Facts::read(facts).amounts().countables.get(&name("licence")), 3);
}

const ENDS: [&str; 16] = [
    r#"{"cause":"exited","exit":{"code":0}}"#,
    r#"{"cause":"exited","exit":{"code":9}}"#,
    r#"{"cause":"exited","exit":{"signal":9}}"#,
    r#"{"cause":"exited","exit":"out_of_memory"}"#,
    r#"{"cause":"exited","exit":"unknown"}"#,
    r#"{"cause":{"setup_failed":0},"exit":{"signal":15}}"#,
    r#"{"cause":{"setup_failed":1},"exit":{"signal":15}}"#,
    r#"{"cause":{"failed_to_start":"no such file"},"exit":{"signal":15}}"#,
    r#"{"cause":{"failed_to_start":"no port is free"},"exit":{"signal":15}}"#,
    r#"{"cause":"timeout","exit":{"signal":15}}"#,
    r#"{"cause":"never_healthy","exit":{"signal":15}}"#,
    r#"{"cause":"unhealthy","exit":{"signal":15}}"#,
    r#"{"cause":"disk_limit","exit":{"signal":15}}"#,
    r#"{"cause":"request","exit":{"signal":15}}"#,
    r#"{"cause":"deadline","exit":{"signal":15}}"#,
    r#"{"cause":"worker_exit","exit":{"signal":15}}"#,
];

#[test]
fn every_end_has_words_of_its_own_and_is_read_from_them() {
    let exits = [Exit::Code(0), Exit::Code(9), Exit::Signal(9), Exit::OutOfMemory, Exit::Unknown];
    let by_itself = exits.map(|exit| End { cause: Cause::Exited, exit: Some(exit) });
    let by_others = [
        Cause::SetupFailed(0),
        Cause::SetupFailed(1),
        Cause::FailedToStart("no such file".to_owned()),
        Cause::FailedToStart("no port is free".to_owned()),
        Cause::Timeout,
        Cause::Monitor(Failure::NeverHealthy),
        Cause::Monitor(Failure::Unhealthy),
        Cause::DiskLimit,
        Cause::Request,
        Cause::Deadline,
        Cause::WorkerExit,
    ];
    let by_others = by_others.map(|cause| End { cause, exit: Some(Exit::Signal(15)) });
    let ends: Vec<End> = by_itself.into_iter().chain(by_others).collect();
    assert_eq!(ends.len(), ENDS.len());
    for (end, said) in ends.into_iter().zip(ENDS) {
        assert_eq!(text(&end.to_bytes()), said);
        let words = ReportWords::read(said.as_bytes()).unwrap();
        assert_eq!((words.cause(), words.exit()), (Some(end.cause), end.exit), "{said}");
    }
}

#[test]
fn an_end_is_a_stop_a_success_or_neither() {
    let read = |said: &str| {
        let words = ReportWords::read(said.as_bytes()).unwrap_or_default();
        (words.was_stopped(), words.is_success())
    };
    assert_eq!(read(ENDS[0]), (false, true));
    assert_eq!(
        read(r#"{"cause":"exited","exit":{"code":0,"of":"a newer version"}}"#),
        (false, true)
    );
    assert_eq!(read(ENDS[1]), (false, false));
    assert_eq!(read(ENDS[2]), (false, false));
    assert_eq!(read(r#"{"cause":"request","exit":{"code":0}}"#), (true, false));
    assert_eq!(read(r#"{"cause":"deadline"}"#), (true, false));
    assert_eq!(read(r#"{"cause":{"failed_to_start":"no such file"}}"#), (false, false));
    assert_eq!(read(r#"{"cause":"a newer word","exit":{"code":0}}"#), (false, false));
    assert_eq!(read("not json"), (false, false));
    assert_eq!(read(r#"["request",{"code":0}]"#), (false, false));
}

#[test]
fn a_brief_report_keeps_why_and_little_else() {
    let report = |said: &str| ReportWords::brief_of(said.as_bytes());
    let said = r#"{"cause":"exited","exit":{"code":3},"usage":{"cpu_ms":7},"result":"long"}"#;
    assert_eq!(report(said), r#"{"cause":"exited","exit":{"code":3}}"#);
    let said = r#"{"cause":{"failed_to_start":"no such file"}}"#;
    assert_eq!(report(said), r#"{"cause":{"failed_to_start":"no such file"},"exit":null}"#);
    let long = "ä".repeat(9_999);
    let kept = report(&format!(r#"{{"cause":{{"failed_to_start":"{long}"}}}}"#));
    assert!(ReportWords::read(kept.as_bytes()).is_some() && kept.len() < 400, "{kept}");
    assert!(report(&long).len() <= CRASH_TEXT_BYTES_MAX);
    assert_eq!(report(r#"{"cause":[1],"exit":{"a":{"b":1},"c":2}}"#).len(), 32);
    assert_eq!(report(r#"{"cause":"a newer word"}"#), r#"{"cause":"a newer word","exit":null}"#);
    assert_eq!(report("not json"), "not json");
}

#[test]
fn work_ends_within_its_grace_and_what_it_answers_before() {
    let within = |work: &str| {
        let within = WorkOutline::read(work.as_bytes()).ends_within(true);
        within.map(|span| span.to_string())
    };
    let some = |text: &str| Some(text.to_owned());
    assert_eq!(within("{}"), some("10s"));
    assert_eq!(within("not json"), some("10s"));
    assert_eq!(within(r#"{"ports":["http"]}"#), some("11s"));
    assert_eq!(within(r#"{"ports":[]}"#), some("10s"));
    assert_eq!(within(r#"{"signals":{"grace":"30s","linger":"2s"}}"#), some("32s"));
    assert_eq!(within(r#"{"signals":{"grace":"30s","stop":"A NEWER SIGNAL"}}"#), some("30s"));
    assert_eq!(within(r#"{"signals":{"linger":"?"},"ports":["http"]}"#), some("11s"));
    assert_eq!(within(r#"{"signals":7}"#), some("10s"));
    assert_eq!(within(r#"{"signals":{"grace":null},"ports":["http"]}"#), None);
    let starting = WorkOutline::read(br#"{"ports":["http"]}"#).ends_within(false);
    assert_eq!(starting, Some(GRACE), "nobody asks it for anything yet");
}

#[test]
fn work_is_to_be_ready_within_what_its_probe_says() {
    let read = |work: &str| WorkOutline::read(work.as_bytes()).readiness;
    let probe = r#"{"run":["a"],"readiness":{"start_timeout":"30s"}}"#;
    assert_eq!(read(probe).unwrap().start_timeout, Some(Span::from_secs(30)));
    assert_eq!(read(sample!("work-whole")).unwrap().start_timeout, Some(Span::from_secs(60)));
    let never = r#"{"run":["a"],"readiness":{"start_timeout":null}}"#;
    assert_eq!(read(never).unwrap().start_timeout, None);
    assert_eq!(read(r#"{"run":["a"],"monitor":{"start_timeout":"30s"}}"#), None);
    assert_eq!(read(r#"{"readiness":["30s"]}"#), None);
}

#[test]
fn work_is_monitored_if_it_says_so() {
    let read = |work: &str| WorkOutline::read(work.as_bytes());
    assert!(read(r#"{"run":["a"],"monitor":{"http":"/"}}"#).is_monitored);
    for work in [r#"{"run":["a"]}"#, r#"{"monitor":null}"#, r#"{"monitor":[]}"#, "{}", "?"] {
        assert!(!read(work).is_monitored, "{work}");
    }
    assert_eq!(read(r#"{"run":["a",7,"b"]}"#).run, ["a", "b"]);
}

#[test]
fn progress_that_cannot_be_read_is_taken_for_as_little_as_possible() {
    let state = |said: &str| Progress::state_in(said.as_bytes());
    assert_eq!(state(r#"{"state":"running"}"#), RunState::Running);
    for said in [r#"{"state":"hovering"}"#, r#"{"state":7}"#, r#"["running"]"#, "{}", "?", ""] {
        assert_eq!(state(said), RunState::Created, "{said}");
    }
    let is_ready = |said: &str| {
        let is_ready = Progress::is_ready_in(said.as_bytes());
        assert_eq!(Progress::read(said.as_bytes()).is_ready, is_ready, "{said}");
        is_ready
    };
    assert!(!is_ready(r#"{"state":"running","is_ready":false}"#));
    for said in [r#"{"is_ready":true}"#, r#"{"is_ready":null}"#, r#"{"is_ready":"no"}"#, "{}", "?"]
    {
        assert!(is_ready(said), "{said}");
    }
    let endpoint = |said: &str| Progress::read(said.as_bytes()).endpoint;
    let some = endpoint(r#"{"address":"::1","ports":{"a":1,"b":"x","c":99999}}"#).unwrap();
    assert_eq!(some.ports, [("a".to_owned(), 1)].into());
    assert_eq!(endpoint(r#"{"address":"::1"}"#), None);
    assert_eq!(endpoint(r#"{"ports":{}}"#), None);
    assert_eq!(endpoint(r#"{"address":"::1","ports":[1]}"#), None);
}

#[test]
fn facts_that_cannot_be_read_offer_nothing() {
    assert_eq!(Facts::read(b"?"), Facts::default());
    assert_eq!(Facts::read(b"[1]").amounts(), Amounts::default());
    let facts = br#"{"zone":"A","stack":7,"tags":["ssd","No Name",7],"cpu_millicores":-2,
        "memory_bytes":64,"disk_bytes":"9","containers":250,"countables":{"gpu":2,"Not":1,"b":-1},
        "required_tags":"gpu","isolation":"a newer one","of":"a newer version"}"#;
    let some = Facts::read(facts);
    assert_eq!((some.zone.as_ref(), some.stack.as_ref()), (None, None));
    assert_eq!((some.cpu_millicores, some.memory_bytes, some.disk_bytes), (0, 64, 0));
    assert_eq!((some.containers, some.isolation), (250, None));
    assert_eq!(some.tags, [name("ssd")].into());
    assert!(some.required_tags.is_empty());
    assert_eq!(some.countables, [(name("gpu"), 2)].into());
    assert_eq!(Facts::zone_in(facts), None);
}

#[test]
fn so_much_is_told_of_a_failed_check_at_most() {
    let mut facts = Facts::default();
    facts.set_failed_check(&"ä".repeat(200));
    assert_eq!(facts.failed_check.as_deref(), Some(&*"ä".repeat(128)));
    let said = format!(r#"{{"failed_check":"{}"}}"#, "x".repeat(1_000));
    let read = Facts::read(said.as_bytes()).failed_check.unwrap();
    assert_eq!(read.len(), FAILED_CHECK_BYTES_MAX);
}

#[test]
fn a_worker_with_a_runtime_for_images_has_a_tag_that_says_so() {
    let tags = |facts: &str| {
        let tags = Facts::read(facts.as_bytes()).optional_tags();
        tags.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(tags(r#"{"tags":["ssd"],"runtimes":["process"]}"#), ["ssd"]);
    let both = tags(r#"{"tags":["ssd"],"runtimes":["process","runc"]}"#);
    assert_eq!(both, ["ssd", crate::placement::IMAGES_TAG]);
    assert!(tags("{}").is_empty());
}

#[test]
fn a_worker_has_a_tag_for_each_of_its_features_and_people_give_none() {
    let tags = |facts: &str| {
        let tags = Facts::read(facts.as_bytes()).optional_tags();
        tags.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(tags(r#"{"features":["lanes","?","secrets"]}"#), ["sterna.lanes", "sterna.secrets"]);
    assert_eq!(tags(r#"{"tags":["gpu","sterna.lanes"]}"#), ["gpu"], "its worker does not say so");
    let plain = Facts { features: ["lanes".to_owned()].into(), ..Facts::default() };
    assert_eq!(Facts::read(&plain.to_bytes()), plain);
    let said = String::from_utf8(Facts::default().to_bytes()).unwrap();
    assert!(!said.contains("features"), "older leaders read what they know: {said}");
}
