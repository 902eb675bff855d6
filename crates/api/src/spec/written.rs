//! Specs as they were understood, in the language of specs again: what is read there and applied changes
//! nothing. What is as it is by default is left out.

use serde_json::{Map, Value as Json, json};
use sterna_executor::monitor::Limits;
use sterna_model::{
    Contract, IMAGES_TAG, Span, WallTime, Wants, Zones,
    record::CrashPolicy,
    spec::{DEFAULT_DOMAIN, Definition, ServiceSpec, TaskSpec, UpdatePolicy, WhenFull},
};

use super::{schema::Kind, silence};

/// What stands in the work as it stands in a spec.
const SAME: [&str; 11] = [
    "run",
    "setup",
    "env",
    "ports",
    "directory",
    "user",
    "group",
    "image",
    "logs",
    "when_worker_exits",
    "timeout",
];

/// A service, as under `[service.NAME]`.
pub fn of_service(spec: &ServiceSpec) -> Json {
    let mut written = common(&spec.wants, spec.contract, &spec.work, Kind::Service);
    written.insert("instances".to_owned(), json!(spec.instances));
    match spec.wants.constraints.zones {
        Zones::Spread => {}
        zones @ Zones::Pinned => drop(written.insert("zones".to_owned(), json!(zones.as_str()))),
    }
    for (name, said) in [("crash", crash(&spec.crash)), ("update", update(&spec.update))] {
        if !said.is_empty() {
            written.insert(name.to_owned(), Json::Object(said));
        }
    }
    if spec.domain.as_str() != DEFAULT_DOMAIN {
        written.insert("domain".to_owned(), json!(spec.domain.as_str()));
    }
    let notes = serde_json::from_str(&spec.notes).unwrap_or_default();
    if let Json::Object(notes) = notes {
        written.extend(notes);
    }
    Json::Object(written)
}

/// A task that was made then, as under `[task.NAME]`. When it must have begun is kept as a moment, so that
/// the time until then is that to the second.
pub fn of_task(spec: &TaskSpec, made: WallTime) -> Json {
    let mut written = common(&spec.wants, spec.contract, &spec.work, Kind::Task);
    if spec.keeps_name {
        written.insert("start".to_owned(), json!(true));
    }
    match spec.when_full {
        WhenFull::Wait => {}
        WhenFull::Fail => drop(written.insert("when_full".to_owned(), json!("fail"))),
    }
    if let Some(latest) = spec.latest_start {
        written.insert("latest_start_after".to_owned(), json!(to_the_second(latest.since(made))));
    }
    if let Some(callback) = &spec.callback {
        written.insert("callback".to_owned(), json!(callback));
    }
    Json::Object(written)
}

/// A definition, as under `[task.NAME]`.
pub fn of_definition(definition: &Definition) -> Json {
    let mut written = of_task(&definition.spec, WallTime::EPOCH);
    if let (Some(written), Some(after)) = (written.as_object_mut(), definition.latest_start_after) {
        written.insert("latest_start_after".to_owned(), json!(after));
    }
    written
}

fn to_the_second(span: Span) -> Span {
    let seconds = span.as_millis().saturating_add(500) / 1_000;
    if seconds == 0 { span.max(Span::from_millis(1)) } else { Span::from_secs(seconds) }
}

