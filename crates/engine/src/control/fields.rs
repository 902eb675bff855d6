//! Which fields of a spec differ, by the names that they have there.

use std::collections::BTreeSet;

use serde_json::{Map, Value};
use sterna_model::{FEATURE_TAGS, Name, Wants, spec::ServiceSpec};

/// What a worker reads of a spec, and the field that says it.
const OF_WORK: [(&str, &str); 15] = [
    ("run", "run"),
    ("setup", "setup"),
    ("env", "env"),
    ("ports", "ports"),
    ("image", "image"),
    ("directory", "directory"),
    ("user", "user"),
    ("group", "group"),
    ("monitor", "monitor"),
    ("readiness", "readiness"),
    ("rlimits", "limits"),
    ("limits", "limits"),
    ("signals", "signals"),
    ("logs", "logs"),
    ("when_worker_exits", "when_worker_exits"),
];

/// Those limits of a run that are its amounts.
const AMOUNTS: [&str; 3] = ["cpu", "memory", "disk"];

/// What is said of work that differs in what has no name here.
const SOMEHOW: &str = "its command or its settings";

/// The fields for which a service is another version.
pub(super) fn of_version(now: &ServiceSpec, next: &ServiceSpec) -> Vec<&'static str> {
    let mut fields = Vec::new();
    if now.work != next.work {
        fields.extend(of_work(&now.work, &next.work));
    }
    fields.extend(of_wants(&now.wants, &next.wants));
    if now.contract != next.contract {
        fields.push("on_silence");
    }
    let mut told = Vec::new();
    for field in fields {
        if !told.contains(&field) {
            told.push(field);
        }
    }
    told
}

fn of_work(now: &[u8], next: &[u8]) -> Vec<&'static str> {
    let (Some(mut now), Some(mut next)) = (object(now), object(next)) else { return vec![SOMEHOW] };
    let mut fields = Vec::new();
    let (before, after) = (amounts(&mut now), amounts(&mut next));
    let is_other = |name: &&str| before.get(*name) != after.get(*name);
    for (name, field) in OF_WORK {
        if now.remove(name) != next.remove(name) {
            fields.push(field);
        }
    }
    fields.extend(AMOUNTS.into_iter().filter(is_other));
    // What only newer or older servers know of has no name here.
    if now != next || fields.is_empty() {
        fields.push(SOMEHOW);
    }
    fields
}

/// Takes the amounts out of the limits of a run: they are fields of their own.
fn amounts(work: &mut Map<String, Value>) -> Map<String, Value> {
    let Some(Value::Object(limits)) = work.get_mut("limits") else { return Map::new() };
    let taken = AMOUNTS.into_iter().filter_map(|name| limits.remove_entry(name)).collect();
    if limits.is_empty() {
        work.remove("limits");
    }
    taken
}

fn of_wants(now: &Wants, next: &Wants) -> Vec<&'static str> {
    let (had, has) = (now.demand.amounts(), next.demand.amounts());
    let (was, is) = (&now.constraints, &next.constraints);
    let all = [
        (had.cpu != has.cpu, "cpu"),
        (had.memory != has.memory, "memory"),
        (had.disk != has.disk, "disk"),
        (had.countables != has.countables, "uses"),
        (was.stack != is.stack, "stack"),
        (said(&was.tags) != said(&is.tags), "tags"),
        (was.apart_from != is.apart_from, "apart_from"),
        (was.zones != is.zones, "zones"),
    ];
    all.into_iter().filter(|(is_other, _)| *is_other).map(|(_, name)| name).collect()
}

/// The tags that people have written: work asks by itself for the features that it needs.
fn said(tags: &BTreeSet<Name>) -> Vec<&Name> {
    tags.iter().filter(|tag| !tag.as_str().starts_with(FEATURE_TAGS)).collect()
}

/// The fields that no run notices.
pub(super) fn of_notes(now: &str, next: &str) -> Vec<&'static str> {
    const ALL: [&str; 3] = ["routes", "annotation", "metadata"];
    if now == next {
        return Vec::new();
    }
    let read =
        |text: &str| if text.is_empty() { Some(Map::new()) } else { object(text.as_bytes()) };
    let (Some(now), Some(next)) = (read(now), read(next)) else { return ALL.to_vec() };
    ALL.into_iter().filter(|name| now.get(*name) != next.get(*name)).collect()
}

fn object(text: &[u8]) -> Option<Map<String, Value>> {
    match serde_json::from_slice(text) {
        Ok(Value::Object(map)) => Some(map),
        Ok(_) | Err(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use sterna_model::payload::Work;

    use super::*;

    /// A field that is added to work has a name here, or an update says nothing of use.
    #[test]
    fn every_field_of_the_work_of_services_has_a_name() {
        let sample = include_str!("../../../model/tests/golden/payload/work-whole.json");
        let whole: Work = serde_json::from_str(sample).unwrap();
        let image = include_str!("../../../model/tests/golden/payload/work-rootfs.json");
        let Work { image, .. } = serde_json::from_str(image).unwrap();
        let Work { run, setup, env, directory, user, group, limits, rlimits, ports, .. } =
            whole.clone();
        let Work { signals, when_worker_exits, monitor, readiness, logs, .. } = whole;
        // Only a task has a timeout, only a batch a node. Needs follow from other fields, and the worker
        // itself says the rest.
        let work = Work {
            run,
            setup,
            image,
            env,
            directory,
            user,
            group,
            limits,
            rlimits,
            ports,
            signals,
            when_worker_exits,
            monitor,
            readiness,
            logs,
            about: Work::default().about,
            stop_after: None,
            timeout: None,
            needs: BTreeSet::new(),
            node: None,
        };
        let written = object(&work.to_bytes()).unwrap();
        let known: Vec<_> = OF_WORK.iter().map(|(name, _)| *name).collect();
        assert_eq!(written.len(), known.len());
        for name in written.keys() {
            assert!(known.contains(&name.as_str()), "{name}");
            let mut other = written.clone();
            other.insert(name.clone(), Value::from("another"));
            let other = Value::Object(other).to_string();
            let told = of_work(&work.to_bytes(), other.as_bytes());
            assert!(!told.is_empty() && !told.contains(&SOMEHOW), "{name}: {told:?}");
        }
    }
}
