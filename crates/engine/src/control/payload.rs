//! What workers say of themselves and of their runs, read from their words.
//!
//! Fields are added to these, never changed; what is not there is not said. What cannot be read at
//! all is taken for as little as possible: an end is an end, whatever it says.

use std::{borrow::Cow, collections::BTreeSet};

use serde_json::Value;
use sterna_model::{
    Amounts, Bytes, IMAGES_TAG, Millicores, Name, Span,
    planted::{Mistake, is_planted},
    record::{InstanceCopy, TaskEnd},
};
use sterna_protocol::roster::Zone;

use crate::{
    auction::{Offer, Standing},
    tables::Container,
};

/// What a worker is and has, as the auction wants to know it.
pub fn offer(name: &Name, facts: &[u8], standing: Standing) -> Offer {
    let facts: Value = serde_json::from_slice(facts).unwrap_or_default();
    let number = |field: &str| facts[field].as_u64().unwrap_or(0);
    let scale = if is_planted(Mistake::PlacesOverCapacity) { 2 } else { 1 };
    let word = |value: &Value| value.as_str().and_then(|text| Name::new(text).ok());
    let words = |field: &str| {
        let all = facts[field].as_array().into_iter().flatten();
        all.filter_map(word).collect::<BTreeSet<_>>()
    };
    // Who can make processes and nothing else runs no images.
    let mut runtimes = facts["runtimes"].as_array().into_iter().flatten();
    let has_images = runtimes.any(|one| one.as_str().is_some_and(|one| one != "process"));
    let images = Name::new(IMAGES_TAG).ok().filter(|_| has_images);
    let optional = words("tags").into_iter().chain(images).collect();
    let countables = facts["countables"].as_object().into_iter().flatten();
    let countables = countables
        .filter_map(|(name, count)| Some((Name::new(name).ok()?, count.as_u64()?)))
        .collect();
    Offer {
        name: name.clone(),
        zone: word(&facts["zone"]),
        stack: word(&facts["stack"]),
        required: words("required_tags"),
        optional,
        total: Amounts {
            cpu: Millicores::new(number("cpu_millicores")),
            memory: Bytes::new(number("memory_bytes") * scale),
            disk: Bytes::new(number("disk_bytes")),
            containers: number("containers"),
            countables,
        },
        standing,
    }
}

/// So much is shown of a check that failed, however much a worker says.
const CHECK_MAX: usize = 512;

/// Which of a worker's checks has failed last, and how, in its words; older workers do not say.
pub fn failed_check(facts: &[u8]) -> Option<Box<str>> {
    let facts: Value = serde_json::from_slice(facts).ok()?;
    let said = facts["failed_check"].as_str()?;
    Some(said.get(..said.floor_char_boundary(CHECK_MAX))?.into())
}

/// In which zone a worker is.
pub(super) fn zone(facts: &[u8]) -> Zone {
    let facts: Value = serde_json::from_slice(facts).unwrap_or_default();
    let name = facts["zone"].as_str().and_then(|text| Name::new(text).ok());
    name.map_or(Zone::Nameless, Zone::Named)
}

/// The one word that counts of how far a run is. Every instance says it again and again, so that the
/// others are passed over, and not kept.
#[derive(Default, serde::Deserialize)]
struct Progress<'a> {
    #[serde(borrow)]
    state: Option<Cow<'a, str>>,
}

/// How far a run is, by its worker's last word on it.
pub fn progress(said: &[u8]) -> Container {
    let said: Progress<'_> = serde_json::from_slice(said).unwrap_or_default();
    match said.state.as_deref() {
        Some("running") => Container::Running,
        Some("reserved") => Container::Reserved,
        _ => Container::Starting,
    }
}

/// The one word that counts of whether a run takes requests.
#[derive(Default, serde::Deserialize)]
struct Readiness {
    is_ready: Option<bool>,
}

/// Whether a copy that runs takes requests, by its worker's last word on it. Of what has no readiness probe
/// that is said as soon as it runs; what is not said is so.
pub(super) fn is_ready(copy: &InstanceCopy) -> bool {
    let said = copy.told.as_deref().map(serde_json::from_slice::<Readiness>);
    said.and_then(Result::ok).and_then(|said| said.is_ready).unwrap_or(true)
}

/// Within what work is to be ready once it runs; `None` for whenever, or if nobody asks whether it is.
pub(super) fn ready_within(work: &[u8]) -> Option<Span> {
    let work: Value = serde_json::from_slice(work).unwrap_or_default();
    work["readiness"]["start_timeout"].as_str()?.parse().ok()
}

/// Whether anybody asks if this is ready: what nobody asks is so as soon as it runs, until it ends.
pub(super) fn has_probe(work: &[u8]) -> bool {
    let work: Value = serde_json::from_slice(work).unwrap_or_default();
    work["readiness"].is_object()
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    /// Whether the worker ended it, for whatever reason.
    pub was_stopped: bool,
    /// Whether it did what it was to do.
    pub is_success: bool,
    /// All of it, in the worker's words.
    pub report: Box<str>,
}

