//! A service as a file wants it.

use std::sync::Arc;

use serde_json::{Map, Value as Json, json};
use sterna_model::{
    Name,
    spec::{DEFAULT_DOMAIN, ServiceSpec},
};

use super::{
    command::Command, fields::Fields, monitor, placement, policy, problem::Found, schema::Kind,
    silence,
};

/// Each is a record of its own.
const INSTANCES_MAX: u64 = 100_000;
/// The store takes a record of a megabyte; this and the work leave it room.
const NOTES_BYTES_MAX: usize = 64 * 1024;

pub(super) fn read(fields: &Fields<'_>, found: &mut Found<'_>) -> Option<ServiceSpec> {
    let instances =
        fields.get("instances").and_then(|said| said.whole(&(0..=INSTANCES_MAX), found));
    let asked = placement::read(fields, Kind::Service, found);
    let mut command = Command::read(fields, &asked, found);
    let mut monitor =
        |name: &str| fields.get(name).and_then(|said| monitor::read(&said, &command.known, found));
    (command.work.monitor, command.work.readiness) = (monitor("monitor"), monitor("readiness"));
    let domain = fields.get("domain").and_then(|said| said.word(found));
    Some(ServiceSpec {
        instances: instances.map_or(1, |count| u32::try_from(count).unwrap_or(u32::MAX)),
        contract: silence::read(fields, Kind::Service, found),
        crash: policy::crash(fields, found),
        update: policy::update(fields, found),
        notes: notes(fields, found),
        work: command.into_work(fields, found),
        domain: domain.or_else(|| Name::new(DEFAULT_DOMAIN).ok())?,
        wants: Arc::new(asked.wants),
    })
}

/// Routes, annotation and metadata, as JSON; empty if nothing is said.
fn notes(fields: &Fields<'_>, found: &mut Found<'_>) -> Arc<str> {
    let mut notes = Map::new();
    if let Some(said) = fields.get("routes") {
        match said.node.to_json() {
            Ok(routes) => drop(notes.insert("routes".to_owned(), routes)),
            Err(part) => {
                let reason = format!("{} cannot be kept in routes", part.value.kind());
                found.add(&part.spot, &said.place, reason, "write it as a text, in quotes");
            }
        }
    }
    if let Some(annotation) = fields.get("annotation").and_then(|said| said.text(found)) {
        notes.insert("annotation".to_owned(), json!(annotation));
    }
    if let Some(said) = fields.get("metadata") {
        let pairs = said.pairs(found);
        let texts = pairs
            .iter()
            .filter_map(|(entry, said)| Some((entry.key.clone(), Json::from(said.text(found)?))));
        notes.insert("metadata".to_owned(), Json::Object(texts.collect()));
    }
    if notes.is_empty() {
        return "".into();
    }
    let text = Json::Object(notes).to_string();
    if text.len() > NOTES_BYTES_MAX {
        let reason = format!("routes, annotation and metadata take {} bytes", text.len());
        let remedy = format!("keep them below {NOTES_BYTES_MAX}");
        found.add(&fields.spot, &fields.place, reason, remedy);
    }
    text.into()
}