fn common(wants: &Wants, contract: Contract, work: &[u8], kind: Kind) -> Map<String, Json> {
    let mut written = Map::new();
    let mut set = |name: &str, value: Json| drop(written.insert(name.to_owned(), value));
    let work: Json = serde_json::from_slice(work).unwrap_or_default();
    for name in SAME {
        if let Some(said) = work.get(name) {
            set(name, said.clone());
        }
    }
    for name in ["cpu", "memory", "disk"] {
        if let Some(said) = work["limits"].get(name) {
            set(name, said.clone());
        }
    }
    let rest = [("pids", work["limits"].get("pids")), ("rlimits", work.get("rlimits"))];
    let limits = rest.into_iter().filter_map(|(name, said)| Some((name.to_owned(), said?.clone())));
    let limits: Map<String, Json> = limits.collect();
    if !limits.is_empty() {
        set("limits", Json::Object(limits));
    }
    if let Some(Json::Object(signals)) = work.get("signals") {
        let signals = signals.iter().map(|(name, said)| (name.clone(), or_never(said)));
        set("signals", Json::Object(signals.collect()));
    }
    for name in ["monitor", "readiness"] {
        if let Some(said) = work.get(name) {
            set(name, monitor(said));
        }
    }
    let constraints = &wants.constraints;
    let uses: Map<String, Json> = wants
        .demand
        .amounts()
        .countables
        .iter()
        .map(|(name, count)| (name.to_string(), json!(count)))
        .collect();
    if !uses.is_empty() {
        set("uses", Json::Object(uses));
    }
    if let Some(stack) = &constraints.stack {
        set("stack", json!(stack.as_str()));
    }
    // Who has an image asks for that by itself.
    let tags = constraints.tags.iter().map(|tag| tag.as_str()).filter(|tag| *tag != IMAGES_TAG);
    let tags: Vec<&str> = tags.collect();
    if !tags.is_empty() {
        set("tags", json!(tags));
    }
    let apart: Vec<&str> = constraints.apart_from.iter().map(|name| name.as_str()).collect();
    if !apart.is_empty() {
        set("apart_from", json!(apart));
    }
    if contract != silence::usual(kind) {
        let said = match contract {
            Contract::Replace { after } => json!({ "replace_after": after }),
            Contract::Stop { after } => json!({ "stop_after": after }),
            Contract::Keep => json!("keep"),
        };
        set("on_silence", said);
    }
    written
}

/// A time, or that it never comes.
fn or_never(said: &Json) -> Json {
    if said.is_null() { json!("never") } else { said.clone() }
}

fn monitor(work: &Json) -> Json {
    let mut written = Map::new();
    let mut set = |name: &str, value: Json| drop(written.insert(name.to_owned(), value));
    let probe = &work["probe"];
    if let Some(port) = probe.get("tcp") {
        set("tcp", port.clone());
    } else if let Some(command) = probe.get("command") {
        set("run", command.clone());
    } else {
        set("port", probe["http"][0].clone());
        set("http", probe["http"][1].clone());
    }
    let usual = Limits::default();
    let times = [
        ("interval", "healthy_every", json!(usual.healthy_every)),
        ("timeout", "timeout", json!(usual.timeout)),
        ("start_timeout", "start_timeout", json!(usual.start_timeout)),
        ("failures", "failures_max", json!(usual.failures_max)),
    ];
    for (name, of_work, usual) in times {
        if work[of_work] != usual {
            set(name, or_never(&work[of_work]));
        }
    }
    Json::Object(written)
}

/// What of these differs from what is usual.
fn differing<const N: usize>(said: [(&str, Json, Json); N]) -> Map<String, Json> {
    let said = said.into_iter().filter(|(_, is, usual)| is != usual);
    said.map(|(name, is, _)| (name.to_owned(), is)).collect()
}

fn crash(is: &CrashPolicy) -> Map<String, Json> {
    let usual = CrashPolicy::default();
    let count = |count: u32| if count == u32::MAX { json!("never") } else { json!(count) };
    differing([
        ("wait_from", json!(is.wait_from), json!(usual.wait_from)),
        ("first_wait", json!(is.first_wait), json!(usual.first_wait)),
        ("longest_wait", json!(is.longest_wait), json!(usual.longest_wait)),
        ("give_up_at", count(is.give_up_at), count(usual.give_up_at)),
        ("forgiven_after", json!(is.forgiven_after), json!(usual.forgiven_after)),
    ])
}

fn update(is: &UpdatePolicy) -> Map<String, Json> {
    let usual = UpdatePolicy::default();
    let count = |count: Option<u32>| or_never(&json!(count));
    differing([
        ("max_unavailable", json!(is.max_unavailable), json!(usual.max_unavailable)),
        ("healthy_for", json!(is.healthy_for), json!(usual.healthy_for)),
        ("revert_after", count(is.revert_after), count(usual.revert_after)),
    ])
}