/// What counts of how a run ended. What it used and what it left, which may be long, is passed over.
#[derive(Default, serde::Serialize, serde::Deserialize)]
struct Words {
    #[serde(default)]
    cause: Value,
    #[serde(default)]
    exit: Value,
}

impl Words {
    fn read(said: &[u8]) -> Option<Self> {
        // Fields in a row without their names say nothing.
        let is_object = said.trim_ascii_start().starts_with(b"{");
        is_object.then(|| serde_json::from_slice(said).ok())?
    }

    fn was_stopped(&self) -> bool {
        matches!(self.cause.as_str(), Some("request" | "deadline" | "worker_exit"))
    }
}

/// Whether its worker ended a run, for whatever reason.
pub(super) fn was_stopped(said: &[u8]) -> bool {
    Words::read(said).is_some_and(|words| words.was_stopped())
}

/// Reads an end.
pub fn ended(said: &[u8]) -> Ended {
    let words = Words::read(said).unwrap_or_default();
    let exited = words.cause.as_str() == Some("exited");
    let is_success = exited && words.exit["code"].as_i64() == Some(0);
    let was_stopped = words.was_stopped();
    let report = if said.len() > REPORT_BYTES_MAX {
        in_brief(words).into()
    } else {
        String::from_utf8_lossy(said).into()
    };
    Ended { was_stopped, is_success, report }
}

/// Of a report that is longer no more is kept than why: it must fit into a record. A result of 50 KiB does
/// in whatever letters it is written.
const REPORT_BYTES_MAX: usize = 400_000;
/// What a worker says of where a run is reached is kept if it is no longer.
pub(super) const TOLD_BYTES_MAX: usize = 16_384;

/// What a worker takes for granted about signals: between the request and KILL, and how long what has
/// ports still answers before.
pub(super) const GRACE: Span = Span::from_secs(10);
const LINGER: Span = Span::from_secs(1);

/// So many bytes of a text are kept of a crash at most.
const CRASH_TEXT_MAX: usize = 300;

/// How a run of a service crashed, in so much of its worker's words as says why: what was used of what,
/// and what it left, stays out of a record that there may be many of.
pub(super) fn crash(said: &[u8]) -> TaskEnd {
    let ran = |report: &str| TaskEnd::Ran { is_success: false, report: report.into() };
    let Some(Words { cause, exit }) = Words::read(said) else {
        return ran(brief(&String::from_utf8_lossy(said)));
    };
    ran(&in_brief(Words { cause, exit }))
}

fn in_brief(Words { cause, exit }: Words) -> String {
    let words = Words { cause: kept(cause), exit: kept(exit) };
    serde_json::to_string(&words).unwrap_or_default()
}

/// A part of a report: a word, or one by its name.
fn kept(part: Value) -> Value {
    let word = |word: Value| match word {
        Value::String(text) => brief(&text).into(),
        Value::Null | Value::Bool(_) | Value::Number(_) => word,
        Value::Array(_) | Value::Object(_) => Value::Null,
    };
    let Value::Object(words) = part else { return word(part) };
    let first = words.into_iter().take(1);
    Value::Object(first.map(|(name, it)| (brief(&name).to_owned(), word(it))).collect())
}

/// The beginning of a text.
fn brief(text: &str) -> &str {
    text.get(..text.floor_char_boundary(CRASH_TEXT_MAX)).unwrap_or(text)
}

/// For how long work runs on at most that is asked to end: what its signals say, and what the worker takes
/// for granted. `None` if it is waited for.
pub(super) fn ends_within(work: &[u8], is_running: bool) -> Option<Span> {
    let work: Value = serde_json::from_slice(work).unwrap_or_default();
    let said = |field: &str| work["signals"].get(field);
    let span = |value: &Value| value.as_str().and_then(|text| text.parse::<Span>().ok());
    let grace = said("grace").map_or(Some(GRACE), span)?;
    let has_ports = work["ports"].as_array().is_some_and(|ports| !ports.is_empty());
    let usual = if has_ports { LINGER } else { Span::ZERO };
    let linger = said("linger").and_then(span).unwrap_or(usual);
    Some(grace.plus(if is_running { linger } else { Span::ZERO }))
}

/// Whether work counts as running only once a monitor has found it up.
pub(super) fn is_monitored(work: &[u8]) -> bool {
    let work: Value = serde_json::from_slice(work).unwrap_or_default();
    work["monitor"].is_object()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_is_a_stop_a_success_or_neither() {
        let read = |said: &str| {
            let Ended { was_stopped, is_success, .. } = ended(said.as_bytes());
            (was_stopped, is_success)
        };
        assert_eq!(read(r#"{"cause":"exited","exit":{"code":0}}"#), (false, true));
        assert_eq!(read(r#"{"cause":"exited","exit":{"code":3}}"#), (false, false));
        assert_eq!(read(r#"{"cause":"exited","exit":{"signal":9}}"#), (false, false));
        assert_eq!(read(r#"{"cause":"request","exit":{"code":0}}"#), (true, false));
        assert_eq!(read(r#"{"cause":"deadline"}"#), (true, false));
        assert_eq!(read(r#"{"cause":{"failed_to_start":"no such file"}}"#), (false, false));
        assert_eq!(read("not json"), (false, false));
        assert_eq!(read(r#"["request",{"code":0}]"#), (false, false));
    }

    #[test]
    fn of_a_report_that_fits_into_no_record_it_is_kept_why() {
        let report = |result: usize| {
            let result = "x".repeat(result);
            let said = format!(r#"{{"cause":"exited","exit":{{"code":0}},"result":"{result}"}}"#);
            let Ended { is_success, report, .. } = ended(said.as_bytes());
            assert!(is_success);
            (report.len() == said.len(), report)
        };
        assert!(report(300_000).0, "word for word");
        assert_eq!(&*report(REPORT_BYTES_MAX).1, r#"{"cause":"exited","exit":{"code":0}}"#);
    }

    #[test]
    fn a_crash_keeps_why_and_little_else() {
        let report = |said: &str| crash(said.as_bytes()).to_string();
        let said = r#"{"cause":"exited","exit":{"code":3},"usage":{"cpu_ms":7},"result":"long"}"#;
        assert_eq!(report(said), r#"{"cause":"exited","exit":{"code":3}}"#);
        let said = r#"{"cause":{"failed_to_start":"no such file"}}"#;
        assert_eq!(report(said), r#"{"cause":{"failed_to_start":"no such file"},"exit":null}"#);
        let long = "ä".repeat(9_999);
        let kept = report(&format!(r#"{{"cause":{{"failed_to_start":"{long}"}}}}"#));
        assert!(serde_json::from_str::<Value>(&kept).is_ok() && kept.len() < 400, "{kept}");
        assert!(report(&long).len() <= CRASH_TEXT_MAX);
        assert_eq!(report(r#"{"cause":[1],"exit":{"a":{"b":1},"c":2}}"#).len(), 32);
        assert_eq!(report("not json"), "not json");
    }

    #[test]
    fn work_ends_within_its_grace_and_what_it_answers_before() {
        let within = |work: &str| ends_within(work.as_bytes(), true).map(|span| span.to_string());
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(within("{}"), some("10s"));
        assert_eq!(within(r#"{"ports":["http"]}"#), some("11s"));
        assert_eq!(within(r#"{"signals":{"grace":"30s","linger":"2s"}}"#), some("32s"));
        assert_eq!(within(r#"{"signals":{"grace":null},"ports":["http"]}"#), None);
        let starting = ends_within(br#"{"ports":["http"]}"#, false);
        assert_eq!(starting, Some(GRACE), "nobody asks it for anything yet");
    }

    #[test]
    fn work_is_to_be_ready_within_what_its_probe_says() {
        let within = |work: &str| ready_within(work.as_bytes()).map(|span| span.to_string());
        let probe = r#"{"run":["a"],"readiness":{"start_timeout":"30s"}}"#;
        assert_eq!(within(probe), Some("30s".to_owned()));
        assert_eq!(within(r#"{"run":["a"],"readiness":{"start_timeout":null}}"#), None);
        assert_eq!(within(r#"{"run":["a"],"monitor":{"start_timeout":"30s"}}"#), None);
    }

    #[test]
    fn work_is_monitored_if_it_says_so() {
        assert!(is_monitored(br#"{"run":["a"],"monitor":{"http":"/"}}"#));
        assert!(!is_monitored(br#"{"run":["a"]}"#) && !is_monitored(b"{}") && !is_monitored(b"?"));
    }

    #[test]
    fn a_worker_with_a_runtime_for_images_has_a_tag_that_says_so() {
        let tags = |facts: &str| {
            let offer = offer(&Name::new("w1").unwrap(), facts.as_bytes(), Standing::Taking);
            offer.optional.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert_eq!(tags(r#"{"tags":["ssd"],"runtimes":["process"]}"#), ["ssd"]);
        let both = [IMAGES_TAG, "ssd"].map(str::to_owned);
        let mut has = tags(r#"{"tags":["ssd"],"runtimes":["process","runc"]}"#);
        has.sort_unstable_by_key(|tag| !tag.starts_with("sterna"));
        assert_eq!(has, both);
        assert!(tags("{}").is_empty());
    }

    #[test]
    fn facts_that_cannot_be_read_offer_nothing() {
        let name = Name::new("w1").unwrap();
        let none = offer(&name, b"?", Standing::Taking);
        assert_eq!(none.total, Amounts::default());
        let facts = br#"{"zone":"a","tags":["ssd"],"cpu_millicores":2000,"memory_bytes":64,
            "disk_bytes":9,"containers":250,"countables":{"gpu":2}}"#;
        let some = offer(&name, facts, Standing::Withheld);
        assert_eq!(some.zone, Some(Name::new("a").unwrap()));
        assert_eq!((some.total.cpu.get(), some.total.containers), (2000, 250));
        assert_eq!(some.total.countables.get(&Name::new("gpu").unwrap()), 2);
        assert!(some.optional.contains(&Name::new("ssd").unwrap()));
    }
}
